// Loops that go on by an array value: one round is captured, from the loop's head to where it goes on or is left, with
// the variables that change as carried values, and becomes the body of a `loop` of the graph.
//
//     while err > tol:            %4 = loop %x with %5: f64[3] {
//         x = x - step(x)           ...
//         err = abs(x).max()        yield %9, %8         # another round?, x
//                                 }
//
// An array that was there before may come through the loop: then a carried number says whether it is still that object.
//
// Which variables those are is found by trying: a round that ends with another value in a variable is captured again
// with that variable carried, or, where it cannot be (not bound before, of another type), unknown at its beginning.
// Where a loop cannot be captured, the round that follows runs as any other code, and the loop is tried again behind
// it: a variable that had another type before the first round has the right one then.
#include <algorithm>
#include <map>
#include <utility>

#include "capture/flow.h"
#include "capture/objects.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

constexpr int kMostTries = 3;   // of one loop of a frame
constexpr int kMostRounds = 8;  // that are captured for one try

/// Does a value of the body, which says whether there is another round, depend on what a round changes?
bool depends_on_round(const graph::Graph& graph, const graph::Block& body, graph::ValueId condition) {
  std::set<graph::ValueId> reached{condition};
  std::vector<graph::ValueId> open{condition};
  std::vector<graph::ValueId> changed = graph::written_roots(graph, body);
  changed.insert(changed.end(), body.params.begin(), body.params.end());
  while (!open.empty()) {
    const graph::ValueId v = open.back();
    open.pop_back();
    if (std::find(changed.begin(), changed.end(), v) != changed.end()) return true;
    std::vector<graph::ValueId> used = graph::used_values(graph, v);
    if (graph.type(v).is_view()) used.push_back(graph.type(v).root);
    for (graph::ValueId u : used)
      if (reached.insert(u).second) open.push_back(u);
  }
  return false;
}

}  // namespace

/// A loop whose rounds are being captured.
class LoopCapture {
 public:
  LoopCapture(SymbolicFrame& frame, RoundScope& scope)
      : frame_(frame),
        x_(frame.executor()),
        s_(frame.session()),
        scope_(scope),
        mark_(frame.session().mark()),
        before_(frame.locals),
        stack_(frame.stack) {}

  /// The frame behind the loop, or nothing: all is as it was.
  std::optional<Step> run() {
    const std::vector<SymbolicFrame::Loop> loops = frame_.loops;
    for (int round = 0; round < kMostRounds; ++round) {
      const Outcome outcome = try_round();
      if (outcome == kCaptured) {
        std::optional<Step> left = leave();
        if (left) return left;
      }
      s_.rollback(mark_);
      frame_.locals = before_;
      frame_.stack = stack_;
      frame_.loops = loops;
      frame_.pc = scope_.head;
      if (outcome != kAgain) break;
    }
    return std::nullopt;
  }

 private:
  enum Outcome { kCaptured, kAgain, kRefused };
  struct Output {
    graph::ValueId id;
    Value* made = nullptr;     // what becomes the output
    Value* chooses = nullptr;  // or whose `which` does
  };

  Outcome try_round() {
    body_ = std::make_unique<graph::Block>();
    const OpenBlock opened(s_, *body_);
    begin();
    RoundScope* const around = std::exchange(frame_.flow.scope, &scope_);
    const bool complete = round();
    frame_.flow.scope = around;
    if (!complete || !scope_.decided || x_.handled() || !is_pure(s_, mark_) || frame_.stack != stack_) return kRefused;
    if (const std::optional<bool> found = find_changes(); !found || *found) return found ? kAgain : kRefused;
    return decide() ? give() : kRefused;
  }

  void begin() {
    scope_.begin();
    scope_.decided = false;
    scope_.exits.clear();
    outputs_.clear();
    names_.clear();
    starts_ = before_;
    for (std::size_t k : carried_) {
      Value* held = look(x_, before_[k]);
      Value* v = s_.values().make(ValueKind::Array);
      const std::optional<Wrap> number = number_wrap(*held);
      v->as_array().wrap = number ? *number : held->wrap();
      v->as_array().weak = number.has_value();
      v->as_array().id = held->is_array() ? carried(s_.graph().type(held->id())) : carried({dtype_of(*number), {}, {}});
      v->choice().which = v->id();  // in the first round it is the object that was there
      starts_[k] = v;
    }
    for (std::size_t k : kept_) which_[k] = carried({graph::DType::I64, {}, {}});
    for (std::size_t k : hidden_) starts_[k] = unknown_value(s_);
    frame_.locals = starts_;
    frame_.stack = stack_;
    frame_.pc = scope_.head;
  }

