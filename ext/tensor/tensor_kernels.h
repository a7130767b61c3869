// Eager elementwise operators of Tensors: the graph of one node, compiled once for an operator and dtype.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>

#include "graph/dtype.h"
#include "graph/op.h"

namespace framejit::ext::tensor {

/// An operand as the kernels see it: `count` elements one after the other, or one for all.
struct KernelOperand {
  const char* data = nullptr;
  bool single = false;
};

/// The operator on one or two operands of `dtype`, of `count` elements each; `op` takes that dtype (graph_operator).
/// `out` has room for the result. False where there is no kernel, or NumPy's own answer is needed; nothing was raised
/// then.
bool run_kernel(graph::Op op, graph::DType dtype, std::span<const KernelOperand> operands, int64_t count, char* out);

}  // namespace framejit::ext::tensor
