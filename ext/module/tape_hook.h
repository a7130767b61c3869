// Where gradients are kept on a tape (framejit._autodiff), it is given what is done to Tensors.
#pragma once

#include <Python.h>

#include "capture/splice.h"
#include "ext/module/control.h"

namespace framejit::ext::module {

/// Of this thread: callable(name, *args), or null. Borrowed: who sets it keeps it.
extern thread_local PyObject* tape_hook;

/// Of this thread: Functions run what is compiled, whatever bytecode_only() says.
extern thread_local bool force_compiled;

/// Does this thread run bytecode only: under a debugger or a profiler, a stance that says so, or a tape?
inline bool bytecode_only() { return capture::tools_active() || stance == Stance::ForceEager || tape_hook; }

/// What the hook gives; NotImplemented, or nothing set: the function is to run as ever.
PyObject* call_tape(const char* name, PyObject* const* args, Py_ssize_t count);

/// True: `result` is what the function gives (null with an exception set).
inline bool on_tape(const char* name, PyObject* const* args, Py_ssize_t count, PyObject*& result) {
  if (!tape_hook) [[likely]]
    return false;
  result = call_tape(name, args, count);
  if (result != Py_NotImplemented) return true;
  Py_DECREF(result);
  return false;
}

}  // namespace framejit::ext::module
