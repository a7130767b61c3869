// The Tensor front door: MindSpore's operators into the same graph.
#pragma once

#include <memory>

#include "capture/door.h"

namespace framejit::ext {

std::unique_ptr<capture::Door> make_tensor_door();

}  // namespace framejit::ext
