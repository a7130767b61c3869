// The order in which groups run.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/pass.h"
#include "graph/passes/fuse.h"

namespace framejit::graph {

/// The groups of a block, given in program order, in another order in which they can run: what one stores and another
/// loads or stores over stays in order, and nothing comes before an `expect` that stood behind it. Breadth: by the
/// length of the longest way from the block's start, so that groups that need nothing of each other stand together.
/// Depth: each as late as its first reader lets it, so that what it stores lives for a short time.
std::vector<Group> schedule_groups(const Graph& graph, const Block& block, std::vector<Group> groups, ExecOrder order);

}  // namespace framejit::graph
