// Steering: the stance of the process, disabled code objects, dimensions that are marked as dynamic.
#pragma once

#include "capture/py/ref.h"
#include "capture/py/until_exit.h"

namespace framejit::ext::module {

enum class Stance : uint8_t { Default, ForceEager, FailOnRecompile };

/// The thread holds the GIL.
class ScopedGil {
 public:
  ScopedGil() = default;
  ~ScopedGil() { PyGILState_Release(state_); }
  ScopedGil(const ScopedGil&) = delete;

 private:
  PyGILState_STATE state_ = capture::py::until_exit(PyGILState_Ensure);
};

/// No tool sees the Python code of framejit that runs meanwhile.
class Untraced {
 public:
  Untraced() { PyThreadState_EnterTracing(state_); }
  ~Untraced() { PyThreadState_LeaveTracing(state_); }
  Untraced(const Untraced&) = delete;

 private:
  PyThreadState* state_ = PyThreadState_Get();
};

inline Stance stance = Stance::Default;

/// Counts changes of the set of disabled code objects.
inline uint64_t disabled_epoch = 0;
/// Is the code kept out by framejit.disable()?
bool is_disabled(PyCodeObject* code);

/// Was the dimension of this very array marked by framejit.mark_dynamic()?
bool is_dynamic(PyObject* array, int dim);

/// The Python function that capture follows in place of a C function, type or descriptor; borrowed, or null.
PyObject* polyfill_of(PyObject* callable);

}  // namespace framejit::ext::module
