// CPython 3.12: access to frames, thread state and interpreter state.
#pragma once

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

#include "capture/py/code_unstable.h"
#include "capture/py/frame_objects.h"

namespace framejit::capture::py {

using Frame = _PyInterpreterFrame;

inline PyThreadState* thread() { return _PyThreadState_UncheckedGet(); }

inline Frame* current_frame(PyThreadState* tstate) { return tstate->cframe->current_frame; }
inline void set_current_frame(PyThreadState* tstate, Frame* frame) { tstate->cframe->current_frame = frame; }
inline PyCodeObject* code_of(Frame* frame) { return frame->f_code; }
inline PyFunctionObject* function_of(Frame* frame) { return reinterpret_cast<PyFunctionObject*>(frame->f_funcobj); }
inline Slot* localsplus(Frame* frame) { return frame->localsplus; }

/// The instruction that the frame executes now (valid inside an instruction, not at a call).
inline _Py_CODEUNIT* position(Frame* frame) { return frame->prev_instr; }
/// Until the frame's next instruction its f_lineno is that of the instruction at `at`.
inline void set_position(Frame* frame, _Py_CODEUNIT* at) { frame->prev_instr = at; }
/// Where a frame of the code stands that has not begun.
inline _Py_CODEUNIT* fresh_position(PyCodeObject* code) { return _PyCode_CODE(code) - 1; }
/// Gives a fresh frame another code object; the frame's reference to the old one goes.
inline void set_code(Frame* frame, PyCodeObject* code) {
  PyCodeObject* before = frame->f_code;
  Py_INCREF(code);
  frame->f_code = code;
  Py_DECREF(before);
}
/// Gives a frame that is zeroed and that the interpreter never runs a function and its code, without references.
inline void lend(Frame* frame, PyFunctionObject* function, PyCodeObject* code) {
  frame->f_funcobj = reinterpret_cast<PyObject*>(function);
  frame->f_code = code;
}

inline bool error_set(PyThreadState* tstate) { return tstate->current_exception != nullptr; }
inline bool any_tool_active(PyThreadState* tstate, PyCodeObject* code) {
  return any_tool_active_in<_PyCoMonitoringData>(tstate, code);
}
/// A signal waits for the main thread. Needs neither the GIL nor a thread state.
inline bool signal_pending() { return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0; }
inline bool eval_breaker_set(PyThreadState* tstate) {
  return _Py_atomic_load_relaxed(&tstate->interp->ceval.eval_breaker) != 0;
}
/// The address of the eval breaker, for machine code: its lowest byte is nonzero while eval_breaker_set().
inline const void* eval_breaker(PyThreadState* tstate) { return &tstate->interp->ceval.eval_breaker; }
/// Room for two more levels of recursion: what a region takes the place of may need them, and would raise.
inline bool has_headroom(PyThreadState* tstate) { return tstate->py_recursion_remaining >= 2; }
inline int recursion_left(PyThreadState* tstate) { return tstate->py_recursion_remaining; }
/// Less than half of the C recursion that the interpreter allows is left.
inline bool c_recursion_is_low(PyThreadState* tstate) { return tstate->c_recursion_remaining < C_RECURSION_LIMIT / 2; }
inline bool has_stack_space(PyThreadState* tstate, std::ptrdiff_t words) {
  return _PyThreadState_HasStackSpace(tstate, static_cast<int>(words)) != 0;
}

/// The hook may give the result of this fresh frame itself: finish() is then called with it. What takes the first frame
/// of a chunk off the data stack is not exported.
inline bool can_finish(PyThreadState* tstate, Frame* frame) {
  return !frame->frame_obj && reinterpret_cast<PyObject**>(frame) != &tstate->datastack_chunk->data[0];
}
/// Clears the frame and takes it off the data stack, as _PyEvalFrameClearAndPop() of ceval.c does.
inline void finish(PyThreadState* tstate, Frame* frame) {
  --tstate->c_recursion_remaining;
  for (int i = 0; i < frame->stacktop; ++i) Py_XDECREF(frame->localsplus[i]);
  frame->stacktop = 0;
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
  Py_DECREF(frame->f_code);
  ++tstate->c_recursion_remaining;
  tstate->datastack_top = reinterpret_cast<PyObject**>(frame);
}

}  // namespace framejit::capture::py
