// Matrix products: how they are cut for caches and threads.
//
//     PackedTiles        for each block of k:
//                          for each block of columns, so that a block of B fits the second-level cache:
//                            pack B[block of k, columns]
//                            for each block of rows:
//                              pack A[rows, block of k], which fits the first-level cache, at the first columns
//                              tiles along the columns; after the last block of k, the rows are finished
//     Tiles              the same on the operands where they are stored, if they are small or used once
//     Indirect, Lines    convolutions: execute_convolution.cpp
//     Amx                narrow elements in AMX registers: a panel of B stays in the first-level cache while rows of A
//                        are multiplied with it
//     Row                A has one row, or a few of narrow elements: along the rows of B, a few at a time
//     Dots, DotsOfB      A's rows are contiguous along k and B has few columns; or B's columns are, and A has few rows
#include <algorithm>
#include <cstring>
#include <limits>

#include "graph/support/check.h"
#include "runtime/allocator.h"
#include "runtime/narrow.h"
#include "runtime/product_parts.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kCopyRows = 8;  // rows of B that are copied into one panel before the next panel's
constexpr double kLeastSplit =
    25e3;  // nanoseconds: two threads take no less time for what is shorter, and at times more
constexpr int64_t kCutChannels = 4;   // of an image, a multiple of which each piece of a gradient of weights has
constexpr double kPackedElement = 8;  // products of elements that packing one takes the time of
constexpr double kLatePiece = 0.1;
constexpr int64_t kMirroredRows = 32, kLeastMirrored = 32, kLeastMirroredDepth = 4;

class Runner : ProductParts {
 public:
  Runner(const Product& product, const char* a, const char* b, char* c, const FinishedTile* finished,
         const char* panels = nullptr, const ProduceA* produce = nullptr, const char* bias = nullptr)
      : ProductParts(product, a, b, c, finished), panels_(panels), produce_(produce), bias_(bias) {}

  using ProductParts::ask;

  /// C is its own transpose: `run` computes what is left of the diagonal, and a little more.
  void compute_lower() { lower_ = true; }

  /// Rows of C, right of the diagonal, from its columns, which `run` has computed.
  void mirror(int64_t row, int64_t row_end) const {
    MatMulArgs args;
    args.a_row = args.c_row = p_.c_row;
    args.live = core_.lanes;
    for (int64_t column = row / core_.lanes * core_.lanes; column < p_.n; column += core_.lanes) {
      const int64_t column_end = std::min(p_.n, column + core_.lanes);
      int64_t first = row;
      if (column_end - column == core_.lanes && column > row) {
        args.k = std::min(row_end, column) - row;
        args.a = c_ + column * p_.c_row + row * core_.item;
        args.c = c_ + row * p_.c_row + column * core_.item;
        call(MatMulCore::kTranspose, args);
        first += args.k;
      }
      for (int64_t i = first; i < row_end; ++i)
        for (int64_t j = std::max(column, i + 1); j < column_end; ++j)
          copy_element(c_ + j * p_.c_row + i * core_.item, c_ + i * p_.c_row + j * core_.item);
    }
  }

  /// All of B, for `panels`.
  void pack_all(char* to) const {
    for (int64_t at = 0; at < p_.k; at += p_.way.depth)
      pack_b(b_ + at * p_.b_k, std::min(p_.way.depth, p_.k - at), p_.n, to + panels_before(at, 0));
  }
  int64_t panels_bytes() const { return panels_before(round_up(p_.k, p_.way.depth), 0) + kPanelLine; }

  void run(const Block& block, char* scratch) {
    move_to(block.batch);
    if (p_.way.single >= 0) {
      single();
      return finish(block.batch, 0, p_.m, 0, p_.n);
    }
    switch (p_.way.path) {
      case Product::Path::Tiles: p_.way.streams ? streamed(block, scratch) : plain(block, scratch); break;
      case Product::Path::PackedTiles: packed(block, scratch); break;
      case Product::Path::Dots: dots_of_a(block, scratch); break;
      case Product::Path::DotsOfB:
        dots(b_at_ + block.column * p_.b_column, p_.b_column, block.column_end - block.column,
             few(a_at_, p_.a_row, p_.a_k, p_.m, scratch), c_at_ + block.column * core_.item, core_.item, p_.c_row);
        break;
      case Product::Path::Row: p_.in_place() ? narrow_rows(block, scratch) : row(block); break;
      case Product::Path::Amx: amx(block); break;
      case Product::Path::Indirect:
      case Product::Path::Winograd:
      case Product::Path::Weights:
      case Product::Path::WeightsOfLines:
      case Product::Path::Lines: run_convolution(*this, block, scratch); break;
    }
    if (p_.way.path == Product::Path::DotsOfB || p_.way.path == Product::Path::Row)
      finish(block.batch, block.row, block.row_end, block.column, block.column_end);
  }

  /// The whole product by one tile.
  void single() const {
    MatMulArgs args;
    args.a = a_at_, args.b = b_at_, args.c = c_at_;
    args.a_row = p_.a_row, args.a_k = p_.a_k, args.b_k = p_.b_k, args.c_row = p_.c_row;
    args.k = p_.k, args.live = p_.way.live, args.panels = 1, args.add = p_.added, args.b_ahead = 0;
    set_epilogue(args, true, 0);
    call(p_.way.single, args);
  }

