// Which loops a capture leaves to be compiled as loops, instead of unrolling them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace framejit::capture {

class CodeView;
class Executor;
class SymbolicFrame;

class LoopPrediction {
 public:
  /// Does the frame stand at the head of a loop that compiles as a loop? Asked once for each head.
  bool leaves(Executor& x, const SymbolicFrame& frame);

 private:
  enum Answer : int8_t { kNoHead, kUnasked, kNo, kYes };
  std::unordered_map<const CodeView*, std::vector<int8_t>> heads_;
};

}  // namespace framejit::capture
