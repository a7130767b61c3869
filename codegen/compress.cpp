// Walks over the mask in C order. Single elements are chosen without a branch: each is stored where the next chosen one
// belongs.
#include "codegen/compress.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/cpu.h"
#include "codegen/elements.h"
#include "codegen/mask_lanes.h"

#define FRAMEJIT_INLINE __attribute__((always_inline))

namespace framejit::codegen {

namespace {

/// Copies one block of the axes behind the mask's; its elements lie by `strides`.
void copy_block(const char* from, std::span<const int64_t> shape, std::span<const int64_t> strides, std::size_t item,
                char*& to) {
  if (shape.empty()) {
    std::memcpy(to, from, item);
    to += item;
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    copy_block(from + i * strides[0], shape.subspan(1), strides.subspan(1), item, to);
}

struct Row {
  const char* mask;
  int64_t length, mask_stride;
};

/// Are the first `count` bytes, a multiple of eight, all zero?
inline bool is_all_zero(const char* bytes, int count) {
  uint64_t any = 0;
  for (int i = 0; i < count; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes + i, sizeof eight);
    any |= eight;
  }
  return any == 0;
}

/// Calls f(i, is it true) along a row, but for runs of 64, and of eight, that are all false.
template <class F>
void for_each_of(const Row& row, F&& f) {
  int64_t i = 0;
  if (row.mask_stride == 1)
    while (i + 8 <= row.length) {
      if (i + 64 <= row.length && is_all_zero(row.mask + i, 64)) {
        i += 64;
        continue;
      }
      const int64_t end = std::min(i + 64, row.length - 7);
      for (; i < end; i += 8) {
        if (is_all_zero(row.mask + i, 8)) continue;
        for (int64_t k = i; k < i + 8; ++k) f(k, row.mask[k] != 0);
      }
    }
  for (; i < row.length; ++i) f(i, row.mask[i * row.mask_stride] != 0);
}

/// Calls f(position, how many elements there are, which of them are true) for each vector of a row, until it answers
/// false; if `skips`, not for those without a True. Before, it calls all(position) for 64 elements that are all true;
/// if that does them, f is not called for them.
template <class L, bool skips, class F, class All>
FRAMEJIT_INLINE inline bool for_each_vector(const Row& row, F&& f, All&& all) {
  for (int64_t i = 0; i < row.length; i += 64) {
    const int64_t count = std::min<int64_t>(64, row.length - i);
    uint64_t takes = L::true_bytes(row.mask + i, count);
    if (takes == ~uint64_t{0} && all(i)) continue;
    for (int64_t k = 0; k < count && !(skips && takes == 0); k += L::kCount, takes >>= L::kCount) {
      const auto some = static_cast<uint32_t>(takes & ((1u << L::kCount) - 1));
      if (!(skips && some == 0) && !f(i + k, std::min(L::kCount, count - k), some)) return false;
    }
  }
  return true;
}

// Work in the lanes of L, on a row of a mask, all elements of an array in one piece, and in another piece those few
// that are true, for which there is room for `room`. It gives how many are true, or -1 if that does not fit.

/// The few get what all have.
struct Compress {
  using All = const char*;
  using Few = char*;
  template <class L>
  FRAMEJIT_INLINE static int64_t run(const Row& row, const char* all, char* few, int64_t room) {
    int64_t chosen = 0;
    const auto some_of = [&](int64_t i, int64_t count, uint32_t some) FRAMEJIT_INLINE {
      const int64_t more = std::popcount(some);
      if (chosen + more > room) return false;
      L::compress(all + i * L::kItem, count, some, few + chosen * L::kItem, room - chosen);
      chosen += more;
      return true;
    };
    const auto all_of = [&](int64_t i) FRAMEJIT_INLINE {
      if (chosen + 64 > room) return false;
      std::memcpy(few + chosen * L::kItem, all + i * L::kItem, static_cast<std::size_t>(64 * L::kItem));
      chosen += 64;
      return true;
    };
    return for_each_vector<L, true>(row, some_of, all_of) ? chosen : -1;
  }
};

/// All get what the few have; those that are not true become 0, or stay.
template <bool kZeroes>
struct Spread {
  using All = char*;
  using Few = const char*;
  template <class L>
  FRAMEJIT_INLINE static int64_t run(const Row& row, char* all, const char* few, int64_t room) {
    int64_t taken = 0;
    const auto some_of = [&](int64_t i, int64_t count, uint32_t some) FRAMEJIT_INLINE {
      const int64_t more = std::popcount(some);
      if (taken + more > room) return false;
      const char* const from = few + taken * L::kItem;
      if constexpr (kZeroes) L::expand(from, room - taken, some, all + i * L::kItem, count);
      else L::put(from, room - taken, some, all + i * L::kItem);
      taken += more;
      return true;
    };
    const auto all_of = [](int64_t) FRAMEJIT_INLINE { return false; };
    return for_each_vector<L, !kZeroes>(row, some_of, all_of) ? taken : -1;
  }
};

template <class Work, class T>
FRAMEJIT_IN_WIDE_VECTORS int64_t in_wide_vectors(const Row& row, typename Work::All all, typename Work::Few few,
                                                 int64_t room) {
  return Work::template run<WideLanes<T>>(row, all, few, room);
}

template <class Work, class T>
FRAMEJIT_IN_VECTORS int64_t in_narrow_vectors(const Row& row, typename Work::All all, typename Work::Few few,
                                              int64_t room) {
  return Work::template run<Lanes<T>>(row, all, few, room);
}

bool has_wide_vectors() { return detected_cpu().isa == Isa::Avx512; }

template <class Work, class T>
int64_t in_vectors(const Row& row, typename Work::All all, typename Work::Few few, int64_t room) {
  return has_wide_vectors() ? in_wide_vectors<Work, T>(row, all, few, room)
                            : in_narrow_vectors<Work, T>(row, all, few, room);
}

/// The places where a row is true, as far as there is room for whole vectors; how many there are, and how far it got.
template <class L>
FRAMEJIT_INLINE inline std::pair<int64_t, int64_t> places_of(const Row& row, int64_t* at, int64_t room) {
  int64_t found = 0, i = 0;
  for (; i + 64 <= row.length && found + 64 <= room; i += 64) {
    uint64_t takes = L::true_bytes(row.mask + i, 64);
    for (int64_t k = 0; k < 64; k += L::kCount, takes >>= L::kCount) {
      const auto some = static_cast<uint32_t>(takes & ((1u << L::kCount) - 1));
      L::places(i + k, some, at + found);
      found += std::popcount(some);
    }
  }
  return {found, i};
}

FRAMEJIT_IN_WIDE_VECTORS std::pair<int64_t, int64_t> places_in_wide_vectors(const Row& row, int64_t* at, int64_t room) {
  return places_of<WideLanes<int64_t>>(row, at, room);
}

FRAMEJIT_IN_VECTORS std::pair<int64_t, int64_t> places_in_narrow_vectors(const Row& row, int64_t* at, int64_t room) {
  return places_of<Lanes<int64_t>>(row, at, room);
}

template <class L>
FRAMEJIT_INLINE inline int64_t count_of(const Row& row) {
  int64_t count = 0;
  for (int64_t i = 0; i < row.length; i += 64)
    count += std::popcount(L::true_bytes(row.mask + i, std::min<int64_t>(64, row.length - i)));
  return count;
}

FRAMEJIT_IN_WIDE_VECTORS int64_t count_in_wide_vectors(const Row& row) { return count_of<WideLanes<int64_t>>(row); }

FRAMEJIT_IN_VECTORS int64_t count_in_narrow_vectors(const Row& row) { return count_of<Lanes<int64_t>>(row); }

/// Can elements of `item` bytes, of which two are `stride` bytes apart, be moved in vectors?
bool has_vectors(const Row& row, int64_t item, int64_t stride) {
  return item >= 4 && row.mask_stride == 1 && stride == item && detected_cpu().isa != Isa::None;
}

/// Elements of one size along a row of the array, to `few`, where there is room for `room`; how many, or -1 where it
/// does not do.
template <class T>
int64_t compress_row(const Row& row, const char* all, int64_t stride, char* few, int64_t room) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  if constexpr (kItem >= 4)
    if (has_vectors(row, kItem, stride)) return in_vectors<Compress, T>(row, all, few, room);
  int64_t chosen = 0;
  bool fits = true;
  for_each_of(row, [&](int64_t i, bool takes) {
    if (chosen == room) {
      fits = fits && !takes;
      return;
    }
    std::memcpy(few + chosen * kItem, all + i * stride, sizeof(T));
    chosen += takes;
  });
  return fits ? chosen : -1;
}

/// The same back, into memory in one piece.
template <class T>
int64_t expand_row(const Row& row, char* all, const char* few, int64_t stride, int64_t room) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  if constexpr (kItem >= 4)
    if (has_vectors(row, kItem, stride)) return in_vectors<Spread<true>, T>(row, all, few, room);
  std::memset(all, 0, static_cast<std::size_t>(row.length * kItem));
  if (room == 0) return 0;
  int64_t taken = 0;
  for_each_of(row, [&](int64_t i, bool takes) {
    T element;
    std::memcpy(&element, few + std::min(taken, room - 1) * stride, sizeof(T));
    const T nothing{};
    std::memcpy(all + i * kItem, takes ? &element : &nothing, sizeof(T));
    taken += takes;
  });
  return taken <= room ? taken : -1;
}

