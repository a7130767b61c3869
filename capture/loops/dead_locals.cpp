#include "capture/loops/dead_locals.h"

#include <array>

namespace framejit::capture {

namespace {

struct Uses {
  uint64_t read = 0, set = 0;
};

Uses uses_of(const Instr& i) {
  const uint64_t bit = i.arg >= 0 && i.arg < 64 ? uint64_t{1} << i.arg : 0;
  switch (i.op) {
    case Opcode::LoadFast:
    case Opcode::LoadFastCheck:
    case Opcode::LoadFastAndClear:
    case Opcode::DeleteFast:
    case Opcode::MakeCell:
    case Opcode::LoadClosure:
    case Opcode::LoadDeref:
    case Opcode::StoreDeref:
    case Opcode::DeleteDeref:
    case Opcode::LoadClassDeref: return {bit, 0};
    case Opcode::StoreFast: return {0, bit};
    default: return {};
  }
}

constexpr uint32_t kNowhere = UINT32_MAX;

/// The instructions that may follow, without those of handlers: an exception is raised by the interpreter.
std::array<uint32_t, 2> successors(const CodeView& view, uint32_t at) {
  const Instr& i = view.instrs()[at];
  const auto target = static_cast<uint32_t>(i.arg);
  switch (i.op) {
    case Opcode::Jump: return {target, kNowhere};
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue:
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone:
    case Opcode::JumpIfFalseOrPop:
    case Opcode::JumpIfTrueOrPop:
    case Opcode::ForIter: return {target, view.behind(at)};
    case Opcode::ReturnValue:
    case Opcode::ReturnConst:
    case Opcode::RaiseVarargs:
    case Opcode::Reraise: return {kNowhere, kNowhere};
    default: return {view.behind(at), kNowhere};
  }
}

}  // namespace

DeadLocals::DeadLocals(const CodeView& view, uint32_t first, uint32_t last)
    : first_(first), live_(last - first + 1, 0) {
  for (uint32_t i = first; i <= last; ++i) set_ |= uses_of(view.instrs()[i]).set;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = last + 1; i-- > first;) {
      uint64_t behind = 0;
      for (const uint32_t next : successors(view, i))
        if (first <= next && next <= last) behind |= live_[next - first];
      const Uses uses = uses_of(view.instrs()[i]);
      const uint64_t live = (behind & ~uses.set) | uses.read;
      changed = changed || live != live_[i - first];
      live_[i - first] = live;
    }
  }
}

}  // namespace framejit::capture
