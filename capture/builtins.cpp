// Builtin functions and types over Values: a table of handlers by name. What is not in it is a Break.

#include "capture/builtins.h"

#include <cstring>

#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/generators.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/named_tuples.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/abstract.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/symbolic_frame.h"
#include "capture/text.h"

namespace framejit::capture {

namespace {

constexpr int kNesting = 32;      // of tuples of classes: CPython's recursion has a limit
constexpr int kDeepestShown = 8;  // of tuples and lists that are printed

using Handler = Captured<Value*> (*)(Executor&, const Values&);

Unexpected<Break> unsupported(const char* name) {
  return break_at(BreakId::UnsupportedArgument, std::string(name) + "()");
}

Captured<Value*> do_len(Executor& x, const Values& a) { return a.size() == 1 ? length(x, a[0]) : unsupported("len"); }

Captured<Value*> do_abs(Executor& x, const Values& a) {
  if (a.size() != 1) return unsupported("abs");
  Session& s = x.session();
  Value* v = a[0];
  if (Frontend* frontend = frontend_of(x, *v)) return frontend->call_method(s, v, "__abs__", {}, {});
  if (v->kind == ValueKind::Int)
    return x.shapes().holds(graph::Relation::Lt, v->dim(), graph::Dim(0)) ? number_unary(x, Unary::Negative, v) : v;
  if (v->is_array() && v->wrap() == Wrap::PyFloat) {
    const graph::ValueId operands[] = {v->id()};
    graph::BuildResult made = s.builder().elementwise(graph::Op::Absolute, operands);
    if (made) return s.values().array(*made, Wrap::PyFloat);
  }
  if (!v->is_constant() || !is_number(*v)) return unsupported("abs");
  Ref<> result = Ref<>::steal(PyNumber_Absolute(v->object.get()));
  if (!result) {
    PyErr_Clear();
    return unsupported("abs");
  }
  return s.values().constant(result.get());
}

/// An existing list or tuple of many floats: each would be a node and a guard, and the interpreter is faster than
/// these.
bool is_of_many_floats(Executor& x, const Value* v) {
  constexpr Py_ssize_t kMany = 128;
  PyObject* const object = v->source ? v->object.get() : nullptr;
  if (!object || x.options().fullgraph || x.session().tapes().any()) return false;
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  return PySequence_Fast_GET_SIZE(object) > kMany && PyFloat_Check(PySequence_Fast_GET_ITEM(object, 0));
}

Captured<Value*> extreme(Executor& x, const Values& a, int op, const char* name) {
  Values items = a;
  if (a.size() == 1) {
    if (is_of_many_floats(x, a[0])) return break_at(BreakId::CapturedTooMuch, std::string(name) + "() of many numbers");
    FRAMEJIT_TRY(unpacked, unpack(x, a[0]));
    items = std::move(unpacked);
  }
  Value* best = nullptr;
  for (Value* item : items) {
    item = look(x, item);
    if (!is_number(*item) && !(item->is_constant() && is_plain(item->object.get()))) return unsupported(name);
    if (best) {
      FRAMEJIT_TRY(wins, compare(x, op, item, best));
      FRAMEJIT_TRY(truth, truth_of(x, wins));
      if (!truth) continue;
    }
    best = item;
  }
  return best ? Captured<Value*>(best) : raises(x, PyExc_ValueError, std::string(name) + "() arg is an empty sequence");
}
Captured<Value*> do_min(Executor& x, const Values& a) { return extreme(x, a, Py_LT, "min"); }
Captured<Value*> do_max(Executor& x, const Values& a) { return extreme(x, a, Py_GT, "max"); }

/// The sum of known numbers as the interpreter makes it; null: one is not known, or is no exact number.
Value* sum_of_constants(Executor& x, const Values& items, Value* start) {
  const auto is_known = [&](Value*& v) {
    v = look(x, v);
    return v->is_constant() && (PyLong_CheckExact(v->object.get()) || PyFloat_CheckExact(v->object.get()) ||
                                PyComplex_CheckExact(v->object.get()));
  };
  Values known = items;
  if (known.empty() || !is_known(start) || !std::all_of(known.begin(), known.end(), is_known)) return nullptr;
  const Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(known.size())));
  for (std::size_t i = 0; list && i < known.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Ref<>(known[i]->object).release());
  static PyObject* const sum = PyDict_GetItemString(PyEval_GetBuiltins(), "sum");
  const Ref<> total =
      list ? Ref<>::steal(PyObject_CallFunctionObjArgs(sum, list.get(), start->object.get(), nullptr)) : Ref<>();
  if (!total) PyErr_Clear();
  return total ? literal(x, total.get()) : nullptr;
}