  graph::ValueId carried(const graph::Type& like) {
    return s_.builder().carried(graph::Type{like.dtype, like.shape, like.strides});
  }

  static graph::DType dtype_of(Wrap number) {
    if (number == Wrap::PyBool) return graph::DType::Bool;
    return number == Wrap::PyInt ? graph::DType::I64 : graph::DType::F64;
  }

  /// From the head to where the round is over.
  bool round() {
    bool first = true;
    while (first || !scope_.is_over(frame_.pc)) {
      first = false;
      Step done = frame_.advance();
      if (!done || *done == Flow::Returned || *done == Flow::Yielded) return false;
    }
    return true;
  }

  /// Variables that end the round with another value than they began it with. True: some were not known before;
  /// nothing: one of them must not be dropped unseen.
  std::optional<bool> find_changes() {
    bool found = false;
    for (std::size_t k = 0; k < before_.size(); ++k) {
      if (resolved(frame_.locals[k]) == resolved(starts_[k]) || carried_.count(k) || hidden_.count(k)) continue;
      if (may_finalize(before_[k])) return std::nullopt;
      (may_carry(before_[k], frame_.locals[k]) ? carried_ : hidden_).insert(k);
      found = true;
    }
    return found;
  }

  bool may_carry(Value* held, Value* next) {
    if (!held || !next) return false;
    held = look(x_, held);
    next = look(x_, next);
    if (const std::optional<Wrap> number = number_wrap(*held)) return number == number_wrap(*next);
    if (!held->is_array() || !next->is_array() || held->wrap() != next->wrap() || held->is_weak() != next->is_weak() ||
        held->partial)
      return false;
    const graph::Type& type = s_.graph().type(held->id());
    return differ_as_arrays(s_, *held, *next).empty() && type.strides == graph::c_strides(type.dtype, type.shape);
  }

  /// The condition of another round, and where the loop is left.
  bool decide() {
    graph::GraphBuilder& b = s_.builder();
    graph::ValueId condition;
    if (scope_.decides != graph::kNoValue) {
      const bool forward = scope_.next[0] == scope_.head;
      if (!forward && scope_.next[1] != scope_.head) return false;
      condition = scope_.decides;
      if (!forward) {
        const graph::ValueId operands[] = {condition};
        graph::BuildResult inverse = b.elementwise(graph::Op::LogicalNot, operands);
        if (!inverse) return false;
        condition = *inverse;
      }
      scope_.exits = {scope_.next[forward ? 1 : 0]};
    } else {
      if (!scope_.where || !scope_.where->is_array()) return false;
      const graph::ValueId operands[] = {scope_.where->id(),
                                         b.constant(graph::DType::I64, graph::Scalar{scope_.head, 0})};
      graph::BuildResult again = b.elementwise(graph::Op::Equal, operands);
      if (!again) return false;
      condition = *again;
    }
    body_->results.assign(1, condition);
    return !scope_.exits.empty() && depends_on_round(s_.graph(), *body_, condition);
  }

