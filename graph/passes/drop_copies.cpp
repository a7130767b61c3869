// drop_copies: a copy that is wholly overwritten before anything else is done with it need not be made.
//
//     %1 = copy %x                          %1 = empty
//     %2 = reduce_sum %1 {axes=[1]}         %2 = reduce_sum %x {axes=[1]}
//     ...                                   ...
//     %4 = subtract %1, %3                  %4 = subtract %x, %3
//     write %1, %4                    ->    write %1, %4
//
// Until that write, nodes that read the copy, or a view of it, read the source instead. Both must have the same layout,
// and nothing may be written to the source in between. If a library call reads the copy, the copy stays: such a call
// can tell whether its operands share memory.
#include <algorithm>
#include <unordered_map>
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
    const std::vector<ValueId> nodes = graph_.body().nodes;
    bool changed = false;
    for (const ValueId v : nodes) {
      note_reads(v);
      for (const ValueId root : written_roots(graph_, v)) changed |= write(v, root);
      if (is_candidate(v)) begin(v);
    }
    if (!views_.empty()) insert_views(nodes);
    return changed;
  }

 private:
  bool is_candidate(ValueId v) const {
    const Node& n = graph_.node(v);
    if ((n.op != Op::Copy && n.op != Op::Cast) || facts_.last_write[index(v)] < 0 || facts_.captured[index(v)])
      return false;
    const Type& source = graph_.type(n.inputs[0]);
    return source.dtype == n.type.dtype && source.shape == n.type.shape && source.strides == n.type.strides;
  }

  void begin(ValueId copy) {
    readers_[index(copy)];
    copies_of_[index(graph_.root(graph_.node(copy).inputs[0]))].push_back(copy);
  }

  /// Notes who reads the copies that are not overwritten yet, and gives up those that are needed.
  void note_reads(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op == Op::View || readers_.empty()) return;
    const OpClass cls = def(n.op).cls;
    const bool reads_elements = cls == OpClass::Elementwise || cls == OpClass::Cast || cls == OpClass::Reduction;
    for (const ValueId x : used_values(graph_, v)) {
      const auto copy = readers_.find(index(graph_.root(x)));
      if (copy == readers_.end() || (n.op == Op::Write && x == n.inputs[0] && x != n.inputs[1])) continue;
      if (!reads_elements) readers_.erase(copy);
      else if (copy->second.empty() || copy->second.back() != v) copy->second.push_back(v);
    }
  }

  /// True: the root is a copy, which is not made any more.
  bool write(ValueId v, ValueId root) {
    const bool dropped = drop(v, root);
    if (const auto sources = copies_of_.find(index(root)); sources != copies_of_.end()) {
      for (const ValueId copy : sources->second) readers_.erase(index(copy));
      copies_of_.erase(sources);
    }
    return dropped;
  }

  bool drop(ValueId write, ValueId copy) {
    const auto found = readers_.find(index(copy));
    if (found == readers_.end()) return false;
    const std::vector<ValueId> readers = std::move(found->second);
    readers_.erase(found);
    if (graph_.node(write).op != Op::Write || !same_place(graph_.type(write), graph_.type(copy))) return false;
    const ValueId source = graph_.node(copy).inputs[0];
    for (const ValueId reader : readers) {
      for (std::size_t i = 0; i < graph_.node(reader).inputs.size(); ++i)
        if (const ValueId part = graph_.node(reader).inputs[i]; graph_.root(part) == copy) {
          const ValueId there = of_source(part, copy, source);
          graph_.node(reader).inputs[i] = there;
        }
      // A copy of the copy is one of the source from now on.
      if (readers_.contains(index(reader))) {
        std::erase(copies_of_[index(copy)], reader);
        copies_of_[index(graph_.root(source))].push_back(reader);
      }
    }
    Node& n = graph_.node(copy);
    n.op = Op::Empty;
    n.inputs.clear();
    n.attrs.clear();
    return true;
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
    views_[index(part)].push_back(made);
    return made;
  }

  /// New views stand behind those of the copies that they replace.
  void insert_views(const std::vector<ValueId>& nodes) {
    std::vector<ValueId>& all = graph_.body().nodes;
    all.clear();
    for (const ValueId v : nodes) {
      all.push_back(v);
      if (const auto made = views_.find(index(v)); made != views_.end())
        all.insert(all.end(), made->second.begin(), made->second.end());
    }
  }

  Graph& graph_;
  const MemoryFacts facts_;
  std::unordered_map<uint32_t, std::vector<ValueId>> readers_;    // by copy that is not overwritten yet
  std::unordered_map<uint32_t, std::vector<ValueId>> copies_of_;  // by root of the source
  std::unordered_map<uint32_t, std::vector<ValueId>> views_;      // by the view of a copy that they replace
};

}  // namespace

bool drop_copies(Graph& graph, PassContext&) { return has_writes(graph) && CopyDropper(graph).run(); }

}  // namespace framejit::graph
