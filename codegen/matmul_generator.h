// What writes the parts of a matrix-product core; the parts themselves are in matmul.cpp (tiles), matmul_packing.cpp,
// matmul_dots.cpp, matmul_narrow_rows.cpp and matmul_convolutions.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "codegen/matmul_assembler.h"

namespace framejit::codegen::detail {

class MatMulGenerator : public MatMulAssembler {
 public:
  static constexpr std::size_t kMaxCode = 256 << 10;

  MatMulGenerator(void* buffer, const MatMulCore& core, bool integers, std::optional<NarrowProduct> narrow = {});

 private:
  // Parts, in the order in which they are written, each behind begin_part(number).

  template <class F>
  void pack(F&& begin_part);
  template <class F>
  void dots_and_rows(F&& begin_part);
  template <class F>
  void convolutions(F&& begin_part);

  // matmul.cpp
  void tile(int rows, int vectors, bool masked);
  void add_bias(const Shape& s);
  void store_relu(const Shape& s, Label& stored);
  void tile_step(const Shape& s, bool prefetching = true);
  void prefetch_b(int v);
  void sparing_step(const Shape& s);
  void wide_step(const Shape& s);
  // matmul_packing.cpp
  void copy(int vectors, bool masked);
  void transpose();
  std::vector<int> transpose_registers();
  // matmul_dots.cpp
  void dots(int rows, int columns);
  void sum_lanes(const Xmm& r, const Xmm& scratch);
  void vector_matrix(int steps);
  // matmul_narrow_rows.cpp
  void narrow_rows(int rows);
  // matmul_convolutions.cpp
  void indirect_tile(int rows, int vectors);
  void line_convolution(int rows, int vectors);
  void store_lines(int rows, int vectors);
  void depthwise(int window, int lines, int vectors);
  void weight_gradient(int rows, int columns);

  static constexpr int kPrefetchDepth = 32;  // below it, C is as near as the operands
  Label relu_table_;
};

}  // namespace framejit::codegen::detail
