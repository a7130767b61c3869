// From groups to a program. A group is cut into parts where one loop nest cannot keep the order of memory, or where
// values of another shape have to be ready before; each part becomes one step, and each of its reductions another one.
#include "codegen/lower.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "codegen/compress.h"
#include "codegen/emit.h"
#include "codegen/lower_terms.h"
#include "graph/passes/memory.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace detail {
namespace {

using graph::Graph;
using graph::Group;
using graph::Node;
using graph::OpClass;

/// Nodes that one step computes (reductions: one step each, behind it).
struct Part {
  std::vector<ValueId> nodes;
  std::set<ValueId> stored;  // values that later parts or groups, or the caller, read from memory
  Dims shape;
  uint32_t group = 0;
  bool ahead = false;  // reductions of what the writes among its nodes will write: these are made by another part, later
};

class Lowerer : public Memory {
 public:
  Lowerer(const Graph& graph, const std::vector<Group>& groups, const LowerOptions& options)
      : graph_(graph),
        groups_(&groups),
        options_(options),
        facts_(graph.shapes()),
        kernels_(program_, options),
        context_{options, program_, facts_, kernels_} {}

  Program run() {
    if (options_.cpu.isa == Isa::None) fail("this processor has no AVX2");
    find_results();
    cut_groups();
    attribute();
    find_stored();
    save_params();
    lower_parts();
    store_scalar_results();
    program_.conditions = facts_.conditions();
    program_.listing = describe(program_);
    return std::move(program_);
  }

 private:
  void cut_groups() {
    for (uint32_t g = 0; g < groups_->size(); ++g) cut_group(g);
  }

  void lower_parts() {
    std::map<const Part*, const Part*> waiting;  // by epilogue: its product
    for (const Part& part : parts_) {
      context_.attributed = program_.attributed && (context_.attributed || writes_param(part));
      const Part* epilogue = is_product(part) ? epilogue_of(part) : nullptr;
      const graph::FlagRule rule = rule_of(part);
      const std::size_t first = program_.steps.size();
      if (const auto product = waiting.find(&part); product != waiting.end())
        lower_product(*product->second, &part);
      else if (epilogue)
        waiting[epilogue] = &part;
      else
        lower_part(part);
      if (depth_ == 0 && is_one_loop(first)) loop_of_[&part] = first;
      if (!rule) continue;
      program_.flag_rules.resize(first);
      program_.flag_rules.resize(program_.steps.size(), rule);
    }
  }

  /// What becomes of the flags of a part.
  graph::FlagRule rule_of(const Part& part) const {
    std::optional<graph::FlagRule> rule;
    for (ValueId v : part.nodes) {
      if (!graph::may_set_flags(graph_, v) && cls(v) != OpClass::Host) continue;
      if (rule && *rule != graph_.node(v).flag_rule) fail("operators of one part under different np.errstate");
      rule = graph_.node(v).flag_rule;
    }
    return rule.value_or(graph::FlagRule{});
  }

 public:
  BufferIndex buffer_of(ValueId root) override {
    if (const auto it = buffers_.find(root); it != buffers_.end()) return it->second;
    const Node& node = graph_.node(root);
    if (node.op == Op::Constant) {  // what computes it into registers does not ask
      const std::array<uint8_t, 16> value = graph::element_of(graph_.type(root).dtype, node.value());
      return buffers_[root] = context_.literal(value.data(), static_cast<std::size_t>(graph::size_of(graph_.type(root).dtype)));
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

 private:
  Dim bytes_of(ValueId v) const { return graph_.type(v).size() * Dim(graph::size_of(graph_.type(v).dtype)); }
  OpClass cls(ValueId v) const { return graph::def(graph_.node(v).op).cls; }
  bool may_flag(ValueId v) const { return detail::may_flag(graph_, v); }

  /// The shape that a node is computed over.
  const Dims& shape_of(ValueId v) const {
    const Node& node = graph_.node(v);
    if (node.op == Op::Write || cls(v) == OpClass::Reduction) return graph_.type(node.inputs[0]).shape;
    return node.type.shape;
  }

  bool same_shape(const Dims& a, const Dims& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!facts_.proven_equal(a[i], b[i])) return false;
    return true;
  }

  bool is_scalar_shape(const Dims& shape) {
    return std::all_of(shape.begin(), shape.end(), [&](const Dim& d) { return facts_.is_one(d); });
  }

  void find_results() {
    for (ValueId v : graph_.results()) {
      const ValueId root = graph_.root(v);
      if (graph_.node(root).op == Op::Param || result_number_.contains(root)) continue;
      result_number_[root] = static_cast<uint32_t>(program_.result_roots.size());
      program_.result_roots.push_back(root);
    }
    bool writes_params = false, calls_host = false, flows = false, has_rules = false;
    graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
      if (may_flag(v)) program_.may_set_flags = true;
      const graph::Op op = graph_.node(v).op;
      flows = flows || graph::is_control(op);
      has_rules = has_rules || graph_.node(v).flag_rule;
      // A loop can be cancelled, wherever it stands.
      if (may_flag(v) || may_redo(v) || op == Op::Host || op == Op::Loop || op == Op::Expect || op == Op::Measure) needs_undo_ = true;
      writes_params = writes_params || is_param_write(v);
      calls_host = calls_host || op == Op::Host;
      if (op == Op::Write) written_.insert(graph_.root(graph_.node(v).inputs[0]));
    });
    needs_undo_ = needs_undo_ && writes_params;
    program_.attributed = needs_undo_ && options_.attribute;
    if (program_.attributed && flows) fail("what control flow skips has no warning of its own");
    if (program_.attributed && has_rules) fail("not all flags are warned of alike");
    if (program_.attributed && calls_host) fail("a host call says itself what it warns of");
    if (program_.attributed) needs_undo_ = false;
  }

