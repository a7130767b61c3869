// Matrix products: which way of computing one is chosen, by its shape and strides alone (product.h).
#include <algorithm>
#include <limits>
#include <utility>

#include "graph/support/check.h"
#include "runtime/product_parts.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kManyLines =
    2 << 10;  // bytes; rows that lie multiples of it apart share a few lines of the first-level cache
constexpr int64_t kWaits = 4;
constexpr double kByteNanoseconds = 0.025;

}  // namespace

void Product::plan() {
  const int64_t item = core.item, lanes = core.lanes;
  if (factor == 0) factor = item;
  if (summed == 0) k = 0, summed = 1;
  if (windows && (k == 0 || n == 0 || m == 0 || windows->is_matrix(item))) {
    b_k = windows->channel, b_column = item;
    if (windows->transposed) std::swap(b_k, b_column);
    windows.reset();
  }
  // The stride of an axis with one element does not matter.
  if (k <= 1) a_k = factor, b_k = b_column == factor ? b_k : factor;
  if (n <= 1) b_column = factor;
  FRAMEJIT_CHECK(!windows || a_k == item, "rows of weights are contiguous");
  way.matrix_rows = m;
  // Matrices of A that follow each other and meet the same B are one matrix.
  while (!batch.empty() && batch.back().b == 0 && batch.back().a == m * a_row && batch.back().c == m * c_row) {
    m *= batch.back().extent;
    batch.pop_back();
  }
  way.rows = m;
  way.batches = 1;
  for (const Axis& axis : batch) way.batches *= axis.extent;
  way.empty = way.batches == 0 || m == 0 || n == 0;
  const double elements = static_cast<double>(way.batches) * static_cast<double>(m) * static_cast<double>(n);
  nanoseconds = 2 * elements * static_cast<double>(k * summed) / (in_amx ? 800.0 : item == 4 ? 100.0 : 50.0);
  // Few rows or columns wait for the other factor, which comes from the third-level cache at best.
  if (!windows && std::min(m, n) <= kWaits)
    nanoseconds = std::max(nanoseconds,
                           kByteNanoseconds * static_cast<double>(way.batches * summed * std::max(m, n) * k * factor));
  // A column that lies along the rows of A is a row times a matrix.
  if (!windows && !added && summed == 1 && n == 1 && a_k != factor && a_row == factor && c_row == item) {
    std::swap(m, n);
    for (Axis& axis : batch) std::swap(axis.a, axis.b);
    way.swapped = true;
    const int64_t column_k = b_k;
    b_k = a_k, b_column = a_row;
    a_k = column_k, a_row = factor;
  }
  way.streams = !windows && !in_place() && summed == 1 && b_column == item && m > 1 &&
                m <= (core.avx512 ? tuning.streamed_rows : tuning.streamed_rows_avx2) && n * k * item >= tuning.far_b;
  const int64_t blocks = std::max<int64_t>(1, divide_up(k, way.streams ? tuning.streamed_depth : tuning.depth));
  way.depth = std::max<int64_t>(1, std::min(k, round_up(divide_up(k, blocks), 8)));
  scratch_bytes = 0;
  way.single = -1;
  way.packs_a = a_k == item || a_row == item;
  way.panel_rows = way.streams ? m : core.most_rows(2);
  way.a_panel = round_up((way.depth * way.panel_rows + lanes) * item, kPanelLine);
  way.a_panels = way.packs_a;
  const bool tiles_only = narrow || added;
  const auto deep = [&](int64_t few) { return k >= tuning.few_depth * few || (in_place() && few == 1 && k > 0); };
  way.columns = 0;
  if (windows) {
    plan_windows();
  } else if (in_amx) {
    FRAMEJIT_CHECK(k % AmxCore::kSide == 0 && summed == 1, "whole registers");
    way.path = Path::Amx;
    way.depth = std::max<int64_t>(1, std::min(k, round_up(way.depth, AmxCore::kSide)));
  } else if (summed > 1 && k > 0) {
    way.path = Path::PackedTiles;
  } else if (!tiles_only && n <= (core.avx512 ? tuning.few_columns : tuning.few_columns_avx2) && a_k == factor &&
             deep(n)) {
    way.path = Path::Dots;
    if (copies_few(b_k)) scratch_bytes = n * few_pitch();
  } else if (!tiles_only && m <= tuning.few_rows && b_k == factor && b_column != factor && deep(m)) {
    way.path = Path::DotsOfB;
    if (copies_few(a_k)) scratch_bytes = m * few_pitch();
  } else if (in_place() && m <= tuning.narrow_rows && b_column == factor && k > 0) {
    way.path = Path::Row;
    way.depth = tuning.narrow_depth;
    if (copies_few(a_k)) scratch_bytes = m * few_pitch();
  } else if (!tiles_only && !in_place() && m == 1 && b_column == item && n >= 16 * lanes &&
             n * k * item >= tuning.far_b) {
    way.path = Path::Row;
  } else if (k == 0 || way.streams || (b_column == item && fits_as_it_lies())) {
    way.path = Path::Tiles;
    way.packs_a &= way.streams;
    if (way.packs_a) scratch_bytes = way.a_panel;
    find_single();
  } else {
    way.path = Path::PackedTiles;
  }
  if (way.path == Path::PackedTiles) {
    const int64_t panel = 2 * lanes;
    way.columns = std::max(panel, l2_bytes * 5 / 8 / (way.depth * item) / panel * panel);
    if (way.packs_a && n > way.columns)
      way.a_panels = std::clamp<int64_t>(4 * l2_bytes / way.a_panel, 1, divide_up(m, way.panel_rows));
    scratch_bytes = way.a_panels * way.a_panel + way.depth * item * std::min(way.columns, round_up(n, panel));
  }
}