 private:
  /// For tiles from that column on: what they do in the last block of k.
  void set_epilogue(MatMulArgs& args, bool last, int64_t column) const {
    args.bias = bias_ && last ? bias_ + column * core_.item : nullptr;
    args.relu = last ? static_cast<int64_t>(p_.relu) : 0;
  }

  /// Tiles of all widths along `columns`, B as it lies or one panel after the other (`panel` bytes apart).
  void tiles(MatMulArgs& args, int rows, int64_t columns, int64_t panel, int widest) const {
    const int lanes = core_.lanes;
    for (int vectors = widest;; vectors /= 2) {
      const int64_t width = vectors == MatMulCore::kHalf ? lanes / 2 : vectors * lanes, bytes = width * core_.item;
      const int64_t last = vectors == MatMulCore::kHalf ? width : lanes;  // lanes of the last vector
      if (columns >= width) {
        const int64_t whole = columns / width;
        args.panels = whole;
        args.b_panel = panel ? panel : bytes;
        const bool streams = p_.way.streams && rows > 1 && vectors == core_.streamed_vectors(rows);
        call(streams ? MatMulCore::streamed(rows) : MatMulCore::tile(rows, vectors, false), args);
        args.b += whole * args.b_panel;
        args.c += whole * bytes;
        if (args.bias) args.bias += whole * bytes;
        columns -= whole * width;
      }
      // Half a vector is left to the tile of that width.
      const int64_t narrower = vectors == MatMulCore::kHalf ? 0 : width - last / 2;
      if (columns > narrower && core_.has_tile(rows, vectors, true)) {
        args.panels = 1;
        args.live = columns - (width - last);
        call(MatMulCore::tile(rows, vectors, true), args);
        return;
      }
      if (columns == 0) return;
      panel = 0;  // the rest lies in one panel
    }
  }

  void plain(const Block& block, char* scratch) const {
    const int64_t rows_all = block.row_end - block.row, columns = block.column_end - block.column;
    const int widest = p_.way.streams
                           ? core_.streamed_vectors(std::min(static_cast<int>(rows_all), core_.most_streamed_rows()))
                       : rows_all <= core_.most_rows(8) ? 8
                       : rows_all <= core_.most_rows(4) ? 4
                                                        : 2;
    const int64_t most = core_.most_rows(widest);
    MatMulArgs args;
    args.a_k = p_.way.packs_a ? a_panel_row() : p_.a_k;
    args.b_k = p_.b_k, args.c_row = p_.c_row;
    const int64_t ahead = p_.way.streams ? p_.way.depth
                          : core_.avx512 ? p_.tuning.plain_ahead
                                         : p_.tuning.plain_ahead_avx2;
    args.b_ahead = p_.b_k * ahead;
    // A panel of B stays in the first-level cache while it passes by as many rows of A and C as the second-level cache
    // holds.
    const int64_t panel = widest * core_.lanes,
                  fitting_columns = p_.tuning.small_b / (p_.way.depth * core_.item) / panel * panel;
    const bool one_pass = rows_all <= most || p_.k <= p_.tuning.shallow;
    const int64_t width = one_pass ? columns : std::max(panel, fitting_columns);
    const int64_t fitting = p_.l2_bytes / 4 / ((p_.way.depth + columns) * core_.item) / most * most;
    const int64_t height = p_.way.produced_rows > 0 ? p_.way.produced_rows : std::max(most, fitting);
    for (int64_t top = block.row; top < block.row_end; top += height) {
      const int64_t bottom = std::min(block.row_end, top + height);
      for (int64_t at = 0; at == 0 || at < p_.k; at += p_.way.depth) {
        args.k = std::min(p_.way.depth, p_.k - at);
        args.b_last = std::min(args.k, p_.way.streams ? std::max<int64_t>(0, at + args.k + ahead - p_.k) : ahead);
        args.add = p_.added || at > 0;
        Rows a = rows_of_a(block.batch, top, bottom, at, args.k, scratch);
        if (p_.way.packs_a) {
          pack_a(a, bottom - top, args.k, scratch);
          a = {scratch, core_.item};
        }
        args.a_row = a.row;
        for (int64_t column = block.column; column < block.column_end; column += width)
          row_blocks(top, bottom, most, [&](int64_t row, int64_t rows) {
            args.a = a.at + (row - top) * a.row;
            args.b = b_at_ + at * p_.b_k + column * p_.b_column;
            args.c = c_at_ + row * p_.c_row + column * core_.item;
            set_epilogue(args, at + p_.way.depth >= p_.k, column);
            const int64_t columns_end = std::min(block.column_end, columns_before(row + rows));
            if (column < columns_end)
              tiles(args, static_cast<int>(rows), std::min(width, columns_end - column), 0, widest);
          });
      }
      finish(block.batch, top, bottom, block.column, block.column_end);
    }
  }

