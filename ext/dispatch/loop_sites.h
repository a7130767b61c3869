// LoopSites: which loops of a code object are compiled as loops, and which its captures unroll.
#pragma once

#include <Python.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "capture/code_view.h"
#include "capture/region.h"

namespace framejit::ext::dispatch {

class LoopSites {
 public:
  /// Captures end in front of these loops: see CaptureRequest.
  std::set<uint32_t>& element_loops() { return element_loops_; }
  /// Heads of loops that cannot be compiled as loops.
  std::set<uint32_t>& bytecode_loops() { return bytecode_loops_; }
  capture::RefusedLoops& refused_loops() { return refused_; }
  /// See CaptureRequest.
  std::shared_ptr<capture::LoopFindings> findings(uint32_t head);
  /// Why a loop at this instruction cannot be, or null.
  const std::string* reason(uint32_t head) const;

  /// Later captures end in front of all loops.
  void end_captures_at_all(const capture::CodeView& view);
  void cannot_compile(uint32_t head, std::string reason);
  void clear();

 private:
  std::set<uint32_t> element_loops_, bytecode_loops_;
  std::map<uint32_t, std::string> reasons_;
  std::map<uint32_t, std::shared_ptr<capture::LoopFindings>> findings_;
  capture::RefusedLoops refused_;
};

/// Has a loop had enough rounds? Compiling it takes as long as some thousand rounds of it in the interpreter. `visits`:
/// how often it went round. `is_marked`: somebody marked the very function.
bool is_hot(const capture::CodeView& view, uint32_t head, const capture::FrameView& frame, int64_t visits,
            bool is_marked);
/// Is the instruction the first one that a region may begin with?
bool is_function_start(const capture::CodeView& view, uint32_t instr);
/// The first and the last instruction of the innermost loop around an instruction; the last one is 0: there is none.
std::pair<uint32_t, uint32_t> loop_around(const capture::CodeView& view, uint32_t instr);
/// May the bytecode come by the region's exit before it is there for good? Where the region goes round a loop that it
/// leaves in the middle: it cannot be told then which time is the exit.
bool is_passed_before_exit(const capture::Region& region);

}  // namespace framejit::ext::dispatch
