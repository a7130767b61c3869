// Which way a plan runs, and what its end means.
#include "ext/region/plan_runner.h"

#include <functional>
#include <span>
#include <utility>

#include "capture/py/interpreter.h"
#include "capture/py/until_exit.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/promotion.h"
#include "ext/module/stats.h"
#include "ext/module/tape_hook.h"
#include "ext/region/interpreted.h"
#include "runtime/allocator.h"
#include "runtime/trace.h"

namespace framejit::ext::region {

namespace {

/// Called now and then during long runs, by the thread that started them, without the GIL. A signal cancels the run;
/// the interpreter, which then executes the bytecode, runs its handler. A GIL request of another thread is no reason to
/// stop.
bool poll_signals() { return capture::signal_pending(); }

}  // namespace

PlanRunner::PlanRunner(const capture::Region& region, Compiled compiled, const CompileOptions& options,
                       RunPolicy& policy, bool sees_warnings)
    : region_(region),
      policy_(policy),
      compiled_(std::move(compiled)),
      options_(options),
      sees_warnings_(sees_warnings),
      steps_(static_cast<int64_t>(plan().program().steps.size())) {
  const graph::Graph& graph = *region.graph;
  always_short_ = graph.shapes().symbol_count() == 0 && plan().cost({}) < kReleaseAbove;
  one_kernel_ = plan().is_short() && always_short_ && !options.interp;
  writes_params_ = !graph::written_roots(graph, graph.body()).empty();
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    asks_scipy_ = asks_scipy_ || (arrays::is_of_scipy(node.op) && !one_kernel_ && !options.ignore_fp_flags);
    order_matters_ = order_matters_ || ((node.op == graph::Op::ReduceSum || node.op == graph::Op::ReduceProd) &&
                                        (graph::is_float(node.type.dtype) || graph::is_complex(node.type.dtype)));
  });
}

PlanRunner::~PlanRunner() {
  module::stats.code_bytes -= static_cast<int64_t>(compiled_.plan->code_bytes());
  if (undoable_ && undoable_->plan) module::stats.code_bytes -= static_cast<int64_t>(undoable_->plan->code_bytes());
}

bool PlanRunner::has_plain_settings() const {
  if (order_matters_ && arrays::ErrState::current().buffer_size() != NPY_BUFSIZE) return false;
  return !asks_scipy_ || arrays::scipy_is_silent();
}

Outcome PlanRunner::after_flags(runtime::Undo* undo) {
  if (undo) undo->rollback();
  return given_up("its operations kept raising floating-point flags, of which only NumPy can warn");
}

Outcome PlanRunner::given_up(const char* why) {
  policy_.came_to_nothing(why);
  return Outcome::Declined;
}

/// Null where it cannot be made.
const runtime::Plan* PlanRunner::undoable() {
  if (!undoable_) {
    auto made = compile_undoable(*region_.graph, options_);
    undoable_ = made ? std::move(*made) : Compiled{};
  }
  return undoable_->plan.get();
}

bool PlanRunner::warn_of(const std::vector<unsigned>& unsaid) const {
  return warn_of_flags(*region_.graph, region_.origins, plan().program().flag_slots, unsaid);
}

std::optional<WarningRules> PlanRunner::rules_of_run(const Run& of, const RunConditions& conditions) const {
  if (sees_warnings_) return std::nullopt;
  std::optional<WarningRules> rules = warning_rules();
  if (!rules || rules->watched == 0) return rules;
  if (rules->log ? conditions.guards.sees(*of.workspace.matched, rules->log) : of.in_frame && !stderr_takes_warnings())
    return std::nullopt;
  return rules;
}

namespace {

/// Before other threads may run: they may rebind what holds the objects, of which results are made afterwards too.
void hold_objects(Run& of, const guards::GuardProgram& guards) {
  of.others_ran = true;
  for (std::size_t i = 0; i < guards.slot_count(); ++i) of.trash.push_back(Py_XNewRef(of.workspace.matched->slots[i]));
}

}  // namespace

