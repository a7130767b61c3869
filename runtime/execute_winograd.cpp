// Convolutions with windows of 3 x 3 by Winograd's minimal filtering: four places of the result, 2 x 2, take 16
// products for each channel in place of 36.
//
//     weights w [3, 3]       G w G^T    [4, 4]     once
//     image   x [4, 4]       B^T x B    [4, 4]     for each band, tile and channel
//     sums    s [4, 4]       products of the two, over the channels: 16 matrix products
//     result    [2, 2]       A^T s A
//
// A tile whose result is not finite is computed again by direct sums: its infinities and NaN are those of its own
// windows.
#include "runtime/convolution_parts.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int kPoints = 16, kWindow = 9;
constexpr int64_t kChunk = 32;  // bytes that a transformation takes at once
constexpr int64_t kDeep = 64;   // channels of one chain of sums: with more, direct sums would err less

using Vector [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;

/// Bytes from the begin of the scratch.
struct Memory {
  int64_t weights = 0, sums, reach, direct, copy, channels, seen, products, filters, bytes;

  explicit Memory(const Product& p) {
    const Product::Windows& w = *p.windows;
    const int64_t places = w.band_planes * w.band_lines * w.axes[2].result, vector = p.core.vector_bytes(),
                  panel = 2 * p.core.lanes;
    const int64_t tiles = w.band_planes * divide_up(w.band_lines, 2) * divide_up(w.axes[2].result, 2),
                  inputs = p.k / kWindow;
    sums = weights + std::max<int64_t>(p.way.depth, p.core.lanes) * 2 * vector;
    reach = sums + places * 2 * vector;
    direct = reach + round_up(inputs * 8, kPanelLine);
    copy = direct + round_up(p.k * 8, kPanelLine);
    channels = copy + inputs * w.copied_channel;
    seen = channels + round_up(w.copied_channel * p.core.lanes, kPanelLine);
    products = seen + kPoints * round_up(inputs, p.core.lanes) * p.core.item * tiles;
    filters = products + kPoints * tiles * 2 * vector;
    bytes = filters + kPoints * divide_up(p.m, panel) * inputs * 2 * vector;
  }
};

/// G w G^T of weights that lie `row` bytes apart; the 16 results `point` bytes apart.
[[gnu::target("avx2,fma")]] void transform_weights(const char* from, int64_t row, int64_t bytes, char* to,
                                                   int64_t point) {
  for (int64_t at = 0; at < bytes; at += kChunk) {
    Vector w[3][3], half[4][3], out[4];
    for (int i = 0; i < kWindow; ++i) w[i / 3][i % 3] = *reinterpret_cast<const Vector*>(from + i * row + at);
    for (int j = 0; j < 3; ++j) {
      const Vector ends = w[0][j] + w[2][j];
      half[0][j] = w[0][j], half[1][j] = (ends + w[1][j]) * 0.5f, half[2][j] = (ends - w[1][j]) * 0.5f,
      half[3][j] = w[2][j];
    }
    for (int i = 0; i < 4; ++i) {
      const Vector ends = half[i][0] + half[i][2];
      out[0] = half[i][0], out[1] = (ends + half[i][1]) * 0.5f, out[2] = (ends - half[i][1]) * 0.5f,
      out[3] = half[i][2];
      for (int j = 0; j < 4; ++j) *reinterpret_cast<Vector*>(to + (4 * i + j) * point + at) = out[j];
    }
  }
}

/// B^T x B of places `place` bytes apart, in lines `line` bytes apart.
[[gnu::target("avx2,fma")]] void transform_image(const char* from, int64_t line, int64_t place, char* to,
                                                 int64_t point) {
  for (int64_t at = 0; at < place; at += kChunk) {
    Vector x[4][4], half[4][4];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) x[i][j] = *reinterpret_cast<const Vector*>(from + i * line + j * place + at);
    for (int j = 0; j < 4; ++j) {
      half[0][j] = x[0][j] - x[2][j], half[1][j] = x[1][j] + x[2][j];
      half[2][j] = x[2][j] - x[1][j], half[3][j] = x[1][j] - x[3][j];
    }
    for (int i = 0; i < 4; ++i) {
      const Vector out[] = {half[i][0] - half[i][2], half[i][1] + half[i][2], half[i][2] - half[i][1],
                            half[i][1] - half[i][3]};
      for (int j = 0; j < 4; ++j) *reinterpret_cast<Vector*>(to + (4 * i + j) * point + at) = out[j];
    }
  }
}

