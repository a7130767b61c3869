// Tensor: MindSpore's array type, thin over an ndarray (tensor_object.h), and its dtypes.
#pragma once

#include <optional>

#include "ext/arrays/tensor_object.h"
#include "graph/dtype.h"

namespace framejit::ext::tensor {

/// A type whose objects are Tensors to capture: Tensor and Parameter, not what users derive from them.
bool is_captured_tensor_type(PyTypeObject* type);

/// Includes the dtypes that do not compile: float16, bfloat16 and the complex ones.
graph::DType dtype_of_tensor(PyObject* tensor);
std::optional<graph::DType> tensor_dtype_of(PyArray_Descr* descr);
/// NumPy's descriptor; null with TypeError set for bfloat16 where no package defines it. Borrowed for ever.
PyArray_Descr* tensor_descr(graph::DType dtype);
/// The object, which is no Tensor, as an ndarray of the dtype with NPY_ARRAY_FORCECAST and these flags. Python's
/// integers that do not fit an integer dtype lose their upper bits, as those in lists do.
capture::Ref<> array_from(PyObject* object, graph::DType dtype, int flags);
/// framejit.float32 and its like; new reference.
PyObject* tensor_dtype_object(graph::DType dtype);
/// The dtype that an argument names: framejit's, NumPy's, a Python type. Nothing with TypeError set.
std::optional<graph::DType> dtype_from_argument(PyObject* argument);

}  // namespace framejit::ext::tensor
