// What the ways to convolve share: bands of the result, the part of the image that one sees, weights and sums in
// panels.
#pragma once

#include "runtime/product_parts.h"

namespace framejit::runtime {

class ConvolutionParts : protected ProductParts {
 public:
  explicit ConvolutionParts(const ProductParts& parts) : ProductParts(parts) {}

 protected:
  /// What one part of the image is made of, or the image itself: bytes from one to the next.
  struct Part {
    const char* data;
    int64_t channel, pitches[Product::Windows::kAxes];
  };
  /// Positions of the result along the first two axes.
  struct Band {
    int64_t plane, planes, line, lines;
  };

  /// Calls f(band) for bands that make up columns [column, column_end), which are whole lines, or planes where bands
  /// are.
  template <class F>
  void each_band(int64_t column, int64_t column_end, F&& f) const {
    const Product::Windows& w = *p_.windows;
    const int64_t height = w.axes[1].result, width = w.axes[2].result;
    while (column < column_end) {
      const int64_t line = column / width, left = (column_end - column) / width;
      Band band{line / height, 1, line % height, std::min({w.band_lines, left, height - line % height})};
      if (band.lines == height) band.planes = std::max<int64_t>(1, std::min(w.band_planes, left / height));
      f(band);
      column += band.planes * band.lines * width;
    }
  }

