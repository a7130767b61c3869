// Tensor: MindSpore's array type, thin over an ndarray.
#pragma once

#include "capture/py/ref.h"
#include "graph/dtype.h"

namespace framejit::ext {

/// `array` is an exact, C-contiguous, aligned, native ndarray that nothing else writes behind the tensor's back (asnumpy()
/// gives it out, as MindSpore's does).
struct TensorObject {
  PyObject_HEAD
  PyObject* array;
  PyObject* weakrefs;
};

PyTypeObject* tensor_type();
inline bool is_tensor(PyObject* object) { return Py_TYPE(object) == tensor_type(); }
inline PyObject* tensor_array(PyObject* tensor) { return reinterpret_cast<TensorObject*>(tensor)->array; }

/// Takes the reference to `array`, an exact C-contiguous ndarray. Null with an exception set when out of memory.
PyObject* tensor_from_array(PyObject* array);

/// framejit.float32 and its like; new reference.
PyObject* tensor_dtype_object(graph::DType dtype);

}  // namespace framejit::ext
