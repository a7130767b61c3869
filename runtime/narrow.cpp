#include "runtime/narrow.h"

#include <algorithm>
#include <cstring>

#include "runtime/execute.h"

namespace framejit::runtime {

namespace {

constexpr int64_t kStretch = 64;        // elements
constexpr int64_t kRoundedAtOnce = 4096;
constexpr int64_t kAlignment = 64;

int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

/// Elements as the low half of a pair.
struct Rounded {
  static constexpr int64_t kItem = 4;
  static uint32_t at(const char* from) {
    uint32_t bits;
    std::memcpy(&bits, from, 4);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;
  }
};
struct Whole {
  static constexpr int64_t kItem = 2;
  static uint32_t at(const char* from) {
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    return bits;
  }
};

#define FRAMEJIT_WIDE [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]

/// One line of pairs: elements of `first`, and those of `second`, above them; null where k has no such row.
template <class Element>
FRAMEJIT_WIDE void line(const char* first, const char* second, int64_t step, int64_t count, int64_t out_step, char* out) {
  const auto put = [&](int64_t i, uint32_t pair) { std::memcpy(out + i * out_step, &pair, 4); };
  constexpr int64_t kItem = Element::kItem;
  if (!second)
    for (int64_t i = 0; i < count; ++i) put(i, Element::at(first + i * step));
  else if (step == kItem && out_step == 4)
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t pair = Element::at(first + i * kItem) | Element::at(second + i * kItem) << 16;
      std::memcpy(out + i * 4, &pair, 4);
    }
  else
    for (int64_t i = 0; i < count; ++i) put(i, Element::at(first + i * step) | Element::at(second + i * step) << 16);
}

/// Elements that are contiguous, and stay so.
template <class Element>
FRAMEJIT_WIDE void row(const char* from, int64_t count, char* out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<uint16_t>(Element::at(from + i * Element::kItem));
    std::memcpy(out + i * 2, &element, 2);
  }
}

#undef FRAMEJIT_WIDE

/// Elements [first, first + count) of the other axis, all of k.
template <class Element>
void narrow_stretch(const NarrowOperand& n, const char* from, int64_t count, char* out) {
  const int64_t pairs = divide_up(n.k, 2);
  if (n.along_k == Element::kItem && n.out_along_k == 4) {
    for (int64_t i = 0; i < count; ++i) {
      row<Element>(from + i * n.step, n.k, out + i * n.out_step);
      std::memset(out + i * n.out_step + 2 * n.k, 0, static_cast<std::size_t>(4 * n.pairs - 2 * n.k));
    }
    return;
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const char* const low = from + 2 * pair * n.along_k;
    line<Element>(low, 2 * pair + 1 < n.k ? low + n.along_k : nullptr, n.step, count, n.out_step, out + pair * n.out_along_k);
  }
  for (int64_t pair = pairs; pair < n.pairs; ++pair)
    for (int64_t i = 0; i < count; ++i) std::memset(out + pair * n.out_along_k + i * n.out_step, 0, 4);
}

/// An operand as pairs along k, in stretches of the other axis that the first-level cache holds.
void narrow(const NarrowOperand& n, const char* from, char* to, RunState& state) {
  const int64_t stretch = std::clamp<int64_t>(n.panel, 1, kStretch), stretches = divide_up(n.length, stretch);
  const double cost = static_cast<double>(n.matrices * n.length * n.k) / 2;
  run_pieces(n.matrices * stretches, 1, cost, true, state, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const char* matrix = from;
      int64_t rest = piece / stretches;
      for (std::size_t i = n.batch.size(); i-- > 0; rest /= n.batch[i].first) matrix += rest % n.batch[i].first * n.batch[i].second;
      const int64_t first = piece % stretches * stretch, count = std::min(stretch, n.length - first);
      char* const out = to + piece / stretches * n.out_matrix + first / n.panel * n.out_panel + first % n.panel * n.out_step;
      (n.item == 4 ? narrow_stretch<Rounded> : narrow_stretch<Whole>)(n, matrix + first * n.step, count, out);
    }
  });
}

}  // namespace

NarrowOperands take_pairs(Product& p, int64_t item, const void* code, bool in_tiles) {
  using codegen::TileCore;
  const int64_t pairs = in_tiles ? round_up(divide_up(p.k, 2), TileCore::kSide) : divide_up(p.k, 2);
  // Rows of A in tiles are an odd number of cache lines apart, so that those of a register are not all in a few sets of the cache.
  const int64_t a_row = in_tiles ? (4 * pairs) | TileCore::kRowBytes : 4 * pairs, panel = in_tiles ? 2 * TileCore::kSide : p.n;
  const int64_t b_k = 4 * panel;
  NarrowOperands out{{item, p.k, pairs, p.m, p.a_k, p.a_row, 4, a_row, p.m, p.m * a_row, p.m * a_row, 1, 0, {}},
                     {item, p.k, pairs, p.n, p.b_k, p.b_column, b_k, 4, panel, pairs * b_k, p.n == 0 ? 0 : pairs * b_k * divide_up(p.n, panel), 1, 0, {}}};
  for (std::size_t i = p.batch.size(); i-- > 0;) {
    const auto gather = [&](NarrowOperand& n, int64_t& distance) {
      if (distance == 0) return;
      n.batch.insert(n.batch.begin(), {p.batch[i].extent, distance});
      distance = n.out_matrix * n.matrices;
      n.matrices *= p.batch[i].extent;
    };
    gather(out.a, p.batch[i].a);
    gather(out.b, p.batch[i].b);
  }
  for (NarrowOperand* n : {&out.a, &out.b}) n->bytes = round_up(n->out_matrix * n->matrices, kAlignment);
  p.narrow = true;
  p.in_tiles = in_tiles;
  p.code = code;
  p.k = pairs;
  p.a_row = a_row, p.a_k = 4;
  p.b_k = b_k, p.b_column = 4;
  return out;
}

void run_narrowed(const Product& product, const NarrowOperands& operands, const char* a, const char* b, char* c, RunState& state,
                  const FinishedTile* finished, const char* bias) {
  char* const memory = state.reserve;
  state.reserve += operands.bytes();
  narrow(operands.a, a, memory, state);
  narrow(operands.b, b, memory + operands.a.bytes, state);
  run_product(product, memory, memory + operands.a.bytes, c, state, finished, nullptr, nullptr, bias);
  state.reserve = memory;
}

void round_to_bfloat16(const char* from, char* to, int64_t count, RunState& state) {
  run_pieces(count, kRoundedAtOnce, static_cast<double>(count) / 4, true, state,
             [&](int64_t begin, int64_t end) { row<Rounded>(from + 4 * begin, end - begin, to + 2 * begin); });
}

}  // namespace framejit::runtime
