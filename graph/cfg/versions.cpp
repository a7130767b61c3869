// Versions of inner loops without the checks that hold in all of their rounds.
//
// A value in a loop is bounded by values that the loop does not change: by where a count begins and by its rounds, by
// conditions that lead to a block, by operations. A check that follows from such bounds is left out in a version of the
// loop that runs if the bounds are what they have to be; they are compared in front of the loop. Whatever else comes
// runs in the loop as it was. All numbers of bounds are natural and have 31 bits, so that they are computed exactly.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/cfg/bounds.h"
#include "graph/cfg/edit.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

constexpr int kMostSteps = 8;  // from a value to those it is made of
constexpr std::size_t kMostBlocks = 24, kMostNodes = 300, kMostConditions = 48;

struct Range {
  std::optional<Bound> low, high;
  bool complete() const { return low && high; }
};

class Version {
 public:
  Version(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, std::vector<uint32_t> members)
      : cfg_(cfg), shape_(shape), head_(head), front_(front), members_(std::move(members)), bounds_(cfg) {
    block_of_.assign(cfg.nodes.size(), kNone);
    for (uint32_t b : members_) {
      for (Id p : cfg.blocks[b].params) block_of_[p] = b;
      for (Id n : cfg.blocks[b].nodes) block_of_[n] = b;
    }
    for (uint32_t b : members_)
      for (int k = 0; k < cfg.blocks[b].successors(); ++k)
        if (cfg.blocks[b].to[k].block == head) backs_.push_back({b, k});
    find_rounds();
  }

  bool run() {
    for (uint32_t b : members_) {
      const std::vector<Id> nodes = cfg_.blocks[b].nodes;
      for (std::size_t at = 0; at < nodes.size(); ++at) {
        bounds_.keep(0);
        here_ = b;
        at_ = at;
        if (decide(nodes[at]) && wanted_.size() + bounds_.needed() <= kMostConditions) {
          done_.push_back(nodes[at]);
          for (Condition& c : bounds_.take_conditions())
            if (std::none_of(wanted_.begin(), wanted_.end(), [&](const Condition& w) { return w.key() == c.key(); }))
              wanted_.push_back(std::move(c));
        }
      }
    }
    if (done_.empty()) return false;
    place_made(front_);
    if (!wanted_.empty()) split();
    change();
    return true;
  }

 private:
  struct Back {
    uint32_t block;
    int edge;
  };

  bool is_inside(Id v) const { return v < block_of_.size() && block_of_[v] != kNone; }
  bool is_member(uint32_t b) const { return std::find(members_.begin(), members_.end(), b) != members_.end(); }
  int64_t imm(Id v) const { return cfg_.at(v).imm; }

  // Counts.

  void find_rounds() {
    const std::optional<std::size_t> which = rounds_left(cfg_, shape_, head_, members_);
    if (!which) return;
    rounds_ = cfg_.blocks[front_].to[0].args[*which];
    body_ = cfg_.blocks[head_].to[0].block;
  }

  std::optional<std::size_t> place_of(Id v) const {
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    const auto at = std::find(params.begin(), params.end(), v);
    if (at == params.end()) return std::nullopt;
    return at - params.begin();
  }

  struct Steps {
    int64_t least = 0, most = 0;
    Id by = kNone;      // a step that is a value
    bool exact = true;  // no sum wraps
    bool any = false;
  };

