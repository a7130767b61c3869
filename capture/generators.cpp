// Generators that are made and run during capture: their frames stand still between two values.
#include "capture/generators.h"

#include "capture/handlers.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/repr.h"

namespace framejit::capture {

namespace {

bool is_stop(const Value& v) {
  return is_exception(v) && PyType_IsSubtype(class_of(v), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration));
}

}  // namespace

Captured<Value*> SymbolicFrame::resume(const Value* generator_value, Value* sent, Value* thrown) {
  if (finished_) {
    returned = executor_.none();
    if (thrown) return raise_exception(thrown, BreakId::ExceptionHandling).failure();
    return static_cast<Value*>(nullptr);
  }
  session_.undo().record(generator_value, [this, at = pc, held_locals = locals, held_stack = stack,
                                           was_started = started, gave = returned] {
    pc = at;
    locals = held_locals;
    stack = held_stack;
    started = was_started;
    returned = gave;
    finished_ = false;
  });
  if (thrown) {
    if (started) --pc;  // it is raised at the yield
    Break at = raise_exception(thrown, BreakId::ExceptionHandling).error();
    if (!started || !unwind(at)) {
      finished_ = true;
      if (is_stop(*thrown)) at.raised = nullptr;
      return Unexpected<Break>{std::move(at)};
    }
  } else if (started) {
    push(sent ? sent : executor_.none());
  } else if (sent && !sent->is_none()) {
    return break_at(BreakId::WouldRaise, "can't send non-None value to a just-started generator");
  }
  started = true;
  Captured<Value*> value = run();
  if (!value) {
    finished_ = true;
    if (value.error().raised && is_stop(*value.error().raised)) value.error().raised = nullptr;  // a RuntimeError of it
    return value;
  }
  return finished_ ? nullptr : *value;
}

bool SymbolicFrame::holds_handlers() const {
  return started && !finished_ && pc > 0 && view->handler_of(pc - 1) != nullptr;
}

bool SymbolicFrame::is_delegating() const {
  return started && !finished_ && pc >= 2 && view->instrs()[pc - 2].op == Opcode::Send;
}

Step delegate_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  if (i.op == Opcode::GetYieldFromIter) return push_iterator(frame, iterate(x, frame.pop()));
  if (!frame.generator) return suspended(frame, i);
  Value* sent = frame.pop();
  Value* receiver = frame.peek(py::kIteratorSlots);
  if (receiver->kind != ValueKind::Iterator) return suspended(frame, i);
  const bool inner = receiver->as_iterator().over == Over::Generator;
  if (!inner && !sent->is_none()) return break_at(BreakId::GeneratorFrame, "send() to an iterator");
  FRAMEJIT_TRY(value, inner ? resume_generator(x, receiver, sent) : next_item(x, receiver));
  if (value) {
    frame.push(value);
    return Flow::Next;
  }
  frame.pop_raw(py::kIteratorSlots);
  frame.push(inner ? x.generator_frame(receiver).returned : x.none());
  frame.pc = static_cast<uint32_t>(i.arg);
  return Flow::Jumped;
}

Captured<Value*> resume_generator(Executor& x, Value* generator, Value* sent, Value* thrown) {
  if (x.depth >= x.options().inline_depth) return break_at(BreakId::RecursiveCall, "generator");
  ++x.depth;
  SymbolicFrame& inner = x.generator_frame(generator);
  Captured<Value*> value = inner.resume(generator, sent, thrown);
  --x.depth;
  if (!value) inner.note_reached(value.error());
  return value;
}

/// What next() does at the end of an iterator.
Unexpected<Break> stops(Executor& x, const Value* iterator) {
  Values args;
  if (iterator->as_iterator().over == Over::Generator) {
    Value* gave = x.generator_frame(iterator).returned;
    if (!look(x, gave)->is_none()) args.push_back(gave);
  }
  Unexpected<Break> b = break_at(BreakId::WouldRaise, "StopIteration");
  b.error.raised = make_exception(x, PyExc_StopIteration, std::move(args));
  return b;
}

Captured<Value*> generator_method(Executor& x, Value* generator, const std::string& name, const Values& args) {
  if (name == "__next__" || (name == "send" && args.size() == 1)) {
    FRAMEJIT_TRY(value, resume_generator(x, generator, args.empty() ? nullptr : look(x, args[0])));
    return value ? Captured<Value*>(look(x, value)) : stops(x, generator);
  }
  if (name == "throw" && !args.empty()) {
    Value* thrown = nullptr;
    for (Value* arg : args)
      if (!thrown && is_exception(*look(x, arg))) thrown = look(x, arg);
    if (!thrown) return break_at(BreakId::ExceptionHandling, "throw()");
    if (x.generator_frame(generator).is_delegating())
      return break_at(BreakId::GeneratorFrame, "throw() into yield from");
    FRAMEJIT_TRY(value, resume_generator(x, generator, nullptr, thrown));
    return value ? Captured<Value*>(look(x, value)) : stops(x, generator);
  }
  if (name == "close" && args.empty()) {
    SymbolicFrame& frame_of_generator = x.generator_frame(generator);
    if (frame_of_generator.is_finished()) return x.none();
    if (frame_of_generator.is_delegating()) return break_at(BreakId::GeneratorFrame, "close() within yield from");
    Value* thrown = make_exception(x, PyExc_GeneratorExit, {});
    Captured<Value*> value = resume_generator(x, generator, nullptr, thrown);
    if (value && *value) return break_at(BreakId::WouldRaise, "generator ignored GeneratorExit");
    if (value || value.error().raised == thrown) return x.none();
    return value;
  }
  return break_at(BreakId::UnknownCallable, "'generator." + name + "'");
}

}  // namespace framejit::capture
