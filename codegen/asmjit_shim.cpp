// asmjit's three debug functions. Debian's libasmjit.a is PIE, not PIC: its globals.cpp.o refers to `stderr` in a way
// that a shared object may not. Only these functions live in that member, so defining them here keeps it out of the
// link.
#include "codegen/asmjit_shim.h"

#include <asmjit/core.h>

#if ASMJIT_LIBRARY_VERSION < 0x011100  // 1.17
ASMJIT_BEGIN_NAMESPACE
namespace DebugUtils {

const char* errorAsString(Error) noexcept { return "asmjit error (see asmjit::ErrorCode)"; }
void debugOutput(const char*) noexcept {}
void assertionFailed(const char*, int, const char*) noexcept { __builtin_trap(); }

}  // namespace DebugUtils
ASMJIT_END_NAMESPACE
#endif

namespace framejit::codegen {

void use_asmjit_shim() noexcept {}

}  // namespace framejit::codegen
