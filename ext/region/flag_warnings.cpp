// Where Python decides about a warning: Python/_warnings.c and Lib/warnings.py; where NumPy makes one: extobj.c.
#include "ext/region/flag_warnings.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <string_view>

#include "capture/py/dict_version.h"
#include "capture/warnings.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/promotion.h"

namespace framejit::ext::region {

using capture::Once;
using capture::Ref;

namespace {

/// In the order in which NumPy reports them.
struct Kind {
  unsigned flag;
  const char* text;
};
constexpr Kind kKinds[] = {{FE_DIVBYZERO, "divide by zero"},
                           {FE_OVERFLOW, "overflow"},
                           {FE_UNDERFLOW, "underflow"},
                           {FE_INVALID, "invalid value"}};

// Names of the module `warnings` on which a warning's way depends. The functions must be the module's own; those of the
// last row are replaced by catch_warnings(record=True).
constexpr std::array kFunctions = {"showwarning",       "formatwarning",       "_showwarnmsg",
                                   "_formatwarnmsg",    "WarningMessage",      "_formatwarnmsg_impl",
                                   "_showwarning_orig", "_formatwarning_orig", "_showwarnmsg_impl"};
constexpr std::size_t kShown = kFunctions.size() - 1;

Ref<> interned(const char* text) { return Ref<>::steal(PyUnicode_InternFromString(text)); }

bool is_one_of(PyObject* text, std::initializer_list<const char*> words) {
  return text && PyUnicode_CheckExact(text) && std::any_of(words.begin(), words.end(), [&](const char* word) {
           return PyUnicode_CompareWithASCIIString(text, word) == 0;
         });
}

PyObject* namespace_of(const char* module) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return found && PyModule_CheckExact(found) ? PyModule_GetDict(found) : nullptr;
}

/// Each context may have filters of its own (3.14: -X context_aware_warnings).
bool are_filters_of_contexts() {
  static const bool are = [] {
    PyObject* flags = PySys_GetObject("flags");
    Ref<> aware = flags ? Ref<>::steal(PyObject_GetAttrString(flags, "context_aware_warnings")) : Ref<>();
    if (!aware) PyErr_Clear();
    return aware && PyObject_IsTrue(aware.get()) != 0;
  }();
  return are;
}

/// The functions of `warnings` as its source defines them (from 3.14 on in `_py_warnings`), each known from the first
/// time on that it is seen in its place.
class OwnFunctions {
 public:
  OwnFunctions() {
    for (std::size_t i = 0; i < kFunctions.size(); ++i) names_[i] = interned(kFunctions[i]);
  }
  PyObject* in(PyObject* dict, std::size_t i) const { return PyDict_GetItemWithError(dict, names_[i].get()); }
  bool is_own(PyObject* dict, std::size_t i) {
    PyObject* found = in(dict, i);
    if (found && found == own_[i].get()) return true;
    if (!found || own_[i]) return false;
    PyObject* globals = PyFunction_Check(found) ? PyFunction_GET_GLOBALS(found) : nullptr;
    const bool own = globals ? globals == dict || globals == namespace_of("_py_warnings") : PyType_CheckExact(found);
    if (own) own_[i] = Ref<>::share(found);
    return own;
  }

