// Graphs and programs as bytes: see stored_plan.h.
#include "ext/region/stored_plan.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "ext/arrays/numpy_loops.h"
#include "ext/library_calls/library_call.h"

namespace framejit::graph {

// A member that is added belongs into these functions, here and below.
static_assert(sizeof(Node) == 216 && sizeof(Type) == 88 && sizeof(Location) == 48 && sizeof(Call) == 12);

FRAMEJIT_FIELDS(Scalar, x.lo, x.hi)
FRAMEJIT_FIELDS(Type, x.dtype, x.shape, x.strides, x.root, x.offset)
FRAMEJIT_FIELDS(FlagRule, x.ignored, x.trapped)
FRAMEJIT_FIELDS(Location, x.file, x.line, x.column, x.end_column)
FRAMEJIT_FIELDS(Call, x.op, x.location, x.origin)
FRAMEJIT_FIELDS(Node, x.op, x.inputs, x.attrs, x.type, x.location, x.calls, x.flag_rule, x.rematerialized)

}  // namespace framejit::graph

namespace framejit::codegen {

static_assert(sizeof(Buffer) == 80 && sizeof(LoopOperand) == 64 && sizeof(Stage) == 64 && sizeof(GuardedKernel) == 56 &&
              sizeof(LoopStep) == 328 && sizeof(Windows) == 352 && sizeof(MatMulStep) == 1576 &&
              sizeof(UndoStep) == 96 && sizeof(AttentionStep) == 944 && sizeof(LibraryCallStep) == 120 &&
              sizeof(FlowStep) == 48 && sizeof(Program) == 200);

template <class A, class T>
  requires std::is_same_v<std::remove_const_t<T>, NumpyLoop> || std::is_same_v<std::remove_const_t<T>, LibraryFunction>
void fields(A& a, T& x) {
  constexpr bool kIsLoop = std::is_same_v<std::remove_const_t<T>, NumpyLoop>;
  if constexpr (A::kReads) {
    const ext::region::External found = a.external();
    x.function = reinterpret_cast<decltype(x.function)>(found.function);
    if constexpr (kIsLoop) x.data = found.data;
    else x.context = found.data;
  } else if constexpr (kIsLoop) {
    a.external({reinterpret_cast<void*>(x.function), x.data});
  } else {
    a.external({reinterpret_cast<void*>(x.function), x.context});
  }
}

FRAMEJIT_FIELDS(KernelCode, x.name, x.bytes)
FRAMEJIT_FIELDS(Buffer, x.kind, x.number, x.bytes, x.literal, x.value)
FRAMEJIT_FIELDS(LoopOperand, x.buffer, x.scratch, x.dtype, x.offset, x.strides, x.written, x.index, x.nonnegative)
FRAMEJIT_FIELDS(Stage, x.code, x.operands, x.streaming, x.slot)
FRAMEJIT_FIELDS(GuardedKernel::Saved, x.operand, x.scratch)
FRAMEJIT_FIELDS(GuardedKernel, x.kernel, x.operands, x.saved)
FRAMEJIT_FIELDS(JointStages, x.stages, x.saved)
FRAMEJIT_FIELDS(LoopStep, x.name, x.group, x.extents, x.operands, x.stages, x.guarded, x.joint, x.scratch_slots, x.tile,
                x.parallel, x.cost, x.streaming_bytes, x.reduce, x.reduced_axes, x.run_axes, x.run_cut, x.output,
                x.combine, x.accumulator, x.longest_run, x.identity, x.redo_zero_or_nan, x.small_domain_redo)
FRAMEJIT_FIELDS(Windows::Axis, x.image, x.result, x.pitch, x.window, x.stride, x.dilation, x.before)
FRAMEJIT_FIELDS(Windows, x.axes[0], x.axes[1], x.axes[2], x.channel, x.groups, x.transposed)
FRAMEJIT_FIELDS(MatMulCore, x.item, x.lanes, x.avx512)
FRAMEJIT_FIELDS(TileEpilogue, x.bias, x.relu)
FRAMEJIT_FIELDS(MatMulStep, x.name, x.group, x.dtype, x.kernel, x.narrow, x.in_amx, x.core, x.l2_bytes, x.a, x.b, x.c,
                x.batch, x.m, x.n, x.k, x.windows, x.winograd, x.constant_b, x.summed, x.next_a, x.next_b, x.epilogue,
                x.in_registers, x.producer, x.producer_step)
FRAMEJIT_FIELDS(UndoStep, x.source, x.extents, x.saved)
FRAMEJIT_FIELDS(AttentionStep, x.name, x.group, x.product, x.softmax, x.core, x.l2_bytes, x.q, x.k, x.v, x.scale, x.out,
                x.mask, x.g, x.y, x.probability, x.state, x.batch, x.heads, x.key_heads, x.queries, x.keys, x.depth,
                x.width, x.causal, x.ahead)
FRAMEJIT_FIELDS(LibraryCallStep, x.name, x.group, x.callee, x.operands, x.shapes)
FRAMEJIT_FIELDS(FlowStep, x.kind, x.a, x.b, x.c, x.offset, x.target)
FRAMEJIT_FIELDS(Program, x.kernels, x.buffers, x.steps, x.result_roots, x.may_set_flags, x.per_call_flags, x.flag_slots,
                x.flag_rules)

}  // namespace framejit::codegen

