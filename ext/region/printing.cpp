// Looks at sys.stdout and what lies below it, and at NumPy's print options.
#include "ext/region/printing.h"

#include <Python.h>

#include <algorithm>
#include <initializer_list>

#include "capture/py/ref.h"
#include "ext/arrays/numpy_api.h"

namespace framejit::ext::region {

using capture::Ref;

namespace {

/// Clears the error of a lookup that failed: then sys.stdout or the options do not count as plain.
struct ClearError {
  ~ClearError() { PyErr_Clear(); }
};

/// A class of the module _io, borrowed; or null.
PyTypeObject* io_class(const char* name) {
  PyObject* module = PyImport_AddModule("_io");  // which Python itself has imported
  PyObject* found = module ? PyDict_GetItemString(PyModule_GetDict(module), name) : nullptr;
  return found && PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found) : nullptr;
}

bool is_exactly(PyObject* object, std::initializer_list<const char*> names) {
  return object && std::any_of(names.begin(), names.end(), [&](const char* name) {
           PyTypeObject* type = io_class(name);
           return type && Py_IS_TYPE(object, type);
         });
}

/// Of the class or one that derives from it, of which neither the methods that print() calls are replaced, nor how they
/// are found.
bool writes_as(PyObject* file, PyTypeObject* type) {
  if (!type || !PyObject_TypeCheck(file, type) || Py_TYPE(file)->tp_getattro != type->tp_getattro) return false;
  PyObject** dict = _PyObject_GetDictPtr(file);
  for (const char* name : {"write", "flush"}) {
    const Ref<> method = Ref<>::steal(PyUnicode_InternFromString(name));
    if (!method || _PyType_Lookup(Py_TYPE(file), method.get()) != _PyType_Lookup(type, method.get())) return false;
    if (dict && *dict && PyDict_GetItemWithError(*dict, method.get())) return false;
  }
  return true;
}

}  // namespace

bool stdout_is_plain() {
  const ClearError clear;
  PyObject* file = PySys_GetObject("stdout");  // borrowed
  if (!file || file == Py_None) return file != nullptr;
  if (writes_as(file, io_class("StringIO"))) return true;
  if (!writes_as(file, io_class("TextIOWrapper"))) return false;
  const Ref<> buffer = Ref<>::steal(PyObject_GetAttrString(file, "buffer"));
  if (is_exactly(buffer.get(), {"BytesIO", "FileIO"})) return true;
  if (!is_exactly(buffer.get(), {"BufferedWriter", "BufferedRandom"})) return false;
  const Ref<> raw = Ref<>::steal(PyObject_GetAttrString(buffer.get(), "raw"));
  return is_exactly(raw.get(), {"FileIO"});
}

bool arrays_are_shown_plainly() {
  const ClearError clear;
  const Ref<> options = Ref<>::steal(PyObject_CallMethod(arrays::numpy_module(), "get_printoptions", nullptr));
  if (!options || !PyDict_CheckExact(options.get())) return false;
  for (const char* name : {"formatter", "override_repr"})
    if (PyObject* set = PyDict_GetItemString(options.get(), name); set && set != Py_None) return false;
  return true;
}

}  // namespace framejit::ext::region
