// Control flow that depends on array values: both sides of a branch are captured up to where they meet, and become the
// blocks of an `if` of the graph.
//
//     if x.sum() > 0:        %3 = if %2 {
//         y = x + 1            %4 = add %x, %c
//     else:                    yield %4
//         y = x - 1          } else { ... }
//                            %6 = output %3 {index=0}
//
// Values that differ where the sides meet become outputs. They must be of one kind and type; a variable that is not is
// left unknown, which ends the capture if it is used. An effect or a break on one side leaves the branch to the
// bytecode. An object that existed before and comes through unchanged stays the same object: the graph then says which
// one it is (Value::which), and the exit takes that.
#include "capture/flow.h"

#include <algorithm>
#include <map>
#include <utility>

#include "capture/containers.h"
#include "capture/frontend.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/repr.h"
#include "capture/region_builder.h"
#include "graph/support/check.h"

namespace framejit::capture {

Value* unknown_value(Session& s) {
  Value* v = s.values().make(ValueKind::Null);
  v->partial = true;
  return v;
}

std::optional<Wrap> number_wrap(const Value& v) {
  if (v.kind == ValueKind::Int) return Wrap::PyInt;
  if (v.is_array()) return v.is_weak() ? std::optional(v.wrap()) : std::nullopt;
  if (!v.is_constant()) return std::nullopt;
  PyObject* o = v.object.get();
  if (PyBool_Check(o)) return Wrap::PyBool;
  if (PyFloat_CheckExact(o)) return Wrap::PyFloat;
  if (PyLong_CheckExact(o) && fits_int64(v)) return Wrap::PyInt;
  return std::nullopt;
}

Captured<graph::ValueId> graph_value(Executor& x, Value* v, Wrap wrap) {
  if (v->is_array()) return v->id();
  if (wrap == Wrap::PyFloat) return f64(x, v);
  graph::GraphBuilder& b = x.session().builder();
  if (v->kind == ValueKind::Int) return b.dim_value(v->dim());
  return b.constant(wrap == Wrap::PyBool ? graph::DType::Bool : graph::DType::I64,
                    graph::Scalar{static_cast<uint64_t>(dim_of(*v).value()), 0});
}

std::string differ_as_arrays(Session& s, const Value& a, const Value& b) {
  const graph::Type &x = s.graph().type(a.id()), &y = s.graph().type(b.id());
  if (x.dtype != y.dtype || x.rank() != y.rank()) return "arrays of two dtypes or ranks";
  if (x.shape != y.shape || x.strides != y.strides) return "arrays of two shapes, or orders in memory";
  if (s.inputs().writing(a.id()) != Writing::Allowed || s.inputs().writing(b.id()) != Writing::Allowed)
    return "arrays that are read-only";
  return {};
}

bool is_new(const Value& v, const Session::Mark& mark) { return v.number >= mark.values && !v.source && !v.object; }

bool is_own(Session& s, const Value& v, const Session::Mark& mark) {
  if (!is_new(v, mark) || v.kind != ValueKind::Array || v.which() != graph::kNoValue) return false;
  const graph::Op op = s.graph().node(v.id()).op;
  if (is_measured_since(s, mark, s.graph().type(v.id()))) return false;
  return !is_mutable_array(v) ||
         (graph::index(v.id()) >= mark.graph.nodes && !s.graph().type(v.id()).is_view() &&
          s.inputs().writing(v.id()) == Writing::Allowed && op != graph::Op::Param && op != graph::Op::Carried);
}

namespace {

/// Makes one value of two where the sides of a branch meet.
class Join {
 public:
  /// `may_choose_items`: things in tuples may be one of several too.
  Join(Executor& x, const Session::Mark& mark, graph::Block& if_true, graph::Block& if_false, bool may_choose_items)
      : x_(x), s_(x.session()), mark_(mark), blocks_{&if_true, &if_false}, may_choose_items_(may_choose_items) {}

  /// Of a variable: unknown where there is no such value.
  Captured<Value*> variable(Value* a, Value* b) {
    Captured<Value*> made = value_or_choice(a, b);
    if (made || may_finalize(a) || may_finalize(b)) return made;
    return unknown_value(s_);
  }

  /// The same where it may be one of several things.
  Captured<Value*> value_or_choice(Value* a, Value* b) {
    Captured<Value*> made = value(a, b);
    if (made || may_finalize(a) || may_finalize(b)) return made;
    Captured<Value*> chosen = choice(a, b);
    return chosen ? chosen : made;  // the first reason is the telling one
  }

  /// What is one thing on one side and another on the other is this.
  void remember(Value* a, Value* b, Value* made) {
    known_.emplace(std::pair{look(x_, resolved(a)), look(x_, resolved(b))}, made);
  }

