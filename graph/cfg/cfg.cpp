// Text, invariants and shape of control-flow graphs.
#include "graph/cfg/cfg.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <utility>

namespace framejit::cfg {

namespace {

constexpr OpInfo kOps[] = {
#define FRAMEJIT_CFG_INFO(name, text, operands, effect) {text, operands, Effect::effect},
    FRAMEJIT_CFG_OPS(FRAMEJIT_CFG_INFO)
#undef FRAMEJIT_CFG_INFO
};

constexpr const char* kTypes[] = {"", "i64", "f64", "f32"};
constexpr const char* kMems[] = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "f32", "f64"};

std::string name_of(Id id) { return id == kNone ? "-" : "%" + std::to_string(id); }

std::string type_text(const Node& n) {
  return kTypes[static_cast<int>(n.type)] + (n.lanes > 1 ? "x" + std::to_string(n.lanes) : std::string());
}

std::string text_of(const Cfg& cfg, Id id) {
  const Node& n = cfg.at(id);
  std::string out = n.type == Type::None ? "" : name_of(id) + ": " + type_text(n) + " = ";
  out += info(n.op).text;
  if (n.op == Op::Load || n.op == Op::Store || n.op == Op::Extend)
    out += std::string(".") + kMems[static_cast<int>(n.mem)];
  if (n.op == Op::Store && n.lanes > 1) out += "x" + std::to_string(n.lanes);
  if (n.function) out += std::string(" ") + n.function->name;
  if (n.op == Op::Const && n.type == Type::F64) {
    char text[40];
    std::snprintf(text, sizeof text, " %.17g", std::bit_cast<double>(n.imm));
    out += text;
  } else if (info(n.op).operands == 0 && n.op != Op::Poll && n.op != Op::Waits) {
    out += " " + std::to_string(n.imm);
  }
  for (Id a : n.args)
    if (a != kNone) out += " " + name_of(a);
  if (n.op == Op::Load || n.op == Op::Store) {
    if (n.args[1] != kNone) out += " *" + std::to_string(n.scale);
    if (n.imm != 0) out += " +" + std::to_string(n.imm);
  }
  if (n.count != kNone) out += (n.from_last ? " last " : " first ") + name_of(n.count);
  if (n.where != kNone) out += " where " + name_of(n.where);
  if (n.of_natural) out += " natural";
  if (n.op == Op::CheckFinite && n.imm != 0) out += " raises";
  if (n.exit != kNone) out += " else exit" + std::to_string(n.exit);
  return out;
}

/// Vectors have the lanes of their operands; what takes or gives numbers says so here.
bool lanes_fit(const Cfg& cfg, const Node& n) {
  const auto lanes = [&](Id v) { return v == kNone ? 1 : static_cast<int>(cfg.at(v).lanes); };
  const int a = lanes(n.args[0]), b = lanes(n.args[1]), c = lanes(n.args[2]);
  if (lanes(n.count) > 1 || (n.where != kNone && lanes(n.where) != n.lanes)) return false;
  switch (n.op) {
    case Op::Load: return a == 1 && (b == 1 || b == n.lanes);
    case Op::Store: return a == 1 && (b == 1 || b == n.lanes) && c == n.lanes;
    case Op::Splat: return a == 1 && n.lanes > 1;
    case Op::Ramp: return a == 1 && b == 1 && n.lanes > 1;
    case Op::Finite: return n.lanes == 1;
    case Op::AllOf:
    case Op::SumOf: return a > 1 && n.lanes == 1;
    case Op::AddLanes:
    case Op::Lane: return a > 1 && b == 1 && n.lanes == 1;
    default:
      for (Id v : n.args)
        if (v != kNone && lanes(v) != n.lanes) return false;
      return true;
  }
}

std::string text_of(const Edge& e) {
  std::string out = "block" + std::to_string(e.block) + "(";
  for (std::size_t i = 0; i < e.args.size(); ++i) out += (i ? ", " : "") + name_of(e.args[i]);
  return out + ")";
}

}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<int>(op)]; }

int size_of(Mem mem) {
  constexpr int kSizes[] = {1, 1, 2, 2, 4, 4, 8, 4, 8};
  return kSizes[static_cast<int>(mem)];
}

Type type_of(Mem mem) { return mem == Mem::F64 ? Type::F64 : mem == Mem::F32 ? Type::F32 : Type::I64; }

bool calls_in_lanes(const Cfg& cfg, const Node& n) {
  return calls_quick_power(cfg, n) ||
         (n.op == Op::Call && n.function->in_lanes && n.function->operands == 2 && cfg.is_const(n.args[0]));
}

bool calls_quick_power(const Cfg& cfg, const Node& n) {
  if (n.op != Op::Call || !n.function->is_power) return false;
  const Node& by = cfg.at(n.args[1]);
  const Id number = by.op == Op::Splat ? by.args[0] : n.args[1];
  const auto exponent = std::bit_cast<double>(cfg.at(number).imm);
  return cfg.is_const(number) && (exponent == 2 || exponent == 3 || exponent == 0.5);
}

