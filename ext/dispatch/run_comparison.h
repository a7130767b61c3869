// Runs of a function's compiled code and of its bytecode, compared by their times: calls as a whole, whole entries, and
// rounds of loops with the regions in them. See ext/region/comparison.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "capture/splice.h"
#include "ext/module/stats.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

/// The time in nanoseconds that runs of entries have saved compared with the bytecode: a lower bound, by estimate.
inline double least_saved = 0;
/// How many runs there were of entries that were compiled at O1, whose bits are not the bytecode's.
inline int64_t runs_at_o1 = 0;

class RunComparison {
 public:
  // Calls that the interpreter has without a look at the entries.

  /// Is this call one of them?
  bool passes_by() { return passing_ > 0 && passing_-- > 0; }
  /// The next ones are. `more`: and more of them each time.
  void pass_by(bool more);

  // Calls that run bytecode, spliced or not.

  bool is_timing() const { return timed_.has_value(); }
  void count_call() { ++call_count_; }
  /// Whose turn the call is. Compiled: the spliced code, or callees that are compiled. `slots`: the arguments.
  region::Side begin_call(capture::py::Slots slots, int count);
  /// The comparison of an entry gave its call to the bytecode: the call begins. False: it is not timed.
  bool begin_declined();
  bool has_declined() const { return static_cast<bool>(declined_); }
  /// The end of the outermost call. Gives the entry whose comparison got a time, or null.
  std::shared_ptr<region::Entry> end_call();
  /// Measured savings of calls in nanoseconds, since the last call of this function.
  int64_t take_gain() { return std::exchange(gain_, 0); }
  /// Are the calls left to the interpreter, by their times?
  bool is_given_up() const;
  /// Why the interpreter runs the calls that would run bytecode in any case; "": it does not.
  const char* why_given_up() const {
    return is_given_up() ? "its calls were measured to be slower than plain Python" : "";
  }

  // Runs of entries.

  /// A run of a whole entry that may have been compared. True: its comparison got a time.
  bool end_entry_run(const std::shared_ptr<region::Entry>& entry, region::Outcome outcome, int64_t start);
  bool is_timing_round() const { return round_.has_value(); }
  /// A region was entered at a site, or its turn was the bytecode's.
  void begin_round(const std::shared_ptr<region::Entry>& entry, uint32_t site, const capture::FrameView& frame,
                   region::Outcome outcome, int64_t start);
  struct EndOfRound {
    bool goes_on = true;                   // does the visit go on? Else the bytecode does
    std::shared_ptr<region::Entry> entry;  // whose round has ended, or null
    uint32_t site = 0;                     // of that entry
  };
  /// A site is visited while a round is timed.
  EndOfRound end_round(uint32_t site, const capture::FrameView& frame);

  void clear();

 private:
  /// A run that is being timed.
  struct Timed {
    std::shared_ptr<region::Entry> entry;  // null: of the call as a whole
    region::Comparison* comparison;
    region::Side side;
    int64_t start;
    int64_t turns = region::bytecode_turns, compile_ns = module::stats.compile_ns;
    double saved = least_saved;
    int64_t at_o1 = runs_at_o1;
    int passing = 0;
    int64_t own_turns = 0;

    bool is_disturbed() const { return turns != region::bytecode_turns || compile_ns != module::stats.compile_ns; }
  };
  /// From one visit of a site to where the region's rounds end: the next visit of this site, mostly.
  struct Round : Timed {
    capture::py::Slots locals;  // of the frame
    uint32_t site;
    int visits = 0;  // of other sites
  };
  void begin_timed(std::shared_ptr<region::Entry> entry, region::Comparison& comparison, region::Side side);

  static constexpr int kPassBy = 60;  // the next call that is looked at is the 61st: others that come by turns have
                                      // theirs too
  int passing_ = 0;                   // calls that pass by
  int next_passing_ = kPassBy;        // how many do, the next time
  std::map<int, region::Comparison> calls_;  // by the size of the arguments
  int64_t call_count_ = 0;
  int64_t gain_ = 0;
  int64_t calls_compared_from_ = 0;
  std::optional<Timed> timed_;
  std::optional<Round> round_;
  int64_t own_turns_ = 0;                    // of the bytecode, in rounds
  std::shared_ptr<region::Entry> declined_;  // by its comparison, in a whole call
};

}  // namespace framejit::ext::dispatch
