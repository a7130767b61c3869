// What the files of the builtin functions share.
#pragma once

#include "capture/executor.h"

namespace framejit::capture {

/// isinstance() for an object of a known type.
Captured<bool> instance_of(Executor& x, PyTypeObject* type, Value* cls, int depth = 0);
/// issubclass() of a class that is known.
Captured<bool> subclass_of(Executor& x, PyTypeObject* type, Value* cls, int depth = 0);
/// Calls of builtin types: int, float, tuple, range, enumerate ... Classes of the user's are a Break.
Captured<Value*> call_type(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords);

}  // namespace framejit::capture
