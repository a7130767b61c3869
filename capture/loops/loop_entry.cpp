// The state when a compiled loop begins: variables, and iterators whose position the loop keeps in registers.
#include <cstring>

#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "capture/py/repr.h"

namespace framejit::capture {

using Kind = Typed::Kind;

namespace {

/// The list, array or str that a loop iterates over; nothing for other objects.
std::optional<Typed> sequence_at_entry(LoopTranslator& t, PyObject* sequence, SourceRef source) {
  Typed object;
  object.kind = Kind::Object;
  object.value = lazy(t.executor, sequence, std::move(source));
  const std::optional<Typed> string = string_of(t, object);
  Typed over = string ? *string : known(t, object);
  if (const Typed* array = array_of(t, over)) over = *array;
  else if (const std::optional<Typed> list = list_of(t, over)) over = *list;
  return over.kind == Kind::Object ? std::nullopt : std::optional(std::move(over));
}

/// An iterator from `index` on.
Typed iterator_from(LoopTranslator& t, Typed over, cfg::Id index) {
  Typed v;
  v.kind = Kind::Iterator;
  v.natural = true;
  v.ids = {index};
  if (over.kind != Kind::List) {
    v.ids.push_back(t.int_at_entry(cfg::Op::Sub, over.ids[1], index));
    t.entry_checks.push_back(t.int_at_entry(cfg::Op::Le, t.integer(0), v.ids[1]));
  }
  v.items = {std::move(over)};
  return v;
}

/// Adds a check at the entry: the tags of a stack slot have to be these.
void check_tags(LoopTranslator& t, cfg::Id word, int mask, int expected) {
  const cfg::Id tags = t.int_at_entry(cfg::Op::And, word, t.integer(mask));
  t.entry_checks.push_back(t.int_at_entry(cfg::Op::Eq, tags, t.integer(expected)));
}

cfg::Id word_at_entry(LoopTranslator& t, int slot) {
  return t.input(cfg::Op::Object, t.fetched(slot_source(SourceKind::Word, slot, "")));
}

/// A loop over a list or str for which the interpreter has no iterator object (py::kIteratorSlots): the stack has the
/// sequence and, above it, a tagged index. If the loop is left early, it replaces both by an iterator.
std::optional<Typed> indexed_at_entry(LoopTranslator& t, PyObject* o, const SourceRef& source, int slot_of_index) {
  std::optional<Typed> over = sequence_at_entry(t, o, source);
  if (!over) return std::nullopt;
  const cfg::Id word = word_at_entry(t, slot_of_index);
  check_tags(t, word, py::Slots::kIntegerTag, py::Slots::kIntegerTag);
  return iterator_from(t, std::move(*over), t.int_at_entry(cfg::Op::Shr, word, t.integer(py::Slots::kIntegerShift)));
}

/// An iterator that is there at the entry, of a kind whose position the loop keeps in registers; nothing for others.
/// `is_own`: nothing else may hold it, and it ends in the loop.
std::optional<Typed> iterator_at_entry(LoopTranslator& t, PyObject* o, const SourceRef& source, bool is_own) {
  const auto node = [&](cfg::Op op, cfg::Id a, cfg::Id b, cfg::Id c = cfg::kNone) {
    return t.int_at_entry(op, a, b, c);
  };
  cfg::Id at = cfg::kNone;  // its address
  const auto loaded = [&](int offset, cfg::Mem mem) {
    cfg::Node n;
    n.op = cfg::Op::Load;
    n.mem = mem;
    n.type = cfg::type_of(mem);
    n.args[0] = at;
    n.imm = offset;
    return t.at_entry(n);
  };
  const auto guarded = [&](Typed::Kind kind) {
    guard(t.executor, GuardKind::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(o)));
    Typed v;
    v.kind = kind;
    v.object = static_cast<int>(t.fetched(source));
    for (const auto& [before, of] : t.objects.iterators)
      t.entry_checks.push_back(node(cfg::Op::Ne, t.input(cfg::Op::Object, v.object), t.input(cfg::Op::Object, of)));
    t.objects.iterators.emplace_back(o, v.object);
    at = t.input(cfg::Op::Object, v.object);
    if (!is_own) return v;
    v.object = -1;
    constexpr cfg::Mem kCount = py::kRefcountSize == 8 ? cfg::Mem::I64 : cfg::Mem::U32;
    t.entry_checks.push_back(node(cfg::Op::Eq, loaded(py::kRefcountField, kCount), t.integer(1)));
    return v;
  };
  const auto field = [&](int offset) { return loaded(offset, cfg::Mem::I64); };
  const auto now = [o](int offset) {
    int64_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(o) + offset, sizeof value);
    return value;
  };
  for (const auto& [before, of] : t.objects.iterators)
    if (before == o) return std::nullopt;  // what one takes from it the other would not miss
  const auto inside = [&] {
    auto of = std::make_shared<Source>();
    of->kind = SourceKind::Self;
    of->base = source;
    return of;
  };
  if (Py_IS_TYPE(o, &PyRangeIter_Type)) {
    Typed v = guarded(Kind::RangeIterator);
    cfg::Id next = field(py::kRangeStart), left = field(py::kRangeLength);
    const cfg::Id step = field(py::kRangeStep);
    if constexpr (py::kRangeIndex >= 0) {
      const cfg::Id done = field(py::kRangeIndex);
      next = node(cfg::Op::Add, next, node(cfg::Op::Mul, done, step));
      left = node(cfg::Op::Sub, left, done);
    }
    v.ids = {next, left, step};
    if (now(py::kRangeStart) >= 0 && now(py::kRangeStep) > 0) {
      v.natural = true;
      t.entry_checks.push_back(node(cfg::Op::Le, t.integer(0), next));
      t.entry_checks.push_back(node(cfg::Op::Lt, t.integer(0), step));
    } else if (now(py::kRangeStep) < 0 &&
               now(py::kRangeStart) + (now(py::kRangeLength) - 1) * now(py::kRangeStep) >= 0) {
      v.natural = true;
      const cfg::Id others = node(cfg::Op::Sub, left, t.integer(1));
      const cfg::Id last = node(cfg::Op::Add, next, node(cfg::Op::Mul, others, step));
      t.entry_checks.push_back(node(cfg::Op::Le, t.integer(0), last));
      t.entry_checks.push_back(node(cfg::Op::Lt, step, t.integer(0)));
    }
    return v;
  }
  if (PyObject* sequence = py::sequence_of(o)) {
    std::optional<Typed> over = sequence_at_entry(t, sequence, inside());
    if (!over) return std::nullopt;
    const int iterator = guarded(Kind::Iterator).object;
    Typed v = iterator_from(t, std::move(*over), field(py::kIteratorIndex));
    v.object = iterator;
    return v;
  }
  PyObject* from = py::taken_from(o);
  if (!from) return std::nullopt;
  Typed joint = guarded(Kind::Joint);
  if (Py_IS_TYPE(o, &PyEnum_Type)) {
    if (now(py::kEnumerateLong) != 0) return std::nullopt;
    std::optional<Typed> counted = iterator_at_entry(t, from, inside(), is_own);
    if (!counted) return std::nullopt;
    t.entry_checks.push_back(node(cfg::Op::Eq, field(py::kEnumerateLong), t.integer(0)));
    Typed number;
    number.kind = Kind::Iterator;
    number.object = joint.object;
    number.ids = {field(py::kIteratorIndex)};
    joint.holds = "e";
    joint.items = {std::move(number), std::move(*counted)};
    count_items(joint, node);
    return joint;
  }
  // zip(*rows) may have thousands of parts. Each is compared with all others, and the rounds hand on where it is.
  constexpr Py_ssize_t kMostJoint = 16;
  if (static_cast<int32_t>(now(py::kZipStrict)) != 0 || PyTuple_GET_SIZE(from) > kMostJoint) return std::nullopt;
  t.entry_checks.push_back(node(cfg::Op::Eq, loaded(py::kZipStrict, cfg::Mem::I32), t.integer(0)));
  guard(t.executor, GuardKind::Length, inside(), nullptr, nullptr, PyTuple_GET_SIZE(from));
  joint.holds = "z";
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(from); ++k) {
    auto item = std::make_shared<Source>();
    item->kind = SourceKind::Item;
    item->base = inside();
    item->index = static_cast<int>(k);
    std::optional<Typed> part = iterator_at_entry(t, PyTuple_GET_ITEM(from, k), item, is_own);
    if (!part) return std::nullopt;
    joint.items.push_back(std::move(*part));
  }
  count_items(joint, node);
  return joint.items.empty() ? std::nullopt : std::optional(joint);
}

}  // namespace

