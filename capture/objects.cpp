// How existing objects become Values: what is guarded when an object is looked at, and one Value for each mutable
// object.
#include "capture/objects.h"

#include <algorithm>

#include "capture/attributes.h"
#include "capture/containers.h"
#include "capture/instances.h"
#include "capture/named_tuples.h"
#include "capture/py/drops.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/symbolic_frame.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

Value* wrap_container(Executor& x, PyObject* o, SourceRef source);

constexpr Py_ssize_t kContainerLimit = 2000;  // items of an existing list or dict that are worth looking at
constexpr int kNestingLimit = 32;

SourceRef item_source(const SourceRef& base, int index, PyObject* key = nullptr) {
  auto s = std::make_shared<Source>();
  s->kind = SourceKind::Item;
  s->base = base;
  s->index = index;
  s->key = Ref<>::share(key);
  return s;
}

SourceRef part_source(SourceKind kind, const SourceRef& base) {
  auto s = std::make_shared<Source>();
  s->kind = kind;
  s->base = base;
  return s;
}

/// Would the guard of a dict's keys keep a class alive?
bool has_class(PyObject* key) {
  if (PyType_Check(key)) return PyType_HasFeature(reinterpret_cast<PyTypeObject*>(key), Py_TPFLAGS_HEAPTYPE);
  if (!PyTuple_CheckExact(key)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (has_class(PyTuple_GET_ITEM(key, i))) return true;
  return false;
}

constexpr const char* kRangeParts[] = {"start", "stop", "step"};

/// A range whose numbers are far from the limits of 64 bits.
bool is_small_range(PyObject* o) {
  if (!PyRange_Check(o)) return false;
  for (const char* part : kRangeParts) {
    const Ref<> number = Ref<>::steal(PyObject_GetAttrString(o, part));
    if (!number) return PyErr_Clear(), false;
    if (!PyLong_CheckExact(number.get()) || _PyLong_NumBits(number.get()) > 60) return false;
  }
  return true;
}

bool is_singleton(PyObject* o) {
  return o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || o == Py_NotImplemented;
}

// Objects that are what they are called, and do not change in a way that matters: an Identity guard says all.
bool is_fixed(PyObject* o) {
  return PyCFunction_Check(o) || PyType_Check(o) || PyModule_CheckExact(o) || PyCode_Check(o) ||
         Py_IS_TYPE(o, &PyMethodDescr_Type) || Py_IS_TYPE(o, &PyWrapperDescr_Type) ||
         Py_IS_TYPE(o, &PyClassMethodDescr_Type);
}

}  // namespace

void guard(Executor& x, GuardKind kind, const SourceRef& source, PyObject* object, PyObject* key, int64_t number) {
  Guard g{};
  g.kind = kind;
  g.source = source;
  g.object = Ref<>::share(object);
  g.key = Ref<>::share(key);
  g.number = number;
  x.session().guards().add(std::move(g));
}

// An item that is found costs a third of an instruction, one that is guarded almost as much as one.
Value* lazy(Executor& x, PyObject* object, SourceRef source) {
  x.session().work().spend(8);
  Value* v = x.values().make(ValueKind::Lazy);
  v->object = Ref<>::share(object);
  v->source = std::move(source);
  return v;
}

Value* look(Executor& x, Value* v) {
  if (!v || v->kind != ValueKind::Lazy) return v;
  if (v->items.empty()) {
    x.session().work().spend(24);
    v->items.push_back(wrap(x, v->object.get(), v->source));
    x.session().undo().learn([v] { v->items.clear(); });
  }
  return v->items[0];
}

Value* literal(Executor& x, PyObject* object) {
  if (PySlice_Check(object)) {  // 3.14 has constants of slices
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    Value* v = x.values().make(ValueKind::Slice);
    v->items = {literal(x, slice->start), literal(x, slice->stop), literal(x, slice->step)};
    return v;
  }
  if (!PyTuple_CheckExact(object)) return x.values().constant(object);
  Values items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) items.push_back(literal(x, PyTuple_GET_ITEM(object, i)));
  Value* v = x.values().tuple(std::move(items));
  v->object = Ref<>::share(object);
  return v;
}

Value* fresh(Executor& x, PyObject* object) {
  Value* v = literal(x, object);
  if (v->kind == ValueKind::Tuple && !v->items.empty()) v->object = {};
  return v;
}

