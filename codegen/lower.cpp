// From groups to a program. A group is cut into parts where one loop nest cannot keep the order of memory, or where
// values of another shape have to be ready before; each part becomes one step, and each of its reductions another one.
#include "codegen/lower.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "codegen/compress.h"
#include "codegen/lowerer.h"
#include "graph/passes/memory.h"

namespace framejit::codegen {

namespace detail {

Program Lowerer::run() {
  if (options_.cpu.isa == Isa::None) fail("this processor has no AVX2");
  find_results();
  cut_groups();
  attribute();
  find_stored();
  save_params();
  lower_parts();
  store_scalar_results();
  program_.conditions = facts_.conditions();
  return std::move(program_);
}

void Lowerer::cut_groups() {
  for (uint32_t g = 0; g < groups_->size(); ++g) cut_group(g);
}

void Lowerer::lower_parts() {
  std::map<const Part*, const Part*> waiting;  // by epilogue: its product
  for (const Part& part : parts_) {
    context_.per_call_flags = program_.per_call_flags && (context_.per_call_flags || writes_param(part));
    const Part* epilogue = is_product(part) ? epilogue_of(part) : nullptr;
    const graph::FlagRule rule = rule_of(part);
    const std::size_t first = program_.steps.size();
    if (const auto product = waiting.find(&part); product != waiting.end()) lower_product(*product->second, &part);
    else if (epilogue) waiting[epilogue] = &part;
    else lower_part(part);
    if (depth_ == 0 && is_one_loop(first)) loop_of_[&part] = first;
    if (!rule) continue;
    program_.flag_rules.resize(first);
    program_.flag_rules.resize(program_.steps.size(), rule);
  }
}

graph::FlagRule Lowerer::rule_of(const Part& part) const {
  std::optional<graph::FlagRule> rule;
  for (ValueId v : part.nodes) {
    if (!graph::may_set_flags(graph_, v) && cls(v) != OpClass::LibraryCall) continue;
    if (rule && *rule != graph_.node(v).flag_rule) fail("operators of one part under different np.errstate");
    rule = graph_.node(v).flag_rule;
  }
  return rule.value_or(graph::FlagRule{});
}

BufferIndex Lowerer::buffer_of(ValueId root) {
  if (const auto it = buffers_.find(root); it != buffers_.end()) return it->second;
  const Node& node = graph_.node(root);
  if (node.op == Op::Constant) {  // what computes it into registers does not ask
    const std::array<uint8_t, 16> value = graph::element_of(graph_.type(root).dtype, node.value());
    return buffers_[root] =
               context_.literal(value.data(), static_cast<std::size_t>(graph::size_of(graph_.type(root).dtype)));
  }
  Buffer b{};
  if (node.op == Op::Param) {
    b.kind = BufferKind::Param;
    b.number = static_cast<uint32_t>(node.index());
  } else if (node.op == Op::DimValue) {
    b.kind = BufferKind::DimValue;
    b.value = node.dim();
  } else if (const auto it = result_number_.find(root); it != result_number_.end()) {
    b.kind = BufferKind::Result;
    b.number = it->second;
    b.bytes = bytes_of(root);
  } else {
    b.kind = BufferKind::Temp;
    b.bytes = bytes_of(root);
  }
  program_.buffers.push_back(std::move(b));
  return buffers_[root] = static_cast<BufferIndex>(program_.buffers.size() - 1);
}

const Dims& Lowerer::shape_of(ValueId v) const {
  const Node& node = graph_.node(v);
  if (node.op == Op::Write || cls(v) == OpClass::Reduction) return graph_.type(node.inputs[0]).shape;
  return node.type.shape;
}

bool Lowerer::same_shape(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!facts_.proven_equal(a[i], b[i])) return false;
  return true;
}

bool Lowerer::is_scalar_shape(const Dims& shape) {
  return std::all_of(shape.begin(), shape.end(), [&](const Dim& d) { return facts_.is_one(d); });
}

void Lowerer::find_results() {
  for (ValueId v : graph_.results()) {
    const ValueId root = graph_.root(v);
    if (graph_.node(root).op == Op::Param || result_number_.contains(root)) continue;
    result_number_[root] = static_cast<uint32_t>(program_.result_roots.size());
    program_.result_roots.push_back(root);
  }
  bool writes_params = false, calls_library = false, flows = false, has_rules = false;
  graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
    if (may_flag(v)) program_.may_set_flags = true;
    const graph::Op op = graph_.node(v).op;
    flows = flows || graph::is_control(op);
    has_rules = has_rules || graph_.node(v).flag_rule;
    // A loop can be cancelled, wherever it stands.
    if (may_flag(v) || may_redo(v) || op == Op::LibraryCall || op == Op::Loop || op == Op::Expect || op == Op::Measure)
      needs_undo_ = true;
    writes_params = writes_params || is_param_write(v);
    calls_library = calls_library || op == Op::LibraryCall;
    if (op == Op::Write) written_.insert(graph_.root(graph_.node(v).inputs[0]));
  });
  needs_undo_ = needs_undo_ && writes_params;
  program_.per_call_flags = needs_undo_ && options_.attribute;
  if (program_.per_call_flags && flows) fail("what control flow skips has no warning of its own");
  if (program_.per_call_flags && has_rules) fail("not all flags are warned of alike");
  if (program_.per_call_flags && calls_library) fail("a library call says itself what it warns of");
  if (program_.per_call_flags) needs_undo_ = false;
}

