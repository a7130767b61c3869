// Products of bfloat16, of factors that are float32 or bfloat16 where they lie and are made pairs along k first.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/product.h"

namespace framejit::runtime {

/// An operand and its pairs: distances in bytes along k and along its other axis, there and as pairs, whose other axis may lie in panels.
/// Pairs beyond k are zeros.
struct NarrowOperand {
  int64_t item;  // 4: float32, to be rounded; 2: bfloat16
  int64_t k, pairs, length, along_k, step;
  int64_t out_along_k, out_step, panel, out_panel, out_matrix;
  int64_t matrices = 1, bytes = 0;
  std::vector<std::pair<int64_t, int64_t>> batch;  // extent and distance of axes along which it is not broadcast
};

struct NarrowOperands {
  NarrowOperand a, b;
  int64_t bytes() const { return a.bytes + b.bytes; }
};

/// Makes `product`, whose A and B have elements of `item` bytes and C float32, one of pairs along k, contiguous matrix by matrix. `code`: a narrow
/// core or, `in_tiles`, a codegen::TileCore.
NarrowOperands take_pairs(Product& product, int64_t item, const void* code, bool in_tiles);

}  // namespace framejit::runtime
