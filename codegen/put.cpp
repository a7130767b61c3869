// The step keeps the items that it overwrites in one piece of memory. A header says how many items it has kept, and how
// many there is room for. Behind it are the byte offsets of the items, or a copy of the mask, and then the items
// themselves. An item that is written twice is kept twice, so the last one is put back first. The header counts the
// items of this run: the shapes of the call may be those of another run when the items are put back.
#include "codegen/put.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "codegen/compress.h"
#include "codegen/cpu.h"
#include "codegen/elements.h"
#include "codegen/gather.h"

namespace framejit::codegen {

namespace {

using graph::DType;

constexpr int64_t kBlock = 2048, kHeader = 16;

/// The bytes of a mask, so that what lies behind them is aligned.
int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

/// A view over an item: the axes that no index names.
struct Item {
  std::span<const int64_t> shape, strides;
  int64_t size;  // bytes of an element
};

int64_t elements_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  return count;
}

std::vector<int64_t> packed(std::span<const int64_t> shape, int64_t size) {
  std::vector<int64_t> strides(shape.size());
  for (std::size_t a = shape.size(); a-- > 0; size *= shape[a]) strides[a] = size;
  return strides;
}

template <class T>
void write_elements(char* array, const int64_t* offsets, int64_t count, const char* values, int64_t stride) {
  for (int64_t j = 0; j < count; ++j) {
    T element;
    std::memcpy(&element, values + j * stride, sizeof element);
    std::memcpy(array + offsets[j], &element, sizeof element);
  }
}

template <class T>
void read_elements(const char* array, const int64_t* offsets, int64_t count, char* values) {
  for (int64_t j = 0; j < count; ++j)
    std::memcpy(values + j * static_cast<int64_t>(sizeof(T)), array + offsets[j], sizeof(T));
}

/// The arrays of a call.
struct Call {
  explicit Call(std::span<const StridedArray> arrays)
      : array(arrays[0]),
        values(arrays[1]),
        places(arrays.subspan(2, arrays.size() - 4)),
        kept(arrays[arrays.size() - 2]),
        out(arrays.back()),
        masked(places[0].dtype == DType::Bool),
        indexed(masked ? places[0].shape.size() : places.size()),
        item{out.shape.subspan(indexed), out.strides.subspan(indexed), graph::size_of(out.dtype)} {}

  bool keeps() const { return kept.shape[0] > 0; }
  const StridedArray &array, &values;
  std::span<const StridedArray> places;
  const StridedArray &kept, &out;
  bool masked;
  std::size_t indexed;
  Item item;
};

struct Header {
  int64_t count, room;
};

void set_header(const Call& call, const Header& header) { std::memcpy(call.kept.data, &header, sizeof header); }

Header header_of(const Call& call) {
  Header header;
  std::memcpy(&header, call.kept.data, sizeof header);
  return header;
}

/// Items of a mask as an array, and the mask, in the bytes that are kept.
struct KeptByMask {
  KeptByMask(const Call& call, int64_t count)
      : mask_strides(packed(call.out.shape.first(call.indexed), 1)), shape{count} {
    shape.insert(shape.end(), call.item.shape.begin(), call.item.shape.end());
    strides = packed(shape, call.item.size);
    mask = {call.kept.data + kHeader, DType::Bool, call.out.shape.first(call.indexed), mask_strides};
    items = {mask.data + padded(elements_of(mask.shape)), call.out.dtype, shape, strides};
  }
  std::vector<int64_t> mask_strides, shape, strides;
  StridedArray mask, items;
};

bool put_by_mask(const Call& call, graph::FlagRule rule) {
  if (call.keeps()) {
    const KeptByMask kept(call, call.values.shape[0]);
    const StridedArray& mask = call.places[0];
    copy_elements(mask.data, mask.strides, kept.mask.data, kept.mask_strides, mask.shape, 1);
    const std::array<StridedArray, 3> arrays{mask, call.out, kept.items};
    if (!compress(nullptr, arrays, rule)) return false;
    set_header(call, {call.values.shape[0], call.values.shape[0]});
  } else if (count_true(call.places[0]) != call.values.shape[0]) return false;
  return put_masked(call.places[0], call.values, call.out);
}

int64_t index_at(const char* indices, int64_t j) {
  int64_t index;
  std::memcpy(&index, indices + j * 8, sizeof index);
  return index;
}

/// The least and the largest of int64 indices that lie together.
inline __attribute__((always_inline)) std::pair<int64_t, int64_t> range_of_indices(const char* indices, int64_t count) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (int64_t j = 0; j < count; ++j) {
    least = std::min(least, index_at(indices, j));
    most = std::max(most, index_at(indices, j));
  }
  return {least, most};
}

__attribute__((target("avx512f"))) std::pair<int64_t, int64_t> range_in_wide_vectors(const char* indices,
                                                                                     int64_t count) {
  return range_of_indices(indices, count);
}

__attribute__((target("avx2"))) std::pair<int64_t, int64_t> range_in_vectors(const char* indices, int64_t count) {
  return range_of_indices(indices, count);
}

std::pair<int64_t, int64_t> range_of(const char* indices, int64_t count) {
  switch (detected_cpu().isa) {
    case Isa::Avx512: return range_in_wide_vectors(indices, count);
    case Isa::Avx2: return range_in_vectors(indices, count);
    default: return range_of_indices(indices, count);
  }
}