  /// Two blocks of B at a time are in the second-level cache: what is multiplied, and the next one.
  void streamed(Block block, char* scratch) const {
    const int64_t width = round_up(p_.l2_bytes / 4 / (p_.way.depth * core_.item), 8 * core_.lanes);
    for (const int64_t end = block.column_end; block.column < end; block.column += width) {
      block.column_end = std::min(end, block.column + width);
      plain(block, scratch);
    }
  }

  /// C stays in the first-level cache while B passes by.
  void row(const Block& block) const {
    MatMulArgs args;
    args.a_k = p_.a_k, args.b_k = p_.b_k;
    for (int64_t column = block.column; column < block.column_end; column += kRowBytes / core_.item) {
      args.live = std::min<int64_t>(kRowBytes / core_.item, block.column_end - column);
      args.c = c_at_ + column * core_.item;
      for (int64_t at = 0; at < p_.k; at += MatMulCore::kRowDepth) {
        args.a = a_at_ + at * p_.a_k;
        args.b = b_at_ + at * p_.b_k + column * core_.item;
        args.add = p_.added || at > 0;
        args.b_ahead = at + 3 * MatMulCore::kRowDepth <= p_.k ? 2 * MatMulCore::kRowDepth * p_.b_k : 0;
        call(MatMulCore::vector_matrix(static_cast<int>(std::min<int64_t>(MatMulCore::kRowDepth, p_.k - at))), args);
      }
    }
  }

  /// The same with few rows of narrow elements, whole groups of them.
  void narrow_rows(const Block& block, char* scratch) const {
    const Few a = few(a_at_ + block.row * p_.a_row, p_.a_row, p_.a_k, block.row_end - block.row, scratch);
    MatMulArgs args;
    args.a_row = a.row, args.b_k = p_.b_k, args.c_row = p_.c_row;
    const int64_t line = core_.vector_bytes() / p_.factor,
                  width = round_up(divide_up(kRowBytes, a.count * core_.item), 8 * line);
    for (int64_t column = block.column; column < block.column_end; column += width) {
      args.live = std::min(width, block.column_end - column);
      for (int64_t at = 0; at < p_.k; at += p_.way.depth) {
        args.k = std::min(p_.way.depth, p_.k - at);
        args.add = at > 0;
        args.b = b_at_ + at * p_.b_k + column * p_.factor;
        row_blocks(0, a.count, MatMulCore::kNarrowRows, [&](int64_t row, int64_t rows) {
          args.a = a.at + row * a.row + at * p_.factor;
          args.c = c_at_ + (block.row + row) * p_.c_row + column * core_.item;
          call(MatMulCore::vector_matrix(static_cast<int>(rows)), args);
        });
      }
    }
  }

  /// Registers of 16 rows and columns of C; whole columns of panels first, so that their shape changes once for each
  /// panel.
  void amx(const Block& block) const {
    constexpr int64_t kTwo = 2 * AmxCore::kSide;
    MatMulArgs args;
    args.a_row = p_.a_row, args.b_k = p_.b_k, args.c_row = p_.c_row;
    int64_t shape_rows = 0, shape_columns = 0;
    const int64_t height = std::max(kTwo, p_.l2_bytes / 2 / (p_.way.depth * core_.item) / kTwo * kTwo);
    for (int64_t top = block.row; top < block.row_end; top += height) {
      const int64_t bottom = std::min(block.row_end, top + height);
      for (int64_t at = 0; at == 0 || at < p_.k; at += p_.way.depth) {
        args.k = std::min(p_.way.depth, p_.k - at);
        args.add = p_.added || at > 0;
        for (int64_t column = block.column; column < block.column_end; column += kTwo) {
          const int64_t columns = std::min(kTwo, block.column_end - column);
          for (int64_t row = top; row < bottom; row += kTwo) {
            const int64_t rows = std::min(kTwo, bottom - row);
            if (rows != shape_rows || columns != shape_columns) {
              const AmxCore::Shape shape = AmxCore::Shape::of(shape_rows = rows, shape_columns = columns);
              args.a = reinterpret_cast<const char*>(&shape);
              call(AmxCore::kConfigure, args);
            }
            args.a = a_at_ + row * p_.a_row + at * core_.item;
            args.b = b_at_ + column * core_.item * p_.k + at * p_.b_k;
            args.c = c_at_ + row * p_.c_row + column * core_.item;
            call(AmxCore::product(rows > AmxCore::kSide ? 2 : 1, columns > AmxCore::kSide ? 2 : 1), args);
          }
          if (at + p_.way.depth >= p_.k) finish(block.batch, top, bottom, column, column + columns);
        }
      }
    }
    call(AmxCore::kRelease, args);
  }

  struct Rows {
    const char* at;
    int64_t row;  // from one to the next
  };

  /// From `at` on along k, where they lie or, computed now, in the scratch.
  Rows rows_of_a(int64_t batch, int64_t row, int64_t row_end, int64_t at, int64_t k, char* scratch,
                 int64_t number = 0) const {
    if (!produce_) return {a_at_ + number * p_.next_a + row * p_.a_row + at * p_.a_k, p_.a_row};
    for_matrices(batch, row, row_end, [&](int64_t matrix, int64_t first, int64_t end, int64_t before) {
      (*produce_)(matrix, first, end, at, at + k, scratch + before * p_.way.produced_row, p_.way.produced_row);
    });
    return {scratch, p_.way.produced_row};
  }

