// Objects, sources and guards as bytes.
#include "ext/dispatch/stored_objects.h"

#include <Python.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "capture/py/instance.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/numpy_implementation.h"
#include "ext/dispatch/code_state.h"
#include "ext/guards/guard_program_impl.h"
#include "ext/module/control.h"
#include "ext/module/explained.h"

#include <marshal.h>

namespace framejit::ext::dispatch {

using capture::Guard;
using capture::GuardKind;
using capture::Ref;
using capture::Source;
using capture::SourceKind;
using capture::SourceRef;
using region::ArchiveReader;
using region::ArchiveWriter;

namespace {

/// Types that no name in a module leads to, or that are met often.
const std::array<PyTypeObject*, 32>& known_types() {
  static const std::array<PyTypeObject*, 32> types = {
      &PyFloat_Type,     &PyLong_Type,      &PyBool_Type,        &PyUnicode_Type,   &PyTuple_Type,
      &PyList_Type,      &PyDict_Type,      &PySet_Type,         &PyFrozenSet_Type, &PyRange_Type,
      &PySlice_Type,     &PyComplex_Type,   &PyBytes_Type,       Py_TYPE(Py_None),  &PyFunction_Type,
      &PyMethod_Type,    &PyCFunction_Type, &PyModule_Type,      &PyType_Type,      &PyBaseObject_Type,
      &PyCell_Type,      &PyGen_Type,       &PyEllipsis_Type,    &PyProperty_Type,  &PyStaticMethod_Type,
      &PyArray_Type,     &PyUFunc_Type,     &PyClassMethod_Type, &PyRangeIter_Type, &PyListIter_Type,
      &PyTupleIter_Type, &PySeqIter_Type};
  return types;
}

bool is_str(PyObject* object) { return object && PyUnicode_CheckExact(object); }

/// "" where it has none.
std::string_view words_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* words = is_str(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (!words) return PyErr_Clear(), std::string_view();
  return {words, static_cast<std::size_t>(size)};
}

/// The module, borrowed, or null. Imports nothing.
PyObject* module_of(std::string_view name) {
  PyObject* modules = PyImport_GetModuleDict();
  const Ref<> key = Ref<>::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  PyObject* found = key && PyDict_CheckExact(modules) ? PyDict_GetItemWithError(modules, key.get()) : nullptr;
  if (!found) PyErr_Clear();
  return found && PyModule_CheckExact(found) ? found : nullptr;
}

PyObject* in_module(std::string_view module, std::string_view name) {
  PyObject* found = module_of(module);
  const Ref<> key = Ref<>::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  PyObject* object = found && key ? PyDict_GetItemWithError(PyModule_GetDict(found), key.get()) : nullptr;
  if (!object) PyErr_Clear();
  return object;
}

/// Is it part of Python, NumPy or framejit? What these have is told by their versions.
bool is_of_library(std::string_view module) {
  const std::string_view root = module.substr(0, module.find('.'));
  constexpr std::string_view kRoots[] = {"builtins", "math", "cmath", "operator", "_operator", "numpy", "framejit"};
  return std::find(std::begin(kRoots), std::end(kRoots), root) != std::end(kRoots);
}

/// No program changes such a type.
bool is_made_in_c(PyTypeObject* type) {
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE);
}

struct Name {
  std::string module, name;
};

/// The name under which a module of a library has the object; empty: none that tells it from others.
Name name_of(PyObject* object) {
  Name out;
  if (PyCFunction_CheckExact(object)) {
    out.module =
        words_of(PyCFunction_GET_FUNCTION(object) ? reinterpret_cast<PyCFunctionObject*>(object)->m_module : nullptr);
    out.name = reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
  } else if (Py_IS_TYPE(object, &PyUFunc_Type)) {
    // Other libraries have ufuncs with names of NumPy's, which a program may have installed instead of these.
    const char* name = reinterpret_cast<PyUFuncObject*>(object)->name;
    PyObject* own = name ? PyDict_GetItemString(PyModule_GetDict(arrays::umath_module()), name) : nullptr;
    if (own == object) out = {"numpy", name};
  } else if (PyType_Check(object) && is_made_in_c(reinterpret_cast<PyTypeObject*>(object))) {
    const std::string_view all = reinterpret_cast<PyTypeObject*>(object)->tp_name;
    const std::size_t dot = all.rfind('.');
    if (dot == std::string_view::npos) out = {"builtins", std::string(all)};
    else out = {std::string(all.substr(0, dot)), std::string(all.substr(dot + 1))};
  } else if (PyFunction_Check(object)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    out = {std::string(words_of(function->func_module)), std::string(words_of(function->func_qualname))};
  } else if (std::string_view(Py_TYPE(object)->tp_name) == "numpy._ArrayFunctionDispatcher") {
    const Ref<> module = Ref<>::steal(PyObject_GetAttrString(object, "__module__"));
    const Ref<> name = Ref<>::steal(PyObject_GetAttrString(object, "__name__"));
    PyErr_Clear();
    out = {std::string(words_of(module.get())), std::string(words_of(name.get()))};
  }
  if (!is_of_library(out.module) || in_module(out.module, out.name) != object) return {};
  return out;
}

/// A version of the format in which equal objects have equal bytes, whatever else refers to their parts.
constexpr int kMarshalVersion = 2;

bool add_marshalled(PyObject* object, std::string& out) {
  const Ref<> bytes = Ref<>::steal(PyMarshal_WriteObjectToString(object, kMarshalVersion));
  if (!bytes) return PyErr_Clear(), false;
  out.append(PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get())));
  return true;
}

