// How much of a function's time may go into compiling it, with its callees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ext/region/comparison.h"
#include "ext/region/compiled_region.h"

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

  /// What entries were expected to save is spent after all where they do not: `lost(entry)` says of which.
  template <class Lost>
  void charge(Lost lost) {
    std::erase_if(credits_, [&](const Credit& credit) {
      const std::shared_ptr<region::Entry> entry = credit.entry.lock();
      if (entry && !lost(*entry)) return false;
      if (entry) {
        spent_ns_ += credit.ns;
        after_soon_ns_ += credit.soon_ns;
      }
      return true;
    });
  }

  /// Takes measured savings of compiled code off the time that was spent on compiling.
  void repay(int64_t nanoseconds) {
    spent_ns_ -= std::min(spent_ns_, nanoseconds);
    after_soon_ns_ -= std::min(after_soon_ns_, nanoseconds);
  }

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
    /// Reserves the memory that the destructor needs, because a destructor may not throw.
    explicit Compilation(CompileBudget& budget) : budget_(budget) { budget_.credits_.reserve(kMostCredits); }
    ~Compilation() {
      const int64_t time = region::read_clock(region::Reading::Compiling) - start_, all = budget_.spent_ns_ + time;
      const auto paid = static_cast<int64_t>(std::min(static_cast<double>(all), paid_));
      const auto paid_soon = static_cast<int64_t>(std::min(static_cast<double>(time), paid_soon_));
      budget_.spent_ns_ = all - paid;
      budget_.after_soon_ns_ += time - paid_soon;
      if (entry_.expired()) return;
      if (budget_.credits_.size() == kMostCredits) budget_.credits_.erase(budget_.credits_.begin());
      budget_.credits_.push_back({std::move(entry_), paid, paid_soon});
    }
    Compilation(const Compilation&) = delete;
    /// This entry came of it. `worth`, `worth_soon`: what it is expected to save, in all and by its first runs, in
    /// nanoseconds.
    void pays(const std::shared_ptr<region::Entry>& entry, double worth, double worth_soon) {
      entry_ = entry;
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
    std::weak_ptr<region::Entry> entry_;
    double paid_ = 0, paid_soon_ = 0;
    int64_t start_ = region::read_clock(region::Reading::Compiling);
  };

 private:
  static constexpr std::size_t kMostCredits = 32;          // the last ones: each compilation looks at all of them
  static constexpr int64_t kFree = 10000000;               // ns
  static constexpr int64_t kShare = 10, kShareAtOnce = 2;  // of the time for which the function has run since

  /// How long the function has run since so much of it was compiled that this is asked.
  int64_t run_time() {
    const int64_t now = region::read_clock(region::Reading::Start);
    if (run_start_ == 0) run_start_ = now;
    return run_ns_ + now - run_start_;
  }

  /// Compiling that was not spent, because the entry is expected to save as much.
  struct Credit {
    std::weak_ptr<region::Entry> entry;
    int64_t ns, soon_ns;
  };

  int64_t spent_ns_ = 0;
  int64_t after_soon_ns_ = 0;  // spent, but for what the first runs pay
  int entries_ = 0;            // compiled
  int64_t fruitless_steps_ = 0;
  int64_t run_ns_ = 0, run_start_ = 0;
  std::vector<Credit> credits_;
};

}  // namespace framejit::ext::dispatch
