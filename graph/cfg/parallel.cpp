// Loops whose rounds several threads may do.
//
// Such a loop counts its rounds. Each of its variables counts too; or it is a sum, to which each round adds once a
// float, or natural numbers; or it is only handed on: a round sets it, or leaves it as it was. Nothing but exits and
// what follows the loop reads sums and what is handed on. Addresses are sums of values that the loop does not change,
// of counts, and of numbers that a check bounds. Whether the accesses of two rounds meet is computed from these sums
// where the loop runs.
//
// If a check fails in a body, what these rounds stored is put back, and nothing was done. A variable that is only
// handed on has a flag in the body: whether one of these rounds has set it. The last piece that has gives its value. A
// sum of floats is no variable of the body: each round stores what it adds, and the caller adds in the order of the
// rounds. A sum of natural numbers begins at 0 in each piece; if it overflows nowhere in the end, it does so in no
// round.
#include "graph/cfg/parallel.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/cfg/edit.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/outer_vectors.h"
#include "graph/cfg/registers.h"
#include "graph/support/upper_halves.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostNodes = 1000, kMostAccesses = 24, kMostTerms = 32;
constexpr int kMostSteps = 12;  // from an address to the values that it is a sum of
constexpr int64_t kFewRounds = 3;

int64_t run_rounds(int64_t loop, int64_t rounds) {
  forget_upper_halves();
  return reinterpret_cast<ParallelLoop*>(loop)->run(rounds);
}

const Function kRun{"run_rounds", reinterpret_cast<const void*>(&run_rounds), Type::I64, 2, Type::I64};

Mem mem_of(Type type) { return type == Type::F64 ? Mem::F64 : type == Type::F32 ? Mem::F32 : Mem::I64; }

class Parallel {
 public:
  Parallel(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, std::vector<uint32_t> members)
      : cfg_(cfg), shape_(shape), head_(head), front_(front), members_(std::move(members)) {
    block_of_.assign(cfg.nodes.size(), kNone);
    is_member_.assign(cfg.blocks.size(), false);
    for (uint32_t b : members_) {
      is_member_[b] = true;
      nodes_ += cfg.blocks[b].nodes.size();
      for (Id p : cfg.blocks[b].params) block_of_[p] = b;
      for (Id n : cfg.blocks[b].nodes) block_of_[n] = b;
    }
  }

  std::unique_ptr<ParallelLoop> make(int vector_bytes, bool for_threads) {
    if (nodes_ > kMostNodes || !find_count()) return nullptr;
    loop_ = std::make_unique<ParallelLoop>();
    if (!sort_variables() || !is_left_rarely() || !find_accesses()) return nullptr;
    make_body(vector_bytes);
    if (!loop_->has_vectors && !for_threads) return nullptr;
    loop_->checks = checks_of_rounds(scalar_);
    make_call();
    return std::move(loop_);
  }

 private:
  bool is_inside(Id v) const { return v < block_of_.size() && block_of_[v] != kNone; }
  bool is_member(uint32_t b) const { return b < is_member_.size() && is_member_[b]; }
  const std::vector<Id>& variables() const { return cfg_.blocks[head_].params; }
  const std::vector<Id>& begins_with() const { return cfg_.blocks[front_].to[0].args; }

  template <class F>
  void for_each_edge(F f) const {
    for (uint32_t b : members_)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
        if (is_member(cfg_.blocks[b].to[k].block)) f(cfg_.blocks[b].to[k]);
  }

