// Names of generated code for Linux perf.
#pragma once

#include <cstddef>
#include <string_view>

namespace framejit::runtime {

enum class PerfNames : unsigned char {
  Off,
  Map,      // /tmp/perf-<pid>.map: perf report reads it as it is
  Jitdump,  // jit-<pid>.dump in the current folder, with the code itself: for perf inject --jit
};
/// For code that is made from now on.
void set_perf_names(PerfNames where);
/// A piece of code has been placed. Failures to write are silent.
void name_for_perf(const void* code, std::size_t size, std::string_view name);

}  // namespace framejit::runtime
