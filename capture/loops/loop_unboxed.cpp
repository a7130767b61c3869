// Which lists of a loop are unboxed, and what the loop does with their numbers.
//
// A list is unboxed if a loop further in than where the list comes from uses its items, or if items are taken from its
// end; if all of them are of one kind that item_kind() knows; and if nothing in the loop needs the objects. The first
// translation finds such lists (`uses_`), and the loop is translated again. A list whose length does not change is like
// an array: its address and length are values. Of other lists, the header has both.
//
// A list of the entry whose items are lists of one length, rows, is like a matrix: the numbers of a row begin at a
// distance from those of the first one. The first translation of a nest already expects it (`expect_rows`). Nothing may
// change which rows the list has, or how long they are. Each list is a row once, or no row.
//
// When the loop is left, numbers that have changed become objects, in lists that are still in use: not in those that
// only the frame holds, if it returns at once (`returns_item`, LoopExit::returned). Only code of the loop runs before,
// and all ways in which it reaches a list lead to the same numbers: a list under two names is unboxed once, and the
// loop does not run if one of the names is of a list that is not unboxed.
#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "capture/loops/list_numbers.h"
#include "capture/loops/loop_built.h"
#include "capture/loops/loop_instructions.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "capture/py/repr.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

bool is_of_entry(uint32_t number) { return number % 2 == 0; }
bool is_of_tuples(const Typed& list) { return list.holds[0] == '('; }
bool is_of_rows(const Typed& list) { return list.holds[0] == 'l'; }
/// Typed::array of the rows of a list has this bit, besides those of the list.
constexpr uint32_t kRow = uint32_t{1} << 31;
bool is_row(const Typed& list) { return (list.array & kRow) != 0; }
uint32_t outermost(const Typed& list) { return list.array & ~kRow; }
bool grows(const Typed& list) { return list.ids.size() == 2; }

cfg::Id numbers_of(LoopTranslator& t, const Typed& list) {
  return grows(list) ? t.load(list.ids[1], offsetof(ListHeader, numbers)) : list.ids[1];
}

cfg::Mem memory_of(char holds) { return holds == 'f' ? cfg::Mem::F64 : cfg::Mem::I64; }

Typed number_at(LoopTranslator& t, char holds, cfg::Id numbers, int offset, cfg::Id at) {
  const cfg::Id number = t.load(numbers, offset, memory_of(holds), at, at == cfg::kNone ? 1 : sizeof(int64_t));
  return holds == 'f' ? of_float(number) : holds == 'i' ? of_int(number) : of_bool(number);
}

void store_at(LoopTranslator& t, const Typed& value, cfg::Id numbers, int offset, cfg::Id at) {
  cfg::Node n;
  n.op = Op::Store;
  n.mem = memory_of(value.kind == Kind::Float ? 'f' : 'i');
  n.args[0] = numbers;
  n.args[1] = at;
  n.args[2] = value.ids[0];
  n.imm = offset;
  n.scale = at == cfg::kNone ? 1 : sizeof(int64_t);
  t.add(n);
}

cfg::Id place_in(LoopTranslator& t, cfg::Id numbers, cfg::Id at, int64_t width = 1) {
  return t.op(Op::Add, Type::I64, numbers,
              t.op(Op::Mul, Type::I64, at, t.integer(width * static_cast<int64_t>(sizeof(int64_t)))));
}

/// The values of a list that has this header.
std::vector<cfg::Id> values_of(LoopTranslator& t, const Typed& list, cfg::Id address, cfg::Id header) {
  if (t.is_to_grow(list)) return {address, header};
  return {address, t.load(header, offsetof(ListHeader, numbers)), t.load(header, offsetof(ListHeader, count))};
}

}  // namespace

bool LoopTranslator::is_to_unbox(const Typed& list) const {
  if (hints_.unboxed.count(list.array) == 0 || hints_.boxed.count(list.array) != 0 || !kind_to_unbox(list))
    return false;
  return !is_of_entry(list.array) || !hides_lists();
}

bool LoopTranslator::boxes_all() const {
  return hints_.boxes_all || (program->findings && program->findings->boxes_lists);
}

bool LoopTranslator::has_rows_of_one_length(uint32_t list) const {
  const auto at = outer_lists_.find(list);
  return at == outer_lists_.end() || has_rows(at->second);
}

