// Each line along the axis is a chain of operations, in NumPy's order. Lines beside each other hide the latency of the
// chain, and where they lie together in memory they are the elements of vectors.
#include "codegen/scan.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace framejit::codegen {

namespace {

using graph::DType;
using graph::Op;

constexpr std::size_t kMostAxes = 16;

struct Extent {
  int64_t length, x, out;
};

/// A bool in memory: any byte but 0 is true.
struct Truth {
  uint8_t byte;
  template <class T>
  explicit operator T() const {
    return static_cast<T>(byte != 0);
  }
};

template <Op op, class T>
T combine(T a, T b) {
  if constexpr (op == Op::Minimum) return a <= b || a != a ? a : b;
  if constexpr (op == Op::Maximum) return a >= b || a != a ? a : b;
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;  // wraps
    const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
    return static_cast<T>(op == Op::Add ? x + y : x * y);
  } else {
    return op == Op::Add ? a + b : a * b;
  }
}

template <class X, class T>
T element(const char* at) {
  X raw;
  std::memcpy(&raw, at, sizeof raw);
  return static_cast<T>(raw);
}

template <class T>
void put(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// kLines lines beside each other, from one element to the next.
template <Op op, class X, class T, int kLines>
void chains(const char* x, char* out, const Extent& along, const Extent& beside) {
  T last[kLines];
  for (int i = 0; i < kLines; ++i) put(out + i * beside.out, last[i] = element<X, T>(x + i * beside.x));
  for (int64_t k = 1; k < along.length; ++k) {
    x += along.x;
    out += along.out;
    for (int i = 0; i < kLines; ++i)
      put(out + i * beside.out, last[i] = combine<op, T>(last[i], element<X, T>(x + i * beside.x)));
  }
}

/// `count` lines whose elements lie together in the result, and in `x` where kPacked.
template <Op op, class X, class T, bool kPacked>
void rows(const char* x, char* out, const Extent& along, const Extent& beside, int64_t count) {
  const int64_t step = kPacked ? static_cast<int64_t>(sizeof(X)) : beside.x;
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) put(out + i * kItem, element<X, T>(x + i * step));
  for (int64_t k = 1; k < along.length; ++k) {
    const char* const before = out;
    x += along.x;
    out += along.out;
    for (int64_t i = 0; i < count; ++i)
      put(out + i * kItem, combine<op, T>(element<T, T>(before + i * kItem), element<X, T>(x + i * step)));
  }
}

template <Op op, class X, class T>
void plane(const char* x, char* out, const Extent& along, const Extent& beside) {
  constexpr int64_t kRow = 1024, kLines = 4;  // elements of a row that stay in the nearest cache
  int64_t i = 0;
  if (beside.out == static_cast<int64_t>(sizeof(T)) && beside.length >= 8) {
    for (; i < beside.length; i += kRow) {
      const int64_t count = std::min(kRow, beside.length - i);
      const bool packed = beside.x == static_cast<int64_t>(sizeof(X));
      (packed ? rows<op, X, T, true> : rows<op, X, T, false>)(x + i * beside.x, out + i * beside.out, along, beside,
                                                              count);
    }
    return;
  }
  for (; i + kLines <= beside.length; i += kLines)
    chains<op, X, T, kLines>(x + i * beside.x, out + i * beside.out, along, beside);
  for (; i < beside.length; ++i) chains<op, X, T, 1>(x + i * beside.x, out + i * beside.out, along, beside);
}

using Plane = void (*)(const char*, char*, const Extent&, const Extent&);

template <class X, class T>
Plane plane_of(Op op) {
  switch (op) {
    case Op::Add: return plane<Op::Add, X, T>;
    case Op::Multiply: return plane<Op::Multiply, X, T>;
    default: break;
  }
  if constexpr (std::is_same_v<X, T>) {
    if (op == Op::Minimum) return plane<Op::Minimum, X, T>;
    if (op == Op::Maximum) return plane<Op::Maximum, X, T>;
  }
  return nullptr;
}

template <class T>
Plane widening(Op op, DType x) {
  switch (x) {
    case DType::I8: return plane_of<int8_t, T>(op);
    case DType::I16: return plane_of<int16_t, T>(op);
    case DType::I32: return plane_of<int32_t, T>(op);
    case DType::U8: return plane_of<uint8_t, T>(op);
    case DType::Bool: return plane_of<Truth, T>(op);
    case DType::U16: return plane_of<uint16_t, T>(op);
    case DType::U32: return plane_of<uint32_t, T>(op);
    default: return nullptr;
  }
}

