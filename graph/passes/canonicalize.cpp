// canonicalize: one way to write the same thing, so that cse and fuse find it.
//
//   add(c, x)            -> add(x, c)       operands of commutative operators by number, constants last (equal to the
//   bit,
//                                           which of two NaN payloads aliases)
//   view(view(x))        -> view(x)         types of views are relative to the root anyway
//   op(view(x) as x)     -> op(x)           a view of all of x in x's own layout
//   cast(x) to its dtype -> x               also copy(x): where nothing is written or seen that tells the two aliases,
//   and
//                                           the layout is the same (the order of a sum depends on it)
#include <algorithm>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

bool comes_later(const Graph& graph, ValueId a, ValueId b) {
  const bool a_constant = graph.node(a).op == Op::Constant, b_constant = graph.node(b).op == Op::Constant;
  if (a_constant != b_constant) return a_constant;
  return index(a) > index(b);
}

/// May every use of the copy `v` use its operand instead?
bool is_needless_copy(const Graph& graph, const MemoryFacts& facts, ValueId v, int32_t position) {
  const Node& n = graph.node(v);
  if (n.op != Op::Copy && n.op != Op::Cast) return false;
  const Op owner = graph.node(graph.root(n.inputs[0])).op;
  if (facts.viewed[index(v)] && (owner == Op::Constant || owner == Op::DimValue)) return false;  // these have no bytes
  const Type& source = graph.type(n.inputs[0]);
  if (source.dtype != n.type.dtype || source.shape != n.type.shape || source.strides != n.type.strides) return false;
  if (facts.escapes[index(v)] || facts.last_write[index(v)] >= 0) return false;
  return facts.last_write[index(graph.root(n.inputs[0]))] <= position;
}

}  // namespace

namespace {

/// `position`: of the block's first node.
bool canonicalize_block(Graph& graph, Block& block, const MemoryFacts& facts, const AliasFacts& aliases,
                        Replacements& replacements, int32_t& position) {
  bool changed = false;
  std::vector<ValueId>& nodes = block.nodes;
  std::vector<ValueId> kept;
  kept.reserve(nodes.size());
  for (ValueId v : nodes) {
    Node& n = graph.node(v);
    changed |= replacements.rename(n);
    if (n.type.is_view()) {  // the root may be a copy that has been replaced by a view
      const Type& root = graph.type(n.type.root);
      if (root.is_view()) n.type.offset = n.type.offset + root.offset, n.type.root = root.root;
    }
    if (is_commutative(n.op, n.type.dtype) && comes_later(graph, n.inputs[0], n.inputs[1])) {
      std::swap(n.inputs[0], n.inputs[1]);
      changed = true;
    }
    if (n.op == Op::View) {
      changed |= n.inputs[0] != n.type.root;
      n.inputs[0] = n.type.root;
      if (!facts.result[index(v)] && same_place(n.type, graph.type(n.type.root))) replacements.add(v, n.type.root);
    }
    if (is_needless_copy(graph, facts, v, position++) && aliases.may_merge(v, n.inputs[0], replacements)) {
      replacements.add(v, n.inputs[0]);
      changed = true;
      continue;
    }
    for (const std::unique_ptr<Block>& inner : n.blocks)
      changed |= canonicalize_block(graph, *inner, facts, aliases, replacements, position);
    kept.push_back(v);
  }
  nodes = std::move(kept);
  return changed;
}

}  // namespace

bool canonicalize(Graph& graph, PassContext&) {
  const MemoryFacts facts(graph);
  Replacements replacements(graph);
  int32_t position = 0;
  return canonicalize_block(graph, graph.body(), facts, AliasFacts(graph), replacements, position);
}

}  // namespace framejit::graph
