// Scalar reference of the elementwise operators: what NumPy gives for one element, and which flags it raises.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/dtype.h"
#include "graph/op.h"

namespace framejit::codegen::testing {

using graph::DType;
using graph::Op;

/// An element as its bits, zero extended. `raised` gets status flags, as MXCSR has them, added. Operators are
/// graph/scalar_ops.h's, which tests/graph compares with NumPy.
uint64_t reference_apply(Op op, DType operand, const uint64_t args[3], bool invariant_bounds, unsigned* raised);
uint64_t reference_cast(DType from, DType to, uint64_t value, unsigned* raised);

uint64_t read_element(DType t, const void* at);
void write_element(DType t, void* at, uint64_t bits);

/// Equal bits, or both NaN.
bool same_element(DType t, uint64_t a, uint64_t b);

/// Values that break things: zeros, NaN, infinities, subnormals, limits.
std::vector<uint64_t> special_values(DType t);

double as_double(DType t, uint64_t bits);
uint64_t from_double(DType t, double value);

}  // namespace framejit::codegen::testing