bool is_plain_value(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_plain_value(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  return object == Py_None || object == Py_Ellipsis || PyBool_Check(object) || PyLong_CheckExact(object) ||
         PyFloat_CheckExact(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) ||
         PyBytes_CheckExact(object);
}

bool add_code(PyCodeObject* code, std::string& out);

/// A constant of code. Marshalling has no form for all of them that is the same in each process.
bool add_constant(PyObject* object, std::string& out) {
  const auto add_bytes = [&out](char kind, const char* bytes, Py_ssize_t size) {
    out += kind;
    out.append(reinterpret_cast<const char*>(&size), sizeof size).append(bytes, static_cast<std::size_t>(size));
    return true;
  };
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    if (const char* words = PyUnicode_AsUTF8AndSize(object, &size)) return add_bytes('t', words, size);
    PyErr_Clear();
  }
  if (PyBytes_CheckExact(object)) return add_bytes('b', PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object));
  if (PyCode_Check(object)) return add_code(reinterpret_cast<PyCodeObject*>(object), out);
  if (PyTuple_CheckExact(object)) {
    out += "tuple " + std::to_string(PyTuple_GET_SIZE(object)) + ' ';
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!add_constant(PyTuple_GET_ITEM(object, i), out)) return false;
    return true;
  }
  if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    out += "slice ";
    return add_constant(slice->start, out) && add_constant(slice->stop, out) && add_constant(slice->step, out);
  }
  if (PyFrozenSet_CheckExact(object)) {
    std::vector<std::string> items;
    const Ref<> all = Ref<>::steal(PySequence_List(object));
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i)
      if (!add_constant(PyList_GET_ITEM(all.get(), i), items.emplace_back())) return false;
    std::sort(items.begin(), items.end());
    out += "set " + std::to_string(items.size()) + ' ';
    for (const std::string& item : items) out += item;
    return all || (PyErr_Clear(), false);
  }
  return is_plain_value(object) && add_marshalled(object, out);
}

bool add_code(PyCodeObject* code, std::string& out) {
  for (const int number : {code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount, code->co_stacksize,
                           code->co_flags, code->co_firstlineno})
    out += std::to_string(number) + ' ';
  const Ref<> bytes = Ref<>::steal(PyCode_GetCode(code));  // specialisations and instrumentation undone
  if (!bytes) return PyErr_Clear(), false;
  for (PyObject* part :
       {bytes.get(), code->co_consts, code->co_names, code->co_localsplusnames, code->co_localspluskinds,
        code->co_filename, code->co_name, code->co_qualname, code->co_linetable, code->co_exceptiontable})
    if (!add_constant(part, out)) return false;
  return true;
}

