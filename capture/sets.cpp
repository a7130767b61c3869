// Sets of plain objects. The order of a set follows from its whole history. Of one that is made during capture that is
// what is kept: `items` are pairs of a SetChange and its operand, and `object` is a set of our own to which all of them
// were made. Results of operators have no history (`partial`): they can be asked, but not be made again at an exit.
//
// An existing set has the changes that are in the log as its `items`; what it held before is `object`, of which a guard
// says all (Elements: the order too), or as much as was asked while it is `partial`. In which order it stands once it
// is changed is not known.
#include "capture/builtins.h"
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
  x.guard(GuardKind::Elements, set->source, items.get());
  set->partial = false;
  x.session().learn([set] { set->partial = true; });
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
    x.guard(GuardKind::Elements, set->source, nullptr, nullptr, kMostElements);
  }
  Value* number = x.session().integer(graph::Dim(static_cast<int64_t>(how)));
  set->items.push_back(number);
  set->items.push_back(x.session().constant(operand));
  x.session().record(set, [set] {
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
Ref<> Executor::element(Value* v) {
  v = look(v);
  Ref<> o = v->is_constant() && Py_IS_TYPE(v->object.get(), &PyType_Type) ? v->object : plain(v);
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

Captured<Value*> Executor::make_set() {
  Value* set = session_.make(ValueKind::Set);
  return rebuild(set) ? Captured<Value*>(set) : unknown("a set");
}

Captured<bool> Executor::set_add(Value* set, Value* item) {
  if (set->source && look(item)->kind == ValueKind::Int) return unknown("an element that varies");
  Ref<> o = element(item);
  if (set->kind != ValueKind::Set || !o) return unknown("an element of a set");
  return change(*this, set, kSetAdd, o.get(), item);
}

Captured<bool> Executor::set_update(Value* set, Value* iterable) {
  if (set->kind != ValueKind::Set || iterable->kind == ValueKind::Dict) return unknown("a set from this");
  if (set == iterable) return true;  // its table is not even made larger
  FRAMEJIT_TRY(other, contents(*this, iterable));
  if (other && iterable->kind == ValueKind::Set && !iterable->source && !iterable->partial) {  // as it is now
    Value* copy = session_.make(ValueKind::Set);
    copy->items = iterable->items;
    if (!rebuild(copy)) return unknown("a set");
    return change(*this, set, kSetUpdate, copy->object.get(), copy);
  }
  // Tables are copied, in an order of their own.
  if (other && (!stands_still(iterable) || (iterable->source && !set->source))) return unknown("a set from this");
  if (other) return change(*this, set, kSetUpdate, other.get(), iterable);
  FRAMEJIT_TRY(iterator, iterate(iterable));
  for (;;) {
    FRAMEJIT_TRY(item, next(iterator));
    if (!item) return true;
    FRAMEJIT_REQUIRE(set_add(set, look(item)));
  }
}

Captured<Value*> Executor::set_method(Value* set, const std::string& name, const Values& args) {
  if (name == "add" && args.size() == 1) {
    FRAMEJIT_REQUIRE(set_add(set, args[0]));
    return none();
  }
  if ((name == "discard" || name == "remove") && args.size() == 1) {
    Ref<> o = element(args[0]);
    if (!o) return unknown("an element of a set");
    FRAMEJIT_TRY(held, contents(*this, set));
    if (held && name == "remove" && PySet_Contains(held.get(), o.get()) != 1) return key_error(args[0]);
    FRAMEJIT_REQUIRE(change(*this, set, kSetDiscard, o.get(), args[0]));
    return none();
  }
  if (name == "clear" && args.empty()) {
    FRAMEJIT_REQUIRE(change(*this, set, kSetClear, Py_None, none()));
    return none();
  }
  if (name == "update") {
    for (Value* arg : args) {
      FRAMEJIT_REQUIRE(set_update(set, look(arg)));
    }
    return none();
  }
  static constexpr std::pair<const char*, int> kOperators[] = {
      {"intersection", 1}, {"union", 7}, {"difference", 10}, {"symmetric_difference", 12}};
  for (const auto& [method, op] : kOperators)
    if (name == method && args.size() == 1) return set_binary(op, set, look(args[0]));
  if ((name == "isdisjoint" || name == "issubset" || name == "issuperset") && args.size() == 1) {
    FRAMEJIT_TRY(other, contents(*this, look(args[0])));
    FRAMEJIT_TRY(held, contents(*this, set));
    Ref<> answer =
        other && held ? Ref<>::steal(PyObject_CallMethod(held.get(), name.c_str(), "O", other.get())) : Ref<>();
    if (answer) return session_.constant(answer.get());
    PyErr_Clear();
  }
  return break_at(BreakId::UnknownCallable, "'set." + name + "'");
}

Captured<Value*> Executor::set_binary(int nb, Value* left, Value* right) {
  const int op = nb % 13;
  FRAMEJIT_TRY(held, contents(*this, left));
  FRAMEJIT_TRY(other, contents(*this, right));
  PyObject *l = held.get(), *r = other.get();
  if (!l || !r) return unknown("operator of a set");
  if (nb >= 13 && left->kind == ValueKind::Set && PySet_CheckExact(l)) {
    if (op != 7) return unknown("operator of a set in place");
    FRAMEJIT_REQUIRE(set_update(left, right));
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
    return session_.constant(result.get());
  }
  Value* set = session_.make(ValueKind::Set);
  set->object = result;
  set->partial = true;
  return set;
}

Captured<Value*> Executor::set_compare(int op, Value* left, Value* right) {
  FRAMEJIT_TRY(held, contents(*this, left));
  FRAMEJIT_TRY(other, contents(*this, right));
  Ref<> result = held && other ? Ref<>::steal(PyObject_RichCompare(held.get(), other.get(), op)) : Ref<>();
  if (!result) {
    PyErr_Clear();
    return unknown("comparison of a set");
  }
  return session_.constant(result.get());
}

Captured<bool> Executor::set_contains(Value* set, Value* item) {
  if (set->source && look(item)->kind == ValueKind::Int) return unknown("in a set, of what varies");
  const Ref<> o = element(item);
  if (!o) return unknown("in a set");
  const bool asks = set->kind == ValueKind::Set && set->source && set->partial;
  if (asks)
    for (std::size_t i = 1; i < set->items.size(); i += 2)  // added: all else opens it
      if (PyObject_RichCompareBool(set->items[i]->object.get(), o.get(), Py_EQ) == 1) return true;
  FRAMEJIT_TRY(held, asks ? Captured<Ref<>>(set->object) : contents(*this, set));
  if (asks) {
    FRAMEJIT_REQUIRE(may_ask(*this, set));
  }
  const int found = held ? PySet_Contains(held.get(), o.get()) : -1;
  if (found < 0) {
    PyErr_Clear();
    return unknown("in a set");
  }
  if (asks) guard(GuardKind::Member, set->source, nullptr, o.get(), found);
  return found == 1;
}

Captured<int64_t> Executor::set_size(Value* set) {
  if (set->source && set->items.empty()) {
    if (options_.variants >= kMostVariants) return unknown("a set that varies");
    guard(GuardKind::Length, set->source, nullptr, nullptr, PySet_GET_SIZE(set->object.get()));
    return PySet_GET_SIZE(set->object.get());
  }
  FRAMEJIT_TRY(held, contents(*this, set));
  return held ? Captured<int64_t>(PySet_GET_SIZE(held.get())) : unknown("len() of a set");
}

// An iterator over the set as it is; the set must not change meanwhile.
Captured<Value*> Executor::iterate_set(Value* set) {
  if (set->source && !set->items.empty()) return unknown("iteration over a set that was changed");
  FRAMEJIT_TRY(held, contents(*this, set));
  Ref<> items = held ? Ref<>::steal(PySequence_Tuple(held.get())) : Ref<>();
  if (!items) {
    PyErr_Clear();
    return unknown("iteration over a set");
  }
  Value* it = session_.make(ValueKind::Iterator);
  it->iterated = kOverSet;
  it->items = {set, literal(items.get()), session_.integer(graph::Dim(static_cast<int64_t>(set->items.size())))};
  return it;
}

}  // namespace framejit::capture
