// The loop of a symbolic frame, its limits, and the dispatch of instructions to handlers.
#include "capture/symbolic_frame.h"

#include "capture/attributes.h"
#include "capture/flow.h"
#include "capture/handlers.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/python_names.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {
/// Our modules that spell in Python what others wrote in C.
bool is_polyfill_module(const std::string& module) {
  return module == python_names::kPolyfills || module == python_names::kNumpyFunctions;
}

/// The name of the module whose globals these are.
std::string module_of(PyObject* globals) {
  static PyObject* const kName = interned("__name__");
  PyObject* module = PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, kName) : nullptr;
  return module && PyUnicode_CheckExact(module) ? text_of(module) : "";
}

}  // namespace

bool is_polyfill_class(const PyTypeObject* type) {
  PyObject* module = own_attr(const_cast<PyTypeObject*>(type), interned("__module__"));
  return module && PyUnicode_CheckExact(module) && is_polyfill_module(text_of(module));
}

SymbolicFrame::SymbolicFrame(Executor& executor, std::shared_ptr<const CodeView> code_view, PyObject* globals_dict,
                             PyObject* builtins_dict)
    : view(std::move(code_view)),
      globals(globals_dict),
      builtins(builtins_dict),
      locals(static_cast<std::size_t>(view->local_count()), nullptr),
      executor_(executor),
      session_(executor.session()) {
  flow.first_value = static_cast<uint32_t>(session_.mark().values);
}

void SymbolicFrame::note_reached(Break& b) const {
  if (!is_polyfill_module(module_of(globals))) b.callees.push_back(view->code());
}

Break SymbolicFrame::locate(Break b) const {
  if (!b.function.empty()) return b;  // a frame further in knows better
  const std::string home = module_of(globals);
  if (is_polyfill_module(home) ||
      (executor_.depth > 0 && (home.starts_with("numpy.") || home.starts_with("framejit."))))
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
  ++executor_.steps;
  const Instr& i = current();
  uint32_t& id = executor_.locations(view.get())[pc];
  if (id == 0) id = session_.graph().add_location({text_of(view->code()->co_filename), i.line, i.column, i.end_column});
  session_.position().set_location(id);
  session_.position().set_frame(view->code()->co_filename, globals);
}

Captured<bool> SymbolicFrame::check_unrolled(uint32_t head) {
  const CaptureOptions& options = executor_.options();
  const std::size_t nodes = session_.graph().value_count();
  for (Loop& loop : loops)
    if (loop.head == head) {
      // In the outermost frame rounds can be regions. Elsewhere all callers would be left to the bytecode too, and a
      // gradient to a tape.
      const std::size_t most = options.fullgraph || session_.tapes().any() ? options.most_nodes_of_loop()
                                                                           : (outermost ? 1 : 4) * options.unroll_nodes;
      // Each round that is left is assumed to add half as many nodes as one so far.
      const auto added = static_cast<double>(nodes - loop.nodes);
      const bool is_for = loop.rounds > 0 && view->instrs()[head].op == Opcode::ForIter;
      const auto rest = static_cast<double>(is_for ? std::max<int64_t>(0, rounds_left(peek(py::kIteratorSlots))) : 0);
      const double all = added + added / ++loop.rounds / 2 * rest;
      if (loop.rounds + rest > options.unroll_rounds && all > static_cast<double>(most))
        return break_at(BreakId::CapturedTooMuch, "a loop of many rounds");
      return true;
    }
  loops.push_back({head, nodes, 0});
  return true;
}

Step SymbolicFrame::advance() {
  if (std::optional<Break> limit = executor_.limits.exceeded(executor_.steps, session_))
    return Unexpected<Break>{std::move(*limit)};
  if (std::optional<Step> behind = capture_array_loop(*this)) return std::move(*behind);
  if (!outermost && !generator && executor_.options().loops && !session_.tapes().any() &&
      executor_.loops.leaves(executor_, *this)) {
    Break before{BreakId::ElementLoop};
    before.before_loop = true;
    return Unexpected<Break>{std::move(before)};
  }
  begin_step();
  if (outermost) {
    executor_.visits.resize(view->instrs().size());
    ++executor_.visits[pc];
  }
  Step done = [&]() -> Step {
    try {
      return step(current());
    } catch (const graph::DimOverflow& error) {
      return break_at(BreakId::ScalarOverflow, error.what());
    }
  }();
  if (done && session_.inputs().has_overlap()) return break_at(BreakId::OverlappingMemory, "read after a write");
  if (done && session_.guards().is_too_deep()) return break_at(BreakId::CapturedTooMuch, "a long chain of objects");
  if (done) {
    FRAMEJIT_REQUIRE(session_.check_nodes());
  }
  if (!done && unwind(done.error())) done = Flow::Jumped;
  if (!done) {
    done.error().caught = done.error().caught || view->may_catch(pc);
    return done;
  }
  session_.guards().add_relations(session_.graph().shapes());
  if (*done == Flow::Next) pc = view->behind(pc);
  return done;
}

