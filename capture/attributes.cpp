// Attribute lookup as the interpreter does it, without running anything: type's data descriptor, instance, type.
#include "capture/attributes.h"

#include <Python.h>

#include <structmember.h>

#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/instances.h"
#include "capture/named_tuples.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/interpreter.h"
#include "capture/py/lru_cache.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

Captured<bool> look_in(Executor& x, PyObject* dict);
bool has_shared_names(Executor& x, const Value* v);
Captured<bool> holds(Executor& x, Value* v, PyObject* name);
Captured<Value*> instance_attr_value(Executor& x, Value* v, PyObject* name, Value** self);
Captured<Value*> bind_descriptor(Executor& x, Value* owner, PyObject* raw, PyObject* name, Value** self);
Captured<Value*> super_attr_value(Executor& x, Value* v, PyObject* name, Value** self);
Captured<Value*> class_attr_value(Executor& x, Value* v, PyObject* name);
Captured<bool> attributes_are_apart(Executor& x);

}  // namespace

SourceRef attr_source(const SourceRef& base, PyObject* name) {
  auto s = std::make_shared<Source>();
  s->kind = SourceKind::Attr;
  s->base = base;
  s->key = Ref<>::share(name);
  return s;
}

SourceRef fixed_source(PyObject* object, std::string expression) {
  auto s = std::make_shared<Source>();
  s->kind = SourceKind::Constant;
  s->object = Ref<>::share(object);
  s->name = std::move(expression);
  return s;
}

PyObject* interned(const char* text) {
  PyObject* s = PyUnicode_InternFromString(text);
  if (!s) PyErr_Clear();
  FRAMEJIT_CHECK(s, "no memory for a name");
  return s;
}

namespace {

/// Whether NumPy imports this attribute of `numpy` when it is first used.
bool is_submodule_of_numpy(PyObject* module, PyObject* name) {
  static PyObject* const kSubmodules = interned("__numpy_submodules__");
  PyObject* const dict = PyModule_GetDict(module);
  if (PyDict_GetItemWithError(dict, name)) return false;  // it has been
  PyObject* const known = PyDict_GetItemWithError(dict, kSubmodules);
  return known && PySet_CheckExact(known) && PySet_Contains(known, name) == 1;
}

/// What a class makes a method of, and calls of it are followed.
bool is_callee(Executor& x, PyObject* raw) {
  return PyFunction_Check(raw) || is_lru_cache(Py_TYPE(raw)) || (x.options().explained && x.options().explained(raw));
}

/// Does looking an attribute up ask a name of the class that is no str?
bool asks_names(const Value& v) {
  if (v.kind != ValueKind::Object && v.kind != ValueKind::Constant) return false;
  PyObject* object = v.object.get();
  return has_odd_names(Py_TYPE(object)) ||
         (PyType_Check(object) && has_odd_names(reinterpret_cast<PyTypeObject*>(object)));
}

bool is_data_descriptor(PyObject* raw) { return Py_TYPE(raw)->tp_descr_set != nullptr; }

/// A slot of __slots__: an object that the instance holds.
bool is_slot(PyObject* raw) {
  return Py_IS_TYPE(raw, &PyMemberDescr_Type) &&
         reinterpret_cast<PyMemberDescrObject*>(raw)->d_member->type == T_OBJECT_EX &&
         !(reinterpret_cast<PyMemberDescrObject*>(raw)->d_member->flags & READONLY);
}

/// Is it the one name of a slot of this type's own? Another class's refuses the instance; under two names it would be
/// two attributes here.
bool is_own_slot(PyTypeObject* type, PyObject* raw, PyObject* name) {
  return PyType_IsSubtype(type, PyDescr_TYPE(raw)) && PyUnicode_Compare(PyDescr_NAME(raw), name) == 0;
}

// A member of a C object without code behind it: property.fget, staticmethod.__func__.
Ref<> member(PyObject* object, const char* name) {
  Ref<> value = Ref<>::steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

PyTypeObject* exception_type() { return reinterpret_cast<PyTypeObject*>(PyExc_BaseException); }

std::string class_text(const Value* v) { return class_of(*v)->tp_name; }

Unexpected<Break> no_attribute(Executor& x, const Value* v, PyObject* name) {
  return raises(x, PyExc_AttributeError, "'" + class_text(v) + "' object has no attribute '" + text_of(name) + "'",
                class_text(v) + "." + text_of(name));
}

// Variables of modules, attributes of instances and items of dicts are tracked apart. Where one dict is two of them and
// is stored into, the interpreter goes on.
Captured<bool> look_in(Executor& x, PyObject* dict) {
  const auto seen = x.tracked().find(dict);
  if (seen != x.tracked().end() && seen->second.value->changed) return shared_names();
  x.effects().remember_namespace(dict);
  return true;
}

}  // namespace

Captured<bool> may_store_in(Executor& x, PyObject* dict) {
  const std::vector<PyObject*>& seen = x.effects().namespaces();
  if (std::find(seen.begin(), seen.end(), dict) != seen.end()) return shared_names();
  return attributes_are_apart(x);
}

namespace {

bool has_shared_names(Executor& x, const Value* v) {
  return v->source && x.effects().stores_names() && !has_own_dict(v->object.get());
}

Captured<bool> attributes_are_apart(Executor& x) {
  if (x.effects().stores_names()) return true;  // reads since the first such store are seen by themselves
  for (const auto& [object, tracked] : x.tracked())
    if (tracked.value->kind == ValueKind::Object && !has_own_dict(object)) return shared_names();
  return true;
}

}  // namespace

Captured<bool> store_global(Executor& x, PyObject* dict, PyObject* name, Value* value) {
  if (x.tracked().count(dict)) return shared_names();
  FRAMEJIT_TRY(apart, attributes_are_apart(x));
  x.effects().remember_namespace(dict);
  x.effects().store_global(dict, name, value);
  return apart;
}

Captured<Value*> global_item(Executor& x, PyObject* dict, PyObject* name, const std::string& module) {
  FRAMEJIT_REQUIRE(look_in(x, dict));
  if (const GlobalSlot* slot = x.effects().global(dict, name)) {
    if (!slot->value) return break_at(BreakId::UnboundVariable, text_of(name));
    return slot->value;
  }
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found) {
    PyErr_Clear();
    return static_cast<Value*>(nullptr);
  }
  // Reading the name imports what it names, and puts that in its place.
  if (is_lazy_import(found)) return break_at(BreakId::UserEffect, "lazy import " + text_of(name));
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Global;
  source->key = Ref<>::share(name);
  source->object = Ref<>::share(dict);
  source->name = module;
  Value* v = lazy(x, found, source);
  x.effects().remember_global(dict, name, v);
  return v;
}

