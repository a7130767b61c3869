// Lists of numbers whose numbers a compiled loop has in memory of its own, in place of the objects that the list holds.
//
// A list is unboxed if a loop further in than where the list comes from uses its items, if all of these are floats, all
// are ints of 64 bits or all are bools, and if nothing in the loop needs the objects or changes the length. The first
// translation finds such lists (used_inside_), and the loop is translated again. When the loop is left, each number
// that has changed becomes an object, in lists that are still in use. Others would see the old objects meanwhile, but
// only code of the loop runs, and all ways in which it reaches a list lead to the same numbers:
// a list under two names is unboxed once, and does not fit if one of the names is of a list that is not unboxed.
#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "capture/loops/loop_built.h"
#include "capture/loops/loop_instructions.h"
#include "capture/py/layouts.h"
#include "capture/py/no_collection.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

/// Memory for numbers, which is free again when the loop is left: first a piece that stays, then pieces of its own.
class NumberMemory {
 public:
  /// Null: there is none.
  int64_t* take(int64_t count) {
    if (count <= left_) {
      left_ -= count;
      return std::exchange(next_, next_ + count);
    }
    const bool is_large = count > kPiece / 4;
    std::unique_ptr<int64_t[]> piece(new (std::nothrow) int64_t[static_cast<std::size_t>(is_large ? count : kPiece)]);
    if (!piece) return nullptr;
    pieces_.push_back(std::move(piece));
    if (is_large) return pieces_.back().get();
    left_ = kPiece - count;
    next_ = pieces_.back().get() + count;
    return pieces_.back().get();
  }
  std::vector<std::unique_ptr<int64_t[]>> clear() {
    next_ = first_;
    left_ = kPiece;
    return std::exchange(pieces_, {});
  }

 private:
  static constexpr int64_t kPiece = 1 << 12;
  int64_t first_[kPiece];
  int64_t* next_ = first_;
  int64_t left_ = kPiece;
  std::vector<std::unique_ptr<int64_t[]>> pieces_;
};

NumberMemory memory;                     // of the thread that holds the GIL
std::vector<ListNumbers> unboxed_lists;  // of the loop that runs
bool unboxing_failed = false;            // of a list that the loop has made
UnboxedMemory made_memory;               // of lists that it has made

std::optional<int64_t> number_in(PyObject* item, char holds) {
  int overflow = 0;
  switch (holds) {
    case 'f':
      return PyFloat_CheckExact(item) ? std::optional(std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(item))) : std::nullopt;
    case 'b': return PyBool_Check(item) ? std::optional<int64_t>(item == Py_True) : std::nullopt;
    default: {
      if (!PyLong_CheckExact(item)) return std::nullopt;
      const int64_t number = PyLong_AsLongLongAndOverflow(item, &overflow);
      return overflow == 0 ? std::optional(number) : std::nullopt;
    }
  }
}

PyObject* object_of(int64_t number, char holds) {
  switch (holds) {
    case 'f': return PyFloat_FromDouble(std::bit_cast<double>(number));
    case 'b': return PyBool_FromLong(number != 0);
    default: return PyLong_FromLongLong(number);
  }
}

/// Lets an item that only the list holds have another value. False: it needs another object.
bool set_in_place(PyObject* item, int64_t number, char holds) {
  if (holds == 'b' || Py_REFCNT(item) != 1) return false;
  if (holds == 'i') return py::set_int(item, number);
  reinterpret_cast<PyFloatObject*>(item)->ob_fval = std::bit_cast<double>(number);
  return true;
}

bool box(const ListNumbers& from) {
  if (PyList_GET_SIZE(from.list.get()) != from.count) {  // it was made of numbers
    const Ref<> none = Ref<>::steal(PyList_New(0)), fresh = Ref<>::steal(PyList_New(from.count));
    for (int64_t k = 0; fresh && k < from.count; ++k) {
      PyObject* const item = object_of(from.numbers[k], from.holds);
      if (!item) return false;
      PyList_SET_ITEM(fresh.get(), k, item);
    }
    return fresh && PyList_SetSlice(from.list.get(), 0, 0, fresh.get()) == 0;
  }
  PyObject** const items = reinterpret_cast<PyListObject*>(from.list.get())->ob_item;
  for (int64_t k = 0; k < from.count; ++k) {
    const int64_t number = from.numbers[k];
    if (number_in(items[k], from.holds) == number || set_in_place(items[k], number, from.holds)) continue;
    PyObject* const made = object_of(number, from.holds);
    if (!made) return false;
    Py_DECREF(std::exchange(items[k], made));
  }
  return true;
}

ListNumbers* add_numbers(Ref<> list, int64_t count, char holds) {
  int64_t* const numbers = list ? memory.take(count) : nullptr;
  if (!numbers) return nullptr;
  unboxed_lists.push_back({std::move(list), numbers, count, holds});
  return &unboxed_lists.back();
}

