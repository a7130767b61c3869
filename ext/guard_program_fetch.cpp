// How sources are fetched and objects compared without running Python code.
#include <structmember.h>

#include <cstring>

#include "ext/guard_program_impl.h"

// Exported by every supported CPython, declared in a public header by none of the later ones.
extern "C" PyAPI_FUNC(int) _PyObject_GetMethod(PyObject* object, PyObject* name, PyObject** method);

namespace framejit::ext {

using capture::Source;
using capture::SourceKind;

namespace {

/// Does getting this attribute through the descriptor give an object that its holder keeps, and run no code?
bool plain_member(PyObject* descriptor) {
  if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return false;
  const int type = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->type;
  return type == T_OBJECT_EX || type == T_OBJECT;
}

PyObject* generic_attribute(PyObject* base, PyObject* key) {
  PyObject* value = _PyObject_GenericGetAttrWithDict(base, key, nullptr, 1);
  if (!value) {
    if (PyErr_Occurred()) PyErr_Clear();
    return nullptr;
  }
  // Borrowed from here on: the instance, its dict or its type holds it (generic attributes of modules and of plain members
  // included), and nothing runs before it is used.
  if (Py_REFCNT(value) == 1) {
    Py_DECREF(value);
    return nullptr;  // made on the way: nobody holds it
  }
  Py_DECREF(value);
  return value;
}

}  // namespace

PyObject* fetch_attribute(PyObject* base, PyObject* key) {
  if (!base) return nullptr;
  PyTypeObject* type = Py_TYPE(base);
  if (PyType_Check(base)) {
    // An attribute of a class: found on its own MRO and plain. A metaclass that has a say is left alone.
    if (type != &PyType_Type) return nullptr;
    PyObject* value = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), key);
    if (!value) return nullptr;
    if (Py_TYPE(value)->tp_descr_get && !PyFunction_Check(value)) return nullptr;
    return value;
  }
  if (type->tp_getattro != PyObject_GenericGetAttr) {
    if (!PyModule_CheckExact(base)) return nullptr;
    PyObject* dict = PyModule_GetDict(base);
    return dict ? fetch_item(dict, key) : nullptr;
  }
  PyObject* found = _PyType_Lookup(type, key);
  if (found) {
    if (Py_TYPE(found)->tp_descr_set) return plain_member(found) ? generic_attribute(base, key) : nullptr;
    // Functions and other descriptors would give a new object unless the instance shadows them; the instance dict decides.
    if (Py_TYPE(found)->tp_descr_get) {
      if (!PyFunction_Check(found)) return nullptr;
      PyObject* value = nullptr;
      const int unbound = _PyObject_GetMethod(base, key, &value);
      if (!value) {
        PyErr_Clear();
        return nullptr;
      }
      Py_DECREF(value);
      return unbound ? nullptr : value;
    }
  }
  return generic_attribute(base, key);
}

