// Attribute lookup as the interpreter does it, without running anything: type's data descriptor, instance, type.
#include "capture/executor.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

SourceRef attr_source(const SourceRef& base, PyObject* name) {
  auto s = std::make_shared<Source>();
  s->kind = SourceKind::Attr;
  s->base = base;
  s->key = Ref<>::share(name);
  return s;
}

// An object whose identity a guard has fixed; `expression` is for printing.
SourceRef fixed_source(PyObject* object, std::string expression) {
  auto s = std::make_shared<Source>();
  s->kind = SourceKind::Constant;
  s->object = Ref<>::share(object);
  s->name = std::move(expression);
  return s;
}

// Interned for the life of the process: function-local names only.
PyObject* interned(const char* text) {
  PyObject* s = PyUnicode_InternFromString(text);
  if (!s) PyErr_Clear();
  FRAMEJIT_CHECK(s, "no memory for a name");
  return s;
}

bool is_data_descriptor(PyObject* raw) { return Py_TYPE(raw)->tp_descr_set != nullptr; }

// A member of a C object without code behind it: property.fget, staticmethod.__func__.
Ref<> member(PyObject* object, const char* name) {
  Ref<> value = Ref<>::steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace

Captured<Value*> Executor::global_item(PyObject* dict, PyObject* name, const std::string& module) {
  if (const GlobalSlot* slot = effects_.global(dict, name)) {
    if (!slot->value) return break_at(BreakId::UnboundVariable, text_of(name));
    return slot->value;
  }
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (!found) {
    PyErr_Clear();
    return static_cast<Value*>(nullptr);
  }
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Global;
  source->key = Ref<>::share(name);
  source->object = Ref<>::share(dict);
  source->name = module;
  Value* v = lazy(found, source);
  effects_.remember_global(dict, name, v);
  return v;
}

Captured<Value*> Executor::load_global(PyObject* globals, PyObject* builtins_dict, PyObject* name,
                                       const std::string& module) {
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins_dict))
    return break_at(BreakId::UnsupportedInstruction, "globals that are not a plain dict");
  FRAMEJIT_TRY(v, global_item(globals, name, module));
  if (v) return v;
  PyObject* found = PyDict_GetItemWithError(builtins_dict, name);
  if (!found) {
    PyErr_Clear();
    return break_at(BreakId::UnboundVariable, text_of(name));
  }
  Guard absent{};
  absent.kind = GuardKind::HasNot;
  absent.object = Ref<>::share(globals);
  absent.key = Ref<>::share(name);
  session_.add_guard(std::move(absent));
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Builtin;
  source->key = Ref<>::share(name);
  source->object = Ref<>::share(builtins_dict);
  return lazy(found, source);
}