  /// How a parameter of the head changes until a value; false: otherwise.
  bool add_steps(Steps& s, Id from, Id to, int64_t so_far, Id by, bool exact, int depth) const {
    if (depth > kMostSteps) return false;
    if (from == to) {
      s.least = s.any ? std::min(s.least, so_far) : so_far;
      s.most = s.any ? std::max(s.most, so_far) : so_far;
      if (s.any && s.by != by) return false;
      s.by = by;
      s.exact = s.exact && exact;
      s.any = true;
      return true;
    }
    if (!is_inside(to)) return false;
    if (cfg_.is_param[to]) {
      const uint32_t b = block_of_[to];
      if (b == head_ || by != kNone) return false;
      const auto& params = cfg_.blocks[b].params;
      const std::size_t which = static_cast<std::size_t>(std::find(params.begin(), params.end(), to) - params.begin());
      for (uint32_t p : shape_.before[b])
        for (int k = 0; k < cfg_.blocks[p].successors(); ++k)
          if (cfg_.blocks[p].to[k].block == b &&
              !add_steps(s, from, cfg_.blocks[p].to[k].args[which], so_far, by, exact, depth + 1))
            return false;
      return true;
    }
    const Node& n = cfg_.at(to);
    const bool adds = n.op == Op::Add || n.op == Op::AddExact;
    if (!adds && n.op != Op::Sub && n.op != Op::SubExact) return false;
    const bool is_exact = exact && (n.op == Op::AddExact || n.op == Op::SubExact);
    if (cfg_.is_const(n.args[1]) && is_within(imm(n.args[1]), (1 << 20) - 1))
      return add_steps(s, from, n.args[0], so_far + (adds ? imm(n.args[1]) : -imm(n.args[1])), by, is_exact, depth + 1);
    if (adds && !is_inside(n.args[1]) && by == kNone && so_far == 0)
      return add_steps(s, from, n.args[0], 0, n.args[1], is_exact, depth + 1);
    return false;
  }

  /// A step that an iterator has is mostly 1; one that the program computes is not.
  bool is_loaded(Id v) const { return !cfg_.is_param[v] && cfg_.at(v).op == Op::Load; }

  /// How many rounds have been done at most, within a block.
  std::optional<Bound> rounds_before(uint32_t b) {
    if (rounds_ == kNone) return std::nullopt;
    const std::optional<Bound> rounds = bounds_.leaf(rounds_);
    if (!rounds || !bounds_.at_most(number(0), *rounds)) return std::nullopt;
    return b != head_ && shape_.dominates(body_, b) ? plus(rounds, -1) : rounds;
  }

  /// The same for one that grows by a natural number that is not known.
  Range count_by(const Steps& s, const Bound& start, uint32_t b, std::size_t mark) {
    const std::optional<Bound> by = bounds_.leaf(s.by), rounds = rounds_before(b);
    if (by && rounds && s.least == 0 && s.most == 0)
      if (const auto far = bounds_.sum(start, bounds_.product_of_naturals(*rounds, *by, *rounds, *by)))
        return {start, far};
    return bounds_.keep(mark), Range{};
  }

  /// The range of a parameter of the head, within a block.
  Range count(std::size_t which, uint32_t b) {
    const Id p = cfg_.blocks[head_].params[which];
    Steps s;
    for (const Back& back : backs_)
      if (!add_steps(s, p, cfg_.blocks[back.block].to[back.edge].args[which], 0, kNone, true, 0)) return {};
    if (!s.any) return {};
    const std::size_t mark = bounds_.needed();
    const std::optional<Bound> start = bounds_.leaf(cfg_.blocks[front_].to[0].args[which]);
    if (!start) return {};
    if (s.by != kNone && !is_loaded(s.by)) return count_by(s, *start, b, mark);
    if (s.by != kNone) {
      bounds_.need({Op::Eq, Bound{s.by, 0, 0, false}, number(1)});
      s.least += 1;
      s.most += 1;
    }
    if (s.least < 0 && s.most > 0) return bounds_.keep(mark), Range{};
    const bool grows = s.most > 0;
    Range out;
    (grows ? out.low : out.high) = start;
    std::optional<Bound>& far = grows ? out.high : out.low;
    if (const std::optional<Bound> rounds = rounds_before(b))
      far = bounds_.sum(start, bounds_.product(rounds, number(grows ? s.most : -s.least)), !grows);
    if (!far) {
      // The conditions on the ways back to the head bound it, if the first value meets them too. A step from a number
      // within such bounds cannot overflow.
      std::optional<Bound> common;
      for (const Back& back : backs_) {
        const Id given = cfg_.blocks[back.block].to[back.edge].args[which];
        const Range r = facts(given, back.block, cfg_.blocks[back.block].nodes.size(), back.edge);
        const std::optional<Bound>& one = grows ? r.high : r.low;
        if (!one || (common && (common->base != one->base || common->plus != one->plus))) {
          common.reset();
          break;
        }
        common = one;
      }
      if (common && (grows ? bounds_.at_most(*start, *common) : bounds_.at_most(*common, *start))) far = common;
    }
    // Sums that may wrap bound nothing, unless a condition bounds what they begin with.
    const auto is_bounded = [&](const Back& back) {
      const Range r = facts(p, back.block, cfg_.blocks[back.block].nodes.size());
      return grows ? r.high.has_value() : r.low.has_value();
    };
    if (!far && !s.exact && !std::all_of(backs_.begin(), backs_.end(), is_bounded)) return bounds_.keep(mark), Range{};
    return out;
  }