bool Lowerer::is_param_write(ValueId v) const {
  const Node& node = graph_.node(v);
  return node.op == Op::Write && graph_.node(graph_.root(node.inputs[0])).op == Op::Param;
}

bool Lowerer::writes_param(const Part& part) const {
  return !part.ahead && std::any_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) { return is_param_write(v); });
}

void Lowerer::attribute() {
  if (!program_.per_call_flags) return;
  std::set<ValueId> early;
  std::vector<Part> first, rest;
  for (Part& part : parts_) {
    const bool ready = is_ready(part, early);
    if (ready) early.insert(part.nodes.begin(), part.nodes.end());
    (ready ? first : rest).push_back(std::move(part));
  }
  std::move(rest.begin(), rest.end(), std::back_inserter(first));
  parts_ = std::move(first);
  const std::size_t write = reduce_ahead(early);
  for (auto part = parts_.begin() + static_cast<std::ptrdiff_t>(write); part != parts_.end(); ++part)
    for (ValueId v : part->nodes) {
      const std::string op(graph::name_of(graph_.node(v).op));
      if (!attributable(v)) fail("a warning that " + op + " may give is NumPy's own, after a param was written");
      if (may_redo(v)) fail(op + " may have to be NumPy's, after a param was written");
    }
}

std::size_t Lowerer::reduce_ahead(std::set<ValueId> early) {
  std::size_t write = 0;
  while (write < parts_.size() && !writes_param(parts_[write])) ++write;
  std::multimap<ValueId, ValueId> users;  // by root
  for (const Part& part : parts_)
    for (ValueId user : part.nodes)
      for (ValueId used : graph::used_values(graph_, user)) users.emplace(graph_.root(used), user);
  for (std::size_t p = write + 1; p < parts_.size(); ++p) {
    const bool owned = std::all_of(parts_[p].nodes.begin(), parts_[p].nodes.end(),
                                   [&](ValueId v) { return attributable(v) && !may_redo(v); });
    if (owned) continue;
    if (!is_ready(parts_[p], early) && !take_ahead(parts_[p], std::span(parts_).subspan(write, p - write), users))
      continue;
    early.insert(parts_[p].nodes.begin(), parts_[p].nodes.end());
    std::rotate(parts_.begin() + static_cast<std::ptrdiff_t>(write), parts_.begin() + static_cast<std::ptrdiff_t>(p),
                parts_.begin() + static_cast<std::ptrdiff_t>(p + 1));
    ++write;
  }
  return write;
}

