// How much of the C stack is left. A call of a marked function is a C call, which one of a plain function is not.
#pragma once

#include <cstdint>

namespace framejit::capture::py {

/// The running thread's stack, which grows towards lower addresses, in bytes above its end. 0: not known.
struct StackEnds {
  uintptr_t end = 0;
  uintptr_t low = UINTPTR_MAX;  // nothing is compiled below, and calls should be few; the greatest: not asked yet
  uintptr_t critical = 0;       // below, the next call may be the last
};
inline constinit thread_local StackEnds known_stack_ends;

inline uintptr_t stack_position() { return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); }
/// Those of this thread.
const StackEnds& stack_ends();
/// The interpreter counts nested C calls, and half of those that it allows are made.
bool c_calls_are_many();

// Stacks that a program has made itself, outside of the thread's, are taken for large ones.
inline bool stack_is_low() {
  return (stack_position() - known_stack_ends.end < known_stack_ends.low &&
          stack_position() - stack_ends().end < stack_ends().low) ||
         c_calls_are_many();
}
inline bool stack_is_critical() { return stack_position() - stack_ends().end < stack_ends().critical; }

}  // namespace framejit::capture::py
