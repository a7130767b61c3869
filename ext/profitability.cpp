// An estimate, of parts that were measured: what a call of NumPy's costs that a kernel does, and what a host call costs beside the
// interpreter's own.
#include "ext/profitability.h"

#include <algorithm>

#include "ext/numpy_host_call.h"

namespace framejit::ext {

namespace {

// Nanoseconds.
constexpr double kInstruction = 15;  // of bytecode
constexpr double kOperation = 400, kReduction = 1200, kNumber = 60;  // of NumPy's
constexpr double kElement = 0.25;    // that is not read from memory and written to it
constexpr double kScanned = 4;       // in place of NumPy's loop
constexpr double kRegion = 150, kAsking = 900, kCall = 800, kQuietCall = 350, kHelper = 3000;
constexpr double kByte = 0.04;       // of a result that is copied; a helper's is so more than once
constexpr double kSlower = 0.05;     // of its time at capture: what its arrays and functions of its own cost more under an error state

double elements(const graph::Graph& graph, graph::ValueId v) {
  double count = 1;
  for (const graph::Dim& d : graph.type(v).shape) count *= static_cast<double>(std::max<int64_t>(graph.shapes().hint(d), 0));
  return count;
}

/// Is it a function of framejit._host's, which does more than NumPy's own?
bool is_helper(PyObject* callable) {
  PyObject* home = PyFunction_Check(callable) ? reinterpret_cast<PyFunctionObject*>(callable)->func_module : nullptr;
  return home && PyUnicode_Check(home) && PyUnicode_CompareWithASCIIString(home, "framejit._host") == 0;
}

/// What a call costs beside the interpreter's own.
double nanoseconds_of(const HostCall& call, double bytes) {
  if (call.first) return kByte * bytes;
  if (call.quiet) return kQuietCall + kByte * bytes;
  const bool helper = is_helper(call.callable.get());
  return kCall + kSlower * static_cast<double>(call.nanoseconds) + (helper ? kHelper : 0) + (helper ? 3 : 1) * kByte * bytes;
}

bool is_native(const graph::Graph& graph, const HostCall& call, const graph::Node& node) {
  return call.native && (call.native->kind != NativeCall::Find || elements(graph, node.inputs[call.native->array]) <= kMostFound);
}

}  // namespace

bool is_profitable(const capture::Region& region, bool asks) {
  const graph::Graph& graph = *region.graph;
  double saved = region.instructions * kInstruction - kRegion - (asks ? kAsking : 0);
  bool calls = asks, unknown = false;
  for (const capture::Input& input : region.inputs) unknown = unknown || input.spec.wrap == Wrap::Tensor;
  for (const capture::Recipe& recipe : region.recipes) unknown = unknown || recipe.wrap == Wrap::Tensor;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    const bool is_array = node.type.rank() > 0;
    switch (graph::def(node.op).cls) {
      case graph::OpClass::Elementwise:
      case graph::OpClass::Cast: saved += is_array ? kOperation + kElement * elements(graph, v) : kNumber; break;
      case graph::OpClass::Reduction: saved += kReduction; break;
      case graph::OpClass::Contraction: saved += kOperation; break;
      case graph::OpClass::Control: unknown = unknown || !node.blocks.empty(); break;
      case graph::OpClass::Host: {
        const HostCall* call = node.op == Op::Host ? host_call_at(node.index()) : nullptr;
        if (node.op != Op::Host || (call && is_native(graph, *call, node))) {
          const bool scan = call && call->native->kind == NativeCall::Scan;
          saved += kReduction + (scan ? kScanned : kElement) * elements(graph, v);
        } else if (!call) {
          unknown = true;  // a custom operator
        } else {
          calls = true;
          saved -= nanoseconds_of(*call, elements(graph, v) * graph::size_of(node.type.dtype));
        }
        break;
      }
      case graph::OpClass::Source:
      case graph::OpClass::View:
      case graph::OpClass::Copy:
      case graph::OpClass::Write: break;
    }
  });
  return !calls || unknown || saved >= 0;
}

}  // namespace framejit::ext