bool Lowerer::take_ahead(Part& part, std::span<const Part> before, const std::multimap<ValueId, ValueId>& users) {
  constexpr std::size_t kMost = 8;
  std::vector<ValueId> order;  // of the program: those before, and the part's own
  const std::vector<ValueId>& stored = (*groups_)[part.group].stored;
  if (std::none_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) { return cls(v) == OpClass::Reduction; }))
    return false;
  const std::set<ValueId> own(part.nodes.begin(), part.nodes.end());
  for (ValueId v : part.nodes)  // nobody else may want what is not a reduction
    for (auto [user, end] = users.equal_range(v); user != end && cls(v) != OpClass::Reduction; ++user)
      if (!own.contains(user->second)) return false;
  for (ValueId v : part.nodes)
    if (cls(v) != OpClass::Reduction &&
        (!is_cheap(v, part) || std::find(stored.begin(), stored.end(), v) != stored.end()))
      return false;
  for (const Part& p : before) order.insert(order.end(), p.nodes.begin(), p.nodes.end());
  order.insert(order.end(), part.nodes.begin(), part.nodes.end());
  std::set<ValueId> needed(part.nodes.begin(), part.nodes.end());
  for (std::size_t i = order.size(); i-- > 0;) {
    const ValueId v = order[i];
    if (!needed.contains(v)) continue;
    if (i < order.size() - part.nodes.size() && cls(v) != OpClass::Write && !is_cheap(v, part)) return false;
    for (std::size_t k = cls(v) == OpClass::Write ? 1 : 0; k < graph_.node(v).inputs.size(); ++k) {
      const ValueId input = graph_.node(v).inputs[k], root = graph_.root(input);
      std::size_t j = i;
      const auto writes = [&](const Node& node) { return node.op == Op::Write && graph_.root(node.inputs[0]) == root; };
      while (j > 0 && order[j - 1] != root && !writes(graph_.node(order[j - 1]))) --j;
      if (j == 0) continue;  // there before
      const ValueId source = order[j - 1];
      if (source == root ? !same_bytes(input, root) || !same_shape(shape_of(root), part.shape)
                         : !same_view(graph_, input, graph_.node(source).inputs[0]))
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

bool Lowerer::is_cheap(ValueId v, const Part& part) {
  const graph::Op op = graph_.node(v).op;
  const bool elementwise = cls(v) == OpClass::Elementwise || cls(v) == OpClass::Cast;
  const bool slow = op == Op::Divide || op == Op::Reciprocal || op == Op::Sqrt || op == Op::FloorDivide ||
                    op == Op::Remainder || op == Op::Fmod;
  return elementwise && !slow && same_shape(shape_of(v), part.shape) && !needs_numpy_loop(v);
}

bool Lowerer::is_ready(const Part& part, std::set<ValueId> ready) {
  return is_scalar_shape(part.shape) && std::all_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) {
           const std::vector<ValueId>& inputs = graph_.node(v).inputs;
           ready.insert(v);
           return (cls(v) == OpClass::Elementwise || cls(v) == OpClass::Cast) && !written_.contains(v) &&
                  std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
                    const ValueId root = graph_.root(input);
                    const Node& node = graph_.node(root);
                    const bool given = cls(root) == OpClass::Source && node.inputs.empty() && !written_.contains(root);
                    return given || ready.contains(root);
                  });
         });
}

bool Lowerer::may_redo(ValueId v) const {
  const graph::Op op = graph_.node(v).op;
  if ((op == Op::Divide || op == Op::Absolute) && graph::is_complex(graph_.type(graph_.node(v).inputs[0]).dtype))
    return true;
  return (op == Op::ReduceMin || op == Op::ReduceMax) && graph::is_float(graph_.type(v).dtype) && !options_.o1 &&
         !options_.any_zero;
}

// ---- parts --------------------------------------------------------------------------------------------------------

