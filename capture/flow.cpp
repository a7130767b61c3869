// Control flow that depends on array values: both sides of a branch are captured up to where they meet, and become the
// blocks of an `if` of the graph.
//
//     if x.sum() > 0:        %3 = if %2 {
//         y = x + 1            %4 = add %x, %c
//     else:                    yield %4
//         y = x - 1          } else { ... }
//                            %6 = output %3 {index=0}
//
// Values that differ where the sides meet become outputs. They must be of one kind and type; a variable that is not is left
// unknown, which ends the capture if it is used. An effect or a break on one side leaves the branch to the bytecode. An
// object that existed before and comes through unchanged stays the same object: the graph then says which one it is
// (Value::which), and the exit takes that.
#include "capture/flow.h"

#include <algorithm>
#include <map>
#include <utility>

#include "capture/door.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

Value* unknown_value(Session& s) {
  Value* v = s.make(ValueKind::Null);
  v->partial = true;
  return v;
}

std::optional<Wrap> number_wrap(const Value& v) {
  if (v.kind == ValueKind::Int) return Wrap::PyInt;
  if (v.is_array()) return v.weak ? std::optional(v.wrap) : std::nullopt;
  if (!v.is_constant()) return std::nullopt;
  PyObject* o = v.object.get();
  if (PyBool_Check(o)) return Wrap::PyBool;
  if (PyFloat_CheckExact(o)) return Wrap::PyFloat;
  if (PyLong_CheckExact(o) && fits_int64(v)) return Wrap::PyInt;
  return std::nullopt;
}

Captured<graph::ValueId> graph_value(Executor& x, Value* v, Wrap wrap) {
  if (v->is_array()) return v->id;
  if (wrap == Wrap::PyFloat) return x.f64(v);
  graph::GraphBuilder& b = x.session().builder();
  if (v->kind == ValueKind::Int) return b.dim_value(v->dim);
  return b.constant(wrap == Wrap::PyBool ? graph::DType::Bool : graph::DType::I64,
                    graph::Scalar{static_cast<uint64_t>(dim_of(*v).value()), 0});
}

std::string differ_as_arrays(Session& s, const Value& a, const Value& b) {
  const graph::Type &x = s.graph().type(a.id), &y = s.graph().type(b.id);
  if (x.dtype != y.dtype || x.rank() != y.rank()) return "arrays of two dtypes or ranks";
  if (x.shape != y.shape || x.strides != y.strides) return "arrays of two shapes, or orders in memory";
  return {};
}

bool is_new(const Value& v, const Session::Mark& mark) { return v.number >= mark.values && !v.source && !v.object; }

bool is_own(Session& s, const Value& v, const Session::Mark& mark) {
  if (!is_new(v, mark) || v.kind != ValueKind::Array || v.which != graph::kNoValue) return false;
  const graph::Op op = s.graph().node(v.id).op;
  return !is_mutable_array(v) || (graph::index(v.id) >= mark.graph.nodes && !s.graph().type(v.id).is_view() &&
                                  op != graph::Op::Param && op != graph::Op::Carried);
}

namespace {

/// Makes one value of two where the sides of a branch meet.
class Join {
 public:
  Join(Executor& x, const Session::Mark& mark, graph::Block& if_true, graph::Block& if_false)
      : x_(x), s_(x.session()), mark_(mark), blocks_{&if_true, &if_false} {}

  /// Of a variable: unknown where there is no such value.
  Captured<Value*> variable(Value* a, Value* b) {
    Captured<Value*> made = value(a, b);
    if (made || may_finalize(a) || may_finalize(b)) return made;
    return unknown_value(s_);
  }

  Captured<Value*> value(Value* a, Value* b) {
    a = resolved(a);
    b = resolved(b);
    if (a == b) return a;
    if (!a || !b) return differ("a variable that one side leaves unbound");
    a = x_.look(a);
    b = x_.look(b);
    if (is_unknown(a) || is_unknown(b)) return differ("a variable that may be unbound");
    if (a == b || (a->kind == ValueKind::Null && b->kind == ValueKind::Null)) return a;
    if (a->is_constant() && b->is_constant() && a->object.get() == b->object.get()) return a;
    if (a->kind == ValueKind::Int && b->kind == ValueKind::Int && a->dim == b->dim) return a;
    if (const auto known = known_.find({a, b}); known != known_.end()) return known->second;
    Captured<Value*> made = joined(a, b);
    if (made) known_.emplace(std::pair{a, b}, *made);
    return made;
  }

