// Indices become byte offsets, a block of them at a time; then elements are copied, once for each position of the axes
// before.
#include "codegen/gather.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace framejit::codegen {

namespace {

using graph::DType;

constexpr std::size_t kMostAxes = 16, kMostIndices = 4;
constexpr int64_t kBlock = 2048;

/// An axis of the indices' shape.
struct Axis {
  int64_t length, out;
  std::array<int64_t, kMostIndices> of;  // strides of the arrays of indices
};

struct Extent {
  int64_t length, x, out;
};

/// Joins axes that are one in memory; those of length 1 go.
template <class T, class F>
std::size_t coalesce(T* axes, std::size_t count, F&& follows) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (axes[i].length == 1) continue;
    if (kept > 0 && follows(axes[kept - 1], axes[i])) {
      const int64_t length = axes[kept - 1].length * axes[i].length;
      axes[kept - 1] = axes[i];
      axes[kept - 1].length = length;
    } else {
      axes[kept++] = axes[i];
    }
  }
  return kept;
}

/// Adds what the indices say to the offsets; false where one is out of bounds, which counts as 0.
template <class T>
bool resolve(const char* at, int64_t stride, int64_t count, int64_t length, int64_t scale, bool first,
             int64_t* offsets) {
  bool inside = true;
  for (int64_t j = 0; j < count; ++j) {
    T index;
    std::memcpy(&index, at + j * stride, sizeof index);
    auto place = static_cast<int64_t>(index);
    if constexpr (std::is_signed_v<T>) place += place < 0 ? length : 0;
    const bool fits = static_cast<uint64_t>(place) < static_cast<uint64_t>(length);
    inside = inside && fits;
    offsets[j] = (first ? 0 : offsets[j]) + (fits ? place : 0) * scale;
  }
  return inside;
}

using Resolve = bool (*)(const char*, int64_t, int64_t, int64_t, int64_t, bool, int64_t*);

Resolve resolver(DType dtype) {
  switch (dtype) {
    case DType::I8: return resolve<int8_t>;
    case DType::I16: return resolve<int16_t>;
    case DType::I32: return resolve<int32_t>;
    case DType::I64: return resolve<int64_t>;
    case DType::U8: return resolve<uint8_t>;
    case DType::U16: return resolve<uint16_t>;
    case DType::U32: return resolve<uint32_t>;
    default: return nullptr;
  }
}

/// Elements at offsets from `x`, to places a stride apart.
template <class T>
void copy_elements(const char* x, const int64_t* offsets, int64_t count, char* out, int64_t stride) {
  for (int64_t j = 0; j < count; ++j) {
    T element;
    std::memcpy(&element, x + offsets[j], sizeof element);
    std::memcpy(out + j * stride, &element, sizeof element);
  }
}

using CopyElements = void (*)(const char*, const int64_t*, int64_t, char*, int64_t);

CopyElements element_copier(int64_t size) {
  switch (size) {
    case 1: return copy_elements<uint8_t>;
    case 2: return copy_elements<uint16_t>;
    case 4: return copy_elements<uint32_t>;
    case 8: return copy_elements<uint64_t>;
    default: return copy_elements<std::array<uint64_t, 2>>;
  }
}

/// The same in one go for one array of int64 that lies together, as the result does; false where an index is out of
/// bounds. Indices are tried as they are until one is negative.
template <class T, bool kPacked>
bool gather_line(const char* at, int64_t count, const char* x, int64_t length, int64_t stride, char* out) {
  const int64_t scale = kPacked ? static_cast<int64_t>(sizeof(T)) : stride;
  const auto index = [at](int64_t j) {
    int64_t place;
    std::memcpy(&place, at + j * 8, sizeof place);
    return place;
  };
  const auto take = [=](int64_t j, int64_t place) {
    std::memcpy(out + j * static_cast<int64_t>(sizeof(T)), x + place * scale, sizeof(T));
  };
  const auto inside = [length](int64_t place) { return static_cast<uint64_t>(place) < static_cast<uint64_t>(length); };
  int64_t j = 0;
  for (; j < count; ++j) {
    const int64_t place = index(j);
    if (!inside(place)) break;
    take(j, place);
  }
  for (; j < count; ++j) {
    int64_t place = index(j);
    place += (place >> 63) & length;
    if (!inside(place)) return false;
    take(j, place);
  }
  return true;
}

