// How functions are called: CPython 3.12 and later, which enters a function without a C call only if its vectorcall is
// the one that it was made with, and tells watchers of new functions.
#pragma once

#include "capture/py/plain_vectorcall.h"

namespace framejit::capture::py {

enum class FunctionEvent : uint8_t { Found, Made, Changed, Gone };
/// Told of a function that has `code`, or gets it.
using FunctionWatcher = void (*)(FunctionEvent event, PyFunctionObject* function, PyObject* code);

inline FunctionWatcher function_watcher = nullptr;

inline int note_function(PyFunction_WatchEvent event, PyFunctionObject* function, PyObject* value) {
  switch (event) {
    case PyFunction_EVENT_CREATE: function_watcher(FunctionEvent::Made, function, function->func_code); break;
    case PyFunction_EVENT_MODIFY_CODE: function_watcher(FunctionEvent::Changed, function, value); break;
    case PyFunction_EVENT_DESTROY: function_watcher(FunctionEvent::Gone, function, function->func_code); break;
    default: break;
  }
  return 0;
}

/// Has the watcher told of every function that is made from now on, that is given other code, and that goes. False if
/// that cannot be had: the watchers of a process share eight numbers.
inline bool watch_functions(FunctionWatcher watcher) {
  function_watcher = watcher;
  static const int number = PyFunction_AddWatcher(note_function);
  if (number < 0) PyErr_Clear();
  return number >= 0;
}

/// Tells `watcher` of all functions that there are, and `gets` of the getters of all properties.
inline void visit_functions(FunctionWatcher watcher, void (*gets)(PyFunctionObject* getter)) {
  struct Visitor {
    FunctionWatcher watcher;
    void (*gets)(PyFunctionObject* getter);
  } visitor{watcher, gets};
  struct Property {  // the start of CPython's propertyobject
    PyObject_HEAD;
    PyObject* getter;
  };
  PyUnstable_GC_VisitObjects(
      [](PyObject* object, void* argument) {
        const auto& told = *static_cast<Visitor*>(argument);
        if (PyFunction_Check(object)) {
          auto* function = reinterpret_cast<PyFunctionObject*>(object);
          told.watcher(FunctionEvent::Found, function, function->func_code);
        } else if (PyObject_TypeCheck(object, &PyProperty_Type)) {
          PyObject* getter = reinterpret_cast<Property*>(object)->getter;
          if (getter && PyFunction_Check(getter)) told.gets(reinterpret_cast<PyFunctionObject*>(getter));
        }
        return 1;
      },
      &visitor);
}

/// The function has no version from now on, by which specialised instructions know it.
inline void set_vectorcall(PyFunctionObject* function, vectorcallfunc vectorcall) {
  PyFunction_SetVectorcall(function, vectorcall);
}

}  // namespace framejit::capture::py
