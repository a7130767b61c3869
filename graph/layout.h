// NumPy's layout rules: in which order fresh arrays lie in memory, and when a reshape is a view. Compared with
// NumPy 2.4 over random shapes, orders, negative and zero strides and axes of length 1.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

/// Is no dimension a symbol?
inline bool all_const(std::span<const Dim> dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_const(); });
}

/// Axes from the fastest to the slowest.
using AxisOrder = std::vector<int>;

/// C order, fastest axis first.
AxisOrder c_order(int rank);

/// Strides of a packed array whose axes lie in memory in this order; guards that symbolic dimensions are not 0.
Dims packed_strides(ShapeEnv& shapes, DType dtype, std::span<const Dim> shape, const AxisOrder& order);

/// The order in which NumPy's iterator visits the axes of `shape`, given operands broadcast to it.
AxisOrder iterator_order(ShapeEnv& shapes, std::span<const Dim> shape, std::span<const Type* const> operands);

/// The order of a ufunc's result, which differs from the iterator's for F-contiguous operands with axes of length 1.
AxisOrder ufunc_order(ShapeEnv& shapes, std::span<const Dim> shape, std::span<const Type* const> operands);

/// The order of a copy with order='K'.
AxisOrder copy_order(ShapeEnv& shapes, const Type& type);

/// Contiguous in the sense of NumPy's flags: axes of length 1 may have any stride.
bool is_c_contiguous(ShapeEnv& shapes, const Type& type);
bool is_f_contiguous(ShapeEnv& shapes, const Type& type);

/// Is the value a view that repeats elements, as np.broadcast_to makes them, or a view of one? Such arrays are
/// read-only.
bool repeats_elements(const Graph& graph, ValueId value);

/// The strides with which `type` can be viewed in `shape` (as many elements); nothing where NumPy copies.
std::optional<Dims> reshape_strides(ShapeEnv& shapes, const Type& type, std::span<const Dim> shape);

}  // namespace framejit::graph
