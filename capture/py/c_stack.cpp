// The ends of a thread's stack, and the interpreter's count of C calls.
#include "capture/py/frame.h"

#include "capture/py/c_stack.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

namespace framejit::capture::py {

namespace {

constexpr std::size_t kLow = 512 * 1024, kCritical = 64 * 1024;

StackEnds ends_of(uintptr_t lowest, std::size_t size) {
  return {lowest, std::min(kLow, size / 4), std::min(kCritical, size / 16)};
}

/// If the running thread is on the stack that the process began with: Linux keeps the path of the program at its very
/// beginning, before one last word. pthread_getattr_np() reads all of /proc/self/maps for it, which takes longer than
/// the compilation of a small function.
std::optional<StackEnds> ends_of_first_stack() {
  constexpr rlim_t kMost = 64 << 20;  // what Linux always leaves free below the beginning
  rlimit limit;
  const auto* path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const long page = sysconf(_SC_PAGESIZE);
  if (!path || page <= 0 || getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur > kMost) return std::nullopt;
  const auto bytes = static_cast<uintptr_t>(page);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(path) + std::strlen(path) + 1 + sizeof(void*);
  const uintptr_t size = limit.rlim_cur / bytes * bytes, here = stack_position();
  if (begin % bytes != 0 || here >= begin || begin - here >= size) return std::nullopt;
  return ends_of(begin - size, size);
}

StackEnds find_ends() {
  if (const std::optional<StackEnds> first = ends_of_first_stack()) return *first;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {0, 0, 0};
  void* lowest = nullptr;
  std::size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {0, 0, 0};
  return ends_of(reinterpret_cast<uintptr_t>(lowest), size);
}

}  // namespace

const StackEnds& stack_ends() {
  if (known_stack_ends.low == UINTPTR_MAX) known_stack_ends = find_ends();
  return known_stack_ends;
}

bool c_calls_are_many() { return c_recursion_is_low(PyThreadState_Get()); }

}  // namespace framejit::capture::py