/// Elements to the places of a row that are true, the others stay; how many, or -1 where there is not one for each.
template <class T>
int64_t put_row(const Row& row, char* all, int64_t all_stride, const char* few, int64_t few_stride, int64_t room) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  if constexpr (kItem >= 4)
    if (has_vectors(row, kItem, all_stride) && few_stride == kItem)
      return in_vectors<Spread<false>, T>(row, all, few, room);
  int64_t taken = 0;
  for_each_of(row, [&](int64_t i, bool takes) {
    if (takes && taken < room) std::memcpy(all + i * all_stride, few + taken * few_stride, sizeof(T));
    taken += takes;
  });
  return taken;
}

/// The axes behind the mask's, as one block of bytes.
struct Block {
  Block(std::span<const int64_t> lengths, std::span<const int64_t> byte_strides, std::size_t itemsize)
      : shape(lengths), strides(byte_strides), item(itemsize), bytes(static_cast<int64_t>(itemsize)) {
    for (std::size_t a = shape.size(); a-- > 0; bytes *= shape[a])
      contiguous = contiguous && (shape[a] == 1 || strides[a] == bytes);
  }
  int64_t itemsize() const { return static_cast<int64_t>(item); }
  bool is_element() const { return bytes == itemsize(); }
  void copy(const char* from, char* to) const {
    if (contiguous) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    else copy_block(from, shape, strides, item, to);
  }
  std::span<const int64_t> shape, strides;
  std::size_t item;
  int64_t bytes;
  bool contiguous = true;
};

