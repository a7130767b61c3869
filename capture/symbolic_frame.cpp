// The loop of a symbolic frame, its limits, and the dispatch of instructions to handlers.
#include "capture/symbolic_frame.h"

#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/python_names.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {
/// Our modules that spell in Python what others wrote in C.
bool is_spelling(const std::string& module) {
  return module == python_names::kPolyfills || module == python_names::kNumpyFunctions;
}
}  // namespace

bool is_spelled_class(const PyTypeObject* type) {
  PyObject* module = own_attr(const_cast<PyTypeObject*>(type), interned("__module__"));
  return module && PyUnicode_CheckExact(module) && is_spelling(text_of(module));
}

SymbolicFrame::SymbolicFrame(Executor& executor, std::shared_ptr<const CodeView> code_view, PyObject* globals_dict,
                             PyObject* builtins_dict)
    : view(std::move(code_view)),
      globals(globals_dict),
      builtins(builtins_dict),
      locals(static_cast<std::size_t>(view->local_count()), nullptr),
      x(executor),
      s(executor.session()),
      first_value_(static_cast<uint32_t>(s.mark().values)) {}

std::string SymbolicFrame::home() const {
  static PyObject* const kName = interned("__name__");
  PyObject* module = PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, kName) : nullptr;
  return module && PyUnicode_CheckExact(module) ? text_of(module) : "";
}

void SymbolicFrame::note_reached(Break& b) const {
  if (!is_spelling(home())) b.callees.push_back(view->code());
}

Break SymbolicFrame::locate(Break b) const {
  if (!b.function.empty()) return b;  // a frame further in knows better
  const std::string home = this->home();
  if (is_spelling(home) || (x.depth > 0 && (home.starts_with("numpy.") || home.starts_with("framejit."))))
    return b;  // not the user's: the caller says where
  const Instr& i = current();
  b.function = text_of(view->code()->co_qualname);
  b.file = text_of(view->code()->co_filename);
  b.line = i.line;
  b.column = i.column;
  b.end_column = i.end_column;
  return b;
}

void SymbolicFrame::begin_step() {
  ++x.steps;
  const Instr& i = current();
  uint32_t& id = x.locations(view.get())[pc];
  if (id == 0) id = s.graph().add_location({text_of(view->code()->co_filename), i.line, i.column, i.end_column});
  s.set_location(id);
  s.set_frame(view->code()->co_filename, globals);
}

Captured<bool> SymbolicFrame::check_unrolled(uint32_t head) {
  const CaptureOptions& options = x.options();
  const std::size_t nodes = s.graph().value_count();
  for (Loop& loop : loops_)
    if (loop.head == head) {
      // In the outermost frame rounds can be regions. Elsewhere all callers would be left to the bytecode too, and a
      // gradient to a tape.
      const std::size_t most =
          options.fullgraph || s.has_tape() ? options.most_nodes_of_loop() : (outermost ? 1 : 4) * options.unroll_nodes;
      // Each round that is left is assumed to add half as many nodes as one so far.
      const auto added = static_cast<double>(nodes - loop.nodes);
      const bool is_for = loop.rounds > 0 && view->instrs()[head].op == Opcode::ForIter;
      const auto rest = static_cast<double>(is_for ? std::max<int64_t>(0, rounds_left(peek(py::kIteratorSlots))) : 0);
      const double all = added + added / ++loop.rounds / 2 * rest;
      if (loop.rounds + rest > options.unroll_rounds && all > static_cast<double>(most))
        return break_at(BreakId::CapturedTooMuch, "a loop of many rounds");
      return true;
    }
  loops_.push_back({head, nodes, 0});
  return true;
}

Step SymbolicFrame::advance() {
  if (std::optional<Break> limit = x.limits.exceeded(x.steps, s)) return Unexpected<Break>{std::move(*limit)};
  if (std::optional<Step> behind = loop()) return std::move(*behind);
  if (!outermost && !generator && x.options().loops && !s.has_tape() && x.loops.leaves(x, *this)) {
    Break before{BreakId::ElementLoop};
    before.before_loop = true;
    return Unexpected<Break>{std::move(before)};
  }
  begin_step();
  if (outermost) {
    x.visits.resize(view->instrs().size());
    ++x.visits[pc];
  }
  Step done = [&]() -> Step {
    try {
      return step(current());
    } catch (const graph::DimOverflow& error) {
      return break_at(BreakId::ScalarOverflow, error.what());
    }
  }();
  if (done && s.has_overlap()) return break_at(BreakId::OverlappingMemory, "read after a write");
  if (done && s.is_too_deep()) return break_at(BreakId::CapturedTooMuch, "a long chain of objects");
  if (done) {
    FRAMEJIT_TRY(compiled, s.check_nodes());
    (void)compiled;
  }
  if (!done && unwind(done.error())) done = Flow::Jumped;
  if (!done) return done;
  s.sync_dim_guards();
  if (*done == Flow::Next) pc = view->behind(pc);
  return done;
}

