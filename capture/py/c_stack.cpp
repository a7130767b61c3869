// The ends of a thread's stack, and the interpreter's count of C calls.
#include "capture/py/frame.h"

#include "capture/py/c_stack.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>

namespace framejit::capture::py {

namespace {

constexpr std::size_t kLow = 512 * 1024, kCritical = 64 * 1024;

StackEnds find_ends() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {0, 0, 0};
  void* lowest = nullptr;
  std::size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {0, 0, 0};
  return {reinterpret_cast<uintptr_t>(lowest), std::min(kLow, size / 4), std::min(kCritical, size / 16)};
}

}  // namespace

const StackEnds& stack_ends() {
  if (known_stack_ends.low == UINTPTR_MAX) known_stack_ends = find_ends();
  return known_stack_ends;
}

bool c_calls_are_many() { return c_recursion_is_low(PyThreadState_Get()); }

}  // namespace framejit::capture::py
