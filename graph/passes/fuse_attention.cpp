// fuse_attention: at O1, an attention that is written out becomes the operator, which makes no matrix of scores.
//
//     %s = matmul %q, %kt                              %4 = attention %q, %k, %v, %scale
//     %m = reduce_max %s; %e = exp(%s - %m)     ->
//     %p = %e / reduce_sum %e; %o = matmul %p, %v
//
// Scores in whose place a condition puts -inf, or a number so low that they would be lost in it, are scores with a mask
// added.
//
// Relies on: nothing else uses what lies in between. That is dead behind it, and its flags are the operator's.
#include "graph/passes/fuse_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/builder.h"
#include "graph/pass.h"
#include "graph/support/check.h"

namespace framejit::graph {

namespace {

constexpr int64_t kFewestKeys = 32, kFewestQueries = 8;
constexpr float kClosed = -1e30f;

class Matcher {
 public:
  Matcher(const Graph& graph, const std::vector<bool>& written) : graph_(graph), written_(written) {}

  std::optional<AttentionPattern> match(ValueId product) {
    if (!is_product(product)) return std::nullopt;
    const Dims values = shape(input(product, 1));
    out_.v = input(product, 1);
    const std::optional<ValueId> weights = take(input(product, 0), Op::Divide);
    if (!weights) return std::nullopt;
    const std::optional<ValueId> powers = take(input(*weights, 0), Op::Exp);
    if (!powers || !is_of_rows(input(*weights, 1), Op::ReduceSum, *powers, out_.scores)) return std::nullopt;
    const std::optional<ValueId> shifted = take(input(*powers, 0), Op::Subtract);
    if (!shifted) return std::nullopt;
    const ValueId scores = through_copies(input(*shifted, 0), out_.scores);
    if (!is_of_rows(input(*shifted, 1), Op::ReduceMax, scores, out_.largest) || !masked_product(scores))
      return std::nullopt;
    const Dims queries = shape(out_.q), keys = shape(out_.k);
    for (const Dims* s : {&queries, &keys, &values})
      if (!std::all_of(s->begin(), s->end(), [](const Dim& d) { return d.is_const(); })) return std::nullopt;
    for (const Dims* s : {&keys, &values})
      if ((*s)[0] != queries[0] || (*s)[1] != queries[1]) return std::nullopt;
    if (keys[3].value() < kFewestKeys || queries[2].value() < kFewestQueries) return std::nullopt;
    std::vector<ValueId> read = {out_.q, out_.k, out_.v};
    if (out_.mask) read.push_back(*out_.mask);
    if (out_.closed) read.push_back(out_.closed->condition);
    for (const auto* values_read : {&read, &out_.scores, &out_.largest})
      for (ValueId v : *values_read)
        if (written_[index(graph_.root(v))]) return std::nullopt;
    return std::move(out_);
  }

 private:
  ValueId input(ValueId v, std::size_t i) const { return graph_.node(v).inputs[i]; }
  const Dims& shape(ValueId v) const { return graph_.type(v).shape; }

  bool is_product(ValueId v) const {
    const Node& n = graph_.node(v);
    return n.op == Op::MatMul && n.type.dtype == DType::F32 && n.type.rank() == 4 && shape(n.inputs[0]).size() == 4 &&
           shape(n.inputs[1]).size() == 4;
  }

  ValueId through_copies(ValueId v, std::vector<ValueId>& passed) const {
    while (graph_.node(v).op == Op::Copy) {
      passed.push_back(v);
      v = input(v, 0);
    }
    return v;
  }

  /// The value, if it is of this operator, four axes and float32.
  std::optional<ValueId> take(ValueId v, Op op) {
    v = through_copies(v, out_.scores);
    const Node& n = graph_.node(v);
    if (n.op != op || n.type.dtype != DType::F32 || n.type.rank() != 4) return std::nullopt;
    out_.scores.push_back(v);
    return v;
  }

  /// Is it `op` over the last axis of `x`, with an axis of length 1 in its place?
  bool is_of_rows(ValueId v, Op op, ValueId x, std::vector<ValueId>& passed) const {
    v = through_copies(v, passed);
    const Node& view = graph_.node(v);
    if (view.op != Op::View || view.type.rank() != 4 || view.type.shape.back() != Dim(1)) return false;
    const ValueId from = through_copies(view.inputs[0], passed);
    const Node& reduced = graph_.node(from);
    if (reduced.op != op || reduced.axes() != std::vector<int64_t>{3} ||
        !same_place_but_last(view.type, graph_.type(view.inputs[0])))
      return false;
    passed.push_back(v);
    passed.push_back(from);
    std::vector<ValueId> copies;
    return through_copies(reduced.inputs[0], copies) == x && copies.empty();
  }

  static bool same_place_but_last(const Type& view, const Type& of) {
    return view.offset == of.offset && of.rank() == 3 &&
           std::equal(of.shape.begin(), of.shape.end(), view.shape.begin()) &&
           std::equal(of.strides.begin(), of.strides.end(), view.strides.begin());
  }

  std::optional<float> number(ValueId v) const {
    const Node* n = &graph_.node(v);
    if (n->op == Op::Cast) n = &graph_.node(n->inputs[0]);
    if (n->op != Op::Constant || n->type.rank() != 0) return std::nullopt;
    const Scalar value = std::get<Scalar>(n->attrs[0].second);
    if (n->type.dtype == DType::F32) return std::bit_cast<float>(static_cast<uint32_t>(value.lo));
    if (n->type.dtype == DType::F64) return static_cast<float>(std::bit_cast<double>(value.lo));
    return std::nullopt;
  }

