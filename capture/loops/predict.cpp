// Would a loop that capture has come to be compiled as a loop? Found by translating it from the types that are known
// there.
#include <algorithm>

#include "capture/flow.h"
#include "capture/iterate.h"
#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/symbolic_frame.h"

namespace framejit::capture {

using Kind = Typed::Kind;

namespace {

// Rounds that are unrolled all the same, if none of them has a loop in it, and if they all go on with the same whole
// arrays, so that they become one kernel.
constexpr int64_t kFewRounds = 8, kFewOfWhole = 128;
// The same for comprehensions: most short ones go over lengths of axes and the like, which are constants.
constexpr int64_t kFewItems = 31;

/// Is it the loop of a list comprehension, the innermost one if there are several?
bool makes_list(const CodeView& view, uint32_t head, uint32_t last) {
  for (uint32_t i = head + 1; i < last; ++i) {
    if (view.is_loop_head(i)) i = view.last_of_nest(i);
    else if (view.instrs()[i].op == Opcode::ListAppend) return true;
  }
  return false;
}

/// Has it a loop in it, other than those of comprehensions?
bool has_inner_loop(const CodeView& view, uint32_t head, uint32_t last) {
  for (uint32_t i = head + 1; i < last; ++i)
    if (view.is_loop_head(i) && !makes_list(view, i, view.last_of_nest(i))) return true;
  return false;
}

uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15u; }

/// How far into a value its items are looked at: a list may be an item of its own.
constexpr int kMostLevels = 8;

/// A hash of what is known of a value's type.
uint64_t type_hash(Value* v, const graph::Graph& graph) {
  uint64_t hash = 2;
  for (int level = 0; level < kMostLevels; ++level) {
    v = resolved(v);
    if (!v) return mixed(hash, 1);
    hash = mixed(hash, static_cast<uint64_t>(v->kind));
    if (v->is_array())
      return mixed(hash, static_cast<uint64_t>(v->wrap()) << 32 |
                             static_cast<uint64_t>(graph.type(v->id()).dtype) << 8 |
                             static_cast<uint64_t>(graph.type(v->id()).rank()));
    if (v->object) hash = mixed(hash, reinterpret_cast<uintptr_t>(Py_TYPE(v->object.get())));
    if (v->items.empty()) break;
    v = v->items[0];
  }
  return hash;
}

uint64_t type_hash(const SymbolicFrame& frame, const graph::Graph& graph) {
  uint64_t hash = 0;
  for (const auto* values : {&frame.locals, &frame.stack})
    for (Value* v : *values) hash = mixed(hash, type_hash(v, graph));
  return hash;
}

}  // namespace

