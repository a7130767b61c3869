// Long work that is no longer wanted is given up by an exception: passes and code generation ask between their steps.
#pragma once

#include <exception>
#include <utility>

namespace framejit {

/// Thrown by poll_interrupt().
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

namespace detail {
inline thread_local bool (*interrupt_check)() = nullptr;
}

/// While it lives, work of this thread is given up as soon as `check` returns true.
class InterruptScope {
 public:
  explicit InterruptScope(bool (*check)()) : before_(std::exchange(detail::interrupt_check, check)) {}
  ~InterruptScope() { detail::interrupt_check = before_; }
  InterruptScope(const InterruptScope&) = delete;

 private:
  bool (*before_)();
};

inline bool is_interrupted() { return detail::interrupt_check && detail::interrupt_check(); }

inline void poll_interrupt() {
  if (is_interrupted()) throw Interrupted();
}

}  // namespace framejit
