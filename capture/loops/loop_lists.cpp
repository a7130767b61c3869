// Lists of a compiled loop: items that are stored, appended and taken away, and lists that the loop makes.
//
// A list that the loop makes lives until the loop is left (MadeLists), so variables hold addresses and no references.
// When they are many, making one more fails, and the loop is left and entered again. No cyclic collection runs
// meanwhile. A tuple that a list holds keeps its address, and with it its identity.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "capture/loops/list_numbers.h"
#include "capture/loops/loop_built.h"
#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/layouts.h"
#include "capture/py/no_collection.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

/// Puts an object in the place of a number of a list. 0: nothing was done.
int64_t replace(int64_t slot, PyObject* made) {
  auto** at = reinterpret_cast<PyObject**>(slot);
  if (!made) return PyErr_Clear(), 0;
  const bool runs_no_code =
      PyFloat_CheckExact(*at) || PyLong_CheckExact(*at) || PyBool_Check(*at) || PyUnicode_CheckExact(*at);
  if (!runs_no_code) return Py_DECREF(made), 0;  // a list, too: what it holds goes at once
  PyObject* before = std::exchange(*at, made);
  Py_DECREF(before);
  return 1;
}

int64_t store_float(int64_t slot, int64_t bits) {
  PyObject* held = *reinterpret_cast<PyObject**>(slot);
  if (PyFloat_CheckExact(held) && Py_REFCNT(held) == 1) {  // nobody else sees it
    reinterpret_cast<PyFloatObject*>(held)->ob_fval = std::bit_cast<double>(bits);
    return 1;
  }
  return replace(slot, PyFloat_FromDouble(std::bit_cast<double>(bits)));
}

int64_t store_int(int64_t slot, int64_t value) {
  PyObject* held = *reinterpret_cast<PyObject**>(slot);
  if (PyLong_CheckExact(held) && Py_REFCNT(held) == 1 && py::set_int(held, value)) return 1;
  return replace(slot, PyLong_FromLongLong(value));
}
int64_t store_character(int64_t slot, int64_t value) {
  return replace(slot, PyUnicode_FromOrdinal(static_cast<int>(value)));
}
int64_t store_bool(int64_t slot, int64_t value) { return replace(slot, PyBool_FromLong(value != 0)); }

int64_t append_object(int64_t list, PyObject* made) {
  Ref<> item = Ref<>::steal(made);
  auto* const to = reinterpret_cast<PyListObject*>(list);
  const Py_ssize_t size = Py_SIZE(to);
  if (item && size < to->allocated) {  // as PyList_Append does it
    PyList_SET_ITEM(reinterpret_cast<PyObject*>(to), size, item.release());
    Py_SET_SIZE(to, size + 1);
    return 1;
  }
  if (item && PyList_Append(reinterpret_cast<PyObject*>(to), item.get()) == 0) return 1;
  return PyErr_Clear(), 0;
}

int64_t append_float(int64_t list, int64_t bits) {
  return append_object(list, PyFloat_FromDouble(std::bit_cast<double>(bits)));
}

int64_t append_int(int64_t list, int64_t value) { return append_object(list, PyLong_FromLongLong(value)); }
int64_t append_bool(int64_t list, int64_t value) { return append_object(list, PyBool_FromLong(value != 0)); }

int64_t append_built(int64_t list, int64_t code) { return append_object(list, built(code).release()); }
int64_t append_list(int64_t list, int64_t item) {
  return append_object(list, Py_NewRef(reinterpret_cast<PyObject*>(item)));
}

int64_t new_list(int64_t code, int64_t) { return is_full() ? 0 : keep(built(code)); }

int64_t part_of_list(int64_t list, int64_t first, int64_t count) {
  return keep_made([&] { return PyList_GetSlice(reinterpret_cast<PyObject*>(list), first, first + count); });
}

int64_t list_of_sequence(int64_t sequence, int64_t) {
  return keep_made([&] { return PySequence_List(reinterpret_cast<PyObject*>(sequence)); });
}

int64_t repeat_list(int64_t list, int64_t count) {
  return keep_made([&] { return PySequence_Repeat(reinterpret_cast<PyObject*>(list), count); });
}

int64_t join_lists(int64_t a, int64_t b) {
  return keep_made([&] { return PySequence_Concat(reinterpret_cast<PyObject*>(a), reinterpret_cast<PyObject*>(b)); });
}