Captured<Value*> do_sum(Executor& x, const Values& a) {
  if (a.empty() || a.size() > 2) return unsupported("sum");
  if (is_of_many_floats(x, a[0])) return break_at(BreakId::CapturedTooMuch, "sum() of many numbers");
  // sum() of an array adds its rows one by one, as iteration gives them.
  FRAMEJIT_TRY(items, unpack(x, a[0]));
  Value* total = a.size() == 2 ? a[1] : x.values().integer(graph::Dim(0));
  PyObject* start = type_of(x, look(x, total));
  for (PyTypeObject* refused : {&PyUnicode_Type, &PyBytes_Type, &PyByteArray_Type})
    if (!start || PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(start), refused)) return unsupported("sum");
  if (Value* known = sum_of_constants(x, items, total)) return known;
  if (py::kSumCompensates && (a[0]->kind != ValueKind::List || a[0]->items == items)) {
    FRAMEJIT_TRY(sum, compensated_sum(x, items, total));
    if (sum) return sum;
  }
  for (Value* item : items) {
    if (a[0]->kind == ValueKind::List && a[0]->items != items) return unsupported("sum");  // __add__ changed it
    item = look(x, item);
    for (const auto& [type, compensated] :
         {std::pair(&PyFloat_Type, py::kSumCompensates), std::pair(&PyComplex_Type, py::kSumCompensatesAll)})
      if (compensated && type_of(x, item) == reinterpret_cast<PyObject*>(type)) return unsupported("sum");
    if (type_of(x, item) == reinterpret_cast<PyObject*>(&PyUnicode_Type)) return unsupported("sum");
    FRAMEJIT_TRY(next, binary(x, 0, total, item));
    total = next;
  }
  return total;
}

Captured<Value*> any_all(Executor& x, const Values& a, bool stop, const char* name) {
  if (a.size() != 1) return unsupported(name);
  FRAMEJIT_TRY(iterator, iterate(x, a[0]));
  for (;;) {
    FRAMEJIT_TRY(item, next_item(x, iterator));
    if (!item) return x.boolean(!stop);
    FRAMEJIT_TRY(truth, truth_of(x, look(x, item)));
    if (truth == stop) return x.boolean(stop);
  }
}
Captured<Value*> do_any(Executor& x, const Values& a) { return any_all(x, a, true, "any"); }
Captured<Value*> do_all(Executor& x, const Values& a) { return any_all(x, a, false, "all"); }

Captured<Value*> do_isinstance(Executor& x, const Values& a) {
  if (a.size() != 2) return unsupported("isinstance");
  PyObject* type = type_of(x, a[0]);
  if (!type) return unsupported("isinstance");
  FRAMEJIT_TRY(is, instance_of(x, reinterpret_cast<PyTypeObject*>(type), a[1]));
  return x.boolean(is);
}

Captured<Value*> do_getattr(Executor& x, const Values& a) {
  if (a.size() < 2 || a.size() > 3 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object.get()))
    return unsupported("getattr");
  if (a.size() == 3) {
    FRAMEJIT_TRY(has, has_attr(x, a[0], a[1]->object.get()));
    if (!has) return a[2];
  }
  return get_attr(x, a[0], a[1]->object.get());
}

Captured<Value*> do_hasattr(Executor& x, const Values& a) {
  if (a.size() != 2 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object.get())) return unsupported("hasattr");
  FRAMEJIT_TRY(has, has_attr(x, a[0], a[1]->object.get()));
  return x.boolean(has);
}

Captured<Value*> do_iter(Executor& x, const Values& a) {
  return a.size() == 1 ? iterate(x, a[0]) : unsupported("iter");
}

