// Values that are not alive at the same time share a register where that saves a move.
#include "graph/cfg/registers.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <unordered_map>

namespace framejit::cfg {

namespace {

class Assignment {
 public:
  Assignment(const Cfg& cfg, const Shape& shape) : cfg_(cfg), shape_(shape) {}

  Registers run() {
    find_places();
    find_exit_nodes();
    find_wanted();
    find_lives();
    join_moves();
    const std::size_t count = cfg_.nodes.size();
    for (Id v = 0; v < count; ++v) {
      out_.home[v] = home(v);
      uint32_t& deepest = out_.depth[out_.home[v]];
      deepest = std::max(deepest, depth_[v]);
    }
    return std::move(out_);
  }

 private:
  using Bits = std::vector<uint64_t>;

  static bool has(const Bits& bits, Id v) { return (bits[v / 64] >> (v % 64)) & 1; }
  static void set(Bits& bits, Id v) { bits[v / 64] |= uint64_t{1} << (v % 64); }

  void find_places() {
    const std::size_t count = cfg_.nodes.size();
    block_.assign(count, kNone);
    place_.assign(count, 0);
    depth_.assign(count, 0);
    out_.home.resize(count);
    members_.resize(count);
    home_.resize(count);
    for (Id i = 0; i < count; ++i) home_[i] = i;
    out_.depth.assign(count, 0);
    for (uint32_t b : shape_.order) {
      uint32_t at = 0;
      for (Id p : cfg_.blocks[b].params) block_[p] = b;
      for (Id n : cfg_.blocks[b].nodes) {
        block_[n] = b;
        place_[n] = ++at;
      }
    }
  }

  bool is_condition(Id id, int operand) const {
    const Op op = cfg_.at(id).op;
    if (operand == 0 && (op == Op::Check || op == Op::Select || op == Op::AllOf)) return true;
    return combines_conditions(cfg_, id) || (operand == 0 && negates_condition(cfg_, id));
  }

  /// Integer arithmetic whose result only exits use, or other such nodes.
  void find_exit_nodes() {
    const std::size_t count = cfg_.nodes.size();
    std::vector<bool> inside(count, false);
    out_.at_exits.assign(count, false);
    for (auto b = shape_.order.rbegin(); b != shape_.order.rend(); ++b) {
      const Block& block = cfg_.blocks[*b];
      if (block.condition != kNone) inside[block.condition] = true;
      for (int k = 0; k < block.successors(); ++k)
        for (Id v : block.to[k].args) inside[v] = true;
    }
    for (auto b = shape_.order.rbegin(); b != shape_.order.rend(); ++b) {
      const std::vector<Id>& nodes = cfg_.blocks[*b].nodes;
      for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
        const Node& n = cfg_.at(*at);
        const bool of_integers =
            n.type == Type::I64 && n.lanes == 1 &&
            (!is_comparison(n.op) || (cfg_.at(n.args[0]).type == Type::I64 && cfg_.at(n.args[0]).lanes == 1));
        const bool simple = of_integers && (n.op == Op::Add || n.op == Op::Sub || n.op == Op::Mul ||
                                            n.op == Op::Select || is_comparison(n.op));
        if (simple && !inside[*at]) {
          out_.at_exits[*at] = true;
          continue;
        }
        for (Id a : n.args)
          if (a != kNone) inside[a] = true;
        for (Id a : {n.count, n.where})
          if (a != kNone) inside[a] = true;
      }
    }
  }

  void find_wanted() {
    out_.wanted.assign(cfg_.nodes.size(), false);
    for (uint32_t b : shape_.order) {
      const Block& block = cfg_.blocks[b];
      for (Id id : block.nodes)
        for (int i = 0; i < Node::kMostOperands; ++i)
          if (const Id a = cfg_.at(id).args[i]; a != kNone && !is_condition(id, i)) out_.wanted[a] = true;
      for (Id id : block.nodes)
        if (const Id c = cfg_.at(id).count; c != kNone) out_.wanted[c] = true;
      for (int k = 0; k < block.successors(); ++k)
        for (Id v : block.to[k].args) out_.wanted[v] = true;
    }
    for (const Exit& e : cfg_.exits)
      for (Id v : e.values) out_.wanted[v] = true;
  }

  template <class F>
  void use(Id v, F&& f) const {
    if (v != kNone && !cfg_.is_const(v)) f(v);
  }