  Captured<Value*> value(Value* a, Value* b) {
    a = resolved(a);
    b = resolved(b);
    if (a == b) return a;
    if (!a || !b) return differ("a variable that one side leaves unbound");
    a = look(x_, a);
    b = look(x_, b);
    if (const auto known = known_.find({a, b}); known != known_.end()) return known->second;
    if (is_unknown(a) || is_unknown(b)) return differ("a variable that may be unbound");
    if (a == b || (a->kind == ValueKind::Null && b->kind == ValueKind::Null)) return a;
    if (a->is_constant() && b->is_constant() && a->object.get() == b->object.get()) return a;
    if (a->kind == ValueKind::Int && b->kind == ValueKind::Int && a->dim() == b->dim()) return a;
    Captured<Value*> made = joined(a, b);
    if (made) known_.emplace(std::pair{a, b}, *made);
    return made;
  }

  /// Appends the `if`; the values made so far become its outputs.
  Captured<bool> finish(graph::ValueId condition, std::unique_ptr<graph::Block> if_true,
                        std::unique_ptr<graph::Block> if_false) {
    FRAMEJIT_REQUIRE(check_own());
    graph::GraphBuilder& builder = s_.builder();
    const graph::ValueId branch = builder.branch(condition, std::move(if_true), std::move(if_false));
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const graph::ValueId output = builder.output(branch, static_cast<int64_t>(i));
      if (results_[i].made) results_[i].made->as_array().id = output;
      if (results_[i].chooses) results_[i].chooses->choice().which = output;
    }
    for (const Result& r : results_) {
      if (!r.chooses || !r.chooses->is_array() || !is_mutable_array(*r.chooses)) continue;
      s_.inputs().share(r.chooses->id());
      for (const Value* v : r.chooses->items) s_.inputs().share(v->id());
    }
    return true;
  }

 private:
  /// What becomes output number i: a value, or which object a value is.
  struct Result {
    Value* made = nullptr;
    Value* chooses = nullptr;
  };

  static Unexpected<Break> differ(std::string how) { return break_at(BreakId::DataDependentBranch, std::move(how)); }

  std::string kind(Value* v) const {
    if (v->is_none()) return "None";
    PyObject* type = type_of(x_, v);
    return type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "another type";
  }

  Captured<Value*> joined(Value* a, Value* b) {
    if (a->kind == ValueKind::Tuple && b->kind == ValueKind::Tuple && is_new(*a, mark_) && is_new(*b, mark_) &&
        a->items.size() == b->items.size()) {
      Values items;
      for (std::size_t i = 0; i < a->items.size(); ++i) {
        FRAMEJIT_TRY(item,
                     may_choose_items_ ? value_or_choice(a->items[i], b->items[i]) : value(a->items[i], b->items[i]));
        items.push_back(item);
      }
      return s_.values().tuple(std::move(items));
    }
    const std::optional<Wrap> number = number_wrap(*a);
    if (number && number == number_wrap(*b)) return of_ids(a, b, *number);
    if (!a->is_array() || !b->is_array() || a->wrap() != b->wrap() || a->is_weak() != b->is_weak())
      return differ("a value that is " + kind(a) + " on one side and " + kind(b) + " on the other");
    if (may_finalize(a) || may_finalize(b)) return differ("an array whose end runs code");
    if (a->partial || b->partial) return differ("a view of an array that is known at run time only");
    if (std::string why = differ_as_arrays(s_, *a, *b); !why.empty()) return differ(std::move(why));
    const graph::Type& type = s_.graph().type(a->id());
    if (is_mutable_array(*a) && !is_own(s_, *a, mark_) && !is_own(s_, *b, mark_) &&
        type.strides != graph::c_strides(type.dtype, type.shape))
      return differ("arrays that are not contiguous");
    return of_ids(a, b, a->wrap());
  }

  Captured<Value*> choice(Value* a, Value* b) {
    Value* const sides[] = {look(x_, resolved(a)), look(x_, resolved(b))};
    Value* made = unknown_value(s_);
    struct Possible {
      int64_t number;  // in `which` of the side's value
      int64_t place;   // in made->items
    };
    std::vector<Possible> possible[2];
    for (int side : {0, 1}) {
      Value* v = sides[side];
      if (!v || (is_unknown(v) && !is_choice(v))) return differ("a variable that may be unbound");
      // An array that an inner branch chose, too.
      const bool chosen = is_choice(v) || (is_inner_choice(*v) && v->is_never_new());
      const Values things = chosen ? v->items : Values{v};
      for (std::size_t k = 0; k < things.size(); ++k) {
        FRAMEJIT_TRY(item, item_of(side, things[k]));
        const auto at = std::find(made->items.begin(), made->items.end(), item);
        possible[side].push_back({static_cast<int64_t>(k) + (is_choice(v) ? 0 : 1), at - made->items.begin()});
        if (at == made->items.end()) made->items.push_back(item);
      }
    }
    if (made->items.size() > kMostChoices) return differ("a variable that may be one of too many values");
    for (int side : {0, 1}) {
      const OpenBlock opened(s_, *blocks_[side]);
      graph::ValueId which = constant(possible[side][0].place);
      for (std::size_t k = 1; k < possible[side].size(); ++k) {
        const graph::ValueId operands[] = {sides[side]->which(), constant(possible[side][k].number)};
        FRAMEJIT_TRY(chosen, node(graph::Op::Equal, operands));
        const graph::ValueId numbers[] = {chosen, constant(possible[side][k].place), which};
        FRAMEJIT_TRY(next, node(graph::Op::Where, numbers));
        which = next;
      }
      blocks_[side]->results.push_back(which);
    }
    results_.push_back({nullptr, made});
    known_.emplace(std::pair{sides[0], sides[1]}, made);
    return made;
  }

