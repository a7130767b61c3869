// Calls of which it has to be known whether they warn.
#pragma once

#include <functional>

#include "capture/py/ref.h"

namespace framejit::capture {

/// The result of the call, in which each warning raises; null: an exception is set. Warnings of other threads do not
/// raise, though filters belong to the process. The call has a frame of its own, and with it a record of its own of
/// what was warned of: a warning that was given before raises too.
Ref<> call_with_warnings_raised(const std::function<Ref<>()>& call);

/// Is it the filter that stands in `warnings` while such a call runs? It matches no warning of another thread.
bool is_own_filter(PyObject* filter);

/// Clears what a call raised: exceptions of Python's kinds, and of the `other` one. What is none of these, such as
/// KeyboardInterrupt, or has come through a function that is no library's, was not raised by the call but by a signal
/// handler in it: it is raised again at the next instruction.
void clear_error_of_call(PyObject* other = nullptr);

}  // namespace framejit::capture
