// Does an entry run, or the bytecode? What earlier runs came to decides, and, where both are compared, their times.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ext/region/entry_comparison.h"

namespace framejit::ext::region {

class RunPolicy {
 public:
  static constexpr const char* kUnprofitable =
      "it is mostly calls of NumPy's functions, which plain Python makes sooner";
  static constexpr const char* kLeavesLoop = "its loop is left in the middle of many rounds";

  /// `function`: for the log. `least_bytecode`: a lower bound of the bytecode's time, in nanoseconds.
  void start(std::string function, double least_bytecode) {
    function_ = std::move(function);
    least_bytecode_ = least_bytecode;
  }
  /// Some runs are the bytecode's, to compare. `warm_up`: what comes before.
  void compare(Comparison::WarmUp warm_up) { comparison_.start(warm_up); }
  /// The interpreter is faster, whatever the runs come to.
  void set_unprofitable(const char* why) { unprofitable_ = why; }

  /// The guards have held: how often.
  void count() { ++hits_; }
  int64_t hits() const { return hits_; }
  double least_bytecode() const { return least_bytecode_; }

  /// Is this run the bytecode's because of what earlier ones came to? `varies`: in its sizes.
  bool rests(bool varies) { return is_demoted() && rests_demoted(varies); }
  bool is_comparing() const { return comparison_.is_on(hits_); }
  /// See EntryComparison.
  bool takes_turn(int size_class) { return comparison_.takes_turn(hits_, size_class, least_bytecode_); }
  bool is_compared() { return comparison_.is_next(hits_); }
  Comparison* sampled() const { return comparison_.sampled(); }
  /// A comparison has got another time.
  void judge();

  /// A run of one kernel came to something.
  void ran_kernel() { streak_ = 0; }
  /// A run of a plan did. It counts against an entry that is slower all the same.
  void succeeded() {
    if (unprofitable_) came_to_nothing(unprofitable_);
    else streak_ = 0;
  }
  /// A run came to nothing, or to less than the interpreter's.
  void came_to_nothing(const char* why);
  /// No other run is worth trying.
  void give_up(const char* why);

  bool is_unprofitable() const { return unprofitable_ != nullptr; }
  /// Why the interpreter runs it, or will after some runs; "": it does not.
  const char* why_given_up() const { return unprofitable_ ? unprofitable_ : is_demoted() ? why_ : ""; }
  /// Is it left to the interpreter for good, which is faster?
  bool is_left() const { return unprofitable_ && is_demoted(); }

 private:
  static constexpr int kDemoteAfter = 4;  // consecutive runs that came to nothing
  static constexpr const char* kSlower = "it was measured to be slower than plain Python";
  static constexpr int kManyLosses = 64;  // runs in a row that the bytecode had because it is faster: then of others
  static constexpr int kLookEvery = 16;   // one in so many is looked at
  static constexpr int kRetryEvery = 64;  // a demoted entry is tried again this often

  bool rests_demoted(bool varies);
  bool is_demoted() const { return streak_ >= kDemoteAfter; }

  // What each run looks at comes first.
  int64_t hits_ = 0;
  const char* unprofitable_ = nullptr;
  double least_bytecode_ = 0;
  int streak_ = 0, rest_ = 0;
  EntryComparison comparison_;
  const char* why_ = "";  // runs came to nothing, the last time
  std::string function_;
};

}  // namespace framejit::ext::region