Captured<Value*> load_global(Executor& x, PyObject* globals, PyObject* builtins_dict, PyObject* name) {
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins_dict))
    return break_at(BreakId::UnsupportedInstruction, "globals that are not a plain dict");
  FRAMEJIT_TRY(v, global_item(x, globals, name));
  if (v) return v;
  FRAMEJIT_REQUIRE(look_in(x, builtins_dict));
  PyObject* found = PyDict_GetItemWithError(builtins_dict, name);
  if (!found) {
    PyErr_Clear();
    return break_at(BreakId::UnboundVariable, text_of(name));
  }
  Guard absent{};
  absent.kind = GuardKind::HasNot;
  absent.object = Ref<>::share(globals);
  absent.key = Ref<>::share(name);
  x.session().guards().add(std::move(absent));
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Builtin;
  source->key = Ref<>::share(name);
  source->object = Ref<>::share(builtins_dict);
  return lazy(x, found, source);
}

namespace {

/// The attribute of this name that an array from outside has in its own dict, which comes before its class; null if
/// there is none. Either is guarded.
Captured<Value*> held_by_array(Executor& x, Value* v, PyObject* name) {
  v = owner_of_attributes(v);
  PyObject* object = v->source ? v->object.get() : nullptr;
  if (!object || !has_instance_dict(Py_TYPE(object))) return nullptr;
  PyObject* raw = type_attr(Py_TYPE(object), name);
  if (raw && is_data_descriptor(raw)) return nullptr;
  if (has_shared_names(x, v)) return shared_names();
  PyObject* held = instance_attr(object, name);
  if (!held) {
    guard(x, GuardKind::HasNot, v->source, nullptr, name);
    return nullptr;
  }
  guard(x, GuardKind::TypeAttr, v->source, raw, name);
  if (raw && Py_TYPE(raw)->tp_descr_get) {  // where the object has none, what its class has would be found
    if (held == raw) return break_at(BreakId::ImpureAttribute, text_of(name));
    SourceRef of_class = fixed_source(raw, text_of(name));
    x.session().guards().add(identity_guard(attr_source(v->source, name), std::move(of_class), false));
  }
  return lazy(x, held, attr_source(v->source, name));
}

}  // namespace

