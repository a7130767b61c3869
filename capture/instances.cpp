// Instances made during capture: of classes written in Python, and exceptions.
//
// An instance is its class and its attributes; __init__ and what it calls are inlined. Exceptions hold their arguments
// under "args"; they are never made again at an exit (a traceback belongs to them), so a region ends before they appear
// or after they are gone.
#include <iterator>
#include <utility>

#include "capture/builtins.h"
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

void Executor::set_attribute(Value* made, const std::string& name, Value* value) {
  Attributes& held = made->attributes;
  if (auto* known = held.find(name); known && value) {
    Value* before = std::exchange(known->second, value);
    session_.record(made, [made, name, before] { made->attributes.find(name)->second = before; });
  } else if (known) {
    const std::size_t at = held.place_of(known);
    session_.record(made, [made, at, before = *known] { made->attributes.insert(at, before); });
    held.erase(at);
  } else if (value) {
    held.append(name, value);
    session_.record(made, [made] { made->attributes.drop_last(); });
  }
}

Value* Executor::attribute(const Value* made, const std::string& name) {
  const auto* known = made->attributes.find(name);
  return known ? known->second : nullptr;
}

Captured<Value*> Executor::make_instance(PyTypeObject* type, const Values& args, const Keywords& keywords) {
  auto* cls = reinterpret_cast<PyObject*>(type);
  static PyObject* const kCall = interned("__call__");
  FRAMEJIT_TRY(by_metaclass, special_method(session_.constant(cls), kCall));
  if (by_metaclass) return call(by_metaclass, args, keywords);
  const bool exception = is_plain_exception(type), tuple = is_tuple_class(type);
  if (!exception && !tuple && !is_python_class(type)) return not_made(type);
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) return not_made(type);
  if (type->tp_finalize || type->tp_del) return break_at(BreakId::UserEffect, "an object with a finalizer");
  static PyObject* const kNew = interned("__new__");
  static PyObject* const kInit = interned("__init__");
  if (Py_TYPE(type)->tp_call != PyType_Type.tp_call) return not_made(type);
  guard_mro(type);
  if (Py_TYPE(type) != &PyType_Type)
    guard(GuardKind::TypeAttr, fixed_source(cls, type->tp_name), type_attr(Py_TYPE(type), kCall), kCall);
  if (tuple) return construct_tuple(type, args, keywords);
  PyObject* init = type_attr(type, kInit);
  Value* made = session_.make(ValueKind::Object);
  made->object = Ref<>::share(cls);
  made->transient = is_polyfill_class(type);
  guard_lookup(made, type_attr(type, kNew), kNew);
  guard_lookup(made, init, kInit);
  if (exception) set_attribute(made, "args", session_.tuple(args));
  if (init && PyFunction_Check(init)) {
    Value* f = function_at(init, std::string(type->tp_name) + ".__init__");
    Values all{made};
    all.insert(all.end(), args.begin(), args.end());
    FRAMEJIT_TRY(result, call_function(f, all, keywords));
    if (!look(result)->is_none()) return break_at(BreakId::WouldRaise, "__init__() that returns something");
    return made;
  }
  if (!init || !Py_IS_TYPE(init, &PyWrapperDescr_Type)) return not_made(type);
  if (!keywords.empty()) return not_made(type);
  if (!exception && !args.empty()) return raises(PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
  return made;
}

Value* Executor::make_exception(PyObject* type) {
  Value* made = session_.make(ValueKind::Object);
  made->object = Ref<>::share(type);
  return made;
}

Value* Executor::make_exception(PyObject* type, Values args) {
  Value* made = make_exception(type);
  set_attribute(made, "args", session_.tuple(std::move(args)));
  return made;
}

Unexpected<Break> Executor::divides_by_zero() {
  Unexpected<Break> b = break_at(BreakId::WouldRaise, "division by zero");
  b.error.raised = make_exception(PyExc_ZeroDivisionError);
  return b;
}

Unexpected<Break> Executor::key_error(Value* key) {
  Unexpected<Break> b = break_at(BreakId::WouldRaise, "KeyError");
  b.error.raised = make_exception(PyExc_KeyError, {key});
  return b;
}

Unexpected<Break> Executor::raises(PyObject* type, const std::string& text, std::string detail) {
  Unexpected<Break> b = break_at(BreakId::WouldRaise, detail.empty() ? text : std::move(detail));
  b.error.raised = make_exception(type, {str(text)});
  return b;
}

