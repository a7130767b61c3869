// The rules of NumPy's scalar loops, written as plainly as they go.
#include "reference.h"

#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace framejit::codegen::testing {

namespace {

constexpr unsigned kDivideFlag = 4, kOverflowFlag = 8;

template <class T>
T decode(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
uint64_t encode(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// Calls f with a value of the C++ type of `t`; bool is uint8_t.
template <class F>
auto dispatch(DType t, F&& f) {
  switch (t) {
    case DType::I8: return f(int8_t{});
    case DType::I16: return f(int16_t{});
    case DType::I32: return f(int32_t{});
    case DType::I64: return f(int64_t{});
    case DType::U8:
    case DType::Bool: return f(uint8_t{});
    case DType::U16: return f(uint16_t{});
    case DType::U32: return f(uint32_t{});
    case DType::U64: return f(uint64_t{});
    case DType::F32: return f(float{});
    default: return f(double{});
  }
}

template <class T>
[[gnu::noinline]] T float_op(Op op, T x, T y, T z) {
  volatile T x_read = x, y_read = y, z_read = z;  // nothing is folded or moved out
  const T a = x_read, b = y_read, c = z_read;
  switch (op) {
    case Op::Add: return a + b;
    case Op::Subtract: return a - b;
    case Op::Multiply: return a * b;
    case Op::Divide: return a / b;
    case Op::Square: return a * a;
    case Op::MultiplyAdd: return std::fma(a, b, c);
    case Op::Reciprocal: return T{1} / a;
    case Op::Sqrt: return std::sqrt(a);
    default: break;
  }
  if (op == Op::FloorDivide && b == 0) return a / b;
  T mod = std::fmod(a, b);
  if (op == Op::Fmod) return mod;
  if (op == Op::Remainder && b == 0) return mod;
  T div = (a - mod) / b;
  if (mod != 0) {
    if (std::isless(b, T{0}) != std::isless(mod, T{0}) && !std::isnan(mod)) {
      mod += b;
      div -= 1;
    }
  } else {
    mod = std::copysign(T{0}, b);
  }
  if (op == Op::Remainder) return mod;
  if (div == 0) return std::copysign(T{0}, a / b);
  T floor = std::floor(div);
  if (std::isgreater(div - floor, T{0.5})) floor += T{1};
  return floor;
}

template <class T>
[[gnu::noinline]] T remainder_only(T x, T y) {
  volatile T x_read = x, y_read = y;
  const T a = x_read, b = y_read;
  T mod = std::fmod(a, b);
  if (b == 0) return mod;
  if (mod == 0) return std::copysign(T{0}, b);
  if (!std::isnan(mod) && std::signbit(b) != std::signbit(mod)) mod += b;
  return mod;
}

template <class T>
T quiet_float_op(Op op, T a, T b, T c, bool invariant_bounds) {
  const auto minimum = [](T x, T y) { return std::isnan(x) || std::isless(x, y) ? x : y; };
  const auto maximum = [](T x, T y) { return std::isnan(x) || std::isgreater(x, y) ? x : y; };
  switch (op) {
    case Op::Negative: return -a;
    case Op::Absolute: return std::fabs(a);
    case Op::Copysign: return std::copysign(a, b);
    case Op::Sign: return std::isnan(a) ? a : T(std::isgreater(a, T{0}) - std::isless(a, T{0}));
    case Op::Floor: return std::floor(a);
    case Op::Ceil: return std::ceil(a);
    case Op::Rint: return std::nearbyint(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Minimum: return minimum(a, b);
    case Op::Maximum: return maximum(a, b);
    case Op::Fmin: return std::isnan(b) || std::isless(a, b) ? a : b;
    case Op::Fmax: return std::isnan(b) || std::isgreater(a, b) ? a : b;
    case Op::Clip: {
      if (!invariant_bounds) return minimum(maximum(a, b), c);
      if (std::isnan(b)) return b;
      if (std::isnan(c)) return c;
      if (std::isless(a, b)) a = b;
      if (std::isgreater(a, c)) a = c;
      return a;
    }
    default: return T{};
  }
}

template <class T>
T int_op(Op op, T a, T b, T c, unsigned* raised) {
  using U = std::make_unsigned_t<T>;
  constexpr int width = sizeof(T) * 8;
  constexpr bool is_signed = std::is_signed_v<T>;
  const uint64_t wa = static_cast<uint64_t>(a), wb = static_cast<uint64_t>(b);
  switch (op) {
    case Op::Add: return static_cast<T>(wa + wb);
    case Op::Subtract: return static_cast<T>(wa - wb);
    case Op::Multiply: return static_cast<T>(wa * wb);
    case Op::Square: return static_cast<T>(wa * wa);
    case Op::Negative: return static_cast<T>(-wa);
    case Op::Absolute: return a < 0 ? static_cast<T>(-wa) : a;
    case Op::Sign: return static_cast<T>((a > 0) - (a < 0));
    case Op::Floor:
    case Op::Ceil:
    case Op::Rint:
    case Op::Trunc: return a;
    case Op::Minimum:
    case Op::Fmin: return a < b ? a : b;
    case Op::Maximum:
    case Op::Fmax: return a > b ? a : b;
    case Op::Clip: {
      const T raised_to = a > b ? a : b;
      return raised_to < c ? raised_to : c;
    }
    case Op::BitwiseAnd: return a & b;
    case Op::BitwiseOr: return a | b;
    case Op::BitwiseXor: return a ^ b;
    case Op::Invert: return static_cast<T>(~a);
    case Op::LeftShift: return static_cast<U>(b) < static_cast<U>(width) ? static_cast<T>(wa << b) : T{0};
    case Op::RightShift:
      return static_cast<U>(b) < static_cast<U>(width) ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0);
    default: break;
  }
  if (b == 0) {
    *raised |= kDivideFlag;
    return 0;
  }
  if (is_signed && b == static_cast<T>(-1)) {
    if (op != Op::FloorDivide) return 0;
    if (a == std::numeric_limits<T>::min()) *raised |= kOverflowFlag;
    return static_cast<T>(-wa);
  }
  const T quotient = static_cast<T>(a / b), rest = static_cast<T>(a % b);
  const bool down = rest != 0 && ((rest < 0) != (b < 0));
  if (op == Op::FloorDivide) return static_cast<T>(quotient - down);
  if (op == Op::Remainder) return static_cast<T>(down ? rest + b : rest);
  return rest;
}

template <class T>
bool predicate_op(Op op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case Op::IsNan: return std::isnan(a);
      case Op::IsInf: return std::isinf(a);
      case Op::IsFinite: return std::isfinite(a);
      case Op::SignBit: return std::signbit(a);
      case Op::Less: return std::isless(a, b);
      case Op::LessEqual: return std::islessequal(a, b);
      case Op::Greater: return std::isgreater(a, b);
      case Op::GreaterEqual: return std::isgreaterequal(a, b);
      default: break;
    }
  }
  switch (op) {
    case Op::IsNan:
    case Op::IsInf: return false;
    case Op::IsFinite: return true;
    case Op::Equal: return a == b;
    case Op::NotEqual: return a != b;
    case Op::Less: return a < b;
    case Op::LessEqual: return a <= b;
    case Op::Greater: return a > b;
    case Op::GreaterEqual: return a >= b;
    case Op::LogicalAnd: return a != 0 && b != 0;
    case Op::LogicalOr: return a != 0 || b != 0;
    case Op::LogicalXor: return (a != 0) != (b != 0);
    default: return a == 0;  // LogicalNot
  }
}

uint64_t bool_op(Op op, uint64_t a, uint64_t b, uint64_t c) {
  switch (op) {
    case Op::Add:
    case Op::BitwiseOr:
    case Op::Maximum:
    case Op::Fmax: return a | b;
    case Op::Multiply:
    case Op::BitwiseAnd:
    case Op::Minimum:
    case Op::Fmin: return a & b;
    case Op::BitwiseXor: return a ^ b;
    case Op::Invert: return a ^ 1;
    case Op::Clip: return (a | b) & c;
    default: return a;  // Absolute
  }
}

bool sets_hardware_flags(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Subtract:
    case Op::Multiply:
    case Op::Divide:
    case Op::Square:
    case Op::MultiplyAdd:
    case Op::Reciprocal:
    case Op::Sqrt:
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod: return true;
    default: return false;
  }
}

