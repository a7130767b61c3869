// Capturing and compiling.
#include "ext/dispatch/pipeline.h"

#include <algorithm>
#include <utility>

#include "capture/loops/translator.h"
#include "capture/py/interpreter.h"
#include "capture/py/repr.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/numpy_implementation.h"
#include "ext/arrays/numpy_loops.h"
#include "ext/dispatch/callees.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/progress.h"
#include "ext/dispatch/stored_captures.h"
#include "ext/frontends/frontends.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/config.h"
#include "ext/module/explained.h"
#include "ext/module/kernel_store.h"
#include "ext/region/grouped_products.h"
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

namespace {

Break break_at(CodeState& state, capture::BreakId id, std::string detail, uint32_t instr) {
  Break b{id, std::move(detail)};
  b.instr = instr;
  b.function = state.name();
  b.file = capture::text_of(state.code()->co_filename);
  const int line = state.view()->instrs()[instr].line;
  b.line = line > 0 ? line : state.code()->co_firstlineno;  // what sets a frame up has no line
  return b;
}

/// The line of the program's code that led to the break, or else the line where the code is called that is captured.
CallSite user_line(CodeState& state, const Break& b) {
  const PyCodeObject* code = state.code();
  CallSite here{capture::text_of(code->co_qualname), capture::text_of(code->co_filename),
                state.view()->instrs()[b.instr].line};
  return state.called_from.line > 0 && is_library_file(here.file) ? state.called_from : here;
}

void note_breaks(CodeState& state, const std::vector<Break>& breaks) {
  for (Break b : breaks) {
    if (b.before_loop) continue;
    const std::string* reason = b.id == capture::BreakId::ElementLoop ? state.loops.reason(b.instr) : nullptr;
    if (reason) b.detail = *reason;
    CallSite called_from = is_library_file(b.file) ? user_line(state, b) : CallSite{};
    if (is_library_file(called_from.file)) called_from = {};
    state.history.add({std::move(b), std::move(called_from)}, state.settings());
  }
}

/// The loop at this instruction is compiled now: earlier breaks at its iterable or in its inner loops no longer hold.
void forget_breaks(CodeState& state, uint32_t loop) {
  constexpr uint32_t kIterable = 4;  // instructions that a break at the iterable is in front of the head
  state.history.forget(state.name(), loop - std::min(loop, kIterable), state.view()->last_of_nest(loop));
}

void note_callees(CodeState& state, const std::vector<Ref<PyCodeObject>>& reached, const std::vector<Break>& breaks) {
  const std::shared_ptr<CodeState> owner = state.function_id ? state.shared_from_this() : state.owner.lock();
  if (!owner || reached.empty()) return;
  if (!owner->callees) owner->callees = std::make_unique<CalleeRegistry>();
  const CallSite from = breaks.empty() ? CallSite{} : user_line(state, breaks.front());
  for (const Ref<PyCodeObject>& code : reached) owner->callees->add(code.get(), owner, from);
  if (capture::ActiveFunctionScope::id() == owner->function_id && owner->has_callees())
    capture::ActiveFunctionScope::request_hook();
}

bool is_hot_loop(CodeState& state, const CompileSite& place, uint32_t head, const FrameView& frame) {
  return !state.estimates() || is_hot(*state.view(), head, frame, place.visits, state.is_marked());
}

/// Where a capture of a whole call begins so that its first part can be the region of the function's first site; 0: at
/// the start of the code, because the frame has cells by then or the site is a loop's head.
uint32_t first_site(CodeState& state) {
  const JitSettings& settings = state.settings();
  if (settings.fullgraph || settings.ignore_fp_flags || settings.trace || PyCode_GetNumFree(state.code()) > 0) return 0;
  const capture::CodeView& code = *state.view();
  for (int i = 0; i < code.local_count(); ++i)
    if (code.is_cell(i)) return 0;
  const std::span<const capture::Instr> instrs = code.instrs();
  uint32_t first = 1;
  while (first < instrs.size() && !is_function_start(code, first)) ++first;
  return first == instrs.size() || code.is_loop_head(first) ? 0 : first;
}

capture::CaptureRequest capture_request(CodeState& state, CompileSite& place, uint32_t instr, const FrameView& frame,
                                        bool whole) {
  const JitSettings& settings = state.settings();
  capture::CaptureRequest request;
  request.view = state.view();
  request.entry = instr;
  request.is_call = whole;
  request.frame = frame;
  request.varied = &place.varied;
  if (!settings.fullgraph && !settings.ignore_fp_flags) request.element_loops = &state.loops.element_loops();
  request.bytecode_loops = &state.loops.bytecode_loops();
  request.refused_loops = &state.loops.refused_loops();
  request.frontends = frontends::frontends();
  capture::CaptureOptions& options = request.options;
  options.fullgraph = settings.fullgraph;
  options.variants = static_cast<uint32_t>(place.churned + (place.made > 0));
  if (settings.fullgraph || settings.ignore_fp_flags) options.recursive_calls = UINT32_MAX;
  else if (state.depth < state.captures.followed_from) options.recursive_calls = 0;
  options.any_work = settings.stress.rewrite || (settings.ignore_fp_flags && whole);  // a gradient is made of the graph
  if (!settings.fullgraph) options.break_every = settings.stress.break_every;
  options.instruction_limit = static_cast<uint32_t>(std::min<int64_t>(module::config().instruction_limit, 1 << 30));
  options.idle_limit =
      static_cast<uint32_t>(state.function()->budget.idle_limit(static_cast<int64_t>(options.idle_limit)));
  options.time_limit_ns = std::min<int64_t>(module::config().capture_time_limit, INT32_MAX) * 1'000'000;
  options.unwrap = unwrap_function;
  options.explained = module::explained_function;
  options.polyfill = module::polyfill_of;
  options.implementation = arrays::numpy_implementation;
  options.scalar_loop = arrays::scalar_loop;
  options.array_loop = arrays::array_loop;
  options.ignores_flags = arrays::all_ignored;
  options.vector_dot = arrays::vector_dot();
  if (settings.o1) options.grouped_product = region::grouped_product;
  options.make_scalar = arrays::make_scalar;
  options.leave_alone = module::is_disabled;
  options.loops = state.compiles_loops();
  if (settings.trace) {
    const int local_count = whole ? module::argument_slots(state.code()) : frame.local_count;
    options.decide = [&state, frame, local_count](std::shared_ptr<capture::Region> region) {
      CompileOptions once;
      once.o1 = state.settings().o1;
      once.o2 = state.settings().o2;
      once.ignore_fp_flags = true;
      return region::truth(std::move(region), once, frame, local_count);
    };
  }
  return request;
}

/// As a loop where that can be, else as a recursion of numbers, else as a region.
capture::CaptureOutcome capture_at(CodeState& state, CompileSite& place, capture::CaptureRequest& request, bool whole) {
  const uint32_t instr = request.entry;
  request.findings = state.loops.findings(instr);
  capture::CaptureOutcome outcome;
  if (!whole && state.compiles_loops() && is_hot_loop(state, place, instr, request.frame) &&
      !state.loops.bytecode_loops().count(instr) && state.view()->begins_nest(instr)) {
    if (auto loop = capture::capture_loop(request)) {
      forget_breaks(state, instr);
      outcome.region = std::move(*loop);
      return outcome;
    } else {
      state.loops.cannot_compile(instr, loop.error().detail);
    }
  }
  // Its iterator exists already, and capture goes over iterators only that it has made.
  if (!whole && state.view()->calls_comprehension(instr)) return outcome;
  if (!whole && state.compiles_loops() && is_function_start(*state.view(), instr) && capture::may_recurse(request))
    if (auto recursion = capture::capture_recursion(request)) {
      outcome.region = std::move(*recursion);
      return outcome;
    }
  outcome = capture::capture(request);
  if (request.options.recursive_calls > 0 && outcome.unfinished_levels > 0) {
    state.captures.followed_from = state.depth + static_cast<int>(outcome.unfinished_levels);
    request.options.recursive_calls = 0;
    const uint64_t work = outcome.work;
    outcome = capture::capture(request);
    outcome.work += work;
  }
  if (state.settings().o1 && !request.options.o1 && outcome.region && region::gains_much(*outcome.region)) {
    request.options.o1 = true;
    outcome = capture::capture(request);
  }
  return outcome;
}

bool is_worthwhile(CodeState& state, const capture::Region& region, bool in_loop) {
  if (region.loop || !state.estimates()) return true;
  if (!region::is_worth_compiling(region)) {
    state.loops.end_captures_at_all(*state.view());
    return false;
  }
  const bool lost_before = state.function()->captures.elements_lost && region::works_on_elements(region);
  return !in_loop || (!lost_before && region::is_worth_entering(region));
}

CompileOptions compile_options(const CodeState& state, bool o1, bool is_compared) {
  const JitSettings& settings = state.settings();
  CompileOptions options;
  options.o1 = o1;
  options.loops_at_o1 = settings.o1;
  options.o2 = settings.o2 && o1;
  options.ignore_fp_flags = settings.ignore_fp_flags;
  options.interp = settings.stress.interp;
  options.losing = settings.stress.losing || module::config().profitable_by == Profitability::Off;
  options.compared = state.compares() && is_compared;
  options.constant_parameters = settings.constant_parameters;
  options.cached = settings.cached;
  options.keep_layouts = settings.keep_layouts;
  options.order = settings.order;
  options.plan = settings.plan;
  options.listing = module::events_on(module::Channel::Asm) || module::events_on(module::Channel::Kernels);
  return options;
}

/// Takes what another process has captured.
CompileResult take_stored(CodeState& state, StoredOutcome found, bool whole, CompileBudget::Compilation& compilation,
                          int64_t start) {
  CompileResult out;
  out.breaks = std::move(found.breaks);
  const int64_t took = now_ns() - start;
  module::stats.compile_ns += took;
  runtime::trace_span("stored capture", state.name(), start, start + took);
  if (found.entry) {
    found.entry->capture_ns = took;
    compilation.pays(found.entry, found.worth, found.worth_soon);
    const capture::Region& region = found.entry->region();
    if (region.loop) forget_breaks(state, region.entry);
    (whole && !region.returns ? out.first_region : out.entry) = std::move(found.entry);
  } else {
    compilation.came_to_nothing(static_cast<int64_t>(found.work), found.array_work);
  }
  note_breaks(state, out.breaks);
  return out;
}

/// May another process rely on it? That nothing was compiled has no guards: it is kept only of what is in front of a
/// loop, which has sites of its own.
bool may_be_stored(const CodeState& state, bool whole, const capture::CaptureOutcome& captured,
                   const CompileResult& out) {
  if (captured.interrupted || out.unprofitable || !captured.reached.empty()) return false;
  if (out.entry || out.first_region) return out.entry || !state.settings().fullgraph;
  const bool is_before_loop =
      std::all_of(out.breaks.begin(), out.breaks.end(), [](const Break& b) { return b.before_loop; });
  return is_before_loop && !state.settings().fullgraph && !(whole && out.breaks.empty());
}

CompileResult compile_now(CodeState& state, CompileSite& place, uint32_t instr, const FrameView& frame, bool whole) {
  struct Flag {
    bool& flag;
    explicit Flag(bool& f) : flag(f) { flag = true; }
    ~Flag() { flag = false; }
  } compiling(state.captures.is_running);
  const std::shared_ptr<CodeState> function = state.function();
  const ProgressScope progress(*function);
  const InterruptScope scope(poll_compilation);
  CompileBudget::Compilation compilation(function->budget);
  // Which of two results comes must not be a matter of time: what is measured beside the bytecode gives its bits, at O1
  // too.
  const bool in_loop = !whole && state.estimates() && loop_around(*state.view(), instr).second > 0;
  place.in_loop = in_loop;
  // A whole call is captured from the first site on: if it breaks, its first part is that site's region.
  const uint32_t first = whole && place.varied.names.empty() ? first_site(state) : 0;
  if (first != 0) instr = first;
  capture::CaptureRequest request = capture_request(state, place, instr, frame, whole);
  request.options.o1 = state.settings().o1 && !(in_loop && state.compares());

  const int64_t start = now_ns();
  const bool was_o1 = request.options.o1;
  const auto options_of = [&](bool is_call) {
    return compile_options(state, request.options.o1, (is_call || in_loop) && !request.options.o1);
  };
  if (whole && !state.stored) state.stored = StoredCaptures::open(state, place, frame);
  std::shared_ptr<StoredCaptures> stored;  // held: code of the program may run meanwhile
  if (state.stored && StoredCaptures::covers(state, place)) stored = state.stored;
  const int32_t stored_at = whole ? StoredCaptures::kWhole : static_cast<int32_t>(instr);
  if (stored)
    if (std::optional<StoredOutcome> found = stored->find(state, stored_at, frame, options_of))
      return take_stored(state, std::move(*found), whole, compilation, start);
  capture::CaptureOutcome captured = capture_at(state, place, request, whole);
  const int64_t captured_ns = now_ns() - start;
  module::stats.compile_ns += captured_ns;
  module::stats.capture_steps += static_cast<int64_t>(captured.work);
  runtime::trace_span("capture", state.name(), start, start + captured_ns);

  const std::shared_ptr<capture::Region> region = captured.region;
  if (region && whole && region->returns) region->entry = 0;
  CompileResult out;
  StoredOutcome outcome;
  out.interrupted = captured.interrupted;
  out.returned = captured.returned;
  out.breaks = std::move(captured.breaks);
  if (region) out.breaks.insert(out.breaks.end(), region->breaks.begin(), region->breaks.end());
  if (region && !is_worthwhile(state, *region, in_loop)) {
    out.unprofitable = true;
    out.breaks.assign(1, break_at(state, capture::BreakId::Unprofitable, "", instr));
  } else if (region && (!whole || region->returns || (first != 0 && !capture::may_recurse(request)))) {
    // A loop that comes by with other constants in each round uses none of its entries often.
    const double runs =
        in_loop && place.made > 0 ? std::min(region::kExpectedRuns, place.mean_hits()) : region::kExpectedRuns;
    const double expected = region::worth(*region, runs);
    const bool is_call = whole && region->returns;
    const CompileOptions options = options_of(is_call);
    auto entry =
        Entry::make(region, options, frame, is_call ? module::argument_slots(state.code()) : frame.local_count);
    if (entry) {
      (*entry)->capture_ns = captured_ns;
      outcome.worth = expected;
      outcome.worth_soon = region::worth(*region, region::kSoonRuns);
      outcome.entry = *entry;
      compilation.pays(*entry, outcome.worth, outcome.worth_soon);
      (whole && !is_call ? out.first_region : out.entry) = std::move(*entry);
    } else {
      out.breaks.push_back(break_at(state, capture::BreakId::LoweringFailed, entry.error(), instr));
    }
  }
  if (stored && may_be_stored(state, whole, captured, out) && request.options.o1 == was_o1) {
    outcome.breaks = out.breaks;
    outcome.work = captured.work;
    outcome.array_work = captured.array_work;
    stored->add(state, stored_at, frame, outcome);
  }
  // The regions around a break will have the array work.
  if (!out.entry && !out.first_region)
    compilation.came_to_nothing(static_cast<int64_t>(captured.work), captured.array_work);
  note_breaks(state, out.breaks);
  note_callees(state, captured.reached, out.breaks);
  if (const std::string complaint = module::take_store_complaint(); !complaint.empty()) warn_performance(complaint);
  return out;
}

/// Has as much of the function's time gone into compiling as may? Says so once.
bool is_out_of_time(CodeState& state) {
  CompileBudget& budget = state.function()->budget;
  if (!budget.is_exceeded()) return budget.is_spent_too_fast();
  if (!std::exchange(state.captures.said_budget, true))
    note_breaks(state, {break_at(state, capture::BreakId::CompileBudget, "", 0)});
  return true;
}

}  // namespace

