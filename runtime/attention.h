// Attention over cores of codegen's: blocks of queries and keys, a softmax that goes on from block to block.
#pragma once

#include <cstdint>

#include "runtime/product.h"

namespace framejit::runtime {

/// out = softmax(scale * q k^T + mask) v for each batch and head. Distances in bytes; rows of `out` follow each other.
///
/// Keys are taken in blocks of kKeys: their products with a query are those of product.h, their softmax is relative to the largest
/// score so far, and what was summed before is scaled when a larger one comes. So the order depends on shapes and strides only.
struct Attention {
  static constexpr int64_t kQueries = 128, kKeys = 256;
  struct Matrix {
    int64_t batch = 0, head = 0, row = 0, column = 0;
  };

  codegen::MatMulCore core;
  const void *product_code = nullptr, *softmax_code = nullptr;
  int64_t l2_bytes = 1 << 20;
  int64_t batch = 0, heads = 0, key_heads = 1, queries = 0, keys = 0, depth = 0, width = 0;
  Matrix q, k, v, mask, out;
  bool masked = false;
  bool causal = false;  // a query sees keys up to its own number plus `ahead`
  int64_t ahead = 0;

  // Chosen by `plan`. Products by whether the block of queries, and that of keys, is the last one, which may be smaller.
  Product scores[2][2], sums[2][2];
  int64_t scratch_bytes = 0;
  double nanoseconds = 0;  // estimate for one thread

  void plan();
  int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
};

}  // namespace framejit::runtime