/// Runs f with cleared flags and gives the flags that it raised.
template <class F>
unsigned flags_of(F&& f) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~63u);
  f();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  return after & 29;
}

template <class T>
[[gnu::noinline]] uint64_t float_to_int(DType to, T value) {
  volatile T value_read = value;
  const T x = value_read;
  const auto to32 = [](T y) {
    if constexpr (sizeof(T) == 4) return _mm_cvttss_si32(_mm_set_ss(y));
    else return _mm_cvttsd_si32(_mm_set_sd(y));
  };
  const auto to64 = [](T y) -> int64_t {
    if constexpr (sizeof(T) == 4) return _mm_cvttss_si64(_mm_set_ss(y));
    else return _mm_cvttsd_si64(_mm_set_sd(y));
  };
  const T limit = static_cast<T>(9223372036854775808.0);
  if (to == DType::I64) return encode(to64(x));
  if (to == DType::U64)
    return std::isgreaterequal(x, limit) ? static_cast<uint64_t>(to64(x - limit)) ^ (uint64_t{1} << 63)
                                         : encode(to64(x));
  return dispatch(to, [&](auto zero) { return encode(static_cast<decltype(zero)>(to32(x))); });
}

template <class From, class To>
[[gnu::noinline]] To plain_cast(From value) {
  volatile From value_read = value;
  return static_cast<To>(value_read);
}

}  // namespace

