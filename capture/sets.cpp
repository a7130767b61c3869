// Sets of plain objects. The order of a set follows from its whole history. Of one that is made during capture that is
// what is kept: `items` are pairs of a SetChange and its operand, and `object` is a set of our own to which all of them
// were made. Results of operators have no history (`partial`): they can be asked, but not be made again at an exit.
//
// An existing set has the changes that are in the log as its `items`; what it held before is `object`, of which a guard
// says all (Elements: the order too), or as much as was asked while it is `partial`. In which order it stands once it
// is changed is not known.
#include "capture/sets.h"

#include "capture/builtins.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/objects.h"
#include "capture/py/interpreter.h"
#include "capture/py/repr.h"
#include "capture/symbolic_frame.h"

namespace framejit::capture {

namespace {

constexpr std::size_t kHistory = 2000;
constexpr Py_ssize_t kMostElements = 100;  // that a guard looks at one by one in each run

bool told_by_equality(PyObject* o) {
  return PyUnicode_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || o == Py_None || o == Py_Ellipsis ||
         (PyType_Check(o) && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(o), Py_TPFLAGS_HEAPTYPE));
}

Unexpected<Break> unknown(const std::string& what) { return break_at(BreakId::UnknownObject, what); }

/// An existing set is given up where it is another one each time, or may be.
Captured<bool> may_ask(Executor& x, const Value* set) {
  if (x.options().variants >= kMostVariants) return unknown("a set that varies");
  PyObject* item;
  Py_ssize_t at = 0;
  Py_hash_t hash;
  while (_PySet_NextEntry(set->object.get(), &at, &item, &hash))
    if (!is_plain_key(item)) return unknown("a set with elements of unknown behaviour");
  return true;
}

Captured<bool> open_set(Executor& x, Value* set) {
  if (!set->partial) return true;
  FRAMEJIT_REQUIRE(may_ask(x, set));
  if (PySet_GET_SIZE(set->object.get()) > kMostElements)
    return break_at(BreakId::CapturedTooMuch, "a set of many elements");
  Ref<> items = Ref<>::steal(PySequence_Tuple(set->object.get()));
  if (!items) PyErr_Clear();
  for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i)  // equal ones are one object to the guard
    if (!told_by_equality(PyTuple_GET_ITEM(items.get(), i))) return unknown("a set with elements that may be others");
  if (!items) return unknown("a set");
  guard(x, GuardKind::Elements, set->source, items.get());
  set->partial = false;
  x.session().undo().learn([set] { set->partial = true; });
  return true;
}

bool replay(PyObject* set, const std::vector<Value*>& changes) {
  for (std::size_t i = 0; i < changes.size(); i += 2)
    if (!change_set(set, static_cast<int>(PyLong_AsLong(changes[i]->object.get())), changes[i + 1]->object.get()))
      return false;
  return true;
}

bool rebuild(Value* set) {
  Ref<> made = Ref<>::steal(PySet_New(nullptr));
  if (made && !replay(made.get(), set->items)) made = {};
  if (!made) PyErr_Clear();
  set->object = made;
  return static_cast<bool>(made);
}

/// What a set holds, as a set that nobody changes meanwhile; null: of this nothing is known.
Captured<Ref<>> contents(Executor& x, Value* v) {
  if (v->is_constant() && PyFrozenSet_CheckExact(v->object.get()) && is_plain(v->object.get())) return v->object;
  if (v->kind != ValueKind::Set) return Ref<>();
  if (!v->source && !v->object && !rebuild(v)) return unknown("a set");  // changes were taken back
  if (!v->source) return v->object;
  FRAMEJIT_REQUIRE(open_set(x, v));
  if (v->items.empty()) return v->object;
  Ref<> copy = Ref<>::steal(PySet_New(v->object.get()));
  if (copy && replay(copy.get(), v->items)) return copy;
  PyErr_Clear();
  return Ref<>();
}

/// The same as a set from outside that was not changed, a constant, or null.
bool stands_still(const Value* v) { return v->is_constant() || (v->source && v->items.empty()); }

