// What the files of the builtin functions share. C functions with a Python polyfill (`framejit._traced._polyfills`:
// itertools, functools.reduce, `min` with a key) are followed as Python; their breaks are reported at the caller's
// line.
#pragma once

#include "capture/executor.h"

namespace framejit::capture {

/// isinstance() for an object of a known type.
Captured<bool> instance_of(Executor& x, PyTypeObject* type, Value* cls, int depth = 0);
/// issubclass() of a class that is known.
Captured<bool> subclass_of(Executor& x, PyTypeObject* type, Value* cls, int depth = 0);
/// Calls of builtin types: int, float, tuple, range, enumerate ... Classes of the user's are a Break.
Captured<Value*> call_type(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords);

// Calls of builtin functions and of builtin types' methods. Null: the callable is not known.
Captured<Value*> call_builtin(Executor& x, PyObject* callable, const Values& args, const Keywords& keywords);
/// The Python function that capture follows instead of this C function, or null.
Value* polyfill(Executor& x, PyObject* callable, const Keywords& keywords);
/// The same function, even if it depends on the arguments whether capture follows it.
Value* polyfill(Executor& x, PyObject* callable);
Captured<Value*> sorted(Executor& x, Values items, Value* key, bool reverse);
Captured<std::pair<Value*, bool>> sort_order(Executor& x, const Keywords& keywords);  // key (or null) and reverse
Captured<Value*> call_method(Executor& x, Value* self, const std::string& name, const Values& args,
                             const Keywords& keywords);

}  // namespace framejit::capture