  /// A comparison is made where the condition is needed.
  template <class F>
  void use_condition(Id v, F&& f) const {
    const Node& n = cfg_.at(v);
    if (combines_conditions(cfg_, v)) {
      use_condition(n.args[0], f);
      return use_condition(n.args[1], f);
    }
    if (negates_condition(cfg_, v)) return use_condition(n.args[0], f);
    if (cfg_.is_param[v] || (!is_comparison(n.op) && n.op != Op::Finite && n.op != Op::AllOf)) return use(v, f);
    if (n.op == Op::AllOf) use_condition(n.args[0], f);
    else use(n.args[0], f);
    use(n.args[1], f);
    use(n.count, f);
  }

  /// What an exit needs of the values outside of it.
  template <class F>
  void use_exit(uint32_t exit, F&& f) const {
    std::vector<Id> open = cfg_.exits[exit].values;
    while (!open.empty()) {
      const Id v = open.back();
      open.pop_back();
      if (!out_.at_exits[v]) {
        use(v, f);
        continue;
      }
      for (const Id a : cfg_.at(v).args)
        if (a != kNone) open.push_back(a);
    }
  }

  // A node at place p reads at 2p and writes behind that; its exit reads at 2p + 1.
  template <class F>
  void for_uses(uint32_t b, F&& f) const {
    const Block& block = cfg_.blocks[b];
    for (Id id : block.nodes) {
      if (out_.at_exits[id]) continue;
      const uint32_t at = 2 * place_[id];
      const auto here = [&](Id v) { f(v, at, true); };
      if ((!is_comparison(cfg_.at(id).op) && !combines_conditions(cfg_, id)) || out_.wanted[id])
        for (int i = 0; i < Node::kMostOperands; ++i)
          if (const Id a = cfg_.at(id).args[i]; a != kNone) {
            if (is_condition(id, i)) use_condition(a, here);
            else use(a, here);
          }
      use(cfg_.at(id).count, here);
      if (cfg_.at(id).where != kNone) use_condition(cfg_.at(id).where, here);
      if (cfg_.at(id).exit != kNone) use_exit(cfg_.at(id).exit, [&](Id v) { f(v, at + 1, false); });
    }
    const auto end = static_cast<uint32_t>(2 * block.nodes.size() + 2);
    if (block.end == Block::End::Branch) use_condition(block.condition, [&](Id v) { f(v, end, true); });
    if (block.end == Block::End::Leave) use_exit(block.exit, [&](Id v) { f(v, end, false); });
    for (int k = 0; k < block.successors(); ++k)
      for (Id v : block.to[k].args) use(v, [&](Id u) { f(u, end, true); });
  }

  void find_lives() {
    const std::size_t words = cfg_.nodes.size() / 64 + 1;
    live_out_.assign(cfg_.blocks.size(), {});
    std::vector<Bits> live_in(cfg_.blocks.size());
    last_use_.resize(cfg_.blocks.size());
    for (uint32_t b : shape_.order) {
      live_in[b].assign(words, 0);
      live_out_[b].assign(words, 0);
      for_uses(b, [&](Id v, uint32_t at, bool counts) {
        uint32_t& last = last_use_[b][v];
        last = std::max(last, at);
        // Loops of the program count where they are known: rounds of rare types lie in loops of the graph too.
        const uint32_t level = cfg_.blocks[b].level;
        if (counts) depth_[v] = std::max(depth_[v], level > 0 ? std::min(level, shape_.depth[b]) : shape_.depth[b]);
        if (block_[v] != b) set(live_in[b], v);
      });
    }
    std::vector<Bits> defined(cfg_.blocks.size());
    for (uint32_t b : shape_.order) {
      defined[b].assign(words, 0);
      for (Id v : cfg_.blocks[b].params) set(defined[b], v);
      for (Id v : cfg_.blocks[b].nodes) set(defined[b], v);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (auto at = shape_.order.rbegin(); at != shape_.order.rend(); ++at) {
        const uint32_t b = *at;
        for (int k = 0; k < cfg_.blocks[b].successors(); ++k) {
          const Bits& in = live_in[cfg_.blocks[b].to[k].block];
          for (std::size_t w = 0; w < words; ++w) {
            const uint64_t more = in[w] & ~live_out_[b][w];
            if (!more) continue;
            live_out_[b][w] |= more;
            live_in[b][w] |= more & ~defined[b][w];
            changed = true;
          }
        }
      }
    }
  }

