// A C function of any signature, which leaves its arguments in memory and calls another function with a context.
#pragma once

#include <cstdint>

#include "codegen/kernel.h"

namespace framejit::codegen {

/// The registers of arguments, by the System V ABI. The result is put into the first one of its kind.
struct ArgumentRegisters {
  static constexpr int kIntegers = 6, kFloats = 8;
  uint64_t integers[kIntegers];
  uint64_t floats[kFloats];  // low half of each
};

using ThunkTarget = void (*)(void* context, ArgumentRegisters* registers);

KernelCode emit_thunk(ThunkTarget target, void* context);

}  // namespace framejit::codegen