  /// Appends the `if`; the values made so far become its outputs.
  Captured<bool> finish(graph::ValueId condition, std::unique_ptr<graph::Block> if_true,
                        std::unique_ptr<graph::Block> if_false) {
    FRAMEJIT_TRY(apart, check_own());
    (void)apart;
    graph::GraphBuilder& builder = s_.builder();
    const graph::ValueId branch = builder.branch(condition, std::move(if_true), std::move(if_false));
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const graph::ValueId output = builder.output(branch, static_cast<int64_t>(i));
      if (results_[i].made) results_[i].made->id = output;
      if (results_[i].chooses) results_[i].chooses->which = output;
    }
    for (const Result& r : results_) {
      if (!r.chooses || !is_mutable_array(*r.chooses)) continue;
      s_.share(r.chooses->id);
      for (const Value* v : r.chooses->items) s_.share(v->id);
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
    PyObject* type = x_.type_of(v);
    return type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "another type";
  }

  Captured<Value*> joined(Value* a, Value* b) {
    if (a->kind == ValueKind::Tuple && b->kind == ValueKind::Tuple && is_new(*a, mark_) && is_new(*b, mark_) &&
        a->items.size() == b->items.size()) {
      Values items;
      for (std::size_t i = 0; i < a->items.size(); ++i) {
        FRAMEJIT_TRY(item, value(a->items[i], b->items[i]));
        items.push_back(item);
      }
      return s_.tuple(std::move(items));
    }
    const std::optional<Wrap> number = number_wrap(*a);
    if (number && number == number_wrap(*b)) return of_ids(a, b, *number);
    if (!a->is_array() || !b->is_array() || a->wrap != b->wrap || a->weak != b->weak)
      return differ("a value that is " + kind(a) + " on one side and " + kind(b) + " on the other");
    if (may_finalize(a) || may_finalize(b)) return differ("an array whose end runs code");
    if (a->partial || b->partial) return differ("a view of an array that is known at run time only");
    if (std::string why = differ_as_arrays(s_, *a, *b); !why.empty()) return differ(std::move(why));
    const graph::Type& type = s_.graph().type(a->id);
    if (is_mutable_array(*a) && !is_own(s_, *a, mark_) && !is_own(s_, *b, mark_) &&
        type.strides != graph::c_strides(type.dtype, type.shape))
      return differ("arrays that are not contiguous");
    return of_ids(a, b, a->wrap);
  }

  Captured<Value*> of_ids(Value* a, Value* b, Wrap wrap) {
    Value* made = s_.make(ValueKind::Array);
    made->wrap = wrap;
    made->weak = a->weak || !a->is_array();
    const bool own[] = {is_own(s_, *a, mark_), is_own(s_, *b, mark_)};
    // True and False are what they are.
    const bool chooses = wrap != Wrap::PyBool && !(own[0] && own[1]);
    if (chooses) {
      FRAMEJIT_TRY(possible, may_choose(*made, *a, *b));
      (void)possible;
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
      FRAMEJIT_TRY(chosen, choose(made, a, b));
      (void)chosen;
    }
    return made;
  }

  /// Chosen by a branch within the side.
  bool is_inner_choice(const Value& v) const { return v.which != graph::kNoValue && v.number >= mark_.values; }

  Captured<bool> may_choose(const Value& made, const Value& a, const Value& b) const {
    for (const Value* v : {&a, &b}) {
      if (!is_inner_choice(*v)) {
        if (!is_own(s_, *v, mark_) && is_made_within(made, *v)) return differ("a view that one side makes of an array");
        continue;
      }
      for (const Value* item : v->items)
        if (is_inner_choice(*item) || (!is_own(s_, *item, mark_) && is_made_within(made, *item)))
          return differ("objects that more than one branch chooses");
    }
    return true;
  }

  bool is_made_within(const Value& made, const Value& v) const {
    return is_mutable_array(made) && v.is_array() && graph::index(v.id) >= mark_.graph.nodes &&
           s_.graph().node(v.id).op != graph::Op::Param;
  }

