// Says on standard error that a long compilation is running.
#pragma once

#include "ext/dispatch/code_state.h"

namespace framejit::ext::dispatch {

/// While it lives, a function is being compiled in this thread. Compilations within it belong to it.
class ProgressScope {
 public:
  explicit ProgressScope(const CodeState& state);
  ~ProgressScope();
  ProgressScope(const ProgressScope&) = delete;

 private:
  bool is_outermost_;
};

/// Long steps of a compilation call this repeatedly. They have to stop if a signal waits for its handler.
bool poll_compilation();

}  // namespace framejit::ext::dispatch
