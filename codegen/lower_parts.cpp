// From groups to parts. A group is cut where one loop nest cannot keep the order of memory, or where values of another
// shape have to be ready before.
#include <algorithm>

#include "codegen/lower_parts.h"

namespace framejit::codegen::detail {

namespace {

std::vector<std::pair<Dim, Dim>> squeezed(Lowerer& l, ValueId v) {
  const graph::Type& t = l.graph.type(v);
  std::vector<std::pair<Dim, Dim>> axes;
  for (std::size_t i = 0; i < t.shape.size(); ++i)
    if (!l.facts.is_one(t.shape[i])) axes.emplace_back(t.shape[i], t.strides[i]);
  return axes;
}

/// fmin and fmax give one of two zeros by the position in NumPy's loop, which only a step of their own keeps.
bool stands_alone(Lowerer& l, ValueId v) {
  const graph::Op op = l.graph.node(v).op;
  return op == Op::Fmin || op == Op::Fmax || graph::is_alone(op);
}

bool must_cut_before(Lowerer& l, const std::vector<ValueId>& piece, ValueId v) {
  if (piece.empty()) return false;
  if (stands_alone(l, v)) return true;
  const Node& node = l.graph.node(v);
  const bool reduces = l.cls(v) == OpClass::Reduction;
  for (ValueId earlier : piece) {
    const Node& before = l.graph.node(earlier);
    if (l.cls(earlier) == OpClass::Reduction) {
      if (!reduces) return true;  // reductions end a part
      for (ValueId input : node.inputs)
        if (l.graph.root(input) == earlier) return true;
    }
    if (before.op == Op::Write) {
      if (reduces) return true;  // its operands are computed once more, and must find what was there
      for (ValueId input : node.inputs)
        if (may_overlap(l.graph, input, before.inputs[0])) return true;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input != earlier && l.graph.root(input) == earlier && !same_bytes(l, input, earlier)) return true;
    }
    if (node.op == Op::Write) {
      const ValueId destination = node.inputs[0];
      for (ValueId input : before.inputs)
        if (may_overlap(l.graph, input, destination)) return true;
      if (earlier == l.graph.root(destination) && !same_bytes(l, destination, earlier)) return true;
    }
  }
  return false;
}

/// A group lists its reductions last. Beside a write that would be too late for one that reads, by a load, what stood
/// there before: then the nodes go in program order.
std::vector<ValueId> in_order(Lowerer& l, const std::vector<ValueId>& nodes) {
  const bool writes = std::any_of(nodes.begin(), nodes.end(), [&](ValueId v) { return l.cls(v) == OpClass::Write; });
  const bool reduces =
      std::any_of(nodes.begin(), nodes.end(), [&](ValueId v) { return l.cls(v) == OpClass::Reduction; });
  if (!writes || !reduces) return nodes;
  const std::set<ValueId> members(nodes.begin(), nodes.end());
  std::vector<ValueId> out;
  graph::for_each_node(l.graph, l.graph.body(), [&](ValueId v) {
    if (members.contains(v)) out.push_back(v);
  });
  return out;
}

bool scalars_stay(Lowerer& l, const std::vector<ValueId>& scalars, const std::vector<ValueId>& others,
                  const Dims& shape, uint32_t g) {
  const bool never_empty =
      std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_const() && d.value() > 0; });
  const std::set<ValueId> set(scalars.begin(), scalars.end());
  for (ValueId v : scalars) {
    if (l.cls(v) != OpClass::Elementwise && l.cls(v) != OpClass::Cast && l.cls(v) != OpClass::Copy) return false;
    if (l.may_flag(v) && !never_empty) return false;
    if (l.program.per_call_flags && !l.attributable(v)) return false;
    if (l.cls(v) != OpClass::Copy && l.needs_numpy_loop(v)) return false;
    const std::vector<ValueId>& stored = (*l.groups)[g].stored;
    if (std::find(stored.begin(), stored.end(), v) != stored.end()) return false;
  }
  for (ValueId v : others) {
    const bool elementwise = l.cls(v) == OpClass::Elementwise || l.cls(v) == OpClass::Cast;
    if (!elementwise || !l.needs_numpy_loop(v)) continue;
    for (ValueId input : l.graph.node(v).inputs)
      if (set.contains(l.graph.root(input))) return false;
  }
  return true;
}