  /// Which object it is, as an output of its own: 0, or one more than the place in made->items.
  Captured<bool> choose(Value* made, Value* a, Value* b) {
    made->never_new = true;
    for (int side : {0, 1}) {
      const Value* v = side == 0 ? a : b;
      const OpenBlock opened(s_, *blocks_[side]);
      graph::ValueId which;
      if (is_inner_choice(*v)) {
        made->never_new = made->never_new && v->never_new;
        if (!v->never_new && is_mutable_array(*v)) folded_[side].push_back(v->id);
        which = constant(0);
        for (std::size_t k = 0; k < v->items.size(); ++k) {
          const int64_t number = number_of(made, v->items[k]);
          if (number == 0 && is_mutable_array(*v->items[k])) folded_[side].push_back(v->items[k]->id);
          if (number == 0) continue;  // new as well, seen from outside
          const graph::ValueId operands[] = {v->which, constant(static_cast<int64_t>(k) + 1)};
          FRAMEJIT_TRY(chosen, node(graph::Op::Equal, operands));
          const graph::ValueId numbers[] = {chosen, constant(number), which};
          FRAMEJIT_TRY(next, node(graph::Op::Where, numbers));
          which = next;
        }
      } else {
        which = constant(number_of(made, side == 0 ? a : b));
      }
      blocks_[side]->results.push_back(which);
    }
    results_.push_back({nullptr, made});
    return true;
  }

  /// The place of an object among those that are there already, from 1 on; 0: it is new.
  int64_t number_of(Value* made, Value* v) {
    if (is_own(s_, *v, mark_)) {
      made->never_new = false;
      return 0;
    }
    auto at = std::find(made->items.begin(), made->items.end(), v);
    if (at == made->items.end()) at = made->items.insert(at, v);
    return at - made->items.begin() + 1;
  }

  graph::ValueId constant(int64_t number) {
    return s_.builder().constant(graph::DType::I64, graph::Scalar{static_cast<uint64_t>(number), 0});
  }

