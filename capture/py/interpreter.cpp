#include "capture/py/frame.h"

#include "capture/py/cpython/objects.h"

#include "capture/py/interpreter.h"

namespace framejit::capture {

bool is_finalizing() { return py::is_finalizing(); }

Py_hash_t hash_pointer(const void* pointer) { return py::hash_pointer(pointer); }

bool is_alive(PyObject* weakref) { return static_cast<bool>(py::target_of(weakref)); }

namespace {
/// types.LazyImportType, where there is one (3.15). Found when framejit is imported, and in the module's dict: the
/// module's
/// __getattr__ is Python code, which may be marked.
PyObject* const kLazyImport = [] {
  const Ref<> types = Ref<>::steal(PyImport_ImportModule("types"));
  PyObject* found = types ? PyDict_GetItemString(PyModule_GetDict(types.get()), "LazyImportType") : nullptr;
  PyErr_Clear();
  return Py_XNewRef(found);
}();
}  // namespace

bool is_lazy_import(PyObject* object) {
  return kLazyImport && reinterpret_cast<PyObject*>(Py_TYPE(object)) == kLazyImport;
}

void set_annotate(PyObject* function, PyObject* annotate) {
  py::set_annotate(reinterpret_cast<PyFunctionObject*>(function), annotate);
}

bool is_sole_argument(PyObject* argument) { return py::is_sole_argument(argument); }

void prepare_soon(PyCodeObject* code) { py::prepare_soon(code); }

}  // namespace framejit::capture
