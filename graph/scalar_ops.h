// The scalar meaning of each elementwise operator: what one element of the result is. Folding and the reference
// interpreter use it; kernels must agree with it to the bit (which NaN apart).
#pragma once

#include <span>

#include "graph/graph.h"

namespace framejit::graph {

struct ScalarOptions {
  /// Clip: both bounds are single elements. NumPy has another formula for them, which keeps -0 against a bound of 0.
  bool uniform_bounds = false;
};

/// Applies an elementwise operator or a cast. `operand` is the dtype of the last argument. Raises floating-point flags
/// in the environment of the thread, those of integer division by zero included. False where the operator has no
/// meaning here for these dtypes (f16, bf16, complex) or values (an integer to a negative power).
bool apply_scalar(Op op, DType operand, DType result, std::span<const Scalar> args, Scalar& out,
                  const ScalarOptions& options = {});

/// Is the dtype one that apply_scalar works in?
constexpr bool has_scalar_ops(DType t) { return !is_complex(t) && t != DType::F16 && t != DType::BF16; }

}  // namespace framejit::graph
