// The softmax of attention, row by row, through xbyak.
#pragma once

#include <string>

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// The parts of SoftmaxCore, for float32.
Expected<KernelCode, std::string> emit_softmax(Isa isa, bool with_listing = false);

}  // namespace framejit::codegen
