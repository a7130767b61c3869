// Attention over cores of codegen's: blocks of queries and keys, a softmax that goes on from block to block.
#pragma once

#include <cstdint>

#include "runtime/product.h"

namespace framejit::runtime {

/// out = softmax(scale * q k^T + mask) v for each batch and head. Distances in bytes; rows of `out` follow each other.
/// `backward`: the cotangents of q, k and v instead, one behind the other in C order, from the result `y` and its
/// cotangent `g`.
///
/// Keys are taken in blocks of kKeys: their products with a query are those of product.h, their softmax is relative to
/// the largest score so far, and what was summed before is scaled when a larger one comes. So the order depends on
/// shapes and strides only.
///
/// `drops`: weights become 0 with a probability and are divided by what is left of 1 where not, by the numbers of
/// graph/random.h. They are drawn where the weights are needed, forward and backward: their numbers are those in the
/// matrix of all weights.
struct Attention {
  static constexpr int64_t kQueries = 128, kKeys = 256;
  struct Matrix {
    int64_t batch = 0, head = 0, row = 0, column = 0;
  };

  codegen::MatMulCore core;
  const void *product_code = nullptr, *softmax_code = nullptr;
  int64_t l2_bytes = 1 << 20;
  int64_t batch = 0, heads = 0, key_heads = 1, queries = 0, keys = 0, depth = 0, width = 0;
  Matrix q, k, v, mask, out, g, y;
  bool masked = false, backward = false, drops = false;
  bool causal = false;  // a query sees keys up to its own number plus `ahead`
  int64_t ahead = 0;

  // Chosen by `plan`. Products by whether the block of queries, and that of keys, is the last one, which may be
  // smaller.
  struct Products {
    Product scores, sums;               // q k^T, and that with v
    Product towards, of_q, of_k, of_v;  // backward: g v^T, and what is added to the cotangents
  };
  Products products[2][2];
  int64_t scratch_bytes = 0;
  double nanoseconds = 0;  // estimate for one thread

  void plan();
  /// Bytes from one row of a block of scores to the next: not a multiple of what maps to the same lines of a cache.
  static int64_t score_row(int64_t keys) { return (keys + 16) * 4; }
  int64_t query_blocks() const { return (queries + kQueries - 1) / kQueries; }
  int64_t key_blocks() const { return (keys + kKeys - 1) / kKeys; }
};

}  // namespace framejit::runtime