std::vector<ValueId> Lowerer::in_order(const std::vector<ValueId>& nodes) const {
  const bool writes = std::any_of(nodes.begin(), nodes.end(), [&](ValueId v) { return cls(v) == OpClass::Write; });
  const bool reduces = std::any_of(nodes.begin(), nodes.end(), [&](ValueId v) { return cls(v) == OpClass::Reduction; });
  if (!writes || !reduces) return nodes;
  const std::set<ValueId> members(nodes.begin(), nodes.end());
  std::vector<ValueId> out;
  graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
    if (members.contains(v)) out.push_back(v);
  });
  return out;
}

void Lowerer::cut_group(uint32_t g) {
  std::vector<std::vector<ValueId>> pieces(1);
  for (ValueId v : in_order((*groups_)[g].nodes)) {
    if (must_cut_before(pieces.back(), v)) pieces.emplace_back();
    pieces.back().push_back(v);
    if (stands_alone(v)) pieces.emplace_back();
  }
  for (std::vector<ValueId>& piece : pieces)
    if (!piece.empty()) cut_by_shape(piece, g);
}

bool Lowerer::stands_alone(ValueId v) const {
  const graph::Op op = graph_.node(v).op;
  return op == Op::Fmin || op == Op::Fmax || graph::is_alone(op);
}

bool Lowerer::must_cut_before(const std::vector<ValueId>& piece, ValueId v) {
  if (piece.empty()) return false;
  if (stands_alone(v)) return true;
  const Node& node = graph_.node(v);
  const bool reduces = cls(v) == OpClass::Reduction;
  for (ValueId earlier : piece) {
    const Node& before = graph_.node(earlier);
    if (cls(earlier) == OpClass::Reduction) {
      if (!reduces) return true;  // reductions end a part
      for (ValueId input : node.inputs)
        if (graph_.root(input) == earlier) return true;
    }
    if (before.op == Op::Write) {
      if (reduces) return true;  // its operands are computed once more, and must find what was there
      for (ValueId input : node.inputs)
        if (graph_.root(input) == graph_.root(before.inputs[0]) && !same_view(graph_, input, before.inputs[0]))
          return true;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input != earlier && graph_.root(input) == earlier && !same_bytes(input, earlier)) return true;
    }
    if (node.op == Op::Write) {
      const ValueId destination = node.inputs[0];
      for (ValueId input : before.inputs)
        if (graph_.root(input) == graph_.root(destination) && !same_view(graph_, input, destination)) return true;
      if (earlier == graph_.root(destination) && !same_bytes(destination, earlier)) return true;
    }
  }
  return false;
}

bool Lowerer::same_bytes(ValueId view, ValueId root) {
  return same_view(graph_, view, root) || (squeezed(view) == squeezed(root) && graph_.type(view).offset == Dim(0) &&
                                           graph_.type(view).dtype == graph_.type(root).dtype);
}

std::vector<std::pair<Dim, Dim>> Lowerer::squeezed(ValueId v) {
  const graph::Type& t = graph_.type(v);
  std::vector<std::pair<Dim, Dim>> axes;
  for (std::size_t i = 0; i < t.shape.size(); ++i)
    if (!facts_.is_one(t.shape[i])) axes.emplace_back(t.shape[i], t.strides[i]);
  return axes;
}

