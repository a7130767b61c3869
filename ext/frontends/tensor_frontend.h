// The Tensor frontend: MindSpore's operators into the same graph.
#pragma once

#include <memory>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

std::unique_ptr<capture::Frontend> make_tensor_frontend();

}  // namespace framejit::ext::frontends
