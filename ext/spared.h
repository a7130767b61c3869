// What a compiled region is worth beside the interpreter, where it calls NumPy's functions.
#pragma once

#include "capture/region.h"

namespace framejit::ext {

/// Does a run take longer than the bytecode, which calls the same functions with the arrays at hand? `region`: its graph is optimized;
/// `asks`: SciPy's error state is looked at before each run, for loops that are SciPy's own. Only ever true there and where there are host calls.
bool loses_to_interpreter(const capture::Region& region, bool asks);

}  // namespace framejit::ext
