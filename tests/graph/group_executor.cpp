// A second, independent way to run a graph: by groups.
#include "group_executor.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "graph/interpret_reduce.h"
#include "graph/scalar_ops.h"
#include "graph/support/check.h"

namespace framejit::graph::executor {

namespace {

using Index = std::vector<int64_t>;

std::vector<Index> all_indices(const Index& shape) {
  std::vector<Index> out{{}};
  for (int64_t d : shape) {
    std::vector<Index> longer;
    for (const Index& at : out)
      for (int64_t i = 0; i < d; ++i) {
        longer.push_back(at);
        longer.back().push_back(i);
      }
    out = std::move(longer);
  }
  return out;
}

class Executor {
 public:
  Executor(const Graph& graph, std::span<const ArrayRef> params, std::span<const int64_t> symbols)
      : graph_(graph), symbols_(symbols), memory_(graph.value_count()) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      base_[graph.params()[i]] = params[i].data;
      stored_.insert(graph.params()[i]);
    }
    for (ValueId v : graph.body().nodes) {
      const Node& n = graph.node(v);
      if (n.type.is_view()) continue;
      memory_[index(v)].resize(static_cast<std::size_t>(bytes(n.type)));
      base_[v] = memory_[index(v)].data();
      if (n.op == Op::Empty) stored_.insert(v);  // memory that something else fills
      if (n.op != Op::Constant && n.op != Op::DimValue) continue;
      const uint64_t value = n.op == Op::Constant ? n.value().lo : static_cast<uint64_t>(n.dim().evaluate(symbols));
      std::memcpy(base_[v], &value, static_cast<std::size_t>(size_of(n.type.dtype)));
      stored_.insert(v);
    }
  }

  void group(const Group& g, Order order) {
    registers_.clear();
    in_group_.clear();
    group_stores_.assign(g.stored.begin(), g.stored.end());
    std::vector<Index> indices = all_indices(numbers(g.shape));
    if (order == Order::Backwards) std::reverse(indices.begin(), indices.end());
    in_group_.insert(g.nodes.begin(), g.nodes.end());
    if (order == Order::NodeByNode) {
      for (ValueId v : g.nodes)
        for (const Index& at : indices) element(v, at);
    } else {
      for (const Index& at : indices)
        for (ValueId v : g.nodes) element(v, at);
    }
    for (ValueId v : g.nodes)
      if (def(graph_.node(v).op).cls == OpClass::Reduction) reduce(v, indices);
    for (ValueId v : g.stored) stored_.insert(v);
  }

  void product(ValueId v) {
    const Node& n = graph_.node(v);
    const Index shape = numbers(n.type.shape);
    const int64_t depth = numbers(graph_.type(n.inputs[0]).shape)[1];
    for (const Index& at : all_indices(shape)) {
      Scalar sum;
      for (int64_t k = 0; k < depth; ++k) {
        const Scalar factors[2] = {load(n.inputs[0], {at[0], k}), load(n.inputs[1], {k, at[1]})};
        Scalar terms[2] = {sum, {}};
        apply_scalar(Op::Multiply, n.type.dtype, n.type.dtype, factors, terms[1]);
        apply_scalar(Op::Add, n.type.dtype, n.type.dtype, terms, sum);
      }
      store(v, at, sum);
    }
    stored_.insert(v);
  }

  Executed results() {
    Executed out;
    for (ValueId v : graph_.results()) {
      out.all_stored = out.all_stored && stored_.contains(graph_.root(v));
      const Type& t = graph_.type(v);
      out.results.push_back(
          packed({address(v, Index(t.shape.size(), 0)), numbers(t.shape), numbers(t.strides)}, size_of(t.dtype)));
    }
    out.all_stored = out.all_stored && all_stored_;
    return out;
  }

 private:
  Index numbers(const Dims& dims) const {
    Index out;
    for (const Dim& d : dims) out.push_back(d.evaluate(symbols_));
    return out;
  }

  int64_t bytes(const Type& t) const {
    int64_t n = size_of(t.dtype);
    for (int64_t d : numbers(t.shape)) n *= d;
    return n;
  }

