// Control flow: steps that jump, and the steps of blocks between them, whose results lie, or are pointed at, where the
// outputs are.
#include <algorithm>

#include "codegen/lowerer.h"

namespace framejit::codegen::detail {

FlowStep& Lowerer::flow(FlowStep::Kind kind) {
  program_.steps.emplace_back(FlowStep{});
  auto& step = std::get<FlowStep>(program_.steps.back());
  step.kind = kind;
  return step;
}

uint32_t Lowerer::decide(FlowStep::Kind kind, ValueId condition, uint32_t target) {
  const BufferIndex a = address_of(condition);
  FlowStep& step = flow(kind);
  step.a = a;
  step.offset = graph_.type(condition).offset;
  step.target = target;
  return here() - 1;
}

BufferIndex Lowerer::append_buffer(BufferKind kind, Dim bytes) {
  Buffer b{};
  b.kind = kind;
  b.bytes = std::move(bytes);
  program_.buffers.push_back(std::move(b));
  return static_cast<BufferIndex>(program_.buffers.size() - 1);
}

BufferIndex Lowerer::address_of(ValueId v) {
  const graph::Op op = graph_.node(graph_.root(v)).op;
  if (op != Op::Constant) return buffer_of(graph_.root(v));
  const BufferIndex at = append_buffer(BufferKind::Temp, bytes_of(v));
  copy_to(at, v);
  return at;
}

void Lowerer::copy_to(BufferIndex to, ValueId v) {
  const graph::Type& type = graph_.type(v);
  StepSpec spec;
  spec.shape = type.shape;
  TermBuilder terms(graph_, *this, context_, spec);
  Access out;
  out.buffer = to;
  out.dtype = type.dtype;
  out.strides = type.strides;
  terms.store_at(out, terms.operand(v), false, true);
  program_.steps.emplace_back(build_step(spec, context_));
}

void Lowerer::lower_block(const graph::Block& block, const std::vector<Group>& groups) {
  std::vector<Part> parts = std::exchange(parts_, {});
  std::map<ValueId, std::size_t> readers = std::exchange(last_reader_, {});
  const std::vector<Group>* const around = std::exchange(groups_, &groups);
  cut_groups();
  find_stored();
  for (ValueId v : block.results) last_reader_[graph_.root(v)] = parts_.size();
  ++depth_;
  lower_parts();
  --depth_;
  groups_ = around;
  last_reader_ = std::move(readers);
  parts_ = std::move(parts);
}

bool Lowerer::is_own(const graph::Block& block, ValueId v) const {
  if (graph_.type(v).is_view() || std::count(block.results.begin(), block.results.end(), v) != 1) return false;
  if (result_number_.contains(v) || std::find(block.nodes.begin(), block.nodes.end(), v) == block.nodes.end())
    return false;
  return cls(v) != OpClass::Source || graph_.node(v).op == Op::Output || graph_.node(v).op == Op::Iota ||
         graph_.node(v).op == Op::Full;
}

bool Lowerer::may_follow(const Node& node, std::size_t i, ValueId output) const {
  if (buffers_.contains(output) || result_number_.contains(output) || written_.contains(output)) return false;
  if (node.op == Op::Loop) return i <= node.inputs.size();
  return std::any_of(node.blocks.begin(), node.blocks.end(),
                     [&](const auto& b) { return !is_own(*b, b->results[i]); }) &&
         std::none_of(node.blocks.begin(), node.blocks.end(),
                      [&](const auto& b) { return written_.contains(graph_.root(b->results[i])); });
}

void Lowerer::lower_control(const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = graph_.node(v);
  if (node.op == Op::Measure) {
    std::vector<graph::SymbolId> symbol;
    node.dim().collect_symbols(symbol);
    program_.measured.push_back({symbol[0], node.most()});
    decide(FlowStep::SetSymbol, node.inputs[0], static_cast<uint32_t>(symbol[0]));
    return;
  }
  if (node.op == Op::Expect) {
    decide(FlowStep::Expect, node.inputs[0], node.location);
    return;
  }
  const Group& group = (*groups_)[part.group];
  std::vector<std::optional<BufferIndex>> outputs(node.blocks[0]->results.size());
  const std::size_t first = node.op == Op::Loop ? 1 : 0;
  graph::for_each_node(graph_, graph_.body(), [&](ValueId output) {
    const Node& n = graph_.node(output);
    if (n.op != Op::Output || n.inputs[0] != v) return;
    const std::size_t i = first + static_cast<std::size_t>(n.index());
    if (may_follow(node, i, output)) {
      buffers_[output] = append_buffer(BufferKind::Pointer, 0);
      follows_.insert(buffers_[output]);
    }
    outputs[i] = buffer_of(output);
  });
  if (node.op == Op::Loop) return lower_loop(node, group, outputs);
  const uint32_t skip = decide(FlowStep::BranchIfFalse, node.inputs[0]);
  lower_side(*node.blocks[0], group.blocks[0], outputs);
  const uint32_t end = here();
  flow(FlowStep::Jump);
  land(skip);
  lower_side(*node.blocks[1], group.blocks[1], outputs);
  land(end);
}

void Lowerer::lower_side(const graph::Block& block, const std::vector<Group>& groups,
                         const std::vector<std::optional<BufferIndex>>& outputs) {
  std::vector<bool> placed(outputs.size(), false);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && is_own(block, block.results[i])) {
      placed[i] = !follows_.contains(*outputs[i]);
      if (placed[i]) buffers_[block.results[i]] = *outputs[i];
    }
  lower_block(block, groups);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i] || placed[i]) continue;
    const ValueId v = block.results[i];
    if (follows_.contains(*outputs[i])) move(*outputs[i], address_of(v), graph_.type(v).offset);
    else copy_to(*outputs[i], v);
  }
}

