// Capturing, compiling and running what belongs to one code object.
#include "ext/dispatch/code_state.h"

#include <algorithm>
#include <array>

#include "capture/loops/translator.h"
#include "capture/py/interpreter.h"
#include "capture/python_names.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/numpy_implementation.h"
#include "ext/arrays/numpy_loops.h"
#include "ext/arrays/tensor_object.h"
#include "ext/dispatch/callees.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/gain.h"
#include "ext/frontends/frontends.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/config.h"
#include "ext/module/control.h"
#include "ext/module/tape_hook.h"
#include "ext/region/profitability.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/support/interrupt.h"
#include "runtime/trace.h"

namespace framejit::ext {

using capture::Break;
using capture::FrameView;
using capture::Ref;

namespace {

constexpr int kMaxFailures = 3;  // of one site, before it sleeps for good
constexpr int kPassBy = 60;  // the next call that is looked at is the 61st: others that come by turns have theirs too
constexpr int kMostMisses = 64;  // of one site that compiles no more, in a row
constexpr int64_t kFewHits = 3;
constexpr int64_t kTriesAsleep = 24;  // calls of spliced code, before a function in which nothing was compiled sleeps
constexpr std::size_t kMostFailedKinds = 16;

std::string text_of(PyObject* text) {
  const char* utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "";
}

/// May the bytecode come by the region's exit before it is there for good? Where the region goes round a loop that it
/// leaves in the middle: it cannot be told then which time is the exit.
bool is_passed_before_exit(const capture::Region& region) {
  if (region.passes_exit) return true;
  const std::span<const capture::Instr> instrs = region.view->instrs();
  for (uint32_t i = region.exit; i < instrs.size() && !region.returns; ++i) {
    const bool jump = instrs[i].op == capture::Opcode::Jump || capture::name_of(instrs[i].op).starts_with("PopJump");
    if (!jump || instrs[i].arg < 0 || static_cast<uint32_t>(instrs[i].arg) > region.exit) continue;
    if (region.entry < static_cast<uint32_t>(instrs[i].arg) || region.entry > i) return true;
  }
  return false;
}

}  // namespace

/// Marks the state as in use: entries that are taken out meanwhile stay alive until nothing runs.
class CodeState::Busy {
 public:
  explicit Busy(CodeState& state) : state_(state) { ++state_.running_; }
  ~Busy() {
    if (--state_.running_ == 0 && (!state_.retired_.empty() || state_.retired_self_)) [[unlikely]] {
      const std::shared_ptr<CodeState> self =
          std::move(state_.retired_self_);  // dropped last: it may be all that owns the state
      const std::vector<std::shared_ptr<Entry>> dropped = std::move(state_.retired_);
      state_.retired_.clear();
    }
  }
  Busy(const Busy&) = delete;

 private:
  CodeState& state_;
};

CodeState::CodeState(PyCodeObject* code, const JitSettings& settings, capture::CodeView::Keep keep,
                     std::weak_ptr<CodeState> owner)
    : code_(code), keep_(keep), settings_(settings), pass_by_(kPassBy), owner_(std::move(owner)) {
  // Owners that are gone have ids too: a state that was within reach of one stays what it was.
  static uint64_t ids = 0;
  if (owner_.expired() && !settings.fullgraph && !settings.ignore_fp_flags) reach_ = ++ids;
  if (keep == capture::CodeView::Keep::Code) kept_ = Ref<PyCodeObject>::share(code);
  whole_.varied.all = settings.dynamic;
  // The frame of a generator is others' to resume: only what stands between its yields compiles.
  broke_ = starts_broken();
  const std::shared_ptr<CodeState> whose = owner_.lock();
  if (measuring || (whose && whose->gain_)) measure();
}

CodeState::~CodeState() = default;

void CodeState::measure() { gain_ = Gain::make(code_, settings_); }

const std::shared_ptr<const capture::CodeView>& CodeState::view() {
  if (!view_) view_ = capture::CodeView::decode(code_, keep_);
  return view_;
}

bool CodeState::starts_broken() const {
  return !settings_.fullgraph && ((code_->co_flags & kGeneratorFlags) || settings_.stress.splices());
}

std::shared_ptr<CodeState> CodeState::of_function() {
  std::shared_ptr<CodeState> owner = owner_.lock();
  return owner ? owner : shared_from_this();
}

std::string CodeState::name() const { return text_of(code_->co_qualname); }

void CodeState::note_inlined() {
  if (settings_.plan.resident < INT64_MAX || said_inlined_ || !events_on(Channel::Perf)) return;
  said_inlined_ = true;
  emit(Channel::Perf, std::move(Record()
                                    .put("function", name())
                                    .put("file", text_of(code_->co_filename))
                                    .put("line", static_cast<int64_t>(code_->co_firstlineno))
                                    .put("what", std::string("backend='GE' is ignored below another jit"))));
}

// Which entry may fit.

namespace {

uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15u; }

/// A hash of what arguments are: type, and of arrays dtype and rank too. Two calls of the same kinds mostly need one
/// entry.
uint64_t kinds_of(const LiveSlots& live) {
  constexpr int kMost = 16;
  uint64_t hash = static_cast<uint64_t>(live.depth) + 1;
  const auto add = [&hash](PyObject* object) {
    if (!object) return hash = mixed(hash, 1), void();
    PyTypeObject* type = Py_TYPE(object);
    hash = mixed(hash, reinterpret_cast<uintptr_t>(type));
    PyObject* held = is_tensor(object) ? tensor_array(object) : object;
    if (!held || !PyArray_Check(held)) return;
    auto* array = reinterpret_cast<PyArrayObject*>(held);
    hash = mixed(
        hash, static_cast<uint64_t>(PyArray_DESCR(array)->type_num) * 128 + static_cast<uint64_t>(PyArray_NDIM(array)));
  };
  for (int i = 0; i < std::min(live.local_count, kMost); ++i) add(live.locals[i]);
  for (int i = 0; i < std::min(live.depth, kMost); ++i) add(live.stack[i]);
  return hash ? hash : 1;
}

/// The order in which entries are tried: the one that fitted last for such arguments first, if there are many.
class Order {
 public:
  Order(CompileSite& place, const LiveSlots& live) {
    constexpr std::size_t kFew = 2;
    if (place.entries.size() <= kFew) return;
    if (!place.hints) place.hints = std::make_unique<std::array<CompileSite::Hint, 256>>();
    kinds_ = kinds_of(live);
    hint_ = &(*place.hints)[kinds_ >> 56];
    if (hint_->kinds == kinds_ && hint_->entry < place.entries.size()) first_ = hint_->entry;
  }
  std::size_t operator[](std::size_t k) const { return k == 0 ? first_ : k <= first_ ? k - 1 : k; }
  /// The entry fits.
  void note(CompileSite& place, std::size_t i) {
    if (hint_) *hint_ = {kinds_, static_cast<uint32_t>(i)};
    else if (i != 0) std::swap(place.entries[0], place.entries[i]);
  }

