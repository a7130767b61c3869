// Appends the operators that choose elements by a mask.
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

}  // namespace framejit::graph