Captured<Value*> get_attr(Executor& x, Value* v, PyObject* name, Value** self) {
  if (self) *self = nullptr;
  const std::string text = text_of(name);
  if (asks_names(*v)) return break_at(BreakId::ImpureAttribute, text);
  if (text == "__class__" && v->kind != ValueKind::Object) {
    PyObject* type = type_of(x, v);
    if (type && type_attr(reinterpret_cast<PyTypeObject*>(type), name) == type_attr(&PyBaseObject_Type, name))
      return x.values().constant(type);
  }
  switch (v->kind) {
    case ValueKind::Array:
      if (Frontend* frontend = frontend_of(x, *v)) {
        FRAMEJIT_TRY(held, held_by_array(x, v, name));
        if (held) return look(x, held);
        if (has_method(x, v, name)) break;  // the frontend is asked when it is called
        if (PyObject* raw = python_member(x, v, name)) {
          Ref<> getter = Py_IS_TYPE(raw, &PyProperty_Type) ? member(raw, "fget") : Ref<>();
          Value* f = function_at(x, getter ? getter.get() : raw, text);
          if (getter) return call_function(x, f, {v}, {});
          if (self) {
            *self = v;
            return f;
          }
          Value* method = x.values().make(ValueKind::BoundMethod);
          method->items = {v, f};
          return method;
        }
        // That of the object: a subclass has attributes that the frontend does not know.
        PyObject* own = v->source && v->object ? reinterpret_cast<PyObject*>(Py_TYPE(v->object.get())) : nullptr;
        auto* type = reinterpret_cast<PyTypeObject*>(own ? own : frontend->type_of(x.session(), *v));
        PyObject* raw = type ? type_attr(type, name) : nullptr;
        static PyObject* const kHook = interned("__getattr__");
        if (type && !raw && !type_attr(type, kHook)) {
          if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
            guard(x, GuardKind::TypeAttr, fixed_source(reinterpret_cast<PyObject*>(type), type->tp_name), nullptr, name,
                  1);
          return raises(x, PyExc_AttributeError,
                        std::string("'") + type->tp_name + "' object has no attribute '" + text + "'");
        }
        if (Value* function = raw ? polyfill(x, raw) : nullptr) return call_function(x, function, {v}, {});
        return frontend->get_attr(x.session(), v, text);
      }
      break;
    case ValueKind::Object: return instance_attr_value(x, v, name, self);
    case ValueKind::Constant: {
      PyObject* o = v->object.get();
      if (PyModule_CheckExact(o)) {
        PyObject* raw = type_attr(&PyModule_Type, name);
        if (raw && is_data_descriptor(raw)) return break_at(BreakId::ImpureAttribute, "module." + text);
        const char* module = PyModule_GetName(o);
        if (!module) PyErr_Clear();
        const std::string_view home = module ? module : "module";
        // framejit imports its own names when they are first used, and NumPy its submodules, such as numpy.random.
        if ((home == "framejit" || is_submodule_of_numpy(o, name)) && !Ref<>::steal(PyObject_GetAttr(o, name)))
          PyErr_Clear();
        FRAMEJIT_TRY(item, global_item(x, PyModule_GetDict(o), name, std::string(home)));
        if (!item) return break_at(BreakId::ImpureAttribute, std::string(home) + "." + text);
        return look(x, item);
      }
      if (PyType_Check(o)) return class_attr_value(x, v, name);
      if (is_plain(o)) {  // the parts of numbers
        PyObject* raw = type_attr(Py_TYPE(o), name);
        if (raw && (Py_IS_TYPE(raw, &PyGetSetDescr_Type) || Py_IS_TYPE(raw, &PyMemberDescr_Type)))
          if (Ref<> part = Ref<>::steal(PyObject_GetAttr(o, name))) return literal(x, part.get());
        PyErr_Clear();
      }
      for (Frontend* frontend : x.session().frontends())
        if (Ref<> found = frontend->fixed_attr(o, text)) return literal(x, found.get());
      break;
    }
    case ValueKind::Range:
    case ValueKind::Slice:
      for (int i = 0; i < 3; ++i)
        if (text == (i == 0 ? "start" : i == 1 ? "stop" : "step"))
          return look(x, v->items[static_cast<std::size_t>(i)]);
      break;
    case ValueKind::Function:
      // What a function holds as plain members, and its own attributes.
      if (v->source) {
        PyObject* raw = type_attr(&PyFunction_Type, name);
        const bool held = raw && Py_IS_TYPE(raw, &PyMemberDescr_Type) &&
                          reinterpret_cast<PyMemberDescrObject*>(raw)->d_member->type == T_OBJECT;
        PyObject* value = text_of_function(v->object.get(), name);
        if (!value && (held || !raw))
          value = held ? member(v->object.get(), text.c_str()).get() : instance_attr(v->object.get(), name);
        if (value) return look(x, lazy(x, value, attr_source(v->source, name)));
      }
      break;
    case ValueKind::BoundMethod:
      if (v->as_method().form == MethodPart::Super) return super_attr_value(x, v, name, self);
      if (text == "__self__") return look(x, v->items[0]);
      break;
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Int:
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Set:
    case ValueKind::Dict:
    case ValueKind::Iterator:
    case ValueKind::Text:
    case ValueKind::Cell: break;
  }
  if (has_method(x, v, name)) {
    Value* method = x.values().make(ValueKind::BoundMethod);
    method->items = {v, nullptr};
    method->as_method().name = Ref<>::share(name);
    return method;
  }
  PyObject* type = type_of(x, v);
  return break_at(BreakId::UnknownObject,
                  (type ? std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) : "object") + "." + text);
}

PyObject* python_member(Executor& x, Value* v, PyObject* name) {
  PyObject* type = type_of(x, v);
  if (!type || !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE)) return nullptr;
  PyObject* raw = type_attr(reinterpret_cast<PyTypeObject*>(type), name);
  if (!raw) return nullptr;
  if (Py_IS_TYPE(raw, &PyProperty_Type)) {
    const Ref<> getter = member(raw, "fget");
    if (!getter || !PyFunction_Check(getter.get())) return nullptr;
  } else if (!is_callee(x, raw)) {
    return nullptr;
  } else if (v->source && has_instance_dict(reinterpret_cast<PyTypeObject*>(type))) {
    if (has_shared_names(x, v) || instance_attr(v->object.get(), name)) return nullptr;
    guard(x, GuardKind::HasNot, v->source, nullptr, name);
  }
  const SourceRef type_source = fixed_source(type, reinterpret_cast<PyTypeObject*>(type)->tp_name);
  if (is_callee(x, raw)) guard(x, GuardKind::Identity, attr_source(type_source, name), raw);
  else if (v->source) guard(x, GuardKind::TypeAttr, v->source, raw, name);
  return raw;
}

