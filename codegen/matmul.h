// Matrix-product cores, through xbyak.
#pragma once

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// C[m,n] = A[m,k] B[k,n] for float32 or float64, rows contiguous, any m, n, k >= 0 (k == 0 stores zeros). One column of B is fast where
/// its elements are next to each other (ldb the element's size).
Expected<KernelCode, std::string> emit_matmul(graph::DType dtype, Isa isa, bool with_listing = false);

}  // namespace framejit::codegen