/// Calls f(row, offset into the mask's array by `strides`, index of the row) for each row of a mask in C order, until
/// it answers false.
template <class F>
bool for_each_row(const StridedArray& mask, std::span<const int64_t> strides, F&& f) {
  const std::size_t rank = mask.shape.size();
  for (int64_t n : mask.shape)
    if (n == 0) return true;
  std::vector<int64_t> position(rank, 0);
  for (;;) {
    int64_t of_mask = 0, of_array = 0;
    for (std::size_t a = 0; a + 1 < rank; ++a)
      of_mask += position[a] * mask.strides[a], of_array += position[a] * strides[a];
    if (!f(Row{mask.data + of_mask, mask.shape[rank - 1], mask.strides[rank - 1]}, of_array,
           std::span<const int64_t>(position)))
      return false;
    std::size_t a = rank - 1;
    while (a > 0 && ++position[a - 1] == mask.shape[a - 1]) position[--a] = 0;
    if (a == 0) return true;
  }
}

/// Do elements of `bytes` bytes lie in C order without gaps?
bool is_packed(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t bytes) {
  for (std::size_t a = shape.size(); a-- > 0; bytes *= shape[a])
    if (shape[a] != 1 && strides[a] != bytes) return false;
  return true;
}

/// Calls f(row, offset by `strides`, distance of its blocks) for each row of a mask, or once if all of them are one row
/// of blocks of `bytes` bytes; until it answers false.
template <class F>
bool for_each_run(const StridedArray& mask, std::span<const int64_t> strides, int64_t bytes, F&& f) {
  const std::size_t rank = mask.shape.size();
  if (is_packed(mask.shape, mask.strides, 1) && is_packed(mask.shape, strides.first(rank), bytes)) {
    int64_t length = 1;
    for (int64_t n : mask.shape) length *= n;
    return f(Row{mask.data, length, 1}, 0, bytes);
  }
  return for_each_row(mask, strides, [&](const Row& row, int64_t offset, std::span<const int64_t>) {
    return f(row, offset, strides[rank - 1]);
  });
}

}  // namespace

bool compress(void*, std::span<const StridedArray> arrays, graph::FlagRule) {
  const StridedArray &mask = arrays[0], &x = arrays[1], &out = arrays[2];
  const std::size_t rank = mask.shape.size();
  const Block block(x.shape.subspan(rank), x.strides.subspan(rank), static_cast<std::size_t>(graph::size_of(x.dtype)));
  int64_t room = out.shape[0];
  if (room == 0) return true;
  char* few = out.data;
  const bool fits = for_each_run(mask, x.strides, block.bytes, [&](const Row& row, int64_t offset, int64_t stride) {
    const char* all = x.data + offset;
    int64_t chosen = 0;
    if (block.is_element()) {
      chosen = with_element(block.itemsize(), [&]<class T>() { return compress_row<T>(row, all, stride, few, room); });
    } else {
      for_each_of(row, [&](int64_t i, bool takes) {
        if (takes && chosen < room) block.copy(all + i * stride, few + chosen * block.bytes);
        chosen += takes;
      });
    }
    if (chosen < 0 || chosen > room) return false;
    few += chosen * block.bytes;
    room -= chosen;
    return true;
  });
  return fits && room == 0;
}

