// Capturing, compiling and running what belongs to one code object.
#include "ext/dispatch/code_state.h"

#include <algorithm>
#include <utility>

#include "capture/py/repr.h"
#include "ext/dispatch/callees.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/gain.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/events.h"
#include "ext/module/tape_hook.h"
#include "ext/region/profitability.h"

namespace framejit::ext::dispatch {

using capture::Break;
using capture::FrameView;
using capture::Ref;
using capture::text_of;
using guards::LiveSlots;
using region::Entry;
using region::Outcome;

namespace {

constexpr int kMostMisses = 64;  // of one site that compiles no more, in a row
constexpr int64_t kFewHits = 3;
constexpr int64_t kTriesAsleep = 24;  // calls of spliced code, before a function in which nothing was compiled sleeps
constexpr std::size_t kMostFailedKinds = 16;

}  // namespace

/// Marks the state as in use: entries that are taken out meanwhile stay alive until nothing runs.
class CodeState::Busy {
 public:
  explicit Busy(CodeState& state) : state_(state) { ++state_.retired_.running; }
  ~Busy() {
    Retired& retired = state_.retired_;
    if (--retired.running == 0 && (!retired.entries.empty() || retired.self)) [[unlikely]] {
      const std::shared_ptr<CodeState> self = std::move(retired.self);  // dropped last: it may own the state alone
      const std::vector<std::shared_ptr<Entry>> dropped = std::move(retired.entries);
      retired.entries.clear();
    }
  }
  Busy(const Busy&) = delete;

 private:
  CodeState& state_;
};

CodeState::CodeState(PyCodeObject* code, const JitSettings& settings, capture::CodeView::Keep keep,
                     std::weak_ptr<CodeState> owner)
    : code_(code), keep_(keep), settings_(settings), owner_(std::move(owner)) {
  // Owners that are gone have ids too: a state that was within reach of one stays what it was.
  static uint64_t ids = 0;
  if (owner_.expired() && !settings.fullgraph && !settings.ignore_fp_flags) function_id_ = ++ids;
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
  if (settings_.plan.resident < INT64_MAX || said_inlined_ || !module::events_on(module::Channel::Perf)) return;
  said_inlined_ = true;
  emit(module::Channel::Perf, std::move(module::Record()
                                            .put("function", name())
                                            .put("file", text_of(code_->co_filename))
                                            .put("line", static_cast<int64_t>(code_->co_firstlineno))
                                            .put("what", std::string("backend='GE' is ignored below another jit"))));
}

// Whole calls.

bool CodeState::fits(PyFunctionObject* function) const {
  return whole_.is_for(function->func_globals, function->func_builtins);
}

/// Runs the entry that fits, by `run`. `compared` is told of a run that may have been compared with the bytecode.
template <class Run, class Compared>
Outcome CodeState::run_entries(CompileSite& place, const LiveSlots& live, bool compares, Run&& run,
                               Compared&& compared) {
  std::vector<std::shared_ptr<Entry>>& entries = place.entries;
  if (settings_.stress.guards && place.force_failure()) [[unlikely]]
    return Outcome::Miss;
  TryOrder order(place, live);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const std::size_t i = order[k];
    Entry* entry = entries[i].get();
    const std::shared_ptr<Entry> held = compares && entry->policy().is_compared() ? entries[i] : nullptr;
    const int64_t start = held ? region::read_clock(region::Reading::Start) : 0;
    const Outcome outcome = run(*entry);
    if (held) [[unlikely]]
      compared(held, outcome, start);
    if (outcome == Outcome::Miss) continue;
    if (outcome == Outcome::Done) least_saved += entry->policy().least_bytecode();
    if (outcome == Outcome::OtherWay) [[unlikely]] {
      if (!settings_.trace) return Outcome::Declined;
      place.other_way = place.other_way || i == 0;
      continue;
    }
    // Entries may have changed meanwhile: look before moving.
    if (i < entries.size() && entries[i].get() == entry) order.note(place, i);
    return outcome;
  }
  ++module::stats.guard_failures;
  return Outcome::Miss;
}

