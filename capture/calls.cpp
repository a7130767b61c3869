// Calls: library functions go to their frontend, Python functions are inlined as nested frames.
#include "capture/calls.h"

#include <algorithm>
#include <span>

#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/caches.h"
#include "capture/containers.h"
#include "capture/hook.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/lru_cache.h"
#include "capture/py/repr.h"
#include "capture/python_names.h"
#include "capture/symbolic_frame.h"

namespace framejit::capture {

namespace {

SourceRef function_part(SourceKind kind, const SourceRef& function, int index, PyObject* key, std::string name = {}) {
  auto s = std::make_shared<Source>();
  s->kind = kind;
  s->base = function;
  s->index = index;
  s->key = Ref<>::share(key);
  s->name = std::move(name);
  return s;
}

bool is_builtin(PyObject* o) {
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type) || o == reinterpret_cast<PyObject*>(&PyLong_Type) ||
      o == reinterpret_cast<PyObject*>(&PyBool_Type) || o == reinterpret_cast<PyObject*>(&PyComplex_Type))
    return true;
  if (!PyCFunction_Check(o)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(o)->m_module;
  return module && PyUnicode_CheckExact(module) && PyUnicode_CompareWithASCIIString(module, "builtins") == 0;
}

// The parts of a function that a call needs, of an existing function or of one made during capture.
struct Callee {
  PyCodeObject* code;
  PyObject* globals;
  Values defaults;  // of the last positional parameters; looked at when they are used
  Value* function;
};

// Is it a function of framejit's own that steers capture?
bool is_control(PyFunctionObject* f) {
  PyObject* module = PyDict_CheckExact(f->func_globals) ? PyDict_GetItemString(f->func_globals, "__name__") : nullptr;
  return module && PyUnicode_CheckExact(module) &&
         PyUnicode_CompareWithASCIIString(module, python_names::kControl) == 0;
}

std::string name_of_code(PyCodeObject* code) { return text_of(code->co_qualname); }

// Puts arguments into the slots of the callee. The order of locals: positional, keyword-only, *args, **kwargs.
class Binder {
 public:
  Binder(Executor& x, const Callee& callee, Values& locals)
      : x_(x), callee_(callee), locals_(locals), code_(callee.code) {}

  Captured<bool> bind(const Values& args, const Keywords& keywords) {
    const int positional = code_->co_argcount, total = positional + code_->co_kwonlyargcount;
    int slot = total;
    Value* rest = nullptr;
    const int given = std::min<int>(positional, static_cast<int>(args.size()));
    for (int i = 0; i < given; ++i) locals_[static_cast<std::size_t>(i)] = args[static_cast<std::size_t>(i)];
    if (code_->co_flags & CO_VARARGS) {
      rest = x_.values().tuple(Values(args.begin() + given, args.end()));
      locals_[static_cast<std::size_t>(slot++)] = rest;
    } else if (static_cast<int>(args.size()) > positional) {
      return raises("too many arguments");
    }
    Value* extra = nullptr;
    if (code_->co_flags & CO_VARKEYWORDS) {
      extra = x_.values().make(ValueKind::Dict);
      locals_[static_cast<std::size_t>(slot)] = extra;
    }
    for (const auto& [name, value] : keywords) {
      const int at = parameter(name, total);
      if (at < 0) {
        if (!extra) return raises("unexpected keyword argument " + text_of(name));
        extra->items.push_back(x_.values().constant(name));
        extra->items.push_back(value);
        continue;
      }
      if (locals_[static_cast<std::size_t>(at)]) return raises("two values for argument " + text_of(name));
      locals_[static_cast<std::size_t>(at)] = value;
    }
    return fill_defaults(positional, total);
  }

 private:
  Unexpected<Break> raises(const std::string& why) {
    Unexpected<Break> b = break_at(BreakId::WouldRaise, name_of_code(code_) + "(): " + why);
    b.error.raised = make_exception(x_, PyExc_TypeError);  // the words are the interpreter's
    return b;
  }