 private:
  std::array<Ref<>, kFunctions.size()> names_, own_;
};

/// What a filter does to a RuntimeWarning: surely not this one, perhaps, surely.
enum class Match : uint8_t { No, Maybe, Sure, Unknown };

bool is_pattern(PyObject* object) {
  static constinit Once once;
  PyObject* type = once.get([] {
    Ref<> re = Ref<>::steal(PyImport_ImportModule("re"));
    PyObject* found = re ? PyObject_GetAttrString(re.get(), "Pattern") : nullptr;
    if (!found) PyErr_Clear();
    return found;
  });
  return type && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

Match match(PyObject* filter) {
  if (!PyTuple_CheckExact(filter) || PyTuple_GET_SIZE(filter) != 5) return Match::Unknown;
  if (capture::is_own_filter(filter)) return Match::No;
  PyObject* category = PyTuple_GET_ITEM(filter, 2);
  if (!PyType_Check(category) || !PyType_CheckExact(category)) return Match::Unknown;
  bool sure = true;
  for (int i : {1, 3}) {
    PyObject* text = PyTuple_GET_ITEM(filter, i);
    if (text == Py_None) continue;
    if (!PyUnicode_CheckExact(text) && !is_pattern(text)) return Match::Unknown;
    sure = false;
  }
  PyObject* line = PyTuple_GET_ITEM(filter, 4);
  if (!PyLong_CheckExact(line)) return Match::Unknown;
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(PyExc_RuntimeWarning),
                        reinterpret_cast<PyTypeObject*>(category)))
    return Match::No;
  return sure && PyObject_Not(line) ? Match::Sure : Match::Maybe;
}

/// The verdict on the module's state, kept while the state is the same.
class Inspector {
 public:
  /// False: somebody could tell.
  bool plain(PyObject*& log) {
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name_.get());
    PyObject* dict = module && PyModule_CheckExact(module) ? PyModule_GetDict(module) : nullptr;
    if (!dict) return false;
    if (dict != dict_ || !version_.is(tag_) || !same_filters()) look(dict);
    log = log_;
    return plain_;
  }

 private:
  bool same_filters() const {
    return !filters_ || std::equal(seen_.begin(), seen_.end(), PySequence_Fast_ITEMS(filters_),
                                   PySequence_Fast_ITEMS(filters_) + PyList_GET_SIZE(filters_),
                                   [](const Ref<>& seen, PyObject* now) { return seen.get() == now; });
  }

  void look(PyObject* dict) {
    if (dict != dict_) version_ = capture::DictVersion(dict);
    dict_ = dict;
    tag_ = version_.now();
    log_ = filters_ = nullptr;
    std::vector<Ref<>> seen;
    seen.swap(seen_);  // released last: that may run code
    plain_ = !are_filters_of_contexts() && is_shown_plainly(dict) && are_filters_harmless(dict);
  }

  bool is_shown_plainly(PyObject* dict) {
    if (!functions_.is_own(dict, kShown)) {
      log_ = log_of(functions_.in(dict, kShown));
      if (!log_) return false;
    }
    for (std::size_t i = 0; i < kShown; ++i)
      if (!functions_.is_own(dict, i)) return false;
    return true;
  }

  /// catch_warnings(record=True) has put the `append` of its list there.
  static PyObject* log_of(PyObject* show) {
    if (!show || !PyCFunction_CheckExact(show)) return nullptr;
    PyObject* list = PyCFunction_GET_SELF(show);
    const bool appends = std::string_view(reinterpret_cast<PyCFunctionObject*>(show)->m_ml->ml_name) == "append";
    return list && PyList_CheckExact(list) && appends ? list : nullptr;
  }

  bool are_filters_harmless(PyObject* dict) {
    PyObject* once = PyDict_GetItemWithError(dict, once_.get());
    PyObject* filters = PyDict_GetItemWithError(dict, filters_name_.get());
    if (!once || !PyDict_CheckExact(once) || !filters || !PyList_CheckExact(filters)) return false;
    filters_ = filters;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i)
      seen_.push_back(Ref<>::share(PyList_GET_ITEM(filters, i)));
    return judge(seen_, PyDict_GetItemWithError(dict, default_.get()));
  }

  static bool judge(const std::vector<Ref<>>& filters, PyObject* otherwise) {
    for (const Ref<>& filter : filters) {
      const Match matches = match(filter.get());
      if (matches == Match::Unknown) return false;
      if (matches == Match::No) continue;
      if (!is_one_of(PyTuple_GET_ITEM(filter.get(), 0), {"default", "ignore", "always", "module", "once"}))
        return false;
      if (matches == Match::Sure) return true;  // the filters behind it are not asked
    }
    return is_one_of(otherwise, {"default", "ignore", "always", "module", "once"});
  }

  const Ref<> name_ = interned("warnings"), filters_name_ = interned("filters"), default_ = interned("defaultaction"),
              once_ = interned("onceregistry");
  OwnFunctions functions_;
  PyObject *dict_ = nullptr, *filters_ = nullptr, *log_ = nullptr;  // borrowed: they stay while the dict is the same
  capture::DictVersion version_;
  uint64_t tag_ = 0;
  std::vector<Ref<>> seen_;  // the filters
  bool plain_ = false;
};

