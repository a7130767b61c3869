// How much of a function's time may go into compiling it, with its callees.
#pragma once

#include <algorithm>
#include <cstdint>

#include <utility>

#include "ext/region/comparison.h"

namespace framejit::ext::dispatch {

class CompileBudget {
 public:
  /// Nanoseconds spent on compiling.
  int64_t spent() const { return spent_ns_; }
  /// Has too much of the function's time gone into compiling?
  bool is_exceeded() { return spent_ns_ > kFree && spent_ns_ * kShare > run_time(); }
  /// Entries that pay for themselves only after many runs are compiled over several calls, so that the first calls end
  /// soon. A second entry does not wait: it is often the round of a loop, after an entry for what is before the loop.
  bool is_spent_too_fast() {
    return entries_ > 1 && after_soon_ns_ > kFree && after_soon_ns_ * kShareAtOnce > run_time();
  }
  /// How many instructions a capture may execute without array work: fewer after captures that gave nothing.
  int64_t idle_limit(int64_t limit) const { return std::clamp<int64_t>(limit - fruitless_steps_, limit / 10, limit); }

  /// The outermost call of the function begins or ends. What it takes counts once much was spent on compiling.
  void begin_call() {
    if (after_soon_ns_ > kFree && run_start_ == 0) run_start_ = region::read_clock(region::Reading::Start);
  }
  void end_call() {
    if (run_start_ != 0) run_ns_ += region::read_clock(region::Reading::Start) - std::exchange(run_start_, 0);
  }

  /// One compilation, from here to the end of the scope.
  class Compilation {
   public:
    explicit Compilation(CompileBudget& budget) : budget_(budget) {}
    ~Compilation() {
      const auto time = static_cast<double>(region::read_clock(region::Reading::Compiling) - start_);
      budget_.spent_ns_ = static_cast<int64_t>(std::max(0.0, static_cast<double>(budget_.spent_ns_) + time - paid_));
      budget_.after_soon_ns_ += static_cast<int64_t>(std::max(0.0, time - paid_soon_));
    }
    Compilation(const Compilation&) = delete;
    /// An entry came of it. `worth`, `worth_soon`: what it is expected to save, in all and by its first runs, in
    /// nanoseconds.
    void pays(double worth, double worth_soon) {
      paid_ = worth;
      paid_soon_ = worth_soon;
      ++budget_.entries_;
      budget_.fruitless_steps_ = 0;
    }
    /// Nothing came of it. `by_others`: other regions will pay for it.
    void came_to_nothing(int64_t steps, bool by_others) {
      if (by_others) paid_ = 1e9;
      budget_.fruitless_steps_ += steps;
    }

   private:
    CompileBudget& budget_;
    double paid_ = 0, paid_soon_ = 0;
    int64_t start_ = region::read_clock(region::Reading::Compiling);
  };

 private:
  static constexpr int64_t kFree = 10000000;               // ns
  static constexpr int64_t kShare = 10, kShareAtOnce = 2;  // of the time for which the function has run since

  /// How long the function has run since so much of it was compiled that this is asked.
  int64_t run_time() {
    const int64_t now = region::read_clock(region::Reading::Start);
    if (run_start_ == 0) run_start_ = now;
    return run_ns_ + now - run_start_;
  }

  int64_t spent_ns_ = 0;
  int64_t after_soon_ns_ = 0;  // spent, but for what the first runs pay
  int entries_ = 0;            // compiled
  int64_t fruitless_steps_ = 0;
  int64_t run_ns_ = 0, run_start_ = 0;
};

}  // namespace framejit::ext::dispatch
