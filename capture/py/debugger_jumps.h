// Debuggers' jumps: `frame.f_lineno = n` analyses the stack of all code of the frame, as it stands in memory.
#pragma once

#include <Python.h>

namespace framejit::capture {

/// Sees to it that `before` and `after` are called around each assignment to f_lineno, with the code of the frame.
/// Their first caller's are kept.
void watch_debugger_jumps(void (*before)(PyCodeObject*), void (*after)(PyCodeObject*));

}  // namespace framejit::capture
