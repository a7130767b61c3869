// The NumPy frontend: ndarrays and NumPy scalars into the graph.
#pragma once

#include <memory>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

/// Imports NumPy; null with an exception set where that fails.
std::unique_ptr<capture::Frontend> make_numpy_frontend();

}  // namespace framejit::ext::frontends
