// Matrix products: how they are cut for caches and threads.
//
//     packed tiles     for each block of columns, so that a block of B fits the second-level cache:
//                        for each block of k:                       pack B[block of k, columns]
//                          for each block of rows:                  pack A[rows, block of k], which fits the first-level cache
//                            tiles along the columns; when it was the last block of k, the rows are finished
//     windows          the same, a block of B being packed out of an image: a convolution
//     tiles            the same on the operands where they lie, where they are small or used once
//     lines            a convolution with few channels: lines of the result as sums of shifted lines of the image
//     row              A has one row: along the rows of B, a few at a time
//     dots             A's rows are contiguous along k and B has few columns; or B's columns are, and A has few rows
#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/support/check.h"
#include "runtime/execute.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kCopyRows = 8;        // rows of B that are copied into one panel before the next panel's
constexpr int64_t kPanelLine = 64;
constexpr int64_t kRowBytes = 16 << 10;  // of a stretch of C
constexpr int kMostLanes = 16;
constexpr int64_t kFarthestLane = 1 << 26;  // bytes between lanes that 32 bits of an index are enough for
constexpr double kLeastPiece = 10e3;    // nanoseconds
constexpr int64_t kNarrowStretch = 64;  // elements

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Rectangle of C.
struct Block {
  int64_t batch, row, row_end, column, column_end;
};

class Runner {
 public:
  Runner(const Product& product, const char* a, const char* b, char* c, const FinishedTile* finished)
      : p_(product), core_(product.core), a_(a), b_(b), c_(c), finished_(finished) {}

  void run(const Block& block, char* scratch) {
    move_to(block.batch);
    if (p_.single >= 0) {
      single();
      return finish(block.batch, 0, p_.m, 0, p_.n);
    }
    switch (p_.path) {
      case Product::Path::Tiles: plain(block); break;
      case Product::Path::PackedTiles: packed(block, scratch); break;
      case Product::Path::Dots:
        dots(a_at_ + block.row * p_.a_row, p_.a_row, block.row_end - block.row, b_at_, p_.b_column, p_.b_k, p_.n,
             c_at_ + block.row * p_.c_row, p_.c_row, core_.item, scratch);
        break;
      case Product::Path::DotsOfB:
        dots(b_at_ + block.column * p_.b_column, p_.b_column, block.column_end - block.column, a_at_, p_.a_row, p_.a_k,
             p_.m, c_at_ + block.column * core_.item, core_.item, p_.c_row, scratch);
        break;
      case Product::Path::Row: row(block); break;
      case Product::Path::Lines: lines(scratch); break;
    }
    if (p_.path != Product::Path::Tiles && p_.path != Product::Path::PackedTiles)
      finish(block.batch, block.row, block.row_end, block.column, block.column_end);
  }

  /// The whole product by one tile.
  void single() const {
    MatMulArgs args;
    args.a = a_at_, args.b = b_at_, args.c = c_at_;
    args.a_row = p_.a_row, args.a_k = p_.a_k, args.b_k = p_.b_k, args.c_row = p_.c_row;
    args.k = p_.k, args.live = p_.live, args.panels = 1, args.add = 0, args.b_ahead = 0;
    call(p_.single, args);
  }

 private:
  void finish(int64_t batch, int64_t row, int64_t row_end, int64_t column, int64_t column_end) const {
    if (!finished_) return;
    if (p_.swapped) std::swap(row, column), std::swap(row_end, column_end);
    // Rows of several matrices, where they were joined.
    const int64_t matrices = p_.rows / p_.matrix_rows;
    while (row < row_end) {
      const int64_t matrix = row / p_.matrix_rows, first = matrix * p_.matrix_rows;
      const int64_t end = std::min(row_end, first + p_.matrix_rows);
      (*finished_)(batch * matrices + matrix, row - first, end - first, column, column_end);
      row = end;
    }
  }

  void call(int part, const MatMulArgs& args) const { MatMulCore::part(p_.code, part)(&args); }

  void move_to(int64_t batch) {
    a_at_ = a_, b_at_ = b_, c_at_ = c_;
    for (std::size_t i = p_.batch.size(); i-- > 0;) {
      const Product::Axis& axis = p_.batch[i];
      const int64_t position = batch % axis.extent;
      batch /= axis.extent;
      a_at_ += position * axis.a, b_at_ += position * axis.b, c_at_ += position * axis.c;
    }
  }

  /// Calls f(first row, count) for blocks of almost equal height.
  template <class F>
  static void row_blocks(int64_t row, int64_t row_end, int64_t most, F&& f) {
    if (row_end - row <= most) return f(row, row_end - row);
    const int64_t blocks = divide_up(row_end - row, most);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t rows = divide_up(row_end - row, blocks - i);
      f(row, rows);
      row += rows;
    }
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
        call(MatMulCore::tile(rows, vectors, false), args);
        args.b += whole * args.b_panel;
        args.c += whole * bytes;
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