Captured<Value*> Executor::get_attr(Value* v, PyObject* name, Value** self) {
  if (self) *self = nullptr;
  const std::string text = text_of(name);
  switch (v->kind) {
    case ValueKind::Array:
      if (Door* door = door_of(*v)) {
        if (has_method(v, name)) break;  // the door is asked when it is called
        if (PyObject* raw = python_member(v, name)) {
          Ref<> getter = Py_IS_TYPE(raw, &PyProperty_Type) ? member(raw, "fget") : Ref<>();
          if (getter) {
            kept_.push_back(Ref<>::share(getter.get()));
            session_.record([this] { kept_.pop_back(); });
          }
          Value* f = session_.make(ValueKind::Function);
          f->object = Ref<>::share(getter ? getter.get() : raw);
          f->source = fixed_source(f->object.get(), text);
          if (getter) return call_function(f, {v}, {});
          if (self) {
            *self = v;
            return f;
          }
          Value* method = session_.make(ValueKind::BoundMethod);
          method->items = {v, f};
          return method;
        }
        return door->get_attr(session_, v, text);
      }
      break;
    case ValueKind::Object: return instance_attr_value(v, name, self);
    case ValueKind::Constant: {
      PyObject* o = v->object.get();
      if (PyModule_CheckExact(o)) {
        PyObject* raw = type_attr(&PyModule_Type, name);
        if (raw && is_data_descriptor(raw)) return break_at(BreakId::ImpureAttribute, "module." + text);
        const char* module = PyModule_GetName(o);
        if (!module) PyErr_Clear();
        FRAMEJIT_TRY(item, global_item(PyModule_GetDict(o), name, module ? module : "module"));
        if (!item) return break_at(BreakId::ImpureAttribute, std::string(module ? module : "module") + "." + text);
        return look(item);
      }
      if (PyType_Check(o)) return class_attr_value(v, name);
      break;
    }
    case ValueKind::Range:
    case ValueKind::Slice:
      for (int i = 0; i < 3; ++i)
        if (text == (i == 0 ? "start" : i == 1 ? "stop" : "step")) return look(v->items[static_cast<std::size_t>(i)]);
      break;
    case ValueKind::BoundMethod:
      if (v->iterated == kSuper) return super_attr_value(v, name, self);
      if (text == "__self__") return look(v->items[0]);
      break;
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Int:
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Dict:
    case ValueKind::Iterator:
    case ValueKind::Function:
    case ValueKind::Cell: break;
  }
  if (has_method(v, name)) {
    Value* method = session_.make(ValueKind::BoundMethod);
    method->items = {v, nullptr};
    method->extra = Ref<>::share(name);
    return method;
  }
  PyObject* type = type_of(v);
  return break_at(BreakId::UnknownObject,
                  (type ? std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) : "object") + "." + text);
}

PyObject* Executor::python_member(Value* v, PyObject* name) {
  PyObject* type = type_of(v);
  if (!type || !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE)) return nullptr;
  PyObject* raw = type_attr(reinterpret_cast<PyTypeObject*>(type), name);
  if (!raw) return nullptr;
  if (Py_IS_TYPE(raw, &PyProperty_Type)) {
    const Ref<> getter = member(raw, "fget");
    if (!getter || !PyFunction_Check(getter.get())) return nullptr;
  } else if (!PyFunction_Check(raw)) {
    return nullptr;
  } else if (v->source && has_instance_dict(reinterpret_cast<PyTypeObject*>(type))) {
    if (instance_attr(v->object.get(), name)) return nullptr;
    guard(GuardKind::HasNot, v->source, nullptr, name);
  }
  const SourceRef type_source = fixed_source(type, reinterpret_cast<PyTypeObject*>(type)->tp_name);
  if (PyFunction_Check(raw))
    guard(GuardKind::Identity, attr_source(type_source, name), raw);
  else if (v->source)
    guard(GuardKind::TypeAttr, v->source, raw, name);
  return raw;
}

bool Executor::has_method(Value* v, PyObject* name) {
  PyObject* type = type_of(v);
  if (!type) return false;
  if (PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE) && !door_of(*v)) return false;
  PyObject* raw = type_attr(reinterpret_cast<PyTypeObject*>(type), name);
  return raw && Py_IS_TYPE(raw, &PyMethodDescr_Type);
}

