// The elements of an array that a mask chooses, and back: steps that no kernel is made for.
#pragma once

#include "codegen/kernel.h"

namespace framejit::codegen {

/// A LibraryFunction over a mask, an array whose first axes have the mask's shape, and contiguous memory for the chosen
/// ones. False where there are not as many of them as that has room for.
bool compress(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule);

/// Over a mask, and contiguous memory for a row of i64 indices for each place where it is true.
bool nonzero(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule);

/// The other way round: over a mask, the chosen elements, and contiguous memory of the mask's shape, which has zeros
/// elsewhere.
bool expand(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule);

/// How many places of a mask are true.
int64_t count_true(const StridedArray& mask);

/// out[mask] = values, one for each True. False where there are not as many, with any number of them written.
bool put_masked(const StridedArray& mask, const StridedArray& values, const StridedArray& out);

}  // namespace framejit::codegen
