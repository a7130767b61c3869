// Several rounds of an inner loop at once, where they depend on each other.
//
// An inner loop gets a second one in front, which does a few rounds one after the other and stores their results behind
// the last. What a round stores and a later one reads is handed on; other loads and stores are compared in front of the
// loop. So no check needs an exit: where one fails, nothing of these rounds is stored, and the loop as it was does
// them, and leaves where it did. Numbers that are not finite stay so in sums and products: one test behind the last
// round is enough for those. In a loop that stores nothing an integer beyond 64 bits is left at once, with the state of
// its round; the tests of what came before it stand in front of it. The interpreter is asked once whether it waits.
#include <set>
#include <string>
#include <tuple>

#include "graph/cfg/rounds.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostTests = 24;
constexpr std::size_t kMostCopies = 160;  // nodes of all rounds
constexpr std::size_t kMostCarried = 2;

class Unrolled : Rounds {
 public:
  Unrolled(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front) : Rounds(cfg, shape, head, front, false) {}

  bool run() {
    if (!line_up() || !find_forms() || !find_end() || !find_tests()) return false;
    find_late();
    order_extrema();
    build();
    return true;
  }

 private:
  struct Stored {
    std::size_t access;
    int round;
    Id value;
    Node node;
  };

  /// Must not meet within the rounds that are done at once.
  struct Pair {
    std::size_t store, load;
  };

