// Terms from graph nodes: operands resolved through what the step has computed or written, else loads.
#include "codegen/lower_terms.h"

#include <algorithm>

#include "codegen/emit.h"
#include "graph/passes/memory.h"
#include "graph/support/check.h"

namespace framejit::codegen::detail {

bool same_view(const graph::Graph& graph, ValueId a, ValueId b) {
  if (a == b) return true;
  if (graph.root(a) != graph.root(b)) return false;
  const graph::Type &x = graph.type(a), &y = graph.type(b);
  return same_place(x, y);
}

bool may_overlap(const graph::Graph& graph, ValueId a, ValueId b) {
  return graph.root(a) == graph.root(b) && !same_view(graph, a, b) && !graph::never_meet(graph.type(a), graph.type(b));
}

BufferIndex LowerContext::literal(const void* bytes, std::size_t size) {
  const auto* data = static_cast<const uint8_t*>(bytes);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.kind == BufferKind::Literal && b.literal.size() == size && std::equal(data, data + size, b.literal.begin()))
      return static_cast<BufferIndex>(i);
  }
  Buffer b{};
  b.kind = BufferKind::Literal;
  b.literal.assign(data, data + size);
  program.buffers.push_back(std::move(b));
  return static_cast<BufferIndex>(program.buffers.size() - 1);
}

bool may_flag(const graph::Graph& graph, ValueId v) { return graph::may_set_flags(graph, v); }

int32_t LowerContext::slot_of(const graph::Graph& graph, ValueId v) const {
  if (!per_call_flags || !may_flag(graph, v)) return -1;
  const std::vector<uint32_t>& calls = graph.node(v).calls;
  auto it = std::find(program.flag_slots.begin(), program.flag_slots.end(), calls);
  if (it == program.flag_slots.end()) it = program.flag_slots.insert(it, calls);
  return static_cast<int32_t>(it - program.flag_slots.begin());
}

bool LowerContext::needs_numpy_loop(Op op, DType operand, DType result) const {
  if (is_composed(op, operand, result, options.complex(operand))) return false;
  if (options.o1 && emits(op, operand, result, true, options.cpu.isa)) return false;
  const bool exact = graph::def(op).exactness == graph::Exactness::Native;
  if (exact && emits(op, operand, result, false, options.cpu.isa)) return false;
  if (op != Op::Cast && options.numpy_loop && options.numpy_loop(op, operand, result)) return true;
  const std::string dtypes = op == Op::Cast
                                 ? std::string(graph::name_of(operand)) + " to " + std::string(graph::name_of(result))
                                 : std::string(graph::name_of(operand));
  fail(std::string(graph::name_of(op)) + " of " + dtypes + " has neither machine code nor a loop of NumPy's here");
}

TermId TermBuilder::append(Term term) {
  spec_.terms.push_back(std::move(term));
  return static_cast<TermId>(spec_.terms.size() - 1);
}

TermId TermBuilder::apply(Op op, DType operand_dtype, DType dtype, std::vector<TermId> args) {
  if (is_composed(op, operand_dtype, dtype, context_.options.complex(operand_dtype)))
    return compose(*this, op, operand_dtype, dtype, args);
  Term term;
  term.kind = Term::kApply;
  term.op = op;
  term.dtype = dtype;
  term.operand_dtype = operand_dtype;
  term.args = std::move(args);
  term.numpy_loop = context_.needs_numpy_loop(op, operand_dtype, dtype);
  return append(std::move(term));
}

TermId TermBuilder::constant(DType dtype, graph::Scalar value) {
  Term term;
  term.kind = Term::kConstant;
  term.dtype = term.operand_dtype = dtype;
  term.constant = value;
  return append(std::move(term));
}

TermId TermBuilder::pair(TermId real, TermId imaginary) {
  Term term;
  term.kind = Term::kPair;
  term.dtype = term.operand_dtype = spec_.terms[real].dtype == DType::F32 ? DType::C64 : DType::C128;
  term.args = {real, imaginary};
  return append(std::move(term));
}

TermId TermBuilder::part(TermId of, uint8_t part) {
  while (spec_.terms[of].kind == Term::kCopy) of = spec_.terms[of].args[0];
  const Term& whole = spec_.terms[of];
  if (whole.kind == Term::kPair) return whole.args[part];
  const DType dtype = graph::part_of(whole.dtype);
  if (whole.kind == Term::kConstant) return constant(dtype, {part ? whole.constant.hi : whole.constant.lo, 0});
  Term term;
  term.kind = Term::kPart;
  term.dtype = term.operand_dtype = dtype;
  term.part = part;
  term.args = {of};
  return append(std::move(term));
}

