// One case for each operator and kind of dtype; the formulas are NumPy's (numpy 2.x loops_*.c.src, npymath).
#include "graph/scalar_ops.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "graph/scalar_float.h"

namespace framejit::graph {

namespace {

template <class T>
T clip(T x, T low, T high, bool uniform_bounds) {
  if (!uniform_bounds) return minimum(maximum(x, low), high);
  if (is_nan(low)) return low;
  if (is_nan(high)) return high;
  if (less(x, low)) x = low;
  return less(high, x) ? high : x;
}

/// What every arithmetic type has: comparison, logic, selection. `handled` says whether the operator is one of these.
template <class T>
Scalar compare_or_select(Op op, const std::array<T, 3>& x, const ScalarOptions& options, bool& handled) {
  const auto [a, b, c] = x;
  const T zero{};
  switch (op) {
    case Op::Equal: return scalar_of(a == b);
    case Op::NotEqual: return scalar_of(!(a == b));
    case Op::Less: return scalar_of(less(a, b));
    case Op::LessEqual: return scalar_of(less(a, b) || a == b);
    case Op::Greater: return scalar_of(less(b, a));
    case Op::GreaterEqual: return scalar_of(less(b, a) || a == b);
    case Op::LogicalAnd: return scalar_of(a != zero && b != zero);
    case Op::LogicalOr: return scalar_of(a != zero || b != zero);
    case Op::LogicalXor: return scalar_of((a != zero) != (b != zero));
    case Op::LogicalNot: return scalar_of(a == zero);
    case Op::Minimum: return scalar_of(minimum(a, b));
    case Op::Maximum: return scalar_of(maximum(a, b));
    case Op::Fmin: return scalar_of(is_nan(b) ? a : x86_min(a, b));
    case Op::Fmax: return scalar_of(is_nan(b) ? a : x86_max(a, b));
    case Op::Clip: return scalar_of(clip(a, b, c, options.uniform_bounds));
    default: handled = false; return {};
  }
}

Scalar apply_bool(Op op, bool a, bool b, bool& handled) {
  switch (op) {
    case Op::Add:
    case Op::BitwiseOr: return scalar_of(a || b);
    case Op::Multiply:
    case Op::BitwiseAnd: return scalar_of(a && b);
    case Op::BitwiseXor: return scalar_of(a != b);
    case Op::Invert: return scalar_of(!a);
    case Op::Absolute:
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc: return scalar_of(a);
    case Op::IsNan:
    case Op::IsInf: return scalar_of(false);
    case Op::IsFinite: return scalar_of(true);
    default: handled = false; return {};
  }
}

template <class T>
T int_floor_divide(T a, T b) {
  if (b == 0) {
    std::feraiseexcept(FE_DIVBYZERO);
    return 0;
  }
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) {
      if (a == std::numeric_limits<T>::min()) {
        std::feraiseexcept(FE_OVERFLOW);
        return a;
      }
      return static_cast<T>(-a);
    }
    const T q = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
  }
  return static_cast<T>(a / b);
}

/// C's remainder; `floored`: with the sign of the divisor, as Python has it.
template <class T>
T int_remainder(T a, T b, bool floored) {
  if (b == 0) {
    std::feraiseexcept(FE_DIVBYZERO);
    return 0;
  }
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;  // the smallest number % -1 traps
    const T m = static_cast<T>(a % b);
    return floored && m != 0 && (m < 0) != (b < 0) ? static_cast<T>(m + b) : m;
  }
  return static_cast<T>(a % b);
}

template <class T>
T left_shift(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (static_cast<U>(b) >= 8 * sizeof(T)) return 0;  // negative counts too
  return static_cast<T>(static_cast<uint64_t>(static_cast<U>(a)) << b);
}

template <class T>
T right_shift(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (static_cast<U>(b) >= 8 * sizeof(T)) return a < T{} ? static_cast<T>(-1) : T{};
  return static_cast<T>(a >> b);
}