  /// What the round gives: carried values first, then those of variables that it makes anew.
  Outcome give() {
    if (writes_what_is_carried()) return kRefused;
    after_ = frame_.locals;
    bool more = false;
    for (std::size_t k : carried_) {
      Value* next = look(x_, frame_.locals[k]);
      if (!next || !may_carry(starts_[k], next)) return kRefused;
      if (is_mutable_array(*next) && !is_fresh(*next)) {
        const bool own =
            next == starts_[k] || (next->which() != graph::kNoValue && next->items == std::vector<Value*>{starts_[k]});
        if (!own) return kRefused;
        more = kept_.insert(k).second || more;
      }
      Value* made = output_of(next, starts_[k]->wrap());
      if (!made) return kRefused;
      // Two names of one array are that behind the loop too.
      const auto [known, first] = names_.emplace(next, made);
      if (!first && (kept_.count(k) || known->second->which() != graph::kNoValue)) return kRefused;
      after_[k] = known->second;
    }
    if (more) return kAgain;
    for (std::size_t k : kept_)
      if (!keep(k, look(x_, frame_.locals[k]))) return kRefused;
    for (std::size_t k : hidden_) after_[k] = behind(frame_.locals[k]);
    if (scope_.exits.size() > 1) where_ = output_of(scope_.where, Wrap::PyInt);
    std::vector<graph::ValueId> arrays;
    for (const auto& [value, made] : names_)
      if (is_mutable_array(*made)) arrays.push_back(s_.graph().root(value->id()));
    std::sort(arrays.begin(), arrays.end());
    return std::adjacent_find(arrays.begin(), arrays.end()) == arrays.end() ? kCaptured : kRefused;
  }

  /// In its first round the loop reads what it begins with where that lies.
  bool writes_what_is_carried() {
    const std::vector<graph::ValueId> written = graph::written_roots(s_.graph(), *body_);
    return std::any_of(carried_.begin(), carried_.end(), [&](std::size_t k) {
      const Value* held = look(x_, before_[k]);
      return held->is_array() &&
             std::find(written.begin(), written.end(), s_.graph().root(held->id())) != written.end();
    });
  }

  /// Is the array of a carried variable behind the round still the object from before the loop (1), or a new one (0)?
  bool keep(std::size_t k, const Value* next) {
    graph::GraphBuilder& b = s_.builder();
    const graph::ValueId zero = b.constant(graph::DType::I64, {});
    graph::ValueId still = zero;
    if (next == starts_[k]) {
      still = which_[k];
    } else if (next->which() != graph::kNoValue) {
      const graph::ValueId same[] = {next->which(), zero};
      graph::BuildResult is_new = b.elementwise(graph::Op::Equal, same);
      if (!is_new) return false;
      const graph::ValueId chosen[] = {*is_new, zero, which_[k]};
      graph::BuildResult kept = b.elementwise(graph::Op::Where, chosen);
      if (!kept) return false;
      still = *kept;
    }
    outputs_.push_back({still, nullptr, after_[k]});
    after_[k]->items = {look(x_, before_[k])};
    return true;
  }

  bool is_fresh(const Value& v) const { return is_own(s_, v, mark_); }

  Value* output_of(Value* v, Wrap wrap) {
    Captured<graph::ValueId> id = graph_value(x_, v, wrap);
    if (!id) return nullptr;
    Value* made = s_.values().make(ValueKind::Array);
    made->as_array().wrap = wrap;
    made->as_array().weak = v->is_weak() || !v->is_array();
    outputs_.push_back({*id, made, nullptr});
    return made;
  }

  /// What a variable that each round makes anew is behind the loop.
  Value* behind(Value* given) {
    Value* v = resolved(given);
    if (!v || (is_unknown(v) && !is_choice(v))) return v;
    if (v->number < mark_.values || v->source || v->is_constant() || v->kind == ValueKind::Int) return v;
    if (const auto known = names_.find(v); known != names_.end()) return known->second;
    const bool usable = v->is_array() && !v->partial && (is_mutable_array(*v) ? is_fresh(*v) : true);
    Value* made = usable ? output_of(v, v->wrap()) : nullptr;
    if (!made) return unknown_value(s_);
    names_.emplace(v, made);
    return made;
  }

