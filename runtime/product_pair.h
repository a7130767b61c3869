// Pairs of products: A x and y A, whose matrix is larger than the caches, read it once. Block by block of rows, the
// first one reads a block from memory, and the second one finds it in the cache.
#pragma once

#include "runtime/bound.h"
#include "runtime/execute.h"

namespace framejit::runtime {

/// Notes the pairs of a program in bound.pairs. Called behind waves and bands, before temporaries are laid out.
void find_product_pairs(const codegen::Program& program, Bound& bound);

/// Computes both products where the first one was due. `partials`: the memory at ProductPair::partials.
void execute_product_pair(const Bound& bound, const ProductPair& pair, char* partials, RunState& state);

}  // namespace framejit::runtime
