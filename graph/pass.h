// Passes: graph in, graph out; each has a name by which it is switched off, dumped and timed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

struct PassContext {
  bool o1 = false;  // optimizations that stay within documented error bounds are allowed
  std::vector<std::string> disabled;
  bool verify = false;  // after each pass; a violation is an InternalError that names the pass
  struct Timing {
    std::string_view pass;
    int64_t nanoseconds;
    bool changed;
  };
  std::vector<Timing> timings;
};

using PassFunction = bool (*)(Graph&, PassContext&);  // gives: changed

struct Pass {
  std::string_view name;
  PassFunction run;
};

/// RAII around one pass: times it, verifies after it, names it in an internal error.
class PhaseScope {
 public:
  PhaseScope(std::string_view name, Graph& graph, PassContext& context);
  ~PhaseScope() noexcept(false);
  bool enabled() const { return enabled_; }
  void set_changed(bool changed) { changed_ = changed; }

 private:
  std::string_view name_;
  Graph& graph_;
  PassContext& context_;
  int64_t start_;
  bool enabled_, changed_ = false;
  int exceptions_;
};

// The passes (graph/passes/NAME.cpp):
bool canonicalize(Graph&, PassContext&);  // commuted operands in order, views of views joined, casts to the same dtype gone
bool fold(Graph&, PassContext&);          // 0-d constants, where evaluation sets no flag
bool cse(Graph&, PassContext&);           // equal nodes over equal memory states
bool dce(Graph&, PassContext&);           // keeps operators that may set a flag, and writes to params

/// All passes in order.
void optimize(Graph&, PassContext&);

}  // namespace framejit::graph