Value* cell_of(Executor& x, PyObject* cell, SourceRef source) {
  if (auto seen = x.tracked().find(cell); seen != x.tracked().end()) {
    if (!same(*seen->second.source, *source)) {
      Guard g{};
      g.kind = GuardKind::SameObject;
      g.source = source;
      g.other = seen->second.source;
      x.session().guards().add(std::move(g));
    }
    return seen->second.value;
  }
  Value* v = x.values().make(ValueKind::Cell);
  v->source = source;
  v->object = Ref<>::share(cell);
  if (PyObject* contents = PyCell_GET(cell))
    v->items.push_back(lazy(x, contents, part_source(SourceKind::Cell, source)));
  return x.track(cell, source, v);
}

Value* wrap(Executor& x, PyObject* o, SourceRef source) {
  if (PyObject* descriptor = descriptor_of_builtin(o)) {  // another one each time that it is asked for
    guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(&PyCFunction_Type));
    guard(x, GuardKind::Identity, part_source(SourceKind::Method, source), descriptor);
    Value* v = x.values().make(ValueKind::BoundMethod);
    v->object = Ref<>::share(o);
    v->source = source;
    v->items = {lazy(x, PyCFunction_GET_SELF(o), part_source(SourceKind::Self, source)), nullptr};
    v->as_method().name = Ref<>::share(reinterpret_cast<PyDescrObject*>(descriptor)->d_name);
    return v;
  }
  const bool library = std::any_of(x.session().frontends().begin(), x.session().frontends().end(),
                                   [&](Frontend* frontend) { return frontend->is_fixed(o); });
  if (is_singleton(o) || is_fixed(o) || library) {
    guard(x, GuardKind::Identity, source, o);
    Value* v = x.values().constant(o);
    v->source = source;
    return v;
  }
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow && !x.session().varied().names.empty() && x.session().varied().names.count(source->str()) != 0) {
      Guard g{};
      g.kind = GuardKind::IntSymbol;
      g.source = source;
      const graph::Dim symbol = x.shapes().fresh(number);
      g.dim.left = symbol;
      x.session().guards().add(std::move(g));
      Value* v = x.values().integer(symbol);
      v->source = source;
      v->object = Ref<>::share(o);
      return v;
    }
  }
  if (PyLong_CheckExact(o) || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o)) {
    guard(x, GuardKind::Equal, source, o);
    Value* v = x.values().constant(o);
    v->source = source;
    return v;
  }
  // A global number is a constant of the program until it is seen to change.
  if (PyFloat_CheckExact(o) && source->kind == SourceKind::Global &&
      x.session().varied().names.count(source->str()) == 0) {
    guard(x, GuardKind::Equal, source, o);
    Value* v = x.values().constant(o);
    v->source = source;
    return v;
  }
  if (PyFloat_CheckExact(o) || PyComplex_CheckExact(o)) {
    ArraySpec spec;
    spec.wrap = PyFloat_CheckExact(o) ? Wrap::PyFloat : Wrap::PyComplex;
    spec.dtype = PyFloat_CheckExact(o) ? graph::DType::F64 : graph::DType::C128;
    return x.session().inputs().add(o, source, spec);
  }
  if (frontend_for(x, o)) {  // before Python functions: NumPy's wrappers in Python are operators, not code to follow
    guard(x, GuardKind::Identity, source, o);
    Value* v = x.values().constant(o);
    v->source = source;
    return v;
  }
  if (PyFunction_Check(o)) {
    // Code or Identity is guarded when it is called or compared.
    guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(&PyFunction_Type));
    Value* v = x.values().make(ValueKind::Function);
    v->object = Ref<>::share(o);
    v->source = source;
    return v;
  }
  if (is_small_range(o)) {
    guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(&PyRange_Type));
    Value* v = x.values().make(ValueKind::Range);
    v->object = Ref<>::share(o);
    v->source = source;
    for (const char* part : kRangeParts) {
      const Ref<> number = Ref<>::steal(PyObject_GetAttrString(o, part));
      FRAMEJIT_CHECK(number, "a part of a range");
      v->items.push_back(look(x, lazy(x, number.get(), attr_source(source, interned(part)))));
    }
    return v;
  }
  if (PySlice_Check(o)) {
    guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(&PySlice_Type));
    Value* v = x.values().make(ValueKind::Slice);
    v->object = Ref<>::share(o);
    v->source = source;
    const auto* slice = reinterpret_cast<PySliceObject*>(o);
    v->items = {lazy(x, slice->start, attr_source(source, interned("start"))),
                lazy(x, slice->stop, attr_source(source, interned("stop"))),
                lazy(x, slice->step, attr_source(source, interned("step")))};
    return v;
  }
  if (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) <= kContainerLimit) {
    Value* v = x.values().make(ValueKind::Tuple);
    v->object = Ref<>::share(o);
    v->source = source;
    guard(x, GuardKind::Length, source, nullptr, nullptr, PyTuple_GET_SIZE(o));
    guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(&PyTuple_Type));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      v->items.push_back(lazy(x, PyTuple_GET_ITEM(o, i), item_source(source, static_cast<int>(i))));
    return v;
  }
  if (Py_IS_TYPE(o, &PyMethod_Type)) {
    guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(&PyMethod_Type));
    Value* v = x.values().make(ValueKind::BoundMethod);
    v->object = Ref<>::share(o);
    v->source = source;
    v->items = {lazy(x, PyMethod_GET_SELF(o), part_source(SourceKind::Self, source)),
                lazy(x, PyMethod_GET_FUNCTION(o), part_source(SourceKind::Method, source))};
    return v;
  }
  if (auto seen = x.tracked().find(o); seen != x.tracked().end()) {
    if (!same(*seen->second.source, *source)) {
      Guard g{};
      g.kind = GuardKind::SameObject;
      g.source = source;
      g.other = seen->second.source;
      x.session().guards().add(std::move(g));
    }
    return seen->second.value;
  }
  for (Frontend* frontend : x.session().frontends()) {
    if (!frontend->owns(o)) continue;
    const Session::Mark mark = x.session().mark();
    Captured<Value*> v = frontend->wrap(x.session(), o, source);
    if (v) return (*v)->wrap() == Wrap::NdArray || (*v)->wrap() == Wrap::Tensor ? x.track(o, source, *v) : *v;
    x.session().rollback(mark);
    break;
  }
  return wrap_container(x, o, source);
}

