// Custom operators: Python functions that the user says are pure (framejit.custom_op), and how plans call them.
#pragma once

#include <cstdint>

#include "capture/py/ref.h"
#include "codegen/kernel.h"

namespace framejit::ext::library_calls {

struct CustomOp {
  PyObject* op;  // borrowed
  int64_t index;
  capture::Ref<> function;
  capture::Ref<> shape;  // None: that of the first argument; a tuple; or a callable that is given the arguments' shapes
  capture::Ref<> dtype;  // None: that of the first argument; or a descriptor
};

/// Null for what is none.
const CustomOp* custom_op(PyObject* object);
inline bool is_custom_op(PyObject* object) { return custom_op(object) != nullptr; }
/// By the index of the library call; empty where the operator is gone.
codegen::LibraryFunction custom_function(int64_t index);

}  // namespace framejit::ext::library_calls
