// Control flow: steps that jump, and the steps of blocks between them, whose results lie, or are pointed at, where the
// outputs are.
#include <algorithm>

#include "codegen/lower_parts.h"

namespace framejit::codegen::detail {

namespace {

BufferIndex append_buffer(Lowerer& l, BufferKind kind, Dim bytes) {
  Buffer b{};
  b.kind = kind;
  b.bytes = std::move(bytes);
  l.program.buffers.push_back(std::move(b));
  return static_cast<BufferIndex>(l.program.buffers.size() - 1);
}

/// A fresh value of the layout of `v`, at `to`.
void copy_to(Lowerer& l, BufferIndex to, ValueId v) {
  const graph::Type& type = l.graph.type(v);
  StepSpec spec;
  spec.shape = type.shape;
  TermBuilder terms(l.graph, l, l.context, spec);
  Access out;
  out.buffer = to;
  out.dtype = type.dtype;
  out.strides = type.strides;
  terms.store_at(out, terms.operand(v), false, true);
  l.program.steps.emplace_back(build_step(spec, l.context));
}

/// Where a value lies; a constant or dimension is stored first.
BufferIndex address_of(Lowerer& l, ValueId v) {
  const graph::Op op = l.graph.node(l.graph.root(v)).op;
  if (op != Op::Constant) return l.buffer_of(l.graph.root(v));
  const BufferIndex at = append_buffer(l, BufferKind::Temp, l.bytes_of(v));
  copy_to(l, at, v);
  return at;
}

uint32_t here(const Lowerer& l) { return static_cast<uint32_t>(l.program.steps.size()); }

void land(Lowerer& l, uint32_t jump) { std::get<FlowStep>(l.program.steps[jump]).target = here(l); }

FlowStep& flow(Lowerer& l, FlowStep::Kind kind) {
  l.program.steps.emplace_back(FlowStep{});
  auto& step = std::get<FlowStep>(l.program.steps.back());
  step.kind = kind;
  return step;
}

/// A step that goes by a bool; returns its number.
uint32_t decide(Lowerer& l, FlowStep::Kind kind, ValueId condition, uint32_t target = 0) {
  const BufferIndex a = address_of(l, condition);
  FlowStep& step = flow(l, kind);
  step.a = a;
  step.offset = l.graph.type(condition).offset;
  step.target = target;
  return here(l) - 1;
}

void lower_block(Lowerer& l, const graph::Block& block, const std::vector<Group>& groups) {
  std::vector<Part> parts = std::exchange(l.parts, {});
  std::map<ValueId, std::size_t> readers = std::exchange(l.last_reader, {});
  const std::vector<Group>* const around = std::exchange(l.groups, &groups);
  cut_groups(l);
  find_stored(l);
  for (ValueId v : block.results) l.last_reader[l.graph.root(v)] = l.parts.size();
  ++l.depth;
  lower_parts(l);
  --l.depth;
  l.groups = around;
  l.last_reader = std::move(readers);
  l.parts = std::move(parts);
}

/// The value, made in the block and given once, may be computed where what it becomes will lie.
bool is_own(Lowerer& l, const graph::Block& block, ValueId v) {
  if (l.graph.type(v).is_view() || std::count(block.results.begin(), block.results.end(), v) != 1) return false;
  if (l.result_number.contains(v) || std::find(block.nodes.begin(), block.nodes.end(), v) == block.nodes.end())
    return false;
  return l.cls(v) != OpClass::Source || l.graph.node(v).op == Op::Output || l.graph.node(v).op == Op::Iota ||
         l.graph.node(v).op == Op::Full;
}

/// Where nobody but the program looks, and no write comes between, a pointer to what a block gives does in place of a
/// copy. What a loop carries stays where it is behind it; its other results are those of rounds that others may follow.
bool may_follow(Lowerer& l, const Node& node, std::size_t i, ValueId output) {
  if (l.buffers.contains(output) || l.result_number.contains(output) || l.written.contains(output)) return false;
  if (node.op == Op::Loop) return i <= node.inputs.size();
  return std::any_of(node.blocks.begin(), node.blocks.end(),
                     [&](const auto& b) { return !is_own(l, *b, b->results[i]); }) &&
         std::none_of(node.blocks.begin(), node.blocks.end(),
                      [&](const auto& b) { return l.written.contains(l.graph.root(b->results[i])); });
}

void move_buffer(Lowerer& l, BufferIndex a, BufferIndex b, Dim offset) {
  FlowStep& step = flow(l, FlowStep::MoveBuffer);
  step.a = a;
  step.b = b;
  step.offset = std::move(offset);
}

void lower_side(Lowerer& l, const graph::Block& block, const std::vector<Group>& groups,
                const std::vector<std::optional<BufferIndex>>& outputs) {
  std::vector<bool> placed(outputs.size(), false);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && is_own(l, block, block.results[i])) {
      placed[i] = !l.follows.contains(*outputs[i]);
      if (placed[i]) l.buffers[block.results[i]] = *outputs[i];
    }
  lower_block(l, block, groups);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i] || placed[i]) continue;
    const ValueId v = block.results[i];
    if (l.follows.contains(*outputs[i])) move_buffer(l, *outputs[i], address_of(l, v), l.graph.type(v).offset);
    else copy_to(l, *outputs[i], v);
  }
}

