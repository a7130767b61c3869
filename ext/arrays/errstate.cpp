// np.errstate: a ContextVar in NumPy 2, thread-local in NumPy 1.
#include "ext/arrays/errstate.h"

#include "capture/warnings.h"
#include "ext/arrays/numpy_api.h"
#include "ext/module/module.h"
#include "graph/graph.h"

#include <cfenv>
#include <map>

namespace framejit::ext::arrays {

using capture::Ref;

namespace {

struct Class {
  const char* key;
  int shift;  // in the mask of NumPy 1
  unsigned flag;
};
constexpr Class kClasses[] = {
    {"divide", 0, FE_DIVBYZERO}, {"over", 3, FE_OVERFLOW}, {"under", 6, FE_UNDERFLOW}, {"invalid", 9, FE_INVALID}};
constexpr long kActionMask = 7;  // 0: ignore, 1: warn

constexpr unsigned kWarned = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW;

struct Raw {
  unsigned watched = kWarned;
  bool warns_only = false;
  std::int64_t buffer_size = 0;
};

/// NumPy 2: the state is an immutable object in a context variable. Naming its contents costs a dict, so the last one
/// seen is kept, together with a reference that stops its address from being used again.
Raw from_context() {
  static PyObject* variable = PyObject_GetAttrString(umath_module(), "_extobj_contextvar");
  static PyObject* reader = PyObject_GetAttrString(umath_module(), "_get_extobj_dict");
  static PyObject* seen = nullptr;
  static Raw known;
  if (!variable || !reader) return {};
  PyObject* now_raw = nullptr;
  if (PyContextVar_Get(variable, nullptr, &now_raw) < 0) return {};
  Ref<> now = Ref<>::steal(now_raw);
  if (now && now.get() == seen) return known;
  Ref<> state = Ref<>::steal(PyObject_CallNoArgs(reader));
  if (!state || !PyDict_Check(state.get())) return {};
  Raw raw{0, true, 0};
  for (const Class& row : kClasses) {
    PyObject* action = PyDict_GetItemString(state.get(), row.key);
    if (!action || !PyUnicode_Check(action)) return {};
    if (PyUnicode_CompareWithASCIIString(action, "ignore") == 0) continue;
    raw.watched |= row.flag;
    raw.warns_only = raw.warns_only && PyUnicode_CompareWithASCIIString(action, "warn") == 0;
  }
  PyObject* size = PyDict_GetItemString(state.get(), "bufsize");
  raw.buffer_size = size ? PyLong_AsLongLong(size) : 0;
  if (now) {
    PyObject* old = seen;
    seen = now.release();
    known = raw;
    Py_XDECREF(old);
  }
  return raw;
}

/// NumPy 1: [buffer size, mask, callback] of the thread.
Raw from_thread() {
  static PyObject* reader = PyObject_GetAttrString(umath_module(), "geterrobj");
  Ref<> state = reader ? Ref<>::steal(PyObject_CallNoArgs(reader)) : Ref<>();
  if (!state || !PyList_Check(state.get()) || PyList_GET_SIZE(state.get()) < 2) return {};
  long mask = PyLong_AsLong(PyList_GET_ITEM(state.get(), 1));
  if (mask == -1 && PyErr_Occurred()) return {};
  Raw raw{0, true, PyLong_AsLongLong(PyList_GET_ITEM(state.get(), 0))};
  for (const Class& row : kClasses) {
    const long action = (mask >> row.shift) & kActionMask;
    if (action == 0) continue;
    raw.watched |= row.flag;
    raw.warns_only = raw.warns_only && action == 1;
  }
  return raw;
}

}  // namespace

ErrState ErrState::current() {
  ErrState state;
  if (!umath_module()) return state;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Raw raw = numpy_version().major >= 2 ? from_context() : from_thread();
  PyErr_Restore(type, value, traceback);
  state.watched_ = raw.watched;
  state.warns_only_ = raw.warns_only;
  state.buffer_size_ = raw.buffer_size;
  return state;
}

namespace {

/// NumPy 2's object for a state, made once for each set of flags and size of buffers.
PyObject* raising_state(unsigned flags, std::int64_t buffer_size) {
  static std::map<std::pair<unsigned, std::int64_t>, PyObject*> states;
  PyObject*& state = states[{flags, buffer_size}];
  if (state) return state;
  Ref<> make = Ref<>::steal(PyObject_GetAttrString(umath_module(), "_make_extobj"));
  Ref<> keywords = Ref<>::steal(Py_BuildValue("{s:s}", "all", "ignore"));
  Ref<> raise = Ref<>::steal(PyUnicode_FromString("raise"));
  for (const Class& row : kClasses)
    if (keywords && raise && (flags & row.flag)) PyDict_SetItemString(keywords.get(), row.key, raise.get());
  Ref<> none = Ref<>::steal(PyTuple_New(0));
  if (make && keywords && none) state = PyObject_Call(make.get(), none.get(), keywords.get());
  return state;
}

/// What first calls need of the state that there is at the start.
const module::ModulePart part(1, [](PyObject*) {
  const ErrState now = ErrState::current();
  if (umath_module() && numpy_version().major >= 2) raising_state(now.watched(), now.buffer_size());
  capture::clear_error_of_call();
  return true;
});

long raising_mask(unsigned flags) {
  constexpr long kRaise = 2;
  long mask = 0;
  for (const Class& row : kClasses)
    if (flags & row.flag) mask |= kRaise << row.shift;
  return mask;
}

}  // namespace

ScopedErrState::ScopedErrState(unsigned raising, const ErrState& now) {
  raising &= kWarned;
  if (numpy_version().major >= 2) {
    static PyObject* variable = PyObject_GetAttrString(umath_module(), "_extobj_contextvar");
    PyObject* state = raising_state(raising, now.buffer_size());
    if (variable && state) before_ = PyContextVar_Set(variable, state);
  } else {
    before_ = PyObject_CallMethod(umath_module(), "geterrobj", nullptr);
    PyObject* size = before_ ? PyList_GetItem(before_, 0) : nullptr;
    Ref<> done = size ? Ref<>::steal(PyObject_CallMethod(umath_module(), "seterrobj", "[OlO]", size,
                                                         raising_mask(raising), Py_None))
                      : Ref<>();
  }
  capture::clear_error_of_call();
}

ScopedErrState::~ScopedErrState() {
  if (!before_) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (numpy_version().major >= 2) {
    static PyObject* variable = PyObject_GetAttrString(umath_module(), "_extobj_contextvar");
    PyContextVar_Reset(variable, before_);
  } else {
    Ref<> done = Ref<>::steal(PyObject_CallMethod(umath_module(), "seterrobj", "O", before_));
  }
  Py_DECREF(before_);
  PyErr_Restore(type, value, traceback);
}

bool scipy_is_silent() {
  static constinit capture::Once once;
  PyObject* reader = once.get([]() -> PyObject* {
    Ref<> special = Ref<>::steal(PyImport_ImportModule("scipy.special"));
    return special ? PyObject_GetAttrString(special.get(), "geterr") : nullptr;
  });
  Ref<> state = reader ? Ref<>::steal(PyObject_CallNoArgs(reader)) : Ref<>();
  capture::clear_error_of_call();
  if (!state || !PyDict_Check(state.get())) return false;
  PyObject *key, *action;
  for (Py_ssize_t i = 0; PyDict_Next(state.get(), &i, &key, &action);)
    if (PyUnicode_CompareWithASCIIString(action, "ignore") != 0 && PyUnicode_CompareWithASCIIString(key, "memory") != 0)
      return false;
  return true;
}

bool all_ignored(unsigned flags) {
  if (flags >> graph::FlagRule::kTrappedShift) return false;
  return (flags & kWarned) == 0 || ErrState::current().all_ignored(flags & kWarned);
}

}  // namespace framejit::ext::arrays
