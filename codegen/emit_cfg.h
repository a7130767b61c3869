// Machine code of a control-flow graph (graph/cfg/cfg.h): one function for a whole nest of loops.
#pragma once

#include <string>

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "graph/cfg/cfg.h"
#include "graph/cfg/self_calls.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// Gives the number of the exit, whose values are in `out`. `poll`: a byte that is not 0 once the interpreter waits.
using CfgFn = int64_t (*)(const int64_t* symbols, char* const* pointers, void* const* objects, int64_t* out,
                          const unsigned char* poll);

/// `self`: the graph may call itself. The calls are made by a second function, which has the arguments and the result
/// in registers.
Expected<KernelCode, std::string> emit(const cfg::Cfg& cfg, const std::string& name, Isa isa, bool with_listing = false,
                                       const cfg::SelfCalls* self = nullptr);

/// The code for a graph in a store, which may be null. `how` says what else it depends on, such as passes over the
/// graph that come first.
class StoredCode {
 public:
  StoredCode(KernelStore* store, const cfg::Cfg& graph, Isa isa, const std::string& how);
  bool find(KernelCode& out) const;
  void add(KernelCode code) const;

 private:
  KernelStore* store_;
  std::string key_;
  std::vector<const void*> addresses_;
};

}  // namespace framejit::codegen
