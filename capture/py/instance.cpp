// Looking into instances and types: the layouts of CPython 3.11 to 3.13.
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE
#endif
#include "capture/py/instance.h"

// pycore_atomic.h would use C11 names that C++20 lacks; the compiler's builtins serve as well.
#undef HAVE_STD_ATOMIC
#include "internal/pycore_dict.h"
#include "internal/pycore_object.h"

namespace framejit::capture {

namespace {

// Inline attributes stand in the order of the type's shared keys.
PyObject* inline_attr(PyTypeObject* type, PyDictValues* values, PyObject* name) {
  PyDictKeysObject* keys = reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
  if (!keys || keys->dk_kind != DICT_KEYS_SPLIT) return nullptr;
  const PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    PyObject* key = entries[i].me_key;
    if (key && (key == name || (PyUnicode_CheckExact(key) && PyUnicode_Compare(key, name) == 0)))
      return values->values[i];
  }
  return nullptr;
}

}  // namespace

PyObject* instance_attr(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
#if PY_VERSION_HEX >= 0x030d0000
  if (type->tp_flags & Py_TPFLAGS_INLINE_VALUES) {
    PyDictValues* values = _PyObject_InlineValues(object);
    if (values->valid) return inline_attr(type, values, name);
  }
  PyObject* dict = nullptr;
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    dict = reinterpret_cast<PyObject*>(_PyObject_GetManagedDict(object));
  } else if (PyObject** at = _PyObject_ComputedDictPointer(object)) {
    dict = *at;
  }
#elif PY_VERSION_HEX >= 0x030c0000
  PyObject* dict = nullptr;
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    PyDictOrValues held = *_PyObject_DictOrValuesPointer(object);
    if (_PyDictOrValues_IsValues(held)) return inline_attr(type, _PyDictOrValues_GetValues(held), name);
    dict = _PyDictOrValues_GetDict(held);
  } else if (PyObject** at = _PyObject_ComputedDictPointer(object)) {
    dict = *at;
  }
#else
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    PyDictValues* values = *_PyObject_ValuesPointer(object);
    if (values) return inline_attr(type, values, name);
  }
  PyObject** at = _PyObject_GetDictPtr(object);  // nothing inline is left to move
  PyObject* dict = at ? *at : nullptr;
#endif
  if (!dict || !PyDict_CheckExact(dict)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found && PyErr_Occurred()) PyErr_Clear();
  return found;
}

bool has_instance_dict(PyTypeObject* type) { return type->tp_dictoffset != 0; }

PyObject* type_attr(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

PyObject* type_attr(PyTypeObject* type, const char* name) {
  Ref<> key = Ref<>::steal(PyUnicode_InternFromString(name));
  if (!key) {
    PyErr_Clear();
    return nullptr;
  }
  return _PyType_Lookup(type, key.get());
}

bool is_defaultdict(PyObject* object) {
  static PyTypeObject* const type = [] {
    PyObject* module =
        PyImport_GetModuleDict() ? PyDict_GetItemString(PyImport_GetModuleDict(), "_collections") : nullptr;
    PyObject* found =
        module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "defaultdict") : nullptr;
    return reinterpret_cast<PyTypeObject*>(Py_XNewRef(found));
  }();
  return type && Py_IS_TYPE(object, type);
}

PyObject* descriptor_of_builtin(PyObject* method) {
  if (!Py_IS_TYPE(method, &PyCFunction_Type)) return nullptr;
  PyObject* self = PyCFunction_GET_SELF(method);
  if (!self ||
      !(PyList_CheckExact(self) || PyDict_CheckExact(self) || PyUnicode_CheckExact(self) || PyBytes_CheckExact(self)))
    return nullptr;
  const PyMethodDef* def = reinterpret_cast<PyCFunctionObject*>(method)->m_ml;
  PyObject* raw = type_attr(Py_TYPE(self), def->ml_name);
  const bool own =
      raw && Py_IS_TYPE(raw, &PyMethodDescr_Type) && reinterpret_cast<PyMethodDescrObject*>(raw)->d_method == def;
  return own ? raw : nullptr;
}

}  // namespace framejit::capture
