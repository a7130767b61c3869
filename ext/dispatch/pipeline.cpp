// The way from bytecode to an entry:
//
//     may_compile      is another entry wanted, and is there time for it?
//     capture_at       capture: a loop, a recursion or a region
//     is_worthwhile    does it save more than it costs?
//     Entry::make      region/: fold, optimize -> fuse -> lower -> plan (compile.cpp), link
#include <algorithm>
#include <utility>

#include "capture/loops/translator.h"
#include "capture/py/interpreter.h"
#include "capture/py/repr.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/numpy_implementation.h"
#include "ext/arrays/numpy_loops.h"
#include "ext/dispatch/callees.h"
#include "ext/dispatch/code_state.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/gain.h"
#include "ext/frontends/frontends.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/config.h"
#include "ext/region/profitability.h"
#include "ext/region/truth.h"
#include "graph/support/clock.h"
#include "graph/support/interrupt.h"
#include "runtime/trace.h"

namespace framejit::ext::dispatch {

using capture::Break;
using capture::FrameView;
using capture::Ref;
using guards::GuardFailure;
using module::Profitability;
using region::CompileOptions;
using region::Entry;

bool CodeState::estimates() const {
  return module::config().profitable_by != Profitability::Off && !settings_.fullgraph && !settings_.ignore_fp_flags &&
         !settings_.stress.any();
}

bool CodeState::compares() const {
  return module::config().profitable_by == Profitability::Measure && estimates() && settings_.plan.resident < INT64_MAX;
}

/// NumPy 1 has other types for its scalars beside Python numbers.
bool CodeState::compiles_loops() const {
  return !settings_.fullgraph && !settings_.ignore_fp_flags && arrays::numpy_version().major >= 2;
}

bool CodeState::may_compile(CompileSite& place, const guards::LiveSlots& live) {
  const int forced_guard = std::exchange(place.forced, -1);  // of the entry at the front
  if (place.exhausted || compiling_ || capture::is_finalizing()) return false;
  if (compares()) {
    CompileBudget& budget = of_function()->budget_;
    budget.charge([&place](const Entry& entry) { return entry.policy().is_left() || place.hardly_runs(entry); });
    if (budget.is_exceeded()) {
      if (!std::exchange(said_budget_, true)) note_breaks({break_at(capture::BreakId::CompileBudget, "", 0)});
      return false;
    }
    if (budget.is_spent_too_fast()) return false;
  }
  if (place.made == 0) return true;
  const uint64_t kinds = kinds_of(live);
  const auto failed = place.failed.find(kinds);
  if (failed != place.failed.end() && failed->second >= CompileSite::kMaxFailures) return false;
  const bool known = place.by_kinds.count(kinds) != 0;
  if (known && forced_guard < 0) place.lead(kinds);
  // Null: what the entries were made for has died.
  const std::shared_ptr<Entry> last = place.entries.empty() ? nullptr : place.entries.front();
  const bool forced = last && forced_guard >= 0 && static_cast<std::size_t>(forced_guard) < last->guards().size();
  const bool other_way = std::exchange(place.other_way, false);
  std::optional<GuardFailure> failure =
      forced ? last->explain_forced(forced_guard, live)
      : last ? last->explain(live)
             : GuardFailure{"what the entry was made for is alive", "true", "false", 0, {}, {}};
  if (!failure && other_way)
    failure = GuardFailure{"a branch goes as it was recorded", "true", "false", last->runner().other_way(), {}, {}};
  if (!failure) return false;  // it fits after all: the guard changed its mind between two looks
  if (followed_from_ == 0)     // or sizes that go down from call to call
    for (const std::string& varied : failure->varied) place.varied.names.insert(varied);
  if (module::stance == module::Stance::FailOnRecompile) {
    PyErr_Format(
        PyExc_RuntimeError,
        "framejit: %s() would be compiled again under the stance 'fail_on_recompile'. Guard that failed: %s (was "
        "%s, is %s)",
        name().c_str(), failure->guard.c_str(), failure->expected.c_str(), failure->found.c_str());
    return false;
  }
  const bool limit = !forced && place.is_at_limit(known || !last || other_way, retired_.entries);
  if (!limit) ++module::stats.recompiles;
  history_.add({*failure, place.made - 1, last.get(), limit}, code_);
  if (limit) place.at_limit = std::move(failure);
  if (forced) {
    --place.made;
    // Making the record may have started a garbage collection, which drops entries whose objects have died.
    const auto at = std::find(place.entries.begin(), place.entries.end(), last);
    if (at != place.entries.end()) retire(place, static_cast<std::size_t>(at - place.entries.begin()));
  }
  return !limit;
}

bool CodeState::is_hot_loop(const CompileSite& place, uint32_t head, const FrameView& frame) {
  return !estimates() || is_hot(*view(), head, frame, place.visits, keep_ == capture::CodeView::Keep::Code);
}

/// Is the site in a loop that is going to be compiled as a loop, once it has had more rounds?
bool CodeState::waits_for_loop(const CompileSite& place, uint32_t site, const FrameView& frame) {
  if (!compiles_loops()) return false;
  for (const uint32_t head : loops_.element_loops()) {
    if (head > site) break;
    if (loops_.bytecode_loops().count(head) || !sites_[head]) continue;
    if (head == site) return !is_hot_loop(place, site, frame);
    if (capture::is_loop_head(*view(), site)) continue;  // an inner loop
    if (sites_[head]->entries.empty() && !sites_[head]->exhausted && sites_[head]->failures == 0 &&
        site <= capture::last_of_nest(*view(), head))
      return true;
  }
  return false;
}

CodeState::Compiled CodeState::compile_at(CompileSite& place, uint32_t instr, const FrameView& frame, bool whole) {
  try {
    return compile_now(place, instr, frame, whole);
  } catch (const Interrupted&) {
    Compiled nothing;
    nothing.interrupted = true;
    return nothing;
  }
}

CodeState::Compiled CodeState::compile_now(CompileSite& place, uint32_t instr, const FrameView& frame, bool whole) {
  struct Flag {
    bool& flag;
    explicit Flag(bool& f) : flag(f) { flag = true; }
    ~Flag() { flag = false; }
  } compiling(compiling_);
  const std::shared_ptr<CodeState> function = of_function();
  const InterruptScope scope(capture::signal_pending);
  CompileBudget::Compilation compilation(function->budget_);
  // Which of two results comes must not be a matter of time: what is measured beside the bytecode gives its bits, at O1
  // too.
  const bool in_loop = !whole && estimates() && loop_around(*view(), instr).second > 0;
  place.in_loop = in_loop;
  // A whole call is captured from the first site on: if it breaks, its first part is that site's region.
  const uint32_t first = whole && place.varied.names.empty() ? first_site() : 0;
  if (first != 0) instr = first;
  capture::CaptureRequest request = capture_request(place, instr, frame, whole);
  request.options.o1 = settings_.o1 && !(in_loop && compares());

  const int64_t start = now_ns();
  capture::CaptureOutcome captured = capture_at(place, request, whole);
  const int64_t captured_ns = now_ns() - start;
  module::stats.compile_ns += captured_ns;
  module::stats.capture_steps += static_cast<int64_t>(captured.work);
  runtime::trace_span("capture", name(), start, start + captured_ns);

  const std::shared_ptr<capture::Region> region = captured.region;
  if (region && whole && region->returns) region->entry = 0;
  Compiled out;
  out.interrupted = captured.interrupted;
  out.breaks = std::move(captured.breaks);
  if (region) out.breaks.insert(out.breaks.end(), region->breaks.begin(), region->breaks.end());
  if (region && !is_worthwhile(*region, in_loop)) {
    out.unprofitable = true;
    out.breaks.assign(1, break_at(capture::BreakId::Unprofitable, "", instr));
  } else if (region && (!whole || region->returns || (first != 0 && !capture::may_recurse(request)))) {
    // A loop that comes by with other constants in each round uses none of its entries often.
    const double runs =
        in_loop && place.made > 0 ? std::min(region::kExpectedRuns, place.mean_hits()) : region::kExpectedRuns;
    const double expected = region::worth(*region, runs);
    const bool o1 = request.options.o1;
    const bool is_call = whole && region->returns;
    const CompileOptions options = compile_options(o1, (is_call || in_loop) && !o1);
    auto entry = Entry::make(region, options, frame, is_call ? module::argument_slots(code_) : frame.local_count);
    if (entry) {
      (*entry)->capture_ns = captured_ns;
      compilation.pays(*entry, expected, region::worth(*region, region::kSoonRuns));
      (whole && !is_call ? out.first_region : out.entry) = std::move(*entry);
    } else {
      out.breaks.push_back(break_at(capture::BreakId::LoweringFailed, entry.error(), instr));
    }
  }
  // The regions around a break will have the array work.
  if (!out.entry && !out.first_region)
    compilation.came_to_nothing(static_cast<int64_t>(captured.work), captured.array_work);
  note_breaks(out.breaks);
  note_callees(captured.reached);
  return out;
}

capture::CaptureRequest CodeState::capture_request(CompileSite& place, uint32_t instr, const FrameView& frame,
                                                   bool whole) {
  capture::CaptureRequest request;
  request.view = view();
  request.entry = instr;
  request.is_call = whole;
  request.frame = frame;
  request.varied = &place.varied;
  if (!settings_.fullgraph && !settings_.ignore_fp_flags) request.element_loops = &loops_.element_loops();
  request.bytecode_loops = &loops_.bytecode_loops();
  request.refused_loops = &loops_.refused_loops();
  request.frontends = frontends::frontends();
  capture::CaptureOptions& options = request.options;
  options.fullgraph = settings_.fullgraph;
  options.variants = static_cast<uint32_t>(place.churned + (place.made > 0));
  if (settings_.fullgraph || settings_.ignore_fp_flags) options.recursive_calls = UINT32_MAX;
  else if (depth_ < followed_from_) options.recursive_calls = 0;
  options.any_work =
      settings_.stress.rewrite || (settings_.ignore_fp_flags && whole);  // a gradient is made of the graph
  if (!settings_.fullgraph) options.break_every = settings_.stress.break_every;
  options.instruction_limit = static_cast<uint32_t>(std::min<int64_t>(module::config().instruction_limit, 1 << 30));
  options.idle_limit =
      static_cast<uint32_t>(of_function()->budget_.idle_limit(static_cast<int64_t>(options.idle_limit)));
  options.time_limit_ns = std::min<int64_t>(module::config().capture_time_limit, INT32_MAX) * 1'000'000;
  options.unwrap = unwrap_function;
  options.polyfill = module::polyfill_of;
  options.implementation = arrays::numpy_implementation;
  options.scalar_loop = arrays::scalar_loop;
  options.leave_alone = module::is_disabled;
  options.loops = compiles_loops();
  if (settings_.trace) {
    const int local_count = whole ? module::argument_slots(code_) : frame.local_count;
    options.decide = [this, frame, local_count](std::shared_ptr<capture::Region> region) {
      CompileOptions once;
      once.o1 = settings_.o1;
      once.o2 = settings_.o2;
      once.ignore_fp_flags = true;
      return region::truth(std::move(region), once, frame, local_count);
    };
  }
  return request;
}

/// Where a capture of a whole call begins so that its first part can be the region of the function's first site; 0: at
/// the start of the code, because the frame has cells by then or the site is a loop's head.
uint32_t CodeState::first_site() {
  if (settings_.fullgraph || settings_.ignore_fp_flags || settings_.trace || PyCode_GetNumFree(code_) > 0) return 0;
  const capture::CodeView& code = *view();
  for (int i = 0; i < code.local_count(); ++i)
    if (code.is_cell(i)) return 0;
  const std::span<const capture::Instr> instrs = code.instrs();
  uint32_t first = 1;
  while (first < instrs.size() && !is_function_start(code, first)) ++first;
  return first == instrs.size() || capture::is_loop_head(code, first) ? 0 : first;
}

/// As a loop where that can be, else as a recursion of numbers, else as a region.
capture::CaptureOutcome CodeState::capture_at(CompileSite& place, capture::CaptureRequest& request, bool whole) {
  const uint32_t instr = request.entry;
  capture::CaptureOutcome outcome;
  if (!whole && compiles_loops() && is_hot_loop(place, instr, request.frame) && !loops_.bytecode_loops().count(instr) &&
      capture::is_loop_head(*view(), instr)) {
    if (auto loop = capture::capture_loop(request)) {
      // The loop is compiled now: earlier breaks at its iterable or in its inner loops no longer hold.
      constexpr uint32_t kIterable = 4;  // instructions that a break at the iterable is in front of the head
      history_.forget(name(), instr - std::min(instr, kIterable), capture::last_of_nest(*view(), instr));
      outcome.region = std::move(*loop);
      return outcome;
    } else {
      loops_.cannot_compile(instr, loop.error().detail);
    }
  }
  if (!whole && compiles_loops() && is_function_start(*view(), instr) && capture::may_recurse(request))
    if (auto recursion = capture::capture_recursion(request)) {
      outcome.region = std::move(*recursion);
      return outcome;
    }
  outcome = capture::capture(request);
  if (request.options.recursive_calls > 0 && outcome.unfinished_levels > 0) {
    followed_from_ = depth_ + static_cast<int>(outcome.unfinished_levels);
    request.options.recursive_calls = 0;
    const uint64_t work = outcome.work;
    outcome = capture::capture(request);
    outcome.work += work;
  }
  if (settings_.o1 && !request.options.o1 && outcome.region && region::gains_much(*outcome.region)) {
    request.options.o1 = true;
    outcome = capture::capture(request);
  }
  return outcome;
}

bool CodeState::is_worthwhile(const capture::Region& region, bool in_loop) {
  if (region.loop || !estimates()) return true;
  if (!region::is_worth_compiling(region)) {
    loops_.end_captures_at_all(*view());
    return false;
  }
  const bool lost_before = of_function()->elements_lost_ && region::works_on_elements(region);
  return !in_loop || (!lost_before && region::is_worth_entering(region));
}

CompileOptions CodeState::compile_options(bool o1, bool is_compared) const {
  CompileOptions options;
  options.o1 = o1;
  options.o2 = settings_.o2 && o1;
  options.ignore_fp_flags = settings_.ignore_fp_flags;
  options.interp = settings_.stress.interp;
  options.losing = settings_.stress.losing || module::config().profitable_by == Profitability::Off;
  options.compared = compares() && is_compared;
  options.constant_parameters = settings_.constant_parameters;
  options.keep_layouts = settings_.keep_layouts;
  options.order = settings_.order;
  options.plan = settings_.plan;
  options.listing = module::events_on(module::Channel::Asm) || module::events_on(module::Channel::Kernels);
  return options;
}

Break CodeState::break_at(capture::BreakId id, std::string detail, uint32_t instr) {
  Break b{id, std::move(detail)};
  b.instr = instr;
  b.function = name();
  b.file = capture::text_of(code_->co_filename);
  const int line = view()->instrs()[instr].line;
  b.line = line > 0 ? line : code_->co_firstlineno;  // what sets a frame up has no line
  return b;
}

void CodeState::note_breaks(const std::vector<Break>& breaks) {
  for (Break b : breaks) {
    if (b.before_loop) continue;
    const std::string* reason = b.id == capture::BreakId::ElementLoop ? loops_.reason(b.instr) : nullptr;
    if (reason) b.detail = *reason;
    history_.add(b, settings_);
  }
}

void CodeState::note_callees(const std::vector<Ref<PyCodeObject>>& reached) {
  const std::shared_ptr<CodeState> owner = function_id_ ? shared_from_this() : owner_.lock();
  if (!owner || reached.empty()) return;
  if (!owner->callees_) owner->callees_ = std::make_unique<CalleeRegistry>();
  for (const Ref<PyCodeObject>& code : reached) owner->callees_->add(code.get(), owner);
  if (capture::ActiveFunctionScope::id() == owner->function_id_ && owner->has_callees())
    capture::ActiveFunctionScope::request_hook();
}

}  // namespace framejit::ext::dispatch
