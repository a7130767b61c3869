// Appends the operators that choose elements by a mask or by indices.
#pragma once

#include "graph/builder.h"

namespace framejit::graph {

/// The elements of `x` for which `mask`, of the shape of its first axes, is true, in C order: `count` of them.
BuildResult append_compress(GraphBuilder& builder, ValueId mask, ValueId x, const Dim& count);
/// Where the mask is true, in C order: a row of indices for each, i64.
ValueId append_nonzero(GraphBuilder& builder, ValueId mask, const Dim& count);
/// The other way round: an array of the mask's shape, before that of the other axes of `x`, which has the elements of
/// `x` where the mask is true, and zeros.
ValueId append_expand(GraphBuilder& builder, ValueId mask, ValueId x);
/// A copy of `array` after array[places] = values. The places are one mask, of the shape of the first axes of `array`,
/// or a 1-D array of indices for each of its first axes, all of one length; negative indices count from the end. Of
/// values there is one, 0-d, for all places (with indices only), or one for each place, of the shape of the other axes.
/// An index that is out of bounds, or a mask that chooses another number of places, ends the run.
BuildResult append_put(GraphBuilder& builder, ValueId array, ValueId values, std::span<const ValueId> places);

}  // namespace framejit::graph
