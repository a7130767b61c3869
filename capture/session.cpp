// Session: the graph, guards and inputs of one capture, and how they are taken back.
#include "capture/session.h"

#include <algorithm>
#include <limits>

namespace framejit::capture {

Session::Session(std::string name, const Varied& varied, std::vector<Frontend*> frontends, bool o1)
    : serial_([] {
        static int64_t last = 0;  // with the GIL only
        return ++last;
      }()),
      graph_(std::make_unique<graph::Graph>(std::move(name))),
      builder_(*graph_),
      position_(builder_),
      measures_(builder_, *graph_, undo_),
      tapes_(undo_),
      flag_rules_(builder_, undo_),
      guards_(position_, undo_),
      inputs_(*this),
      values_(builder_, inputs_),
      varied_(varied),
      frontends_(std::move(frontends)),
      o1_(o1) {}

Captured<bool> Session::check_nodes() {
  constexpr int kMostAxes = 32;  // of NumPy 1; newer ones have 64
  for (; checked_ < graph_->value_count(); ++checked_) {
    const graph::Node& node = graph_->node(graph::ValueId{static_cast<uint32_t>(checked_)});
    const graph::Type& type = node.type;
    if (type.rank() > kMostAxes) return break_at(BreakId::UnsupportedArray, "an array of more than 32 axes");
    // NumPy allocates what a loop of ours may never have in memory.
    const int64_t most = type.is_view() ? std::numeric_limits<int64_t>::max() : graph::kMostMemory;
    if (node.op != graph::Op::Param && !graph_->shapes().limit({type.shape, graph::size_of(type.dtype), most}))
      return break_at(BreakId::WouldRaise, "an array that is too large");
  }
  return true;
}

Session::Mark Session::mark() const {
  return {graph_->mark(), guards_.size(), inputs_.all().size(), undo_.changes(), values_.size(), inputs_.has_overlap()};
}

void Session::rollback(const Mark& m) {
  undo_.roll_back(m.undo);
  guards_.roll_back(m.guards);
  inputs_.roll_back(m.inputs, m.overlap);
  graph_->rollback(m.graph);
  checked_ = std::min(checked_, graph_->value_count());
}

}  // namespace framejit::capture
