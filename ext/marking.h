// Code objects whose frames are compiled where they stand.
#pragma once

#include "capture/hook.h"
#include "ext/function_state.h"

namespace framejit::ext {

/// What is compiled for one code object, which it does not keep alive, and how its frames come to it.
class MarkedCode final : public capture::FrameInterceptor, public std::enable_shared_from_this<MarkedCode> {
 public:
  /// `owner`: of the function within whose reach the code is; none for code that is marked in place.
  MarkedCode(PyCodeObject* code, const JitSettings& settings, std::weak_ptr<CodeState> owner = {});
  ~MarkedCode() override;

  Outcome enter(PyFunctionObject* function, PyCodeObject* code, PyObject** locals, int local_count) override;
  void leave() override { state_->end_call(); }

  CodeState& state() { return *state_; }

 private:
  Outcome enter_measured(PyFunctionObject* function, PyCodeObject* code, PyObject** locals);
  Outcome enter_compiled(PyFunctionObject* function, PyCodeObject* code, PyObject** locals);
  Outcome enter_checked(PyFunctionObject* function, PyCodeObject* code, PyObject** locals);

  std::shared_ptr<CodeState> state_;
  std::unique_ptr<capture::SplicedCode> spliced_;
};

/// Is the code marked in place?
bool is_marked(PyCodeObject* code);

}  // namespace framejit::ext
