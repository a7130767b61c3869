// Calls: library functions go to their frontend, Python functions are inlined as nested frames.
#include <algorithm>

#include "capture/executor.h"
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
      rest = x_.session().tuple(Values(args.begin() + given, args.end()));
      locals_[static_cast<std::size_t>(slot++)] = rest;
    } else if (static_cast<int>(args.size()) > positional) {
      return raises("too many arguments");
    }
    Value* extra = nullptr;
    if (code_->co_flags & CO_VARKEYWORDS) {
      extra = x_.session().make(ValueKind::Dict);
      locals_[static_cast<std::size_t>(slot)] = extra;
    }
    for (const auto& [name, value] : keywords) {
      const int at = parameter(name, total);
      if (at < 0) {
        if (!extra) return raises("unexpected keyword argument " + text_of(name));
        extra->items.push_back(x_.session().constant(name));
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
    b.error.raised = x_.make_exception(PyExc_TypeError);  // the words are the interpreter's
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
    x_.guard(GuardKind::Length, function_part(SourceKind::Default, f->source, -1, nullptr), nullptr, nullptr, count);
    const int at = i - (positional - static_cast<int>(count));
    if (at < 0) return static_cast<Value*>(nullptr);
    return x_.lazy(PyTuple_GET_ITEM(defaults, at), function_part(SourceKind::Default, f->source, at, nullptr));
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
    return x_.lazy(found, function_part(SourceKind::Default, f->source, -1, name));
  }

  Executor& x_;
  const Callee& callee_;
  Values& locals_;
  PyCodeObject* code_;
};

