// One walk to find what is constant, one to find who needs it, one to copy.
#include "graph/passes/partition_constants.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "graph/layout.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

bool is_static(const Type& type) { return all_const(type.shape) && all_const(type.strides) && type.offset.is_const(); }

class Splitter {
 public:
  Splitter(const Graph& graph, const std::vector<bool>& params, bool keep_layouts)
      : graph_(graph),
        facts_(graph),
        keep_layouts_(keep_layouts),
        constant_(graph.value_count(), false),
        reached_(graph.value_count(), false) {
    for (std::size_t i = 0; i < graph.params().size(); ++i) {
      const ValueId p = graph.params()[i];
      constant_[index(p)] = reached_[index(p)] =
          params[i] && facts_.last_write[index(p)] < 0 && is_static(graph.type(p));
    }
  }

  Split run() {
    for (ValueId v : graph_.body().nodes) {
      if (!is_constant(v)) continue;
      constant_[index(v)] = true;
      for (ValueId input : graph_.node(v).inputs) reached_[index(v)] = reached_[index(v)] || reached_[index(input)];
    }
    Split out;
    std::vector<bool> wanted(graph_.value_count(), false);
    for (ValueId v : graph_.body().nodes) {
      if (constant_[index(v)]) continue;
      for (ValueId used : used_values(graph_, v)) {
        const ValueId root = graph_.root(used);
        if (!constant_[index(root)] || !reached_[index(root)] || stays(root) || wanted[index(root)]) continue;
        wanted[index(root)] = true;
        out.values.push_back(root);
      }
    }
    std::sort(out.values.begin(), out.values.end());
    for (ValueId v : graph_.body().nodes) {
      const ValueId root = graph_.root(v);
      const bool kept = stays(root) || (root != v && wanted[index(root)]);
      if (constant_[index(v)] && reached_[index(v)] && !kept) out.nodes.push_back(v);
    }
    copy(out);
    return out;
  }

 private:
  /// A param, or a copy of one in another layout that is to be kept.
  bool stays(ValueId root) const {
    const Node& n = graph_.node(root);
    if (n.op == Op::Param) return true;
    return keep_layouts_ && n.op == Op::Copy && graph_.type(n.inputs[0]).strides != n.type.strides &&
           stays(graph_.root(n.inputs[0]));
  }

  bool is_constant(ValueId v) const {
    const Node& n = graph_.node(v);
    const OpClass cls = def(n.op).cls;
    if (cls == OpClass::Write || cls == OpClass::LibraryCall || cls == OpClass::Control || n.op == Op::DimValue)
      return false;
    const ValueId root = graph_.root(v);
    if (facts_.last_write[index(root)] >= 0 || facts_.escapes[index(root)] || facts_.result[index(v)] ||
        !is_static(n.type))
      return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId input) { return constant_[index(input)]; });
  }

  void copy(Split& out) const {
    std::vector<ValueId> to(graph_.value_count(), kNoValue);
    const auto add = [&](ValueId v) {
      const Node& n = graph_.node(v);
      Node made{};
      made.op = n.op;
      for (ValueId input : n.inputs) made.inputs.push_back(to[index(input)]);
      made.attrs = n.attrs;
      made.type = n.type;
      if (made.type.is_view()) made.type.root = to[index(n.type.root)];
      to[index(v)] = out.constant.append(std::move(made));
    };
    for (ValueId p : graph_.params()) {
      if (!constant_[index(p)]) continue;
      add(p);
      for (auto& [key, value] : out.constant.node(to[index(p)]).attrs)
        if (key == AttrKey::Index) value = static_cast<int64_t>(out.params.size());
      out.params.push_back(static_cast<uint32_t>(graph_.node(p).index()));
    }
    for (ValueId v : graph_.body().nodes)
      if (constant_[index(v)]) add(v);
    std::vector<ValueId> results;
    for (ValueId v : out.values) results.push_back(to[index(v)]);
    out.constant.set_results(std::move(results));
  }

  const Graph& graph_;
  const MemoryFacts facts_;
  const bool keep_layouts_;
  std::vector<bool> constant_, reached_;  // by value; reached: made of a param
};

}  // namespace

Split partition_constants(const Graph& graph, const std::vector<bool>& params, bool keep_layouts) {
  return Splitter(graph, params, keep_layouts).run();
}

void replace_by_params(Graph& graph, const Split& split) {
  GraphBuilder builder(graph);
  std::vector<ValueId> params;
  for (std::size_t i = 0; i < split.values.size(); ++i)
    params.push_back(builder.param(graph.type(split.values[i]), "folded" + std::to_string(i)));
  Replacements to(graph);
  for (std::size_t i = 0; i < params.size(); ++i) to.add(split.values[i], params[i]);
  std::erase_if(graph.body().nodes,
                [&](ValueId v) { return std::find(split.nodes.begin(), split.nodes.end(), v) != split.nodes.end(); });
  for_each_node(graph, graph.body(), [&](ValueId v) {
    Node& node = graph.node(v);
    to.rename(node);
    for (const std::unique_ptr<Block>& block : node.blocks)
      for (ValueId& result : block->results) result = to(result);
  });
}

}  // namespace framejit::graph