void Lowerer::cut_by_shape(const std::vector<ValueId>& piece, uint32_t g) {
  std::vector<std::pair<Dims, std::vector<ValueId>>> shapes;
  for (ValueId v : piece) {
    const Dims& shape = shape_of(v);
    auto it = std::find_if(shapes.begin(), shapes.end(), [&](const auto& s) { return same_shape(s.first, shape); });
    if (it == shapes.end()) it = shapes.insert(shapes.end(), {shape, {}});
    it->second.push_back(v);
  }
  auto weight = [&](const Dims& shape) {
    const auto moving = std::count_if(shape.begin(), shape.end(), [&](const Dim& d) { return !facts_.is_one(d); });
    return std::pair(moving, shape.size());
  };
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const auto& a, const auto& b) { return weight(a.first) < weight(b.first); });
  if (shapes.size() == 2 && shapes[0].first.size() <= shapes[1].first.size() && is_scalar_shape(shapes[0].first) &&
      scalars_stay(shapes[0].second, shapes[1].second, shapes[1].first, g)) {
    parts_.push_back({piece, {}, shapes[1].first, g});
    return;
  }
  for (auto& [shape, nodes] : shapes) parts_.push_back({std::move(nodes), {}, shape, g});
}

bool Lowerer::scalars_stay(const std::vector<ValueId>& scalars, const std::vector<ValueId>& others, const Dims& shape,
                           uint32_t g) {
  const bool never_empty =
      std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_const() && d.value() > 0; });
  const std::set<ValueId> set(scalars.begin(), scalars.end());
  for (ValueId v : scalars) {
    if (cls(v) != OpClass::Elementwise && cls(v) != OpClass::Cast && cls(v) != OpClass::Copy) return false;
    if (may_flag(v) && !never_empty) return false;
    if (program_.per_call_flags && !attributable(v)) return false;
    if (cls(v) != OpClass::Copy && needs_numpy_loop(v)) return false;
    const std::vector<ValueId>& stored = (*groups_)[g].stored;
    if (std::find(stored.begin(), stored.end(), v) != stored.end()) return false;
  }
  for (ValueId v : others) {
    const bool elementwise = cls(v) == OpClass::Elementwise || cls(v) == OpClass::Cast;
    if (!elementwise || !needs_numpy_loop(v)) continue;
    for (ValueId input : graph_.node(v).inputs)
      if (set.contains(graph_.root(input))) return false;
  }
  return true;
}

bool Lowerer::needs_numpy_loop(ValueId v) const {
  const Node& node = graph_.node(v);
  return context_.needs_numpy_loop(node.op, graph_.type(node.inputs.back()).dtype, node.type.dtype);
}

void Lowerer::find_stored() {
  std::vector<bool> wanted;
  do {
    wanted = wanted_values();
  } while (split_wanted_scalars(wanted));
  std::set<ValueId> placed;
  for (Part& part : parts_)
    for (ValueId v : part.nodes)
      if (wanted[graph::index(v)] && cls(v) != OpClass::Write && (!part.ahead || cls(v) == OpClass::Reduction) &&
          placed.insert(v).second)
        part.stored.insert(v);
}

std::vector<bool> Lowerer::wanted_values() {
  std::vector<bool> wanted(graph_.value_count()), computed(graph_.value_count());
  std::vector<std::size_t> part_of(graph_.value_count(), parts_.size());  // the last one that computes it
  for (const Group& group : *groups_)
    for (ValueId v : group.stored) wanted[graph::index(v)] = true;
  for (ValueId root : program_.result_roots) wanted[graph::index(root)] = true;
  for (const Part& part : parts_)
    for (ValueId v : part.nodes) computed[graph::index(v)] = true;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    for (ValueId v : parts_[p].nodes) part_of[graph::index(v)] = p;
    for (ValueId v : parts_[p].nodes)
      for (ValueId input : graph::used_values(graph_, v)) {
        const ValueId root = graph_.root(input);
        if (computed[graph::index(root)] && part_of[graph::index(root)] != p) wanted[graph::index(root)] = true;
        last_reader_[root] = p;
      }
  }
  return wanted;
}

