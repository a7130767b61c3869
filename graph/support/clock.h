// The clock by which framejit times itself.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace framejit {

/// Nanoseconds since some fixed time; never goes back.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Nanoseconds for which a processor has worked for this thread.
inline int64_t thread_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace framejit