bool has_method(Executor& x, Value* v, PyObject* name) {
  PyObject* type = type_of(x, v);
  if (!type) return false;
  if (PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE) && !frontend_of(x, *v))
    return false;
  PyObject* raw = type_attr(reinterpret_cast<PyTypeObject*>(type), name);
  return raw && Py_IS_TYPE(raw, &PyMethodDescr_Type);
}

namespace {

/// A data descriptor comes in front of attributes of instances. The class of what a type has may make it one, or none.
void guard_data_descriptor(Executor& x, PyObject* raw, const std::string& shown) {
  PyTypeObject* type = Py_TYPE(raw);
  if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return;
  static PyObject* const kSet = interned("__set__");
  static PyObject* const kDelete = interned("__delete__");
  const SourceRef source = fixed_source(raw, shown);
  for (PyObject* name : {kSet, kDelete}) guard(x, GuardKind::TypeAttr, source, type_attr(type, name), name);
}

}  // namespace

void guard_lookup(Executor& x, const Value* v, PyObject* raw, PyObject* name) {
  if (raw) guard_data_descriptor(x, raw, class_text(v) + "." + text_of(name));
  if (v->source) guard(x, GuardKind::TypeAttr, v->source, raw, name);
  else guard(x, GuardKind::TypeAttr, fixed_source(v->object.get(), class_text(v)), raw, name, 1);
}

void guard_mro(Executor& x, PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return;
  auto source = std::make_shared<Source>(*fixed_source(reinterpret_cast<PyObject*>(type), type->tp_name));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    source->parts.push_back(Ref<>::share(PyTuple_GET_ITEM(type->tp_mro, i)));
  guard(x, GuardKind::Mro, source);
}

/// An existing function, or cache of one, that a guard has fixed.
Value* function_at(Executor& x, PyObject* function, const std::string& shown) {
  x.keep(function);
  if (!PyFunction_Check(function)) return wrap(x, function, fixed_source(function, shown));
  Value* f = x.values().make(ValueKind::Function);
  f->object = Ref<>::share(function);
  f->source = fixed_source(function, shown);
  return f;
}