  /// `at` is an index of a shape that the value is broadcast to.
  std::byte* address(ValueId v, const Index& at) {
    const Type& t = graph_.type(v);
    const Index shape = numbers(t.shape), strides = numbers(t.strides);
    std::byte* p = base_.at(graph_.root(v)) + t.offset.evaluate(symbols_);
    const std::size_t missing = at.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1) p += at[missing + i] * strides[i];
    return p;
  }

  Scalar load(ValueId v, const Index& at) {
    all_stored_ = all_stored_ && stored_.contains(graph_.root(v));
    Scalar s;
    std::memcpy(&s.lo, address(v, at), static_cast<std::size_t>(size_of(graph_.type(v).dtype)));
    return s;
  }

  void store(ValueId v, const Index& at, const Scalar& s) {
    std::memcpy(address(v, at), &s.lo, static_cast<std::size_t>(size_of(graph_.type(v).dtype)));
  }

  Scalar operand(ValueId v, const Index& at) {
    if (!in_group_.contains(v)) return load(v, at);
    const auto& values = registers_.at(v);
    return graph_.type(v).rank() == 0 ? values.begin()->second : values.at(at);
  }

  void element(ValueId v, const Index& at) {
    const Node& n = graph_.node(v);
    if (def(n.op).cls == OpClass::Reduction) {
      registers_[v][at] = operand(n.inputs[0], at);  // kept for the end
      return;
    }
    Scalar args[3], value;
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (n.op != Op::Write || i == 1) args[i] = operand(n.inputs[i], at);
    if (n.op == Op::Write) return store(n.inputs[0], at, args[1]);
    if (n.op == Op::Full || n.op == Op::Copy) {
      value = args[0];
    } else if (n.op == Op::Iota) {
      const Scalar position{static_cast<uint64_t>(at[0])};
      apply_scalar(Op::Cast, DType::I64, n.type.dtype, {&position, 1}, value);
    } else {
      ScalarOptions options;
      if (n.op == Op::Clip)
        options.uniform_bounds = bytes(graph_.type(n.inputs[1])) == size_of(n.type.dtype) &&
                                 bytes(graph_.type(n.inputs[2])) == size_of(n.type.dtype);
      const bool known =
          apply_scalar(n.op, graph_.type(n.inputs.back()).dtype, n.type.dtype, {args, n.inputs.size()}, value, options);
      FRAMEJIT_CHECK(known, std::string(name_of(n.op)));
    }
    registers_[v][at] = value;
    if (std::find(group_stores_.begin(), group_stores_.end(), v) != group_stores_.end()) store(v, at, value);
  }

  void reduce(ValueId v, const std::vector<Index>& indices) {
    const Node& n = graph_.node(v);
    const Type& t = graph_.type(n.inputs[0]);
    const Type& out = n.type;
    const Index strides = numbers(t.strides), shape = numbers(t.shape);
    // The operand's elements in its own layout; the order of a sum depends on it.
    int64_t low = 0, high = size_of(t.dtype);
    for (std::size_t i = 0; i < shape.size(); ++i)
      (strides[i] < 0 ? low : high) += strides[i] * std::max<int64_t>(shape[i] - 1, 0);
    std::vector<std::byte> operand_bytes(static_cast<std::size_t>(high - low));
    for (const Index& at : indices) {
      int64_t offset = -low;
      for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * strides[i];
      std::memcpy(operand_bytes.data() + offset, &registers_[v][at].lo, static_cast<std::size_t>(size_of(t.dtype)));
    }
    interpret_reduction(n.op, t.dtype, out.dtype, {operand_bytes.data() - low, shape, strides}, n.axes(),
                        {base_.at(v), numbers(out.shape), numbers(out.strides)});
  }

  const Graph& graph_;
  std::span<const int64_t> symbols_;
  std::vector<std::vector<std::byte>> memory_;
  std::map<ValueId, std::byte*> base_;
  std::set<ValueId> stored_;
  std::set<ValueId> in_group_;
  std::vector<ValueId> group_stores_;
  std::map<ValueId, std::map<Index, Scalar>> registers_;
  bool all_stored_ = true;
};

}  // namespace

Executed run_groups(const Graph& graph, std::span<const Group> groups, std::span<const ArrayRef> params,
                    std::span<const int64_t> symbols, Order order) {
  Executor executor(graph, params, symbols);
  for (const Group& g : groups) {
    if (graph.node(g.nodes[0]).op == Op::MatMul) executor.product(g.nodes[0]);
    else executor.group(g, order);
  }
  return executor.results();
}

std::vector<std::byte> packed(const ArrayRef& array, int item_size) {
  std::vector<std::byte> out;
  for (const Index& at : all_indices(array.shape)) {
    const std::byte* p = array.data;
    for (std::size_t i = 0; i < at.size(); ++i) p += at[i] * array.strides[i];
    out.insert(out.end(), p, p + item_size);
  }
  return out;
}

}  // namespace framejit::graph::executor
