// What Debian's libasmjit.a lacks in a shared object, and what it does too much (asmjit_pic.cmake).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

// Its debug output names a `stderr` that has to be hidden. <stdio.h> would declare the public one.
__attribute__((visibility("hidden"))) void* stderr = NULL;

__attribute__((constructor)) static void find_stderr(void) {
  void** found = (void**)dlsym(RTLD_DEFAULT, "stderr");
  if (found) stderr = *found;
}

// It is built with assertions, and one of them looks through the whole state of the register allocator at each branch, which takes
// a fifth of the time of a compilation. This definition goes before the library's weak one.
__attribute__((visibility("hidden"))) _Bool has_valid_registers(void) __asm__("_ZN6asmjit8_abi_1_912RAAssignment6verifyEv");
_Bool has_valid_registers(void) { return 1; }
