// Independent pieces of code by turns.
#pragma once

#include <asmjit/x86.h>

#include <span>

namespace framejit::codegen {

/// How many instructions on vectors stand behind `before` up to the cursor, without those that a jump may leave out.
std::size_t straight_length(asmjit::x86::Compiler& cc, asmjit::BaseNode* before);

/// The pieces stand one after the other, each behind its node of `before`, the last one up to the cursor. Instructions
/// on vectors take turns; what jumps, or sets the processor's flags for a jump, stays together. No piece may write
/// memory that another one reads.
void interleave(asmjit::x86::Compiler& cc, std::span<asmjit::BaseNode* const> before);

}  // namespace framejit::codegen
