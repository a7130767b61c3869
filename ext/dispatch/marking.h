// Code objects whose frames are compiled where they stand.
#pragma once

#include <memory>

#include "capture/hook.h"

namespace framejit::ext::dispatch {

class CodeState;
struct JitSettings;

/// What is compiled for one code object, which it does not keep alive, and how its frames come to it.
class MarkedCode : public capture::FrameInterceptor {
 public:
  virtual CodeState& state() = 0;
};

/// `owner`: of the function within whose reach the code is; none for code that is marked in place.
std::shared_ptr<MarkedCode> make_marked_code(PyCodeObject* code, const JitSettings& settings,
                                             std::weak_ptr<CodeState> owner);

/// Is the code marked in place?
bool is_marked(PyCodeObject* code);

}  // namespace framejit::ext::dispatch