void LoopTranslator::expect_rows(const Typed& list, PyObject* object) {
  if (!is_of_rows(list) || !outer_lists_.emplace(list.array, object).second) return;
  if (!kind_to_unbox(list) || imagined_graph || loops().size() == 1 || boxes_all()) return;
  if (hints_.unboxed.count(list.array) != 0 || hints_.boxed.count(list.array) != 0) return;
  (has_rows(object) ? hints_.unboxed : hints_.boxed).insert(list.array);
}

bool LoopTranslator::hides_lists() const {
  return std::any_of(hints_.outer.begin(), hints_.outer.end(),
                     [&](uint32_t list) { return hints_.unboxed.count(list) == 0 || hints_.boxed.count(list) != 0; });
}

ItemKind LoopTranslator::kind_to_unbox(const Typed& list) const {
  if (list.array == 0 || recursion.is_recursion) return 0;
  const auto appended = hints_.appended.find(list.array);
  const std::string& holds = list.holds.empty() && appended != hints_.appended.end() ? appended->second : list.holds;
  const bool is_made_of_rows = holds[0] == 'l' && !is_of_entry(list.array);
  return is_made_of_rows ? 0 : item_kind(holds);
}

bool LoopTranslator::is_to_grow(const Typed& list) const { return hints_.growing.count(list.array) != 0; }

void LoopTranslator::note_item(const Typed& list) {
  if (!kind_to_unbox(list) || is_of_rows(list)) return;
  if (is_of_tuples(list)) return require_boxed(list);
  const auto made = made_at_.find(list.array);
  if (level_of(state) > (made == made_at_.end() ? 1 : made->second)) uses_.insert(outermost(list));
}

void LoopTranslator::note_whole(const Typed& list) {
  if (kind_to_unbox(list) && !is_of_entry(list.array)) uses_.insert(list.array);
}

void LoopTranslator::note_taken(const Typed& list) {
  if (kind_to_unbox(list) && !is_row(list)) uses_.insert(list.array);
  note_growing(list);
}

void LoopTranslator::note_growing(const Typed& list) {
  if (list.array == 0 || recursion.is_recursion) return;
  if (is_row(list) || (is_of_rows(list) && is_of_entry(list.array))) return require_boxed(list);
  hints_.growing.insert(list.array);
  if (list.is_unboxed() && !grows(list)) throw Retranslate{hints_};
}

void LoopTranslator::require_boxed(const Typed& list) {
  if (list.array == 0 || recursion.is_recursion) return;
  hints_.boxed.insert(outermost(list));
  if (list.is_unboxed()) throw Retranslate{hints_};
}

void LoopTranslator::prefer_unboxed(const Typed& list) {
  if (hints_.boxes_all || list.is_unboxed() || list.array == 0 || hints_.boxed.count(list.array) != 0) return;
  if (!item_kind(list.holds) || is_of_rows(list)) return;
  if (hints_.unboxed.insert(list.array).second) throw Retranslate{hints_};
}

Typed LoopTranslator::inner_list(const Typed& outer) {
  Typed inner;
  inner.kind = Kind::List;
  if (outer.array != 0 && is_of_entry(outer.array) && !is_row(outer)) inner.array = outer.array | kRow;
  if (!outer.is_unboxed()) {
    hints_.outer.insert(outer.array);
    if (!program->unboxed.empty() && hides_lists()) throw Retranslate{hints_};
  }
  return inner;
}

void LoopTranslator::note_made(const Typed& list) { made_at_.emplace(list.array, level_of(state)); }

void LoopTranslator::choose_lists() {
  if (boxes_all()) return;
  for (const UnboxedList& list : program->unboxed) {
    const uint32_t number = number_of_entry(list.list);
    if (!is_of_rows(list.kind) || uses_.count(number) != 0) continue;
    hints_.boxed.insert(number);
    throw Retranslate{hints_};
  }
  for (const uint32_t list : uses_)
    if (hints_.unboxed.count(list) == 0 && !has_rows_of_one_length(list)) hints_.boxed.insert(list);
  // Lists of the entry only if no list that stays boxed may hold one of them.
  const auto is_used = [&](uint32_t list) { return uses_.count(list) != 0 && hints_.boxed.count(list) == 0; };
  const bool hides = std::any_of(hints_.outer.begin(), hints_.outer.end(), [&](uint32_t list) {
    return !is_used(list) && (hints_.unboxed.count(list) == 0 || hints_.boxed.count(list) != 0);
  });
  const std::size_t before = hints_.unboxed.size();
  for (const uint32_t list : uses_)
    if (is_used(list) && !(is_of_entry(list) && hides)) hints_.unboxed.insert(list);
  if (hints_.unboxed.size() > before) throw Retranslate{hints_};
}