 private:
  uint64_t kinds_ = 0;
  CompileSite::Hint* hint_ = nullptr;
  std::size_t first_ = 0;
};

/// Moves the entry that was compiled last for arguments of these kinds to the front.
void lead(CompileSite& place, uint64_t kinds) {
  const auto known = place.by_kinds.find(kinds);
  if (known == place.by_kinds.end() || place.entries.front().get() == known->second) return;
  const auto at =
      std::find_if(place.entries.begin(), place.entries.end(), [&](const auto& e) { return e.get() == known->second; });
  std::swap(place.entries.front(), *at);
}

}  // namespace

/// Takes an entry out.
void CodeState::retire(CompileSite& place, std::size_t entry) {
  std::erase_if(place.by_kinds, [&](const auto& known) { return known.second == place.entries[entry].get(); });
  retired_.push_back(std::move(place.entries[entry]));
  place.entries.erase(place.entries.begin() + static_cast<std::ptrdiff_t>(entry));
}

/// Past the limit the interpreter runs calls that no entry fits. After some of them one more entry is compiled, in the
/// place of the one that was used least.
void CodeState::note_lost(CompileSite& place) {
  constexpr int64_t kWarnAt = 16;
  if (!place.limited) return;
  ++place.lost_calls;
  if (place.lost_calls >= kWarnAt && place.at_limit) {
    warn_recompile_limit(name(), *place.at_limit, place.made);
    place.at_limit.reset();
  }
  if (place.lost_calls < place.next_try) return;
  place.next_try *= 4;
  place.exhausted = false;
}

/// Another entry is wanted. `counts`: there is one for arguments of the same kinds.
bool CodeState::is_at_limit(CompileSite& place, bool counts) {
  constexpr std::size_t kMostEntries = 64;
  constexpr int64_t kFewHits = 2;
  const bool again = place.limited;
  if (again || place.entries.size() >= kMostEntries) {
    const auto least = std::min_element(place.entries.begin(), place.entries.end(),
                                        [](const auto& a, const auto& b) { return a->hits() < b->hits(); });
    if (least != place.entries.end()) {
      counts = counts || (*least)->hits() <= kFewHits;
      retire(place, static_cast<std::size_t>(least - place.entries.begin()));
    }
  }
  if (counts) ++place.churned;
  if (!again && place.churned <= config().recompile_limit) return false;
  place.limited = true;
  place.exhausted = true;  // but for this one, the next times
  return !again;
}

// Whole calls.

bool CodeState::fits(PyFunctionObject* function) const {
  return whole_.is_for(function->func_globals, function->func_builtins);
}

Outcome CodeState::call(const LiveSlots& live, PyObject*& result) {
  Busy busy(*this);
  if (disabled_epoch_ != disabled_epoch) [[unlikely]] {
    disabled_epoch_ = disabled_epoch;  // what was inlined may be disabled now, or no longer
    clear();
  }
  std::vector<std::shared_ptr<Entry>>& entries = whole_.entries;
  if (entries.empty()) return note_lost(whole_), Outcome::Miss;
  if (settings_.stress.guards && force_failure(whole_)) [[unlikely]]
    return Outcome::Miss;
  Order order(whole_, live);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const std::size_t i = order[k];
    Entry* entry = entries[i].get();
    const std::shared_ptr<Entry> compared = entry->is_compared() && !timed_ ? entries[i] : nullptr;
    const int64_t start = compared ? read_clock(Reading::Start) : 0;
    const Outcome outcome = entry->call(live, result);
    if (compared) [[unlikely]]
      end_entry_run(compared, outcome, start);
    if (outcome == Outcome::Miss) continue;
    if (outcome == Outcome::Done) least_saved += entry->least_bytecode();
    if (outcome == Outcome::OtherWay) [[unlikely]] {
      if (takes_other_ways(whole_, i)) continue;
      return Outcome::Declined;
    }
    // Entries may have changed meanwhile: look before moving.
    if (i < entries.size() && entries[i].get() == entry) order.note(whole_, i);
    // With fullgraph=True each call is looked at: one that cannot be captured is an error.
    if (outcome == Outcome::Declined && !broke_ && !settings_.fullgraph && !declined_ && whole_.is_left()) pass_by();
    return outcome;
  }
  ++stats.guard_failures;
  note_lost(whole_);
  return Outcome::Miss;
}

/// The frame of a call, before its first instruction.
struct CodeState::Start {
  std::vector<PyObject*> locals;
  FrameView frame;

