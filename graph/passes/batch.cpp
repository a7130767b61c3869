// One walk in program order over the nodes of the sample. What depends on no sample is left alone: it is the same for
// all.
#include "graph/passes/batch.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace framejit::graph {

namespace {

class Batcher {
 public:
  Batcher(GraphBuilder& builder, const BatchRequest& request)
      : builder_(builder), graph_(builder.graph()), request_(request), batched_(graph_.value_count(), kNoValue) {
    size_ = graph_.type(request.batches[0]).shape[0];
    for (std::size_t i = 0; i < request.samples.size(); ++i) batched_[index(request.samples[i])] = request.batches[i];
  }

  std::optional<Batch> run() {
    Batch out;
    const std::vector<ValueId> nodes(graph_.body().nodes.begin() + static_cast<std::ptrdiff_t>(request_.first),
                                     graph_.body().nodes.end());
    const FlagRule rule = builder_.flag_rule();
    bool done = true;
    for (ValueId v : nodes) {
      const Node& n = graph_.node(v);
      const bool depends =
          std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId input) { return is_batched(input); });
      if (is_batched(v)) continue;
      done =
          def(n.op).cls != OpClass::Write && def(n.op).cls != OpClass::Control;  // what a block needs is not looked at
      if (!done) break;
      if (!depends) continue;
      builder_.set_flag_rule(n.flag_rule);
      const std::optional<ValueId> made = batch(v);
      done = made.has_value();
      if (!done) break;
      batched_[index(v)] = *made;
      out.nodes.push_back(v);
    }
    builder_.set_flag_rule(rule);
    if (!done) return std::nullopt;
    for (ValueId v : request_.outputs) {
      const std::optional<ValueId> output = result(v);
      if (!output) return std::nullopt;
      out.outputs.push_back(*output);
    }
    for (ValueId v : request_.stops)
      if (is_batched(v)) out.stops.push_back(batched_[index(v)]);
    return out;
  }

 private:
  bool is_batched(ValueId v) const { return index(v) < batched_.size() && batched_[index(v)] != kNoValue; }

  Dims with_size(const Dims& shape) const {
    Dims out = {size_};
    out.insert(out.end(), shape.begin(), shape.end());
    return out;
  }

  /// Is it fresh, and does each sample lie as the node's value does?
  std::optional<ValueId> fits(const BuildResult& made, ValueId v) const {
    if (!made) return std::nullopt;
    const Type &found = graph_.type(*made), &one = graph_.type(v);
    Dims strides = {one.size() * Dim(size_of(one.dtype))};
    strides.insert(strides.end(), one.strides.begin(), one.strides.end());
    if (found.is_view() || found.shape != with_size(one.shape) || found.strides != strides) return std::nullopt;
    return *made;
  }

  /// The batch of an operand as one of so many axes: those that are missing come behind the first one. What is the same
  /// for all as it is.
  ValueId aligned(ValueId v, int rank) {
    if (!is_batched(v)) return v;
    const ValueId all = batched_[index(v)];
    const Type type = graph_.type(all);
    const int missing = rank + 1 - type.rank();
    if (missing <= 0) return all;
    Dims shape = type.shape, strides = type.strides;
    shape.insert(shape.begin() + 1, static_cast<std::size_t>(missing), Dim(1));
    strides.insert(strides.begin() + 1, static_cast<std::size_t>(missing), Dim(0));
    return builder_.view(all, std::move(shape), std::move(strides), 0);
  }

  std::optional<ValueId> batch(ValueId v) {
    const Node& n = graph_.node(v);
    switch (def(n.op).cls) {
      case OpClass::Elementwise: {
        const Op op = n.op;
        const int rank = n.type.rank();
        std::vector<ValueId> operands = n.inputs;
        for (ValueId& operand : operands) operand = aligned(operand, rank);
        return fits(builder_.elementwise(op, operands), v);
      }
      case OpClass::Cast: return fits(builder_.cast(batched_[index(n.inputs[0])], n.type.dtype), v);
      case OpClass::Copy: {
        const ValueId all = batched_[index(n.inputs[0])];
        if (auto same = fits(builder_.copy(all, 'K'), v)) return same;
        return fits(builder_.copy(all, 'C'), v);
      }
      case OpClass::View: return view(v);
      case OpClass::Reduction: return reduction(v);
      case OpClass::Contraction: return product(v);
      case OpClass::Source:  // full
      case OpClass::Write:
      case OpClass::LibraryCall:
      case OpClass::Control: break;
    }
    return std::nullopt;
  }

  std::optional<ValueId> view(ValueId v) {
    const Node& n = graph_.node(v);
    const Type &from = graph_.type(n.inputs[0]), &all = graph_.type(batched_[index(n.inputs[0])]);
    if (!std::equal(from.strides.begin(), from.strides.end(), all.strides.begin() + 1, all.strides.end()))
      return std::nullopt;
    Dims strides = {all.strides[0]};
    strides.insert(strides.end(), n.type.strides.begin(), n.type.strides.end());
    const Dim offset = n.type.offset - from.offset;
    return builder_.view(batched_[index(n.inputs[0])], with_size(n.type.shape), std::move(strides), offset);
  }

  /// Sums are taken in the order in which the elements lie: the samples must lie one behind the other.
  std::optional<ValueId> reduction(ValueId v) {
    const Node& n = graph_.node(v);
    const Op op = n.op;
    const ValueId all = batched_[index(n.inputs[0])];
    const Type& type = graph_.type(all);
    const Type& one = graph_.type(n.inputs[0]);
    if (!std::equal(one.strides.begin(), one.strides.end(), type.strides.begin() + 1, type.strides.end()))
      return std::nullopt;
    for (std::size_t i = 0; i < type.strides.size(); ++i) {
      if (!type.strides[i].is_const() || !type.shape[i].is_const()) return std::nullopt;
      if (i > 0 && std::abs(type.strides[i].value()) * type.shape[i].value() > type.strides[0].value())
        return std::nullopt;
    }
    std::vector<int64_t> axes = n.axes();
    for (int64_t& axis : axes) ++axis;
    return fits(builder_.reduce(op, all, std::move(axes)), v);
  }

  /// Of matrices that are not the same for all samples: where one is, the rows of all samples are multiplied as those
  /// of one matrix.
  std::optional<ValueId> product(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op != Op::MatMul) return std::nullopt;
    const ValueId a = n.inputs[0], b = n.inputs[1];
    const int ranks[] = {graph_.type(a).rank(), graph_.type(b).rank()};
    if (ranks[0] < 2 || ranks[1] < 2 || (!request_.o1 && (!is_batched(a) || !is_batched(b)))) return std::nullopt;
    const int rank = std::max(ranks[0], ranks[1]);
    const ValueId left = aligned(a, rank), right = aligned(b, rank);
    return fits(builder_.matmul(left, right), v);
  }

  std::optional<ValueId> result(ValueId v) {
    const Type one = graph_.type(v);
    if (!is_batched(v)) {
      BuildResult all = builder_.broadcast_to(v, with_size(one.shape));
      return all ? std::optional(builder_.copy(*all, 'C')) : std::nullopt;
    }
    const ValueId all = batched_[index(v)];
    const Type& type = graph_.type(all);
    const bool given = std::find(request_.batches.begin(), request_.batches.end(), all) != request_.batches.end();
    if (!given && !type.is_view() && type.strides == c_strides(type.dtype, type.shape)) return all;
    return builder_.copy(all, 'C');
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const BatchRequest& request_;
  std::vector<ValueId> batched_;  // by value
  Dim size_ = 0;
};

}  // namespace

std::optional<Batch> append_batch(GraphBuilder& builder, const BatchRequest& request) {
  return Batcher(builder, request).run();
}

}  // namespace framejit::graph