ListNumbers* take_numbers(Ref<> list, char holds) {
  PyObject* const from = list.get();
  ListNumbers* const made = add_numbers(std::move(list), PyList_GET_SIZE(from), holds);
  for (Py_ssize_t k = 0; made && k < made->count; ++k) {
    const std::optional<int64_t> number = number_in(PyList_GET_ITEM(from, k), holds);
    if (!number) return unboxed_lists.pop_back(), nullptr;
    made->numbers[k] = *number;
  }
  return made;
}

int64_t note_made(const ListNumbers& made) {
  ++made_memory.lists;
  made_memory.bytes += made.count * static_cast<int64_t>(sizeof(int64_t));
  return reinterpret_cast<int64_t>(made.numbers);
}

/// Unboxes the list that the loop has made last, and gives where its numbers are.
int64_t unbox_made(int64_t holds, int64_t) {
  const ListNumbers* const made = take_numbers(take_last_made(), static_cast<char>(holds));
  if (!made) return unboxing_failed = true, 0;
  return note_made(*made);
}

int64_t new_list_of_numbers = 0;  // the address of the last one

/// Memory for the numbers of a new list, whose objects are made if somebody else holds it when the loop is left.
int64_t new_numbers(int64_t count, int64_t holds) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  if (is_full() || count >= kMostBytes / static_cast<int64_t>(sizeof(int64_t))) return 0;
  const py::NoCollection no_collection;
  const ListNumbers* const made = add_numbers(Ref<>::steal(PyList_New(0)), count, static_cast<char>(holds));
  if (!made) return PyErr_Clear(), 0;
  new_list_of_numbers = reinterpret_cast<int64_t>(made->list.get());
  return note_made(*made);
}

int64_t* at(int64_t address) { return reinterpret_cast<int64_t*>(address); }

int64_t copy_numbers(int64_t to, int64_t from, int64_t count) { return std::copy_n(at(from), count, at(to)), 1; }
int64_t fill_numbers(int64_t to, int64_t number, int64_t count) { return std::fill_n(at(to), count, number), 1; }
int64_t count_up(int64_t to, int64_t start, int64_t step) {
  for (int64_t k = 0; k < unboxed_lists.back().count; ++k) at(to)[k] = start + k * step;
  return 1;
}

#define FRAMEJIT_UPDATE(name, operands) {#name, reinterpret_cast<const void*>(&name), Type::I64, operands, Type::I64}
const cfg::Function kUnboxMade FRAMEJIT_UPDATE(unbox_made, 2), kNewNumbers FRAMEJIT_UPDATE(new_numbers, 2),
    kCopyNumbers FRAMEJIT_UPDATE(copy_numbers, 3),
    kFillNumbers FRAMEJIT_UPDATE(fill_numbers, 3), kCountUp FRAMEJIT_UPDATE(count_up, 3);
#undef FRAMEJIT_UPDATE

bool is_of_numbers(const Typed& list) { return list.holds == "f" || list.holds == "i" || list.holds == "b"; }
bool is_of_entry(uint32_t number) { return number % 2 == 0; }

}  // namespace

const ListNumbers* unbox(PyObject* list, char holds) {
  for (const ListNumbers& known : unboxed_lists)
    if (known.list.get() == list) return known.holds == holds ? &known : nullptr;
  return take_numbers(Ref<>::share(list), holds);
}

UnboxedMemory memory_of_unboxed() { return made_memory; }

MadeLists::MadeLists()
    : lists_(take_made_lists()),
      unboxed_(std::exchange(unboxed_lists, {})),
      memory_(memory.clear()),
      has_failed_(std::exchange(unboxing_failed, false)) {
  made_memory = {};
}

bool MadeLists::box() {
  [[maybe_unused]] const py::NoCollection no_collection;
  return std::all_of(unboxed_.begin(), unboxed_.end(),
                     [](const ListNumbers& from) { return Py_REFCNT(from.list.get()) == 1 || capture::box(from); });
}

// In translation.

bool LoopTranslator::is_to_unbox(const Typed& list) const {
  if (hints_.unboxed.count(list.array) == 0 || hints_.boxed.count(list.array) != 0 || !is_of_numbers(list))
    return false;
  return !is_of_entry(list.array) || !hints_.has_inner_lists;
}

void LoopTranslator::note_item(const Typed& list) {
  if (list.array == 0 || recursion.is_recursion || !is_of_numbers(list)) return;
  const auto made = made_at_.find(list.array);
  if (level_of(state) > (made == made_at_.end() ? 1 : made->second)) used_inside_.insert(list.array);
}

void LoopTranslator::require_boxed(const Typed& list) {
  if (list.array == 0) return;
  hints_.boxed.insert(list.array);
  if (list.is_unboxed()) throw Retranslate{hints_};
}

void LoopTranslator::prefer_unboxed(const Typed& list) {
  if (list.is_unboxed() || list.array == 0 || hints_.boxed.count(list.array) != 0 || !is_of_numbers(list)) return;
  if (hints_.unboxed.insert(list.array).second) throw Retranslate{hints_};
}

void LoopTranslator::note_inner_list() {
  hints_.has_inner_lists = true;
  if (!program->unboxed.empty()) throw Retranslate{hints_};
}