namespace {

Captured<Value*> instance_attr_value(Executor& x, Value* v, PyObject* name, Value** self) {
  PyTypeObject* type = class_of(*v);
  const std::string text = text_of(name);
  const std::string what = class_text(v) + "." + text;
  static PyObject* const kGetAttr = interned("__getattr__");
  if (has_shared_names(x, v)) return shared_names();
  // __getattr__ matters only for what is not found; __getattribute__ always does.
  auto missing = [&]() -> Captured<Value*> {
    PyObject* hook = type_attr(type, kGetAttr);
    guard_lookup(x, v, hook, kGetAttr);
    if (!hook) return no_attribute(x, v, name);
    if (!PyFunction_Check(hook)) return break_at(BreakId::ImpureAttribute, what);
    return call_function(x, function_at(x, hook, class_text(v) + ".__getattr__"), {v, x.values().constant(name)}, {});
  };
  const bool is_known = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || is_exception(*v);
  if (is_known) {
    static PyObject* const kGetAttribute = interned("__getattribute__");
    PyObject* getter = type_attr(type, kGetAttribute);
    PyTypeObject* base = is_exception(*v)       ? exception_type()
                         : is_tuple_class(type) ? &PyTuple_Type
                                                : &PyBaseObject_Type;
    if (getter != type_attr(base, kGetAttribute) && !is_partial(type)) return break_at(BreakId::ImpureAttribute, what);
    guard_lookup(x, v, getter, kGetAttribute);
  }
  if (auto* known = v->attributes().find(text)) {
    if (!known->second) return break_at(BreakId::WouldRaise, what);
    return look(x, known->second);
  }
  PyObject* raw = type_attr(type, name);
  if (!is_known) {
    Frontend* library = raw ? frontend_for(x, raw) : nullptr;
    if (!(library && library->is_method(raw))) return break_at(BreakId::UnknownObject, what);
    Value* function = x.values().constant(raw);  // a static class keeps it
    if (self) {
      *self = v;
      return function;
    }
    Value* method = x.values().make(ValueKind::BoundMethod);
    method->items = {v, function};
    return method;
  }
  if (text == "__class__" && raw == type_attr(&PyBaseObject_Type, name)) {
    guard_lookup(x, v, raw, name);
    return x.values().constant(reinterpret_cast<PyObject*>(type));
  }
  if (raw && is_data_descriptor(raw)) {
    guard_lookup(x, v, raw, name);
    return bind_descriptor(x, v, raw, name, self);
  }
  PyObject* own = v->source ? instance_attr(v->object.get(), name) : nullptr;
  if (own) {
    guard_lookup(x, v, raw, name);
    if (raw &&
        Py_TYPE(raw)->tp_descr_get) {  // fetched again, the class's would come unbound where the instance has none
      if (own == raw) return break_at(BreakId::ImpureAttribute, what);
      SourceRef of_class = fixed_source(raw, class_text(v) + "." + text);
      x.session().guards().add(identity_guard(attr_source(v->source, name), std::move(of_class), false));
    }
    Value* value = lazy(x, own, attr_source(v->source, name));
    v->attributes().append(text, value);
    x.session().undo().learn([v] { v->attributes().drop_last(); });
    return look(x, value);
  }
  if (v->source) guard(x, GuardKind::HasNot, v->source, nullptr, name);
  if (!raw) {
    guard_lookup(x, v, nullptr, name);
    return missing();
  }
  if (Py_TYPE(raw)->tp_descr_get || !v->source) guard_lookup(x, v, raw, name);
  if (Py_TYPE(raw)->tp_descr_get) return bind_descriptor(x, v, raw, name, self);
  // A value on the class. Exact builtin values are no descriptors; another object's type must not become one.
  const SourceRef source = attr_source(v->source ? v->source : fixed_source(v->object.get(), class_text(v)), name);
  Value* value = wrap(x, raw, source);
  if (value->kind == ValueKind::Object) {
    static PyObject* const kGet = interned("__get__");
    guard(x, GuardKind::TypeAttr, source, nullptr, kGet);
  }
  return value;
}

// `raw` was found on the type of `owner` and is fixed by a TypeAttr guard.
Captured<Value*> bind_descriptor(Executor& x, Value* owner, PyObject* raw, PyObject* name, Value** self) {
  const std::string what = class_text(owner) + "." + text_of(name);
  const std::string shown = (owner->source ? owner->source->str() : class_text(owner)) + "." + text_of(name);
  Value* cls = x.values().constant(reinterpret_cast<PyObject*>(class_of(*owner)));
  auto bound = [&](Value* to, Value* function) {
    Value* m = x.values().make(ValueKind::BoundMethod);
    m->items = {to, function};
    return m;
  };
  // A marked function is a method as a plain one is.
  const auto is_method = [&](PyObject* o) { return is_callee(x, o) || (x.options().unwrap && x.options().unwrap(o)); };
  if (is_method(raw)) {
    Value* f = function_at(x, raw, shown);
    if (!self) return bound(owner, f);
    *self = owner;
    return f;
  }
  if (Py_IS_TYPE(raw, &PyStaticMethod_Type) || Py_IS_TYPE(raw, &PyClassMethod_Type)) {
    Ref<> inner = member(raw, "__func__");
    if (!inner || !is_method(inner.get())) return break_at(BreakId::ImpureAttribute, what);
    Value* f = function_at(x, inner.get(), shown);
    if (Py_IS_TYPE(raw, &PyStaticMethod_Type)) return f;
    return bound(cls, f);
  }
  if (Py_IS_TYPE(raw, &PyProperty_Type)) {
    Ref<> getter = member(raw, "fget");
    if (!getter || !PyFunction_Check(getter.get())) return break_at(BreakId::ImpureAttribute, what);
    Captured<Value*> value = call_function(x, function_at(x, getter.get(), shown), {owner}, {});
    if (!value && type_attr(class_of(*owner), "__getattr__")) value.error().raised = nullptr;  // it might be asked then
    return value;
  }
  if (Py_IS_TYPE(raw, &PyMemberDescr_Type)) {  // __slots__, and what C types hold
    const int kind = reinterpret_cast<PyMemberDescrObject*>(raw)->d_member->type;
    const bool own = !is_slot(raw) || is_own_slot(class_of(*owner), raw, name);
    if (!own || (kind != T_OBJECT && kind != T_OBJECT_EX)) return break_at(BreakId::ImpureAttribute, what);
    Ref<> held = owner->source ? Ref<>::steal(Py_TYPE(raw)->tp_descr_get(raw, owner->object.get(), nullptr)) : Ref<>();
    if (!held) {
      PyErr_Clear();
      return break_at(BreakId::WouldRaise, what);
    }
    x.keep(held.get());
    Value* value = lazy(x, held.get(), attr_source(owner->source, name));
    owner->attributes().append(text_of(name), value);
    x.session().undo().learn([owner] { owner->attributes().drop_last(); });
    return look(x, value);
  }
  FRAMEJIT_TRY(field, field_of(x, owner, raw));
  if (field) return field;
  if (is_tuple_instance(*owner) && Py_IS_TYPE(raw, &PyMethodDescr_Type) && raw == type_attr(&PyTuple_Type, name)) {
    Value* method = bound(owner, nullptr);
    method->as_method().name = Ref<>::share(name);
    return method;
  }
  // A descriptor in Python: its class says how.
  Value* descriptor = wrap(x, raw, attr_source(fixed_source(cls->object.get(), class_text(owner)), name));
  static PyObject* const kGet = interned("__get__");
  FRAMEJIT_TRY(got, special(x, descriptor, kGet, {owner, cls}));
  return got ? Captured<Value*>(got) : break_at(BreakId::ImpureAttribute, what);
}

// The MRO of type(self) behind the class: a function found there is a method of self.
Captured<Value*> super_attr_value(Executor& x, Value* v, PyObject* name, Value** self) {
  Value* owner = v->items[0];
  PyObject* after = v->items[1]->object.get();
  PyObject* mro = class_of(*owner)->tp_mro;
  guard_mro(x, class_of(*owner));
  bool behind = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(mro, i);
    const bool look_here = behind;
    behind = behind || cls == after;
    if (!look_here) continue;
    PyObject* raw = own_attr(reinterpret_cast<PyTypeObject*>(cls), name);
    if (!raw) {
      Guard g{};
      g.kind = GuardKind::HasNot;
      g.object = capture::type_dict(reinterpret_cast<PyTypeObject*>(cls));
      g.key = Ref<>::share(name);
      x.session().guards().add(std::move(g));
      continue;
    }
    const bool slot = Py_IS_TYPE(raw, &PyWrapperDescr_Type);
    if (!slot && !is_callee(x, raw)) break;
    const std::string shown = std::string(reinterpret_cast<PyTypeObject*>(cls)->tp_name);
    guard(x, GuardKind::Identity, attr_source(fixed_source(cls, shown), name), raw);
    Value* f = slot ? x.values().constant(raw) : function_at(x, raw, shown + "." + text_of(name));
    if (self) {
      *self = owner;
      return f;
    }
    Value* m = x.values().make(ValueKind::BoundMethod);
    m->items = {owner, f};
    return m;
  }
  return break_at(BreakId::ImpureAttribute, "super()." + text_of(name));
}