namespace framejit::ext::region {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

namespace {

// ---- graphs

template <class F>
void each_node(const Graph& graph, F&& f) {
  for (uint32_t i = 0; i < graph.value_count(); ++i) f(graph.node(ValueId{i}));
}

}  // namespace

void write_graph(ArchiveWriter& a, const Graph& graph, uint32_t locations) {
  locations = std::max(locations, 1u);
  const graph::ShapeEnv& shapes = graph.shapes();
  bool plain = graph.gradient_starts().empty() && (shapes.symbol_count() == 0 || shapes.limited().empty());
  for (uint32_t i = 0; i < shapes.symbol_count(); ++i)
    plain = plain && !shapes.is_measured(graph::Dim::symbol(graph::SymbolId{i}));
  each_node(graph, [&](const Node& node) {
    locations = std::max(locations, node.location + 1);
    plain = plain && node.blocks.empty();
  });
  for (const graph::Call& call : graph.calls()) locations = std::max(locations, call.location + 1);
  a.ok = a.ok && plain;
  a(graph.name(), shapes.hints(), shapes.guards());
  a.put(locations);
  for (uint32_t i = 1; i < locations; ++i) a(graph.location(i));
  a(graph.calls());
  a.size(graph.value_count());
  each_node(graph, [&](const Node& node) { a(node); });
  a(graph.body().params, graph.body().nodes, graph.body().results);
}

std::unique_ptr<Graph> read_graph(ArchiveReader& a, const LibraryCallIndices& calls, uint32_t& locations) {
  std::string name;
  std::vector<int64_t> hints;
  std::vector<graph::DimGuard> guards;
  a(name, hints, guards);
  auto graph = std::make_unique<Graph>(std::move(name));
  graph::ShapeEnv& shapes = graph->shapes();
  for (const int64_t hint : hints) shapes.fresh(hint);
  for (const graph::DimGuard& guard : guards) {
    std::vector<graph::SymbolId> used;
    guard.left.collect_symbols(used);
    guard.right.collect_symbols(used);
    a.ok = a.ok && guard.relation <= graph::Relation::Le &&
           std::all_of(used.begin(), used.end(),
                       [&](graph::SymbolId s) { return static_cast<std::size_t>(s) < hints.size(); }) &&
           shapes.holds(guard.relation, guard.left, guard.right) == guard.outcome;
  }
  a.ok = a.ok && shapes.guards().size() == guards.size();
  locations = a.get<uint32_t>();
  for (uint32_t i = 1; i < locations && a.ok; ++i) {
    graph::Location location;
    a(location);
    a.ok = a.ok && graph->add_location(std::move(location)) == i;
  }
  std::vector<graph::Call> made;
  a(made);
  for (const graph::Call& call : made) graph->add_call(call);
  const std::size_t count = a.size();
  const auto is_value = [count](ValueId v) { return index(v) < count; };
  for (std::size_t i = 0; i < count && a.ok; ++i) {
    Node node{};
    a(node);
    a.ok = a.ok && static_cast<int>(node.op) < graph::kOpCount && node.location < locations &&
           std::all_of(node.inputs.begin(), node.inputs.end(), is_value) &&
           (!node.type.is_view() || is_value(node.type.root)) &&
           std::all_of(node.calls.begin(), node.calls.end(), [&](uint32_t call) { return call < made.size(); });
    if (!a.ok) return nullptr;
    if (node.op == Op::LibraryCall)
      for (auto& [key, value] : node.attrs)
        if (auto* number = std::get_if<int64_t>(&value); number && key == graph::AttrKey::Index) {
          const auto known = calls.find(*number);
          a.ok = a.ok && known != calls.end();
          if (a.ok) *number = known->second;
        }
    graph->append(std::move(node));
  }
  graph::Block& body = graph->body();
  a(body.params, body.nodes, body.results);
  for (const std::vector<ValueId>* values : {&body.params, &body.nodes, &body.results})
    a.ok = a.ok && std::all_of(values->begin(), values->end(), is_value);
  return a.ok ? std::move(graph) : nullptr;
}

namespace {

// ---- what programs call

enum class Callee : uint8_t { NumpyLoop, LibraryCall };

template <class Function>
External external_of(const Function& found) {
  if constexpr (std::is_same_v<Function, codegen::NumpyLoop>)
    return {reinterpret_cast<void*>(found.function), found.data};
  else return {reinterpret_cast<void*>(found.function), found.context};
}

/// How another process finds the function: as a loop of NumPy's for an operator of the graph, or as a library call.
void write_external(ArchiveWriter& a, const Graph& graph, const External& external) {
  bool found = false;
  each_node(graph, [&](const Node& node) {
    if (found) return;
    if (node.op == Op::LibraryCall) {
      for (const bool o1 : {false, true}) {
        found = external_of(library_calls::library_function(node.index(), o1)) == external;
        if (found) return a(Callee::LibraryCall, node.index(), o1);
      }
      return;
    }
    for (const ValueId input : node.inputs) {
      const graph::DType operand = graph.type(input).dtype, result = node.type.dtype;
      found = external_of(arrays::numpy_loop(node.op, operand, result)) == external;
      if (found) return a(Callee::NumpyLoop, node.op, operand, result);
    }
  });
  a.ok = a.ok && found && external.function;
}

External read_external(ArchiveReader& a, const LibraryCallIndices& calls) {
  External out;
  Callee callee{};
  a(callee);
  if (callee == Callee::LibraryCall) {
    const auto known = calls.find(a.get<int64_t>());
    const bool o1 = a.get<bool>();
    if (known != calls.end()) out = external_of(library_calls::library_function(known->second, o1));
  } else {
    Op op{};
    graph::DType operand{}, result{};
    a(op, operand, result);
    if (a.ok && static_cast<int>(op) < graph::kOpCount) out = external_of(arrays::numpy_loop(op, operand, result));
  }
  a.ok = a.ok && out.function;
  return out;
}

}  // namespace

void write_program(ArchiveWriter& a, const Graph& graph, const codegen::Program& program) {
  const bool has_addresses = std::any_of(program.kernels.begin(), program.kernels.end(),
                                         [](const codegen::KernelCode& kernel) { return !kernel.addresses.empty(); });
  a.ok = a.ok && graph.shapes().symbol_count() == 0 && program.conditions.empty() && program.measured.empty() &&
         !has_addresses;
  ArchiveWriter inner;
  inner(program);
  a.ok = a.ok && inner.ok;
  a.size(inner.externals.size());
  for (const External& external : inner.externals) write_external(a, graph, external);
  a.raw(inner.bytes.data(), inner.bytes.size());
}

std::optional<Compiled> read_program(ArchiveReader& a, const LibraryCallIndices& calls, const CompileOptions& options) {
  const std::size_t externals = a.size();
  std::vector<External> found;
  for (std::size_t i = 0; i < externals && a.ok; ++i) found.push_back(read_external(a, calls));
  a.externals = std::move(found);
  codegen::Program program;
  a(program);
  if (!a.ok) return std::nullopt;
  auto compiled = finish(std::move(program), options);
  a.ok = static_cast<bool>(compiled);
  return a.ok ? std::optional(std::move(*compiled)) : std::nullopt;
}

}  // namespace framejit::ext::region