bool Lowerer::split_wanted_scalars(const std::vector<bool>& wanted) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto inlined = [&](ValueId v) { return !same_shape(shape_of(v), parts_[p].shape); };
    const std::vector<ValueId>& nodes = parts_[p].nodes;
    if (std::none_of(nodes.begin(), nodes.end(), [&](ValueId v) { return inlined(v) && wanted[graph::index(v)]; }))
      continue;
    Part scalars{{}, {}, {}, parts_[p].group};
    std::vector<ValueId> rest;
    for (ValueId v : nodes) (inlined(v) ? scalars.nodes : rest).push_back(v);
    scalars.shape = shape_of(scalars.nodes[0]);
    parts_[p].nodes = std::move(rest);
    parts_.insert(parts_.begin() + static_cast<std::ptrdiff_t>(p), std::move(scalars));
    last_reader_.clear();
    return true;
  }
  return false;
}

// ---- steps --------------------------------------------------------------------------------------------------------

void Lowerer::save_params() {
  if (!needs_undo_) return;
  std::vector<ValueId> saved;
  graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
    if (!is_param_write(v)) return;
    ValueId destination = graph_.node(v).inputs[0];
    // Where it lies, or how much it is, is not known yet: all of the param.
    const graph::Type& written = graph_.type(destination);
    if (graph_.shapes().is_measured(written.offset) || graph_.shapes().is_measured(written.shape))
      destination = graph_.root(destination);
    if (std::any_of(saved.begin(), saved.end(), [&](ValueId s) { return same_view(graph_, s, destination); })) return;
    saved.push_back(destination);
    const graph::Type& type = graph_.type(destination);
    UndoStep undo;
    undo.source.buffer = buffer_of(graph_.root(destination));
    undo.source.dtype = type.dtype;
    undo.source.offset = type.offset;
    undo.source.strides = type.strides;
    undo.extents = type.shape;
    Buffer b{};
    b.kind = BufferKind::Temp;
    b.bytes = bytes_of(destination);
    program_.buffers.push_back(std::move(b));
    undo.saved = static_cast<BufferIndex>(program_.buffers.size() - 1);
    program_.steps.emplace_back(std::move(undo));
  });
}

void Lowerer::lower_part(const Part& part) {
  if (graph::is_control(graph_.node(part.nodes[0]).op)) return lower_control(part);
  if (is_product(part)) return lower_product(part, nullptr);
  if (part.nodes.size() == 1 && cls(part.nodes[0]) == OpClass::Contraction) return lower_attention(part);
  if (part.nodes.size() == 1 && cls(part.nodes[0]) == OpClass::LibraryCall) return lower_library_call(part);
  std::vector<ValueId> reductions, elementwise;
  for (ValueId v : part.nodes) (cls(v) == OpClass::Reduction ? reductions : elementwise).push_back(v);
  if (reductions.empty()) return lower_elementwise(part, elementwise, part.stored);
  if (part.ahead) {
    for (ValueId r : reductions) lower_reduction(part, elementwise, {}, r);
    return;
  }

  // What is stored, or dear and shared, is computed once before; the reductions compute the rest as they go.
  std::set<ValueId> stored;
  for (ValueId v : elementwise)
    if (part.stored.contains(v) || (reductions.size() > 1 && feeds_several(v, part, reductions))) stored.insert(v);
  std::set<ValueId> reached;
  for (ValueId r : reductions) reach(graph_.node(r).inputs[0], part, reached);
  const bool unreached_flags = std::any_of(elementwise.begin(), elementwise.end(),
                                           [&](ValueId v) { return may_flag(v) && !reached.contains(v); });
  if (!stored.empty() || unreached_flags) lower_elementwise(part, needed(part, elementwise, stored, reached), stored);
  for (ValueId r : reductions) lower_reduction(part, elementwise, stored, r);
}

void Lowerer::reach(ValueId v, const Part& part, std::set<ValueId>& out) const {
  v = graph_.root(v);
  if (std::find(part.nodes.begin(), part.nodes.end(), v) == part.nodes.end() || !out.insert(v).second) return;
  for (ValueId input : graph_.node(v).inputs) reach(input, part, out);
}