PyObject* fetch_item(PyObject* dict, PyObject* key) {
  if (!dict || !PyDict_CheckExact(dict)) {
    // Module dicts and the like are exact too; a subclass may define __missing__.
    return nullptr;
  }
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* fetch_index(PyObject* sequence, int64_t index) {
  if (!sequence || index < 0) return nullptr;
  if (PyTuple_CheckExact(sequence))
    return index < PyTuple_GET_SIZE(sequence) ? PyTuple_GET_ITEM(sequence, index) : nullptr;
  if (PyList_CheckExact(sequence)) return index < PyList_GET_SIZE(sequence) ? PyList_GET_ITEM(sequence, index) : nullptr;
  return nullptr;
}

PyObject* fetch_closure(PyObject* function, int64_t index) {
  if (!function || !PyFunction_Check(function)) return nullptr;
  return fetch_index(PyFunction_GET_CLOSURE(function), index);
}

PyObject* fetch_default(PyObject* function, int64_t index) {
  if (!function || !PyFunction_Check(function)) return nullptr;
  return fetch_index(PyFunction_GET_DEFAULTS(function), index);
}

PyObject* fetch_keyword_default(PyObject* function, PyObject* key) {
  if (!function || !PyFunction_Check(function)) return nullptr;
  return fetch_item(PyFunction_GET_KW_DEFAULTS(function), key);
}

PyObject* fetch_source(const Source& source, const LiveSlots& live) {
  PyObject* base = source.base ? fetch_source(*source.base, live) : nullptr;
  if (source.base && !base) return nullptr;
  switch (source.kind) {
    case SourceKind::Local: return source.index < live.local_count ? live.locals[source.index] : nullptr;
    case SourceKind::Stack: return source.index < live.depth ? live.stack[source.index] : nullptr;
    case SourceKind::Constant: return source.object.get();
    case SourceKind::Global:
    case SourceKind::Builtin: return fetch_item(source.object.get(), source.key.get());
    case SourceKind::Cell: return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case SourceKind::Closure: return fetch_closure(source.base ? base : live.function, source.index);
    case SourceKind::Attr: return fetch_attribute(base, source.key.get());
    case SourceKind::Item:
      return source.key ? fetch_item(base, source.key.get()) : fetch_index(base, source.index);
    case SourceKind::Default: {
      PyObject* function = source.base ? base : live.function;
      return source.key ? fetch_keyword_default(function, source.key.get()) : fetch_default(function, source.index);
    }
    case SourceKind::Self: return PyMethod_Check(base) ? PyMethod_GET_SELF(base) : nullptr;
    case SourceKind::Method: return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : nullptr;
  }
  return nullptr;
}

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a)) {
    const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
  }
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof(x)) == 0;
  }
  if (PyComplex_CheckExact(a))
    return std::memcmp(&reinterpret_cast<PyComplexObject*>(a)->cval, &reinterpret_cast<PyComplexObject*>(b)->cval,
                       sizeof(Py_complex)) == 0;
  if (PyTuple_CheckExact(a)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
      if (!same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    return true;
  }
  return false;
}

bool lacks_attribute(PyObject* object, PyObject* key) {
  if (PyDict_CheckExact(object)) return fetch_item(object, key) == nullptr;
  if (PyModule_CheckExact(object)) return fetch_item(PyModule_GetDict(object), key) == nullptr;
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_dictoffset == 0 && !(type->tp_flags & (1UL << 4))) return true;  // 1 << 4: managed dict
  PyObject* found = _PyType_Lookup(type, key);
  if (found && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR) &&
      type->tp_getattro == PyObject_GenericGetAttr) {
    // Looks into inline values without making a dict of them.
    PyObject* value = nullptr;
    const int unbound = _PyObject_GetMethod(object, key, &value);
    if (!value) PyErr_Clear();
    Py_XDECREF(value);
    return unbound == 1;
  }
  if (!found && type->tp_getattro == PyObject_GenericGetAttr) {
    PyObject* value = _PyObject_GenericGetAttrWithDict(object, key, nullptr, 1);
    if (!value && PyErr_Occurred()) PyErr_Clear();
    Py_XDECREF(value);
    return value == nullptr;
  }
  PyObject** dict = _PyObject_GetDictPtr(object);
  return !dict || !*dict || fetch_item(*dict, key) == nullptr;
}

void memory_bounds(PyArrayObject* array, uintptr_t& low, uintptr_t& high) {
  const auto* a = reinterpret_cast<PyArrayObject_fields*>(array);
  low = high = reinterpret_cast<uintptr_t>(a->data);
  for (int i = 0; i < a->nd; ++i) {
    if (a->dimensions[i] == 0) {
      high = low;
      return;
    }
    const int64_t reach = (a->dimensions[i] - 1) * a->strides[i];
    if (reach < 0) low += static_cast<uintptr_t>(reach);
    else high += static_cast<uintptr_t>(reach);
  }
  high += static_cast<uintptr_t>(PyArray_ITEMSIZE(array));
}

}  // namespace framejit::ext
