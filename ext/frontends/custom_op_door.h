// Custom operators at capture: a call of one is a host call of the graph.
#pragma once

#include <memory>

#include "capture/door.h"

namespace framejit::ext {

std::unique_ptr<capture::Door> make_custom_op_door();

}  // namespace framejit::ext
