// One walk in program order: what a node names has been copied before it.
#include "graph/copy.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace framejit::graph {

namespace {

class Copier {
 public:
  Copier(Graph& to, const Graph& from, std::span<const ValueId> params)
      : to_(to), from_(from), made_(from.value_count(), kNoValue) {
    for (std::size_t i = 0; i < params.size(); ++i) made_[index(from.params()[i])] = params[i];
  }

  void copy(const Block& block) {
    for (ValueId v : block.params) append(v);
    const std::vector<std::size_t> starts =
        &block == &from_.body() ? from_.gradient_starts() : std::vector<std::size_t>{};
    for (std::size_t i = 0; i < block.nodes.size(); ++i) {
      if (std::binary_search(starts.begin(), starts.end(), i)) to_.begin_gradient();
      append(block.nodes[i]);
    }
  }

  std::vector<ValueId> all(const std::vector<ValueId>& values) const {
    std::vector<ValueId> out;
    for (ValueId v : values) out.push_back(made_[index(v)]);
    return out;
  }

 private:
  void append(ValueId v) {
    const Node& n = from_.node(v);
    if (n.op == Op::Param) return;
    Node node{};
    node.op = n.op;
    node.inputs = all(n.inputs);
    node.attrs = n.attrs;
    node.type = n.type;
    node.flag_rule = n.flag_rule;
    node.rematerialized = n.rematerialized;
    if (n.type.is_view()) {  // what stands for a param may be a view itself
      const ValueId root = made_[index(n.type.root)];
      node.type.root = to_.root(root);
      node.type.offset = n.type.offset + to_.type(root).offset;
    }
    for (const std::unique_ptr<Block>& block : n.blocks) {
      auto out = std::make_unique<Block>();
      to_.open(*out);
      copy(*block);
      out->results = all(block->results);
      to_.close();
      node.blocks.push_back(std::move(out));
    }
    made_[index(v)] = to_.append(std::move(node));
  }

  Graph& to_;
  const Graph& from_;
  std::vector<ValueId> made_;  // by value of `from`
};

}  // namespace

std::vector<ValueId> append_graph(Graph& to, const Graph& from, std::span<const ValueId> params) {
  Copier copier(to, from, params);
  copier.copy(from.body());
  return copier.all(from.results());
}

}  // namespace framejit::graph
