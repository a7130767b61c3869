// Entry: one compiled region - its guards, its plan, and how its results come back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/region.h"
#include "ext/guards/guard_program.h"
#include "ext/region/comparison.h"
#include "ext/region/compile.h"
#include "ext/region/compiled_loop.h"
#include "ext/region/finalizers.h"
#include "ext/region/flag_warnings.h"
#include "ext/region/materialize.h"
#include "ext/region/references.h"

namespace framejit::ext::region {

enum class Outcome : uint8_t {
  Miss,      // a guard failed
  OtherWay,  // the guards hold, but a branch goes another way than the one that was recorded: nothing happened
  Declined,  // the guards hold, but this time the interpreter has to do it: nothing happened
  Done,
  Error,  // a Python exception is set; only where effects were half way committed and could not be taken back
};

class Entry {
 public:
  /// Optimizes and compiles the region's graph. The failure is a sentence. `live`: what it was captured from; guards
  /// that do not hold for it are an internal error.
  static Expected<std::shared_ptr<Entry>, std::string> make(std::shared_ptr<capture::Region> region,
                                                            const CompileOptions& options,
                                                            const guards::LiveSlots& live, int local_count);

  /// Runs a region that returns; `result` is a new reference.
  Outcome call(const guards::LiveSlots& live, PyObject*& result);
  /// Runs a region inside a frame; the update is filled in when Done, and with Error too.
  Outcome enter(const capture::FrameView& frame, capture::FrameUpdate& update);

  /// Runs a region without its effects, takes back what it wrote, and gives what would be at its exit: the record that
  /// framejit._reporting._verify.Prediction takes.
  Outcome predict(const capture::FrameView& frame, capture::Ref<>& record);

  /// The bool that a region gives, for what it was captured from; nothing where it cannot be computed. Takes back what
  /// it wrote.
  static std::optional<bool> truth(std::shared_ptr<capture::Region> region, const CompileOptions& options,
                                   const guards::LiveSlots& live, int local_count);

  /// What so many runs of the kernels take, with making and dropping what comes out, in nanoseconds; -1 where it does
  /// not run.
  int64_t time_kernels(const guards::LiveSlots& live, int64_t runs);

  std::optional<guards::GuardFailure> explain(const guards::LiveSlots& live) const { return guards_->explain(live); }
  guards::GuardFailure explain_forced(int guard, const guards::LiveSlots& live) const {
    return guards_->explain_forced(guard, live);
  }

  const capture::Region& region() const { return *region_; }
  const CompiledLoop* loop() const { return loop_.get(); }
  int64_t code_bytes() const {
    return static_cast<int64_t>(compiled_.plan->code_bytes() + (loop_ ? loop_->code_bytes() : 0));
  }
  const runtime::Plan& plan() const { return *compiled_.plan; }
  const Compiled& compiled() const { return compiled_; }
  const CompileOptions& options() const { return options_; }
  std::string graph_text() const;
  const std::vector<capture::Guard>& guards() const { return region_->guards; }
  int64_t hits() const { return hits_; }
  bool demoted() const { return streak_ >= kDemoteAfter; }
  /// Why the interpreter runs it, or will after some runs; "": it does not.
  const char* why_given_up() const { return unprofitable_ ? unprofitable_ : demoted() ? why_ : ""; }
  /// Is it left to the interpreter for good, which is faster?
  bool is_left() const { return unprofitable_ && demoted(); }
  /// A lower bound of the bytecode's time, by estimate, in nanoseconds.
  double least_bytecode() const { return least_bytecode_; }
  /// Whether the next run may be compared with the bytecode. Call it before the run; sampled() tells after the run if
  /// it was.
  bool is_compared() {
    sampled_ = nullptr;
    return hits_ + 1 >= compared_from_;
  }
  /// The comparison whose turn it was. Where it was the bytecode's, the run was Declined.
  Comparison* sampled() const { return sampled_; }
  /// A comparison has got another time.
  void judge();
  /// The last time that it was OtherWay: the location of the branch.
  uint32_t other_way() const { return other_way_; }
  int64_t capture_ns = 0;
  bool all_forced = false;  // stress: each of its guards has failed once

  References& references() { return *references_; }
  const References& references() const { return *references_; }

