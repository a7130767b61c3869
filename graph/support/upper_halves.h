// What C++ code that machine code calls has to do first.
#pragma once

namespace framejit {

/// Instructions without VEX, of which compilers make C++ code, are slow while the upper halves of vector registers are
/// in use. Machine code that calls a function has saved what it needs of them.
inline void forget_upper_halves() { asm volatile("vzeroupper"); }

}  // namespace framejit
