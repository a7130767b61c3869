// Strings that are made of numbers which are known at run time only: a call that the region's end makes.
//
// Of a number's text nothing is known at capture but that it is a str: it can be moved, stored, returned, and made part
// of another string. What could raise for some values of the numbers, or warns, is left to the interpreter.
#include "capture/text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/flow.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/warnings.h"
#include "graph/support/check.h"

namespace framejit::capture {

bool is_shown_whole(Executor& x, Value* v) {
  if (!v->is_array() || !is_mutable_array(*v) || (!x.options().fullgraph && !x.session().tapes().any())) return false;
  Frontend* frontend = frontend_of(x, *v);
  return frontend && type_of(x, v) == frontend->type_of(x.session(), *v);
}

Value* copy_of(Executor& x, Value* array) {
  return x.values().array(x.session().builder().copy(array->id(), 'K'), array->wrap());
}

namespace {

PyObject* builtin(const char* name) {
  PyObject* module = PyImport_AddModule("builtins");
  PyObject* found = module ? PyDict_GetItemString(PyModule_GetDict(module), name) : nullptr;
  FRAMEJIT_CHECK(found, name);
  return found;
}

/// The value whose text is made later, with copies of arrays that may change until then, also in tuples.
Value* as_it_is(Executor& x, Value* v) {
  if (is_shown_whole(x, v)) return copy_of(x, v);
  if (v->kind != ValueKind::Tuple) return v;
  Values items;
  for (Value* item : Values(v->items)) items.push_back(as_it_is(x, look(x, item)));
  return items == v->items ? v : x.values().tuple(std::move(items));
}

/// An object of the type of a number, or a str for an array: where there is one a NaN, of which no integer can be made.
Ref<> example(Executor& x, Value* v) {
  if (Ref<> known = plain(x, v)) return has_long_int(known.get()) ? Ref<>() : known;
  if (v->kind == ValueKind::Text) return Ref<>::steal(PyUnicode_FromString("text"));
  if (v->kind == ValueKind::Tuple) {
    Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(v->items.size())));
    for (std::size_t i = 0; tuple && i < v->items.size(); ++i) {
      Ref<> item = example(x, look(x, v->items[i]));
      if (!item) return {};
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return tuple;
  }
  if (is_shown_whole(x, v)) {
    const graph::Type& held = x.session().graph().type(v->id());
    if (held.rank() > 0 || v->wrap() == Wrap::Tensor) return Ref<>::steal(PyUnicode_FromString("text"));
    return Ref<>::steal(graph::is_float(held.dtype) ? PyFloat_FromDouble(NAN) : PyLong_FromLong(1));
  }
  PyObject* type = v->is_array() && (v->wrap() == Wrap::NumpyScalar || v->wrap() == Wrap::PyFloat ||
                                     v->wrap() == Wrap::PyInt || v->wrap() == Wrap::PyBool)
                       ? type_of(x, v)
                       : nullptr;
  if (!type) return {};
  const bool floating = graph::is_float(x.session().graph().type(v->id()).dtype);
  Ref<> number = Ref<>::steal(PyFloat_FromDouble(floating ? NAN : 1.0));
  return number ? Ref<>::steal(PyObject_CallOneArg(type, number.get())) : Ref<>();
}

/// Is an int made a character, which it may be too large for, or is the locale asked?
bool goes_by_more(const char* spec) {
  if (const std::size_t length = std::strlen(spec); length > 0 && (spec[length - 1] == 'c' || spec[length - 1] == 'n'))
    return true;
  for (const char* at = std::strchr(spec, '%'); at; at = std::strchr(at + 1, '%')) {
    const char* kind = at + 1 + std::strspn(at + 1, "-#0 +.*123456789");
    if (*kind == 'c') return true;
    if (*kind == '%') at = kind;
  }
  return std::strstr(spec, "c}") || std::strstr(spec, "n}");
}

/// type(v).name(v, *args) if the class defines the name in Python, and if that returns a str; null if it defines it
/// elsewhere.
Captured<Value*> text_by_method(Executor& x, Value* v, PyObject* name, Values args) {
  auto* const type = reinterpret_cast<PyTypeObject*>(type_of(x, v));
  PyObject* const function = type_attr(type, name);
  guard_lookup(x, owner_of_attributes(v), function, name);
  if (!function || !PyFunction_Check(function)) return static_cast<Value*>(nullptr);
  args.insert(args.begin(), v);
  Value* const method = function_at(x, function, std::string(type->tp_name) + "." + text_of(name));
  FRAMEJIT_TRY(returned, call_function(x, method, args, {}));
  Value* const made = look(x, returned);
  const bool is_str =
      made->kind == ValueKind::Text || (made->is_constant() && PyUnicode_CheckExact(made->object.get()));
  return is_str ? Captured<Value*>(made) : break_at(BreakId::UnknownObject, "text of a value");
}

}  // namespace