uint64_t reference_apply(Op op, DType operand, const uint64_t args[3], bool invariant_bounds, unsigned* raised) {
  if (op == Op::Where) return args[0] ? args[1] : args[2];
  if (graph::def(op).result == graph::ResultRule::Bool)
    return dispatch(operand, [&](auto zero) -> uint64_t {
      using T = decltype(zero);
      return predicate_op(op, decode<T>(args[0]), decode<T>(args[1]));
    });
  if (operand == DType::Bool) return bool_op(op, args[0], args[1], args[2]);
  return dispatch(operand, [&](auto zero) -> uint64_t {
    using T = decltype(zero);
    const T a = decode<T>(args[0]), b = decode<T>(args[1]), c = decode<T>(args[2]);
    if constexpr (std::is_floating_point_v<T>) {
      if (!sets_hardware_flags(op)) return encode(quiet_float_op(op, a, b, c, invariant_bounds));
      T result;
      *raised |= flags_of([&] { result = op == Op::Remainder ? remainder_only(a, b) : float_op(op, a, b, c); });
      return encode(result);
    } else {
      return encode(int_op(op, a, b, c, raised));
    }
  });
}

uint64_t reference_cast(DType from, DType to, uint64_t value, unsigned* raised) {
  return dispatch(from, [&](auto source) -> uint64_t {
    using From = decltype(source);
    const From x = decode<From>(value);
    if (to == DType::Bool) return x != 0;
    if constexpr (std::is_floating_point_v<From>) {
      if (!graph::is_float(to)) {
        uint64_t result = 0;
        *raised |= flags_of([&] { result = float_to_int(to, x); });
        return result;
      }
    }
    return dispatch(to, [&](auto target) -> uint64_t {
      using To = decltype(target);
      To result{};
      const unsigned flags = flags_of([&] { result = plain_cast<From, To>(x); });
      if (std::is_floating_point_v<From>) *raised |= flags;
      return encode(result);
    });
  });
}

uint64_t read_element(DType t, const void* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, graph::size_of(t));
  return bits;
}

void write_element(DType t, void* at, uint64_t bits) { std::memcpy(at, &bits, graph::size_of(t)); }

bool same_element(DType t, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (t == DType::F32) return std::isnan(decode<float>(a)) && std::isnan(decode<float>(b));
  if (t == DType::F64) return std::isnan(decode<double>(a)) && std::isnan(decode<double>(b));
  return false;
}

double as_double(DType t, uint64_t bits) {
  return dispatch(t, [&](auto zero) { return static_cast<double>(decode<decltype(zero)>(bits)); });
}

uint64_t from_double(DType t, double value) {
  return dispatch(t, [&](auto zero) { return encode(static_cast<decltype(zero)>(value)); });
}

std::vector<uint64_t> special_values(DType t) {
  std::vector<uint64_t> out;
  if (t == DType::Bool) return {0, 1};
  dispatch(t, [&](auto zero) {
    using T = decltype(zero);
    using L = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>) {
      for (double x : {0.0,
                       1.0,
                       0.5,
                       1.5,
                       2.0,
                       2.5,
                       3.0,
                       7.0,
                       0.1,
                       127.5,
                       128.0,
                       300.0,
                       32768.0,
                       65536.0,
                       8388607.5,
                       1e10,
                       16777217.0,
                       2147483647.0,
                       2147483648.0,
                       4294967295.0,
                       9.2233720368547748e18,
                       9.2233720368547758e18,
                       1.5e19,
                       1.8446744073709552e19,
                       1e30,
                       1e-30,
                       1e-5})
        for (double s : {1.0, -1.0}) out.push_back(encode(static_cast<T>(s * x)));
      for (T x : {L::infinity(), L::max(), L::min(), L::denorm_min(), static_cast<T>(L::denorm_min() * 5), L::epsilon(),
                  L::quiet_NaN(), static_cast<T>(L::max() / 3), static_cast<T>(L::min() * 3)}) {
        out.push_back(encode(x));
        out.push_back(encode(static_cast<T>(-x)));
      }
    } else {
      for (int64_t x : {0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 8, 15, 16, 31, 32, 63, 64, 100, -100, 127})
        out.push_back(encode(static_cast<T>(x)));
      for (int shift = 1; shift < static_cast<int>(sizeof(T)) * 8; shift += 5)
        out.push_back(encode(static_cast<T>((uint64_t{1} << shift) + 1)));
      for (T x : {L::max(), L::min(), static_cast<T>(L::max() - 1), static_cast<T>(L::min() + 1),
                  static_cast<T>(L::max() / 2), static_cast<T>(L::max() / 2 + 2)})
        out.push_back(encode(x));
      if (sizeof(T) == 8)  // where a second rounding would show
        for (uint64_t x : {(uint64_t{1} << 53) + 1, (uint64_t{1} << 60) + (uint64_t{1} << 36) + 1, 0x8000008000000001u,
                           0x7fffffbfffffffffu, 0xffffff8000000000u, 0xffffff7fffffffffu})
          out.push_back(x);
    }
    return 0;
  });
  return out;
}

}  // namespace framejit::codegen::testing