  /// What a side gives, behind the join: numbers and arrays that it makes are outputs of their own, whose value on the
  /// other side is of no importance.
  Captured<Value*> item_of(int side, Value* v) {
    v = look(x_, v);
    if (v->is_constant() || v->kind == ValueKind::Int) return v;
    if (!is_new(*v, mark_) && v->kind != ValueKind::Null && v->kind != ValueKind::Iterator && is_materializable(v)) {
      std::set<const Value*> seen;
      if (holds_result_of_side(v, seen)) return differ("an object with a value that is made on one side");
      return v;
    }
    if (const auto known = alone_[side].find(v); known != alone_[side].end()) return known->second;
    if (v->is_array() && is_measured_since(s_, mark_, s_.graph().type(v->id())))
      return differ("an array of a size that one side finds out");
    if (!is_own(s_, *v, mark_)) return differ("a value that is made on one side");
    const graph::Type type = s_.graph().type(v->id());
    if (type.strides != graph::c_strides(type.dtype, type.shape)) return differ("arrays that are not contiguous");
    if (is_mutable_array(*v) && has_another_name(side, v->id())) return differ("an array with two names on one side");
    blocks_[side]->results.push_back(v->id());
    {
      const OpenBlock opened(s_, *blocks_[1 - side]);
      const graph::ValueId zero = s_.builder().constant(type.dtype, {});
      blocks_[1 - side]->results.push_back(type.rank() == 0 ? zero : s_.builder().full(zero, type.shape));
    }
    Value* made = s_.values().make(ValueKind::Array);
    made->as_array().wrap = v->wrap();
    made->as_array().weak = v->is_weak();
    results_.push_back({made, nullptr});
    if (is_mutable_array(*v)) own_[side].push_back(v->id());
    alone_[side].emplace(v, made);
    return made;
  }

  Captured<Value*> of_ids(Value* a, Value* b, Wrap wrap) {
    Value* made = s_.values().make(ValueKind::Array);
    made->as_array().wrap = wrap;
    made->as_array().weak = a->is_weak() || !a->is_array();
    const bool own[] = {is_own(s_, *a, mark_), is_own(s_, *b, mark_)};
    // True and False are what they are.
    const bool chooses = wrap != Wrap::PyBool && !(own[0] && own[1]);
    if (chooses) {
      for (const Value* v : {a, b}) {
        FRAMEJIT_REQUIRE(may_choose(*made, *v));
      }
    }
    graph::ValueId ids[2];
    for (int side : {0, 1}) {
      const OpenBlock opened(s_, *blocks_[side]);
      FRAMEJIT_TRY(id, graph_value(x_, side == 0 ? a : b, wrap));
      ids[side] = id;
    }
    for (int side : {0, 1}) {
      if (is_mutable_array(*made) && own[side]) own_[side].push_back(ids[side]);
      if (is_mutable_array(*made) && !own[side]) passed_[side].push_back(ids[side]);
      blocks_[side]->results.push_back(ids[side]);
    }
    results_.push_back({made, nullptr});
    if (chooses) {
      FRAMEJIT_REQUIRE(choose(made, a, b));
    }
    return made;
  }

  /// Chosen by a branch within the side.
  bool is_inner_choice(const Value& v) const { return v.which() != graph::kNoValue && v.number >= mark_.values; }

  Captured<bool> may_choose(const Value& made, const Value& v) const {
    if (!is_inner_choice(v)) {
      if (!is_own(s_, v, mark_) && is_made_within(made, v)) return differ("a view that one side makes of an array");
      return true;
    }
    for (const Value* item : v.items) {
      FRAMEJIT_REQUIRE(may_choose(made, *item));
    }
    return true;
  }

  bool is_made_within(const Value& made, const Value& v) const {
    return is_mutable_array(made) && v.is_array() && graph::index(v.id()) >= mark_.graph.nodes &&
           s_.graph().node(v.id()).op != graph::Op::Param;
  }

  /// Which object it is, as an output of its own: 0, or one more than the place in made->items.
  Captured<bool> choose(Value* made, Value* a, Value* b) {
    made->choice().never_new = true;
    for (int side : {0, 1}) {
      const OpenBlock opened(s_, *blocks_[side]);
      FRAMEJIT_TRY(which, object_of(made, side == 0 ? a : b, side));
      blocks_[side]->results.push_back(which);
    }
    results_.push_back({nullptr, made});
    return true;
  }

