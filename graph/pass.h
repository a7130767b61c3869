// Passes: graph in, graph out; each has a name by which it is switched off, dumped and timed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

/// Library calls with this index and above may raise or warn, so that they are never dead.
inline constexpr int64_t kFirstRaisingLibraryCall = int64_t{1} << 40;

/// Does it end the run for some operands, so that it may not be dropped?
inline bool may_end_run(const Node& n) {
  return n.op == Op::Put || (n.op == Op::LibraryCall && n.index() >= kFirstRaisingLibraryCall);
}

/// In which order kernels run: as the program has them, independent ones together, or each just before what needs it.
enum class ExecOrder : uint8_t { Program, Breadth, Depth };

struct PassContext {
  bool o1 = false;            // optimizations that stay within documented error bounds are allowed
  bool ignore_flags = false;  // errstate ignores every class of floating-point warning, and that is guarded
  ExecOrder order = ExecOrder::Program;
  /// Groups may be as large as an expression is; else every value that is used later counts as an operand.
  bool whole_expressions = true;
  int64_t least_again = 64 << 10;  // bytes of a value from which on it may be worth to compute it again
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
  std::size_t timing_;  // its place among the context's
};

// The passes (graph/passes/NAME.cpp). Each is idempotent, keeps what can be seen (values, layout, aliasing, which flags
// may be raised) and takes time about linear in the number of nodes:
bool canonicalize(Graph&, PassContext&);  // commuted operands in order, views of views joined, needless copies gone
bool fold(Graph&, PassContext&);          // 0-d constants, where evaluation sets no flag
bool store_to_load_forwarding(Graph&, PassContext&);  // what was just written is used in place of being read again
bool sink_reshapes(Graph&, PassContext&);             // operations on reshaped arrays are done in the arrays' own shape
bool drop_copies(Graph&, PassContext&);               // of what is wholly overwritten before it is needed
bool distribute_parts(Graph&, PassContext&);          // over arrays that were put together: cell by cell
bool copy_overlaps(Graph&, PassContext&);             // small parts of memory that is written over are copied first
bool cse(Graph&, PassContext&);                       // equal nodes over equal memory states
bool mask_expressions(Graph&, PassContext&);          // of the elements that a mask chooses: computed for all of them
bool fuse_attention(Graph&, PassContext&);            // at O1: attentions that are written out
bool hoist_factors(Graph&, PassContext&);             // at O1: numbers multiply products, not their operands
bool dce(Graph&, PassContext&);            // keeps operators that may set a flag, and writes that can be seen
bool rematerialize(Graph&, PassContext&);  // what gradients need and is cheap is computed again, not kept
bool reuse_stores(Graph&, PassContext&);   // what was written to memory is read from there by later loops

/// The passes in the order in which optimize() runs them.
std::span<const Pass> all_passes();

/// All passes in order.
void optimize(Graph&, PassContext&);

}  // namespace framejit::graph
