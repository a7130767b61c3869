// Convolutions: products of weights and the windows of an image, which are never in memory as a whole.
//
//     Indirect         for each band of places of the result: a copy of what its windows see, if the image has zeros
//                      around it; for each panel of channels and block of k: pack the weights; tiles of places (rows)
//                      by channels (columns); after the last block of k, the sums are transposed into C
//     Lines            few channels: lines of the result as sums of shifted lines of such a copy
//     Weights          the gradient of weights: for some panels of channels of the result, each image and band of
//                      places, which are k: a copy of what windows see there; for each block of k and panel: pack the
//                      cotangent of the result; tiles of channels of the image, or places of the window, by those of
//                      the result
//     WeightsOfLines   the same for few channels on both sides: lines of the cotangent times shifted lines of such a
//     copy
//
// Either way the elements that a weight is multiplied with lie where a table says, from the first element of a window.
#include <algorithm>
#include <cstring>

#include "graph/support/check.h"
#include "runtime/convolution_parts.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kSumsBytes = 4 << 20;  // of the gradient of weights, while the images of a batch pass by
constexpr int64_t kSlideVectors = 256;   // of a chain of sums
constexpr int64_t kFewPlaces = 4;        // of a line of the result: below it tiles go along another axis

class Convolution : ConvolutionParts {
 public:
  using ConvolutionParts::ConvolutionParts;

  void run(const Block& block, char* scratch) const {
    switch (p_.way.path) {
      case Product::Path::Lines: return lines(block, scratch);
      case Product::Path::Weights: return weights(block, scratch);
      case Product::Path::WeightsOfLines: return weights_of_lines(block, scratch);
      default: return indirect(block, scratch);
    }
  }

 private:
  /// The weights of as many channels as a panel has columns are what B is elsewhere; the places of a band are the rows.
  void indirect(const Block& block, char* scratch) const {
    const Product::Windows& w = *p_.windows;
    char* const weights = scratch;
    char* const sums = weights + weights_bytes();
    auto* const reach =
        reinterpret_cast<int64_t*>(sums + w.band_planes * w.band_lines * w.axes[2].result * panel_row());
    char* const copy = reinterpret_cast<char*>(reach) + round_up(p_.k * 8, kPanelLine);
    bool known = false;
    each_band(block.column, block.column_end, [&](const Band& band) {
      const Part part = part_of(band, copy);
      if (!known) set_reach(part, reach);
      known = true;
      for (int64_t row = block.row; row < block.row_end; row += panel_columns()) {
        const int64_t channels = std::min(panel_columns(), block.row_end - row);
        for (int64_t at = 0; at < p_.k; at += p_.way.depth) {
          MatMulArgs args;
          args.k = std::min(p_.way.depth, p_.k - at);
          args.add = at > 0;
          args.b = weights;
          args.b_k = panel_row();
          args.reach = reach + at;
          pack_weights(a_at_ + row * p_.a_row + at * p_.a_k, args.k, channels, weights);
          reached_tiles(args, part, band, channels > core_.lanes ? 2 : 1, sums);
        }
        store_sums(band, row, channels, sums, weights);
        finish_band(block.batch, band, row, row + channels);
      }
    });
  }

  /// Sums of a band, place after place.
  void reached_tiles(MatMulArgs& args, const Part& part, const Band& band, int vectors, char* sums) const {
    const Product::Windows& w = *p_.windows;
    const int64_t lengths[] = {band.planes, band.lines, w.axes[2].result};
    const int64_t apart[] = {lengths[1] * lengths[2] * panel_row(), lengths[2] * panel_row(), panel_row()};
    const int first = w.along == 0, second = w.along == 2 ? 1 : 2, along = w.along;
    args.a_row = w.axes[along].stride * part.pitches[along];
    args.c_row = apart[along];
    for (int64_t i = 0; i < lengths[first]; ++i)
      for (int64_t j = 0; j < lengths[second]; ++j) {
        args.a = part.data + i * w.axes[first].stride * part.pitches[first] +
                 j * w.axes[second].stride * part.pitches[second];
        args.c = sums + i * apart[first] + j * apart[second];
        reached_rows(args, lengths[along], vectors);
      }
  }

