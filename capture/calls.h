// Calls of Python functions, of partial objects and of whatever can be called.
//
// A function that calls itself is followed if its calls are few (`CaptureOptions::recursive_calls`); the first call
// that is finished shows how many they will be. Otherwise the capture ends at the call, and the code that asked follows
// calls that are further in (`CaptureOutcome::unfinished_levels`).
#pragma once

#include <string>
#include <vector>

#include "capture/executor.h"

namespace framejit::capture {

struct Forced {
  Values args;
  std::vector<Keyword> keywords;
  std::vector<std::string> names;  // of the keywords
};
Captured<Forced> forced(Executor& x, const Values& args, const Keywords& keywords);
Captured<Value*> call(Executor& x, Value* callable, const Values& args, const Keywords& keywords);
/// The Python function behind a marked one; null for other objects.
Value* unwrapped(Executor& x, Value* callable);
Captured<Value*> call_function(Executor& x, Value* function, const Values& args, const Keywords& keywords);
Captured<Value*> make_partial(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords);
Captured<Value*> call_partial(Executor& x, Value* partial, const Values& args, const Keywords& keywords);
Captured<Value*> remade_callable(Executor& x, Value* callable);
Value* dispatched(Executor& x, Value* callable, const Values& args, const Keywords& keywords);

/// functools.partial, no subclass.
bool is_partial(const PyTypeObject* type);

}  // namespace framejit::capture