  Captured<graph::ValueId> object_of(Value* made, Value* v, int side) {
    if (!is_inner_choice(*v)) return constant(number_of(made, v));
    if (!v->is_never_new()) {
      made->choice().never_new = false;
      if (is_mutable_array(*v)) folded_[side].push_back(v->id());
    }
    graph::ValueId which = constant(0);
    for (std::size_t k = 0; k < v->items.size(); ++k) {
      Value* item = v->items[k];
      if (is_own(s_, *item, mark_)) {  // new as well, seen from outside
        made->choice().never_new = false;
        if (is_mutable_array(*item)) folded_[side].push_back(item->id());
        continue;
      }
      FRAMEJIT_TRY(number, object_of(made, item, side));
      const graph::ValueId operands[] = {v->which(), constant(static_cast<int64_t>(k) + 1)};
      FRAMEJIT_TRY(chosen, node(graph::Op::Equal, operands));
      const graph::ValueId numbers[] = {chosen, number, which};
      FRAMEJIT_TRY(next, node(graph::Op::Where, numbers));
      which = next;
    }
    return which;
  }

  /// The place of an object among those that are there already, from 1 on; 0: it is new.
  int64_t number_of(Value* made, Value* v) {
    if (is_own(s_, *v, mark_)) {
      made->choice().never_new = false;
      return 0;
    }
    auto at = std::find(made->items.begin(), made->items.end(), v);
    if (at == made->items.end()) at = made->items.insert(at, v);
    return at - made->items.begin() + 1;
  }

  graph::ValueId constant(int64_t number) {
    return s_.builder().constant(graph::DType::I64, graph::Scalar{static_cast<uint64_t>(number), 0});
  }

  /// Whether an object made on a side refers to a node of the side's block, which only that block can name.
  bool holds_result_of_side(const Value* v, std::set<const Value*>& seen) const {
    if (!v || v->number < mark_.values || v->source || !seen.insert(v).second) return false;
    const auto of_side = [&](graph::ValueId id) {
      return id != graph::kNoValue && graph::index(id) >= mark_.graph.nodes &&
             s_.graph().node(id).op != graph::Op::Param;
    };
    if (of_side(v->id()) || of_side(v->which())) return true;
    const auto holds = [&](const Value* part) { return holds_result_of_side(part, seen); };
    return std::any_of(v->items.begin(), v->items.end(), holds) ||
           (v->has_attributes() && std::any_of(v->attributes().begin(), v->attributes().end(),
                                               [&](const auto& attribute) { return holds(attribute.second); }));
  }

  Captured<graph::ValueId> node(graph::Op op, std::span<const graph::ValueId> operands) {
    graph::BuildResult made = s_.builder().elementwise(op, operands);
    if (!made) return differ(made.error().message);
    return *made;
  }

  bool has_another_name(int side, graph::ValueId v) const {
    const auto is_it = [&](graph::ValueId other) { return s_.graph().root(other) == v; };
    return std::any_of(own_[side].begin(), own_[side].end(), is_it) ||
           std::any_of(folded_[side].begin(), folded_[side].end(), is_it) ||
           std::any_of(passed_[side].begin(), passed_[side].end(), is_it);
  }

  /// New arrays of one side are two objects behind the join only if they are two before it.
  Captured<bool> check_own() const {
    for (int side : {0, 1}) {
      std::vector<graph::ValueId> roots = own_[side];
      // What is new of its own was counted when it was yielded; what a choice may be, once for each choice.
      for (graph::ValueId v : folded_[side])
        if (std::find(own_[side].begin(), own_[side].end(), v) != own_[side].end() ||
            std::count(folded_[side].begin(), folded_[side].end(), v) > 1)
          return differ("an array with two names on one side");
      std::sort(roots.begin(), roots.end());
      if (std::adjacent_find(roots.begin(), roots.end()) != roots.end())
        return differ("an array with two names on one side");
      for (graph::ValueId v : passed_[side])
        if (std::binary_search(roots.begin(), roots.end(), s_.graph().root(v)))
          return differ("an array and a view of it on one side");
    }
    return true;
  }

  Executor& x_;
  Session& s_;
  const Session::Mark& mark_;
  graph::Block* blocks_[2];
  const bool may_choose_items_;
  std::map<std::pair<Value*, Value*>, Value*> known_;
  std::map<Value*, Value*> alone_[2];  // by side: what only it makes, and what that is behind the join
  std::vector<Result> results_;
  std::vector<graph::ValueId> own_[2], passed_[2], folded_[2];  // by side: arrays that are yielded
};

}  // namespace

Captured<graph::ValueId> condition_of(Executor& x, Value* v) {
  graph::GraphBuilder& b = x.session().builder();
  const graph::Type type = x.session().graph().type(v->id());
  if (!(type.size() == graph::Dim(1)))
    return break_at(
        type.size().is_const() && type.size().value() > 1 ? BreakId::WouldRaise : BreakId::DataDependentBranch,
        "the truth of many elements");
  const graph::ValueId one = type.rank() == 0 ? v->id() : b.view(v->id(), {}, {}, 0);
  if (type.dtype == graph::DType::Bool) return one;
  const graph::ValueId operands[] = {one, b.constant(type.dtype, {})};
  graph::BuildResult truth = b.elementwise(graph::Op::NotEqual, operands);
  if (!truth) return break_at(BreakId::DataDependentBranch, truth.error().message);
  return *truth;
}

