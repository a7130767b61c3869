// The NumPy front door: ndarrays and NumPy scalars into the graph.
#pragma once

#include <memory>

#include "capture/door.h"

namespace framejit::ext {

/// Imports NumPy; null with an exception set where that fails.
std::unique_ptr<capture::Door> make_numpy_door();

}  // namespace framejit::ext