  void plain(const Block& block) const {
    const int64_t rows_all = block.row_end - block.row, columns = block.column_end - block.column;
    const int widest = rows_all <= core_.most_rows(8) ? 8 : rows_all <= core_.most_rows(4) ? 4 : 2;
    const int64_t most = core_.most_rows(widest);
    MatMulArgs args;
    args.a_row = p_.a_row, args.a_k = p_.a_k, args.b_k = p_.b_k, args.c_row = p_.c_row;
    args.b_ahead = p_.b_k * p_.tuning.plain_ahead;
    // A panel of B stays in the first-level cache while it passes by as many rows of A and C as the second-level cache holds.
    const bool one_pass = rows_all <= most || p_.k <= p_.tuning.shallow || columns * p_.depth * core_.item <= p_.tuning.small_b;
    const int64_t width = one_pass ? columns : widest * core_.lanes;
    const int64_t fitting = p_.l2_bytes / 4 / ((p_.depth + columns) * core_.item) / most * most;
    const int64_t height = std::max(most, fitting);
    for (int64_t top = block.row; top < block.row_end; top += height) {
      const int64_t bottom = std::min(block.row_end, top + height);
      for (int64_t at = 0; at == 0 || at < p_.k; at += p_.depth) {
        args.k = std::min(p_.depth, p_.k - at);
        args.add = at > 0;
        for (int64_t column = block.column; column < block.column_end; column += width)
          row_blocks(top, bottom, most, [&](int64_t row, int64_t rows) {
            args.a = a_at_ + row * p_.a_row + at * p_.a_k;
            args.b = b_at_ + at * p_.b_k + column * p_.b_column;
            args.c = c_at_ + row * p_.c_row + column * core_.item;
            tiles(args, static_cast<int>(rows), std::min(width, block.column_end - column), 0, widest);
          });
      }
      finish(block.batch, top, bottom, block.column, block.column_end);
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
        args.add = at > 0;
        call(MatMulCore::row(static_cast<int>(std::min<int64_t>(MatMulCore::kRowDepth, p_.k - at))), args);
      }
    }
  }

  // ---- packed -------------------------------------------------------------------------------------------------------

  int64_t panel_columns() const { return 2 * core_.lanes; }
  int64_t panel_row() const { return 2 * core_.vector_bytes(); }
  int64_t a_panel_row() const { return round_up(core_.most_rows(2), core_.lanes) * core_.item; }

  void packed(const Block& block, char* scratch) const {
    char* const a_panel = scratch;
    char* const b_panels = scratch + round_up(p_.depth * a_panel_row(), kPanelLine);
    const int64_t blocks = std::max<int64_t>(1, divide_up(block.column_end - block.column, p_.columns));
    const int64_t width = round_up(divide_up(block.column_end - block.column, blocks), panel_columns());
    for (int64_t column = block.column; column < block.column_end; column += width) {
      const int64_t columns = std::min(width, block.column_end - column);
      const bool packs_a = (p_.a_k == core_.item || p_.a_row == core_.item) && columns > 2 * panel_columns();
      const int64_t depths = divide_up(p_.k, p_.depth);
      for (int64_t part = 0; part < p_.summed * depths; ++part) {
        const int64_t number = part / depths, at = part % depths * p_.depth, k = std::min(p_.depth, p_.k - at);
        const char* const b = b_at_ + number * p_.next_b;
        if (!p_.windows)
          pack_b(b + at * p_.b_k + column * p_.b_column, k, columns, b_panels);
        else if (p_.windows->transposed)
          pack_places(b, at, k, column, columns, b_panels);
        else
          pack_windows(at, k, column, columns, b_panels);
        MatMulArgs args;
        args.k = k;
        args.add = part > 0;
        args.b_k = panel_row();
        args.c_row = p_.c_row;
        args.b_ahead = p_.tuning.packed_ahead;
        row_blocks(block.row, block.row_end, core_.most_rows(2), [&](int64_t row, int64_t rows) {
          const char* from = a_at_ + number * p_.next_a + row * p_.a_row + at * p_.a_k;
          if (packs_a) {
            pack_a(from, rows, k, a_panel);
            args.a = a_panel, args.a_row = core_.item, args.a_k = a_panel_row();
          } else {
            args.a = from, args.a_row = p_.a_row, args.a_k = p_.a_k;
          }
          args.b = b_panels;
          args.c = c_at_ + row * p_.c_row + column * core_.item;
          tiles(args, static_cast<int>(rows), columns, p_.depth * panel_row(), 2);
          if (part + 1 == p_.summed * depths) finish(block.batch, row, row + rows, column, column + columns);
        });
      }
    }
  }

  /// Vectors of A's panel: k after k, rows beside each other.
  void pack_a(const char* from, int64_t rows, int64_t k, char* to) const {
    MatMulArgs args;
    args.c_row = a_panel_row();
    args.k = k;
    args.a_k = p_.a_k, args.a_row = p_.a_row;
    for (int64_t row = 0; row < rows; row += core_.lanes) {
      args.a = from + row * p_.a_row;
      args.c = to + row * core_.item;
      args.live = std::min<int64_t>(core_.lanes, rows - row);
      call(p_.a_k == core_.item ? MatMulCore::kTranspose : MatMulCore::copy(1, args.live < core_.lanes), args);
    }
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
        for (int64_t column = 0; column < columns; column += panel_columns(), args.c += p_.depth * panel_row()) {
          args.a = from + at * p_.b_k + column * core_.item;
          copy_columns(args, std::min(panel_columns(), columns - column));
        }
      }
      return;
    }
    for (int64_t column = 0; column < columns; column += core_.lanes) {
      char* const panel = to + column / panel_columns() * p_.depth * panel_row() + column % panel_columns() * core_.item;
      args.a = from + column * p_.b_column;
      args.a_row = p_.b_column;
      args.c = panel;
      args.k = k;
      args.live = std::min<int64_t>(core_.lanes, columns - column);
      if (p_.b_k == core_.item)
        call(MatMulCore::kTranspose, args);
      else
        gather(args);
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

  void copy_element(const char* from, char* to) const {
    if (core_.item == 4)
      std::memcpy(to, from, 4);
    else
      std::memcpy(to, from, 8);
  }

  // ---- windows ------------------------------------------------------------------------------------------------------

  /// Columns that follow each other along the innermost axis of the result.
  struct Stretch {
    int64_t at[codegen::Windows::kAxes];  // place in the result
    int64_t lane, count;
    int64_t channel = 0;
  };

  /// Panels as those of pack_b: rows [at, at + k) of the columns from `column` on.
  void pack_windows(int64_t at, int64_t k, int64_t column, int64_t columns, char* to) const {
    const Product::Windows& w = *p_.windows;
    const int64_t width = w.axes[2].result, height = w.axes[1].result;
    Stretch stretches[kMostLanes];
    for (int64_t first = 0; first < columns; first += core_.lanes) {
      const int64_t live = std::min<int64_t>(core_.lanes, columns - first);
      int count = 0;
      for (int64_t lane = 0; lane < live; ++count) {
        const int64_t place = column + first + lane, line = place / width;
        Stretch& s = stretches[count];
        s = {{line / height, line % height, place % width}, lane, 0};
        s.count = std::min(live - lane, width - s.at[2]);
        lane += s.count;
      }
      pack_vector({stretches, static_cast<std::size_t>(count)}, at, k,
                  to + first / panel_columns() * p_.depth * panel_row() + first % panel_columns() * core_.item);
    }
  }

  void pack_vector(std::span<const Stretch> stretches, int64_t at, int64_t k, char* to) const {
    const Product::Windows& w = *p_.windows;
    const auto &[planes, rows, columns] = w.axes;
    const int64_t places = planes.window * rows.window * columns.window;
    const int64_t channel = at / places, channel_end = (at + k) / places;
    WindowArgs args;
    args.from_row = w.channel;
    args.to_row = places * panel_row();
    args.element = columns.stride * columns.pitch;
    for (int64_t x = 0; x < columns.window; ++x) {
      uint64_t lanes[kMostLanes];
      for (std::size_t i = 0; i < stretches.size(); ++i) {
        // Lanes whose place in the image is in [0, length).
        const int64_t place = stretches[i].at[2] * columns.stride - columns.before + x * columns.dilation;
        const int64_t first = place >= 0 ? 0 : divide_up(-place, columns.stride);
        const int64_t end = place >= columns.image ? 0 : std::min(stretches[i].count, (columns.image - 1 - place) / columns.stride + 1);
        lanes[i] = first < end ? ((uint64_t{1} << end) - (uint64_t{1} << first)) << stretches[i].lane : 0;
      }
      for (int64_t z = 0; z < planes.window; ++z)
        for (int64_t y = 0; y < rows.window; ++y) {
          const int64_t number = (z * rows.window + y) * columns.window + x;
          const int64_t from = channel + (number < at % places), end = channel_end + (number < (at + k) % places);
          if (from >= end) continue;
          args.k = end - from;
          args.to = to + (from * places + number - at) * panel_row();
          int used = 0;
          const char* starts[kMostLanes];
          uint64_t read[kMostLanes];
          for (std::size_t i = 0; i < stretches.size(); ++i) {
            const Stretch& s = stretches[i];
            const int64_t plane = s.at[0] * planes.stride - planes.before + z * planes.dilation;
            const int64_t row = s.at[1] * rows.stride - rows.before + y * rows.dilation;
            if (lanes[i] == 0 || plane < 0 || plane >= planes.image || row < 0 || row >= rows.image) continue;
            const int64_t place = s.at[2] * columns.stride - columns.before + x * columns.dilation;
            starts[used] = b_at_ + from * w.channel + plane * planes.pitch + row * rows.pitch + place * columns.pitch -
                           s.lane * args.element;
            read[used++] = lanes[i];
          }
          copy_lanes(args, {starts, static_cast<std::size_t>(used)}, read);
        }
    }
  }

  /// Rows of one vector, by the core where it takes so many stretches.
  void copy_lanes(WindowArgs& args, std::span<const char* const> starts, const uint64_t* lanes) const {
    const bool spread = args.element != core_.item;
    const std::size_t parts = std::max<std::size_t>(starts.size(), 1);
    if (parts <= WindowArgs::kMostStretches && std::abs(args.element) <= kFarthestLane) {
      args.from[0] = b_at_, args.lanes[0] = 0;
      for (std::size_t i = 0; i < starts.size(); ++i) args.from[i] = starts[i], args.lanes[i] = lanes[i];
      return MatMulCore::part<WindowFn>(p_.code, MatMulCore::windows(static_cast<int>(parts), spread))(&args);
    }
    for (int64_t row = 0; row < args.k; ++row) {
      char* const to = args.to + row * args.to_row;
      std::memset(to, 0, static_cast<std::size_t>(core_.vector_bytes()));
      for (std::size_t i = 0; i < starts.size(); ++i)
        for (int64_t lane = 0; lane < core_.lanes; ++lane)
          if (lanes[i] >> lane & 1) copy_element(starts[i] + row * args.from_row + lane * args.element, to + lane * core_.item);
    }
  }

  /// Panels as those of pack_b of the transposed windows of the image at `image`: rows [at, at + k) of the columns from `column` on.
  void pack_places(const char* image, int64_t at, int64_t k, int64_t column, int64_t columns, char* to) const {
    const auto &[planes, rows, line] = p_.windows->axes;
    const int64_t channels = p_.n / (planes.window * rows.window * line.window);
    for (int64_t first = 0; first < columns; first += core_.lanes) {
      const int64_t live = std::min<int64_t>(core_.lanes, columns - first);
      Stretch stretches[kMostLanes];  // of channels, `at` a place of the window
      int count = 0;
      for (int64_t lane = 0; lane < live; ++count) {
        const int64_t number = (column + first + lane) / channels, channel = (column + first + lane) % channels;
        Stretch& s = stretches[count];
        s = {{number / line.window / rows.window, number / line.window % rows.window, number % line.window}, lane, 0, channel};
        s.count = std::min(live - lane, channels - channel);
        lane += s.count;
      }
      char* const panel = to + first / panel_columns() * p_.depth * panel_row() + first % panel_columns() * core_.item;
      for (int64_t row = 0; row < k;) {
        const int64_t place = at + row, start = place % line.result, end = std::min(line.result, start + k - row);
        pack_line(image, {stretches, static_cast<std::size_t>(count)}, place / line.result, start, end, panel + row * panel_row());
        row += end - start;
      }
    }
  }

  /// Rows [start, end) of a line of the result, of one vector.
  void pack_line(const char* image, std::span<const Stretch> stretches, int64_t number, int64_t start, int64_t end, char* to) const {
    const Product::Windows& w = *p_.windows;
    const auto &[planes, rows, line] = w.axes;
    struct Part {
      int64_t begin, end;  // places at which the image is read
      const char* from;    // at place 0
      uint64_t lanes;
    } parts[kMostLanes];
    int64_t cuts[2 * kMostLanes + 2] = {start, end};
    int count = 0, places = 2;
    for (const Stretch& s : stretches) {
      const int64_t plane = number / rows.result * planes.stride - planes.before + s.at[0] * planes.dilation;
      const int64_t row = number % rows.result * rows.stride - rows.before + s.at[1] * rows.dilation;
      const int64_t column = s.at[2] * line.dilation - line.before;
      if (plane < 0 || plane >= planes.image || row < 0 || row >= rows.image || column >= line.image) continue;
      const int64_t begin = column >= 0 ? 0 : divide_up(-column, line.stride);
      const int64_t behind = (line.image - 1 - column) / line.stride + 1;
      const char* const from = image + s.channel * w.channel + plane * planes.pitch + row * rows.pitch + column * line.pitch;
      parts[count++] = {std::max(begin, start), std::min(behind, end), from, ((uint64_t{1} << s.count) - 1) << s.lane};
      cuts[places++] = std::clamp(begin, start, end), cuts[places++] = std::clamp(behind, start, end);
    }
    std::sort(cuts, cuts + places);
    const int64_t step = line.stride * line.pitch;
    // Lanes next to each other are channels or, of one channel, columns of the window.
    const bool along_window = std::all_of(stretches.begin(), stretches.end(), [](const Stretch& s) { return s.count == 1; });
    const int64_t element = along_window ? line.dilation * line.pitch : w.channel;
    for (int i = 1; i < places; ++i) {
      if (cuts[i - 1] == cuts[i]) continue;
      WindowArgs args;
      args.k = cuts[i] - cuts[i - 1];
      args.from_row = step, args.to_row = panel_row(), args.element = element;
      args.to = to + (cuts[i - 1] - start) * panel_row();
      const char* starts[kMostLanes];
      uint64_t lanes[kMostLanes];
      int used = 0;
      for (const Part& part : std::span(parts, static_cast<std::size_t>(count)))
        if (part.begin <= cuts[i - 1] && cuts[i] <= part.end) {
          const char* const from = part.from + cuts[i - 1] * step - std::countr_zero(part.lanes) * element;
          if (used > 0 && starts[used - 1] == from) {
            lanes[used - 1] |= part.lanes;
          } else {
            starts[used] = from;
            lanes[used++] = part.lanes;
          }
        }
      if (stretches.size() == 1 && !along_window && used == 1 && step == core_.item) {
        MatMulArgs transposed;
        transposed.a = starts[0], transposed.a_row = w.channel;
        transposed.c = args.to, transposed.c_row = args.to_row;
        transposed.k = args.k, transposed.live = stretches[0].count;
        call(MatMulCore::kTranspose, transposed);
      } else {
        copy_lanes(args, {starts, static_cast<std::size_t>(used)}, lanes);
      }
    }
  }

  /// All of one matrix. Each plane of the image is copied with the zeros around it, so that a row of the window is a row of A times a
  /// matrix whose rows are the line shifted by the dilation.
  void lines(char* scratch) const {
    const Product::Windows& w = *p_.windows;
    const auto &[planes, rows, columns] = w.axes;
    const int64_t item = core_.item, places = planes.window * rows.window * columns.window;
    MatMulArgs args;
    args.a_k = item;
    args.b_k = columns.dilation * item;
    args.live = columns.result;
    for (int64_t channel = 0; channel < p_.k / places; ++channel) {
      for (int64_t line = 0; line < planes.image * rows.image; ++line) {
        char* const to = scratch + line * line_bytes(columns);
        std::memset(to, 0, static_cast<std::size_t>(line_bytes(columns)));
        const char* from = b_at_ + channel * w.channel + line / rows.image * planes.pitch + line % rows.image * rows.pitch;
        std::memcpy(to + columns.before * item, from, static_cast<std::size_t>(columns.image * item));
      }
      for (int64_t row = 0; row < p_.m; ++row)
        for (int64_t line = 0; line < planes.result * rows.result; ++line) {
          args.c = c_at_ + row * p_.c_row + line * columns.result * item;
          args.add = channel > 0;
          for (int64_t z = 0; z < planes.window; ++z)
            for (int64_t y = 0; y < rows.window; ++y) {
              const int64_t plane = line / rows.result * planes.stride - planes.before + z * planes.dilation;
              const int64_t at = line % rows.result * rows.stride - rows.before + y * rows.dilation;
              if (plane < 0 || plane >= planes.image || at < 0 || at >= rows.image) continue;
              for (int64_t x = 0; x < columns.window; x += MatMulCore::kRowDepth) {
                const int64_t depth = std::min<int64_t>(MatMulCore::kRowDepth, columns.window - x);
                args.a = a_at_ + row * p_.a_row + (channel * places + (z * rows.window + y) * columns.window + x) * item;
                args.b = scratch + (plane * rows.image + at) * line_bytes(columns) + x * args.b_k;
                call(MatMulCore::row(static_cast<int>(depth)), args);
                args.add = 1;
              }
            }
          if (!args.add) std::memset(args.c, 0, static_cast<std::size_t>(columns.result * item));
        }
    }
  }
  int64_t line_bytes(const Product::Windows::Axis& columns) const {
    return (columns.result + (columns.window - 1) * columns.dilation) * core_.item;
  }

  // ---- dot products -------------------------------------------------------------------------------------------------

  /// `many` vectors beside `few`, both along k; the few are copied where they are not contiguous.
  void dots(const char* many, int64_t many_row, int64_t count, const char* few, int64_t few_row, int64_t few_k,
            int64_t few_count, char* c, int64_t c_many, int64_t c_few, char* scratch) const {
    MatMulArgs args;
    if (few_k != core_.item) {
      const int64_t pitch = round_up(p_.k, core_.lanes) * core_.item;
      pack_few(few, few_row, few_k, few_count, pitch, scratch);
      few = scratch;
      few_row = pitch;
    }
    args.k = p_.k;
    args.a_row = many_row;
    args.b_k = few_row;
    args.c_row = c_many;
    args.b_panel = c_few;
    const int64_t most = few_count == 1 ? MatMulCore::kMostDots : 4;
    for (int64_t row = 0; row < count; row += most) {
      const int64_t rows = std::min(most, count - row);
      const int64_t widest = core_.most_dot_columns(static_cast<int>(rows));
      for (int64_t column = 0; column < few_count; column += widest) {
        args.a = many + row * many_row;
        args.b = few + column * few_row;
        args.c = c + row * c_many + column * c_few;
        call(MatMulCore::dots(static_cast<int>(rows), static_cast<int>(std::min(widest, few_count - column))), args);
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

  const Product& p_;
  const MatMulCore& core_;
  const char *a_, *b_;
  char* c_;
  const FinishedTile* finished_;
  const char *a_at_ = nullptr, *b_at_ = nullptr;
  char* c_at_ = nullptr;
};

}  // namespace

bool Product::Windows::is_matrix(int64_t item) const {
  for (const Axis& a : axes)
    if (a.window != 1 || a.stride != 1 || a.before != 0 || a.image != a.result) return false;
  int64_t pitch = item;
  for (const Axis* a = axes + codegen::Windows::kAxes; a-- > axes; pitch *= a->image)
    if (a->image != 1 && a->pitch != pitch) return false;
  return true;
}

void Product::plan() {
  const int64_t item = core.item, lanes = core.lanes;
  if (windows && windows->is_matrix(item)) {
    b_k = windows->channel, b_column = item;
    if (windows->transposed) std::swap(b_k, b_column);
    windows.reset();
  }
  if (summed == 0) k = 0, summed = 1;
  // What has one element has any stride.
  if (k <= 1) a_k = item, b_k = b_column == item ? b_k : item;
  if (n <= 1) b_column = item;
  FRAMEJIT_CHECK(!windows || a_k == item, "rows of weights are contiguous");
  matrix_rows = m;
  // Matrices of A that follow each other and meet the same B are one matrix.
  while (!batch.empty() && batch.back().b == 0 && batch.back().a == m * a_row && batch.back().c == m * c_row) {
    m *= batch.back().extent;
    batch.pop_back();
  }
  rows = m;
  batches = 1;
  for (const Axis& axis : batch) batches *= axis.extent;
  empty = batches == 0 || m == 0 || n == 0;
  const double elements = static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(n);
  nanoseconds = 2 * elements * static_cast<double>(k * summed) / (item == 4 ? 100.0 : 50.0);
  const bool packs = summed > 1 || (windows && windows->transposed);  // nothing else does it
  // A column that lies along the rows of A is a row times a matrix.
  if (!packs && !windows && n == 1 && a_k != item && a_row == item && c_row == item) {
    std::swap(m, n);
    for (Axis& axis : batch) std::swap(axis.a, axis.b);
    swapped = true;
    const int64_t column_k = b_k;
    b_k = a_k, b_column = a_row;
    a_k = column_k, a_row = item;
  }
  if (windows) b_k = b_column = 0;
  const int64_t blocks = std::max<int64_t>(1, divide_up(k, tuning.depth));
  depth = std::max<int64_t>(1, std::min(k, round_up(divide_up(k, blocks), 8)));
  scratch_bytes = 0;
  single = -1;
  const int64_t most = core.most_rows(2);
  if (packs && k > 0) {
    path = Path::PackedTiles;
  } else if (windows && m <= tuning.few_channels && k > 0 && windows->axes[2].stride == 1 && windows->axes[2].pitch == item) {
    path = Path::Lines;
    const auto &[planes, lines, places] = windows->axes;
    scratch_bytes = planes.image * lines.image * (places.result + (places.window - 1) * places.dilation) * item;
  } else if (!windows && !narrow && n <= tuning.few_columns && a_k == item && k >= tuning.few_depth * n) {
    path = Path::Dots;
    if (b_k != item) scratch_bytes = round_up(k, lanes) * n * item;
  } else if (!windows && !narrow && m <= tuning.few_rows && b_k == item && b_column != item && k >= tuning.few_depth * m) {
    path = Path::DotsOfB;
    if (a_k != item) scratch_bytes = round_up(k, lanes) * m * item;
  } else if (!windows && !narrow && m == 1 && b_column == item && n >= 16 * lanes && n * k * item >= tuning.far_b) {
    path = Path::Row;
  } else if (k == 0 || (!windows && b_column == item &&
                         (m <= core.most_rows(4) || (m <= tuning.plain_rows && n * k * item <= 4 * l2_bytes) ||
                          (k <= tuning.plain_depth && n * k * item <= l2_bytes / 2)))) {
    path = Path::Tiles;
    find_single();
  } else {
    path = Path::PackedTiles;
  }
  if (path == Path::PackedTiles) {
    const int64_t panel = 2 * lanes;
    columns = std::max(panel, l2_bytes * 5 / 8 / (depth * item) / panel * panel);
    scratch_bytes = round_up(depth * round_up(most, lanes) * item, kPanelLine) +
                    depth * item * std::min(columns, round_up(n, panel));
  }
}

void Product::find_single() {
  if (k > depth) return;
  for (int vectors : {MatMulCore::kHalf, 1, 2}) {
    const int64_t lanes = vectors == MatMulCore::kHalf ? core.lanes / 2 : core.lanes, width = std::max(1, vectors) * lanes;
    const bool masked = n < width;
    if (n > width || m > core.most_rows(vectors) || !core.has_tile(static_cast<int>(m), vectors, masked)) continue;
    single = MatMulCore::tile(static_cast<int>(m), vectors, masked);
    live = n - (width - lanes);
    return;
  }
}

namespace {

/// How a product is cut into pieces that are run by themselves: rows x columns of blocks, the rows of a column of blocks one after
/// the other, since they share what is packed of B.
struct Grid {
  int64_t rows = 1, columns = 1, panel = 1;

  Grid(const Product& p, double pieces) : panel(p.path == Product::Path::DotsOfB ? 1 : 2 * p.core.lanes) {
    const int64_t least_rows = p.path == Product::Path::PackedTiles ? 4 * p.core.most_rows(2) : p.core.most_rows(2);
    const int64_t least_columns = p.path == Product::Path::DotsOfB ? 32 : 4 * panel;
    if (p.columns > 0) columns = divide_up(p.n, p.columns);
    while (static_cast<double>(p.batches * rows * columns) < pieces) {
      const int64_t height = divide_up(p.m, rows + 1), width = divide_up(p.n, columns + 1);
      const bool by_rows = height >= least_rows && p.path != Product::Path::DotsOfB && p.path != Product::Path::Lines;
      const bool by_columns = width >= least_columns && p.path != Product::Path::Dots && p.path != Product::Path::Lines;
      if (by_rows && (!by_columns || height >= width))
        ++rows;
      else if (by_columns)
        ++columns;
      else
        break;
    }
  }

  int64_t row(const Product& p, int64_t i) const { return p.m * i / rows; }
  int64_t column(const Product& p, int64_t i) const {
    return i == columns ? p.n : std::min(p.n, round_up(p.n * i / columns, panel));
  }
};

}  // namespace

void run_product(const Product& product, const char* a, const char* b, char* c, RunState& state,
                 const FinishedTile* finished) {
  if (product.empty) return;
  if (product.swapped) std::swap(a, b);
  Runner runner(product, a, b, c, finished);
  if (product.single >= 0 && product.batches == 1) return runner.run({0, 0, product.m, 0, product.n}, nullptr);
  const bool split = worth_splitting(product.nanoseconds);
  const bool polled = state.poller && state.poller->active() && product.nanoseconds > kPieceNanoseconds;
  if (!split && !polled) {
    const Scratch scratch(state.reserve ? 0 : product.scratch_bytes, state);
    for (int64_t batch = 0; batch < product.batches; ++batch)
      runner.run({batch, 0, product.m, 0, product.n}, state.reserve ? state.reserve : scratch.data());
    return;
  }
  double pieces = split ? std::min(4.0 * num_threads(), product.nanoseconds / kLeastPiece) : 1.0;
  if (polled) pieces = std::max(pieces, product.nanoseconds / kPieceNanoseconds);
  const Grid grid(product, pieces);
  const int64_t blocks = grid.rows * grid.columns;
  run_pieces(product.batches * blocks, 1, product.nanoseconds, true, state, [&](int64_t begin, int64_t end) {
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

void run_product_here(const Product& product, const char* a, const char* b, char* c, char* scratch) {
  if (product.empty) return;
  if (product.swapped) std::swap(a, b);
  Runner(product, a, b, c, nullptr).run({0, 0, product.m, 0, product.n}, scratch);
}

namespace {

/// The epilogue on a rectangle of one matrix of the batch. Its columns are one axis of the loop or, place after place, several.
void run_epilogue(const BoundMatMul& step, const RunState& state, int64_t batch, int64_t row, int64_t row_end, int64_t column,
                  int64_t column_end) {
  const BoundLoop& loop = *step.epilogue;
  const std::vector<uint16_t>& operands = loop.stages[0].operands;
  const int inner = loop.rank() - 1, rows = inner - step.column_axes;
  const int64_t count = row_end - row, length = loop.extents[static_cast<std::size_t>(inner)];
  row += batch % step.groups * step.product.matrix_rows;
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
  char* pointers[kMaxOperands];
  int64_t strides[2 * kMaxOperands];
  while (column < column_end) {
    const int64_t stretch = step.column_axes == 1 ? column_end - column : std::min(column_end - column, length - column % length);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const uint16_t operand = operands[i];
      const BoundOperand& o = loop.operands[operand];
      pointers[i] = state.buffers[o.buffer] + o.offset + along(operand, batch, 0, rows - 1) + row * loop.stride(operand, rows) +
                    along(operand, column, rows + 1, inner);
      strides[2 * i] = loop.stride(operand, inner);
      strides[2 * i + 1] = loop.stride(operand, rows);
    }
    loop.stages[0].kernel(pointers, strides, stretch, count);
    column += stretch;
  }
}

/// Rounded to the nearest, ties to even; a NaN stays one.
uint32_t bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;
}

/// One line of pairs: elements of `first`, and those of `second`, above them; null where k has no such row.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void narrow_line(const char* first, const char* second, int64_t step,
                                                                       int64_t count, int64_t out_step, char* out) {
  const auto at = [](const char* from, int64_t offset) {
    float value;
    std::memcpy(&value, from + offset, 4);
    return value;
  };
  const auto put = [&](int64_t i, uint32_t pair) { std::memcpy(out + i * out_step, &pair, 4); };
  if (!second)
    for (int64_t i = 0; i < count; ++i) put(i, bfloat16(at(first, i * step)));
  else if (step == 4 && out_step == 4)
    for (int64_t i = 0; i < count; ++i) put(i, bfloat16(at(first, i * 4)) | bfloat16(at(second, i * 4)) << 16);
  else
    for (int64_t i = 0; i < count; ++i) put(i, bfloat16(at(first, i * step)) | bfloat16(at(second, i * step)) << 16);
}

/// An operand as pairs along k. A line goes along the other axis, in stretches that the first-level cache holds.
void narrow(const BoundMatMul::Narrow& n, const char* from, char* to, RunState& state) {
  const int64_t pairs = (n.k + 1) / 2, stretches = divide_up(n.length, kNarrowStretch);
  const int64_t work = n.matrices * stretches;
  const double cost = static_cast<double>(n.matrices * n.length * n.k) / 2;
  run_pieces(work, 1, cost, true, state, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const char* matrix = from;
      int64_t rest = piece / stretches;
      for (std::size_t i = n.batch.size(); i-- > 0; rest /= n.batch[i].first) matrix += rest % n.batch[i].first * n.batch[i].second;
      const int64_t first = piece % stretches * kNarrowStretch, count = std::min(kNarrowStretch, n.length - first);
      char* const out = to + piece / stretches * pairs * n.length * 4 + first * n.out_step;
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const char* const low = matrix + first * n.step + 2 * pair * n.along_k;
        narrow_line(low, 2 * pair + 1 < n.k ? low + n.along_k : nullptr, n.step, count, n.out_step, out + pair * n.out_along_k);
      }
    }
  });
}

}  // namespace

void execute_matmul(const BoundMatMul& step, RunState& state) {
  auto at = [&](const BoundOperand& o) { return state.buffers[o.buffer] + o.offset; };
  const FinishedTile finished = [&](int64_t batch, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
    run_epilogue(step, state, batch, row, row_end, column, column_end);
  };
  const FinishedTile* const epilogue = step.epilogue ? &finished : nullptr;
  if (!step.narrowed) return run_product(step.product, at(step.a), at(step.b), at(step.c), state, epilogue);
  // What is rounded lies before the scratch of the product.
  char* const memory = state.reserve;
  state.reserve += step.narrowed->bytes();
  narrow(step.narrowed->a, at(step.a), memory, state);
  narrow(step.narrowed->b, at(step.b), memory + step.narrowed->a.bytes, state);
  run_product(step.product, memory, memory + step.narrowed->a.bytes, at(step.c), state, epilogue);
  state.reserve = memory;
}

}  // namespace framejit::runtime
