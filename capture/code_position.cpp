#include "capture/code_position.h"

namespace framejit::capture {

void CodePosition::set_location(uint32_t location) {
  location_ = location;
  builder_.set_location(location);
}

void CodePosition::mark_call(std::size_t first) {
  if (!globals_) return;
  graph::Graph& graph = builder_.graph();
  for (std::size_t i = first; i < graph.value_count(); ++i) {
    graph::Node& node = graph.node(graph::ValueId{static_cast<uint32_t>(i)});
    const bool flags = graph::def(node.op).cls == graph::OpClass::Elementwise &&
                       graph::may_set_flags(node.op, graph.type(node.inputs.back()).dtype);
    if (!flags) continue;
    node.calls = {graph.add_call({node.op, location_, origin()})};
    // If the result has another dtype than out=, the ufunc itself casts it.
    for (std::size_t j = i + 1; j < graph.value_count(); ++j) {
      graph::Node& cast = graph.node(graph::ValueId{static_cast<uint32_t>(j)});
      if (cast.op == graph::Op::Cast && graph::index(cast.inputs[0]) == i) cast.calls = node.calls;
    }
  }
}

uint32_t CodePosition::origin() {
  uint32_t at = 0;
  while (at < origins_.size() && (origins_[at].file.get() != file_ || origins_[at].globals.get() != globals_)) ++at;
  if (at == origins_.size()) origins_.push_back({Ref<>::share(file_), Ref<>::share(globals_)});
  return at;
}

}  // namespace framejit::capture