using Line = bool (*)(const char*, int64_t, const char*, int64_t, int64_t, char*);

template <bool kPacked>
Line line_of(int64_t size) {
  switch (size) {
    case 1: return gather_line<uint8_t, kPacked>;
    case 2: return gather_line<uint16_t, kPacked>;
    case 4: return gather_line<uint32_t, kPacked>;
    case 8: return gather_line<uint64_t, kPacked>;
    default: return gather_line<std::array<uint64_t, 2>, kPacked>;
  }
}

/// Calls f(offset in x, offset in out) for each position of the axes, the last one fastest.
template <class F>
void for_each_position(const Extent* axes, std::size_t count, F&& f, int64_t x = 0, int64_t out = 0) {
  if (count == 0) return f(x, out);
  for (int64_t i = 0; i < axes[0].length; ++i)
    for_each_position(axes + 1, count - 1, f, x + i * axes[0].x, out + i * axes[0].out);
}

class Gather {
 public:
  Gather(const StridedArray& x, std::span<const StridedArray* const> indices, std::size_t lead, const StridedArray& out)
      : x_(x), indices_(indices), lead_(lead), out_(out) {}

  Gathered run() {
    if (!prepare()) return Gathered::Unknown;
    if (empty_) return Gathered::Done;
    const std::size_t outer = axis_count_ > 0 ? axis_count_ - 1 : 0;
    std::array<int64_t, kMostAxes> position{};
    std::array<const char*, kMostIndices> at;
    for (std::size_t k = 0; k < indices_.size(); ++k) at[k] = indices_[k]->data;
    char* to = out_.data;
    for (;;) {
      if (!row(at, to)) return Gathered::Outside;
      std::size_t a = outer;
      for (; a > 0; --a) {
        const Axis& axis = axes_[a - 1];
        const bool more = ++position[a - 1] < axis.length;
        const int64_t steps = more ? 1 : 1 - axis.length;
        for (std::size_t k = 0; k < indices_.size(); ++k) at[k] += steps * axis.of[k];
        to += steps * axis.out;
        if (more) break;
        position[a - 1] = 0;
      }
      if (a == 0) return Gathered::Done;
    }
  }

 private:
  bool prepare() {
    const std::size_t indexed = indices_.size();
    if (indexed == 0 || indexed > kMostIndices || lead_ + indexed > x_.shape.size() || x_.dtype != out_.dtype)
      return false;
    std::size_t rank = 0;
    for (const StridedArray* index : indices_) rank = std::max(rank, index->shape.size());
    const std::size_t rest = x_.shape.size() - lead_ - indexed;
    if (out_.shape.size() != lead_ + rank + rest || out_.shape.size() > kMostAxes) return false;
    for (std::size_t k = 0; k < indexed; ++k)
      if (!(resolvers_[k] = resolver(indices_[k]->dtype))) return false;
    for (std::size_t a = 0; a < rank; ++a) {
      Axis& axis = axes_[a];
      axis.length = out_.shape[lead_ + a];
      axis.out = out_.strides[lead_ + a];
      if (axis.length == 0) empty_ = true;
      for (std::size_t k = 0; k < indexed; ++k) {
        const StridedArray& index = *indices_[k];
        const std::size_t missing = rank - index.shape.size();
        const int64_t length = a < missing ? 1 : index.shape[a - missing];
        if (length != 1 && length != axis.length) return false;
        axis.of[k] = length == 1 ? 0 : index.strides[a - missing];
      }
    }
    for (std::size_t a = 0; a < lead_ + rest; ++a) {
      const std::size_t of_x = a < lead_ ? a : a + indexed, of_out = a < lead_ ? a : a + rank;
      if (x_.shape[of_x] != out_.shape[of_out] || x_.shape[of_x] == 0) return false;
      (a < lead_ ? before_[a] : behind_[a - lead_]) = {x_.shape[of_x], x_.strides[of_x], out_.strides[of_out]};
    }
    axis_count_ = coalesce(axes_.data(), rank, [indexed](const Axis& outer, const Axis& inner) {
      bool follows = outer.out == inner.out * inner.length;
      for (std::size_t k = 0; k < indexed; ++k) follows = follows && outer.of[k] == inner.of[k] * inner.length;
      return follows;
    });
    const auto joined = [](const Extent& outer, const Extent& inner) {
      return outer.x == inner.x * inner.length && outer.out == inner.out * inner.length;
    };
    before_count_ = coalesce(before_.data(), lead_, joined);
    behind_count_ = coalesce(behind_.data(), rest, joined);
    item_ = graph::size_of(x_.dtype);
    copier_ = element_copier(item_);
    // What lies together behind the indexed axes is one block of bytes.
    if (behind_count_ > 0 && behind_[behind_count_ - 1].x == item_ && behind_[behind_count_ - 1].out == item_)
      block_ = item_ * behind_[--behind_count_].length;
    return true;
  }