  // What is known of a value where control is.

  void add_fact(Range& r, Id x, const Node& n, bool truth) {
    const auto bound = [&](Id v) -> std::optional<Bound> { return is_inside(v) ? std::nullopt : bounds_.leaf(v); };
    const std::size_t mark = bounds_.needed();
    std::optional<Bound> low, high;
    if (n.op == Op::Lt || n.op == Op::Le) {
      // truth: a < b or a <= b; else: b <= a or b < a.
      const Id below = truth ? n.args[0] : n.args[1], above = truth ? n.args[1] : n.args[0];
      const int64_t gap = (n.op == Op::Lt) == truth ? 1 : 0;
      if (below == x) high = plus(bound(above), -gap);
      if (above == x) low = plus(bound(below), gap);
    } else if (n.op == Op::Below && truth && n.args[0] == x) {
      if (const std::optional<Bound> length = bound(n.args[1]);
          length && (length->base != kNone || length->plus >= 0)) {
        // The length itself is natural.
        if (length->base == kNone || length->plus == 0) {
          low = number(0);
          high = plus(length, -1);
        }
      }
    }
    const bool news = (low && !r.low) || (high && !r.high);
    if (low && !r.low) r.low = low;
    if (high && !r.high) r.high = high;
    if (!news) bounds_.keep(mark);
  }

  bool is_integer_comparison(Id c) const {
    return !cfg_.is_param[c] && is_comparison(cfg_.at(c).op) && cfg_.at(cfg_.at(c).args[0]).type == Type::I64;
  }

  /// Behind the conditions that lead to a place, and along an edge from there.
  Range facts(Id x, uint32_t b, std::size_t at, int edge = -1) {
    Range r;
    const Block& last = cfg_.blocks[b];
    if (edge >= 0 && last.end == Block::End::Branch && is_integer_comparison(last.condition) &&
        last.to[0].block != last.to[1].block)
      add_fact(r, x, cfg_.at(last.condition), edge == 0);
    for (int steps = 0; steps < 32; ++steps) {
      const std::vector<Id>& nodes = cfg_.blocks[b].nodes;
      for (std::size_t i = std::min(at, nodes.size()); i-- > 0;)
        if (const Node& n = cfg_.at(nodes[i]); n.op == Op::Check && is_integer_comparison(n.args[0]))
          add_fact(r, x, cfg_.at(n.args[0]), true);
      if (b == head_ || r.complete()) break;
      const uint32_t up = shape_.dominator[b];
      const Block& block = cfg_.blocks[up];
      if (shape_.before[b].size() == 1 && block.end == Block::End::Branch && is_integer_comparison(block.condition))
        add_fact(r, x, cfg_.at(block.condition), block.to[0].block == b);
      b = up;
      at = static_cast<std::size_t>(-1);
    }
    return r;
  }

  Range range(Id x, uint32_t b, std::size_t at, int depth = 0) {
    if (depth > kMostSteps || cfg_.at(x).type != Type::I64) return {};
    if (!is_inside(x)) {
      const std::optional<Bound> exactly = bounds_.leaf(x);
      return {exactly, exactly};
    }
    std::size_t mark = bounds_.needed();
    Range r = made_of(x, b, at, depth);
    if (r.complete()) return r;
    if (!r.low && !r.high) bounds_.keep(mark);
    mark = bounds_.needed();
    const Range known = facts(x, b, at);
    if (!known.low && !known.high) bounds_.keep(mark);
    if (!r.low) r.low = known.low;
    if (!r.high) r.high = known.high;
    return r;
  }