Outcome PlanRunner::run(Run& of, const RunConditions& conditions) {
  Workspace& w = of.workspace;
  const guards::GuardProgram& guards = conditions.guards;
  const std::span<char* const> params(w.matched->params, guards.input_count());
  const std::span<char* const> results(w.results, of.root_count());
  if (one_kernel_ && !runtime::tracing.load(std::memory_order_relaxed)) [[likely]] {
    ++module::stats.kernel_calls;
    if (const unsigned flags = plan().run_short(params, results);
        flags && !options_.ignore_fp_flags && !arrays::all_ignored(flags)) [[unlikely]]
      return after_flags(nullptr);
    policy_.ran_kernel();
    return Outcome::Done;
  }
  const std::span<const int64_t> symbols(w.matched->symbols, guards.symbol_count());
  const runtime::TraceSpan span("run", region_.function);
  runtime::RunResult done;
  if (compiled_.calls_python) hold_objects(of, guards);
  std::function<bool()> still;
  if (of.others_ran && writes_params_ && !region_.effects.empty())
    still = [&] { return conditions.still_hold(*w.matched, of.in_frame); };
  std::optional<arrays::ScopedErrState> quiet;  // what the library's functions would raise for
  if (options_.ignore_fp_flags && compiled_.library_calls) quiet.emplace(0);
  bool interpreted = options_.interp;
  if (interpreted) [[unlikely]] {
    done = run_interpreted(*region_.graph, plan(), params, results, symbols);
    // Python's interpreter does not have the gradient of one call, and of a function only what a tape follows.
    const bool needed = module::force_compiled || !region_.graph->gradient_starts().empty();
    interpreted = done.status != runtime::RunStatus::Bailout || !needed;
  }
  if (interpreted) [[unlikely]] {
    // It has run.
  } else if (compiled_.per_call_flags()) {
    if (const std::optional<WarningRules> rules = rules_of_run(of, conditions)) [[likely]] {
      done = plan().run(params, results, symbols, nullptr, rules->watched, still);
      for (unsigned& raised : done.slots) raised &= rules->watched;
      of.unsaid = std::move(done.slots);
    } else if (const runtime::Plan* other = undoable()) {
      done = other->run(params, results, symbols, nullptr, runtime::kReported, still);
    } else {
      return Outcome::Declined;
    }
  } else if (always_short_ || writes_params_ || plan().cost(symbols) < kReleaseAbove) {
    done = plan().run(params, results, symbols, always_short_ ? nullptr : poll_signals, runtime::kReported, still);
  } else {
    if (!of.others_ran) hold_objects(of, guards);
    struct Release {
      PyThreadState* state = PyEval_SaveThread();
      ~Release() {
        capture::py::until_exit([&] { PyEval_RestoreThread(state); });
      }
    } release;
    done = plan().run(params, results, symbols, poll_signals);
  }
  if (!interpreted) {
    module::stats.kernel_calls += steps_;
    module::stats.library_calls += compiled_.library_calls;
  }
  switch (done.status) {
    case runtime::RunStatus::Done: break;
    case runtime::RunStatus::OutOfMemory: runtime::trim(); return Outcome::Declined;
    case runtime::RunStatus::Interrupted: return Outcome::Declined;
    case runtime::RunStatus::Bailout: return given_up("a condition that it was compiled for kept failing");
    case runtime::RunStatus::SpeculationFailed: other_way_ = done.location; return Outcome::OtherWay;
    case runtime::RunStatus::Flagged: return after_flags(done.undo.get());
  }
  for (std::size_t i = 0; i < done.measured.size(); ++i)
    w.matched->symbols[static_cast<std::size_t>(plan().program().measured[i].symbol)] = done.measured[i];
  if (done.flags && !options_.ignore_fp_flags && !arrays::all_ignored(done.flags)) [[unlikely]]
    return after_flags(done.undo.get());
  policy_.succeeded();
  return Outcome::Done;
}

}  // namespace framejit::ext::region