/// A^T s A into places `place` bytes apart, in lines `line` bytes apart, of which there are `lines` and `places`. Are
/// all of them finite?
[[gnu::target("avx2,fma")]] bool transform_sums(const char* from, int64_t point, int64_t bytes, char* to, int64_t line,
                                                int64_t place, int64_t lines, int64_t places) {
  Vector zeros{};
  for (int64_t at = 0; at < bytes; at += kChunk) {
    Vector half[2][4];
    for (int j = 0; j < 4; ++j) {
      Vector s[4];
      for (int i = 0; i < 4; ++i) s[i] = *reinterpret_cast<const Vector*>(from + (4 * i + j) * point + at);
      half[0][j] = s[0] + s[1] + s[2], half[1][j] = s[1] - s[2] - s[3];
    }
    for (int64_t i = 0; i < lines; ++i) {
      const Vector out[] = {half[i][0] + half[i][1] + half[i][2], half[i][1] - half[i][2] - half[i][3]};
      for (int64_t j = 0; j < places; ++j) {
        *reinterpret_cast<Vector*>(to + i * line + j * place + at) = out[j];
        zeros += out[j] * 0.0f;
      }
    }
  }
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += zeros[i];
  return sum == 0;
}

class WinogradConvolution : ConvolutionParts {
 public:
  WinogradConvolution(const ProductParts& parts, char* scratch)
      : ConvolutionParts(parts),
        memory_(p_),
        scratch_(scratch),
        inputs_(p_.k / kWindow),
        groups_(divide_up(inputs_, core_.lanes)) {}

  void run(const Block& block) const {
    for (int64_t row = block.row; row < block.row_end; row += panel_columns()) transform_panel(block, row);
    bool known = false;
    each_band(block.column, block.column_end, [&](const Band& band) {
      if (stopped()) return;
      const Part part = part_of(band, scratch_ + memory_.copy);
      if (!known) set_reach(part, reinterpret_cast<int64_t*>(scratch_ + memory_.direct));
      known = true;
      see(part, band);
      for (int64_t row = block.row; row < block.row_end; row += panel_columns()) {
        const int64_t channels = std::min(panel_columns(), block.row_end - row);
        multiply(block, row, band, vectors(channels));
        sum(part, band, row, channels);
        store_sums(band, row, channels, scratch_ + memory_.sums, scratch_ + memory_.weights);
        finish_band(block.batch, band, row, row + channels);
      }
    });
  }

 private:
  struct Tiles {
    int64_t lines, places, count;
  };
  Tiles tiles(const Band& band) const {
    const int64_t lines = divide_up(band.lines, 2), places = divide_up(p_.windows->axes[2].result, 2);
    return {lines, places, band.planes * lines * places};
  }
  int vectors(int64_t channels) const { return channels > core_.lanes ? 2 : 1; }
  char* filters(const Block& block, int64_t row) const {
    return scratch_ + memory_.filters + (row - block.row) / panel_columns() * kPoints * inputs_ * panel_row();
  }

  /// [point][channel in][channel out]
  void transform_panel(const Block& block, int64_t row) const {
    const int64_t channels = std::min(panel_columns(), block.row_end - row), many = p_.way.depth / kWindow;
    for (int64_t first = 0; first < inputs_; first += many) {
      const int64_t count = std::min(many, inputs_ - first);
      pack_weights(a_at_ + row * p_.a_row + first * kWindow * core_.item, count * kWindow, channels,
                   scratch_ + memory_.weights);
      for (int64_t i = 0; i < count; ++i)
        transform_weights(scratch_ + memory_.weights + i * kWindow * panel_row(), panel_row(),
                          vectors(channels) * core_.vector_bytes(), filters(block, row) + (first + i) * panel_row(),
                          inputs_ * panel_row());
    }
  }

