// Blocks of rounds that are done at once are built.
#include "graph/cfg/rounds.h"

#include <algorithm>

namespace framejit::cfg {

uint32_t Rounds::block(uint32_t level) {
  cfg_.blocks.emplace_back();
  cfg_.blocks.back().level = level;
  return static_cast<uint32_t>(cfg_.blocks.size() - 1);
}

Id Rounds::add(Node n) {
  const Id id = cfg_.add(n);
  cfg_.blocks[at_].nodes.push_back(id);
  return id;
}

Id Rounds::make(Op op, Id a, Id b) {
  Node n;
  n.op = op;
  n.type = Type::I64;
  n.args[0] = a;
  n.args[1] = b;
  return add(n);
}

Id Rounds::constant(int64_t value) {
  Node n;
  n.type = Type::I64;
  n.imm = value;
  return add(n);
}

void Rounds::branch(Id condition, Edge yes, Edge no) {
  Block& b = cfg_.blocks[at_];
  b.end = Block::End::Branch;
  b.condition = condition;
  b.to[0] = std::move(yes);
  b.to[1] = std::move(no);
}

void Rounds::jump(Edge to) {
  Block& b = cfg_.blocks[at_];
  b.end = Block::End::Jump;
  b.to[0] = std::move(to);
}

void Rounds::require(Id condition, bool truth, Edge other) {
  const uint32_t next = block(cfg_.blocks[at_].level);
  Edge on{next, {}};
  if (truth) branch(condition, std::move(on), std::move(other));
  else branch(condition, std::move(other), std::move(on));
  at_ = next;
}

std::vector<Id> Rounds::begin(uint32_t b) {
  at_ = b;
  std::vector<Id> state;
  for (const Id p : std::vector<Id>(cfg_.blocks[head_].params)) state.push_back(cfg_.add_param_for(b, p));
  return state;
}

Id Rounds::scalar(Id v) {
  if (v == kNone || !is_inside(v)) return v;
  if (const auto at = scalars_.find(v); at != scalars_.end()) return at->second;
  Node n = cfg_.at(v);
  for (Id& a : n.args) a = scalar(a);
  return scalars_[v] = add(n);
}

Id Rounds::left(const std::vector<Id>& state) {
  enter(state);
  const Id now = scalar(count_), end = scalar(end_);
  return step_ > 0 ? make(Op::Sub, end, now) : make(Op::Sub, now, end);
}

Id Rounds::address(const Access& a) {
  Id out = scalar(a.node.args[0]);
  if (a.node.args[1] != kNone) {
    Id index = scalar(a.node.args[1]);
    if (a.node.scale != 1) index = make(Op::Mul, index, constant(a.node.scale));
    out = make(Op::Add, out, index);
  }
  return a.node.imm == 0 ? out : make(Op::Add, out, constant(a.node.imm));
}

Rounds::Span Rounds::span(const Access& a, Id more) {
  const Id first = address(a), size = constant(size_of(a.node.mem));
  if (a.stride == 0) return {first, size};
  const Id way = make(Op::Mul, more, constant(a.stride > 0 ? a.stride : -a.stride));
  return {a.stride > 0 ? first : make(Op::Sub, first, way), make(Op::Add, way, size)};
}

Id Rounds::meet(const Span& a, const Span& b) {
  // From the first place of b that reaches a on, up to the last one.
  const Id before = make(Op::Add, b.bytes, constant(-1));
  return make(Op::Below, make(Op::Add, make(Op::Sub, b.first, a.first), before), make(Op::Add, a.bytes, before));
}

bool Rounds::is_used_outside() const {
  const std::vector<uint32_t> members = blocks_of_loop(cfg_, shape_, head_);
  std::vector<bool> is_member(cfg_.blocks.size()), is_value(cfg_.nodes.size());
  for (const uint32_t b : members) {
    is_member[b] = true;
    for (const Id v : cfg_.blocks[b].params) is_value[v] = true;
    for (const Id v : cfg_.blocks[b].nodes) is_value[v] = true;
  }
  const auto uses = [&](Id v) { return v != kNone && is_value[v]; };
  const auto any = [&](const auto& values) { return std::any_of(std::begin(values), std::end(values), uses); };
  const auto exits = [&](uint32_t exit) { return exit != kNone && any(cfg_.exits[exit].values); };
  for (uint32_t b = 0; b < cfg_.blocks.size(); ++b) {
    const Block& block = cfg_.blocks[b];
    if (is_member[b]) continue;
    if (block.end == Block::End::Branch && uses(block.condition)) return true;
    if (block.end == Block::End::Leave && exits(block.exit)) return true;
    for (int k = 0; k < block.successors(); ++k)
      if (any(block.to[k].args)) return true;
    for (const Id id : block.nodes) {
      const Node& n = cfg_.at(id);
      if (any(n.args) || uses(n.count) || uses(n.where) || exits(n.exit)) return true;
    }
  }
  return false;
}

}  // namespace framejit::cfg