  /// Is `v` needed once `w` has been written?
  bool lives_behind(Id v, Id w) const {
    const uint32_t b = block_[w];
    if (block_[v] == b && place_[v] > place_[w]) return false;
    if (has(live_out_[b], v)) return true;
    const auto last = last_use_[b].find(v);
    return last != last_use_[b].end() && last->second > 2 * place_[w];
  }

  Id home(Id v) {
    while (home_[v] != v) v = home_[v] = home_[home_[v]];
    return v;
  }

  void join(Id a, Id b) {
    if (cfg_.is_const(a) || cfg_.is_const(b) || block_[a] == kNone || block_[b] == kNone) return;
    if (cfg_.at(a).type != cfg_.at(b).type || cfg_.at(a).lanes != cfg_.at(b).lanes || out_.at_exits[a] ||
        out_.at_exits[b])
      return;
    a = home(a);
    b = home(b);
    if (a == b) return;
    for (const Id v : {a, b})
      if (members_[v].empty()) members_[v] = {v};
    constexpr std::size_t kMostPairs = 256;
    if (members_[a].size() * members_[b].size() > kMostPairs) return;
    for (Id v : members_[a])
      for (Id w : members_[b])
        if (lives_behind(v, w) || lives_behind(w, v)) return;
    home_[b] = a;
    members_[a].insert(members_[a].end(), members_[b].begin(), members_[b].end());
  }

  void join_moves() {
    std::vector<std::tuple<uint32_t, uint32_t, int>> edges;  // inner ones first
    for (uint32_t b : shape_.order)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
        edges.emplace_back(std::min(shape_.depth[b], shape_.depth[cfg_.blocks[b].to[k].block]), b, k);
    std::stable_sort(edges.begin(), edges.end(),
                     [](const auto& x, const auto& y) { return std::get<0>(x) > std::get<0>(y); });
    for (const auto& [depth, b, k] : edges) {
      const Edge& e = cfg_.blocks[b].to[k];
      for (std::size_t i = 0; i < e.args.size(); ++i) join(cfg_.blocks[e.block].params[i], e.args[i]);
    }
    // Operations of two operands write into the first one.
    for (uint32_t b : shape_.order)
      for (Id id : cfg_.blocks[b].nodes) {
        const Node& n = cfg_.at(id);
        if (n.type == Type::I64 && n.lanes == 1 && info(n.op).operands == 2 && n.args[0] != kNone && n.op != Op::Load &&
            !is_comparison(n.op))
          join(n.args[0], id);
      }
  }

  const Cfg& cfg_;
  const Shape& shape_;
  Registers out_;
  std::vector<uint32_t> block_, place_, depth_;
  std::vector<Bits> live_out_;
  std::vector<std::unordered_map<Id, uint32_t>> last_use_;  // by block
  std::vector<Id> home_;
  std::vector<std::vector<Id>> members_;
};

}  // namespace

bool combines_conditions(const Cfg& cfg, Id v) {
  const Node& n = cfg.at(v);
  if (n.lanes == 1 || cfg.is_param[v] || (n.op != Op::And && n.op != Op::Or)) return false;
  const auto is_condition = [&](Id a) {
    return !cfg.is_param[a] && (is_comparison(cfg.at(a).op) || combines_conditions(cfg, a));
  };
  return is_condition(n.args[0]) && is_condition(n.args[1]);
}

bool negates_condition(const Cfg& cfg, Id v) {
  const Node& n = cfg.at(v);
  if (n.lanes == 1 || cfg.is_param[v] || n.op != Op::Eq || cfg.is_param[n.args[0]] || cfg.is_param[n.args[1]])
    return false;
  const Node &of = cfg.at(n.args[0]), &zero = cfg.at(n.args[1]);
  const bool is_zero =
      zero.op == Op::Splat && zero.type == Type::I64 && cfg.is_const(zero.args[0]) && cfg.at(zero.args[0]).imm == 0;
  return is_zero && (is_comparison(of.op) || combines_conditions(cfg, n.args[0]));
}

bool is_comparison(Op op) { return op == Op::Eq || op == Op::Ne || op == Op::Lt || op == Op::Le || op == Op::Below; }

Registers assign_registers(const Cfg& cfg, const Shape& shape) { return Assignment(cfg, shape).run(); }

}  // namespace framejit::cfg