/// The elements of one axis, by int64 indices that lie together, in one go. All of them are tried first.
template <class T, bool kKeeps, bool kPacked>
bool put_line(const Call& call) {
  const char* const indices = call.places[0].data;
  const int64_t count = call.places[0].shape[0], length = call.out.shape[0];
  const auto [least, most] = range_of(indices, count);
  if (count > 0 && (least < -length || most >= length)) return false;
  const int64_t scale = kPacked ? static_cast<int64_t>(sizeof(T)) : call.out.strides[0];
  const int64_t step = call.values.shape.empty() ? 0 : call.values.strides[0];
  char *const out = call.out.data, *const offsets = call.kept.data + kHeader, *const items = offsets + count * 8;
  const char* const values = call.values.data;
  const auto write = [&](auto place_of) {
    for (int64_t j = 0; j < count; ++j) {
      const int64_t offset = place_of(index_at(indices, j)) * scale;
      if constexpr (kKeeps) {
        std::memcpy(offsets + j * 8, &offset, sizeof offset);
        std::memcpy(items + j * static_cast<int64_t>(sizeof(T)), out + offset, sizeof(T));
      }
      T element;
      std::memcpy(&element, values + j * step, sizeof element);
      std::memcpy(out + offset, &element, sizeof element);
    }
  };
  if (least >= 0) write([](int64_t index) { return index; });
  else write([length](int64_t index) { return index + ((index >> 63) & length); });
  if (kKeeps) set_header(call, {count, count});
  return true;
}

/// Are all indices in bounds?
bool are_inside(const Call& call) {
  const int64_t count = call.places[0].shape[0];
  std::array<int64_t, kBlock> offsets;
  for (int64_t first = 0; first < count; first += kBlock)
    if (!offsets_of(call.out, call.places, first, std::min(kBlock, count - first), offsets.data())) return false;
  return true;
}

bool put_by_indices(const Call& call) {
  const int64_t count = call.places[0].shape[0], elements = elements_of(call.item.shape), size = call.item.size;
  if (call.item.shape.empty() && call.places.size() == 1 && call.places[0].dtype == DType::I64 &&
      call.places[0].strides[0] == 8)
    return with_element(size, [&]<class T>() {
      if (call.keeps()) return put_line<T, true, false>(call);
      return call.out.strides[0] == size ? put_line<T, false, true>(call) : put_line<T, false, false>(call);
    });
  if (!call.keeps() && !are_inside(call)) return false;
  const int64_t bytes = elements * size;
  char* const kept_offsets = call.kept.data + kHeader;
  char* const kept_items = kept_offsets + count * 8;
  const bool scalar = call.values.shape.empty();
  const int64_t step = scalar ? 0 : call.values.strides[0];
  const std::vector<int64_t> item_strides = packed(call.item.shape, size), none(call.item.shape.size(), 0);
  const std::span<const int64_t> given = scalar ? std::span<const int64_t>(none) : call.values.strides.subspan(1);
  std::array<int64_t, kBlock> offsets;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t here = std::min(kBlock, count - first);
    if (!offsets_of(call.out, call.places, first, here, offsets.data())) return false;
    const char* const values = call.values.data + first * step;
    if (call.keeps()) {
      std::memcpy(kept_offsets + first * 8, offsets.data(), static_cast<std::size_t>(here) * 8);
      char* const items = kept_items + first * bytes;
      if (call.item.shape.empty())
        with_element(size, [&]<class T>() { read_elements<T>(call.out.data, offsets.data(), here, items); });
      else
        for (int64_t j = 0; j < here; ++j)
          copy_elements(call.out.data + offsets[j], call.item.strides, items + j * bytes, item_strides, call.item.shape,
                        size);
      set_header(call, {first + here, count});
    }
    if (call.item.shape.empty())
      with_element(size, [&]<class T>() { write_elements<T>(call.out.data, offsets.data(), here, values, step); });
    else
      for (int64_t j = 0; j < here; ++j)
        copy_elements(values + j * step, given, call.out.data + offsets[j], call.item.strides, call.item.shape, size);
  }
  return true;
}

}  // namespace

graph::Dim saved_bytes_of(const graph::Graph& graph, const graph::Node& put) {
  const graph::Type &array = graph.type(put.inputs[0]), &first = graph.type(put.inputs[2]);
  const bool masked = first.dtype == DType::Bool;
  const std::size_t indexed = masked ? first.shape.size() : put.inputs.size() - 2;
  graph::Dim item = graph::size_of(array.dtype);
  for (std::size_t i = indexed; i < array.shape.size(); ++i) item = item * array.shape[i];
  if (masked) return graph::Dim(kHeader + 8) + first.size() + graph.type(put.inputs[1]).shape[0] * item;
  return graph::Dim(kHeader) + first.shape[0] * (graph::Dim(8) + item);
}

bool put(void*, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  const Call call(arrays);
  if (call.keeps()) set_header(call, {0, 0});
  if (call.out.data != call.array.data)
    copy_elements(call.array.data, call.array.strides, call.out.data, call.out.strides, call.out.shape, call.item.size);
  return call.masked ? put_by_mask(call, rule) : put_by_indices(call);
}

void take_back_put(std::span<const StridedArray> arrays) {
  const Call call(arrays);
  const Header header = call.keeps() ? header_of(call) : Header{};
  if (header.count == 0) return;
  if (call.masked) {
    const KeptByMask kept(call, header.count);
    put_masked(kept.mask, kept.items, call.out);
    return;
  }
  const int64_t size = call.item.size, bytes = elements_of(call.item.shape) * size;
  const std::vector<int64_t> item_strides = packed(call.item.shape, size);
  const char* const offsets = call.kept.data + kHeader;
  const char* const items = offsets + header.room * 8;
  for (int64_t j = header.count; j-- > 0;) {
    int64_t offset;
    std::memcpy(&offset, offsets + j * 8, sizeof offset);
    copy_elements(items + j * bytes, item_strides, call.out.data + offset, call.item.strides, call.item.shape, size);
  }
}

}  // namespace framejit::codegen
