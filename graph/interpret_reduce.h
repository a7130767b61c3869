// Reductions of the reference interpreter: NumPy's order of additions.
#pragma once

#include <span>

#include "graph/interpret.h"

namespace framejit::graph {

/// Reduces `in` over `axes` into `out`, whose axes are the others. False for dtypes without a reference.
bool interpret_reduction(Op op, DType operand, DType result, const ArrayRef& in, std::span<const int64_t> axes,
                         const ArrayRef& out);

}  // namespace framejit::graph
