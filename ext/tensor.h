// Tensor: MindSpore's array type, thin over an ndarray.
#pragma once

#include "capture/py/ref.h"
#include "ext/numpy_api.h"
#include "graph/dtype.h"

namespace framejit::ext {

/// `array` is an exact, C-contiguous, aligned, native ndarray.
struct TensorObject {
  PyObject_HEAD PyObject* array;
  PyObject* weakrefs;
};

PyTypeObject* tensor_type();
inline bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, tensor_type()); }
/// A type whose objects are Tensors to capture: Tensor and Parameter, not what users derive from them.
bool is_captured_tensor_type(PyTypeObject* type);
inline PyObject* tensor_array(PyObject* tensor) { return reinterpret_cast<TensorObject*>(tensor)->array; }

/// Takes the reference to `array`, an exact C-contiguous ndarray. Null with an exception set when out of memory.
PyObject* tensor_from_array(PyObject* array);
/// Takes the reference to what a function of NumPy gave, an array or scalar: a Tensor of memory that is its own. Null
/// for null.
PyObject* tensor_from_result(PyObject* result);

/// Includes the dtypes that do not compile: float16, bfloat16 and the complex ones.
graph::DType dtype_of_tensor(PyObject* tensor);
std::optional<graph::DType> tensor_dtype_of(PyArray_Descr* descr);
/// NumPy's descriptor; null with TypeError set for bfloat16 where no package defines it. Borrowed for ever.
PyArray_Descr* tensor_descr(graph::DType dtype);
/// framejit.float32 and its like; new reference.
PyObject* tensor_dtype_object(graph::DType dtype);
/// The dtype that an argument names: framejit's, NumPy's, a Python type. Nothing with TypeError set.
std::optional<graph::DType> dtype_from_argument(PyObject* argument);

}  // namespace framejit::ext
