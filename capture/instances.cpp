// Instances made during capture: of classes written in Python, and exceptions.
//
// An instance is its class and its attributes; __init__ and what it calls are inlined. Exceptions hold their arguments
// under "args"; they are never made again at an exit (a traceback belongs to them), so a region ends before they appear
// or after they are gone.
#include "capture/instances.h"

#include <iterator>
#include <utility>

#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/named_tuples.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"

namespace framejit::capture {

namespace {

PyTypeObject* exception_base() { return reinterpret_cast<PyTypeObject*>(PyExc_BaseException); }

/// Made by BaseException.__new__: what it holds is its arguments and its dict. OSError and the like have more.
bool is_plain_exception(PyTypeObject* type) {
  for (PyObject* strict :
       {PyExc_SyntaxError, PyExc_UnicodeEncodeError, PyExc_UnicodeDecodeError, PyExc_UnicodeTranslateError})
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(strict))) return false;  // not any arguments are right
  return PyType_IsSubtype(type, exception_base()) &&
         (type->tp_new == exception_base()->tp_new ||
          PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)));
}

/// Nothing of a C type's but object itself below it.
bool is_python_class(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || type->tp_new != PyBaseObject_Type.tp_new) return false;
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (base != &PyBaseObject_Type && !PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) return false;
  }
  return true;
}

Unexpected<Break> not_made(PyTypeObject* type) {
  return break_at(BreakId::UnknownCallable, "'" + std::string(type->tp_name) + "'");
}

}  // namespace

bool is_exception(const Value& v) { return v.is_made() && PyType_IsSubtype(class_of(v), exception_base()); }

void set_attribute(Executor& x, Value* made, const std::string& name, Value* value) {
  Attributes& held = made->attributes();
  if (auto* known = held.find(name); known && value) {
    Value* before = std::exchange(known->second, value);
    x.session().undo().record(made, [made, name, before] { made->attributes().find(name)->second = before; });
  } else if (known) {
    const std::size_t at = held.place_of(known);
    x.session().undo().record(made, [made, at, before = *known] { made->attributes().insert(at, before); });
    held.erase(at);
  } else if (value) {
    held.append(name, value);
    x.session().undo().record(made, [made] { made->attributes().drop_last(); });
  }
}

Value* attribute(const Value* made, const std::string& name) {
  const auto* known = made->attributes().find(name);
  return known ? known->second : nullptr;
}

Captured<Value*> make_instance(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords) {
  auto* cls = reinterpret_cast<PyObject*>(type);
  static PyObject* const kCall = interned("__call__");
  FRAMEJIT_TRY(by_metaclass, special_method(x, x.values().constant(cls), kCall));
  if (by_metaclass) return call(x, by_metaclass, args, keywords);
  const bool exception = is_plain_exception(type), tuple = is_tuple_class(type);
  if (!exception && !tuple && !is_python_class(type)) return not_made(type);
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) return not_made(type);
  if (type->tp_finalize || type->tp_del) return break_at(BreakId::UserEffect, "an object with a finalizer");
  static PyObject* const kNew = interned("__new__");
  static PyObject* const kInit = interned("__init__");
  if (Py_TYPE(type)->tp_call != PyType_Type.tp_call) return not_made(type);
  guard_mro(x, type);
  if (Py_TYPE(type) != &PyType_Type)
    guard(x, GuardKind::TypeAttr, fixed_source(cls, type->tp_name), type_attr(Py_TYPE(type), kCall), kCall);
  if (tuple) return construct_tuple(x, type, args, keywords);
  PyObject* init = type_attr(type, kInit);
  Value* made = x.values().make(ValueKind::Object);
  made->object = Ref<>::share(cls);
  made->transient = is_polyfill_class(type);
  guard_lookup(x, made, type_attr(type, kNew), kNew);
  guard_lookup(x, made, init, kInit);
  if (exception) set_attribute(x, made, "args", x.values().tuple(args));
  if (init && PyFunction_Check(init)) {
    Value* f = function_at(x, init, std::string(type->tp_name) + ".__init__");
    Values all{made};
    all.insert(all.end(), args.begin(), args.end());
    FRAMEJIT_TRY(result, call_function(x, f, all, keywords));
    if (!look(x, result)->is_none()) return break_at(BreakId::WouldRaise, "__init__() that returns something");
    return made;
  }
  if (!init || !Py_IS_TYPE(init, &PyWrapperDescr_Type)) return not_made(type);
  if (!keywords.empty()) return not_made(type);
  if (!exception && !args.empty())
    return raises(x, PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
  return made;
}

Value* make_exception(Executor& x, PyObject* type) {
  Value* made = x.values().make(ValueKind::Object);
  made->object = Ref<>::share(type);
  return made;
}

Value* make_exception(Executor& x, PyObject* type, Values args) {
  Value* made = make_exception(x, type);
  set_attribute(x, made, "args", x.values().tuple(std::move(args)));
  return made;
}

Unexpected<Break> divides_by_zero(Executor& x) {
  Unexpected<Break> b = break_at(BreakId::WouldRaise, "division by zero");
  b.error.raised = make_exception(x, PyExc_ZeroDivisionError);
  return b;
}