  int parameter(PyObject* name, int total) {
    for (int i = code_->co_posonlyargcount; i < total; ++i)
      if (same_key(PyTuple_GET_ITEM(code_->co_localsplusnames, i), name)) return i;
    return -1;
  }

  Captured<bool> fill_defaults(int positional, int total) {
    for (int i = 0; i < positional; ++i) {
      if (locals_[static_cast<std::size_t>(i)]) continue;
      FRAMEJIT_TRY(value, positional_default(i, positional));
      if (!value) return raises("missing argument");
      locals_[static_cast<std::size_t>(i)] = value;
    }
    for (int i = positional; i < total; ++i) {
      if (locals_[static_cast<std::size_t>(i)]) continue;
      FRAMEJIT_TRY(value, keyword_default(PyTuple_GET_ITEM(code_->co_localsplusnames, i)));
      if (!value) return raises("missing keyword-only argument");
      locals_[static_cast<std::size_t>(i)] = value;
    }
    return true;
  }

  Captured<Value*> positional_default(int i, int positional) {
    Value* f = callee_.function;
    if (!f->source) {
      Value* tuple = f->items[0];
      if (!tuple) return static_cast<Value*>(nullptr);
      const int at = i - (positional - static_cast<int>(tuple->items.size()));
      return at < 0 ? nullptr : tuple->items[static_cast<std::size_t>(at)];
    }
    PyObject* defaults = reinterpret_cast<PyFunctionObject*>(f->object.get())->func_defaults;
    if (!defaults || !PyTuple_CheckExact(defaults)) return static_cast<Value*>(nullptr);
    // How many there are decides which parameter each belongs to.
    const Py_ssize_t count = PyTuple_GET_SIZE(defaults);
    guard(x_, GuardKind::Length, function_part(SourceKind::Default, f->source, -1, nullptr), nullptr, nullptr, count);
    const int at = i - (positional - static_cast<int>(count));
    if (at < 0) return static_cast<Value*>(nullptr);
    return lazy(x_, PyTuple_GET_ITEM(defaults, at), function_part(SourceKind::Default, f->source, at, nullptr));
  }

  Captured<Value*> keyword_default(PyObject* name) {
    Value* f = callee_.function;
    if (!f->source) {
      Value* dict = f->items[1];
      for (std::size_t k = 0; dict && k < dict->items.size(); k += 2)
        if (same_key(dict->items[k]->object.get(), name)) return dict->items[k + 1];
      return static_cast<Value*>(nullptr);
    }
    PyObject* defaults = reinterpret_cast<PyFunctionObject*>(f->object.get())->func_kwdefaults;
    if (!defaults || !PyDict_CheckExact(defaults)) return static_cast<Value*>(nullptr);
    PyObject* found = PyDict_GetItemWithError(defaults, name);
    if (!found) {
      PyErr_Clear();
      return static_cast<Value*>(nullptr);
    }
    return lazy(x_, found, function_part(SourceKind::Default, f->source, -1, name));
  }

  Executor& x_;
  const Callee& callee_;
  Values& locals_;
  PyCodeObject* code_;
};

/// Might the argument, or an item of it, have a say in NumPy's functions by a __array_function__ of its own?
bool may_override(Executor& x, Value* value) {
  value = look(x, value);
  switch (value->kind) {
    case ValueKind::Array: return value->wrap() == Wrap::Tensor;
    case ValueKind::Int:
    case ValueKind::Slice:
    case ValueKind::Range:
    case ValueKind::Function: return false;
    case ValueKind::List:
      if (!open(x, value)) return true;
      [[fallthrough]];
    case ValueKind::Tuple:
      return std::any_of(value->items.begin(), value->items.end(), [&](Value* item) { return may_override(x, item); });
    case ValueKind::Constant: return type_attr(Py_TYPE(value->object.get()), "__array_function__") != nullptr;
    case ValueKind::Object:
      return !value->source || PyType_HasFeature(Py_TYPE(value->object.get()), Py_TPFLAGS_HEAPTYPE) ||
             type_attr(Py_TYPE(value->object.get()), "__array_function__");
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Set:
    case ValueKind::Dict:
    case ValueKind::Iterator:
    case ValueKind::BoundMethod:
    case ValueKind::Cell:
    case ValueKind::Text: break;
  }
  return true;
}

}  // namespace

