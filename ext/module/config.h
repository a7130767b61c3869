// Settings that the Python side sets through _core.config_set.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/cpu.h"

namespace framejit::ext::module {

/// How it is found out whether compiled code is faster than the bytecode.
enum class Profitability : uint8_t {
  Measure,   // estimated before it is compiled, measured in some of its runs
  Estimate,  // only estimated
  Off,       // what can be compiled runs compiled
};

struct Config {
  int64_t recompile_limit = 8;  // entries of one function or region, before it stays in the interpreter
  int64_t num_threads = 0;      // 0: all that affinity and cgroup limits allow
  std::string cpu;              // override of the detected processor, see codegen::select_cpu
  bool strict = false;          // internal errors raise
  int64_t code_bytes_limit = 64 << 20;
  std::string cache_dir;  // where machine code is kept for other processes; empty: it is not kept
  int64_t cache_bytes_limit = 256 << 20;
  int64_t instruction_limit = 20000;  // of one capture
  int64_t capture_time_limit = 50;    // ms of one capture; 0: none
  std::string passes;                 // "-fuse,-cse": passes that are switched off
  std::string perf;                   // "map", "jitdump": where perf finds the names of kernels
  std::string stress;                 // for functions that are marked from now on
  std::string profitability = "measure";
  Profitability profitable_by = Profitability::Measure;  // the same
};

/// Read and written with the GIL held.
Config& config();
/// The processor that code is generated for, `cpu` taken into account.
const codegen::Cpu& target_cpu();

}  // namespace framejit::ext::module
