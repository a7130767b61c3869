// a * b + c, a * b - c and c - a * b, rounded once.
#pragma once

#include <asmjit/x86.h>

#include "graph/cfg/cfg.h"

namespace framejit::codegen {

/// Emits cfg::Op::MulAdd, MulSub or SubMul of numbers, or of vectors if `packed`. Not more than one of `b` and `c` may
/// be in memory. The result may be in the register of an operand.
void emit_fused(asmjit::x86::Compiler& cc, cfg::Op op, cfg::Type type, bool packed, const asmjit::x86::Vec& to,
                const asmjit::x86::Vec& a, const asmjit::Operand& b, const asmjit::Operand& c);

}  // namespace framejit::codegen