Unexpected<Break> Executor::raises_current(std::string detail) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref<> held[] = {Ref<>::steal(type), Ref<>::steal(value), Ref<>::steal(traceback)};
  Unexpected<Break> b = break_at(BreakId::WouldRaise, std::move(detail));
  if (!value || !is_plain_exception(Py_TYPE(value)) || PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE)) return b;
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(value)->args;
  if (!args || !is_plain(args)) return b;
  Values items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) items.push_back(literal(PyTuple_GET_ITEM(args, i)));
  b.error.raised = make_exception(reinterpret_cast<PyObject*>(Py_TYPE(value)), std::move(items));
  return b;
}

Captured<Value*> Executor::exception_text(Value* e) {
  static PyObject* const kStr = interned("__str__");
  PyObject* method = type_attr(class_of(*e), kStr);
  guard_lookup(e, method, kStr);
  const bool by_key = method == type_attr(reinterpret_cast<PyTypeObject*>(PyExc_KeyError), kStr);
  if (!by_key && method != type_attr(exception_base(), kStr))
    return break_at(BreakId::UnknownObject, "text of an exception");
  Value* held = attribute(e, "args");
  if (!held) return break_at(BreakId::UnknownObject, "text of an exception");
  const Values& args = held->items;
  if (args.empty()) return str("");
  Ref<> shown = plain(look(args.size() == 1 ? args[0] : held));
  if (!shown) return break_at(BreakId::UnknownObject, "text of an exception");
  Ref<> text = Ref<>::steal(by_key && args.size() == 1 ? PyObject_Repr(shown.get()) : PyObject_Str(shown.get()));
  if (!text) {
    PyErr_Clear();
    return break_at(BreakId::UnknownObject, "text of an exception");
  }
  return session_.constant(text.get());
}

// Slot wrappers of object and BaseException: what super().__init__() and object.__setattr__() reach.
Captured<Value*> Executor::call_slot(PyObject* wrapper, const Values& args, const Keywords& keywords) {
  auto* descriptor = reinterpret_cast<PyDescrObject*>(wrapper);
  const std::string name = text_of(descriptor->d_name);
  PyTypeObject* of = descriptor->d_type;
  Value* self = args.empty() ? nullptr : look(args[0]);
  if (self && self->kind == ValueKind::Object && keywords.empty()) {
    if (name == "__init__" && of == &PyBaseObject_Type && args.size() == 1) return none();
    if (name == "__init__" && PyType_IsSubtype(of, exception_base()) && is_exception(*self) &&
        is_plain_exception(class_of(*self))) {
      set_attribute(self, "args", session_.tuple(Values(args.begin() + 1, args.end())));
      return none();
    }
    if (name == "__setattr__" && of == &PyBaseObject_Type && args.size() == 3) {
      Value* attr = look(args[1]);
      if (attr->is_constant() && PyUnicode_CheckExact(attr->object.get())) {
        FRAMEJIT_REQUIRE(set_attr_generic(self, attr->object.get(), args[2]));
        return none();
      }
    }
    if (name == "__str__" && args.size() == 1 && is_exception(*self)) return exception_text(self);
  }
  return break_at(BreakId::UnknownCallable, "'" + std::string(of->tp_name) + "." + name + "'");
}

Captured<Value*> Executor::special_method(Value* v, PyObject* name) {
  const bool is_class = v->is_constant() && PyType_Check(v->object.get());  // its metaclass says
  PyTypeObject* type = is_class ? Py_TYPE(v->object.get()) : v->kind == ValueKind::Object ? class_of(*v) : nullptr;
  if (!type || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return static_cast<Value*>(nullptr);
  PyObject* raw = type_attr(type, name);
  if (!raw || !PyFunction_Check(raw)) return static_cast<Value*>(nullptr);
  if (is_class)
    guard(GuardKind::TypeAttr, fixed_source(v->object.get(), reinterpret_cast<PyTypeObject*>(v->object.get())->tp_name),
          raw, name);
  else guard_lookup(v, raw, name);
  Value* bound = session_.make(ValueKind::BoundMethod);
  bound->items = {v, function_at(raw, std::string(type->tp_name) + "." + text_of(name))};
  return bound;
}

Captured<Value*> Executor::special(Value* v, PyObject* name, const Values& args) {
  FRAMEJIT_TRY(method, special_method(v, name));
  return method ? call(method, args, {}) : Captured<Value*>(method);
}

void Executor::set_handled(Value* exception) {
  session_.learn([this, before = handled] { handled = before; });
  handled = exception;
}

}  // namespace framejit::capture