Captured<Value*> SymbolicFrame::run() {
  SymbolicFrame* caller = x.frame;
  const uint32_t location = s.location();
  Value* const handled = x.handled;
  x.frame = this;
  for (;;) {
    Step done = advance();
    if (!done) {
      x.frame = caller;
      if (x.handled != handled) x.set_handled(handled);
      return Unexpected<Break>{locate(std::move(done.error()))};
    }
    if (*done != Flow::Returned && *done != Flow::Yielded) continue;
    x.frame = caller;
    finished_ = *done == Flow::Returned;
    s.set_location(location);
    if (caller) s.set_frame(caller->view->code()->co_filename, caller->globals);
    if (x.handled != handled) return break_at(BreakId::GeneratorFrame, "yield in a handler");
    return returned;
  }
}

Value* SymbolicFrame::pop_raw() {
  FRAMEJIT_CHECK(!stack.empty(), "symbolic stack underflow");
  Value* v = stack.back();
  stack.pop_back();
  return v;
}

Value* SymbolicFrame::pop() { return x.look(pop_raw()); }

Values SymbolicFrame::pop_raw(int count) {
  FRAMEJIT_CHECK(static_cast<std::size_t>(count) <= stack.size(), "symbolic stack underflow");
  Values out(stack.end() - count, stack.end());
  stack.resize(stack.size() - static_cast<std::size_t>(count));
  return out;
}

Value* SymbolicFrame::peek(int from_top) {
  FRAMEJIT_CHECK(static_cast<std::size_t>(from_top) <= stack.size(), "symbolic stack underflow");
  return x.look(stack[stack.size() - static_cast<std::size_t>(from_top)]);
}

Step SymbolicFrame::push_or_break(Captured<Value*> v) {
  if (!v) return v.failure();
  push(*v);
  return Flow::Next;
}

Step SymbolicFrame::jump(const Instr& i) {
  const auto target = static_cast<uint32_t>(i.arg);
  if (target <= pc) {
    FRAMEJIT_TRY(fits, check_unrolled(target));
    (void)fits;
  }
  pc = target;
  return Flow::Jumped;
}

Step SymbolicFrame::unsupported(const Instr& i, BreakId id) { return break_at(id, std::string(name_of(i.op))); }