/// The body of a loop: what is carried goes to the memory behind a pointer.
void lower_round(Lowerer& l, const graph::Block& body, const std::vector<Group>& groups,
                 const std::vector<std::optional<BufferIndex>>& targets) {
  std::vector<bool> placed(targets.size(), false);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && is_own(l, body, body.results[i])) {
      l.buffers[body.results[i]] = *targets[i];
      placed[i] = true;
    }
  lower_block(l, body, groups);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && !placed[i]) copy_to(l, *targets[i], body.results[i]);
}

/// From one buffer to another of the same layout.
void copy_bytes(Lowerer& l, BufferIndex to, BufferIndex from, const graph::Type& type) {
  StepSpec spec;
  spec.shape = type.shape;
  Term load;
  const DType dtype = type.dtype == DType::Bool ? DType::U8 : type.dtype;
  load.kind = Term::kLoad;
  load.dtype = load.operand_dtype = dtype;
  load.access = {from, dtype, 0, type.strides};
  spec.terms.push_back(std::move(load));
  spec.stores.push_back({{to, dtype, 0, type.strides}, 0, false, true});
  l.program.steps.emplace_back(build_step(spec, l.context));
}

/// A round reads what it carries through pointers, and writes what the next one will carry into memory of its own; then
/// the pointers go round.
void lower_loop(Lowerer& l, const Node& node, const Group& group,
                const std::vector<std::optional<BufferIndex>>& outputs) {
  const graph::Block& body = *node.blocks[0];
  struct Carried {
    BufferIndex now, next, spare;
  };
  std::vector<Carried> carried;
  for (std::size_t i = 0; i < body.params.size(); ++i) {
    const BufferIndex from = address_of(l, node.inputs[i]);
    const Dim bytes = l.bytes_of(body.params[i]);
    const Carried c{append_buffer(l, BufferKind::Pointer, 0), append_buffer(l, BufferKind::Pointer, 0),
                    append_buffer(l, BufferKind::Pointer, 0)};
    l.buffers[body.params[i]] = c.now;
    move_buffer(l, c.now, from, l.graph.type(node.inputs[i]).offset);
    for (BufferIndex pointer : {c.next, c.spare}) move_buffer(l, pointer, append_buffer(l, BufferKind::Temp, bytes), 0);
    carried.push_back(c);
  }
  std::vector<std::optional<BufferIndex>> targets(outputs.size());
  for (std::size_t i = 0; i < carried.size(); ++i) targets[i + 1] = carried[i].next;
  for (std::size_t i = carried.size() + 1; i < outputs.size(); ++i) targets[i] = outputs[i];
  const uint32_t head = here(l);
  lower_round(l, body, group.blocks[0], targets);
  // The condition may be one of the carried values, which go round first.
  const BufferIndex condition = address_of(l, body.results[0]);
  const BufferIndex decides = append_buffer(l, BufferKind::Pointer, 0);
  move_buffer(l, decides, condition, l.graph.type(body.results[0]).offset);
  for (const Carried& c : carried) {
    FlowStep& step = flow(l, FlowStep::RotateBuffers);
    step.a = c.now;
    step.b = c.next;
    step.c = c.spare;
  }
  FlowStep& again = flow(l, FlowStep::BranchBack);
  again.a = decides;
  again.target = head;
  for (std::size_t i = 0; i < carried.size(); ++i)
    if (outputs[i + 1] && l.follows.contains(*outputs[i + 1])) move_buffer(l, *outputs[i + 1], carried[i].now, 0);
    else if (outputs[i + 1]) copy_bytes(l, *outputs[i + 1], carried[i].now, l.graph.type(body.params[i]));
}

}  // namespace

void lower_control(Lowerer& l, const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = l.graph.node(v);
  if (node.op == Op::Measure) {
    std::vector<graph::SymbolId> symbol;
    node.dim().collect_symbols(symbol);
    l.program.measured.push_back({symbol[0], node.most()});
    decide(l, FlowStep::SetSymbol, node.inputs[0], static_cast<uint32_t>(symbol[0]));
    return;
  }
  if (node.op == Op::Expect) {
    decide(l, FlowStep::Expect, node.inputs[0], node.location);
    return;
  }
  const Group& group = (*l.groups)[part.group];
  std::vector<std::optional<BufferIndex>> outputs(node.blocks[0]->results.size());
  const std::size_t first = node.op == Op::Loop ? 1 : 0;
  graph::for_each_node(l.graph, l.graph.body(), [&](ValueId output) {
    const Node& n = l.graph.node(output);
    if (n.op != Op::Output || n.inputs[0] != v) return;
    const std::size_t i = first + static_cast<std::size_t>(n.index());
    if (may_follow(l, node, i, output)) {
      l.buffers[output] = append_buffer(l, BufferKind::Pointer, 0);
      l.follows.insert(l.buffers[output]);
    }
    outputs[i] = l.buffer_of(output);
  });
  if (node.op == Op::Loop) return lower_loop(l, node, group, outputs);
  const uint32_t skip = decide(l, FlowStep::BranchIfFalse, node.inputs[0]);
  lower_side(l, *node.blocks[0], group.blocks[0], outputs);
  const uint32_t end = here(l);
  flow(l, FlowStep::Jump);
  land(l, skip);
  lower_side(l, *node.blocks[1], group.blocks[1], outputs);
  land(l, end);
}

}  // namespace framejit::codegen::detail