Ref<> plain_text(Executor& x, Value* v) {
  if (Ref<> known = plain(x, v)) return known;
  v = look(x, v);
  const bool library =
      v->is_constant() && std::any_of(x.session().frontends().begin(), x.session().frontends().end(),
                                      [&](Frontend* frontend) { return frontend->has_text(v->object.get()); });
  return library ? v->object : Ref<>();
}

Captured<Value*> text(Executor& x, PyObject* function, Values args, PyObject* spec) {
  const auto unknown = break_at(BreakId::UnknownObject, "text of a value");
  const char* const how = spec && PyUnicode_CheckExact(spec) ? PyUnicode_AsUTF8(spec) : "";
  PyErr_Clear();
  if (!how || goes_by_more(how)) return unknown;
  Ref<> examples = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  for (std::size_t i = 0; examples && i < args.size(); ++i) {
    args[i] = look(x, args[i]);
    Ref<> one = example(x, args[i]);
    if (!one) {
      PyErr_Clear();
      return unknown;
    }
    PyTuple_SET_ITEM(examples.get(), static_cast<Py_ssize_t>(i), one.release());
    args[i] = as_it_is(x, args[i]);
  }
  Ref<> made;
  if (examples)
    made = call_with_warnings_raised([&] { return Ref<>::steal(PyObject_Call(function, examples.get(), nullptr)); });
  clear_error_of_call();
  if (!made || !PyUnicode_CheckExact(made.get())) return unknown;
  Value* v = x.values().make(ValueKind::Text);
  v->object = Ref<>::share(function);
  v->items = std::move(args);
  return v;
}

Captured<Value*> text_by_class(Executor& x, Value* v, int conversion, Value* spec) {
  static PyObject *const kFormat = interned("__format__"), *const kStr = interned("__str__"),
                         *const kRepr = interned("__repr__");
  PyObject* const type = v->kind == ValueKind::Object || v->is_array() ? type_of(x, v) : nullptr;
  const bool known = type && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE) &&
                     owner_of_attributes(v)->object && !is_exception(*v);
  if (!known || conversion > 2) return static_cast<Value*>(nullptr);
  const auto is_of_object = [type](PyObject* name) {
    return type_attr(reinterpret_cast<PyTypeObject*>(type), name) == type_attr(&PyBaseObject_Type, name);
  };
  if (conversion == 0) {
    FRAMEJIT_TRY(made, text_by_method(x, v, kFormat, {spec ? spec : x.str("")}));
    if (made || spec || !is_of_object(kFormat)) return made;
  }
  if (conversion < 2) {
    FRAMEJIT_TRY(made, text_by_method(x, v, kStr, {}));
    if (made || !is_of_object(kStr)) return made;
  }
  return text_by_method(x, v, kRepr, {});
}

Captured<Value*> formatted(Executor& x, Value* value, int conversion, Value* spec) {
  if (spec && !(spec->is_constant() && PyUnicode_CheckExact(spec->object.get())))
    return break_at(BreakId::UnknownObject, "text of a value");
  if (spec && PyUnicode_GET_LENGTH(spec->object.get()) == 0) spec = nullptr;
  PyObject* const str = reinterpret_cast<PyObject*>(&PyUnicode_Type);
  FRAMEJIT_TRY(own, text_by_class(x, value, conversion, spec));
  if (own) return spec && conversion > 0 ? text(x, builtin("format"), {own, spec}, spec->object.get()) : own;
  Value* text_of_value = value;
  if (value->kind != ValueKind::Text || conversion > 1) {
    if (conversion == 0 && spec) return text(x, builtin("format"), {value, spec}, spec->object.get());
    PyObject* const convert = conversion == 2   ? builtin("repr")
                              : conversion == 3 ? builtin("ascii")
                              : conversion == 1 ? str
                                                : builtin("format");
    FRAMEJIT_TRY(converted, text(x, convert, {value}));
    text_of_value = converted;
  }
  return spec ? text(x, builtin("format"), {text_of_value, spec}, spec->object.get()) : text_of_value;
}

Captured<Value*> joined(Executor& x, Values parts) {
  for (Value*& part : parts) {
    part = look(x, part);
    const bool is_text =
        part->kind == ValueKind::Text || (part->is_constant() && PyUnicode_CheckExact(part->object.get()));
    if (!is_text) return break_at(BreakId::UnknownObject, "text of a value");
  }
  static PyObject* const join = PyObject_GetAttrString(interned(""), "join");
  return text(x, join, {x.values().tuple(std::move(parts))});
}

}  // namespace framejit::capture