/// `__name__`, `__qualname__` or `__module__` of a class, where `type` has them; else null.
Value* name_of_class(Executor& x, const Value* v, const SourceRef& base, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(v->object.get());
  const std::string text = text_of(name);
  const bool module = text == "__module__";
  if (!module && text != "__name__" && text != "__qualname__") return nullptr;
  if (type_attr(Py_TYPE(type), name) != type_attr(&PyType_Type, name)) return nullptr;
  if (!PyType_HasFeature(type, Py_TPFLAGS_READY))
    return nullptr;  // a static one that nobody has asked for anything yet
  PyObject* own = own_attr(type, name);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {  // for good
    Ref<> value = Ref<>::steal(PyObject_GetAttr(v->object.get(), name));
    if (!value) PyErr_Clear();
    return value && PyUnicode_CheckExact(value.get()) ? x.values().constant(value.get()) : nullptr;
  }
  // What a class or its bases hold under these names is found before (ext/guards/guard_program_fetch.cpp).
  if (module ? !own : type_attr(type, name) != nullptr) return nullptr;
  auto* held = reinterpret_cast<PyHeapTypeObject*>(type);
  PyObject* value = module ? own : text == "__name__" ? held->ht_name : held->ht_qualname;
  return lazy(x, value, attr_source(base, name));
}

Captured<Value*> class_attr_value(Executor& x, Value* v, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(v->object.get());
  const std::string what = std::string(type->tp_name) + "." + text_of(name);
  PyTypeObject* meta = Py_TYPE(type);
  // A __getattr__ of the metaclass, which enums have, is asked only for what is not found.
  static PyObject* const kGetAttribute = interned("__getattribute__");
  PyObject* getter = type_attr(meta, kGetAttribute);
  if (getter != type_attr(&PyType_Type, kGetAttribute)) return break_at(BreakId::ImpureAttribute, what);
  PyObject* in_meta = type_attr(meta, name);
  const std::string expression = v->source ? v->source->str() : type->tp_name;
  const SourceRef base = fixed_source(v->object.get(), expression);
  if (meta != &PyType_Type) guard(x, GuardKind::TypeAttr, base, getter, kGetAttribute);
  if (meta != &PyType_Type) guard(x, GuardKind::TypeAttr, base, in_meta, name);
  if (in_meta && is_data_descriptor(in_meta)) {
    Value* said = name_of_class(x, v, base, name);
    return said ? look(x, said) : Captured<Value*>(break_at(BreakId::ImpureAttribute, what));
  }
  if (in_meta) guard_data_descriptor(x, in_meta, std::string(meta->tp_name) + "." + text_of(name));
  PyObject* raw = type_attr(type, name);
  if (!raw) return break_at(BreakId::WouldRaise, what);
  const SourceRef source = attr_source(base, name);
  if (!Py_TYPE(raw)->tp_descr_get) {
    Value* value = wrap(x, raw, source);
    if (value->kind == ValueKind::Object) {
      static PyObject* const kGet = interned("__get__");
      guard(x, GuardKind::TypeAttr, source, nullptr, kGet);
    }
    return value;
  }
  const std::string shown = expression + "." + text_of(name);
  if (is_callee(x, raw)) {
    guard(x, GuardKind::Identity, source, raw);
    return function_at(x, raw, shown);
  }
  if (Py_IS_TYPE(raw, &PyStaticMethod_Type) || Py_IS_TYPE(raw, &PyClassMethod_Type)) {
    Ref<> inner = member(raw, "__func__");
    if (!inner || !is_callee(x, inner.get())) return break_at(BreakId::ImpureAttribute, what);
    guard(x, GuardKind::Identity, source, raw);
    Value* f = function_at(x, inner.get(), shown);
    if (Py_IS_TYPE(raw, &PyStaticMethod_Type)) return f;
    Value* m = x.values().make(ValueKind::BoundMethod);
    m->items = {v, f};
    return m;
  }
  // C methods of a builtin type (ndarray.sum, list.append), and class methods that a polyfill stands for.
  if (Py_IS_TYPE(raw, &PyMethodDescr_Type) || Py_IS_TYPE(raw, &PyWrapperDescr_Type)) {
    guard(x, GuardKind::Identity, source, raw);
    return x.values().constant(raw);
  }
  if (Py_IS_TYPE(raw, &PyClassMethodDescr_Type) && reinterpret_cast<PyDescrObject*>(raw)->d_type == type &&
      polyfill(x, raw, {})) {
    guard(x, GuardKind::Identity, source, raw);
    Value* bound = x.values().make(ValueKind::BoundMethod);
    bound->items = {v, nullptr};
    bound->as_method().name = Ref<>::share(name);
    return bound;
  }
  return break_at(BreakId::ImpureAttribute, what);
}

}  // namespace