  /// scale * q k + mask, or a number in its place where a condition holds.
  bool masked_product(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op != Op::Where) return scaled_product(v);
    for (std::size_t i : {1, 2}) {
      const std::optional<float> number = this->number(n.inputs[i]);
      if (!number || *number > kClosed || std::isnan(*number)) continue;
      out_.scores.push_back(v);
      out_.closed = {n.inputs[0], n.inputs[i], i == 1, std::isfinite(*number)};
      const ValueId scores = through_copies(n.inputs[3 - i], out_.scores);
      return shape(scores) == n.type.shape && scaled_product(scores);
    }
    return false;
  }

  /// scale * q k, or with a mask added to it.
  bool scaled_product(ValueId v) {
    const std::size_t before = out_.scores.size();
    if (graph_.node(v).op == Op::Add && graph_.type(v).rank() == 4)
      for (std::size_t i : {0, 1}) {
        out_.scores.push_back(v);
        out_.mask = input(v, 1 - i);
        if (graph_.type(*out_.mask).dtype == DType::F32 && scaled(through_copies(input(v, i), out_.scores)))
          return true;
        out_.scores.resize(before);
        out_.mask.reset();
      }
    return scaled(v);
  }

  bool scaled(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op == Op::Divide || n.op == Op::Multiply)
      for (std::size_t i : {0, 1}) {
        const std::optional<float> factor = number(n.inputs[i]);
        if (!factor || (n.op == Op::Divide && i == 0)) continue;
        out_.scores.push_back(v);
        out_.scale = n.op == Op::Divide ? 1 / *factor : *factor;
        v = through_copies(n.inputs[1 - i], out_.scores);
        break;
      }
    if (!is_product(v)) return false;
    out_.scores.push_back(v);
    out_.q = input(v, 0), out_.k = input(v, 1);
    return true;
  }

  const Graph& graph_;
  const std::vector<bool>& written_;
  AttentionPattern out_;
};

/// How often each value is used, by nodes and as a result.
std::vector<int> uses(const Graph& graph) {
  std::vector<int> out(graph.value_count(), 0);
  for (ValueId v : graph.results()) ++out[index(v)];
  for (ValueId v : graph.body().nodes)
    for (ValueId used : used_values(graph, v)) ++out[index(used)];
  return out;
}

}  // namespace

std::vector<bool> written_memory(const Graph& graph) {
  std::vector<bool> out(graph.value_count(), false);
  for (ValueId v : graph.body().nodes)
    for (ValueId root : written_roots(graph, v)) out[index(root)] = true;
  return out;
}

std::optional<ValueId> AttentionPattern::whole_mask(GraphBuilder& builder) const {
  if (!closed) return mask;
  const ValueId open = mask ? *mask : builder.constant(DType::F32, Scalar{});
  const ValueId operands[] = {closed->condition, closed->where ? closed->number : open,
                              closed->where ? open : closed->number};
  const BuildResult built = builder.elementwise(Op::Where, operands);
  FRAMEJIT_CHECK(built.has_value(), "the mask of an attention: " + built.error().message);
  return *built;
}

std::optional<AttentionPattern> match_attention(const Graph& graph, ValueId product, const std::vector<bool>& written) {
  return Matcher(graph, written).match(product);
}

bool fuse_attention(Graph& graph, PassContext& context) {
  const auto is_product = [&](ValueId v) { return graph.node(v).op == Op::MatMul; };
  if (!context.o1 || std::none_of(graph.body().nodes.begin(), graph.body().nodes.end(), is_product)) return false;
  const std::vector<bool> written = written_memory(graph);
  const std::vector<int> used = uses(graph);
  bool changed = false;
  for (std::size_t at = 0; at < graph.body().nodes.size(); ++at) {
    const ValueId v = graph.body().nodes[at];
    if (!is_product(v) || graph.type(v).strides != c_strides(graph.type(v).dtype, graph.type(v).shape)) continue;
    const std::optional<AttentionPattern> found = match_attention(graph, v, written);
    if (!found) continue;
    std::vector<ValueId> inner = found->scores;
    inner.insert(inner.end(), found->largest.begin(), found->largest.end());
    std::vector<int> inside(used.size(), 0);
    for (ValueId reader : inner)
      for (ValueId input : used_values(graph, reader)) ++inside[index(input)];
    for (ValueId input : used_values(graph, v)) ++inside[index(input)];
    if (std::any_of(inner.begin(), inner.end(), [&](ValueId x) { return inside[index(x)] != used[index(x)]; }))
      continue;

    const std::size_t count = graph.body().nodes.size();
    GraphBuilder builder(graph);
    builder.set_location(graph.node(v).location);
    builder.set_flag_rule(graph.node(v).flag_rule);
    const ValueId scale =
        builder.full(builder.constant(DType::F32, Scalar{std::bit_cast<uint32_t>(found->scale)}), {1});
    const ValueId keys = builder.transpose(found->k, std::vector<int>{0, 1, 3, 2});
    const std::optional<ValueId> mask = found->whole_mask(builder);
    std::vector<ValueId>& nodes = graph.body().nodes;
    std::rotate(nodes.begin() + static_cast<std::ptrdiff_t>(at), nodes.begin() + static_cast<std::ptrdiff_t>(count),
                nodes.end());
    at += nodes.size() - count;
    Node& n = graph.node(v);
    n.op = Op::Attention;
    n.inputs = {found->q, keys, found->v, scale};
    if (mask) n.inputs.push_back(*mask);
    n.attrs = {{AttrKey::Index, static_cast<int64_t>(Causal::None)}};
    for (ValueId x : inner) graph.node(x).flag_rule = FlagRule::drop();
    changed = true;
  }
  return changed;
}

}  // namespace framejit::graph
