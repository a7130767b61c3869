// The whole compiler on one page: optimize -> fuse -> lower -> Plan.
#include "ext/region/compile.h"

#include "codegen/lower.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/numpy_loops.h"
#include "ext/arrays/numpy_probe.h"
#include "ext/library_calls/custom_op.h"
#include "ext/library_calls/library_call.h"
#include "ext/module/config.h"
#include "ext/module/kernel_store.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"
#include "graph/pass.h"
#include "graph/passes/fuse.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/verify.h"
#include "runtime/trace.h"

namespace framejit::ext::region {

namespace {

/// "-fuse,-cse" -> {fuse, cse}
std::vector<std::string> disabled_passes() {
  std::vector<std::string> out;
  const std::string& text = module::config().passes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (text[at] == '-') out.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

graph::PassContext pass_context(const CompileOptions& options) {
  graph::PassContext context;
  context.o1 = options.o1;
  context.ignore_flags = options.ignore_fp_flags;
  context.order = options.order;
  context.disabled = disabled_passes();
  context.verify = module::config().strict;
  return context;
}

codegen::LowerOptions lower_options(const CompileOptions& options) {
  codegen::LowerOptions out;
  out.cpu = module::target_cpu();
  out.o1 = options.o1;
  out.narrow_products = options.o2;
  if (!options.keep_layouts) out.constant_params = options.constant_params;
  out.cpu.amx_bf16 = out.cpu.amx_bf16 && options.o2 && codegen::allow_amx();
  out.cpu.amx_int8 = out.cpu.amx_int8 && codegen::allow_amx();
  out.any_zero = options.ignore_fp_flags;
  out.listing = options.listing;
  out.store = module::kernel_store(options.cached);
  out.numpy_loop = arrays::numpy_loop;
  out.library_function = [o1 = options.o1](int64_t index) {
    const codegen::LibraryFunction numpy = library_calls::library_function(index, o1);
    return numpy.function ? numpy : library_calls::custom_function(index);
  };
  out.complex_forms = arrays::complex_forms;
  out.pairwise_cut = arrays::numpy_version() < arrays::NumpyVersion{2, 3} ? 8192 : 0;
  return out;
}

constexpr const char* kIsFull = "the limit of machine code, config.code_bytes_limit, is reached";

bool is_full() { return module::stats.code_bytes >= module::config().code_bytes_limit; }

/// Where it can be, a program has per_call_flags.
Expected<codegen::Program, std::string> lower_best(const graph::Graph& graph, const std::vector<graph::Group>& groups,
                                                   codegen::LowerOptions options, bool quiet) {
  options.attribute = !quiet;
  if (quiet) return codegen::lower(graph, groups, options);
  if (auto program = codegen::lower(graph, groups, options)) return program;
  options.attribute = false;
  return codegen::lower(graph, groups, options);
}

/// Expressions as a whole where steps have enough operands for that.
template <class Lower>
Expected<codegen::Program, std::string> lower_fused(const graph::Graph& graph, graph::PassContext context,
                                                    const Lower& lower) {
  if (auto program = lower(graph::fuse(graph, context))) return program;
  context.whole_expressions = false;
  return lower(graph::fuse(graph, context));
}

Expected<codegen::Program, std::string> lower_best(const graph::Graph& graph, const graph::PassContext& context,
                                                   const codegen::LowerOptions& options, bool quiet) {
  return lower_fused(graph, context, [&](const std::vector<graph::Group>& groups) {
    return lower_best(graph, groups, options, quiet);
  });
}

}  // namespace

Expected<Compiled, std::string> finish(codegen::Program program, const CompileOptions& options) {
  if (is_full()) return Unexpected<std::string>{kIsFull};
  Compiled out;
  const int64_t start = now_ns();
  for (const codegen::Step& step : program.steps)
    if (std::holds_alternative<codegen::LibraryCallStep>(step)) ++out.library_calls, out.calls_python = true;
    else if (const auto* loop = std::get_if<codegen::LoopStep>(&step))
      for (const codegen::Stage& stage : loop->stages)
        out.library_calls += std::holds_alternative<codegen::NumpyLoop>(stage.code);
  const auto kernels = static_cast<int64_t>(program.kernels.size());
  FRAMEJIT_TRY(plan, runtime::Plan::create(std::move(program), options.plan));
  out.plan = std::move(plan);
  out.codegen_ns = now_ns() - start;
  module::stats.kernels_compiled += kernels;
  module::stats.code_bytes += static_cast<int64_t>(out.plan->code_bytes());
  return out;
}

Expected<Compiled, std::string> compile(graph::Graph& graph, const CompileOptions& options) {
  if (is_full()) return Unexpected<std::string>{kIsFull};
  const int64_t start = now_ns();
  graph::PassContext context = pass_context(options);
  graph::optimize(graph, context);
  const int64_t optimized = now_ns();
  FRAMEJIT_TRY(program, lower_best(graph, context, lower_options(options), options.ignore_fp_flags));
  const int64_t lowered = now_ns();
  FRAMEJIT_TRY(out, finish(std::move(program), options));
  out.passes_ns = optimized - start;
  out.codegen_ns += lowered - optimized;
  const int64_t end = now_ns();
  module::stats.compile_ns += end - start;
  runtime::trace_span("compile", "passes", start, optimized);
  runtime::trace_span("compile", "code generation", optimized, end);
  return out;
}

Expected<Compiled, std::string> compile_undoable(const graph::Graph& optimized, const CompileOptions& options) {
  const int64_t start = now_ns();
  FRAMEJIT_TRY(program, lower_fused(optimized, pass_context(options), [&](const std::vector<graph::Group>& groups) {
                 return codegen::lower(optimized, groups, lower_options(options));
               }));
  FRAMEJIT_TRY(out, finish(std::move(program), options));
  module::stats.compile_ns += now_ns() - start;
  return out;
}

std::string listing(const graph::Graph& optimized, const CompileOptions& options) {
  CompileOptions with_listing = options;
  with_listing.listing = true;
  auto program = lower_best(optimized, pass_context(options), lower_options(with_listing), options.ignore_fp_flags);
  if (!program) return "; " + program.error() + "\n";
  std::string text = codegen::listing(*program);
  for (const codegen::KernelCode& kernel : program->kernels) text += "\n; " + kernel.name + "\n" + kernel.listing;
  return text;
}

namespace {

PyObject* pass_names(PyObject*, PyObject*) {
  const std::span<const graph::Pass> passes = graph::all_passes();
  PyObject* names = PyTuple_New(static_cast<Py_ssize_t>(passes.size()));
  if (!names) return nullptr;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    PyObject* name = PyUnicode_FromStringAndSize(passes[i].name.data(), static_cast<Py_ssize_t>(passes[i].name.size()));
    if (!name) {
      Py_DECREF(names);
      return nullptr;
    }
    PyTuple_SET_ITEM(names, static_cast<Py_ssize_t>(i), name);
  }
  return names;
}

PyMethodDef methods[] = {
    {"pass_names", pass_names, METH_NOARGS, "pass_names(): the passes over a graph, in the order in which they run."},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

}  // namespace framejit::ext::region