bool nonzero(void*, std::span<const StridedArray> arrays, graph::FlagRule) {
  const StridedArray &mask = arrays[0], &out = arrays[1];
  const auto rank = static_cast<int64_t>(mask.shape.size());
  int64_t room = out.shape[0];
  if (room == 0) return true;
  auto* at = reinterpret_cast<int64_t*>(out.data);
  const bool fits = for_each_row(mask, mask.strides, [&](const Row& row, int64_t, std::span<const int64_t> position) {
    int64_t found = 0, done = 0;
    if (rank == 1 && has_vectors(row, 8, 8))
      std::tie(found, done) =
          has_wide_vectors() ? places_in_wide_vectors(row, at, room) : places_in_narrow_vectors(row, at, room);
    int64_t* const last = at + rank - 1;
    for_each_of({row.mask + done * row.mask_stride, row.length - done, row.mask_stride},
                [&, most = room](int64_t i, bool takes) {
                  if (found < most) last[found * rank] = done + i;
                  found += takes;
                });
    if (found > room) return false;
    for (int64_t k = 0; rank > 1 && k < found; ++k) std::copy_n(position.begin(), rank - 1, at + k * rank);
    at += found * rank;
    room -= found;
    return true;
  });
  return fits && room == 0;
}

bool expand(void*, std::span<const StridedArray> arrays, graph::FlagRule) {
  const StridedArray &mask = arrays[0], &x = arrays[1], &out = arrays[2];
  const Block block(x.shape.subspan(1), x.strides.subspan(1), static_cast<std::size_t>(graph::size_of(x.dtype)));
  int64_t room = x.shape[0];
  const char* few = x.data;
  const bool fits = for_each_run(mask, out.strides, block.bytes, [&](const Row& row, int64_t offset, int64_t stride) {
    char* all = out.data + offset;
    int64_t taken = 0;
    if (block.is_element()) {
      taken =
          with_element(block.itemsize(), [&]<class T>() { return expand_row<T>(row, all, few, x.strides[0], room); });
    } else {
      std::memset(all, 0, static_cast<std::size_t>(row.length * block.bytes));
      for_each_of(row, [&](int64_t i, bool takes) {
        if (takes && taken < room) block.copy(few + taken * x.strides[0], all + i * stride);
        taken += takes;
      });
    }
    if (taken < 0 || taken > room) return false;
    few += taken * x.strides[0];
    room -= taken;
    return true;
  });
  return fits && room == 0;
}

int64_t count_true(const StridedArray& mask) {
  int64_t count = 0;
  for_each_run(mask, mask.strides, 1, [&](const Row& row, int64_t, int64_t) {
    if (has_vectors(row, 8, 8)) count += has_wide_vectors() ? count_in_wide_vectors(row) : count_in_narrow_vectors(row);
    else for_each_of(row, [&](int64_t, bool takes) { count += takes; });
    return true;
  });
  return count;
}

bool put_masked(const StridedArray& mask, const StridedArray& values, const StridedArray& out) {
  const std::size_t rank = mask.shape.size();
  const Block to(out.shape.subspan(rank), out.strides.subspan(rank),
                 static_cast<std::size_t>(graph::size_of(out.dtype)));
  const Block from(values.shape.subspan(1), values.strides.subspan(1), to.item);
  const int64_t step = values.strides[0];
  int64_t room = values.shape[0];
  const char* few = values.data;
  const bool fits = for_each_run(mask, out.strides, to.bytes, [&](const Row& row, int64_t offset, int64_t stride) {
    char* all = out.data + offset;
    int64_t taken = 0;
    if (to.is_element()) {
      taken = with_element(to.itemsize(), [&]<class T>() { return put_row<T>(row, all, stride, few, step, room); });
    } else {
      for_each_of(row, [&](int64_t i, bool takes) {
        if (takes && taken < room)
          to.contiguous
              ? from.copy(few + taken * step, all + i * stride)
              : copy_elements(few + taken * step, from.strides, all + i * stride, to.strides, to.shape, to.itemsize());
        taken += takes;
      });
    }
    if (taken < 0 || taken > room) return false;
    few += taken * step;
    room -= taken;
    return true;
  });
  return fits && room == 0;
}

}  // namespace framejit::codegen
