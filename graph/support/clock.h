// The clock by which framejit times itself.
#pragma once

#include <chrono>
#include <cstdint>

namespace framejit {

/// Nanoseconds since some fixed time; never goes back.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace framejit
