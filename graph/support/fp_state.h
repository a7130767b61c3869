// The floating-point status of the calling thread: MXCSR's sticky flags.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace framejit {

inline constexpr unsigned kStickyFlags = 0x3f;
/// Of these, what NumPy reports. "Inexact" (and "denormal") is set by nearly every kernel and read by nobody: it may
/// stay, which saves the write of MXCSR, several times as dear as a small kernel.
inline constexpr unsigned kReportedFlags = 0x1d;

inline unsigned fp_flags() { return _mm_getcsr() & kStickyFlags; }

inline void clear_fp_flags() {
  const unsigned csr = _mm_getcsr();
  if (csr & kReportedFlags) [[unlikely]]
    _mm_setcsr(csr & ~kStickyFlags);
}

inline void raise_fp_flags(unsigned flags) {
  const unsigned csr = _mm_getcsr();
  if (flags & ~csr & kReportedFlags) _mm_setcsr(csr | flags);
}

/// The x87 status word's flags. NumPy reports through feraiseexcept, which raises overflow and underflow there; its
/// bits are those of MXCSR.
inline unsigned x87_flags() {
  uint16_t status;
  asm volatile("fnstsw %0" : "=a"(status));
  return status & kStickyFlags;
}
inline void clear_x87_flags() { asm volatile("fnclex"); }

}  // namespace framejit
