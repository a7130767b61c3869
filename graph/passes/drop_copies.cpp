// drop_copies: a copy that is wholly overwritten before anything else is done with it need not be made.
//
//     %1 = copy %x                          %1 = empty
//     %2 = reduce_sum %1 {axes=[1]}         %2 = reduce_sum %x {axes=[1]}
//     ...                                   ...
//     %4 = subtract %1, %3                  %4 = subtract %x, %3
//     write %1, %4                    ->    write %1, %4
//
// What reads the copy, or a view of it, before that write reads the source. The layouts must be the same, and nothing
// may be written to the source in between. Library calls keep their copy: they may be told of operands that share
// memory.
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

class CopyDropper {
 public:
  explicit CopyDropper(Graph& graph) : graph_(graph), facts_(graph) {}

  bool run() {
    bool changed = false;
    for (std::size_t at = 0; at < nodes().size(); ++at) changed |= is_candidate(nodes()[at]) && drop(at);
    return changed;
  }

 private:
  const std::vector<ValueId>& nodes() const { return graph_.body().nodes; }

  bool is_candidate(ValueId v) const {
    const Node& n = graph_.node(v);
    if ((n.op != Op::Copy && n.op != Op::Cast) || facts_.last_write[index(v)] < 0 || facts_.captured[index(v)])
      return false;
    const Type& source = graph_.type(n.inputs[0]);
    return source.dtype == n.type.dtype && source.shape == n.type.shape && source.strides == n.type.strides;
  }

  bool drop(std::size_t at) {
    const ValueId copy = nodes()[at], source = graph_.node(copy).inputs[0];
    std::vector<ValueId> readers;
    std::size_t k = at + 1;
    for (; k < nodes().size(); ++k) {
      const ValueId v = nodes()[k];
      if (const int reads = may_read(v, copy); reads < 0) return false;
      else if (reads > 0) readers.push_back(v);
      const std::vector<ValueId> written = written_roots(graph_, v);
      if (std::find(written.begin(), written.end(), copy) != written.end()) break;
      if (std::find(written.begin(), written.end(), graph_.root(source)) != written.end()) return false;
    }
    if (k == nodes().size() || graph_.node(nodes()[k]).op != Op::Write ||
        !same_place(graph_.type(nodes()[k]), graph_.type(copy)))
      return false;
    const std::size_t count = nodes().size();
    for (const ValueId reader : readers)
      for (std::size_t i = 0; i < graph_.node(reader).inputs.size(); ++i)
        if (reads_operand(graph_.node(reader), i) && graph_.root(graph_.node(reader).inputs[i]) == copy)
          graph_.node(reader).inputs[i] = of_source(graph_.node(reader).inputs[i], copy, source);
    graph_.node(copy).op = Op::Empty;
    graph_.node(copy).inputs.clear();
    insert_views(count);
    return true;
  }

  /// 1: it reads the copy, and may read the source instead; 0: it does not read it; -1: it needs the copy.
  int may_read(ValueId v, ValueId copy) const {
    const Node& n = graph_.node(v);
    if (n.op == Op::View) return 0;
    const std::vector<ValueId> used = used_values(graph_, v);
    const auto is_part = [&](ValueId x) { return graph_.root(x) == copy; };
    if (std::none_of(used.begin(), used.end(), is_part)) return 0;
    if (n.op == Op::Write) return is_part(n.inputs[1]) ? -1 : 0;
    const OpClass cls = def(n.op).cls;
    return cls == OpClass::Elementwise || cls == OpClass::Cast || cls == OpClass::Reduction ? 1 : -1;
  }

  /// The same part of the source as `part` is of the copy.
  ValueId of_source(ValueId part, ValueId copy, ValueId source) {
    if (part == copy) return source;
    Node view{};
    view.op = Op::View;
    view.type = graph_.type(part);
    view.type.root = graph_.root(source);
    view.type.offset = view.type.offset + graph_.type(source).offset;
    view.inputs = {view.type.root};
    view.location = graph_.node(part).location;
    const ValueId made = graph_.append(std::move(view));
    views_.emplace_back(part, made);
    return made;
  }

  /// Behind those that they stand for; so far they come behind the first `count` nodes.
  void insert_views(std::size_t count) {
    std::vector<ValueId>& all = graph_.body().nodes;
    all.resize(count);
    for (const auto& [part, made] : std::exchange(views_, {}))
      all.insert(std::find(all.begin(), all.end(), part) + 1, made);
  }

  Graph& graph_;
  const MemoryFacts facts_;
  std::vector<std::pair<ValueId, ValueId>> views_;
};

}  // namespace

bool drop_copies(Graph& graph, PassContext&) { return has_writes(graph) && CopyDropper(graph).run(); }

}  // namespace framejit::graph