  bool find_forms() {
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Node& n = cfg_.at(next_[i]);
      Form f{Form::Lanes, 0, true};
      if (!cfg_.is_param[next_[i]] && n.op == Op::Add && n.args[0] == params[i]) {
        if (const std::optional<int64_t> by = number(n.args[1]); by && is_within(*by, kMostStep))
          f = {Form::Steps, *by, false};
        else if (!is_inside(n.args[1])) strides_[params[i]] = n.args[1];
      }
      form_[params[i]] = f;
    }
    std::size_t count = 0;
    if (!make_unconditional()) return false;
    for (const Step& s : order_) {
      const Node& n = cfg_.at(s.id);
      const Effect effect = info(n.op).effect;
      if (n.op == Op::Update || n.op == Op::CallReads || n.op == Op::CallItself || n.lanes > 1) return false;
      count += n.op != Op::Poll && n.op != Op::Const;
      if (n.op == Op::Load || n.op == Op::Store) {
        Access a{s.id, n, 0, accesses_.size(), n.op == Op::Store};
        const Form base = form(n.args[0]), index = n.args[1] == kNone ? Form{} : form(n.args[1]);
        a.stride = base.step + index.step * n.scale;
        if (base.kind == Form::Lanes || index.kind == Form::Lanes) {
          if (strides_.count(n.args[0]) == 0 || index.kind != Form::Fixed) unknown_.insert(s.id);
          by_value_.insert(s.id);
        }
        if (base.loaded || index.loaded) unknown_.insert(s.id);
        if (strides_.count(n.args[0]) && index.kind == Form::Fixed && !index.loaded) unknown_.erase(s.id);
        form_[s.id] = {Form::Lanes, 0, true};
        accesses_.push_back(a);
        continue;
      }
      if (n.op == Op::AddExact || n.op == Op::SubExact || n.op == Op::MulExact) {
        form_[s.id] = {Form::Lanes, 0, form(n.args[0]).loaded || form(n.args[1]).loaded};
        continue;
      }
      // What bounds an index is asked in loops that run seldom.
      if (n.op == Op::Check && !form(n.args[0]).loaded) return false;
      if (effect != Effect::Pure) continue;
      Form out{Form::Fixed, 0, false};
      for (int i = 0; i < info(n.op).operands; ++i) {
        if (n.args[i] == kNone) continue;
        out.kind = std::max(out.kind, form(n.args[i]).kind);
        out.loaded = out.loaded || form(n.args[i]).loaded;
      }
      if (out.kind == Form::Steps) {
        const int64_t a = form(n.args[0]).step, b = n.args[1] == kNone ? 0 : form(n.args[1]).step;
        if (n.type == Type::I64 && n.op == Op::Add) out.step = a + b;
        else if (n.type == Type::I64 && n.op == Op::Sub) out.step = a - b;
        else if (n.type == Type::I64 && n.op == Op::Mul && number(n.args[1]) &&
                 is_within(*number(n.args[1]), kMostStep))
          out.step = a * *number(n.args[1]);
        else out.kind = Form::Lanes;
        if (!is_within(out.step, kMostStep)) return false;
      }
      form_[s.id] = out;
    }
    const bool calls =
        std::any_of(order_.begin(), order_.end(), [&](const Step& s) { return cfg_.at(s.id).op == Op::Call; });
    rounds_ = !calls && count * 8 <= kMostCopies / 2 ? 8 : count * 4 <= kMostCopies ? 4 : 2;
    return count > 0 && count * 2 <= kMostCopies;
  }

  /// What one arm of a branch does, done in each round: what it reads and writes is what the round has read before, and
  /// what it checks is what comes of it.
  bool make_unconditional() {
    std::vector<Step> steps;
    steps.swap(order_);
    const bool stores =
        std::any_of(steps.begin(), steps.end(), [&](const Step& s) { return cfg_.at(s.id).op == Op::Store; });
    for (const Step& s : steps) {
      const Node n = cfg_.at(s.id);
      if (info(n.op).effect == Effect::Pure || n.op == Op::Poll) {
        // A division by 0 stops the process.
        const bool divides = n.op == Op::FloorDiv || n.op == Op::FloorMod;
        if (divides && s.where != kNone && number(n.args[1]).value_or(0) <= 0) return false;
        order_.push_back(s);
        continue;
      }
      if (n.op == Op::AddExact || n.op == Op::SubExact || n.op == Op::MulExact) {
        // An exit between rounds needs what they have stored, and checks that came before it.
        const bool may_leave = !stores && late_.empty();
        if (s.where != kNone || (!may_leave && n.op == Op::MulExact)) return false;
        order_.push_back(s);
        if (!may_leave) test_sum(s.id);
        continue;
      }
      if (s.where == kNone) {
        order_.push_back(s);
        continue;
      }
      if (n.op == Op::CheckFinite) {
        const auto chosen = std::find_if(steps.begin(), steps.end(), [&](const Step& t) {
          const Node& c = cfg_.at(t.id);
          return c.op == Op::Select && is_taken(c, s.where, n.args[0]);
        });
        if (chosen == steps.end()) return false;
        late_.push_back({s.id, chosen->id});
        continue;
      }
      if (n.op != Op::Load && n.op != Op::Store) return false;
      const auto read = std::find_if(order_.begin(), order_.end(), [&](const Step& t) {
        const Node& m = cfg_.at(t.id);
        return m.op == Op::Load && is_same_place(m, n);
      });
      if (read == order_.end()) return false;
      if (n.op == Op::Load) {
        order_.push_back({s.id, kNone});
        continue;
      }
      Node old = cfg_.at(read->id);
      const Id before = copy(old);
      order_.push_back({before, kNone});
      cfg_.nodes[s.id].args[2] = copy(Op::Select, old.type, s.where, n.args[2], before);
      order_.push_back({s.id, kNone});
    }
    for (const auto& [check, of] : late_) {
      cfg_.nodes[check].args[0] = of;
      order_.push_back({check, kNone});
    }
    return true;
  }

  /// Does the choice take the value where the condition holds?
  bool is_taken(const Node& choice, Id where, Id value) const {
    if (choice.args[0] == where) return choice.args[1] == value;
    const Node& n = cfg_.at(where);
    return n.op == Op::Eq && n.args[0] == choice.args[0] && number(n.args[1]) == 0 && choice.args[2] == value;
  }

  /// A sum, and a check of its sign.
  void test_sum(Id id) {
    Node& sum = cfg_.nodes[id];
    const Node n = sum;
    const bool adds = n.op == Op::AddExact;
    sum.op = adds ? Op::Add : Op::Sub;
    sum.exit = kNone;
    Id holds;
    const std::optional<int64_t> known = number(n.args[1]);
    const std::optional<Interval> by = known ? std::optional(Interval{*known, *known}) : interval(cfg_, n.args[1]);
    if (by && (by->low >= 0 || by->high <= 0)) {
      const bool grows = adds == (by->low >= 0);
      holds = grows ? copy(Op::Le, Type::I64, n.args[0], id) : copy(Op::Le, Type::I64, id, n.args[0]);
    } else {
      const Id a = copy(Op::Xor, Type::I64, n.args[0], adds ? id : n.args[1]);
      const Id b = copy(Op::Xor, Type::I64, adds ? n.args[1] : n.args[0], id);
      holds = copy(Op::Le, Type::I64, copied_constant(0), copy(Op::And, Type::I64, a, b));
    }
    Node check;
    check.op = Op::Check;
    check.args[0] = holds;
    order_.push_back({copy(check), kNone});
  }

  bool find_end() {
    const Node& c = cfg_.at(end_condition_);
    const int which = form(c.args[0]).kind == Form::Steps ? 0 : 1;
    const Form counts = form(c.args[which]), end = form(c.args[1 - which]);
    if (counts.kind != Form::Steps || counts.loaded || end.kind != Form::Fixed || end.loaded) return false;
    if (counts.step != 1 && counts.step != -1) return false;
    count_ = c.args[which];
    end_ = c.args[1 - which];
    step_ = counts.step;
    return true;
  }

  bool is_one_family(const Access& a, const Access& b) const {
    return a.node.args[0] == b.node.args[0] && a.node.args[1] == b.node.args[1] && a.node.scale == b.node.scale &&
           by_value_.count(a.id) == 0 && by_value_.count(b.id) == 0;
  }

  bool find_tests() {
    for (std::size_t s = 0; s < accesses_.size(); ++s) {
      if (!accesses_[s].stores) continue;
      if (by_value_.count(accesses_[s].id) && unknown_.count(accesses_[s].id)) return false;
      for (std::size_t l = 0; l < accesses_.size(); ++l) {
        if (accesses_[l].stores) continue;
        if (unknown_.count(accesses_[l].id)) return false;
        if (!is_one_family(accesses_[s], accesses_[l])) {
          pairs_.push_back({s, l});
          continue;
        }
        // The same numbers, or apart in all rounds.
        const int64_t size = size_of(accesses_[s].node.mem), stride = accesses_[s].stride;
        if (accesses_[s].node.mem != accesses_[l].node.mem || stride % size != 0 ||
            (accesses_[s].node.imm - accesses_[l].node.imm) % size != 0)
          return false;
      }
    }
    return pairs_.size() <= kMostTests;
  }

  /// Finds the values that a round can compute only when the round before is done: carried numbers, loads of what that
  /// round stores, and what is computed from these.
  void find_late() {
    for (const Access& load : accesses_) {
      if (load.stores) continue;
      for (const Access& store : accesses_) {
        if (!store.stores || !is_one_family(store, load) || store.node.mem != load.node.mem) continue;
        if (load.node.imm != store.node.imm - store.stride) continue;
        late_values_.insert(load.id);
        if (carried_.size() < kMostCarried) carried_.push_back({load.place, kNone});
        break;
      }
    }
    for (const Id p : cfg_.blocks[head_].params)
      if (form(p).kind == Form::Lanes) late_values_.insert(p);
    for (const Step& s : order_) {
      const Node& n = cfg_.at(s.id);
      if (std::any_of(n.args, n.args + 3, [&](Id a) { return late_values_.count(a) != 0; })) late_values_.insert(s.id);
    }
  }

  /// The lesser or the greater one of two integers.
  struct Extremum {
    Id a, b;
    bool greatest;
  };
  std::optional<Extremum> extremum(Id v) const {
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || n.op != Op::Select || n.type != Type::I64 || cfg_.is_param[n.args[0]]) return std::nullopt;
    const Node& c = cfg_.at(n.args[0]);
    if (c.op != Op::Lt && c.op != Op::Le) return std::nullopt;
    if (n.args[1] == c.args[0] && n.args[2] == c.args[1]) return Extremum{c.args[0], c.args[1], false};
    if (n.args[1] == c.args[1] && n.args[2] == c.args[0]) return Extremum{c.args[0], c.args[1], true};
    return std::nullopt;
  }

  /// Writes min(late, x, y) as min(late, min(x, y)), so that a round needs one comparison after the round before it.
  void order_extrema() {
    const auto is_late = [&](Id v) { return late_values_.count(v) != 0; };
    for (const Step& step : std::vector<Step>(order_)) {
      const std::optional<Extremum> outer = extremum(step.id);
      if (!outer || is_late(outer->a) == is_late(outer->b)) continue;
      const Id early = is_late(outer->a) ? outer->b : outer->a;
      const std::optional<Extremum> inner = extremum(is_late(outer->a) ? outer->a : outer->b);
      if (!inner || inner->greatest != outer->greatest || is_late(inner->a) == is_late(inner->b)) continue;
      const Id late = is_late(inner->a) ? inner->a : inner->b;
      const Id other = is_late(inner->a) ? inner->b : inner->a;
      const auto make_extremum = [&](Id a, Id b) {
        const Id less = copy(Op::Lt, Type::I64, a, b);
        return copy(Op::Select, Type::I64, less, outer->greatest ? b : a, outer->greatest ? a : b);
      };
      cfg_.nodes[step.id] = cfg_.at(make_extremum(late, make_extremum(other, early)));
    }
  }

  /// The bytes of all rounds.
  Span bytes(const Access& a, Id more) {
    const auto stride = strides_.find(a.node.args[0]);
    if (by_value_.count(a.id) == 0 || stride == strides_.end()) return span(a, more);
    const Id first = address(a), way = make(Op::Mul, more, stride->second);
    const Id last = make(Op::Add, first, way), falls = make(Op::Lt, last, first);
    const auto choose = [&](Id yes, Id no) {
      const Id chosen = make(Op::Select, falls, yes);
      cfg_.nodes[chosen].args[2] = no;
      return chosen;
    };
    const Id length = choose(make(Op::Sub, constant(0), way), way);
    return {choose(last, first), make(Op::Add, length, constant(size_of(a.node.mem)))};
  }

  void require_apart(const Pair& p, Id more, const Edge& other) {
    const Access &store = accesses_[p.store], &load = accesses_[p.load];
    const int64_t size = size_of(store.node.mem);
    // A round reads where it stores: rounds are apart if a step is not shorter than a number.
    if (const auto stride = strides_.find(store.node.args[0]);
        stride != strides_.end() && load.place < store.place && is_same_place(store.node, load.node)) {
      const Id least = make(Op::Add, stride->second, constant(size - 1));
      require(make(Op::Below, least, constant(2 * size - 1)), false, other);
      return;
    }
    const bool known = by_value_.count(store.id) == 0 && by_value_.count(load.id) == 0;
    if (known && store.stride == load.stride && size == size_of(load.node.mem)) {
      const int64_t step = store.stride < 0 ? -store.stride : store.stride;
      const Id a = address(store), b = address(load);
      const Id distance = store.stride < 0 ? make(Op::Sub, b, a) : make(Op::Sub, a, b);
      const int64_t low = load.place > store.place || step < size ? 1 - size : step - size + 1;
      const int64_t high = (rounds_ - 1) * step + size - 1;
      require(make(Op::Below, make(Op::Sub, distance, constant(low)), constant(high - low + 1)), false, other);
      return;
    }
    require(meet(bytes(store, more), bytes(load, more)), false, other);
  }

  /// Of a pending store at the same place, or none.
  Id handed_on(const std::vector<Stored>& stores, const Access& load, int round) {
    for (auto s = stores.rbegin(); s != stores.rend(); ++s) {
      const Access& store = accesses_[s->access];
      if (!is_one_family(store, load) ||
          store.node.imm + s->round * store.stride != load.node.imm + round * load.stride)
        continue;
      if (type_of(load.node.mem) != Type::I64 || load.node.mem == Mem::I64) return s->value;
      Node n;
      n.op = Op::Extend;
      n.type = Type::I64;
      n.mem = load.node.mem;
      n.args[0] = s->value;
      return add(n);
    }
    return kNone;
  }

  /// If a number is not finite, is the other one not either, which is made of it?
  bool stays(Id v, Id until, int depth = 0) const {
    constexpr int kDeepest = 4;
    if (v == until) return true;
    if (depth > kDeepest || cfg_.is_param[until]) return false;
    const Node& n = cfg_.at(until);
    switch (n.op) {
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::MulAdd:
      case Op::MulSub:
      case Op::SubMul:
        return std::any_of(n.args, n.args + info(n.op).operands, [&](Id a) { return stays(v, a, depth + 1); });
      case Op::Div:
      case Op::Neg: return stays(v, n.args[0], depth + 1);
      case Op::Select: return stays(v, n.args[1], depth + 1) && stays(v, n.args[2], depth + 1);
      default: return false;
    }
  }

  void check(Op op, Id v, Id of_next, const Edge& fails) {
    if (op == Op::CheckFinite && of_next != kNone && stays(v, of_next)) return;
    Node n;
    n.op = Op::Finite;
    n.type = Type::I64;
    n.args[0] = v;
    require(op == Op::CheckFinite ? add(n) : v, true, fails);
  }

  void build() {
    const uint32_t level = cfg_.blocks[head_].level, outside = cfg_.blocks[front_].level;
    const uint32_t first = block(outside);
    cfg_.blocks[front_].to[0].block = first;
    std::vector<Id> state = begin(first);
    const Edge one_by_one{head_, state};
    // The loop as it was need not do the last round if what it hands on is all that is used of it.
    const bool ends = !is_used_outside();
    const auto at_least = [&](int64_t rounds, Id more) {
      return make(Op::Le, constant(ends ? rounds - 1 : rounds), more);
    };
    const Id more = left(state);
    require(at_least(rounds_, more), true, one_by_one);
    for (const Pair& p : pairs_) require_apart(p, more, one_by_one);
    const uint32_t several = block(level);
    const auto with_carried = [&](std::vector<Id> all, auto&& value) {
      for (const Carried& c : carried_) all.push_back(value(c));
      return all;
    };
    enter(state);
    jump({several, with_carried(state, [&](const Carried& c) { return scalar(accesses_[c.load].id); })});
    state = begin(several);
    for (Carried& c : carried_) c.param = cfg_.add_param_for(several, accesses_[c.load].id);
    const Edge fails{head_, state};
    Node waits;
    waits.op = Op::Waits;
    waits.type = Type::I64;
    require(add(waits), false, fails);
    std::vector<Stored> stores;
    std::vector<std::vector<Id>> finite(static_cast<std::size_t>(rounds_));
    for (int round = 0; round < rounds_; ++round) {
      enter(state);
      std::size_t access = 0;
      for (const Step& step : order_) {
        const Node n = cfg_.at(step.id);
        switch (n.op) {
          case Op::Load: {
            const std::size_t place = access++;
            Id same = handed_on(stores, accesses_[place], round);
            if (same == kNone && round == 0) same = carried(place);
            if (same != kNone) scalars_[step.id] = same;
            else scalar(step.id);
            break;
          }
          case Op::Store: {
            const Id value = scalar(n.args[2]);
            Node made = n;
            made.args[0] = scalar(n.args[0]);
            made.args[1] = scalar(n.args[1]);
            made.args[2] = value;
            stores.push_back({access++, round, value, made});
            break;
          }
          case Op::AddExact:
          case Op::SubExact:
          case Op::MulExact: {
            // Its exit is for states in which all checks before it hold.
            for (std::vector<Id>& one : finite) {
              for (const Id v : one) check(Op::CheckFinite, v, kNone, fails);
              one.clear();
            }
            const uint32_t exit = exit_of(n.exit);
            cfg_.nodes[scalar(step.id)].exit = exit;
            break;
          }
          case Op::Check: check(n.op, scalar(n.args[0]), kNone, fails); break;
          case Op::CheckFinite: finite[static_cast<std::size_t>(round)].push_back(scalar(n.args[0])); break;
          default: break;
        }
      }
      std::vector<Id> next;
      for (Id v : next_) next.push_back(scalar(v));
      state = std::move(next);
    }
    for (std::size_t round = 0; round < finite.size(); ++round)
      for (std::size_t k = 0; k < finite[round].size(); ++k)
        check(Op::CheckFinite, finite[round][k], round + 1 < finite.size() ? finite[round + 1][k] : kNone, fails);
    for (std::size_t i = 0; i < stores.size(); ++i) {
      const Access& a = accesses_[stores[i].access];
      bool last = true;
      for (std::size_t k = i + 1; k < stores.size(); ++k) {
        const Access& b = accesses_[stores[k].access];
        last = last && !(is_one_family(a, b) && a.node.mem == b.node.mem &&
                         a.node.imm + stores[i].round * a.stride == b.node.imm + stores[k].round * b.stride);
      }
      if (last) add(stores[i].node);
    }
    Edge again_several{
        several, with_carried(state, [&](const Carried& c) { return handed_on(stores, accesses_[c.load], rounds_); })};
    if (!ends) return branch(at_least(rounds_, left(state)), std::move(again_several), {head_, state});
    const Edge& end = cfg_.blocks[last_].to[1 - back_];
    Edge over{end.block, {}};
    for (const Id arg : std::vector<Id>(end.args)) over.args.push_back(scalar(name(arg)));
    const Id again = left(state);
    require(at_least(rounds_, again), false, std::move(again_several));
    branch(at_least(1, again), {head_, state}, std::move(over));
  }

  /// The parameter that holds what a load of the first round reads, if the round before stored it; else none.
  Id carried(std::size_t load) const {
    for (const Carried& c : carried_)
      if (c.load == load) return c.param;
    return kNone;
  }

  /// An exit with the values of the round that is being built.
  uint32_t exit_of(uint32_t exit) {
    Exit e = cfg_.exits[exit];
    e.number = cfg_.number_of(exit);
    for (Id& v : e.values) v = scalar(name(v));
    cfg_.exits.push_back(std::move(e));
    return static_cast<uint32_t>(cfg_.exits.size() - 1);
  }

  /// A load of what the round before stores: a parameter of the block of several rounds.
  struct Carried {
    std::size_t load;
    Id param;
  };

  int rounds_ = 0;
  std::vector<Carried> carried_;
  std::set<Id> late_values_;
  std::vector<std::pair<Id, Id>> late_;  // checks of an arm, and what they check
  std::map<Id, Id> strides_;             // of parameters that grow by a value of the surroundings
  std::set<Id> by_value_;                // accesses whose step is not a constant
  std::set<Id> unknown_;                 // accesses of which it is not known where the next round is
  std::vector<Pair> pairs_;
};

}  // namespace

bool unroll_loop(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front) {
  return Unrolled(cfg, shape, head, front).run();
}

}  // namespace framejit::cfg
