// Running sums, products, minima and maxima along an axis, and the places of extremes: steps that no kernel is made
// for.
#pragma once

#include "codegen/kernel.h"

namespace framejit::codegen {

/// out[k] = op(out[k - 1], x[k]) along an axis, in the result's dtype. `op` is Add, Multiply, Minimum or Maximum. False
/// where it is none that is done here; nothing was touched then. The result does not overlap what is read.
bool scan(graph::Op op, const StridedArray& x, std::size_t axis, const StridedArray& out);

/// Where along an axis the least element stands, or the greatest one, or the first NaN: the first of equal ones. `op`
/// is Minimum or Maximum, the result int64 without that axis. False as above.
bool find_extreme(graph::Op op, const StridedArray& x, std::size_t axis, const StridedArray& out);

}  // namespace framejit::codegen