template <class T>
T int_power(T base, T exponent) {
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

/// Of the magnitudes, modulo 2**bits.
template <class T>
uint64_t magnitude(T a) {
  return a < T{} ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
}

template <class T>
T int_gcd(T a, T b) {
  return static_cast<T>(std::gcd(magnitude(a), magnitude(b)));
}

template <class T>
T int_lcm(T a, T b) {
  const uint64_t divisor = std::gcd(magnitude(a), magnitude(b));
  return static_cast<T>(divisor == 0 ? 0 : magnitude(a) / divisor * magnitude(b));
}

template <class T>
Scalar apply_int(Op op, T a, T b, bool& handled) {
  // Arithmetic in uint64_t wraps, and its low bits are those of every narrower type.
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const auto wrapped = [](uint64_t v) { return scalar_of(static_cast<T>(v)); };
  switch (op) {
    case Op::Add: return wrapped(x + y);
    case Op::Subtract: return wrapped(x - y);
    case Op::Multiply: return wrapped(x * y);
    case Op::Square: return wrapped(x * x);
    case Op::Negative: return wrapped(0 - x);
    case Op::Absolute: return a < T{} ? wrapped(0 - x) : wrapped(x);
    case Op::Sign: return scalar_of(static_cast<T>(a > T{} ? 1 : a < T{} ? -1 : 0));
    case Op::FloorDivide: return scalar_of(int_floor_divide(a, b));
    case Op::Remainder: return scalar_of(int_remainder(a, b, true));
    case Op::Fmod: return scalar_of(int_remainder(a, b, false));
    case Op::BitwiseAnd: return wrapped(x & y);
    case Op::BitwiseOr: return wrapped(x | y);
    case Op::BitwiseXor: return wrapped(x ^ y);
    case Op::Invert: return wrapped(~x);
    case Op::Gcd: return scalar_of(int_gcd(a, b));
    case Op::Lcm: return scalar_of(int_lcm(a, b));
    case Op::LeftShift: return scalar_of(left_shift(a, b));
    case Op::RightShift: return scalar_of(right_shift(a, b));
    case Op::Power:
      if (b < T{}) break;  // NumPy raises
      return scalar_of(int_power(a, b));
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc: return scalar_of(a);
    case Op::IsNan:
    case Op::IsInf: return scalar_of(false);
    case Op::IsFinite: return scalar_of(true);
    default: break;
  }
  handled = false;
  return {};
}

template <class T>
Scalar apply_float(Op op, T a, T b, T c, bool& handled) {
  switch (op) {
    case Op::IsNan: return scalar_of(std::isnan(a));
    case Op::IsInf: return scalar_of(std::isinf(a));
    case Op::IsFinite: return scalar_of(std::isfinite(a));
    case Op::SignBit: return scalar_of(std::signbit(a));
    default: return scalar_of(float_operator(op, a, b, c, handled));
  }
}

template <class T>
bool apply_typed(Op op, std::span<const Scalar> args, Scalar& out, const ScalarOptions& options) {
  std::array<T, 3> x{};
  for (std::size_t i = 0; i < args.size(); ++i) x[i] = value_of<T>(args[i]);
  bool handled = true;
  out = compare_or_select(op, x, options, handled);
  if (handled) return true;
  handled = true;
  if constexpr (std::is_same_v<T, bool>) out = apply_bool(op, x[0], x[1], handled);
  else if constexpr (std::is_integral_v<T>) out = apply_int(op, x[0], x[1], handled);
  else out = apply_float(op, x[0], x[1], x[2], handled);
  return handled;
}

bool apply_cast(DType from, DType to, const Scalar& x, Scalar& out) {
  if (from == to) {
    out = x;
    return true;
  }
  return with_type(from, [&](auto source) {
    return with_type(to, [&](auto target) {
      out = scalar_of(convert<decltype(target)>(value_of<decltype(source)>(x)));
      return true;
    });
  });
}

}  // namespace

bool apply_scalar(Op op, DType operand, DType result, std::span<const Scalar> args, Scalar& out,
                  const ScalarOptions& options) {
  if (op == Op::Cast) return apply_cast(operand, result, args[0], out);
  if (op == Op::Where) {
    out = args[0].lo != 0 ? args[1] : args[2];
    return true;
  }
  return with_type(operand, [&](auto t) { return apply_typed<decltype(t)>(op, args, out, options); });
}

}  // namespace framejit::graph
