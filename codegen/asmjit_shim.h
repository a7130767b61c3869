// Lets a static asmjit that was compiled as PIE be linked into a shared object; see asmjit_shim.cpp.
#pragma once

namespace framejit::codegen {

/// Referenced by the emitter, so that the linker takes our definitions before it looks into libasmjit.a.
void use_asmjit_shim() noexcept;

}  // namespace framejit::codegen