  /// Appends the loop and goes on behind it.
  std::optional<Step> leave() {
    graph::GraphBuilder& b = s_.builder();
    std::vector<graph::ValueId> initial;
    for (std::size_t k : carried_) {
      Value* held = look(x_, before_[k]);
      Captured<graph::ValueId> id = graph_value(x_, held, starts_[k]->wrap());
      if (!id) return std::nullopt;
      initial.push_back(*id);
    }
    for (std::size_t i = 0; i < kept_.size(); ++i)
      initial.push_back(b.constant(graph::DType::I64, graph::Scalar{1, 0}));
    for (const Output& o : outputs_) body_->results.push_back(o.id);
    const graph::ValueId loop = b.loop(std::move(initial), std::move(body_));
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const graph::ValueId output = b.output(loop, static_cast<int64_t>(i));
      if (outputs_[i].made) outputs_[i].made->as_array().id = output;
      else outputs_[i].chooses->choice().which = output;
    }
    for (const Output& o : outputs_) {
      if (!o.chooses) continue;
      s_.inputs().share(o.chooses->id());
      s_.inputs().share(o.chooses->items[0]->id());
    }
    frame_.locals = after_;
    frame_.stack = stack_;
    const FlowMap& map = frame_.view->flow_map();
    uint32_t join = map.join(scope_.head);
    while (join < map.end() && scope_.members[join]) join = map.join(join);
    if (scope_.exits.size() > 1 && join == FlowMap::kNowhere) return std::nullopt;
    Step left = go_on({scope_.exits.begin(), scope_.exits.end()}, join);
    if (!left) return std::nullopt;
    return left;
  }

  /// To the exit of which `where_` is the number.
  Step go_on(const std::vector<uint32_t>& exits, uint32_t join) {
    frame_.pc = exits[0];
    if (exits.size() == 1) return Flow::Jumped;
    graph::GraphBuilder& b = s_.builder();
    const graph::ValueId operands[] = {where_->id(), b.constant(graph::DType::I64, graph::Scalar{exits[0], 0})};
    graph::BuildResult is_first = b.elementwise(graph::Op::Equal, operands);
    if (!is_first) return break_at(BreakId::DataDependentBranch, is_first.error().message);
    const Way ways[2] = {{exits[0], stack_, {}},
                         {exits[1], stack_, [&] { return go_on({exits.begin() + 1, exits.end()}, join); }}};
    return fork_paths(frame_, *is_first, ways, join, {});
  }

  SymbolicFrame& frame_;
  Executor& x_;
  Session& s_;
  RoundScope& scope_;
  const Session::Mark mark_;
  const std::vector<Value*> before_, stack_;
  std::vector<Value*> starts_, after_;
  std::set<std::size_t> carried_, hidden_, kept_;  // variables
  std::map<std::size_t, graph::ValueId> which_;    // of those kept
  std::map<const Value*, Value*> names_;           // what a value at the end of the round is behind the loop
  std::unique_ptr<graph::Block> body_;
  std::vector<Output> outputs_;
  Value* where_ = nullptr;
};

std::optional<Step> capture_array_loop(SymbolicFrame& frame) {
  if (!frame.view->may_loop()) return std::nullopt;
  Session& session = frame.session();
  Executor& x = frame.executor();
  const FlowMap& map = frame.view->flow_map();
  if (!map.is_head(frame.pc) || x.options().decide || frame.generator || x.handled() || session.tapes().any() ||
      x.branches >= kMostBranches)
    return std::nullopt;
  if (frame.flow.scope && frame.flow.scope->head == frame.pc) return std::nullopt;  // its own round begins
  int& tries = frame.flow.tries[frame.pc];
  if (tries >= kMostTries) return std::nullopt;
  ++tries;
  RoundScope scope{frame.pc, map.loop_at(frame.pc)};
  const uint32_t location = session.position().location();
  ++x.branches;
  std::optional<Step> done = LoopCapture(frame, scope).run();
  --x.branches;
  session.position().set_location(location);
  if (done) --tries;
  return done;
}

bool is_differentiated_round(SymbolicFrame& frame) {
  if (!frame.session().tapes().any()) return false;
  const FlowMap& map = frame.view->flow_map();
  for (uint32_t head = 0; head < map.end(); ++head)
    if (map.is_head(head) && map.loop_at(head)[frame.pc]) return true;
  return false;
}

bool in_hopeless_loop(SymbolicFrame& frame, uint32_t at) {
  if (frame.flow.scope) return false;
  return std::any_of(frame.flow.tries.begin(), frame.flow.tries.end(), [&](const auto& tried) {
    const std::vector<bool>& members = frame.view->flow_map().loop_at(tried.first);
    return tried.second >= kMostTries && members[at];
  });
}

}  // namespace framejit::capture