namespace {

Value* wrap_container(Executor& x, PyObject* o, SourceRef source) {
  const bool list = PyList_CheckExact(o), set = PyAnySet_CheckExact(o);
  const bool dict = is_known_dict(o) && !x.effects().stores_variables_of(o);  // its items are others now
  Value* v = x.values().make(list   ? ValueKind::List
                             : dict ? ValueKind::Dict
                             : set  ? ValueKind::Set
                                    : ValueKind::Object);
  v->object = Ref<>::share(o);
  v->source = source;
  v->partial = list || dict || set || is_tuple_class(Py_TYPE(o));
  guard(x, GuardKind::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(o)));
  return x.track(o, source, v);
}

}  // namespace

Captured<bool> open(Executor& x, Value* v) {
  if (!v->partial) return true;
  if (x.session().work().is_limit_exceeded()) return break_at(BreakId::CapturedTooMuch);
  PyObject* o = v->object.get();
  Values items;
  if (v->kind == ValueKind::List) {
    if (PyList_GET_SIZE(o) > kContainerLimit) return break_at(BreakId::CapturedTooMuch, "a list of many items");
    guard(x, GuardKind::Length, v->source, nullptr, nullptr, PyList_GET_SIZE(o));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
      items.push_back(lazy(x, PyList_GET_ITEM(o, i), item_source(v->source, static_cast<int>(i))));
    items.insert(items.end(), v->items.begin(), v->items.end());  // appended before
  } else if (v->kind == ValueKind::Object) {
    if (PyTuple_GET_SIZE(o) > kContainerLimit) return break_at(BreakId::CapturedTooMuch, "a tuple of many items");
    guard(x, GuardKind::Length, v->source, nullptr, nullptr, PyTuple_GET_SIZE(o));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      items.push_back(lazy(x, PyTuple_GET_ITEM(o, i), item_source(v->source, static_cast<int>(i))));
  } else {
    if (is_defaultdict(o) && x.options().variants >= kMostVariants)
      return break_at(BreakId::UnknownObject, "a defaultdict that varies");
    if (PyDict_GET_SIZE(o) > kContainerLimit) return break_at(BreakId::CapturedTooMuch, "a dict of many items");
    Ref<> keys = Ref<>::steal(PyTuple_New(PyDict_GET_SIZE(o)));
    if (!keys) {
      PyErr_Clear();
      return break_at(BreakId::CapturedTooMuch, "out of memory");
    }
    PyObject *key, *value;
    Py_ssize_t at = 0, n = 0;
    while (PyDict_Next(o, &at, &key, &value)) {
      // Equal ones are one object to the guard, and the key itself may be had from here on.
      const bool told_by_equality = PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyBytes_CheckExact(key) ||
                                    is_singleton(key) || Py_IS_TYPE(key, &PyType_Type);
      if (!told_by_equality || has_class(key))
        return break_at(BreakId::UnknownObject, "a dict with keys of unknown behaviour");
      PyTuple_SET_ITEM(keys.get(), n++, Ref<>::share(key).release());
      const int64_t seen = place_of_key(x, v, key);
      Value* known_value = seen < 0 ? nullptr : v->items[static_cast<std::size_t>(seen) + 1];
      items.push_back(x.values().constant(key));
      items.push_back(known_value ? known_value : lazy(x, value, item_source(v->source, -1, key)));
    }
    guard(x, GuardKind::Keys, v->source, keys.get());
  }
  x.session().work().spend(items.size());
  Values before = v->items;
  v->items = std::move(items);
  v->forget_keys();
  v->partial = false;
  x.session().undo().learn([v, before = std::move(before)] {
    v->items = before;
    v->forget_keys();
    v->partial = true;
  });
  return true;
}