bool may_compile(CodeState& state, CompileSite& place, const guards::LiveSlots& live) {
  const int forced_guard = std::exchange(place.forced, -1);  // of the entry at the front
  if (place.exhausted || state.captures.is_running || capture::is_finalizing()) return false;
  if (state.compares() && is_out_of_time(state)) return false;
  const uint64_t kinds = place.made == 0 ? 0 : kinds_of(live);
  const auto failed = place.failed.find(kinds);
  if (place.made != 0 && failed != place.failed.end() && failed->second >= CompileSite::kMaxFailures) return false;
  if (state.compares()) {
    state.function()->budget.charge(
        [&place](const Entry& entry) { return entry.policy().is_left() || place.hardly_runs(entry); });
    if (is_out_of_time(state)) return false;
  }
  if (place.made == 0) return true;
  const bool known = place.by_kinds.count(kinds) != 0;
  if (known && forced_guard < 0) place.lead(kinds);
  // Null: what the entries were made for has died.
  const std::shared_ptr<Entry> last = place.entries.empty() ? nullptr : place.entries.front();
  const bool forced = last && forced_guard >= 0 && static_cast<std::size_t>(forced_guard) < last->guards().size();
  const bool other_way = std::exchange(place.other_way, false);
  const auto outdated =
      std::find_if(place.entries.begin(), place.entries.end(), [](const auto& e) { return e->is_outdated(); });
  const bool replaces = outdated != place.entries.end();
  std::optional<GuardFailure> failure =
      forced     ? last->explain_forced(forced_guard, live)
      : replaces ? GuardFailure{(*outdated)->outdated_by(), "true", "false", 0, {}, {}}
      : last     ? last->explain(live)
                 : GuardFailure{"what the entry was made for is alive", "true", "false", 0, {}, {}};
  if (!failure && other_way)
    failure = GuardFailure{"a branch goes as it was recorded", "true", "false", last->runner().other_way(), {}, {}};
  if (!failure) return false;             // it fits after all: the guard changed its mind between two looks
  if (state.captures.followed_from == 0)  // or sizes that go down from call to call
    for (const std::string& varied : failure->varied) place.varied.names.insert(varied);
  if (module::stance == module::Stance::FailOnRecompile) {
    PyErr_Format(
        PyExc_RuntimeError,
        "framejit: %s() would be compiled again under the stance 'fail_on_recompile'. Guard that failed: %s (was "
        "%s, is %s)",
        state.name().c_str(), failure->guard.c_str(), failure->expected.c_str(), failure->found.c_str());
    return false;
  }
  if (replaces) state.entries.retire(place, static_cast<std::size_t>(outdated - place.entries.begin()));
  const bool limit =
      !forced && !replaces && place.is_at_limit(known || !last || other_way, state.entries.retired.entries());
  if (!limit) ++module::stats.recompiles;
  state.history.add({*failure, place.made - 1, last.get(), limit}, state.code());
  if (limit) place.at_limit = std::move(failure);
  if (forced) {
    --place.made;
    // Making the record may have started a garbage collection, which drops entries whose objects have died.
    const auto at = std::find(place.entries.begin(), place.entries.end(), last);
    if (at != place.entries.end()) state.entries.retire(place, static_cast<std::size_t>(at - place.entries.begin()));
  }
  return !limit;
}

