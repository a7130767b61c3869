// A graph as a part of another one.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

/// Appends what `from` computes, with values of `to` in the place of its params, and gives its results there. The
/// values have the types of the params but for root and offset; both graphs mean the same by a symbol.
std::vector<ValueId> append_graph(Graph& to, const Graph& from, std::span<const ValueId> params);

}  // namespace framejit::graph
