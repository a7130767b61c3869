// Measures whether compiled code is faster than the bytecode: runs of both take turns.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>

#include "capture/py/slots.h"

namespace framejit::ext::region {

enum class Side : uint8_t { Compiled, Bytecode };

/// The purpose of a reading: tests give each a time of its own.
enum class Reading : uint8_t { Start, Compiled, Bytecode, Compiling };  // Compiling: the thread's own time
/// In nanoseconds. Tests have a clock of their own (_core.set_clock).
int64_t read_clock(Reading reading);

/// Calls whose arguments are of about one size may be compared.
int size_class(capture::py::Slots slots, int count);

/// How often the bytecode had its turn, in this process: a time with one of a callee or of a region in it says nothing.
inline int64_t bytecode_turns = 0;

/// Times of runs on arrays of about the same sizes. Nothing is run twice: in some of the runs the bytecode runs instead
/// of the compiled code.
class Comparison {
 public:
  static constexpr int kMostWarmUp = 64;
  enum class Verdict : uint8_t { Open, Keep, Drop };

  /// How long the compiled code runs before anything counts: memory and caches warm up, plans are bound for the numbers
  /// that come by.
  struct WarmUp {
    int least_runs;
    int64_t enough_ns;  // or kMostWarmUp runs
  };
  static constexpr WarmUp kCalls{3, 200000}, kRounds{8, 1000000};

  /// `least_bytecode`: what the bytecode takes at least, by an estimate. Where the compiled code takes less the
  /// bytecode need not run.
  explicit Comparison(WarmUp warm_up = kCalls, double least_bytecode = 0)
      : warm_up_(warm_up), least_bytecode_(least_bytecode) {}

  Verdict verdict() const { return verdict_; }
  bool is_open() const { return verdict_ == Verdict::Open; }
  /// The bytecode's time for one run less the compiled code's, in nanoseconds; 0 if they were not measured.
  int64_t gain() const { return gain_; }
  /// Whose turn it is. It changes every few runs, the last of which count.
  Side next() const { return block_ % 2 == 0 ? Side::Compiled : Side::Bytecode; }
  /// The time of the run whose turn it was; `least_bytecode`: with what this very run is known to have saved.
  void add(int64_t nanoseconds) { add(nanoseconds, least_bytecode_); }
  void add(int64_t nanoseconds, double least_bytecode);
  /// The run that is added next had a turn of the bytecode in it, of a callee or of a region. So the compiled code took
  /// less than its time says, and the fastest run counts.
  void note_disturbed() { disturbed_ = disturbed_ || next() == Side::Compiled; }
  /// Its time cannot be told.
  void discard();
  void keep() { verdict_ = Verdict::Keep; }
  /// Measures once more.
  void reopen() { *this = Comparison(kCalls, least_bytecode_); }

  int discarded() const { return discarded_; }

  int32_t end = -1;  // where the rounds that are timed end: a site

 private:
  static constexpr int kCounted = 2, kBlocks = 3;  // runs of a block, of each side
  static constexpr int kMostDiscarded = 64;
  bool is_block_over() const;
  void decide();

  WarmUp warm_up_;
  double least_bytecode_;
  std::array<std::array<int64_t, kCounted * kBlocks>, 2> times_{};
  int64_t before_ = 0, spent_ = 0;  // the run before, of the block
  int block_ = 0, runs_ = 0;        // of the block
  int discarded_ = 0;
  bool disturbed_ = false;  // a time of the compiled code
  int64_t gain_ = 0;
  Verdict verdict_ = Verdict::Open;
};

}  // namespace framejit::ext::region
