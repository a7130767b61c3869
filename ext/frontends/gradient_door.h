// Gradients at capture: the functions of framejit._autodiff._primitives as graph transformations.
#pragma once

#include <memory>

#include "capture/door.h"

namespace framejit::ext {

std::unique_ptr<capture::Door> make_gradient_door();

}  // namespace framejit::ext
