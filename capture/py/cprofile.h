// The profiler of the standard library, which adds up times by function. Compiled code runs under it as without it, so
// a profile shows what the program does. Other tools see each call, and make marked functions run as bytecode.
#pragma once

#include <Python.h>

namespace framejit::capture::py {

/// Does cProfile, and no other tool, look at what this thread executes, and at `code` (which may be null)? From then
/// on, events of frames with spliced code reach the profiler with the code that the user wrote, because it keeps one
/// row for each code object.
bool has_only_cprofile(PyThreadState* tstate, PyCodeObject* code);

/// Gives a weak reference to the code that `code` was spliced from, borrowed, or null if it is not spliced.
using UserCode = PyObject* (*)(PyCodeObject* code);
void set_user_code(UserCode user_code);

/// While it exists, cProfile measures a call of `function`, if it measures this thread; null: nothing is told.
class ProfiledCall {
 public:
  explicit ProfiledCall(PyFunctionObject* function) {
    if (function && may_be_profiled()) [[unlikely]]
      begin(function);
  }
  ~ProfiledCall() {
    if (function_) [[unlikely]]
      end();
  }
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

 private:
  static bool may_be_profiled();
  void begin(PyFunctionObject* function);
  void end();

  PyFunctionObject* function_ = nullptr;
};

}  // namespace framejit::capture::py