/// An array of its own, in the eyes of a NumPy loop, even where every element of it is the same.
TermId TermBuilder::copy(TermId of) {
  Term term;
  term.kind = Term::kCopy;
  term.dtype = term.operand_dtype = spec_.terms[of].dtype;
  term.args = {of};
  return append(std::move(term));
}

/// Is it another element for each position along an axis? Else a kernel has one for all of them, as many as NumPy would
/// have made.
bool TermBuilder::moves(TermId term, std::size_t axis) const {
  std::vector<bool> moving(term + 1);  // arguments come first
  for (TermId t = 0; t <= term; ++t) {
    const Term& of = spec_.terms[t];
    moving[t] = of.kind == Term::kIndex || (of.kind == Term::kLoad && of.access.strides[axis] != Dim(0)) ||
                std::any_of(of.args.begin(), of.args.end(), [&](TermId arg) { return moving[arg]; });
  }
  return moving[term];
}

/// NumPy clips by another formula where both bounds are single elements, and sees that by their strides.
void TermBuilder::check_clip(const graph::Node& node, const std::vector<TermId>& args) {
  for (std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const graph::Type& type = graph_.type(node.inputs[i]);
    bool scalar = true, all = type.shape.size() == spec_.shape.size();
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      const bool one = context_.facts.is_one(type.shape[axis]);
      scalar = scalar && one;
      all = all && (context_.facts.is_one(spec_.shape[axis]) || (!one && moves(args[i], axis)));
    }
    if (!scalar && !all) fail("clip with bounds that are the same along some axes");
  }
}

Dims TermBuilder::aligned_strides(const graph::Type& type) {
  FRAMEJIT_CHECK(type.shape.size() <= spec_.shape.size(), "an operand of more axes than its step");
  Dims out(spec_.shape.size() - type.shape.size(), 0);
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const Dim& target = spec_.shape[out.size()];
    const bool moves =
        type.shape[i] == target ? !context_.facts.is_one(target) : !context_.facts.decide_one(type.shape[i]);
    out.push_back(moves ? type.strides[i] : Dim(0));
  }
  return out;
}

Access TermBuilder::access(ValueId value) {
  const graph::Type& type = graph_.type(value);
  Access out;
  out.buffer = memory_.buffer_of(graph_.root(value));
  out.dtype = type.dtype;
  out.offset = type.offset;
  out.strides = aligned_strides(type);
  return out;
}

TermId TermBuilder::load(ValueId value) {
  if (const auto it = loads_.find(value); it != loads_.end()) return it->second;
  const graph::Node& root = graph_.node(graph_.root(value));
  const DType dtype = graph_.type(value).dtype;
  if (root.op == Op::Constant) return loads_[value] = constant(dtype, root.value());
  if (root.op == Op::DimValue && root.dim().is_const())
    return loads_[value] = constant(dtype, {static_cast<uint64_t>(root.dim().value()), 0});
  return loads_[value] = load(access(value));
}

/// One load for one access, so that "the same operand twice" stays that.
TermId TermBuilder::load(Access from) {
  for (TermId t = 0; t < spec_.terms.size(); ++t)
    if (spec_.terms[t].kind == Term::kLoad && spec_.terms[t].access == from) return t;
  Term term;
  term.kind = Term::kLoad;
  term.dtype = term.operand_dtype = from.dtype;
  term.access = std::move(from);
  return append(std::move(term));
}

/// Bools that are moved, not computed, as bytes: NumPy keeps those that are neither 0 nor 1.
std::optional<TermId> TermBuilder::moved_bytes(TermId of) {
  const Term term = spec_.terms[of];
  if (term.dtype != DType::Bool) return std::nullopt;
  if (term.kind == Term::kCopy) return moved_bytes(term.args[0]);
  if (term.kind == Term::kLoad) {
    Access bytes = term.access;
    bytes.dtype = DType::U8;
    return load(std::move(bytes));
  }
  if (term.kind != Term::kApply || term.op != Op::Where) return std::nullopt;
  std::optional<TermId> chosen[2] = {moved_bytes(term.args[1]), moved_bytes(term.args[2])};
  if (!chosen[0] && !chosen[1]) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    if (!chosen[i]) chosen[i] = apply(Op::Cast, DType::Bool, DType::U8, {term.args[i + 1]});
  return apply(Op::Where, DType::U8, DType::U8, {term.args[0], *chosen[0], *chosen[1]});
}

