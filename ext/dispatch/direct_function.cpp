#include "ext/dispatch/direct_function.h"

#include <cstring>
#include <utility>
#include <vector>

#include "capture/splice.h"
#include "ext/dispatch/function.h"

namespace framejit::ext::dispatch {

using capture::Ref;

namespace {

// Calls in slots take no look at the code that their function has: whoever sets it is noticed.

std::vector<std::pair<PyObject*, DirectFunction*>>& by_original() {
  static auto* const all = new std::vector<std::pair<PyObject*, DirectFunction*>>;
  return *all;
}

setter set_code_of_python = nullptr;

int set_code(PyObject* function, PyObject* code, void* closure) {
  const int result = set_code_of_python(function, code, closure);
  for (const auto& [original, direct] : std::vector(by_original()))
    if (original == function) direct->reset();
  return result;
}

/// False: functions have no attribute __code__ that could be watched.
bool watch_code() {
  if (set_code_of_python) return true;
  for (PyGetSetDef* row = PyFunction_Type.tp_getset; row && row->name; ++row)
    if (std::strcmp(row->name, "__code__") == 0 && row->set) {
      set_code_of_python = std::exchange(row->set, set_code);
      return true;
    }
  return false;
}

bool has_version(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__call__");
  _PyType_Lookup(type, name);  // gives it one
  return type->tp_version_tag != 0;
}

}  // namespace

/// Are all callables that it takes slots of marked functions?
bool DirectFunction::calls_marked() {
  for (const Ref<>& name : names_) {
    PyObject* callable = PyDict_GetItemWithError(function_->func_globals, name.get());
    if (!callable || !Py_IS_TYPE(callable, function_type())) return PyErr_Clear(), false;
  }
  return true;
}

void DirectFunction::prepare(FunctionObject* f) {
  if (std::exchange(tried_, true) || f->state->gain || f->state->settings().stress.splices()) return;
  auto* code = reinterpret_cast<PyCodeObject*>(f->function->func_code);
  PyObject* globals = f->function->func_globals;
  if (!PyDict_CheckExact(globals) || (code->co_flags & kGeneratorFlags)) return;
  const capture::CodeView& view = *f->state->view();
  std::vector<capture::GlobalCall> calls = capture::global_calls(view);
  std::erase_if(calls, [&](const capture::GlobalCall& call) {
    PyObject* callable = PyDict_GetItemWithError(globals, call.name);
    return call.arguments > kMostDirectArguments || !callable || !Py_IS_TYPE(callable, function_type());
  });
  PyErr_Clear();
  if (calls.empty() || !watch_code() || !has_version(function_type())) return;
  calls_ = capture::DirectCalls::make(view, calls);
  Ref<> made = calls_ ? capture::function_with_code(f->function, calls_->code()) : Ref<>();
  if (!made) return PyErr_Clear();
  for (const capture::GlobalCall& call : calls) names_.push_back(Ref<>::share(call.name));
  function_ = Ref<PyFunctionObject>::steal(reinterpret_cast<PyFunctionObject*>(made.release()));
  globals_ = capture::DictVersion(globals);
  original_ = f->function;
  of_ = f;
  by_original().emplace_back(reinterpret_cast<PyObject*>(original_), this);
  // A call that binds its arguments in order and lacks none has no use for defaults, which may change.
  const bool plain = code->co_kwonlyargcount == 0 && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
  if (plain && code->co_argcount <= kMostDirectArguments)
    f->direct_slots[code->co_argcount] = reinterpret_cast<PyObject*>(function_.get());
}

PyFunctionObject* DirectFunction::get(FunctionObject* f) {
  if (capture::any_tool_active(f->state->code())) return f->function;
  if (!globals_.is(seen_)) [[unlikely]] {
    seen_ = 0;
    if (!calls_marked()) return f->function;
    seen_ = globals_.now();
  }
  if (!armed_) [[unlikely]]
    armed_ = calls_->arm(function_type(), offsetof(FunctionObject, direct_slots));
  if (!follow(function_.get(), f->function)) {
    PyErr_Clear();
    return f->function;
  }
  return function_.get();
}

void DirectFunction::reset() {
  if (!of_) return;
  for (PyObject*& slot : of_->direct_slots) slot = reinterpret_cast<PyObject*>(of_);
  std::erase_if(by_original(), [this](const auto& row) { return row.second == this; });
  of_ = nullptr;
  names_.clear();
  calls_.reset();
  armed_ = tried_ = false;
  const Ref<PyFunctionObject> dropped = std::move(function_);
}

int DirectFunction::traverse(visitproc visit, void* arg) const {
  Py_VISIT(reinterpret_cast<PyObject*>(function_.get()));
  return 0;
}

}  // namespace framejit::ext::dispatch
