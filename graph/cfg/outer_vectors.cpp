// Vectors of rounds of an outer loop.
//
// A loop whose rounds do not depend on each other, but whose inner loops do (sums in order, searches, iterations until
// something holds), gets one in front that does as many of its rounds at once as a vector has lanes. Each lane does one
// round, in its order, so nothing is computed in another order. What is the same in all lanes stays a number
// (`Uniform`); what grows by one number from lane to lane is a number too, of the first lane (`Linear`).
//
// Inner loops stay loops. One that all lanes leave in the same round is left by the branch that there was. In any
// other, a vector says which lanes are still in it, and it goes on as long as there is one; a lane keeps its values
// where it leaves, if they are used behind the loop. Branches become choices; loads, stores and checks are done in the
// lanes in which control would come there. Where a check fails in any lane, control takes the exit of the check.
#include "graph/cfg/outer_vectors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/cfg/inner_variables.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/outer_lanes.h"
#include "graph/support/check.h"

namespace framejit::cfg {

namespace {

class OuterVectors : public OuterLanes {
 public:
  OuterVectors(Cfg& cfg, const Shape& shape, uint32_t head, const std::vector<OuterVariable>& variables, uint32_t exit,
               int bytes)
      : OuterLanes(cfg, shape, head, variables, exit, bytes) {}

  void build() {
    const uint32_t first = block(), round = block(), rest = masks_ ? block() : head_;
    const uint32_t front = front_of(cfg_, shape_, head_);
    cfg_.blocks[front].to[0].block = first;
    std::vector<Id> state = begin(first);
    // A step that is no constant is 1, or all is left to the loop.
    std::set<Id> steps;
    for (const OuterVariable& v : variables_)
      if (v.kind == OuterVariable::Counts && !number(v.step) && steps.insert(v.step).second) {
        const uint32_t next = block();
        branch(make(Op::Eq, v.step, constant(1)), {next, {}}, {head_, state});
        at_ = next;
      }
    held_.clear();
    for (std::size_t i = 0; i < state.size(); ++i)
      if (is_held(i)) held_[i] = splat(state[i]);
    branch(make(Op::Le, constant(lanes_), left(state)), {round, with_held(state)}, {rest, state});
    // All lanes.
    state = begin(round);
    for (auto& [i, v] : held_) v = cfg_.add_param(round, cfg_.at(v).type, static_cast<uint8_t>(lanes_));
    enter(state);
    build_places(0, nullptr);
    const std::vector<Id> next = next_state(state, constant(lanes_));
    const uint32_t over = block();
    branch(make(Op::Le, constant(lanes_), left(next)), {round, with_held(next)}, {over, {}});
    at_ = over;
    state = next;
    for (const auto& [i, v] : held_) state[i] = lane(v, constant(lanes_ - 1));
    held_.clear();
    jump({rest, state});
    if (rest == head_) return;
    // The rounds that are left, in some of the lanes.
    state = begin(rest);
    const uint32_t some = block();
    const Id count = left(state);
    branch(make(Op::Lt, constant(0), count), {some, {}}, {head_, state});
    at_ = some;
    enter(state);
    active_ = in_lanes(Op::Lt, Type::I64, ramp(constant(1)), splat(count));
    build_places(0, nullptr);
    jump({head_, next_state(state, count)});
  }

 private:
  // Blocks.

  uint32_t block() {
    cfg_.blocks.emplace_back();
    return static_cast<uint32_t>(cfg_.blocks.size() - 1);
  }

  void jump(Edge to) {
    cfg_.blocks[at_].end = Block::End::Jump;
    cfg_.blocks[at_].to[0] = std::move(to);
  }

  void branch(Id condition, Edge yes, Edge no) {
    Block& b = cfg_.blocks[at_];
    b.end = Block::End::Branch;
    b.condition = condition;
    b.to[0] = std::move(yes);
    b.to[1] = std::move(no);
  }

  Id value(Id v, Form::Kind kind) { return kind == Form::Lanes ? vector(v) : scalar(v); }

  void set(Id v, Form::Kind kind, Id made) {
    if (kind == Form::Lanes) vectors_[v] = made;
    else scalars_[v] = made;
  }

  Id param(uint32_t b, Id like, Form::Kind kind) {
    return cfg_.add_param(b, cfg_.at(like).type, static_cast<uint8_t>(kind == Form::Lanes ? lanes_ : 1));
  }

  // Values that edges hand on.

