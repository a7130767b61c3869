// Matrix products over a core of codegen's: blocks for the caches, packing, threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/kernel.h"

namespace framejit::runtime {

/// C[batch, m, n] = A[batch, m, k] B[batch, k, n]; distances in bytes, any but columns of C, which are contiguous.
///
/// Each element is a sum over blocks of k, of Tuning::depth at most and all but the last alike, added one after the
/// other; inside a block it is one chain of fused multiply-adds. Products with few rows or columns may be dot products
/// instead, or one chain along all of k. Which of them, and where k is cut, is decided by shape and strides alone: not
/// by threads, caches or blocks.
///
/// Narrow elements that are read where they lie (`factor`) are multiplied in groups along k, which sums count as one
/// element. For them there are dot products and a few rows that go along the rows of B (Path::Row), no other ways: see
/// `lies_right`.
///
/// Path::Amx: groups of narrow elements by a codegen::AmxCore. k is a multiple of 16 groups, rows of A are
/// contiguous; B is packed in panels of 32 columns, [k, 32 groups], which is what `b` points to.
struct Product {
  struct Axis {
    int64_t extent, a, b, c;
  };
  /// Where one way gives over to the next, by benchmarks/native/bench_matmul, whose options set them, and cores.py (on
  /// a Zen 4 with 32 KiB and 1 MiB of cache, those of AVX2 on a Zen 1 and a Zen 3; `depth` from 192 to 384 made no
  /// difference). Bits depend on the first twelve.
  struct Tuning {
    int64_t depth = 256;      // of a block of k
    int64_t few_columns = 8;  // columns of B up to which a product is dot products, where rows of A are contiguous
    int64_t few_columns_avx2 = 15;  // ... where idle lanes cost more
    int64_t few_rows = 32;          // rows of A, where columns of B are
    int64_t few_depth = 16;         // ... and k at least so many times these
    int64_t far_b = 1 << 20;        // bytes of B from which a product of one row goes along the rows of B
    int64_t streamed_rows = 24;     // ... and one of a few rows goes down B in blocks of
    int64_t streamed_rows_avx2 = 8;
    int64_t streamed_depth = 24;
    int64_t narrow_rows = 16;   // rows of A up to which narrow elements of B are read where they lie
    int64_t narrow_depth = 32;  // ... and how many of its rows at once
    int64_t few_channels =
        8;  // rows of A up to which a convolution goes line by line, where that leaves fewer lanes idle
    int64_t band_places = 1024;  // of the result of a convolution that see the same part of the image
    int64_t fewest_winograd = 32,
            winograd_places = 128;      // channels and places from which a convolution is Path::Winograd
    int64_t fewest_winograd_avx2 = 16;  // ... where direct sums take longer, its transforms as long
    int64_t winograd_tiles = 48;        // ... of one part of the image, at least
    int64_t plain_rows = 42;       // rows of A up to which B is not packed, unless it is twice the second-level cache
    int64_t plain_depth = 512;     // k up to which B is not packed where half of the second-level cache holds it
    int64_t shallow = 64;          // k up to which C is written row by row: more of it moves than of B
    int64_t small_b = 24 << 10;    // bytes of B that the first-level cache holds beside the other operands
    int64_t packed_ahead = 1024;   // bytes by which packed panels are prefetched
    int64_t plain_ahead = 16;      // rows of B by which it is prefetched where it is not packed
    int64_t plain_ahead_avx2 = 4;  // ... where a row of a tile takes longer
  };
  /// codegen::Windows bound to numbers.
  struct Windows {
    static constexpr int kAxes = codegen::Windows::kAxes;
    struct Axis {
      int64_t image, result, pitch, window, stride, dilation, before;
    };
    Axis axes[kAxes];
    int64_t channel;
    bool transposed = false;

    // Chosen by `plan`.
    int64_t channels = 0;      // of a group
    bool images = false;       // the first axis is that of the batch
    bool in_place = false;     // every window lies within the image
    int along = kAxes - 1;     // the axis of which a tile has its rows; Weights: kAxes is that of channels
    int64_t together = 1;      // Weights: panels of channels that see one copy of a part of the image
    int64_t block_places = 0;  // ... and places that a block of k does not go beyond
    int64_t band_images = 1;   // ... and images of the batch whose parts are one block of k
    int64_t c_plane = 0;       // bytes of C from one position of the first axis to the next
    int64_t band_planes = 1, band_lines = 1;  // of the result that see one part of the image
    int64_t tile = 1;                         // places of a line, and of a column, that are computed together
    int64_t parts = 1;  // of a line of that part: positions of one remainder by the stride lie side by side
    int64_t part = 0, line = 0, plane = 0, copied_channel = 0;  // bytes from one to the next of them

