// NumPy's (and SciPy's) own inner loops, for kernels that call them on tiles.
#pragma once

#include "capture/region.h"
#include "codegen/kernel.h"
#include "graph/op.h"

namespace framejit::ext::arrays {

/// The inner loop of the operator's ufunc on operands of `operand` giving `result`; an empty NumpyLoop where the
/// running NumPy has none. The loops of scipy.special are found only where the program has imported it. GIL held.
codegen::NumpyLoop numpy_loop(graph::Op op, graph::DType operand, graph::DType result);

/// The loop of a generalized ufunc of np.linalg whose operands and results are of a dtype; an empty one if the running
/// NumPy has none.
codegen::NumpyLoop linalg_loop(const char* name, graph::DType dtype);

/// CaptureOptions::scalar_loop.
const capture::ScalarLoop* scalar_loop(PyObject* callable, int count, graph::DType dtype, bool of_ints);

/// CaptureOptions::array_loop.
capture::ScalarLoop array_loop(const char* ufunc, graph::DType dtype);

/// CaptureOptions::vector_dot.
capture::VectorDot vector_dot();

}  // namespace framejit::ext::arrays
