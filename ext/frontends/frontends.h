// The front doors: what capture knows of arrays and of the functions over them.
#pragma once

#include <memory>
#include <vector>

#include "capture/door.h"

namespace framejit::ext {

/// All of them, in the order in which capture asks. Imports NumPy.
const std::vector<capture::Door*>& doors();
/// One of a part of the module that is not a frontend itself. Before the first capture.
void add_door(std::unique_ptr<capture::Door> door);

}  // namespace framejit::ext