constexpr std::size_t kMostContent = 256 << 10;
constexpr int kMostDepth = 4;

bool add_class(PyTypeObject* type, std::string& out, int depth);

/// The attribute of a class under a name. Other objects are guarded where they are used, so their classes will do,
/// which may make descriptors of them.
bool add_member(PyObject* value, std::string& out, int depth) {
  if (PyFunction_Check(value)) return add_content(value, out);
  if (is_plain_value(value)) return add_marshalled(value, out);
  if (Py_IS_TYPE(value, &PyStaticMethod_Type) || Py_IS_TYPE(value, &PyClassMethod_Type) ||
      Py_IS_TYPE(value, &PyProperty_Type)) {
    out += Py_TYPE(value)->tp_name;
    for (const char* part : {"__func__", "fget", "fset", "fdel"}) {
      const bool is_property = part[0] == 'f';
      if (is_property != static_cast<bool>(Py_IS_TYPE(value, &PyProperty_Type))) continue;
      const Ref<> held = Ref<>::steal(PyObject_GetAttrString(value, part));
      if (!held) return PyErr_Clear(), false;
      if (PyFunction_Check(held.get()) ? !add_content(held.get(), out) : held.get() != Py_None) return false;
      out += ';';
    }
    return true;
  }
  // Methods in C are those of types that are made in C, of whose slots the dict does not tell all.
  if (Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyWrapperDescr_Type) ||
      Py_IS_TYPE(value, &PyClassMethodDescr_Type))
    return false;
  return add_class(Py_TYPE(value), out, depth + 1);
}

/// The module of a type that is made in C.
std::string_view home_of(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "builtins" : name.substr(0, dot);
}

bool add_class(PyTypeObject* type, std::string& out, int depth) {
  if (is_made_in_c(type)) return out += type->tp_name, true;
  if (!Py_IS_TYPE(type, &PyType_Type) || !type->tp_mro || depth > kMostDepth) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* each = PyTuple_GET_ITEM(type->tp_mro, i);
    auto* base = reinterpret_cast<PyTypeObject*>(each);
    out += "class ";
    out += base->tp_name;
    if (is_made_in_c(base)) {
      if (!is_of_library(home_of(base))) return false;
      continue;
    }
    if (!Py_IS_TYPE(base, &PyType_Type)) return false;
    const Ref<> dict = capture::type_dict(base);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict.get(), &at, &key, &value);) {
      if (!is_str(key)) return false;
      out.append(words_of(key)) += '=';
      if (!add_member(value, out, depth) || out.size() > kMostContent) return false;
      out += '\n';
    }
  }
  return true;
}

}  // namespace

bool is_known_type(const PyObject* object) {
  const auto& types = known_types();
  return std::any_of(types.begin(), types.end(),
                     [object](PyTypeObject* each) { return reinterpret_cast<PyObject*>(each) == object; });
}

bool add_content(PyObject* object, std::string& out) {
  if (PyCode_Check(object)) return add_code(reinterpret_cast<PyCodeObject*>(object), out);
  if (PyFunction_Check(object)) return out += "function ", add_content(PyFunction_GET_CODE(object), out);
  if (PyType_Check(object)) return add_class(reinterpret_cast<PyTypeObject*>(object), out, 0);
  if (is_plain_value(object)) return out += "value ", add_marshalled(object, out);
  if (PyObject* function = unwrap_function(object)) return out += "marked ", add_content(function, out);
  return false;
}

namespace {

/// Borrowed, or null.
PyObject* function_behind(PyObject* object) {
  if (!object) return nullptr;
  const char* const part = Py_IS_TYPE(object, &PyProperty_Type) ? "fget"
                           : Py_IS_TYPE(object, &PyStaticMethod_Type) || Py_IS_TYPE(object, &PyClassMethod_Type)
                               ? "__func__"
                               : nullptr;
  const Ref<> found = part ? Ref<>::steal(PyObject_GetAttrString(object, part)) : Ref<>();
  PyErr_Clear();
  return found && PyFunction_Check(found.get()) ? found.get() : nullptr;  // which the object keeps
}

}  // namespace

