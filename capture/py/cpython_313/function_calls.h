#pragma once

#include "capture/py/function_calls.h"

namespace framejit::capture::py {

/// A specialised read of a property enters its getter without a look at its version or vectorcall.
inline constexpr bool kPropertiesSkipVectorcall = true;

}  // namespace framejit::capture::py