  Start(CodeState& state, PyFunctionObject* function, capture::py::Slots slots) {
    const int slot_count = argument_slots(state.code_);
    locals.resize(static_cast<std::size_t>(std::max(state.view()->local_count(), slot_count)));
    for (int i = 0; i < slot_count; ++i) locals[static_cast<std::size_t>(i)] = slots[i];
    auto* object = reinterpret_cast<PyObject*>(function);
    const int count = static_cast<int>(locals.size());
    frame = {{locals.data(), count, nullptr, 0, object}, function->func_globals, function->func_builtins};
  }
};

Outcome CodeState::compile_whole(const Start& start) {
  if (!may_compile(whole_, start.frame)) return PyErr_Occurred() ? Outcome::Error : Outcome::Declined;
  Captured captured = compile_at(whole_, 0, start.frame, true);
  if (captured.entry) {
    insert(whole_, std::move(captured.entry), start.frame);
    return Outcome::Miss;
  }
  if (captured.interrupted) return Outcome::Declined;
  // Numbers, say, of a function that has been compiled for arrays.
  if (captured.breaks.empty() && !whole_.entries.empty() && !settings_.fullgraph) {
    ++whole_.failed[kinds_of(start.frame)];
    return Outcome::Declined;
  }
  ++whole_.failures;
  if (settings_.fullgraph && !captured.breaks.empty()) {
    raise_graph_break(captured.breaks.front());
    return Outcome::Error;
  }
  // What is not cached yet will be soon.
  const bool passes = std::any_of(captured.breaks.begin(), captured.breaks.end(),
                                  [](const Break& b) { return b.id == capture::BreakId::CacheMiss; });
  broke_ = !passes || whole_.failures >= kMaxFailures;
  return Outcome::Declined;
}

Outcome CodeState::capture_whole(PyFunctionObject* function, capture::py::Slots slots, PyObject*& result) {
  const Start start(*this, function, slots);
  Busy busy(*this);
  if (const Outcome outcome = compile_whole(start); outcome != Outcome::Miss) return outcome;
  const std::shared_ptr<Entry> entry = whole_.entries.front();
  const Outcome outcome = entry->call(start.frame, result);
  return outcome == Outcome::Miss || outcome == Outcome::OtherWay ? Outcome::Declined : outcome;
}

std::shared_ptr<Entry> CodeState::entry_of_call(const LiveSlots& live) const {
  for (const auto& entry : whole_.entries)
    if (!entry->explain(live)) return entry;
  return nullptr;
}

bool CodeState::precompile_whole(PyFunctionObject* function, capture::py::Slots slots) {
  const Start start(*this, function, slots);
  Busy busy(*this);
  return entry_of_call(start.frame) || compile_whole(start) != Outcome::Error;
}

void CodeState::precompile_start(PyFunctionObject* function, capture::py::Slots slots) {
  if (!spliced_ || spliced_->sites().empty()) return;
  const uint32_t site = spliced_->sites().front();
  // Cells would be there already.
  if (site == 0 || view()->instrs()[site - 1].op != capture::Opcode::Resume || PyCode_GetNumFree(code_) > 0) return;
  for (int i = 0; i < view()->local_count(); ++i)
    if (view()->is_cell(i)) return;
  const Start start(*this, function, slots);
  Busy busy(*this);
  CompileSite& place = *sites_[site];
  for (const auto& entry : place.entries)
    if (!entry->explain(start.frame)) return;
  if (!may_compile(place, start.frame)) return PyErr_Clear();
  if (Captured captured = compile_at(place, site, start.frame, false); captured.entry)
    insert(place, std::move(captured.entry), start.frame);
}

// Capture and compilation of one place.

bool CodeState::takes_other_ways(CompileSite& place, std::size_t entry) const {
  if (!settings_.trace) return false;
  place.other_way = place.other_way || entry == 0;
  return true;
}

bool CodeState::force_failure(CompileSite& place) {
  Entry& entry = *place.entries.front();
  if (entry.all_forced) return false;
  const std::vector<capture::Guard>& guards = entry.guards();
  for (std::size_t i = 0; i < guards.size(); ++i)
    if (place.forced_before.insert(guards[i].about()).second) {
      place.forced = static_cast<int>(i);
      ++stats.guard_failures;
      return true;
    }
  entry.all_forced = true;
  return false;
}