int64_t list_of_range(int64_t start, int64_t step, int64_t count) {
  return keep_made([&] {
    Ref<> list = Ref<>::steal(PyList_New(count));
    for (int64_t k = 0; list && k < count; ++k) {
      PyObject* const item = PyLong_FromLongLong(start + k * step);
      if (!item) return static_cast<PyObject*>(nullptr);
      PyList_SET_ITEM(list.get(), k, item);
    }
    return list && set_capacity(list.get(), room_of_iterable(count)) ? list.release() : nullptr;
  });
}

/// Takes the last item, which is a number, a list or a tuple of numbers, from a list. `is_held`: a variable may have
/// it, or get it.
int64_t drop_last(int64_t list, int64_t is_held) {
  auto* object = reinterpret_cast<PyObject*>(list);
  const Py_ssize_t last = PyList_GET_SIZE(object) - 1;
  PyObject* const item = PyList_GET_ITEM(object, last);
  if (is_held && !keep_taken(item)) return 0;
  // As list.pop() does while more than half of the list's memory is in use.
  if (last >= reinterpret_cast<PyListObject*>(object)->allocated >> 1) {
    Py_SET_SIZE(object, last);
    return Py_DECREF(item), 1;
  }
  if (PyList_SetSlice(object, last, last + 1, nullptr) == 0) return 1;
  return PyErr_Clear(), 0;
}

int64_t given = 0;  // what a function has given, of the thread that holds the GIL

/// Is it of the type that is expected, and within 64 bits? Null: the function has raised.
int64_t give_float(const Ref<>& made) {
  if (!made) return PyErr_Clear(), 0;
  if (!PyFloat_CheckExact(made.get())) return 0;
  given = std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(made.get()));
  return 1;
}

int64_t give_int(const Ref<>& made) {
  if (!made) return PyErr_Clear(), 0;
  if (!PyLong_CheckExact(made.get())) return 0;
  int overflow = 0;
  given = PyLong_AsLongLongAndOverflow(made.get(), &overflow);
  return overflow == 0;
}

int64_t give_bool(const Ref<>& made) {
  if (!made) return PyErr_Clear(), 0;
  given = made.get() == Py_True;
  return PyBool_Check(made.get());
}

int64_t float_of_call(int64_t function, int64_t code) { return give_float(call_with_built(function, code)); }
int64_t int_of_call(int64_t function, int64_t code) { return give_int(call_with_built(function, code)); }
int64_t bool_of_call(int64_t function, int64_t code) { return give_bool(call_with_built(function, code)); }

/// A builtin of a list whose items are plain numbers, so that no code of the program runs. Null: none is set.
Ref<> call_on_list(int64_t function, int64_t list) {
  auto* const object = reinterpret_cast<PyObject*>(list);
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(object); ++k) {
    PyObject* const item = PyList_GET_ITEM(object, k);
    if (!PyFloat_CheckExact(item) && !PyLong_CheckExact(item)) return {};
  }
  [[maybe_unused]] const py::NoCollection no_collection;
  Ref<> made = Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(function), object));
  if (!made) PyErr_Clear();
  return made;
}

int64_t float_of_list(int64_t function, int64_t list) { return give_float(call_on_list(function, list)); }
int64_t int_of_list(int64_t function, int64_t list) { return give_int(call_on_list(function, list)); }

int64_t sorted_list(int64_t function, int64_t list) { return is_full() ? 0 : keep(call_on_list(function, list)); }

#define FRAMEJIT_UPDATE(name) {#name, reinterpret_cast<const void*>(&name), Type::I64, 2, Type::I64}
const cfg::Function kStoreFloat FRAMEJIT_UPDATE(store_float), kStoreInt FRAMEJIT_UPDATE(store_int),
    kStoreBool FRAMEJIT_UPDATE(store_bool), kStoreCharacter FRAMEJIT_UPDATE(store_character),
    kListOfSequence FRAMEJIT_UPDATE(list_of_sequence), kAppendFloat FRAMEJIT_UPDATE(append_float),
    kAppendInt FRAMEJIT_UPDATE(append_int), kAppendBool FRAMEJIT_UPDATE(append_bool),
    kAppendBuilt FRAMEJIT_UPDATE(append_built), kAppendList FRAMEJIT_UPDATE(append_list),
    kNewList FRAMEJIT_UPDATE(new_list), kRepeatList FRAMEJIT_UPDATE(repeat_list),
    kJoinLists FRAMEJIT_UPDATE(join_lists), kDropLast FRAMEJIT_UPDATE(drop_last),
    kFloatOfList FRAMEJIT_UPDATE(float_of_list), kIntOfList FRAMEJIT_UPDATE(int_of_list),
    kSortedList FRAMEJIT_UPDATE(sorted_list), kFloatOfCall FRAMEJIT_UPDATE(float_of_call),
    kIntOfCall FRAMEJIT_UPDATE(int_of_call), kBoolOfCall FRAMEJIT_UPDATE(bool_of_call);
