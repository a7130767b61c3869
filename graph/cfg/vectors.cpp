// Vectors in inner loops whose rounds do not depend on each other.
//
// An inner loop gets a second one in front, which does as many rounds at once as a vector has lanes, in the order:
// loads, operations, checks, stores. Branches within a round become choices, and loads and stores of those lanes in
// which control would come there. Its checks have no exits. Where one fails in any lane, nothing of these rounds is
// stored, and the loop as it was does them, and leaves where it did. That loop also does the last round, if anything is
// used after the loop that is not known from counts and sums. Loads and stores of other rounds meet only where that
// changes nothing: the distances of addresses tell, compared in front of the loop.
//
// Each round may give the next one only counts, what that does not use (variables that it sets itself), and integers
// that are added up and cannot overflow. Loads and stores have neighbours in neighbouring rounds, upwards or downwards,
// or are at one place. Floats are added in their order: vectors give what is added, if that takes long (`AddLanes`). Of
// functions, `pow` with a few exponents is done in lanes (a lane that products do not decide is called for), and those
// of NumPy's that give each of several numbers what they give it alone: one call for all lanes (`Function::in_lanes`).
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/cfg/lanes.h"
#include "graph/cfg/rounds.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostTests = 40;
constexpr int64_t kFewRounds = 4;  // fewer are done one by one
constexpr int64_t kFewLanes = 4;   // the least that are done at once
constexpr int kWideBytes = 64;     // vectors of this size take a number of lanes
constexpr int64_t kMostCount = int64_t{1} << 62;
constexpr std::size_t kMostTwice = 32;  // nodes of rounds that are done in two vectors

class Vectors : Rounds {
 public:
  Vectors(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, int bytes)
      : Rounds(cfg, shape, head, front, true), bytes_(bytes) {}