bool CodeState::may_compile(CompileSite& place, const LiveSlots& live) {
  const int forced_guard = std::exchange(place.forced, -1);  // of the entry at the front
  if (place.exhausted || compiling_ || capture::is_finalizing()) return false;
  if (is_over_budget()) {
    if (!std::exchange(said_budget_, true)) note_breaks({break_at(capture::BreakId::CompileBudget, "", 0)});
    return false;
  }
  if (compiles_too_fast()) return false;
  if (place.made == 0) return true;
  const uint64_t kinds = kinds_of(live);
  const auto failed = place.failed.find(kinds);
  if (failed != place.failed.end() && failed->second >= kMaxFailures) return false;
  const bool known = place.by_kinds.count(kinds) != 0;
  if (known && forced_guard < 0) lead(place, kinds);
  // Null: what the entries were made for has died.
  const std::shared_ptr<Entry> last = place.entries.empty() ? nullptr : place.entries.front();
  const bool forced = last && forced_guard >= 0 && static_cast<std::size_t>(forced_guard) < last->guards().size();
  const bool other_way = std::exchange(place.other_way, false);
  std::optional<GuardFailure> failure =
      forced ? last->explain_forced(forced_guard, live)
      : last ? last->explain(live)
             : GuardFailure{"what the entry was made for is alive", "true", "false", 0, {}, {}};
  if (!failure && other_way)
    failure = GuardFailure{"a branch goes as it was recorded", "true", "false", last->other_way(), {}, {}};
  if (!failure) return false;  // it fits after all: the guard changed its mind between two looks
  if (followed_from_ == 0)     // or sizes that go down from call to call
    for (const std::string& varied : failure->varied) place.varied.names.insert(varied);
  if (stance == Stance::FailOnRecompile) {
    PyErr_Format(
        PyExc_RuntimeError,
        "framejit: %s() would be compiled again under the stance 'fail_on_recompile'. Guard that failed: %s (was "
        "%s, is %s)",
        name().c_str(), failure->guard.c_str(), failure->expected.c_str(), failure->found.c_str());
    return false;
  }
  const bool limit = !forced && is_at_limit(place, known || !last || other_way);
  if (!limit) ++stats.recompiles;
  if (events_on(Channel::Recompiles) || recompiles_.size() < kMostRecompiles) {
    const graph::Location at = last ? last->region().graph->location(failure->location) : graph::Location{};
    Record record;
    record.put("function", name())
        .put("file", text_of(code_->co_filename))
        .put("line", static_cast<int64_t>(code_->co_firstlineno))
        .put("entry", static_cast<int64_t>(place.made - 1))
        .put("guard", failure->guard)
        .put("expected", failure->expected)
        .put("found", failure->found)
        .put("guard_file", at.file)
        .put("guard_line", static_cast<int64_t>(at.line))
        .put("reason", failure->reason);
    if (!limit) record.put("new_entry", static_cast<int64_t>(place.made));
    if (!failure->varied.empty() && !limit) record.put("becomes", std::string("symbolic from now on"));
    if (limit)
      record.put("becomes", std::string("config.recompile_limit is reached: the interpreter runs it from now on"));
    if (recompiles_.size() < kMostRecompiles) recompiles_.push_back(Ref<>::share(record.get()));
    emit(Channel::Recompiles, std::move(record));
  }
  if (limit) place.at_limit = std::move(failure);
  if (forced) {
    --place.made;
    // Making the record may have started a garbage collection, which drops entries whose objects have died.
    const auto at = std::find(place.entries.begin(), place.entries.end(), last);
    if (at != place.entries.end()) retire(place, static_cast<std::size_t>(at - place.entries.begin()));
  }
  return !limit;
}

/// Compiling a loop takes as long as some thousand rounds of it in the interpreter.
bool CodeState::is_hot(const CompileSite& place, uint32_t head, const FrameView& frame) {
  constexpr int64_t kHot = 32;  // rounds
  if (!estimates() || place.visits >= kHot) return true;
  const int64_t rounds = capture::rounds_before(*view(), head, frame);
  // How long a `while` or an inner loop goes on cannot be told; a function that is marked by itself is worth it.
  const uint32_t last = capture::last_of_nest(*view(), head);
  bool unknown = rounds < 0;
  for (uint32_t i = head + 1; i < last && !unknown; ++i) unknown = rounds > 0 && capture::is_loop_head(*view(), i);
  return rounds >= kHot || (unknown && keep_ == capture::CodeView::Keep::Code);
}

/// Is the site in a loop that is going to be compiled as a loop, once it has had more rounds?
bool CodeState::waits_for_loop(const CompileSite& place, uint32_t site, const FrameView& frame) {
  if (!compiles_loops()) return false;
  for (const uint32_t head : element_loops_) {
    if (head > site) break;
    if (bytecode_loops_.count(head) || !sites_[head]) continue;
    if (head == site) return !is_hot(place, site, frame);
    if (capture::is_loop_head(*view(), site)) continue;  // an inner loop
    if (sites_[head]->entries.empty() && !sites_[head]->exhausted && sites_[head]->failures == 0 &&
        site <= capture::last_of_nest(*view(), head))
      return true;
  }
  return false;
}

/// Is the instruction the first one that a region may begin with?
bool CodeState::is_function_start(uint32_t instr) {
  const std::span<const capture::Instr> instrs = view()->instrs();
  return instr > 0 && instrs[instr - 1].op == capture::Opcode::Resume && instrs[instr - 1].arg == 0;
}

/// NumPy 1 has other types for its scalars beside Python numbers.
bool CodeState::compiles_loops() const {
  return !settings_.fullgraph && !settings_.ignore_fp_flags && numpy_version().major >= 2;
}

/// Later captures end in front of the loops.
void CodeState::note_element_loops() {
  const std::span<const capture::Instr> instrs = view()->instrs();
  for (uint32_t i = 0; i < instrs.size(); ++i)
    if (instrs[i].op == capture::Opcode::Jump && instrs[i].arg >= 0 && static_cast<uint32_t>(instrs[i].arg) <= i)
      element_loops_.insert(static_cast<uint32_t>(instrs[i].arg));
}

Break CodeState::break_at(capture::BreakId id, std::string detail, uint32_t instr) {
  Break b{id, std::move(detail)};
  b.instr = instr;
  b.function = name();
  b.file = text_of(code_->co_filename);
  const int line = view()->instrs()[instr].line;
  b.line = line > 0 ? line : code_->co_firstlineno;  // what sets a frame up has no line
  return b;
}

CodeState::Captured CodeState::compile_at(CompileSite& place, uint32_t instr, const FrameView& frame, bool whole) {
  try {
    return compile_now(place, instr, frame, whole);
  } catch (const Interrupted&) {
    Captured nothing;
    nothing.interrupted = true;
    return nothing;
  }
}

