// Strings of what is known at run time only. They can be moved, stored and returned; reading one breaks.
#pragma once

#include "capture/executor.h"

namespace framejit::capture {

/// The same, and other objects whose text is known: dtypes.
Ref<> plain_text(Executor& x, Value* v);
/// Where a function has to be one graph, an array or Tensor of the library's own class may be shown: a copy of it, as
/// it is now.
bool is_shown_whole(Executor& x, Value* v);
Value* copy_of(Executor& x, Value* array);
/// The str that function(*args) gives, a pure function in C of which the args are numbers, strings, what
/// is_shown_whole(), and tuples of numbers and strings. `spec`, a str, says how.
Captured<Value*> text(Executor& x, PyObject* function, Values args, PyObject* spec = nullptr);
/// The str that an instance of a class of Python's returns, as formatted() has its arguments; null for other values.
Captured<Value*> text_by_class(Executor& x, Value* v, int conversion, Value* spec = nullptr);
/// format(value, spec) after the conversion of an f-string: 0 none, 1 str, 2 repr, 3 ascii.
Captured<Value*> formatted(Executor& x, Value* value, int conversion, Value* spec);
/// Strings, of which at least one is a Text, one behind the other.
Captured<Value*> joined(Executor& x, Values parts);

}  // namespace framejit::capture
