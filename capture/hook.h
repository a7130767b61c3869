// The PEP 523 frame hook: installed only while something is marked in place, chained to the hook before it.
#pragma once

#include <memory>

#include "capture/py/ref.h"

namespace framejit::capture {

/// What to do with frames of one code object. Implementations live in ext.
class FrameInterceptor {
 public:
  virtual ~FrameInterceptor() = default;
  /// Called before the first instruction of a frame whose code is marked. `locals`: the argument slots as the prologue will
  /// find them (cells not made yet). Either gives the frame's result (new reference, or null with an exception set, `handled`
  /// true), or a code object to run in place of the frame's own (borrowed; the same localsplus layout), or neither.
  struct Outcome {
    bool handled = false;
    PyObject* result = nullptr;
    PyCodeObject* replacement = nullptr;
  };
  virtual Outcome enter(PyFunctionObject* function, PyCodeObject* code, PyObject** locals, int local_count) = 0;
};

/// Marks a code object: its frames go through `interceptor` from now on. Reserves stack for a replacement code object.
bool mark_code(PyCodeObject* code, std::shared_ptr<FrameInterceptor> interceptor);
void unmark_code(PyCodeObject* code);
/// Called for frames of unmarked code while patterns are active: lets ext decide by module or file name, once per code.
using Discover = std::shared_ptr<FrameInterceptor> (*)(PyFunctionObject* function, PyCodeObject* code);
void set_discover(Discover discover);  // null: off
bool hook_installed();

}  // namespace framejit::capture