bool is_power_fused() {
  // Roots that glibc rounds another way with fused operations than without; it has both.
  static const bool fused = [] {
    constexpr std::pair<double, double> kFused[] = {
        {0x1.2ef9b3bf3f136p+1, 0x1.89db69feb00b5p+0}, {0x1.2efde3d930f7dp+1, 0x1.89de22d4fdfa1p+0},
        {0x1.3582ba47e8e46p+1, 0x1.8e150c7d07ee7p+0}, {0x1.1bf3993088598p+0, 0x1.0d9d21a9816f3p+0},
        {0x1.2eb9b5dd51fd4p+1, 0x1.89b1cfdea0ae1p+0}, {0x1.7c01d2c08f7ccp+1, 0x1.b917fc4d27069p+0}};
    volatile double half = 0.5;
    return std::all_of(std::begin(kFused), std::end(kFused),
                       [&](const auto& root) { return std::pow(root.first, half) == root.second; });
  }();
  return fused;
}

Id Cfg::add_param(uint32_t block, Type type, uint8_t lanes) {
  Node n;
  n.type = type;
  n.lanes = lanes;
  const Id id = add(n);
  is_param[id] = true;
  blocks[block].params.push_back(id);
  return id;
}

Id Cfg::add_param_for(uint32_t block, Id value) {
  const bool natural = is_param[value] && nodes[value].natural;
  const Id id = add_param(block, nodes[value].type, nodes[value].lanes);
  nodes[id].natural = natural;
  return id;
}

std::string print(const Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::string out;
  for (uint32_t b : shape.order) {
    const Block& block = cfg.blocks[b];
    out += "block" + std::to_string(b) + "(";
    for (std::size_t i = 0; i < block.params.size(); ++i)
      out += (i ? ", " : "") + name_of(block.params[i]) + ": " + type_text(cfg.at(block.params[i]));
    out += "):";
    if (shape.depth[b] > 0) out += "  # loop depth " + std::to_string(shape.depth[b]);
    out += "\n";
    for (Id id : block.nodes) out += "  " + text_of(cfg, id) + "\n";
    if (block.end == Block::End::Jump) out += "  jump " + text_of(block.to[0]) + "\n";
    if (block.end == Block::End::Branch)
      out += "  branch " + name_of(block.condition) + " " + text_of(block.to[0]) + " " + text_of(block.to[1]) + "\n";
    if (block.end == Block::End::Leave) out += "  leave exit" + std::to_string(block.exit) + "\n";
  }
  for (std::size_t i = 0; i < cfg.exits.size(); ++i) {
    out += "exit" + std::to_string(i);
    if (cfg.exits[i].number != kNone) out += " as exit" + std::to_string(cfg.exits[i].number);
    out += ":";
    for (Id v : cfg.exits[i].values) out += " " + name_of(v);
    out += "\n";
  }
  return out;
}

Shape shape_of(const Cfg& cfg) {
  Shape s;
  const std::size_t count = cfg.blocks.size();
  s.dominator.assign(count, kNone);
  s.depth.assign(count, 0);
  s.loop.assign(count, kNone);
  s.enters.assign(count, 0);
  s.leaves.assign(count, 0);
  s.before.first.assign(count + 1, 0);
  // Postorder without recursion.
  std::vector<uint8_t> seen(count, 0);
  std::vector<std::pair<uint32_t, int>> stack;
  if (count == 0) return s;
  stack.emplace_back(0, 0);
  seen[0] = 1;
  while (!stack.empty()) {
    auto& [b, next] = stack.back();
    const Block& block = cfg.blocks[b];
    if (next < block.successors()) {
      const uint32_t to = block.to[next++].block;
      if (!seen[to]) {
        seen[to] = 1;
        stack.emplace_back(to, 0);
      }
      continue;
    }
    s.order.push_back(b);
    stack.pop_back();
  }
  std::reverse(s.order.begin(), s.order.end());
  std::vector<uint32_t> rank(count, kNone);
  for (uint32_t i = 0; i < s.order.size(); ++i) rank[s.order[i]] = i;
  const auto each_edge = [&](auto&& visit) {
    for (uint32_t b : s.order)
      for (int k = 0; k < cfg.blocks[b].successors(); ++k) visit(b, cfg.blocks[b].to[k].block);
  };
  std::vector<uint32_t>& first = s.before.first;
  each_edge([&](uint32_t, uint32_t to) { ++first[to + 1]; });
  std::partial_sum(first.begin(), first.end(), first.begin());
  s.before.all.resize(first[count]);
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  each_edge([&](uint32_t from, uint32_t to) { s.before.all[next[to]++] = from; });
  s.dominator[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t b : s.order) {
      if (b == 0) continue;
      uint32_t common = kNone;
      for (uint32_t p : s.before[b]) {
        if (s.dominator[p] == kNone) continue;
        if (common == kNone) {
          common = p;
          continue;
        }
        uint32_t other = p;
        while (common != other) {
          while (rank[common] > rank[other]) common = s.dominator[common];
          while (rank[other] > rank[common]) other = s.dominator[other];
        }
      }
      if (s.dominator[b] != common) {
        s.dominator[b] = common;
        changed = true;
      }
    }
  }
  // A dominator stands before what it dominates in the order.
  std::vector<uint32_t> size(count, 1);
  for (std::size_t i = s.order.size(); i-- > 1;) size[s.dominator[s.order[i]]] += size[s.order[i]];
  std::vector<uint32_t>& place = next;  // for what a block dominates and what is numbered next
  for (uint32_t b : s.order) {
    s.enters[b] = b == 0 ? 1 : place[s.dominator[b]];
    place[b] = s.enters[b] + 1;
    s.leaves[b] = s.enters[b] + size[b];
    if (b != 0) place[s.dominator[b]] = s.leaves[b];
  }
  for (uint32_t b : s.order)
    for (uint32_t p : s.before[b]) s.goes_round = s.goes_round || rank[p] >= rank[b];
  // Natural loops, outer heads first: the innermost one is written last.
  std::vector<uint32_t> open;
  for (uint32_t head : s.order) {
    for (uint32_t p : s.before[head])
      if (s.dominates(head, p)) open.push_back(p);
    if (open.empty()) continue;
    s.has_loop = true;
    const auto add = [&](uint32_t b) {
      s.loop[b] = head;
      ++s.depth[b];
    };
    add(head);
    while (!open.empty()) {
      const uint32_t b = open.back();
      open.pop_back();
      if (s.loop[b] == head) continue;
      add(b);
      for (uint32_t p : s.before[b]) open.push_back(p);
    }
  }
  return s;
}