/// Might the argument, or an item of it, have a say in NumPy's functions by a __array_function__ of its own?
bool may_override(Executor& x, Value* value) {
  value = x.look(value);
  switch (value->kind) {
    case ValueKind::Array: return value->wrap == Wrap::Tensor;
    case ValueKind::Int:
    case ValueKind::Slice:
    case ValueKind::Range:
    case ValueKind::Function: return false;
    case ValueKind::List:
      if (!x.open(value)) return true;
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

std::shared_ptr<const CodeView> Executor::view_of(PyCodeObject* code) {
  auto& view = views_[code];
  if (!view) view = CodeView::decode(code);
  return view;
}

Executor::~Executor() = default;  // where SymbolicFrame is complete

std::vector<uint32_t>& Executor::locations(const CodeView* view) {
  std::vector<uint32_t>& ids = locations_[view];
  ids.resize(view->instrs().size(), 0);
  return ids;
}

namespace {
/// Does a call of the function run its code? C code may have put something else in its place.
bool is_called_plainly(const PyFunctionObject* function) {
  static const vectorcallfunc plain = [] {
    const Ref<> globals = Ref<>::steal(PyDict_New());
    const Ref<PyCodeObject> code = Ref<PyCodeObject>::steal(PyCode_NewEmpty("<framejit>", "plain", 1));
    const Ref<> made = globals && code
                           ? Ref<>::steal(PyFunction_New(reinterpret_cast<PyObject*>(code.get()), globals.get()))
                           : Ref<>();
    if (!made) PyErr_Clear();
    return made ? reinterpret_cast<PyFunctionObject*>(made.get())->vectorcall : nullptr;
  }();
  return function->vectorcall == plain;
}
}  // namespace

Captured<Value*> Executor::call_function(Value* function, const Values& args, const Keywords& keywords) {
  const bool existing = function->source != nullptr;
  auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  Callee callee{existing ? reinterpret_cast<PyCodeObject*>(object->func_code)
                         : reinterpret_cast<PyCodeObject*>(function->object.get()),
                existing ? object->func_globals : function->extra.get(),
                {},
                function};
  const std::string name = name_of_code(callee.code);
  if (existing && !is_called_plainly(object))
    return break_at(BreakId::UnknownCallable, name + "(), which PyFunction_SetVectorcall() has changed");
  if (options_.leave_alone && options_.leave_alone(callee.code))
    return break_at(BreakId::UserBreak, name + "() is disabled");
  if (existing && is_control(object)) {
    // What these functions of the package mean is decided here; their bodies are for plain Python.
    guard(GuardKind::Identity, function->source, function->object.get());
    if (name == "is_compiling") return boolean(true);
    if (name == "graph_break") {
      Value* reason = args.empty() ? nullptr : look(args[0]);
      return break_at(BreakId::UserBreak, reason && reason->is_constant() && is_plain(reason->object.get())
                                              ? text_of(reason->object.get())
                                              : "");
    }
  }
  const bool generator = (callee.code->co_flags & CO_GENERATOR) != 0;
  if (callee.code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE))
    return break_at(BreakId::GeneratorFrame, name + "()");
  if (depth >= options_.inline_depth) return break_at(BreakId::RecursiveCall, name + "()");
  const uint32_t level = level_of(callee.code);
  if (level > 0 && recursive_calls_ >= options_.recursive_calls) {
    unfinished_levels = finished_level_ > 0 ? finished_level_ : level;
    return break_at(BreakId::RecursiveCall, name + "()");
  }
  if (existing) {
    Guard g{};
    g.kind = GuardKind::Code;
    g.source = function->source;
    g.object = Ref<>::share(object->func_code);
    g.key = Ref<>::share(object->func_globals);
    g.reason = name;
    session_.add_guard(std::move(g));
  }
  auto frame_of_callee = std::make_unique<SymbolicFrame>(*this, view_of(callee.code), callee.globals,
                                                         existing ? object->func_builtins : builtins);
  SymbolicFrame& inner = *frame_of_callee;
  FRAMEJIT_REQUIRE(Binder(*this, callee, inner.locals).bind(args, keywords));
  const auto free_count = static_cast<std::size_t>(callee.code->co_nfreevars);
  for (std::size_t i = 0; i < free_count; ++i) {
    if (!existing) {
      inner.closure.push_back(function->items[2]->items[i]);
      continue;
    }
    PyObject* cell =
        object->func_closure ? PyTuple_GET_ITEM(object->func_closure, static_cast<Py_ssize_t>(i)) : nullptr;
    if (!cell || !PyCell_Check(cell)) return break_at(BreakId::UnboundVariable, name + "() closure");
    const int slot = callee.code->co_nlocalsplus - callee.code->co_nfreevars + static_cast<int>(i);
    inner.closure.push_back(
        cell_of(cell, function_part(SourceKind::Closure, function->source, static_cast<int>(i), nullptr,
                                    text_of(PyTuple_GET_ITEM(callee.code->co_localsplusnames, slot)))));
  }
  if (generator) {
    inner.generator = true;
    Value* it = session_.make(ValueKind::Iterator);
    it->iterated = kGenerator;
    it->position = static_cast<std::int64_t>(generators_.size());
    generators_.push_back(std::move(frame_of_callee));
    return it;
  }
  ++depth;
  if (level > 0) ++open_calls.back().calls;
  open_calls.push_back({callee.code, recursive_calls_ += level > 0, 0});
  Captured<Value*> result = inner.run();
  const OpenCall call = open_calls.back();
  open_calls.pop_back();
  --depth;
  if (!result) inner.note_reached(result.error());
  else if (level > 0 && finish_recursive(call, level)) return break_at(BreakId::RecursiveCall, name + "()");
  return result;
}

uint32_t Executor::level_of(const PyCodeObject* code) const {
  return static_cast<uint32_t>(
      std::count_if(open_calls.begin(), open_calls.end(), [code](const OpenCall& call) { return call.code == code; }));
}

/// Whether the calls around this one are going to be too many, if they call as often as this one did.
bool Executor::finish_recursive(const OpenCall& call, uint32_t level) {
  if (finished_level_ > 0 && finished_level_ <= level) return false;
  finished_level_ = level;
  if (call.calls < 2) return false;
  uint64_t calls = recursive_calls_ - call.before + 1;
  uint32_t fits = level;
  for (uint32_t outer = level; outer-- > 0;) {
    calls = std::min<uint64_t>(calls, UINT32_MAX) * call.calls + 1;
    if (calls <= options_.recursive_calls) fits = outer;
  }
  if (fits > 0) unfinished_levels = fits;
  return fits > 0;
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

Captured<Value*> Executor::make_partial(PyTypeObject* type, const Values& args, const Keywords& keywords) {
  Value* function = args.empty() ? nullptr : look(args[0]);
  PyObject* of = function ? type_of(function) : nullptr;
  // Of another one its parts would be taken; of what is not known to be callable, nothing.
  if (!of || !reinterpret_cast<PyTypeObject*>(of)->tp_call || is_partial(reinterpret_cast<PyTypeObject*>(of)))
    return break_at(BreakId::UnsupportedArgument, "partial()");
  Value* named = session_.make(ValueKind::Dict);
  for (const auto& [name, value] : keywords) {
    named->items.push_back(session_.constant(name));
    named->items.push_back(value);
  }
  Value* made = session_.make(ValueKind::Object);
  made->object = Ref<>::share(reinterpret_cast<PyObject*>(type));
  set_attribute(made, "func", function);
  set_attribute(made, "args", session_.tuple(Values(args.begin() + 1, args.end())));
  set_attribute(made, "keywords", named);
  return made;
}

Captured<Value*> Executor::call_partial(Value* partial, const Values& args, const Keywords& keywords) {
  FRAMEJIT_TRY(function, get_attr(partial, interned("func")));
  FRAMEJIT_TRY(first, get_attr(partial, interned("args")));
  FRAMEJIT_TRY(named, get_attr(partial, interned("keywords")));
  FRAMEJIT_TRY(all, unpack(first));
  if (named->kind != ValueKind::Dict) return break_at(BreakId::UnknownCallable, "partial object");
  FRAMEJIT_REQUIRE(open(named));
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
  return call(function, all, merged);
}

/// A callable from outside of a type that has a polyfill, made once more from what it reduces to; else null.
Captured<Value*> Executor::remade_callable(Value* callable) {
  PyTypeObject* type = class_of(*callable);
  auto* made = reinterpret_cast<PyObject*>(type);
  if (!callable->source || !type->tp_call || type->tp_new == PyBaseObject_Type.tp_new || !polyfill(made, {}))
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
  guard(GuardKind::Identity, callable->source, callable->object.get());
  Values args;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) args.push_back(literal(PyTuple_GET_ITEM(parts, i)));
  return call_builtin(made, args, {});
}

/// The function that a dispatching one of NumPy's comes to, or null.
Value* Executor::dispatched(Value* callable, const Values& args, const Keywords& keywords) {
  PyObject* o = callable->object.get();
  PyObject* function = options_.implementation && callable->source ? options_.implementation(o) : nullptr;
  if (!function) return nullptr;
  bool plain = std::none_of(args.begin(), args.end(), [&](Value* a) { return may_override(*this, a); });
  for (const auto& [name, value] : keywords) plain = plain && !may_override(*this, value);
  if (!plain) return nullptr;
  guard(GuardKind::Identity, callable->source, o);
  return function_at(function, callable->source->str() + ".__wrapped__");
}

Captured<Executor::Forced> Executor::forced(const Values& args, const Keywords& keywords) {
  Forced out;
  for (Value* a : args) {
    out.args.push_back(look(a));
    FRAMEJIT_REQUIRE(force(out.args.back()));
  }
  out.names.reserve(keywords.size());
  for (const auto& [name, value] : keywords) {
    out.names.push_back(text_of(name));
    out.keywords.emplace_back(out.names.back(), look(value));
    FRAMEJIT_REQUIRE(force(out.keywords.back().second));
  }
  return out;
}

Value* Executor::unwrapped(Value* callable) {
  PyObject* o = callable->object.get();
  PyObject* function = options_.unwrap && callable->source ? options_.unwrap(o) : nullptr;
  if (!function) return nullptr;
  guard(GuardKind::Identity, callable->source, o);
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Constant;
  source->object = Ref<>::share(function);
  source->name = callable->source->str() + ".__wrapped__";
  return wrap(function, source);
}

Captured<Value*> Executor::call(Value* callable, const Values& args, const Keywords& keywords) {
  callable = look(callable);
  switch (callable->kind) {
    case ValueKind::Function: {
      Value* function = dispatched(callable, args, keywords);
      return call_function(function ? function : callable, args, keywords);
    }
    case ValueKind::BoundMethod: {
      if (callable->iterated == kSuper) break;
      Value* self = look(callable->items[0]);
      if (!callable->items[1]) {
        PyObject* of = self->is_constant() ? self->object.get() : nullptr;
        PyObject* raw =
            of && PyType_Check(of) ? type_attr(reinterpret_cast<PyTypeObject*>(of), callable->extra.get()) : nullptr;
        if (raw && Py_IS_TYPE(raw, &PyClassMethodDescr_Type))
          if (Value* function = polyfill(raw, keywords)) return call_function(function, args, keywords);
        return call_method(self, text_of(callable->extra.get()), args, keywords);
      }
      Values all{self};
      all.insert(all.end(), args.begin(), args.end());
      return call(callable->items[1], all, keywords);
    }
    case ValueKind::Constant: {
      PyObject* o = callable->object.get();
      // Builtins that a frontend knows (abs, sum, float) are its own only where they are given its arrays.
      Frontend* frontend = frontend_for(o);
      if (frontend && is_builtin(o)) {
        bool given = false;
        for (Value* a : args) given = given || frontend_of(*look(a));
        if (!given) frontend = nullptr;
      }
      if (frontend) {
        FRAMEJIT_TRY(all, forced(args, keywords));
        return frontend->call(session_, o, all.args, all.keywords);
      }
      if (Py_IS_TYPE(o, &PyMethodDescr_Type) && !args.empty()) {
        Value* self = look(args[0]);
        auto* descriptor = reinterpret_cast<PyDescrObject*>(o);
        if (type_of(self) == reinterpret_cast<PyObject*>(descriptor->d_type))
          return call_method(self, text_of(descriptor->d_name), Values(args.begin() + 1, args.end()), keywords);
      }
      if (Py_IS_TYPE(o, &PyWrapperDescr_Type)) return call_slot(o, args, keywords);
      return call_builtin(o, args, keywords);
    }
    case ValueKind::Object: {
      if (Value* function = unwrapped(callable)) {
        Captured<Value*> result = call(function, args, keywords);
        if (!result) result.error().callees.clear();  // it compiles itself
        return result;
      }
      if (callable->source && is_lru_cache(class_of(*callable))) return call_cached(callable, args, keywords);
      if (is_partial(class_of(*callable))) return call_partial(callable, args, keywords);
      FRAMEJIT_TRY(remade, remade_callable(callable));
      if (remade) return call(remade, args, keywords);
      if (Value* function = dispatched(callable, args, keywords)) return call(function, args, keywords);
      static PyObject* const kCall = interned("__call__");
      PyObject* raw = type_attr(class_of(*callable), kCall);
      if (!raw || !PyFunction_Check(raw) || !PyType_HasFeature(class_of(*callable), Py_TPFLAGS_HEAPTYPE)) break;
      guard_lookup(callable, raw, kCall);
      Value* function = function_at(raw, std::string(class_of(*callable)->tp_name) + ".__call__");
      Values all{callable};
      all.insert(all.end(), args.begin(), args.end());
      return call_function(function, all, keywords);
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
  PyObject* type = type_of(callable);
  return break_at(BreakId::UnknownCallable,
                  type ? std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + " object" : "object");
}

}  // namespace framejit::capture
