// Calls of functools.lru_cache wrappers.
#pragma once

#include "capture/executor.h"

namespace framejit::capture {

/// A call of a functools.lru_cache wrapper.
Captured<Value*> call_cached(Executor& x, Value* cache, const Values& args, const Keywords& keywords);

}  // namespace framejit::capture