  /// Of a panel of A: k after k, rows beside each other.
  int64_t a_panel_row() const { return p_.way.panel_rows * core_.item; }

  /// Of B, beyond which packing A pays.
  int64_t least_panels() const {
    if (p_.a_k != core_.item) return 2;
    if (p_.rows_collide()) return core_.avx512 ? 1 : 3;
    return core_.avx512 ? std::numeric_limits<int64_t>::max() / panel_columns() : 8;
  }

  /// Idle lanes reach into the next k, whose rows come later.
  void pack_a(const Rows& from, int64_t rows, int64_t k, char* to, int64_t ahead = 0) const {
    MatMulArgs args;
    args.c_row = a_panel_row();
    args.k = k;
    args.a_k = p_.a_k, args.a_row = from.row;
    args.b_ahead = ahead;
    for (int64_t row = (rows - 1) / core_.lanes * core_.lanes; row >= 0; row -= core_.lanes) {
      args.a = from.at + row * from.row;
      args.c = to + row * core_.item;
      args.live = std::min<int64_t>(core_.lanes, rows - row);
      call(p_.a_k == core_.item ? MatMulCore::kTranspose : MatMulCore::copy(1, args.live < core_.lanes), args);
    }
  }

  // ---- packed -------------------------------------------------------------------------------------------------------

