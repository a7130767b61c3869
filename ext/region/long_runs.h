// Runs that take long are asked to end where they can go on.
#pragma once

#include <cstdint>

namespace framejit::ext::region {

/// While this is in scope, a loop of machine code runs, which ends soon once another thread wants the GIL. If it takes
/// longer than some milliseconds, a thread of framejit's wants it, so that other code of the loop can take over. One at
/// a time: whoever runs holds the GIL.
class LongRun {
 public:
  /// `wanted`: else nothing happens.
  explicit LongRun(bool wanted);
  ~LongRun();
  LongRun(const LongRun&) = delete;

  bool was_asked() const;

 private:
  const uint64_t number_;
};

}  // namespace framejit::ext::region
