// Calls that run bytecode, spliced or not, around which times are taken for comparison.
#pragma once

#include "ext/dispatch/code_state.h"

namespace framejit::ext::dispatch {

/// Whose turn the call is. Compiled: the spliced code, or callees that are compiled. `slots`: the bound arguments.
region::Side begin_call(CodeState& state, capture::py::Slots slots);
/// The same for a call that call_whole() has declined; false: it is not compared.
bool begin_declined(CodeState& state);
void end_call(CodeState& state);

/// The end of a call that has begun.
struct EndOfCall {
  CodeState* state;
  ~EndOfCall() { end_call(*state); }
};

/// There was nothing that a call could run: others pass by.
void note_idle(CodeState& state);
/// The comparison of an entry has got a time.
void judge(CodeState& state, region::Entry& entry);

}  // namespace framejit::ext::dispatch