void enter(LoopTranslator& t, LoopState& state) {
  LoopFrame f{t.request.view, t.request.frame.globals, t.request.frame.builtins, t.request.entry, {}, {}};
  const CodeView& view = *t.request.view;
  std::vector<bool> assigned(static_cast<std::size_t>(view.local_count()), false);
  for (uint32_t i = t.head; i <= t.last; ++i)
    if (view.instrs()[i].op == Opcode::StoreFast) assigned[static_cast<std::size_t>(view.instrs()[i].arg)] = true;
  t.stored.assign(assigned.size(), false);
  const auto object = [&](PyObject* o, SourceRef source, int slot) {
    Typed v;
    v.kind = Kind::Object;
    v.value = lazy(t.executor, o, std::move(source));
    v.slot = slot;
    return v;
  };
  t.cfg.blocks.emplace_back();
  for (int k = 0; k < t.request.frame.local_count; ++k) {
    PyObject* o = t.request.frame.locals[k];
    if (!o) {
      f.locals.emplace_back();
      continue;
    }
    Typed v = object(o, slot_source(SourceKind::Local, k, text_of(view.local_name(k))), k);
    // One version of the loop, not one for its first round and one for the others. What is dead may have any type: the
    // loop variable is not there yet when the loop is entered anew.
    const auto place = static_cast<std::size_t>(k);
    if (assigned[place] && (t.recursion.is_recursion || !t.is_dead_at(t.head, place)) &&
        (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o)))
      if (Typed number = known(t, v); number.is_single()) {
        v = std::move(number);
        int overflow = 0;
        v.seldom_negative = v.kind == Kind::Int && !t.wraps_indices() && PyLong_CheckExact(o) &&
                            PyLong_AsLongLongAndOverflow(o, &overflow) >= 0;
      }
    f.locals.push_back(std::move(v));
  }
  for (int k = 0; k < t.request.frame.depth; ++k) {
    PyObject* o = t.request.frame.stack[k];
    const int slot = -2 - k;
    if (!o) {
      Typed null;
      null.kind = Kind::Null;
      null.slot = slot;
      f.stack.push_back(std::move(null));
      continue;
    }
    const SourceRef source = slot_source(SourceKind::Stack, k, "");
    // Others belong to loops around the nest, which may go over the same object: they stay where they are.
    const bool of_comprehension = view.calls_comprehension(t.head);
    const int slots = of_comprehension ? 1 : py::kIteratorSlots;
    if ((of_comprehension || view.instrs()[t.head].op == Opcode::ForIter) && k == t.request.frame.depth - slots) {
      const py::Slots& stack = t.request.frame.stack;
      const bool is_indexed = !of_comprehension && stack.is_integer(k + 1);
      // A borrowed reference: a variable holds the iterator as well.
      if (of_comprehension && stack.is_borrowed(k)) {
        f.stack.push_back(object(o, source, slot));
        continue;
      }
      if (of_comprehension && py::kTaggedSlots) check_tags(t, word_at_entry(t, k), py::Slots::kBorrowed, 0);
      if (std::optional<Typed> iterator =
              is_indexed ? indexed_at_entry(t, o, source, k + 1) : iterator_at_entry(t, o, source, of_comprehension)) {
        if (!is_indexed) iterator->slot = slot;
        f.stack.push_back(std::move(*iterator));
        continue;
      }
    }
    f.stack.push_back(object(o, source, slot));
  }
  state.frames.push_back(std::move(f));
}

}  // namespace framejit::capture