Captured<Value*> truth_value(Executor& x, Value* v, bool negated) {
  Captured<bool> known_truth = truth_of(x, v);
  if (known_truth) return x.boolean(*known_truth != negated);
  if (known_truth.error().id != BreakId::DataDependentBranch || !v->is_array()) return known_truth.failure();
  FRAMEJIT_TRY(id, condition_of(x, v));
  if (!negated) {
    // The number is read now; what is written into the array later does not reach it.
    const bool read = is_mutable_array(*v) && x.session().graph().root(id) == x.session().graph().root(v->id());
    return x.values().array(read ? x.session().builder().copy(id, 'C') : id, Wrap::PyBool);
  }
  const graph::ValueId operands[] = {id};
  graph::BuildResult inverse = x.session().builder().elementwise(graph::Op::LogicalNot, operands);
  if (!inverse) return break_at(BreakId::DataDependentBranch, inverse.error().message);
  return x.values().array(*inverse, Wrap::PyBool);
}

namespace {

std::optional<Break> run_side(SymbolicFrame& frame, Side& side, uint32_t join) {
  const OpenBlock opened(frame.session(), *side.block);
  const uint32_t around = std::exchange(frame.flow.until, join);
  const auto ends = [&](std::optional<Break> how) {
    frame.flow.until = around;
    return how;
  };
  const std::function<Step()> first = std::exchange(side.first, {});
  for (bool starts = static_cast<bool>(first);
       starts || (frame.pc != join && !(frame.flow.scope && frame.flow.scope->is_over(frame.pc)));) {
    // Before a loop that is compiled as one the region ends in front of the branch.
    if (!starts && frame.outermost && !frame.flow.scope &&
        frame.executor().loops.leaves_outermost(frame.executor(), frame)) {
      Break before{BreakId::ElementLoop};
      before.before_loop = true;
      return ends(frame.locate(std::move(before)));
    }
    Step done = starts ? first() : frame.advance();
    starts = false;
    if (!done) return ends(frame.locate(std::move(done.error())));
    if (*done == Flow::Yielded) return ends(Break{BreakId::GeneratorFrame, "yield in a branch"});
    if (*done != Flow::Returned) continue;
    side.returned = frame.returned;
    break;
  }
  side.pc = frame.pc;
  side.locals = frame.locals;
  side.stack = frame.stack;
  if (frame.flow.scope && !side.returned && frame.flow.scope->is_over(frame.pc)) {
    Captured<Value*> where = next_instruction(frame);
    if (!where) return ends(std::move(where.error()));
    side.where = *where;
    frame.flow.scope->begin();
  }
  return ends(std::nullopt);
}

}  // namespace

Captured<Value*> next_instruction(SymbolicFrame& frame) {
  Session& session = frame.session();
  RoundScope& scope = *frame.flow.scope;
  if (scope.where) return scope.where;
  if (scope.decides == graph::kNoValue) {
    if (frame.pc != scope.head) scope.exits.insert(frame.pc);
    return session.values().integer(graph::Dim(static_cast<int64_t>(frame.pc)));
  }
  graph::ValueId operands[3] = {scope.decides};
  for (int k : {0, 1}) {
    if (scope.next[k] != scope.head) scope.exits.insert(scope.next[k]);
    operands[k + 1] = session.builder().constant(graph::DType::I64, graph::Scalar{scope.next[k], 0});
  }
  graph::BuildResult which = session.builder().elementwise(graph::Op::Where, operands);
  if (!which) return break_at(BreakId::DataDependentBranch, which.error().message);
  return session.values().array(*which, Wrap::PyInt);
}

Step capture_branch(SymbolicFrame& frame, Value* condition, const Instr& i, Break why) {
  Executor& x = frame.executor();
  if (x.options().decide) return follow_branch(frame, condition, i, std::move(why));
  if (why.id != BreakId::DataDependentBranch || !condition->is_array() || frame.generator || x.handled() ||
      is_differentiated_round(frame) || x.branches >= kMostBranches)
    return Unexpected<Break>{std::move(why)};
  const uint32_t here = frame.pc, join = frame.view->flow_map().join(frame.pc);
  if (join == FlowMap::kNowhere || in_hopeless_loop(frame, here)) return Unexpected<Break>{std::move(why)};
  FRAMEJIT_TRY(decides, condition_of(x, condition));
  const bool pops = i.op == Opcode::PopJumpIfFalse || i.op == Opcode::PopJumpIfTrue;
  const bool jumps_if = i.op == Opcode::PopJumpIfTrue || i.op == Opcode::JumpIfTrueOrPop;
  const auto target = static_cast<uint32_t>(i.arg);
  if (target <= here && !frame.flow.scope) {
    FRAMEJIT_REQUIRE(frame.check_unrolled(target));
  }
  const uint32_t targets[] = {jumps_if ? target : frame.view->behind(here),
                              jumps_if ? frame.view->behind(here) : target};
  std::vector<Value*> stacks[] = {frame.stack, frame.stack};
  if (!pops) stacks[jumps_if ? 1 : 0].pop_back();
  if (frame.flow.scope) frame.flow.scope->decided = true;
  if (pops && frame.flow.scope && frame.flow.scope->is_over(targets[0]) && frame.flow.scope->is_over(targets[1])) {
    frame.flow.scope->decides = decides;
    std::copy_n(targets, 2, frame.flow.scope->next);
    return Flow::Jumped;
  }
  Way ways[2];
  for (int k : {0, 1}) ways[k] = {targets[k], stacks[k], {}};
  return fork_paths(frame, decides, ways, join, {});
}

