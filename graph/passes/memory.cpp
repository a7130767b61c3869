// One walk over the body collects the facts.
#include "graph/passes/memory.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace framejit::graph {

MemoryFacts::MemoryFacts(const Graph& graph)
    : last_write(graph.value_count(), -1),
      viewed(graph.value_count(), false),
      escapes(graph.value_count(), false),
      result(graph.value_count(), false),
      captured(graph.value_count(), false) {
  const auto give = [&](const std::vector<ValueId>& results) {
    for (ValueId v : results) {
      result[index(v)] = true;
      escapes[index(graph.root(v))] = true;
    }
  };
  int32_t position = 0;
  for_each_node(graph, graph.body(), [&](ValueId v) {
    const Node& n = graph.node(v);
    if (n.type.is_view()) viewed[index(n.type.root)] = true;  // a write has the root of its destination
    if (n.op == Op::Write) last_write[index(n.type.root)] = position;
    if (is_control(n.op))
      for (ValueId used : used_values(graph, v)) captured[index(used)] = true;
    for (const std::unique_ptr<Block>& block : n.blocks) give(block->results);
    ++position;
  });
  give(graph.results());
}

bool has_writes(const Graph& graph) {
  for (std::size_t i = 0; i < graph.value_count(); ++i)
    if (graph.node(static_cast<ValueId>(i)).op == Op::Write) return true;
  return false;
}

bool may_set_flags(const Graph& graph, ValueId v) {
  const Node& n = graph.node(v);
  if (n.inputs.empty() || def(n.op).cls == OpClass::Write || def(n.op).cls == OpClass::View) return false;
  const DType from = graph.type(n.inputs.back()).dtype, to = n.type.dtype;
  if (n.op == Op::Cast) {
    const bool widens =
        is_float(from) == is_float(to) && size_of(to) >= size_of(from) && from != DType::F16 && from != DType::BF16;
    const bool from_integer = is_int(from) || from == DType::Bool;
    // An integer may be too large for half precision; NaN to bool is silent.
    if (from_integer) return to == DType::F16;
    return to != DType::Bool && from != to && !(widens && (is_float(to) || is_complex(to)));
  }
  return may_set_flags(n.op, from);
}

FlagRules flag_rules(const Graph& graph) {
  std::optional<FlagRule> rule;
  FlagRules out = FlagRules::Callers;
  for_each_node(graph, graph.body(), [&](ValueId v) {
    const FlagRule own = graph.node(v).flag_rule;
    if (!own && !may_set_flags(graph, v)) return;
    if (!rule) out = own ? FlagRules::Other : FlagRules::Callers;
    else if (*rule != own) out = FlagRules::Several;
    rule = own;
  });
  return out;
}

bool reads_operand(const Node& node, std::size_t operand) {
  return node.op != Op::View && !(node.op == Op::Write && operand == 0);
}

namespace {

/// From the end of `a`'s last element to the first byte of `b`, if strides are constants.
std::optional<Dim> gap(const Type& a, const Type& b) {
  Dim out = b.offset - a.offset - Dim(size_of(a.dtype));
  for (int i = 0; i < a.rank(); ++i) {
    if (!a.strides[i].is_const()) return std::nullopt;
    if (a.strides[i].value() > 0) out = out - (a.shape[i] - 1) * a.strides[i];
  }
  for (int i = 0; i < b.rank(); ++i) {
    if (!b.strides[i].is_const()) return std::nullopt;
    if (b.strides[i].value() < 0) out = out + (b.shape[i] - 1) * b.strides[i];
  }
  return out;
}

bool ends_before(const Type& a, const Type& b) {
  const std::optional<Dim> between = gap(a, b);
  return between && between->is_const() && between->value() >= 0;
}

}  // namespace

bool never_meet(const Type& a, const Type& b) {
  try {
    if (ends_before(a, b) || ends_before(b, a)) return true;
    const Dim between = b.offset - a.offset;
    if (!between.is_const()) return false;
    // All elements lie at multiples of a step from the first ones.
    int64_t step = 0;
    for (const Type* type : {&a, &b})
      for (int i = 0; i < type->rank(); ++i)
        if (!(type->shape[i] == Dim(1))) step = std::gcd(step, divisor(type->strides[i]));
    if (step == 0) return false;
    const int64_t place = (between.value() % step + step) % step;
    return place >= size_of(a.dtype) && step - place >= size_of(b.dtype);
  } catch (const DimOverflow&) {
    return false;
  }
}

bool Replacements::rename(Node& node) const {
  bool changed = false;
  const auto apply = [&](ValueId& v) {
    const ValueId to = (*this)(v);
    changed = changed || to != v;
    v = to;
  };
  for (ValueId& v : node.inputs) apply(v);
  if (node.type.is_view()) apply(node.type.root);
  return changed;
}

AliasFacts::AliasFacts(const Graph& graph) : graph_(graph) {
  for_each_node(graph, graph.body(), [&](ValueId v) {
    const Node& n = graph.node(v);
    for (std::size_t i = 0; n.op == Op::LibraryCall && i < n.inputs.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (graph.root(n.inputs[k]) != graph.root(n.inputs[i]))
          pairs_.emplace_back(graph.root(n.inputs[k]), graph.root(n.inputs[i]));
  });
}

bool AliasFacts::may_merge(ValueId a, ValueId b, const Replacements& replaced) const {
  const ValueId root_a = graph_.root(a), root_b = graph_.root(b);
  return std::none_of(pairs_.begin(), pairs_.end(), [&](const auto& pair) {
    const ValueId p = graph_.root(replaced(pair.first));
    if (p != root_a && p != root_b) return false;
    return graph_.root(replaced(pair.second)) == (p == root_a ? root_b : root_a);
  });
}

}  // namespace framejit::graph