  /// Gives the value that an edge hands to a parameter. A loop that lanes leave in different rounds has kept it, if it
  /// is not the same in all of them.
  Id given(const ExitEdge& e, std::size_t i, std::size_t l, Form::Kind kind) {
    if (kind == Form::Lanes && loop_of_[e.block] != l) {
      const std::size_t inner = child_at(place_of(e.block, l));
      if (loops_[inner].masked) return given_.at({inner, cfg_.blocks[target(e)].params[i]});
    }
    return value(args_of(e)[i], kind);
  }

  /// Gives the value of a parameter of a place, or of the next round.
  Id chosen(const std::vector<ExitEdge>& edges, std::size_t i, std::size_t l, uint32_t up, Form::Kind kind) {
    std::vector<Id> values;
    for (const ExitEdge& e : edges) values.push_back(given(e, i, l, kind));
    Id out = values.back();
    for (std::size_t e = 0; e + 1 < edges.size(); ++e) {
      if (values[e] == out) continue;
      const Condition when = along(edges[e], l, up);
      if (when.is_true()) return values[e];
      if (kind == Form::Lanes) out = choice(as_lanes(when), values[e], out);
      else out = add(node_of(Op::Select, cfg_.at(out).type, when.scalar, values[e], out));
    }
    return out;
  }

  void enter_place(uint32_t b, std::size_t l) {
    const std::vector<Id> params = cfg_.blocks[b].params;
    if (b == loops_[l].head || params.empty()) return;
    const std::vector<ExitEdge> edges = edges_to(b, l);
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Form::Kind kind = form(params[i]).kind;
      set(params[i], kind, chosen(edges, i, l, over(b, l), kind));
    }
  }

  /// Has control come to where a value is computed?
  bool is_known(Id v) const {
    if (v == kNone || !is_inside(v) || scalars_.count(v) || vectors_.count(v)) return true;
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || info(n.op).effect != Effect::Pure) return false;
    const bool divides = n.op == Op::FloorDiv || n.op == Op::FloorMod;
    if (divides && (form(v).kind != Form::Uniform || !divides_by_natural(n))) return false;
    return std::all_of(std::begin(n.args), std::end(n.args), [&](Id a) { return is_known(a); });
  }

  // Inner loops.

  /// A loop as it is built: where it is left to, and what is handed on there.
  struct Built {
    uint32_t after = kNone;
    // If lanes leave in different rounds, what those that have left keep: values that blocks behind the loop use;
    // arguments of these blocks, by parameter; which lanes they are, by exit, if there are several exits.
    std::vector<Id> outs;
    std::map<Id, Id> given;
    std::map<std::pair<uint32_t, int>, Id> left;
  };

  std::vector<Id> handed_on(std::size_t l, const Built& built) {
    std::vector<Id> out = built.outs;
    if (!loops_[l].masked)
      for (Id v : loops_[l].outs) out.push_back(value(v, form(v).kind));
    for (const auto& [param, v] : built.given) out.push_back(v);
    for (const auto& [edge, lanes] : built.left) out.push_back(lanes);
    return out;
  }