  /// The weights of a few channels are rows of A, lines of the part of the image make up B.
  void lines(const Block& block, char* scratch) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, rows, columns] = w.axes;
    auto* const reach = reinterpret_cast<int64_t*>(scratch);
    char* const copy = scratch + round_up(p_.k * 8, kPanelLine);
    const int64_t vectors = divide_up(columns.result, core_.lanes);
    bool known = false;
    each_band(block.column, block.column_end, [&](const Band& band) {
      const Part part = part_of(band, copy);
      MatMulArgs args;
      args.a_row = p_.a_row;
      args.c_row = p_.c_row;
      args.k = p_.k;
      args.reach = reach;
      args.b_panel = rows.stride * part.pitches[1];
      args.c_panel = columns.result * core_.item;
      for (int64_t plane = 0; plane < band.planes; ++plane) {
        const char* const from = part.data + plane * planes.stride * part.pitches[0];
        char* const to = c_at_ + (band.plane + plane) * w.c_plane + band.line * args.c_panel;
        const int64_t done = depthwise(part, band, from, to);
        args.panels = band.lines - done;
        if (args.panels == 0) continue;
        if (!known) set_reach(part, reach);
        known = true;
        row_blocks(0, p_.m, ConvolutionCore::kLineRows, [&](int64_t row, int64_t count) {
          row_blocks(0, vectors, ConvolutionCore::most_line_vectors(core_, static_cast<int>(count)),
                     [&](int64_t vector, int64_t width) {
                       const int64_t place = vector * core_.lanes;
                       args.a = a_at_ + row * p_.a_row;
                       args.b = from + done * args.b_panel + place * core_.item;
                       args.c = to + row * p_.c_row + done * args.c_panel + place * core_.item;
                       args.live = std::min<int64_t>(core_.lanes, columns.result - place - (width - 1) * core_.lanes);
                       call(ConvolutionCore::line_convolution(static_cast<int>(count), static_cast<int>(width)), args);
                     });
        });
      }
      finish_band(block.batch, band, 0, p_.m);
    });
  }

  /// Several lines at once, where a window of one channel has as many lines as there are parts for; gives how many that
  /// were.
  int64_t depthwise(const Part& part, const Band& band, const char* from, char* to) const {
    const auto& [planes, rows, columns] = p_.windows->axes;
    const auto& windows = ConvolutionCore::kDepthwiseWindows;
    const bool one_by_one = rows.stride == 1 && rows.dilation == 1 && columns.stride == 1;
    if (!one_by_one || p_.k != rows.window * columns.window ||
        std::find(std::begin(windows), std::end(windows), rows.window) == std::end(windows))
      return 0;
    MatMulArgs args;
    args.a_row = columns.dilation * part.pitches[2];
    args.a_k = columns.window * core_.item;
    args.b_k = part.pitches[1];
    args.k = columns.window;
    args.c_panel = columns.result * core_.item;
    int64_t line = 0;
    for (const int lines : ConvolutionCore::kDepthwiseLines) {
      args.panels = (band.lines - line) / lines;
      if (args.panels == 0) continue;
      for (int64_t row = 0; row < p_.m; ++row)
        row_blocks(0, divide_up(columns.result, core_.lanes), ConvolutionCore::most_depthwise_vectors(core_, lines),
                   [&](int64_t vector, int64_t width) {
                     const int64_t place = vector * core_.lanes;
                     args.a = a_at_ + row * p_.a_row;
                     args.b = from + line * args.b_k + place * core_.item;
                     args.c = to + row * p_.c_row + line * args.c_panel + place * core_.item;
                     args.live = std::min<int64_t>(core_.lanes, columns.result - place - (width - 1) * core_.lanes);
                     call(ConvolutionCore::depthwise(static_cast<int>(rows.window), lines, static_cast<int>(width)),
                          args);
                   });
      line += args.panels * lines;
    }
    return line;
  }

  /// Columns [column, column_end) are channels of the image, with all places of the window of each.
  void weights(const Block& block, char* scratch) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, lines, columns] = w.axes;
    const int64_t window = planes.window * lines.window * columns.window, item = core_.item;
    const int64_t channel = block.column / window, channels = block.column_end / window - channel;
    const bool whole = w.band_planes == planes.result && w.band_lines == lines.result;
    const int64_t next_image = w.in_place ? p_.next_b : channels * w.copied_channel;
    char* const panel = scratch;
    char* const sums = panel + weights_bytes();
    const int64_t sums_bytes = channels * window * panel_row();
    auto* const reach = reinterpret_cast<int64_t*>(sums + w.together * sums_bytes);
    char* const copy = reinterpret_cast<char*>(reach) +
                       round_up(w.band_images * w.band_planes * w.band_lines * columns.result * 8, kPanelLine);
    int64_t copied = 0;  // images of which `copy` has held a part
    for (int64_t first = block.row; first < block.row_end; first += w.together * panel_columns()) {
      const int64_t last = std::min(block.row_end, first + w.together * panel_columns());
      const auto each_panel = [&](auto&& f) {
        for (int64_t row = first; row < last; row += panel_columns())
          f(row, std::min(panel_columns(), last - row), sums + (row - first) / panel_columns() * sums_bytes);
      };
      for (int64_t number = 0; number < p_.summed; number += w.band_images) {
        const int64_t images = std::min(w.band_images, p_.summed - number);
        each_band(0, p_.k, [&](const Band& band) {
          if (stopped()) return;
          const int64_t place = (band.plane * lines.result + band.line) * columns.result;
          const int64_t places = band.planes * band.lines * columns.result;
          Part part;
          for (int64_t i = images; i-- > 0;)
            part = part_of(b_at_ + (number + i) * p_.next_b + channel * w.channel, channels, band,
                           copy + i * next_image, i < copied && (whole || is_inside(band)));
          if (copied == 0)
            for (int64_t i = 0; i < images * places; ++i) {
              const int64_t line = i % places / columns.result;
              reach[i] = i / places * next_image + line / band.lines * planes.stride * part.pitches[0] +
                         line % band.lines * lines.stride * part.pitches[1] +
                         i % columns.result * columns.stride * part.pitches[2];
            }
          copied = std::max(copied, images);
          const int64_t end = images * places;
          for (int64_t at = 0, next; at < end; at = next) {
            next = std::min({end, at + p_.way.depth, round_up(at + 1, w.block_places)});
            each_panel([&](int64_t row, int64_t count, char* to) {
              MatMulArgs args;
              args.k = next - at;
              args.add = number > 0 || place > 0 || at > 0;
              args.b = panel;
              args.b_k = panel_row();
              args.reach = reach + at;
              const char* const cotangent = a_at_ + number * p_.next_a + row * p_.a_row + place * item;
              for (int64_t i = at / places, from = at % places; i * places < next; ++i, from = 0)
                pack_weights(cotangent + i * p_.next_a + from * item, std::min(places, next - i * places) - from, count,
                             panel + (i * places + from - at) * panel_row());
              weights_tiles(args, part, channels, count > core_.lanes ? 2 : 1, to);
            });
          }
        });
      }
      const int64_t stretches = channels == w.channels ? 1 : window, stretch = channels * window / stretches;
      each_panel([&](int64_t row, int64_t count, const char* from) {
        for (int64_t i = 0; i < stretches; ++i)
          turn_sums(from + i * stretch * panel_row(), stretch, count,
                    c_at_ + row * p_.c_row + (i * w.channels + channel) * item, panel);
      });
    }
  }

  /// Does the image have all positions that windows of the band see, but for places before and behind its lines?
  bool is_inside(const Band& band) const {
    const auto& [planes, lines, columns] = p_.windows->axes;
    const int64_t plane = band.plane * planes.stride - planes.before, line = band.line * lines.stride - lines.before;
    return plane >= 0 && plane + Product::Windows::seen(planes, band.planes) <= planes.image && line >= 0 &&
           line + Product::Windows::seen(lines, band.lines) <= lines.image;
  }

  void weights_tiles(MatMulArgs& args, const Part& part, int64_t channels, int vectors, char* sums) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, lines, columns] = w.axes;
    const bool by_channels = w.along == Product::Windows::kAxes;
    args.a_row = by_channels ? part.channel : columns.dilation * part.pitches[2];
    args.c_row = by_channels ? panel_row() : channels * panel_row();
    const int64_t step = by_channels ? 1 : columns.window;
    for (int64_t place = 0; place < planes.window * lines.window * columns.window; place += step) {
      const int64_t line = place / columns.window;
      const char* const from = part.data + line / lines.window * planes.dilation * part.pitches[0] +
                               line % lines.window * lines.dilation * part.pitches[1] +
                               place % columns.window * columns.dilation * part.pitches[2];
      for (int64_t channel = 0; channel < (by_channels ? 1 : channels); ++channel) {
        args.a = from + channel * part.channel;
        args.c = sums + (place * channels + channel) * panel_row();
        reached_rows(args, by_channels ? channels : columns.window, vectors);
      }
    }
  }

  /// A line of the cotangent moves along a line of the image, one place of the window after the other.
  void weights_of_lines(const Block& block, char* scratch) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, lines, columns] = w.axes;
    const int64_t item = core_.item,
                  most = std::max<int64_t>(1, kSlideVectors / divide_up(columns.result, core_.lanes));
    for (int64_t number = 0; number < p_.summed; ++number) {
      const Part part =
          part_of(b_at_ + number * p_.next_b, w.channels, {0, planes.result, 0, lines.result}, scratch, number > 0);
      for (int64_t row = block.row; row < block.row_end; ++row)
        for (int64_t channel = 0; channel < w.channels; ++channel)
          for (int64_t plane = 0; plane < planes.result; ++plane)
            for (int64_t line = 0; line < lines.result; line += most) {
              MatMulArgs args;
              args.a_row = lines.dilation * part.pitches[1];
              args.a_k = lines.stride * part.pitches[1];
              args.b =
                  a_at_ + number * p_.next_a + row * p_.a_row + (plane * lines.result + line) * columns.result * item;
              args.b_panel = columns.result * item;
              args.c_panel = w.channels * item;
              args.c_row = columns.window * args.c_panel;
              args.k = columns.result;
              args.panels = std::min(most, lines.result - line);
              args.add = number > 0 || plane > 0 || line > 0;
              const char* const image =
                  part.data + channel * part.channel + plane * planes.stride * part.pitches[0] + line * args.a_k;
              char* const sums = c_at_ + row * p_.c_row + channel * item;
              for (int64_t z = 0; z < planes.window; ++z)
                slide(args, image + z * planes.dilation * part.pitches[0], sums + z * lines.window * args.c_row);
            }
    }
  }

  void slide(MatMulArgs& args, const char* image, char* sums) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, lines, columns] = w.axes;
    row_blocks(0, columns.window, ConvolutionCore::kGradientColumns, [&](int64_t column, int64_t count) {
      int64_t moved[ConvolutionCore::kGradientColumns];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t place = (column + i) * columns.dilation;
        moved[i] = place % w.parts * w.part + place / w.parts * core_.item;
      }
      args.reach = moved;
      row_blocks(0, lines.window, ConvolutionCore::most_gradient_rows(static_cast<int>(count)),
                 [&](int64_t row, int64_t rows) {
                   args.a = image + row * args.a_row;
                   args.c = sums + row * args.c_row + column * args.c_panel;
                   call(ConvolutionCore::weight_gradient(static_cast<int>(rows), static_cast<int>(count)), args);
                 });
    });
  }
};

}  // namespace

