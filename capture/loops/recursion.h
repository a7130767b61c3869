// Recursion: a function of numbers that calls itself, as machine code that calls itself.
//
// The code is that of a loop (loop_program.h) which begins where the function begins and has no loop around it. A call
// of the function in it is a call of recurse(), which runs the code again with other inputs. Nothing has an effect, so
// that whatever cannot be computed, at any depth, is left to the interpreter from the start of the outermost call on.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::capture {

struct Recursion {
  static constexpr std::size_t kMostArguments = 2, kMostInputs = 8, kMostValues = 16;

  struct Argument {
    bool is_float;
    uint32_t input;  // a symbol, or the pointer to a float
  };
  std::vector<Argument> arguments;
  std::vector<int32_t> results;  // by exit: the place of the result among its values, or -1
  cfg::Function call;            // recurse(), as the nodes of the graph name it
  std::size_t symbol_count = 0, pointer_count = 0;
  uint32_t at_start = 0;  // the exit at which nothing was done

  using Kernel = int64_t (*)(const int64_t* symbols, char* const* pointers, void* const* objects, int64_t* out,
                             const unsigned char* poll);
  /// As the kernel, with the exit at the start where the interpreter has to do it all. `kernel`: null where the graph
  /// is interpreted. `depth`: so many calls may be within one another.
  int64_t run(Kernel kernel, const cfg::Cfg& graph, const cfg::Inputs& inputs, int64_t* out, const unsigned char* poll,
              int64_t depth);

  /// How many calls the last run made of itself; 0 if the interpreter has to do it all.
  int64_t calls() const { return calls_; }

 private:
  friend int64_t recurse(int64_t, int64_t, int64_t);
  int64_t call_kernel(const cfg::Inputs& inputs, int64_t* out) const;
  [[noreturn]] void give_up();

  Kernel kernel_ = nullptr;
  const cfg::Cfg* graph_ = nullptr;
  cfg::Inputs inputs_{};
  const unsigned char* poll_ = nullptr;
  uintptr_t stack_end_ = 0, stack_low_ = 0;  // py::StackEnds
  int64_t depth_ = 0, calls_ = 0;
  std::jmp_buf start_;
};

/// The result of the function for other arguments, floats as their bits.
int64_t recurse(int64_t recursion, int64_t first, int64_t second);
double recurse_to_float(int64_t recursion, int64_t first, int64_t second);

}  // namespace framejit::capture