Outcome CodeState::call(const LiveSlots& live, PyObject*& result) {
  Busy busy(*this);
  if (disabled_epoch_ != module::disabled_epoch) [[unlikely]] {
    disabled_epoch_ = module::disabled_epoch;  // what was inlined may be disabled now, or no longer
    clear();
  }
  if (whole_.entries.empty()) return note_lost(whole_), Outcome::Miss;
  const Outcome outcome = run_entries(
      whole_, live, !comparison_.is_timing(), [&](Entry& entry) { return entry.call(live, result); },
      [this](const std::shared_ptr<Entry>& entry, Outcome done, int64_t start) {
        if (comparison_.end_entry_run(entry, done, start)) judge(*entry);
      });
  if (outcome == Outcome::Miss) note_lost(whole_);
  // With fullgraph=True each call is looked at: one that cannot be captured is an error.
  if (outcome == Outcome::Declined && !broke_ && !settings_.fullgraph && !has_declined() && whole_.is_left()) pass_by();
  return outcome;
}

/// The frame of a call, before its first instruction.
struct CodeState::Start {
  std::vector<PyObject*> locals;
  FrameView frame;

  Start(CodeState& state, PyFunctionObject* function, capture::py::Slots slots) {
    const int slot_count = module::argument_slots(state.code_);
    locals.resize(static_cast<std::size_t>(std::max(state.view()->local_count(), slot_count)));
    for (int i = 0; i < slot_count; ++i) locals[static_cast<std::size_t>(i)] = slots[i];
    auto* object = reinterpret_cast<PyObject*>(function);
    const int count = static_cast<int>(locals.size());
    frame = {{locals.data(), count, nullptr, 0, object}, function->func_globals, function->func_builtins};
  }
};

Outcome CodeState::compile_whole(const Start& start) {
  if (!may_compile(whole_, start.frame)) return PyErr_Occurred() ? Outcome::Error : Outcome::Declined;
  Compiled compiled = compile_at(whole_, 0, start.frame, true);
  if (compiled.entry) {
    insert(whole_, std::move(compiled.entry), kinds_of(start.frame));
    return Outcome::Miss;
  }
  if (compiled.interrupted) return Outcome::Declined;
  // Numbers, say, of a function that has been compiled for arrays.
  if (compiled.breaks.empty() && !whole_.entries.empty() && !settings_.fullgraph) {
    ++whole_.failed[kinds_of(start.frame)];
    return Outcome::Declined;
  }
  ++whole_.failures;
  if (settings_.fullgraph && !compiled.breaks.empty()) {
    raise_graph_break(compiled.breaks.front());
    return Outcome::Error;
  }
  // What is not cached yet will be soon.
  const bool passes = std::any_of(compiled.breaks.begin(), compiled.breaks.end(),
                                  [](const Break& b) { return b.id == capture::BreakId::CacheMiss; });
  broke_ = !passes || whole_.failures >= CompileSite::kMaxFailures;
  if (broke_ && !spliced_) {
    first_region_ = std::move(compiled.first_region);
    first_kinds_ = kinds_of(start.frame);
  }
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

std::shared_ptr<Entry> CodeState::entry_of_call(const LiveSlots& live) const { return whole_.fitting(live); }

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
  if (place.fitting(start.frame)) return;
  if (!may_compile(place, start.frame)) return PyErr_Clear();
  if (Compiled compiled = compile_at(place, site, start.frame, false); compiled.entry)
    insert(place, std::move(compiled.entry), kinds_of(start.frame));
}

bool CodeState::has_callees() const { return callees_ && callees_->any_awake(); }

bool CodeState::is_asleep() const { return broke_ && !compiled_ && (unsplicable_ || spliced_calls_ > kTriesAsleep); }

std::vector<CodeState*> CodeState::callees() const { return callees_ ? callees_->states() : std::vector<CodeState*>{}; }

