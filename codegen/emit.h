// The emitter: one LoopNest in, machine code out. The only file set that sees asmjit.
#pragma once

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "codegen/loop_nest.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// Can codegen emit this operator inline for these dtypes (at O1: with its own math)? Else a NumPy loop is needed.
bool emits(graph::Op op, graph::DType operand, graph::DType result, bool o1, Isa isa);

/// Fails with a reason only for nests that use what `emits` denies.
Expected<KernelCode, std::string> emit(const LoopNest& nest, Isa isa, bool with_listing = false);

/// Is there a Fold::Blocks for sums of this dtype?
bool has_blocks(graph::DType summed);
/// The elements of its longest run.
int64_t longest_run(const LoopNest& nest, Isa isa);

}  // namespace framejit::codegen
