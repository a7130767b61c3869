// Elements of an array at the places that arrays of indices name: a step that no kernel is made for.
#pragma once

#include "codegen/kernel.h"

namespace framejit::codegen {

enum class Gathered : uint8_t {
  Done,
  Outside,  // an index is out of bounds; the result holds anything
  Unknown,  // not a gather that is done here; nothing was touched
};

/// x[:, i, j, :]: the indexed axes of x follow each other behind `lead` whole ones, and the axes of the result are
/// those before them, those of the indices, which are broadcast, and those behind them. Negative indices count from the
/// end. The result does not overlap what is read.
Gathered gather(const StridedArray& x, std::span<const StridedArray* const> indices, std::size_t lead,
                const StridedArray& out);

/// The byte offsets of x[i, j] for `count` places from number `first` on, of 1-D arrays of indices for the first axes
/// of x. False where an index is out of bounds, or its dtype is none of those that are known here.
bool offsets_of(const StridedArray& x, std::span<const StridedArray> indices, int64_t first, int64_t count,
                int64_t* offsets);

}  // namespace framejit::codegen
