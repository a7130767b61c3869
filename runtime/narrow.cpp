#include "runtime/narrow.h"

#include <algorithm>
#include <cstring>

#include "graph/support/check.h"
#include "runtime/execute.h"

namespace framejit::runtime {

namespace {

constexpr int64_t kStretch = 64;  // elements
constexpr int64_t kRoundedAtOnce = 4096;
constexpr int64_t kAlignment = 64;

int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

/// Elements in the low bits.
struct Rounded {
  using Narrow = uint16_t;
  static constexpr int64_t kItem = 4;
  static uint32_t at(const char* from) {
    uint32_t bits;
    std::memcpy(&bits, from, 4);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;
  }
};
template <class Element, int64_t kBytes>
struct Low {
  using Narrow = Element;
  static constexpr int64_t kItem = kBytes;
  static uint32_t at(const char* from) {
    Element bits;
    std::memcpy(&bits, from, sizeof bits);
    return bits;
  }
};
using Low16 = Low<uint16_t, 4>;
using Low8 = Low<uint8_t, 4>;
using Whole16 = Low<uint16_t, 2>;
using Whole8 = Low<uint8_t, 1>;

template <class Element>
constexpr int64_t kGroup = 4 / sizeof(typename Element::Narrow);

#define FRAMEJIT_WIDE [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]]

/// One line of groups: of `rows` rows, the first one lowest.
template <class Element>
FRAMEJIT_WIDE void line(const char* from, int64_t along_k, int64_t rows, int64_t step, int64_t count, int64_t out_step,
                        char* out) {
  constexpr int64_t kItem = Element::kItem, kRows = kGroup<Element>, kBits = 32 / kRows;
  const auto group = [&](int64_t i, int64_t of) {
    uint32_t bits = 0;
    for (int64_t row = 0; row < of; ++row) bits |= Element::at(from + row * along_k + i) << row * kBits;
    return bits;
  };
  const auto put = [&](int64_t i, uint32_t bits) { std::memcpy(out + i, &bits, 4); };
  if (rows < kRows)
    for (int64_t i = 0; i < count; ++i) put(i * out_step, group(i * step, rows));
  else if (step == kItem && out_step == 4)
    for (int64_t i = 0; i < count; ++i) put(i * 4, group(i * kItem, kRows));
  else
    for (int64_t i = 0; i < count; ++i) put(i * out_step, group(i * step, kRows));
}

/// Elements that are contiguous, and stay so.
template <class Element>
FRAMEJIT_WIDE void row(const char* from, int64_t count, char* out) {
  using Narrow = typename Element::Narrow;
  constexpr int64_t kItem = Element::kItem, kBytes = sizeof(Narrow);
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<Narrow>(Element::at(from + i * kItem));
    std::memcpy(out + i * kBytes, &element, sizeof element);
  }
}

#undef FRAMEJIT_WIDE

/// Elements [first, first + count) of the other axis, all of k.
template <class Element>
void narrow_stretch(const NarrowOperand& n, const char* from, int64_t count, char* out) {
  constexpr int64_t kRows = kGroup<Element>;
  const int64_t groups = divide_up(n.k, kRows);
  if (n.along_k == Element::kItem && n.out_along_k == 4) {
    const int64_t bytes = 4 / kRows * n.k;
    for (int64_t i = 0; i < count; ++i) {
      row<Element>(from + i * n.step, n.k, out + i * n.out_step);
      std::memset(out + i * n.out_step + bytes, 0, static_cast<std::size_t>(4 * n.groups - bytes));
    }
    return;
  }
  for (int64_t group = 0; group < groups; ++group)
    line<Element>(from + kRows * group * n.along_k, n.along_k, std::min(kRows, n.k - kRows * group), n.step, count,
                  n.out_step, out + group * n.out_along_k);
  for (int64_t group = groups; group < n.groups; ++group)
    for (int64_t i = 0; i < count; ++i) std::memset(out + group * n.out_along_k + i * n.out_step, 0, 4);
}

auto stretch_of(Narrowed from) {
  switch (from) {
    case Narrowed::Rounded: return narrow_stretch<Rounded>;
    case Narrowed::Low16: return narrow_stretch<Low16>;
    case Narrowed::Low8: return narrow_stretch<Low8>;
    case Narrowed::Whole16: return narrow_stretch<Whole16>;
    case Narrowed::Whole8: break;
  }
  return narrow_stretch<Whole8>;
}

/// An operand as groups along k, in stretches of the other axis that the first-level cache holds.
void narrow(const NarrowOperand& n, const char* from, char* to, RunState& state) {
  const int64_t stretch = std::clamp<int64_t>(n.panel, 1, kStretch), stretches = divide_up(n.length, stretch);
  const double cost = static_cast<double>(n.matrices * n.length * n.k) / 2;
  run_pieces(n.matrices * stretches, 1, cost, true, state, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const char* matrix = from;
      int64_t rest = piece / stretches;
      for (std::size_t i = n.batch.size(); i-- > 0; rest /= n.batch[i].first)
        matrix += rest % n.batch[i].first * n.batch[i].second;
      const int64_t first = piece % stretches * stretch, count = std::min(stretch, n.length - first);
      char* const out =
          to + piece / stretches * n.out_matrix + first / n.panel * n.out_panel + first % n.panel * n.out_step;
      stretch_of(n.from)(n, matrix + first * n.step, count, out);
    }
  });
}

}  // namespace

