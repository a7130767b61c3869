// What a graph computes of some of its params alone.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

struct Split {
  Graph constant;                // one result for each of `values`
  std::vector<uint32_t> params;  // its params: their numbers in the graph that was split
  std::vector<ValueId> values;   // of that graph: fresh, and not given back
  std::vector<ValueId> nodes;    // of that graph: what it needs no longer
};

/// `params`: by number of the param, those that count as constants; none that is written does. The values are those
/// that the rest of the graph needs. Shapes that depend on a symbol, library calls and control flow stay where they
/// are, and with `keep_layouts` copies of params in another layout.
Split partition_constants(const Graph& graph, const std::vector<bool>& params, bool keep_layouts = false);

/// Appends a param for each of the values, which takes its place everywhere.
void replace_by_params(Graph& graph, const Split& split);

}  // namespace framejit::graph
