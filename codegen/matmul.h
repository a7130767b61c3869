// Matrix-product cores, through xbyak.
#pragma once

#include <string>

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "codegen/matmul_core.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// The parts of MatMulCore(dtype, isa == Isa::Avx512), for float32 and float64. The table of their offsets comes first, so the
/// code has no entry of its own.
Expected<KernelCode, std::string> emit_matmul(graph::DType dtype, Isa isa, bool with_listing = false);

}  // namespace framejit::codegen