bool LoopTranslator::returns_item(const LoopFrame& f) try {
  if (in_nest(f.pc) || recursion.is_recursion) return false;
  static const std::set<std::string> kOfLists{"abs", "len", "max", "min", "sum"};
  const std::span<const Instr> instrs = f.view->instrs();
  bool computes = false;
  for (uint32_t pc = f.pc; instrs[pc].op != Opcode::ReturnValue; pc = f.view->behind(pc)) {
    computes = computes || instrs[pc].op == Opcode::BinarySubscr || instrs[pc].op == Opcode::Call;
    switch (instrs[pc].op) {
      case Opcode::LoadFast:
      case Opcode::LoadFastCheck:
      case Opcode::LoadDeref:
      case Opcode::LoadConst:
      case Opcode::UnaryNegative:
      case Opcode::BinarySubscr:
      case Opcode::BinaryOp:
      case Opcode::Call: break;
      case Opcode::LoadGlobal:
        if (kOfLists.count(text_of(f.view->name(instrs[pc].arg))) == 0) return false;
        break;
      default: return false;
    }
  }
  // The next instruction. Operators on arrays are the interpreter's.
  const auto is_number = [&](const Typed& v) { return known(*this, v).is_single(); };
  const auto is_list = [&](const Typed& v) { return list_of(*this, known(*this, v)).has_value(); };
  const auto from_top = [&](std::size_t k) { return f.stack.size() > k ? f.stack[f.stack.size() - 1 - k] : Typed{}; };
  switch (instrs[f.pc].op) {
    case Opcode::Call: {
      const auto count = static_cast<std::size_t>(instrs[f.pc].arg);
      const Typed callable = from_top(count + (py::kNullBehindCallable ? 1 : 0));
      bool is_plain =
          callable.kind == Kind::Object && callable.value->object && PyCFunction_Check(callable.value->object.get());
      for (std::size_t k = 0; k < count; ++k) is_plain = is_plain && (is_list(from_top(k)) || is_number(from_top(k)));
      return is_plain;
    }
    case Opcode::BinarySubscr: return is_list(from_top(1)) && is_number(from_top(0));
    case Opcode::UnaryNegative: return is_number(from_top(0));
    case Opcode::BinaryOp: return is_number(from_top(1)) && is_number(from_top(0));
    case Opcode::ReturnValue: return false;
    default: return computes || !f.stack.empty();
  }
} catch (const NotCompiled&) {
  return false;
}

// Lists that are unboxed.

void unbox_at_entry(LoopTranslator& t, Typed& list, uint32_t place) {
  std::vector<UnboxedList>& all = t.program->unboxed;
  std::vector<uint32_t>& boxed = t.program->boxed;
  t.complete(list);
  if (!t.is_to_unbox(list)) {
    if (std::find(boxed.begin(), boxed.end(), place) == boxed.end()) boxed.push_back(place);
    return;
  }
  const auto at = std::find_if(all.begin(), all.end(), [&](const UnboxedList& other) { return other.list == place; });
  const auto k = static_cast<std::size_t>(at - all.begin());
  if (at == all.end()) all.push_back({place, item_kind(list.holds), t.is_to_grow(list), false});
  list.ids.push_back(t.input(Op::Object, LoopProgram::numbers_of(k)));
  if (t.is_to_grow(list)) return;
  list.ids.push_back(t.input(Op::Object, LoopProgram::count_of(k)));
  t.cfg.nodes[list.ids[2]].natural = true;
  if (!is_of_rows(list)) return;
  list.ids.push_back(t.input(Op::Object, LoopProgram::width_of(k)));
  t.cfg.nodes[list.ids[3]].natural = true;
}

void unbox_where_made(LoopTranslator& t, Typed& list) {
  t.note_made(list);
  t.complete(list);
  if (t.is_to_unbox(list))
    list.ids = values_of(t, list, list.ids[0], update(t, kUnboxMade, t.integer(item_kind(list.holds)), t.integer(0)));
}