Captured<Value*> call_function(Executor& x, Value* function, const Values& args, const Keywords& keywords) {
  const bool existing = function->source != nullptr;
  auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  Callee callee{existing ? reinterpret_cast<PyCodeObject*>(object->func_code)
                         : reinterpret_cast<PyCodeObject*>(function->object.get()),
                existing ? object->func_globals : function->as_function().globals.get(),
                {},
                function};
  const std::string name = name_of_code(callee.code);
  if (existing && !runs_its_code(object))
    return break_at(BreakId::UnknownCallable, name + "(), which PyFunction_SetVectorcall() has changed");
  if (x.options().leave_alone && x.options().leave_alone(callee.code))
    return break_at(BreakId::UserBreak, name + "() is disabled");
  if (existing && is_control(object)) {
    // What these functions of the package mean is decided here; their bodies are for plain Python.
    guard(x, GuardKind::Identity, function->source, function->object.get());
    if (name == "is_compiling") return x.boolean(true);
    if (name == "graph_break") {
      Value* reason = args.empty() ? nullptr : look(x, args[0]);
      return break_at(BreakId::UserBreak, reason && reason->is_constant() && is_plain(reason->object.get())
                                              ? text_of(reason->object.get())
                                              : "");
    }
  }
  const bool generator = (callee.code->co_flags & CO_GENERATOR) != 0;
  if (callee.code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE))
    return break_at(BreakId::GeneratorFrame, name + "()");
  if (x.depth >= x.options().inline_depth) return break_at(BreakId::RecursiveCall, name + "()");
  const uint32_t level = x.calls.level_of(callee.code);
  if (x.calls.is_exhausted(level)) return break_at(BreakId::RecursiveCall, name + "()");
  if (existing) {
    Guard g{};
    g.kind = GuardKind::Code;
    g.source = function->source;
    g.object = Ref<>::share(object->func_code);
    g.key = Ref<>::share(object->func_globals);
    g.reason = name;
    x.session().guards().add(std::move(g));
  }
  auto frame_of_callee = std::make_unique<SymbolicFrame>(x, x.view_of(callee.code), callee.globals,
                                                         existing ? object->func_builtins : x.builtins);
  SymbolicFrame& inner = *frame_of_callee;
  FRAMEJIT_REQUIRE(Binder(x, callee, inner.locals).bind(args, keywords));
  const auto free_count = static_cast<std::size_t>(callee.code->co_nfreevars);
  for (std::size_t i = 0; i < free_count; ++i) {
    if (!existing) {
      inner.closure.push_back(function->items[kClosurePart]->items[i]);
      continue;
    }
    PyObject* cell =
        object->func_closure ? PyTuple_GET_ITEM(object->func_closure, static_cast<Py_ssize_t>(i)) : nullptr;
    if (!cell || !PyCell_Check(cell)) return break_at(BreakId::UnboundVariable, name + "() closure");
    const int slot = callee.code->co_nlocalsplus - callee.code->co_nfreevars + static_cast<int>(i);
    inner.closure.push_back(cell_of(x, cell,
                                    function_part(SourceKind::Closure, function->source, static_cast<int>(i), nullptr,
                                                  text_of(PyTuple_GET_ITEM(callee.code->co_localsplusnames, slot)))));
  }
  if (generator) return x.make_generator(std::move(frame_of_callee));
  ++x.depth;
  x.calls.begin(callee.code, level);
  Captured<Value*> result = inner.run();
  const bool too_far = x.calls.end(level, static_cast<bool>(result));
  --x.depth;
  if (!result) inner.note_reached(result.error());
  else if (too_far) return break_at(BreakId::RecursiveCall, name + "()");
  return result;
}