Captured<Value*> do_next(Executor& x, const Values& a) {
  if (a.empty() || a.size() > 2) return unsupported("next");
  Value* it = a[0];
  if (it->kind == ValueKind::Object) {
    static PyObject* const kNext = interned("__next__");
    Captured<Value*> item = special(x, it, kNext, {});
    if (item && !*item) return unsupported("next");
    const Value* raised = item ? nullptr : item.error().raised;
    const bool stop =
        raised && PyType_IsSubtype(class_of(*raised), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration));
    return stop && a.size() == 2 ? Captured<Value*>(a[1]) : item;
  }
  if (it->kind != ValueKind::Iterator || it->as_iterator().position == kView) return unsupported("next");
  FRAMEJIT_TRY(item, next_item(x, it));
  if (item) return look(x, item);
  return a.size() == 2 ? Captured<Value*>(a[1]) : stops(x, it);
}

Captured<Value*> do_callable(Executor& x, const Values& a) {
  if (a.size() != 1) return unsupported("callable");
  auto* type = reinterpret_cast<PyTypeObject*>(type_of(x, a[0]));
  if (!type) return unsupported("callable");
  if (a[0]->kind == ValueKind::Object) {
    static PyObject* const kCall = interned("__call__");
    guard_lookup(x, a[0], type_attr(type, kCall), kCall);
  }
  return x.boolean(type->tp_call != nullptr);
}

Captured<Value*> do_issubclass(Executor& x, const Values& a) {
  if (a.size() != 2 || !a[0]->is_constant() || !PyType_Check(a[0]->object.get())) return unsupported("issubclass");
  FRAMEJIT_TRY(is, subclass_of(x, reinterpret_cast<PyTypeObject*>(a[0]->object.get()), a[1]));
  return x.boolean(is);
}

Captured<Value*> do_setattr(Executor& x, const Values& a) {
  if (a.size() != 3 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object.get())) return unsupported("setattr");
  FRAMEJIT_REQUIRE(set_attr(x, a[0], a[1]->object.get(), a[2]));
  return x.none();
}

Captured<Value*> do_delattr(Executor& x, const Values& a) {
  if (a.size() != 2 || !a[1]->is_constant() || !PyUnicode_CheckExact(a[1]->object.get())) return unsupported("delattr");
  FRAMEJIT_REQUIRE(set_attr(x, a[0], a[1]->object.get(), nullptr));
  return x.none();
}

Captured<Value*> do_pow(Executor& x, const Values& a) {
  return a.size() == 2 ? binary(x, 8, a[0], a[1]) : unsupported("pow");
}

Captured<Value*> do_sorted(Executor& x, const Values& a) {
  if (a.size() != 1) return unsupported("sorted");
  FRAMEJIT_TRY(items, unpack(x, a[0], true));
  return sorted(x, std::move(items), nullptr, false);
}

Captured<Value*> do_divmod(Executor& x, const Values& a) {
  if (Frontend* frontend = a.size() == 2 ? frontend_of(x, *a[0]) : nullptr)
    return frontend->call_method(x.session(), a[0], "__divmod__", {&a[1], 1}, {});
  if (a.size() != 2 || !is_number(*a[0]) || !is_number(*a[1])) return unsupported("divmod");
  return number_divmod(x, a[0], a[1]);
}

/// The value that print() gets: a copy if the value may change later. It breaks if making its text may run code of the
/// program's.
Captured<Value*> shown(Executor& x, Value* v, int depth = 0) {
  v = look(x, v);
  if (v->kind == ValueKind::Text || v->kind == ValueKind::Int) return v;
  if (const Ref<> known = plain_text(x, v)) {
    if (has_long_int(known.get())) return break_at(BreakId::UserEffect, "print of a long int");
    return v;
  }
  if (v->is_array()) {
    Frontend* frontend = frontend_of(x, *v);
    if (!frontend || v->wrap() == Wrap::NumpyScalar) return v;
    if (is_shown_whole(x, v)) return copy_of(x, v);
  }
  if ((v->kind == ValueKind::Tuple || v->kind == ValueKind::List) && !v->partial && depth < kDeepestShown) {
    Values items;
    for (Value* item : Values(v->items)) {
      FRAMEJIT_TRY(each, shown(x, item, depth + 1));
      items.push_back(each);
    }
    if (v->kind == ValueKind::Tuple) return x.values().tuple(std::move(items));
    Value* list = x.values().make(ValueKind::List);
    list->items = std::move(items);
    return list;
  }
  return break_at(BreakId::UserEffect, "print of an object whose text is not known");
}

