// DeadLocals: variables whose values a round of a loop does not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/code_view.h"

namespace framejit::capture {

class DeadLocals {
 public:
  /// Analyses a nest of loops, whose instructions are `first` to `last`.
  DeadLocals(const CodeView& view, uint32_t first, uint32_t last);

  /// Is the local set in the nest, and on each path of it from instruction `i` on before it is read? Paths out of the
  /// nest do not count, so its value has to be kept for these. False for locals behind the 64th.
  bool is_dead(uint32_t i, std::size_t local) const {
    return local < kMost && ((set_ & ~live_[i - first_]) >> local) & 1;
  }

 private:
  static constexpr std::size_t kMost = 64;
  uint32_t first_;
  uint64_t set_ = 0;            // in the nest: a bit for each local
  std::vector<uint64_t> live_;  // by instruction: a bit for each local
};

}  // namespace framejit::capture
