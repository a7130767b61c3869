// The text and where it goes are the Python package's (framejit/_reporting/_progress.py).
#include "ext/dispatch/progress.h"

#include <cstdint>
#include <utility>

#include "capture/python_names.h"
#include "capture/splice.h"
#include "ext/module/module.h"
#include "graph/support/clock.h"

namespace framejit::ext::dispatch {

using capture::Ref;

namespace {

constexpr int64_t kBetween = 500'000'000;  // ns from one text to the next

int64_t show_after = 1'000'000'000;  // ns

struct Progress {
  const CodeState* state = nullptr;  // null: nothing is compiled
  int64_t start = 0, next = 0;
  bool is_shown = false;
  PyObject* error = nullptr;  // what the handler of a signal raised while a text was written
};
thread_local Progress current;

/// Raises an exception, which it owns, in the main thread's bytecode.
int raise_later(void* error) {
  auto* exception = static_cast<PyObject*>(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  Py_DECREF(exception);
  return -1;
}

/// The current exception as an object, a new reference; null if there is none.
PyObject* take_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type) PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
}

/// Whether there is more to be shown of this compilation.
bool show(bool is_done) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Progress now = std::exchange(current, {});  // the function below may be compiled itself
  const Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kProgress));
  const Ref<> more =
      Ref<>::steal(module ? PyObject_CallMethod(module.get(), "show", "sOiLi", now.state->name().c_str(),
                                                now.state->code()->co_filename, now.state->code()->co_firstlineno,
                                                static_cast<long long>(now_ns() - now.start), static_cast<int>(is_done))
                          : nullptr);
  current = now;
  if (PyObject* error = take_error()) Py_XSETREF(current.error, error);
  PyErr_Restore(type, value, traceback);
  return more.get() == Py_True;
}

PyObject* set_progress_after(PyObject*, PyObject* nanoseconds) {
  const long long given = PyLong_AsLongLong(nanoseconds);
  if (given < 0) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "nanoseconds must not be negative, but got %lld", given);
    return nullptr;
  }
  return PyLong_FromLongLong(std::exchange(show_after, given));
}

PyMethodDef methods[] = {{"set_progress_after", set_progress_after, METH_O,
                          "set_progress_after(nanoseconds): for how long a compilation runs before it is shown, for "
                          "tests.\nGives what it was."},
                         {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

ProgressScope::ProgressScope(const CodeState& state) : is_outermost_(!current.state) {
  if (!is_outermost_) return;
  const int64_t start = now_ns();
  current = {&state, start, start + show_after, false, nullptr};
}

ProgressScope::~ProgressScope() {
  if (!is_outermost_) return;
  if (current.is_shown) show(true);
  PyObject* const error = std::exchange(current, {}).error;
  if (error && Py_AddPendingCall(raise_later, error) < 0) Py_DECREF(error);
}

bool poll_compilation() {
  if (current.error || capture::signal_pending()) return true;
  if (!current.state || current.next < 0 || now_ns() < current.next) return false;
  current.is_shown = show(false);
  current.next = current.is_shown ? now_ns() + kBetween : -1;
  return current.error || capture::signal_pending();
}

}  // namespace framejit::ext::dispatch
