// The text form: one syntax for dumps, tests, bug reports and the parser. parse(print(g)) equals g.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/support/expected.h"

namespace framejit::graph {

struct ParseError {
  int line, column;
  std::string message;
};

std::string print(const Graph& graph);
Expected<Graph, ParseError> parse(std::string_view text);

}  // namespace framejit::graph
