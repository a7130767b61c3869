// Parameters as constants: the part of the graph that sees nothing else runs once, at compile time.
#include "ext/region/fold_parameters.h"

#include "ext/arrays/result_arrays.h"
#include "ext/arrays/tensor_object.h"
#include "ext/guards/guard_program_impl.h"
#include "ext/module/stats.h"
#include "graph/passes/memory.h"
#include "graph/passes/partition_constants.h"

namespace framejit::ext::region {

using capture::Guard;
using capture::GuardKind;
using capture::Input;
using capture::Ref;

namespace {

bool is_parameter(const capture::Region& region, const Input& input) {
  const Guard& guard = region.guards[input.guard];
  return input.spec.wrap == capture::Wrap::Tensor && arrays::guarded_type(guard) != arrays::tensor_type();
}

/// The arrays that a graph gives; none where it does not run through without a flag.
std::vector<Ref<>> evaluate(graph::Graph& graph, const std::vector<char*>& params, const CompileOptions& options) {
  CompileOptions once;
  once.o1 = options.o1;
  once.o2 = options.o2;
  once.ignore_fp_flags = options.ignore_fp_flags;
  auto compiled = compile(graph, once);
  if (!compiled) return {};
  const runtime::Plan& plan = *compiled->plan;
  std::vector<Ref<>> arrays;  // by root
  std::vector<char*> memory;
  for (graph::ValueId root : plan.program().result_roots) {
    arrays.push_back(Ref<>::steal(arrays::new_array(arrays::ArrayLayout::make(graph.type(root)), {})));
    if (!arrays.back()) {
      PyErr_Clear();
      return {};
    }
    memory.push_back(static_cast<char*>(PyArray_DATA(arrays::as_ndarray(arrays.back().get()))));
  }
  const runtime::RunResult run = plan.run(params, memory, {});
  module::stats.code_bytes -= static_cast<int64_t>(plan.code_bytes());
  const bool quiet = options.ignore_fp_flags || (run.flags == 0 && run.slots.empty());
  if (run.status != runtime::RunStatus::Done || !quiet) return {};
  std::vector<Ref<>> out;
  for (graph::ValueId v : graph.results())
    for (std::size_t r = 0; r < arrays.size(); ++r)
      if (plan.program().result_roots[r] == graph.root(v)) out.push_back(Ref<>::share(arrays[r].get()));
  return out;
}

/// Those of the constants that are the second factor of a product, and are not written.
std::vector<bool> factors(const graph::Graph& graph, const std::vector<bool>& constant) {
  const graph::MemoryFacts facts(graph);
  std::vector<bool> out(constant.size(), false);
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    if (node.op != graph::Op::MatMul) return;
    const graph::ValueId root = graph.root(node.inputs[1]);
    if (graph.node(root).op != graph::Op::Param || facts.last_write[graph::index(root)] >= 0) return;
    const auto number = static_cast<std::size_t>(graph.node(root).index());
    out[number] = constant[number];
  });
  return out;
}

}  // namespace

std::vector<bool> fold_parameters(capture::Region& region, const CompileOptions& options,
                                  const capture::LiveSlots& live) {
  std::vector<bool> constant;
  std::vector<PyObject*> objects;
  for (const Input& input : region.inputs) {
    objects.push_back(is_parameter(region, input) ? guards::fetch_source(*input.source, live) : nullptr);
    constant.push_back(objects.back() != nullptr);
  }
  graph::Split split = graph::partition_constants(*region.graph, constant, options.keep_layouts);
  std::vector<char*> params;
  for (uint32_t number : split.params)
    params.push_back(static_cast<char*>(PyArray_DATA(arrays::as_ndarray(arrays::tensor_array(objects[number])))));
  std::vector<Ref<>> arrays;
  if (!split.values.empty()) arrays = evaluate(split.constant, params, options);
  const bool folds = arrays.size() == split.values.size();
  std::vector<bool> kept = factors(*region.graph, constant), guarded = kept;
  if (folds)
    for (uint32_t number : split.params) guarded[number] = true;
  for (std::size_t number = 0; number < guarded.size(); ++number) {
    if (!guarded[number]) continue;
    Guard& guard = region.guards.emplace_back();
    guard.kind = GuardKind::Identity;
    guard.source = region.inputs[number].source;
    guard.object = Ref<>::share(objects[number]);
    guard.reason = "a Parameter that is a constant: infer_boost='on'";
  }
  if (!folds) return kept;
  graph::replace_by_params(*region.graph, split);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const graph::Type& type = region.graph->type(region.graph->params()[region.inputs.size()]);
    auto source = std::make_shared<capture::Source>();
    source->kind = capture::SourceKind::Constant;
    source->object = std::move(arrays[i]);
    source->name = "folded" + std::to_string(i);
    Input input;
    input.source = source;
    input.spec = {capture::Wrap::NdArray, type.dtype, type.shape, type.strides};
    input.guard = static_cast<uint32_t>(region.guards.size());
    Guard& guard = region.guards.emplace_back();
    guard.kind = GuardKind::Array;
    guard.source = source;
    guard.array = input.spec;
    region.inputs.push_back(std::move(input));
    kept.push_back(true);
  }
  return kept;
}

}  // namespace framejit::ext::region