#undef FRAMEJIT_UPDATE
#define FRAMEJIT_UPDATE(name) {#name, reinterpret_cast<const void*>(&name), Type::I64, 3, Type::I64}
const cfg::Function kPartOfList FRAMEJIT_UPDATE(part_of_list), kListOfRange FRAMEJIT_UPDATE(list_of_range);
#undef FRAMEJIT_UPDATE

}  // namespace

cfg::Id update(LoopTranslator& t, const cfg::Function& function, cfg::Id a, cfg::Id b, cfg::Id c) {
  t.flush_pending();
  cfg::Node n;
  n.op = Op::Update;
  n.type = Type::I64;
  n.function = &function;
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
  // If it fails, nothing was done: the state from before the update is still the right one.
  const cfg::Id made = t.add(n);
  t.check(made);
  return made;
}

namespace {

/// The address of the object that the interpreter has for 0, if those for the others lie around it.
PyObject* shared_ints() {
  static PyObject* const found = []() -> PyObject* {
    const auto of = [](long value) { return reinterpret_cast<char*>(PyLong_FromLong(value)); };
    for (long value = kLeastShared; value <= kMostShared; ++value)
      if (of(value) != of(0) + value * static_cast<long>(sizeof(PyLongObject))) return nullptr;
    return reinterpret_cast<PyObject*>(of(0));
  }();
  return found;
}

/// An int that the interpreter has one object for, in the place of another int that lives on.
void store_small_int(LoopTranslator& t, cfg::Id slot, cfg::Id held, cfg::Id number) {
  const auto call = [&] { update(t, kStoreInt, slot, number); };
  PyObject* const zero = shared_ints();
  if (!zero) return call();
  constexpr cfg::Mem kCount = py::kRefcountSize == 8 ? cfg::Mem::I64 : cfg::Mem::U32;
  const auto both = [&](cfg::Id a, cfg::Id b) { return t.op(Op::And, Type::I64, a, b); };
  const cfg::Id is_int = t.op(Op::Eq, Type::I64, t.load(held, py::kTypeField), t.address(&PyLong_Type));
  const cfg::Id count = t.load(held, py::kRefcountField, kCount);
  const cfg::Id lives = t.op(Op::Lt, Type::I64, t.integer(py::kHasImmortals ? INT32_MAX : 1), count);
  const cfg::Id is_small = t.op(Op::Below, Type::I64, t.op(Op::Sub, Type::I64, number, t.integer(kLeastShared)),
                                t.integer(kMostShared - kLeastShared + 1));
  either(
      t, both(is_small, both(is_int, lives)),
      [&] {
        const cfg::Id made = t.op(Op::Add, Type::I64, t.address(zero),
                                  t.op(Op::Mul, Type::I64, number, t.integer(sizeof(PyLongObject))));
        t.store(slot, 0, made);
        if constexpr (py::kHasImmortals) return;
        t.store(held, py::kRefcountField, t.op(Op::Sub, Type::I64, count, t.integer(1)), kCount);
        const cfg::Id others = t.load(made, py::kRefcountField, kCount);
        t.store(made, py::kRefcountField, t.op(Op::Add, Type::I64, others, t.integer(1)), kCount);
      },
      call);
}

}  // namespace