void CodeState::insert(CompileSite& place, std::shared_ptr<Entry> entry, uint64_t kinds) {
  announce(*entry, code_, view()->instrs()[entry->region().entry].line, place.made);
  compiled_ = true;
  entry->references().weaken([state = weak_from_this()] {
    if (const std::shared_ptr<CodeState> here = state.lock()) here->drop_invalid();
  });
  place.insert(std::move(entry), kinds);
}

void CodeState::note_lost(CompileSite& place) {
  if (!place.note_lost()) return;
  warn_recompile_limit(name(), *place.at_limit, place.made);
  place.at_limit.reset();
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
      if (place.entries[i]->references().is_broken()) retire(place, i);
  });
}

// Calls that run bytecode, and what is measured of them.

void CodeState::note_idle() {
  if (compares() && !wants_capture() && whole_.entries.empty()) pass_by();
}

region::Side CodeState::begin_call(capture::py::Slots slots) {
  ++depth_;
  comparison_.count_call();
  if (comparison_.is_timing() || !compares() || (code_->co_flags & kGeneratorFlags)) return region::Side::Compiled;
  budget_.begin_call();
  return comparison_.begin_call(slots, module::argument_slots(code_));
}

bool CodeState::begin_declined() {
  if (!comparison_.begin_declined()) return false;
  ++depth_;
  return true;
}

void CodeState::end_call() {
  if (std::exchange(ran_region_, false)) ++module::stats.frames_captured;
  if (--depth_ > 0) return;
  budget_.end_call();
  if (const std::shared_ptr<Entry> entry = comparison_.end_call(settings_.o1)) judge(*entry);
}

void CodeState::judge(Entry& entry) {
  entry.policy().judge();
  if (entry.policy().is_left() && region::works_on_elements(entry.region())) of_function()->elements_lost_ = true;
}

/// A site is visited while a round is timed. False: the bytecode goes on.
bool CodeState::end_round(uint32_t site, const FrameView& frame) {
  const RunComparison::EndOfRound end = comparison_.end_round(site, frame);
  if (!end.entry) return end.goes_on;
  judge(*end.entry);
  if (end.site < sites_.size() && sites_[end.site] && sites_[end.site]->is_left())
    set_dormant(*sites_[end.site], end.site, true);
  return end.site != site || !end.entry->policy().is_left();
}

const char* CodeState::why_given_up() const {
  return comparison_.is_given_up() ? "its calls were measured to be slower than plain Python" : "";
}

// Regions.