Captured<Value*> Executor::instance_attr_value(Value* v, PyObject* name, Value** self) {
  PyObject* o = v->object.get();
  PyTypeObject* type = Py_TYPE(o);
  const std::string text = text_of(name);
  const std::string what = std::string(type->tp_name) + "." + text;
  for (auto& [known_name, value] : v->attributes)
    if (known_name == text) {
      if (!value) return break_at(BreakId::WouldRaise, what);
      return look(value);
    }
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return break_at(BreakId::UnknownObject, what);
  // __getattr__ matters only for what is not found; __getattribute__ always does.
  static PyObject* const kGetAttribute = interned("__getattribute__");
  PyObject* getter = type_attr(type, kGetAttribute);
  if (getter != type_attr(&PyBaseObject_Type, kGetAttribute)) return break_at(BreakId::ImpureAttribute, what);
  guard(GuardKind::TypeAttr, v->source, getter, kGetAttribute);

  PyObject* raw = type_attr(type, name);
  if (raw && is_data_descriptor(raw)) {
    guard(GuardKind::TypeAttr, v->source, raw, name);
    return bind_descriptor(v, raw, name, self);
  }
  const SourceRef source = attr_source(v->source, name);
  if (PyObject* own = instance_attr(o, name)) {
    guard(GuardKind::TypeAttr, v->source, raw, name);
    Value* value = lazy(own, source);
    v->attributes.emplace_back(text, value);
    session_.record([v] { v->attributes.pop_back(); });
    return look(value);
  }
  if (!raw) return break_at(type_attr(type, "__getattr__") ? BreakId::ImpureAttribute : BreakId::WouldRaise, what);
  guard(GuardKind::HasNot, v->source, nullptr, name);
  if (Py_TYPE(raw)->tp_descr_get) {
    guard(GuardKind::TypeAttr, v->source, raw, name);
    return bind_descriptor(v, raw, name, self);
  }
  // A value on the class. Exact builtin values are no descriptors; another object's type must not become one.
  Value* value = wrap(raw, source);
  if (value->kind == ValueKind::Object) {
    static PyObject* const kGet = interned("__get__");
    guard(GuardKind::TypeAttr, source, nullptr, kGet);
  }
  v->attributes.emplace_back(text, value);
  session_.record([v] { v->attributes.pop_back(); });
  return value;
}

// `raw` was found on the type of `owner` and is fixed by a TypeAttr guard.
Captured<Value*> Executor::bind_descriptor(Value* owner, PyObject* raw, PyObject* name, Value** self) {
  const std::string shown = owner->source->str() + "." + text_of(name);
  const std::string what = std::string(Py_TYPE(owner->object.get())->tp_name) + "." + text_of(name);
  auto function_value = [&](PyObject* function) {
    Value* f = session_.make(ValueKind::Function);
    f->object = Ref<>::share(function);
    f->source = fixed_source(function, shown);
    return f;
  };
  auto bound = [&](Value* to, Value* function) {
    Value* m = session_.make(ValueKind::BoundMethod);
    m->items = {to, function};
    return m;
  };
  if (PyFunction_Check(raw)) {
    Value* f = function_value(raw);
    if (!self) return bound(owner, f);
    *self = owner;
    return f;
  }
  if (Py_IS_TYPE(raw, &PyStaticMethod_Type) || Py_IS_TYPE(raw, &PyClassMethod_Type)) {
    Ref<> inner = member(raw, "__func__");
    if (!inner || !PyFunction_Check(inner.get())) return break_at(BreakId::ImpureAttribute, what);
    kept_.push_back(Ref<>::share(inner.get()));
    session_.record([this] { kept_.pop_back(); });
    Value* f = function_value(inner.get());
    if (Py_IS_TYPE(raw, &PyStaticMethod_Type)) return f;
    return bound(session_.constant(reinterpret_cast<PyObject*>(Py_TYPE(owner->object.get()))), f);
  }
  if (Py_IS_TYPE(raw, &PyProperty_Type)) {
    Ref<> getter = member(raw, "fget");
    if (!getter || !PyFunction_Check(getter.get())) return break_at(BreakId::ImpureAttribute, what);
    kept_.push_back(Ref<>::share(getter.get()));
    session_.record([this] { kept_.pop_back(); });
    return call_function(function_value(getter.get()), {owner}, {});
  }
  if (Py_IS_TYPE(raw, &PyMemberDescr_Type)) {  // __slots__
    Ref<> held = Ref<>::steal(Py_TYPE(raw)->tp_descr_get(raw, owner->object.get(), nullptr));
    if (!held) {
      PyErr_Clear();
      return break_at(BreakId::WouldRaise, what);
    }
    kept_.push_back(Ref<>::share(held.get()));
    session_.record([this] { kept_.pop_back(); });
    Value* value = lazy(held.get(), attr_source(owner->source, name));
    owner->attributes.emplace_back(text_of(name), value);
    session_.record([owner] { owner->attributes.pop_back(); });
    return look(value);
  }
  return break_at(BreakId::ImpureAttribute, what);
}