  Captured<graph::ValueId> node(graph::Op op, std::span<const graph::ValueId> operands) {
    graph::BuildResult made = s_.builder().elementwise(op, operands);
    if (!made) return differ(made.error().message);
    return *made;
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
  std::map<std::pair<Value*, Value*>, Value*> known_;
  std::vector<Result> results_;
  std::vector<graph::ValueId> own_[2], passed_[2], folded_[2];  // by side: arrays that are yielded
};

}  // namespace

Captured<graph::ValueId> Executor::condition(Value* v) {
  graph::GraphBuilder& b = session_.builder();
  const graph::Type type = session_.graph().type(v->id);
  if (!(type.size() == graph::Dim(1))) return break_at(BreakId::DataDependentBranch, "the truth of many elements");
  const graph::ValueId one = type.rank() == 0 ? v->id : b.view(v->id, {}, {}, 0);
  if (type.dtype == graph::DType::Bool) return one;
  const graph::ValueId operands[] = {one, b.constant(type.dtype, {})};
  graph::BuildResult truth = b.elementwise(graph::Op::NotEqual, operands);
  if (!truth) return break_at(BreakId::DataDependentBranch, truth.error().message);
  return *truth;
}

Captured<Value*> Executor::truth_value(Value* v, bool negated) {
  Captured<bool> known_truth = truth(v);
  if (known_truth) return boolean(*known_truth != negated);
  if (known_truth.error().id != BreakId::DataDependentBranch || !v->is_array()) return known_truth.failure();
  FRAMEJIT_TRY(id, condition(v));
  if (!negated) {
    // The number is read now; what is written into the array later does not reach it.
    const bool read = is_mutable_array(*v) && session_.graph().root(id) == session_.graph().root(v->id);
    return session_.array(read ? session_.builder().copy(id, 'C') : id, Wrap::PyBool);
  }
  const graph::ValueId operands[] = {id};
  graph::BuildResult inverse = session_.builder().elementwise(graph::Op::LogicalNot, operands);
  if (!inverse) return break_at(BreakId::DataDependentBranch, inverse.error().message);
  return session_.array(*inverse, Wrap::PyBool);
}

const FlowMap& Executor::flow_map(const std::shared_ptr<const CodeView>& view) {
  std::unique_ptr<FlowMap>& map = flow_maps_[view.get()];
  if (!map) map = std::make_unique<FlowMap>(*view);
  return *map;
}

std::optional<Break> SymbolicFrame::run_side(Side& side, uint32_t join) {
  const OpenBlock opened(s, *side.block);
  const std::function<Step()> first = std::exchange(side.first, {});
  for (bool starts = static_cast<bool>(first); starts || (pc != join && !(scope_ && scope_->is_over(pc)));) {
    Step done = starts ? first() : advance();
    starts = false;
    if (!done) return locate(std::move(done.error()));
    if (*done == Flow::Yielded) return Break{BreakId::GeneratorFrame, "yield in a branch", 0, {}, {}, 0, 0, 0, nullptr};
    if (*done != Flow::Returned) continue;
    side.returned = returned;
    break;
  }
  side.pc = pc;
  side.locals = locals;
  side.stack = stack;
  if (scope_ && !side.returned && scope_->is_over(pc)) {
    Captured<Value*> where = next_instruction();
    if (!where) return std::move(where.error());
    side.where = *where;
    scope_->begin();
  }
  return std::nullopt;
}

Captured<Value*> SymbolicFrame::next_instruction() {
  Scope& scope = *scope_;
  if (scope.where) return scope.where;
  if (scope.decides == graph::kNoValue) {
    if (pc != scope.head) scope.exits.insert(pc);
    return s.integer(graph::Dim(static_cast<int64_t>(pc)));
  }
  graph::ValueId operands[3] = {scope.decides};
  for (int k : {0, 1}) {
    if (scope.next[k] != scope.head) scope.exits.insert(scope.next[k]);
    operands[k + 1] = s.builder().constant(graph::DType::I64, graph::Scalar{scope.next[k], 0});
  }
  graph::BuildResult which = s.builder().elementwise(graph::Op::Where, operands);
  if (!which) return break_at(BreakId::DataDependentBranch, which.error().message);
  return s.array(*which, Wrap::PyInt);
}

Step SymbolicFrame::branch(Value* condition, const Instr& i, Break why) {
  if (why.id != BreakId::DataDependentBranch || !condition->is_array() || generator || x.handled ||
      x.branches >= kMostBranches)
    return Unexpected<Break>{std::move(why)};
  const uint32_t here = pc, join = x.flow_map(view).join(pc);
  if (join == FlowMap::kNowhere || in_hopeless_loop(here)) return Unexpected<Break>{std::move(why)};
  FRAMEJIT_TRY(decides, x.condition(condition));
  const bool pops = i.op == Opcode::PopJumpIfFalse || i.op == Opcode::PopJumpIfTrue;
  const bool jumps_if = i.op == Opcode::PopJumpIfTrue || i.op == Opcode::JumpIfTrueOrPop;
  const auto target = static_cast<uint32_t>(i.arg);
  if (target <= here && !scope_) {
    FRAMEJIT_TRY(fits, check_unrolled(target));
    (void)fits;
  }
  const uint32_t targets[] = {jumps_if ? target : here + 1, jumps_if ? here + 1 : target};
  std::vector<Value*> stacks[] = {stack, stack};
  if (!pops) stacks[jumps_if ? 1 : 0].pop_back();
  if (scope_) scope_->decided = true;
  if (pops && scope_ && scope_->is_over(targets[0]) && scope_->is_over(targets[1])) {
    scope_->decides = decides;
    std::copy_n(targets, 2, scope_->next);
    return Flow::Jumped;
  }
  return fork(decides, targets, stacks, join);
}

namespace {

/// Iterators that the `for` loops of a frame run over, which nobody else knows.
void collect_iterators(const Value* v, uint32_t first, std::set<const Value*>& out) {
  if (!v || v->kind != ValueKind::Iterator || v->number < first || v->iterated == kGenerator) return;
  if (!out.insert(v).second) return;
  for (const Value* inner : v->items) collect_iterators(inner, first, out);
}

bool holds(const Value* v, const std::set<const Value*>& wanted, int depth = 0) {
  if (!v || wanted.empty()) return false;
  if (wanted.count(v) != 0 || depth > 8) return true;
  return std::any_of(v->items.begin(), v->items.end(),
                     [&](const Value* item) { return holds(item, wanted, depth + 1); }) ||
         std::any_of(v->attributes.begin(), v->attributes.end(),
                     [&](const auto& attribute) { return holds(attribute.second, wanted, depth + 1); });
}

bool raises(BreakId id) { return id == BreakId::WouldRaise || id == BreakId::ExceptionHandling; }

}  // namespace

Step SymbolicFrame::fork(graph::ValueId decides, const uint32_t (&targets)[2], const std::vector<Value*> (&stacks)[2],
                         uint32_t join, std::function<Step()> second) {
  const auto refuse = [](std::string detail) { return break_at(BreakId::DataDependentBranch, std::move(detail)); };
  const Session::Mark mark = s.mark();
  const uint32_t here = pc, location = s.location();
  const std::vector<Value*> held_locals = locals, held_stack = stack;
  const std::vector<Loop> held_loops = loops_;
  Side sides[2];
  sides[1].first = second;
  std::optional<Break> broken;
  std::set<const Value*> iterators, moved;
  for (const Value* v : held_stack) collect_iterators(v, first_value_, iterators);
  const auto run = [&](Side& side, uint32_t until) {
    loops_ = held_loops;
    const Session::Mark before = s.mark();
    broken = run_side(side, until);
    if (!broken) moved.merge(s.take_back(before, iterators));
  };
  ++x.branches;
  int raising = -1;
  for (int k = 0; k < 2 && !broken; ++k) {
    locals = held_locals;
    stack = stacks[k];
    pc = targets[k];
    run(sides[k], join);
    if (broken && raises(broken->id) && raising < 0) {
      raising = k;
      broken.reset();
    }
  }
  // One side has ended the round of a loop, the other one waits for it.
  for (int k = 0; k < 2 && !broken; ++k) {
    if (raising >= 0 || sides[k].where || sides[k].returned || !sides[1 - k].where) continue;
    locals = sides[k].locals;
    stack = sides[k].stack;
    pc = sides[k].pc;
    run(sides[k], FlowMap::kNowhere);
  }
  --x.branches;
  pc = here;
  locals = held_locals;
  stack = held_stack;
  loops_ = held_loops;
  s.set_location(location);
  if (broken) return refuse("one side: " + std::string(info(broken->id).what));
  if (raising >= 0) {
    // The side that raises is left to the interpreter, if it should come to that; the other one goes on.
    s.rollback(mark);
    graph::ValueId expected = decides;
    if (raising == 0) {
      const graph::ValueId operands[] = {decides};
      graph::BuildResult inverse = s.builder().elementwise(graph::Op::LogicalNot, operands);
      if (!inverse) return refuse(inverse.error().message);
      expected = *inverse;
    }
    s.builder().expect(expected);
    stack = stacks[1 - raising];
    pc = targets[1 - raising];
    return raising == 0 && second ? second() : Step(Flow::Jumped);
  }
  if (x.handled || !s.is_pure(mark, iterators)) return refuse("one side changes what others may see");
  if (!sides[0].returned != !sides[1].returned) return refuse("one side returns");
  Join meet(x, mark, *sides[0].block, *sides[1].block);
  const bool returns = sides[0].returned != nullptr;
  Value* where = nullptr;
  if (returns) {
    FRAMEJIT_TRY(value, meet.value(sides[0].returned, sides[1].returned));
    returned = value;
  } else {
    if (sides[0].stack.size() != sides[1].stack.size()) return refuse("two depths of the stack");
    for (std::size_t k = 0; k < locals.size(); ++k) {
      FRAMEJIT_TRY(value, meet.variable(sides[0].locals[k], sides[1].locals[k]));
      sides[0].locals[k] = value;
    }
    for (std::size_t k = 0; k < sides[0].stack.size(); ++k) {
      FRAMEJIT_TRY(value, meet.value(sides[0].stack[k], sides[1].stack[k]));
      sides[0].stack[k] = value;
    }
    const bool one_place = sides[0].pc == sides[1].pc && sides[0].where && sides[0].where->is_constant() &&
                           sides[1].where->is_constant();
    if (sides[0].where && !one_place) {
      FRAMEJIT_TRY(value, meet.value(sides[0].where, sides[1].where));
      where = value;
    }
  }
  FRAMEJIT_TRY(joined, meet.finish(decides, std::move(sides[0].block), std::move(sides[1].block)));
  (void)joined;
  if (!returns) {
    locals = std::move(sides[0].locals);
    stack = std::move(sides[0].stack);
    for (const std::vector<Value*>* slots : {&locals, &stack})
      for (const Value* v : *slots)
        if (holds(v, moved)) return refuse("an iterator that one side moves on");
    pc = sides[0].where && !where ? sides[0].pc : sides[0].where ? here : join;
    if (where) scope_->where = where;
    return Flow::Jumped;
  }
  // The region ends at a return that takes a value from the stack.
  const auto takes_value = [&](uint32_t at) {
    return view->instrs()[at].op == Opcode::ReturnValue && view->instrs()[at].depth == 1;
  };
  uint32_t end = sides[0].pc;
  for (uint32_t at = 0; at < view->instrs().size() && !takes_value(end); ++at)
    if (takes_value(at)) end = at;
  if (outermost && !takes_value(end)) return refuse("constants that are returned");
  pc = end;
  return Flow::Returned;
}

}  // namespace framejit::capture
