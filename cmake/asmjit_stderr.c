// A hidden `stderr` for a libasmjit.a that is not position independent (asmjit_pic.cmake). <stdio.h> would declare the public one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

__attribute__((visibility("hidden"))) void* stderr = NULL;

__attribute__((constructor)) static void find_stderr(void) {
  void** found = (void**)dlsym(RTLD_DEFAULT, "stderr");
  if (found) stderr = *found;
}