bool Lowerer::feeds_several(ValueId v, const Part& part, const std::vector<ValueId>& reductions) const {
  if ((cls(v) != OpClass::Elementwise && cls(v) != OpClass::Cast) || !needs_numpy_loop(v)) return false;
  int count = 0;
  for (ValueId r : reductions) {
    std::set<ValueId> reached;
    reach(graph_.node(r).inputs[0], part, reached);
    count += reached.contains(v);
  }
  return count > 1;
}

std::vector<ValueId> Lowerer::needed(const Part& part, const std::vector<ValueId>& elementwise,
                                     const std::set<ValueId>& stored, const std::set<ValueId>& reached) const {
  std::set<ValueId> keep;
  for (ValueId v : stored) reach(v, part, keep);
  for (ValueId v : elementwise)
    if (may_flag(v) && !reached.contains(v)) reach(v, part, keep);
  std::vector<ValueId> out;
  for (ValueId v : elementwise)
    if (keep.contains(v)) out.push_back(v);
  return out;
}

StepSpec Lowerer::new_step(const Part& part) const {
  StepSpec spec;
  spec.group = part.group;
  spec.shape = part.shape;
  return spec;
}

void Lowerer::lower_elementwise(const Part& part, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored) {
  StepSpec spec = new_step(part);
  fill_elementwise(spec, nodes, stored);
  const std::size_t here = static_cast<std::size_t>(&part - parts_.data());
  spec.streams = std::all_of(stored.begin(), stored.end(), [&](ValueId v) {
    const auto it = last_reader_.find(v);
    return it == last_reader_.end() || it->second <= here;
  });
  // What is written where it stands: in a block the next round, or what comes behind, may read it.
  for (ValueId v : nodes)
    if (cls(v) == OpClass::Write) {
      const auto it = last_reader_.find(graph_.root(v));
      spec.streams = spec.streams && depth_ == 0 && (it == last_reader_.end() || it->second <= here);
    }
  if (!spec.stores.empty() || !spec.kept.empty()) program_.steps.emplace_back(build_step(spec, context_));
}

void Lowerer::fill_elementwise(StepSpec& spec, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored) {
  TermBuilder terms(graph_, *this, context_, spec);
  for (ValueId v : nodes) terms.compute(v);
  for (ValueId v : nodes)
    if (stored.contains(v)) terms.store(v);
  terms.finish(stored);
  for (ValueId v : nodes)
    if (may_flag(v)) terms.keep(v);
}

void Lowerer::lower_reduction(const Part& part, const std::vector<ValueId>& elementwise,
                              const std::set<ValueId>& stored, ValueId r) {
  const Node& node = graph_.node(r);
  const ValueId input = node.inputs[0];
  StepSpec spec = new_step(part);
  TermBuilder terms(graph_, *this, context_, spec);
  std::set<ValueId> reached;
  reach_unstored(input, part, stored, reached);
  for (ValueId v : elementwise)
    if (part.ahead || reached.contains(v)) terms.compute(v);

  // dtype= of a reduction: NumPy casts in its buffers, so that the layout of what is cast decides the order.
  const bool casting = node.find(graph::AttrKey::Name) != nullptr && node.name() == "casting";
  const ValueId seen = casting && graph_.node(input).op == Op::Cast ? graph_.node(input).inputs[0] : input;
  FoldSpec fold = reduction(graph_, r, graph_.type(seen), casting, context_);
  fold.output.buffer = buffer_of(r);
  fold.value = terms.operand(input);
  const DType dtype = graph_.type(input).dtype;
  if (node.op == Op::ReduceAny || node.op == Op::ReduceAll) {
    if (dtype != DType::Bool)
      fold.value = terms.apply(Op::NotEqual, dtype, DType::Bool, {fold.value, terms.constant(dtype, {})});
  } else if (fold.accumulator != dtype) {
    fold.value = terms.apply(Op::Cast, dtype, fold.accumulator, {fold.value});
  }
  if (fold.order.empty() || std::none_of(fold.order.begin(), fold.order.end(),
                                         [&](int axis) { return fold.reduced[static_cast<std::size_t>(axis)]; }))
    return lower_trivial(spec, terms, fold, node);
  spec.fold = std::move(fold);
  program_.steps.emplace_back(build_step(spec, context_));
}