  bool run() {
    if (!line_up()) return false;
    find_params();
    std::vector<Step> steps;
    steps.swap(order_);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      Step s = steps[i];
      if (skipped_.count(s.id) != 0) continue;
      if (const Id chosen = stores_anyway(steps, i); chosen != kNone) {
        if (!classify({chosen, kNone})) return false;
        s.where = kNone;
      }
      if (!classify(s)) return false;
    }
    if (!find_next() || !find_lanes() || !find_meetings()) return false;
    ends_ = is_known_after() && !is_used_outside();
    // Vectors of such loops need as many rounds as they have lanes; fewer are done one after the other.
    if (!in_order_.empty()) unroll_loop(cfg_, shape_, head_, front_);
    build();
    return true;
  }

 private:
  struct Param {
    // Follows: what the round before had, and no round uses; of the last one, for numbers in lanes. Sums: of integers.
    // InOrder: of floats, one after the other.
    enum Kind : uint8_t { Counts, Follows, OfLast, Sums, InOrder } kind = Counts;
    Id next = kNone;   // what the next round gets
    Id added = kNone;  // Sums, InOrder: in each round
  };

  // What rounds give to each other.

  void find_params() {
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      Param p;
      p.next = next_[i];
      const Node& n = cfg_.at(p.next);
      const bool adds = n.op == Op::Add && !cfg_.is_param[p.next] && n.args[0] == params[i];
      const std::optional<int64_t> by = adds ? number(n.args[1]) : std::nullopt;
      if (by && is_within(*by, kMostStep) && cfg_.at(params[i]).type == Type::I64) {
        form_[params[i]] = {Form::Steps, *by, false};
      } else if (!find_sum(p, params[i]) && !find_sum_in_order(p, params[i])) {
        p.kind = Param::Follows;
        unknown_.insert(params[i]);
      }
      params_.push_back(p);
    }
  }

  /// Integers that are added up and not used otherwise, if the sums stay small.
  bool find_sum(Param& p, Id param) {
    if (cfg_.at(param).type != Type::I64 || p.next == param) return false;
    std::set<Id> chain;
    if (!is_sum(p.next, param, chain)) return false;
    chain.insert(param);
    const auto uses = [&](Id v) { return v != kNone && chain.count(v) != 0; };
    for (const Step& s : order_) {
      const Node& n = cfg_.at(s.id);
      const bool chained = chain.count(s.id) != 0;
      if (uses(s.where)) return false;
      for (int i = 0; i < Node::kMostOperands; ++i)
        if (uses(n.args[i]) && (!chained || (n.op == Op::Select && i == 0))) return false;
    }
    for (std::size_t i = 0; i < next_.size(); ++i)
      if (uses(next_[i]) && cfg_.blocks[head_].params[i] != param) return false;
    if (uses(end_condition_)) return false;
    const Id added = added_to(p.next, param);
    const std::optional<Interval> each = added == kNone ? std::nullopt : interval(cfg_, added);
    constexpr int64_t kMostAdded = int64_t{1} << 32;
    if (!each || !is_within(each->low, kMostAdded) || !is_within(each->high, kMostAdded)) return false;
    chain.erase(param);
    skipped_.insert(chain.begin(), chain.end());
    unknown_.insert(param);
    p.kind = Param::Sums;
    p.added = added;
    return true;
  }

  /// A float64 that is added to in each round and not used otherwise, if what is added takes longer than the sum.
  bool find_sum_in_order(Param& p, Id param) {
    const Node sum = cfg_.at(p.next);
    if (sum.type != Type::F64 || cfg_.is_param[p.next] || !is_inside(p.next) || sum.args[0] == sum.args[1])
      return false;
    if (sum.op != Op::Add && (sum.op != Op::Sub || sum.args[0] != param)) return false;
    if (sum.args[0] != param && sum.args[1] != param) return false;
    bool takes_long = false;
    for (const Step& s : order_) {
      const Node& n = cfg_.at(s.id);
      takes_long = takes_long || n.op == Op::Div || n.op == Op::Sqrt || n.op == Op::Call;
      if (s.id == p.next && s.where != kNone) return false;
      if (s.where == p.next || s.where == param) return false;
      for (Id a : n.args) {
        if (a == param && s.id != p.next) return false;
        if (a == p.next && a != kNone && n.op != Op::CheckFinite) return false;
      }
    }
    for (std::size_t i = 0; i < next_.size(); ++i)
      if ((next_[i] == p.next || next_[i] == param) && cfg_.blocks[head_].params[i] != param) return false;
    if (!takes_long || end_condition_ == p.next || end_condition_ == param) return false;
    p.added = sum.args[0] == param ? sum.args[1] : sum.args[0];
    if (sum.op == Op::Sub) p.added = copy(Op::Neg, Type::F64, p.added, kNone);
    p.kind = Param::InOrder;
    skipped_.insert(p.next);
    unknown_.insert(param);
    in_order_.insert(p.next);
    return true;
  }

  bool is_sum(Id v, Id param, std::set<Id>& chain) const {
    if (v == param) return true;
    if (cfg_.is_param[v] || !is_inside(v)) return false;
    const Node& n = cfg_.at(v);
    chain.insert(v);
    if (n.op == Op::Add || n.op == Op::AddExact || n.op == Op::Sub || n.op == Op::SubExact)
      return is_sum(n.args[0], param, chain);
    return n.op == Op::Select && is_sum(n.args[1], param, chain) && is_sum(n.args[2], param, chain);
  }

  /// What a chain adds, as a node; none: nothing.
  Id added_to(Id v, Id param) {
    if (v == param) return kNone;
    const Node n = cfg_.at(v);
    if (n.op == Op::Select) {
      const Id a = added_to(n.args[1], param), b = added_to(n.args[2], param);
      const Id zero = copied_constant(0);
      return a == b ? a : copy(Op::Select, Type::I64, n.args[0], a == kNone ? zero : a, b == kNone ? zero : b);
    }
    const Id before = added_to(n.args[0], param);
    const bool adds = n.op == Op::Add || n.op == Op::AddExact;
    if (adds && before == kNone) return n.args[1];
    return copy(adds ? Op::Add : Op::Sub, Type::I64, before == kNone ? copied_constant(0) : before, n.args[1]);
  }

  /// Once all forms are known: what is given to the next round is known from the count, or is a sum of integers.
  bool find_next() {
    for (Param& p : params_) {
      if (p.kind != Param::Follows) continue;
      if (unknown_.count(p.next) != 0) return false;
      if (form(p.next).kind == Form::Lanes && !is_comparison(cfg_.at(p.next).op)) p.kind = Param::OfLast;
      else if (form(p.next).kind == Form::Lanes || form(p.next).loaded) return false;
    }
    const Node& c = cfg_.at(end_condition_);
    const int which = form(c.args[0]).kind == Form::Steps ? 0 : 1;
    const Form counts = form(c.args[which]), end = form(c.args[1 - which]);
    if (unknown_.count(c.args[0]) != 0 || unknown_.count(c.args[1]) != 0) return false;
    if (counts.kind != Form::Steps || counts.loaded || end.kind != Form::Fixed || end.loaded) return false;
    if (counts.step != 1 && counts.step != -1) return false;
    count_ = c.args[which];
    end_ = c.args[1 - which];
    step_ = counts.step;
    return true;
  }

  // Whether the loop as it was need not do the last round.

  /// Is all that the loop hands on when it ends known from counts and from what the next round would get?
  bool is_known_after() const {
    const std::vector<Id>& args = cfg_.blocks[last_].to[1 - back_].args;
    return std::all_of(args.begin(), args.end(), [&](Id arg) {
      const Id v = name(arg);
      if (!is_inside(v) || std::find(next_.begin(), next_.end(), v) != next_.end()) return true;
      return form(v).kind != Form::Lanes && !form(v).loaded && unknown_.count(v) == 0 && skipped_.count(v) == 0;
    });
  }

  // Which nodes can be done in lanes.

  /// A store of some rounds to a place that all rounds have read: makes it one of all rounds, and gives the choice that
  /// they store; else none. AVX2 stores some of the lanes slowly, or not at all.
  Id stores_anyway(const std::vector<Step>& steps, std::size_t at) {
    const Step& step = steps[at];
    const Node n = cfg_.at(step.id);
    if (n.op != Op::Store || step.where == kNone || bytes_ == kWideBytes) return kNone;
    for (std::size_t i = at; i-- > 0;) {
      const Node& m = cfg_.at(steps[i].id);
      if (m.op == Op::Store) return kNone;  // which may have changed what was read
      if (m.op != Op::Load || steps[i].where != kNone || !is_same_place(m, n)) continue;
      const Id chosen = copy(node(Op::Select, m.type, step.where, n.args[2], steps[i].id));
      return cfg_.nodes[step.id].args[2] = chosen;
    }
    return kNone;
  }

  bool classify(const Step& step) {
    const Id id = step.id;
    const Node n = cfg_.at(id);
    for (Id a : n.args)
      if (a != kNone && unknown_.count(a) != 0) return false;
    if (id == end_condition_) return true;  // asked once for all lanes
    if (step.where != kNone && unknown_.count(step.where) != 0) return false;
    if (n.op == Op::AddExact || n.op == Op::SubExact) return classify_exact(step);
    order_.push_back(step);
    if (n.op == Op::Load || n.op == Op::Store) return classify_access(step);
    if (n.op == Op::Poll || n.op == Op::CheckFinite) return true;
    if (n.op == Op::Check) return form(n.args[0]).kind == Form::Lanes && form(n.args[0]).loaded;
    const bool is_integer = n.type == Type::I64;
    const int operands = info(n.op).operands;
    Form out{Form::Fixed, 0, false};
    for (int i = 0; i < operands; ++i) {
      out.kind = std::max(out.kind, form(n.args[i]).kind);
      out.loaded = out.loaded || form(n.args[i]).loaded;
    }
    if (out.kind == Form::Steps && is_integer && (n.op == Op::Add || n.op == Op::Sub)) {
      const int64_t a = form(n.args[0]).step, b = form(n.args[1]).step;
      out.step = n.op == Op::Add ? a + b : a - b;
      form_[id] = out;
      return is_within(out.step, kMostStep);
    }
    if (out.kind == Form::Steps && is_integer && n.op == Op::Mul)
      for (const int i : {0, 1})
        if (const std::optional<int64_t> by = number(n.args[i]); by && is_within(*by, kMostStep)) {
          out.step = form(n.args[1 - i]).step * *by;
          form_[id] = out;
          return is_within(out.step, kMostStep);
        }
    if (out.kind == Form::Fixed) {
      form_[id] = out;
      const bool divides = n.op == Op::FloorDiv || n.op == Op::FloorMod;  // which may stop the process
      return info(n.op).effect == Effect::Pure && n.op != Op::Call && !divides;
    }
    out.kind = Form::Lanes;
    form_[id] = out;
    return can_be_lanes(cfg_, n, bytes_ == kWideBytes);
  }

  /// A sum of integers that has to be exact: the sum, and a check of its sign.
  bool classify_exact(const Step& step) {
    const Node n = cfg_.at(step.id);
    if (std::max(form(n.args[0]).kind, form(n.args[1]).kind) != Form::Lanes) return false;
    Node sum = n;
    sum.op = n.op == Op::AddExact ? Op::Add : Op::Sub;
    sum.exit = kNone;
    cfg_.nodes[step.id] = sum;  // a copy
    if (!classify(step)) return false;
    std::vector<Step> held;
    held.swap(order_);
    const Id a = copy(Op::Xor, Type::I64, n.args[0], n.op == Op::AddExact ? step.id : n.args[1]);
    const Id b = copy(Op::Xor, Type::I64, n.op == Op::AddExact ? n.args[1] : n.args[0], step.id);
    const Id holds = copy(Op::Le, Type::I64, copied_constant(0), copy(Op::And, Type::I64, a, b));
    Node check;
    check.op = Op::Check;
    check.args[0] = holds;
    order_.push_back({copy(check), step.where});
    held.swap(order_);
    for (const Step& s : held)
      if (cfg_.at(s.id).op != Op::Check) {
        if (!classify(s)) return false;
      } else {
        order_.push_back(s);
      }
    return true;
  }

  bool compares(Id c) const { return c != kNone && !cfg_.is_param[c] && is_comparison(cfg_.at(c).op); }

  bool classify_access(const Step& step) {
    const Node& n = cfg_.at(step.id);
    const Form base = form(n.args[0]), index = n.args[1] == kNone ? Form{} : form(n.args[1]);
    if (base.kind == Form::Lanes || index.kind == Form::Lanes || base.loaded || index.loaded) return false;
    const Access access{step.id, n, base.step + index.step * n.scale, accesses_.size(), n.op == Op::Store};
    const int64_t size = size_of(n.mem);
    const bool steps = access.stride == size || access.stride == -size;
    if (step.where != kNone &&
        (!steps || (bytes_ != kWideBytes && (size != 8 || compared_type(cfg_, step.where) == Type::F32))))
      return false;
    if (access.stores) {
      if (!steps) return false;
    } else {
      if (access.stride != 0 && !steps) return false;
      form_[step.id] = {access.stride == 0 ? Form::Fixed : Form::Lanes, 0, true};
    }
    accesses_.push_back(access);
    return true;
  }

  bool find_lanes() {
    bool works = false, only_f32 = true;
    for (const Param& p : params_) {
      if (p.kind != Param::Sums && p.kind != Param::InOrder) continue;
      works = true;
      only_f32 = false;
    }
    const auto see = [&](Id v) {
      const bool is_mask = compares(v) && form(v).kind == Form::Lanes;  // else an integer, put into all lanes
      if (!is_mask) only_f32 = only_f32 && cfg_.at(v).type == Type::F32;
    };
    for (const Step& s : order_) {
      const Node& n = cfg_.at(s.id);
      if (s.where != kNone) see(s.where);
      if (n.op == Op::Poll) continue;
      if (n.op == Op::Store) {
        works = true;
        see(n.args[2]);
        if (compares(n.args[2])) only_f32 = false;
        continue;
      }
      if (n.type == Type::None || form(s.id).kind != Form::Lanes) continue;
      see(s.id);
      if (n.op == Op::Load) continue;
      for (int i = 0; i < info(n.op).operands && n.args[i] != kNone; ++i) {
        see(n.args[i]);
        const bool asks = i == 0 && n.op == Op::Select;
        if (!asks && compares(n.args[i])) only_f32 = false;
      }
    }
    lanes_ = bytes_ / (only_f32 ? 4 : 8);
    return works;
  }

  // Which addresses have to be apart.

  /// In front of the loop: no more than `bytes` lie between two addresses, or rounds of them.
  struct Meeting {
    std::size_t store, other;
    bool behind;  // the other access stands behind the store
  };

  bool find_meetings() {
    twice_ = can_be_twice();
    for (std::size_t s = 0; s < accesses_.size(); ++s) {
      if (!accesses_[s].stores) continue;
      for (std::size_t o = 0; o < accesses_.size(); ++o) {
        if (o == s || (accesses_[o].stores && o > s)) continue;
        const Access &store = accesses_[s], &other = accesses_[o];
        // Two stores: the later one takes the place of the store, as it is done for all lanes once the other one is.
        const bool behind = other.place > store.place;
        const Node &a = store.node, &b = other.node;
        if (store.stride == other.stride && size_of(a.mem) == size_of(b.mem) && a.args[0] == b.args[0] &&
            a.args[1] == b.args[1] && a.scale == b.scale) {
          if (!is_apart(a.imm - b.imm, store.stride, behind, lanes_)) return false;
          twice_ = twice_ && is_apart(a.imm - b.imm, store.stride, behind, 2 * lanes_);
          continue;
        }
        if (!passed_ && may_pass(store, other)) passed_ = {s, o, behind};
        else meetings_.push_back({s, o, behind});
      }
    }
    return meetings_.size() <= kMostTests;
  }

  /// Are the rounds so short that counting them takes a large part of their time?
  bool can_be_twice() const {
    if (bytes_ == kWideBytes || !in_order_.empty() || order_.size() > kMostTwice) return false;
    return std::none_of(order_.begin(), order_.end(), [&](const Step& s) { return cfg_.at(s.id).op == Op::Call; });
  }

  /// Does each round read one number, at a fixed address, before it stores, and may a store of the loop reach that
  /// address? Then one vector ends with the round that stores there, and the next one reads the number again.
  bool may_pass(const Access& store, const Access& other) const {
    const int64_t size = size_of(store.node.mem);
    return counts_lanes() && !other.stores && other.stride == 0 && store.stride == size &&
           size_of(other.node.mem) == size && other.place < store.place && other.node.args[0] == store.node.args[0];
  }

  /// Do vectors take a number of lanes?
  bool counts_lanes() const { return bytes_ == kWideBytes && in_order_.empty(); }

  /// How many bytes the store is in front of the number that it may come to.
  Id distance(const std::vector<Id>& state) {
    enter(state);
    const Id to = address(accesses_[passed_->other]);
    return make(Op::Sub, to, address(accesses_[passed_->store]));
  }

  /// Does one of so many stores, but not the last one, come to it?
  Id passes(const std::vector<Id>& state, Id rounds) {
    const Id size = constant(size_of(accesses_[passed_->store].node.mem));
    const Id others = make(Op::Add, rounds, constant(-1));
    return make(Op::Below, distance(state), make(Op::Mul, others, size));
  }

  /// Does what is stored `distance` bytes above what the other access reads in the same round not change what other
  /// rounds read?
  static bool is_apart(int64_t distance, int64_t stride, bool behind, int64_t rounds) {
    if (stride < 0) {
      distance = -distance;
      stride = -stride;
    }
    return distance <= (behind ? -stride : 0) || distance >= rounds * stride;
  }

  Node lanes_of(Op op, Type type, Id a = kNone, Id b = kNone, Id c = kNone) const {
    Node n;
    n.op = op;
    n.type = type;
    n.lanes = static_cast<uint8_t>(lanes_);
    n.args[0] = a;
    n.args[1] = b;
    n.args[2] = c;
    return n;
  }

  Id splat(Id v) { return add(lanes_of(Op::Splat, cfg_.at(v).type, v)); }

  Id vector(Id v) {
    if (v == kNone) return kNone;
    if (const auto at = vectors_.find(v); at != vectors_.end()) return at->second;
    const Form f = form(v);
    if (f.kind == Form::Fixed) return vectors_[v] = splat(scalar(v));
    Node n;
    if (f.kind == Form::Lanes) {
      n = cfg_.at(v);
      n.lanes = static_cast<uint8_t>(lanes_);
      for (Id& a : n.args) a = vector(a);
    } else {
      n = lanes_of(Op::Ramp, Type::I64, scalar(v), constant(f.step));
    }
    return vectors_[v] = add(n);
  }

  /// In the order of addresses.
  Id ordered(Id v, int64_t stride) {
    if (v == kNone || stride > 0) return v;
    if (!is_comparison(cfg_.at(v).op)) return add(lanes_of(Op::Reverse, cfg_.at(v).type, v));
    const Id zero = splat(constant(0)), one = splat(constant(1));
    return add(lanes_of(Op::Reverse, Type::I64, add(lanes_of(Op::Select, Type::I64, v, one, zero))));
  }

  /// The integer whose sign a check tests, if the check is made in each round; else none.
  Id sign_word(const Step& step) const {
    const Id condition = cfg_.at(step.id).args[0];
    const Node& n = cfg_.at(condition);
    const bool asks_sign = !cfg_.is_param[condition] && n.op == Op::Le && number(n.args[0]) == 0;
    return step.where == kNone && asks_sign && cfg_.at(n.args[1]).type == Type::I64 ? n.args[1] : kNone;
  }

  /// Stores and checks of the rounds that are done at once. They are made once all loads of these rounds are done.
  struct Waiting {
    std::vector<Node> stores;
    Id words = kNone;   // below 0 in lanes in which a sum has overflowed
    Id finite = kNone;  // not finite in lanes in which a number that is asked for is not
  };

  /// The rounds of all lanes, or of the first `count`, without their stores.
  void lanes(Id count, const Edge& fails, Waiting& waiting) {
    vectors_.clear();
    for (const Step& step : order_) {
      const Node n = cfg_.at(step.id);
      const auto where_it_holds = [&](Id v, Node otherwise) {
        if (step.where == kNone) return v;
        return add(lanes_of(Op::Select, otherwise.type, vector(step.where), v, splat(add(otherwise))));
      };
      Node other;
      switch (n.op) {
        case Op::Check:
          if (const Id word = sign_word(step); word != kNone) {
            Id& words = waiting.words;
            words = words == kNone ? vector(word) : add(lanes_of(Op::Or, Type::I64, words, vector(word)));
            break;
          }
          other.type = Type::I64;
          other.imm = 1;
          require(test(Op::AllOf, where_it_holds(vector(n.args[0]), other), count), true, fails);
          break;
        case Op::CheckFinite: {
          if (in_order_.count(n.args[0]) != 0) break;  // asked of the sum of all lanes
          other.type = cfg_.at(n.args[0]).type;
          const Id asked = where_it_holds(vector(n.args[0]), other);
          if (!twice_ || other.type != Type::F64) {
            require(test(Op::Finite, asked, count), true, fails);
            break;
          }
          Id& finite = waiting.finite;
          if (finite == kNone) {
            finite = asked;
          } else {
            // A number less itself is 0, or NaN if it is not finite.
            const Id before = add(lanes_of(Op::Sub, Type::F64, finite, finite));
            finite = add(lanes_of(Op::Add, Type::F64, asked, before));
          }
          break;
        }
        case Op::Load:
          if (form(step.id).kind == Form::Lanes)
            vectors_[step.id] = load(n, access_of(step.id).stride, count, step.where);
          else if (const auto at = read_before_.find(step.id); at != read_before_.end()) scalars_[step.id] = at->second;
          else scalar(step.id);
          break;
        case Op::Store: {
          const int64_t stride = access_of(step.id).stride;
          Node made = at_first_byte(n, stride, count);
          made.args[2] = ordered(vector(n.args[2]), stride);
          made.where = ordered(vector(step.where), stride);
          waiting.stores.push_back(made);
          break;
        }
        default: break;
      }
    }
  }

  /// The rounds of all lanes, or of the first `count`, up to what the next round gets. What they add to sums is added
  /// to `in_lanes`, which gets what the last round knows too; if there are none, the numbers get both. Where a check
  /// fails, control goes along the edge.
  std::vector<Id> rounds(std::vector<Id> state, Id count, std::vector<Id>* in_lanes, const Edge& fails,
                         bool twice = false) {
    if (std::any_of(order_.begin(), order_.end(), [&](const Step& s) { return cfg_.at(s.id).op == Op::Poll; })) {
      Node waits;
      waits.op = Op::Waits;
      waits.type = Type::I64;
      require(add(waits), false, fails);
    }
    Waiting waiting;
    enter(state);
    lanes(count, fails, waiting);
    if (twice) {
      state = next_of(count, in_lanes, {});
      enter(state);
      lanes(count, fails, waiting);
    }
    if (waiting.words != kNone) {
      const Id holds = add(lanes_of(Op::Le, Type::I64, splat(constant(0)), waiting.words));
      require(test(Op::AllOf, holds, count), true, fails);
    }
    if (waiting.finite != kNone) require(test(Op::Finite, waiting.finite, count), true, fails);
    std::map<std::size_t, Id> totals;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      if (params_[i].kind != Param::InOrder) continue;
      Node total;
      total.op = Op::AddLanes;
      total.type = Type::F64;
      total.args[0] = vector(params_[i].added);
      total.args[1] = scalar(cfg_.blocks[head_].params[i]);
      totals[i] = add(total);
      require(test(Op::Finite, totals[i], kNone), true, fails);
    }
    for (const Node& store : waiting.stores) add(store);
    return next_of(count, in_lanes, totals);
  }

  /// The variables of the loop once the rounds of all lanes, or of the first `count`, are done.
  std::vector<Id> next_of(Id count, std::vector<Id>* in_lanes, const std::map<std::size_t, Id>& totals) {
    std::vector<Id> next;
    const Id done = count == kNone ? constant(lanes_) : count;
    std::size_t lanes = 0;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const Id p = cfg_.blocks[head_].params[i];
      const Param& param = params_[i];
      if (param.kind == Param::Sums) {
        if (in_lanes) {
          (*in_lanes)[lanes] = add(lanes_of(Op::Add, Type::I64, (*in_lanes)[lanes], vector(param.added)));
          ++lanes;
          next.push_back(scalar(p));
        } else {
          next.push_back(make(Op::Add, scalar(p), test(Op::SumOf, vector(param.added), count)));
        }
      } else if (param.kind == Param::InOrder) {
        next.push_back(totals.at(i));
      } else if (param.kind == Param::OfLast && in_lanes) {
        (*in_lanes)[lanes++] = vector(param.next);
        next.push_back(scalar(p));
      } else if (param.kind == Param::OfLast) {
        next.push_back(
            lane(vector(param.next), count == kNone ? constant(lanes_ - 1) : make(Op::Add, count, constant(-1))));
      } else if (param.kind == Param::Counts) {
        next.push_back(later(scalar(p), form(p).step, done, 0));
      } else {
        next.push_back(later(scalar(param.next), form(param.next).step, done, -1));
      }
    }
    return next;
  }

  /// What a loop over vectors has in lanes until it is left: sums, and what is known of the last round.
  static bool is_in_lanes(const Param& p) { return p.kind == Param::Sums || p.kind == Param::OfLast; }

  /// A state with what is in lanes.
  std::vector<Id> gathered(std::vector<Id> state, const std::vector<Id>& in_lanes) {
    auto lanes = in_lanes.begin();
    for (std::size_t i = 0; i < params_.size(); ++i) {
      if (!is_in_lanes(params_[i])) continue;
      const Id v = *lanes++;
      state[i] = params_[i].kind == Param::Sums ? make(Op::Add, state[i], test(Op::SumOf, v, kNone))
                                                : lane(v, constant(lanes_ - 1));
    }
    return state;
  }

  Id lane(Id v, Id which) {
    Node n;
    n.op = Op::Lane;
    n.type = cfg_.at(v).type;
    n.args[0] = v;
    n.args[1] = which;
    return add(n);
  }

  /// What counts by a step, some rounds later.
  Id later(Id v, int64_t step, Id rounds, int64_t plus) {
    if (step == 0) return v;
    if (cfg_.is_const(rounds)) return make(Op::Add, v, constant((cfg_.at(rounds).imm + plus) * step));
    if (plus != 0) rounds = make(Op::Add, rounds, constant(plus));
    if (step != 1) rounds = make(Op::Mul, rounds, constant(step));
    return make(Op::Add, v, rounds);
  }

  Node at_first_byte(Node n, int64_t stride, Id count) {
    n.args[0] = scalar(n.args[0]);
    n.args[1] = scalar(n.args[1]);
    n.lanes = static_cast<uint8_t>(lanes_);
    n.count = count;
    n.from_last = count != kNone && stride < 0;
    if (stride < 0) n.imm += (lanes_ - 1) * stride;
    return n;
  }

  Id load(const Node& what, int64_t stride, Id count, Id where) {
    Node n = at_first_byte(what, stride, count);
    n.where = ordered(vector(where), stride);
    return ordered(add(n), stride);
  }

  Id test(Op op, Id v, Id count) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = v;
    n.count = count;
    return add(n);
  }

  void build() {
    const uint32_t level = cfg_.blocks[head_].level, outside = cfg_.blocks[front_].level;
    const bool takes_count = counts_lanes();
    const bool halves = takes_count && reads_what_it_writes();
    const uint32_t first = block(outside);
    const uint32_t otherwise = std::exchange(cfg_.blocks[front_].to[0].block, first);
    // Are there enough rounds, do sums stay small, and are addresses apart?
    std::vector<Id> state = begin(first);
    const Edge one_by_one{otherwise, state};
    const Id more = left(state);
    require(at_least(takes_count ? kFewRounds : lanes_, more), true, one_by_one);
    require_order(state, one_by_one);
    bool has_sums = false;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      if (params_[i].kind != Param::Sums) continue;
      if (!std::exchange(has_sums, true)) require(make(Op::Below, more, constant(int64_t{1} << 28)), true, one_by_one);
      constexpr int64_t kMost = int64_t{1} << 61;
      require(make(Op::Below, make(Op::Add, state[i], constant(kMost)), constant(2 * kMost)), true, one_by_one);
    }
    Id near = kNone;  // so near that two vectors may meet
    for (const Meeting& m : meetings_) {
      const Access &store = accesses_[m.store], &other = accesses_[m.other];
      const int64_t size = size_of(store.node.mem);
      if (store.stride == other.stride && size == size_of(other.node.mem)) {
        const Id a = address(store), b = address(other);
        const Id apart = store.stride > 0 ? make(Op::Sub, a, b) : make(Op::Sub, b, a);
        // From 1 on, or from -size + 1 on, up to all lanes.
        const int64_t low = m.behind ? 1 - size : 1;
        const Id above = make(Op::Sub, apart, constant(low));
        require(make(Op::Below, above, constant(lanes_ * size - low)), false, one_by_one);
        if (!twice_) continue;
        const Id is_near = make(Op::Below, above, constant(2 * lanes_ * size - low));
        near = near == kNone ? is_near : make(Op::Or, near, is_near);
      } else {
        require(meet(span(store, more), span(other, more)), false, one_by_one);
      }
    }
    if (passed_) {
      const Id off = make(Op::And, distance(state), constant(size_of(accesses_[passed_->store].node.mem) - 1));
      require(make(Op::Eq, off, constant(0)), true, one_by_one);
    }
    if (!passed_) {
      // No store of the loop reaches what all rounds read at one place.
      enter(state);
      for (const Access& a : accesses_)
        if (!a.stores && a.stride == 0) read_before_[a.id] = scalar(a.id);
    }
    const uint32_t twice = twice_ ? block(level) : kNone;
    const uint32_t wide = block(level), rest = takes_count || ends_ ? block(outside) : head_;
    const auto with = [](std::vector<Id> a, const std::vector<Id>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    const int64_t all = lanes_;
    std::vector<Id> in_lanes;
    for (std::size_t i = 0; i < params_.size(); ++i)
      if (is_in_lanes(params_[i])) in_lanes.push_back(splat(params_[i].kind == Param::Sums ? constant(0) : state[i]));
    const Id last = last_start(state, all), last_twice = twice_ ? last_start(state, 2 * all) : kNone;
    if (takes_count) {
      branch(at_least(all, more), {wide, with(state, in_lanes)}, {rest, state});
    } else if (twice_) {
      if (near != kNone) require(near, false, {wide, with(state, in_lanes)});
      branch(at_least(2 * all, more), {twice, with(state, in_lanes)}, {wide, with(state, in_lanes)});
    } else {
      jump({wide, with(state, in_lanes)});
    }
    const auto begin_lanes = [&](uint32_t b) {
      state = begin(b);
      for (Id& v : in_lanes) v = cfg_.add_param(b, cfg_.at(v).type, static_cast<uint8_t>(lanes_));
    };
    const auto aside = [&](uint32_t to, const std::vector<Id>& now, const std::vector<Id>& added) -> Edge {
      if (added.empty()) return {to, now};
      const uint32_t held = std::exchange(at_, block(outside));
      jump({to, gathered(now, added)});
      return {std::exchange(at_, held), {}};
    };
    if (twice_) {
      begin_lanes(twice);
      const std::vector<Id> next = rounds(state, kNone, &in_lanes, aside(head_, state, in_lanes), true);
      require(starts_by(next, last_twice), false, {twice, with(next, in_lanes)});
      branch(starts_by(next, last), {wide, with(next, in_lanes)}, aside(rest, next, in_lanes));
    }
    // All lanes.
    begin_lanes(wide);
    const Edge fails = aside(head_, state, in_lanes);
    const uint32_t some_lanes = passed_ ? block(level) : kNone;
    if (passed_) require(passes(state, constant(all)), false, {some_lanes, with(state, in_lanes)});
    std::vector<Id> next = rounds(state, kNone, &in_lanes, fails);
    const auto go_on = [&](const std::vector<Id>& added) {
      const Id again = starts_by(next, last);
      const Edge done = aside(rest, next, added);
      branch(again, {wide, with(next, added)}, done);
    };
    go_on(in_lanes);
    if (passed_) {
      begin_lanes(some_lanes);
      const Edge fails_there = aside(head_, state, in_lanes);
      const int64_t size = size_of(accesses_[passed_->store].node.mem);
      const Id before = make(Op::Shr, distance(state), constant(std::countr_zero(static_cast<uint64_t>(size))));
      next = rounds(state, make(Op::Add, before, constant(1)), nullptr, fails_there);
      auto lanes = in_lanes.begin();
      for (std::size_t i = 0; i < params_.size(); ++i) {
        if (params_[i].kind == Param::OfLast) *lanes = splat(next[i]);
        lanes += is_in_lanes(params_[i]);
      }
      go_on(in_lanes);
    }
    if (rest == head_) return;
    // As many as are left.
    state = begin(rest);
    for (int64_t half = all / 2; halves && half >= kFewLanes; half /= 2) {
      const uint32_t some = block(outside), fewer = block(outside);
      branch(at_least(half, left(state)), {some, state}, {fewer, state});
      const std::vector<Id> before = begin(some);
      if (passed_) require(passes(before, constant(half)), false, {head_, before});
      lanes_ = static_cast<int>(half);
      jump({fewer, rounds(before, kNone, nullptr, {head_, before})});
      state = begin(fewer);
    }
    const uint32_t over = ends_ ? block(outside) : kNone;
    if (ends_) require(at_least(1, left(state)), true, {over, state});
    if (!takes_count || halves) {
      jump({head_, state});
    } else {
      const Id more_rounds = left(state);
      const Id count = ends_ ? make(Op::Add, more_rounds, constant(1)) : more_rounds;
      if (!ends_) require(make(Op::Ne, count, constant(0)), true, {head_, state});
      if (passed_) require(passes(state, count), false, {head_, state});
      next = rounds(state, count, nullptr, {head_, state});
      jump({ends_ ? over : head_, next});
    }
    if (ends_) hand_on(over);
  }

  /// Of so many rounds that are left, can those be done at once?
  Id at_least(int64_t rounds, Id more) { return make(Op::Le, constant(ends_ ? rounds - 1 : rounds), more); }

  /// Goes on if the count does not wrap around until the end.
  void require_order(const std::vector<Id>& state, const Edge& other) {
    enter(state);
    const Id now = scalar(count_), end = scalar(end_);
    const auto is_small = [&](Id v) {
      const std::optional<Interval> known = interval(cfg_, v);
      return known && is_within(known->low, kMostCount) && is_within(known->high, kMostCount);
    };
    if (!is_small(now) || !is_small(end))
      require(step_ > 0 ? make(Op::Le, now, end) : make(Op::Le, end, now), true, other);
  }

  /// The count at which so many rounds are left.
  Id last_start(const std::vector<Id>& state, int64_t rounds) {
    enter(state);
    return make(Op::Add, scalar(end_), constant(-step_ * (ends_ ? rounds - 1 : rounds)));
  }

  Id starts_by(const std::vector<Id>& state, Id last) {
    enter(state);
    return step_ > 0 ? make(Op::Le, scalar(count_), last) : make(Op::Le, last, scalar(count_));
  }

  /// The loop is over: a block with the state of the round that there is not.
  void hand_on(uint32_t over) {
    const std::vector<Id> state = begin(over);
    const Edge& end = cfg_.blocks[last_].to[1 - back_];
    Edge out{end.block, {}};
    for (const Id arg : std::vector<Id>(end.args)) {
      const Id v = name(arg);
      const auto given = std::find(next_.begin(), next_.end(), v);
      if (!is_inside(v)) {
        out.args.push_back(v);
      } else if (given != next_.end()) {
        out.args.push_back(state[static_cast<std::size_t>(given - next_.begin())]);
      } else {
        enter(state);
        out.args.push_back(form(v).step == 0 ? scalar(v) : make(Op::Sub, scalar(v), constant(form(v).step)));
      }
    }
    jump(std::move(out));
  }

  /// A vector that the processor still writes is read quickly only by a vector of the same size and place.
  bool reads_what_it_writes() const {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& store) {
      return store.stores && std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& load) {
               return !load.stores && load.stride != 0 && load.node.args[0] == store.node.args[0];
             });
    });
  }

  const int bytes_;
  int lanes_ = 0;
  bool twice_ = false;     // vectors are done in pairs as long as there are as many rounds
  bool ends_ = false;      // the loop as it was need not do the last round
  std::set<Id> skipped_;   // copies that sums stand for
  std::set<Id> unknown_;   // parameters that have no form
  std::set<Id> in_order_;  // sums of floats
  std::vector<Param> params_;
  std::vector<Meeting> meetings_;
  std::optional<Meeting> passed_;  // the store may come to what the other access reads
  std::map<Id, Id> read_before_;   // by the load: what all rounds read at one place
  std::map<Id, Id> vectors_;       // of the state that is being built
};

}  // namespace

bool vectorize_loop(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, int vector_bytes) {
  return Vectors(cfg, shape, head, front, vector_bytes).run();
}

bool widen_loops(Cfg& cfg, int vector_bytes) {
  std::vector<uint32_t> heads;
  const Shape shape = shape_of(cfg);
  for (uint32_t b : shape.order)
    if (shape.loop[b] == b) heads.push_back(b);
  bool changed = false;
  for (uint32_t head : heads)
    if (const uint32_t front = front_of(cfg, shape, head); front != kNone)
      changed =
          vectorize_loop(cfg, shape, head, front, vector_bytes) || unroll_loop(cfg, shape, head, front) || changed;
  return changed;
}

}  // namespace framejit::cfg
