// Combines partial results of folds whose order does not matter.
#include "runtime/fold.h"

#include <cmath>
#include <type_traits>

#include "graph/support/check.h"

namespace framejit::runtime {
namespace {

using graph::DType;
using graph::Op;

template <class T>
void combine_as(Op op, char* into, const char* value) {
  T a, b;
  std::memcpy(&a, into, sizeof(T));
  std::memcpy(&b, value, sizeof(T));
  // Unsigned 64-bit arithmetic wraps for every integer type, without overflow in the sense of C++.
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
  switch (op) {
    case Op::Add: a = static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b)); break;
    case Op::Multiply: a = static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b)); break;
    case Op::Minimum: a = (a < b || a != a) ? a : b; break;
    case Op::Maximum: a = (a > b || a != a) ? a : b; break;
    case Op::LogicalOr: a = static_cast<T>(a != T{} || b != T{}); break;
    case Op::LogicalAnd: a = static_cast<T>(a != T{} && b != T{}); break;
    default: FRAMEJIT_CHECK(false, "not a fold of any order: " + std::string(graph::name_of(op)));
  }
  std::memcpy(into, &a, sizeof(T));
}

void combine_half(Op op, char* into, const char* value) {
  uint16_t a, b;
  std::memcpy(&a, into, 2);
  std::memcpy(&b, value, 2);
  float wide_a = half_to_float(a);
  const float wide_b = half_to_float(b);
  combine_as<float>(op, reinterpret_cast<char*>(&wide_a), reinterpret_cast<const char*>(&wide_b));
  a = float_to_half(wide_a);
  std::memcpy(into, &a, 2);
}

template <std::size_t kSize>
void fill_as(char* to, int64_t count, int64_t stride, const char* element) {
  struct Bits {
    char bytes[kSize];
  } bits;
  std::memcpy(&bits, element, kSize);
  if (stride == static_cast<int64_t>(kSize)) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * static_cast<int64_t>(kSize), &bits, kSize);
  } else {
    for (int64_t i = 0; i < count; ++i, to += stride) std::memcpy(to, &bits, kSize);
  }
}

}  // namespace

void combine(Op op, DType dtype, char* into, const char* value) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8: return combine_as<uint8_t>(op, into, value);
    case DType::I8: return combine_as<int8_t>(op, into, value);
    case DType::I16: return combine_as<int16_t>(op, into, value);
    case DType::I32: return combine_as<int32_t>(op, into, value);
    case DType::I64: return combine_as<int64_t>(op, into, value);
    case DType::U16: return combine_as<uint16_t>(op, into, value);
    case DType::U32: return combine_as<uint32_t>(op, into, value);
    case DType::U64: return combine_as<uint64_t>(op, into, value);
    case DType::F16: return combine_half(op, into, value);
    case DType::F32: return combine_as<float>(op, into, value);
    case DType::F64: return combine_as<double>(op, into, value);
    case DType::BF16:
    case DType::C64:
    case DType::C128: break;
  }
  FRAMEJIT_CHECK(false, "no fold of any order of " + std::string(graph::name_of(dtype)));
}

bool zero_or_nan(DType dtype, const char* element) {
  if (dtype == DType::F64) {
    double x;
    std::memcpy(&x, element, sizeof(x));
    return x == 0 || std::isnan(x);
  }
  float x;
  if (dtype == DType::F16) {
    uint16_t h;
    std::memcpy(&h, element, sizeof(h));
    x = half_to_float(h);
  } else {
    std::memcpy(&x, element, sizeof(x));
  }
  return x == 0 || std::isnan(x);
}

void fill(char* to, int64_t count, int64_t stride, const char* element, int itemsize) {
  switch (itemsize) {
    case 1: return fill_as<1>(to, count, stride, element);
    case 2: return fill_as<2>(to, count, stride, element);
    case 4: return fill_as<4>(to, count, stride, element);
    case 8: return fill_as<8>(to, count, stride, element);
    default: FRAMEJIT_CHECK(itemsize == 16, "elements of 16 bytes"); return fill_as<16>(to, count, stride, element);
  }
}

}  // namespace framejit::runtime