// The MRO of type(self) behind the class: a function found there is a method of self.
Captured<Value*> Executor::super_attr_value(Value* v, PyObject* name, Value** self) {
  Value* owner = v->items[0];
  PyObject* after = v->items[1]->object.get();
  PyObject* mro = Py_TYPE(owner->object.get())->tp_mro;
  bool behind = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(mro, i);
    const bool look_here = behind;
    behind = behind || cls == after;
    if (!look_here) continue;
    PyObject* dict = reinterpret_cast<PyTypeObject*>(cls)->tp_dict;
    PyObject* raw = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
    if (!raw) {
      PyErr_Clear();
      Guard g{};
      g.kind = GuardKind::HasNot;
      g.object = Ref<>::share(dict);
      g.key = Ref<>::share(name);
      session_.add_guard(std::move(g));
      continue;
    }
    if (!PyFunction_Check(raw)) break;
    const std::string shown = std::string(reinterpret_cast<PyTypeObject*>(cls)->tp_name);
    guard(GuardKind::Identity, attr_source(fixed_source(cls, shown), name), raw);
    Value* f = session_.make(ValueKind::Function);
    f->object = Ref<>::share(raw);
    f->source = fixed_source(raw, shown + "." + text_of(name));
    if (self) {
      *self = owner;
      return f;
    }
    Value* m = session_.make(ValueKind::BoundMethod);
    m->items = {owner, f};
    return m;
  }
  return break_at(BreakId::ImpureAttribute, "super()." + text_of(name));
}

Captured<Value*> Executor::class_attr_value(Value* v, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(v->object.get());
  const std::string what = std::string(type->tp_name) + "." + text_of(name);
  PyTypeObject* meta = Py_TYPE(type);
  if (meta->tp_getattro != PyType_Type.tp_getattro) return break_at(BreakId::ImpureAttribute, what);
  PyObject* in_meta = type_attr(meta, name);
  if (in_meta && is_data_descriptor(in_meta)) return break_at(BreakId::ImpureAttribute, what);
  const std::string expression = v->source ? v->source->str() : type->tp_name;
  const SourceRef base = fixed_source(v->object.get(), expression);
  if (meta != &PyType_Type) guard(GuardKind::TypeAttr, base, in_meta, name);
  PyObject* raw = type_attr(type, name);
  if (!raw) return break_at(BreakId::WouldRaise, what);
  const SourceRef source = attr_source(base, name);
  if (!Py_TYPE(raw)->tp_descr_get) {
    Value* value = wrap(raw, source);
    if (value->kind == ValueKind::Object) {
      static PyObject* const kGet = interned("__get__");
      guard(GuardKind::TypeAttr, source, nullptr, kGet);
    }
    return value;
  }
  auto function_value = [&](PyObject* function) {
    Value* f = session_.make(ValueKind::Function);
    f->object = Ref<>::share(function);
    f->source = fixed_source(function, expression + "." + text_of(name));
    return f;
  };
  if (PyFunction_Check(raw)) {
    guard(GuardKind::Identity, source, raw);
    return function_value(raw);
  }
  if (Py_IS_TYPE(raw, &PyStaticMethod_Type) || Py_IS_TYPE(raw, &PyClassMethod_Type)) {
    Ref<> inner = member(raw, "__func__");
    if (!inner || !PyFunction_Check(inner.get())) return break_at(BreakId::ImpureAttribute, what);
    kept_.push_back(Ref<>::share(inner.get()));
    session_.record([this] { kept_.pop_back(); });
    guard(GuardKind::Identity, source, raw);
    Value* f = function_value(inner.get());
    if (Py_IS_TYPE(raw, &PyStaticMethod_Type)) return f;
    Value* m = session_.make(ValueKind::BoundMethod);
    m->items = {v, f};
    return m;
  }
  if (Py_IS_TYPE(raw, &PyMethodDescr_Type)) {  // a C method of a builtin type: ndarray.sum, list.append
    guard(GuardKind::Identity, source, raw);
    return session_.constant(raw);
  }
  return break_at(BreakId::ImpureAttribute, what);
}