Captured<bool> has_attr(Executor& x, Value* v, PyObject* name) {
  const std::string text = text_of(name);
  if (v->is_constant() && PyModule_CheckExact(v->object.get())) {
    PyObject* dict = PyModule_GetDict(v->object.get());
    static PyObject* const hook = interned("__getattr__");
    FRAMEJIT_TRY(item, global_item(x, dict, name, text_of(name)));
    if (item) {
      look(x, item);
      return true;
    }
    FRAMEJIT_TRY(dynamic, global_item(x, dict, hook, "module"));
    if (dynamic || type_attr(&PyModule_Type, name)) return break_at(BreakId::ImpureAttribute, text);
    for (PyObject* absent : {name, hook}) {
      Guard g{};
      g.kind = GuardKind::HasNot;
      g.object = Ref<>::share(dict);
      g.key = Ref<>::share(absent);
      x.session().guards().add(std::move(g));
    }
    return false;
  }
  if (v->kind == ValueKind::Object && PyType_HasFeature(class_of(*v), Py_TPFLAGS_HEAPTYPE)) {
    if (has_shared_names(x, v)) return shared_names();
    PyTypeObject* type = class_of(*v);
    const auto* known = v->attributes().find(text);
    const bool stored = known && known->second;
    static PyObject* const kHook = interned("__getattr__");
    static PyObject* const kGetAttribute = interned("__getattribute__");
    PyObject* getter = type_attr(type, kGetAttribute);
    const bool plain = getter == type_attr(&PyBaseObject_Type, kGetAttribute) && !type_attr(type, kHook);
    if (!stored && plain && !type_attr(type, name) && !(v->source && instance_attr(v->object.get(), name))) {
      guard_lookup(x, v, getter, kGetAttribute);
      guard_lookup(x, v, nullptr, kHook);
      guard_lookup(x, v, nullptr, name);
      if (v->source) guard(x, GuardKind::HasNot, v->source, nullptr, name);
      return false;
    }
  }
  // It is there if its class has it. A property may raise for arrays of this rank and dtype, as x.mT of one axis does.
  if (v->kind == ValueKind::Array && v->source && v->object && type_attr(Py_TYPE(v->object.get()), name)) {
    const Ref<> held = Ref<>::steal(PyObject_GetAttr(v->object.get(), name));
    if (held) return true;
    PyErr_Clear();
  }
  Captured<Value*> value = get_attr(x, v, name);
  if (value) return true;
  const Value* raised = value.error().raised;
  if (raised && PyType_IsSubtype(class_of(*raised), reinterpret_cast<PyTypeObject*>(PyExc_AttributeError)))
    return false;
  return value.failure();
}

Captured<bool> set_attr(Executor& x, Value* v, PyObject* name, Value* value) {
  const std::string text = text_of(name);
  if (v->is_constant() && PyModule_CheckExact(v->object.get())) {
    PyObject* raw = type_attr(&PyModule_Type, name);
    if (!value || (raw && is_data_descriptor(raw))) return break_at(BreakId::ImpureAttribute, "module." + text);
    PyObject* dict = PyModule_GetDict(v->object.get());
    if (may_finalize(PyDict_GetItemWithError(dict, name))) return finalizes();
    return store_global(x, dict, name, value);
  }
  if (v->kind != ValueKind::Object) return break_at(BreakId::UserEffect, "store into attribute " + text);
  if (is_exception(*v) && value && text == "__traceback__") {  // ends with the exception
    value = look(x, value);
    if (!value->is_none() && type_of(x, value) != reinterpret_cast<PyObject*>(&PyTraceBack_Type))
      return break_at(BreakId::WouldRaise, "__traceback__");
    set_attribute(x, v, text, value);
    return true;
  }
  PyTypeObject* type = class_of(*v);
  const std::string what = class_text(v) + "." + text;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return break_at(BreakId::ImpureAttribute, what);
  static PyObject* const kSetAttr = interned("__setattr__");
  static PyObject* const kDelAttr = interned("__delattr__");
  PyObject* const hook = value ? kSetAttr : kDelAttr;
  PyObject* setter = type_attr(type, hook);
  guard_lookup(x, v, setter, hook);
  if (setter == type_attr(&PyBaseObject_Type, hook) || setter == type_attr(exception_type(), hook))
    return set_attr_generic(x, v, name, value);
  Values args{x.values().constant(name)};
  if (value) args.push_back(value);
  FRAMEJIT_TRY(done, special(x, v, hook, args));
  return done ? Captured<bool>(true) : break_at(BreakId::ImpureAttribute, what);
}