  /// In the lanes that leave, the values are kept that are used behind the loop.
  void leave(std::size_t l, Built& built, const ExitEdge& e, Id lanes) {
    const Loop& loop = loops_[l];
    for (std::size_t i = 0; i < loop.outs.size(); ++i) {
      if (!is_known(loop.outs[i])) continue;  // nothing uses it on this way
      const Id now = vector(loop.outs[i]);
      built.outs[i] = choice(lanes, now, built.outs[i]);
    }
    const std::vector<Id>& params = cfg_.blocks[target(e)].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      Id& before = built.given.at(params[i]);
      before = choice(lanes, given(e, i, l, Form::Lanes), before);
    }
    if (const auto at = built.left.find({e.block, e.which}); at != built.left.end())
      at->second = in_lanes(Op::Or, Type::I64, truth(at->second), truth(lanes));
  }

  void build_places(std::size_t l, Built* built) {
    for (const uint32_t place : std::vector<uint32_t>(loops_[l].order)) {
      if (is_loop_place(place, l)) {
        build_loop(child_at(place));
        if (built) build_exits(place, l, *built);
        continue;
      }
      enter_place(place, l);
      emit_nodes(place, l);
      if (built) build_exits(place, l, *built);
    }
  }

  void build_common_exit(const ExitEdge& e, std::size_t l, Built& built) {
    const Id condition = cfg_.blocks[e.block].condition;
    const uint32_t on = block();
    if (form(condition).kind == Form::Uniform) {
      Built now = built;
      if (loops_[l].masked) leave(l, now, e, active_);
      const Id c = scalar(condition);
      Edge out{built.after, handed_on(l, now)};
      if (e.which == 0) branch(c, std::move(out), {on, {}});
      else branch(c, {on, {}}, std::move(out));
    } else {
      const Id c = vector(condition), stays = e.which == 0 ? opposite(c) : c, leaves = e.which == 0 ? c : opposite(c);
      leave(l, built, e, both(active_, leaves));
      active_ = both(active_, stays);
      branch(none(active_), {built.after, handed_on(l, built)}, {on, {}});
    }
    at_ = on;
  }

  void build_exits(uint32_t b, std::size_t l, Built& built) {
    for (const ExitEdge& e : loops_[l].exits) {
      if (place_of(e.block, l) != b) continue;
      if (is_common_exit(e, l)) {
        build_common_exit(e, l, built);
        continue;
      }
      const Condition when = both({kNone, active_}, along(e, l, loops_[l].head));
      leave(l, built, e, as_lanes(when));
    }
  }

  /// Parameters of the blocks that a loop is left to, in the order of their numbers.
  std::set<Id> params_behind(std::size_t l) const {
    std::set<Id> out;
    for (const ExitEdge& e : loops_[l].exits)
      for (Id p : cfg_.blocks[target(e)].params) out.insert(p);
    return out;
  }

  Id none_of(Id like, Form::Kind kind) {
    const Id zero = add(node_of(Op::Const, cfg_.at(like).type));
    return kind == Form::Lanes ? splat(zero) : zero;
  }

  void build_loop(std::size_t l) {
    Loop& loop = loops_[l];
    const Condition enters = condition_of(loop.head, loop.parent);
    const Block& head = cfg_.blocks[loop.head];
    const std::vector<Id> params = head.params, first = cfg_.blocks[loop.front].to[0].args;
    const uint32_t begin = block(), after = block();
    Built built;
    built.after = after;
    std::vector<Form::Kind> kinds;
    for (Id v : loop.outs) kinds.push_back(loop.masked ? Form::Lanes : form_in(v, loop.head).kind);
    // The arguments of the first round.
    Edge in{begin, {}};
    for (std::size_t i = 0; i < params.size(); ++i) in.args.push_back(value(first[i], form(params[i]).kind));
    std::vector<Id> nothing;
    const std::size_t ways = loop.masked && loop.exits.size() > 1 ? loop.exits.size() : 0;
    if (loop.masked) {
      Id entered = as_lanes(enters);
      if (entered == kNone) entered = splat_of(1);
      in.args.push_back(truth(entered));
      for (std::size_t i = 0; i < loop.outs.size(); ++i) nothing.push_back(none_of(loop.outs[i], Form::Lanes));
      for (Id p : params_behind(l)) nothing.push_back(none_of(p, Form::Lanes));
      for (std::size_t k = 0; k < ways; ++k) nothing.push_back(splat_of(0));
      in.args.insert(in.args.end(), nothing.begin(), nothing.end());
    } else if (!enters.is_true()) {
      for (std::size_t i = 0; i < loop.outs.size(); ++i) nothing.push_back(none_of(loop.outs[i], kinds[i]));
    }
    const auto scalars = scalars_, vectors = vectors_;  // values that are known behind the loop, too
    if (enters.scalar != kNone) {
      const uint32_t goes = block();
      branch(enters.scalar, {goes, {}}, {after, nothing});
      at_ = goes;
    }
    if (enters.lanes != kNone && enters.lanes != active_) {
      const uint32_t goes = block();
      branch(none(enters.lanes), {after, nothing}, {goes, {}});
      at_ = goes;
    }
    if (is_innermost(l)) emit_hoisted(l, enters);
    jump(std::move(in));
    // A round.
    const Id outer = std::exchange(active_, loop.masked ? kNone : active_);
    at_ = begin;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Form::Kind kind = form(params[i]).kind;
      set(params[i], kind, param(begin, params[i], kind));
    }
    const auto vector_param = [&](uint32_t b, Type type) {
      return cfg_.add_param(b, type, static_cast<uint8_t>(lanes_));
    };
    if (loop.masked) {
      const Id in_loop = vector_param(begin, Type::I64);
      active_ = in_lanes(Op::Ne, Type::I64, in_loop, splat_of(0));
      for (Id v : loop.outs) built.outs.push_back(vector_param(begin, cfg_.at(v).type));
      for (Id p : params_behind(l)) built.given[p] = vector_param(begin, cfg_.at(p).type);
      for (std::size_t k = 0; k < ways; ++k)
        built.left[{loop.exits[k].block, loop.exits[k].which}] = vector_param(begin, Type::I64);
    }
    build_places(l, &built);
    // The next one.
    const std::vector<ExitEdge> back = edges_back(l);
    if (!back.empty()) {
      Edge again{begin, {}};
      for (std::size_t i = 0; i < params.size(); ++i)
        again.args.push_back(chosen(back, i, l, loop.head, form(params[i]).kind));
      if (!loop.masked) {
        jump(std::move(again));
      } else {
        std::optional<Condition> goes_on;
        for (const ExitEdge& e : back) {
          const Condition one = along(e, l, loop.head);
          goes_on = goes_on ? either(*goes_on, one) : one;
        }
        const Id still = as_lanes(both({kNone, active_}, *goes_on));
        again.args.push_back(truth(still));
        const std::vector<Id> kept = handed_on(l, built);
        again.args.insert(again.args.end(), kept.begin(), kept.end());
        if (goes_on->is_true()) jump(std::move(again));
        else branch(none(still), {after, kept}, std::move(again));
      }
    }
    // Behind it.
    scalars_ = scalars;
    vectors_ = vectors;
    active_ = outer;
    at_ = after;
    for (std::size_t i = 0; i < loop.outs.size(); ++i) {
      const Id v = loop.outs[i];
      const Id made = param(after, v, kinds[i]);
      scalars_.erase(v);
      vectors_.erase(v);
      if (loop.masked) {
        forms_of_outs_.emplace(v, forms_[v]);
        forms_[v] = {Form::Lanes};
      }
      set(v, kinds[i], made);
    }
    if (loop.masked)
      for (Id p : params_behind(l)) given_[{l, p}] = vector_param(after, cfg_.at(p).type);
    for (std::size_t k = 0; k < loop.exits.size(); ++k) {
      // A way that is the only one is taken by all lanes, though a loop in this one has several.
      const std::pair edge(loop.exits[k].block, loop.exits[k].which);
      if (ways == 0) left_.erase(edge);
      else left_[edge] = vector_param(after, Type::I64);
    }
  }

  // The rounds of the outer loop.

  /// Is a variable set in each round? Then the loop keeps what each lane has set last, until it is left.
  bool is_held(std::size_t i) const {
    const OuterVariable& v = variables_[i];
    if (v.kind != OuterVariable::HandedOn) return false;
    bool lanes = false, always = true;
    for (const ExitEdge& e : edges_back(0)) {
      lanes = lanes || form_in(args_of(e)[i], head_).kind != Form::Uniform;
      always = always && args_of(e)[i] != cfg_.blocks[head_].params[i] &&
               (v.flag == OuterVariable::kNoFlag || number(args_of(e)[v.flag]) == 1);
    }
    return lanes && always;
  }

  std::vector<Id> with_held(std::vector<Id> state) const {
    for (const auto& [i, v] : held_) state.push_back(v);
    return state;
  }

  Id left(const std::vector<Id>& state) const {
    for (std::size_t i = 0; i < state.size(); ++i)
      if (variables_[i].is_left) return state[i];
    return kNone;
  }

  std::vector<Id> begin(uint32_t b) {
    at_ = b;
    std::vector<Id> state;
    for (const Id p : std::vector<Id>(cfg_.blocks[head_].params)) state.push_back(cfg_.add_param_for(b, p));
    return state;
  }

  void enter(const std::vector<Id>& state) {
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    scalars_.clear();
    vectors_.clear();
    left_.clear();
    given_.clear();
    hoisted_.clear();
    hoisted_operands_.clear();
    for (const auto& [v, f] : forms_of_outs_) forms_[v] = f;
    for (std::size_t i = 0; i < params.size(); ++i)
      if (variables_[i].kind == OuterVariable::Sum) vectors_[params[i]] = splat_of(0);
      else scalars_[params[i]] = state[i];
    for (const OuterVariable& v : variables_)
      if (v.kind == OuterVariable::HandedOn && v.flag != OuterVariable::kNoFlag) scalars_[params[v.flag]] = constant(0);
  }

  /// Gives the state of the round after so many.
  std::vector<Id> next_state(const std::vector<Id>& state, Id count) {
    const std::vector<Id> params = cfg_.blocks[head_].params;
    const std::vector<ExitEdge> back = edges_back(0);
    std::vector<Id> next = state;
    const auto handed = [&](std::size_t i) { return chosen(back, i, 0, head_, Form::Lanes); };
    const auto is_always = [&](std::size_t i, Id v) {
      return std::all_of(back.begin(), back.end(), [&](const ExitEdge& e) { return args_of(e)[i] == v; });
    };
    const auto is_uniform = [&](std::size_t i) {
      return back.size() == 1 && form_in(args_of(back[0])[i], head_).kind == Form::Uniform;
    };
    for (std::size_t i = 0; i < params.size(); ++i) {
      const OuterVariable& v = variables_[i];
      switch (v.kind) {
        case OuterVariable::Counts: {
          const int64_t by = number(v.step).value_or(1);
          next[i] = make(Op::Add, state[i], by == 1 ? count : make(Op::Mul, count, constant(by)));
          break;
        }
        case OuterVariable::Sum: {
          Id added = handed(i);
          if (active_ != kNone) added = choice(active_, added, splat_of(0));
          constexpr int64_t kMost = int64_t{1} << 56;
          check_lanes(in_lanes(Op::Lt, Type::I64, added, splat_of(kMost)), {}, exit_);
          Node sum = node_of(Op::AddExact, Type::I64, state[i], add(node_of(Op::SumOf, Type::I64, added)));
          sum.exit = exit_;
          next[i] = add(sum);
          break;
        }
        case OuterVariable::HandedOn: {
          if (is_always(i, params[i])) break;
          if (const auto held = held_.find(i); held != held_.end()) {
            held->second = handed(i);
            if (v.flag != OuterVariable::kNoFlag) next[v.flag] = constant(1);
            break;
          }
          const bool has_flag = v.flag != OuterVariable::kNoFlag;
          if (!has_flag || is_uniform(v.flag)) {
            // All lanes set it, or none does, and they hand on what they were given.
            next[i] = is_uniform(i) ? scalar(args_of(back[0])[i]) : lane(handed(i), make(Op::Add, count, constant(-1)));
            if (has_flag) next[v.flag] = make(Op::Or, state[v.flag], scalar(args_of(back[0])[v.flag]));
            break;
          }
          const Id value = handed(i);
          Id flags = handed(v.flag);
          if (active_ != kNone) flags = choice(active_, flags, splat_of(0));
          for (int k = 0; k < lanes_; ++k) {
            const Id is_set = lane(flags, constant(k));
            next[i] = add(node_of(Op::Select, cfg_.at(value).type, is_set, lane(value, constant(k)), next[i]));
            next[v.flag] = make(Op::Or, next[v.flag], is_set);
          }
          break;
        }
        case OuterVariable::Kept: break;
      }
    }
    return next;
  }

  std::map<std::size_t, Id> held_;                  // by variable: what each lane has set last
  std::map<Id, Form> forms_of_outs_;                // in the loops that they are used behind
  std::map<std::pair<std::size_t, Id>, Id> given_;  // by loop and parameter: what the loop has kept for it
};

}  // namespace

