// Whose the flags of a program are that writes params: the parts that need an owner for theirs come after what needs
// none.
#include <algorithm>
#include <iterator>

#include "codegen/lower_parts.h"

namespace framejit::codegen::detail {

namespace {

bool is_cheap(Lowerer& l, ValueId v, const Part& part) {
  const graph::Op op = l.graph.node(v).op;
  const bool elementwise = l.cls(v) == OpClass::Elementwise || l.cls(v) == OpClass::Cast;
  const bool slow = op == Op::Divide || op == Op::Reciprocal || op == Op::Sqrt || op == Op::FloorDivide ||
                    op == Op::Remainder || op == Op::Fmod;
  return elementwise && !slow && l.same_shape(l.shape_of(v), part.shape) && !l.needs_numpy_loop(v);
}

/// Numbers from what is there at the start and is never written, or from parts that are.
bool is_ready(Lowerer& l, const Part& part, std::set<ValueId> ready) {
  return l.is_scalar_shape(part.shape) && std::all_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) {
           const std::vector<ValueId>& inputs = l.graph.node(v).inputs;
           ready.insert(v);
           return (l.cls(v) == OpClass::Elementwise || l.cls(v) == OpClass::Cast) && !l.written.contains(v) &&
                  std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
                    const ValueId root = l.graph.root(input);
                    const Node& node = l.graph.node(root);
                    const bool given =
                        l.cls(root) == OpClass::Source && node.inputs.empty() && !l.written.contains(root);
                    return given || ready.contains(root);
                  });
         });
}

/// Adds to reductions what the parts before them compute, and write, of their operands. False where that is not
/// cheap, or reads what it writes in another view.
bool take_ahead(Lowerer& l, Part& part, std::span<const Part> before, const std::multimap<ValueId, ValueId>& users) {
  constexpr std::size_t kMost = 8;
  std::vector<ValueId> order;  // of the program: those before, and the part's own
  const std::vector<ValueId>& stored = (*l.groups)[part.group].stored;
  if (std::none_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) { return l.cls(v) == OpClass::Reduction; }))
    return false;
  const std::set<ValueId> own(part.nodes.begin(), part.nodes.end());
  for (ValueId v : part.nodes)  // nobody else may want what is not a reduction
    for (auto [user, end] = users.equal_range(v); user != end && l.cls(v) != OpClass::Reduction; ++user)
      if (!own.contains(user->second)) return false;
  for (ValueId v : part.nodes)
    if (l.cls(v) != OpClass::Reduction &&
        (!is_cheap(l, v, part) || std::find(stored.begin(), stored.end(), v) != stored.end()))
      return false;
  for (const Part& p : before) order.insert(order.end(), p.nodes.begin(), p.nodes.end());
  order.insert(order.end(), part.nodes.begin(), part.nodes.end());
  std::set<ValueId> needed(part.nodes.begin(), part.nodes.end());
  for (std::size_t i = order.size(); i-- > 0;) {
    const ValueId v = order[i];
    if (!needed.contains(v)) continue;
    if (i < order.size() - part.nodes.size() && l.cls(v) != OpClass::Write && !is_cheap(l, v, part)) return false;
    for (std::size_t k = l.cls(v) == OpClass::Write ? 1 : 0; k < l.graph.node(v).inputs.size(); ++k) {
      const ValueId input = l.graph.node(v).inputs[k], root = l.graph.root(input);
      std::size_t j = i;
      const auto writes = [&](const Node& node) {
        return node.op == Op::Write && l.graph.root(node.inputs[0]) == root;
      };
      while (j > 0 && order[j - 1] != root && !writes(l.graph.node(order[j - 1]))) --j;
      if (j == 0) continue;  // there before
      const ValueId source = order[j - 1];
      if (source == root ? !same_bytes(l, input, root) || !l.same_shape(l.shape_of(root), part.shape)
                         : !same_view(l.graph, input, l.graph.node(source).inputs[0]))
        return false;
      needed.insert(source);
      if (needed.size() > kMost) return false;
    }
  }
  std::erase_if(order, [&](ValueId v) { return !needed.contains(v); });
  part.nodes = std::move(order);
  part.ahead = true;
  return true;
}

/// Moves reductions that may warn, or ask for a second run, before the first part that writes a param, where they can
/// be made of what is there then; and numbers of what they give. Answers which part is that.
std::size_t reduce_ahead(Lowerer& l, std::set<ValueId> early) {
  std::size_t write = 0;
  while (write < l.parts.size() && !l.writes_param(l.parts[write])) ++write;
  std::multimap<ValueId, ValueId> users;  // by root
  for (const Part& part : l.parts)
    for (ValueId user : part.nodes)
      for (ValueId used : graph::used_values(l.graph, user)) users.emplace(l.graph.root(used), user);
  for (std::size_t p = write + 1; p < l.parts.size(); ++p) {
    const bool owned = std::all_of(l.parts[p].nodes.begin(), l.parts[p].nodes.end(),
                                   [&](ValueId v) { return l.attributable(v) && !l.may_redo(v); });
    if (owned) continue;
    if (!is_ready(l, l.parts[p], early) &&
        !take_ahead(l, l.parts[p], std::span(l.parts).subspan(write, p - write), users))
      continue;
    early.insert(l.parts[p].nodes.begin(), l.parts[p].nodes.end());
    std::rotate(l.parts.begin() + static_cast<std::ptrdiff_t>(write), l.parts.begin() + static_cast<std::ptrdiff_t>(p),
                l.parts.begin() + static_cast<std::ptrdiff_t>(p + 1));
    ++write;
  }
  return write;
}

}  // namespace

void attribute(Lowerer& l) {
  if (!l.program.per_call_flags) return;
  std::set<ValueId> early;
  std::vector<Part> first, rest;
  for (Part& part : l.parts) {
    const bool ready = is_ready(l, part, early);
    if (ready) early.insert(part.nodes.begin(), part.nodes.end());
    (ready ? first : rest).push_back(std::move(part));
  }
  std::move(rest.begin(), rest.end(), std::back_inserter(first));
  l.parts = std::move(first);
  const std::size_t write = reduce_ahead(l, early);
  for (auto part = l.parts.begin() + static_cast<std::ptrdiff_t>(write); part != l.parts.end(); ++part)
    for (ValueId v : part->nodes) {
      const graph::Op kind = l.graph.node(v).op;
      const std::string op(graph::name_of(kind));
      if (kind == graph::Op::LibraryCall || kind == graph::Op::Put || kind == graph::Op::Expect ||
          kind == graph::Op::Measure)
        fail(op + " may end the run, after a param was written");
      if (!l.attributable(v)) fail("a warning that " + op + " may give is NumPy's own, after a param was written");
      if (l.may_redo(v)) fail(op + " may have to be NumPy's, after a param was written");
    }
}

}  // namespace framejit::codegen::detail
