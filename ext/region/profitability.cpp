// An estimate, of parts that were measured: what a call of NumPy's costs that a kernel does, and what a library call
// costs beside the interpreter's own.
#include "ext/region/profitability.h"

#include <algorithm>
#include <limits>

#include "capture/limits.h"
#include "capture/python_names.h"
#include "ext/library_calls/library_call.h"

namespace framejit::ext::region {

using capture::Wrap;
using graph::Op;
using library_calls::LibraryCall;

namespace {

// Nanoseconds.
constexpr double kInstruction = 15, kLeastInstruction = 10;                             // of bytecode
constexpr double kOperation = 400, kReduction = 1200, kNumber = 60, kLeastNumber = 15;  // of NumPy's
constexpr double kElement = 0.25;          // that is not read from memory and written to it
constexpr double kItem = 30, kPart = 180;  // an element, or a view, of an array
constexpr double kGuard = 10, kInput = 25, kRecipe = 20;
constexpr double kOfElements = 0.2;
constexpr double kFewSteps = 200, kStep = 60;
constexpr double kNewSizes =
    700;  // what is bound anew where a number that a plan depends on is not that of the run before
constexpr double kScanned = 4;  // in place of NumPy's loop
constexpr double kRegion = 150, kAsking = 900, kCall = 800, kQuietCall = 350, kHelper = 3000;
constexpr double kByte = 0.04;  // of a result that is copied; a helper's is so more than once
constexpr double kSlower =
    0.05;  // of its time at capture: what its arrays and functions of its own cost more under an error state

double elements(const graph::Graph& graph, graph::ValueId v) {
  double count = 1;
  for (const graph::Dim& d : graph.type(v).shape)
    count *= static_cast<double>(std::max<int64_t>(graph.shapes().hint(d), 0));
  return count;
}

/// Is it a function of framejit._traced._library_functions, which does more than NumPy's own?
bool is_helper(PyObject* callable) {
  PyObject* home = PyFunction_Check(callable) ? reinterpret_cast<PyFunctionObject*>(callable)->func_module : nullptr;
  return home && PyUnicode_Check(home) && PyUnicode_CompareWithASCIIString(home, python_names::kLibraryFunctions) == 0;
}

/// What a call costs beside the interpreter's own.
double nanoseconds_of(const LibraryCall& call, double bytes) {
  if (call.first) return kByte * bytes;
  if (call.quiet) return kQuietCall + kByte * bytes;
  const bool helper = is_helper(call.callable.get());
  return kCall + kSlower * static_cast<double>(call.nanoseconds) + (helper ? kHelper : 0) +
         (helper ? 3 : 1) * kByte * bytes;
}

bool has_tensors(const capture::Region& region) {
  return std::any_of(region.inputs.begin(), region.inputs.end(),
                     [](const auto& input) { return input.spec.wrap == Wrap::Tensor; }) ||
         std::any_of(region.recipes.begin(), region.recipes.end(),
                     [](const auto& recipe) { return recipe.wrap == Wrap::Tensor; });
}

bool is_computed(const graph::Node& node) {
  const graph::OpClass cls = graph::def(node.op).cls;
  return (cls == graph::OpClass::Elementwise || cls == graph::OpClass::Cast) && node.type.rank() > 0;
}

/// What NumPy's call, or the interpreter's of numbers, takes for few elements. No library call.
double operation_time(const graph::Node& node, double number = kNumber) {
  switch (graph::def(node.op).cls) {
    case graph::OpClass::Elementwise:
    case graph::OpClass::Cast: return node.type.rank() > 0 ? kOperation : number;
    case graph::OpClass::Reduction: return kReduction;
    case graph::OpClass::Contraction: return kOperation;
    default: return 0;
  }
}

/// What reading and writing elements and parts of arrays takes.
double access_time(const graph::Graph& graph, const graph::Node& node) {
  switch (graph::def(node.op).cls) {
    case graph::OpClass::View: return node.type.rank() > 0 ? kPart : kItem;
    case graph::OpClass::Copy: return node.type.rank() > 0 ? kOperation : 0;
    case graph::OpClass::Write: return graph.type(node.inputs[0]).rank() > 0 ? kOperation : kItem;
    default: return 0;
  }
}

bool is_native(const graph::Graph& graph, const LibraryCall& call, const graph::Node& node, bool o1) {
  return call.native && (o1 || !is_of_o1(*call.native)) &&
         (call.native->kind != library_calls::NativeCall::Find ||
          elements(graph, node.inputs[call.native->array]) <= library_calls::kMostFound);
}

}  // namespace

bool is_profitable(const capture::Region& region, bool asks, bool o1) {
  const graph::Graph& graph = *region.graph;
  double saved = region.instructions * kInstruction - kRegion - (asks ? kAsking : 0);
  bool calls = asks, unknown = has_tensors(region);
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    const LibraryCall* call = node.op == Op::LibraryCall ? library_calls::library_call_at(node.index()) : nullptr;
    if (graph::def(node.op).cls == graph::OpClass::LibraryCall &&
        (node.op != Op::LibraryCall || (call && is_native(graph, *call, node, o1)))) {
      const bool scan = call && call->native->kind == library_calls::NativeCall::Scan;
      const graph::ValueId counted = node.op == Op::Put ? node.inputs.back() : v;  // its places
      saved += kReduction + (scan ? kScanned : kElement) * elements(graph, counted);
    } else if (call) {
      calls = true;
      saved -= nanoseconds_of(*call, elements(graph, v) * graph::size_of(node.type.dtype));
    } else if (node.op == Op::LibraryCall || (graph::is_control(node.op) && !node.blocks.empty())) {
      unknown = true;  // a custom operator, or nobody knows how often
    } else {
      saved += operation_time(node) + (is_computed(node) ? kElement * elements(graph, v) : 0);
    }
  });
  return !calls || unknown || saved >= 0;
}