OuterVectorized vectorize_outer_loop(Cfg& cfg, uint32_t head, const std::vector<OuterVariable>& variables,
                                     const std::map<Id, Id>& flags, uint32_t exit, int vector_bytes) {
  const Shape shape = shape_of(cfg);
  struct Candidate {
    uint32_t head;
    std::vector<OuterVariable> variables;
    std::vector<std::pair<Id, Id>> apart;
    std::pair<int, int> gathers;
  };
  std::optional<Candidate> best;
  for (uint32_t b : shape.order) {
    if (shape.loop[b] != b || !shape.dominates(head, b)) continue;
    std::optional<std::vector<OuterVariable>> known = variables;
    if (b != head) known = inner_variables(cfg, shape, b, flags);
    if (!known) continue;
    OuterVectors vectors(cfg, shape, b, *known, exit, vector_bytes);
    if (!vectors.is_suited() || (best && best->gathers <= vectors.gathers())) continue;
    auto apart = vectors.must_be_apart(b == head);
    if (apart) best = {b, std::move(*known), std::move(*apart), vectors.gathers()};
  }
  if (!best) return {};
  OuterVectors vectors(cfg, shape, best->head, best->variables, exit, vector_bytes);
  FRAMEJIT_CHECK(vectors.is_suited(), "a loop that was suited for vectors");
  vectors.build();
  return {best->head == head ? vector_bytes / 8 : 1, true, std::move(best->apart)};
}

}  // namespace framejit::cfg