PyObject* find_by(FoundBy how, PyObject* from, PyObject* key) {
  switch (how) {
    case FoundBy::Itself: return from;
    case FoundBy::Type: return reinterpret_cast<PyObject*>(Py_TYPE(from));
    case FoundBy::Lookup: return is_str(key) ? _PyType_Lookup(Py_TYPE(from), key) : nullptr;
    case FoundBy::LookupFunction: return function_behind(find_by(FoundBy::Lookup, from, key));
    case FoundBy::Unwrapped: return unwrap_function(from);
    case FoundBy::Implementation: return arrays::numpy_implementation(from);
    case FoundBy::Explained: return module::explained_function(from);
    case FoundBy::Polyfill: return module::polyfill_of(from);
  }
  return nullptr;
}

namespace {

enum class Form : uint8_t {
  Null,
  None,
  True,
  False,
  Ellipsis,
  Marshalled,  // a number, bytes
  Text,
  Tuple,  // of objects
  Globals,
  Builtins,  // of the frame
  Module,
  Namespace,  // of a module
  Type,       // one of known_types()
  Named,
  Dtype,
  NoValue,     // np._NoValue
  Descriptor,  // what a type that is not made in Python has under a name
  Place,       // see FoundBy
  Constant,    // of the code, by number
  Content,     // what a guard finds, with what it consists of
};

/// The type's own attribute of this name, borrowed, or null.
PyObject* own_member(PyTypeObject* type, PyObject* name) {
  const Ref<> dict = capture::type_dict(type);
  PyObject* found = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
  if (!found) PyErr_Clear();
  return found;
}

bool is_descriptor(PyObject* object) {
  return Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyWrapperDescr_Type) ||
         Py_IS_TYPE(object, &PyClassMethodDescr_Type) || Py_IS_TYPE(object, &PyGetSetDescr_Type);
}

/// Numbers of registered classes are those of this process.
bool has_form(GuardKind kind) { return kind <= GuardKind::Disjoint && kind != GuardKind::Registrations; }

bool goes_by_dimensions(GuardKind kind) { return kind == GuardKind::DimRelation || kind == GuardKind::IntSymbol; }

/// Is there one object only with this value?
bool is_one(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return true;
  if (PyUnicode_CheckExact(o)) return PyUnicode_CHECK_INTERNED(o) != 0;
  if (!PyLong_CheckExact(o)) return false;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(o, &overflow);
  return overflow == 0 && -5 <= value && value <= 256;
}

}  // namespace

// A member that is added belongs into the functions that write and read them.
static_assert(sizeof(Source) == 120 && sizeof(Guard) == 304 && sizeof(capture::ArraySpec) == 64);

bool ObjectWriter::by_value(PyObject* o) {
  const auto simple = [&](Form form) { return a_.put(form), true; };
  if (o == Py_None) return simple(Form::None);
  if (o == Py_True) return simple(Form::True);
  if (o == Py_False) return simple(Form::False);
  if (o == Py_Ellipsis) return simple(Form::Ellipsis);
  if (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) || PyBytes_CheckExact(o)) {
    std::string bytes;
    a_.ok = a_.ok && add_marshalled(o, bytes);
    a_.put(Form::Marshalled);
    a_.text(bytes);
    return true;
  }
  if (PyUnicode_CheckExact(o)) {
    const std::string_view words = words_of(o);
    a_.ok = a_.ok && (!words.empty() || PyUnicode_GET_LENGTH(o) == 0);
    a_.put(Form::Text);
    a_.text(words);
    return true;
  }
  if (!PyTuple_CheckExact(o)) return false;
  a_.put(Form::Tuple);
  a_.size(static_cast<std::size_t>(PyTuple_GET_SIZE(o)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) object(PyTuple_GET_ITEM(o, i));
  return true;
}

