// Recursion: a function of numbers that calls itself, as machine code that calls itself.
//
// The code is that of a loop (loop_program.h) which begins where the function begins and has no loop around it. A call
// of the function in it runs the code again with other inputs (graph/cfg/self_calls.h). Nothing has an effect, so that
// whatever cannot be computed, at any depth, is left to the interpreter from the start of the outermost call on:
// control jumps back to Recursion::run, over frames that own nothing. Its inputs are the function's arguments; all
// other inputs are equal at each level. recurse() is for interpreted graphs.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <vector>

#include "graph/cfg/self_calls.h"

namespace framejit::capture {

struct Recursion : cfg::SelfCallRun {
  static constexpr std::size_t kMostArguments = 4, kMostInputs = 8, kMostValues = 16;

  cfg::SelfCalls self;
  std::size_t symbol_count = 0, pointer_count = 0;
  uint32_t at_start = 0;  // the exit at which nothing was done

  using Kernel = int64_t (*)(const int64_t* symbols, char* const* pointers, void* const* objects, int64_t* out,
                             const unsigned char* poll);
  /// As the kernel, with the exit at the start and no calls if the interpreter has to do it all. `kernel`: null if the
  /// graph is interpreted.
  int64_t run(Kernel kernel, const cfg::Cfg& graph, const cfg::Inputs& inputs, int64_t* out, const unsigned char* poll,
              int64_t most_depth);

 private:
  friend int64_t recurse(int64_t, int64_t, int64_t, int64_t, int64_t);

  const cfg::Cfg* graph_ = nullptr;  // that is interpreted
  std::jmp_buf start_;
};

/// The result of the function for other arguments, floats as their bits: what an interpreted graph calls.
int64_t recurse(int64_t recursion, int64_t first, int64_t second, int64_t third, int64_t fourth);
double recurse_to_float(int64_t recursion, int64_t first, int64_t second, int64_t third, int64_t fourth);

}  // namespace framejit::capture
