// cProfile from 3.12 on: a tool of sys.monitoring, whose callbacks are methods of the profiler.
#pragma once

#include "capture/py/frame.h"

namespace framejit::capture::py {

namespace {

constexpr int kProfiler = PY_MONITORING_PROFILER_ID;

PyObject* on_event(PyObject* callback, PyObject* const* arguments, Py_ssize_t count);
PyMethodDef event_method = {"on_event", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(on_event)),
                            METH_FASTCALL, nullptr};

bool is_ours(PyObject* callback) {
  return PyCFunction_CheckExact(callback) && reinterpret_cast<PyCFunctionObject*>(callback)->m_ml == &event_method;
}

/// Is the callback a method of cProfile's, or ours in front of one?
bool is_callback(PyObject* callback) {
  if (!callback || !PyCFunction_Check(callback)) return false;
  PyObject* self = PyCFunction_GET_SELF(callback);
  return self && (is_ours(callback) ? is_callback(self) : is_profiler(self));
}

bool may_have_cprofile(PyThreadState* tstate) { return tstate->interp->monitoring_tool_names[kProfiler] != nullptr; }
bool has_cprofile(PyThreadState* tstate) {
  return may_have_cprofile(tstate) && !tstate->tracing &&
         is_callback(tstate->interp->monitoring_callables[kProfiler][PY_MONITORING_EVENT_PY_START]);
}

/// A set of tools has one bit for each.
template <class Tools>
bool has_others(const Tools& monitors) {
  for (const unsigned char tools : monitors.tools)
    if (tools & ~(1u << kProfiler)) return true;
  return false;
}

bool has_other_tools(PyThreadState* tstate, PyCodeObject* code) {
  const PyInterpreterState* interp = tstate->interp;
  if (tstate->c_tracefunc || tstate->c_profilefunc || has_others(interp->monitors)) return true;
  for (int tool = 0; tool < PY_MONITORING_TOOL_IDS; ++tool)
    if (tool != kProfiler && interp->monitoring_tool_names[tool]) return true;
  if (!code || !code->_co_monitoring) return false;
  const auto* data = reinterpret_cast<const _PyCoMonitoringData*>(code->_co_monitoring);
  return has_others(data->local_monitors) || has_others(data->active_monitors);
}

/// Stands in front of a callback, which is told the user's code.
PyObject* on_event(PyObject* callback, PyObject* const* arguments, Py_ssize_t count) {
  Ref<> user;
  if (count > 0 && PyCode_Check(arguments[0])) user = user_code(reinterpret_cast<PyCodeObject*>(arguments[0]));
  std::array<PyObject*, 4> shown{};
  if (!user || count > static_cast<Py_ssize_t>(shown.size()))
    return PyObject_Vectorcall(callback, arguments, static_cast<std::size_t>(count), nullptr);
  std::copy(arguments, arguments + count, shown.begin());
  shown[0] = user.get();
  return PyObject_Vectorcall(callback, shown.data(), static_cast<std::size_t>(count), nullptr);
}

void show_user_code(PyThreadState* tstate) {
  for (PyObject*& callback : tstate->interp->monitoring_callables[kProfiler]) {
    if (!is_callback(callback) || is_ours(callback)) continue;
    if (PyObject* ours = PyCFunction_New(&event_method, callback)) Py_SETREF(callback, ours);
    else PyErr_Clear();
  }
}

void tell_cprofile(PyThreadState* tstate, PyFunctionObject* function, bool begins) {
  const int event = begins ? PY_MONITORING_EVENT_PY_START : PY_MONITORING_EVENT_PY_RETURN;
  const Ref<> callback = Ref<>::share(tstate->interp->monitoring_callables[kProfiler][event]);
  if (!is_callback(callback.get())) return;
  PyObject* const arguments[] = {function->func_code, Py_False, Py_None};  // code, offset, result
  ++tstate->tracing;
  if (PyObject* said = PyObject_Vectorcall(callback.get(), arguments, begins ? 2 : 3, nullptr)) Py_DECREF(said);
  else PyErr_Clear();
  --tstate->tracing;
}

}  // namespace

}  // namespace framejit::capture::py