  /// What the windows of a band see, channel after channel, with zeros where that is not of the image.
  Part part_of(const Band& band, char* copy) const { return part_of(b_at_, p_.windows->channels, band, copy); }
  /// The same of so many channels from `image` on. `cleared`: the zeros of `copy` are already where those of the band
  /// are.
  Part part_of(const char* image, int64_t channels, const Band& band, char* copy, bool cleared = false) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, lines, columns] = w.axes;
    const int64_t plane = band.plane * planes.stride - planes.before, line = band.line * lines.stride - lines.before;
    if (w.in_place)
      return {image + plane * planes.pitch + line * lines.pitch, w.channel, {planes.pitch, lines.pitch, columns.pitch}};
    const int64_t depth = Product::Windows::seen(planes, band.planes),
                  height = Product::Windows::seen(lines, round_up(band.lines, w.tile));
    if (!cleared) std::memset(copy, 0, static_cast<std::size_t>(channels * w.copied_channel));
    const int64_t item = core_.item, length = w.part / item, pitch = w.parts * columns.pitch;
    for (int64_t part = 0; part < w.parts; ++part) {
      // Positions part + parts * i - before, of which [first, end) are in the image.
      const int64_t first = std::min(divide_up(std::max<int64_t>(columns.before - part, 0), w.parts), length);
      const int64_t end =
          std::clamp(divide_up(std::max<int64_t>(columns.image + columns.before - part, 0), w.parts), first, length);
      const char* const from = image + (part + first * w.parts - columns.before) * columns.pitch;
      char* const to = copy + part * w.part + first * item;
      for (int64_t channel = 0; channel < channels; ++channel)
        for (int64_t z = std::max<int64_t>(plane, 0); z < std::min(plane + depth, planes.image); ++z) {
          const int64_t y = std::max<int64_t>(line, 0), y_end = std::min(line + height, lines.image);
          copy_lines(from + channel * w.channel + z * planes.pitch + y * lines.pitch, pitch, end - first, lines.pitch,
                     to + channel * w.copied_channel + (z - plane) * w.plane + (y - line) * w.line, w.line, y_end - y);
        }
    }
    return {copy, w.copied_channel, {w.plane, w.line, item}};
  }

  /// `count` lines of so many elements, which are `pitch` bytes apart.
  void copy_lines(const char* from, int64_t pitch, int64_t elements, int64_t from_line, char* to, int64_t to_line,
                  int64_t count) const {
    if (pitch == core_.item) return copy_bytes(from, elements * core_.item, from_line, to, to_line, count);
    for (int64_t i = 0; i < count; ++i, from += from_line, to += to_line)
      core_.item == 4 ? copy_spread<uint32_t>(from, pitch, elements, to)
                      : copy_spread<uint64_t>(from, pitch, elements, to);
  }

  /// As memcpy, which takes longer for short lines than their bytes do.
  [[gnu::target("avx2")]] static void copy_bytes(const char* from, int64_t bytes, int64_t from_line, char* to,
                                                 int64_t to_line, int64_t count) {
    using Chunk [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = char;
    constexpr int64_t kChunk = sizeof(Chunk), kShort = 16 * kChunk;
    for (int64_t i = 0; i < count; ++i, from += from_line, to += to_line) {
      if (bytes < kChunk || bytes > kShort) {
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
        continue;
      }
      const Chunk last = *reinterpret_cast<const Chunk*>(from + bytes - kChunk);
      for (int64_t at = 0; at + kChunk < bytes; at += kChunk)
        *reinterpret_cast<Chunk*>(to + at) = *reinterpret_cast<const Chunk*>(from + at);
      *reinterpret_cast<Chunk*>(to + bytes - kChunk) = last;
    }
  }

  template <class Bits>
  [[gnu::target("avx2")]] static void copy_spread(const char* from, int64_t pitch, int64_t count, char* to) {
    using Chunk [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = Bits;
    constexpr int64_t kItem = sizeof(Bits), kLanes = 32 / kItem;
    int64_t i = 0;
    if (pitch == 2 * kItem)
      for (; i + kLanes < count; i += kLanes, from += 64, to += 32) {  // not where the last one is behind the image
        const Chunk low = *reinterpret_cast<const Chunk*>(from), high = *reinterpret_cast<const Chunk*>(from + 32);
        if constexpr (kLanes == 8)
          *reinterpret_cast<Chunk*>(to) = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
        else *reinterpret_cast<Chunk*>(to) = __builtin_shufflevector(low, high, 0, 2, 4, 6);
      }
    for (; i < count; ++i, from += pitch, to += kItem) {
      Bits bits;
      std::memcpy(&bits, from, sizeof(bits));
      std::memcpy(to, &bits, sizeof(bits));
    }
  }

  /// Where the elements of B that are multiplied with a row of weights lie in a part of the image.
  void set_reach(const Part& part, int64_t* reach) const {
    const Product::Windows& w = *p_.windows;
    const auto& [planes, lines, columns] = w.axes;
    for (int64_t channel = 0, i = 0; i < p_.k; ++channel)
      for (int64_t z = 0; z < planes.window; ++z)
        for (int64_t y = 0; y < lines.window; ++y)
          for (int64_t x = 0; x < columns.window; ++x) {
            const int64_t column = x * columns.dilation;
            reach[i++] = channel * part.channel + z * planes.dilation * part.pitches[0] +
                         y * lines.dilation * part.pitches[1] + column % w.parts * w.part +
                         column / w.parts * part.pitches[2];
          }
  }

  /// Rows of C that are done, in the places of a band.
  void finish_band(int64_t batch, const Band& band, int64_t row, int64_t row_end) const {
    const Product::Windows& w = *p_.windows;
    const int64_t width = w.axes[2].result, places = w.places();
    for (int64_t plane = band.plane; plane < band.plane + band.planes; ++plane) {
      const int64_t first = (w.images ? 0 : plane * places) + band.line * width;
      finish(w.images ? plane * p_.way.batches + batch : batch, row, row_end, first, first + band.lines * width);
    }
  }

  int64_t weights_bytes() const { return std::max<int64_t>(p_.way.depth, core_.lanes) * panel_row(); }

  /// Channel beside channel, a row for each k.
  void pack_weights(const char* from, int64_t k, int64_t channels, char* to) const {
    codegen::MatMulArgs args;
    args.a_row = p_.a_row;
    args.c_row = panel_row();
    args.k = k;
    for (int64_t first = 0; first < channels; first += core_.lanes) {
      args.a = from + first * p_.a_row;
      args.c = to + first * core_.item;
      args.live = std::min<int64_t>(core_.lanes, channels - first);
      call(codegen::MatMulCore::kTranspose, args);
    }
  }

  /// `count` rows of A below each other, in tiles of almost the same height.
  void reached_rows(codegen::MatMulArgs& args, int64_t count, int vectors) const {
    const int64_t tiles = divide_up(count, codegen::ConvolutionCore::most_indirect_rows(core_, vectors)),
                  rows = count / tiles;
    const int64_t higher = count - tiles * rows;  // tiles with a row more
    if ((args.panels = higher))
      call(codegen::ConvolutionCore::indirect_tile(static_cast<int>(rows + 1), vectors), args);
    args.a += higher * (rows + 1) * args.a_row;
    args.c += higher * (rows + 1) * args.c_row;
    if ((args.panels = tiles - higher))
      call(codegen::ConvolutionCore::indirect_tile(static_cast<int>(rows), vectors), args);
  }

  /// Channels by places into C.
  void store_sums(const Band& band, int64_t row, int64_t channels, const char* sums, char* spare) const {
    const Product::Windows& w = *p_.windows;
    const int64_t item = core_.item, places = band.lines * w.axes[2].result;
    for (int64_t plane = 0; plane < band.planes; ++plane)
      turn_sums(sums + plane * places * panel_row(), places, channels,
                c_at_ + row * p_.c_row + (band.plane + plane) * w.c_plane + band.line * w.axes[2].result * item, spare);
  }

  /// `count` columns of C.
  void turn_sums(const char* sums, int64_t count, int64_t channels, char* to, char* spare) const {
    const int64_t item = core_.item, lanes = core_.lanes;
    codegen::MatMulArgs args;
    args.a_row = panel_row();
    args.k = channels;
    for (int64_t first = 0; first < count; first += lanes) {
      args.a = sums + first * panel_row();
      args.live = std::min(lanes, count - first);
      const bool whole = args.live == lanes;
      args.c = whole ? to + first * item : spare;
      args.c_row = whole ? p_.c_row : core_.vector_bytes();
      call(codegen::MatMulCore::kTranspose, args);
      for (int64_t i = 0; !whole && i < channels; ++i)
        std::memcpy(to + i * p_.c_row + first * item, spare + i * args.c_row,
                    static_cast<std::size_t>(args.live * item));
    }
  }
};

/// Product::Path::Winograd.
void run_winograd(const ProductParts& at, const Block& block, char* scratch);
int64_t winograd_scratch(const Product& product);

}  // namespace framejit::runtime