namespace {

int operands_of(const Node& n) { return n.function ? n.function->operands : info(n.op).operands; }

}  // namespace

std::string verify(const Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<uint32_t> block_of(cfg.nodes.size(), kNone), place(cfg.nodes.size(), 0);
  for (uint32_t b : shape.order) {
    uint32_t at = 0;
    for (Id p : cfg.blocks[b].params) block_of[p] = b;
    for (Id n : cfg.blocks[b].nodes) {
      if (block_of[n] != kNone) return name_of(n) + " stands twice";
      block_of[n] = b;
      place[n] = ++at;
    }
  }
  std::string wrong;
  const auto used = [&](Id v, uint32_t b, uint32_t at, const std::string& where) {
    if (!wrong.empty() || v == kNone) return;
    if (v >= cfg.nodes.size() || block_of[v] == kNone) wrong = where + " uses " + name_of(v) + ", which is nowhere";
    else if (block_of[v] == b ? place[v] >= at && !cfg.is_param[v] : !shape.dominates(block_of[v], b))
      wrong = where + " uses " + name_of(v) + " where it is not defined";
  };
  const auto leaves = [&](uint32_t exit, uint32_t b, uint32_t at, const std::string& where) {
    if (exit >= cfg.exits.size()) wrong = where + " has no exit";
    else
      for (Id v : cfg.exits[exit].values) {
        used(v, b, at, where + " by its exit");
        if (wrong.empty() && cfg.at(v).lanes > 1) wrong = where + " lists a vector";
      }
  };
  for (uint32_t b : shape.order) {
    const Block& block = cfg.blocks[b];
    const auto end = static_cast<uint32_t>(block.nodes.size() + 1);
    for (Id id : block.nodes) {
      const Node& n = cfg.at(id);
      for (int i = 0; wrong.empty() && i < operands_of(n); ++i)
        if (n.args[i] == kNone && !(i == 1 && (n.op == Op::Load || n.op == Op::Store)))
          wrong = name_of(id) + " lacks an operand";
      for (Id a : n.args) used(a, b, place[id], name_of(id));
      for (Id a : {n.count, n.where}) used(a, b, place[id], name_of(id));
      if (wrong.empty() && !lanes_fit(cfg, n)) return name_of(id) + " has operands of other lanes";
      if (info(n.op).effect == Effect::Checks) leaves(n.exit, b, place[id], name_of(id));
    }
    const std::string where = "the end of block" + std::to_string(b);
    if (block.end == Block::End::Open) return where + " is open";
    if (block.end == Block::End::Branch && block.condition == kNone) return where + " has no condition";
    if (block.end == Block::End::Branch) used(block.condition, b, end, where);
    if (block.end == Block::End::Leave) leaves(block.exit, b, end, where);
    for (int k = 0; k < block.successors(); ++k) {
      const Block& to = cfg.blocks[block.to[k].block];
      if (block.to[k].block == 0) return where + " leads to the entry";
      if (to.params.size() != block.to[k].args.size()) return where + " passes another number of arguments";
      for (std::size_t i = 0; i < to.params.size(); ++i) {
        used(block.to[k].args[i], b, end, where);
        const Node &param = cfg.at(to.params[i]), &given = cfg.at(block.to[k].args[i]);
        if (wrong.empty() && (param.type != given.type || param.lanes != given.lanes))
          return where + " passes " + name_of(block.to[k].args[i]) + " of another type";
      }
    }
    if (!wrong.empty()) return wrong;
  }
  return wrong;
}

}  // namespace framejit::cfg
