// Fusion: which nodes run together in one loop nest. A side table over the optimized graph, not a rewrite of it.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/pass.h"

namespace framejit::graph {

/// A maximal stretch of nodes that one loop nest computes, in program order. Exactly one of:
///  - elementwise: `nodes` are elementwise, casts, fulls, iotas, copies and writes over one iteration shape; every value in
///    `stored` is written to memory, the others live in registers or tile scratch only;
///  - reduction: as above, with one or more reductions over the same operand shape and axes as the last nodes;
///  - contraction: a single MatMul.
/// Views, params, constants and dims belong to no group; 0-d nodes are computed in the group that uses them, or alone.
struct Group {
  std::vector<ValueId> nodes;
  std::vector<ValueId> stored;
  Dims shape;  // the iteration shape (of the operand, for a reduction)
};

/// Groups in an order in which they can run: memory order is kept, a value is computed once (or recomputed where that is
/// free), in-place writes to params are not joined across a statement that may set a flag.
std::vector<Group> fuse(const Graph& graph, const PassContext& context);

}  // namespace framejit::graph