std::unique_ptr<capture::SplicedCode> CodeState::splice() {
  capture::SpliceOptions options;
  options.all_boundaries = settings_.stress.all_sites();
  auto made = capture::SplicedCode::make(view(), shared_from_this(), options);
  if (!made) {
    unsplicable_ = true;
    first_region_.reset();
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
  if (const std::shared_ptr<Entry> region = std::move(first_region_))
    if (CompileSite* place = sites_[region->region().entry].get()) insert(*place, region, first_kinds_);
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
    if (CompileSite& place = *sites_[site]; place.dormant && place.failures < CompileSite::kMaxFailures)
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
  if (!place || module::bytecode_only() || module::is_disabled(code_)) return false;
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
  if (!place.is_for(frame.globals, frame.builtins)) return false;
  if (comparison_.is_timing_round() && !end_round(site, frame)) [[unlikely]]
    return false;
  Outcome outcome = Outcome::Miss;
  if (!place.entries.empty())
    outcome = run_entries(
        place, frame, !comparison_.is_timing_round(), [&](Entry& entry) { return entry.enter(frame, update); },
        [&](const std::shared_ptr<Entry>& entry, Outcome done, int64_t start) {
          comparison_.begin_round(entry, site, frame, done, start);
        });
  if (outcome != Outcome::Miss) {
    place.misses = 0;
    if (outcome == Outcome::Declined && place.is_left()) set_dormant(place, site, true);
  } else {
    ++place.visits;
    if (!compile_site(place, site, frame)) return false;
    const std::shared_ptr<Entry> entry = place.entries.front();
    outcome = entry->enter(frame, update);
  }
  // There was no way back: the interpreter would do the region's effects twice. It goes on behind the region.
  if (outcome == Outcome::Error) [[unlikely]]
    keep_error();
  ran_region_ = ran_region_ || outcome == Outcome::Done;
  return outcome == Outcome::Done || outcome == Outcome::Error;
}

/// No entry fits. True: one was compiled, it is the first.
bool CodeState::compile_site(CompileSite& place, uint32_t site, const FrameView& frame) {
  if (place.entries.empty() && waits_for_loop(place, site, frame)) return false;
  if (!may_compile(place, frame)) {
    if (PyErr_Occurred()) keep_error();
    note_lost(place);
    if (place.exhausted && (place.entries.empty() || (compares() && ++place.misses >= kMostMisses)))
      set_dormant(place, site, true);
    return false;
  }
  Compiled compiled = compile_at(place, site, frame, false);
  if (compiled.interrupted) return false;
  if (compiled.entry) {
    insert(place, std::move(compiled.entry), kinds_of(frame));
    return true;
  }
  ++place.failures;
  // Entries that were made before the values were seen to vary are dropped too.
  if (compiled.unprofitable && std::all_of(place.entries.begin(), place.entries.end(),
                                           [](const auto& e) { return e->policy().hits() <= kFewHits; }))
    while (!place.entries.empty()) retire(place, place.entries.size() - 1);
  if (place.entries.empty()) set_dormant(place, site, true);
  else if (++place.failed[kinds_of(frame)]; place.failed.size() > kMostFailedKinds) place.exhausted = true;
  return false;
}

/// Nothing runs in place of the bytecode: a region that would have is compared with what the bytecode does.
bool CodeState::ask_verified(CompileSite& place, uint32_t site, const FrameView& frame) {
  struct Eager {  // what compares is not compiled itself
    module::Stance before = std::exchange(module::stance, module::Stance::ForceEager);
    ~Eager() { module::stance = before; }
  } eager;
  std::string difference;
  const bool first = site == spliced_->sites().front();
  if (predictions_.visit(code_, site, first, frame, difference) != Predictions::Visit::Ready) return false;
  if (!difference.empty() && internal_error(name(), difference)) keep_error();
  std::shared_ptr<Entry> entry;
  if (place.is_for(frame.globals, frame.builtins)) {
    entry = place.fitting(frame);
    if (!entry && may_compile(place, frame)) {
      const Compiled compiled = compile_at(place, site, frame, false);
      entry = compiled.entry;
      if (entry) insert(place, entry, kinds_of(frame));
      else if (!compiled.interrupted && ++place.failures >= CompileSite::kMaxFailures) place.exhausted = true;
    }
  }
  if (entry) predictions_.predict(*entry, frame);
  if (PyErr_Occurred()) PyErr_Clear();
  return false;
}

// Lifetime.

void CodeState::clear() {
  Busy busy(*this);  // its end releases the entries, unless something else runs
  for_each_place([&](CompileSite& place, int site) {
    for (auto& entry : place.clear()) retired_.entries.push_back(std::move(entry));
    if (site >= 0) set_dormant(place, static_cast<uint32_t>(site), false);
  });
  broke_ = starts_broken();
  history_.clear();
  loops_.clear();
  comparison_.clear();
  followed_from_ = 0;
  spliced_calls_ = 0;
  compiled_ = false;
  callees_.reset();
  first_region_.reset();
}

int CodeState::traverse(visitproc visit, void* arg) const {
  int result = 0;
  const_cast<CodeState*>(this)->for_each_place([&](const CompileSite& place, int) {
    for (const auto& entry : place.entries)
      if (!result) result = entry->references().traverse(visit, arg);
  });
  for (const auto& entry : retired_.entries)
    if (!result) result = entry->references().traverse(visit, arg);
  if (!result && first_region_) result = first_region_->references().traverse(visit, arg);
  if (!result && callees_) result = callees_->traverse(visit, arg);
  if (!result) Py_VISIT(pending_error_.get());
  return result;
}

}  // namespace framejit::ext::dispatch