  bool is_param_write(ValueId v) const {
    const Node& node = graph_.node(v);
    return node.op == Op::Write && graph_.node(graph_.root(node.inputs[0])).op == Op::Param;
  }
  bool writes_param(const Part& part) const {
    return !part.ahead && std::any_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) { return is_param_write(v); });
  }

  /// Is it known to whom to say what a node has raised?
  bool attributable(ValueId v) const { return !may_flag(v) || (!graph_.node(v).calls.empty() && cls(v) != OpClass::Reduction); }

  /// From the first part on that writes a param, flags must have an owner and nothing may ask for a second run. Numbers that are
  /// ready before, such as a Python float in the array's dtype, are computed before.
  void attribute() {
    if (!program_.attributed) return;
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

  /// Moves reductions that may warn, or ask for a second run, before the first part that writes a param, where they can be made of what is there
  /// then; and numbers of what they give. Answers which part is that.
  std::size_t reduce_ahead(std::set<ValueId> early) {
    std::size_t write = 0;
    while (write < parts_.size() && !writes_param(parts_[write])) ++write;
    std::multimap<ValueId, ValueId> users;  // by root
    for (const Part& part : parts_)
      for (ValueId user : part.nodes)
        for (ValueId used : graph::used_values(graph_, user)) users.emplace(graph_.root(used), user);
    for (std::size_t p = write + 1; p < parts_.size(); ++p) {
      const bool owned = std::all_of(parts_[p].nodes.begin(), parts_[p].nodes.end(), [&](ValueId v) { return attributable(v) && !may_redo(v); });
      if (owned) continue;
      if (!is_ready(parts_[p], early) && !take_ahead(parts_[p], std::span(parts_).subspan(write, p - write), users)) continue;
      early.insert(parts_[p].nodes.begin(), parts_[p].nodes.end());
      std::rotate(parts_.begin() + static_cast<std::ptrdiff_t>(write), parts_.begin() + static_cast<std::ptrdiff_t>(p),
                  parts_.begin() + static_cast<std::ptrdiff_t>(p + 1));
      ++write;
    }
    return write;
  }

  /// Adds to reductions what the parts before them compute, and write, of their operands. False where that is not cheap, or reads what it
  /// writes in another view.
  bool take_ahead(Part& part, std::span<const Part> before, const std::multimap<ValueId, ValueId>& users) {
    constexpr std::size_t kMost = 8;
    std::vector<ValueId> order;  // of the program: those before, and the part's own
    const std::vector<ValueId>& stored = (*groups_)[part.group].stored;
    if (std::none_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) { return cls(v) == OpClass::Reduction; })) return false;
    const std::set<ValueId> own(part.nodes.begin(), part.nodes.end());
    for (ValueId v : part.nodes)  // nobody else may want what is not a reduction
      for (auto [user, end] = users.equal_range(v); user != end && cls(v) != OpClass::Reduction; ++user)
        if (!own.contains(user->second)) return false;
    for (ValueId v : part.nodes)
      if (cls(v) != OpClass::Reduction && (!is_cheap(v, part) || std::find(stored.begin(), stored.end(), v) != stored.end())) return false;
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
        while (j > 0 && order[j - 1] != root && !(graph_.node(order[j - 1]).op == Op::Write && graph_.root(graph_.node(order[j - 1]).inputs[0]) == root)) --j;
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

  bool is_cheap(ValueId v, const Part& part) {
    const graph::Op op = graph_.node(v).op;
    const bool elementwise = cls(v) == OpClass::Elementwise || cls(v) == OpClass::Cast;
    const bool slow = op == Op::Divide || op == Op::Reciprocal || op == Op::Sqrt || op == Op::FloorDivide || op == Op::Remainder || op == Op::Fmod;
    return elementwise && !slow && same_shape(shape_of(v), part.shape) && !is_host(v);
  }

  /// Numbers from what is there at the start and is never written, or from parts that are.
  bool is_ready(const Part& part, std::set<ValueId> ready) {
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

  /// Complex division and absolute value raise, beside what NumPy's loops do, flags of steps in between.
  bool may_redo(ValueId v) const {
    const graph::Op op = graph_.node(v).op;
    if ((op == Op::Divide || op == Op::Absolute) && graph::is_complex(graph_.type(graph_.node(v).inputs[0]).dtype)) return true;
    return (op == Op::ReduceMin || op == Op::ReduceMax) && graph::is_float(graph_.type(v).dtype) && !options_.o1 && !options_.any_zero;
  }

  // ---- parts --------------------------------------------------------------------------------------------------------

  /// A group lists its reductions last. Beside a write that would be too late for one that reads, by a load, what stood there before:
  /// then the nodes go in program order.
  std::vector<ValueId> in_order(const std::vector<ValueId>& nodes) const {
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

  /// Cuts a group where a node reads or writes memory that an earlier node of the part wrote, or reads, in another
  /// view.
  void cut_group(uint32_t g) {
    std::vector<std::vector<ValueId>> pieces(1);
    for (ValueId v : in_order((*groups_)[g].nodes)) {
      if (must_cut_before(pieces.back(), v)) pieces.emplace_back();
      pieces.back().push_back(v);
      if (stands_alone(v)) pieces.emplace_back();
    }
    for (std::vector<ValueId>& piece : pieces)
      if (!piece.empty()) cut_by_shape(piece, g);
  }

  /// fmin and fmax give one of two zeros by the position in NumPy's loop, which only a step of their own keeps.
  bool stands_alone(ValueId v) const {
    const graph::Op op = graph_.node(v).op;
    return op == Op::Fmin || op == Op::Fmax || graph::is_alone(op);
  }

  bool must_cut_before(const std::vector<ValueId>& piece, ValueId v) {
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

  /// A view that is the whole of its root, but for axes of length 1.
  bool same_bytes(ValueId view, ValueId root) {
    return same_view(graph_, view, root) || (squeezed(view) == squeezed(root) && graph_.type(view).offset == Dim(0) &&
                                             graph_.type(view).dtype == graph_.type(root).dtype);
  }
  std::vector<std::pair<Dim, Dim>> squeezed(ValueId v) {
    const graph::Type& t = graph_.type(v);
    std::vector<std::pair<Dim, Dim>> axes;
    for (std::size_t i = 0; i < t.shape.size(); ++i)
      if (!facts_.is_one(t.shape[i])) axes.emplace_back(t.shape[i], t.strides[i]);
    return axes;
  }

  /// Nodes of smaller shapes come first, in parts of their own; scalars may stay where they are free of host loops, and
  /// their flags would not be lost with an empty array.
  void cut_by_shape(const std::vector<ValueId>& piece, uint32_t g) {
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

  bool scalars_stay(const std::vector<ValueId>& scalars, const std::vector<ValueId>& others, const Dims& shape,
                    uint32_t g) {
    const bool never_empty =
        std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_const() && d.value() > 0; });
    const std::set<ValueId> set(scalars.begin(), scalars.end());
    for (ValueId v : scalars) {
      const Node& node = graph_.node(v);
      if (cls(v) != OpClass::Elementwise && cls(v) != OpClass::Cast && cls(v) != OpClass::Copy) return false;
      if (may_flag(v) && !never_empty) return false;
      if (program_.attributed && !attributable(v)) return false;
      if (cls(v) != OpClass::Copy && is_host(v)) return false;
      const std::vector<ValueId>& stored = (*groups_)[g].stored;
      if (std::find(stored.begin(), stored.end(), v) != stored.end()) return false;
      (void)node;
    }
    for (ValueId v : others) {
      const bool elementwise = cls(v) == OpClass::Elementwise || cls(v) == OpClass::Cast;
      if (!elementwise || !is_host(v)) continue;
      for (ValueId input : graph_.node(v).inputs)
        if (set.contains(graph_.root(input))) return false;
    }
    return true;
  }

  bool is_host(ValueId v) const {
    const Node& node = graph_.node(v);
    return context_.needs_host_loop(node.op, graph_.type(node.inputs.back()).dtype, node.type.dtype);
  }

  /// What each part has to leave in memory. Scalars that a part computes along the way and others want get a part of
  /// their own, which changes what is wanted.
  void find_stored() {
    std::set<ValueId> wanted;
    do {
      wanted = wanted_values();
    } while (split_wanted_scalars(wanted));
    std::set<ValueId> placed;
    for (Part& part : parts_)
      for (ValueId v : part.nodes)
        if (wanted.contains(v) && cls(v) != OpClass::Write && (!part.ahead || cls(v) == OpClass::Reduction) && placed.insert(v).second)
          part.stored.insert(v);
  }

  std::set<ValueId> wanted_values() {
    std::set<ValueId> wanted, computed;
    for (const Group& group : *groups_) wanted.insert(group.stored.begin(), group.stored.end());
    for (ValueId root : program_.result_roots) wanted.insert(root);
    for (const Part& part : parts_) computed.insert(part.nodes.begin(), part.nodes.end());
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::set<ValueId> own(parts_[p].nodes.begin(), parts_[p].nodes.end());
      for (ValueId v : parts_[p].nodes)
        for (ValueId input : graph::used_values(graph_, v)) {
          const ValueId root = graph_.root(input);
          if (computed.contains(root) && !own.contains(root)) wanted.insert(root);
          last_reader_[root] = p;
        }
    }
    return wanted;
  }

  bool split_wanted_scalars(const std::set<ValueId>& wanted) {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      auto inlined = [&](ValueId v) { return !same_shape(shape_of(v), parts_[p].shape); };
      const std::vector<ValueId>& nodes = parts_[p].nodes;
      if (std::none_of(nodes.begin(), nodes.end(), [&](ValueId v) { return inlined(v) && wanted.contains(v); }))
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

  /// Copies of what the program overwrites, if it may have to be taken back.
  void save_params() {
    if (!needs_undo_) return;
    std::vector<ValueId> saved;
    graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
      if (!is_param_write(v)) return;
      ValueId destination = graph_.node(v).inputs[0];
      // Where it lies, or how much it is, is not known yet: all of the param.
      const graph::Type& written = graph_.type(destination);
      if (graph_.shapes().is_measured(written.offset) || graph_.shapes().is_measured(written.shape)) destination = graph_.root(destination);
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

  void lower_part(const Part& part) {
    if (graph::is_control(graph_.node(part.nodes[0]).op)) return lower_control(part);
    if (is_product(part)) return lower_product(part, nullptr);
    if (part.nodes.size() == 1 && cls(part.nodes[0]) == OpClass::Contraction) return lower_attention(part);
    if (part.nodes.size() == 1 && cls(part.nodes[0]) == OpClass::Host) return lower_host(part);
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

  /// Values of the part that `v` is computed from, itself included.
  void reach(ValueId v, const Part& part, std::set<ValueId>& out) const {
    v = graph_.root(v);
    if (std::find(part.nodes.begin(), part.nodes.end(), v) == part.nodes.end() || !out.insert(v).second) return;
    for (ValueId input : graph_.node(v).inputs) reach(input, part, out);
  }

  bool feeds_several(ValueId v, const Part& part, const std::vector<ValueId>& reductions) const {
    if ((cls(v) != OpClass::Elementwise && cls(v) != OpClass::Cast) || !is_host(v)) return false;
    int count = 0;
    for (ValueId r : reductions) {
      std::set<ValueId> reached;
      reach(graph_.node(r).inputs[0], part, reached);
      count += reached.contains(v);
    }
    return count > 1;
  }

  /// Of the elementwise nodes before reductions, those for what is stored and those that nothing else would compute.
  std::vector<ValueId> needed(const Part& part, const std::vector<ValueId>& elementwise,
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

  StepSpec new_step(const Part& part) const {
    StepSpec spec;
    spec.group = part.group;
    spec.shape = part.shape;
    return spec;
  }

  void lower_elementwise(const Part& part, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored) {
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

  void fill_elementwise(StepSpec& spec, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored) {
    TermBuilder terms(graph_, *this, context_, spec);
    for (ValueId v : nodes) terms.compute(v);
    for (ValueId v : nodes)
      if (stored.contains(v)) terms.store(v);
    terms.finish(stored);
    for (ValueId v : nodes)
      if (may_flag(v)) terms.keep(v);
  }

  void lower_reduction(const Part& part, const std::vector<ValueId>& elementwise, const std::set<ValueId>& stored,
                       ValueId r) {
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

  void reach_unstored(ValueId v, const Part& part, const std::set<ValueId>& stored, std::set<ValueId>& out) const {
    v = graph_.root(v);
    if (stored.contains(v)) return;
    if (std::find(part.nodes.begin(), part.nodes.end(), v) == part.nodes.end() || !out.insert(v).second) return;
    for (ValueId input : graph_.node(v).inputs) reach_unstored(input, part, stored, out);
  }

  /// Every reduced axis has length 1: the start value combined with the one element.
  void lower_trivial(StepSpec& spec, TermBuilder& terms, const FoldSpec& fold, const Node& node) {
    const DType dtype = fold.output.dtype;
    TermId value = fold.value;
    if (fold.accumulator != dtype && fold.kind == ReduceKind::Pairwise)
      value = terms.apply(Op::Cast, fold.accumulator, dtype, {value});
    const bool sums = node.op == Op::ReduceSum && (graph::is_float(dtype) || graph::is_complex(dtype));
    if (sums) value = terms.apply(Op::Add, dtype, dtype, {terms.constant(dtype, {}), value});
    spec.stores.push_back({fold.output, value, false, true});
    program_.steps.emplace_back(build_step(spec, context_));
  }

  // ---- matrix products
  // ------------------------------------------------------------------------------------------------

  void lower_product(const Part& part, const Part* epilogue) {
    const Node& node = graph_.node(part.nodes[0]);
    const Op op = node.op;
    if (op != Op::MatMul && graph::is_int(node.type.dtype)) fail("a convolution of " + std::string(graph::name_of(node.type.dtype)));
    op == Op::MatMul ? lower_matmul(part, epilogue) : op == Op::Convolution ? lower_convolution(part, epilogue) : lower_weights(part);
  }

  /// At O0 too: whoever makes the node answers for it (a float ndarray's product stays NumPy's, a Tensor's is this core eagerly as
  /// well, and sums of integers have one value).
  void lower_matmul(const Part& part, const Part* epilogue) {
    const ValueId v = part.nodes[0];
    const Node& node = graph_.node(v);
    const graph::Type &left = graph_.type(node.inputs[0]), &right = graph_.type(node.inputs[1]), &out = node.type;
    const Dim item(graph::size_of(left.dtype));
    const bool rows = left.rank() >= 2, columns = right.rank() >= 2;
    MatMulStep step = new_product(part, left.dtype, "matmul_");
    if (options_.narrow_products && left.dtype == DType::F32)
      take_narrow(NarrowProduct::BFloat16, options_.cpu.amx_bf16, options_.cpu.avx512_bf16, step);
    if (const std::optional<NarrowProduct> kind = integers_of(node.inputs[0], node.inputs[1])) {
      const bool bytes = *kind == NarrowProduct::Int8;
      take_narrow(*kind, bytes && options_.cpu.amx_int8, options_.cpu.vnni, step);
      if (step.narrow) step.dtype = bytes ? DType::I8 : DType::I16;  // of what the factors hold
    }
    step.batch = Dims(out.shape.begin(), out.shape.end() - rows - columns);
    step.m = rows ? left.shape.end()[-2] : Dim(1);
    step.k = left.shape.back();
    step.n = columns ? right.shape.back() : Dim(1);
    step.a = matrix(node.inputs[0], 1 + rows, step.batch, rows ? left.strides.end()[-2] : item, left.strides.back());
    step.b = matrix(node.inputs[1], 1 + columns, step.batch, columns ? right.strides.end()[-2] : right.strides.back(),
                    columns ? right.strides.back() : item);
    const Node& root = graph_.node(graph_.root(node.inputs[1]));
    step.constant_b = root.op == Op::Param && static_cast<std::size_t>(root.index()) < options_.constant_params.size() &&
                      options_.constant_params[static_cast<std::size_t>(root.index())];
    if (rows) take_producer(part, epilogue, step);
    const Dims batch = step.batch;
    add_product(part, epilogue, std::move(step),
                [&] { return matrix(v, rows + columns, batch, rows ? out.strides.end()[-1 - columns] : item, item); });
  }

  void take_narrow(NarrowProduct kind, bool in_tiles, bool in_vectors, MatMulStep& step) {
    if (!in_tiles && !in_vectors) return;
    step.narrow = in_tiles ? kernels_.add_tile_matmul(kind) : kernels_.add_narrow_matmul(kind);
    step.in_tiles = in_tiles;
  }

  /// The narrow core that gives the same 32 bits, for factors that were made of narrower integers.
  std::optional<NarrowProduct> integers_of(ValueId a, ValueId b) const {
    std::array<DType, 2> from;
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId root = graph_.root(i == 0 ? a : b);
      const Node& made = graph_.node(root);
      const DType dtype = graph_.type(i == 0 ? a : b).dtype;
      if (made.op != Op::Cast || written_.contains(root) || made.type.dtype != dtype || !graph::is_int(dtype) || graph::size_of(dtype) != 4) return std::nullopt;
      from[i] = graph_.type(made.inputs[0]).dtype;
    }
    const auto fits_u8 = [](DType t) { return t == DType::U8 || t == DType::Bool; };
    const auto fits_s8 = [](DType t) { return t == DType::I8 || t == DType::Bool; };
    const auto fits_s16 = [&](DType t) { return fits_u8(t) || fits_s8(t) || t == DType::I16; };
    if (fits_u8(from[0]) && fits_s8(from[1])) return NarrowProduct::Int8;
    return fits_s16(from[0]) && fits_s16(from[1]) ? std::optional(NarrowProduct::Int16) : std::nullopt;
  }

  MatMulStep new_product(const Part& part, DType dtype, std::string name) {
    if (!has_matmul(dtype)) fail("a product of " + std::string(graph::name_of(dtype)));
    MatMulStep step;
    step.group = part.group;
    step.dtype = dtype;
    step.name = std::move(name) + std::string(graph::name_of(dtype));
    step.kernel = kernels_.add_matmul(dtype);
    step.core = MatMulCore(dtype, options_.cpu.isa == Isa::Avx512);
    step.l2_bytes = options_.cpu.l2_bytes;
    return step;
  }

  /// Where the result lies is known when its epilogue is.
  template <class F>
  void add_product(const Part& part, const Part* epilogue, MatMulStep step, F&& result) {
    if (epilogue) lower_epilogue(*epilogue, part.nodes[0], step);
    step.c = result();
    step.c.written = true;
    const bool separate = epilogue && !step.epilogue;
    program_.steps.emplace_back(std::move(step));
    if (separate) lower_elementwise(*epilogue, epilogue->nodes, epilogue->stored);
  }

  /// The weights, [channels out, channels * window], times the windows of the image.
  void lower_convolution(const Part& part, const Part* epilogue) {
    const ValueId v = part.nodes[0];
    const Node& node = graph_.node(v);
    const graph::Type &image = graph_.type(node.inputs[0]), &filter = graph_.type(node.inputs[1]), &out = node.type;
    const graph::Window window = node.window();
    if (!is_packed(filter)) fail("a convolution by weights that are not contiguous");
    MatMulStep step = new_product(part, image.dtype, "convolution_");
    const Dim groups(window.groups), item(graph::size_of(image.dtype));
    step.m = floordiv(filter.shape[0], groups);
    step.k = product(std::span(filter.shape).subspan(1));
    step.n = product(std::span(out.shape).subspan(2));
    step.windows = windows_of(image, filter.shape, out.shape, window);
    step.minimal = options_.o1;
    step.batch = {image.shape[0]};
    if (window.groups > 1) step.batch.push_back(groups);
    step.a = grouped(node.inputs[1], window, Dim(0), step.m * filter.strides[0], filter.strides[0], item);
    step.b = grouped(node.inputs[0], window, image.strides[0], filter.shape[1] * image.strides[1], 0, 0);
    const Dim group = step.m * out.strides[1];
    add_product(part, epilogue, std::move(step), [&] { return grouped(v, window, out.strides[0], group, out.strides[1], item); });
  }

  /// For each image the cotangent of its result, [channels out, places], times the image's windows, [places, window * channels]; their sum.
  void lower_weights(const Part& part) {
    const ValueId v = part.nodes[0];
    const Node& node = graph_.node(v);
    const graph::Type &image = graph_.type(node.inputs[0]), &result = graph_.type(node.inputs[1]), &filter = node.type;
    const graph::Window window = node.window();
    if (!is_packed(result)) fail("a cotangent that is not contiguous");
    MatMulStep step = new_product(part, image.dtype, "convolution_weights_");
    const Dim groups(window.groups), item(graph::size_of(image.dtype));
    step.m = floordiv(filter.shape[0], groups);
    step.k = product(std::span(result.shape).subspan(2));
    step.n = product(std::span(filter.shape).subspan(1));
    step.windows = windows_of(image, filter.shape, result.shape, window);
    step.windows->transposed = true;
    step.summed = image.shape[0];
    step.next_a = result.strides[0];
    step.next_b = image.strides[0];
    if (window.groups > 1) step.batch.push_back(groups);
    step.a = grouped(node.inputs[1], window, std::nullopt, step.m * result.strides[1], result.strides[1], item);
    step.b = grouped(node.inputs[0], window, std::nullopt, filter.shape[1] * image.strides[1], 0, 0);
    const Dim group = step.m * filter.strides[0];
    add_product(part, nullptr, std::move(step), [&] { return grouped(v, window, std::nullopt, group, filter.strides[0], item); });
  }

  static bool is_packed(const graph::Type& type) {
    return std::find(type.shape.begin(), type.shape.end(), Dim(0)) != type.shape.end() || type.strides == graph::c_strides(type.dtype, type.shape);
  }

  Windows windows_of(const graph::Type& image, const Dims& filter, const Dims& result, const graph::Window& window) {
    Windows windows;
    windows.channel = image.strides[1];
    windows.groups = window.groups;
    const std::size_t space = window.axes.size(), missing = Windows::kAxes - space;
    if (space > Windows::kAxes) fail("a convolution over more than three axes of space");
    for (std::size_t i = 0; i < missing; ++i) windows.axes[i].image = windows.axes[i].result = 1;
    for (std::size_t i = 0; i < space; ++i) {
      const graph::Window::Axis& a = window.axes[i];
      windows.axes[missing + i] = {image.shape[i + 2], result[i + 2], image.strides[i + 2], filter[i + 2].value(), a.stride, a.dilation, a.before};
    }
    return windows;
  }

  /// An operand of a convolution: strides from image to image, group to group, and of its rows and columns.
  LoopOperand grouped(ValueId v, const graph::Window& window, std::optional<Dim> image, Dim group, Dim row, Dim column) {
    LoopOperand out;
    out.buffer = buffer_of(graph_.root(v));
    out.dtype = graph_.type(v).dtype;
    out.offset = graph_.type(v).offset;
    if (image) out.strides.push_back(std::move(*image));
    if (window.groups > 1) out.strides.push_back(std::move(group));
    out.strides.insert(out.strides.end(), {std::move(row), std::move(column)});
    return out;
  }

  /// The innermost `axes` axes are those of the matrix or vector, whose strides are given; the others are aligned with `batch`.
  LoopOperand matrix(ValueId v, int axes, const Dims& batch, Dim row, Dim column) {
    const graph::Type& type = graph_.type(v);
    LoopOperand out;
    out.buffer = buffer_of(graph_.root(v));
    out.dtype = type.dtype;
    out.offset = type.offset;
    const std::size_t own = static_cast<std::size_t>(type.rank() - axes);
    out.strides.assign(batch.size() - own, 0);
    for (std::size_t i = 0; i < own; ++i) {
      const Dim& target = batch[batch.size() - own + i];
      const bool moves = type.shape[i] == target ? !facts_.is_one(target) : !facts_.decide_one(type.shape[i]);
      out.strides.push_back(moves ? type.strides[i] : Dim(0));
    }
    out.strides.push_back(std::move(row));
    out.strides.push_back(std::move(column));
    return out;
  }

  /// The part that computes element by element what is made of a product, if the product may wait for it: its first reader, over
  /// the product's shape, with nothing in between that writes what the product reads. Of several products the last one. None where
  /// flags have owners: those are told apart step by step.
  const Part* epilogue_of(const Part& product) const {
    const ValueId v = product.nodes[0];
    const Node& node = graph_.node(v);
    if (program_.attributed || node.op == Op::ConvolutionWeights || node.type.rank() < 2 || graph_.type(node.inputs[0]).rank() < 2 || graph_.type(node.inputs[1]).rank() < 2) return nullptr;
    const auto reads = [&](const Part& part, ValueId root) {
      return std::any_of(part.nodes.begin(), part.nodes.end(), [&](ValueId user) {
        const std::vector<ValueId> inputs = graph::used_values(graph_, user);
        return std::any_of(inputs.begin(), inputs.end(), [&](ValueId i) { return graph_.root(i) == root; });
      });
    };
    for (const Part* part = &product + 1; part < parts_.data() + parts_.size(); ++part) {
      for (ValueId other : part->nodes)
        for (ValueId root : graph::written_roots(graph_, other))
          for (ValueId input : node.inputs)
            if (root == graph_.root(input)) return nullptr;
      if (!reads(*part, v)) continue;
      if (rule_of(*part) != rule_of(product)) return nullptr;
      if (part->shape != node.type.shape) return nullptr;
      for (ValueId other : part->nodes) {
        if (cls(other) != OpClass::Elementwise && cls(other) != OpClass::Cast) return nullptr;
        for (ValueId input : graph_.node(other).inputs)
          if (graph_.root(input) == v && !same_view(graph_, input, v)) return nullptr;
      }
      for (const Part* later = &product + 1; later < part; ++later)
        if (is_product(*later) && reads(*part, later->nodes[0])) return nullptr;
      return part;
    }
    return nullptr;
  }

  bool is_one_loop(std::size_t first) const {
    return program_.steps.size() == first + 1 && std::holds_alternative<LoopStep>(program_.steps[first]);
  }

  /// The part that computes all of A element by element, for this product alone, if it may wait for the product: what it reads is not written until
  /// then. None where flags have owners, as for epilogues.
  const Part* producer_of(const Part& product, const Part* epilogue) {
    const Node& node = graph_.node(product.nodes[0]);
    const ValueId a = node.inputs[0], root = graph_.root(a);
    if (program_.attributed || result_number_.contains(root) || written_.contains(root) || root == graph_.root(node.inputs[1]) ||
        !same_view(graph_, a, root))
      return nullptr;
    if (last_reader_.at(root) != static_cast<std::size_t>(&product - parts_.data())) return nullptr;
    const Part* const found = std::find_if(static_cast<const Part*>(parts_.data()), &product, [&](const Part& part) { return part.stored.contains(root); });
    if (found == &product || !loop_of_.contains(found)) return nullptr;
    const Part& part = *found;
    if (part.stored.size() != 1 || part.shape != graph_.type(a).shape || rule_of(part) != rule_of(product)) return nullptr;
    std::set<ValueId> inputs;
    for (ValueId v : part.nodes) {
      if (cls(v) != OpClass::Elementwise && cls(v) != OpClass::Cast) return nullptr;
      for (ValueId input : graph_.node(v).inputs) inputs.insert(graph_.root(input));
    }
    const Part* const end = epilogue ? epilogue : &product;
    for (const Part* between = &part + 1; between < end; ++between)
      for (ValueId other : between->nodes) {
        for (ValueId written : graph::written_roots(graph_, other))
          if (inputs.contains(written)) return nullptr;
        if (between < &product)
          for (ValueId used : graph::used_values(graph_, other))
            if (graph_.root(used) == root) return nullptr;
      }
    return &part;
  }

  void take_producer(const Part& product, const Part* epilogue, MatMulStep& step) {
    const Part* const part = producer_of(product, epilogue);
    if (!part || step.batch.size() + 2 != part->shape.size()) return;
    step.producer = one_kernel(whole_spec(*part));
    step.producer_step = static_cast<uint32_t>(loop_of_[part]);
  }

  bool is_product(const Part& part) const {
    const Op op = graph_.node(part.nodes[0]).op;
    return part.nodes.size() == 1 && graph::def(op).cls == OpClass::Contraction && op != Op::Attention && op != Op::AttentionGradients;
  }

  void lower_epilogue(const Part& part, ValueId product, MatMulStep& out) {
    StepSpec spec = whole_spec(part);
    const bool column = !out.windows && facts_.is_one(spec.shape.back());
    if (column) drop_last_axis(spec);
    std::optional<LoopStep> step = one_kernel(spec);
    if (!step) return;
    const BufferIndex before = buffer_of(product);
    place_in_result(part, product, *step);
    out.epilogue = std::move(step);
    if (!out.windows && !column && graph::is_float(out.dtype) && buffer_of(product) != before) out.in_registers = tile_epilogue(spec, before);
  }

  StepSpec whole_spec(const Part& part) {
    StepSpec spec = new_step(part);
    spec.whole_axes = true;
    fill_elementwise(spec, part.nodes, part.stored);
    return spec;
  }

  /// Over all axes; nothing where it needs more than that.
  std::optional<LoopStep> one_kernel(const StepSpec& spec) {
    LoopStep step = build_step(spec, context_);
    const bool one = step.stages.size() == 1 && std::holds_alternative<KernelIndex>(step.stages[0].code) && step.scratch_slots == 0;
    const bool indexed = std::any_of(step.operands.begin(), step.operands.end(), [](const LoopOperand& o) { return o.index; });
    return one && !indexed ? std::optional(std::move(step)) : std::nullopt;
  }

  /// Of length 1: the kernel goes along the one before it.
  static void drop_last_axis(StepSpec& spec) {
    spec.shape.pop_back();
    for (Term& t : spec.terms)
      if (t.kind == Term::kLoad) t.access.strides.pop_back();
    for (StoreTerm& s : spec.stores) s.access.strides.pop_back();
  }

  /// relu(product + bias), or one of both, where it is all that there is to do.
  static std::optional<TileEpilogue> tile_epilogue(const StepSpec& spec, BufferIndex product) {
    TileEpilogue out;
    std::set<TermId> seen;
    const auto is_product = [&](TermId t) { return spec.terms[t].kind == Term::kLoad && spec.terms[t].access.buffer == product; };
    const auto is_zero = [&](TermId t) { return spec.terms[t].kind == Term::kConstant && spec.terms[t].constant == graph::Scalar{}; };
    if (spec.stores.size() != 1) return std::nullopt;
    TermId at = spec.stores[0].value;
    const auto is = [&](Op op) { return spec.terms[at].kind == Term::kApply && spec.terms[at].op == op; };
    if (is(Op::Maximum)) {
      const std::vector<TermId>& args = spec.terms[at].args;
      if (!is_zero(args[0]) && !is_zero(args[1])) return std::nullopt;
      out.relu = is_zero(args[0]) ? Relu::ZeroFirst : Relu::ZeroSecond;
      seen.insert(at);
      at = args[is_zero(args[0]) ? 1 : 0];
    }
    if (is(Op::Add)) {
      const std::vector<TermId>& args = spec.terms[at].args;
      const TermId row = args[is_product(args[0]) ? 1 : 0];
      if (is_product(row) || !is_row(spec, row)) return std::nullopt;
      const Access& access = spec.terms[row].access;
      out.bias = LoopOperand{.buffer = access.buffer, .dtype = access.dtype, .offset = access.offset, .strides = access.strides};
      seen.insert(at);
      at = args[is_product(args[0]) ? 0 : 1];
    }
    const bool all = std::all_of(spec.kept.begin(), spec.kept.end(), [&](TermId t) { return seen.contains(t); });
    return is_product(at) && all && !seen.empty() ? std::optional(out) : std::nullopt;
  }

  /// Is it the same for each row, and contiguous along them?
  static bool is_row(const StepSpec& spec, TermId t) {
    const Access& access = spec.terms[t].access;
    if (spec.terms[t].kind != Term::kLoad || access.strides.back() != Dim(graph::size_of(access.dtype))) return false;
    return std::all_of(access.strides.begin(), access.strides.end() - 1, [](const Dim& d) { return d == Dim(0); });
  }

  /// A product that only its epilogue reads lies where the epilogue's first result of that dtype will.
  void place_in_result(const Part& part, ValueId product, LoopStep& epilogue) {
    const auto reader = last_reader_.find(product);
    const auto here = static_cast<std::size_t>(&part - parts_.data());
    if (result_number_.contains(product) || reader == last_reader_.end() || reader->second != here) return;
    const graph::Type& type = graph_.type(product);
    for (ValueId v : part.nodes) {
      const graph::Type& own = graph_.type(v);
      if (!part.stored.contains(v) || own.dtype != type.dtype || own.strides != type.strides) continue;
      const BufferIndex before = buffer_of(product), result = buffer_of(v);
      for (LoopOperand& o : epilogue.operands)
        if (!o.scratch && o.buffer == before) o.buffer = result;
      buffers_[product] = result;
      return;
    }
  }

  void lower_attention(const Part& part) {
    const ValueId v = part.nodes[0];
    const Node& node = graph_.node(v);
    const Dims &q = graph_.type(node.inputs[0]).shape, &k = graph_.type(node.inputs[1]).shape;
    const auto causal = static_cast<graph::Causal>(node.index());
    const graph::AttentionOperands places(node.op, node.inputs.size());
    AttentionStep step;
    step.name = graph::name_of(node.op);
    step.group = part.group;
    step.product = kernels_.add_matmul(DType::F32);
    step.softmax = kernels_.add_softmax();
    step.core = MatMulCore(DType::F32, options_.cpu.isa == Isa::Avx512);
    step.l2_bytes = options_.cpu.l2_bytes;
    step.batch = q[0], step.heads = q[1], step.key_heads = k[1];
    step.queries = q[2], step.keys = k[2], step.depth = q[3], step.width = graph_.type(node.inputs[2]).shape[3];
    step.causal = causal != graph::Causal::None;
    if (causal == graph::Causal::FromLast) step.ahead = step.keys - step.queries;
    const auto operand = [&](ValueId of) {
      const graph::Type& type = graph_.type(of);
      LoopOperand o;
      o.buffer = buffer_of(graph_.root(of));
      o.dtype = type.dtype;
      o.offset = type.offset;
      o.strides = type.strides;
      return o;
    };
    step.q = operand(node.inputs[0]), step.k = operand(node.inputs[1]), step.v = operand(node.inputs[2]);
    step.scale = operand(node.inputs[3]);
    if (places.g) step.g = operand(node.inputs[*places.g]), step.y = operand(node.inputs[*places.y]);
    if (places.state) step.probability = operand(node.inputs[*places.probability]), step.state = operand(node.inputs[*places.state]);
    if (places.mask) {
      const Dims batch = {q[0], q[1], q[2], k[2]};
      const graph::Type& type = graph_.type(node.inputs[*places.mask]);
      step.mask = operand(node.inputs[*places.mask]);
      step.mask->strides.assign(4, 0);
      const std::size_t missing = 4 - type.shape.size();
      for (std::size_t i = 0; i < type.shape.size(); ++i)
        if (type.shape[i] == batch[missing + i] ? !facts_.is_one(batch[missing + i]) : !facts_.decide_one(type.shape[i]))
          step.mask->strides[missing + i] = type.strides[i];
    }
    step.out = operand(v);
    step.out.written = true;
    program_.steps.emplace_back(std::move(step));
  }

  void lower_host(const Part& part) {
    const ValueId v = part.nodes[0];
    const Node& node = graph_.node(v);
    HostStep step;
    step.group = part.group;
    if (node.op != Op::Host)
      step.host.function = node.op == Op::Compress ? compress : node.op == Op::Expand ? expand : nonzero;
    else if (options_.host_function)
      step.host = options_.host_function(node.index());
    if (!step.host.function) fail("a call of a host function that is gone");
    step.name = step.host.name           ? step.host.name
                : node.op == Op::Host    ? "host_call " + std::to_string(node.index())
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

  // ---- control flow -------------------------------------------------------------------------------------------------

  uint32_t here() const { return static_cast<uint32_t>(program_.steps.size()); }

  FlowStep& flow(FlowStep::Kind kind) {
    program_.steps.emplace_back(FlowStep{});
    auto& step = std::get<FlowStep>(program_.steps.back());
    step.kind = kind;
    return step;
  }

  /// A step that goes by a bool; returns its number.
  uint32_t decide(FlowStep::Kind kind, ValueId condition, uint32_t target = 0) {
    const BufferIndex a = address_of(condition);
    FlowStep& step = flow(kind);
    step.a = a;
    step.offset = graph_.type(condition).offset;
    step.target = target;
    return here() - 1;
  }

  void land(uint32_t jump) { std::get<FlowStep>(program_.steps[jump]).target = here(); }

  BufferIndex append_buffer(BufferKind kind, Dim bytes) {
    Buffer b{};
    b.kind = kind;
    b.bytes = std::move(bytes);
    program_.buffers.push_back(std::move(b));
    return static_cast<BufferIndex>(program_.buffers.size() - 1);
  }

  /// Where a value lies; a constant or dimension is stored first.
  BufferIndex address_of(ValueId v) {
    const graph::Op op = graph_.node(graph_.root(v)).op;
    if (op != Op::Constant) return buffer_of(graph_.root(v));
    const BufferIndex at = append_buffer(BufferKind::Temp, bytes_of(v));
    copy_to(at, v);
    return at;
  }

  /// A fresh value of the layout of `v`, at `to`.
  void copy_to(BufferIndex to, ValueId v) {
    const graph::Type& type = graph_.type(v);
    StepSpec spec;
    spec.shape = type.shape;
    TermBuilder terms(graph_, *this, context_, spec);
    Access out;
    out.buffer = to;
    out.dtype = type.dtype;
    out.strides = type.strides;
    terms.store_at(out, terms.operand(v), false, true);
    program_.steps.emplace_back(build_step(spec, context_));
  }

  void lower_block(const graph::Block& block, const std::vector<Group>& groups) {
    std::vector<Part> parts = std::exchange(parts_, {});
    std::map<ValueId, std::size_t> readers = std::exchange(last_reader_, {});
    const std::vector<Group>* const around = std::exchange(groups_, &groups);
    cut_groups();
    find_stored();
    for (ValueId v : block.results) last_reader_[graph_.root(v)] = parts_.size();
    ++depth_;
    lower_parts();
    --depth_;
    groups_ = around;
    last_reader_ = std::move(readers);
    parts_ = std::move(parts);
  }

  /// The value, made in the block and given once, may be computed where what it becomes will lie.
  bool is_own(const graph::Block& block, ValueId v) const {
    if (graph_.type(v).is_view() || std::count(block.results.begin(), block.results.end(), v) != 1) return false;
    if (result_number_.contains(v) || std::find(block.nodes.begin(), block.nodes.end(), v) == block.nodes.end()) return false;
    return cls(v) != OpClass::Source || graph_.node(v).op == Op::Output || graph_.node(v).op == Op::Iota ||
           graph_.node(v).op == Op::Full;
  }

  /// Where nobody but the program looks, and no write comes between, a pointer to what a block gives does in place of a copy.
  /// What a loop carries stays where it is behind it; its other results are those of rounds that others may follow.
  bool may_follow(const Node& node, std::size_t i, ValueId output) const {
    if (buffers_.contains(output) || result_number_.contains(output) || written_.contains(output)) return false;
    if (node.op == Op::Loop) return i <= node.inputs.size();
    return std::any_of(node.blocks.begin(), node.blocks.end(), [&](const auto& b) { return !is_own(*b, b->results[i]); }) &&
           std::none_of(node.blocks.begin(), node.blocks.end(),
                        [&](const auto& b) { return written_.contains(graph_.root(b->results[i])); });
  }

  void lower_control(const Part& part) {
    const ValueId v = part.nodes[0];
    const Node& node = graph_.node(v);
    if (node.op == Op::Measure) {
      std::vector<graph::SymbolId> symbol;
      node.dim().collect_symbols(symbol);
      program_.measured.push_back({symbol[0], node.most()});
      decide(FlowStep::Measure, node.inputs[0], static_cast<uint32_t>(symbol[0]));
      return;
    }
    if (node.op == Op::Expect) {
      decide(FlowStep::Expect, node.inputs[0], node.location);
      return;
    }
    const Group& group = (*groups_)[part.group];
    std::vector<std::optional<BufferIndex>> outputs(node.blocks[0]->results.size());
    const std::size_t first = node.op == Op::Loop ? 1 : 0;
    graph::for_each_node(graph_, graph_.body(), [&](ValueId output) {
      const Node& n = graph_.node(output);
      if (n.op != Op::Output || n.inputs[0] != v) return;
      const std::size_t i = first + static_cast<std::size_t>(n.index());
      if (may_follow(node, i, output)) {
        buffers_[output] = append_buffer(BufferKind::Pointer, 0);
        follows_.insert(buffers_[output]);
      }
      outputs[i] = buffer_of(output);
    });
    if (node.op == Op::Loop) return lower_loop(node, group, outputs);
    const uint32_t skip = decide(FlowStep::Unless, node.inputs[0]);
    lower_side(*node.blocks[0], group.blocks[0], outputs);
    const uint32_t end = here();
    flow(FlowStep::Jump);
    land(skip);
    lower_side(*node.blocks[1], group.blocks[1], outputs);
    land(end);
  }

  void lower_side(const graph::Block& block, const std::vector<Group>& groups,
                  const std::vector<std::optional<BufferIndex>>& outputs) {
    std::vector<bool> placed(outputs.size(), false);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] && is_own(block, block.results[i])) {
        placed[i] = !follows_.contains(*outputs[i]);
        if (placed[i]) buffers_[block.results[i]] = *outputs[i];
      }
    lower_block(block, groups);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i] || placed[i]) continue;
      const ValueId v = block.results[i];
      if (follows_.contains(*outputs[i]))
        move(*outputs[i], address_of(v), graph_.type(v).offset);
      else
        copy_to(*outputs[i], v);
    }
  }

  void move(BufferIndex a, BufferIndex b, Dim offset) {
    FlowStep& step = flow(FlowStep::Move);
    step.a = a;
    step.b = b;
    step.offset = std::move(offset);
  }

  /// A round reads what it carries through pointers, and writes what the next one will carry into memory of its own; then the
  /// pointers go round.
  void lower_loop(const Node& node, const Group& group, const std::vector<std::optional<BufferIndex>>& outputs) {
    const graph::Block& body = *node.blocks[0];
    struct Carried {
      BufferIndex now, next, spare;
    };
    std::vector<Carried> carried;
    for (std::size_t i = 0; i < body.params.size(); ++i) {
      const BufferIndex from = address_of(node.inputs[i]);
      const Dim bytes = bytes_of(body.params[i]);
      const Carried c{append_buffer(BufferKind::Pointer, 0), append_buffer(BufferKind::Pointer, 0),
                      append_buffer(BufferKind::Pointer, 0)};
      buffers_[body.params[i]] = c.now;
      move(c.now, from, graph_.type(node.inputs[i]).offset);
      for (BufferIndex pointer : {c.next, c.spare}) move(pointer, append_buffer(BufferKind::Temp, bytes), 0);
      carried.push_back(c);
    }
    std::vector<std::optional<BufferIndex>> targets(outputs.size());
    for (std::size_t i = 0; i < carried.size(); ++i) targets[i + 1] = carried[i].next;
    for (std::size_t i = carried.size() + 1; i < outputs.size(); ++i) targets[i] = outputs[i];
    const uint32_t head = here();
    lower_round(body, group.blocks[0], targets);
    // The condition may be one of the carried values, which go round first.
    const BufferIndex condition = address_of(body.results[0]);
    const BufferIndex decides = append_buffer(BufferKind::Pointer, 0);
    move(decides, condition, graph_.type(body.results[0]).offset);
    for (const Carried& c : carried) {
      FlowStep& step = flow(FlowStep::Rotate);
      step.a = c.now;
      step.b = c.next;
      step.c = c.spare;
    }
    FlowStep& again = flow(FlowStep::Again);
    again.a = decides;
    again.target = head;
    for (std::size_t i = 0; i < carried.size(); ++i)
      if (outputs[i + 1] && follows_.contains(*outputs[i + 1]))
        move(*outputs[i + 1], carried[i].now, 0);
      else if (outputs[i + 1])
        copy_bytes(*outputs[i + 1], carried[i].now, graph_.type(body.params[i]));
  }

  /// The body of a loop: what is carried goes to the memory behind a pointer.
  void lower_round(const graph::Block& body, const std::vector<Group>& groups,
                   const std::vector<std::optional<BufferIndex>>& targets) {
    std::vector<bool> placed(targets.size(), false);
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (targets[i] && is_own(body, body.results[i])) {
        buffers_[body.results[i]] = *targets[i];
        placed[i] = true;
      }
    lower_block(body, groups);
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (targets[i] && !placed[i]) copy_to(*targets[i], body.results[i]);
  }

  /// From one buffer to another of the same layout.
  void copy_bytes(BufferIndex to, BufferIndex from, const graph::Type& type) {
    StepSpec spec;
    spec.shape = type.shape;
    Term load;
    const DType dtype = type.dtype == DType::Bool ? DType::U8 : type.dtype;
    load.kind = Term::kLoad;
    load.dtype = load.operand_dtype = dtype;
    load.access = {from, dtype, 0, type.strides};
    spec.terms.push_back(std::move(load));
    spec.stores.push_back({{to, dtype, 0, type.strides}, 0, false, true});
    program_.steps.emplace_back(build_step(spec, context_));
  }

  /// Results that are constants or dimensions and belong to no group. Memory that nothing is written to has its size all the same.
  void store_scalar_results() {
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

  const Graph& graph_;
  const std::vector<Group>* groups_;
  const LowerOptions& options_;
  Program program_;
  Facts facts_;
  KernelPool kernels_;
  LowerContext context_;
  std::map<ValueId, BufferIndex> buffers_;
  std::map<ValueId, uint32_t> result_number_;
  std::map<ValueId, std::size_t> last_reader_;  // by root: the last part that reads it
  std::vector<Part> parts_;
  std::map<const Part*, std::size_t> loop_of_;  // by part that is one loop, of no block: its step
  bool needs_undo_ = false;
  int depth_ = 0;  // of blocks
  std::set<ValueId> written_;  // roots
  std::set<BufferIndex> follows_;  // pointers to where a value happens to lie; the others are memory to write to
};

}  // namespace
}  // namespace detail

Expected<Program, std::string> lower(const graph::Graph& graph, const std::vector<graph::Group>& groups,
                                     const LowerOptions& options) {
  try {
    return detail::Lowerer(graph, groups, options).run();
  } catch (detail::LowerFailure& failure) {
    return Unexpected{std::move(failure.reason)};
  }
}

}  // namespace framejit::codegen