bool is_partial(const PyTypeObject* type) {
  static PyTypeObject* const partial = [] {
    PyObject* module =
        PyImport_GetModuleDict() ? PyDict_GetItemString(PyImport_GetModuleDict(), "_functools") : nullptr;
    PyObject* found =
        module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "partial") : nullptr;
    return reinterpret_cast<PyTypeObject*>(Py_XNewRef(found));
  }();
  return partial && type == partial;
}

Captured<Value*> make_partial(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords) {
  Value* function = args.empty() ? nullptr : look(x, args[0]);
  PyObject* of = function ? type_of(x, function) : nullptr;
  // Of another one its parts would be taken; of what is not known to be callable, nothing.
  if (!of || !reinterpret_cast<PyTypeObject*>(of)->tp_call || is_partial(reinterpret_cast<PyTypeObject*>(of)))
    return break_at(BreakId::UnsupportedArgument, "partial()");
  Value* named = x.values().make(ValueKind::Dict);
  for (const auto& [name, value] : keywords) {
    named->items.push_back(x.values().constant(name));
    named->items.push_back(value);
  }
  Value* made = x.values().make(ValueKind::Object);
  made->object = Ref<>::share(reinterpret_cast<PyObject*>(type));
  set_attribute(x, made, "func", function);
  set_attribute(x, made, "args", x.values().tuple(Values(args.begin() + 1, args.end())));
  set_attribute(x, made, "keywords", named);
  return made;
}

Captured<Value*> call_partial(Executor& x, Value* partial, const Values& args, const Keywords& keywords) {
  FRAMEJIT_TRY(function, get_attr(x, partial, interned("func")));
  FRAMEJIT_TRY(first, get_attr(x, partial, interned("args")));
  FRAMEJIT_TRY(named, get_attr(x, partial, interned("keywords")));
  FRAMEJIT_TRY(all, unpack(x, first));
  if (named->kind != ValueKind::Dict) return break_at(BreakId::UnknownCallable, "partial object");
  FRAMEJIT_REQUIRE(open(x, named));
  all.insert(all.end(), args.begin(), args.end());
  Keywords merged;
  for (std::size_t i = 0; i < named->items.size(); i += 2)
    merged.emplace_back(named->items[i]->object.get(), named->items[i + 1]);
  for (const auto& [name, value] : keywords) {
    auto same_name = [&name = name](const auto& each) { return same_key(each.first, name); };
    const auto known_name = std::find_if(merged.begin(), merged.end(), same_name);
    if (known_name != merged.end()) known_name->second = value;
    else merged.emplace_back(name, value);
  }
  return call(x, function, all, merged);
}

/// A callable from outside of a type that has a polyfill, made once more from what it reduces to; else null.
Captured<Value*> remade_callable(Executor& x, Value* callable) {
  PyTypeObject* type = class_of(*callable);
  auto* made = reinterpret_cast<PyObject*>(type);
  if (!callable->source || !type->tp_call || type->tp_new == PyBaseObject_Type.tp_new || !polyfill(x, made, {}))
    return static_cast<Value*>(nullptr);
  const Source* root = callable->source.get();
  while (root->base) root = root->base.get();
  if (root->kind == SourceKind::Local || root->kind == SourceKind::Stack)
    return static_cast<Value*>(nullptr);  // another one each time
  Ref<> reduced = Ref<>::steal(PyObject_CallMethodNoArgs(callable->object.get(), interned("__reduce__")));
  if (!reduced) PyErr_Clear();
  PyObject* parts = reduced && PyTuple_CheckExact(reduced.get()) && PyTuple_GET_ITEM(reduced.get(), 0) == made
                        ? PyTuple_GET_ITEM(reduced.get(), 1)
                        : nullptr;
  if (!parts || !is_plain(parts)) return static_cast<Value*>(nullptr);
  guard(x, GuardKind::Identity, callable->source, callable->object.get());
  Values args;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) args.push_back(literal(x, PyTuple_GET_ITEM(parts, i)));
  return call_builtin(x, made, args, {});
}

