// The thread's np.errstate, read where a kernel has set a floating-point flag or a reduction depends on the buffer
// size.
#pragma once

#include <Python.h>

#include <cstdint>

namespace framejit::ext::arrays {

class ErrState {
 public:
  /// The state of the running thread and context. Exceptions while reading count as "nothing is ignored".
  static ErrState current();

  /// Does NumPy ignore every flag of the set? `flags`: FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW; the
  /// inexact flag does not count.
  bool all_ignored(unsigned flags) const { return (flags & watched_) == 0; }
  unsigned watched() const { return watched_; }
  /// Is there no flag that raises, calls, prints or logs?
  bool warns_only() const { return warns_only_; }
  /// np.getbufsize(): where casting and long reductions are cut.
  std::int64_t buffer_size() const { return buffer_size_; }

 private:
  unsigned watched_ = 0;  // flags that warn, raise, call, print or log
  bool warns_only_ = false;
  std::int64_t buffer_size_ = 0;
};

/// Of the flags of a run: ErrState::current().all_ignored(flags), without any look where no flag is set; not where any
/// is trapped.
bool all_ignored(unsigned flags);

/// Does scipy.special ignore what its functions meet, as it does unless told otherwise by its errstate or seterr?
bool scipy_is_silent();

/// While it lives, NumPy raises for these flags in this thread and context, and ignores all others. An error while
/// setting it counts for nothing.
class ScopedErrState {
 public:
  explicit ScopedErrState(unsigned raising) : ScopedErrState(raising, ErrState::current()) {}
  ScopedErrState(unsigned raising, const ErrState& now);
  ~ScopedErrState();
  ScopedErrState(const ScopedErrState&) = delete;

 private:
  PyObject* before_ = nullptr;  // NumPy 2: the token; NumPy 1: the state
};

}  // namespace framejit::ext::arrays
