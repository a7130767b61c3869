// The operators on floating-point numbers, one case each, in any precision: the formulas are NumPy's (loops_*.c.src,
// npymath). In float and double they are what the graph means, in long double what the tests of own functions compare
// with.
#pragma once

#include <cmath>

#include "graph/scalar_cast.h"

namespace framejit::graph {

template <class T>
T float_floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T m = std::fmod(a, b);
  T d = (a - m) / b;
  if (m != 0 && std::isless(b, T{}) != std::isless(m, T{})) d -= 1;
  if (d == 0) return std::copysign(T{}, a / b);
  const T f = std::floor(d);
  return std::isgreater(d - f, static_cast<T>(0.5)) ? f + 1 : f;
}

template <class T>
T float_remainder(T a, T b) {
  const T m = std::fmod(a, b);
  if (b == 0) return m;
  if (m == 0) return std::copysign(T{}, b);
  return std::isless(b, T{}) != std::isless(m, T{}) ? m + b : m;
}

/// The normal distribution's integral, as scipy's ndtr cuts it into erf and erfc.
template <class T>
T ndtr(T x) {
  const T z = x * static_cast<T>(0.70710678118654752440L);
  const T size = std::fabs(z);
  if (std::isless(size, T{1})) return static_cast<T>(0.5) + static_cast<T>(0.5) * std::erf(z);
  const T tail = static_cast<T>(0.5) * std::erfc(size);
  return std::isgreater(z, T{}) ? 1 - tail : tail;
}

/// log(exp(a) + exp(b)); `base2`: of powers of 2.
template <class T>
T log_add_exp(T a, T b, bool base2) {
  if (a == b) return a + (base2 ? T{1} : static_cast<T>(0.69314718055994530942L));
  const T difference = a - b;
  if (is_nan(difference)) return difference;
  const T larger = std::isgreater(difference, T{}) ? a : b, size = -std::fabs(difference);
  return larger +
         (base2 ? std::log1p(std::exp2(size)) * static_cast<T>(1.4426950408889634074L) : std::log1p(std::exp(size)));
}

template <class T>
T heaviside(T x, T at_zero) {
  if (is_nan(x)) return x;
  return x == 0 ? at_zero : static_cast<T>(less(T{}, x) ? 1 : 0);
}

template <class T>
T sign(T x) {
  if (is_nan(x)) return x;
  return static_cast<T>(less(T{}, x) ? 1 : less(x, T{}) ? -1 : 0);
}

/// `handled` becomes false for an operator that gives no floating-point number or has no meaning on them.
template <class T>
T float_operator(Op op, T a, T b, T c, bool& handled) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Subtract: return a - b;
    case Op::Multiply: return a * b;
    case Op::Divide: return a / b;
    case Op::FloorDivide: return float_floor_divide(a, b);
    case Op::Remainder: return float_remainder(a, b);
    case Op::Fmod: return std::fmod(a, b);
    case Op::Power: return std::pow(a, b);
    case Op::Arctan2: return std::atan2(a, b);
    case Op::Hypot: return std::hypot(a, b);
    case Op::Logaddexp: return log_add_exp(a, b, false);
    case Op::Logaddexp2: return log_add_exp(a, b, true);
    case Op::Nextafter: return std::nextafter(a, b);
    case Op::Heaviside: return heaviside(a, b);
    case Op::Arcsinh: return std::asinh(a);
    case Op::Arccosh: return std::acosh(a);
    case Op::Arctanh: return std::atanh(a);
    case Op::Cbrt: return std::cbrt(a);
    case Op::Copysign: return std::copysign(a, b);
    case Op::Negative: return -a;
    case Op::MultiplyAdd: return std::fma(a, b, c);
    case Op::Absolute: return std::fabs(a);
    case Op::Sign: return sign(a);
    case Op::Square: return a * a;
    case Op::Reciprocal: return 1 / a;
    case Op::Sqrt: return std::sqrt(a);
    case Op::Floor: return std::floor(a);
    case Op::Ceil: return std::ceil(a);
    case Op::Rint: return std::nearbyint(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Exp: return std::exp(a);
    case Op::Exp2: return std::exp2(a);
    case Op::Expm1: return std::expm1(a);
    case Op::Log: return std::log(a);
    case Op::Log2: return std::log2(a);
    case Op::Log10: return std::log10(a);
    case Op::Log1p: return std::log1p(a);
    case Op::Sin: return std::sin(a);
    case Op::Cos: return std::cos(a);
    case Op::Tan: return std::tan(a);
    case Op::Arcsin: return std::asin(a);
    case Op::Arccos: return std::acos(a);
    case Op::Arctan: return std::atan(a);
    case Op::Sinh: return std::sinh(a);
    case Op::Cosh: return std::cosh(a);
    case Op::Tanh: return std::tanh(a);
    case Op::Erf: return std::erf(a);
    case Op::Ndtr: return ndtr(a);
    case Op::Gamma: return std::tgamma(a);
    case Op::Gammaln: return std::lgamma(a);
    case Op::Erfc: return std::erfc(a);
    case Op::Expit: return 1 / (1 + std::exp(-a));
    case Op::Logit: return std::log(a / (1 - a));
    case Op::Xlogy: return a == 0 && !is_nan(b) ? T{} : a * std::log(b);
    case Op::Xlog1py: return a == 0 && !is_nan(b) ? T{} : a * std::log1p(b);
    default: handled = false; return {};
  }
}

}  // namespace framejit::graph
