// A frame for those who look at the stack from outside: sampling profilers (py-spy, austin), faulthandler. It is on the
// C stack, with the function's code and without references. Its position is before its first instruction, so it is
// incomplete for the interpreter: sys._getframe(), f_back, tracebacks, warnings and sys._current_frames() leave it out.
#pragma once

#include "capture/py/frame.h"
#include "capture/py/ref.h"

namespace framejit::capture::py {

/// Code of the same name, file and line for a frame that has not begun, and has a position all the same. Null: the code
/// itself will do.
Ref<PyCodeObject> code_to_show(PyCodeObject* code);

/// While it exists, such tools see that `function` runs, by `code`, which code_to_show() gave for its code; null: by
/// its code. If the function is null, nothing is shown. The frame has not begun as far as the interpreter is concerned,
/// which leaves such frames out.
class ShownFrame {
 public:
  ShownFrame(PyFunctionObject* function, PyCodeObject* code) {
    if (!function) return;
    if (!code) code = reinterpret_cast<PyCodeObject*>(function->func_code);
    tstate_ = thread();
    frame_.previous = current_frame(tstate_);
    frame_.f_globals = function->func_globals;
    frame_.f_builtins = function->func_builtins;
    frame_.owner = FRAME_OWNED_BY_THREAD;
    lend(&frame_, function, code);
    set_position(&frame_, _PyCode_CODE(code) + code->_co_firsttraceable - 1);
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
