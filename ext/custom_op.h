// Custom operators: Python functions that the user says are pure (framejit.custom_op). A call of one is a host call of
// the graph.
#pragma once

#include <memory>

#include "capture/door.h"
#include "codegen/kernel.h"

namespace framejit::ext {

bool is_custom_op(PyObject* object);
/// Knows the custom operators, loaded graphs and what vmap asks for; owns no array.
std::unique_ptr<capture::Door> make_custom_door();
/// By the index of the host call; empty where the operator is gone.
codegen::HostFunction custom_function(int64_t index);

}  // namespace framejit::ext
