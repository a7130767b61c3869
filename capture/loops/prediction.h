// Which loops a capture leaves to be compiled as loops, instead of unrolling them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace framejit::capture {

class CodeView;
class Executor;
class SymbolicFrame;

class LoopPrediction {
 public:
  /// Does the frame stand at the head of a loop that compiles as a loop? Asked once for each head.
  bool leaves(Executor& x, const SymbolicFrame& frame);
  /// Why the loop whose head an instruction is would not compile; "": not asked, or it would.
  std::string why_not(const CodeView& view, uint32_t head) const;

 private:
  enum Answer : int8_t { kNoHead, kUnasked, kNo, kYes };
  std::unordered_map<const CodeView*, std::vector<int8_t>> heads_;
  std::map<std::pair<const CodeView*, uint32_t>, std::string> reasons_;
};

}  // namespace framejit::capture