  Range made_of(Id x, uint32_t b, std::size_t at, int depth) {
    if (cfg_.is_param[x]) {
      const uint32_t home = block_of_[x];
      const std::vector<Id>& params = cfg_.blocks[home].params;
      const std::size_t which = static_cast<std::size_t>(std::find(params.begin(), params.end(), x) - params.begin());
      if (home == head_) return count(which, b);
      Range both;
      bool first = true;
      for (uint32_t p : shape_.before[home])
        for (int k = 0; k < cfg_.blocks[p].successors(); ++k) {
          if (cfg_.blocks[p].to[k].block != home) continue;
          const Range one = range(cfg_.blocks[p].to[k].args[which], p, cfg_.blocks[p].nodes.size(), depth + 2);
          if (first) both = one;
          else {
            if (!one.low || !both.low || one.low->base != both.low->base) both.low.reset();
            else both.low->plus = std::min(both.low->plus, one.low->plus);
            if (!one.high || !both.high || one.high->base != both.high->base) both.high.reset();
            else both.high->plus = std::max(both.high->plus, one.high->plus);
          }
          first = false;
        }
      return both;
    }
    const Node n = cfg_.at(x);
    switch (n.op) {
      case Op::Add:
      case Op::AddExact:
      case Op::Sub:
      case Op::SubExact: {
        const bool adds = n.op == Op::Add || n.op == Op::AddExact;
        const Range p = range(n.args[0], b, at, depth + 1), q = range(n.args[1], b, at, depth + 1);
        Range r{bounds_.sum(p.low, adds ? q.low : q.high, !adds), bounds_.sum(p.high, adds ? q.high : q.low, !adds)};
        if ((n.op == Op::Add || n.op == Op::Sub) && !r.complete()) return {};
        return r;
      }
      case Op::Mul:
      case Op::MulExact: {
        const Range p = range(n.args[0], b, at, depth + 1), q = range(n.args[1], b, at, depth + 1);
        if (!p.complete() || !q.complete()) return {};
        const Range& fixed = cfg_.is_const(n.args[0]) || !is_inside(n.args[0]) ? p : q;
        const Range& other = &fixed == &p ? q : p;
        if (fixed.low->base == fixed.high->base && fixed.low->plus == fixed.high->plus) {
          const std::size_t mark = bounds_.needed();
          const Range r{bounds_.product(other.low, fixed.low), bounds_.product(other.high, fixed.low)};
          if (r.complete()) return r;
          bounds_.keep(mark);
        }
        const Range r{bounds_.product_of_naturals(*p.low, *q.low, *p.high, *q.high),
                      bounds_.product_of_naturals(*p.high, *q.high, *p.high, *q.high)};
        return r.complete() ? r : Range{};
      }
      case Op::And:
        for (const Id a : {n.args[0], n.args[1]})
          if (cfg_.is_const(a) && imm(a) >= 0 && imm(a) < kMostOffset) return {number(0), number(imm(a))};
        return {};
      case Op::FloorMod:
        if (!cfg_.is_const(n.args[1]) || imm(n.args[1]) <= 0) return {};
        return {number(0), plus(bounds_.leaf(n.args[1]), -1)};
      case Op::Load:
      case Op::Extend:
        switch (n.mem) {
          case Mem::U8: return {number(0), number(255)};
          case Mem::I8: return {number(-128), number(127)};
          case Mem::U16: return {number(0), number(65535)};
          case Mem::I16: return {number(-32768), number(32767)};
          case Mem::U32: return {number(0), number((int64_t{1} << 32) - 1)};
          case Mem::I32: return {number(-(int64_t{1} << 31)), number((int64_t{1} << 31) - 1)};
          default: return {};
        }
      case Op::Select:
        // An index that would count from the end.
        if (wraps(n)) {
          Range r = range(n.args[2], b, at, depth + 1);
          if (r.low && bounds_.at_most(number(0), *r.low)) return r;
        }
        return {};
      default:
        if (is_comparison(n.op)) return {number(0), number(1)};
        return {};
    }
  }

  bool wraps(const Node& n) const {
    const Node& c = cfg_.at(n.args[0]);
    return !cfg_.is_param[n.args[0]] && c.op == Op::Lt && c.args[0] == n.args[2] && cfg_.is_const(c.args[1]) &&
           imm(c.args[1]) == 0 && cfg_.at(n.args[2]).type == Type::I64;
  }

