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
#include "ext/region/effects.h"
#include "ext/region/finalizers.h"
#include "ext/region/flag_warnings.h"
#include "ext/region/materialize.h"
#include "ext/region/references.h"
#include "ext/region/run_policy.h"

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
  RunPolicy& policy() { return policy_; }
  const RunPolicy& policy() const { return policy_; }
  /// The last time that it was OtherWay: the location of the branch.
  uint32_t other_way() const { return other_way_; }
  int64_t capture_ns = 0;
  bool all_forced = false;  // stress: each of its guards has failed once

  References& references() { return *references_; }
  const References& references() const { return *references_; }

  ~Entry();

 private:
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
  int size_class(const guards::Matched& m) const;
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
  Outcome given_up(const char* why);
  Outcome enter_loop(const capture::FrameView& frame, capture::FrameUpdate& update);
  capture::Ref<> prediction(const capture::FrameView& frame, const Workspace& w) const;

  // Declared so that what points into the region goes first.
  std::shared_ptr<const capture::Region> region_;
  Compiled compiled_;
  std::optional<Compiled> undoable_;  // beside an plan with flags per call, once a call had need of it
  CompileOptions options_;
  std::unique_ptr<guards::GuardProgram> guards_;
  std::unique_ptr<Materializer> materializer_;
  std::optional<Effects> effects_;
  std::optional<FinalizerCheck> finalizer_check_;
  std::unique_ptr<CompiledLoop> loop_;  // runs in place of the plan
  std::optional<References> references_;
  Sizes sizes_;
  bool always_short_ = false;  // no run is worth releasing the GIL for
  bool one_kernel_ = false;    // Plan::run_short does it
  bool writes_params_ = false;
  bool sees_warnings_ = false;    // the region may tell when a warning is given
  bool result_on_stack_ = false;  // a return instruction takes its value from there (RETURN_CONST takes none)
  bool asks_scipy_ = false;       // a function of scipy.special, and time to ask for its own errstate
  bool order_matters_ = false;    // a floating-point reduction: NumPy's buffer size has a say
  RunPolicy policy_;
  int64_t steps_ = 0;
  uint32_t other_way_ = 0;
};

}  // namespace framejit::ext::region