constexpr int64_t kRoundsToWait = 16, kRoundsByRun = 2;

bool waits_for_loop(CodeState& state, const CompileSite& place, uint32_t site, const FrameView& frame) {
  if (!state.compiles_loops()) return false;
  if (state.view()->calls_comprehension(site) && !state.loops.bytecode_loops().count(site))
    return !is_hot_loop(state, place, site, frame);
  for (const uint32_t head : state.loops.element_loops()) {
    if (head > site) break;
    const CompileSite* const at_head = state.entries.sites.at(head);
    if (state.loops.bytecode_loops().count(head) || !at_head) continue;
    if (head == site) return !is_hot_loop(state, place, site, frame);
    if (state.view()->begins_nest(site)) continue;  // an inner loop
    // The bytecode does rounds of a loop before that is compiled, or behind an exit of it.
    int64_t hits = 0;
    for (const auto& entry : at_head->entries) hits += entry->policy().hits();
    const bool may_come = at_head->entries.empty()
                              ? !at_head->exhausted && at_head->failures == 0
                              : !at_head->is_left() && place.visits < kRoundsToWait + kRoundsByRun * hits;
    if (may_come && site <= state.view()->last_of_nest(head)) return true;
  }
  return false;
}

Expected<std::shared_ptr<Entry>, std::string> compile_function(CodeState& state, const FrameView& frame) {
  using Failure = Unexpected<std::string>;
  const uint32_t first = first_site(state);
  if (first == 0) return Failure{"it has variables of other functions, or begins with a loop"};
  CompileSite place;
  const capture::CaptureRequest request = capture_request(state, place, first, frame, false);
  try {
    auto region = capture::capture_function(request);
    if (!region) return Failure{region.error().detail};
    return Entry::make(*region, compile_options(state, false, false), frame, frame.local_count);
  } catch (const Interrupted&) {
    return Failure{"a signal came"};
  }
}

CompileResult compile_at(CodeState& state, CompileSite& place, uint32_t instr, const FrameView& frame, bool whole) {
  try {
    return compile_now(state, place, instr, frame, whole);
  } catch (const Interrupted&) {
    CompileResult nothing;
    nothing.interrupted = true;
    return nothing;
  }
}

}  // namespace framejit::ext::dispatch