/// `given`: the operand as the program has it.
Captured<bool> change(Executor& x, Value* set, SetChange how, PyObject* operand, Value* given) {
  if (set->items.size() > kHistory) return break_at(BreakId::CapturedTooMuch, "a set of long history");
  if (!set->source) {
    if (set->partial) return break_at(BreakId::CapturedTooMuch, "a set of long history");
  } else if (!PySet_CheckExact(set->object.get())) {
    return unknown("a change of a frozenset");
  } else if (how != kSetAdd) {  // what goes must be known
    FRAMEJIT_REQUIRE(open_set(x, set));
  } else if (set->partial) {
    FRAMEJIT_REQUIRE(may_ask(x, set));
    if (PySet_GET_SIZE(set->object.get()) > kMostElements)
      return break_at(BreakId::CapturedTooMuch, "a set of many elements");
    guard(x, GuardKind::Elements, set->source, nullptr, nullptr, kMostElements);
  }
  Value* number = x.values().integer(graph::Dim(static_cast<int64_t>(how)));
  set->items.push_back(number);
  set->items.push_back(x.values().constant(operand));
  x.session().undo().record(set, [set] {
    set->items.resize(set->items.size() - 2);
    if (!set->source) set->object = {};
  });
  if (set->source) {
    x.effects().change_set(set, number, given);
  } else if (!set->object) {
    return rebuild(set) ? Captured<bool>(true) : unknown("a set");
  } else if (!change_set(set->object.get(), how, operand)) {
    PyErr_Clear();
    return unknown("a set");
  }
  return true;
}

}  // namespace

/// An element by equality alone, or a class.
Ref<> element(Executor& x, Value* v) {
  v = look(x, v);
  Ref<> o = v->is_constant() && Py_IS_TYPE(v->object.get(), &PyType_Type) ? v->object : plain(x, v);
  return o && !has_nan(o.get()) ? o : Ref<>();
}

bool change_set(PyObject* set, int how, PyObject* operand) {
  switch (static_cast<SetChange>(how)) {
    case kSetAdd: return PySet_Add(set, operand) == 0;
    case kSetUpdate: return _PySet_Update(set, operand) == 0;
    case kSetDiscard: return PySet_Discard(set, operand) >= 0;
    case kSetClear: return PySet_Clear(set) == 0;
  }
  return false;
}

Captured<Value*> make_set(Executor& x) {
  Value* set = x.values().make(ValueKind::Set);
  return rebuild(set) ? Captured<Value*>(set) : unknown("a set");
}

Captured<bool> set_add(Executor& x, Value* set, Value* item) {
  if (set->source && look(x, item)->kind == ValueKind::Int) return unknown("an element that varies");
  Ref<> o = element(x, item);
  if (set->kind != ValueKind::Set || !o) return unknown("an element of a set");
  return change(x, set, kSetAdd, o.get(), item);
}

Captured<bool> set_update(Executor& x, Value* set, Value* iterable) {
  if (set->kind != ValueKind::Set || iterable->kind == ValueKind::Dict) return unknown("a set from this");
  if (set == iterable) return true;  // its table is not even made larger
  FRAMEJIT_TRY(other, contents(x, iterable));
  if (other && iterable->kind == ValueKind::Set && !iterable->source && !iterable->partial) {  // as it is now
    Value* copy = x.values().make(ValueKind::Set);
    copy->items = iterable->items;
    if (!rebuild(copy)) return unknown("a set");
    return change(x, set, kSetUpdate, copy->object.get(), copy);
  }
  // Tables are copied, in an order of their own.
  if (other && (!stands_still(iterable) || (iterable->source && !set->source))) return unknown("a set from this");
  if (other) return change(x, set, kSetUpdate, other.get(), iterable);
  FRAMEJIT_TRY(iterator, iterate(x, iterable));
  for (;;) {
    FRAMEJIT_TRY(item, next_item(x, iterator));
    if (!item) return true;
    FRAMEJIT_REQUIRE(set_add(x, set, look(x, item)));
  }
}

Captured<Value*> set_method(Executor& x, Value* set, const std::string& name, const Values& args) {
  if (name == "add" && args.size() == 1) {
    FRAMEJIT_REQUIRE(set_add(x, set, args[0]));
    return x.none();
  }
  if ((name == "discard" || name == "remove") && args.size() == 1) {
    Ref<> o = element(x, args[0]);
    if (!o) return unknown("an element of a set");
    FRAMEJIT_TRY(held, contents(x, set));
    if (held && name == "remove" && PySet_Contains(held.get(), o.get()) != 1) return key_error(x, args[0]);
    FRAMEJIT_REQUIRE(change(x, set, kSetDiscard, o.get(), args[0]));
    return x.none();
  }
  if (name == "clear" && args.empty()) {
    FRAMEJIT_REQUIRE(change(x, set, kSetClear, Py_None, x.none()));
    return x.none();
  }
  if (name == "update") {
    for (Value* arg : args) {
      FRAMEJIT_REQUIRE(set_update(x, set, look(x, arg)));
    }
    return x.none();
  }
  static constexpr std::pair<const char*, int> kOperators[] = {
      {"intersection", 1}, {"union", 7}, {"difference", 10}, {"symmetric_difference", 12}};
  for (const auto& [method, op] : kOperators)
    if (name == method && args.size() == 1) return set_binary(x, op, set, look(x, args[0]));
  if ((name == "isdisjoint" || name == "issubset" || name == "issuperset") && args.size() == 1) {
    FRAMEJIT_TRY(other, contents(x, look(x, args[0])));
    FRAMEJIT_TRY(held, contents(x, set));
    Ref<> answer =
        other && held ? Ref<>::steal(PyObject_CallMethod(held.get(), name.c_str(), "O", other.get())) : Ref<>();
    if (answer) return x.values().constant(answer.get());
    PyErr_Clear();
  }
  return break_at(BreakId::UnknownCallable, "'set." + name + "'");
}