bool has_overriding(Executor& x, const Values& args, const Keywords& keywords) {
  return std::any_of(args.begin(), args.end(), [&](Value* a) { return may_override(x, a); }) ||
         std::any_of(keywords.begin(), keywords.end(), [&](const auto& k) { return may_override(x, k.second); });
}

/// The function that a dispatching one of NumPy's comes to, or null.
Value* dispatched(Executor& x, Value* callable, const Values& args, const Keywords& keywords) {
  PyObject* o = callable->object.get();
  PyObject* function = x.options().implementation && callable->source ? x.options().implementation(o) : nullptr;
  if (!function || has_overriding(x, args, keywords)) return nullptr;
  guard(x, GuardKind::Identity, callable->source, o);
  ++x.library_calls;
  return function_at(x, function, callable->source->str() + ".__wrapped__");
}

/// Is a size that varies known to be one number, by what was asked of it from `first` on? Most sizes are another one.
bool has_fixed_sizes(const graph::ShapeEnv& shapes, std::size_t first) {
  const std::span<const graph::DimGuard> asked = std::span(shapes.guards()).subspan(first);
  const auto is_number = [](const graph::Dim& d) { return d.is_const() && d.value() > 1; };
  return std::ranges::any_of(asked, [&](const graph::DimGuard& g) {
    return g.relation == graph::Relation::Eq && g.outcome && (is_number(g.left) || is_number(g.right));
  });
}

/// The result of following the code of a function of a library, or its polyfill; null: it is not followed, or that
/// breaks, or holds for one size only.
Value* followed(Executor& x, const Frontend& frontend, Value* callable, const Values& args, const Keywords& keywords) {
  PyObject* o = callable->object.get();
  if (!frontend.is_followed(o) || has_overriding(x, args, keywords)) return nullptr;
  const Session::Mark mark = x.session().mark();
  const std::size_t asked = x.session().graph().shapes().guards().size();
  PyObject* code = x.options().polyfill ? x.options().polyfill(o) : nullptr;
  if (!code && PyFunction_Check(o)) code = o;
  Value* function = code ? function_at(x, code, short_repr(o)) : dispatched(x, callable, args, keywords);
  if (!function) return nullptr;
  const Captured<Value*> result = call_function(x, function, args, keywords);
  if (result && !has_fixed_sizes(x.session().graph().shapes(), asked)) return *result;
  x.session().rollback(mark);
  return nullptr;
}

Captured<Forced> forced(Executor& x, const Values& args, const Keywords& keywords) {
  Forced out;
  for (Value* a : args) {
    out.args.push_back(look(x, a));
    FRAMEJIT_REQUIRE(force(x, out.args.back()));
  }
  out.names.reserve(keywords.size());
  for (const auto& [name, value] : keywords) {
    out.names.push_back(text_of(name));
    out.keywords.emplace_back(out.names.back(), look(x, value));
    FRAMEJIT_REQUIRE(force(x, out.keywords.back().second));
  }
  return out;
}

Value* unwrapped(Executor& x, Value* callable) {
  PyObject* o = callable->object.get();
  PyObject* function = x.options().unwrap && callable->source ? x.options().unwrap(o) : nullptr;
  if (!function) return nullptr;
  guard(x, GuardKind::Identity, callable->source, o);
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Constant;
  source->object = Ref<>::share(function);
  source->name = callable->source->str() + ".__wrapped__";
  return wrap(x, function, source);
}

