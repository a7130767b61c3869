// Gradients at capture: the functions of framejit._autodiff._primitives as graph transformations.
#pragma once

#include <memory>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

std::unique_ptr<capture::Frontend> make_gradient_frontend();

}  // namespace framejit::ext::frontends
