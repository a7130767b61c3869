// The runs of an entry that are compared with the bytecode: from which run on, and whose turn each of them is.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "ext/region/comparison.h"

namespace framejit::ext::region {

/// Runs on about the same amount of work are compared with each other. `hits`: how often the guards have held.
class EntryComparison {
 public:
  /// Runs are compared from the third on. `warm_up`: what comes before.
  void start(Comparison::WarmUp warm_up) {
    from_ = kFrom;
    warm_up_ = warm_up;
  }

  bool is_on(int64_t hits) const { return hits >= from_; }
  /// Whether the next run may be compared. Call it before the run; sampled() tells after the run if it was.
  bool is_next(int64_t hits) {
    sampled_ = nullptr;
    return hits + 1 >= from_;
  }
  /// A run that may be compared, on arrays of this size class: is it the compiled code's? `least_bytecode`: a lower
  /// bound of the bytecode's time, in nanoseconds.
  bool takes_turn(int64_t hits, int size_class, double least_bytecode);
  /// The comparison whose turn it was. Where it was the bytecode's, the run was declined.
  Comparison* sampled() const { return sampled_; }
  /// How many runs in a row the bytecode had because it is faster.
  int losses() const { return losses_; }

  enum class Result : uint8_t {
    Open,
    Faster,       // for no size slower: the comparison rests for many runs
    FasterOften,  // for some sizes
    Slower,       // for all sizes
  };
  /// A comparison has got another time.
  Result judge(int64_t hits);

 private:
  static constexpr int kFrom = 3, kMost = 1024;  // runs
  static constexpr std::array<int64_t, 2> kAgain = {1000, 100000};

  // What each run looks at comes first.
  int64_t from_ = INT64_MAX;  // of hits
  Comparison* sampled_ = nullptr;
  int losses_ = 0;
  int64_t reopened_at_ = INT64_MAX;        // of hits
  std::map<int, Comparison> comparisons_;  // by the size of the work
  Comparison::WarmUp warm_up_ = Comparison::kRounds;
};

}  // namespace framejit::ext::region