  void packed(const Block& block, char* scratch) const {
    char* const produced = scratch + p_.way.a_panels * p_.way.a_panel;
    char* const b_panels = produced + p_.produced_bytes();
    const int64_t most = core_.most_rows(2), rows_all = block.row_end - block.row,
                  columns_all = block.column_end - block.column;
    const int64_t blocks = std::max<int64_t>(1, divide_up(columns_all, p_.way.columns));
    const int64_t width = round_up(divide_up(columns_all, blocks), panel_columns());
    // Rows that are packed for all columns.
    const int64_t height = blocks > 1 && p_.way.packs_a ? p_.way.a_panels * most : rows_all;
    const bool packs_a = p_.way.packs_a && columns_all > least_panels() * panel_columns();
    const int64_t depths = divide_up(p_.k, p_.way.depth), parts = p_.summed * depths;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t number = part / depths, at = part % depths * p_.way.depth, k = std::min(p_.way.depth, p_.k - at);
      MatMulArgs args;
      args.k = k;
      args.add = p_.added || part > 0;
      args.b_k = panel_row();
      args.c_row = p_.c_row;
      args.b_ahead = p_.tuning.packed_ahead;
      for (int64_t top = block.row; top < block.row_end; top += height)
        for (int64_t column = block.column; column < std::min(block.column_end, columns_before(top + height));
             column += width) {
          const int64_t columns = std::min(width, block.column_end - column);
          const char* const panels = panels_ ? panels_ + panels_before(at, column) : b_panels;
          if (!panels_) pack_b(b_at_ + number * p_.next_b + at * p_.b_k + column * p_.b_column, k, columns, b_panels);
          char* a_panel = scratch;
          row_blocks(top, std::min(top + height, block.row_end), most, [&](int64_t row, int64_t rows) {
            if (stopped()) return;
            if (packs_a) {
              if (column == block.column)
                pack_a(rows_of_a(block.batch, row, row + rows, at, k, produced, number), rows, k, a_panel,
                       !produce_ && row + 2 * most <= block.row_end ? most * p_.a_row : 0);
              args.a = a_panel, args.a_row = core_.item, args.a_k = a_panel_row();
              if (blocks > 1) a_panel += p_.way.a_panel;
            } else {
              const Rows a = rows_of_a(block.batch, row, row + rows, at, k, produced, number);
              args.a = a.at, args.a_row = a.row, args.a_k = p_.a_k;
            }
            args.b = panels;
            args.c = c_at_ + row * p_.c_row + column * core_.item;
            set_epilogue(args, part + 1 == parts, column);
            const int64_t wanted = std::min(columns, columns_before(row + rows) - column);
            if (wanted > 0) tiles(args, static_cast<int>(rows), wanted, p_.way.depth * panel_row(), 2);
            if (part + 1 == parts) finish(block.batch, row, row + rows, column, column + columns);
          });
        }
    }
  }

  /// Columns of C that are computed of the rows before this one.
  int64_t columns_before(int64_t row) const { return lower_ ? round_up(std::min(row, p_.m), panel_columns()) : p_.n; }

  /// Of all of B: block of k after block of k.
  int64_t panels_before(int64_t k, int64_t column) const {
    return (k / p_.way.depth * divide_up(p_.n, panel_columns()) + column / panel_columns()) * p_.way.depth *
           panel_row();
  }

  /// Panels of two vectors of columns, each `depth` rows apart; the last one may be narrower.
  void pack_b(const char* from, int64_t k, int64_t columns, char* to) const {
    MatMulArgs args;
    args.c_row = panel_row();
    if (p_.b_column == core_.item) {
      args.a_k = p_.b_k;
      for (int64_t at = 0; at < k; at += kCopyRows) {
        args.k = std::min(kCopyRows, k - at);
        args.c = to + at * panel_row();
        args.b_ahead = at + args.k < k ? kCopyRows * p_.b_k : 0;
        for (int64_t column = 0; column < columns; column += panel_columns(), args.c += p_.way.depth * panel_row()) {
          args.a = from + at * p_.b_k + column * core_.item;
          copy_columns(args, std::min(panel_columns(), columns - column));
        }
      }
      return;
    }
    for (int64_t column = 0; column < columns; column += core_.lanes) {
      char* const panel =
          to + column / panel_columns() * p_.way.depth * panel_row() + column % panel_columns() * core_.item;
      args.a = from + column * p_.b_column;
      args.a_row = p_.b_column;
      args.c = panel;
      args.k = k;
      args.live = std::min<int64_t>(core_.lanes, columns - column);
      if (p_.b_k == core_.item) call(MatMulCore::kTranspose, args);
      else gather(args);
    }
  }

  void copy_columns(MatMulArgs& args, int64_t columns) const {
    const int vectors = columns > core_.lanes ? 2 : 1;
    args.live = columns - (vectors - 1) * core_.lanes;
    call(MatMulCore::copy(vectors, args.live < core_.lanes), args);
  }

  /// A transposition of elements that are contiguous in no direction.
  void gather(const MatMulArgs& args) const {
    for (int64_t k = 0; k < args.k; ++k)
      for (int64_t lane = 0; lane < core_.lanes; ++lane)
        copy_element(args.a + std::min(lane, args.live - 1) * args.a_row + k * p_.b_k,
                     args.c + k * args.c_row + lane * core_.item);
  }

  // ---- dot products -------------------------------------------------------------------------------------------------

  /// Rows that are finished while they are in the first-level cache.
  void dots_of_a(const Block& block, char* scratch) const {
    const Few columns = few(b_at_, p_.b_column, p_.b_k, p_.n, scratch);
    const int64_t height = round_up(divide_up(kRowBytes, p_.n * core_.item), MatMulCore::kMostDots);
    const int64_t together = produce_ ? p_.way.produced_rows : height;
    char* const produced = scratch + p_.scratch_bytes - p_.produced_bytes();
    for (int64_t row = block.row; row < block.row_end; row += height) {
      const int64_t end = std::min(block.row_end, row + height);
      for (int64_t first = row, last; first < end; first = last) {
        last = std::min(end, first + together);
        const Rows a = rows_of_a(block.batch, first, last, 0, p_.k, produced);
        dots(a.at, a.row, last - first, columns, c_at_ + first * p_.c_row, p_.c_row, core_.item);
      }
      finish(block.batch, row, end, 0, p_.n);
    }
  }

  /// Vectors along k, contiguous.
  struct Few {
    const char* at;
    int64_t row, count;
  };

  /// They are copied where they are not; narrow ones, with zeros behind them, where they end within a group, too.
  Few few(const char* at, int64_t row, int64_t k, int64_t count, char* scratch) const {
    if (!p_.copies_few(k)) return {at, row, count};
    const int64_t pitch = p_.few_pitch();
    if (p_.in_place()) copy_few(at, row, k, count, pitch, scratch);
    else pack_few(at, row, k, count, pitch, scratch);
    return {scratch, pitch, count};
  }

  void copy_few(const char* from, int64_t row, int64_t k, int64_t count, int64_t pitch, char* to) const {
    const auto bytes = static_cast<std::size_t>(p_.k * p_.factor);
    for (int64_t i = 0; i < count; ++i, from += row, to += pitch) {
      if (k == p_.factor) std::memcpy(to, from, bytes);
      else
        for (int64_t at = 0; at < p_.k; ++at) copy_narrow(from + at * k, to + at * p_.factor);
      std::memset(to + bytes, 0, static_cast<std::size_t>(pitch) - bytes);
    }
  }

  void copy_narrow(const char* from, char* to) const {
    if (p_.factor == 2) std::memcpy(to, from, 2);
    else *to = *from;
  }

  /// `many` vectors along k beside `few`.
  void dots(const char* many, int64_t many_row, int64_t count, const Few& few, char* c, int64_t c_many,
            int64_t c_few) const {
    MatMulArgs args;
    args.k = p_.k;
    args.a_row = many_row;
    args.b_k = few.row;
    args.c_row = c_many;
    args.b_panel = c_few;
    const int64_t most = few.count == 1 ? MatMulCore::kMostDots : 4;
    for (int64_t row = 0; row < count; row += most) {
      const int64_t rows = std::min(most, count - row);
      const int64_t widest = core_.most_dot_columns(static_cast<int>(rows));
      for (int64_t column = 0; column < few.count; column += widest) {
        args.a = many + row * many_row;
        args.b = few.at + column * few.row;
        args.c = c + row * c_many + column * c_few;
        call(MatMulCore::dots(static_cast<int>(rows), static_cast<int>(std::min(widest, few.count - column))), args);
      }
    }
  }

  void pack_few(const char* few, int64_t few_row, int64_t few_k, int64_t count, int64_t pitch, char* to) const {
    if (few_row != core_.item && count > 1) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t k = 0; k < p_.k; ++k) copy_element(few + i * few_row + k * few_k, to + i * pitch + k * core_.item);
      return;
    }
    MatMulArgs args;
    args.a_row = few_k;
    args.c_row = pitch;
    args.k = count;
    for (int64_t k = 0; k < p_.k; k += core_.lanes) {
      args.a = few + k * few_k;
      args.c = to + k * core_.item;
      args.live = std::min<int64_t>(core_.lanes, p_.k - k);
      call(MatMulCore::kTranspose, args);
    }
  }

  const char* const panels_;  // of all of B, where they are packed already
  const ProduceA* const produce_;
  const char* const bias_;
  bool lower_ = false;
};

}  // namespace