Plane plane_for(Op op, DType x, DType out) {
  if (x != out) {
    if (out == DType::I64) return widening<int64_t>(op, x);
    if (out == DType::U64 && !graph::is_signed_int(x)) return widening<uint64_t>(op, x);
    if (out == DType::F64 && x == DType::F32) return plane_of<float, double>(op);
    if (out == DType::F64 && x == DType::I64) return plane_of<int64_t, double>(op);
    return out == DType::F64 ? widening<double>(op, x) : nullptr;
  }
  switch (x) {
    case DType::I8: return plane_of<int8_t, int8_t>(op);
    case DType::I16: return plane_of<int16_t, int16_t>(op);
    case DType::I32: return plane_of<int32_t, int32_t>(op);
    case DType::I64: return plane_of<int64_t, int64_t>(op);
    case DType::U8: return plane_of<uint8_t, uint8_t>(op);
    case DType::U16: return plane_of<uint16_t, uint16_t>(op);
    case DType::U32: return plane_of<uint32_t, uint32_t>(op);
    case DType::U64: return plane_of<uint64_t, uint64_t>(op);
    case DType::C64:
    case DType::F32: return plane_of<float, float>(op);
    case DType::C128:
    case DType::F64: return plane_of<double, double>(op);
    default: return nullptr;
  }
}

/// Calls f(element, place in the result) for each position of the axes.
template <class F>
void for_each_line(const std::array<Extent, kMostAxes>& axes, std::size_t count, const char* from, char* to, F&& f) {
  std::array<int64_t, kMostAxes> position{};
  for (;;) {
    f(from, to);
    std::size_t a = count;
    for (; a > 0; --a) {
      const Extent& e = axes[a - 1];
      const bool more = ++position[a - 1] < e.length;
      from += (more ? 1 : 1 - e.length) * e.x;
      to += (more ? 1 : 1 - e.length) * e.out;
      if (more) break;
      position[a - 1] = 0;
    }
    if (a == 0) return;
  }
}

template <class T>
int64_t extreme_place(const char* x, int64_t length, int64_t stride, bool least) {
  T best = element<T, T>(x);
  int64_t place = 0;
  for (int64_t k = 1; k < length && best == best; ++k) {
    const T number = element<T, T>(x + k * stride);
    if ((least ? number < best : number > best) || number != number) best = number, place = k;
  }
  return place;
}

using ExtremePlace = int64_t (*)(const char*, int64_t, int64_t, bool);

ExtremePlace extreme_place_of(DType dtype) {
  switch (dtype) {
    case DType::I8: return extreme_place<int8_t>;
    case DType::I16: return extreme_place<int16_t>;
    case DType::I32: return extreme_place<int32_t>;
    case DType::I64: return extreme_place<int64_t>;
    case DType::U8: return extreme_place<uint8_t>;
    case DType::U16: return extreme_place<uint16_t>;
    case DType::U32: return extreme_place<uint32_t>;
    case DType::U64: return extreme_place<uint64_t>;
    case DType::F32: return extreme_place<float>;
    case DType::F64: return extreme_place<double>;
    default: return nullptr;
  }
}

}  // namespace

bool find_extreme(Op op, const StridedArray& x, std::size_t axis, const StridedArray& out) {
  const ExtremePlace find = extreme_place_of(x.dtype);
  const std::size_t rank = x.shape.size();
  if (!find || axis >= rank || rank >= kMostAxes || out.shape.size() != rank - 1 || out.dtype != DType::I64)
    return false;
  std::array<Extent, kMostAxes> others;
  for (std::size_t a = 0, k = 0; a < rank; ++a) {
    if (x.shape[a] == 0) return false;
    if (a == axis) continue;
    if (x.shape[a] != out.shape[k]) return false;
    others[k] = {x.shape[a], x.strides[a], out.strides[k]};
    ++k;
  }
  for_each_line(others, rank - 1, x.data, out.data, [&](const char* from, char* to) {
    put(to, find(from, x.shape[axis], x.strides[axis], op == Op::Minimum));
  });
  return true;
}

bool scan(Op op, const StridedArray& x, std::size_t axis, const StridedArray& out) {
  const bool complex = graph::is_complex(x.dtype);
  const Plane run = complex && op != Op::Add ? nullptr : plane_for(op, x.dtype, out.dtype);
  const std::size_t rank = x.shape.size();
  if (!run || axis >= rank || rank >= kMostAxes || out.shape.size() != rank) return false;
  std::array<Extent, kMostAxes> others;
  std::size_t count = 0;
  Extent along{};
  for (std::size_t a = 0; a < rank; ++a) {
    if (x.shape[a] != out.shape[a]) return false;
    (a == axis ? along : others[count++]) = {x.shape[a], x.strides[a], out.strides[a]};
  }
  const int64_t item = graph::size_of(graph::part_of(out.dtype));
  if (complex) others[count++] = {2, item, item};
  if (along.length == 0 || std::any_of(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count),
                                       [](const Extent& e) { return e.length == 0; }))
    return true;
  // The lines beside each other: those that lie nearest in the result.
  Extent beside{1, 0, 0};
  const auto nearest = std::min_element(
      others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count), [](const Extent& a, const Extent& b) {
        return std::pair(a.length == 1, std::abs(a.out)) < std::pair(b.length == 1, std::abs(b.out));
      });
  if (count > 0) {
    beside = *nearest;
    *nearest = others[--count];
  }
  for_each_line(others, count, x.data, out.data, [&](const char* from, char* to) { run(from, to, along, beside); });
  return true;
}

}  // namespace framejit::codegen