Captured<Value*> SymbolicFrame::run() {
  caller = executor_.frame;
  const uint32_t location = session_.position().location();
  Value* const handled = executor_.handled();
  executor_.frame = this;
  for (;;) {
    Step done = advance();
    if (!done) {
      executor_.frame = caller;
      if (executor_.handled() != handled) executor_.set_handled(handled);
      return Unexpected<Break>{locate(std::move(done.error()))};
    }
    if (*done != Flow::Returned && *done != Flow::Yielded) continue;
    executor_.frame = caller;
    finished_ = *done == Flow::Returned;
    session_.position().set_location(location);
    if (caller) session_.position().set_frame(caller->view->code()->co_filename, caller->globals);
    if (executor_.handled() != handled) return break_at(BreakId::GeneratorFrame, "yield in a handler");
    return returned;
  }
}

bool SymbolicFrame::may_catch() const {
  for (const SymbolicFrame* frame = this; frame; frame = frame->caller)
    if (frame->view->may_catch(frame->pc)) return true;
  return false;
}

Value* SymbolicFrame::pop_raw() {
  FRAMEJIT_CHECK(!stack.empty(), "symbolic stack underflow");
  Value* v = stack.back();
  stack.pop_back();
  return v;
}

Value* SymbolicFrame::pop() { return look(executor_, pop_raw()); }

Values SymbolicFrame::pop_raw(int count) {
  FRAMEJIT_CHECK(static_cast<std::size_t>(count) <= stack.size(), "symbolic stack underflow");
  Values out(stack.end() - count, stack.end());
  stack.resize(stack.size() - static_cast<std::size_t>(count));
  return out;
}

Value* SymbolicFrame::peek(int from_top) {
  FRAMEJIT_CHECK(static_cast<std::size_t>(from_top) <= stack.size(), "symbolic stack underflow");
  return look(executor_, stack[stack.size() - static_cast<std::size_t>(from_top)]);
}

Step SymbolicFrame::push_or_break(Captured<Value*> v) {
  if (!v) return v.failure();
  push(*v);
  return Flow::Next;
}

Step SymbolicFrame::jump(const Instr& i) {
  const auto target = static_cast<uint32_t>(i.arg);
  if (target <= pc) {
    FRAMEJIT_REQUIRE(check_unrolled(target));
  }
  pc = target;
  return Flow::Jumped;
}

Step unsupported(SymbolicFrame&, const Instr& i) {
  return break_at(BreakId::UnsupportedInstruction, std::string(name_of(i.op)));
}

Step suspended(SymbolicFrame&, const Instr& i) { return break_at(BreakId::GeneratorFrame, std::string(name_of(i.op))); }

Step unsupported_handling(SymbolicFrame&, const Instr& i) {
  return break_at(BreakId::ExceptionHandling, std::string(name_of(i.op)));
}

// The row of each opcode names its handler.
Step SymbolicFrame::step(const Instr& i) {
  switch (i.op) {
#define FRAMEJIT_STEP(name, handler) \
  case Opcode::name: return handler(*this, i);
    FRAMEJIT_OPCODES(FRAMEJIT_STEP)
#undef FRAMEJIT_STEP
  }
  return unsupported(*this, i);
}

Step return_op(SymbolicFrame& frame, const Instr& i) {
  frame.returned =
      i.op == Opcode::ReturnConst ? literal(frame.executor(), frame.view->constant(i.arg)) : frame.pop_raw();
  return Flow::Returned;
}

Step yield_op(SymbolicFrame& frame, const Instr& i) {
  if (!frame.generator) return suspended(frame, i);
  if (i.op == Opcode::ReturnGenerator) {
    frame.push(frame.executor().none());  // what the first next() sends; POP_TOP follows
    return Flow::Next;
  }
  frame.returned = frame.pop_raw();
  ++frame.pc;
  return Flow::Yielded;
}

}  // namespace framejit::capture
