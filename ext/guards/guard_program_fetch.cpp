// How sources are fetched and objects compared without running Python code.
#include <Python.h>

#include <structmember.h>

#include <cstring>

#include "capture/py/instance.h"
#include "capture/py/layouts.h"
#include "capture/py/lru_cache.h"
#include "ext/guards/guard_program_impl.h"

// Exported by every supported CPython, declared in a public header by none of the later ones.
extern "C" PyAPI_FUNC(int) _PyObject_GetMethod(PyObject* object, PyObject* name, PyObject** method);

namespace framejit::ext::guards {

using capture::Source;
using capture::SourceKind;

namespace {

constexpr unsigned long kManagedDict = 1UL << 4;  // Py_TPFLAGS_MANAGED_DICT, which 3.11 does not name in public

/// Does getting this attribute through the descriptor give an object that its holder keeps, and run no code?
bool plain_member(PyObject* descriptor) {
  if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return false;
  const int type = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->type;
  return type == T_OBJECT_EX || type == T_OBJECT;
}

/// Generic lookup where the type has nothing by that name or a plain object: gives the instance's own value, else the
/// type's.
PyObject* generic_attribute(PyObject* base, PyObject* key) {
  PyObject* value = _PyObject_GenericGetAttrWithDict(base, key, nullptr, 1);
  if (!value) {
    if (PyErr_Occurred()) PyErr_Clear();
    return nullptr;
  }
  // Borrowed from here on: the instance, its dict or its type holds it, and nothing runs before it is used.
  const bool held = Py_REFCNT(value) > 1;
  Py_DECREF(value);
  return held ? value : nullptr;
}

/// The value under `key` in the instance dict; `found` is what the type has by that name. Looks into inline values
/// without making a dict of them wherever the C API can.
PyObject* instance_value(PyObject* object, PyObject* key, PyObject* found) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_dictoffset == 0 && !(type->tp_flags & kManagedDict)) return nullptr;
  if (!found) return generic_attribute(object, key);
  if (!Py_TYPE(found)->tp_descr_get && !Py_TYPE(found)->tp_descr_set) {
    PyObject* value = generic_attribute(object, key);
    return value == found ? nullptr : value;
  }
  if (PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR) && type->tp_getattro == PyObject_GenericGetAttr) {
    PyObject* value = nullptr;
    const int unbound = _PyObject_GetMethod(object, key, &value);
    if (!value) {
      PyErr_Clear();
      return nullptr;
    }
    const bool held = Py_REFCNT(value) > 1;
    Py_DECREF(value);
    return unbound || !held ? nullptr : value;
  }
  return capture::instance_attr(object, key);
}

/// What `type` says of a class under these two names: it holds them beside its dict.
PyObject* name_of_class(PyTypeObject* type, PyObject* key) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return nullptr;
  auto* held = reinterpret_cast<PyHeapTypeObject*>(type);
  if (PyUnicode_CompareWithASCIIString(key, "__name__") == 0) return held->ht_name;
  return PyUnicode_CompareWithASCIIString(key, "__qualname__") == 0 ? held->ht_qualname : nullptr;
}

}  // namespace

PyObject* fetch_attribute(PyObject* base, PyObject* key) {
  if (!base) return nullptr;
  if (PyType_Check(base)) {
    PyObject* found = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), key);
    return found ? found : name_of_class(reinterpret_cast<PyTypeObject*>(base), key);
  }
  if (PyFunction_Check(base))
    if (PyObject* text = capture::text_of_function(base, key)) return text;
  PyObject* found = _PyType_Lookup(Py_TYPE(base), key);
  if (found && plain_member(found)) return generic_attribute(base, key);
  if (found && Py_TYPE(found)->tp_descr_set) return found;
  PyObject* value = instance_value(base, key, found);
  return value ? value : found;
}

namespace {

/// Notes what the type of `base` has under `key`, where attributes of the instance come first.
void note(PyObject* base, PyObject* key, KnownAttribute& known) {
  PyTypeObject* type = Py_TYPE(base);
  known.type = nullptr;
  if (PyType_Check(base) || PyFunction_Check(base)) return;
  PyObject* found = _PyType_Lookup(type, key);
  if (type->tp_version_tag == 0 || (found && Py_TYPE(found)->tp_descr_set)) return;
  known.type = type;
  known.version = type->tp_version_tag;
  known.of_type = found;
}

}  // namespace

