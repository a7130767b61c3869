// Post-dominators by iteration over the reversed graph (Cooper, Harvey, Kennedy).
#include "capture/flow_map.h"

#include <algorithm>
#include <memory>

#include "capture/py/cpython/facts.h"

namespace framejit::capture {

namespace {

void successors(const CodeView& view, uint32_t i, uint32_t end, std::vector<uint32_t>& out) {
  const Instr& instr = view.instrs()[i];
  switch (instr.op) {
    case Opcode::Jump: out.push_back(static_cast<uint32_t>(instr.arg)); return;
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue:
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone:
    case Opcode::JumpIfFalseOrPop:
    case Opcode::JumpIfTrueOrPop:
    case Opcode::ForIter:
    case Opcode::Send: out.push_back(static_cast<uint32_t>(instr.arg)); break;
    case Opcode::ReturnValue:
    case Opcode::ReturnConst: out.push_back(end); return;
    case Opcode::RaiseVarargs:
    case Opcode::Reraise: return;
    default: break;
  }
  if (i + 1 < end) out.push_back(view.behind(i));
}

}  // namespace

CodeView::CodeView() = default;
CodeView::~CodeView() = default;

const FlowMap& CodeView::flow_map() const {
  if (!flow_map_) flow_map_ = std::make_unique<FlowMap>(*this);
  return *flow_map_;
}

FlowMap::FlowMap(const CodeView& view)
    : next_(view.instrs().size() + 1),
      before_(next_.size()),
      joins_(view.instrs().size(), kNowhere),
      heads_(view.instrs().size(), false) {
  const uint32_t exit = end();
  for (uint32_t i = 0; i < exit; ++i) {
    successors(view, i, exit, next_[i]);
    for (uint32_t to : next_[i]) {
      before_[to].push_back(i);
      if (to <= i && view.instrs()[to].op != Opcode::ForIter) heads_[to] = true;
    }
  }
  if constexpr (py::kLoopsTestAtTop)
    for (uint32_t i = exit; i-- > 0;)
      if (heads_[i]) move_head(view, i);
  // In an order in which what comes later in the program is seen first.
  std::vector<uint32_t> number(next_.size(), 0), order;
  std::vector<std::pair<uint32_t, std::size_t>> path{{exit, 0}};
  std::vector<bool> seen(next_.size(), false);
  seen[exit] = true;
  while (!path.empty()) {
    auto& [at, edge] = path.back();
    if (edge < before_[at].size()) {
      const uint32_t to = before_[at][edge++];
      if (!seen[to]) {
        seen[to] = true;
        path.emplace_back(to, 0);
      }
    } else {
      number[at] = static_cast<uint32_t>(order.size());
      order.push_back(at);
      path.pop_back();
    }
  }
  std::vector<uint32_t> after(next_.size(), kNowhere);
  after[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (*it == exit) continue;
      uint32_t meet = kNowhere;
      for (uint32_t to : next_[*it]) {
        if (after[to] == kNowhere) continue;
        if (meet == kNowhere) {
          meet = to;
          continue;
        }
        uint32_t other = to;
        while (meet != other) {
          while (number[meet] < number[other]) meet = after[meet];
          while (number[other] < number[meet]) other = after[other];
        }
      }
      if (after[*it] != meet) {
        after[*it] = meet;
        changed = true;
      }
    }
  }
  std::copy_n(after.begin(), joins_.size(), joins_.begin());
}

/// The rounds of a `while` begin behind its test. What leaves the loop first is taken for that, if nothing is stored
/// before.
void FlowMap::move_head(const CodeView& view, uint32_t head) {
  for (uint32_t i : before_[head])
    if (i >= head && view.instrs()[i].op != Opcode::Jump) return;
  const std::vector<bool> members = loop_at(head);
  loops_.clear();
  uint32_t behind_test = head;
  for (uint32_t i = head; i < end() && members[i]; ++i) {
    switch (view.instrs()[i].op) {
      case Opcode::PopJumpIfFalse:
      case Opcode::PopJumpIfTrue:
      case Opcode::PopJumpIfNone:
      case Opcode::PopJumpIfNotNone:
        if (!members[static_cast<std::size_t>(view.instrs()[i].arg)]) behind_test = i + 1;
        continue;
      case Opcode::StoreFast:
      case Opcode::StoreDeref:
      case Opcode::StoreGlobal:
      case Opcode::StoreName:
      case Opcode::StoreAttr:
      case Opcode::StoreSubscr:
      case Opcode::StoreSlice:
      case Opcode::PopTop:
      case Opcode::Jump:
      case Opcode::ForIter: break;
      default: continue;
    }
    break;
  }
  if (behind_test == head || behind_test >= end() || !members[behind_test] || heads_[behind_test]) return;
  heads_[head] = false;
  heads_[behind_test] = true;
  entered_at_[behind_test] = head;
}

const std::vector<bool>& FlowMap::loop_at(uint32_t head) const {
  const auto [at, fresh] = loops_.try_emplace(head);
  std::vector<bool>& members = at->second;
  if (!fresh || !heads_[head]) return members;
  members.resize(joins_.size(), false);
  const auto moved = entered_at_.find(head);
  const uint32_t entry = moved == entered_at_.end() ? head : moved->second;
  members[entry] = true;
  std::vector<uint32_t> open;
  for (uint32_t i : before_[entry])
    if (i >= entry) open.push_back(i);
  while (!open.empty()) {
    const uint32_t i = open.back();
    open.pop_back();
    if (members[i]) continue;
    members[i] = true;
    for (uint32_t from : before_[i]) open.push_back(from);
  }
  return members;
}

}  // namespace framejit::capture