  ~Entry();

 private:
  static constexpr int kDemoteAfter = 4;  // consecutive runs that came to nothing
  static constexpr const char* kUnprofitable =
      "it is mostly calls of NumPy's functions, which plain Python makes sooner";
  static constexpr const char* kLeft = "its loop is left in the middle of nearly every round";
  static constexpr const char* kSlower = "it was measured to be slower than plain Python";
  static constexpr int kComparedFrom = 3, kMostCompared = 1024;  // runs
  static constexpr std::array<int64_t, 2> kComparedAgain = {1000, 100000};
  static constexpr int kManyLosses = 64,
                       kLookEvery =
                           16;  // runs in a row that the bytecode had because it is faster; then few are looked at
  static constexpr int kRetryEvery = 64;  // a demoted entry is tried again this often

  /// The memory of a run, in words: where its arrays begin, the first at 0.
  struct Sizes {
    uint32_t symbols = 0, params = 0, scalars = 0, cells = 0, roots = 0, results = 0, objects = 0, all = 0;
    uint32_t owned = 0;  // of references, from roots on
    Sizes() = default;
    Sizes(const guards::GuardProgram& g, const Materializer& m);
  };
  struct Scratch;
  class Run;
  Entry() = default;
  std::string link(const guards::LiveSlots& live, int local_count);
  bool rests();
  int size_class(const guards::Matched& m) const;
  bool takes_turn(const guards::Matched& m);
  std::unique_ptr<runtime::Undo> save(const guards::Matched& m) const;
  Outcome fits(guards::Matched& m);
  template <class HandOver>
  Outcome run(const guards::LiveSlots& live, bool in_frame, HandOver hand_over);
  /// `unsaid`: flags of a run that is done and has to warn, by slot of the plan.
  Outcome run_plan(Run& run, std::vector<unsigned>& unsaid, bool in_frame);
  bool still_fits(const guards::Matched& before, bool in_frame) const;
  /// May the plan with flags per call run, whose warnings come last?
  std::optional<WarningRules> rules_of_run(const Workspace& w, bool in_frame) const;
  const runtime::Plan* undoable();
  /// Gives the warnings of a run that is done.
  bool warn(const std::vector<unsigned>& unsaid) const;
  Outcome after_flags(runtime::Undo* undo);
  Outcome given_up(const char* reason);
  Outcome enter_loop(const capture::FrameView& frame, capture::FrameUpdate& update);
  capture::Ref<> prediction(const capture::FrameView& frame, const Workspace& w) const;

  // Declared so that what points into the region goes first.
  std::shared_ptr<capture::Region> region_;
  Compiled compiled_;
  std::optional<Compiled> undoable_;  // beside an plan with flags per call, once a call had need of it
  CompileOptions options_;
  std::unique_ptr<guards::GuardProgram> guards_;
  std::unique_ptr<Materializer> materializer_;
  std::optional<FinalizerCheck> finalizer_check_;
  std::unique_ptr<CompiledLoop> loop_;  // runs in place of the plan
  std::optional<References> references_;
  Sizes sizes_;
  bool always_short_ = false;  // no run is worth releasing the GIL for
  bool one_kernel_ = false;    // Plan::run_short does it
  bool writes_params_ = false;
  bool sees_warnings_ = false;          // the region may tell when a warning is given
  bool result_on_stack_ = false;        // a return instruction takes its value from there (RETURN_CONST takes none)
  const char* unprofitable_ = nullptr;  // why the interpreter is faster
  bool asks_scipy_ = false;             // a function of scipy.special, and time to ask for its own errstate
  bool order_matters_ = false;          // a floating-point reduction: NumPy's buffer size has a say
  int64_t hits_ = 0;
  int64_t steps_ = 0;
  int streak_ = 0, rest_ = 0;
  int losses_ = 0;
  const char* why_ = "";  // runs came to nothing, the last time
  uint32_t other_way_ = 0;
  double least_bytecode_ = 0;
  std::map<int, Comparison> comparisons_;  // by the size of the work
  Comparison* sampled_ = nullptr;
  int64_t compared_from_ = INT64_MAX, reopened_at_ = INT64_MAX;  // hits
};

}  // namespace framejit::ext::region
