// What loops compute with fewer roundings or checks at O1 than Python and NumPy: docs/o1.md has the error bounds.
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

namespace {

bool is_float(const Node& n) { return n.type == Type::F64 || n.type == Type::F32; }

/// Which values depend on a float that rounds of their innermost loop hand on to the next one.
class Carried {
 public:
  Carried(const Cfg& cfg, const Shape& shape)
      : cfg_(cfg), shape_(shape), block_of_(cfg.nodes.size(), kNone), carried_(cfg.nodes.size()) {
    for (const uint32_t b : shape.order) {
      for (const Id p : cfg.blocks[b].params) block_of_[p] = b;
      for (const Id id : cfg.blocks[b].nodes) {
        block_of_[id] = b;
        if (cfg.at(id).op == Op::Store) stores_[{shape.loop[b], cfg.at(id).args[0]}].push_back(id);
      }
    }
    for (const uint32_t b : shape.order) find_in(b);
  }

  bool operator[](Id v) const { return carried_[v]; }
  uint32_t block_of(Id v) const { return block_of_[v]; }

 private:
  void find_in(uint32_t b) {
    const Block& block = cfg_.blocks[b];
    // What an outer loop hands on does not change in this one.
    const auto is_carried = [&](Id v) { return carried_[v] && shape_.depth[block_of_[v]] >= shape_.depth[b]; };
    if (shape_.loop[b] == b)
      for (const Id p : block.params) carried_[p] = is_float(cfg_.at(p));
    for (const Id id : block.nodes) {
      const Node& n = cfg_.at(id);
      if (n.op == Op::Load) carried_[id] = is_float(n) && may_be_stored(n, shape_.loop[b]);
      else
        carried_[id] =
            std::any_of(std::begin(n.args), std::end(n.args), [&](Id a) { return a != kNone && is_carried(a); });
    }
    for (int k = 0; k < block.successors(); ++k) {
      const Edge& e = block.to[k];
      if (shape_.loop[e.block] == e.block) continue;
      for (std::size_t i = 0; i < e.args.size(); ++i)
        if (is_carried(e.args[i])) carried_[cfg_.blocks[e.block].params[i]] = true;
    }
  }

  /// May an earlier round of the loop have stored what this one loads?
  bool may_be_stored(const Node& load, uint32_t loop) const {
    constexpr std::size_t kMost = 16;  // more are not looked at one by one
    const auto found = stores_.find({loop, load.args[0]});
    if (loop == kNone || found == stores_.end()) return false;
    const Id index = load.args[1];
    const bool moves = index != kNone && shape_.loop[block_of_[index]] == loop;
    return !moves || found->second.size() > kMost ||
           !std::all_of(found->second.begin(), found->second.end(),
                        [&](Id store) { return is_same_place(cfg_.at(store), load); });
  }

  const Cfg& cfg_;
  const Shape& shape_;
  std::vector<uint32_t> block_of_;
  std::vector<bool> carried_;
  std::map<std::pair<uint32_t, Id>, std::vector<Id>> stores_;  // by loop and base of the address
};

struct Uses {
  // By value: how many nodes compute with it. Variables have values for exits, which seldom take them.
  std::vector<uint32_t> count;
  std::vector<bool> checked;  // is there a check that it is finite?
};

Uses uses_of(const Cfg& cfg, const Shape& shape) {
  Uses uses{std::vector<uint32_t>(cfg.nodes.size()), std::vector<bool>(cfg.nodes.size())};
  for (const uint32_t b : shape.order)
    for (const Id id : cfg.blocks[b].nodes) {
      const Node& n = cfg.at(id);
      if (n.op == Op::CheckFinite) uses.checked[n.args[0]] = true;
      else
        for (const Id a : n.args)
          if (a != kNone) ++uses.count[a];
    }
  return uses;
}

}  // namespace

void fuse_products(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  const Carried carried(cfg, shape);
  const Uses uses = uses_of(cfg, shape);
  std::vector<bool> fused(cfg.nodes.size());
  const auto is_product = [&](Id v) { return cfg.at(v).op == Op::Mul && !cfg.is_param[v]; };
  for (const uint32_t b : shape.order)
    for (const Id id : cfg.blocks[b].nodes) {
      Node& n = cfg.nodes[id];
      if (!is_float(n) || (n.op != Op::Add && n.op != Op::Sub)) continue;
      for (const int k : {0, 1}) {
        const Id product = n.args[k], other = n.args[1 - k];
        if (!is_product(product) || uses.count[product] != 1 || carried.block_of(product) != b) continue;
        if (uses.checked[product] && !uses.checked[id]) continue;
        if (cfg.is_const(other) && cfg.at(other).imm == 0) continue;
        // A sum that a product is added to in each round waits for the sum before, and not for the product. Two
        // products that the round waits for are computed at once.
        if (carried[other] && (!carried[product] || is_product(other))) continue;
        const Node factors = cfg.at(product);
        n.op = n.op == Op::Add ? Op::MulAdd : k == 0 ? Op::MulSub : Op::SubMul;
        n.args[0] = factors.args[0];
        n.args[1] = factors.args[1];
        n.args[2] = other;
        fused[product] = true;
        break;
      }
    }
  // A product that is not finite makes a sum that is not finite either.
  for (Block& block : cfg.blocks)
    std::erase_if(block.nodes, [&](Id id) { return cfg.at(id).op == Op::CheckFinite && fused[cfg.at(id).args[0]]; });
}

void drop_powers(Cfg& cfg) {
  for (Block& block : cfg.blocks) {
    std::vector<Id> nodes;
    for (const Id id : block.nodes) {
      const Node call = cfg.at(id);
      const double exponent = calls_quick_power(cfg, call) ? std::bit_cast<double>(cfg.at(call.args[1]).imm) : 3;
      if (exponent != 3) {
        const Id x = call.args[0];
        const auto add = [&](Op op, Type type, Id a, Id b = kNone, Id c = kNone) {
          Node n;
          n.op = op;
          n.type = type;
          n.args[0] = a;
          n.args[1] = b;
          n.args[2] = c;
          nodes.push_back(cfg.add(n));
          return nodes.back();
        };
        const auto constant = [&](double value) {
          Node n;
          n.type = Type::F64;
          n.imm = std::bit_cast<int64_t>(value);
          nodes.push_back(cfg.add(n));
          return nodes.back();
        };
        Node made;
        made.type = Type::F64;
        if (exponent == 2) {
          made.op = Op::Mul;
          made.args[0] = made.args[1] = x;
        } else {
          // Unlike roots, powers of -0 and of -inf have no sign.
          const double infinity = std::numeric_limits<double>::infinity();
          made.op = Op::Select;
          made.args[0] = add(Op::Eq, Type::I64, x, constant(-infinity));
          made.args[1] = constant(infinity);
          made.args[2] = add(Op::Sqrt, Type::F64, add(Op::Add, Type::F64, x, constant(0)));
        }
        cfg.nodes[id] = made;
      }
      nodes.push_back(id);
    }
    block.nodes = std::move(nodes);
  }
}

}  // namespace framejit::cfg