void LoopTranslator::note_made(const Typed& list) { made_at_.emplace(list.array, level_of(state)); }

void LoopTranslator::choose_lists() {
  if (program->findings && program->findings->boxes_lists) return;
  const std::size_t before = hints_.unboxed.size();
  for (const uint32_t list : used_inside_)
    if (hints_.boxed.count(list) == 0 && !(is_of_entry(list) && hints_.has_inner_lists)) hints_.unboxed.insert(list);
  if (hints_.unboxed.size() > before) throw Retranslate{hints_};
}

void unbox_at_entry(LoopTranslator& t, Typed& list, uint32_t place) {
  std::vector<UnboxedList>& all = t.program->unboxed;
  std::vector<uint32_t>& boxed = t.program->boxed;
  if (!t.is_to_unbox(list)) {
    if (std::find(boxed.begin(), boxed.end(), place) == boxed.end()) boxed.push_back(place);
    return;
  }
  const auto at = std::find_if(all.begin(), all.end(), [&](const UnboxedList& other) { return other.list == place; });
  const auto k = static_cast<std::size_t>(at - all.begin());
  if (at == all.end()) all.push_back({place, list.holds[0]});
  list.ids.push_back(t.input(Op::Object, LoopProgram::numbers_of(k)));
  list.ids.push_back(t.input(Op::Object, LoopProgram::count_of(k)));
  t.cfg.nodes[list.ids[2]].natural = true;
}

void unbox_where_made(LoopTranslator& t, Typed& list) {
  t.note_made(list);
  if (!t.is_to_unbox(list)) return;
  const cfg::Id count = t.load(list.ids[0], py::kListSize);
  list.ids.push_back(update(t, kUnboxMade, t.integer(list.holds[0]), t.integer(0)));
  list.ids.push_back(count);
}

bool makes_numbers(LoopTranslator& t, const Typed& list, const std::vector<Typed>& operands) {
  bool all = true;
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

void make_numbers(LoopTranslator& t, Typed& list, cfg::Id count) {
  t.note_made(list);
  t.flush_pending();
  const cfg::Id numbers = update(t, kNewNumbers, count, t.integer(list.holds[0]));
  list.ids = {t.load(t.address(&new_list_of_numbers), 0), numbers, count};
}

namespace {

cfg::Id bits_of(LoopTranslator& t, const Typed& number) {
  return number.kind == Kind::Float ? t.op(Op::Bits, Type::I64, number.ids[0]) : number.ids[0];
}

cfg::Id place_in(LoopTranslator& t, cfg::Id numbers, cfg::Id at) {
  return t.op(Op::Add, Type::I64, numbers, t.op(Op::Mul, Type::I64, at, t.integer(sizeof(int64_t))));
}

}  // namespace

cfg::Id numbers_in(LoopTranslator& t, const Typed& operand) {
  return operand.is_unboxed() ? operand.ids[2] : t.integer(static_cast<int64_t>(operand.items.size()));
}

void put_numbers(LoopTranslator& t, const Typed& list, cfg::Id at, const Typed& operand) {
  if (operand.is_unboxed()) {
    update(t, kCopyNumbers, place_in(t, list.ids[1], at), operand.ids[1], operand.ids[2]);
    return;
  }
  for (std::size_t k = 0; k < operand.items.size(); ++k)
    store_unboxed(t, list, t.op(Op::Add, Type::I64, at, t.integer(static_cast<int64_t>(k))), operand.items[k]);
}

void put_part(LoopTranslator& t, const Typed& list, const Typed& from, cfg::Id first) {
  update(t, kCopyNumbers, list.ids[1], place_in(t, from.ids[1], first), list.ids[2]);
}

void put_copies(LoopTranslator& t, const Typed& list, const Typed& number) {
  update(t, kFillNumbers, list.ids[1], bits_of(t, number), list.ids[2]);
}

void put_range(LoopTranslator& t, const Typed& list, cfg::Id start, cfg::Id step) {
  update(t, kCountUp, list.ids[1], start, step);
}

cfg::Id count_of(LoopTranslator& t, const Typed& list) {
  return list.is_unboxed() ? list.ids[2] : t.load(list.ids[0], py::kListSize);
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
  const cfg::Mem mem = list.holds == "f" ? cfg::Mem::F64 : cfg::Mem::I64;
  const cfg::Id number = t.load(list.ids[1], 0, mem, at, sizeof(int64_t));
  return list.holds == "f" ? of_float(number) : list.holds == "i" ? of_int(number) : of_bool(number);
}

void store_unboxed(LoopTranslator& t, const Typed& list, cfg::Id at, const Typed& value) {
  t.flush_pending();
  cfg::Node n;
  n.op = Op::Store;
  n.mem = list.holds == "f" ? cfg::Mem::F64 : cfg::Mem::I64;
  n.args[0] = list.ids[1];
  n.args[1] = at;
  n.args[2] = value.ids[0];
  n.scale = sizeof(int64_t);
  t.add(n);
}

}  // namespace framejit::capture
