// Which dtypes a ufunc's loop takes and gives: asked from the running NumPy, so that promotion is its own on every
// version.
//
// NumPy 2 decides by dtypes alone, Python numbers being weak. NumPy 1 looks at the values of scalars as well: where an
// answer would depend on a value that is known at run time only, there is none.
#pragma once

#include "ext/arrays/numpy_api.h"

#include <array>
#include <span>

#include "capture/break.h"
#include "graph/op.h"

namespace framejit::ext::arrays {

/// What promotion looks at.
struct OperandType {
  graph::DType dtype = graph::DType::F64;  // of a Python number: what it is alone (int64, float64, complex128)
  bool literal = false;                    // a Python int, float or complex; a bool is a NumPy bool for this purpose
  bool scalar = false;                     // 0-d
  PyObject* value = nullptr;               // the scalar, where it is known. Borrowed
};

struct LoopTypes {
  std::array<graph::DType, 3> in{};
  graph::DType out{};
};

/// The ufunc of an operator's row, or null. Borrowed from the ufunc table, which keeps it for ever. SciPy's are found
/// only where scipy.special has been imported.
PyUFuncObject* ufunc_of(graph::Op op);
constexpr bool is_of_scipy(graph::Op op) { return graph::def(op).numpy.starts_with("scipy."); }

/// The loop that `ufunc` runs. WouldRaise where it raises, UnsupportedArgument where it computes in a dtype that
/// framejit does not compile.
capture::Captured<LoopTypes> loop_types(PyUFuncObject* ufunc, std::span<const OperandType> operands);

/// np.result_type, as np.where and concatenation use it.
capture::Captured<graph::DType> result_type(std::span<const OperandType> operands);

}  // namespace framejit::ext::arrays
