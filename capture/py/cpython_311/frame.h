// CPython 3.11: access to frames, thread state and interpreter state.
#pragma once

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

#include "capture/py/frame_objects.h"

namespace framejit::capture::py {

using Frame = _PyInterpreterFrame;

inline PyThreadState* thread() { return _PyThreadState_UncheckedGet(); }

inline Frame* current_frame(PyThreadState* tstate) { return tstate->cframe->current_frame; }
inline void set_current_frame(PyThreadState* tstate, Frame* frame) { tstate->cframe->current_frame = frame; }
inline PyCodeObject* code_of(Frame* frame) { return frame->f_code; }
inline PyFunctionObject* function_of(Frame* frame) { return frame->f_func; }
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
  frame->f_code = reinterpret_cast<PyCodeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(code)));
  Py_DECREF(before);
}
/// Gives a frame that is zeroed and that the interpreter never runs a function and its code, without references.
inline void lend(Frame* frame, PyFunctionObject* function, PyCodeObject* code) {
  frame->f_func = function;
  frame->f_code = code;
}

inline bool error_set(PyThreadState* tstate) { return tstate->curexc_type != nullptr; }
inline bool any_tool_active(PyThreadState* tstate, PyCodeObject*) { return tstate->cframe->use_tracing != 0; }
/// A signal waits for the main thread. Needs neither the GIL nor a thread state.
inline bool signal_pending() { return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0; }
inline bool eval_breaker_set(PyThreadState* tstate) {
  return _Py_atomic_load_relaxed(&tstate->interp->ceval.eval_breaker) != 0;
}
/// The address of the eval breaker, for machine code: its lowest byte is nonzero while eval_breaker_set().
inline const void* eval_breaker(PyThreadState* tstate) { return &tstate->interp->ceval.eval_breaker; }
/// Room for two more levels of recursion: what a region takes the place of may need them, and would raise.
inline bool has_headroom(PyThreadState* tstate) { return tstate->recursion_remaining >= 2; }
inline int recursion_left(PyThreadState* tstate) { return tstate->recursion_remaining; }
/// Less than half of the C recursion that the interpreter allows is left.
inline bool c_recursion_is_low(PyThreadState*) { return false; }
inline bool has_stack_space(PyThreadState* tstate, std::ptrdiff_t words) {
  return _PyThreadState_HasStackSpace(tstate, static_cast<std::size_t>(words)) != 0;
}

/// The hook may give the result of this fresh frame itself: finish() is then called with it.
inline bool can_finish(PyThreadState*, Frame*) { return true; }
inline void finish(PyThreadState*, Frame*) {}  // the caller clears the frame

inline void reserve_stack(PyCodeObject* code, int words) { code->co_stacksize += words; }

/// Sets one unit of the live code. The loop reads units whole, so they are written whole.
inline void set_unit(PyCodeObject* code, uint32_t unit, int opcode, uint8_t argument) {
  _PyCode_CODE(code)[unit] = static_cast<_Py_CODEUNIT>(opcode | argument << 8);
}
inline void set_argument(PyCodeObject* code, uint32_t unit, uint8_t argument) {
  set_unit(code, unit, _Py_OPCODE(_PyCode_CODE(code)[unit]), argument);
}

/// Jumps that were changed: a thread with a profiler reads them in `co_code`, once that was asked for.
inline void copy_jump(PyCodeObject* code, uint32_t unit) {
  if (code->_co_code) [[unlikely]]
    reinterpret_cast<_Py_CODEUNIT*>(PyBytes_AS_STRING(code->_co_code))[unit] = _PyCode_CODE(code)[unit];
}

/// Has the interpreter put its own instructions into the code? It does so once the code has run some times.
inline bool is_prepared(PyCodeObject* code) { return code->co_warmup == 0; }
/// Lets it do so at the next run. It counts calls, and only some of the jumps back.
inline void prepare_soon(PyCodeObject* code) {
  if (code->co_warmup != 0) code->co_warmup = -1;
}

inline Py_ssize_t request_extra_index(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
inline bool set_extra(PyCodeObject* code, Py_ssize_t index, void* value) {
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index, value) == 0;
}

/// A code object with the layout, names and flags of `code`, without the audit event of code.replace().
inline PyCodeObject* code_like(PyCodeObject* code, PyObject* bytecode, PyObject* linetable, PyObject* exceptiontable,
                               PyObject* consts, int stacksize, int flags, PyObject* names) {
  _PyCodeConstructor parts{};
  parts.filename = code->co_filename;
  parts.name = code->co_name;
  parts.qualname = code->co_qualname;
  parts.flags = flags;
  parts.code = bytecode;
  parts.firstlineno = code->co_firstlineno;
  parts.linetable = linetable;
  parts.consts = consts;
  parts.names = names;
  parts.localsplusnames = code->co_localsplusnames;
  parts.localspluskinds = code->co_localspluskinds;
  parts.argcount = code->co_argcount;
  parts.posonlyargcount = code->co_posonlyargcount;
  parts.kwonlyargcount = code->co_kwonlyargcount;
  parts.stacksize = stacksize;
  parts.exceptiontable = exceptiontable;
  if (_PyCode_Validate(&parts) < 0) return nullptr;
  return _PyCode_New(&parts);
}

}  // namespace framejit::capture::py