/// Is a number of the loop's iterator taken as it is? It is another one in the next round.
static bool has_loop_variable(const capture::Region& region) {
  return std::any_of(region.guards.begin(), region.guards.end(), [](const capture::Guard& g) {
    return g.kind == capture::GuardKind::Equal && g.source->kind == capture::SourceKind::Stack &&
           PyLong_CheckExact(g.object.get());
  });
}

namespace {

/// Steps of a plan that branches and loops run: each for itself, and few at a time.
double block_steps(const graph::Graph& graph, const graph::Block& block, bool inside) {
  double steps = 0;
  for (const graph::ValueId v : block.nodes) {
    const graph::Node& node = graph.node(v);
    const graph::OpClass cls = graph::def(node.op).cls;
    if (inside && cls != graph::OpClass::Source && cls != graph::OpClass::View) ++steps;
    for (const std::unique_ptr<graph::Block>& inner : node.blocks) steps += 1 + block_steps(graph, *inner, true);
  }
  return steps;
}

}  // namespace

static double entering_time(const capture::Region& region) {
  return kRegion + kGuard * static_cast<double>(region.guards.size()) +
         kInput * static_cast<double>(region.inputs.size()) +
         kRecipe * static_cast<double>(region.recipes.size() + region.effects.size());
}

bool works_on_elements(const capture::Region& region) {
  const graph::Graph& graph = *region.graph;
  bool arrays = false;
  graph::for_each_node(graph, graph.body(),
                       [&](graph::ValueId v) { arrays = arrays || capture::is_array_work(graph, v); });
  return !arrays;
}

/// The time of the library calls in the plan. The bytecode makes the same calls.
static double time_of_calls(const capture::Region& region) {
  const graph::Graph& graph = *region.graph;
  double time = 0;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    const LibraryCall* call = node.op == Op::LibraryCall ? library_calls::library_call_at(node.index()) : nullptr;
    if (call && !is_native(graph, *call, node, false))
      time += nanoseconds_of(*call, elements(graph, v) * graph::size_of(node.type.dtype));
  });
  return time;
}

/// The time of the bytecode, divided by the cost of entering the region plus `more`; infinite if it is not known.
static double gain_of_entering(const capture::Region& region, double more = 0) {
  const graph::Graph& graph = *region.graph;
  double bytecode = region.instructions * kLeastInstruction;
  double entering = entering_time(region) + more;
  if (graph.shapes().symbol_count() > 0 || has_loop_variable(region)) entering += kNewSizes;
  entering += kStep * block_steps(graph, graph.body(), false);
  bool unknown = has_tensors(region);
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    unknown = unknown || node.op == Op::Loop;
    bytecode +=
        operation_time(node) + access_time(graph, node) + (is_computed(node) ? kElement * elements(graph, v) : 0);
    if (graph::def(node.op).cls == graph::OpClass::LibraryCall) bytecode += kReduction;
  });
  // Times of single values are known worst, and next to none of these regions was seen to gain.
  if (works_on_elements(region)) bytecode *= kOfElements;
  return unknown ? std::numeric_limits<double>::infinity() : bytecode / entering;
}

bool is_worth_entering(const capture::Region& region) { return gain_of_entering(region) > 1; }

bool is_worth_compiling(const capture::Region& region) {
  const double steps = block_steps(*region.graph, region.graph->body(), false);
  const double least = least_bytecode_time(region);
  return steps < kFewSteps || has_tensors(region) || least == 0 || least > steps * kStep;
}

bool gains_much(const capture::Region& region) {
  constexpr double kLarge = 2048, kMuch = 8;
  if (gain_of_entering(region, time_of_calls(region)) > kMuch) return true;
  const graph::Graph& graph = *region.graph;
  bool large = false;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    // The hint of a size that the graph measures is its bound.
    const bool counts =
        graph::def(graph.node(v).op).cls != graph::OpClass::View && !graph.shapes().is_measured(graph.type(v).shape);
    large = large || (counts && elements(graph, v) >= kLarge);
  });
  return large;
}

double worth(const capture::Region& region, double runs) {
  constexpr double kUnknown = 70'000;       // a run of a loop of the graph
  if (works_on_elements(region)) return 0;  // few of these were seen to gain
  const double least = least_bytecode_time(region);
  return runs * (least == 0 ? kUnknown : std::max(0.0, least - entering_time(region)));
}

double least_bytecode_time(const capture::Region& region) {
  const graph::Graph& graph = *region.graph;
  double time = region.instructions * kLeastInstruction;
  const bool varies = graph.shapes().symbol_count() > 0;
  bool unknown = false;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    unknown = unknown || node.op == Op::Loop;
    time += operation_time(node, kLeastNumber) + (is_computed(node) && !varies ? kElement * elements(graph, v) : 0);
  });
  return unknown ? 0 : time;
}

}  // namespace framejit::ext::region
