// The verifier: the invariants of a Graph, numbered in verify.cpp's header comment. Runs between passes in debug builds
// and tests.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace framejit::graph {

/// The first violated invariant, with its number, the node and the graph's text; nothing if the graph is sound.
std::optional<std::string> verify(const Graph& graph);

}  // namespace framejit::graph