/// Puts a number in the place of another one. Objects that nobody else sees take the new value.
void store_in_list(LoopTranslator& t, cfg::Id slot, const Typed& value) {
  t.flush_pending();
  const auto both = [&](cfg::Id a, cfg::Id b) { return t.op(Op::And, Type::I64, a, b); };
  const auto equal = [&](cfg::Id a, cfg::Id b) { return t.op(Op::Eq, Type::I64, a, b); };
  const auto address = [&](const void* of) { return t.address(of); };
  constexpr cfg::Mem kCount = py::kRefcountSize == 8 ? cfg::Mem::I64 : cfg::Mem::U32;
  const cfg::Id held = t.load(slot, 0), number = value.ids[0];
  const auto is_own = [&](PyTypeObject* type) {
    return both(equal(t.load(held, py::kTypeField), address(type)),
                equal(t.load(held, py::kRefcountField, kCount), t.integer(1)));
  };
  switch (value.kind) {
    case Kind::Float:
      return either(
          t, is_own(&PyFloat_Type), [&] { t.store(held, py::kFloatValue, number, cfg::Mem::F64); },
          [&] { update(t, kStoreFloat, slot, t.op(Op::Bits, Type::I64, number)); });
    case Kind::Int: {
      // An int object that holds at least one digit takes a positive value of one digit.
      constexpr int64_t kLeast = py::kMostSharedInt + 1, kOne = py::kIntsHaveTags ? 1 << py::kIntSignBits : 1;
      const cfg::Id own = is_own(&PyLong_Type);
      const cfg::Id fits = t.op(Op::Below, Type::I64, t.op(Op::Sub, Type::I64, number, t.integer(kLeast)),
                                t.integer((int64_t{1} << PyLong_SHIFT) - kLeast));
      return either(
          t, both(own, fits),
          [&] {
            const cfg::Id tag = t.load(held, py::kIntTag);
            const cfg::Id has_room = py::kIntsHaveTags ? t.op(Op::Le, Type::I64, t.integer(kOne), tag)
                                                       : t.op(Op::Ne, Type::I64, tag, t.integer(0));
            either(
                t, has_room,
                [&] {
                  t.store(held, py::kIntTag, t.integer(kOne));
                  t.store(held, py::kIntDigit, number, cfg::Mem::I32);
                },
                [&] { update(t, kStoreInt, slot, number); });
          },
          [&] { store_small_int(t, slot, held, number); });
    }
    case Kind::Character: update(t, kStoreCharacter, slot, number); return;
    default: {
      const cfg::Id made = t.op(Op::Select, Type::I64, number, address(Py_True), address(Py_False));
      const cfg::Id other = t.op(Op::Select, Type::I64, number, address(Py_False), address(Py_True));
      const auto count = [&](cfg::Id object, int64_t by) {
        if constexpr (!py::kHasImmortals)
          t.store(object, py::kRefcountField,
                  t.op(Op::Add, Type::I64, t.load(object, py::kRefcountField, kCount), t.integer(by)), kCount);
      };
      return either(
          t, equal(held, made), [] {},
          [&] {
            either(
                t, equal(held, other),
                [&] {
                  t.store(slot, 0, made);
                  count(made, 1);
                  count(other, -1);
                },
                [&] { update(t, kStoreBool, slot, number); });
          });
    }
  }
}

std::string held_as(const Typed& v) {
  switch (v.kind) {
    case Kind::Float: return "f";
    case Kind::Int: return "i";
    case Kind::Bool: return "b";
    case Kind::Character: return "u";
    case Kind::Scalar: return v.dtype == DType::F64 ? "d" : v.dtype == DType::I64 ? "q" : "";
    case Kind::List: return "l" + v.holds;
    case Kind::Tuple: {
      std::string out = "(";
      for (const Typed& item : v.items) {
        const std::string part = item.is_number() || item.kind == Kind::Character ? held_as(item) : "";
        if (part.empty()) return "";
        out += part;
      }
      return out + ")";
    }
    default: return "";
  }
}

namespace {

/// The list that the instruction makes, without a value.
Typed list_here(LoopTranslator& t, std::string holds) {
  Typed list;
  list.kind = Kind::List;
  list.holds = std::move(holds);
  list.array = 1 + (t.frame().pc << 1);
  return list;
}

Typed list_at(LoopTranslator& t, cfg::Id address, std::string holds) {
  Typed list = list_here(t, std::move(holds));
  list.ids = {address};
  unbox_where_made(t, list);
  return list;
}

/// The type of the items of a display, if they have one type; else "".
std::string held_in(const Typed& display) {
  std::string holds = display.items.empty() ? "" : held_as(display.items[0]);
  for (const Typed& item : display.items)
    if (held_as(item) != holds) holds = "";
  return holds;
}

void require_loop(LoopTranslator& t) {
  if (t.recursion.is_recursion) throw NotCompiled{"a new list"};
}

}  // namespace

