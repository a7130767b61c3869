// CPython 3.11: what is read of objects and asked of the interpreter in another way than later.
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

inline bool is_finalizing() { return _Py_IsFinalizing() != 0; }
inline Py_hash_t hash_pointer(const void* pointer) { return _Py_HashPointer(pointer); }
/// The dict that holds the attributes of a type.
inline Ref<> type_dict(PyTypeObject* type) { return Ref<>::share(type->tp_dict); }
/// What a weak reference refers to; null once that is gone.
inline Ref<> target_of(PyObject* weakref) {
  PyObject* target = PyWeakref_GET_OBJECT(weakref);
  return target == Py_None ? Ref<>() : Ref<>::share(target);
}
/// Where the attributes of an instance are: inline values in the order of the type's shared keys, else a dict, else
/// nowhere yet. Borrowed.
struct Attributes {
  PyDictValues* values = nullptr;
  PyObject* dict = nullptr;
};
inline Attributes attributes_of(PyObject* object) {
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)
    if (PyDictValues* values = *_PyObject_ValuesPointer(object)) return {values, nullptr};
  PyObject** at = _PyObject_GetDictPtr(object);  // nothing inline is left to move
  return {nullptr, at ? *at : nullptr};
}
/// Gives a function what functions of later versions have besides.
inline void copy_later_fields(PyFunctionObject*, const PyFunctionObject*) {}
/// Sets the function that makes the annotations (3.14).
inline void set_annotate(PyFunctionObject*, PyObject*) {}
/// Is the one reference to this argument of a C function that of the caller's stack, which drops it?
inline bool is_sole_argument(PyObject* argument) { return Py_REFCNT(argument) == 1; }

}  // namespace framejit::capture::py