Unexpected<Break> key_error(Executor& x, Value* key) {
  Unexpected<Break> b = break_at(BreakId::WouldRaise, "KeyError");
  b.error.raised = make_exception(x, PyExc_KeyError, {key});
  return b;
}

Unexpected<Break> raises(Executor& x, PyObject* type, const std::string& text, std::string detail) {
  Unexpected<Break> b = break_at(BreakId::WouldRaise, detail.empty() ? text : std::move(detail));
  b.error.raised = make_exception(x, type, {x.str(text)});
  return b;
}

Unexpected<Break> raises_current(Executor& x, std::string detail) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref<> held[] = {Ref<>::steal(type), Ref<>::steal(value), Ref<>::steal(traceback)};
  Unexpected<Break> b = break_at(BreakId::WouldRaise, std::move(detail));
  if (!value || !is_plain_exception(Py_TYPE(value)) || PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE)) return b;
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(value)->args;
  if (!args || !is_plain(args)) return b;
  Values items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) items.push_back(literal(x, PyTuple_GET_ITEM(args, i)));
  b.error.raised = make_exception(x, reinterpret_cast<PyObject*>(Py_TYPE(value)), std::move(items));
  return b;
}

Captured<Value*> exception_text(Executor& x, Value* e) {
  static PyObject* const kStr = interned("__str__");
  PyObject* method = type_attr(class_of(*e), kStr);
  guard_lookup(x, e, method, kStr);
  const bool by_key = method == type_attr(reinterpret_cast<PyTypeObject*>(PyExc_KeyError), kStr);
  if (!by_key && method != type_attr(exception_base(), kStr))
    return break_at(BreakId::UnknownObject, "text of an exception");
  Value* held = attribute(e, "args");
  if (!held) return break_at(BreakId::UnknownObject, "text of an exception");
  const Values& args = held->items;
  if (args.empty()) return x.str("");
  Ref<> shown = plain(x, look(x, args.size() == 1 ? args[0] : held));
  if (!shown) return break_at(BreakId::UnknownObject, "text of an exception");
  Ref<> text = Ref<>::steal(by_key && args.size() == 1 ? PyObject_Repr(shown.get()) : PyObject_Str(shown.get()));
  if (!text) {
    PyErr_Clear();
    return break_at(BreakId::UnknownObject, "text of an exception");
  }
  return x.values().constant(text.get());
}

// Slot wrappers of object and BaseException: what super().__init__() and object.__setattr__() reach.
Captured<Value*> call_slot(Executor& x, PyObject* wrapper, const Values& args, const Keywords& keywords) {
  auto* descriptor = reinterpret_cast<PyDescrObject*>(wrapper);
  const std::string name = text_of(descriptor->d_name);
  PyTypeObject* of = descriptor->d_type;
  Value* self = args.empty() ? nullptr : look(x, args[0]);
  if (self && self->kind == ValueKind::Object && keywords.empty()) {
    if (name == "__init__" && of == &PyBaseObject_Type && args.size() == 1) return x.none();
    if (name == "__init__" && PyType_IsSubtype(of, exception_base()) && is_exception(*self) &&
        is_plain_exception(class_of(*self))) {
      set_attribute(x, self, "args", x.values().tuple(Values(args.begin() + 1, args.end())));
      return x.none();
    }
    if (name == "__setattr__" && of == &PyBaseObject_Type && args.size() == 3) {
      Value* attr = look(x, args[1]);
      if (attr->is_constant() && PyUnicode_CheckExact(attr->object.get())) {
        FRAMEJIT_REQUIRE(set_attr_generic(x, self, attr->object.get(), args[2]));
        return x.none();
      }
    }
    if (name == "__str__" && args.size() == 1 && is_exception(*self)) return exception_text(x, self);
  }
  return break_at(BreakId::UnknownCallable, "'" + std::string(of->tp_name) + "." + name + "'");
}

Captured<Value*> special_method(Executor& x, Value* v, PyObject* name) {
  const bool is_class = v->is_constant() && PyType_Check(v->object.get());  // its metaclass says
  PyTypeObject* type = is_class ? Py_TYPE(v->object.get()) : v->kind == ValueKind::Object ? class_of(*v) : nullptr;
  if (!type || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return static_cast<Value*>(nullptr);
  PyObject* raw = type_attr(type, name);
  if (!raw || !PyFunction_Check(raw)) return static_cast<Value*>(nullptr);
  if (is_class)
    guard(x, GuardKind::TypeAttr,
          fixed_source(v->object.get(), reinterpret_cast<PyTypeObject*>(v->object.get())->tp_name), raw, name);
  else guard_lookup(x, v, raw, name);
  Value* bound = x.values().make(ValueKind::BoundMethod);
  bound->items = {v, function_at(x, raw, std::string(type->tp_name) + "." + text_of(name))};
  return bound;
}

Captured<Value*> special(Executor& x, Value* v, PyObject* name, const Values& args) {
  FRAMEJIT_TRY(method, special_method(x, v, name));
  return method ? call(x, method, args, {}) : Captured<Value*>(method);
}

}  // namespace framejit::capture