/// Where a function has to be one graph, it prints when the graph has run, before and after the stores beside it. What
/// raises there could be caught nowhere. With flush=True it must be seen at once.
Captured<Value*> call_print(Executor& x, PyObject* function, const Values& args, const Keywords& keywords) {
  const bool whole = x.options().fullgraph || x.session().tapes().any();
  if (!whole || (x.frame && x.frame->may_catch())) return break_at(BreakId::UserEffect, "print");
  Values items;
  for (Value* arg : args) {
    const std::size_t effects = x.effects().log().size();
    FRAMEJIT_TRY(own, text_by_class(x, look(x, arg), 1));
    if (x.effects().log().size() != effects)  // print() has written the arguments before by then
      return break_at(BreakId::UserEffect, "print of an object whose text has effects");
    FRAMEJIT_TRY(item, own ? Captured<Value*>(own) : shown(x, arg));
    items.push_back(item);
  }
  Ref<> names;
  if (!keywords.empty()) names = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(keywords.size())));
  for (std::size_t i = 0; i < keywords.size(); ++i) {
    const auto& [name, given] = keywords[i];
    Value* value = look(x, given);
    const std::string key = text_of(name);
    const bool fits = (key == "sep" || key == "end")
                          ? value->is_none() || (value->is_constant() && PyUnicode_CheckExact(value->object.get()))
                          : key == "flush" && value->is_constant() && value->object.get() == Py_False;
    if (!names || !fits) return break_at(BreakId::UserEffect, "print");
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(name));
    items.push_back(value);
  }
  x.effects().print(function, std::move(items), std::move(names));
  return x.none();
}

struct Row {
  const char* name;
  Handler handler;
};
constexpr Row kFunctions[] = {{"len", do_len},
                              {"abs", do_abs},
                              {"min", do_min},
                              {"max", do_max},
                              {"sum", do_sum},
                              {"any", do_any},
                              {"all", do_all},
                              {"isinstance", do_isinstance},
                              {"getattr", do_getattr},
                              {"hasattr", do_hasattr},
                              {"iter", do_iter},
                              {"next", do_next},
                              {"callable", do_callable},
                              {"divmod", do_divmod},
                              {"issubclass", do_issubclass},
                              {"setattr", do_setattr},
                              {"delattr", do_delattr},
                              {"pow", do_pow},
                              {"sorted", do_sorted}};

// Pure functions of numbers that raise or give a number, and are cheap for every argument.
constexpr const char* kMath[] = {"sqrt",  "exp",   "log",      "log2",     "log10",   "log1p",  "expm1", "sin",
                                 "cos",   "tan",   "asin",     "acos",     "atan",    "atan2",  "sinh",  "cosh",
                                 "tanh",  "floor", "ceil",     "trunc",    "fabs",    "pow",    "fmod",  "hypot",
                                 "isnan", "isinf", "isfinite", "copysign", "degrees", "radians"};

// Pure functions of plain objects, whose results are plain and small.
constexpr const char* kPure[] = {"ord",  "chr", "hex", "oct",     "bin",   "repr",  "ascii", "round",
                                 "hash", "gcd", "lcm", "isclose", "isqrt", "ldexp", "format"};

Captured<Value*> fold_plain(Executor& x, PyObject* function, const Values& args) {
  Ref<> packed = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  if (!packed) PyErr_Clear();
  for (std::size_t i = 0; packed && i < args.size(); ++i) {
    Ref<> arg = plain_text(x, args[i]);
    if (!arg)
      return break_at(BreakId::UnknownCallable, short_repr(function) + " of a value that is known only at run time");
    PyTuple_SET_ITEM(packed.get(), static_cast<Py_ssize_t>(i), arg.release());
  }
  Ref<> result = packed ? Ref<>::steal(PyObject_Call(function, packed.get(), nullptr)) : Ref<>();
  if (!result) return raises_current(x, short_repr(function));
  return fresh(x, result.get());
}

