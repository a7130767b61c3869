// See constructors.h. A call of a class is specialised (CALL_ALLOC_AND_ENTER_INIT) only if its tp_alloc is
// PyType_GenericAlloc: another one that does the same keeps it as it is. What was specialised before asks for the
// version of the class, which is made invalid.
#include "capture/py/constructors.h"

#include <unordered_set>
#include <vector>

namespace framejit::capture {

namespace {

PyObject* allocate(PyTypeObject* type, Py_ssize_t items) { return PyType_GenericAlloc(type, items); }

/// All classes below `base`, and that itself.
std::vector<Ref<>> classes_from(PyObject* base) {
  std::vector<Ref<>> found{Ref<>::share(base)};
  std::unordered_set<PyObject*> seen{base};
  for (std::size_t i = 0; i < found.size(); ++i) {
    // As a function of type: a metaclass may have another, and that of type itself takes an argument.
    const Ref<> below = Ref<>::steal(
        PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", found[i].get()));
    if (!below) PyErr_Clear();
    for (Py_ssize_t at = 0; below && at < PyList_GET_SIZE(below.get()); ++at)
      if (PyObject* cls = PyList_GET_ITEM(below.get(), at); seen.insert(cls).second) found.push_back(Ref<>::share(cls));
  }
  return found;
}

}  // namespace

void enter_through_hook(PyTypeObject* type) {
  if (type->tp_alloc != PyType_GenericAlloc || type->tp_new != PyBaseObject_Type.tp_new) return;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return;
  type->tp_alloc = allocate;
  PyType_Modified(type);
}

void enter_through_hook(PyCodeObject* init) {
  static PyObject* const kInit = PyUnicode_InternFromString("__init__");
  for (const Ref<>& cls : classes_from(reinterpret_cast<PyObject*>(&PyBaseObject_Type))) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls.get());
    PyObject* function = _PyType_Lookup(type, kInit);
    if (function && PyFunction_Check(function) && PyFunction_GET_CODE(function) == reinterpret_cast<PyObject*>(init))
      enter_through_hook(type);
  }
}

}  // namespace framejit::capture