bool makes_numbers(LoopTranslator& t, Typed& list, const std::vector<Typed>& operands) {
  t.complete(list);
  bool all = !is_of_tuples(list) && !is_of_rows(list);
  for (const Typed& operand : operands) all = all && (operand.kind == Kind::Display || operand.is_unboxed());
  if (t.is_to_unbox(list)) {
    for (const Typed& operand : operands)
      if (operand.kind == Kind::List && !is_of_entry(operand.array)) t.prefer_unboxed(operand);
    return all;
  }
  if (std::none_of(operands.begin(), operands.end(), [](const Typed& v) { return v.is_unboxed(); })) return false;
  t.prefer_unboxed(list);
  return false;
}

void make_numbers(LoopTranslator& t, Typed& list, cfg::Id count, bool of_iterable) {
  t.note_made(list);
  const cfg::Id header = update(t, kNewNumbers, count, t.integer(item_kind(list.holds)), t.integer(of_iterable));
  list.ids = values_of(t, list, t.load(header, offsetof(ListHeader, list)), header);
}

cfg::Id numbers_in(LoopTranslator& t, const Typed& operand) {
  return operand.is_unboxed() ? count_of(t, operand) : t.integer(static_cast<int64_t>(operand.items.size()));
}

void put_numbers(LoopTranslator& t, const Typed& list, cfg::Id at, const Typed& operand) {
  const cfg::Id to = place_in(t, numbers_of(t, list), at);
  if (operand.is_unboxed()) {
    update(t, kCopyNumbers, to, numbers_of(t, operand), count_of(t, operand));
    return;
  }
  t.flush_pending();
  for (const Typed& item : operand.items) check_is_number(t, item);
  for (std::size_t k = 0; k < operand.items.size(); ++k)
    store_at(t, operand.items[k], to, static_cast<int>(k * sizeof(int64_t)), cfg::kNone);
}

void put_part(LoopTranslator& t, const Typed& list, const Typed& from, cfg::Id first) {
  update(t, kCopyNumbers, numbers_of(t, list), place_in(t, numbers_of(t, from), first), count_of(t, list));
}

void put_copies(LoopTranslator& t, const Typed& list, const Typed& number) {
  const cfg::Id bits = number.kind == Kind::Float ? t.op(Op::Bits, Type::I64, number.ids[0]) : number.ids[0];
  update(t, kFillNumbers, numbers_of(t, list), bits, count_of(t, list));
}

void put_range(LoopTranslator& t, const Typed& list, cfg::Id start, cfg::Id step) {
  update(t, kCountUp, numbers_of(t, list), start, step);
}

void sort_numbers(LoopTranslator& t, const Typed& list) {
  update(t, list.holds == "f" ? kSortFloats : kSortInts, numbers_of(t, list), count_of(t, list));
}

std::optional<Typed> number_of_list(LoopTranslator& t, const std::string& name, const Typed& list) {
  const bool is_float = list.holds == "f";
  if (!list.is_unboxed() || (is_float && name == "sum" && py::kSumCompensates)) return std::nullopt;
  const cfg::Function& made = name == "sum"   ? is_float ? kSumOfFloats : kSumOfInts
                              : name == "max" ? is_float ? kMostOfFloats : kMostOfInts
                              : is_float      ? kLeastOfFloats
                                              : kLeastOfInts;
  update(t, made, numbers_of(t, list), count_of(t, list));
  const cfg::Id at = t.address(number_from_list());
  return is_float ? of_float(t.load(at, 0, cfg::Mem::F64)) : of_int(t.load(at, 0));
}

// Operations on lists.

cfg::Id count_of(LoopTranslator& t, const Typed& list) {
  if (!list.is_unboxed()) return t.load(list.ids[0], py::kListSize);
  return grows(list) ? t.load(list.ids[1], offsetof(ListHeader, count)) : list.ids[2];
}

cfg::Id boxed(LoopTranslator& t, const Typed& list) {
  t.require_boxed(list);
  return list.ids[0];
}

cfg::Id boxed_operand(LoopTranslator& t, const Typed& list) {
  if (list.is_unboxed()) t.require_boxed(list);
  return list.ids[0];
}