Step follow_branch(SymbolicFrame& frame, Value* condition, const Instr& i, Break why) {
  Session& session = frame.session();
  Executor& x = frame.executor();
  if (why.id != BreakId::DataDependentBranch || !condition->is_array()) return Unexpected<Break>{std::move(why)};
  if (x.options().fullgraph)
    return break_at(BreakId::DataDependentBranch, "capture_mode='trace' records one way of two");
  FRAMEJIT_TRY(decides, condition_of(x, condition));
  auto upto = std::make_shared<Region>();
  upto->function = "a condition";
  upto->view = frame.view;
  if (!RegionBuilder(x, session, *upto).build_truth(decides)) return Unexpected<Break>{std::move(why)};
  const std::optional<bool> goes = x.options().decide(std::move(upto));
  if (!goes) return Unexpected<Break>{std::move(why)};
  graph::ValueId expected = decides;
  if (!*goes) {
    const graph::ValueId operands[] = {decides};
    graph::BuildResult inverse = session.builder().elementwise(graph::Op::LogicalNot, operands);
    if (!inverse) return break_at(BreakId::DataDependentBranch, inverse.error().message);
    expected = *inverse;
  }
  session.builder().expect(expected);
  if (*goes == (i.op == Opcode::PopJumpIfTrue || i.op == Opcode::JumpIfTrueOrPop)) return frame.jump(i);
  if (i.op == Opcode::JumpIfTrueOrPop || i.op == Opcode::JumpIfFalseOrPop) frame.pop_raw();
  return Flow::Next;
}

Step split_choice(SymbolicFrame& frame, Value* choice, std::size_t depth) {
  const FlowMap& map = frame.view->flow_map();
  uint32_t join = map.join(frame.pc);
  while (join < map.end() && join != frame.flow.until &&
         static_cast<std::size_t>(frame.view->instrs()[join].depth) > depth)
    join = map.join(join);
  if (join == FlowMap::kNowhere || frame.generator || frame.executor().handled() || is_differentiated_round(frame) ||
      frame.executor().branches >= kMostBranches)
    return break_at(BreakId::DataDependentBranch, "a value that is known at run time only");
  graph::GraphBuilder& b = frame.session().builder();
  const auto number = [&](int64_t n) {
    return b.constant(graph::DType::I64, graph::Scalar{static_cast<uint64_t>(n), 0});
  };
  const graph::ValueId operands[] = {choice->which(), number(0)};
  graph::BuildResult is_first = b.elementwise(graph::Op::Equal, operands);
  if (!is_first) return break_at(BreakId::DataDependentBranch, is_first.error().message);
  Value* rest = choice->items[1];
  if (choice->items.size() > 2) {
    const graph::ValueId less[] = {choice->which(), number(1)};
    graph::BuildResult which = b.elementwise(graph::Op::Subtract, less);
    if (!which) return break_at(BreakId::DataDependentBranch, which.error().message);
    rest = unknown_value(frame.session());
    rest->choice().which = *which;
    rest->items.assign(choice->items.begin() + 1, choice->items.end());
  }
  if (frame.flow.scope) frame.flow.scope->decided = true;
  Way ways[2] = {{frame.pc, frame.stack, {}}, {frame.pc, frame.stack, {}}};
  for (int k : {0, 1}) {
    Value* known = k == 0 ? choice->items[0] : rest;
    ways[k].first = [&frame, choice, known] {
      for (std::vector<Value*>* slots : {&frame.locals, &frame.stack})
        std::replace(slots->begin(), slots->end(), choice, known);
      return settle_stack(frame);
    };
  }
  return fork_paths(frame, *is_first, ways, join, {choice, rest});
}

Captured<bool> choose_item(SymbolicFrame& frame, Value* container, Value* key) {
  Executor& x = frame.executor();
  const bool whole = x.options().fullgraph || x.session().tapes().any();
  if (!whole || x.options().decide || !key->is_array() || !key->items.empty() ||
      (container->kind != ValueKind::Tuple && container->kind != ValueKind::List))
    return false;
  const graph::Type type = x.session().graph().type(key->id());
  if (type.rank() != 0 || !graph::is_int(type.dtype) || type.dtype == graph::DType::U64) return false;
  FRAMEJIT_TRY(items, unpack(x, container));
  if (items.empty() || items.size() > kMostChosenItems) return false;
  graph::GraphBuilder& b = x.session().builder();
  const auto number = [&](std::size_t n) { return b.constant(graph::DType::I64, graph::Scalar{n, 0}); };
  std::optional<Break> failed;
  const auto f = [&](graph::Op op, std::initializer_list<graph::ValueId> operands) {
    const graph::BuildResult made = b.elementwise(op, {operands.begin(), operands.size()});
    if (!made && !failed) failed = Break{BreakId::DataDependentBranch, made.error().message};
    return made ? *made : operands.begin()[0];
  };
  const graph::BuildResult given = b.cast(key->id(), graph::DType::I64);
  if (!given) return break_at(BreakId::DataDependentBranch, given.error().message);
  using graph::Op;
  const graph::ValueId size = number(items.size()), zero = number(0);
  const graph::ValueId place = f(Op::Where, {f(Op::Less, {*given, zero}), f(Op::Add, {*given, size}), *given});
  b.expect(f(Op::LogicalAnd, {f(Op::LessEqual, {zero, place}), f(Op::Less, {place, size})}));
  if (failed) return Unexpected<Break>{std::move(*failed)};
  if (items.size() == 1) {
    frame.push(items[0]);
    return true;
  }
  Value* choice = unknown_value(x.session());
  choice->choice().which = place;
  choice->items = std::move(items);
  frame.push(choice);
  return true;
}

