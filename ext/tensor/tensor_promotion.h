// MindSpore's promotion of element types; eager Tensors and the capture of them both ask here.
#pragma once

#include <optional>

#include "graph/dtype.h"
#include "graph/op.h"

namespace framejit::ext::tensor {

/// What an operand is to promotion: a tensor of a dtype, or a Python number, which is weak inside its kind.
struct Promoted {
  graph::DType dtype;
  bool python_number = false;
};

/// The dtype in which an operator computes on two tensors, or on a tensor and a Python number (then `b.dtype` is Bool,
/// I64, F64 for bool, int, float). bool < integers < floats < complex; the wider one wins inside a kind; uint8 with
/// int8 is int16. Nothing where MindSpore refuses (uint64 with signed integers).
std::optional<graph::DType> promote(Promoted a, Promoted b);

/// The dtype in which `op` computes, given the promoted dtype: functions of floating numbers (true division, exp ...)
/// take integers and bools as float32; floor division, remainder and power of bools are int64.
graph::DType compute_dtype(graph::Op op, graph::DType promoted);

/// The dtype of the loop that computes `op` of this dtype, whose result is rounded to it: float32 for SciPy's functions
/// of half precision, for which SciPy itself would take float64.
graph::DType loop_dtype(graph::Op op, graph::DType dtype);

/// The operator of the graph that is NumPy's `op` on this dtype (sum and product of bools are or and and); nothing
/// where NumPy has no loop, or one that raises depending on values.
std::optional<graph::Op> graph_operator(graph::Op op, graph::DType dtype);

/// Of the sum and product of a tensor: integers and bools accumulate in int64.
graph::DType sum_dtype(graph::DType dtype);

}  // namespace framejit::ext::tensor
