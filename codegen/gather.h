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

}  // namespace framejit::codegen