void TermBuilder::store_at(Access to, TermId value, bool late, bool direct) {
  if (const std::optional<TermId> bytes = moved_bytes(value)) {
    to.dtype = DType::U8;
    value = *bytes;
  }
  spec_.stores.push_back({std::move(to), value, late, direct});
}

TermId TermBuilder::operand(ValueId value) {
  for (auto it = written_.rbegin(); it != written_.rend(); ++it)
    if (same_view(graph_, it->destination, value)) return it->value;
  if (const auto it = terms_.find(value); it != terms_.end()) return it->second;
  const ValueId root = graph_.root(value);
  if (const auto it = terms_.find(root); it != terms_.end()) {
    // A view that only adds axes of length 1 or none.
    const graph::Type &type = graph_.type(value), &whole = graph_.type(root);
    auto squeezed = [&](const graph::Type& t) {
      std::vector<std::pair<Dim, Dim>> axes;
      for (std::size_t i = 0; i < t.shape.size(); ++i)
        if (!context_.facts.is_one(t.shape[i])) axes.emplace_back(t.shape[i], t.strides[i]);
      return axes;
    };
    if (type.dtype == whole.dtype && type.offset == Dim(0) && squeezed(type) == squeezed(whole)) return it->second;
    fail("a view of a value that was not stored");
  }
  return load(value);
}

TermId TermBuilder::iota(ValueId node) {
  const DType dtype = graph_.type(node).dtype;
  FRAMEJIT_CHECK(spec_.shape.size() == 1, "iota in a step of one axis");
  if (context_.facts.is_one(spec_.shape[0])) return constant(dtype, {0, 0});
  Term index;
  index.kind = Term::kIndex;
  index.dtype = index.operand_dtype = DType::I64;
  TermId term = append(std::move(index));
  term = copy(term);  // computed in a kernel, where a NumPy loop may need it in memory
  // NumPy fills float16 in float32.
  if (dtype == DType::F16) term = apply(Op::Cast, DType::I64, DType::F32, {term});
  if (dtype == DType::F16) return apply(Op::Cast, DType::F32, DType::F16, {term});
  return dtype == DType::I64 ? term : apply(Op::Cast, DType::I64, dtype, {term});
}

void TermBuilder::compute(ValueId v) {
  const graph::Node& node = graph_.node(v);
  switch (graph::def(node.op).cls) {
    case graph::OpClass::Source: terms_[v] = node.op == Op::Iota ? iota(v) : copy(operand(node.inputs.at(0))); return;
    case graph::OpClass::Copy: terms_[v] = copy(operand(node.inputs[0])); return;
    case graph::OpClass::Write: {
      const TermId value = operand(node.inputs[1]);
      std::erase_if(written_, [&](const Written& w) { return same_view(graph_, w.destination, node.inputs[0]); });
      written_.push_back({node.inputs[0], value});
      return;
    }
    case graph::OpClass::Cast:
    case graph::OpClass::Elementwise: {
      std::vector<TermId> args;
      for (ValueId input : node.inputs) args.push_back(operand(input));
      if (node.op == Op::Clip) check_clip(node, args);
      const DType operand_dtype = graph_.type(node.inputs.back()).dtype;
      const std::size_t first = spec_.terms.size();
      if (node.op == Op::Cast && operand_dtype == node.type.dtype) terms_[v] = args[0];
      else terms_[v] = apply(node.op, operand_dtype, node.type.dtype, std::move(args));
      if (const int32_t slot = context_.slot_of(graph_, v); slot >= 0)
        for (std::size_t t = first; t < spec_.terms.size(); ++t)
          if (spec_.terms[t].kind == Term::kApply) spec_.terms[t].slot = slot;
      return;
    }
    case graph::OpClass::Reduction:
    case graph::OpClass::View:
    case graph::OpClass::LibraryCall:
    case graph::OpClass::Control:
    case graph::OpClass::Contraction: break;
  }
  FRAMEJIT_CHECK(false, std::string(graph::name_of(node.op)) + " in a loop step");
}

void TermBuilder::store(ValueId value) {
  // What was written over it since is what its memory holds in the end.
  for (const Written& w : written_)
    if (same_view(graph_, w.destination, value)) return;
  store_at(access(value), terms_.at(value), false, true);
}

void TermBuilder::finish(const std::set<ValueId>& stored) {
  for (const Written& w : written_) {
    const ValueId root = graph_.root(w.destination);
    const bool fresh = terms_.contains(root);
    if (fresh && !stored.contains(root)) continue;
    store_at(access(w.destination), w.value, !fresh, false);
  }
}

}  // namespace framejit::codegen::detail
