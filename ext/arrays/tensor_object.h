// The object that a Tensor is: an ndarray, attributes that programs set, and what weak references need. The type itself
// is in tensor.cpp.
#pragma once

#include "ext/arrays/numpy_api.h"

namespace framejit::ext::arrays {

/// `array` is an exact, C-contiguous, aligned, native ndarray. An exact Tensor is tracked by the garbage collector from
/// the moment on at which it has a dict.
struct TensorObject {
  PyObject_HEAD PyObject* array;
  PyObject* weakrefs;
  PyObject* dict;
};

PyTypeObject* tensor_type();
/// Once, when the module is made.
void set_tensor_type(PyTypeObject* type);
inline bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, tensor_type()); }
inline PyObject* tensor_array(PyObject* tensor) { return reinterpret_cast<TensorObject*>(tensor)->array; }

/// Of the type of Tensors or one derived from it. Takes the reference to `array`. Null with an exception set when out
/// of memory.
PyObject* new_tensor(PyTypeObject* type, PyObject* array);
/// tp_dealloc.
void free_tensor(PyObject* self);

/// Takes the reference to `array`, an exact C-contiguous ndarray. Null with an exception set when out of memory.
PyObject* tensor_from_array(PyObject* array);
/// Takes the reference to what a function of NumPy gave, an array or scalar: a Tensor of memory that is its own. Null
/// for null.
PyObject* tensor_from_result(PyObject* result);

}  // namespace framejit::ext::arrays