namespace {

/// How a product is cut into pieces that are run by themselves: rows x columns of blocks, the rows of a column of
/// blocks one after the other, since they share what is packed of B.
struct Grid {
  int64_t rows = 1, columns = 1, panel = 1, row_panel = 1;

  /// Of the cuts into as many pieces the one that ends first.
  Grid(const Product& p, const Cut& cut) : panel(p.way.path == Product::Path::DotsOfB ? 1 : 2 * p.core.lanes) {
    int64_t least_rows = p.way.path == Product::Path::PackedTiles ? 4 * p.core.most_rows(2) : p.core.most_rows(2);
    int64_t least_columns = p.way.path == Product::Path::DotsOfB ? 32 : 4 * panel;
    if (p.in_amx) row_panel = least_rows = 2 * AmxCore::kSide;
    if (p.windows) {
      // Whole lines or planes, and the channels of a panel; of a gradient of weights, channels with all places of their
      // windows.
      row_panel = least_rows = panel;
      const Product::Windows& w = *p.windows;
      const bool by_lines = w.band_lines < w.axes[1].result && w.axes[1].result % w.tile == 0;
      panel = w.axes[2].result * (by_lines ? w.tile : w.axes[1].result);
      if (w.transposed) panel = w.along == 2 ? p.n : kCutChannels * (p.n / w.channels);
      least_columns = panel;
    }
    const bool by_rows =
        p.way.path != Product::Path::DotsOfB && p.way.path != Product::Path::Lines && p.way.path != Product::Path::Row;
    const bool by_columns =
        p.way.path != Product::Path::Dots && p.way.produced_rows == 0;  // an A that is computed is so once
    const int64_t most_rows = by_rows ? std::max<int64_t>(1, p.m / least_rows) : 1;
    const int64_t most_columns = by_columns ? std::max<int64_t>(1, p.n / least_columns) : 1;
    double best = std::numeric_limits<double>::infinity();
    for (int64_t wanted = cut.fewest;; wanted = std::min(2 * wanted, cut.most)) {
      const int64_t each = divide_up(wanted, p.way.batches);
      for (int64_t r = 1; r <= std::min(each, most_rows); ++r) {
        const int64_t c = std::min(divide_up(each, r), most_columns);
        if (const double end = ends(p, cut.threads, r, c); end < best) best = end, rows = r, columns = c;
      }
      if (wanted == cut.most) return;
    }
  }

  /// When the last piece ends, in products of elements; a thread that is late by a part of one counts as well.
  double ends(const Product& p, int threads, int64_t r, int64_t c) const {
    const auto height = static_cast<double>(divide_up(p.m, r)),
               width = static_cast<double>(std::min(p.n, round_up(divide_up(p.n, c), panel)));
    double packed = 0;
    if (p.way.path == Product::Path::PackedTiles) packed = width + (p.way.packs_a ? height : 0);
    if (p.way.path == Product::Path::Weights)
      packed = height + width * static_cast<double>(p.windows->channels) / static_cast<double>(p.n);
    if (p.way.path == Product::Path::Winograd) packed = height + width / 2;
    const double piece = (height * width + kPackedElement * packed) * static_cast<double>(p.k * p.summed);
    return (static_cast<double>(divide_up(p.way.batches * r * c, threads)) + kLatePiece) * piece;
  }

  int64_t row(const Product& p, int64_t i) const {
    return i == rows ? p.m : std::min(p.m, round_up(p.m * i / rows, row_panel));
  }
  int64_t column(const Product& p, int64_t i) const {
    return i == columns ? p.n : std::min(p.n, round_up(p.n * i / columns, panel));
  }
};

}  // namespace

bool has_panels(const Product& product) {
  return product.way.path == Product::Path::PackedTiles && !product.windows && product.summed == 1 && product.k > 0 &&
         !product.way.empty && !product.narrow && !product.way.swapped &&
         std::all_of(product.batch.begin(), product.batch.end(), [](const Product::Axis& axis) { return axis.b == 0; });
}

int64_t panel_bytes(const Product& product) {
  return Runner(product, nullptr, nullptr, nullptr, nullptr).panels_bytes();
}
void pack_panels(const Product& product, const char* b, char* to) {
  Runner(product, nullptr, b, nullptr, nullptr).pack_all(to);
}

KeptPanels::~KeptPanels() { release(memory_); }