Typed made_list(LoopTranslator& t, const Typed& display) {
  require_loop(t);
  Typed items = display;
  for (Typed& item : items.items) item = item.kind == Kind::Display ? made_list(t, item) : known(t, item);
  for (const Typed& item : items.items) check_is_number(t, item);
  std::string holds = held_in(items);
  if (Typed list = list_here(t, holds); makes_numbers(t, list, {items})) {
    make_numbers(t, list, numbers_in(t, items));
    put_numbers(t, list, t.integer(0), items);
    return list;
  }
  Parts parts(t);
  parts.add(items);
  return list_at(t, update(t, kNewList, parts.code(), t.integer(0)), std::move(holds));
}

std::optional<Typed> list_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b) {
  const auto is_list = [&](const Typed& v) { return v.kind == Kind::Display || list_of(t, v); };
  // A display stays one where numbers are made of it.
  const auto operand = [&](Typed v) {
    if (v.kind != Kind::Display) return *list_of(t, v);
    for (Typed& item : v.items) item = item.kind == Kind::Display ? made_list(t, item) : known(t, item);
    v.holds = held_in(v);
    return v;
  };
  const auto as_list = [&](const Typed& v) { return v.kind == Kind::Display ? made_list(t, v) : v; };
  if (nb == kMul && (is_list(a) || is_list(b)) && (a.kind == Kind::Int || b.kind == Kind::Int)) {
    require_loop(t);
    const Typed from = operand(is_list(a) ? a : b);
    const cfg::Id times = (is_list(a) ? b : a).ids[0];
    Typed list = list_here(t, from.holds);
    if (from.kind == Kind::Display && from.items.size() == 1 && makes_numbers(t, list, {from})) {
      make_numbers(t, list,
                   t.op(Op::Select, Type::I64, t.op(Op::Lt, Type::I64, t.integer(0), times), times, t.integer(0)));
      check_is_number(t, from.items[0]);
      put_copies(t, list, from.items[0]);
      return list;
    }
    return list_at(t, update(t, kRepeatList, boxed_operand(t, as_list(from)), times), from.holds);
  }
  if (nb != kAdd || !is_list(a) || !is_list(b)) return std::nullopt;
  require_loop(t);
  const Typed first = operand(a), second = operand(b);
  Typed list = list_here(t, first.holds == second.holds ? first.holds : "");
  if (makes_numbers(t, list, {first, second})) {
    const cfg::Id of_first = numbers_in(t, first);
    make_numbers(t, list, t.op(Op::Add, Type::I64, of_first, numbers_in(t, second)));
    put_numbers(t, list, t.integer(0), first);
    put_numbers(t, list, of_first, second);
    return list;
  }
  return list_at(t, update(t, kJoinLists, boxed_operand(t, as_list(first)), boxed_operand(t, as_list(second))),
                 list.holds);
}

Typed part_of_list(LoopTranslator& t, const Typed& list, const Typed& key) {
  require_loop(t);
  const std::optional<Cut> cut = cut_of(t, key, count_of(t, list));
  if (!cut || cut->down || !t.cfg.is_const(cut->step) || t.cfg.at(cut->step).imm != 1)
    throw NotCompiled{"a part of a list with a step"};
  if (Typed part = list_here(t, list.holds); makes_numbers(t, part, {list})) {
    make_numbers(t, part, cut->count);
    put_part(t, part, list, cut->first);
    return part;
  }
  return list_at(t, update(t, kPartOfList, boxed_operand(t, list), cut->first, cut->count), list.holds);
}

std::optional<Typed> list_from(LoopTranslator& t, const Typed& v) {
  require_loop(t);
  if (const std::optional<Typed> list = list_of(t, v)) {
    const cfg::Id count = count_of(t, *list);
    if (Typed copy = list_here(t, list->holds); makes_numbers(t, copy, {*list})) {
      make_numbers(t, copy, count, true);
      put_part(t, copy, *list, t.integer(0));
      return copy;
    }
    return list_at(t, update(t, kListOfSequence, boxed_operand(t, *list), t.integer(0)), list->holds);
  }
  if (v.kind == Kind::String) return list_at(t, update(t, kListOfSequence, address_of_string(t, v), t.integer(0)), "u");
  if (v.kind != Kind::Range) return std::nullopt;
  const Typed iterator = iterator_over(t, v);
  if (Typed list = list_here(t, "i"); makes_numbers(t, list, {})) {
    make_numbers(t, list, iterator.ids[1], true);
    put_range(t, list, iterator.ids[0], iterator.ids[2]);
    return list;
  }
  return list_at(t, update(t, kListOfRange, iterator.ids[0], iterator.ids[2], iterator.ids[1]), "i");
}