bool ObjectWriter::by_name(PyObject* o) {
  if (o == frame_.globals) return a_.put(Form::Globals), true;
  if (o == frame_.builtins) return a_.put(Form::Builtins), true;
  if (PyModule_CheckExact(o) || PyDict_CheckExact(o)) {
    PyObject* dict = PyModule_CheckExact(o) ? PyModule_GetDict(o) : o;
    const std::string_view name = words_of(PyDict_GetItemString(dict, "__name__"));
    PyObject* module = module_of(name);
    if (!module || PyModule_GetDict(module) != dict || (o != dict && o != module)) return false;
    a_.put(o == dict ? Form::Namespace : Form::Module);
    a_.text(name);
    return true;
  }
  if (PyType_Check(o)) {
    const auto& types = known_types();
    const auto known = std::find(types.begin(), types.end(), reinterpret_cast<PyTypeObject*>(o));
    if (known != types.end()) {
      a_.put(Form::Type);
      a_.put(static_cast<uint8_t>(known - types.begin()));
      return true;
    }
  }
  if (is_descriptor(o)) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(o);
    if (!is_made_in_c(descriptor->d_type) || own_member(descriptor->d_type, descriptor->d_name) != o) return false;
    a_.put(Form::Descriptor);
    object(reinterpret_cast<PyObject*>(descriptor->d_type));
    a_.text(words_of(descriptor->d_name));
    return true;
  }
  if (o == arrays::no_value()) return a_.put(Form::NoValue), true;
  if (PyArray_DescrCheck(o)) {
    const auto dtype = arrays::dtype_of(reinterpret_cast<PyArray_Descr*>(o));
    if (!dtype || reinterpret_cast<PyObject*>(arrays::descr_of(*dtype)) != o) return false;
    a_.put(Form::Dtype);
    a_.put(*dtype);
    return true;
  }
  const Name name = name_of(o);
  if (name.name.empty()) return false;
  a_.put(Form::Named);
  a_.text(name.module);
  a_.text(name.name);
  return true;
}

void ObjectWriter::object(PyObject* o) {
  if (!o) return a_.put(Form::Null);
  if (!a_.ok || by_value(o) || by_name(o)) return;
  const auto place = places_.find(o);
  if (place == places_.end()) {
    a_.ok = false;
    return;
  }
  a_.put(Form::Place);
  a_.put(place->second.how);
  a_.put(place->second.source);
  object(place->second.key);
}

void ObjectWriter::very_object(PyObject* o) {
  if (!o || is_one(o) || (!is_plain_value(o) && !PyTuple_CheckExact(o))) return object(o);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants_); ++i)
    if (PyTuple_GET_ITEM(constants_, i) == o) {
      a_.put(Form::Constant);
      return a_.put(static_cast<uint32_t>(i));
    }
  // No one else holds an object that was computed.
  a_.ok = a_.ok && std::none_of(callees_.begin(), callees_.end(), [o](PyCodeObject* code) {
            PyObject* constants = code->co_consts;
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
              if (PyTuple_GET_ITEM(constants, i) == o) return true;
            return false;
          });
  object(o);
}

void ObjectWriter::source(const SourceRef& s) {
  if (!s) return a_.put(uint8_t{0});
  if (const auto known = sources_.find(s); known != sources_.end()) {
    a_.put(uint8_t{1});
    return a_.put(known->second);
  }
  a_.put(uint8_t{2});
  a_.put(s->kind);
  source(s->base);
  a_.put(s->index);
  object(s->key.get());
  if (s->kind == SourceKind::Constant) very_object(s->object.get());
  else object(s->object.get());
  a_.text(s->name);
  a_.size(s->parts.size());
  for (const capture::HeldRef& part : s->parts) object(part.get());
  sources_.emplace(s, static_cast<uint32_t>(sources_.size()));
}

void ObjectWriter::remember(PyObject* object, FoundBy how, const SourceRef& source, PyObject* key) {
  const auto known = sources_.find(source);
  if (object && known != sources_.end()) places_.emplace(object, Place{how, known->second, key});
}

void ObjectWriter::content(PyObject* o) {
  std::string bytes;
  a_.ok = a_.ok && add_content(o, bytes);
  a_.put(Form::Content);
  a_.text(bytes);
}

