// Counts of elements by intervals of one width: a step that no kernel is made for.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "codegen/kernel.h"

namespace framejit::codegen {

/// The least and the greatest element, where all are finite, and exact as float64. `x` has one axis. Nothing if it is
/// empty, has another such element, or a dtype that is neither float64 nor an integer.
std::optional<std::pair<double, double>> range_of(const StridedArray& x);

/// How many elements of `x` lie from edges[i] on and below edges[i + 1], or on the last edge; or, of float64, the sum
/// of their weights. Edges ascend, about equally far from each other. There are at most 2**31 of these. Others are left
/// out; `all_inside`: there are none. All arrays have one axis. Sums are made as numpy.histogram makes them: of 65,536
/// elements each, which are then added up. False if a sum is not finite.
bool histogram(const StridedArray& x, const StridedArray* weights, std::span<const double> edges, bool all_inside,
               const StridedArray& out);

}  // namespace framejit::codegen
