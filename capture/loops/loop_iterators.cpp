// Iterators of a compiled loop: over ranges, arrays, lists and short tuples, several at once, and those that exist
// before the loop. A loop over a tuple of at most 12 items has no block that goes round: each of its rounds has
// versions of its own, in which small ints are constants. So `for dy, dx in ((0, 1), (1, 0))` costs no tests.
#include <utility>

#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

constexpr std::size_t kMostItems = 12;  // of a tuple that a loop goes over: each round is translated

/// Is there another item? A number that is not 0, or 1 for what never ends.
cfg::Id has_more(LoopTranslator& t, const Typed& iterator) {
  if (const cfg::Id left = iterator.left(); left != cfg::kNone) return t.op(Op::Ne, Type::I64, left, t.integer(0));
  if (iterator.kind == Kind::Joint) {
    cfg::Id all = t.integer(1);
    for (const Typed& part : iterator.items) {
      const cfg::Id more = has_more(t, part);
      if (!t.cfg.is_const(more)) all = t.cfg.is_const(all) ? more : t.op(Op::And, Type::I64, all, more);
      else if (t.cfg.at(more).imm == 0) return more;
    }
    return all;
  }
  if (iterator.items.empty()) return t.integer(1);
  if (iterator.goes_over_tuple())
    return t.integer(static_cast<std::size_t>(iterator.op) < iterator.items[0].items.size());
  return t.op(Op::Lt, Type::I64, iterator.ids[0], count_of(t, iterator.items[0]));
}

/// The next item of an iterator that has one.
Typed take(LoopTranslator& t, Typed& iterator) {
  if (iterator.kind == Kind::RangeIterator) {
    const cfg::Id next = iterator.ids[0], step = iterator.ids[2];
    iterator.ids = {t.op(Op::Add, Type::I64, next, step), t.op(Op::Sub, Type::I64, iterator.ids[1], t.integer(1)),
                    step};
    return of_int(next, iterator.natural);
  }
  if (iterator.kind == Kind::Joint) {
    if (!iterator.ids.empty()) iterator.ids = {t.op(Op::Sub, Type::I64, iterator.ids[0], t.integer(1))};
    Typed tuple;
    tuple.kind = Kind::Tuple;
    for (Typed& part : iterator.items) {
      Typed item = take(t, part);
      t.name(item);
      tuple.items.push_back(std::move(item));
    }
    return tuple;
  }
  if (iterator.goes_over_tuple()) {
    Typed item = iterator.items[0].items[static_cast<std::size_t>(iterator.op++)];
    for_each_part(item, [&](Typed& part) { part.origin = part.is_fixed ? ++t.origins : part.origin; });
    return item;
  }
  const cfg::Id at = iterator.ids[0];
  if (iterator.items.empty()) {
    iterator.ids = {t.exact(Op::AddExact, at, t.integer(1))};
    return of_int(at, iterator.natural);
  }
  iterator.ids[0] = t.op(Op::Add, Type::I64, at, t.integer(1));
  if (iterator.ids.size() > 1) iterator.ids[1] = t.op(Op::Sub, Type::I64, iterator.ids[1], t.integer(1));
  const Typed over = iterator.items[0];
  return over.kind == Kind::List ? item_of(t, over, at) : get_item(t, over, of_int(at, true));
}

}  // namespace

void count_items(Typed& joint, const std::function<cfg::Id(cfg::Op, cfg::Id, cfg::Id, cfg::Id)>& node) {
  cfg::Id fewest = cfg::kNone;
  for (const Typed& part : joint.items) {
    const cfg::Id left = part.left();
    const bool counts = part.kind == Kind::Iterator && part.items.empty();
    if (left == cfg::kNone && !counts) return;
    if (left == cfg::kNone) continue;
    fewest = fewest == cfg::kNone ? left : node(Op::Select, node(Op::Lt, left, fewest, cfg::kNone), left, fewest);
  }
  if (fewest != cfg::kNone) joint.ids = {fewest};
}