void ObjectWriter::guard(const Guard& g) {
  a_.ok = a_.ok && has_form(g.kind);
  a_.put(g.kind);
  source(g.source);
  source(g.other);
  a_.size(g.several.size());
  for (const SourceRef& each : g.several) source(each);
  object(g.key.get());
  a_(g.number, g.array);
  if (goes_by_dimensions(g.kind)) a_(g.dim, g.shown);
  a_.put(g.location);
  a_.text(g.reason);
  PyObject* o = g.object.get();
  const bool is_lookup = g.kind == GuardKind::TypeAttr && g.number == 0;
  if (g.kind == GuardKind::Code) {
    content(o);
    callees_.push_back(reinterpret_cast<PyCodeObject*>(o));
  } else if (is_lookup && o) {
    // The type is guarded before, with all that it has.
    const auto of = sources_.find(g.source);
    a_.ok = a_.ok && of != sources_.end() && typed_.count(of->second) != 0;
    if (!a_.ok) return;
    a_.put(Form::Place);
    a_.put(FoundBy::Lookup);
    a_.put(of->second);
    object(g.key.get());
    remember(o, FoundBy::Lookup, g.source, g.key.get());
    remember(function_behind(o), FoundBy::LookupFunction, g.source, g.key.get());
  } else if (o && (g.kind == GuardKind::Identity || g.kind == GuardKind::Type)) {
    const FoundBy how = g.kind == GuardKind::Type ? FoundBy::Type : FoundBy::Itself;
    const bool is_single = o == Py_None || o == Py_Ellipsis || PyBool_Check(o);
    ArchiveWriter trial;
    std::swap(trial, a_);
    const bool has_name = (is_single || !is_plain_value(o)) && (by_value(o) || by_name(o) || places_.count(o) != 0);
    std::swap(trial, a_);
    if (has_name && trial.ok) object(o);
    else content(o);
    if (how == FoundBy::Type) typed_.insert(sources_.at(g.source));
    remember(o, how, g.source);
    if (g.kind == GuardKind::Identity)
      for (const FoundBy other : {FoundBy::Unwrapped, FoundBy::Implementation, FoundBy::Explained, FoundBy::Polyfill})
        remember(find_by(other, o, nullptr), other, g.source);
  } else {
    object(o);
  }
}

PyObject* ObjectReader::fetch(const SourceRef& s) {
  PyObject* found = a_.ok && s ? guards::fetch_source(*s, frame_) : nullptr;
  a_.ok = a_.ok && found;
  return found;
}

bool ObjectReader::has_content(PyObject* o) {
  const std::string_view expected = a_.text();
  std::string found;
  return a_.ok && o && add_content(o, found) && found == expected;
}

