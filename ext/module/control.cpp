// _core.set_stance(name), _core.disable_code(code), _core.enable_code(code), _core.mark_dynamic(array, dim).
#include "ext/module/control.h"

#include <cstring>
#include <unordered_map>

#include "ext/module/module.h"

namespace framejit::ext::module {

using capture::Ref;

namespace {

constexpr const char* kStances[] = {"default", "force_eager", "fail_on_recompile"};

/// How often a code object is disabled; it is kept alive as long as it is.
std::unordered_map<PyCodeObject*, int>& disabled() {
  static std::unordered_map<PyCodeObject*, int> map;
  return map;
}

/// Marked dimensions by the array's address, a bit each; the Python side forgets an array that dies.
std::unordered_map<void*, uint64_t>& dynamic_dims() {
  static std::unordered_map<void*, uint64_t> map;
  return map;
}

PyObject* set_stance(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  for (unsigned i = 0; i < std::size(kStances); ++i) {
    if (std::strcmp(kStances[i], text) != 0) continue;
    PyObject* previous = PyUnicode_FromString(kStances[static_cast<unsigned>(stance)]);
    if (previous) stance = static_cast<Stance>(i);
    return previous;
  }
  return PyErr_Format(PyExc_ValueError,
                      "there is no stance '%s': it is 'default', 'force_eager' or 'fail_on_recompile'", text);
}

PyObject* disable_code(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "disable_code() takes a code object");
  if (disabled()[reinterpret_cast<PyCodeObject*>(code)]++ == 0) {
    Py_INCREF(code);
    ++disabled_epoch;
  }
  Py_RETURN_NONE;
}

PyObject* enable_code(PyObject*, PyObject* code) {
  const auto at = disabled().find(reinterpret_cast<PyCodeObject*>(code));
  if (at != disabled().end() && --at->second == 0) {
    disabled().erase(at);
    ++disabled_epoch;
    Py_DECREF(code);
  }
  Py_RETURN_NONE;
}

PyObject* mark_dynamic(PyObject*, PyObject* args) {
  PyObject* array;
  int dim;
  if (!PyArg_ParseTuple(args, "Oi:mark_dynamic", &array, &dim)) return nullptr;
  dynamic_dims()[array] |= uint64_t{1} << (dim & 63);
  Py_RETURN_NONE;
}

PyObject* forget_dynamic(PyObject*, PyObject* address) {
  void* at = PyLong_AsVoidPtr(address);
  if (!at && PyErr_Occurred()) return nullptr;
  dynamic_dims().erase(at);
  Py_RETURN_NONE;
}

/// What set_polyfills() was given; lives as long as the process.
PyObject* polyfills = nullptr;

PyObject* set_polyfills(PyObject*, PyObject* table) {
  if (!PyDict_CheckExact(table)) return PyErr_Format(PyExc_TypeError, "set_polyfills() takes a dict");
  Py_XSETREF(polyfills, Py_NewRef(table));
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_polyfills", set_polyfills, METH_O,
     "set_polyfills(dict): Python functions that capture follows instead of C functions and types."},
    {"set_stance", set_stance, METH_O,
     "set_stance('default' | 'force_eager' | 'fail_on_recompile') -> the one before, for the whole process."},
    {"disable_code", disable_code, METH_O, "disable_code(code): it is neither compiled nor inlined; calls nest."},
    {"enable_code", enable_code, METH_O, "enable_code(code): takes one disable_code() back."},
    {"mark_dynamic", mark_dynamic, METH_VARARGS,
     "mark_dynamic(array, dim): captures that meet it take it as symbolic."},
    {"forget_dynamic", forget_dynamic, METH_O, "forget_dynamic(id): takes the marks of a dead array back."},
    {nullptr, nullptr, 0, nullptr}};

const ModulePart part(10, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

PyObject* polyfill_of(PyObject* callable) {
  // Nothing of the program's is asked for its hash.
  const PyTypeObject* type = Py_TYPE(callable);
  const bool is_plain = !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_hash == PyBaseObject_Type.tp_hash ||
                        type->tp_hash == PyType_Type.tp_hash;
  PyObject* found = polyfills && is_plain ? PyDict_GetItemWithError(polyfills, callable) : nullptr;
  if (!found) PyErr_Clear();
  return found;
}

bool is_disabled(PyCodeObject* code) { return !disabled().empty() && disabled().count(code) != 0; }

bool is_dynamic(PyObject* array, int dim) {
  if (dynamic_dims().empty()) return false;
  const auto at = dynamic_dims().find(array);
  return at != dynamic_dims().end() && (at->second >> (dim & 63) & 1);
}

}  // namespace framejit::ext::module
