// Which loops a capture leaves to be compiled as loops, instead of unrolling them.
#pragma once

#include <Python.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace framejit::capture {

class CodeView;
class Executor;
class SymbolicFrame;

/// Loops of which earlier captures found that they would not compile: by code, head, and what the variables were there.
/// Only a hint: other variables with the same hash would be refused too.
struct RefusedLoops {
  struct Refusal {
    std::string why;
    std::optional<uint32_t> array_work;  // the instruction that works on arrays
  };
  using Key = std::tuple<const PyCodeObject*, uint32_t, uint64_t>;
  std::map<Key, Refusal> all;
};

class LoopPrediction {
 public:
  /// Remembers refusals from one capture to the next; null: it does not.
  RefusedLoops* refused = nullptr;
  /// Loops of the frame in which the capture began, by their heads: those that are compiled, to which this class adds
  /// the ones that it finds, and those that stay bytecode.
  std::set<uint32_t>* compiled = nullptr;
  const std::set<uint32_t>* bytecode = nullptr;
  /// Does the frame stand at the head of a loop that compiles as a loop? Asked once for each head.
  bool leaves(Executor& x, const SymbolicFrame& frame);
  /// The same for the frame in which the capture began, if loops may be compiled. Adds the loop to `compiled`.
  bool leaves_outermost(Executor& x, const SymbolicFrame& frame);
  /// Why the loop whose head an instruction is would not compile; "": not asked, or it would.
  std::string why_not(const CodeView& view, uint32_t head) const;

 private:
  enum Answer : int8_t { kNoHead, kUnasked, kNo, kYes };
  std::unordered_map<const CodeView*, std::vector<int8_t>> heads_;
  std::map<std::pair<const CodeView*, uint32_t>, std::string> reasons_;
};

}  // namespace framejit::capture
