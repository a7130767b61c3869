#include "ext/arrays/numpy_implementation.h"

#include <string_view>

#include "capture/py/ref.h"
#include "ext/module/control.h"

namespace framejit::ext::arrays {

using capture::Ref;

PyObject* numpy_implementation(PyObject* callable) {
  if (PyObject* ours = module::polyfill_of(callable)) return ours;
  // Up to NumPy 1.24 the dispatcher is a function in Python.
  bool in_python = false;
  if (PyFunction_Check(callable)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    PyObject* home =
        PyDict_Check(function->func_globals) ? PyDict_GetItemString(function->func_globals, "__name__") : nullptr;
    PyObject* file = reinterpret_cast<PyCodeObject*>(function->func_code)->co_filename;
    in_python = home && PyUnicode_Check(home) && PyUnicode_CompareWithASCIIString(home, "numpy.core.overrides") == 0 &&
                PyUnicode_CompareWithASCIIString(file, "<__array_function__ internals>") == 0;
  }
  if (!in_python && std::string_view(Py_TYPE(callable)->tp_name) != "numpy._ArrayFunctionDispatcher") return nullptr;
  // Their dispatchers refuse what the functions themselves take.
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  for (const char* strict : {"poly", "unique_all", "unique_counts", "unique_inverse", "unique_values"})
    if (name && PyUnicode_Check(name.get()) && PyUnicode_CompareWithASCIIString(name.get(), strict) == 0)
      return nullptr;
  // The dispatcher keeps it for ever.
  Ref<> found = Ref<>::steal(PyObject_GetAttrString(callable, "__wrapped__"));
  PyErr_Clear();
  return found && PyFunction_Check(found.get()) ? found.get() : nullptr;
}

}  // namespace framejit::ext::arrays