bool Product::produce_a(bool joined) {
  const auto shared = [](const Axis& axis) { return axis.a == 0 && axis.extent > 1; };
  if (way.empty || k == 0 || windows || way.swapped || narrow || way.single >= 0 || way.streams || summed > 1 ||
      a_k != core.item)
    return false;
  if (std::any_of(batch.begin(), batch.end(), shared)) return false;
  // To read an A again that stays in cache costs nothing; columns that are split between threads would each have an A
  // of their own.
  if (way.batches * m * k * core.item <= 2 * l2_bytes || way.batches * m < 8 * way.panel_rows * num_threads())
    return false;
  const bool dots = way.path == Path::Dots;
  if (!dots && way.path != Path::Tiles && (way.path != Path::PackedTiles || n > way.columns)) return false;
  const int64_t row = (dots ? k : way.depth) * core.item;
  way.produced_rows = way.panel_rows;
  if (dots) way.produced_rows = round_up(divide_up(kRowBytes, row), MatMulCore::kMostDots);
  if (way.path == Path::Tiles) way.produced_rows *= std::max<int64_t>(1, kRowBytes / (row * way.panel_rows));
  way.produced_row = joined && row == k * core.item ? row : round_up(row, kPanelLine);
  if (way.produced_row % kManyLines == 0) way.produced_row += kPanelLine;
  if (produced_bytes() > l2_bytes / 2) way.produced_rows = 0;
  scratch_bytes += produced_bytes();
  return way.produced_rows > 0;
}

/// Is packing more work than the product saves by it?
bool Product::fits_as_it_lies() const {
  const int64_t item = core.item, b_bytes = n * k * item;
  if (m <= core.most_rows(4)) return true;
  if (m <= tuning.plain_rows && b_bytes <= 2 * l2_bytes) return true;
  if (core.avx512 && rows_collide()) return false;
  return k <= tuning.plain_depth && b_bytes <= l2_bytes / 2 && (a_k == item || m * k * item <= 2 * l2_bytes);
}

void Product::find_single() {
  if (k > way.depth) return;
  for (int vectors : {MatMulCore::kHalf, 1, 2}) {
    const int64_t lanes = vectors == MatMulCore::kHalf ? core.lanes / 2 : core.lanes,
                  width = std::max(1, vectors) * lanes;
    const bool masked = n < width;
    if (n > width || m > core.most_rows(vectors) || !core.has_tile(static_cast<int>(m), vectors, masked)) continue;
    way.single = MatMulCore::tile(static_cast<int>(m), vectors, masked);
    way.live = n - (width - lanes);
    return;
  }
}

}  // namespace framejit::runtime
