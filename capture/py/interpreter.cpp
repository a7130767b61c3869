#include "capture/py/cpython/objects.h"

#include "capture/py/interpreter.h"

namespace framejit::capture {

bool is_finalizing() { return py::is_finalizing(); }

Py_hash_t hash_pointer(const void* pointer) { return py::hash_pointer(pointer); }

bool is_alive(PyObject* weakref) { return static_cast<bool>(py::target_of(weakref)); }

bool is_lazy_import(PyObject* object) {
  static PyObject* const type = [] {
    const Ref<> types = Ref<>::steal(PyImport_ImportModule("types"));
    PyObject* found = types ? PyObject_GetAttrString(types.get(), "LazyImportType") : nullptr;
    if (!found) PyErr_Clear();
    return found;
  }();
  return type && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

void set_annotate(PyObject* function, PyObject* annotate) {
  py::set_annotate(reinterpret_cast<PyFunctionObject*>(function), annotate);
}

bool is_sole_argument(PyObject* argument) { return py::is_sole_argument(argument); }

}  // namespace framejit::capture
