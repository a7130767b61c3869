// See cprofile.h. What depends on the version of CPython is in the two headers that this file includes in the middle.
#include "capture/py/frame.h"

#include "capture/py/cpython/objects.h"

#include "capture/py/cprofile.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "capture/py/ref.h"

namespace framejit::capture::py {

namespace {

UserCode user_code_of = nullptr;

/// The code that `code` was spliced from, or null.
Ref<> user_code(PyCodeObject* code) {
  PyObject* weak = user_code_of ? user_code_of(code) : nullptr;
  return weak ? target_of(weak) : Ref<>();
}

/// Is it a profiler of cProfile's, or of a class that is made from its class?
bool is_profiler(PyObject* object) {
  for (const PyTypeObject* type = object ? Py_TYPE(object) : nullptr; type; type = type->tp_base)
    if (std::strcmp(type->tp_name, "_lsprof.Profiler") == 0) return true;
  return false;
}

}  // namespace

}  // namespace framejit::capture::py

#if PY_VERSION_HEX < 0x030C0000
#include "capture/py/cprofile_trace.h"
#else
#include "capture/py/cprofile_monitoring.h"
#endif

namespace framejit::capture::py {

void set_user_code(UserCode user_code) { user_code_of = user_code; }

bool has_only_cprofile(PyThreadState* tstate, PyCodeObject* code) {
  if (!has_cprofile(tstate) || has_other_tools(tstate, code)) return false;
  show_user_code(tstate);
  return true;
}

bool ProfiledCall::may_be_profiled() { return may_have_cprofile(thread()); }

void ProfiledCall::begin(PyFunctionObject* function) {
  PyThreadState* tstate = thread();
  if (!has_cprofile(tstate)) return;
  function_ = reinterpret_cast<PyFunctionObject*>(Py_NewRef(reinterpret_cast<PyObject*>(function)));
  tell_cprofile(tstate, function_, true);
}

void ProfiledCall::end() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyThreadState* tstate = thread(); has_cprofile(tstate)) tell_cprofile(tstate, function_, false);
  PyErr_Restore(type, value, traceback);
  Py_DECREF(function_);
}

}  // namespace framejit::capture::py