PyObject* fetch_attribute(PyObject* base, PyObject* key, KnownAttribute& known) {
  if (!base) return nullptr;
  PyTypeObject* type = Py_TYPE(base);
  if (type != known.type || type->tp_version_tag != known.version) [[unlikely]] {
    note(base, key, known);
    return fetch_attribute(base, key);
  }
  PyObject* value = capture::instance_attr(base, key, known.position);
  return value ? value : known.of_type;
}

PyObject* fetch_item(PyObject* dict, PyObject* key) {
  // Module dicts and the like are exact; a subclass may define __missing__.
  if (!dict || !capture::is_known_dict(dict)) return nullptr;
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* fetch_index(PyObject* sequence, int64_t index) {
  if (!sequence || index < 0) return nullptr;
  if (PyTuple_Check(sequence)) return index < PyTuple_GET_SIZE(sequence) ? PyTuple_GET_ITEM(sequence, index) : nullptr;
  if (PyList_CheckExact(sequence))
    return index < PyList_GET_SIZE(sequence) ? PyList_GET_ITEM(sequence, index) : nullptr;
  return nullptr;
}

PyObject* fetch_self(PyObject* method) {
  if (!method) return nullptr;
  if (PyMethod_Check(method)) return PyMethod_GET_SELF(method);
  if (PyObject* from = capture::py::taken_from(method)) return from;
  return Py_IS_TYPE(method, &PyCFunction_Type) ? PyCFunction_GET_SELF(method) : nullptr;
}

PyObject* fetch_method(PyObject* method) {
  if (!method) return nullptr;
  return PyMethod_Check(method) ? PyMethod_GET_FUNCTION(method) : capture::descriptor_of_builtin(method);
}

PyObject* fetch_closure(PyObject* function, int64_t index) {
  if (!function || !PyFunction_Check(function)) return nullptr;
  return fetch_index(PyFunction_GET_CLOSURE(function), index);
}

PyObject* fetch_default(PyObject* function, int64_t index) {
  if (!function || !PyFunction_Check(function)) return nullptr;
  if (index < 0) {
    PyObject* all = PyFunction_GET_DEFAULTS(function);
    return all ? all : Py_None;
  }
  return fetch_index(PyFunction_GET_DEFAULTS(function), index);
}

PyObject* fetch_keyword_default(PyObject* function, PyObject* key) {
  if (!function || !PyFunction_Check(function)) return nullptr;
  return fetch_item(PyFunction_GET_KW_DEFAULTS(function), key);
}

PyObject* fetch_cached(PyObject* cache, const Source& source) {
  const capture::Ref<> key = capture::lru_key(source.parts);
  return key ? capture::lru_result(cache, key.get()) : nullptr;
}

PyObject* fetch_source(const Source& source, const LiveSlots& live) {
  PyObject* base = source.base ? fetch_source(*source.base, live) : nullptr;
  if (source.base && !base) return nullptr;
  switch (source.kind) {
    case SourceKind::Local: return source.index < live.local_count ? live.locals[source.index] : nullptr;
    case SourceKind::Stack: return source.index < live.depth ? live.stack[source.index] : nullptr;
    case SourceKind::Word: return source.index < live.depth ? live.stack.word(source.index) : nullptr;
    case SourceKind::Constant: return source.object.get();
    case SourceKind::Global:
    case SourceKind::Builtin: return fetch_item(source.object.get(), source.key.get());
    case SourceKind::Cell: return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case SourceKind::Closure: return fetch_closure(source.base ? base : live.function, source.index);
    case SourceKind::Attr: return fetch_attribute(base, source.key.get());
    case SourceKind::Item: return source.key ? fetch_item(base, source.key.get()) : fetch_index(base, source.index);
    case SourceKind::Default: {
      PyObject* function = source.base ? base : live.function;
      return source.key ? fetch_keyword_default(function, source.key.get()) : fetch_default(function, source.index);
    }
    case SourceKind::Self: return fetch_self(base);
    case SourceKind::Method: return fetch_method(base);
    case SourceKind::Cached: return fetch_cached(base, source);
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

bool lacks_attribute(PyObject* object, PyObject* key, bool in_dict) {
  if (in_dict) return capture::is_known_dict(object) && fetch_item(object, key) == nullptr;
  return instance_value(object, key, _PyType_Lookup(Py_TYPE(object), key)) == nullptr;
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

}  // namespace framejit::ext::guards
