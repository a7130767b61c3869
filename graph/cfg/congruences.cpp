// Numbers that rounds draw from one another: a * x + b, of which the low bits are kept.
//
// A round that draws several makes each of them wait for the one before. The last one follows from what the round got
// as well, as sums and products of low bits need the low bits only:
//
//     x = (a * x + b) % 2**k                       x = (a * s + b) % 2**k
//     y = (a * x + b) % 2**k    next: y    ->      y = (a * a * s + (a * b + b)) % 2**k      s: what the round got
//
// The next round waits for one product instead of two.
#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

namespace {

/// factor * x + summand, in the low bits.
struct Affine {
  uint64_t factor, summand;
  int masks;  // how many times low bits were taken on the way
};

/// How a value is made of another one, as far as the bits of a mask go.
std::optional<Affine> affine(const Cfg& cfg, Id v, Id of, uint64_t mask, int depth = 0) {
  constexpr int kDeepest = 64;
  if (v == of) return Affine{1, 0, 0};
  if (cfg.is_param[v] || depth > kDeepest) return std::nullopt;
  const Node& n = cfg.at(v);
  if (n.lanes > 1 || n.type != Type::I64) return std::nullopt;
  if (n.op != Op::Add && n.op != Op::Sub && n.op != Op::Mul && n.op != Op::And) return std::nullopt;
  const std::optional<int64_t> known = number(cfg, n.args[1]);
  if (!known) return std::nullopt;
  const auto by = static_cast<uint64_t>(*known);
  if (n.op == Op::And && (by & mask) != mask) return std::nullopt;
  std::optional<Affine> out = affine(cfg, n.args[0], of, mask, depth + 1);
  if (!out) return std::nullopt;
  switch (n.op) {
    case Op::Add: out->summand += by; break;
    case Op::Sub: out->summand -= by; break;
    case Op::And: ++out->masks; break;
    default:
      out->factor *= by;
      out->summand *= by;
      break;
  }
  return out;
}

}  // namespace

bool compose_congruences(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  bool changed = false;
  for (const uint32_t head : shape.order) {
    if (shape.loop[head] != head) continue;
    for (const uint32_t from : shape.before[head]) {
      if (shape.loop[from] != head) continue;
      for (int k = 0; k < cfg.blocks[from].successors(); ++k) {
        if (cfg.blocks[from].to[k].block != head) continue;
        for (std::size_t i = 0; i < cfg.blocks[head].params.size(); ++i) {
          const Id param = cfg.blocks[head].params[i], next = cfg.blocks[from].to[k].args[i];
          if (cfg.is_param[next] || cfg.at(next).op != Op::And) continue;
          const auto mask = static_cast<uint64_t>(number(cfg, cfg.at(next).args[1]).value_or(0));
          if (!std::has_single_bit(mask + 1) || mask == 0) continue;
          const std::optional<Affine> made = affine(cfg, next, param, mask);
          if (!made || made->masks < 2) continue;
          for (Block& block : cfg.blocks) {
            const auto at = std::ranges::find(block.nodes, next);
            if (at == block.nodes.end()) continue;
            std::vector<Id> added;
            const auto add = [&](Op op, Id a, uint64_t by) {
              Node constant, n;
              constant.type = n.type = Type::I64;
              constant.imm = static_cast<int64_t>(by & mask);
              n.op = op;
              n.args[0] = a;
              n.args[1] = cfg.add(constant);
              added.insert(added.end(), {n.args[1], cfg.add(n)});
              return added.back();
            };
            const Id sum = add(Op::Add, add(Op::Mul, param, made->factor), made->summand);
            cfg.nodes[next].args[0] = sum;
            block.nodes.insert(at, added.begin(), added.end());
            changed = true;
            break;
          }
        }
      }
    }
  }
  return changed;
}

}  // namespace framejit::cfg
