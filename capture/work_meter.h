// WorkMeter: the work of a capture that no count of instructions sees.
#pragma once

#include <cstddef>
#include <cstdint>

namespace framejit::capture {

class WorkMeter {
 public:
  /// Counts the items that an instruction went through: some look at or copy a whole container.
  void spend(std::size_t items) { spent_ += items; }
  /// The work of all that was counted, in instructions.
  uint64_t done() const { return spent_ / 32; }
  /// A single instruction may open many containers: is it time to give it up?
  bool is_limit_exceeded() const { return done() > limit_; }
  void set_limit(uint64_t limit) { limit_ = limit; }

 private:
  uint64_t spent_ = 0;
  uint64_t limit_ = UINT64_MAX;  // of the instruction that is executed
};

}  // namespace framejit::capture
