// Instances of Python classes that derive from tuple: what namedtuple() and NamedTuple make.
//
// Such an Object holds its tuple's items in `items`, as a Tuple does. What its class does not define itself is done on
// an exact tuple of these, made for the occasion: no operation of a tuple gives back a tuple of a subclass.
#include "capture/named_tuples.h"

#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/py/instance.h"

namespace framejit::capture {

bool is_tuple_class(const PyTypeObject* type) {
  if (!PyType_HasFeature(const_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE) ||
      type->tp_itemsize != PyTuple_Type.tp_itemsize)
    return false;
  bool tuple = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    tuple = tuple || base == &PyTuple_Type;
    if (base != &PyTuple_Type && base != &PyBaseObject_Type && !PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE))
      return false;
  }
  return tuple;
}

bool is_tuple_instance(const Value& v) {
  return v.kind == ValueKind::Object && v.object && is_tuple_class(class_of(v));
}

PyObject* tuple_new() {
  static PyObject* const found = type_attr(&PyTuple_Type, "__new__");
  return found;
}

Captured<Value*> as_tuple(Executor& x, Value* v, PyObject* method) {
  if (!is_tuple_instance(*v)) return static_cast<Value*>(nullptr);
  PyObject* raw = type_attr(class_of(*v), method);
  if (raw != type_attr(&PyTuple_Type, method)) return static_cast<Value*>(nullptr);
  guard_lookup(x, v, raw, method);
  FRAMEJIT_REQUIRE(open(x, v));
  return x.values().tuple(v->items);
}

Captured<Value*> make_tuple_instance(Executor& x, const Values& args) {
  Value* cls = look(x, args[0]);
  auto* type = reinterpret_cast<PyTypeObject*>(cls->is_constant() ? cls->object.get() : nullptr);
  if (args.size() > 2 || !type || !PyType_Check(cls->object.get()) || (type != &PyTuple_Type && !is_tuple_class(type)))
    return break_at(BreakId::UnknownCallable, "'tuple.__new__'");
  Values items;
  if (args.size() == 2) {
    FRAMEJIT_TRY(unpacked, unpack(x, look(x, args[1]), true));
    items = std::move(unpacked);
  }
  if (type == &PyTuple_Type) {
    Value* given = args.size() == 2 ? look(x, args[1]) : nullptr;
    return given && given->kind == ValueKind::Tuple ? given : x.values().tuple(std::move(items));
  }
  Value* made = x.values().make(ValueKind::Object);
  made->object = Ref<>::share(cls->object.get());
  made->items = std::move(items);
  return made;
}

// As type.__call__ does.
Captured<Value*> construct_tuple(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords) {
  static PyObject* const kNew = interned("__new__");
  static PyObject* const kInit = interned("__init__");
  const Unexpected<Break> unknown = break_at(BreakId::UnknownCallable, "'" + std::string(type->tp_name) + "'");
  Value* cls = x.values().constant(reinterpret_cast<PyObject*>(type));
  Value of(ValueKind::Object);  // an instance, to guard what is looked up on its class
  of.object = cls->object;
  Values all{cls};
  all.insert(all.end(), args.begin(), args.end());
  PyObject* raw = type_attr(type, kNew);
  guard_lookup(x, &of, raw, kNew);
  Captured<Value*> made = unknown;
  if (raw == tuple_new() && keywords.empty()) {
    made = make_tuple_instance(x, all);
  } else if (raw && Py_IS_TYPE(raw, &PyStaticMethod_Type)) {
    const Ref<> function = Ref<>::steal(PyObject_GetAttrString(raw, "__func__"));
    if (function && PyFunction_Check(function.get()))
      made = call_function(x, function_at(x, function.get(), std::string(type->tp_name) + ".__new__"), all, keywords);
    else if (!function) PyErr_Clear();
  }
  FRAMEJIT_TRY(result, std::move(made));
  result = look(x, result);
  if (type_of(x, result) != reinterpret_cast<PyObject*>(type)) return unknown;
  PyObject* init = type_attr(type, kInit);
  guard_lookup(x, &of, init, kInit);
  if (init == type_attr(&PyBaseObject_Type, kInit)) return result;
  if (!init || !PyFunction_Check(init)) return unknown;
  all[0] = result;
  FRAMEJIT_TRY(answer, call_function(x, function_at(x, init, std::string(type->tp_name) + ".__init__"), all, keywords));
  if (!look(x, answer)->is_none()) return break_at(BreakId::WouldRaise, "__init__() that returns something");
  return result;
}

namespace {

/// The index that a descriptor of a named tuple's field has; -1: another descriptor.
Py_ssize_t field_index(PyObject* raw) {
  static constinit Once once;
  PyObject* type = once.get([] {
    const Ref<> module = Ref<>::steal(PyImport_ImportModule("_collections"));
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "_tuplegetter") : nullptr;
    if (!found) PyErr_Clear();
    return found;
  });
  if (!type || reinterpret_cast<PyObject*>(Py_TYPE(raw)) != type) return -1;
  const Ref<> parts = Ref<>::steal(PyObject_CallMethod(raw, "__reduce__", nullptr));
  PyObject* given = parts && PyTuple_Check(parts.get()) && PyTuple_GET_SIZE(parts.get()) == 2
                        ? PyTuple_GET_ITEM(parts.get(), 1)
                        : nullptr;
  const Py_ssize_t index =
      given && PyTuple_Check(given) && PyTuple_GET_SIZE(given) > 0 ? PyLong_AsSsize_t(PyTuple_GET_ITEM(given, 0)) : -1;
  if (PyErr_Occurred()) PyErr_Clear();
  return index;
}

}  // namespace

Captured<Value*> field_of(Executor& x, Value* v, PyObject* descriptor) {
  const Py_ssize_t index = is_tuple_instance(*v) ? field_index(descriptor) : -1;
  if (index < 0) return static_cast<Value*>(nullptr);
  FRAMEJIT_REQUIRE(open(x, v));
  if (static_cast<std::size_t>(index) >= v->items.size())
    return raises(x, PyExc_IndexError, "tuple index out of range");
  return look(x, v->items[static_cast<std::size_t>(index)]);
}

}  // namespace framejit::capture
