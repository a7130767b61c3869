// The callable type: binding, entries, fallback.
#include "ext/dispatch/function.h"

#include <structmember.h>

#include <array>
#include <new>

#include "capture/hook.h"
#include "capture/py/c_stack.h"
#include "capture/py/until_exit.h"
#include "capture/python_names.h"
#include "ext/dispatch/bytecode_calls.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/function_report.h"
#include "ext/dispatch/gain.h"
#include "ext/dispatch/whole_calls.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/control.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"
#include "ext/module/tape_hook.h"

namespace framejit::ext::dispatch {

using capture::Ref;
using module::is_disabled;
using region::Outcome;
using region::Side;

namespace {

PyTypeObject* the_type = nullptr;  // owned for the life of the process

constexpr int kSlotsOnStack = 24;

FunctionObject* as_function(PyObject* self) { return reinterpret_cast<FunctionObject*>(self); }

PyObject* call_python(PyFunctionObject* function, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  return capture::py::until_exit(
      [&] { return function->vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames); });
}

/// The call is left to the interpreter.
PyObject* call_direct(FunctionObject* f, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  if (!f->direct.is_there()) return call_python(f->function, args, nargsf, kwnames);
  const Ref<PyFunctionObject> held = Ref<PyFunctionObject>::share(f->direct.get(f));
  return call_python(held.get(), args, nargsf, kwnames);
}

/// Deep in a recursion: calls between marked functions take no more of the C stack, and nothing is compiled.
[[gnu::noinline, gnu::cold]] PyObject* call_on_low_stack(FunctionObject* f, PyObject* const* args, std::size_t nargsf,
                                                         PyObject* kwnames) {
  if (capture::py::stack_is_critical()) {
    PyErr_Format(PyExc_RecursionError, "maximum recursion depth exceeded: no C stack is left for a call of %U()",
                 f->function->func_qualname);
    return nullptr;
  }
  try {
    f->direct.prepare(f);
  } catch (const std::exception&) {
    return call_python(f->function, args, nargsf, kwnames);
  }
  return call_direct(f, args, nargsf, kwnames);
}

PyObject* call_original(FunctionObject* f, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  if (capture::py::stack_is_low()) [[unlikely]]
    return call_on_low_stack(f, args, nargsf, kwnames);
  return call_python(f->function, args, nargsf, kwnames);
}

/// The function got another __code__: what was compiled for the old one is of no use.
[[gnu::noinline]] void renew(FunctionObject* f) {
  JitSettings settings = f->state->settings();
  f->direct.reset();
  SplicedFunction old = std::move(f->spliced);
  std::shared_ptr<CodeState> old_state = std::exchange(
      f->state, std::make_shared<CodeState>(reinterpret_cast<PyCodeObject*>(f->function->func_code), settings));
  if (old_state->gain) f->state->measure();
  old_state->retire();
}

/// With fullgraph, where the bytecode raises at a break: its exception, or the break after all.
[[gnu::noinline, gnu::cold]] PyObject* call_raising(FunctionObject* f, const capture::Break& raising,
                                                    PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  // A gradient that a tape asks for has no other form.
  PyObject* result = module::force_compiled ? nullptr : call_original(f, args, nargsf, kwnames);
  if (!result && PyErr_Occurred()) return nullptr;
  Py_XDECREF(result);
  raise_graph_break(raising);
  return nullptr;
}

/// Captures that a call makes are kept when it has ended.
struct KeepCaptures {
  CodeState& state;
  ~KeepCaptures() {
    const std::shared_ptr<StoredCaptures> stored = state.stored;
    if (!stored) return;
    try {
      stored->write();
    } catch (const std::exception&) {  // no memory: the next process captures anew
    }
    if (!state.captures.broke) state.stored.reset();  // there are no sites that could add to it
  }
};

/// No entry fits. Compiles one, or runs spliced code, or the user's own.
[[gnu::noinline]] PyObject* call_missed(FunctionObject* f, PyObject* const* slots, PyObject* const* args,
                                        std::size_t nargsf, PyObject* kwnames) {
  if (capture::py::stack_is_low()) [[unlikely]]
    return call_on_low_stack(f, args, nargsf, kwnames);
  const std::shared_ptr<CodeState> state = f->state;
  if (is_disabled(state->code())) return call_original(f, args, nargsf, kwnames);
  const KeepCaptures keep{*state};
  if (state->wants_capture()) {
    PyObject* result = nullptr;
    std::optional<capture::Break> raising;
    switch (capture_whole(*state, f->function, slots, result, raising)) {
      case Outcome::Done: ++module::stats.frames_captured; return result;
      case Outcome::Error: return nullptr;
      case Outcome::Miss:
      case Outcome::OtherWay:
      case Outcome::Declined: break;
    }
    if (raising) return call_raising(f, *raising, args, nargsf, kwnames);
    if (std::exchange(state->captures.left_call, false)) return call_original(f, args, nargsf, kwnames);
  }
  PyFunctionObject* spliced = f->spliced.get(state, f->function);
  const bool callees = state->has_callees();
  if (!spliced && !callees) {
    note_idle(*state);
    f->direct.prepare(f);
    return call_direct(f, args, nargsf, kwnames);
  }
  const Side side = begin_call(*state, slots);
  const EndOfCall end{state.get()};
  if (side == Side::Bytecode) {
    if (*state->comparison.why_given_up()) f->direct.prepare(f);
    return call_direct(f, args, nargsf, kwnames);
  }
  const capture::ActiveFunctionScope scope(state->function_id);
  if (callees) capture::ActiveFunctionScope::request_hook();
  if (!spliced) return call_original(f, args, nargsf, kwnames);
  const Ref<PyFunctionObject> held = Ref<PyFunctionObject>::share(spliced);
  PyObject* result = call_python(held.get(), args, nargsf, kwnames);
  if (Ref<> error = std::move(state->pending_error)) [[unlikely]] {
    Py_XDECREF(result);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    return nullptr;
  }
  return result;
}

/// The turn of the bytecode, where it is compared with an entry.
[[gnu::noinline]] PyObject* call_in_turn(FunctionObject* f, PyObject* const* args, std::size_t nargsf,
                                         PyObject* kwnames) {
  const std::shared_ptr<CodeState> state = f->state;
  if (!begin_declined(*state)) return call_original(f, args, nargsf, kwnames);
  const EndOfCall end{state.get()};
  return call_original(f, args, nargsf, kwnames);
}

/// `slots`: the bound arguments; `args` and the rest: as the call came.
inline PyObject* call_bound(FunctionObject* f, PyObject* const* slots, int slot_count, PyObject* const* args,
                            std::size_t nargsf, PyObject* kwnames) {
  PyObject* result = nullptr;
  const guards::LiveSlots live{slots, slot_count, nullptr, 0, reinterpret_cast<PyObject*>(f->function)};
  switch (call_whole(*f->state, live, result)) {
    case Outcome::Done: ++module::stats.frames_captured; return result;
    case Outcome::Miss: return call_missed(f, slots, args, nargsf, kwnames);
    case Outcome::OtherWay:
    case Outcome::Declined:
      return f->state->comparison.has_declined() ? call_in_turn(f, args, nargsf, kwnames)
                                                 : call_original(f, args, nargsf, kwnames);
    case Outcome::Error: break;
  }
  return nullptr;
}

[[gnu::noinline]] PyObject* call_general(FunctionObject* f, PyObject* const* args, std::size_t nargsf,
                                         PyObject* kwnames) {
  const int count = module::argument_slots(reinterpret_cast<PyCodeObject*>(f->function->func_code));
  std::array<PyObject*, kSlotsOnStack> small;
  std::unique_ptr<PyObject*[]> large;
  PyObject** slots = small.data();
  if (count > kSlotsOnStack) {
    large.reset(new PyObject*[static_cast<std::size_t>(count)]);
    slots = large.get();
  }
  module::BoundExtras extras;
  if (!module::bind_arguments(f->function, args, PyVectorcall_NARGS(nargsf), kwnames, slots, extras))
    return call_original(f, args, nargsf, kwnames);
  // Values that only a tuple of defaults holds stay alive even if a finalizer replaces the defaults meanwhile.
  const Ref<> defaults = Ref<>::share(f->function->func_defaults);
  const Ref<> keyword_defaults = Ref<>::share(f->function->func_kwdefaults);
  return call_bound(f, slots, count, args, nargsf, kwnames);
}

[[gnu::noinline, gnu::cold]] PyObject* call_after_error(FunctionObject* f, const char* what, PyObject* const* args,
                                                        std::size_t nargsf, PyObject* kwnames) {
  Ref<> name = Ref<>::share(f->function->func_qualname);
  if (internal_error(PyUnicode_AsUTF8(name.get()), what)) return nullptr;
  return call_original(f, args, nargsf, kwnames);
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  FunctionObject* f = as_function(self);
  ++module::stats.frames_marked;
  if (f->state->comparison.passes_by()) {
    if (f->direct.is_there()) return call_direct(f, args, nargsf, kwnames);
    return call_original(f, args, nargsf, kwnames);
  }
  const auto* code = reinterpret_cast<const PyCodeObject*>(f->function->func_code);
  if (code != f->state->code()) [[unlikely]]
    renew(f);
  if (module::bytecode_only() && !module::force_compiled) [[unlikely]]
    return call_original(f, args, nargsf, kwnames);
  try {
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (module::binds_directly(code, nargs, kwnames)) [[likely]]
      return call_bound(f, args, static_cast<int>(nargs), args, nargsf, kwnames);
    return call_general(f, args, nargsf, kwnames);
  } catch (const std::exception& error) {
    return call_after_error(f, error.what(), args, nargsf, kwnames);
  }
}

/// As vectorcall, for reports: each call is measured, and some run as plain Python.
PyObject* vectorcall_measured(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  FunctionObject* f = as_function(self);
  const std::shared_ptr<CodeState> state = f->state;
  if (module::bytecode_only() || is_disabled(state->code()) || module::force_compiled || !state->gain)
    return vectorcall(self, args, nargsf, kwnames);
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  const MeasuredCall call(*state->gain, args, static_cast<int>(count));
  if (call.side() == Side::Compiled) return vectorcall(self, args, nargsf, kwnames);
  ++module::stats.frames_marked;
  return call_original(f, args, nargsf, kwnames);
}

// Construction and lifetime.

bool copy_attribute(PyObject* from, PyObject* dict, const char* name) {
  Ref<> value = Ref<>::steal(PyObject_GetAttrString(from, name));
  if (!value) {
    PyErr_Clear();
    return true;
  }
  return PyDict_SetItemString(dict, name, value.get()) == 0;
}

PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"function", "settings", nullptr};
  PyObject *function, *settings;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!:Function", const_cast<char**>(names), &PyFunction_Type,
                                   &function, &PyDict_Type, &settings))
    return nullptr;
  JitSettings parsed;
  if (!read_settings(settings, parsed)) return nullptr;
  Ref<> self = Ref<>::steal(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  FunctionObject* f = as_function(self.get());
  f->vectorcall = vectorcall;
  f->function = reinterpret_cast<PyFunctionObject*>(Py_NewRef(function));
  new (&f->state) std::shared_ptr<CodeState>(
      std::make_shared<CodeState>(reinterpret_cast<PyCodeObject*>(f->function->func_code), parsed));
  if (f->state->gain) f->vectorcall = vectorcall_measured;
  new (&f->spliced) SplicedFunction();
  new (&f->direct) DirectFunction();
  for (PyObject*& slot : f->direct_slots) slot = self.get();
  f->settings = PyDict_Copy(settings);
  f->dict = f->function->func_dict ? PyDict_Copy(f->function->func_dict) : PyDict_New();
  if (!f->settings || !f->dict) return nullptr;
  for (const char* name : {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__type_params__"})
    if (!copy_attribute(function, f->dict, name)) return nullptr;
  if (PyDict_SetItemString(f->dict, "__wrapped__", function) < 0) return nullptr;
  return self.release();
}

int function_traverse(PyObject* self, visitproc visit, void* arg) {
  FunctionObject* f = as_function(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(f->function);
  Py_VISIT(f->settings);
  Py_VISIT(f->dict);
  Py_VISIT(reinterpret_cast<PyObject*>(f->spliced.function.get()));
  if (const int result = f->direct.traverse(visit, arg)) return result;
  return f->state ? f->state->traverse(visit, arg) : 0;
}

int function_clear(PyObject* self) {
  FunctionObject* f = as_function(self);
  if (f->state) f->state->clear();
  f->spliced.function.reset();
  f->direct.reset();
  Py_CLEAR(f->dict);
  Py_CLEAR(f->settings);
  return 0;  // the function itself stays: a call that goes on needs it; it is an edge of no cycle that stays closed
}

void function_dealloc(PyObject* self) {
  FunctionObject* f = as_function(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (f->weakrefs) PyObject_ClearWeakRefs(self);
  f->direct.~DirectFunction();
  f->spliced.~SplicedFunction();
  f->state.~shared_ptr();
  Py_CLEAR(f->dict);
  Py_CLEAR(f->settings);
  Py_CLEAR(f->function);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* function_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* function_repr(PyObject* self) {
  return PyUnicode_FromFormat("<framejit function %U at %p>", as_function(self)->function->func_qualname, self);
}

PyObject* function_reduce(PyObject* self, PyObject*) {
  const Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kPickling));
  return module ? PyObject_CallMethod(module.get(), "reduce", "O", self) : nullptr;
}

/// A copy of a function is the function itself, as the module copy has it for functions of Python.
PyObject* function_copy(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* function_forward(PyObject* self, void* name) {
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(as_function(self)->function),
                                static_cast<const char*>(name));
}

int function_forward_set(PyObject* self, PyObject* value, void* name) {
  return PyObject_SetAttrString(reinterpret_cast<PyObject*>(as_function(self)->function),
                                static_cast<const char*>(name), value);
}

/// precompile(*specs): framejit._api._specs makes arguments of them.
PyObject* function_precompile(PyObject* self, PyObject* specs) {
  FunctionObject* f = as_function(self);
  auto* function = reinterpret_cast<PyObject*>(f->function);
  const Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kSpecs));
  const Ref<> args =
      module ? Ref<>::steal(PyObject_CallMethod(module.get(), "examples", "OO", function, specs)) : Ref<>();
  if (!args) return nullptr;
  std::vector<PyObject*> slots(static_cast<std::size_t>(module::argument_slots(f->state->code())));
  module::BoundExtras extras;
  PyObject* const* given = &PyTuple_GET_ITEM(args.get(), 0);
  if (!module::bind_arguments(f->function, given, PyTuple_GET_SIZE(args.get()), nullptr, slots.data(), extras))
    return PyErr_NoMemory();  // examples() has seen that they fit
  const std::shared_ptr<CodeState> state = f->state;
  if (is_disabled(state->code())) Py_RETURN_NONE;
  try {
    if (state->wants_capture() && !precompile_whole(*state, f->function, slots.data())) return nullptr;
    if (f->spliced.get(state, f->function)) precompile_start(*state, f->function, slots.data());
  } catch (const std::exception& error) {
    if (internal_error("precompile", error.what())) return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"cache_entries", function_cache_entries, METH_NOARGS,
     "cache_entries()\n--\n\nWhat is compiled, one dict for each entry."},
    {"cache_clear", function_cache_clear, METH_NOARGS, "cache_clear()\n--\n\nForget everything compiled."},
    {"graphs", function_graphs, METH_NOARGS, "graphs()\n--\n\nThe graph of each entry as text."},
    {"asm", function_asm, METH_NOARGS, "asm()\n--\n\nThe machine code of each entry as text."},
    {"precompile", function_precompile, METH_VARARGS,
     "precompile(*specs)\n--\n\nCompile for arguments like these, without running the function.\n\n"
     "If the function has graph breaks, only the part before the first one is compiled. The rest depends on values\n"
     "computed at the break, so it is compiled on the first call.\n\nParameters\n----------\n*specs : ArraySpec or "
     "object\n    One for each positional argument: an ArraySpec, or a "
     "value that is used as it is.\n\nRaises\n------\nGraphBreakError\n    With ``fullgraph=True``, if the "
     "function is not one graph."},
    {"_report", function_report, METH_NOARGS,
     "_report()\n--\n\nEverything known about this function, for framejit.explain."},
    {"_time_kernels", function_time_kernels, METH_VARARGS,
     "_time_kernels(runs, *args)\n--\n\nNanoseconds of `runs` runs of the kernels for these arguments, with making "
     "and "
     "dropping the result; None\nif nothing is compiled for them. For benchmarks."},
    {"__reduce__", function_reduce, METH_NOARGS, nullptr},
    {"__copy__", function_copy, METH_NOARGS, nullptr},
    {"__deepcopy__", function_copy, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

char kCode[] = "__code__", kDefaults[] = "__defaults__", kKwdefaults[] = "__kwdefaults__", kGlobals[] = "__globals__",
     kClosure[] = "__closure__";
PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                        {kCode, function_forward, function_forward_set, nullptr, kCode},
                        {kDefaults, function_forward, function_forward_set, nullptr, kDefaults},
                        {kKwdefaults, function_forward, function_forward_set, nullptr, kKwdefaults},
                        {kGlobals, function_forward, nullptr, nullptr, kGlobals},
                        {kClosure, function_forward, nullptr, nullptr, kClosure},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weakrefs), READONLY, nullptr},
                         {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
                         {"__framejit_settings__", T_OBJECT, offsetof(FunctionObject, settings), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(function_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(function_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(function_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(function_clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(function_get)},
                       {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {0, nullptr}};

PyType_Spec spec = {"framejit._core.Function", sizeof(FunctionObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

const module::ModulePart part(20, [](PyObject* module) {
  the_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return the_type && PyModule_AddObjectRef(module, "Function", reinterpret_cast<PyObject*>(the_type)) == 0;
});

}  // namespace

PyTypeObject* function_type() { return the_type; }

PyObject* unwrap_function(PyObject* callable) {
  if (!Py_IS_TYPE(callable, the_type)) return nullptr;
  FunctionObject* f = as_function(callable);
  f->state->note_inlined();
  return is_disabled(f->state->code()) ? nullptr : reinterpret_cast<PyObject*>(f->function);
}

// Spliced code.

void SplicedFunction::reset() {
  if (state) state->entries.sites.forget();
  function.reset();
  code.reset();
  state.reset();
}

bool follow(PyFunctionObject* copy, PyFunctionObject* original) {
  auto* function = reinterpret_cast<PyObject*>(copy);
  auto or_none = [](PyObject* object) { return object ? object : Py_None; };
  if (copy->func_defaults != original->func_defaults &&
      PyFunction_SetDefaults(function, or_none(original->func_defaults)) < 0)
    return false;
  if (copy->func_kwdefaults != original->func_kwdefaults &&
      PyFunction_SetKwDefaults(function, or_none(original->func_kwdefaults)) < 0)
    return false;
  return true;
}

PyFunctionObject* SplicedFunction::get(const std::shared_ptr<CodeState>& of, PyFunctionObject* original) {
  if (of->needs_splicing()) {
    reset();
    code = of->splice();
    if (code) state = of;
  }
  if (!state) return nullptr;
  PyCodeObject* replacement = of->replacement();
  if (!replacement) return nullptr;
  if (!function) {
    Ref<> made = capture::function_with_code(original, replacement);
    if (!made) {
      PyErr_Clear();
      return nullptr;
    }
    function = Ref<PyFunctionObject>::steal(reinterpret_cast<PyFunctionObject*>(made.release()));
  }
  if (!follow(function.get(), original)) {
    PyErr_Clear();
    return nullptr;
  }
  return function.get();
}

}  // namespace framejit::ext::dispatch
