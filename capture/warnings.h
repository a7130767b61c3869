// Calls of which it has to be known whether they warn.
#pragma once

#include "capture/py/ref.h"

namespace framejit::capture {

/// Makes Python's warnings raise, and changes nothing else: warnings.catch_warnings() would make warnings be shown
/// again. What the running frame's module has warned of before does not count meanwhile: the warning is another line's,
/// and would be silent.
class WarningsAsErrors {
 public:
  WarningsAsErrors() {
    static PyObject* const warnings = PyImport_ImportModule("warnings");
    static PyObject* const row = Py_BuildValue("(sOOOi)", "error", Py_None, PyExc_Warning, Py_None, 0);
    static PyObject* const name = PyUnicode_InternFromString("filters");
    filters_ = Ref<>::steal(warnings && name ? PyObject_GetAttr(warnings, name) : nullptr);
    if (!filters_ || !PyList_Check(filters_.get()) || PyList_Insert(filters_.get(), 0, row) < 0) filters_ = {};
    row_ = row;
    PyObject* const globals = PyEval_GetGlobals();
    PyObject* const registry = globals ? PyDict_GetItemString(globals, "__warningregistry__") : nullptr;
    if (registry && PyDict_CheckExact(registry) && PyDict_GET_SIZE(registry)) {
      registry_ = Ref<>::share(registry);
      given_ = Ref<>::steal(PyDict_Copy(registry));
      if (given_) PyDict_Clear(registry);
    }
    PyErr_Clear();
  }
  ~WarningsAsErrors() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (Py_ssize_t i = 0; filters_ && i < PyList_GET_SIZE(filters_.get()); ++i)
      if (PyList_GET_ITEM(filters_.get(), i) == row_) {
        PySequence_DelItem(filters_.get(), i);
        break;
      }
    if (given_) {
      PyDict_Clear(registry_.get());
      PyDict_Update(registry_.get(), given_.get());
    }
    PyErr_Restore(type, value, traceback);
  }
  WarningsAsErrors(const WarningsAsErrors&) = delete;
  WarningsAsErrors& operator=(const WarningsAsErrors&) = delete;

 private:
  Ref<> filters_, registry_, given_;
  PyObject* row_;
};

}  // namespace framejit::capture