Captured<Value*> fold_math(Executor& x, PyObject* function, const Values& args) {
  Ref<> packed = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  if (!packed) PyErr_Clear();
  for (std::size_t i = 0; packed && i < args.size(); ++i) {
    Value* known = is_number(*args[i]) ? specialize(x, args[i]) : nullptr;
    if (!known || PyComplex_CheckExact(known->object.get()))
      return break_at(BreakId::UnknownCallable, short_repr(function) + " of a value that is known only at run time");
    PyTuple_SET_ITEM(packed.get(), static_cast<Py_ssize_t>(i), Ref<>(known->object).release());
  }
  Ref<> result = packed ? Ref<>::steal(PyObject_Call(function, packed.get(), nullptr)) : Ref<>();
  if (!result) return raises_current(x, short_repr(function));
  return x.values().constant(result.get());
}

/// Is reading `__class__` of an object of this type sure to give the type? A proxy's gives that of what it stands for.
bool tells_its_type(Executor& x, PyTypeObject* type) {
  static PyObject* const kClass = interned("__class__");
  static PyObject* const kGetAttribute = interned("__getattribute__");
  PyObject* getter = type_attr(type, kGetAttribute);
  PyObject* cls = type_attr(type, kClass);
  if (cls != type_attr(&PyBaseObject_Type, kClass) || !Py_IS_TYPE(getter, &PyWrapperDescr_Type)) return false;
  void* reads = reinterpret_cast<PyWrapperDescrObject*>(getter)->d_wrapped;
  const auto is = [reads](getattrofunc read) { return reads == reinterpret_cast<void*>(read); };
  if (!is(PyObject_GenericGetAttr) && !is(PyType_Type.tp_getattro) && !is(PyModule_Type.tp_getattro) &&
      !is(PyMethod_Type.tp_getattro) && !is(PySuper_Type.tp_getattro))
    return false;
  if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return true;
  const SourceRef source = fixed_source(reinterpret_cast<PyObject*>(type), type->tp_name);
  guard(x, GuardKind::TypeAttr, source, getter, kGetAttribute, 1);
  guard(x, GuardKind::TypeAttr, source, cls, kClass, 1);
  return true;
}

/// Is `type`, or an instance of it, one of `cls`, as the class's metaclass checks? One of the user's may answer as it
/// likes: a Break.
Captured<bool> checked(Executor& x, PyTypeObject* type, const Value* cls, bool instance) {
  const char* const name = instance ? "__instancecheck__" : "__subclasscheck__";
  const auto unknown = unsupported(instance ? "isinstance" : "issubclass");
  PyObject* c = cls->is_constant() ? cls->object.get() : nullptr;
  if (!c || !PyType_Check(c)) return unknown;
  PyTypeObject* meta = Py_TYPE(c);
  const SourceRef source = fixed_source(c, reinterpret_cast<PyTypeObject*>(c)->tp_name);
  PyObject* check = type_attr(meta, name);
  if (check == type_attr(&PyType_Type, name)) {
    if (!PyType_HasFeature(meta, Py_TPFLAGS_IMMUTABLETYPE))
      guard(x, GuardKind::TypeAttr, source, check, interned(name));
    guard_mro(x, type);
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(c))) return true;
    return instance && !tells_its_type(x, type) ? Captured<bool>(unknown) : false;
  }
  if (!is_abstract_check(check, name) || (instance && !tells_its_type(x, type))) return unknown;
  const std::optional<bool> is = is_abstract_subclass(type, c);
  const unsigned long long* registrations = abstract_registrations();
  if (!is || !registrations) return unknown;
  for (const char* each : {"__instancecheck__", "__subclasscheck__"})
    guard(x, GuardKind::TypeAttr, source, type_attr(meta, each), interned(each));
  if (*is) return true;  // for good
  Guard g{};
  g.kind = GuardKind::Registrations;
  g.number = static_cast<int64_t>(*registrations);
  x.session().guards().add(std::move(g));
  return false;
}

}  // namespace

namespace {

/// The classes of a union in place of it.
Value* without_union(Executor& x, Value* cls) {
  if (!cls->is_constant() || !is_union(cls->object.get())) return cls;
  Ref<> args = Ref<>::steal(PyObject_GetAttrString(cls->object.get(), "__args__"));
  if (!args) PyErr_Clear();
  return args && PyTuple_CheckExact(args.get()) ? literal(x, args.get()) : cls;
}

}  // namespace

