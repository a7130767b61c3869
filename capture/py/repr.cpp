// Printing and comparing exact builtin objects without running user code.
#include "capture/py/repr.h"

#include <cmath>
#include <cstring>

#include "capture/py/instance.h"
#include "capture/py/interpreter.h"

namespace framejit::capture {

namespace {

std::string utf8(PyObject* str) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(str, &size);
  if (data) return std::string(data, static_cast<std::size_t>(size));
  PyErr_Clear();  // lone surrogates
  Ref<> bytes = Ref<>::steal(PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace"));
  if (!bytes) {
    PyErr_Clear();
    return "?";
  }
  return PyBytes_AS_STRING(bytes.get());
}

constexpr std::size_t kReprLimit = 60;

/// The name of a callable of C, such as a ufunc or a function of Cython; empty if it has none, or if code of Python
/// gives it.
std::string name_in_c(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  PyObject* const found = type_attr(type, "__name__");
  if (!found || (!Py_IS_TYPE(found, &PyGetSetDescr_Type) && !Py_IS_TYPE(found, &PyMemberDescr_Type))) return {};
  const Ref<> name = Ref<>::steal(Py_TYPE(found)->tp_descr_get(found, object, reinterpret_cast<PyObject*>(type)));
  if (name && PyUnicode_CheckExact(name.get())) return utf8(name.get());
  PyErr_Clear();
  return {};
}

}  // namespace

std::string text_of(PyObject* object) {
  return object && PyUnicode_CheckExact(object) ? utf8(object) : short_repr(object);
}

std::string short_repr(PyObject* object) {
  if (!object) return "<nothing>";
  if (is_plain(object)) {
    // A long int costs quadratic time and may hit the digit limit.
    if (PyLong_CheckExact(object) && _PyLong_NumBits(object) > 256) return "<long int>";
    Ref<> repr = Ref<>::steal(PyObject_Repr(object));
    if (repr) {
      std::string text = utf8(repr.get());
      return text.size() <= kReprLimit ? text : text.substr(0, kReprLimit - 3) + "...";
    }
    PyErr_Clear();
  }
  if (PyFunction_Check(object)) return utf8(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  if (PyCFunction_Check(object)) {
    PyObject* module = reinterpret_cast<PyCFunctionObject*>(object)->m_module;
    PyObject* self = reinterpret_cast<PyCFunctionObject*>(object)->m_self;
    const char* name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
    if (!module && self && !PyModule_Check(self) && !PyType_Check(self))
      return std::string(Py_TYPE(self)->tp_name) + "." + name;
    if (module && PyUnicode_CheckExact(module) && utf8(module) != "builtins") return utf8(module) + "." + name;
    return name;
  }
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name) return name;
    PyErr_Clear();
  }
  const std::string name = name_in_c(object);
  return std::string("<") + Py_TYPE(object)->tp_name + " " + (name.empty() ? "object" : "'" + name + "'") + ">";
}

namespace {

/// Looks into tuples and frozensets, as far as can be done in little time on little stack: what is deeper, or holds
/// more, is taken for something else.
class PlainTest {
 public:
  explicit PlainTest(bool with_classes) : with_classes_(with_classes) {}

  bool holds(PyObject* o) {
    if (o == Py_None || o == Py_Ellipsis || o == Py_NotImplemented || PyBool_Check(o)) return true;
    if (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) || PyUnicode_CheckExact(o) ||
        PyBytes_CheckExact(o))
      return true;
    if (with_classes_ && Py_IS_TYPE(o, &PyType_Type)) return true;
    const bool tuple = PyTuple_CheckExact(o);
    if (!tuple && !PyFrozenSet_CheckExact(o)) return false;
    if (depth_ == kDeepest) return false;
    ++depth_;
    const bool all = tuple ? holds_items(o) : holds_elements(o);
    --depth_;
    return all;
  }

 private:
  static constexpr int kDeepest = 100, kMost = 100000;

  bool holds_items(PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
      if (++seen_ > kMost || !holds(PyTuple_GET_ITEM(tuple, i))) return false;
    return true;
  }
  bool holds_elements(PyObject* set) {
    PyObject* item;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &at, &item, &hash))
      if (++seen_ > kMost || !holds(item)) return false;
    return true;
  }

  bool with_classes_;
  int depth_ = 0, seen_ = 0;
};

}  // namespace

bool is_plain(PyObject* o) { return PlainTest(false).holds(o); }

bool is_plain_key(PyObject* o) { return PlainTest(true).holds(o); }

bool is_union(PyObject* object) {
  static PyTypeObject* const type = [] {
    Ref<> made = Ref<>::steal(
        PyNumber_Or(reinterpret_cast<PyObject*>(&PyLong_Type), reinterpret_cast<PyObject*>(&PyFloat_Type)));
    if (!made) PyErr_Clear();
    return made ? Py_TYPE(made.get()) : nullptr;
  }();
  return type && Py_IS_TYPE(object, type);
}

bool same_plain(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyComplex_CheckExact(a)) {
    Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyTuple_CheckExact(a)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
      if (!same_plain(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    return true;
  }
  if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a)) {
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
  }
  return false;
}

bool has_nan(PyObject* o) {
  if (PyFloat_CheckExact(o)) return std::isnan(PyFloat_AS_DOUBLE(o));
  if (PyComplex_CheckExact(o)) return true;
  for (Py_ssize_t i = 0; PyTuple_CheckExact(o) && i < PyTuple_GET_SIZE(o); ++i)
    if (has_nan(PyTuple_GET_ITEM(o, i))) return true;
  return false;
}

bool has_long_int(PyObject* o) {
  constexpr std::size_t kAlwaysPrinted = 2048;  // bits; the limit cannot be set below 640 digits
  if (PyLong_CheckExact(o)) return static_cast<std::size_t>(_PyLong_NumBits(o)) > kAlwaysPrinted;
  if (PyFrozenSet_CheckExact(o)) return true;  // not looked into
  if (!PyTuple_CheckExact(o)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
    if (has_long_int(PyTuple_GET_ITEM(o, i))) return true;
  return false;
}

bool same_key(PyObject* a, PyObject* b) { return a == b || (a && b && is_plain(a) && same_plain(a, b)); }

std::size_t key_hash(PyObject* key) {
  const bool told = key && (PyUnicode_CheckExact(key) || PyLong_CheckExact(key));
  return told ? static_cast<std::size_t>(PyObject_Hash(key)) : 0;
}

}  // namespace framejit::capture