const char* KeptPanels::of(const Product& product, const char* b) {
  if (!has_panels(product)) return nullptr;
  std::call_once(once_, [&] {
    memory_ = static_cast<char*>(allocate(static_cast<std::size_t>(panel_bytes(product))));
    if (!memory_) return;
    pack_panels(product, b, memory_);
    b_ = b;
    layout_ = layout(product);
  });
  return b == b_ && layout(product) == layout_ ? memory_ : nullptr;
}

namespace {

/// Is B what A is, read along its columns? Then C is its own transpose, to the bit: both halves multiply the same
/// numbers in the same order.
bool is_symmetric(const Product& p, const char* a, const char* b) {
  return a == b && (p.way.path == Product::Path::PackedTiles || p.way.path == Product::Path::Tiles) && !p.windows &&
         p.m >= kLeastMirrored && p.k >= kLeastMirroredDepth && !p.added && p.way.batches == 1 && p.m == p.n &&
         p.a_row == p.b_column && p.a_k == p.b_k && p.next_a == p.next_b;
}

void run_blocks(const Product& product, const Runner& runner, const Cut& cut, RunState& state) {
  if (!cut.split && !cut.polled) {
    const Scratch scratch(state.reserve ? 0 : product.scratch_bytes, state);
    Runner mine = runner;
    for (int64_t batch = 0; batch < product.way.batches; ++batch)
      mine.run({batch, 0, product.m, 0, product.n}, state.reserve ? state.reserve : scratch.data());
    return;
  }
  const Grid grid(product, cut);
  const int64_t blocks = grid.rows * grid.columns;
  run_pieces(product.way.batches * blocks, 1, product.nanoseconds, cut, state, [&](int64_t begin, int64_t end) {
    const Scratch scratch(product.scratch_bytes, state);
    Runner mine = runner;
    while (begin < end) {
      const int64_t batch = begin / blocks, column = begin % blocks / grid.rows, row = begin % grid.rows;
      const int64_t rows = std::min(end - begin, grid.rows - row);
      mine.run({batch, grid.row(product, row), grid.row(product, row + rows), grid.column(product, column),
                grid.column(product, column + 1)},
               scratch.data());
      begin += rows;
    }
  });
}

}  // namespace

void run_product(const Product& product, const char* a, const char* b, char* c, RunState& state,
                 const FinishedTile* finished, const char* panels, const ProduceA* produce, const char* bias) {
  if (product.way.empty) return;
  if (product.way.swapped) std::swap(a, b);
  const bool symmetric = is_symmetric(product, a, b) && !produce && !bias;
  Runner runner(product, a, b, c, symmetric ? nullptr : finished, panels, produce, bias);
  if (product.way.single >= 0 && product.way.batches == 1) return runner.run({0, 0, product.m, 0, product.n}, nullptr);
  if (symmetric) runner.compute_lower();
  // These ask by themselves whether to stop: their pieces copy and transform the same again.
  const Product::Path path = product.way.path;
  const bool transforms = path == Product::Path::Weights || path == Product::Path::Winograd,
             asks = transforms || path == Product::Path::PackedTiles;
  // A row goes along those of B, which are read the better the longer they are.
  Cut cut(product.nanoseconds, product.nanoseconds > kLeastSplit, state, path == Product::Path::Row ? 1 : 4, asks);
  if (cut.polled && transforms) cut.fewest = cut.most = cut.threads;
  const std::function<bool()> stops = [&] { return state.stopped() || state.poller->check(); };
  if (cut.polled && asks) runner.ask(&stops);
  run_blocks(product, runner, cut, state);
  if (!symmetric || state.stopped()) return;
  run_pieces(product.m, kMirroredRows, product.nanoseconds, cut.split, state, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kMirroredRows) {
      const int64_t last = std::min(end, begin + kMirroredRows);
      runner.mirror(begin, last);
      if (finished) (*finished)(0, begin, last, 0, product.n);
    }
  });
}

void run_product_here(const Product& product, const char* a, const char* b, char* c, char* scratch) {
  if (product.way.empty) return;
  if (product.way.swapped) std::swap(a, b);
  Runner(product, a, b, c, nullptr).run({0, 0, product.m, 0, product.n}, scratch);
}

