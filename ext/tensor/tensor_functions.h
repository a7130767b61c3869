// The functions by which framejit.ops goes from Tensors to ndarrays and back.
#pragma once

#include <Python.h>

#include <optional>
#include <vector>

#include "ext/tensor/tensor_promotion.h"

namespace framejit::ext::tensor {

enum class TensorFunction : uint8_t {
  Array,     // array(x, dtype=None): the ndarray of a Tensor, converted; see array_dtype
  Arrays,    // arrays(*xs): promoted to one dtype
  Tensor,    // tensor(array)
  DType,     // dtype(d): NumPy's dtype for framejit's
  MatMul,    // matmul(a, b): of two arrays, by the core
  Attend,    // attend(q, k, v, scale, mask, causal): arrays, a number, an array or None, a graph::Causal
  Windows,   // windows(image, size, stride, dilation, ...): a view of the places of a window; three numbers for each of
             // the last axes
  Convolve,  // convolve(image, weights, groups, stride, before, after, dilation, ...): arrays; four numbers for each
             // axis of space
};

/// Which of them a callable is.
std::optional<TensorFunction> tensor_function(PyObject* callable);

/// The dtype that `rule` asks of an array of dtype `own`: a dtype, "sum" (integers and bools as int64) or "floating"
/// (integers and bools as float32). Nothing with TypeError set.
std::optional<graph::DType> array_dtype(graph::DType own, PyObject* rule);

/// Of any number of Tensors and numbers; numbers alone are int64, float32 and so on.
std::optional<graph::DType> promote_all(const std::vector<Promoted>& operands);

}  // namespace framejit::ext::tensor