Captured<bool> Executor::has_attr(Value* v, PyObject* name) {
  const std::string text = text_of(name);
  if (v->is_constant() && PyModule_CheckExact(v->object.get())) {
    PyObject* dict = PyModule_GetDict(v->object.get());
    static PyObject* const hook = interned("__getattr__");
    FRAMEJIT_TRY(item, global_item(dict, name, text_of(name)));
    if (item) {
      look(item);
      return true;
    }
    FRAMEJIT_TRY(dynamic, global_item(dict, hook, "module"));
    if (dynamic || type_attr(&PyModule_Type, name)) return break_at(BreakId::ImpureAttribute, text);
    for (PyObject* absent : {name, hook}) {
      Guard g{};
      g.kind = GuardKind::HasNot;
      g.object = Ref<>::share(dict);
      g.key = Ref<>::share(absent);
      session_.add_guard(std::move(g));
    }
    return false;
  }
  if (v->kind == ValueKind::Object && PyType_HasFeature(Py_TYPE(v->object.get()), Py_TPFLAGS_HEAPTYPE)) {
    PyTypeObject* type = Py_TYPE(v->object.get());
    bool stored = false;
    for (const auto& [known_name, value] : v->attributes) stored = stored || (known_name == text && value);
    static PyObject* const kHook = interned("__getattr__");
    static PyObject* const kGetAttribute = interned("__getattribute__");
    PyObject* getter = type_attr(type, kGetAttribute);
    const bool plain = getter == type_attr(&PyBaseObject_Type, kGetAttribute) && !type_attr(type, kHook);
    if (!stored && plain && !type_attr(type, name) && !instance_attr(v->object.get(), name)) {
      guard(GuardKind::TypeAttr, v->source, getter, kGetAttribute);
      guard(GuardKind::TypeAttr, v->source, nullptr, kHook);
      guard(GuardKind::TypeAttr, v->source, nullptr, name);
      guard(GuardKind::HasNot, v->source, nullptr, name);
      return false;
    }
  }
  FRAMEJIT_TRY(value, get_attr(v, name));
  (void)value;
  return true;
}

Captured<bool> Executor::set_attr(Value* v, PyObject* name, Value* value) {
  const std::string text = text_of(name);
  if (v->is_constant() && PyModule_CheckExact(v->object.get())) {
    PyObject* raw = type_attr(&PyModule_Type, name);
    if (raw && is_data_descriptor(raw)) return break_at(BreakId::ImpureAttribute, "module." + text);
    PyObject* dict = PyModule_GetDict(v->object.get());
    if (may_finalize(dict, name)) return finalizes();
    effects_.store_global(dict, name, value);
    return true;
  }
  if (v->kind != ValueKind::Object) return break_at(BreakId::UserEffect, "store into attribute " + text);
  PyTypeObject* type = Py_TYPE(v->object.get());
  const std::string what = std::string(type->tp_name) + "." + text;
  static PyObject* const kSetAttr = interned("__setattr__");
  PyObject* setter = type_attr(type, kSetAttr);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || setter != type_attr(&PyBaseObject_Type, kSetAttr))
    return break_at(BreakId::ImpureAttribute, what);
  PyObject* raw = type_attr(type, name);
  if (raw && is_data_descriptor(raw)) return break_at(BreakId::ImpureAttribute, what);
  if (!has_instance_dict(type)) return break_at(BreakId::WouldRaise, what);
  PyObject* before = instance_attr(v->object.get(), name);
  if (before && Py_TYPE(before)->tp_finalize) return finalizes();
  guard(GuardKind::TypeAttr, v->source, setter, kSetAttr);
  guard(GuardKind::TypeAttr, v->source, raw, name);
  effects_.store_attr(v, name, value);
  return true;
}

}  // namespace framejit::capture