Captured<Value*> call(Executor& x, Value* callable, const Values& args, const Keywords& keywords) {
  callable = look(x, callable);
  switch (callable->kind) {
    case ValueKind::Function: {
      Value* function = dispatched(x, callable, args, keywords);
      return call_function(x, function ? function : callable, args, keywords);
    }
    case ValueKind::BoundMethod: {
      if (callable->as_method().form == MethodPart::Super) break;
      Value* self = look(x, callable->items[0]);
      if (!callable->items[1]) {
        PyObject* of = self->is_constant() ? self->object.get() : nullptr;
        PyObject* raw = of && PyType_Check(of)
                            ? type_attr(reinterpret_cast<PyTypeObject*>(of), callable->as_method().name.get())
                            : nullptr;
        if (raw && Py_IS_TYPE(raw, &PyClassMethodDescr_Type))
          if (Value* function = polyfill(x, raw, keywords)) return call_function(x, function, args, keywords);
        return call_method(x, self, text_of(callable->as_method().name.get()), args, keywords);
      }
      Values all{self};
      all.insert(all.end(), args.begin(), args.end());
      return call(x, callable->items[1], all, keywords);
    }
    case ValueKind::Constant: {
      PyObject* o = callable->object.get();
      // Builtins that a frontend knows (abs, sum, float) are its own only where they are given its arrays.
      Frontend* frontend = frontend_for(x, o);
      if (frontend && is_builtin(o)) {
        bool given = false;
        for (Value* a : args) given = given || frontend_of(x, *look(x, a));
        if (!given) frontend = nullptr;
      }
      if (frontend) {
        if (Value* result = followed(x, *frontend, callable, args, keywords)) return result;
        FRAMEJIT_TRY(all, forced(x, args, keywords));
        x.library_calls += PyFunction_Check(o) || (x.options().implementation && x.options().implementation(o));
        return frontend->call(x.session(), o, all.args, all.keywords);
      }
      if (Py_IS_TYPE(o, &PyMethodDescr_Type) && !args.empty()) {
        Value* self = look(x, args[0]);
        auto* descriptor = reinterpret_cast<PyDescrObject*>(o);
        if (type_of(x, self) == reinterpret_cast<PyObject*>(descriptor->d_type))
          return call_method(x, self, text_of(descriptor->d_name), Values(args.begin() + 1, args.end()), keywords);
      }
      if (Py_IS_TYPE(o, &PyWrapperDescr_Type)) return call_slot(x, o, args, keywords);
      return call_builtin(x, o, args, keywords);
    }
    case ValueKind::Object: {
      if (PyObject* o = callable->object.get(); callable->source && x.options().explained && x.options().explained(o)) {
        guard(x, GuardKind::Identity, callable->source, o);
        Value* function = function_at(x, x.options().explained(o), callable->source->str());
        Captured<Value*> result = call(x, function, args, keywords);
        if (!result) result.error().raised = nullptr;  // the interpreter raises what explains it
        return result;
      }
      if (Value* function = unwrapped(x, callable)) {
        Captured<Value*> result = call(x, function, args, keywords);
        if (!result) result.error().callees.clear();  // it compiles itself
        return result;
      }
      if (callable->source && is_lru_cache(class_of(*callable))) return call_cached(x, callable, args, keywords);
      if (is_partial(class_of(*callable))) return call_partial(x, callable, args, keywords);
      FRAMEJIT_TRY(remade, remade_callable(x, callable));
      if (remade) return call(x, remade, args, keywords);
      if (Value* function = dispatched(x, callable, args, keywords)) return call(x, function, args, keywords);
      static PyObject* const kCall = interned("__call__");
      PyObject* raw = type_attr(class_of(*callable), kCall);
      if (!raw || !PyFunction_Check(raw) || !PyType_HasFeature(class_of(*callable), Py_TPFLAGS_HEAPTYPE)) break;
      guard_lookup(x, callable, raw, kCall);
      Value* function = function_at(x, raw, std::string(class_of(*callable)->tp_name) + ".__call__");
      Values all{callable};
      all.insert(all.end(), args.begin(), args.end());
      return call_function(x, function, all, keywords);
    }
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Array:
    case ValueKind::Int:
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Dict:
    case ValueKind::Set:
    case ValueKind::Slice:
    case ValueKind::Range:
    case ValueKind::Iterator:
    case ValueKind::Cell:
    case ValueKind::Text: break;
  }
  if (callable->source && callable->object)
    return break_at(BreakId::UnknownCallable, short_repr(callable->object.get()));
  PyObject* type = type_of(x, callable);
  return break_at(BreakId::UnknownCallable,
                  type ? std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + " object" : "object");
}

}  // namespace framejit::capture
