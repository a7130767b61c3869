// jit(infer_boost='on'): Parameters are constants.
#pragma once

#include <memory>
#include <vector>

#include "capture/region.h"
#include "ext/region/compile.h"

namespace framejit::ext::region {

/// Computes now what the region's graph makes of Parameters alone, and puts what comes out in its place, as inputs that
/// the region owns. From then on the region fits those Parameters only. What raises a flag or needs NumPy's answer
/// stays in the graph. `live`: what the region was captured from. Gives which of the inputs never change: those that
/// came out, and Parameters by which something is multiplied.
std::vector<bool> fold_parameters(capture::Region& region, const CompileOptions& options,
                                  const capture::LiveSlots& live);

}  // namespace framejit::ext::region
