#include "reference.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "graph/scalar_ops.h"

namespace framejit::codegen::testing {

namespace {

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
  const graph::Scalar operands[3] = {{args[0]}, {args[1]}, {args[2]}};
  graph::Scalar out;
  std::feclearexcept(FE_ALL_EXCEPT);
  const bool known = graph::apply_scalar(op, operand, *graph::result_dtype(op, operand),
                                         {operands, graph::def(op).operands}, out, {invariant_bounds});
  *raised |= static_cast<unsigned>(std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW));
  EXPECT_TRUE(known) << graph::name_of(op) << " of " << graph::name_of(operand) << " has no reference";
  return out.lo;
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
