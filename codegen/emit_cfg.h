// Machine code of a control-flow graph (graph/cfg/cfg.h): one function for a whole nest of loops.
#pragma once

#include <string>

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "graph/cfg/cfg.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// Gives the number of the exit, whose values are in `out`. `poll`: a byte that is not 0 once the interpreter waits.
using CfgFn = int64_t (*)(const int64_t* symbols, char* const* pointers, void* const* objects, int64_t* out,
                          const unsigned char* poll);

Expected<KernelCode, std::string> emit(const cfg::Cfg& cfg, const std::string& name, Isa isa,
                                       bool with_listing = false);

/// The same, out of `store` if that is not null and has it.
Expected<KernelCode, std::string> emit_or_find(const cfg::Cfg& cfg, const std::string& name, Isa isa,
                                               KernelStore* store);

}  // namespace framejit::codegen