Typed unboxed_item(LoopTranslator& t, const Typed& list, cfg::Id at) {
  if (is_of_rows(list)) {
    Typed row = t.inner_list(list);
    row.holds = list.holds.substr(1);
    const cfg::Id numbers =
        t.op(Op::Add, Type::I64, list.ids[1],
             t.op(Op::Mul, Type::I64, at, t.op(Op::Mul, Type::I64, list.ids[3], t.integer(sizeof(int64_t)))));
    row.ids = {object_in(t, list, at), numbers, list.ids[3]};
    return row;
  }
  return number_at(t, list.holds[0], numbers_of(t, list), 0, at);
}

void store_unboxed(LoopTranslator& t, const Typed& list, cfg::Id at, const Typed& value) {
  t.flush_pending();
  store_at(t, value, numbers_of(t, list), 0, at);
  for (UnboxedList& other : t.program->unboxed)
    other.is_stored = other.is_stored || number_of_entry(other.list) == outermost(list);
}

void check_is_number(LoopTranslator& t, const Typed& value) {
  if (value.kind == Kind::Float) t.check(t.op(Op::Eq, Type::I64, value.ids[0], value.ids[0]));
  if (value.kind == Kind::Tuple && !value.constant && value.ids.empty())
    for (const Typed& item : value.items) check_is_number(t, item);
}

bool append_unboxed(LoopTranslator& t, const Typed& list, const Typed& item) {
  // A tuple that a variable holds, or a constant, would be the one in the list.
  const bool is_other = item.kind == Kind::Tuple && (item.constant || !item.ids.empty() || is_held(t, item));
  if (is_other || (!list.holds.empty() && held_as(item) != list.holds)) t.require_boxed(list);
  t.note_growing(list);
  if (!list.is_unboxed()) return false;
  t.flush_pending();
  const cfg::Id header = list.ids[1], count = count_of(t, list);
  const cfg::Id has_room = t.op(Op::Lt, Type::I64, count, t.load(header, offsetof(ListHeader, capacity)));
  const cfg::Id more = t.op(Op::Add, Type::I64, count, t.integer(1));
  either(t, has_room, [] {}, [&] { update(t, kGrowNumbers, header, more); });
  const std::vector<Typed> numbers = item.kind == Kind::Tuple ? item.items : std::vector<Typed>{item};
  const cfg::Id to = place_in(t, numbers_of(t, list), count, static_cast<int64_t>(numbers.size()));
  for (std::size_t k = 0; k < numbers.size(); ++k)
    store_at(t, known(t, numbers[k]), to, static_cast<int>(k * sizeof(int64_t)), cfg::kNone);
  t.store(header, offsetof(ListHeader, count), more);
  return true;
}

std::optional<Typed> take_last_unboxed(LoopTranslator& t, const Typed& list, bool is_unpacked) {
  if (is_of_tuples(list) && !is_unpacked) t.require_boxed(list);
  t.note_taken(list);
  if (!list.is_unboxed()) return std::nullopt;
  const cfg::Id header = list.ids[1], count = count_of(t, list);
  t.check(t.op(Op::Ne, Type::I64, count, t.integer(0)));
  const cfg::Id last = t.op(Op::Sub, Type::I64, count, t.integer(1));
  Typed item;
  if (is_of_tuples(list)) {
    const std::string letters = list.holds.substr(1, list.holds.size() - 2);
    const cfg::Id from = place_in(t, numbers_of(t, list), last, static_cast<int64_t>(letters.size()));
    item.kind = Kind::Tuple;
    for (std::size_t k = 0; k < letters.size(); ++k)
      item.items.push_back(number_at(t, letters[k], from, static_cast<int>(k * sizeof(int64_t)), cfg::kNone));
    const cfg::Id kept = t.load(header, offsetof(ListHeader, kept));
    t.store(header, offsetof(ListHeader, kept),
            t.op(Op::Select, Type::I64, t.op(Op::Lt, Type::I64, last, kept), last, kept));
  } else {
    item = unboxed_item(t, list, last);
  }
  t.flush_pending();
  const cfg::Id half = t.op(Op::Shr, Type::I64, t.load(header, offsetof(ListHeader, capacity)), t.integer(1));
  either(t, t.op(Op::Le, Type::I64, half, last), [] {}, [&] { update(t, kShrinkNumbers, header, last); });
  t.store(header, offsetof(ListHeader, count), last);
  return item;
}

}  // namespace framejit::capture
