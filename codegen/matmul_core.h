// What a matrix-product core looks like from outside: its parts, their arguments, the blocks that fit this processor.
// Assembler-free, so that runtime/ may include it.
#pragma once

#include <cstdint>

#include "graph/dtype.h"

namespace framejit::codegen {

/// Arguments of a part, which reads those named for it; distances in bytes. Nothing beyond the operands' elements is read or written, but for copies and
/// transpositions, which write whole vectors.
struct MatMulArgs {
  const char* a;       // tile, dots: first element of A; copy, transpose: the source
  const char* b;       // tile: first row of B; dots: first column of B, contiguous along k
  char* c;             // first element of C; copy, transpose: the destination
  int64_t a_row, a_k;  // between rows of A, or of a transposed source; between two k of A, or of a copied source
  int64_t b_k;         // tile: between rows of B; dots: between columns of B
  int64_t c_row;       // between rows of C, or of the destination
  int64_t k;           // depth; copy, transpose: rows of the destination
  int64_t live;        // masked tile and copy: live lanes of the last vector; transpose: rows of the source
  int64_t panels;      // tile: as many tiles beside each other, at least one
  int64_t b_panel;     // tile: from a panel of B to the next; dots: between columns of C
  int64_t add;         // tile: C += product in place of C = product
  int64_t b_ahead;     // tile: how far ahead B is prefetched
};

/// Offsets of the parts stand, as uint32, at the begin of the code.
using MatMulFn = void (*)(const MatMulArgs*);

/// Fixed by element size and instruction set:
///   tile       C[rows, vectors] (+)= A[rows, k] B[k, vectors]: for each element one chain of fused multiply-adds along k, the same in
///              every part; `masked`: the last vector has `live` lanes
///   copy       rows of `vectors` vectors; idle lanes of the last one become copies of a live one
///   transpose  `live` <= lanes rows, contiguous along k, to rows of a vector; idle lanes are copies of the last row
///   dots       C[rows, columns] = dot products along contiguous k: one chain for each lane, then their sum
struct MatMulCore {
  int item = 4;   // bytes of an element
  int lanes = 16;  // of a vector
  bool avx512 = true;

  static constexpr int kMostRows = 14, kMostDots = 8, kMostDotColumns = 4;
  static constexpr int kHalf = 0;  // in place of a number of vectors: half a vector, in registers of that size
  static constexpr int kCopy = 5 * kMostRows * 2, kTranspose = kCopy + 4, kDots = kTranspose + 1;
  static constexpr int kParts = kDots + kMostDots * kMostDotColumns;

  MatMulCore() = default;
  MatMulCore(graph::DType dtype, bool has_avx512)
      : item(graph::size_of(dtype)), lanes((has_avx512 ? 64 : 32) / item), avx512(has_avx512) {}

  int vector_bytes() const { return item * lanes; }
  /// Rows of the largest tile of so many vectors (kHalf, 1, 2, 4 or 8): accumulators, vectors of B and broadcast elements of A share
  /// the registers.
  int most_rows(int vectors) const {
    if (vectors >= 8) return avx512 ? 3 : 1;
    if (vectors >= 4) return avx512 ? 6 : 3;
    return avx512 ? kMostRows : 6;
  }
  bool has_tile(int rows, int vectors, bool masked) const {
    return rows <= most_rows(vectors) && (!masked || vectors <= (avx512 ? 2 : 1));
  }
  int most_dot_columns(int rows) const { return rows > 4 ? 1 : avx512 ? 4 : 2; }

  static constexpr int tile(int rows, int vectors, bool masked) {
    const int width = vectors == 8 ? 4 : vectors == 4 ? 3 : vectors;
    return (width * kMostRows + rows - 1) * 2 + masked;
  }
  static constexpr int copy(int vectors, bool masked) { return kCopy + (vectors - 1) * 2 + masked; }
  static constexpr int dots(int rows, int columns) { return kDots + (rows - 1) * kMostDotColumns + columns - 1; }

  /// A part of the code at `entry`.
  static MatMulFn part(const void* entry, int number) {
    const auto* offsets = static_cast<const uint32_t*>(entry);
    return reinterpret_cast<MatMulFn>(reinterpret_cast<uintptr_t>(entry) + offsets[number]);
  }
};

}  // namespace framejit::codegen
