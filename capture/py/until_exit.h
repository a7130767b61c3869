// Threads that want the GIL while the interpreter ends.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

namespace framejit::capture::py {

/// What `f` gives, which waits for the GIL or runs Python code. Up to CPython 3.13 a thread that does either while the
/// interpreter ends is ended by pthread_exit, whose unwinding would run destructors without the GIL, or meet noexcept.
/// It sleeps for ever instead, as CPython 3.14 lets it.
template <class F>
auto until_exit(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

}  // namespace framejit::capture::py