  /// [point][vector of channels][tile]
  void see(const Part& part, const Band& band) const {
    const Product::Windows& w = *p_.windows;
    const Tiles t = tiles(band);
    const int64_t vector = core_.vector_bytes(), item = core_.item;
    const int64_t line = w.line / item * vector, plane = w.plane / item * vector;
    char* const turned = scratch_ + memory_.channels;
    for (int64_t group = 0; group < groups_; ++group) {
      MatMulArgs args;
      args.a = part.data + group * core_.lanes * part.channel;
      args.a_row = part.channel;
      args.c = turned;
      args.c_row = vector;
      args.k = ((band.planes - 1) * w.plane + Product::Windows::seen(w.axes[1], 2 * t.lines) * w.line) / item;
      args.live = std::min<int64_t>(core_.lanes, inputs_ - group * core_.lanes);
      call(MatMulCore::kTranspose, args);
      char* to = scratch_ + memory_.seen + group * t.count * vector;
      for (int64_t z = 0; z < band.planes; ++z)
        for (int64_t y = 0; y < t.lines; ++y)
          for (int64_t x = 0; x < t.places; ++x, to += vector)
            transform_image(turned + z * plane + 2 * y * line + 2 * x * vector, line, vector, to,
                            groups_ * t.count * vector);
    }
    auto* const reach = reinterpret_cast<int64_t*>(scratch_ + memory_.reach);
    for (int64_t i = 0; i < inputs_; ++i) reach[i] = i / core_.lanes * t.count * vector + i % core_.lanes * item;
  }

  /// [point][tile][channel out]
  void multiply(const Block& block, int64_t row, const Band& band, int vectors) const {
    const int64_t count = tiles(band).count, vector = core_.vector_bytes();
    for (int point = 0; point < kPoints; ++point)
      for (int64_t at = 0; at < inputs_; at += kDeep) {
        MatMulArgs args;
        args.a = scratch_ + memory_.seen + point * groups_ * count * vector;
        args.a_row = vector;
        args.reach = reinterpret_cast<const int64_t*>(scratch_ + memory_.reach) + at;
        args.b = filters(block, row) + (point * inputs_ + at) * panel_row();
        args.b_k = panel_row();
        args.c = scratch_ + memory_.products + point * count * panel_row();
        args.c_row = panel_row();
        args.k = std::min(kDeep, inputs_ - at);
        args.add = at > 0;
        reached_rows(args, count, vectors);
      }
  }

  void sum(const Part& part, const Band& band, int64_t row, int64_t channels) const {
    const Tiles t = tiles(band);
    const int64_t width = p_.windows->axes[2].result;
    const char* from = scratch_ + memory_.products;
    for (int64_t z = 0; z < band.planes; ++z)
      for (int64_t y = 0; y < band.lines; y += 2)
        for (int64_t x = 0; x < width; x += 2, from += panel_row()) {
          char* const to = scratch_ + memory_.sums + ((z * band.lines + y) * width + x) * panel_row();
          const int64_t lines = std::min<int64_t>(2, band.lines - y), places = std::min<int64_t>(2, width - x);
          if (!transform_sums(from, t.count * panel_row(), vectors(channels) * core_.vector_bytes(), to,
                              width * panel_row(), panel_row(), lines, places))
            sum_directly(part.data + z * part.pitches[0] + y * part.pitches[1] + x * part.pitches[2], part, row,
                         channels, to, lines, places);
        }
  }

  void sum_directly(const char* from, const Part& part, int64_t row, int64_t channels, char* to, int64_t lines,
                    int64_t places) const {
    for (int64_t at = 0; at < p_.k; at += p_.way.depth) {
      MatMulArgs args;
      args.k = std::min(p_.way.depth, p_.k - at);
      args.add = at > 0;
      args.a_row = part.pitches[2];
      args.reach = reinterpret_cast<const int64_t*>(scratch_ + memory_.direct) + at;
      args.b = scratch_ + memory_.weights;
      args.b_k = args.c_row = panel_row();
      pack_weights(a_at_ + row * p_.a_row + at * core_.item, args.k, channels, scratch_ + memory_.weights);
      for (int64_t line = 0; line < lines; ++line) {
        args.a = from + line * part.pitches[1];
        args.c = to + line * p_.windows->axes[2].result * panel_row();
        reached_rows(args, places, vectors(channels));
      }
    }
  }

  const Memory memory_;
  char* const scratch_;
  const int64_t inputs_, groups_;  // channels, and vectors of them
};

}  // namespace

void run_winograd(const ProductParts& at, const Block& block, char* scratch) {
  WinogradConvolution(at, scratch).run(block);
}

int64_t winograd_scratch(const Product& product) { return Memory(product).bytes; }

}  // namespace framejit::runtime
