// From groups to a program: groups are cut into parts (lower_parts.cpp); each part becomes one step, and each of its
// reductions another one.
#include "codegen/lower.h"

#include <algorithm>

#include "codegen/compress.h"
#include "codegen/lower_parts.h"
#include "codegen/put.h"
#include "graph/passes/memory.h"

namespace framejit::codegen {

namespace detail {

namespace {

void find_results(Lowerer& l) {
  for (ValueId v : l.graph.results()) {
    const ValueId root = l.graph.root(v);
    if (l.graph.node(root).op == Op::Param || l.result_number.contains(root)) continue;
    l.result_number[root] = static_cast<uint32_t>(l.program.result_roots.size());
    l.program.result_roots.push_back(root);
  }
  bool writes_params = false, flows = false, has_rules = false;
  graph::for_each_node(l.graph, l.graph.body(), [&](ValueId v) {
    if (l.may_flag(v)) l.program.may_set_flags = true;
    const graph::Op op = l.graph.node(v).op;
    flows = flows || graph::is_control(op);
    has_rules = has_rules || l.graph.node(v).flag_rule;
    // A loop can be cancelled, wherever it stands.
    if (l.may_flag(v) || l.may_redo(v) || op == Op::LibraryCall || op == Op::Put || op == Op::Loop ||
        op == Op::Expect || op == Op::Measure)
      l.needs_undo = true;
    writes_params = writes_params || l.is_param_write(v);
    if (op == Op::Write) l.written.insert(l.graph.root(l.graph.node(v).inputs[0]));
  });
  l.needs_undo = l.needs_undo && writes_params;
  l.program.per_call_flags = l.needs_undo && l.options.attribute;
  if (l.program.per_call_flags && flows) fail("what control flow skips has no warning of its own");
  if (l.program.per_call_flags && has_rules) fail("not all flags are warned of alike");
  if (l.program.per_call_flags) l.needs_undo = false;
}

/// Does the program write into its params in one step only, of items, which tries all places before it writes; and can
/// nothing end the run that runs behind that, or beside it?
bool ends_with_items(Lowerer& l) {
  if (l.program.may_set_flags) return false;
  bool found = false;
  for (const Part& part : l.parts) {
    const graph::Node& first = l.graph.node(part.nodes[0]);
    const bool writes = l.writes_param(part) || !first.blocks.empty();
    if (writes && (found || !l.is_in_place(part))) return false;
    found = found || writes;
    for (ValueId v : part.nodes)
      if (!writes && (l.may_redo(v) || graph::may_end_run(l.graph.node(v)) ||
                      (graph::is_control(l.graph.node(v).op) && (found || l.graph.node(v).op != Op::Measure))))
        return false;
  }
  return found;
}

/// Copies of what the program overwrites, if it may have to be taken back.
void save_params(Lowerer& l) {
  if (!l.needs_undo || ends_with_items(l)) return;
  for (const Part& part : l.parts) {
    if (!l.is_in_place(part) || !l.is_param_write(part.nodes[1])) continue;
    const graph::Type& written = l.graph.type(l.graph.node(part.nodes[1]).inputs[0]);
    if (!l.graph.shapes().is_measured(written.offset) && !l.graph.shapes().is_measured(written.shape) &&
        !l.graph.shapes().is_measured(written.strides))
      l.taken_back.insert(part.nodes[1]);
  }
  std::vector<ValueId> saved;
  graph::for_each_node(l.graph, l.graph.body(), [&](ValueId v) {
    if (!l.is_param_write(v) || l.taken_back.contains(v)) return;
    ValueId destination = l.graph.node(v).inputs[0];
    // Where it lies, or how much it is, is not known yet: all of the param.
    const graph::Type& written = l.graph.type(destination);
    if (l.graph.shapes().is_measured(written.offset) || l.graph.shapes().is_measured(written.shape))
      destination = l.graph.root(destination);
    if (std::any_of(saved.begin(), saved.end(), [&](ValueId s) { return same_view(l.graph, s, destination); })) return;
    saved.push_back(destination);
    const graph::Type& type = l.graph.type(destination);
    UndoStep undo;
    undo.source.buffer = l.buffer_of(l.graph.root(destination));
    undo.source.dtype = type.dtype;
    undo.source.offset = type.offset;
    undo.source.strides = type.strides;
    undo.extents = type.shape;
    Buffer b{};
    b.kind = BufferKind::Temp;
    b.bytes = l.bytes_of(destination);
    l.program.buffers.push_back(std::move(b));
    undo.saved = static_cast<BufferIndex>(l.program.buffers.size() - 1);
    l.program.steps.emplace_back(std::move(undo));
  });
}

/// The operand in which a step that writes items keeps what it overwrites; it has no bytes if nothing is kept.
void add_kept_bytes(Lowerer& l, LibraryCallStep& step, const Node& put, bool keeps) {
  LoopOperand kept;
  kept.dtype = DType::U8;
  kept.strides = {1};
  kept.buffer = step.operands[0].buffer;
  if (keeps) {
    Buffer b{};
    b.kind = BufferKind::Temp;
    b.bytes = saved_bytes_of(l.graph, put);
    kept.written = true;
    kept.buffer = static_cast<BufferIndex>(l.program.buffers.size());
    step.shapes.push_back({b.bytes});
    step.callee.take_back = take_back_put;
    l.program.buffers.push_back(std::move(b));
  } else {
    step.shapes.push_back({0});
  }
  step.operands.push_back(std::move(kept));
}

void lower_library_call(Lowerer& l, const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = l.graph.node(v);
  LibraryCallStep step;
  step.group = part.group;
  if (node.op == Op::Put) step.callee.function = put;
  else if (node.op != Op::LibraryCall)
    step.callee.function = node.op == Op::Compress ? compress : node.op == Op::Expand ? expand : nonzero;
  else if (l.options.library_function) step.callee = l.options.library_function(node.index());
  if (!step.callee.function) fail("a call of a library function that is gone");
  step.name = step.callee.name             ? step.callee.name
              : node.op == Op::LibraryCall ? "library_call " + std::to_string(node.index())
                                           : std::string(graph::name_of(node.op));
  const auto add = [&](ValueId operand) {
    const graph::Type& type = l.graph.type(operand);
    LoopOperand& o = step.operands.emplace_back();
    o.buffer = l.buffer_of(l.graph.root(operand));
    o.dtype = type.dtype;
    o.offset = type.offset;
    o.strides = type.strides;
    step.shapes.push_back(type.shape);
  };
  for (ValueId operand : node.inputs) add(operand);
  const bool in_place = l.is_in_place(part);
  if (node.op == Op::Put) add_kept_bytes(l, step, node, in_place && l.taken_back.contains(part.nodes[1]));
  add(in_place ? l.graph.node(part.nodes[1]).inputs[0] : v);
  step.operands.back().written = true;
  l.program.steps.emplace_back(std::move(step));
}

void reach_unstored(Lowerer& l, ValueId v, const Part& part, const std::set<ValueId>& stored, std::set<ValueId>& out) {
  v = l.graph.root(v);
  if (stored.contains(v)) return;
  if (std::find(part.nodes.begin(), part.nodes.end(), v) == part.nodes.end() || !out.insert(v).second) return;
  for (ValueId input : l.graph.node(v).inputs) reach_unstored(l, input, part, stored, out);
}

/// Every reduced axis has length 1: the start value combined with the one element.
void lower_trivial(Lowerer& l, StepSpec& spec, TermBuilder& terms, const FoldSpec& fold, const Node& node) {
  const DType dtype = fold.output.dtype;
  TermId value = fold.value;
  if (fold.accumulator != dtype && fold.kind == ReduceKind::Pairwise)
    value = terms.apply(Op::Cast, fold.accumulator, dtype, {value});
  const bool sums = node.op == Op::ReduceSum && (graph::is_float(dtype) || graph::is_complex(dtype));
  if (sums) value = terms.apply(Op::Add, dtype, dtype, {terms.constant(dtype, {}), value});
  spec.stores.push_back({fold.output, value, false, true});
  l.program.steps.emplace_back(build_step(spec, l.context));
}

void lower_reduction(Lowerer& l, const Part& part, const std::vector<ValueId>& elementwise,
                     const std::set<ValueId>& stored, ValueId r) {
  const Node& node = l.graph.node(r);
  const ValueId input = node.inputs[0];
  StepSpec spec = new_step(part);
  TermBuilder terms(l.graph, l, l.context, spec);
  std::set<ValueId> reached;
  reach_unstored(l, input, part, stored, reached);
  for (ValueId v : elementwise)
    if (part.ahead || reached.contains(v)) terms.compute(v);

  // dtype= of a reduction: NumPy casts in its buffers, so that the layout of what is cast decides the order.
  const bool casting = node.find(graph::AttrKey::Name) != nullptr && node.name() == "casting";
  const ValueId seen = casting && l.graph.node(input).op == Op::Cast ? l.graph.node(input).inputs[0] : input;
  FoldSpec fold = reduction(l.graph, r, l.graph.type(seen), casting, l.context);
  fold.output.buffer = l.buffer_of(r);
  fold.value = terms.operand(input);
  const DType dtype = l.graph.type(input).dtype;
  if (node.op == Op::ReduceAny || node.op == Op::ReduceAll) {
    if (dtype != DType::Bool)
      fold.value = terms.apply(Op::NotEqual, dtype, DType::Bool, {fold.value, terms.constant(dtype, {})});
  } else if (fold.accumulator != dtype) {
    fold.value = terms.apply(Op::Cast, dtype, fold.accumulator, {fold.value});
  }
  if (fold.order.empty() || std::none_of(fold.order.begin(), fold.order.end(),
                                         [&](int axis) { return fold.reduced[static_cast<std::size_t>(axis)]; }))
    return lower_trivial(l, spec, terms, fold, node);
  spec.fold = std::move(fold);
  l.program.steps.emplace_back(build_step(spec, l.context));
}

/// Values of the part that `v` is computed from, itself included.
void reach(Lowerer& l, ValueId v, const Part& part, std::set<ValueId>& out) {
  v = l.graph.root(v);
  if (std::find(part.nodes.begin(), part.nodes.end(), v) == part.nodes.end() || !out.insert(v).second) return;
  for (ValueId input : l.graph.node(v).inputs) reach(l, input, part, out);
}

bool feeds_several(Lowerer& l, ValueId v, const Part& part, const std::vector<ValueId>& reductions) {
  if ((l.cls(v) != OpClass::Elementwise && l.cls(v) != OpClass::Cast) || !l.needs_numpy_loop(v)) return false;
  int count = 0;
  for (ValueId r : reductions) {
    std::set<ValueId> reached;
    reach(l, l.graph.node(r).inputs[0], part, reached);
    count += reached.contains(v);
  }
  return count > 1;
}

/// Of the elementwise nodes before reductions, those for what is stored and those that nothing else would compute.
std::vector<ValueId> needed(Lowerer& l, const Part& part, const std::vector<ValueId>& elementwise,
                            const std::set<ValueId>& stored, const std::set<ValueId>& reached) {
  std::set<ValueId> keep;
  for (ValueId v : stored) reach(l, v, part, keep);
  for (ValueId v : elementwise)
    if (l.may_flag(v) && !reached.contains(v)) reach(l, v, part, keep);
  std::vector<ValueId> out;
  for (ValueId v : elementwise)
    if (keep.contains(v)) out.push_back(v);
  return out;
}

void lower_part(Lowerer& l, const Part& part) {
  if (graph::is_control(l.graph.node(part.nodes[0]).op)) return lower_control(l, part);
  if (is_product(l, part)) return lower_product(l, part, nullptr);
  if (part.nodes.size() == 1 && l.cls(part.nodes[0]) == OpClass::Contraction) return lower_attention(l, part);
  if (l.cls(part.nodes[0]) == OpClass::LibraryCall) return lower_library_call(l, part);
  std::vector<ValueId> reductions, elementwise;
  for (ValueId v : part.nodes) (l.cls(v) == OpClass::Reduction ? reductions : elementwise).push_back(v);
  if (reductions.empty()) return lower_elementwise(l, part, elementwise, part.stored);
  if (part.ahead) {
    for (ValueId r : reductions) lower_reduction(l, part, elementwise, {}, r);
    return;
  }

  // What is stored, or dear and shared, is computed once before; the reductions compute the rest as they go.
  std::set<ValueId> stored;
  for (ValueId v : elementwise)
    if (part.stored.contains(v) || (reductions.size() > 1 && feeds_several(l, v, part, reductions))) stored.insert(v);
  std::set<ValueId> reached;
  for (ValueId r : reductions) reach(l, l.graph.node(r).inputs[0], part, reached);
  const bool unreached_flags = std::any_of(elementwise.begin(), elementwise.end(),
                                           [&](ValueId v) { return l.may_flag(v) && !reached.contains(v); });
  if (!stored.empty() || unreached_flags)
    lower_elementwise(l, part, needed(l, part, elementwise, stored, reached), stored);
  for (ValueId r : reductions) lower_reduction(l, part, elementwise, stored, r);
}

bool is_one_loop(Lowerer& l, std::size_t first) {
  return l.program.steps.size() == first + 1 && std::holds_alternative<LoopStep>(l.program.steps[first]);
}

/// Results that are constants or dimensions and belong to no group. Memory that nothing is written to has its size all
/// the same.
void store_scalar_results(Lowerer& l) {
  for (ValueId root : l.program.result_roots) {
    const graph::Op op = l.graph.node(root).op;
    if (op != Op::Constant && op != Op::DimValue) {
      l.buffer_of(root);
      continue;
    }
    StepSpec spec;
    TermBuilder terms(l.graph, l, l.context, spec);
    Buffer b{};
    b.kind = BufferKind::Result;
    b.number = l.result_number[root];
    b.bytes = l.bytes_of(root);
    l.program.buffers.push_back(std::move(b));
    Access out;
    out.buffer = static_cast<BufferIndex>(l.program.buffers.size() - 1);
    out.dtype = l.graph.type(root).dtype;
    const TermId value = terms.operand(root);
    spec.stores.push_back({out, value, false, true});
    l.program.steps.emplace_back(build_step(spec, l.context));
  }
}

/// Does it go by a number that the captured program measures, but that passes have made needless?
bool is_left_unmeasured(const Lowerer& l, const Dim& dim) {
  if (!l.graph.shapes().is_measured(dim)) return false;
  std::vector<graph::SymbolId> used;
  dim.collect_symbols(used);
  return std::any_of(used.begin(), used.end(), [&](graph::SymbolId s) {
    return l.graph.shapes().is_measured(Dim::symbol(s)) &&
           std::none_of(l.program.measured.begin(), l.program.measured.end(),
                        [&](const auto& measured) { return measured.symbol == s; });
  });
}

}  // namespace

Program Lowerer::run() {
  if (options.cpu.isa == Isa::None) fail("this processor has no AVX2");
  find_results(*this);
  cut_groups(*this);
  attribute(*this);
  find_stored(*this);
  save_params(*this);
  lower_parts(*this);
  store_scalar_results(*this);
  program.conditions = facts.conditions();
  std::erase_if(program.conditions, [&](const graph::DimGuard& g) {
    return is_left_unmeasured(*this, g.left) || is_left_unmeasured(*this, g.right);
  });
  return std::move(program);
}

void lower_parts(Lowerer& l) {
  std::map<const Part*, const Part*> waiting;  // by epilogue: its product
  for (const Part& part : l.parts) {
    l.context.per_call_flags = l.program.per_call_flags && (l.context.per_call_flags || l.writes_param(part));
    const Part* epilogue = is_product(l, part) ? epilogue_of(l, part) : nullptr;
    const graph::FlagRule rule = l.rule_of(part);
    const std::size_t first = l.program.steps.size();
    if (const auto product = waiting.find(&part); product != waiting.end()) lower_product(l, *product->second, &part);
    else if (epilogue) waiting[epilogue] = &part;
    else lower_part(l, part);
    if (l.depth == 0 && is_one_loop(l, first)) l.loop_of[&part] = first;
    if (!rule) continue;
    l.program.flag_rules.resize(first);
    l.program.flag_rules.resize(l.program.steps.size(), rule);
  }
}

StepSpec new_step(const Part& part) {
  StepSpec spec;
  spec.group = part.group;
  spec.shape = part.shape;
  return spec;
}

void lower_elementwise(Lowerer& l, const Part& part, const std::vector<ValueId>& nodes,
                       const std::set<ValueId>& stored) {
  StepSpec spec = new_step(part);
  fill_elementwise(l, spec, nodes, stored);
  const std::size_t here = static_cast<std::size_t>(&part - l.parts.data());
  spec.streams = std::all_of(stored.begin(), stored.end(), [&](ValueId v) {
    const auto it = l.last_reader.find(v);
    return it == l.last_reader.end() || it->second <= here;
  });
  // What is written where it stands: in a block the next round, or what comes behind, may read it.
  for (ValueId v : nodes)
    if (l.cls(v) == OpClass::Write) {
      const auto it = l.last_reader.find(l.graph.root(v));
      spec.streams = spec.streams && l.depth == 0 && (it == l.last_reader.end() || it->second <= here);
    }
  if (!spec.stores.empty() || !spec.kept.empty()) l.program.steps.emplace_back(build_step(spec, l.context));
}

void fill_elementwise(Lowerer& l, StepSpec& spec, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored) {
  TermBuilder terms(l.graph, l, l.context, spec);
  for (ValueId v : nodes) terms.compute(v);
  for (ValueId v : nodes)
    if (stored.contains(v)) terms.store(v);
  terms.finish(stored);
  for (ValueId v : nodes)
    if (l.may_flag(v)) terms.keep(v);
}

}  // namespace detail

Expected<Program, std::string> lower(const graph::Graph& graph, const std::vector<graph::Group>& groups,
                                     const LowerOptions& options) {
  try {
    return detail::Lowerer(graph, groups, options).run();
  } catch (detail::LowerFailure& failure) {
    return Unexpected{std::move(failure.reason)};
  } catch (const graph::DimOverflow& overflow) {
    return Unexpected<std::string>{overflow.what()};
  }
}

}  // namespace framejit::codegen