NarrowOperands take_groups(Product& p, Narrowed from, const void* code, bool in_amx) {
  using codegen::AmxCore;
  const int64_t whole = divide_up(p.k, group_of(from)), groups = in_amx ? round_up(whole, AmxCore::kSide) : whole;
  // Rows of A in tiles are an odd number of cache lines apart, so that those of a register are not all in a few sets of
  // the cache.
  const int64_t a_row = in_amx ? (4 * groups) | AmxCore::kRowBytes : 4 * groups,
                panel = in_amx ? 2 * AmxCore::kSide : p.n;
  const int64_t b_k = 4 * panel;
  NarrowOperands out{{from, p.k, groups, p.m, p.a_k, p.a_row, 4, a_row, p.m, p.m * a_row, p.m * a_row, 1, 0, {}},
                     {from,
                      p.k,
                      groups,
                      p.n,
                      p.b_k,
                      p.b_column,
                      b_k,
                      4,
                      panel,
                      groups * b_k,
                      p.n == 0 ? 0 : groups * b_k * divide_up(p.n, panel),
                      1,
                      0,
                      {}}};
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
  p.in_amx = in_amx;
  p.code = code;
  p.k = groups;
  p.a_row = a_row, p.a_k = 4;
  p.b_k = b_k, p.b_column = 4;
  return out;
}

void run_narrowed(const Product& product, const NarrowOperands& operands, const char* a, const char* b, char* c,
                  RunState& state, const FinishedTile* finished, const char* bias) {
  char* const memory = state.reserve;
  state.reserve += operands.bytes();
  narrow(operands.a, a, memory, state);
  narrow(operands.b, b, memory + operands.a.bytes, state);
  run_product(product, memory, memory + operands.a.bytes, c, state, finished, nullptr, nullptr, bias);
  state.reserve = memory;
}

void narrow_sums(Narrowed from, const char* sums, char* to, int64_t count, RunState& state) {
  FRAMEJIT_CHECK(from <= Narrowed::Low8, "of 32 bits");
  const auto convert = from == Narrowed::Rounded ? row<Rounded> : from == Narrowed::Low16 ? row<Low16> : row<Low8>;
  run_pieces(count, kRoundedAtOnce, static_cast<double>(count) / 4, true, state, [&](int64_t begin, int64_t end) {
    convert(sums + 4 * begin, end - begin, to + 4 / group_of(from) * begin);
  });
}

}  // namespace framejit::runtime