    /// Has B rows of its own in the image, with columns one after the other?
    bool is_matrix(int64_t item) const;
    int64_t places() const { return axes[1].result * axes[2].result; }  // of a plane
    /// Positions of the image that so many results see.
    static int64_t seen(const Axis& a, int64_t results) {
      return (results - 1) * a.stride + (a.window - 1) * a.dilation + 1;
    }
  };
  enum class Path : uint8_t {
    Tiles,
    PackedTiles,
    Dots,
    DotsOfB,
    Row,
    Indirect,
    Lines,
    Winograd,
    Weights,
    WeightsOfLines,
    Amx
  };

  /// How it is computed.
  struct Way {
    Path path = Path::Tiles;
    int64_t batches = 1;
    int64_t depth = 0;    // of a block of k
    int64_t columns = 0;  // of B that are packed at once
    bool packs_a = false;
    int64_t panel_rows = 0, a_panel = 0;  // of a panel of A, and its bytes
    int64_t a_panels = 0;                 // ... and how many are kept, for all columns of B
    bool streams = false;                 // few rows of A meet a large B, which is read along its rows
    int single = -1;                      // the part that makes all of C at once
    int64_t live = 0;                     // its lanes, where it is masked
    int64_t rows = 0, matrix_rows = 0;    // of C before it was transposed, and before matrices were joined
    bool empty = false;
    bool swapped = false;  // computed as the transposed product
    int64_t produced_rows = 0,
            produced_row = 0;  // of A that are computed at once, and bytes from one to the next; 0: A lies in memory
  };

  codegen::MatMulCore core;
  const void* code = nullptr;
  int64_t l2_bytes = 1 << 20;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_k = 0, b_k = 0, b_column = 0, c_row = 0;
  int64_t summed = 1, next_a = 0,
          next_b = 0;       // products that C is the sum of, and bytes from their A and B to the next one's
  std::vector<Axis> batch;  // outer to inner
  int64_t factor =
      0;  // bytes of an element of A and B: narrow ones where they lie are less than those of C, which 0 stands for
  bool added = false;                        // to what C holds
  bool narrow = false;                       // groups of narrower elements, which have tiles only
  bool in_amx = false;                       // ... of a codegen::AmxCore
  std::optional<Windows> windows;            // in place of b_k and b_column; A's rows are contiguous
  codegen::Relu relu = codegen::Relu::None;  // of what C becomes, in the registers of tiles
  bool winograd = false;                     // float32 windows of 3 x 3 may go by fewer products (execute_winograd.cpp)
  Tuning tuning{};

  // Chosen by `plan`.
  Way way;
  int64_t scratch_bytes = 0;
  double nanoseconds = 0;  // estimate for one thread

  void plan();
  /// Narrow elements where they lie?
  bool in_place() const { return factor < core.item; }
  /// Vectors along k that meet many others: are they copied, so many elements apart?
  bool copies_few(int64_t distance) const {
    return distance != factor || (way.path == Path::Row && k * factor % core.item != 0);
  }
  int64_t few_pitch() const {
    return (k * factor + core.vector_bytes() - 1) / core.vector_bytes() * core.vector_bytes();
  }
  /// Do rows of A that lie a power of two apart want the same few lines of a cache?
  bool rows_collide() const { return a_k == core.item && a_row % (core.avx512 ? 4096 : 8192) == 0; }
  /// Behind `plan`, of narrow elements where they lie: is there a way?
  bool lies_right() const {
    return !way.empty && (way.path == Path::Dots || way.path == Path::DotsOfB || way.path == Path::Row);
  }
  /// Behind `plan`: room for rows of A that are computed when they are wanted, each element once; `joined`: whole rows
  /// follow each other. False where the chosen way had better find all of A in memory.
  bool produce_a(bool joined);
  int64_t produced_bytes() const { return (way.produced_rows * way.produced_row + 63) / 64 * 64; }
  /// Do tiles make all of C, with the columns of a bias along theirs?
  bool takes_bias() const {
    return (way.path == Path::Tiles || way.path == Path::PackedTiles) && !windows && !way.swapped;
  }

 private:
  bool fits_as_it_lies() const;
  void find_single();
  void plan_windows();
};

}  // namespace framejit::runtime
