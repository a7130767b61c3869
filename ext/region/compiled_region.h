// Entry: one compiled region - its guards, its plan, and how its results come back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/region.h"
#include "ext/guards/guard_program.h"
#include "ext/region/compile.h"
#include "ext/region/compiled_loop.h"
#include "ext/region/effects.h"
#include "ext/region/materialize.h"
#include "ext/region/plan_runner.h"
#include "ext/region/references.h"
#include "ext/region/run_conditions.h"
#include "ext/region/run_policy.h"

namespace framejit::ext::region {

class Entry {
 public:
  /// Optimizes and compiles the region's graph. The failure is a sentence. `live`: what it was captured from; guards
  /// that do not hold for it are an internal error.
  static Expected<std::shared_ptr<Entry>, std::string> make(std::shared_ptr<capture::Region> region,
                                                            const CompileOptions& options,
                                                            const guards::LiveSlots& live, int local_count);

  /// Makes an entry of a region that another process has compiled. It fails if a guard does not hold for `live`.
  static Expected<std::shared_ptr<Entry>, std::string> make_stored(std::shared_ptr<capture::Region> region,
                                                                   Compiled compiled, const CompileOptions& options,
                                                                   const guards::LiveSlots& live, int local_count);

  /// Runs a region that returns; `result` is a new reference.
  Outcome call(const guards::LiveSlots& live, PyObject*& result);
  /// Runs a region inside a frame; the update is filled in when Done, and with Error too.
  Outcome enter(const capture::FrameView& frame, capture::FrameUpdate& update);

  /// Runs a region without its effects, and takes back what it wrote. `use` sees what came out, where it is Done. A run
  /// that has to warn is Declined.
  Outcome try_out(const guards::LiveSlots& live, bool in_frame, const std::function<void(const Workspace&)>& use);

  /// What so many runs of the kernels take, with making and dropping what comes out, in nanoseconds; -1 where it does
  /// not run.
  int64_t time_kernels(const guards::LiveSlots& live, int64_t runs);

  std::optional<guards::GuardFailure> explain(const guards::LiveSlots& live) const { return guards_->explain(live); }
  guards::GuardFailure explain_forced(int guard, const guards::LiveSlots& live) const {
    return guards_->explain_forced(guard, live);
  }

  const capture::Region& region() const { return *region_; }
  const CompiledLoop* loop() const { return loop_.get(); }
  int64_t code_bytes() const { return static_cast<int64_t>(plan().code_bytes() + (loop_ ? loop_->code_bytes() : 0)); }
  const PlanRunner& runner() const { return *runner_; }
  const runtime::Plan& plan() const { return runner_->plan(); }
  const guards::GuardProgram& guard_program() const { return *guards_; }
  std::string graph_text(bool located = false) const;  // with the lines of the program
  const std::vector<capture::Guard>& guards() const { return region_->guards; }
  RunPolicy& policy() { return policy_; }
  const RunPolicy& policy() const { return policy_; }
  /// Are its results within the bounds of O1, instead of the bytecode's?
  bool is_at_o1() const { return at_o1_; }
  int64_t capture_ns = 0;
  /// A capture of the same loop would be faster: no frame fits any more.
  bool is_outdated() const { return outdated_by_ != nullptr; }
  /// The assumption of the capture that no longer holds, as a sentence for reports; null: all hold.
  const char* outdated_by() const { return outdated_by_; }
  bool all_forced = false;  // stress: each of its guards has failed once

  References& references() { return *references_; }
  const References& references() const { return *references_; }

 private:
  Entry() = default;
  std::string link(std::shared_ptr<capture::Region> region, Compiled compiled, const CompileOptions& options,
                   int local_count);
  Outcome fits(guards::Matched& m);
  Outcome run_shown(const guards::LiveSlots& live, Run& run);
  template <class HandOver>
  Outcome run(const guards::LiveSlots& live, bool in_frame, HandOver hand_over);
  Outcome enter_loop(const capture::FrameView& frame, capture::FrameUpdate& update);

  // Declared so that what points into the region goes first.
  std::shared_ptr<const capture::Region> region_;
  RunPolicy policy_;
  const char* outdated_by_ = nullptr;
  std::optional<PlanRunner> runner_;
  std::unique_ptr<guards::GuardProgram> guards_;
  std::unique_ptr<Materializer> materializer_;
  std::optional<Effects> effects_;
  std::optional<RunConditions> conditions_;
  std::unique_ptr<CompiledLoop> loop_;  // runs in place of the plan
  std::optional<References> references_;
  bool result_on_stack_ = false, at_o1_ = false;
  const PyObject* shown_for_ = nullptr;  // compared, never followed: the user's code may own this entry
  capture::Ref<PyCodeObject> shown_code_;
  bool draws_ = false;  // from generators: a run that comes to nothing takes them back
};

/// Does a return instruction take the region's result from the stack (RETURN_CONST takes none)?
bool has_result_on_stack(const capture::Region& region);

}  // namespace framejit::ext::region