namespace {

Captured<bool> force_items(Executor& x, Value* v, int depth) {
  switch (v->kind) {
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Dict:
    case ValueKind::Slice:
    case ValueKind::Range: break;
    default: return true;
  }
  if (depth > kNestingLimit) return break_at(BreakId::UnsupportedArgument, "containers nested too deep");
  FRAMEJIT_REQUIRE(open(x, v));
  for (Value*& item : v->items) {
    if (item && item->kind == ValueKind::Lazy) {
      Value* before = item;
      item = look(x, item);
      const auto at = static_cast<std::size_t>(&item - v->items.data());
      x.session().undo().learn([v, at, before] { v->items[at] = before; });
    }
    if (item) {
      FRAMEJIT_REQUIRE(force_items(x, item, depth + 1));
    }
  }
  return true;
}

}  // namespace

Captured<bool> force(Executor& x, Value* v) { return force_items(x, v, 0); }

PyObject* known(Executor& x, Value* v) {
  if (v->is_constant()) return v->object.get();
  if (v->kind == ValueKind::Function && v->source) {
    guard(x, GuardKind::Identity, v->source, v->object.get());
    return v->object.get();
  }
  return nullptr;
}

Value* specialize(Executor& x, Value* v) {
  if (v->is_constant()) return v;
  if (v->kind == ValueKind::Int) return x.values().integer(graph::Dim(x.shapes().specialize(v->dim())));
  if (v->is_array() && v->wrap() == Wrap::PyFloat && v->source && v->object &&
      x.session().varied().names.count(v->source->str()) == 0) {
    guard(x, GuardKind::Equal, v->source, v->object.get());
    return x.values().constant(v->object.get());
  }
  return nullptr;
}

Ref<> plain(Executor& x, Value* v) {
  v = look(x, v);
  if (v->kind == ValueKind::Tuple) {
    const auto count = static_cast<Py_ssize_t>(v->items.size());
    constexpr int kDeepest = 100;
    if (x.plain_depth >= kDeepest) return {};
    struct Deeper {
      int& depth;
      explicit Deeper(int& d) : depth(d) { ++depth; }
      ~Deeper() { --depth; }
    } const deeper(x.plain_depth);
    Ref<> tuple = count <= kContainerLimit ? Ref<>::steal(PyTuple_New(count)) : Ref<>();
    for (Py_ssize_t i = 0; tuple && i < count; ++i) {
      Ref<> item = plain(x, v->items[static_cast<std::size_t>(i)]);
      if (!item) return {};
      PyTuple_SET_ITEM(tuple.get(), i, item.release());
    }
    if (!tuple) PyErr_Clear();
    return tuple;
  }
  Value* known_value = specialize(x, v);
  return known_value && is_plain(known_value->object.get()) ? known_value->object : Ref<>();
}