Captured<Value*> set_binary(Executor& x, int nb, Value* left, Value* right) {
  const int op = nb % 13;
  FRAMEJIT_TRY(held, contents(x, left));
  FRAMEJIT_TRY(other, contents(x, right));
  PyObject *l = held.get(), *r = other.get();
  if (!l || !r) return unknown("operator of a set");
  if (nb >= 13 && left->kind == ValueKind::Set && PySet_CheckExact(l)) {
    if (op != 7) return unknown("operator of a set in place");
    FRAMEJIT_REQUIRE(set_update(x, left, right));
    return left;
  }
  Ref<> result = Ref<>::steal(op == 1    ? PyNumber_And(l, r)
                              : op == 7  ? PyNumber_Or(l, r)
                              : op == 10 ? PyNumber_Subtract(l, r)
                              : op == 12 ? PyNumber_Xor(l, r)
                                         : nullptr);
  if (!result) {
    PyErr_Clear();
    return unknown("operator of a set");
  }
  if (PyFrozenSet_CheckExact(result.get())) {
    if (left->source || right->source) return unknown("operator of a frozenset");
    return x.values().constant(result.get());
  }
  Value* set = x.values().make(ValueKind::Set);
  set->object = result;
  set->partial = true;
  return set;
}

Captured<Value*> set_compare(Executor& x, int op, Value* left, Value* right) {
  FRAMEJIT_TRY(held, contents(x, left));
  FRAMEJIT_TRY(other, contents(x, right));
  Ref<> result = held && other ? Ref<>::steal(PyObject_RichCompare(held.get(), other.get(), op)) : Ref<>();
  if (!result) {
    PyErr_Clear();
    return unknown("comparison of a set");
  }
  return x.values().constant(result.get());
}

Captured<bool> set_contains(Executor& x, Value* set, Value* item) {
  if (set->source && look(x, item)->kind == ValueKind::Int) return unknown("in a set, of what varies");
  const Ref<> o = element(x, item);
  if (!o) return unknown("in a set");
  const bool asks = set->kind == ValueKind::Set && set->source && set->partial;
  if (asks)
    for (std::size_t i = 1; i < set->items.size(); i += 2)  // added: all else opens it
      if (PyObject_RichCompareBool(set->items[i]->object.get(), o.get(), Py_EQ) == 1) return true;
  FRAMEJIT_TRY(held, asks ? Captured<Ref<>>(set->object) : contents(x, set));
  if (asks) {
    FRAMEJIT_REQUIRE(may_ask(x, set));
  }
  const int found = held ? PySet_Contains(held.get(), o.get()) : -1;
  if (found < 0) {
    PyErr_Clear();
    return unknown("in a set");
  }
  if (asks) guard(x, GuardKind::Member, set->source, nullptr, o.get(), found);
  return found == 1;
}

Captured<int64_t> set_size(Executor& x, Value* set) {
  if (set->source && set->items.empty()) {
    if (x.options().variants >= kMostVariants) return unknown("a set that varies");
    guard(x, GuardKind::Length, set->source, nullptr, nullptr, PySet_GET_SIZE(set->object.get()));
    return PySet_GET_SIZE(set->object.get());
  }
  FRAMEJIT_TRY(held, contents(x, set));
  return held ? Captured<int64_t>(PySet_GET_SIZE(held.get())) : unknown("len() of a set");
}

// An iterator over the set as it is; the set must not change meanwhile.
Captured<Value*> iterate_set(Executor& x, Value* set) {
  if (set->source && !set->items.empty()) return unknown("iteration over a set that was changed");
  FRAMEJIT_TRY(held, contents(x, set));
  Ref<> items = held ? Ref<>::steal(PySequence_Tuple(held.get())) : Ref<>();
  if (!items) {
    PyErr_Clear();
    return unknown("iteration over a set");
  }
  Value* it = x.values().make(ValueKind::Iterator);
  it->as_iterator().over = Over::Set;
  it->items = {set, literal(x, items.get()), x.values().integer(graph::Dim(static_cast<int64_t>(set->items.size())))};
  return it;
}

}  // namespace framejit::capture
