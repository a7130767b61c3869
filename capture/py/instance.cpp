// Looking into instances and types.
#include "capture/py/cpython/objects.h"

#include "capture/py/instance.h"

#include <utility>

namespace framejit::capture {

namespace {

// Inline attributes stand in the order of the type's shared keys.
PyObject* inline_attr(PyTypeObject* type, PyDictValues* values, PyObject* name, Py_ssize_t& position) {
  PyDictKeysObject* keys = reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
  if (!keys || keys->dk_kind != DICT_KEYS_SPLIT) return nullptr;
  const PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  if (position < keys->dk_nentries && entries[position].me_key == name) return values->values[position];
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    PyObject* key = entries[i].me_key;
    if (key && (key == name || (PyUnicode_CheckExact(key) && PyUnicode_Compare(key, name) == 0))) {
      position = i;
      return values->values[i];
    }
  }
  return nullptr;
}

}  // namespace

PyObject* instance_attr(PyObject* object, PyObject* name) {
  Py_ssize_t position = 0;
  return instance_attr(object, name, position);
}

PyObject* instance_attr(PyObject* object, PyObject* name, Py_ssize_t& position) {
  const py::Attributes held = py::attributes_of(object);
  if (held.values) return inline_attr(Py_TYPE(object), held.values, name, position);
  PyObject* dict = held.dict;
  if (!dict || !PyDict_Check(dict)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found && PyErr_Occurred()) PyErr_Clear();
  return found;
}

bool has_own_dict(PyObject* object) {
  PyObject* dict = py::attributes_of(object).dict;
  return !dict || Py_REFCNT(dict) == 1;
}

PyObject* text_of_function(PyObject* function, PyObject* name) {
  const auto* held = reinterpret_cast<PyFunctionObject*>(function);
  for (const auto& [known, text] : {std::pair("__doc__", held->func_doc), std::pair("__module__", held->func_module)})
    if (PyUnicode_CompareWithASCIIString(name, known) == 0) return text ? text : Py_None;
  return nullptr;
}

bool has_instance_dict(PyTypeObject* type) { return type->tp_dictoffset != 0; }

Ref<> type_dict(PyTypeObject* type) { return py::type_dict(type); }

PyObject* own_attr(PyTypeObject* type, PyObject* name) {
  const Ref<> dict = py::type_dict(type);
  PyObject* found = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
  if (!found && PyErr_Occurred()) PyErr_Clear();
  return found;  // the type holds it
}

bool has_odd_names(PyTypeObject* type) {
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
    const Ref<> dict = py::type_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)));
    if (dict && reinterpret_cast<PyDictObject*>(dict.get())->ma_keys->dk_kind == DICT_KEYS_GENERAL) return true;
  }
  return false;
}

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