void run_convolution(const ProductParts& at, const Block& block, char* scratch) {
  at.path() == Product::Path::Winograd ? run_winograd(at, block, scratch) : Convolution(at).run(block, scratch);
}

bool Product::Windows::is_matrix(int64_t item) const {
  for (const Axis& a : axes)
    if (a.window != 1 || a.stride != 1 || a.before != 0 || a.image != a.result) return false;
  int64_t pitch = item;
  for (const Axis* a = axes + codegen::Windows::kAxes; a-- > axes; pitch *= a->image)
    if (a->image != 1 && a->pitch != pitch) return false;
  return true;
}

void Product::plan_windows() {
  Windows& w = *windows;
  auto& [planes, lines, places] = w.axes;
  const int64_t item = core.item, lanes = core.lanes;
  w.c_plane = w.places() * item;
  w.channels = (w.transposed ? n : k) / (planes.window * lines.window * places.window);
  if (!w.transposed && !batch.empty() && batch.front().a == 0 && planes.image == 1 && planes.window == 1 &&
      planes.before == 0 && planes.result == 1) {
    // Images of a batch are planes that see the same weights.
    planes.stride = 1;
    planes.image = planes.result = batch.front().extent;
    planes.pitch = batch.front().b;
    w.c_plane = batch.front().c;
    w.images = true;
    batch.erase(batch.begin());
    n *= planes.result;
    way.batches /= std::max<int64_t>(1, planes.result);
  }
  const auto idle = [&](int64_t length) {
    return static_cast<double>(round_up(length, lanes)) / static_cast<double>(length);
  };
  const auto three = [](const Windows::Axis& a) {
    return a.window == 3 && a.stride == 1 && a.dilation == 1 && a.result >= 4;
  };
  const bool enough = std::min(w.channels, m) >= (core.avx512 ? tuning.fewest_winograd : tuning.fewest_winograd_avx2) &&
                      n >= tuning.winograd_places;
  if (winograd && !w.transposed && item == 4 && planes.window == 1 && planes.stride == 1 && planes.before == 0 &&
      three(lines) && three(places) && enough) {
    way.path = Path::Winograd;
    w.tile = 2;
    const int64_t wide = divide_up(places.result, 2), high = divide_up(lines.result, 2);
    const int64_t fit = std::max(tuning.winograd_tiles, l2_bytes / 2 / (16 * w.channels * item));
    w.band_lines = std::min(lines.result, 2 * std::max<int64_t>(1, fit / wide));
    w.band_planes = w.band_lines < lines.result ? 1 : std::clamp<int64_t>(fit / (wide * high), 1, planes.result);
    w.part = Windows::seen(places, 2 * wide) * item;
    w.line = w.part;
    w.plane = Windows::seen(lines, round_up(w.band_lines, 2)) * w.line;
    w.copied_channel = round_up(w.band_planes * w.plane, kPanelLine) | kPanelLine;
    scratch_bytes = winograd_scratch(*this);
    return;
  }
  const bool by_lines = m <= tuning.few_channels && idle(places.result) <= idle(m);
  way.path = w.transposed ? (by_lines ? Path::WeightsOfLines : Path::Weights) : by_lines ? Path::Lines : Path::Indirect;
  w.in_place =
      way.path != Path::Lines && (way.path != Path::WeightsOfLines || (places.stride == 1 && places.pitch == item));
  w.along = Windows::kAxes - 1;
  for (int i = Windows::kAxes; i-- > 0;) {
    Windows::Axis& a = w.axes[i];
    if (a.window == 1 && a.before == 0 && a.stride > 1) {
      // Nothing lies between the places.
      a.image = divide_up(a.image, a.stride);
      a.pitch *= a.stride;
      a.stride = 1;
      w.in_place = false;
    }
    w.in_place = w.in_place && a.before == 0 && Windows::seen(a, a.result) <= a.image;
    if (places.result < kFewPlaces && a.result > w.axes[w.along].result) w.along = i;
  }
  w.parts = by_lines ? places.stride : 1;
  const int64_t least = std::max<int64_t>(1, tuning.band_places / places.result);
  w.band_lines = w.along < 2 ? lines.result : std::min(lines.result, least);
  w.band_planes = w.band_lines < lines.result
                      ? 1
                      : std::clamp<int64_t>(least / lines.result, 1, std::max<int64_t>(1, planes.result));
  if (w.transposed) {
    w.along = by_lines || (w.channels < kFewPlaces && places.window > w.channels) ? Windows::kAxes - 1 : Windows::kAxes;
    w.band_lines = lines.result;
    w.band_planes = planes.result;
    w.together = std::clamp<int64_t>(kSumsBytes / (n * 2 * core.vector_bytes()), 1, divide_up(m, 2 * lanes));
  }
  if (way.path == Path::Weights) {
    // Blocks of k are whole lines, planes or images, as many as there is room for in one. A band is some of them, as
    // long as its copy is small.
    const int64_t most = std::max<int64_t>(1, way.depth / places.result), plane = w.places();
    const int64_t block_lines = std::min(most, lines.result);
    w.band_planes = block_lines < lines.result ? 1 : std::clamp<int64_t>(way.depth / plane, 1, planes.result);
    w.band_images = w.band_planes < planes.result || block_lines < lines.result
                        ? 1
                        : std::clamp<int64_t>(way.depth / (planes.result * plane), 1, summed);
    w.block_places = w.band_images * w.band_planes * block_lines * places.result;
    const int64_t fit =
        l2_bytes / 2 / (w.channels * Windows::seen(places, places.result) * item);  // lines of the image
    w.band_lines = std::clamp(((fit - Windows::seen(lines, 1)) / lines.stride + 1) / block_lines * block_lines,
                              block_lines, lines.result);
  }
  w.part = by_lines ? (round_up(places.result, lanes) + (places.window - 1) * places.dilation / w.parts) * item
                    : Windows::seen(places, places.result) * item;
  w.line = w.parts * w.part;
  w.plane = Windows::seen(lines, w.band_lines) * w.line;
  w.copied_channel = (round_up(Windows::seen(planes, w.band_planes) * w.plane, kPanelLine) | kPanelLine);
  const int64_t band_places = w.band_images * w.band_planes * w.band_lines * places.result;
  scratch_bytes = round_up((way.path == Path::Weights ? band_places : k) * 8, kPanelLine);
  if (!w.in_place) scratch_bytes += w.band_images * w.channels * w.copied_channel;
  const int64_t sums = w.transposed ? n * w.together : w.band_planes * w.band_lines * places.result;
  if (!by_lines) scratch_bytes += (std::max(way.depth, lanes) + sums) * 2 * core.vector_bytes();
}

}  // namespace framejit::runtime
