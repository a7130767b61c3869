// The second product, a sum over rows, is a sum for each of a few parts of the rows, which threads share. How many
// there are depends on the shape alone, so that the result does not depend on the number of threads.
#include "runtime/product_pair.h"

#include <algorithm>
#include <set>

#include "runtime/product.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

using namespace codegen;
using graph::DType;

namespace {

constexpr int64_t kFar = 4;  // second-level caches: what is smaller is read from the next one soon enough
constexpr int64_t kPartBytes = 8 << 20, kMostParts = 8;  // of a part of the rows; parts
constexpr std::size_t kMostBetween = 16;                 // steps

/// A product of a matrix, with rows of contiguous elements, and a vector.
struct WithVector {
  const BoundMatMul* step = nullptr;
  const BoundOperand *matrix = nullptr, *vector = nullptr;
  int64_t rows = 0, columns = 0, pitch = 0;
  bool sums_rows = false;  // y A, else A x

  explicit WithVector(const BoundMatMul* product) {
    if (!product || product->narrowed || product->epilogue || product->producer || product->bias) return;
    const Product& p = product->product;
    if (p.way.empty || p.way.batches != 1 || p.narrow || p.windows || p.added || p.in_place() || p.summed != 1) return;
    const BoundOperand &a = p.way.swapped ? product->b : product->a, &b = p.way.swapped ? product->a : product->b;
    if (p.way.path == Product::Path::Dots && p.n == 1 && !p.copies_few(p.b_k))
      matrix = &a, vector = &b, rows = p.m, columns = p.k, pitch = p.a_row;
    else if (p.way.path == Product::Path::Row && p.m == 1)
      matrix = &b, vector = &a, rows = p.k, columns = p.n, pitch = p.b_k, sums_rows = true;
    if (matrix) step = product;
  }
};

bool is_same(const BoundOperand& a, const BoundOperand& b) { return a.buffer == b.buffer && a.offset == b.offset; }

bool has_one_matrix(const WithVector& x, const WithVector& y) {
  return x.step && y.step && x.sums_rows != y.sums_rows && is_same(*x.matrix, *y.matrix) && x.rows == y.rows &&
         x.columns == y.columns && x.pitch == y.pitch && x.step->product.core.item == y.step->product.core.item;
}

/// May the second product run at the place of the first one? What is in between must not make its operands, nor see its
/// result. Its vector may be the first one's result, an element of which is there when its row is wanted.
bool may_come_first(const Program& program, const Bound& bound, std::size_t first, std::size_t second,
                    const WithVector& x, const WithVector& y) {
  const BufferKind kind = program.buffers[y.step->c.buffer].kind;
  if (kind != BufferKind::Temp && kind != BufferKind::Result) return false;
  const bool follows = y.vector->buffer == x.step->c.buffer;
  if (follows && !(y.sums_rows && is_same(*y.vector, x.step->c) && x.step->product.c_row == y.step->product.a_k))
    return false;
  bool clear = true;
  for (std::size_t i = first; i < second; ++i)
    for_each_buffer(program, bound, i, [&](BufferIndex buffer, bool written) {
      const bool is_own = buffer == y.step->c.buffer;
      const bool is_operand = buffer == y.matrix->buffer || (buffer == y.vector->buffer && !(follows && i == first));
      clear = clear && !is_own && !(written && is_operand);
    });
  return clear;
}

bool stands_alone(const Bound& bound, std::size_t i) {
  return bound.wave_end[i] == i + 1 && (i == 0 || bound.wave_end[i - 1] == i);
}

}  // namespace

void find_product_pairs(const Program& program, Bound& bound) {
  bound.pairs.clear();
  if (!program.measured.empty() || program.per_call_flags || !program.flag_rules.empty()) return;
  const auto is_flow = [](const BoundStep& step) { return std::holds_alternative<BoundFlow>(step); };
  if (std::any_of(bound.steps.begin(), bound.steps.end(), is_flow)) return;
  std::set<std::size_t> taken;
  for (std::size_t i = 0; i < bound.steps.size(); ++i) {
    const WithVector x(product_of(bound.steps[i]));
    if (!x.step || taken.contains(i) || !stands_alone(bound, i)) continue;
    const DType dtype = std::get<MatMulStep>(program.steps[i]).c.dtype;
    const int64_t row = x.columns * x.step->product.core.item, bytes = x.rows * row;
    if ((dtype != DType::F32 && dtype != DType::F64) || bytes < kFar * x.step->product.l2_bytes) continue;
    for (std::size_t j = i + 1; j < std::min(bound.steps.size(), i + kMostBetween); ++j) {
      const WithVector y(product_of(bound.steps[j]));
      if (taken.contains(j) || !stands_alone(bound, j) || !has_one_matrix(x, y) ||
          !may_come_first(program, bound, i, j, x, y))
        continue;
      const int64_t parts = std::clamp<int64_t>(bytes / kPartBytes, 1, kMostParts);
      const int64_t together = MatMulCore::kRowDepth;  // rows
      const int64_t block = std::max<int64_t>(1, x.step->product.l2_bytes / 2 / (row * together)) * together;
      bound.pairs.push_back({i, j, parts, block, (parts - 1) * row});
      taken.insert({i, j});
      break;
    }
  }
}

void execute_product_pair(const Bound& bound, const ProductPair& pair, char* partials, RunState& state) {
  const WithVector x(product_of(bound.steps[pair.first])), y(product_of(bound.steps[pair.second]));
  const WithVector &dots = x.sums_rows ? y : x, &sums = x.sums_rows ? x : y;
  const auto at = [&](const BoundOperand& o) { return state.buffers[o.buffer] + o.offset; };
  const char* const matrix = at(*dots.matrix);
  const int64_t rows = dots.rows, item = dots.step->product.core.item;
  const auto row_of = [&](int64_t part) { return rows * part / pair.parts / pair.block * pair.block; };
  run_pieces(pair.parts, 1, dots.step->product.nanoseconds, true, state, [&](int64_t begin, int64_t end) {
    Product few = dots.step->product, row = sums.step->product;
    few.way.swapped = row.way.swapped = false;  // operands are given as they are computed with
    for (int64_t part = begin; part < end; ++part) {
      char* const sum = part == 0 ? at(sums.step->c) : partials + (part - 1) * sums.columns * item;
      const int64_t first = row_of(part), last = part + 1 == pair.parts ? rows : row_of(part + 1);
      for (int64_t top = first; top < last; top += pair.block) {
        few.m = row.k = std::min(pair.block, last - top);
        row.added = top > first;
        const char* const block = matrix + top * dots.pitch;
        run_product_here(few, block, at(*dots.vector), at(dots.step->c) + top * few.c_row, nullptr);
        run_product_here(row, at(*sums.vector) + top * row.a_k, block, sum, nullptr);
      }
    }
  });
  if (state.stopped()) return;
  const auto add = [&]<class T>(T) {
    auto* const to = reinterpret_cast<T*>(at(sums.step->c));
    for (int64_t part = 1; part < pair.parts; ++part) {
      const auto* const from = reinterpret_cast<const T*>(partials + (part - 1) * sums.columns * item);
      for (int64_t i = 0; i < sums.columns; ++i) to[i] += from[i];
    }
  };
  if (item == sizeof(double)) add(double{});
  else add(float{});
}

}  // namespace framejit::runtime
