// Scalars as C++ values: conversions as NumPy's casts do them, and NumPy's order relations.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "graph/graph.h"

namespace framejit::graph {

/// Calls f with a value of the C++ type of `dtype`; false for dtypes without one here.
template <class F>
bool with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Bool: return f(bool{});
    case DType::I8: return f(int8_t{});
    case DType::I16: return f(int16_t{});
    case DType::I32: return f(int32_t{});
    case DType::I64: return f(int64_t{});
    case DType::U8: return f(uint8_t{});
    case DType::U16: return f(uint16_t{});
    case DType::U32: return f(uint32_t{});
    case DType::U64: return f(uint64_t{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    case DType::F16:
    case DType::BF16:
    case DType::C64:
    case DType::C128: return false;
  }
  return false;
}

template <class T>
T value_of(const Scalar& s) {
  T out{};
  if constexpr (std::is_same_v<T, bool>) out = s.lo != 0;
  else std::memcpy(&out, &s.lo, sizeof(T));  // little endian
  return out;
}

template <class T>
Scalar scalar_of(T value) {
  Scalar out;
  std::memcpy(&out.lo, &value, sizeof(T));
  return out;
}

/// Truncation as x86's cvtt does it: what does not fit gives the most negative number and raises invalid.
template <class Int, class Float>
Int truncate(Float x) {
  constexpr Float low = static_cast<Float>(std::numeric_limits<Int>::min());
  const bool fits = std::isgreaterequal(std::trunc(x), low) && std::isless(x, -low);
  if (fits) return static_cast<Int>(x);
  std::feraiseexcept(FE_INVALID);
  return std::numeric_limits<Int>::min();
}

template <class To, class Float>
To from_float(Float x) {
  if constexpr (std::is_same_v<To, int64_t>) return truncate<int64_t>(x);
  if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr Float half = static_cast<Float>(0x1p63);
    if (!std::isgreaterequal(x, half)) return static_cast<uint64_t>(truncate<int64_t>(x));
    return static_cast<uint64_t>(truncate<int64_t>(x - half)) ^ uint64_t { 1 } << 63;
  }
  // Out of range NumPy's own result for uint32 depends on the position; this is its scalar path.
  if constexpr (std::is_same_v<To, uint32_t>) return static_cast<uint32_t>(truncate<int64_t>(x));
  return static_cast<To>(truncate<int32_t>(x));  // the low bits
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) return x != From{};
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) return from_float<To>(x);
  else return static_cast<To>(x);
}

// Comparisons are quiet: NumPy's report no invalid on a NaN.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::isless(a, b);
  else return a < b;
}

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  else return false;
}

/// x86 minsd and maxsd: the second operand unless the first is really less (greater).
template <class T>
T x86_min(T a, T b) {
  return less(a, b) ? a : b;
}
template <class T>
T x86_max(T a, T b) {
  return less(b, a) ? a : b;
}

template <class T>
T minimum(T a, T b) {
  return is_nan(a) ? a : x86_min(a, b);
}
template <class T>
T maximum(T a, T b) {
  return is_nan(a) ? a : x86_max(a, b);
}

}  // namespace framejit::graph