// Every opcode has its case: a build fails where one is missing.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
Step SymbolicFrame::step(const Instr& i) {
  switch (i.op) {
    case Opcode::Nop:
    case Opcode::Resume:
    case Opcode::PushNull:
    case Opcode::PopTop:
    case Opcode::Copy:
    case Opcode::Swap:
    case Opcode::LoadConst:
    case Opcode::LoadAssertionError: return stack_op(i);

    case Opcode::LoadFast:
    case Opcode::LoadFastCheck:
    case Opcode::LoadFastAndClear:
    case Opcode::StoreFast:
    case Opcode::DeleteFast: return local_op(i);

    case Opcode::MakeCell:
    case Opcode::CopyFreeVars:
    case Opcode::LoadClosure:
    case Opcode::LoadDeref:
    case Opcode::StoreDeref:
    case Opcode::DeleteDeref: return cell_op(i);

    case Opcode::LoadGlobal:
    case Opcode::StoreGlobal:
    case Opcode::DeleteGlobal: return global_op(i);

    case Opcode::ImportName:
    case Opcode::ImportFrom: return import_op(i);

    case Opcode::LoadAttr:
    case Opcode::LoadMethod:
    case Opcode::StoreAttr:
    case Opcode::DeleteAttr: return attr_op(i);
    case Opcode::LoadSuperAttr: return load_super(i);

    case Opcode::UnaryPositive:
    case Opcode::UnaryNegative:
    case Opcode::UnaryNot:
    case Opcode::UnaryInvert:
    case Opcode::ToBool:
    case Opcode::BinaryOp:
    case Opcode::CompareOp:
    case Opcode::IsOp:
    case Opcode::ContainsOp: return operator_op(i);

    case Opcode::BinarySubscr:
    case Opcode::StoreSubscr:
    case Opcode::DeleteSubscr:
    case Opcode::BinarySlice:
    case Opcode::StoreSlice: return subscript_op(i);

    case Opcode::BuildTuple:
    case Opcode::BuildList:
    case Opcode::BuildSet:
    case Opcode::BuildMap:
    case Opcode::BuildConstKeyMap:
    case Opcode::BuildSlice: return build_op(i);

    case Opcode::ListAppend:
    case Opcode::SetAdd:
    case Opcode::SetUpdate:
    case Opcode::MapAdd:
    case Opcode::ListExtend:
    case Opcode::DictUpdate:
    case Opcode::DictMerge:
    case Opcode::ListToTuple: return extend_op(i);

    case Opcode::BuildString:
    case Opcode::FormatValue: return string_op(i);

    case Opcode::UnpackSequence:
    case Opcode::UnpackEx: return unpack_op(i);

    case Opcode::GetLen:
    case Opcode::MatchMapping:
    case Opcode::MatchSequence:
    case Opcode::MatchKeys:
    case Opcode::MatchClass: return match_op(i);

    case Opcode::Jump:
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue:
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone:
    case Opcode::JumpIfFalseOrPop:
    case Opcode::JumpIfTrueOrPop: return jump_op(i);

    case Opcode::GetIter:
    case Opcode::PopIter:
    case Opcode::ForIter: return iterate_op(i);

    case Opcode::Call: return call_op(i);
    case Opcode::CallFunctionEx: return call_ex(i);
    case Opcode::MakeFunction: return make_function(i);
    case Opcode::SetFunctionAttribute: return set_function_attribute(i);

    case Opcode::ReturnValue: returned = pop_raw(); return Flow::Returned;
    case Opcode::ReturnConst: returned = x.literal(view->constant(i.arg)); return Flow::Returned;

    case Opcode::ReturnGenerator:
      if (!generator) return unsupported(i, BreakId::GeneratorFrame);
      push(x.none());  // what the first next() sends; POP_TOP follows
      return Flow::Next;
    case Opcode::YieldValue:
      if (!generator) return unsupported(i, BreakId::GeneratorFrame);
      returned = pop_raw();
      ++pc;
      return Flow::Yielded;
    case Opcode::GetYieldFromIter:
    case Opcode::Send: return delegate_op(i);

    // Suspended by others.
    case Opcode::EndSend:
    case Opcode::GetAwaitable:
    case Opcode::GetAIter:
    case Opcode::GetANext:
    case Opcode::EndAsyncFor:
    case Opcode::BeforeAsyncWith:
    case Opcode::AsyncGenWrap:
    case Opcode::CleanupThrow: return unsupported(i, BreakId::GeneratorFrame);

    case Opcode::RaiseVarargs:
    case Opcode::Reraise: return raise_op(i);
    case Opcode::PushExcInfo:
    case Opcode::PopExcept:
    case Opcode::CheckExcMatch: return handler_op(i);
    case Opcode::BeforeWith:
    case Opcode::LoadSpecial:
    case Opcode::WithExceptStart: return with_op(i);
    case Opcode::CheckEgMatch:
    case Opcode::PrepReraiseStar: return unsupported(i, BreakId::ExceptionHandling);

    // Module and class bodies.
    case Opcode::EndFor:  // FOR_ITER goes past it
    case Opcode::LoadClassDeref:
    case Opcode::LoadName:
    case Opcode::StoreName:
    case Opcode::DeleteName:
    case Opcode::LoadBuildClass:
    case Opcode::SetupAnnotations:
    case Opcode::ImportStar:
    case Opcode::PrintExpr:
    case Opcode::Intrinsic:
    case Opcode::LoadLocals:
    case Opcode::BuildInterpolation:
    case Opcode::BuildTemplate:
    case Opcode::Unknown: return unsupported(i, BreakId::UnsupportedInstruction);
  }
  return unsupported(i, BreakId::UnsupportedInstruction);
}
#pragma GCC diagnostic pop

}  // namespace framejit::capture
