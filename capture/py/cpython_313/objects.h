// CPython 3.13: what is read of objects and asked of the interpreter in another way than later.
#pragma once

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <pyconfig.h>
#undef HAVE_STD_ATOMIC  // see ../frame.h
#include <Python.h>

#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>

#include "capture/py/ref.h"

namespace framejit::capture::py {

inline bool is_finalizing() { return Py_IsFinalizing() != 0; }
inline Py_hash_t hash_pointer(const void* pointer) { return Py_HashPointer(pointer); }
/// The dict that holds the attributes of a type.
inline Ref<> type_dict(PyTypeObject* type) { return Ref<>::steal(PyType_GetDict(type)); }
/// What a weak reference refers to; null once that is gone.
inline Ref<> target_of(PyObject* weakref) {
  PyObject* target = nullptr;
  if (PyWeakref_GetRef(weakref, &target) < 0) PyErr_Clear();
  return Ref<>::steal(target);
}
/// Where the attributes of an instance are: inline values in the order of the type's shared keys, else a dict, else
/// nowhere yet. A dict may have the inline values too. Borrowed.
struct Attributes {
  PyDictValues* values = nullptr;
  PyObject* dict = nullptr;
};
inline Attributes attributes_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    auto* dict = reinterpret_cast<PyObject*>(_PyObject_GetManagedDict(object));
    if (!(type->tp_flags & Py_TPFLAGS_INLINE_VALUES)) return {nullptr, dict};
    PyDictValues* values = _PyObject_InlineValues(object);
    return {values->valid ? values : nullptr, dict};  // the dict, if there is one, has the same values
  }
  PyObject** at = _PyObject_GetDictPtr(object);  // no managed one is left to make
  return {nullptr, at ? *at : nullptr};
}
/// Gives a function what functions of later versions have besides.
inline void copy_later_fields(PyFunctionObject* to, const PyFunctionObject* from) {
  Py_XSETREF(to->func_typeparams, Py_XNewRef(from->func_typeparams));
  to->func_version = reinterpret_cast<PyCodeObject*>(to->func_code)->co_version;  // or calls stay slow
}
/// Sets the function that makes the annotations (3.14).
inline void set_annotate(PyFunctionObject*, PyObject*) {}
/// Is the one reference to this argument of a C function that of the caller's stack, which drops it?
inline bool is_sole_argument(PyObject* argument) { return Py_REFCNT(argument) == 1; }

}  // namespace framejit::capture::py