/// Nodes of smaller shapes come first, in parts of their own; scalars may stay where they are free of NumPy loops,
/// and their flags would not be lost with an empty array.
void cut_by_shape(Lowerer& l, const std::vector<ValueId>& piece, uint32_t g) {
  std::vector<std::pair<Dims, std::vector<ValueId>>> shapes;
  for (ValueId v : piece) {
    const Dims& shape = l.shape_of(v);
    auto it = std::find_if(shapes.begin(), shapes.end(), [&](const auto& s) { return l.same_shape(s.first, shape); });
    if (it == shapes.end()) it = shapes.insert(shapes.end(), {shape, {}});
    it->second.push_back(v);
  }
  auto weight = [&](const Dims& shape) {
    const auto moving = std::count_if(shape.begin(), shape.end(), [&](const Dim& d) { return !l.facts.is_one(d); });
    return std::pair(moving, shape.size());
  };
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const auto& a, const auto& b) { return weight(a.first) < weight(b.first); });
  if (shapes.size() == 2 && shapes[0].first.size() <= shapes[1].first.size() && l.is_scalar_shape(shapes[0].first) &&
      scalars_stay(l, shapes[0].second, shapes[1].second, shapes[1].first, g)) {
    l.parts.push_back({piece, {}, shapes[1].first, g});
    return;
  }
  for (auto& [shape, nodes] : shapes) l.parts.push_back({std::move(nodes), {}, shape, g});
}

/// Cuts a group where a node reads or writes memory that an earlier node of the part wrote, or reads, in another
/// view.
void cut_group(Lowerer& l, uint32_t g) {
  Part part{(*l.groups)[g].nodes, {}, (*l.groups)[g].shape, g};
  if (l.is_in_place(part)) return l.parts.push_back(std::move(part));
  std::vector<std::vector<ValueId>> pieces(1);
  for (ValueId v : in_order(l, (*l.groups)[g].nodes)) {
    if (must_cut_before(l, pieces.back(), v)) pieces.emplace_back();
    pieces.back().push_back(v);
    if (stands_alone(l, v)) pieces.emplace_back();
  }
  for (std::vector<ValueId>& piece : pieces)
    if (!piece.empty()) cut_by_shape(l, piece, g);
}

std::vector<bool> wanted_values(Lowerer& l) {
  std::vector<bool> wanted(l.graph.value_count()), computed(l.graph.value_count());
  std::vector<std::size_t> part_of(l.graph.value_count(), l.parts.size());  // the last one that computes it
  for (const Group& group : *l.groups)
    for (ValueId v : group.stored) wanted[graph::index(v)] = true;
  for (ValueId root : l.program.result_roots) wanted[graph::index(root)] = true;
  for (const Part& part : l.parts)
    for (ValueId v : part.nodes) computed[graph::index(v)] = true;
  for (std::size_t p = 0; p < l.parts.size(); ++p) {
    for (ValueId v : l.parts[p].nodes) part_of[graph::index(v)] = p;
    for (ValueId v : l.parts[p].nodes)
      for (ValueId input : graph::used_values(l.graph, v)) {
        const ValueId root = l.graph.root(input);
        if (computed[graph::index(root)] && part_of[graph::index(root)] != p) wanted[graph::index(root)] = true;
        l.last_reader[root] = p;
      }
  }
  return wanted;
}

bool split_wanted_scalars(Lowerer& l, const std::vector<bool>& wanted) {
  for (std::size_t p = 0; p < l.parts.size(); ++p) {
    auto inlined = [&](ValueId v) { return !l.same_shape(l.shape_of(v), l.parts[p].shape); };
    const std::vector<ValueId>& nodes = l.parts[p].nodes;
    if (std::none_of(nodes.begin(), nodes.end(), [&](ValueId v) { return inlined(v) && wanted[graph::index(v)]; }))
      continue;
    Part scalars{{}, {}, {}, l.parts[p].group};
    std::vector<ValueId> rest;
    for (ValueId v : nodes) (inlined(v) ? scalars.nodes : rest).push_back(v);
    scalars.shape = l.shape_of(scalars.nodes[0]);
    l.parts[p].nodes = std::move(rest);
    l.parts.insert(l.parts.begin() + static_cast<std::ptrdiff_t>(p), std::move(scalars));
    l.last_reader.clear();
    return true;
  }
  return false;
}

}  // namespace

bool same_bytes(Lowerer& l, ValueId view, ValueId root) {
  return same_view(l.graph, view, root) ||
         (squeezed(l, view) == squeezed(l, root) && l.graph.type(view).offset == Dim(0) &&
          l.graph.type(view).dtype == l.graph.type(root).dtype);
}

void cut_groups(Lowerer& l) {
  for (uint32_t g = 0; g < l.groups->size(); ++g) cut_group(l, g);
}

void find_stored(Lowerer& l) {
  std::vector<bool> wanted;
  do {
    wanted = wanted_values(l);
  } while (split_wanted_scalars(l, wanted));
  std::set<ValueId> placed;
  for (Part& part : l.parts)
    for (ValueId v : part.nodes)
      if (wanted[graph::index(v)] && l.cls(v) != OpClass::Write && (!part.ahead || l.cls(v) == OpClass::Reduction) &&
          placed.insert(v).second)
        part.stored.insert(v);
}

}  // namespace framejit::codegen::detail
