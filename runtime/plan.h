// Plan: a Program made ready to run. Immutable once built; any number of threads may run it at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "graph/support/expected.h"

namespace framejit::runtime {

/// Sticky floating-point flags, as in MXCSR bits 0..5.
enum FpFlags : unsigned { kInvalid = 1, kDenormal = 2, kDivide = 4, kOverflow = 8, kUnderflow = 16, kInexact = 32 };
inline constexpr unsigned kReported = kInvalid | kDivide | kOverflow | kUnderflow;  // what NumPy reports

enum class RunStatus : uint8_t {
  Done,
  OutOfMemory,        // nothing was written to params
  Interrupted,        // a signal is pending and long work was cancelled; params are as before
  Bailout,            // NumPy's own answer is needed (codegen/kernel.h says where); params are as before
  SpeculationFailed,  // the operand of an `expect` is false; params are as before
  Flagged,            // a program with per_call_flags raised a watched flag before it wrote any param
};

/// Copies of the param memory that a run overwrote. Destroying it keeps what the run wrote.
class Undo {
 public:
  virtual ~Undo() = default;
  virtual void rollback() = 0;  // puts the old bytes back
};

struct RunResult {
  RunStatus status = RunStatus::Done;
  unsigned flags =
      0;  // subset of kReported raised by the kernels, by FlagRule::apply; the caller decides what they mean
  uint32_t location = 0;        // Unexpected: the graph's number of the place of the `expect`
  std::unique_ptr<Undo> undo;   // where the program writes params and flags were raised
  std::vector<unsigned> slots;  // of a program with per_call_flags, where any was raised: flags by Program::flag_slots
  std::vector<int64_t> measured;  // by Program::measured, where the run is Done
};

struct FastCall;

struct PlanOptions {
  /// Steps that follow each other and need nothing of each other run beside each other, where they are too short to be
  /// split.
  bool beside = false;
  /// What a block of rows touches where steps in a row go by the same rows (band.h). A part of the second level of the
  /// cache.
  int64_t block_bytes = int64_t{256} << 10;
  int64_t resident = 0;      // the memory of a run that takes at most so many bytes is kept for the next one
  int threads = 0;           // at most so many; 0: as many as there are
  int64_t memory_limit = 0;  // bytes; a run that wants more is OutOfMemory; 0: none
};

class Plan {
 public:
  /// Puts the machine code into executable memory. The failure is a sentence for the log.
  static Expected<std::unique_ptr<Plan>, std::string> create(codegen::Program program, const PlanOptions& options = {});
  ~Plan();
  Plan(const Plan&) = delete;

  /// `params`: first element of each graph param (0-d params point to their value); `results`: memory for each
  /// Program::result_roots, of result_bytes(); `symbols`: values of the graph's symbols. Sticky flags are cleared
  /// before and left cleared after. What is measured is not looked at in `symbols`, and a result's memory has room for
  /// the most. Needs no GIL; `poll`, if given, is called now and then on long runs by the calling thread only and says
  /// whether to cancel. `watched`: flags for which a program with per_call_flags does not begin to write. `still`, of a
  /// program that writes params, is asked while these can be put back: false is Redo.
  RunResult run(std::span<char* const> params, std::span<char* const> results, std::span<const int64_t> symbols,
                bool (*poll)() = nullptr, unsigned watched = kReported, const std::function<bool()>& still = {}) const;

  /// Is a run one call of one kernel, whatever the arguments? Then run_short() does it with no bookkeeping, and gives
  /// the flags.
  bool is_short() const { return short_ != nullptr; }
  unsigned run_short(std::span<char* const> params, std::span<char* const> results) const;

  /// Would a run with these symbols give Redo before its first step?
  bool wants_redo(std::span<const int64_t> symbols) const;
  int64_t result_bytes(std::size_t result, std::span<const int64_t> symbols) const;
  /// Estimated single-thread nanoseconds, to decide about releasing the GIL.
  double cost(std::span<const int64_t> symbols) const;
  /// Of temporaries, which a run takes at its start.
  int64_t buffer_bytes(std::span<const int64_t> symbols) const;
  /// What it keeps between runs.
  int64_t resident_bytes() const;
  const codegen::Program& program() const;
  std::size_t code_bytes() const;

 private:
  struct Impl;
  explicit Plan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  const FastCall* short_ = nullptr;
};

}  // namespace framejit::runtime