Captured<bool> subclass_of(Executor& x, PyTypeObject* type, Value* cls, int depth) {
  cls = without_union(x, cls);
  if (cls->kind == ValueKind::Tuple) {
    if (depth > kNesting) return unsupported("issubclass");
    for (Value* each : cls->items) {
      FRAMEJIT_TRY(is, subclass_of(x, type, look(x, each), depth + 1));
      if (is) return true;
    }
    return false;
  }
  return checked(x, type, cls, false);
}

// Stable, by `<`: what any sort of plain keys that have one order gives.
Captured<Value*> sorted(Executor& x, Values items, Value* key, bool reverse) {
  const auto count = static_cast<Py_ssize_t>(items.size());
  Ref<> rows = Ref<>::steal(PyList_New(0));
  PyTypeObject* type = nullptr;
  for (Py_ssize_t i = 0; rows && i < count; ++i) {
    Value* item = look(x, items[static_cast<std::size_t>(i)]);
    if (key) {
      FRAMEJIT_TRY(made, call(x, key, {item}, {}));
      item = look(x, made);
    }
    Ref<> k = plain(x, item);
    const bool ordered =
        k && (PyLong_CheckExact(k.get()) || PyUnicode_CheckExact(k.get()) || PyTuple_CheckExact(k.get()) ||
              (PyFloat_CheckExact(k.get()) && PyFloat_AS_DOUBLE(k.get()) == PyFloat_AS_DOUBLE(k.get())));
    if (!ordered || (type && Py_TYPE(k.get()) != type))
      return break_at(BreakId::UnknownObject, "sorted() of values that are known only at run time");
    for (Py_ssize_t j = 0; PyTuple_CheckExact(k.get()) && j < PyTuple_GET_SIZE(k.get()); ++j) {
      PyObject* part = PyTuple_GET_ITEM(k.get(), j);
      if (!PyLong_CheckExact(part) && !PyUnicode_CheckExact(part))
        return break_at(BreakId::UnknownObject, "sorted() of values that are known only at run time");
    }
    type = Py_TYPE(k.get());
    Ref<> row = Ref<>::steal(Py_BuildValue("(On)", k.get(), reverse ? -i : i));
    if (!row || PyList_Append(rows.get(), row.get()) < 0) rows = {};
  }
  if (!rows || PyList_Sort(rows.get()) < 0) return raises_current(x, "sorted()");
  Value* list = x.values().make(ValueKind::List);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* row = PyList_GET_ITEM(rows.get(), reverse ? count - 1 - i : i);
    const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(row, 1));
    list->items.push_back(items[static_cast<std::size_t>(at < 0 ? -at : at)]);
  }
  return list;
}

Captured<bool> instance_of(Executor& x, PyTypeObject* type, Value* cls, int depth) {
  cls = without_union(x, cls);
  if (cls->kind == ValueKind::Tuple) {
    if (depth > kNesting) return unsupported("isinstance");
    for (Value* each : cls->items) {
      FRAMEJIT_TRY(is, instance_of(x, type, look(x, each), depth + 1));
      if (is) return true;
    }
    return false;
  }
  if (cls->is_constant() && cls->object.get() == reinterpret_cast<PyObject*>(type)) return true;
  return checked(x, type, cls, true);
}

namespace {

bool is_builtin_named(PyObject* callable, const char* name) {
  return PyCFunction_Check(callable) &&
         std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, name) == 0;
}

}  // namespace

// A Python function that does the same is followed. Plain zip, min, max, sum, sorted and round are known here.
Value* polyfill(Executor& x, PyObject* callable, const Keywords& keywords) {
  if (keywords.empty()) {
    if (callable == reinterpret_cast<PyObject*>(&PyZip_Type)) return nullptr;
    for (const char* name : {"min", "max", "sum"})
      if (is_builtin_named(callable, name)) return nullptr;
  }
  for (const char* name : {"sorted", "round"})
    if (is_builtin_named(callable, name)) return nullptr;
  return polyfill(x, callable);
}

Value* polyfill(Executor& x, PyObject* callable) {
  const bool kind = PyCFunction_Check(callable) || Py_IS_TYPE(callable, &PyType_Type) ||
                    Py_IS_TYPE(callable, &PyClassMethodDescr_Type) || Py_IS_TYPE(callable, &PyMethodDescr_Type) ||
                    Py_IS_TYPE(callable, &PyGetSetDescr_Type);
  PyObject* function = x.options().polyfill && kind ? x.options().polyfill(callable) : nullptr;
  return function ? function_at(x, function, short_repr(callable)) : nullptr;
}

