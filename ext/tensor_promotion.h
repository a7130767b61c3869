// MindSpore's promotion of element types; eager Tensors and the capture of them both ask here.
#pragma once

#include <optional>

#include "graph/dtype.h"
#include "graph/op.h"

namespace framejit::ext {

/// What an operand is to promotion: a tensor of a dtype, or a Python number, which is weak inside its kind.
struct Promoted {
  graph::DType dtype;
  bool python_number = false;
};

/// The dtype in which an operator computes on two tensors, or on a tensor and a Python number (then `b.dtype` is Bool, I64, F64
/// for bool, int, float). bool < integers < floats < complex; the wider one wins inside a kind; uint8 with int8 is int16. Nothing
/// where MindSpore refuses (uint64 with signed integers).
std::optional<graph::DType> promote(Promoted a, Promoted b);

/// The dtype in which `op` computes, given the promoted dtype: true division of integers and bools is float32, floor division and
/// power of bools int64.
graph::DType compute_dtype(graph::Op op, graph::DType promoted);

/// Of the sum and product of a tensor: integers and bools accumulate in int64.
graph::DType sum_dtype(graph::DType dtype);

}  // namespace framejit::ext
