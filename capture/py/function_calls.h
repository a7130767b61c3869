// How functions are called: CPython 3.12 and later, which enters a function without a C call only if its vectorcall is
// the one that it was made with, and tells watchers of new functions.
#pragma once

#include "capture/py/plain_vectorcall.h"

namespace framejit::capture::py {

/// Told of a function that gets this code.
using FunctionGetsCode = void (*)(PyFunctionObject* function, PyObject* code);

inline FunctionGetsCode function_gets_code = nullptr;

inline int note_function(PyFunction_WatchEvent event, PyFunctionObject* function, PyObject* value) {
  if (event == PyFunction_EVENT_CREATE) function_gets_code(function, function->func_code);
  if (event == PyFunction_EVENT_MODIFY_CODE) function_gets_code(function, value);
  return 0;
}

/// Has every function told that is made from now on, or given other code. False if that cannot be had: the watchers of
/// a process share eight numbers.
inline bool watch_functions(FunctionGetsCode told) {
  function_gets_code = told;
  static const int watcher = PyFunction_AddWatcher(note_function);
  if (watcher < 0) PyErr_Clear();
  return watcher >= 0;
}

/// Tells of all functions that there are.
inline void visit_functions(FunctionGetsCode told) {
  PyUnstable_GC_VisitObjects(
      [](PyObject* object, void* visitor) {
        auto* function = reinterpret_cast<PyFunctionObject*>(object);
        if (PyFunction_Check(object)) reinterpret_cast<FunctionGetsCode>(visitor)(function, function->func_code);
        return 1;
      },
      reinterpret_cast<void*>(told));
}

inline void set_vectorcall(PyFunctionObject* function, vectorcallfunc vectorcall) {
  PyFunction_SetVectorcall(function, vectorcall);
}

}  // namespace framejit::capture::py