  /// Along the last axis of the indices.
  bool row(const std::array<const char*, kMostIndices>& at, char* to) {
    static constexpr Axis kOne{1, 0, {}};
    const Axis& axis = axis_count_ > 0 ? axes_[axis_count_ - 1] : kOne;
    if (indices_.size() == 1 && indices_[0]->dtype == DType::I64 && before_count_ == 0 && behind_count_ == 0 &&
        block_ == 0 && axis.of[0] == 8 && axis.out == item_) {
      const int64_t stride = x_.strides[lead_];
      const Line line = stride == item_ ? line_of<true>(item_) : line_of<false>(item_);
      return line(at[0], axis.length, x_.data, x_.shape[lead_], stride, to);
    }
    std::array<int64_t, kBlock> offsets;
    for (int64_t first = 0; first < axis.length; first += kBlock) {
      const int64_t count = std::min(kBlock, axis.length - first);
      bool inside = true;
      for (std::size_t k = 0; k < indices_.size(); ++k) {
        const std::size_t a = lead_ + k;
        inside = resolvers_[k](at[k] + first * axis.of[k], axis.of[k], count, x_.shape[a], x_.strides[a], k == 0,
                               offsets.data()) &&
                 inside;
      }
      if (!inside) return false;
      for_each_position(before_.data(), before_count_, [&](int64_t from, int64_t into) {
        copy(x_.data + from, offsets.data(), count, to + into + first * axis.out, axis.out);
      });
    }
    return true;
  }

  void copy(const char* x, const int64_t* offsets, int64_t count, char* out, int64_t stride) {
    if (block_ == 0 && behind_count_ == 0) return copier_(x, offsets, count, out, stride);
    for (int64_t j = 0; j < count; ++j)
      for_each_position(behind_.data(), behind_count_, [&](int64_t from, int64_t into) {
        std::memcpy(out + j * stride + into, x + offsets[j] + from,
                    static_cast<std::size_t>(block_ > 0 ? block_ : item_));
      });
  }

  const StridedArray& x_;
  const std::span<const StridedArray* const> indices_;
  const std::size_t lead_;
  const StridedArray& out_;
  std::array<Resolve, kMostIndices> resolvers_;
  std::array<Axis, kMostAxes> axes_;               // of the indices
  std::array<Extent, kMostAxes> before_, behind_;  // whole axes of x
  std::size_t axis_count_ = 0, before_count_ = 0, behind_count_ = 0;
  int64_t item_ = 0, block_ = 0;
  CopyElements copier_ = nullptr;
  bool empty_ = false;
};

}  // namespace

Gathered gather(const StridedArray& x, std::span<const StridedArray* const> indices, std::size_t lead,
                const StridedArray& out) {
  return Gather(x, indices, lead, out).run();
}

bool offsets_of(const StridedArray& x, std::span<const StridedArray> indices, int64_t first, int64_t count,
                int64_t* offsets) {
  bool inside = true;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const StridedArray& index = indices[k];
    const Resolve resolve_index = resolver(index.dtype);
    inside = inside && resolve_index &&
             resolve_index(index.data + first * index.strides[0], index.strides[0], count, x.shape[k], x.strides[k],
                           k == 0, offsets);
  }
  return inside;
}

}  // namespace framejit::codegen