void Lowerer::move(BufferIndex a, BufferIndex b, Dim offset) {
  FlowStep& step = flow(FlowStep::MoveBuffer);
  step.a = a;
  step.b = b;
  step.offset = std::move(offset);
}

void Lowerer::lower_loop(const Node& node, const Group& group, const std::vector<std::optional<BufferIndex>>& outputs) {
  const graph::Block& body = *node.blocks[0];
  struct Carried {
    BufferIndex now, next, spare;
  };
  std::vector<Carried> carried;
  for (std::size_t i = 0; i < body.params.size(); ++i) {
    const BufferIndex from = address_of(node.inputs[i]);
    const Dim bytes = bytes_of(body.params[i]);
    const Carried c{append_buffer(BufferKind::Pointer, 0), append_buffer(BufferKind::Pointer, 0),
                    append_buffer(BufferKind::Pointer, 0)};
    buffers_[body.params[i]] = c.now;
    move(c.now, from, graph_.type(node.inputs[i]).offset);
    for (BufferIndex pointer : {c.next, c.spare}) move(pointer, append_buffer(BufferKind::Temp, bytes), 0);
    carried.push_back(c);
  }
  std::vector<std::optional<BufferIndex>> targets(outputs.size());
  for (std::size_t i = 0; i < carried.size(); ++i) targets[i + 1] = carried[i].next;
  for (std::size_t i = carried.size() + 1; i < outputs.size(); ++i) targets[i] = outputs[i];
  const uint32_t head = here();
  lower_round(body, group.blocks[0], targets);
  // The condition may be one of the carried values, which go round first.
  const BufferIndex condition = address_of(body.results[0]);
  const BufferIndex decides = append_buffer(BufferKind::Pointer, 0);
  move(decides, condition, graph_.type(body.results[0]).offset);
  for (const Carried& c : carried) {
    FlowStep& step = flow(FlowStep::RotateBuffers);
    step.a = c.now;
    step.b = c.next;
    step.c = c.spare;
  }
  FlowStep& again = flow(FlowStep::BranchBack);
  again.a = decides;
  again.target = head;
  for (std::size_t i = 0; i < carried.size(); ++i)
    if (outputs[i + 1] && follows_.contains(*outputs[i + 1])) move(*outputs[i + 1], carried[i].now, 0);
    else if (outputs[i + 1]) copy_bytes(*outputs[i + 1], carried[i].now, graph_.type(body.params[i]));
}

void Lowerer::lower_round(const graph::Block& body, const std::vector<Group>& groups,
                          const std::vector<std::optional<BufferIndex>>& targets) {
  std::vector<bool> placed(targets.size(), false);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && is_own(body, body.results[i])) {
      buffers_[body.results[i]] = *targets[i];
      placed[i] = true;
    }
  lower_block(body, groups);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] && !placed[i]) copy_to(*targets[i], body.results[i]);
}

void Lowerer::copy_bytes(BufferIndex to, BufferIndex from, const graph::Type& type) {
  StepSpec spec;
  spec.shape = type.shape;
  Term load;
  const DType dtype = type.dtype == DType::Bool ? DType::U8 : type.dtype;
  load.kind = Term::kLoad;
  load.dtype = load.operand_dtype = dtype;
  load.access = {from, dtype, 0, type.strides};
  spec.terms.push_back(std::move(load));
  spec.stores.push_back({{to, dtype, 0, type.strides}, 0, false, true});
  program_.steps.emplace_back(build_step(spec, context_));
}

}  // namespace framejit::codegen::detail
