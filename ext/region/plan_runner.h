// PlanRunner: runs the plan of a region - on which path, with which flags watched - and says what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/region.h"
#include "ext/region/compile.h"
#include "ext/region/flag_warnings.h"
#include "ext/region/run_conditions.h"
#include "ext/region/run_memory.h"
#include "ext/region/run_policy.h"

namespace framejit::ext::region {

enum class Outcome : uint8_t {
  Miss,      // a guard failed
  OtherWay,  // the guards hold, but a branch goes another way than the one that was recorded: nothing happened
  Declined,  // the guards hold, but this time the interpreter has to do it: nothing happened
  Done,
  Error,  // a Python exception is set; only where effects were half way committed and could not be taken back
};

class PlanRunner {
 public:
  /// The region and the policy outlive it. `sees_warnings`: the region may tell when a warning is given.
  PlanRunner(const capture::Region& region, Compiled compiled, const CompileOptions& options, RunPolicy& policy,
             bool sees_warnings);
  ~PlanRunner();
  PlanRunner(const PlanRunner&) = delete;

  /// Runs the plan in memory that is prepared: Done, or else Declined or OtherWay, and nothing happened.
  Outcome run(Run& of, const RunConditions& conditions);
  /// Gives the warnings of a run that is done. False: an exception is set.
  bool warn(const std::vector<unsigned>& unsaid) const { return unsaid.empty() || warn_of(unsaid); }
  /// Are NumPy's and SciPy's settings those that the plan was compiled for?
  bool fits_settings() const { return !(order_matters_ || asks_scipy_) || has_plain_settings(); }

  const runtime::Plan& plan() const { return *compiled_.plan; }
  const Compiled& compiled() const { return compiled_; }
  const CompileOptions& options() const { return options_; }
  bool asks_scipy() const { return asks_scipy_; }
  /// Are there arguments among what it writes?
  bool writes_params() const { return writes_params_; }
  /// The last time that it was OtherWay: the location of the branch.
  uint32_t other_way() const { return other_way_; }

 private:
  /// May the plan with flags per call run, whose warnings come last?
  std::optional<WarningRules> rules_of_run(const Run& of, const RunConditions& conditions) const;
  const runtime::Plan* undoable();
  bool warn_of(const std::vector<unsigned>& unsaid) const;
  bool has_plain_settings() const;
  Outcome after_flags(runtime::Undo* undo);
  Outcome given_up(const char* why);

  const capture::Region& region_;
  RunPolicy& policy_;
  Compiled compiled_;
  std::optional<Compiled> undoable_;  // beside a plan with flags per call, once a call had need of it
  CompileOptions options_;
  bool always_short_ = false;  // no run is worth releasing the GIL for
  bool one_kernel_ = false;    // Plan::run_short does it
  bool writes_params_ = false;
  bool sees_warnings_ = false;
  bool asks_scipy_ = false;     // a function of scipy.special, and time to ask for its own errstate
  bool order_matters_ = false;  // a floating-point reduction: NumPy's buffer size has a say
  int64_t steps_ = 0;
  uint32_t other_way_ = 0;
};

}  // namespace framejit::ext::region