Step settle_stack(SymbolicFrame& frame) {
  for (std::size_t k = 0; k < frame.stack.size(); ++k)
    if (is_choice(frame.stack[k])) return split_choice(frame, frame.stack[k], k);
  return Flow::Jumped;
}

namespace {

/// Iterators that the `for` loops of a frame run over, which nobody else knows.
void collect_iterators(const Value* v, uint32_t first, std::set<const Value*>& out) {
  if (!v || v->kind != ValueKind::Iterator || v->number < first || v->as_iterator().over == Over::Generator) return;
  if (!out.insert(v).second) return;
  for (const Value* inner : v->items) collect_iterators(inner, first, out);
}

/// Lists that the capture made, in variables and in each other: both sides may change them in the same way.
void collect_lists(Value* v, Values& out, int depth = 0) {
  v = resolved(v);
  if (!v || v->source || depth > 8 || (v->kind != ValueKind::List && v->kind != ValueKind::Tuple)) return;
  if (std::find(out.begin(), out.end(), v) != out.end()) return;
  if (v->kind == ValueKind::List) out.push_back(v);
  for (Value* item : v->items) collect_lists(item, out, depth + 1);
}

bool holds(const Value* v, const std::set<const Value*>& wanted, int depth = 0) {
  if (!v || wanted.empty()) return false;
  if (wanted.count(v) != 0 || depth > 8) return true;
  return std::any_of(v->items.begin(), v->items.end(),
                     [&](const Value* item) { return holds(item, wanted, depth + 1); }) ||
         (v->has_attributes() &&
          std::any_of(v->attributes().begin(), v->attributes().end(),
                      [&](const auto& attribute) { return holds(attribute.second, wanted, depth + 1); }));
}

bool raises(BreakId id) { return id == BreakId::WouldRaise || id == BreakId::ExceptionHandling; }

}  // namespace