Captured<bool> set_attr_generic(Executor& x, Value* v, PyObject* name, Value* value) {
  PyTypeObject* type = class_of(*v);
  const std::string what = class_text(v) + "." + text_of(name);
  PyObject* raw = type_attr(type, name);
  guard_lookup(x, v, raw, name);
  if (raw && is_slot(raw) && !is_own_slot(type, raw, name)) return break_at(BreakId::ImpureAttribute, what);
  if (raw && is_data_descriptor(raw) && !is_slot(raw)) {
    const std::string shown = class_text(v) + "." + text_of(name);
    if (Py_IS_TYPE(raw, &PyProperty_Type)) {
      Ref<> setter = member(raw, value ? "fset" : "fdel");
      if (!setter || !PyFunction_Check(setter.get())) return break_at(BreakId::ImpureAttribute, what);
      FRAMEJIT_REQUIRE(call_function(x, function_at(x, setter.get(), shown), value ? Values{v, value} : Values{v}, {}));
      return true;
    }
    static PyObject* const kSet = interned("__set__");
    Value* descriptor = wrap(x, raw, attr_source(fixed_source(reinterpret_cast<PyObject*>(type), class_text(v)), name));
    FRAMEJIT_TRY(done,
                 value ? special(x, descriptor, kSet, {v, value}) : Captured<Value*>(static_cast<Value*>(nullptr)));
    return done ? Captured<bool>(true) : break_at(BreakId::ImpureAttribute, what);
  }
  if (!raw && !has_instance_dict(type)) return break_at(BreakId::WouldRaise, what);
  if (raw && !is_slot(raw) && !has_instance_dict(type)) return break_at(BreakId::WouldRaise, what);
  if (v->source && !(raw && is_slot(raw)) && !has_own_dict(v->object.get())) return shared_names();
  Ref<> before;
  if (v->source && raw && is_slot(raw))
    before = Ref<>::steal(Py_TYPE(raw)->tp_descr_get(raw, v->object.get(), nullptr));
  else if (v->source) before = Ref<>::share(instance_attr(v->object.get(), name));
  if (!before) PyErr_Clear();
  if (may_finalize(before.get())) return finalizes();
  if (!value) {
    FRAMEJIT_TRY(held, holds(x, v, name));
    if (!held) return break_at(BreakId::WouldRaise, what);
  }
  if (v->source) x.effects().store_attr(v, name, value);
  else set_attribute(x, v, text_of(name), value);
  return true;
}

bool reads_plainly(const Value* v, PyObject* name) {
  PyTypeObject* type = class_of(*v);
  PyObject* raw = type_attr(type, name);
  if (raw && is_data_descriptor(raw)) return is_slot(raw) && is_own_slot(type, raw, name);
  return !raw || !Py_TYPE(raw)->tp_descr_get || PyFunction_Check(raw) || instance_attr(v->object.get(), name);
}

bool stores_plainly(Executor& x, Value* v, PyObject* name) {
  PyTypeObject* type = class_of(*v);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  static PyObject* const kSetAttr = interned("__setattr__");
  PyObject* setter = type_attr(type, kSetAttr);
  PyObject* raw = type_attr(type, name);
  if (setter != type_attr(&PyBaseObject_Type, kSetAttr)) return false;
  if (raw && is_data_descriptor(raw) && !(is_slot(raw) && is_own_slot(type, raw, name))) return false;
  guard_lookup(x, v, setter, kSetAttr);
  guard_lookup(x, v, raw, name);
  return true;
}

namespace {

/// Does the instance itself hold the attribute? Guarded.
Captured<bool> holds(Executor& x, Value* v, PyObject* name) {
  const std::string text = text_of(name);
  const SourceRef own_source = v->source ? attr_source(v->source, name) : nullptr;
  const auto* known = v->attributes().find(text);
  Value* value = known ? known->second : nullptr;
  if (!known) {
    if (!v->source) return false;
    PyObject* own = instance_attr(v->object.get(), name);
    if (!own) return break_at(BreakId::UserEffect, "deletion of an attribute");
    value = look(x, lazy(x, own, own_source));
    v->attributes().append(text, value);
    x.session().undo().learn([v] { v->attributes().drop_last(); });
  }
  if (!value) return false;
  // Where the class has one too, the source would give that in its place.
  PyObject* raw = v->source ? type_attr(class_of(*v), name) : nullptr;
  if (raw && !is_slot(raw) && value->source && same(*value->source, *own_source)) {
    if (instance_attr(v->object.get(), name) == raw) return break_at(BreakId::UserEffect, "deletion of an attribute");
    x.session().guards().add(identity_guard(own_source, fixed_source(raw, class_text(v) + "." + text), false));
  }
  return true;
}

}  // namespace

}  // namespace framejit::capture
