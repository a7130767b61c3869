// Branches that only decide between values.
#include <optional>

#include "graph/cfg/edit.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostNodes = 3, kMostChoices = 2;

bool is_cheap(const Cfg& cfg, Id id) {
  const Node& n = cfg.at(id);
  switch (n.op) {
    case Op::Const:
    case Op::Add:
    case Op::Sub:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Shl:
    case Op::Shr:
    case Op::Neg:
    case Op::Extend: return n.type == Type::I64;
    default: return false;
  }
}

}  // namespace

void choose_values(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> carried(cfg.nodes.size(), false);
  for (uint32_t b : shape.order)
    if (shape.loop[b] == b)
      for (Id p : cfg.blocks[b].params) carried[p] = true;
  // Inner choices first: they leave blocks that outer ones can take.
  for (auto at = shape.order.rbegin(); at != shape.order.rend(); ++at) {
    const uint32_t b = *at;
    if (shape.depth[b] == 0 || cfg.blocks[b].end != Block::End::Branch) continue;
    const auto leads = [&](int k) -> const Edge* {  // through a block of cheap operations
      const uint32_t to = cfg.blocks[b].to[k].block;
      const Block& arm = cfg.blocks[to];
      if (shape.before[to].size() != 1 || arm.end != Block::End::Jump || arm.nodes.size() > kMostNodes ||
          !arm.params.empty() || shape.depth[to] != shape.depth[b])
        return nullptr;
      for (Id id : arm.nodes)
        if (!is_cheap(cfg, id)) return nullptr;
      return &arm.to[0];
    };
    const Edge *yes = &cfg.blocks[b].to[0], *no = &cfg.blocks[b].to[1];
    const Edge *far_yes = leads(0), *far_no = leads(1);
    bool through[2] = {false, false};
    if (far_yes && far_yes->block == no->block) through[0] = true;
    else if (far_no && far_no->block == yes->block) through[1] = true;
    else if (far_yes && far_no && far_yes->block == far_no->block) through[0] = through[1] = true;
    else continue;
    const Edge a = through[0] ? *far_yes : *yes, c = through[1] ? *far_no : *no;
    const Id condition = cfg.blocks[b].condition;
    const bool compares = !cfg.is_param[condition] && is_comparison(cfg.at(condition).op);
    const Type compared = compares ? cfg.at(cfg.at(condition).args[0]).type : Type::I64;
    const bool ordered = compares && (cfg.at(condition).op == Op::Lt || cfg.at(condition).op == Op::Le);
    std::size_t choices = 0;
    bool good = a.block != b;
    for (std::size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i] == c.args[i]) continue;
      ++choices;
      const Type type = cfg.at(a.args[i]).type;
      // A float that waits for the one of the round before waits longer than for a branch that is foreseen.
      if (type == Type::I64) good = good && (compared == Type::I64 || ordered);
      else good = good && compared == type && !carried[a.args[i]] && !carried[c.args[i]];
    }
    if (!good || choices == 0 || choices > kMostChoices) continue;
    Edge on;
    on.block = a.block;
    for (const int k : {0, 1}) {
      if (!through[k]) continue;
      std::vector<Id>& from = cfg.blocks[cfg.blocks[b].to[k].block].nodes;
      cfg.blocks[b].nodes.insert(cfg.blocks[b].nodes.end(), from.begin(), from.end());
      from.clear();
    }
    for (std::size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i] == c.args[i]) {
        on.args.push_back(a.args[i]);
        continue;
      }
      Node n;
      n.op = Op::Select;
      n.type = cfg.at(a.args[i]).type;
      n.args[0] = condition;
      n.args[1] = a.args[i];
      n.args[2] = c.args[i];
      on.args.push_back(cfg.add(n));
      carried.push_back(false);
      cfg.blocks[b].nodes.push_back(on.args.back());
    }
    Block& block = cfg.blocks[b];
    block.end = Block::End::Jump;
    block.condition = kNone;
    block.to[0] = std::move(on);
    block.to[1] = Edge{};
  }
  drop_unreached(cfg);
}

}  // namespace framejit::cfg