Ref<> ObjectReader::object() {
  const auto given = [this](PyObject* o) {
    a_.ok = a_.ok && o;
    return Ref<>::share(o);
  };
  switch (a_.get<Form>()) {
    case Form::Null: return {};
    case Form::None: return given(Py_None);
    case Form::True: return given(Py_True);
    case Form::False: return given(Py_False);
    case Form::Ellipsis: return given(Py_Ellipsis);
    case Form::Marshalled: {
      const std::string_view bytes = a_.text();
      Ref<> out = Ref<>::steal(PyMarshal_ReadObjectFromString(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
      if (!out) PyErr_Clear();
      a_.ok = a_.ok && out && is_plain_value(out.get());
      return out;
    }
    case Form::Text: {
      const std::string_view words = a_.text();
      PyObject* text = PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), nullptr);
      if (text) PyUnicode_InternInPlace(&text);
      else PyErr_Clear();
      a_.ok = a_.ok && text;
      return Ref<>::steal(text);
    }
    case Form::Tuple: {
      const std::size_t count = a_.size();
      Ref<> out = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
      for (std::size_t i = 0; out && i < count && a_.ok; ++i)
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), object().release());
      a_.ok = a_.ok && out;
      return a_.ok ? out : Ref<>();
    }
    case Form::Globals: return given(frame_.globals);
    case Form::Builtins: return given(frame_.builtins);
    case Form::Module: return given(module_of(a_.text()));
    case Form::Namespace: {
      PyObject* module = module_of(a_.text());
      return given(module ? PyModule_GetDict(module) : nullptr);
    }
    case Form::Type: {
      const auto number = a_.get<uint8_t>();
      a_.ok = a_.ok && number < known_types().size();
      return given(a_.ok ? reinterpret_cast<PyObject*>(known_types()[number]) : nullptr);
    }
    case Form::Named: {
      const Name name{std::string(a_.text()), std::string(a_.text())};
      PyObject* found = in_module(name.module, name.name);
      // Something else may have taken the name.
      const Name own = found ? name_of(found) : Name{};
      a_.ok = a_.ok && found && own.name == name.name && own.module == name.module;
      return given(found);
    }
    case Form::Dtype: {
      const auto dtype = a_.get<graph::DType>();
      a_.ok = a_.ok && static_cast<unsigned>(dtype) < graph::kDTypeCount;
      return given(a_.ok ? reinterpret_cast<PyObject*>(arrays::descr_of(dtype)) : nullptr);
    }
    case Form::NoValue: return given(arrays::no_value());
    case Form::Descriptor: {
      const Ref<> type = object();
      const std::string_view words = a_.text();
      const Ref<> name = Ref<>::steal(PyUnicode_FromStringAndSize(words.data(), static_cast<Py_ssize_t>(words.size())));
      const bool fits =
          type && name && PyType_Check(type.get()) && is_made_in_c(reinterpret_cast<PyTypeObject*>(type.get()));
      PyObject* found = fits ? own_member(reinterpret_cast<PyTypeObject*>(type.get()), name.get()) : nullptr;
      a_.ok = a_.ok && found && is_descriptor(found);
      return given(found);
    }
    case Form::Place: {
      const auto how = a_.get<FoundBy>();
      const auto source = a_.get<uint32_t>();
      const Ref<> key = object();
      a_.ok = a_.ok && source < sources_.size();
      PyObject* from = a_.ok ? fetch(sources_[source]) : nullptr;
      return given(from ? find_by(how, from, key.get()) : nullptr);
    }
    case Form::Constant: {
      const auto number = static_cast<Py_ssize_t>(a_.get<uint32_t>());
      return given(number < PyTuple_GET_SIZE(constants_) ? PyTuple_GET_ITEM(constants_, number) : nullptr);
    }
    case Form::Content: break;
  }
  a_.ok = false;
  return {};
}

SourceRef ObjectReader::source() {
  const auto how = a_.get<uint8_t>();
  if (how == 0) return nullptr;
  if (how == 1) {
    const auto number = a_.get<uint32_t>();
    a_.ok = a_.ok && number < sources_.size();
    return a_.ok ? sources_[number] : nullptr;
  }
  auto out = std::make_shared<Source>();
  out->kind = a_.get<SourceKind>();
  out->base = source();
  out->index = a_.get<int>();
  out->key = object();
  out->object = object();
  out->name = a_.text();
  for (std::size_t count = a_.size(); count > 0 && a_.ok; --count) out->parts.emplace_back(object());
  a_.ok = a_.ok && out->kind <= SourceKind::Cached;
  sources_.push_back(out);
  return out;
}

Guard ObjectReader::guard() {
  Guard g{};
  g.kind = a_.get<GuardKind>();
  g.source = source();
  g.other = source();
  for (std::size_t count = a_.size(); count > 0 && a_.ok; --count) g.several.push_back(source());
  g.key = object();
  a_(g.number, g.array);
  if (has_form(g.kind) && goes_by_dimensions(g.kind)) a_(g.dim, g.shown);
  g.location = a_.get<uint32_t>();
  g.reason = a_.text();
  const bool is_content = !a_.rest.empty() && static_cast<Form>(a_.rest[0]) == Form::Content;
  a_.ok = a_.ok && has_form(g.kind) && (is_content || g.kind != GuardKind::Code);
  if (!a_.ok) return g;
  if (!is_content) {
    g.object = object();
    return g;
  }
  a_.get<Form>();
  PyObject* found = fetch(g.source);
  if (found && g.kind == GuardKind::Type) found = reinterpret_cast<PyObject*>(Py_TYPE(found));
  if (found && g.kind == GuardKind::Code)
    found = PyFunction_Check(found) ? reinterpret_cast<PyFunctionObject*>(found)->func_code : nullptr;
  a_.ok = a_.ok && has_content(found);
  if (a_.ok) g.object = Ref<>::share(found);
  return g;
}

}  // namespace framejit::ext::dispatch
