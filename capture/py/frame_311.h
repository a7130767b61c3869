// CPython 3.11: access to frames, thread state and interpreter state. See README.md for why each use is sound.
#pragma once

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace framejit::capture::py {

using Frame = _PyInterpreterFrame;
using EvalFunction = _PyFrameEvalFunction;

inline PyThreadState* thread() { return _PyThreadState_UncheckedGet(); }

inline Frame* current_frame(PyThreadState* tstate) { return tstate->cframe->current_frame; }
inline PyCodeObject* code_of(Frame* frame) { return frame->f_code; }
inline PyFunctionObject* function_of(Frame* frame) { return frame->f_func; }
inline PyObject* globals_of(Frame* frame) { return frame->f_globals; }
inline PyObject* builtins_of(Frame* frame) { return frame->f_builtins; }
/// Is its frame object held by others than the frame itself?
inline bool outlives(Frame* frame) { return frame->frame_obj && Py_REFCNT(frame->frame_obj) > 1; }
inline PyObject** localsplus(Frame* frame) { return frame->localsplus; }

/// Code unit of the instruction that the frame executes now (valid inside an instruction, not at a call).
inline uint32_t unit_of(Frame* frame) { return static_cast<uint32_t>(frame->prev_instr - _PyCode_CODE(frame->f_code)); }

/// Until the frame's next instruction its f_lineno is that of the instruction at `unit`.
inline void show_at(Frame* frame, uint32_t unit) { frame->prev_instr = _PyCode_CODE(frame->f_code) + unit; }

inline EvalFunction& eval_slot(PyInterpreterState* interpreter) { return interpreter->eval_frame; }
inline bool error_set(PyThreadState* tstate) { return tstate->curexc_type != nullptr; }

inline PyObject* default_eval(PyThreadState* tstate, Frame* frame, int throwflag) {
  return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

inline bool tools_active(PyThreadState* tstate) { return tstate->cframe->use_tracing != 0; }

/// A signal waits for the main thread. Needs neither the GIL nor a thread state.
inline bool signal_pending() { return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0; }

inline bool eval_breaker_set(PyThreadState* tstate) {
  return _Py_atomic_load_relaxed(&tstate->interp->ceval.eval_breaker) != 0;
}

/// Room for two more levels of recursion: what a region takes the place of may need them, and would raise.
inline bool has_headroom(PyThreadState* tstate) { return tstate->recursion_remaining >= 2; }

/// A frame on the data stack that has not begun: not of a generator that is resumed, nor of a frame object.
inline bool is_fresh(Frame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

/// Sees to it that a fresh frame, the last thing on the data stack, has room for `words` of stack.
inline bool make_room(PyThreadState* tstate, Frame* frame, std::ptrdiff_t words) {
  PyObject** stack = frame->localsplus + frame->f_code->co_nlocalsplus;
  const std::ptrdiff_t missing = words - (tstate->datastack_top - stack);
  if (missing <= 0) return true;
  // Made before its code was marked. What pops it goes by its start, so it can grow where the chunk has room.
  if (!_PyThreadState_HasStackSpace(tstate, static_cast<std::size_t>(missing))) return false;
  tstate->datastack_top += missing;
  return true;
}

/// Exchanges the code of a fresh frame, where that is possible: see README.md.
inline bool replace_code(PyThreadState* tstate, Frame* frame, PyCodeObject* replacement) {
  PyCodeObject* code = frame->f_code;
  if (!is_fresh(frame) || replacement->co_nlocalsplus != code->co_nlocalsplus) return false;
  // RETURN_GENERATOR makes an object with the room that the code of the function asks for.
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (replacement->co_flags & kGenerators) {
    auto* of_function = reinterpret_cast<PyCodeObject*>(frame->f_func->func_code);
    if (of_function->co_nlocalsplus != code->co_nlocalsplus || of_function->co_stacksize < replacement->co_stacksize)
      return false;
  }
  if (!make_room(tstate, frame, replacement->co_stacksize)) return false;
  Py_INCREF(replacement);
  frame->f_code = replacement;
  frame->prev_instr = _PyCode_CODE(replacement) - 1;
  Py_DECREF(code);
  return true;
}

inline void reserve_stack(PyCodeObject* code, int words) { code->co_stacksize += words; }

/// Sets the argument byte of a unit in the live code. The loop reads units whole, so they are written whole.
inline void set_argument(PyCodeObject* code, uint32_t unit, uint8_t argument) {
  _Py_CODEUNIT& word = _PyCode_CODE(code)[unit];
  word = static_cast<_Py_CODEUNIT>(_Py_OPCODE(word) | argument << 8);
}

/// What the extra slot `index` of `code` holds, or null.
inline void* extra_of(PyCodeObject* code, Py_ssize_t index) {
  struct Extra {  // _PyCodeObjectExtra of codeobject.c
    Py_ssize_t size;
    void* slots[1];
  };
  auto* extra = static_cast<Extra*>(code->co_extra);
  return extra && index < extra->size ? extra->slots[index] : nullptr;
}
inline Py_ssize_t request_extra_index(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
inline bool set_extra(PyCodeObject* code, Py_ssize_t index, void* value) {
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index, value) == 0;
}

inline void set_eval_function(PyInterpreterState* interpreter, EvalFunction function) {
  _PyInterpreterState_SetEvalFrameFunc(interpreter, function);
}

/// A code object with the layout, names and flags of `code`, without the audit event of code.replace().
inline PyCodeObject* code_like(PyCodeObject* code, PyObject* bytecode, PyObject* linetable, PyObject* exceptiontable,
                               PyObject* consts, int stacksize, int flags) {
  _PyCodeConstructor parts{};
  parts.filename = code->co_filename;
  parts.name = code->co_name;
  parts.qualname = code->co_qualname;
  parts.flags = flags;
  parts.code = bytecode;
  parts.firstlineno = code->co_firstlineno;
  parts.linetable = linetable;
  parts.consts = consts;
  parts.names = code->co_names;
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
