// The pipeline from a captured graph to a Plan.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/graph.h"
#include "graph/pass.h"
#include "graph/support/expected.h"
#include "runtime/plan.h"

namespace framejit::ext::region {

struct CompileOptions {
  bool o1 = false;
  bool loops_at_o1 = false;      // loops over elements, which are not compared with the bytecode
  bool o2 = false;               // with o1
  bool ignore_fp_flags = false;  // no floating-point flag counts
  bool listing = false;
  bool interp = false;    // runs go through the reference interpreter (stress)
  bool losing = false;    // what loses to the interpreter runs all the same (stress)
  bool compared = false;  // the time of some runs, with that of the bytecode
  bool constant_parameters = false;
  bool cached = false;                // machine code is kept for other processes, even if config.cache_dir is not set
  bool keep_layouts = false;          // of constant parameters
  std::vector<bool> constant_params;  // of the graph, by number: see fold_parameters
  graph::ExecOrder order = graph::ExecOrder::Program;
  runtime::PlanOptions plan;
};

/// The machine code of a loop, and what is known of its graph as it was captured.
struct LoopCode {
  codegen::KernelCode kernel;
  bool goes_round = false;  // may control come back to a block?
  bool is_flat = false;     // it goes round no loops but those of the bytecode's loop: none within another
};

struct Compiled {
  std::unique_ptr<runtime::Plan> plan;
  int64_t passes_ns = 0, codegen_ns = 0;
  int64_t library_calls = 0;            // of a run: NumPy loops, functions of libraries and custom operators
  bool calls_python = false;            // functions of libraries or custom operators
  std::unique_ptr<LoopCode> loop_code;  // of a region's loop, if another process has made it

  bool per_call_flags() const { return plan->program().per_call_flags; }
};

inline constexpr double kReleaseAbove = 50e3;  // ns of work from which on the GIL is released

/// Optimizes the graph in place and compiles it. The failure is a sentence: this region stays in the interpreter.
Expected<Compiled, std::string> compile(graph::Graph& graph, const CompileOptions& options);

/// Makes a program ready to run, and counts it. Fails if there is machine code enough.
Expected<Compiled, std::string> finish(codegen::Program program, const CompileOptions& options);

/// The Plan for calls in which one with per_call_flags (codegen/kernel.h) will not do: it can be taken back.
/// `optimized`: by compile().
Expected<Compiled, std::string> compile_undoable(const graph::Graph& optimized, const CompileOptions& options);

/// The machine code of a graph that compile() has optimized, as text.
std::string listing(const graph::Graph& optimized, const CompileOptions& options);

}  // namespace framejit::ext::region
