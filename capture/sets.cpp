// Sets of plain objects that are made during capture. The order of a set follows from its whole history, so that is what
// is kept: `items` are pairs of a SetChange and its operand, and `object` is a set of our own to which all of them were
// made. Results of operators have no history (`partial`): they can be asked, but not be made again at an exit.
#include "capture/builtins.h"
#include "capture/py/repr.h"
#include "capture/symbolic_frame.h"

namespace framejit::capture {

namespace {

constexpr std::size_t kHistory = 2000;

PyObject* mirror(const Value* v) {
  if (v->kind == ValueKind::Set) return v->object.get();
  return v->is_constant() && PyFrozenSet_CheckExact(v->object.get()) && is_plain(v->object.get()) ? v->object.get()
                                                                                                    : nullptr;
}

/// An element by equality alone.
Ref<> element(Executor& x, Value* v) {
  Ref<> o = x.plain(v);
  return o && !has_nan(o.get()) ? o : Ref<>();
}

bool rebuild(Value* set) {
  Ref<> made = Ref<>::steal(PySet_New(nullptr));
  for (std::size_t i = 0; made && i < set->items.size(); i += 2)
    if (!change_set(made.get(), static_cast<int>(PyLong_AsLong(set->items[i]->object.get())),
                    set->items[i + 1]->object.get()))
      made = {};
  if (!made) PyErr_Clear();
  set->object = made;
  return static_cast<bool>(made);
}

Captured<bool> change(Executor& x, Value* set, SetChange how, PyObject* operand) {
  if (set->partial || set->items.size() > kHistory) return break_at(BreakId::CapturedTooMuch, "a set of long history");
  set->items.push_back(x.session().integer(graph::Dim(static_cast<int64_t>(how))));
  set->items.push_back(x.session().constant(operand));
  x.session().record(set, [set] {
    set->items.resize(set->items.size() - 2);
    rebuild(set);
  });
  if (!change_set(set->object.get(), how, operand)) {
    PyErr_Clear();
    return break_at(BreakId::UnknownObject, "a set");
  }
  return true;
}

Unexpected<Break> unknown(const std::string& what) { return break_at(BreakId::UnknownObject, what); }

}  // namespace

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
  Ref<> o = element(*this, item);
  if (set->kind != ValueKind::Set || !o) return unknown("an element of a set");
  return change(*this, set, kSetAdd, o.get());
}

Captured<bool> Executor::set_update(Value* set, Value* iterable) {
  if (set->kind != ValueKind::Set || iterable->kind == ValueKind::Dict || iterable->kind == ValueKind::Set)
    return unknown("a set from this");  // their tables are copied, in an order of their own
  if (mirror(iterable)) return change(*this, set, kSetUpdate, iterable->object.get());
  FRAMEJIT_TRY(iterator, iterate(iterable));
  for (;;) {
    FRAMEJIT_TRY(item, next(iterator));
    if (!item) return true;
    FRAMEJIT_TRY(added, set_add(set, look(item)));
    (void)added;
  }
}

Captured<Value*> Executor::set_method(Value* set, const std::string& name, const Values& args) {
  if (name == "add" && args.size() == 1) {
    FRAMEJIT_TRY(added, set_add(set, args[0]));
    (void)added;
    return none();
  }
  if ((name == "discard" || name == "remove") && args.size() == 1) {
    Ref<> o = element(*this, args[0]);
    if (!o) return unknown("an element of a set");
    if (name == "remove" && PySet_Contains(set->object.get(), o.get()) != 1) return key_error(args[0]);
    FRAMEJIT_TRY(done, change(*this, set, kSetDiscard, o.get()));
    (void)done;
    return none();
  }
  if (name == "clear" && args.empty()) {
    FRAMEJIT_TRY(done, change(*this, set, kSetClear, Py_None));
    (void)done;
    return none();
  }
  if (name == "update") {
    for (Value* arg : args) {
      FRAMEJIT_TRY(done, set_update(set, look(arg)));
      (void)done;
    }
    return none();
  }
  if ((name == "isdisjoint" || name == "issubset" || name == "issuperset") && args.size() == 1 && mirror(look(args[0]))) {
    Ref<> answer = Ref<>::steal(PyObject_CallMethod(set->object.get(), name.c_str(), "O", mirror(look(args[0]))));
    if (answer) return session_.constant(answer.get());
    PyErr_Clear();
  }
  return break_at(BreakId::UnknownCallable, "'set." + name + "'");
}

Captured<Value*> Executor::set_binary(int nb, Value* left, Value* right) {
  const int op = nb % 13;
  PyObject *l = mirror(left), *r = mirror(right);
  if (!l || !r) return unknown("operator of a set");
  if (nb >= 13 && left->kind == ValueKind::Set) {
    if (op != 7 || right->kind == ValueKind::Set) return unknown("operator of a set in place");
    FRAMEJIT_TRY(done, set_update(left, right));
    (void)done;
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
  if (PyFrozenSet_CheckExact(result.get())) return session_.constant(result.get());
  Value* set = session_.make(ValueKind::Set);
  set->object = result;
  set->partial = true;
  return set;
}

Captured<Value*> Executor::set_compare(int op, Value* left, Value* right) {
  PyObject *l = mirror(left), *r = mirror(right);
  Ref<> result = l && r ? Ref<>::steal(PyObject_RichCompare(l, r, op)) : Ref<>();
  if (!result) {
    PyErr_Clear();
    return unknown("comparison of a set");
  }
  return session_.constant(result.get());
}

Captured<bool> Executor::set_contains(Value* set, Value* item) {
  Ref<> o = element(*this, item);
  const int found = o ? PySet_Contains(mirror(set), o.get()) : -1;
  if (found < 0) {
    PyErr_Clear();
    return unknown("in a set");
  }
  return found == 1;
}

// An iterator over the set as it is; the set must not change meanwhile.
Captured<Value*> Executor::iterate_set(Value* set) {
  Ref<> items = Ref<>::steal(PySequence_Tuple(mirror(set)));
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