  /// Is a value of this lower bound never negative, by that or by the conditions that control has passed?
  bool is_natural(Id v, const Bound& low) {
    if (bounds_.at_most(number(0), low)) return true;
    const std::size_t mark = bounds_.needed();
    const Range known = facts(v, here_, at_);
    if (known.low && bounds_.at_most(number(0), *known.low)) return true;
    return bounds_.keep(mark), false;
  }

  /// Is the node not needed under conditions?
  bool decide(Id id) {
    const Node n = cfg_.at(id);
    switch (n.op) {
      case Op::Check: {
        const Id c = n.args[0];
        if (!cfg_.is_param[c] && (cfg_.at(c).op == Op::AllOf || cfg_.at(c).op == Op::Finite)) return false;
        if (!is_inside(c)) return bounds_.need({std::nullopt, Bound{c, 0, 0, false}, {}}), true;
        if (!is_integer_comparison(c)) return false;
        const Node what = cfg_.at(c);
        if (what.op == Op::Eq) return false;
        const Range a = range(what.args[0], here_, at_), b = range(what.args[1], here_, at_);
        if (what.op == Op::Below)
          return a.complete() && b.low && is_natural(what.args[0], *a.low) && bounds_.at_most(*a.high, *b.low, 1);
        if (what.op == Op::Ne) {
          if (a.low && b.high && a.low->base == kNone && b.high->base == kNone && a.low->plus > b.high->plus)
            return true;
          return b.high && a.low && bounds_.at_most(*b.high, *a.low, 1);
        }
        return a.high && b.low && bounds_.at_most(*a.high, *b.low, what.op == Op::Lt ? 1 : 0);
      }
      case Op::AddExact:
      case Op::SubExact: {
        const Range a = range(n.args[0], here_, at_), b = range(n.args[1], here_, at_);
        return a.complete() && b.complete();
      }
      case Op::MulExact: {
        const Range r = made_of(id, here_, at_, 0);
        return r.complete();
      }
      case Op::Select: {
        if (!wraps(n)) return false;
        const Range r = range(n.args[2], here_, at_);
        return r.low && bounds_.at_most(number(0), *r.low);
      }
      default: return false;
    }
  }

  // The change.

  /// Appends the nodes that were made since the last call to the end of a block.
  void place_made(uint32_t b) {
    std::vector<Id>& nodes = cfg_.blocks[b].nodes;
    const std::vector<Id> made = bounds_.take_nodes();
    nodes.insert(nodes.end(), made.begin(), made.end());
  }

  /// By value: in how many loops it is computed; what is made for the conditions is in front of this loop.
  std::vector<uint32_t> depths() const {
    std::vector<uint32_t> out(cfg_.nodes.size(), shape_.depth[front_]);
    for (uint32_t b : shape_.order) {
      for (Id v : cfg_.blocks[b].params) out[v] = shape_.depth[b];
      for (Id v : cfg_.blocks[b].nodes) out[v] = shape_.depth[b];
    }
    return out;
  }

  /// Is it 0 or 1?
  bool is_truth(Id v) const { return !cfg_.is_param[v] && is_comparison(cfg_.at(v).op); }

  void split() {
    const Copy copy = copy_blocks(cfg_, members_);
    for (const auto& [block, slow] : copy.blocks)  // other values come first
      if (uint32_t& level = cfg_.blocks[slow].level; level > 1) --level;
    const Edge on = cfg_.blocks[front_].to[0];
    const auto fresh = [&] {
      cfg_.blocks.emplace_back();
      return static_cast<uint32_t>(cfg_.blocks.size() - 1);
    };
    const uint32_t slow = fresh(), fast = fast_ = fresh();
    cfg_.blocks[slow].end = cfg_.blocks[fast].end = Block::End::Jump;
    cfg_.blocks[fast].to[0] = on;
    cfg_.blocks[slow].to[0] = on;
    cfg_.blocks[slow].to[0].block = copy.blocks.at(head_);
    // What is known earlier comes first, so that it can be asked once for several rounds of the loops around this one.
    const std::vector<uint32_t> depth = depths();
    const auto depth_of = [&](const Condition& c) {
      const auto of = [&](Id v) { return v == kNone ? 0 : depth[v]; };
      return std::max(of(c.a.base), of(c.b.base));
    };
    std::stable_sort(wanted_.begin(), wanted_.end(),
                     [&](const Condition& a, const Condition& b) { return depth_of(a) < depth_of(b); });
    Id all = kNone;
    for (const Condition& c : wanted_) {
      Id holds = c.op ? bounds_.node(*c.op, bounds_.value(c.a), bounds_.value(c.b)) : c.a.base;
      if (!is_truth(holds)) holds = bounds_.node(Op::Ne, holds, bounds_.constant(0));
      all = all == kNone ? holds : bounds_.node(Op::And, all, holds);
    }
    place_made(front_);
    Block& block = cfg_.blocks[front_];
    block.end = Block::End::Branch;
    block.condition = all;
    block.to[0] = {fast, {}};
    block.to[1] = {slow, {}};
    mend(cfg_, copy, block_of_);
  }

