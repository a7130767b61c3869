// cProfile up to 3.11: a function that the thread calls for each event.
#pragma once

#include "capture/py/frame.h"

#include <frameobject.h>

#include "capture/py/no_collection.h"

namespace framejit::capture::py {

namespace {

Py_tracefunc profiler_function = nullptr;  // cProfile's

bool may_have_cprofile(PyThreadState* tstate) { return tstate->c_profilefunc != nullptr; }
bool has_cprofile(PyThreadState* tstate) {
  return tstate->c_profilefunc && tstate->cframe->use_tracing && is_profiler(tstate->c_profileobj);
}
bool has_other_tools(PyThreadState* tstate, PyCodeObject*) { return tstate->c_tracefunc != nullptr; }

/// Tells the profiler of another frame, of which it takes the code.
int tell_of_code(PyThreadState* tstate, PyObject* profiler, PyCodeObject* code, PyObject* globals, int what) {
  const NoCollection none;
  Ref<> frame = Ref<>::steal(reinterpret_cast<PyObject*>(PyFrame_New(tstate, code, globals, nullptr)));
  if (!frame) return -1;
  return profiler_function(profiler, reinterpret_cast<PyFrameObject*>(frame.get()), what, Py_None);
}

int on_event(PyObject* profiler, PyFrameObject* frame, int what, PyObject* argument) {
  Ref<> user;
  if (what == PyTrace_CALL || what == PyTrace_RETURN) user = user_code(code_of(frame->f_frame));
  if (!user) return profiler_function(profiler, frame, what, argument);
  auto* code = reinterpret_cast<PyCodeObject*>(user.get());
  return tell_of_code(thread(), profiler, code, globals_of(frame->f_frame), what);
}

void show_user_code(PyThreadState* tstate) {
  if (tstate->c_profilefunc != on_event) profiler_function = std::exchange(tstate->c_profilefunc, on_event);
}

void tell_cprofile(PyThreadState* tstate, PyFunctionObject* function, bool begins) {
  show_user_code(tstate);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  PyThreadState_EnterTracing(tstate);
  if (tell_of_code(tstate, tstate->c_profileobj, code, function->func_globals, begins ? PyTrace_CALL : PyTrace_RETURN))
    PyErr_Clear();
  PyThreadState_LeaveTracing(tstate);
}

}  // namespace

}  // namespace framejit::capture::py
