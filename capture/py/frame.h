// The running frame of CPython: the header of the version has what is written anew for each version, this header the
// rest. The first include of the files that use it: it sets Py_BUILD_CORE.
#pragma once

#include <pyconfig.h>
// The internal headers pick <stdatomic.h> by this, which C++20 does not have; their other choice has the same layout.
#undef HAVE_STD_ATOMIC
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "capture/py/cprofile.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/cpython/frame.h"
#include "capture/py/slots.h"
#include "capture/py/until_exit.h"

namespace framejit::capture::py {

using EvalFunction = _PyFrameEvalFunction;

/// Tools that must see what the thread executes, or this code. cProfile is no such tool if it is alone.
inline bool tools_active(PyThreadState* tstate, PyCodeObject* code) {
  return any_tool_active(tstate, code) && !has_only_cprofile(tstate, code);
}

inline PyObject* globals_of(Frame* frame) { return frame->f_globals; }
inline PyObject* builtins_of(Frame* frame) { return frame->f_builtins; }
/// Is its frame object held by others than the frame itself?
inline bool outlives(Frame* frame) { return frame->frame_obj && Py_REFCNT(frame->frame_obj) > 1; }

inline Slot* stack_of(Frame* frame) { return localsplus(frame) + code_of(frame)->co_nlocalsplus; }
inline Slots slots_at(const Slot* slots) { return Slots(reinterpret_cast<PyObject* const*>(slots)); }

/// Code unit of the instruction that the frame executes now (valid inside an instruction, not at a call).
inline uint32_t unit_of(Frame* frame) { return static_cast<uint32_t>(position(frame) - _PyCode_CODE(code_of(frame))); }
/// Until the frame's next instruction its f_lineno is that of the instruction at `unit`.
inline void show_at(Frame* frame, uint32_t unit) { set_position(frame, _PyCode_CODE(code_of(frame)) + unit); }

/// To be written too: what the interpreter's function for it does beside concerns its own JIT, which is off.
inline EvalFunction& eval_slot(PyInterpreterState* interpreter) { return interpreter->eval_frame; }
inline PyObject* default_eval(PyThreadState* tstate, Frame* frame, int throwflag) {
  return until_exit([&] { return _PyEval_EvalFrameDefault(tstate, frame, throwflag); });
}

/// A frame on the data stack that has not begun: not of a generator that is resumed, nor of a frame object.
inline bool is_fresh(Frame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && position(frame) == fresh_position(code_of(frame));
}

/// Sees to it that a fresh frame, the last thing on the data stack, has room for `words` of stack.
inline bool make_room(PyThreadState* tstate, Frame* frame, std::ptrdiff_t words) {
  auto* stack = reinterpret_cast<PyObject**>(stack_of(frame));
  const std::ptrdiff_t missing = words - (tstate->datastack_top - stack);
  if (missing <= 0) return true;
  // The interpreter pops a frame by its start address, so the frame can grow as long as the chunk has room.
  if (!has_stack_space(tstate, missing)) return false;
  tstate->datastack_top += missing;
  return true;
}

inline bool makes_generator(const PyCodeObject* code) {
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

/// Exchanges the code of a frame on the data stack that has not begun, if the layout of its locals is the same.
///
/// Frames are made with `co_nlocalsplus + co_stacksize` words of the function's code. A fresh frame is the last thing
/// on the data stack, so make_room() raises the top by what the spliced code needs more, where the chunk has room;
/// where not, that frame runs the user's code. Then the frame has the size of the code that it ends with, as debug
/// builds assert. The function's code cannot be given that size: frames of it may be on the stack when it is marked.
/// The interpreter clears a frame by its code and its stack pointer, and pops it by its address.
///
/// RETURN_GENERATOR makes the generator with the room that the function's code asks for and copies the frame into it,
/// with the frame's code. So a mark raises `co_stacksize` of generator code, whose frames are on the data stack only
/// until then; it is checked here. `gi_code` stays the user's.
inline bool replace_code(PyThreadState* tstate, Frame* frame, PyCodeObject* replacement) {
  PyCodeObject* code = code_of(frame);
  if (!is_fresh(frame) || replacement->co_nlocalsplus != code->co_nlocalsplus) return false;
  // RETURN_GENERATOR makes an object with the room that the code of the function asks for.
  if (makes_generator(replacement)) {
    auto* of_function = reinterpret_cast<PyCodeObject*>(function_of(frame)->func_code);
    if (of_function->co_nlocalsplus != code->co_nlocalsplus || of_function->co_stacksize < replacement->co_stacksize)
      return false;
  }
  if (!make_room(tstate, frame, replacement->co_stacksize)) return false;
  set_code(frame, replacement);
  set_position(frame, fresh_position(replacement));
  return true;
}

/// What the extra slot `index` of `code` holds, or null.
inline void* extra_of(PyCodeObject* code, Py_ssize_t index) {
  // _PyCodeObjectExtra, which is private to codeobject.c. A lookup through the API costs more than the rest of the
  // hook.
  struct Extra {
    Py_ssize_t size;
    void* slots[1];
  };
  auto* extra = static_cast<Extra*>(code->co_extra);
  return extra && index < extra->size ? extra->slots[index] : nullptr;
}

}  // namespace framejit::capture::py