CodeState::Captured CodeState::compile_now(CompileSite& place, uint32_t instr, const FrameView& frame, bool whole) {
  struct Flag {
    bool& flag;
    explicit Flag(bool& f) : flag(f) { flag = true; }
    ~Flag() { flag = false; }
  } compiling(compiling_);

  capture::CaptureRequest request;
  request.view = view();
  request.entry = instr;
  request.frame = frame;
  request.varied = &place.varied;
  if (!settings_.fullgraph && !settings_.ignore_fp_flags) request.element_loops = &element_loops_;
  request.frontends = frontends();
  request.options.fullgraph = settings_.fullgraph;
  request.options.variants = static_cast<uint32_t>(place.churned + (place.made > 0));
  if (settings_.fullgraph || settings_.ignore_fp_flags) request.options.recursive_calls = UINT32_MAX;
  else if (depth_ < followed_from_) request.options.recursive_calls = 0;
  request.options.any_work =
      settings_.stress.rewrite || (settings_.ignore_fp_flags && whole);  // a gradient is made of the graph
  if (!settings_.fullgraph) request.options.break_every = settings_.stress.break_every;
  request.options.instruction_limit = static_cast<uint32_t>(std::min<int64_t>(config().instruction_limit, 1 << 30));
  const std::shared_ptr<CodeState> function = of_function();
  const auto idle = static_cast<int64_t>(request.options.idle_limit);
  request.options.idle_limit =
      static_cast<uint32_t>(std::clamp<int64_t>(idle - function->fruitless_steps_, idle / 10, idle));
  request.options.time_limit_ns = std::min<int64_t>(config().capture_time_limit, INT32_MAX) * 1'000'000;
  request.options.unwrap = unwrap_function;
  request.options.polyfill = polyfill_of;
  request.options.implementation = numpy_implementation;
  request.options.scalar_loop = scalar_loop;
  request.options.leave_alone = is_disabled;
  request.options.loops = compiles_loops();
  request.bytecode_loops = &bytecode_loops_;
  const int local_count = whole ? argument_slots(code_) : frame.local_count;
  if (settings_.trace)
    request.options.decide = [&](std::shared_ptr<capture::Region> region) {
      CompileOptions once;
      once.o1 = settings_.o1;
      once.o2 = settings_.o2;
      once.ignore_fp_flags = true;
      return Entry::truth(std::move(region), once, frame, local_count);
    };
  const InterruptScope scope(capture::signal_pending);
  struct Spent {  // on behalf of the function
    CodeState& function;
    double paid = 0, soon = 0;  // by what is expected of the entry, by its first runs
    int64_t start = read_clock(Reading::Compiling);
    ~Spent() {
      const auto time = static_cast<double>(read_clock(Reading::Compiling) - start);
      function.spent_ns_ = static_cast<int64_t>(std::max(0.0, static_cast<double>(function.spent_ns_) + time - paid));
      function.compiled_ns_ += static_cast<int64_t>(std::max(0.0, time - soon));
    }
  } spent{*function};
  // Which of two results comes must not be a matter of time: what is measured beside the bytecode gives its bits, at O1
  // too.
  const bool in_loop = !whole && estimates() && loop_around(instr).second > 0;
  bool o1 = settings_.o1 && !(in_loop && compares());
  const int64_t start = now_ns();
  request.options.o1 = o1;
  capture::CaptureOutcome outcome;
  const bool tries_loop = !whole && compiles_loops() && is_hot(place, instr, frame) && !bytecode_loops_.count(instr) &&
                          capture::is_loop_head(*view(), instr);
  if (tries_loop) {
    auto loop = capture::capture_loop(request);
    if (loop) {
      outcome.region = std::move(*loop);
      // What captures could not do there, at its iterable or in an inner loop, is done now.
      constexpr uint32_t kIterable = 4;  // instructions that a break at the iterable is in front of the head
      const uint32_t last = capture::last_of_nest(*view(), instr);
      std::erase_if(breaks_, [&](const Break& b) {
        return b.function == name() && b.instr + kIterable >= instr && b.instr <= last;
      });
    } else {
      bytecode_loops_.insert(instr);
      element_loops_.erase(instr);
      loop_reasons_[instr] = loop.error().detail;
    }
  }
  if (!whole && !outcome.region && compiles_loops() && is_function_start(instr) && capture::may_recurse(request))
    if (auto recursion = capture::capture_recursion(request)) outcome.region = std::move(*recursion);
  if (!outcome.region) outcome = capture::capture(request);
  if (request.options.recursive_calls > 0 && outcome.unfinished_levels > 0) {
    followed_from_ = depth_ + static_cast<int>(outcome.unfinished_levels);
    request.options.recursive_calls = 0;
    const uint64_t work = outcome.work;
    outcome = capture::capture(request);
    outcome.work += work;
  }
  if (settings_.o1 && !o1 && outcome.region && !outcome.region->loop && gains_much(*outcome.region)) {
    request.options.o1 = o1 = true;
    outcome = capture::capture(request);
  }
  const int64_t captured_ns = now_ns() - start;
  stats.compile_ns += captured_ns;
  stats.capture_steps += static_cast<int64_t>(outcome.work);
  runtime::trace_span("capture", name(), start, start + captured_ns);

  // A loop that comes by with other constants in each round uses none of its entries often.
  double runs = kExpectedRuns;
  if (in_loop && place.made > 0) {
    int64_t hits = 0;
    for (const std::shared_ptr<Entry>& entry : place.entries) hits += entry->hits();
    runs = std::min(runs, static_cast<double>(hits) / place.made);
  }
  const double worth_of_entry = outcome.region ? ext::worth(*outcome.region, runs) : 0;
  Captured out;
  out.interrupted = outcome.interrupted;
  out.breaks = std::move(outcome.breaks);
  if (outcome.region) out.breaks.insert(out.breaks.end(), outcome.region->breaks.begin(), outcome.region->breaks.end());
  bool worth = true;
  if (outcome.region && !outcome.region->loop && estimates()) {
    const bool of_elements = !is_worth_compiling(*outcome.region);
    const bool lost_before = function->elements_lost_ && works_on_elements(*outcome.region);
    worth = !of_elements && (!in_loop || (!lost_before && is_worth_entering(*outcome.region)));
    if (of_elements) note_element_loops();
  }
  if (!worth) {
    out.unprofitable = true;
    out.breaks.assign(1, break_at(capture::BreakId::Unprofitable, "", instr));
  } else if (outcome.region && (!whole || outcome.region->returns)) {
    CompileOptions options;
    options.o1 = o1;
    options.o2 = settings_.o2 && o1;
    options.ignore_fp_flags = settings_.ignore_fp_flags;
    options.interp = settings_.stress.interp;
    options.losing = settings_.stress.losing || config().profitable_by == Profitability::Off;
    options.compared = compares() && (whole || in_loop) && !o1;
    options.constant_parameters = settings_.constant_parameters;
    options.keep_layouts = settings_.keep_layouts;
    options.order = settings_.order;
    options.plan = settings_.plan;
    options.listing = events_on(Channel::Asm) || events_on(Channel::Kernels);
    std::shared_ptr<capture::Region> region = outcome.region;
    auto entry = Entry::make(region, options, frame, local_count);
    if (entry) {
      out.entry = std::move(*entry);
      out.entry->capture_ns = captured_ns;
    } else {
      out.breaks.push_back(break_at(capture::BreakId::LoweringFailed, entry.error(), instr));
    }
  }
  if (out.entry) {
    spent.paid = worth_of_entry;
    spent.soon = ext::worth(out.entry->region(), kSoonRuns);
    ++function->compiled_entries_;
  }
  if (!out.entry && outcome.array_work) spent.paid = 1e9;  // the regions around the break will have it
  function->fruitless_steps_ = out.entry ? 0 : function->fruitless_steps_ + static_cast<int64_t>(outcome.work);
  note_breaks(out.breaks);
  note_callees(outcome.reached);
  return out;
}

