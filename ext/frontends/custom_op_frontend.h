// Custom operators at capture: a call of one is a library call of the graph.
#pragma once

#include <memory>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

std::unique_ptr<capture::Frontend> make_custom_op_frontend();

}  // namespace framejit::ext::frontends