Captured<std::pair<Value*, bool>> sort_order(Executor& x, const Keywords& keywords) {
  std::pair<Value*, bool> order{nullptr, false};
  for (const auto& [name, given] : keywords) {
    Value* value = look(x, given);
    if (text_of(name) == "reverse") {
      FRAMEJIT_TRY(reverse, truth_of(x, value));
      order.second = reverse;
    } else if (text_of(name) == "key") {
      order.first = value->is_none() ? nullptr : value;
    } else {
      return unsupported("sort");
    }
  }
  return order;
}

Captured<Value*> call_builtin(Executor& x, PyObject* callable, const Values& raw, const Keywords& keywords) {
  Values args;
  for (Value* a : raw) args.push_back(look(x, a));
  if (Value* function = polyfill(x, callable, keywords)) {
    FRAMEJIT_TRY(result, call_function(x, function, args, keywords));
    result = look(x, result);
    if (PyType_Check(callable) && result->kind == ValueKind::Iterator && !result->as_iterator().type)
      result->as_iterator().type = Ref<>::share(callable);
    if (PyType_Check(callable) && result->kind == ValueKind::Function) result->transient = true;  // of another type
    return result;
  }
  // Of what is known at run time only.
  auto or_spelled = [&](auto&& own) -> Captured<Value*> {
    const Session::Mark mark = x.session().mark();
    Captured<Value*> result = own();
    const bool gives_up =
        !result && !result.error().raised &&
        (result.error().id == BreakId::UnsupportedArgument || result.error().id == BreakId::UnknownCallable ||
         result.error().id == BreakId::UnknownObject || result.error().id == BreakId::CapturedTooMuch);
    Value* function = gives_up ? polyfill(x, callable) : nullptr;
    if (!function) return result;
    x.session().rollback(mark);
    Captured<Value*> spelled = call_function(x, function, args, keywords);
    return spelled || spelled.error().raised ? spelled : result;  // the first reason is the telling one
  };
  if (callable == tuple_new() && !args.empty() && keywords.empty()) return make_tuple_instance(x, args);
  if (PyType_Check(callable)) return call_type(x, reinterpret_cast<PyTypeObject*>(callable), args, keywords);
  if (PyCFunction_Check(callable)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
    const std::string module = function->m_module ? text_of(function->m_module) : "";
    const char* name = function->m_ml->ml_name;
    if (module == "builtins" && std::strcmp(name, "sorted") == 0 && args.size() == 1 && !keywords.empty()) {
      return or_spelled([&]() -> Captured<Value*> {
        FRAMEJIT_TRY(items, unpack(x, args[0], true));
        FRAMEJIT_TRY(order, sort_order(x, keywords));
        return sorted(x, std::move(items), order.first, order.second);
      });
    }
    if (module == "builtins" && std::strcmp(name, "print") == 0) return call_print(x, callable, args, keywords);
    if (module == "builtins" && keywords.empty()) {
      for (const Row& row : kFunctions)
        if (std::strcmp(row.name, name) == 0) return or_spelled([&] { return row.handler(x, args); });
    }
    if ((module == "builtins" || module == "math" || module == "math.integer") && keywords.empty()) {
      if (!args.empty() && args.size() <= 2 && module == "builtins" && !plain_text(x, args[0])) {
        if (std::strcmp(name, "format") == 0) return formatted(x, args[0], 0, args.size() > 1 ? args[1] : nullptr);
        if (std::strcmp(name, "repr") == 0 && args.size() == 1) return formatted(x, args[0], 2, nullptr);
      }
      for (const char* pure : kPure)
        if (std::strcmp(pure, name) == 0) return or_spelled([&] { return fold_plain(x, callable, args); });
    }
    if (module == "math" && keywords.empty()) {
      for (const char* known_name : kMath)
        if (std::strcmp(known_name, name) == 0) return fold_math(x, callable, args);
    }
  }
  return break_at(BreakId::UnknownCallable, "'" + short_repr(callable) + "'");
}

}  // namespace framejit::capture