void CodeState::note_callees(const std::vector<Ref<PyCodeObject>>& reached) {
  const std::shared_ptr<CodeState> owner = reach_ ? shared_from_this() : owner_.lock();
  if (!owner || reached.empty()) return;
  if (!owner->callees_) owner->callees_ = std::make_unique<CalleeRegistry>();
  for (const Ref<PyCodeObject>& code : reached) owner->callees_->add(code.get(), owner);
  if (capture::ReachScope::id() == owner->reach_ && owner->has_callees()) capture::ReachScope::want_hook();
}

bool CodeState::has_callees() const { return callees_ && callees_->any_awake(); }

bool CodeState::is_asleep() const { return broke_ && !compiled_ && (unsplicable_ || spliced_calls_ > kTriesAsleep); }

std::vector<CodeState*> CodeState::callees() const { return callees_ ? callees_->states() : std::vector<CodeState*>{}; }

void CodeState::note_breaks(const std::vector<Break>& breaks) {
  for (Break b : breaks) {
    if (b.before_loop) continue;
    if (const auto reason = loop_reasons_.find(b.instr);
        reason != loop_reasons_.end() && b.id == capture::BreakId::ElementLoop)
      b.detail = reason->second;
    if (!known_breaks_.insert({b.instr, static_cast<uint16_t>(b.id)}).second) continue;
    ++stats.graph_breaks;
    ++break_counts[b.id];
    breaks_.push_back(b);
    if (events_on(Channel::GraphBreaks))
      emit(Channel::GraphBreaks,
           std::move(break_record(b).put("capture_mode", std::string(settings_.ast ? "ast" : "bytecode"))));
  }
}

void CodeState::insert(CompileSite& place, std::shared_ptr<Entry> entry, const LiveSlots& live) {
  announce(*entry, place.made);
  ++place.made;
  compiled_ = true;
  place.globals = entry->region().globals.get();
  place.builtins = entry->region().builtins.get();
  entry->weaken_references([state = weak_from_this()] {
    if (const std::shared_ptr<CodeState> here = state.lock()) here->drop_invalid();
  });
  place.by_kinds[kinds_of(live)] = entry.get();
  place.entries.insert(place.entries.begin(), std::move(entry));
}

template <class F>
void CodeState::for_each_place(F&& f) {
  f(whole_, -1);
  for (std::size_t site = 0; site < sites_.size(); ++site)
    if (sites_[site]) f(*sites_[site], static_cast<int>(site));
}

std::vector<std::pair<std::shared_ptr<Entry>, int>> CodeState::entries() const {
  std::vector<std::pair<std::shared_ptr<Entry>, int>> all;
  const_cast<CodeState*>(this)->for_each_place([&](const CompileSite& place, int site) {
    for (const auto& entry : place.entries) all.emplace_back(entry, site);
  });
  return all;
}

/// What entries were made for has died.
void CodeState::drop_invalid() {
  Busy busy(*this);
  for_each_place([this](CompileSite& place, int) {
    for (std::size_t i = place.entries.size(); i-- > 0;)
      if (place.entries[i]->is_invalid()) retire(place, i);
  });
}

void CodeState::announce(const Entry& entry, int64_t number) {
  if (!enabled_channels) return;
  const capture::Region& region = entry.region();
  auto record = [&] {
    Record r;
    r.put("function", name()).put("file", text_of(code_->co_filename));
    r.put("line", static_cast<int64_t>(view()->instrs()[region.entry].line)).put("entry", number);
    return r;
  };
  if (events_on(Channel::Guards)) {
    std::string text;
    for (const capture::Guard& g : entry.guards()) text += g.str() + "\n";
    emit(Channel::Guards, std::move(record().put("text", text)));
  }
  if (events_on(Channel::Graph)) emit(Channel::Graph, std::move(record().put("text", entry.graph_text())));
  if (events_on(Channel::Kernels))
    emit(Channel::Kernels, std::move(record().put("text", entry.plan().program().listing)));
  if (events_on(Channel::Asm)) {
    std::string text;
    for (const codegen::KernelCode& kernel : entry.plan().program().kernels)
      text += "; " + kernel.name + "\n" + kernel.listing + "\n";
    if (entry.loop()) text += "; loop\n" + entry.loop()->listing() + "\n";
    emit(Channel::Asm, std::move(record().put("text", text)));
  }
  if (events_on(Channel::Perf)) {
    emit(Channel::Perf, std::move(record()
                                      .put("what", std::string("compiled"))
                                      .put("capture_ns", entry.capture_ns)
                                      .put("passes_ns", entry.compiled().passes_ns)
                                      .put("codegen_ns", entry.compiled().codegen_ns)
                                      .put("code_bytes", static_cast<int64_t>(entry.plan().code_bytes()))));
  }
}