/// The next item of a list or array, or of several.
void for_item(LoopTranslator& t, const Instr& i) {
  std::vector<Typed>& stack = t.frame().stack;
  Typed& iterator = stack[stack.size() - py::kIteratorSlots];
  const uint32_t behind = t.frame().view->behind(t.frame().pc);
  t.flush_pending();
  LoopState ended = t.state;
  const bool was_there = iterator.object >= 0;
  const cfg::Id more = has_more(t, iterator);
  if (t.cfg.is_const(more) && !was_there) {
    if (t.cfg.at(more).imm == 0) {
      stack.resize(stack.size() - py::kIteratorSlots);
      t.frame().pc = static_cast<uint32_t>(i.arg);
    } else {
      Typed item = take(t, iterator);
      t.frame().pc = behind;
      t.push(std::move(item));
    }
    return;
  }
  const uint32_t here = t.block;
  const uint32_t level = t.cfg.blocks[here].level;
  // The item is read in a block of its own, after the test.
  const uint32_t inside = t.new_block(level);
  cfg::Edge end;
  if (was_there) {
    // The interpreter ends an iterator that was there.
    if (!t.state.checkpoint) give_up("the state at the head of a loop cannot be kept");
    end.block = t.new_block(level);
    t.cfg.blocks[end.block].end = cfg::Block::End::Leave;
    t.cfg.blocks[end.block].exit = t.exit_at(*t.state.checkpoint, {});
    t.program->exits.back().early = false;
  } else {
    LoopFrame& last = ended.frames.back();
    last.stack.resize(last.stack.size() - py::kIteratorSlots);
    last.pc = static_cast<uint32_t>(i.arg);
    end = t.edge_to(std::move(ended));
  }
  cfg::Block& b = t.cfg.blocks[here];
  b.end = cfg::Block::End::Branch;
  b.condition = more;
  b.to[0].block = inside;
  b.to[1] = end;
  t.block = inside;
  Typed item = take(t, iterator);
  t.frame().pc = behind;
  t.push(std::move(item));
}

Typed range_from(LoopTranslator& t, const Typed& start, const Typed& stop, const Typed& step) {
  Typed range;
  range.kind = Kind::Range;
  const cfg::Id by = step.ids[0];
  range.ids = {start.ids[0], stop.ids[0], by};
  // A step that varies is positive, or the interpreter has the round.
  if (!t.cfg.is_const(by)) t.check(t.op(Op::Lt, Type::I64, t.integer(0), by));
  else if (t.cfg.at(by).imm == 0) throw NotCompiled{"a range with a step of 0"};
  if (!t.cfg.is_const(by) || t.cfg.at(by).imm > 0) range.natural = start.natural;
  else range.natural = t.cfg.is_const(range.ids[1]) && t.cfg.at(range.ids[1]).imm >= -1;
  return range;
}

namespace {

/// A range that was there; nothing for others.
std::optional<Typed> range_of(LoopTranslator& t, const Typed& v) {
  const Value* range = v.kind == Kind::Object ? look(t.executor, v.value) : nullptr;
  if (!range || range->kind != ValueKind::Range || !range->source) return std::nullopt;
  std::vector<Typed> parts;
  for (Value* item : {range->items[0], range->items[1], specialize(t.executor, range->items[2])}) {
    Typed part;
    part.kind = Kind::Object;
    part.value = item;
    part = known(t, std::move(part));
    if (part.kind != Kind::Int) return std::nullopt;
    parts.push_back(std::move(part));
  }
  return range_from(t, parts[0], parts[1], parts[2]);
}

}  // namespace

Typed iterator_over(LoopTranslator& t, const Typed& v) {
  if (const std::optional<Typed> range = range_of(t, v)) return iterator_over(t, *range);
  if (v.kind == Kind::Joint || v.kind == Kind::RangeIterator || v.kind == Kind::Iterator) return v;
  std::optional<Typed> over = list_of(t, v);
  if (const std::optional<Typed> string = string_of(t, v)) over = string;
  if (!over)
    if (const Typed* array = array_of(t, v); array && array->ids.size() > 1) over = *array;
  Typed iterator;
  if (over) {
    iterator.kind = Kind::Iterator;
    iterator.natural = true;
    iterator.ids = {t.integer(0)};
    if (over->kind != Kind::List) iterator.ids.push_back(over->ids[1]);
    iterator.items = {*over};
    return iterator;
  }
  std::optional<Typed> tuple = tuple_of(t, v);
  if (v.kind == Kind::Display) {
    tuple = v;
    tuple->kind = Kind::Tuple;
  }
  if (tuple) {
    if (tuple->items.size() > kMostItems) throw NotCompiled{"a loop over a long tuple"};
    for (const Typed& item : tuple->items)
      if (!can_make(item)) throw NotCompiled{"a loop over something that is not a range, array or list"};
    // Ints that the interpreter has one object for stay constants.
    for_each_part(*tuple, [&](Typed& part) {
      part.is_fixed = part.kind == Kind::Int && t.cfg.is_const(part.ids[0]) && is_shared_int(t.cfg.at(part.ids[0]).imm);
    });
    iterator.kind = Kind::Iterator;
    iterator.items = {std::move(*tuple)};
    return iterator;
  }
  if (v.kind != Kind::Range) throw NotCompiled{"a loop over something that is not a range, array or list"};
  iterator.kind = Kind::RangeIterator;
  iterator.natural = v.natural;
  const cfg::Id start = v.ids[0], stop = v.ids[1], step = v.ids[2];
  const bool is_known = t.cfg.is_const(step), falls = is_known && t.cfg.at(step).imm < 0;
  const cfg::Id span = falls ? t.exact(Op::SubExact, start, stop) : t.exact(Op::SubExact, stop, start);
  const cfg::Id size = falls ? t.integer(-t.cfg.at(step).imm) : step;
  const cfg::Id up = is_known ? t.integer(t.cfg.at(size).imm - 1) : t.op(Op::Sub, Type::I64, size, t.integer(1));
  const cfg::Id some =
      is_known && t.cfg.at(size).imm == 1 ? span : t.op(Op::FloorDiv, Type::I64, t.exact(Op::AddExact, span, up), size);
  const cfg::Id left = t.op(Op::Select, Type::I64, t.op(Op::Lt, Type::I64, t.integer(0), span), some, t.integer(0));
  iterator.ids = {start, left, step};
  return iterator;
}

