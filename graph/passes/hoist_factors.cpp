// hoist_factors: at O1 a number that multiplies a matrix multiplies the product with it instead.
//
//     %3 = multiply %c, %a : f64[64, 64]         %5 = matmul %a, %x : f64[64]
//     %4 = matmul %3, %x : f64[64]         ->    %4 = multiply %c, %5 : f64[64]
//
// The product has fewer elements, or as many, and the scaled matrix needs no memory. Nothing else may use that; the
// flags that it would raise are not raised. docs/o1.md has the bound. Where the product is checked for infinities and
// NaN, its multiple is checked now, which has them if the product has.
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

class FactorHoister {
 public:
  explicit FactorHoister(Graph& graph)
      : graph_(graph),
        facts_(graph),
        uses_(graph.value_count(), 0),
        position_(graph.value_count(), -1),
        written_(graph.value_count(), -1) {
    for_each_node(graph, graph.body(), [&](ValueId v) {
      for (ValueId input : used_values(graph, v)) ++uses_[index(input)];
    });
  }

  bool run() {
    run(graph_.body());
    return changed_;
  }

 private:
  struct Factor {
    std::size_t operand = 0;
    ValueId number = kNoValue, matrix = kNoValue;
  };

  void run(Block& block) {
    const std::vector<ValueId> nodes = std::exchange(block.nodes, {});
    std::vector<ValueId> out;
    for (ValueId v : nodes) {
      for (const std::unique_ptr<Block>& inner : graph_.node(v).blocks) run(*inner);
      if (const Factor factor = find_factor(v); factor.number != kNoValue) {
        std::erase(out, graph_.node(v).inputs[factor.operand]);
        out.push_back(hoist(v, factor));
      }
      position_[index(v)] = ++at_;
      for (ValueId root : written_roots(graph_, v)) written_[index(root)] = at_;
      out.push_back(v);
    }
    block.nodes = std::move(out);
  }

  Factor find_factor(ValueId v) const {
    const Node& product = graph_.node(v);
    const DType dtype = product.type.dtype;
    if (product.op != Op::MatMul || (dtype != DType::F32 && dtype != DType::F64)) return {};
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId x = product.inputs[i];
      const Node& scaled = graph_.node(x);
      if (scaled.op != Op::Multiply || scaled.type.dtype != dtype || position_[index(x)] < 0 || uses_[index(x)] != 1 ||
          facts_.viewed[index(x)] || facts_.result[index(x)] || facts_.captured[index(x)] ||
          scaled.flag_rule != product.flag_rule)
        continue;
      for (std::size_t k = 0; k < 2; ++k) {
        const ValueId number = scaled.inputs[k], matrix = scaled.inputs[1 - k];
        const Type& type = graph_.type(matrix);
        const bool is_scaled = graph_.type(number).rank() == 0 && graph_.type(number).dtype == dtype &&
                               type.rank() > 0 && type.dtype == dtype && type.shape == scaled.type.shape &&
                               type.strides == scaled.type.strides;
        if (!is_scaled || is_written_since(matrix, x) || is_written_since(number, x)) continue;
        if (graph_.shapes().hint(product.type.size()) > graph_.shapes().hint(type.size())) continue;
        return {i, number, matrix};
      }
    }
    return {};
  }

  bool is_written_since(ValueId v, ValueId when) const {
    return written_[index(graph_.root(v))] >= position_[index(when)];
  }

  /// The product alone, in front of `v`, which becomes its multiple. It is left to NumPy to say what that raises.
  ValueId hoist(ValueId v, const Factor& factor) {
    changed_ = true;
    Node product{};
    product.op = Op::MatMul;
    product.inputs = graph_.node(v).inputs;
    product.inputs[factor.operand] = factor.matrix;
    product.attrs = graph_.node(v).attrs;
    product.type = graph_.node(v).type;
    product.location = graph_.node(v).location;
    product.calls = graph_.node(v).calls;
    product.flag_rule = graph_.node(v).flag_rule;
    const ValueId made = graph_.append(std::move(product));
    Node& multiple = graph_.node(v);
    multiple.op = Op::Multiply;
    multiple.inputs = {factor.number, made};
    multiple.attrs.clear();
    multiple.calls.clear();
    position_.push_back(++at_);
    written_.push_back(-1);
    uses_.push_back(1);
    return made;
  }

  Graph& graph_;
  const MemoryFacts facts_;
  std::vector<int32_t> uses_;      // by value
  std::vector<int32_t> position_;  // by value, in the order of the walk; -1: not yet
  std::vector<int32_t> written_;   // by root: the position of its last write
  int32_t at_ = 0;
  bool changed_ = false;
};

}  // namespace

bool hoist_factors(Graph& graph, PassContext& context) { return context.o1 && FactorHoister(graph).run(); }

}  // namespace framejit::graph
