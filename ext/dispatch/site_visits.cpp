// Visits of the sites of spliced code: an entry runs there, or one is compiled, or the bytecode goes on.
#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "ext/dispatch/bytecode_calls.h"
#include "ext/dispatch/code_state.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/entry_runs.h"
#include "ext/dispatch/gain.h"
#include "ext/dispatch/pipeline.h"
#include "ext/module/control.h"
#include "ext/module/tape_hook.h"

namespace framejit::ext::dispatch {

using capture::FrameView;
using capture::Ref;
using region::Entry;
using region::Outcome;

namespace {

constexpr int kMostMisses = 64;  // of one site that compiles no more, in a row
constexpr int64_t kFewHits = 3;
constexpr std::size_t kMostFailedKinds = 16;

/// A region cannot raise; the call that it is part of does, at its end.
void keep_error(CodeState& state) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  state.pending_error = Ref<>::steal(value);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
}

/// A site is visited while a round is timed. False: the bytecode goes on.
bool end_round(CodeState& state, uint32_t site, const FrameView& frame) {
  const RunComparison::EndOfRound end = state.comparison.end_round(site, frame);
  if (!end.entry) return end.goes_on;
  judge(state, *end.entry);
  CompileSite* const place = state.entries.sites.at(end.site);
  if (place && place->is_left()) state.entries.sites.set_dormant(*place, end.site, true);
  return end.site != site || !end.entry->policy().is_left();
}

/// No entry fits. True: one was compiled, it is the first.
bool compile_site(CodeState& state, CompileSite& place, uint32_t site, const FrameView& frame) {
  if (place.entries.empty() && waits_for_loop(state, place, site, frame)) return false;
  if (!may_compile(state, place, frame)) {
    if (PyErr_Occurred()) keep_error(state);
    state.note_lost(place);
    if (place.exhausted && (place.entries.empty() || (state.compares() && ++place.misses >= kMostMisses)))
      state.entries.sites.set_dormant(place, site, true);
    return false;
  }
  CompileResult compiled = compile_at(state, place, site, frame, false);
  if (compiled.interrupted) return false;
  if (compiled.entry) {
    state.insert(place, std::move(compiled.entry), kinds_of(frame));
    return true;
  }
  ++place.failures;
  // Entries that were made before the values were seen to vary are dropped too.
  if (compiled.unprofitable && std::all_of(place.entries.begin(), place.entries.end(),
                                           [](const auto& e) { return e->policy().hits() <= kFewHits; }))
    while (!place.entries.empty()) state.entries.retire(place, place.entries.size() - 1);
  if (place.entries.empty()) state.entries.sites.set_dormant(place, site, true);
  else if (++place.failed[kinds_of(frame)]; place.failed.size() > kMostFailedKinds) place.exhausted = true;
  return false;
}

bool ask_place(CodeState& state, CompileSite& place, uint32_t site, const FrameView& frame,
               capture::FrameUpdate& update) {
  if (!place.is_for(frame.globals, frame.builtins)) return false;
  if (state.comparison.is_timing_round() && !end_round(state, site, frame)) [[unlikely]]
    return false;
  Outcome outcome = Outcome::Miss;
  if (!place.entries.empty())
    outcome = run_entries(
        state, place, frame, !state.comparison.is_timing_round(),
        [&](Entry& entry) { return entry.enter(frame, update); },
        [&](const std::shared_ptr<Entry>& entry, Outcome done, int64_t start) {
          state.comparison.begin_round(entry, site, frame, done, start);
        });
  if (outcome != Outcome::Miss) {
    place.misses = 0;
    if (outcome == Outcome::Declined && place.is_left()) state.entries.sites.set_dormant(place, site, true);
  } else {
    ++place.visits;
    if (!compile_site(state, place, site, frame)) return false;
    const std::shared_ptr<Entry> entry = place.entries.front();
    outcome = entry->enter(frame, update);
  }
  // There was no way back: the interpreter would do the region's effects twice. It goes on behind the region.
  if (outcome == Outcome::Error) [[unlikely]]
    keep_error(state);
  state.ran_region = state.ran_region || outcome == Outcome::Done;
  return outcome == Outcome::Done || outcome == Outcome::Error;
}

/// Nothing runs in place of the bytecode: a region that would have is compared with what the bytecode does.
bool ask_verified(CodeState& state, CompileSite& place, uint32_t site, const FrameView& frame) {
  struct Eager {  // what compares is not compiled itself
    module::Stance before = std::exchange(module::stance, module::Stance::ForceEager);
    ~Eager() { module::stance = before; }
  } eager;
  std::string difference;
  const bool first = site == state.entries.sites.code()->sites().front();
  if (state.predictions.visit(state.code(), site, first, frame, difference) != Predictions::Visit::Ready) return false;
  if (!difference.empty() && internal_error(state.name().c_str(), difference.c_str())) keep_error(state);
  std::shared_ptr<Entry> entry;
  if (place.is_for(frame.globals, frame.builtins)) {
    entry = place.fitting(frame);
    if (!entry && may_compile(state, place, frame)) {
      const CompileResult compiled = compile_at(state, place, site, frame, false);
      entry = compiled.entry;
      if (entry) state.insert(place, entry, kinds_of(frame));
      else if (!compiled.interrupted && ++place.failures >= CompileSite::kMaxFailures) place.exhausted = true;
    }
  }
  if (entry) state.predictions.predict(*entry, frame);
  if (PyErr_Occurred()) PyErr_Clear();
  return false;
}

}  // namespace

bool CodeState::ask(uint32_t site, const FrameView& frame, capture::FrameUpdate& update) {
  CompileSite* place = entries.sites.at(site);
  if (!place || module::bytecode_only() || module::is_disabled(code())) return false;
  if (gain && !MeasuredCall::runs_region(*this, site, frame.locals)) [[unlikely]]
    return false;
  RetiredEntries::Busy busy(entries.retired);
  try {
    if (settings().stress.verify) return ask_verified(*this, *place, site, frame);
    return ask_place(*this, *place, site, frame, update);
  } catch (const std::exception& error) {
    if (internal_error(PyUnicode_AsUTF8(code()->co_qualname), error.what())) keep_error(*this);
    place->exhausted = true;
    return false;
  }
}

}  // namespace framejit::ext::dispatch
