// Whole entries: run, captured, and compiled ahead.
#include "ext/dispatch/whole_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ext/dispatch/bytecode_calls.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/entry_runs.h"
#include "ext/dispatch/pipeline.h"
#include "ext/module/bind_arguments.h"

namespace framejit::ext::dispatch {

using capture::Break;
using capture::FrameView;
using guards::LiveSlots;
using region::Entry;
using region::Outcome;

bool fits(const CodeState& state, PyFunctionObject* function) {
  return state.entries.whole.is_for(function->func_globals, function->func_builtins);
}

Outcome call_whole(CodeState& state, const LiveSlots& live, PyObject*& result) {
  RetiredEntries::Busy busy(state.entries.retired);
  if (state.disabled_epoch != module::disabled_epoch) [[unlikely]] {
    state.disabled_epoch = module::disabled_epoch;  // what was inlined may be disabled now, or no longer
    state.clear();
  }
  if (state.entries.whole.entries.empty()) return state.note_lost(state.entries.whole), Outcome::Miss;
  const Outcome outcome = run_entries(
      state, state.entries.whole, live, !state.comparison.is_timing(),
      [&](Entry& entry) { return entry.call(live, result); },
      [&state](const std::shared_ptr<Entry>& entry, Outcome done, int64_t start) {
        if (state.comparison.end_entry_run(entry, done, start)) judge(state, *entry);
      });
  if (outcome == Outcome::Miss) state.note_lost(state.entries.whole);
  // With fullgraph=True each call is looked at: one that cannot be captured is an error.
  if (outcome == Outcome::Declined && !state.captures.broke && !state.settings().fullgraph &&
      !state.comparison.has_declined() && state.entries.whole.is_left())
    state.comparison.pass_by(state.compares());
  return outcome;
}

namespace {

/// The frame of a call, before its first instruction.
struct CallStart {
  std::vector<PyObject*> locals;
  FrameView frame;

  CallStart(CodeState& state, PyFunctionObject* function, capture::py::Slots slots) {
    const int slot_count = module::argument_slots(state.code());
    locals.resize(static_cast<std::size_t>(std::max(state.view()->local_count(), slot_count)));
    for (int i = 0; i < slot_count; ++i) locals[static_cast<std::size_t>(i)] = slots[i];
    auto* object = reinterpret_cast<PyObject*>(function);
    const int count = static_cast<int>(locals.size());
    frame = {{locals.data(), count, nullptr, 0, object}, function->func_globals, function->func_builtins};
  }
};

/// `raising`: where a break is told that is no error yet, or null.
Outcome compile_whole(CodeState& state, const CallStart& start, std::optional<Break>* raising) {
  if (!may_compile(state, state.entries.whole, start.frame))
    return PyErr_Occurred() ? Outcome::Error : Outcome::Declined;
  CompileResult compiled = compile_at(state, state.entries.whole, 0, start.frame, true);
  if (compiled.entry) {
    state.insert(state.entries.whole, std::move(compiled.entry), kinds_of(start.frame));
    return Outcome::Miss;
  }
  if (compiled.interrupted) return Outcome::Declined;
  // Numbers, say, of a function that has been compiled for arrays.
  if (compiled.breaks.empty() && !state.entries.whole.entries.empty() && !state.settings().fullgraph) {
    ++state.entries.whole.failed[kinds_of(start.frame)];
    return Outcome::Declined;
  }
  ++state.entries.whole.failures;
  if (state.settings().fullgraph && !compiled.breaks.empty()) {
    if (raising && capture::raises_to_caller(compiled.breaks.front())) {
      *raising = std::move(compiled.breaks.front());
      return Outcome::Declined;
    }
    raise_graph_break(compiled.breaks.front());
    return Outcome::Error;
  }
  // What is not cached yet will be soon.
  const bool passes = std::any_of(compiled.breaks.begin(), compiled.breaks.end(),
                                  [](const Break& b) { return b.id == capture::BreakId::CacheMiss; });
  // A call that was followed to its end has nothing to compile; one with other arguments may have.
  constexpr int kMostFollowed = 2;
  state.captures.left_call = compiled.returned && compiled.breaks.empty();
  const int most = passes ? CompileSite::kMaxFailures : state.captures.left_call ? kMostFollowed : 1;
  state.captures.broke = state.entries.whole.failures >= most;
  if (state.captures.broke && !state.entries.sites.code()) {
    state.captures.first_region = std::move(compiled.first_region);
    state.captures.first_kinds = kinds_of(start.frame);
  }
  return Outcome::Declined;
}

}  // namespace

Outcome capture_whole(CodeState& state, PyFunctionObject* function, capture::py::Slots slots, PyObject*& result,
                      std::optional<Break>& raising) {
  const CallStart start(state, function, slots);
  RetiredEntries::Busy busy(state.entries.retired);
  if (const Outcome outcome = compile_whole(state, start, &raising); outcome != Outcome::Miss) return outcome;
  const std::shared_ptr<Entry> entry = state.entries.whole.entries.front();
  const Outcome outcome = entry->call(start.frame, result);
  return outcome == Outcome::Miss || outcome == Outcome::OtherWay ? Outcome::Declined : outcome;
}

std::shared_ptr<Entry> entry_of_call(const CodeState& state, const LiveSlots& live) {
  return state.entries.whole.fitting(live);
}

bool precompile_whole(CodeState& state, PyFunctionObject* function, capture::py::Slots slots) {
  const CallStart start(state, function, slots);
  RetiredEntries::Busy busy(state.entries.retired);
  const bool is_there = entry_of_call(state, start.frame) || compile_whole(state, start, nullptr) != Outcome::Error;
  state.captures.left_call = false;
  return is_there;
}

void precompile_start(CodeState& state, PyFunctionObject* function, capture::py::Slots slots) {
  if (!state.entries.sites.code() || state.entries.sites.code()->sites().empty()) return;
  const uint32_t site = state.entries.sites.code()->sites().front();
  // Cells would be there already.
  if (site == 0 || state.view()->instrs()[site - 1].op != capture::Opcode::Resume ||
      PyCode_GetNumFree(state.code()) > 0)
    return;
  for (int i = 0; i < state.view()->local_count(); ++i)
    if (state.view()->is_cell(i)) return;
  const CallStart start(state, function, slots);
  RetiredEntries::Busy busy(state.entries.retired);
  CompileSite& place = *state.entries.sites.at(site);
  if (place.fitting(start.frame)) return;
  if (!may_compile(state, place, start.frame)) return PyErr_Clear();
  if (CompileResult compiled = compile_at(state, place, site, start.frame, false); compiled.entry)
    state.insert(place, std::move(compiled.entry), kinds_of(start.frame));
}

}  // namespace framejit::ext::dispatch
