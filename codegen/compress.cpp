// One walk over the mask in C order. Single elements are chosen without a branch: each is stored where the next chosen one belongs.
#include "codegen/compress.h"

#include <cstring>
#include <vector>

namespace framejit::codegen {

namespace {

/// Copies one block of the axes behind the mask's; its elements lie by `strides`.
void copy_block(const char* from, std::span<const int64_t> shape, std::span<const int64_t> strides, std::size_t item, char*& to) {
  if (shape.empty()) {
    std::memcpy(to, from, item);
    to += item;
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i) copy_block(from + i * strides[0], shape.subspan(1), strides.subspan(1), item, to);
}

struct Row {
  const char *mask, *from;
  int64_t length, mask_stride, stride;
};

/// Elements of one size along a row: `room` is how many there is room for still.
template <class T>
int64_t choose(const Row& row, char* to, int64_t room) {
  int64_t chosen = 0;
  for (int64_t i = 0; i < row.length; ++i) {
    const bool takes = row.mask[i * row.mask_stride] != 0;
    if (chosen == room) {
      if (takes) return -1;
      continue;
    }
    std::memcpy(to + chosen * static_cast<int64_t>(sizeof(T)), row.from + i * row.stride, sizeof(T));
    chosen += takes;
  }
  return chosen;
}

int64_t choose(std::size_t item, const Row& row, char* to, int64_t room) {
  switch (item) {
    case 1: return choose<uint8_t>(row, to, room);
    case 2: return choose<uint16_t>(row, to, room);
    case 4: return choose<uint32_t>(row, to, room);
    case 8: return choose<uint64_t>(row, to, room);
    default: return choose<std::array<uint64_t, 2>>(row, to, room);
  }
}

}  // namespace

bool compress(void*, std::span<const HostArray> arrays, graph::FlagRule) {
  const HostArray &mask = arrays[0], &x = arrays[1], &out = arrays[2];
  const auto item = static_cast<std::size_t>(graph::size_of(x.dtype));
  const std::size_t rank = mask.shape.size();
  const std::span<const int64_t> rest = std::span(x.shape).subspan(rank), rest_strides = std::span(x.strides).subspan(rank);
  int64_t block = static_cast<int64_t>(item);
  bool contiguous = true;
  for (std::size_t a = rest.size(); a-- > 0; block *= rest[a]) contiguous = contiguous && (rest[a] == 1 || rest_strides[a] == block);
  for (int64_t n : mask.shape)
    if (n == 0) return out.shape[0] == 0;
  std::vector<int64_t> position(rank, 0);
  int64_t room = out.shape[0];
  char* to = static_cast<char*>(out.data);
  const std::size_t inner = rank - 1;
  for (;;) {
    const char *m = static_cast<const char*>(mask.data), *from = static_cast<const char*>(x.data);
    for (std::size_t a = 0; a < inner; ++a) {
      m += position[a] * mask.strides[a];
      from += position[a] * x.strides[a];
    }
    const Row row{m, from, mask.shape[inner], mask.strides[inner], x.strides[inner]};
    if (block == static_cast<int64_t>(item)) {
      const int64_t chosen = choose(item, row, to, room);
      if (chosen < 0) return false;
      to += chosen * block;
      room -= chosen;
    } else {
      for (int64_t i = 0; i < row.length; ++i) {
        if (row.mask[i * row.mask_stride] == 0) continue;
        if (room-- == 0) return false;
        if (contiguous)
          to = static_cast<char*>(std::memcpy(to, row.from + i * row.stride, static_cast<std::size_t>(block))) + block;
        else
          copy_block(row.from + i * row.stride, rest, rest_strides, item, to);
      }
    }
    std::size_t a = inner;
    while (a > 0 && ++position[a - 1] == mask.shape[a - 1]) position[--a] = 0;
    if (a == 0) return room == 0;
  }
}

}  // namespace framejit::codegen