Step fork_paths(SymbolicFrame& frame, graph::ValueId decides, const Way (&ways)[2], uint32_t join, Split split) {
  Session& session = frame.session();
  Executor& x = frame.executor();
  const auto refuse = [](std::string detail) { return break_at(BreakId::DataDependentBranch, std::move(detail)); };
  const Session::Mark mark = session.mark();
  const uint32_t here = frame.pc, location = session.position().location();
  const std::vector<Value*> held_locals = frame.locals, held_stack = frame.stack;
  const std::vector<SymbolicFrame::Loop> held_loops = frame.loops;
  Side sides[2];
  for (int k : {0, 1}) sides[k].first = ways[k].first;
  std::optional<Break> broken;
  std::set<const Value*> iterators, moved;
  for (const Value* v : held_stack) collect_iterators(v, frame.flow.first_value, iterators);
  Values lists;
  for (const std::vector<Value*>* slots : {&held_locals, &held_stack})
    for (Value* v : *slots) collect_lists(v, lists);
  iterators.insert(lists.begin(), lists.end());
  std::map<const Value*, Values> contents[2];  // of the lists, where the sides end
  bool again = false;
  const auto run = [&](Side& side, uint32_t until) {
    frame.loops = held_loops;
    const Session::Mark before = session.mark();
    broken = run_side(frame, side, until);
    if (broken) return;
    for (const Value* list : lists) contents[&side - sides][list] = list->items;
    moved.merge(session.undo().take_back(before.undo, iterators));
  };
  ++x.branches;
  int raising = -1;
  for (int k = 0; k < 2 && !broken; ++k) {
    frame.locals = held_locals;
    frame.stack = ways[k].stack;
    frame.pc = ways[k].pc;
    run(sides[k], join);
    if (broken && raises(broken->id) && raising < 0) {
      raising = k;
      broken.reset();
    }
  }
  // One side has ended the round of a loop, the other one waits for it.
  for (int k = 0; k < 2 && !broken; ++k) {
    if (raising >= 0 || sides[k].where || sides[k].returned || !sides[1 - k].where) continue;
    frame.locals = sides[k].locals;
    frame.stack = sides[k].stack;
    frame.pc = sides[k].pc;
    again = true;
    run(sides[k], FlowMap::kNowhere);
  }
  --x.branches;
  frame.pc = here;
  frame.locals = held_locals;
  frame.stack = held_stack;
  frame.loops = held_loops;
  session.position().set_location(location);
  if (broken && broken->before_loop) return Unexpected<Break>{std::move(*broken)};
  if (broken && broken->id == BreakId::DataDependentBranch && !broken->detail.empty()) return refuse(broken->detail);
  if (broken) return refuse("one side: " + std::string(info(broken->id).what));
  if (raising >= 0) {
    // The side that raises is left to the interpreter, if it should come to that; the other one goes on.
    session.rollback(mark);
    graph::ValueId expected = decides;
    if (raising == 0) {
      const graph::ValueId operands[] = {decides};
      graph::BuildResult inverse = session.builder().elementwise(graph::Op::LogicalNot, operands);
      if (!inverse) return refuse(inverse.error().message);
      expected = *inverse;
    }
    session.builder().expect(expected);
    const Way& other = ways[1 - raising];
    frame.stack = other.stack;
    frame.pc = other.pc;
    return other.first ? other.first() : Step(Flow::Jumped);
  }
  if (x.handled() || !is_pure(session, mark, iterators)) return refuse("one side changes what others may see");
  if (!sides[0].returned != !sides[1].returned) return refuse("one side returns");
  const bool returns = sides[0].returned != nullptr;
  Join meet(x, mark, *sides[0].block, *sides[1].block, returns && frame.outermost);
  if (split.choice) meet.remember(split.choice->items[0], split.rest, split.choice);
  std::vector<std::pair<Value*, Values>> joined_lists;
  for (Value* list : lists) {
    if (moved.erase(list) == 0) continue;
    Values& items = joined_lists.emplace_back(list, Values()).second;
    const Values &a = contents[0][list], &b = contents[1][list];
    if (again || a.size() != b.size()) return refuse("a list that the sides change in two ways");
    for (std::size_t k = 0; k < a.size(); ++k) {
      FRAMEJIT_TRY(item, meet.value(a[k], b[k]));
      items.push_back(item);
    }
  }
  Value* where = nullptr;
  if (returns) {
    FRAMEJIT_TRY(value, frame.outermost ? meet.value_or_choice(sides[0].returned, sides[1].returned)
                                        : meet.value(sides[0].returned, sides[1].returned));
    frame.returned = value;
  } else {
    if (sides[0].stack.size() != sides[1].stack.size()) return refuse("two depths of the stack");
    // What has one value for both sides comes first: what may be one of several things must not be that.
    for (std::size_t k = 0; k < frame.locals.size(); ++k)
      (void)meet.value(sides[0].locals[k], sides[1].locals[k]).has_value();
    for (std::size_t k = 0; k < sides[0].stack.size(); ++k)
      (void)meet.value(sides[0].stack[k], sides[1].stack[k]).has_value();
    for (std::size_t k = 0; k < frame.locals.size(); ++k) {
      FRAMEJIT_TRY(value, meet.variable(sides[0].locals[k], sides[1].locals[k]));
      sides[0].locals[k] = value;
    }
    for (std::size_t k = 0; k < sides[0].stack.size(); ++k) {
      FRAMEJIT_TRY(value, meet.value_or_choice(sides[0].stack[k], sides[1].stack[k]));
      sides[0].stack[k] = value;
    }
    const bool one_place =
        sides[0].pc == sides[1].pc && sides[0].where && sides[0].where->is_constant() && sides[1].where->is_constant();
    if (sides[0].where && !one_place) {
      FRAMEJIT_TRY(value, meet.value(sides[0].where, sides[1].where));
      where = value;
    }
  }
  FRAMEJIT_REQUIRE(meet.finish(decides, std::move(sides[0].block), std::move(sides[1].block)));
  for (auto& [list, items] : joined_lists) {
    session.undo().record(list, [list = list, before = list->items] { list->items = before; });
    list->items = std::move(items);
  }
  if (!returns) {
    frame.locals = std::move(sides[0].locals);
    frame.stack = std::move(sides[0].stack);
    for (const std::vector<Value*>* slots : {&frame.locals, &frame.stack})
      for (const Value* v : *slots)
        if (holds(v, moved)) return refuse("an iterator that one side moves on");
    frame.pc = sides[0].where && !where ? sides[0].pc : sides[0].where ? here : join;
    if (where) frame.flow.scope->where = where;
    return frame.pc == frame.flow.until || sides[0].where ? Step(Flow::Jumped) : settle_stack(frame);
  }
  // The region ends at a return that takes a value from the stack.
  const auto takes_value = [&](uint32_t at) {
    return frame.view->instrs()[at].op == Opcode::ReturnValue && frame.view->instrs()[at].depth == 1;
  };
  uint32_t end = sides[0].pc;
  for (uint32_t at = 0; at < frame.view->instrs().size() && !takes_value(end); ++at)
    if (takes_value(at)) end = at;
  if (frame.outermost && !takes_value(end)) return refuse("constants that are returned");
  frame.pc = end;
  return Flow::Returned;
}

}  // namespace framejit::capture
