// The tile registers of AMX where the processor has none: what it does not know raises SIGILL, whose handler does it in
// its place, by the pseudocode of Intel's manual. All other instructions run as they are.
#pragma once

#include <signal.h>

#include <cstdint>

#include "codegen/cpu.h"

namespace framejit::codegen::testing {

/// While one lives, code that uses tile registers runs: by the processor where it has them, else by the handler, on any
/// thread. An instruction that AMX would refuse ends the process.
class AmxEmulator {
 public:
  AmxEmulator();
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  /// A processor that can do what `base` can, and has AMX.
  static Cpu add_to(Cpu base);
  /// Products of registers that the handler has done; 0 where the processor does them.
  static int64_t emulated();
  bool emulates() const { return emulates_; }

  /// Are the registers of this thread released?
  static bool released();

 private:
  bool emulates_ = false;
  struct sigaction before_{};
};

}  // namespace framejit::codegen::testing
