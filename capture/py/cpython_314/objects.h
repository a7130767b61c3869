// CPython 3.14: what is read of objects and asked of the interpreter in another way than later.
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
  Py_XSETREF(to->func_annotate, Py_XNewRef(from->func_annotate));
  to->func_version = reinterpret_cast<PyCodeObject*>(to->func_code)->co_version;  // or calls stay slow
}
/// Does setting that function name it after its own? Later patch levels do so, where the compiler has not.
inline const bool kNamesAnnotate = [] {
  const Ref<> globals = Ref<>::steal(PyDict_New());
  const char* source =
      "def f(x: int): pass\n"
      "named = f.__annotate__.__qualname__ != f.__annotate__.__code__.co_qualname\n";
  const Ref<> ran = Ref<>::steal(globals ? PyRun_String(source, Py_file_input, globals.get(), globals.get()) : nullptr);
  if (!ran) PyErr_Clear();
  return ran && PyDict_GetItemString(globals.get(), "named") == Py_True;
}();
/// Sets the function that makes the annotations (3.14).
inline void set_annotate(PyFunctionObject* function, PyObject* annotate) {
  Ref<> name = kNamesAnnotate && PyFunction_Check(annotate)
                   ? Ref<>::steal(PyUnicode_FromFormat("%U.__annotate__", function->func_qualname))
                   : Ref<>();
  if (name) Py_SETREF(reinterpret_cast<PyFunctionObject*>(annotate)->func_qualname, name.release());
  else PyErr_Clear();
  Py_XSETREF(function->func_annotate, Py_NewRef(annotate));
}
/// Is the one reference to this argument of a C function that of the caller's stack, which drops it? A count of one may
/// be that of a local, from which the stack borrows.
inline bool is_sole_argument(PyObject* argument) {
  return PyUnstable_Object_IsUniqueReferencedTemporary(argument) != 0;
}

}  // namespace framejit::capture::py