void Lowerer::reach_unstored(ValueId v, const Part& part, const std::set<ValueId>& stored,
                             std::set<ValueId>& out) const {
  v = graph_.root(v);
  if (stored.contains(v)) return;
  if (std::find(part.nodes.begin(), part.nodes.end(), v) == part.nodes.end() || !out.insert(v).second) return;
  for (ValueId input : graph_.node(v).inputs) reach_unstored(input, part, stored, out);
}

void Lowerer::lower_trivial(StepSpec& spec, TermBuilder& terms, const FoldSpec& fold, const Node& node) {
  const DType dtype = fold.output.dtype;
  TermId value = fold.value;
  if (fold.accumulator != dtype && fold.kind == ReduceKind::Pairwise)
    value = terms.apply(Op::Cast, fold.accumulator, dtype, {value});
  const bool sums = node.op == Op::ReduceSum && (graph::is_float(dtype) || graph::is_complex(dtype));
  if (sums) value = terms.apply(Op::Add, dtype, dtype, {terms.constant(dtype, {}), value});
  spec.stores.push_back({fold.output, value, false, true});
  program_.steps.emplace_back(build_step(spec, context_));
}

bool Lowerer::is_one_loop(std::size_t first) const {
  return program_.steps.size() == first + 1 && std::holds_alternative<LoopStep>(program_.steps[first]);
}

void Lowerer::lower_library_call(const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = graph_.node(v);
  LibraryCallStep step;
  step.group = part.group;
  if (node.op != Op::LibraryCall)
    step.callee.function = node.op == Op::Compress ? compress : node.op == Op::Expand ? expand : nonzero;
  else if (options_.library_function) step.callee = options_.library_function(node.index());
  if (!step.callee.function) fail("a call of a library function that is gone");
  step.name = step.callee.name             ? step.callee.name
              : node.op == Op::LibraryCall ? "library_call " + std::to_string(node.index())
                                           : std::string(graph::name_of(node.op));
  std::vector<ValueId> operands = node.inputs;
  operands.push_back(v);
  for (ValueId operand : operands) {
    const graph::Type& type = graph_.type(operand);
    LoopOperand& o = step.operands.emplace_back();
    o.buffer = buffer_of(graph_.root(operand));
    o.dtype = type.dtype;
    o.offset = type.offset;
    o.strides = type.strides;
    step.shapes.push_back(type.shape);
  }
  step.operands.back().written = true;
  program_.steps.emplace_back(std::move(step));
}

void Lowerer::store_scalar_results() {
  for (ValueId root : program_.result_roots) {
    const graph::Op op = graph_.node(root).op;
    if (op != Op::Constant && op != Op::DimValue) {
      buffer_of(root);
      continue;
    }
    StepSpec spec;
    TermBuilder terms(graph_, *this, context_, spec);
    Buffer b{};
    b.kind = BufferKind::Result;
    b.number = result_number_[root];
    b.bytes = bytes_of(root);
    program_.buffers.push_back(std::move(b));
    Access out;
    out.buffer = static_cast<BufferIndex>(program_.buffers.size() - 1);
    out.dtype = graph_.type(root).dtype;
    const TermId value = terms.operand(root);
    spec.stores.push_back({out, value, false, true});
    program_.steps.emplace_back(build_step(spec, context_));
  }
}

}  // namespace detail

Expected<Program, std::string> lower(const graph::Graph& graph, const std::vector<graph::Group>& groups,
                                     const LowerOptions& options) {
  try {
    return detail::Lowerer(graph, groups, options).run();
  } catch (detail::LowerFailure& failure) {
    return Unexpected{std::move(failure.reason)};
  } catch (const graph::DimOverflow& overflow) {
    return Unexpected<std::string>{overflow.what()};
  }
}

}  // namespace framejit::codegen
