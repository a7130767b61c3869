// Graphs that call themselves: functions of numbers without effects.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

/// How a CallItself runs the graph again with other arguments.
struct SelfCalls {
  struct Argument {
    bool is_float;
    uint32_t input;  // the number of a symbol, or of the pointer to a float
  };
  Function function;  // its operands: the address of the SelfCallRun, then the arguments, floats as their bits
  std::vector<Argument> arguments;
  std::vector<int32_t> results;  // by exit: the place of the result among its values, or -1: the run is given up
  int inlined = 0;  // levels of calls that are copies of the graph; the `imm` of other calls is their level
};

/// Replaces calls of the graph by itself by copies of it, some levels deep. `given_up`: the exit at which nothing was
/// done, where copies leave that cannot go on.
void inline_self_calls(Cfg& cfg, SelfCalls& self, uint32_t given_up);

/// What all calls of one run share.
struct SelfCallRun {
  const int64_t* symbols = nullptr;
  char* const* pointers = nullptr;
  void* const* objects = nullptr;
  const unsigned char* poll = nullptr;
  uintptr_t stack_limit = 0;                // no call is made if the stack has grown below it
  int64_t depth = 0;                        // so many calls may be within one another
  int64_t calls = 0;                        // that were made
  void (*give_up)(SelfCallRun*) = nullptr;  // does not return
};

}  // namespace framejit::cfg
