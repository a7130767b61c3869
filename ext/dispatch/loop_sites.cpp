// Where the loops of a code object are, and what is known of them.
#include "ext/dispatch/loop_sites.h"

#include <span>

#include "capture/loops/translator.h"

namespace framejit::ext::dispatch {

using capture::CodeView;
using capture::Instr;
using capture::Opcode;

namespace {

/// Does the instruction jump, in any way, to `target` or in front of it?
bool jumps_back(const Instr& instr, uint32_t target) {
  return capture::may_end_round(instr.op) && instr.arg >= 0 && static_cast<uint32_t>(instr.arg) <= target;
}

}  // namespace

const std::string* LoopSites::reason(uint32_t head) const {
  const auto at = reasons_.find(head);
  return at == reasons_.end() ? nullptr : &at->second;
}

void LoopSites::end_captures_at_all(const CodeView& view) {
  const std::span<const Instr> instrs = view.instrs();
  for (uint32_t i = 0; i < instrs.size(); ++i)
    if (instrs[i].op == Opcode::Jump && jumps_back(instrs[i], i))
      element_loops_.insert(static_cast<uint32_t>(instrs[i].arg));
}

void LoopSites::cannot_compile(uint32_t head, std::string reason) {
  bytecode_loops_.insert(head);
  element_loops_.erase(head);
  reasons_[head] = std::move(reason);
}

std::shared_ptr<capture::LoopFindings> LoopSites::findings(uint32_t head) {
  std::shared_ptr<capture::LoopFindings>& found = findings_[head];
  if (!found) found = std::make_shared<capture::LoopFindings>();
  return found;
}

void LoopSites::clear() {
  element_loops_.clear();
  bytecode_loops_.clear();
  reasons_.clear();
  findings_.clear();
  refused_.all.clear();
}

bool is_hot(const CodeView& view, uint32_t head, const capture::FrameView& frame, int64_t visits, bool is_marked) {
  constexpr int64_t kHot = 32;  // rounds
  if (visits >= kHot) return true;
  const int64_t rounds = capture::rounds_before(view, head, frame);
  // How long a `while` or an inner loop goes on cannot be told; a function that is marked by itself is worth it.
  const uint32_t last = view.last_of_nest(head);
  bool unknown = rounds < 0;
  for (uint32_t i = head + 1; i < last && !unknown; ++i) unknown = rounds > 0 && view.begins_nest(i);
  return rounds >= kHot || (unknown && is_marked);
}

bool is_function_start(const CodeView& view, uint32_t instr) {
  const std::span<const Instr> instrs = view.instrs();
  return instr > 0 && instrs[instr - 1].op == Opcode::Resume && instrs[instr - 1].arg == 0;
}

std::pair<uint32_t, uint32_t> loop_around(const CodeView& view, uint32_t instr) {
  const std::span<const Instr> instrs = view.instrs();
  std::pair<uint32_t, uint32_t> loop{0, 0};
  for (uint32_t i = instr; i < instrs.size(); ++i) {
    if (!jumps_back(instrs[i], instr)) continue;
    const auto head = static_cast<uint32_t>(instrs[i].arg);
    if (loop.second == 0 || head == loop.first) loop = {head, i};
  }
  return loop;
}

bool is_passed_before_exit(const capture::Region& region) {
  if (region.passes_exit) return true;
  const std::span<const Instr> instrs = region.view->instrs();
  for (uint32_t i = region.exit; i < instrs.size() && !region.returns; ++i)
    if (jumps_back(instrs[i], region.exit) && (region.entry < static_cast<uint32_t>(instrs[i].arg) || region.entry > i))
      return true;
  return false;
}

}  // namespace framejit::ext::dispatch