  static Node node_of(Op op, Id a = kNone, Id b = kNone, int64_t imm = 0) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.imm = imm;
    return n;
  }

  // Variables.

  /// By how much a variable grows in each round, or kNone.
  Id step_of(std::size_t which) const {
    Id step = kNone;
    bool counts = true;
    for_each_edge([&](const Edge& e) {
      if (e.block != head_) return;
      const Id given = e.args[which];
      const Node& n = cfg_.at(given);
      counts = counts && !cfg_.is_param[given] && is_inside(given) && (n.op == Op::Add || n.op == Op::AddExact) &&
               n.args[0] == variables()[which] && !is_inside(n.args[1]) && (step == kNone || step == n.args[1]);
      if (counts) step = n.args[1];
    });
    return counts ? step : kNone;
  }

  template <class F>
  void for_each_node(F f) const {
    for (uint32_t b : members_)
      for (const Id id : cfg_.blocks[b].nodes) f(id, cfg_.at(id));
  }

  /// A node that adds to a sum of floats, in rounds that end with this block.
  struct Addition {
    uint32_t block;
    Id variable, sum;
  };

  /// By each block that leads to the next round; none: it is no sum.
  std::vector<Addition> additions_to(std::size_t which) const {
    const Id variable = variables()[which];
    if (cfg_.at(variable).type != Type::F64) return {};
    std::vector<Addition> out;
    std::set<Id> sums;
    for (uint32_t b : members_)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k) {
        if (cfg_.blocks[b].to[k].block != head_) continue;
        const Id sum = cfg_.blocks[b].to[k].args[which];
        const Node& n = cfg_.at(sum);
        if (cfg_.is_param[sum] || !is_inside(sum) || n.op != Op::Add) return {};
        if ((n.args[0] == variable) == (n.args[1] == variable) || (!out.empty() && out.back().block == b)) return {};
        out.push_back({b, variable, sum});
        sums.insert(sum);
      }
    bool good = true;
    for_each_edge([&](const Edge& e) {
      for (std::size_t i = 0; i < e.args.size(); ++i)
        good = good && e.args[i] != variable && (!sums.count(e.args[i]) || (e.block == head_ && i == which));
    });
    for_each_node([&](Id id, const Node& n) {
      for (const Id a : n.args)
        good = good && (a != variable || sums.count(id)) && (!sums.count(a) || n.op == Op::CheckFinite);
    });
    return good ? out : std::vector<Addition>{};
  }

  bool is_small_natural(Id v) const {
    if (cfg_.is_const(v)) return cfg_.at(v).imm >= 0 && cfg_.at(v).imm < (int64_t{1} << 31);
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v]) return false;
    const bool narrow = n.mem == Mem::U8 || n.mem == Mem::U16 || n.mem == Mem::U32;
    return is_comparison(n.op) || ((n.op == Op::Load || n.op == Op::Extend) && narrow);
  }

  /// The values that a sum of integers has in a round; none if it is more than that.
  std::set<Id> values_of_sum(std::size_t which) const {
    const Id sum = variables()[which];
    if (cfg_.at(sum).type != Type::I64) return {};
    std::set<Id> values{sum};
    const auto is_value = [&](Id v) { return values.count(v) != 0; };
    for (bool more = true; more;) {
      more = false;
      for_each_node([&](Id id, const Node& n) {
        if (n.op == Op::AddExact && is_value(n.args[0]) != is_value(n.args[1])) more = values.insert(id).second || more;
      });
      for_each_edge([&](const Edge& e) {
        for (std::size_t i = 0; i < e.args.size(); ++i)
          if (is_value(e.args[i])) more = values.insert(cfg_.blocks[e.block].params[i]).second || more;
      });
    }
    bool good = true;
    for (const Id v : variables()) good = good && (v == sum || !is_value(v));
    for_each_edge([&](const Edge& e) {
      for (std::size_t i = 0; i < e.args.size(); ++i)
        good = good && is_value(e.args[i]) == is_value(cfg_.blocks[e.block].params[i]);
    });
    for_each_node([&](Id id, const Node& n) {
      int read = 0;
      for (const Id a : n.args) read += a != kNone && is_value(a);
      good = good && read == (is_value(id) ? 1 : 0);
    });
    for (uint32_t b : members_) good = good && !is_value(cfg_.blocks[b].condition);
    return good ? values : std::set<Id>{};
  }

  /// Which variables count, which are sums, and which are handed on; false: there are others.
  bool sort_variables() {
    for (std::size_t i = 0; i < variables().size(); ++i) {
      const Id v = variables()[i];
      if (const Id step = cfg_.at(v).type == Type::I64 ? step_of(i) : kNone; step != kNone) {
        steps_[v] = step;
      } else if (std::vector<Addition> additions = additions_to(i); !additions.empty()) {
        additions_[v] = std::move(additions);
      } else if (const std::set<Id> values = values_of_sum(i); !values.empty()) {
        natural_sums_.insert(v);
        values_of_sums_.insert(values.begin(), values.end());
      } else {
        carried_.insert(v);
      }
    }
    // Parameters of other blocks hand them on.
    for (bool more = true; more;) {
      more = false;
      for_each_edge([&](const Edge& e) {
        const std::vector<Id>& params = cfg_.blocks[e.block].params;
        for (std::size_t i = 0; i < params.size(); ++i)
          if (carried_.count(e.args[i])) more = carried_.insert(params[i]).second || more;
      });
    }
    const auto is_read = [&](Id v) { return v != kNone && carried_.count(v); };
    bool reads = false;
    for (uint32_t b : members_) reads = reads || is_read(cfg_.blocks[b].condition);
    for_each_node([&](Id, const Node& n) {
      for (const Id a : n.args) reads = reads || is_read(a);
    });
    return !reads;
  }

  /// The block that asks whether rounds are left, once in each round: at the head, or behind other things that a round
  /// does.
  bool find_count() {
    const auto is_number = [&](Id v, int64_t number) { return cfg_.is_const(v) && cfg_.at(v).imm == number; };
    for (uint32_t b : members_) {
      const Block& block = cfg_.blocks[b];
      if (block.end != Block::End::Branch || cfg_.is_param[block.condition]) continue;
      if (!is_member(block.to[0].block) || is_member(block.to[1].block)) continue;
      const Node& n = cfg_.at(block.condition);
      const auto at = std::find(variables().begin(), variables().end(), n.args[0]);
      if (n.op != Op::Ne || !is_number(n.args[1], 0) || at == variables().end()) continue;
      count_ = static_cast<std::size_t>(at - variables().begin());
      const Id step = step_of(count_);
      bool always = step != kNone && is_number(step, -1);
      for (uint32_t p : shape_.before[head_]) always = always && (p == front_ || shape_.dominates(b, p));
      if (!always) continue;
      asks_ = b;
      return true;
    }
    return false;
  }

  /// Is it left where it asks whether rounds are left, by exits, and in no other way?
  bool is_left_rarely() const {
    for (uint32_t b : members_)
      for (int k = 0; b != asks_ && k < cfg_.blocks[b].successors(); ++k)
        if (const uint32_t to = cfg_.blocks[b].to[k].block; !is_member(to) && cfg_.blocks[to].end != Block::End::Leave)
          return false;
    return true;
  }

  // Accesses.

  struct Factor {
    int64_t times = 1;
    Id by = kNone;  // a value from outside
  };
  struct Term {
    Id of;
    Factor factor;
  };
  struct Sum {
    std::vector<Term> fixed, steps, within;  // within: the term is of any number below `of`
    std::vector<Id> naturals;                // numbers that are equal to a part of it if they are not negative
  };

  Id add_node(Op op, Id a, Id b) { return made_.emplace_back(cfg_.add(node_of(op, a, b))); }
  Id add_constant(int64_t value) { return made_.emplace_back(cfg_.add(node_of(Op::Const, kNone, kNone, value))); }

  std::optional<Factor> multiplied(Factor f, Id by) {
    if (cfg_.is_const(by)) {
      if (!is_within(cfg_.at(by).imm, int64_t{1} << 31) || !is_within(f.times, int64_t{1} << 31)) return std::nullopt;
      f.times *= cfg_.at(by).imm;
    } else {
      f.by = f.by == kNone ? by : add_node(Op::Mul, f.by, by);
    }
    return f;
  }

  /// A value plus `more` is not negative, and below `length`.
  struct Bound {
    Id length;
    int64_t more;
  };

  /// The bound of a value, or of the value plus a constant, that a check or a branch in front of a place makes sure of.
  std::optional<Bound> bound_above(Id v, uint32_t b, std::size_t at) const {
    const auto bound = [&](Id c) -> std::optional<Bound> {
      const Node& n = cfg_.at(c);
      if (cfg_.is_param[c] || n.op != Op::Below || is_inside(n.args[1])) return std::nullopt;
      if (n.args[0] == v) return Bound{n.args[1], 0};
      const Node& sum = cfg_.at(n.args[0]);
      if (cfg_.is_param[n.args[0]] || sum.op != Op::Add || sum.args[0] != v || !cfg_.is_const(sum.args[1]))
        return std::nullopt;
      return Bound{n.args[1], cfg_.at(sum.args[1]).imm};
    };
    for (;;) {
      const std::vector<Id>& nodes = cfg_.blocks[b].nodes;
      for (std::size_t i = std::min(at, nodes.size()); i-- > 0;)
        if (const Node& n = cfg_.at(nodes[i]); n.op == Op::Check)
          if (const auto found = bound(n.args[0])) return found;
      if (b == head_) return std::nullopt;
      const uint32_t up = shape_.dominator[b];
      const Block& block = cfg_.blocks[up];
      if (block.end == Block::End::Branch && block.to[0].block == b && shape_.before[b].size() == 1)
        if (const auto found = bound(block.condition)) return found;
      b = up;
      at = static_cast<std::size_t>(-1);
    }
  }

  bool append(Sum& sum, Id v, Factor f, uint32_t b, std::size_t at, int depth) {
    if (depth > kMostSteps || sum.fixed.size() > kMostTerms || cfg_.at(v).type != Type::I64) return false;
    if (!is_inside(v)) return sum.fixed.push_back({v, f}), true;
    if (const auto step = steps_.find(v); step != steps_.end()) {
      const auto place = std::find(variables().begin(), variables().end(), v) - variables().begin();
      sum.fixed.push_back({begins_with()[static_cast<std::size_t>(place)], f});
      sum.steps.push_back({step->second, f});
      return true;
    }
    const Sum before = sum;
    if (!cfg_.is_param[v] && append_parts(sum, v, f, b, at, depth)) return true;
    sum = before;
    const std::optional<Bound> bound = bound_above(v, b, at);
    if (!bound || !is_within(bound->more, int64_t{1} << 31)) return false;
    sum.within.push_back({bound->length, f});
    if (bound->more != 0) sum.fixed.push_back({add_constant(-bound->more), f});
    return true;
  }

  bool append_parts(Sum& sum, Id v, Factor f, uint32_t b, std::size_t at, int depth) {
    const Node n = cfg_.at(v);
    switch (n.op) {
      case Op::Add:
      case Op::AddExact:
        return append(sum, n.args[0], f, b, at, depth + 1) && append(sum, n.args[1], f, b, at, depth + 1);
      case Op::Sub:
      case Op::SubExact:
        return append(sum, n.args[0], f, b, at, depth + 1) &&
               append(sum, n.args[1], {-f.times, f.by}, b, at, depth + 1);
      case Op::Mul:
      case Op::MulExact: {
        const int fixed = is_inside(n.args[0]) ? 1 : 0;
        if (is_inside(n.args[fixed])) return false;
        const std::optional<Factor> by = multiplied(f, n.args[fixed]);
        return by && append(sum, n.args[1 - fixed], *by, b, at, depth + 1);
      }
      case Op::Select: {
        // An index that would count from the end.
        const Node& c = cfg_.at(n.args[0]);
        if (cfg_.is_param[n.args[0]] || c.op != Op::Lt || c.args[0] != n.args[2] || !cfg_.is_const(c.args[1]) ||
            cfg_.at(c.args[1]).imm != 0)
          return false;
        const std::size_t bounded = sum.within.size();
        if (!append(sum, n.args[2], f, b, at, depth + 1) || sum.within.size() != bounded) return false;
        sum.naturals.push_back(n.args[2]);
        return true;
      }
      default: return false;
    }
  }

  /// Where a value from outside stands in the frame.
  uint32_t slot(Id v) {
    const auto [at, first] = slots_.emplace(v, static_cast<uint32_t>(loop_->frame.size()));
    if (first) loop_->frame.push_back(cfg_.is_const(v) ? cfg_.at(v).imm : 0);
    return at->second;
  }

  FrameProduct product(const Term& t) {
    FrameProduct out{t.factor.times, kNone, t.factor.by == kNone ? kNone : slot(t.factor.by)};
    if (cfg_.is_const(t.of) && is_within(cfg_.at(t.of).imm, int64_t{1} << 20) && is_within(out.times, int64_t{1} << 40))
      out.times *= cfg_.at(t.of).imm;
    else out.of = slot(t.of);
    return out;
  }

  uint32_t total(const std::vector<Term>& terms) {
    Id sum = kNone;
    for (const Term& t : terms) {
      Id v = t.of;
      if (t.factor.by != kNone) v = add_node(Op::Mul, v, t.factor.by);
      if (t.factor.times != 1) v = add_node(Op::Mul, v, add_constant(t.factor.times));
      sum = sum == kNone ? v : add_node(Op::Add, sum, v);
    }
    return slot(sum == kNone ? add_constant(0) : sum);
  }

  bool find_accesses() {
    bool stores = false;
    std::map<std::pair<std::vector<int64_t>, bool>, std::size_t> known;
    for (uint32_t b : members_) {
      const std::vector<Id> in_block = cfg_.blocks[b].nodes;
      for (std::size_t at = 0; at < in_block.size(); ++at) {
        const Node n = cfg_.at(in_block[at]);
        if (n.op == Op::Update || n.op == Op::CallReads || n.op == Op::Waits || n.lanes > 1) return false;
        if (n.op != Op::Load && n.op != Op::Store) continue;
        Sum sum;
        if (!append(sum, n.args[0], {}, b, at, 0)) return false;
        if (n.args[1] != kNone && !append(sum, n.args[1], {n.scale, kNone}, b, at, 0)) return false;
        if (n.imm != 0) sum.fixed.push_back({add_constant(n.imm), {}});
        if (n.op == Op::Store && sum.steps.empty()) return false;
        stores = stores || n.op == Op::Store;
        const auto [same, is_new] = known.emplace(std::pair(key_of(sum, n), n.op == Op::Store), known.size());
        access_of_[in_block[at]] = static_cast<uint32_t>(same->second);
        if (!is_new) continue;
        if (known.size() > kMostAccesses) return false;
        ParallelAccess access;
        access.stores = n.op == Op::Store;
        access.size = size_of(n.mem);
        access.base = total(sum.fixed);
        for (const Term& t : sum.steps) access.per_round.push_back(product(t));
        for (const Term& t : sum.within) access.within.push_back({slot(t.of), product({one(), t.factor})});
        loop_->accesses.push_back(std::move(access));
        for (const Id v : sum.naturals) add_natural(v);
      }
    }
    return stores || !additions_.empty() || !natural_sums_.empty();
  }

  Id one() { return one_ == kNone ? one_ = add_constant(1) : one_; }

  void add_natural(Id v) {
    if (!naturals_.insert(v).second) return;
    Sum sum;
    append(sum, v, {}, head_, 0, 0);
    ParallelLoop::Natural natural{total(sum.fixed), {}};
    for (const Term& t : sum.steps) natural.per_round.push_back(product(t));
    loop_->naturals.push_back(std::move(natural));
  }

  std::vector<int64_t> key_of(const Sum& sum, const Node& n) const {
    std::vector<int64_t> out{size_of(n.mem)};
    for (const auto* terms : {&sum.fixed, &sum.steps, &sum.within}) {
      out.push_back(-1);
      for (const Term& t : *terms) {
        const bool constant = cfg_.is_const(t.of);
        out.insert(out.end(), {constant, constant ? cfg_.at(t.of).imm : t.of, t.factor.times, t.factor.by});
      }
    }
    return out;
  }

  // The rounds as a graph of their own.

  void make_body(int vector_bytes) {
    Cfg& body = loop_->body = cfg_;
    body.exits.assign(2, Exit{});
    std::map<Id, Id> flags;  // by parameter that hands a variable on: whether a round has set it
    for (uint32_t b : members_)
      for (const Id p : cfg_.blocks[b].params)
        if (carried_.count(p)) flags[p] = body.add_param(b, Type::I64);
    body.blocks[0] = Block{};
    const auto add = [&](Node n) {
      const Id id = body.add(n);
      body.blocks[0].nodes.push_back(id);
      return id;
    };
    const auto integer = [&](Op op, Id a = kNone, Id b = kNone, int64_t imm = 0) {
      return add(node_of(op, a, b, imm));
    };
    const Id frame = integer(Op::Pointer), first = integer(Op::Symbol, kNone, kNone, 0),
             rounds = integer(Op::Symbol, kNone, kNone, 1), none = integer(Op::Const),
             is_set = integer(Op::Const, kNone, kNone, 1), minus_one = integer(Op::Const, kNone, kNone, -1);
    std::map<Id, Id> values;
    const auto value = [&](Id v) {
      const auto [at, is_new] = values.emplace(v, kNone);
      if (!is_new) return at->second;
      Node n = cfg_.at(v);
      if (!cfg_.is_const(v)) {
        n = Node{};
        n.op = Op::Load;
        n.type = cfg_.at(v).type;
        n.mem = mem_of(n.type);
        n.args[0] = frame;
        n.imm = 8 * static_cast<int64_t>(slot(v));
      }
      return at->second = add(n);
    };
    const auto turn = [&](Id& v) {
      if (v != kNone && !is_inside(v)) v = value(v);
    };
    // A head of its own counts the rounds. Where the loop is left, and where it may not be:
    const auto leave = [&](uint32_t exit) {
      body.blocks.emplace_back();
      body.blocks.back().end = Block::End::Leave;
      body.blocks.back().exit = exit;
      return static_cast<uint32_t>(body.blocks.size() - 1);
    };
    const uint32_t finished = leave(0), failed = leave(1), counts = leave(1);
    std::vector<Id> given;
    for (const Id p : std::vector<Id>(body.blocks[head_].params))
      given.push_back(body.add_param(counts, body.at(p).type));
    const Id left = body.add_param(counts, Type::I64), fewer = body.add(node_of(Op::Add, left, minus_one)),
             more = body.add(node_of(Op::Ne, left, none));
    body.blocks[counts].nodes = {fewer, more};
    body.blocks[counts].end = Block::End::Branch;
    body.blocks[counts].condition = more;
    body.blocks[counts].to[0] = {head_, given};
    body.blocks[counts].to[1] = {finished, {}};
    std::set<Id> sums;
    for (const auto& [variable, additions] : additions_)
      for (const Addition& a : additions) sums.insert(a.sum);
    for (uint32_t b : members_) {
      Block& block = body.blocks[b];
      // Inner loops may be long: whoever waits for the interpreter ends them.
      const bool is_outer = shape_.loop[b] == head_;
      std::erase_if(block.nodes, [&](Id id) {
        return (body.at(id).op == Op::Poll && is_outer) ||
               (body.at(id).op == Op::CheckFinite && sums.count(body.at(id).args[0]));
      });
      for (const Id id : std::exchange(block.nodes, {})) {
        for (Id& a : body.nodes[id].args) turn(a);
        if (body.at(id).exit != kNone) body.nodes[id].exit = 1;
        check_addend(body, b, id, none);
        body.blocks[b].nodes.push_back(id);
      }
      if (b == asks_) {
        block.end = Block::End::Jump;
        block.condition = kNone;
        block.to[1] = Edge{};
      }
      turn(block.condition);
      for (int k = 0; k < block.successors(); ++k) {
        Edge& e = block.to[k];
        if (!is_member(e.block)) {
          e = Edge{failed, {}};
          continue;
        }
        const std::vector<Id>& params = cfg_.blocks[e.block].params;
        for (std::size_t i = 0; i < params.size(); ++i) {
          if (carried_.count(params[i])) e.args.push_back(carried_.count(e.args[i]) ? flags.at(e.args[i]) : is_set);
          turn(e.args[i]);
        }
        if (e.block != head_) continue;
        for (std::size_t i = 0; i < variables().size(); ++i)
          if (additions_.count(variables()[i])) e.args[i] = variables()[i];
        e.block = counts;
        e.args.push_back(fewer);
      }
    }
    store_additions(body, rounds, fewer);
    Edge on{counts, {}};
    for (std::size_t i = 0; i < variables().size(); ++i) {
      const Id v = variables()[i];
      if (natural_sums_.count(v)) on.args.push_back(none);
      else if (const auto step = steps_.find(v); step != steps_.end())
        on.args.push_back(integer(Op::Add, value(begins_with()[i]), integer(Op::Mul, first, value(step->second))));
      else on.args.push_back(value(begins_with()[i]));
    }
    on.args.resize(given.size(), none);
    on.args.push_back(rounds);
    body.blocks[0].end = Block::End::Jump;
    body.blocks[0].to[0] = std::move(on);
    std::size_t flag = variables().size();  // of what is handed on, in order
    for (std::size_t i = 0; i < variables().size(); ++i)
      if (carried_.count(variables()[i])) {
        body.exits[0].values.push_back(given[i]);
        body.exits[0].values.push_back(given[flag++]);
      }
    for (std::size_t i = 0; i < variables().size(); ++i)
      if (natural_sums_.count(variables()[i])) body.exits[0].values.push_back(given[i]);
    std::vector<OuterVariable> kinds(given.size() + 1);
    std::size_t next_flag = variables().size();
    for (std::size_t i = 0; i < variables().size(); ++i) {
      const Id v = variables()[i];
      if (natural_sums_.count(v)) kinds[i] = {OuterVariable::Sum};
      else if (const auto step = steps_.find(v); step != steps_.end())
        kinds[i] = {OuterVariable::Counts, value(step->second)};
      else if (carried_.count(v)) kinds[i] = {OuterVariable::HandedOn, kNone, next_flag++};
    }
    kinds.back() = {OuterVariable::Counts, minus_one};
    kinds.back().is_left = true;
    scalar_ = without_sums(body);
    for_each_node([&](Id, const Node& n) { loop_->may_warn = loop_->may_warn || n.op == Op::CheckFinite; });
    loop_->may_warn = loop_->may_warn || !natural_sums_.empty();
    if (vector_bytes > 0) {
      const OuterVectorized vectors = vectorize_outer_loop(body, counts, kinds, flags, 1, vector_bytes);
      loop_->has_vectors = vectors.done;
      loop_->lanes = vectors.lanes;
      for (const auto& [a, b] : vectors.apart) loop_->apart.emplace_back(access_of_.at(a), access_of_.at(b));
    }
    drop_unreached(body);
  }

  /// The body if its sums of natural numbers could not overflow: whoever adds them up finds out, and does the rounds
  /// again.
  Cfg without_sums(Cfg body) const {
    for (const Id v : values_of_sums_)
      if (Node& n = body.nodes[v]; !cfg_.is_param[v] && n.op == Op::AddExact) {
        n.op = Op::Add;
        n.exit = kNone;
      }
    for (Block& b : body.blocks) std::erase_if(b.nodes, [&](Id id) { return asks_addend_.count(id) != 0; });
    return body;
  }

  /// In front of a node that adds to a sum of natural numbers: a check that it adds such a number.
  void check_addend(Cfg& body, uint32_t b, Id node, Id zero) {
    if (!values_of_sums_.count(node) || cfg_.is_param[node]) return;
    const Node n = cfg_.at(node);
    const int which = values_of_sums_.count(n.args[0]) ? 1 : 0;
    if (is_small_natural(n.args[which])) return;
    const Id is_natural = body.add(node_of(Op::Le, zero, body.at(node).args[which]));
    Node check;
    check.op = Op::Check;
    check.args[0] = is_natural;
    check.exit = 1;
    body.blocks[b].nodes.insert(body.blocks[b].nodes.end(), {is_natural, body.add(check)});
    asks_addend_.insert(body.blocks[b].nodes.back());
  }

  /// The operand of an addition that is not the sum, as a node of the body.
  static Id added(const Cfg& body, const Addition& a) {
    const Node& n = body.at(a.sum);
    return n.args[0] == a.variable ? n.args[1] : n.args[0];
  }

  /// A round does not add to a sum of floats: it stores the number that it would add into a buffer of the caller's.
  /// The index there is the number of rounds that follow.
  void store_additions(Cfg& body, Id rounds, Id index) {
    if (additions_.empty()) return;
    const auto enter = [&](Node n) {
      const Id id = body.add(n);
      body.blocks[0].nodes.push_back(id);
      return id;
    };
    Id buffer = enter(node_of(Op::Pointer, kNone, kNone, 1));
    const Id size = enter(node_of(Op::Mul, rounds, enter(node_of(Op::Const, kNone, kNone, 8))));
    for (const Id v : variables()) {
      const auto at = additions_.find(v);
      if (at == additions_.end()) continue;
      for (const Addition& a : at->second) {
        Node store;
        store.op = Op::Store;
        store.mem = Mem::F64;
        store.scale = 8;
        store.args[0] = buffer;
        store.args[1] = index;
        store.args[2] = added(body, a);
        body.blocks[a.block].nodes.push_back(body.add(store));
      }
      buffer = enter(node_of(Op::Add, buffer, size));
    }
  }

  /// Is a sum of floats checked to be finite?
  bool is_checked(Id sum) const {
    std::set<Id> sums;
    if (const auto at = additions_.find(sum); at != additions_.end())
      for (const Addition& a : at->second) sums.insert(a.sum);
    bool checked = false;
    for_each_node([&](Id, const Node& n) { checked = checked || (n.op == Op::CheckFinite && sums.count(n.args[0])); });
    return checked;
  }

  // The call.

  void make_call() {
    const uint32_t level = cfg_.blocks[front_].level;
    const auto fresh = [&] {
      cfg_.blocks.emplace_back();
      cfg_.blocks.back().level = level;
      return static_cast<uint32_t>(cfg_.blocks.size() - 1);
    };
    const uint32_t calls = fresh(), next = fresh();
    const Edge on = cfg_.blocks[front_].to[0];
    uint32_t at = front_;
    const auto add = [&](Node n) {
      const Id id = cfg_.add(n);
      cfg_.blocks[at].nodes.push_back(id);
      return id;
    };
    const auto integer = [&](Op op, Id a = kNone, Id b = kNone, int64_t imm = 0) {
      return add(node_of(op, a, b, imm));
    };
    const auto address = [&](const void* of) {
      Node n = node_of(Op::Const, kNone, kNone, reinterpret_cast<int64_t>(of));
      n.is_address = true;
      return add(n);
    };
    const auto access = [&](Op op, Type type, Id frame, uint32_t slot, Id value = kNone) {
      Node n;
      n.op = op;
      n.type = op == Op::Load ? type : Type::None;
      n.mem = mem_of(type);
      n.args[0] = frame;
      n.args[2] = value;
      n.imm = 8 * static_cast<int64_t>(slot);
      return add(n);
    };
    Id rounds = on.args[count_];
    if (asks_ != head_) rounds = integer(Op::Add, rounds, integer(Op::Const, kNone, kNone, 1));
    const Id enough = integer(Op::Lt, integer(Op::Const, kNone, kNone, kFewRounds), rounds);
    Block& front = cfg_.blocks[front_];
    front.end = Block::End::Branch;
    front.condition = enough;
    front.to[0] = {calls, {}};
    front.to[1] = {next, on.args};
    at = calls;
    cfg_.blocks[calls].nodes = std::move(made_);
    // Places of their own, as the call writes them.
    std::map<Id, uint32_t> places;
    for (const Id v : variables()) {
      if (steps_.count(v)) continue;
      const auto place = static_cast<uint32_t>(loop_->frame.size());
      places[v] = place;
      loop_->frame.push_back(0);
      if (carried_.count(v)) loop_->carried.push_back(place);
      else loop_->sums.push_back({place, additions_.count(v) != 0, is_checked(v)});
    }
    const Id frame = address(loop_->frame.data());
    for (const auto& [v, slot] : slots_)
      if (!cfg_.is_const(v)) access(Op::Store, cfg_.at(v).type, frame, slot, v);
    for (std::size_t i = 0; i < variables().size(); ++i)
      if (const auto place = places.find(variables()[i]); place != places.end())
        access(Op::Store, cfg_.at(place->first).type, frame, place->second, on.args[i]);
    Node call;
    call.op = Op::Update;
    call.type = Type::I64;
    call.function = &kRun;
    call.args[0] = address(loop_.get());
    call.args[1] = rounds;
    const Id done = add(call);
    Edge after{next, {}};
    for (std::size_t i = 0; i < variables().size(); ++i) {
      const Id v = variables()[i];
      if (const auto place = places.find(v); place != places.end())
        after.args.push_back(access(Op::Load, cfg_.at(v).type, frame, place->second));
      else after.args.push_back(integer(Op::Add, on.args[i], integer(Op::Mul, done, steps_.at(v))));
    }
    cfg_.blocks[calls].end = Block::End::Jump;
    cfg_.blocks[calls].to[0] = std::move(after);
    Edge enter{head_, {}};
    for (const Id v : std::vector<Id>(variables())) enter.args.push_back(cfg_.add_param_for(next, v));
    cfg_.blocks[next].end = Block::End::Jump;
    cfg_.blocks[next].to[0] = std::move(enter);
  }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_, front_;
  const std::vector<uint32_t> members_;
  std::vector<uint32_t> block_of_;  // kNone: the value is not of the loop
  std::vector<bool> is_member_;     // by block
  std::size_t nodes_ = 0;
  std::size_t count_ = 0;                          // the variable that counts the rounds that are left
  uint32_t asks_ = kNone;                          // the block that asks for it
  std::map<Id, Id> steps_;                         // of variables that count
  std::map<Id, std::vector<Addition>> additions_;  // to sums of floats
  std::set<Id> natural_sums_, values_of_sums_;     // of integers; the values that they have in a round
  Cfg scalar_;                                     // the body without sums and without vectors
  std::set<Id> asks_addend_;                       // checks of the body: is a number that is added natural?
  std::set<Id> carried_;                           // parameters that hand variables on
  std::set<Id> naturals_;
  std::map<Id, uint32_t> slots_;
  std::map<Id, uint32_t> access_of_;  // by load or store: which of the accesses
  std::vector<Id> made_;              // for the block that calls
  Id one_ = kNone;
  std::unique_ptr<ParallelLoop> loop_;
};

}  // namespace

bool ParallelLoops::have_vectors() const {
  return std::any_of(found.begin(), found.end(), [](const auto& loop) { return loop->has_vectors; });
}

void make_parallel(Cfg& cfg, int vector_bytes, ParallelLoops& loops) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> taken(cfg.blocks.size(), false);
  for (uint32_t head : shape.order) {
    if (shape.loop[head] != head || taken[head]) continue;
    const uint32_t front = front_of(cfg, shape, head);
    if (front == kNone) continue;
    const std::vector<uint32_t> members = blocks_of_loop(cfg, shape, head);
    if (auto loop =
            Parallel(cfg, shape, head, front, members).make(loops.vectors ? vector_bytes : 0, loops.for_threads)) {
      for (uint32_t b : members) taken[b] = true;
      loops.found.push_back(std::move(loop));
    }
  }
}

}  // namespace framejit::cfg
