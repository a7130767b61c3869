// A filter that asks which thread warns, and a function in whose frame calls are made.
#include "capture/warnings.h"

#include <frameobject.h>

#include <exception>
#include <string_view>
#include <utility>

#include "capture/python_names.h"

namespace framejit::capture {

namespace {

thread_local int raising = 0;  // calls that run

/// Imports the module, unless it has been. Importing what is there already takes much longer than looking it up.
Ref<> module_named(const char* name) {
  const Ref<> key = Ref<>::steal(PyUnicode_FromString(name));
  Ref<> found = key ? Ref<>::steal(PyImport_GetModule(key.get())) : Ref<>();
  return found || PyErr_Occurred() ? std::move(found) : Ref<>::steal(PyImport_ImportModule(name));
}

struct Call {
  const std::function<Ref<>()>& function;
  std::exception_ptr thrown;
};
thread_local Call* next_call = nullptr;

/// Filters ask a pattern whether it matches the text.
PyObject* match(PyObject*, PyObject*) { return PyBool_FromLong(raising); }

/// What C++ throws does not pass through frames of Python.
PyObject* run(PyObject*, PyObject*) {
  if (!next_call) return PyErr_SetNone(PyExc_RuntimeError), nullptr;
  Call& call = *std::exchange(next_call, nullptr);
  try {
    return call.function().release();
  } catch (...) {
    call.thrown = std::current_exception();
    return PyErr_NoMemory();
  }
}

PyObject* filter() {
  static constinit Once once;
  return once.get([]() -> PyObject* {
    static PyMethodDef of_this_thread = {"match", match, METH_O, nullptr};
    const Ref<> method = Ref<>::steal(PyCFunction_New(&of_this_thread, nullptr));
    const Ref<> types = module_named("types");
    const Ref<> pattern = Ref<>::steal(types ? PyObject_CallMethod(types.get(), "SimpleNamespace", nullptr) : nullptr);
    if (!method || !pattern || PyObject_SetAttrString(pattern.get(), "match", method.get()) < 0) return nullptr;
    return Py_BuildValue("(sOOOi)", "error", pattern.get(), PyExc_Warning, Py_None, 0);
  });
}

/// A function of Python, with globals of its own, that runs `next_call`.
PyObject* caller() {
  static constinit Once once;
  return once.get([]() -> PyObject* {
    static PyMethodDef runs = {"run", run, METH_NOARGS, nullptr};
    const Ref<> method = Ref<>::steal(PyCFunction_New(&runs, nullptr));
    const Ref<> globals = Ref<>::steal(
        Py_BuildValue("{sssssO}", "__name__", "framejit._core", "__file__", "framejit", "run", method.get()));
    const Ref<> module = module_named(python_names::kLibraryFunctions);
    const Ref<> call = Ref<>::steal(module ? PyObject_GetAttrString(module.get(), "call_run") : nullptr);
    if (!method || !globals || !call || !PyFunction_Check(call.get())) return nullptr;
    return PyFunction_New(PyFunction_GET_CODE(call.get()), globals.get());
  });
}

/// The filter at the head of those that count now.
class Raising {
 public:
  explicit Raising(PyObject* row) : row_(row) {
    static constinit Once once;
    PyObject* warnings = once.get([] { return module_named("warnings").release(); });
    static PyObject* const name = PyUnicode_InternFromString("filters");
    filters_ = Ref<>::steal(warnings && name ? PyObject_GetAttr(warnings, name) : nullptr);
    if (!filters_ || !PyList_Check(filters_.get()) || PyList_Insert(filters_.get(), 0, row_) < 0) filters_ = {};
    PyErr_Clear();
    ++raising;
  }
  ~Raising() {
    --raising;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (Py_ssize_t i = 0; filters_ && i < PyList_GET_SIZE(filters_.get()); ++i)
      if (PyList_GET_ITEM(filters_.get(), i) == row_) {
        PySequence_DelItem(filters_.get(), i);
        break;
      }
    PyErr_Restore(type, value, traceback);
  }
  Raising(const Raising&) = delete;
  Raising& operator=(const Raising&) = delete;

 private:
  Ref<> filters_;
  PyObject* row_;
};

struct Raised {
  PyObject *type, *value, *traceback;
};

/// Is it a library's whose functions are called, the standard library's, or ours?
bool is_of_library(PyObject* globals) {
  PyObject* const name = PyDict_GetItemString(globals, "__name__");
  const char* const utf8 = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!utf8) return PyErr_Clear(), false;
  std::string_view home(utf8);
  home = home.substr(0, home.find('.'));
  for (const char* own : {"numpy", "scipy", "framejit"})
    if (home == own) return true;
  PyObject* const standard = PySys_GetObject("stdlib_module_names");
  const Ref<> key = Ref<>::steal(PyUnicode_FromStringAndSize(home.data(), static_cast<Py_ssize_t>(home.size())));
  const bool is_standard = standard && key && PySequence_Contains(standard, key.get()) == 1;
  return PyErr_Clear(), is_standard;
}

/// Has the exception come through a function that the call cannot have called: a signal's handler?
bool passed_other_code(PyObject* traceback) {
  if (!traceback) return false;
  for (auto* at = reinterpret_cast<PyTracebackObject*>(traceback); at; at = at->tb_next) {
    const Ref<> globals = Ref<>::steal(PyFrame_GetGlobals(at->tb_frame));
    if (!globals || !is_of_library(globals.get())) return true;
  }
  return false;
}

}  // namespace

bool is_own_filter(PyObject* object) { return object == filter(); }

Ref<> call_with_warnings_raised(const std::function<Ref<>()>& call) {
  PyObject* const row = filter();
  PyObject* const function = row ? caller() : nullptr;
  if (!function) return {};
  const Raising until_the_end(row);
  Call made{call, {}};
  Call* const outer = std::exchange(next_call, &made);
  Ref<> result = Ref<>::steal(PyObject_CallNoArgs(function));
  next_call = outer;
  if (made.thrown) {
    PyErr_Clear();
    std::rethrow_exception(made.thrown);
  }
  return result;
}

void clear_error_of_call(PyObject* other) {
  if (!PyErr_Occurred()) return;
  auto* raised = new Raised;
  PyErr_Fetch(&raised->type, &raised->value, &raised->traceback);
  if (!passed_other_code(raised->traceback))
    for (PyObject* own : {PyExc_ValueError, PyExc_TypeError, PyExc_LookupError, PyExc_ArithmeticError,
                          PyExc_MemoryError, PyExc_RuntimeError, PyExc_Warning, PyExc_AttributeError, PyExc_NameError,
                          PyExc_AssertionError, PyExc_BufferError, PyExc_SystemError, other})
      if (own && PyErr_GivenExceptionMatches(raised->type, own)) {
        Py_DECREF(raised->type);
        Py_XDECREF(raised->value);
        Py_XDECREF(raised->traceback);
        delete raised;
        return;
      }
  Py_AddPendingCall(
      [](void* memory) {
        auto* all = static_cast<Raised*>(memory);
        PyErr_Restore(all->type, all->value, all->traceback);
        delete all;
        return -1;
      },
      raised);
}

}  // namespace framejit::capture