namespace {

/// The epilogue on a rectangle of one matrix of the batch. Its columns are one axis of the loop or, place after place,
/// several.
void run_epilogue(const BoundMatMul& step, const RunState& state, int64_t batch, int64_t row, int64_t row_end,
                  int64_t column, int64_t column_end) {
  const BoundLoop& loop = *step.epilogue;
  const std::vector<uint16_t>& operands = loop.stages[0].operands;
  const int inner = loop.rank() - 1, rows = inner - step.column_axes;
  const int64_t count = row_end - row, length = loop.extents[static_cast<std::size_t>(inner)];
  row += batch % step.groups * step.product.way.matrix_rows;
  batch /= step.groups;
  const auto along = [&](std::size_t operand, int64_t position, int first, int last) {
    int64_t bytes = 0;
    for (int axis = last; axis >= first; --axis) {
      const int64_t extent = loop.extents[static_cast<std::size_t>(axis)];
      bytes += position % extent * loop.stride(operand, axis);
      position /= extent;
    }
    return bytes;
  };
  if (step.joined && column == 0 && column_end == length) {
    alignas(64) char repeated[BoundMatMul::kMostRepeated];
    Window w;
    for (std::size_t i = 0; i < loop.operands.size(); ++i) {
      const BoundOperand& o = loop.operands[i];
      w.pointers[i] = state.buffers[o.buffer] + o.offset + along(i, batch, 0, rows - 1) + row * loop.stride(i, rows);
    }
    return for_joined_rows(*step.joined, w, count, repeated,
                           [&](const Window& joined) { run_stage(*step.joined, step.joined->stages[0], joined); });
  }
  char* pointers[kMaxOperands];
  int64_t strides[2 * kMaxOperands];
  while (column < column_end) {
    const int64_t stretch =
        step.column_axes == 1 ? column_end - column : std::min(column_end - column, length - column % length);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const uint16_t operand = operands[i];
      const BoundOperand& o = loop.operands[operand];
      pointers[i] = state.buffers[o.buffer] + o.offset + along(operand, batch, 0, rows - 1) +
                    row * loop.stride(operand, rows) + along(operand, column, rows + 1, inner);
      strides[2 * i] = loop.stride(operand, inner);
      strides[2 * i + 1] = loop.stride(operand, rows);
    }
    if (step.column_axes == 0) loop.stages[0].kernel(pointers, strides, count, 1);
    else loop.stages[0].kernel(pointers, strides, stretch, count);
    column += stretch;
  }
}

/// A rectangle of one matrix of the batch of A, by what computes it.
void produce(const BoundMatMul& step, const RunState& state, int64_t batch, int64_t row, int64_t row_end, int64_t k,
             int64_t k_end, char* to, int64_t pitch) {
  const BoundLoop& loop = *step.producer;
  const BoundStage& stage = loop.stages[0];
  const int inner = loop.rank() - 1;
  char* pointers[kMaxOperands];
  int64_t strides[2 * kMaxOperands];
  for (std::size_t i = 0; i < stage.operands.size(); ++i) {
    const uint16_t operand = stage.operands[i];
    const BoundOperand& o = loop.operands[operand];
    strides[2 * i] = loop.stride(operand, inner);
    strides[2 * i + 1] = loop.stride(operand, inner - 1);
    if (loop.step->operands[operand].written) {
      pointers[i] = to;
      strides[2 * i + 1] = pitch;
      continue;
    }
    pointers[i] = state.buffers[o.buffer] + o.offset + row * strides[2 * i + 1] + k * strides[2 * i];
    int64_t matrix = batch;
    for (int axis = inner - 2; axis >= 0; --axis) {
      pointers[i] += matrix % loop.extents[static_cast<std::size_t>(axis)] * loop.stride(operand, axis);
      matrix /= loop.extents[static_cast<std::size_t>(axis)];
    }
  }
  int64_t length = k_end - k, rows = row_end - row;
  const bool joined = step.joined_rows && length == loop.extents.back() && pitch == length * step.product.core.item;
  if (joined) length *= std::exchange(rows, 1);
  stage.kernel(pointers, strides, length, rows);
  if (k_end - k == loop.extents.back()) return;
  // Stretches of rows are too short for the processor to fetch ahead by itself: those of the next rows, while the
  // product is at these.
  const int64_t end = rows + std::min(rows, loop.extents[static_cast<std::size_t>(inner - 1)] - row_end);
  for (std::size_t i = 0; i < stage.operands.size(); ++i) {
    const int64_t across = strides[2 * i + 1];
    if (pointers[i] == to || across == 0 || strides[2 * i] != loop.operands[stage.operands[i]].itemsize) continue;
    for (int64_t r = rows; r < end; ++r)
      for (int64_t at = 0; at < length * strides[2 * i]; at += kPanelLine)
        __builtin_prefetch(pointers[i] + r * across + at, 0, 2);
  }
}

}  // namespace

void execute_matmul(const BoundMatMul& step, KeptPanels* kept, RunState& state) {
  auto at = [&](const BoundOperand& o) { return state.buffers[o.buffer] + o.offset; };
  const FinishedTile finished = [&](int64_t batch, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
    run_epilogue(step, state, batch, row, row_end, column, column_end);
  };
  const FinishedTile* const epilogue = step.epilogue ? &finished : nullptr;
  const char* const bias = step.bias ? at(*step.bias) : nullptr;
  const ProduceA produced = [&](int64_t batch, int64_t row, int64_t row_end, int64_t k, int64_t k_end, char* to,
                                int64_t pitch) { produce(step, state, batch, row, row_end, k, k_end, to, pitch); };
  if (step.narrowed)
    run_narrowed(step.product, *step.narrowed, at(step.a), at(step.b), at(step.c), state, epilogue, bias);
  else
    run_product(step.product, at(step.a), at(step.b), at(step.c), state, epilogue,
                kept ? kept->of(step.product, at(step.b)) : nullptr, step.producer ? &produced : nullptr, bias);
}

}  // namespace framejit::runtime
