// What a region would leave at its exit, for stress mode `verify`.
#pragma once

#include "capture/py/slots.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::region {

/// Tries the entry out, and gives what would be at its exit: the record that framejit._reporting._verify.Prediction
/// takes. A prediction has no warnings.
Outcome predict(Entry& entry, const capture::FrameView& frame, capture::Ref<>& record);

}  // namespace framejit::ext::region
