// The order in which NumPy (2.3 and later) adds up a reduction, cut into calls of its inner loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace framejit::graph {

/// One axis of the walk; strides in bytes, 0 on an axis of length 1. `out` is 0 on a reduced axis.
struct WalkAxis {
  int64_t extent, in, out;
};

/// How the walk over `axes` (fastest first, already in the iterator's order) is cut into inner-loop calls.
struct ReducePlan {
  std::vector<WalkAxis> axes;  // coalesced
  int64_t span;                // elements of the axes that calls may cross
  int64_t call;                // elements of a call; the last one in a span may be shorter
  bool folds;                  // a call adds up to one output element, pairwise where the operator is a float sum
};
ReducePlan plan_reduction(std::vector<WalkAxis> axes);

/// Byte offsets of element number `position` of the walk.
struct Offsets {
  int64_t in, out;
};
Offsets offsets_at(std::span<const WalkAxis> axes, int64_t position);

}  // namespace framejit::graph
