// Whether a compiled region is faster than the interpreter.
#pragma once

#include "capture/region.h"

namespace framejit::ext {

/// Does a run take less time than the bytecode, which calls the same functions with the arrays at hand? `region`: its graph is optimized;
/// `asks`: SciPy's error state is looked at before each run, for loops that are SciPy's own. Only ever false there and where there are host calls.
bool is_profitable(const capture::Region& region, bool asks);

}  // namespace framejit::ext