/// A value of another session, of which this translation knows the type only.
Typed LoopTranslator::imagined(Value* v, int level) {
  v = resolved(v);
  Typed made;
  made.kind = Kind::Object;
  const auto unknown = [&](cfg::Type type) {
    cfg::Node n;
    n.op = cfg::Op::Symbol;
    n.type = type;
    n.imm = static_cast<int64_t>(cfg.nodes.size());
    return at_entry(n);
  };
  if (level == kMostLevels) {
    made.value = session.values().constant(Py_Ellipsis);
    return made;
  }
  switch (v->kind) {
    case ValueKind::Null: made.kind = Kind::Null; return made;
    case ValueKind::Constant: return literal(*this, v->object.get());
    case ValueKind::Int: return of_int(unknown(cfg::Type::I64));
    case ValueKind::Tuple:
      made.kind = Kind::Tuple;
      for (Value* item : v->items) made.items.push_back(imagined(item, level + 1));
      return made;
    case ValueKind::Array: {
      const graph::DType dtype = imagined_graph->type(v->id()).dtype;
      const int rank = imagined_graph->type(v->id()).rank();
      if (v->which() != graph::kNoValue || v->partial || dtype == graph::DType::F16 || dtype == graph::DType::C64)
        break;
      const bool is_complex = dtype == graph::DType::C128;
      if (is_complex && (v->wrap() == Wrap::PyComplex || v->wrap() == Wrap::NumpyScalar)) {
        const cfg::Id real = unknown(cfg::Type::F64);
        return of_complex(real, unknown(cfg::Type::F64), v->wrap() == Wrap::NumpyScalar);
      }
      const cfg::Type type = dtype == graph::DType::F64   ? cfg::Type::F64
                             : dtype == graph::DType::F32 ? cfg::Type::F32
                                                          : cfg::Type::I64;
      if (v->wrap() == Wrap::PyFloat) return of_float(unknown(cfg::Type::F64));
      if (v->wrap() == Wrap::PyInt) return of_int(unknown(cfg::Type::I64));
      if (v->wrap() == Wrap::PyBool) return of_bool(unknown(cfg::Type::I64));
      if (v->wrap() == Wrap::NumpyScalar) return of_scalar(unknown(type), dtype);
      if (v->wrap() != Wrap::NdArray || rank == 0) break;
      made.kind = Kind::View;
      made.dtype = dtype;
      made.slot = Typed::kImagined;
      made.whole = made.packed = true;
      for (int k = 0; k < 2 * rank + 1; ++k) made.ids.push_back(unknown(cfg::Type::I64));
      for (const graph::Dim& d : imagined_graph->type(v->id()).shape)
        made.seen.push_back(imagined_graph->shapes().hint(d));
      return made;
    }
    case ValueKind::Iterator:
      if (v->as_iterator().over == Over::Sequence && !v->items.empty()) {
        Typed over = imagined(v->items[0], level + 1);
        if (const std::optional<Typed> string = string_of(*this, over)) over = *string;
        if (over.kind == Kind::Object)
          if (const std::optional<Typed> list = list_of(*this, known(*this, over))) over = *list;
        if (over.kind != Kind::View && over.kind != Kind::List && over.kind != Kind::String) break;
        made.kind = Kind::Iterator;
        for (int k = 0; k < (over.kind == Kind::List ? 1 : 2); ++k) made.ids.push_back(unknown(cfg::Type::I64));
        made.items.push_back(over);
        return made;
      }
      if (v->as_iterator().over == Over::Enumerate || v->as_iterator().over == Over::Zip) {
        const bool counts = v->as_iterator().over == Over::Enumerate;
        Typed joint;
        joint.kind = Kind::Joint;
        joint.holds = counts ? 'e' : 'z';
        if (counts) {
          Typed number;
          number.kind = Kind::Iterator;
          number.natural = true;
          number.ids.push_back(unknown(cfg::Type::I64));
          joint.items.push_back(std::move(number));
        }
        for (std::size_t k = 0; k < (counts ? 1 : v->items.size()); ++k) {
          joint.items.push_back(imagined(v->items[k], level + 1));
          if (!joint.items.back().is_iterator()) break;
        }
        if (!joint.items.back().is_iterator()) break;
        count_items(joint, [this](cfg::Op op, cfg::Id a, cfg::Id b, cfg::Id c) { return int_at_entry(op, a, b, c); });
        return joint;
      }
      if (v->as_iterator().over != Over::Range) break;
      made.kind = Kind::RangeIterator;
      for (int k = 0; k < 3; ++k) made.ids.push_back(unknown(cfg::Type::I64));
      return made;
    case ValueKind::Function:
      if (!v->source && v->object && PyCode_Check(v->object.get())) {
        made.kind = Kind::Function;
        made.slot = Typed::kImagined;  // it would be there at the entry
        made.value = session.values().constant(v->object.get());
        if (Value* const closure = v->items[kClosurePart]) made.items = imagined(closure, level + 1).items;
        return made;
      }
      break;
    case ValueKind::Cell:
      if (!v->source) {
        made.kind = Kind::Cell;
        made.slot = Typed::kImagined;
        made.items.push_back(v->items.empty() ? Typed{} : imagined(v->items[0], level + 1));
        return made;
      }
      made.value = lazy(executor, v->object.get(), v->source);
      return made;
    case ValueKind::List:
      if (!v->source) {
        made.kind = Kind::List;
        made.ids.push_back(unknown(cfg::Type::I64));
        if (!v->items.empty()) {
          const Typed first = imagined(v->items[0], level + 1);
          made.holds = held_as(first);
        }
        return made;
      }
      [[fallthrough]];
    default:
      if (v->source && v->object) {
        made.value = lazy(executor, v->object.get(), v->source);
        return made;
      }
      break;
  }
  made.value = session.values().constant(Py_Ellipsis);  // nothing is compiled of it
  return made;
}

bool LoopTranslator::would_compile(const SymbolicFrame& from, const graph::Graph& graph) {
  imagined_graph = &graph;
  try {
    LoopState start;
    LoopFrame f{from.view, from.globals, from.builtins, from.pc, {}, {}};
    cfg.blocks.emplace_back();
    stored.assign(from.locals.size(), false);
    for (Value* v : from.locals) f.locals.push_back(v && !is_unknown(v) ? imagined(v) : Typed{});
    for (Value* v : from.stack) f.stack.push_back(imagined(v));
    start.frames.push_back(std::move(f));
    // The interpreter does a comprehension again, as a whole, if it reaches an instruction that has no form in loops.
    const bool is_whole = from.view->calls_comprehension(from.pc) || is_comprehension(from.view->code());
    return translate_all(std::move(start)) && !array_work_ && goes_round() && !(is_whole && has_gaps_);
  } catch (const graph::DimOverflow&) {
    return false;
  }
}

