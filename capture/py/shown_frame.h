// A frame for those who look at the stack from outside: sampling profilers (py-spy, austin), faulthandler. It is on the
// C stack, with the function's code and without references. Its position is before its first instruction, so it is
// incomplete for the interpreter: sys._getframe(), f_back, tracebacks, warnings and sys._current_frames() leave it out.
#pragma once

#include "capture/py/frame.h"

namespace framejit::capture::py {

/// While it exists, such tools see that `function` runs; null: nothing is shown. The frame has not begun as far as the
/// interpreter is concerned, which leaves such frames out: sys._getframe(), tracebacks and f_back do not see it.
class ShownFrame {
 public:
  explicit ShownFrame(PyFunctionObject* function) {
    if (!function) return;
    tstate_ = thread();
    frame_.previous = current_frame(tstate_);
    frame_.f_globals = function->func_globals;
    frame_.f_builtins = function->func_builtins;
    frame_.owner = FRAME_OWNED_BY_THREAD;
    auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
    lend(&frame_, function, code);
    set_position(&frame_, _PyCode_CODE(code) - 1);
    set_current_frame(tstate_, &frame_);
  }
  ~ShownFrame() {
    if (tstate_) set_current_frame(tstate_, frame_.previous);
  }
  ShownFrame(const ShownFrame&) = delete;
  ShownFrame& operator=(const ShownFrame&) = delete;

 private:
  PyThreadState* tstate_ = nullptr;
  Frame frame_{};
};

}  // namespace framejit::capture::py