/// As setup_context() of Python/_warnings.c takes it from a frame.
bool warn_at(const capture::Origin& origin, int line, PyObject* text) {
  PyObject* globals = origin.globals.get();
  static PyObject* const registry_name = PyUnicode_InternFromString("__warningregistry__");
  static PyObject* const module_name = PyUnicode_InternFromString("__name__");
  Ref<> registry = Ref<>::share(PyDict_GetItemWithError(globals, registry_name));
  if (!registry) {
    registry = Ref<>::steal(PyDict_New());
    if (!registry || PyDict_SetItem(globals, registry_name, registry.get()) < 0) return false;
  }
  Ref<> module = Ref<>::share(PyDict_GetItemWithError(globals, module_name));
  if (!module || (module.get() != Py_None && !PyUnicode_Check(module.get())))
    module = Ref<>::steal(PyUnicode_FromString("<string>"));
  return module && PyErr_WarnExplicitObject(PyExc_RuntimeWarning, text, origin.file.get(), line, module.get(),
                                            registry.get()) == 0;
}

}  // namespace

bool stderr_takes_warnings() {
  static constinit Once io, types[2];
  PyObject* module = io.get([] { return PyImport_ImportModule("_io"); });
  if (!module) return PyErr_Clear(), false;
  PyObject* file = PySys_GetObject("stderr");
  if (!file || file == Py_None) return file != nullptr;
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(file));
  auto is = [&](Once& once, const char* name) {
    return type == once.get([=] { return PyObject_GetAttrString(module, name); });
  };
  if (!is(types[0], "TextIOWrapper") && !is(types[1], "StringIO")) return PyErr_Clear(), false;
  Ref<> closed = Ref<>::steal(PyObject_GetAttrString(file, "closed"));
  if (!closed) PyErr_Clear();
  return closed.get() == Py_False;
}

bool is_of_warnings(PyObject* object) {
  if (PyUnicode_CheckExact(object)) return PyUnicode_CompareWithASCIIString(object, "__warningregistry__") == 0;
  static PyObject* const name = PyUnicode_InternFromString("warnings");
  return object == PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
}

std::optional<WarningRules> warning_rules() {
  static Inspector& inspector = *new Inspector();  // holds references: not destroyed at exit
  const arrays::ErrState state = arrays::ErrState::current();
  WarningRules rules;
  rules.watched = state.watched();
  if (rules.watched == 0) return rules;
  if (!state.warns_only() || !inspector.plain(rules.log)) return std::nullopt;
  return rules;
}

bool warn_of_flags(const graph::Graph& graph, std::span<const capture::Origin> origins,
                   const std::vector<std::vector<uint32_t>>& owners, std::span<const unsigned> raised) {
  std::vector<unsigned> of_call(graph.calls().size(), 0);
  for (std::size_t slot = 0; slot < raised.size(); ++slot)
    for (uint32_t call : owners[slot]) of_call[call] |= raised[slot];
  for (std::size_t i = 0; i < of_call.size(); ++i) {
    const graph::Call& call = graph.calls()[i];
    for (const Kind& kind : kKinds) {
      if (!(of_call[i] & kind.flag)) continue;
      Ref<> text =
          Ref<>::steal(PyUnicode_FromFormat("%s encountered in %s", kind.text, arrays::ufunc_of(call.op)->name));
      if (!text || !warn_at(origins[call.origin], graph.location(call.location).line, text.get())) return false;
    }
  }
  return true;
}

}  // namespace framejit::ext::region
