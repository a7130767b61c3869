// The frontends: what capture knows of arrays and of the functions over them.
#pragma once

#include <memory>
#include <vector>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

/// All of them, in the order in which capture asks. Imports NumPy.
const std::vector<capture::Frontend*>& frontends();
/// One of a part of the module that is not a frontend itself. Before the first capture.
void add_frontend(std::unique_ptr<capture::Frontend> frontend);

}  // namespace framejit::ext::frontends
