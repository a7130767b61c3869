// Whose turn a call is, and what its end says.
#include "ext/dispatch/bytecode_calls.h"

#include <memory>
#include <utility>

#include "capture/py/interpreter.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/stats.h"
#include "ext/region/profitability.h"

namespace framejit::ext::dispatch {

using region::Entry;

void note_idle(CodeState& state) {
  if (state.compares() && !state.wants_capture() && state.entries.whole.entries.empty()) state.comparison.pass_by(true);
}

region::Side begin_call(CodeState& state, capture::py::Slots slots) {
  ++state.depth;
  state.comparison.count_call();
  if (state.comparison.is_timing() || !state.compares() || state.is_generator()) return region::Side::Compiled;
  state.budget.begin_call();
  const region::Side side = state.comparison.begin_call(slots, module::argument_slots(state.code()));
  // Its first runs would be slower than those to come.
  if (side == region::Side::Bytecode) capture::prepare_soon(state.code());
  return side;
}

bool begin_declined(CodeState& state) {
  if (!state.comparison.begin_declined()) return false;
  capture::prepare_soon(state.code());
  ++state.depth;
  return true;
}

void end_call(CodeState& state) {
  if (std::exchange(state.ran_region, false)) ++module::stats.frames_captured;
  if (--state.depth > 0) return;
  state.budget.end_call();
  if (const std::shared_ptr<Entry> entry = state.comparison.end_call()) judge(state, *entry);
  if (const int64_t gain = state.comparison.take_gain()) state.function()->budget.repay(gain);
}

void judge(CodeState& state, Entry& entry) {
  entry.policy().judge();
  if (entry.policy().is_left() && region::works_on_elements(entry.region()))
    state.function()->captures.elements_lost = true;
}

}  // namespace framejit::ext::dispatch