// Regions.

std::unique_ptr<capture::SplicedCode> CodeState::splice() {
  capture::SpliceOptions options;
  options.all_boundaries = settings_.stress.all_sites();
  auto made = capture::SplicedCode::make(view(), shared_from_this(), options);
  if (!made) {
    unsplicable_ = true;
    return nullptr;
  }
  spliced_ = made->get();
  sites_.clear();
  sites_.resize(view()->instrs().size());
  for (const uint32_t site : spliced_->sites()) {
    sites_[site] = std::make_unique<CompileSite>();
    sites_[site]->varied.all = settings_.dynamic;
  }
  dormant_ = 0;
  return std::move(*made);
}

PyCodeObject* CodeState::replacement() {
  if (!spliced_) return nullptr;
  const int64_t n = ++spliced_calls_;
  if (n == 4 || n == 64 || n == 1024) wake_sites();
  return settings_.stress.rewrite || !has_nothing_awake() ? spliced_->code() : nullptr;
}

/// Are all sites dormant that calls come by? Others are given a call now and then.
bool CodeState::has_nothing_awake() const {
  if (dormant_ == spliced_->sites().size()) return true;
  if (compiled_ || !compares() || spliced_calls_ <= kTriesAsleep || spliced_calls_ % 8 == 0) return false;
  return std::all_of(spliced_->sites().begin(), spliced_->sites().end(),
                     [this](uint32_t site) { return sites_[site]->dormant || sites_[site]->visits == 0; });
}

void CodeState::wake_sites() {
  for (const uint32_t site : spliced_->sites())
    if (CompileSite& place = *sites_[site]; place.dormant && place.failures < kMaxFailures)
      set_dormant(place, site, false);
}

void CodeState::set_dormant(CompileSite& place, uint32_t site, bool dormant) {
  if (place.dormant == dormant || !spliced_) return;
  spliced_->set_dormant(site, dormant);
  place.dormant = dormant;
  if (dormant) ++dormant_;
  else --dormant_;
}

bool CodeState::ask(uint32_t site, const FrameView& frame, capture::FrameUpdate& update) {
  CompileSite* place = site < sites_.size() ? sites_[site].get() : nullptr;
  if (!place || stance == Stance::ForceEager || tape_hook || is_disabled(code_)) return false;
  if (gain_ && !MeasuredCall::runs_region(*this, site, frame.locals)) [[unlikely]]
    return false;
  Busy busy(*this);
  try {
    if (settings_.stress.verify) return ask_verified(*place, site, frame);
    return ask_place(*place, site, frame, update);
  } catch (const std::exception& error) {
    if (internal_error(name(), error.what())) keep_error();
    place->exhausted = true;
    return false;
  }
}

/// A region cannot raise; the call that it is part of does, at its end.
void CodeState::keep_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  pending_error_ = Ref<>::steal(value);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
}

bool CodeState::ask_place(CompileSite& place, uint32_t site, const FrameView& frame, capture::FrameUpdate& update) {
  std::vector<std::shared_ptr<Entry>>& entries = place.entries;
  if (!place.is_for(frame.globals, frame.builtins)) return false;
  if (round_ && !end_round(site, frame)) [[unlikely]]
    return false;
  auto answered = [&](Outcome outcome) {
    // There was no way back: the interpreter would do the region's effects twice. It goes on behind the region.
    if (outcome == Outcome::Error) [[unlikely]]
      keep_error();
    ran_region_ = ran_region_ || outcome == Outcome::Done;
    return outcome == Outcome::Done || outcome == Outcome::Error;
  };
  const bool forced = settings_.stress.guards && !entries.empty() && force_failure(place);
  Order order(place, frame);
  for (std::size_t k = 0; k < entries.size() && !forced; ++k) {
    const std::size_t i = order[k];
    Entry* entry = entries[i].get();
    const std::shared_ptr<Entry> compared = entry->is_compared() && !round_ ? entries[i] : nullptr;
    const int64_t start = compared ? read_clock(Reading::Start) : 0;
    const Outcome outcome = entry->enter(frame, update);
    if (compared) [[unlikely]]
      begin_round(compared, site, frame, outcome, start);
    if (outcome == Outcome::Miss || (outcome == Outcome::OtherWay && takes_other_ways(place, i))) continue;
    if (outcome == Outcome::Declined && place.is_left()) set_dormant(place, site, true);
    if (i < entries.size() && entries[i].get() == entry) order.note(place, i);
    place.misses = 0;
    if (outcome == Outcome::Done) least_saved += entry->least_bytecode();
    return answered(outcome);
  }
  if (!entries.empty() && !forced) ++stats.guard_failures;
  ++place.visits;
  if (entries.empty() && waits_for_loop(place, site, frame)) return false;
  if (!may_compile(place, frame)) {
    if (PyErr_Occurred()) keep_error();
    note_lost(place);
    if (place.exhausted && (entries.empty() || (compares() && ++place.misses >= kMostMisses)))
      set_dormant(place, site, true);
    return false;
  }
  Captured captured = compile_at(place, site, frame, false);
  if (captured.interrupted) return false;
  if (!captured.entry) {
    ++place.failures;
    // What was made before it was seen to vary goes too.
    if (captured.unprofitable &&
        std::all_of(entries.begin(), entries.end(), [](const auto& entry) { return entry->hits() <= kFewHits; })) {
      while (!entries.empty()) retire(place, entries.size() - 1);
    }
    if (entries.empty()) set_dormant(place, site, true);
    else if (++place.failed[kinds_of(frame)]; place.failed.size() > kMostFailedKinds) place.exhausted = true;
    return false;
  }
  Entry* entry = captured.entry.get();
  insert(place, std::move(captured.entry), frame);
  return answered(entry->enter(frame, update));
}