std::string LoopPrediction::why_not(const CodeView& view, uint32_t head) const {
  const auto at = reasons_.find({&view, head});
  return at == reasons_.end() ? std::string() : at->second;
}

bool LoopPrediction::leaves_outermost(Executor& x, const SymbolicFrame& frame) {
  if (!x.options().loops || x.session().tapes().any() || (bytecode && bytecode->count(frame.pc) != 0) ||
      !leaves(x, frame))
    return false;
  if (compiled) compiled->insert(frame.pc);
  return true;
}

bool LoopPrediction::leaves(Executor& x, const SymbolicFrame& frame) {
  const CodeView& view = *frame.view;
  std::vector<int8_t>& heads = heads_[&view];
  if (heads.empty()) {
    heads.assign(view.instrs().size(), kNoHead);
    for (const Instr& i : view.instrs())
      if (may_end_round(i.op) && i.arg >= 0 && &i - view.instrs().data() >= i.arg)
        heads[static_cast<std::size_t>(i.arg)] = kUnasked;
    for (uint32_t i = 0; i < heads.size(); ++i)
      if (view.calls_comprehension(i)) heads[i] = kUnasked;
  }
  int8_t& answer = heads[frame.pc];
  if (answer == kNoHead) return false;
  if (answer == kUnasked) {
    answer = kNo;
    const uint32_t last = view.last_of_nest(frame.pc);
    int64_t rounds = -1;
    bool is_short = false;
    const bool calls = view.calls_comprehension(frame.pc);
    if ((calls || view.instrs()[frame.pc].op == Opcode::ForIter) && !frame.stack.empty()) {
      const Value* iterator =
          resolved(calls ? frame.stack.back() : frame.stack[frame.stack.size() - py::kIteratorSlots]);
      rounds = rounds_left(iterator);
      const bool is_nest = has_inner_loop(view, frame.pc, last);
      const int64_t few = !is_nest && (calls || makes_list(view, frame.pc, last)) ? kFewItems : kFewRounds;
      const bool is_range = iterator->kind == ValueKind::Iterator && iterator->as_iterator().over == Over::Range;
      is_short = rounds >= 0 && rounds <= few;
      if (is_short && !(is_nest && is_range)) return false;
      if (is_nest || !is_range) rounds = -1;
    }
    const graph::Graph& graph = x.session().graph();
    const RefusedLoops::Key key(view.code(), frame.pc, refused ? type_hash(frame, graph) : 0);
    RefusedLoops::Refusal refusal;
    if (refused && refused->all.contains(key)) {
      refusal = refused->all[key];
    } else {
      CaptureRequest request;
      request.view = frame.view;
      request.entry = frame.pc;
      request.frontends = x.session().frontends();
      request.options = x.options();
      std::optional<LoopTranslator> translator;
      bool compiles = false;
      for (VersionHints hints; !translator;) {
        try {
          compiles = translator.emplace(request, hints).would_compile(frame, graph);
        } catch (Retranslate& more) {
          hints = std::move(more.hints);
          translator.reset();
        }
      }
      const bool is_of_whole = translator->makes_vectors && !translator->makes_products &&
                               (!translator->cuts_arrays || translator->carries_vectors);
      const bool is_left = is_short && translator->has_gaps();
      const bool is_short_of_whole = rounds >= 0 ? rounds <= kFewOfWhole : translator->makes_matrices;
      if (compiles && !is_left && !(is_of_whole && is_short_of_whole)) answer = kYes;
      refusal = {translator->reason(), translator->array_work()};
      if (!compiles && refused) refused->all.emplace(key, refusal);
    }
    if (answer == kYes) return true;
    reasons_[{&view, frame.pc}] = refusal.why;
    // Other loops around an operation on arrays are not compiled either.
    for (uint32_t head = 0; refusal.array_work && head <= *refusal.array_work; ++head)
      if (heads[head] == kUnasked && view.last_of_nest(head) >= *refusal.array_work) {
        heads[head] = kNo;
        reasons_[{&view, head}] = refusal.why;
      }
  }
  return answer == kYes;
}

}  // namespace framejit::capture