std::optional<Typed> builtin_of_list(LoopTranslator& t, PyObject* builtin, const std::string& name, const Typed& v) {
  const bool is_sorted = name == "sorted";
  if (!is_sorted && name != "sum" && name != "max" && name != "min") return std::nullopt;
  const std::optional<Typed> list = v.kind == Kind::Display ? made_list(t, v) : list_of(t, v);
  const std::string holds = list ? t.items_of(*list) : "";
  if (holds != "f" && holds != "i") return std::nullopt;
  require_loop(t);
  t.note_whole(*list);
  if (is_sorted) {
    if (Typed sorted = list_here(t, holds); makes_numbers(t, sorted, {*list})) {
      make_numbers(t, sorted, count_of(t, *list), true);
      put_part(t, sorted, *list, t.integer(0));
      sort_numbers(t, sorted);
      return sorted;
    }
  } else if (std::optional<Typed> number = number_of_list(t, name, *list)) {
    return number;
  }
  t.program->held.push_back(Ref<>::share(builtin));
  const cfg::Id function = t.address(builtin), from = boxed_operand(t, *list);
  if (is_sorted) return list_at(t, update(t, kSortedList, function, from), holds);
  update(t, holds == "f" ? kFloatOfList : kIntOfList, function, from);
  const cfg::Id at = t.address(&given);
  return holds == "f" ? of_float(t.load(at, 0, cfg::Mem::F64)) : of_int(t.load(at, 0));
}

Typed call_with_objects(LoopTranslator& t, PyObject* function, const std::vector<Typed>& args, Typed::Kind result) {
  require_loop(t);
  if (args.size() > kMostArguments) throw NotCompiled{"a call with many arguments"};
  t.program->held.push_back(Ref<>::share(function));
  Parts parts(t);
  for (const Typed& a : args) parts.add(a);
  const cfg::Function& called = result == Kind::Float ? kFloatOfCall : result == Kind::Int ? kIntOfCall : kBoolOfCall;
  update(t, called, t.address(function), parts.code());
  const cfg::Id at = t.address(&given);
  if (result == Kind::Float) return of_float(t.load(at, 0, cfg::Mem::F64));
  return result == Kind::Int ? of_int(t.load(at, 0)) : of_bool(t.load(at, 0));
}

void append(LoopTranslator& t, const Typed& list, const Typed& item) {
  check_is_number(t, item);
  if (append_unboxed(t, list, item)) return;
  if (list.holds.empty()) t.note_appended(list, held_as(item));
  const cfg::Id to = list.ids[0];
  switch (item.kind) {
    case Kind::Float: update(t, kAppendFloat, to, t.op(Op::Bits, Type::I64, item.ids[0])); return;
    case Kind::Int: update(t, kAppendInt, to, item.ids[0]); return;
    case Kind::Bool: update(t, kAppendBool, to, item.ids[0]); return;
    case Kind::List: update(t, kAppendList, to, boxed(t, item)); return;
    default: break;
  }
  require_loop(t);
  Parts parts(t);
  parts.add(item.kind == Kind::Display ? made_list(t, item) : item);
  update(t, kAppendBuilt, to, parts.code());
}

Typed take_last(LoopTranslator& t, const Typed& list, bool is_unpacked) {
  if (std::optional<Typed> item = take_last_unboxed(t, list, is_unpacked)) return *item;
  const cfg::Id size = count_of(t, list);
  t.check(t.op(Op::Ne, Type::I64, size, t.integer(0)));
  Typed item = boxed_item(t, list, t.op(Op::Sub, Type::I64, size, t.integer(1)));
  const bool may_be_held = item.kind == Kind::Tuple && (!is_unpacked || holds_item(t));
  const bool is_held = item.kind == Kind::List || may_be_held;
  update(t, kDropLast, list.ids[0], t.integer(is_held));
  if (item.kind == Kind::Tuple && is_unpacked) item.ids.clear();
  return item;
}

}  // namespace framejit::capture