void get_iter(LoopTranslator& t) {
  t.push(iterator_over(t, t.pop_container()));
  if constexpr (py::kIteratorSlots > 1) {
    Typed null;
    null.kind = Kind::Null;
    t.push(std::move(null));
  }
}

namespace {

/// Sets the place of an iterator over a range that was there at the entry.
void set_range(LoopTranslator& t, cfg::Id iterator, cfg::Id next, cfg::Id left) {
  if constexpr (py::kRangeIndex >= 0) {
    const cfg::Id length = t.load(iterator, py::kRangeLength);
    t.store(iterator, py::kRangeIndex, t.op(Op::Sub, Type::I64, length, left));
  } else {
    t.store(iterator, py::kRangeStart, next);
    t.store(iterator, py::kRangeLength, left);
  }
}

}  // namespace

/// An iterator that was there at the entry goes: whoever else holds it finds it where the loop has left it.
void give_back(LoopTranslator& t, const Typed& v) {
  if (v.object < 0 || (v.kind != Kind::RangeIterator && v.kind != Kind::Iterator && v.kind != Kind::Joint)) return;
  t.flush_pending();
  const auto give = [&](const auto& self, const Typed& part) -> void {
    for (const Typed& inner : part.items)
      if (part.kind == Kind::Joint) self(self, inner);
    if (part.kind == Kind::Joint) return;
    const cfg::Id iterator = t.input(Op::Object, part.object);
    if (part.kind == Kind::RangeIterator) set_range(t, iterator, part.ids[0], part.ids[1]);
    else t.store(iterator, py::kIteratorIndex, part.ids[0]);
  };
  give(give, v);
  t.take_checkpoint(true);
}

void for_iter(LoopTranslator& t, const Instr& i) {
  std::vector<Typed>& stack = t.frame().stack;
  Typed& iterator = stack[stack.size() - py::kIteratorSlots];
  if (iterator.kind != Kind::RangeIterator) throw NotCompiled{"a loop over something that is not a range"};
  t.flush_pending();
  const cfg::Id next = iterator.ids[0], left = iterator.ids[1], step = iterator.ids[2];
  const cfg::Id more = t.op(Op::Ne, Type::I64, left, t.integer(0));
  const uint32_t behind = t.frame().view->behind(t.frame().pc);
  LoopState ended = t.state;
  LoopFrame& over = ended.frames.back();
  over.stack.resize(over.stack.size() - py::kIteratorSlots);
  over.pc = static_cast<uint32_t>(i.arg);
  const bool was_there = iterator.object >= 0;
  const cfg::Id object = was_there ? t.input(Op::Object, iterator.object) : cfg::kNone;
  iterator.ids = {t.op(Op::Add, Type::I64, next, step), t.op(Op::Sub, Type::I64, left, t.integer(1)), step};
  const bool natural = iterator.natural;
  t.push(of_int(next, natural));
  t.frame().pc = behind;
  const cfg::Edge round = t.edge_to(t.state);
  cfg::Edge end;
  if (!was_there) {
    end = t.edge_to(ended);
  } else {
    // Whoever else holds the iterator finds it at its end.
    end.block = static_cast<uint32_t>(t.cfg.blocks.size());
    t.cfg.blocks.emplace_back();
    t.cfg.blocks.back().level = t.cfg.blocks[t.block].level;
    const uint32_t here = std::exchange(t.block, end.block);
    set_range(t, object, next, t.integer(0));
    ended.checkpoint = nullptr;
    const cfg::Edge on = t.edge_to(ended);
    t.cfg.blocks[end.block].end = cfg::Block::End::Jump;
    t.cfg.blocks[end.block].to[0] = on;
    t.block = here;
  }
  cfg::Block& b = t.cfg.blocks[t.block];
  b.end = cfg::Block::End::Branch;
  b.condition = more;
  b.to[0] = round;
  b.to[1] = end;
  t.ended = true;
}

}  // namespace framejit::capture
