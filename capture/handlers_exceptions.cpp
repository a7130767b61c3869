// Handlers: exceptions that are known at capture, and `with`.
//
// An instruction that raises a known exception (Break::raised) goes on in the handler that covers it, in its frame or
// in a caller's. While one is being handled no region may end: what sys.exc_info() gives cannot be made again.
#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/handlers.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

Captured<bool> catches(SymbolicFrame& frame, Value* wanted, PyTypeObject* raised);

}  // namespace

bool SymbolicFrame::unwind(const Break& b) {
  const Handler* handler = b.raised ? view->handler_of(pc) : nullptr;
  if (!handler || stack.size() < handler->depth) return false;
  for (std::size_t i = handler->depth; i < stack.size(); ++i)
    if (may_finalize_in_slot(stack[i])) return false;
  executor_.raised_at.insert_or_assign(b.raised, locate(b));
  stack.resize(handler->depth);
  if (handler->lasti)
    push(session_.values().integer(graph::Dim(static_cast<int64_t>(pc))));  // for RERAISE, which has no use for it here
  push(b.raised);
  pc = handler->target;
  return true;
}

Step raise_exception(Value* exception, BreakId id) {
  Unexpected<Break> b = break_at(id, std::string(class_of(*exception)->tp_name));
  b.error.raised = exception;
  b.error.raises = true;
  return b;
}

namespace {

/// The break of an instruction that handles an exception from before the region.
Step handle_earlier(SymbolicFrame& frame, const Instr& i) {
  Step b = unsupported_handling(frame, i);
  b.error().of_earlier_exception = true;
  return b;
}

/// `raise` of what is not known, or is no exception.
Step raise_unknown(SymbolicFrame& frame, const Instr& i) {
  Step b = unsupported_handling(frame, i);
  b.error().raises = true;
  return b;
}

}  // namespace

Step raise_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  if (i.op == Opcode::Reraise) {
    Value* exception = frame.pop();
    Step b =
        is_exception(*exception) ? raise_exception(exception, BreakId::ExceptionHandling) : raise_unknown(frame, i);
    b.error().of_earlier_exception = !is_exception(*exception);
    if (const auto at = x.raised_at.find(exception); at != x.raised_at.end()) {
      b.error().function = at->second.function;
      b.error().file = at->second.file;
      b.error().line = at->second.line;
      b.error().column = at->second.column;
      b.error().end_column = at->second.end_column;
    }
    return b;
  }
  if (i.arg == 2) frame.pop();  // __cause__: reading it is a break
  if (i.arg == 0)
    return x.handled() ? raise_exception(x.handled(), BreakId::ExceptionHandling) : raise_unknown(frame, i);
  Value* exception = frame.pop();
  if (exception->is_constant() && PyType_Check(exception->object.get()) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(exception->object.get()),
                       reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
    FRAMEJIT_TRY(made, call(x, exception, {}, {}));
    exception = made;
  }
  if (!is_exception(*exception)) return raise_unknown(frame, i);
  return raise_exception(exception, BreakId::ExceptionHandling);
}

Step handler_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  switch (i.op) {
    case Opcode::PushExcInfo: {
      Value* exception = frame.pop();
      if (!is_exception(*exception)) return handle_earlier(frame, i);
      frame.push(x.handled() ? x.handled() : frame.session().values().make(ValueKind::Null));
      frame.push(exception);
      x.set_handled(exception);
      return Flow::Next;
    }
    case Opcode::PopExcept: {
      if (!x.handled()) return handle_earlier(frame, i);
      Value* before = frame.pop_raw();
      x.set_handled(before->kind == ValueKind::Null ? nullptr : before);
      return Flow::Next;
    }
    default: break;
  }
  // CheckExcMatch
  Value* wanted = frame.pop();
  Value* exception = frame.peek(1);
  if (!is_exception(*exception)) return handle_earlier(frame, i);
  FRAMEJIT_TRY(is, catches(frame, wanted, class_of(*exception)));
  frame.push(x.boolean(is));
  return Flow::Next;
}

namespace {

// `except` looks at the MRO only: no __instancecheck__.
Captured<bool> catches(SymbolicFrame& frame, Value* wanted, PyTypeObject* raised) {
  if (wanted->kind == ValueKind::Tuple) {
    bool any = false;  // all are looked at: what is no exception raises
    for (Value* each : wanted->items) {
      each = look(frame.executor(), each);
      if (each->kind == ValueKind::Tuple) return break_at(BreakId::ExceptionHandling, "nested tuples of exceptions");
      FRAMEJIT_TRY(is, catches(frame, each, raised));
      any = any || is;
    }
    return any;
  }
  PyObject* type = wanted->is_constant() ? wanted->object.get() : nullptr;
  if (!type || !PyType_Check(type) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return break_at(BreakId::ExceptionHandling, "except of what is no exception");
  return PyType_IsSubtype(raised, reinterpret_cast<PyTypeObject*>(type)) != 0;
}

}  // namespace

Step with_op(SymbolicFrame& frame, const Instr& i) {
  Session& session = frame.session();
  Executor& x = frame.executor();
  static PyObject* const kEnter = interned("__enter__");
  static PyObject* const kExit = interned("__exit__");
  if (i.op == Opcode::BeforeWith) {
    Value* manager = frame.pop();
    FRAMEJIT_TRY(leave, special_method(x, manager, kExit));
    FRAMEJIT_TRY(enter, special_method(x, manager, kEnter));
    if (!leave || !enter)
      return break_at(BreakId::UserEffect, "`with` of an object whose __enter__ or __exit__ is not known");
    frame.push(leave);
    return frame.push_or_break(call(x, enter, {}, {}));
  }
  if (i.op == Opcode::LoadSpecial) {
    if (i.arg > 1) return suspended(frame, i);
    Value* manager = frame.pop();
    FRAMEJIT_TRY(method, special_method(x, manager, i.arg == 0 ? kEnter : kExit));
    if (!method) return break_at(BreakId::UserEffect, "`with` of an object whose __enter__ or __exit__ is not known");
    push_callable(frame, method, session.values().make(ValueKind::Null));
    return Flow::Next;
  }
  // WithExceptStart: __exit__ (with its self or NULL), lasti, what was handled before, the exception
  Value* exception = frame.peek(1);
  if (!is_exception(*exception) || frame.stack.size() < static_cast<std::size_t>(py::kExitAt))
    return unsupported_handling(frame, i);
  Value* traceback = session.values().make(ValueKind::Object);  // of no known class: using it is a break
  traceback->object = Ref<>::share(reinterpret_cast<PyObject*>(&PyTraceBack_Type));
  Value* type = session.values().constant(reinterpret_cast<PyObject*>(class_of(*exception)));
  Values args{type, exception, traceback};
  if (Value* self = py::kExitHasSelf ? frame.peek(py::kExitAt - 1) : nullptr; self && self->kind != ValueKind::Null)
    args.insert(args.begin(), self);
  return frame.push_or_break(call(x, frame.peek(py::kExitAt), args, {}));
}

}  // namespace framejit::capture
