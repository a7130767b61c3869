// Calls that an entry runs from the function's start to a return, without a frame.
#pragma once

#include <Python.h>

#include <memory>
#include <optional>

#include "ext/dispatch/code_state.h"

namespace framejit::ext::dispatch {

/// May entries of this state serve the function: do its names mean what they meant at capture?
bool fits(const CodeState& state, PyFunctionObject* function);
/// Runs a whole entry that fits.
region::Outcome call_whole(CodeState& state, const guards::LiveSlots& live, PyObject*& result);
/// Captures from the function's start, and runs what came out. `slots`: bound arguments. Declined: run something else.
/// With fullgraph, Error and GraphBreakError where capture breaks; or Declined and the break, where the bytecode raises
/// there: its exception is the user's own.
region::Outcome capture_whole(CodeState& state, PyFunctionObject* function, capture::py::Slots slots, PyObject*& result,
                              std::optional<capture::Break>& raising);

/// The entry for a whole call that fits, or null.
std::shared_ptr<region::Entry> entry_of_call(const CodeState& state, const guards::LiveSlots& live);
/// As capture_whole, and runs nothing. False: with fullgraph, GraphBreakError where capture breaks.
bool precompile_whole(CodeState& state, PyFunctionObject* function, capture::py::Slots slots);
/// Compiles the region at the function's start, where the code is spliced.
void precompile_start(CodeState& state, PyFunctionObject* function, capture::py::Slots slots);

}  // namespace framejit::ext::dispatch