  void change() {
    Names names(cfg_.nodes.size());
    bool renamed = false;
    for (Id id : done_) {
      Node& n = cfg_.nodes[id];
      n.exit = kNone;
      switch (n.op) {
        case Op::AddExact: n.op = Op::Add; break;
        case Op::SubExact: n.op = Op::Sub; break;
        case Op::MulExact: n.op = Op::Mul; break;
        case Op::Select:
          names.replace(id, n.args[2]);
          renamed = true;
          break;
        default: break;
      }
    }
    for (uint32_t b : members_)
      std::erase_if(cfg_.blocks[b].nodes, [&](Id id) {
        return cfg_.at(id).op == Op::Check && std::find(done_.begin(), done_.end(), id) != done_.end();
      });
    // A step that is 1 is a constant, and what comes a step earlier is computed from what is there.
    for (const Condition& c : wanted_) {
      if (c.op != Op::Eq) continue;
      const Id one = bounds_.constant(1), step = c.a.base;
      place_made(front_);
      const auto turn = [&](Id& v) {
        if (v == step) v = one;
      };
      for (uint32_t b : members_) {
        for (Id id : cfg_.blocks[b].nodes) {
          for (Id& a : cfg_.nodes[id].args) turn(a);
          if (const uint32_t e = cfg_.at(id).exit; e != kNone)
            for (Id& v : cfg_.exits[e].values) turn(v);
        }
        for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
          for (Id& v : cfg_.blocks[b].to[k].args) turn(v);
      }
      std::vector<Id>& given = cfg_.blocks[fast_].to[0].args;
      for (std::size_t i = 0; i < given.size(); ++i) {
        const Node next = cfg_.at(given[i]);
        if (cfg_.is_param[given[i]] || next.op != Op::Add || next.args[1] != step) continue;
        for (std::size_t j = 0; j < given.size(); ++j) {
          if (given[j] != next.args[0]) continue;
          given[j] = bounds_.node(Op::Sub, given[i], one);
          place_made(fast_);
        }
      }
    }
    if (renamed) rename(cfg_, names);
  }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_, front_;
  const std::vector<uint32_t> members_;
  std::vector<uint32_t> block_of_;  // kNone: the value is not of the loop
  std::vector<Back> backs_;
  Id rounds_ = kNone;  // how many follow, where the loop counts them
  uint32_t body_ = kNone, fast_ = kNone;
  Bounds bounds_;
  std::vector<Condition> wanted_;
  std::vector<Id> done_;
  uint32_t here_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

bool version_loops(Cfg& cfg) {
  bool changed = false;
  std::vector<uint32_t> heads;
  {
    const Shape shape = shape_of(cfg);
    for (uint32_t b : shape.order)
      if (shape.loop[b] == b) heads.push_back(b);
  }
  for (uint32_t head : heads) {
    const Shape shape = shape_of(cfg);
    const std::vector<uint32_t> members = blocks_of_loop(cfg, shape, head);
    std::size_t nodes = 0;
    bool inner = members.size() <= kMostBlocks;
    for (uint32_t b : members) {
      nodes += cfg.blocks[b].nodes.size();
      inner = inner && shape.loop[b] == head;
    }
    if (!inner || nodes > kMostNodes) continue;
    const uint32_t front = front_of(cfg, shape, head);
    if (front == kNone) continue;
    changed = Version(cfg, shape, head, front, members).run() || changed;
  }
  return changed;
}

}  // namespace framejit::cfg