/// Nothing runs in place of the bytecode: a region that would have is compared with what the bytecode does.
bool CodeState::ask_verified(CompileSite& place, uint32_t site, const FrameView& frame) {
  struct Eager {  // what compares is not compiled itself
    Stance before = std::exchange(stance, Stance::ForceEager);
    ~Eager() { stance = before; }
  } eager;
  const Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kVerify));
  const Ref<> unbound = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), "UNBOUND")) : Ref<>();
  auto listed = [&](capture::py::Slots objects, int count) {
    Ref<> list = Ref<>::steal(PyList_New(count));
    for (int i = 0; list && i < count; ++i)
      PyList_SET_ITEM(list.get(), i, Py_NewRef(objects[i] ? objects[i] : unbound.get()));
    return list;
  };
  if (!unbound) return PyErr_Clear(), false;
  if (site == spliced_->sites().front()) {
    pending_.erase(frame.locals);  // of a frame that was left by an exception
    const Ref<> locals = listed(frame.locals, frame.local_count);
    const Ref<> address = Ref<>::steal(PyLong_FromVoidPtr(const_cast<void*>(frame.locals.address())));
    Ref<>::steal(PyObject_CallMethod(module.get(), "begin", "OOO", address.get(), code_, locals.get()));
  }
  if (const auto at = pending_.find(frame.locals); at != pending_.end()) {
    if (at->second.exit != site) return PyErr_Clear(), false;
    const Ref<> prediction = std::move(at->second.prediction);
    pending_.erase(at);
    const Ref<> locals = listed(frame.locals, frame.local_count), stack = listed(frame.stack, frame.depth);
    const Ref<> said =
        Ref<>::steal(PyObject_CallMethod(module.get(), "check", "OOO", prediction.get(), locals.get(), stack.get()));
    if (!said) throw std::runtime_error("a prediction could not be compared");
    if (PyUnicode_GetLength(said.get()) > 0 && internal_error(name(), text_of(said.get()))) keep_error();
  }
  Ref<> prediction;
  const std::shared_ptr<Entry> entry = entry_for(place, site, frame);
  // What a compiled loop stores is stored for good.
  if (entry && !entry->loop() && !is_passed_before_exit(entry->region()) &&
      entry->predict(frame, prediction) == Outcome::Done)
    pending_[frame.locals] = {std::move(prediction), entry->region().exit};
  if (PyErr_Occurred()) PyErr_Clear();
  return false;
}

/// The entry that fits, compiled if there is none.
std::shared_ptr<Entry> CodeState::entry_for(CompileSite& place, uint32_t site, const FrameView& frame) {
  if (!place.is_for(frame.globals, frame.builtins)) return nullptr;
  for (const auto& entry : place.entries)
    if (!entry->explain(frame)) return entry;
  if (!may_compile(place, frame)) return nullptr;
  Captured captured = compile_at(place, site, frame, false);
  if (captured.interrupted) return nullptr;
  if (!captured.entry) {
    if (++place.failures >= kMaxFailures) place.exhausted = true;
    return nullptr;
  }
  insert(place, captured.entry, frame);
  return captured.entry;
}

// Lifetime.

void CodeState::clear() {
  auto retire = [&](CompileSite& place) {
    for (auto& entry : place.entries) retired_.push_back(std::move(entry));
    place.entries.clear();
    place.hints.reset();
    place.by_kinds.clear();
    place.failed.clear();
    place.varied.names.clear();
    place.made = place.churned = place.failures = 0;
    place.limited = place.exhausted = false;
    place.lost_calls = 0;
    place.next_try = CompileSite::kFirstTry;
    place.at_limit.reset();
  };
  Busy busy(*this);  // its end releases the entries, unless something else runs
  for_each_place([&](CompileSite& place, int site) {
    retire(place);
    if (site >= 0) set_dormant(place, static_cast<uint32_t>(site), false);
  });
  broke_ = starts_broken();
  breaks_.clear();
  known_breaks_.clear();
  element_loops_.clear();
  bytecode_loops_.clear();
  followed_from_ = 0;
  loop_reasons_.clear();
  recompiles_.clear();
  spliced_calls_ = 0;
  left_ = 0;
  pass_by_ = kPassBy;
  if (timed_ && !timed_->entry) timed_.reset();
  round_.reset();
  declined_.reset();
  calls_.clear();
  call_count_ = calls_compared_from_ = 0;
  compiled_ = false;
  callees_.reset();
}

int CodeState::traverse(visitproc visit, void* arg) const {
  int result = 0;
  const_cast<CodeState*>(this)->for_each_place([&](const CompileSite& place, int) {
    for (const auto& entry : place.entries)
      if (!result) result = entry->traverse(visit, arg);
  });
  for (const auto& entry : retired_)
    if (!result) result = entry->traverse(visit, arg);
  if (!result && callees_) result = callees_->traverse(visit, arg);
  if (!result) Py_VISIT(pending_error_.get());
  return result;
}

}  // namespace framejit::ext