Frontend* frontend_of(Executor& x, const Value& v) {
  if (v.kind != ValueKind::Array || v.wrap() == Wrap::PyFloat || v.wrap() == Wrap::PyInt || v.wrap() == Wrap::PyBool ||
      v.wrap() == Wrap::PyComplex)
    return nullptr;
  for (Frontend* frontend : x.session().frontends())
    if (frontend->owns(v)) return frontend;
  return nullptr;
}

Frontend* frontend_for(Executor& x, PyObject* callable) {
  for (Frontend* frontend : x.session().frontends())
    if (frontend->knows(callable)) return frontend;
  return nullptr;
}

bool may_finalize(PyObject* object) {
  Drops drops;
  if (object) drops.lose(object);
  return drops.run_code();
}

bool may_finalize(const Value* v) { return v && v->source && may_finalize(v->object.get()); }

bool may_finalize_in_slot(const Value* v, int local) {
  if (!v || !v->source) return false;
  const bool own = v->source->kind == SourceKind::Local && v->source->index == local;
  return (own || v->source->kind == SourceKind::Stack) && may_finalize(v);
}

bool may_finalize_in(const Value* holder, const Value* v) {
  // An argument moves into the cell that is made of its variable.
  const bool moved = holder->kind == ValueKind::Cell && v && v->source && v->source->kind == SourceKind::Local;
  return holder->source || moved ? may_finalize(v) : may_finalize_in_slot(v);
}

bool may_finalize_in(const Value* list, const Values& before, const Values& after) {
  return std::any_of(before.begin(), before.end(), [&](const Value* v) {
    return may_finalize_in(list, v) && std::find(after.begin(), after.end(), v) == after.end();
  });
}

Unexpected<Break> finalizes() { return break_at(BreakId::UserEffect, "a finalizer that may run"); }

Unexpected<Break> shared_names() { return break_at(BreakId::UserEffect, "a store into a dict of several owners"); }

PyObject* type_of(Executor& x, Value* v) {
  v = owner_of_attributes(v);
  auto as = [](PyTypeObject& type) { return reinterpret_cast<PyObject*>(&type); };
  if (v->object && (v->is_constant() || v->source)) return as(*Py_TYPE(v->object.get()));
  switch (v->kind) {
    case ValueKind::Int: return as(PyLong_Type);
    case ValueKind::Text: return as(PyUnicode_Type);
    case ValueKind::Tuple: return as(PyTuple_Type);
    case ValueKind::List: return as(PyList_Type);
    case ValueKind::Dict: return as(PyDict_Type);
    case ValueKind::Set: return as(PySet_Type);
    case ValueKind::Slice: return as(PySlice_Type);
    case ValueKind::Range: return as(PyRange_Type);
    case ValueKind::Function: return v->transient ? nullptr : as(PyFunction_Type);
    case ValueKind::Array: break;
    case ValueKind::Object: return v->transient && is_polyfill_class(class_of(*v)) ? nullptr : as(*class_of(*v));
    case ValueKind::Iterator:
      if (v->as_iterator().type) return v->as_iterator().type.get();
      return v->as_iterator().over == Over::Generator ? as(PyGen_Type) : nullptr;
    case ValueKind::BoundMethod:
      return v->items[1] && v->as_method().form != MethodPart::Super ? as(PyMethod_Type) : nullptr;
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Constant:
    case ValueKind::Cell: return nullptr;
  }
  switch (v->wrap()) {
    case Wrap::PyFloat: return as(PyFloat_Type);
    case Wrap::PyInt: return as(PyLong_Type);
    case Wrap::PyBool: return as(PyBool_Type);
    case Wrap::PyComplex: return as(PyComplex_Type);
    case Wrap::NdArray:
    case Wrap::NumpyScalar:
    case Wrap::Generator:
    case Wrap::Tensor: break;
  }
  Frontend* frontend = frontend_of(x, *v);
  return frontend ? frontend->type_of(x.session(), *v) : nullptr;
}

}  // namespace framejit::capture
