// Marking in place: frames of marked code objects go through the hook (capture/hook.h) to entries or spliced code.
#include "ext/dispatch/marking.h"

#include <unordered_map>

#include "capture/py/interpreter.h"
#include "ext/dispatch/bytecode_calls.h"
#include "ext/dispatch/code_state.h"
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
using region::Outcome;

namespace {

/// Marked code objects, for reports; the hook owns the interceptors.
std::unordered_map<PyCodeObject*, std::weak_ptr<MarkedCode>>& marked() {
  static std::unordered_map<PyCodeObject*, std::weak_ptr<MarkedCode>> map;
  return map;
}

class CompiledFrames final : public MarkedCode, public std::enable_shared_from_this<CompiledFrames> {
 public:
  CompiledFrames(PyCodeObject* code, const JitSettings& settings, std::weak_ptr<CodeState> owner)
      : state_(std::make_shared<CodeState>(code, settings, capture::CodeView::Keep::Contents, std::move(owner))) {}
  ~CompiledFrames() override {
    state_->entries.sites.forget();
    const auto at = marked().find(state_->code());
    if (at != marked().end() && at->second.expired()) marked().erase(at);
  }

  Outcome enter(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals, int local_count) override;
  void leave() override { end_call(*state_); }
  CodeState& state() override { return *state_; }

 private:
  Outcome enter_measured(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals);
  Outcome enter_compiled(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals);
  Outcome enter_checked(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals);

  std::shared_ptr<CodeState> state_;
  std::unique_ptr<capture::SplicedCode> spliced_;
};

capture::FrameInterceptor::Outcome CompiledFrames::enter(PyFunctionObject* function, PyCodeObject* code,
                                                         capture::py::Slots locals, int) {
  ++module::stats.frames_marked;
  if (module::bytecode_only() || module::is_disabled(code)) return {};
  return state_->gain ? enter_measured(function, code, locals) : enter_compiled(function, code, locals);
}

struct MeasuredFrame final : capture::FrameInterceptor {
  std::shared_ptr<CodeState> state;  // owns the call's Gain
  MeasuredCall call;
  std::shared_ptr<FrameInterceptor> told = {};  // at the frame's end, too

  MeasuredFrame(const std::shared_ptr<CodeState>& of, capture::py::Slots arguments)
      : state(of), call(*of->gain, arguments, module::argument_slots(of->code())) {}
  Outcome enter(PyFunctionObject*, PyCodeObject*, capture::py::Slots, int) override { return {}; }
  void leave() override {
    call.end();
    if (told) told->leave();
  }
};

capture::FrameInterceptor::Outcome CompiledFrames::enter_measured(PyFunctionObject* function, PyCodeObject* code,
                                                                  capture::py::Slots locals) {
  const auto frame = std::make_shared<MeasuredFrame>(state_, locals);
  Outcome outcome;
  if (frame->call.side() == region::Side::Compiled) outcome = enter_compiled(function, code, locals);
  if (!outcome.handled) frame->told = std::exchange(outcome.told, frame);
  return outcome;
}

capture::FrameInterceptor::Outcome CompiledFrames::enter_compiled(PyFunctionObject* function, PyCodeObject* code,
                                                                  capture::py::Slots locals) {
  if (state_->comparison.passes_by()) return {};
  try {
    return enter_checked(function, code, locals);
  } catch (const std::exception& error) {
    if (internal_error(PyUnicode_AsUTF8(code->co_qualname), error.what())) return {true, nullptr, nullptr};
    return {};
  }
}

capture::FrameInterceptor::Outcome CompiledFrames::enter_checked(PyFunctionObject* function, PyCodeObject* code,
                                                                 capture::py::Slots locals) {
  const guards::LiveSlots live{locals, module::argument_slots(code), nullptr, 0, reinterpret_cast<PyObject*>(function)};
  PyObject* result = nullptr;
  std::optional<capture::Break> raising;  // never: marks have no fullgraph
  // Functions of one code object may live in several namespaces; entries are for the first that was seen.
  if (!fits(*state_, function)) return {};
  ext::region::Outcome outcome = call_whole(*state_, live, result);
  if (outcome == ext::region::Outcome::Miss && state_->wants_capture())
    outcome = capture_whole(*state_, function, locals, result, raising);
  switch (outcome) {
    case ext::region::Outcome::Done: ++module::stats.frames_captured; return {true, result, nullptr};
    case ext::region::Outcome::Error: return {true, nullptr, nullptr};
    case ext::region::Outcome::OtherWay:
    case ext::region::Outcome::Declined:
      if (std::exchange(state_->captures.left_call, false)) return {};
      if (state_->comparison.has_declined() && begin_declined(*state_)) return {.told = shared_from_this()};
      if (!state_->needs_splicing() && !state_->entries.sites.code()) return {};
      break;
    case ext::region::Outcome::Miss: break;
  }
  if (state_->needs_splicing()) {
    spliced_ = state_->splice();
    if (spliced_ && state_->function_id && (code->co_flags & kGeneratorFlags))
      capture::mark_resumed(spliced_->code(), code, state_->function_id);
  }
  PyCodeObject* replacement = state_->replacement();
  if (!replacement) {
    if (!state_->has_callees()) note_idle(*state_);
    return {false, nullptr, nullptr, state_->function_id, state_->has_callees()};
  }
  if (begin_call(*state_, locals) == region::Side::Bytecode) return {.told = shared_from_this()};
  return {false, nullptr, replacement, state_->function_id, state_->has_callees(), shared_from_this()};
}

}  // namespace

std::shared_ptr<MarkedCode> make_marked_code(PyCodeObject* code, const JitSettings& settings,
                                             std::weak_ptr<CodeState> owner) {
  return std::make_shared<CompiledFrames>(code, settings, std::move(owner));
}

bool is_marked(PyCodeObject* code) {
  const auto at = marked().find(code);
  return at != marked().end() && !at->second.expired();
}

namespace {

std::shared_ptr<MarkedCode> make_interceptor(PyCodeObject* code, PyObject* settings) {
  JitSettings parsed;
  if (!read_settings(settings, parsed)) return nullptr;
  parsed.fullgraph = false;
  std::shared_ptr<MarkedCode> interceptor = make_marked_code(code, parsed, {});
  marked()[code] = interceptor;
  return interceptor;
}

PyObject* mark_code(PyObject*, PyObject* args) {
  PyObject *code, *settings;
  if (!PyArg_ParseTuple(args, "O!O!:mark_code", &PyCode_Type, &code, &PyDict_Type, &settings)) return nullptr;
  auto* c = reinterpret_cast<PyCodeObject*>(code);
  std::shared_ptr<MarkedCode> interceptor = make_interceptor(c, settings);
  if (!interceptor) return nullptr;
  return PyBool_FromLong(capture::mark_code(c, std::move(interceptor)));
}

PyObject* unmark_code(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "unmark_code() takes a code object");
  capture::unmark_code(reinterpret_cast<PyCodeObject*>(code));
  marked().erase(reinterpret_cast<PyCodeObject*>(code));
  Py_RETURN_NONE;
}

PyObject* redirect_calls(PyObject*, PyObject*) {
  capture::redirect_calls();
  Py_RETURN_NONE;
}

PyObject* code_report(PyObject*, PyObject* code) {
  const auto at = marked().find(reinterpret_cast<PyCodeObject*>(code));
  const std::shared_ptr<MarkedCode> interceptor = at == marked().end() ? nullptr : at->second.lock();
  if (!interceptor) Py_RETURN_NONE;
  return report_of(interceptor->state());
}

// Discovery: patterns are matched by the Python side, once for each code object.

PyObject* discover_callback = nullptr;  // owned
thread_local bool discovering = false;  // frames of the callback itself are not asked about

std::shared_ptr<capture::FrameInterceptor> discover(PyFunctionObject* function, PyCodeObject* code) {
  if (discovering || !discover_callback || capture::is_finalizing()) return nullptr;  // then modules are empty
  discovering = true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const module::Untraced untraced;
  Ref<> callback = Ref<>::share(discover_callback);
  Ref<> settings = Ref<>::steal(PyObject_CallFunctionObjArgs(callback.get(), reinterpret_cast<PyObject*>(function),
                                                             reinterpret_cast<PyObject*>(code), nullptr));
  std::shared_ptr<MarkedCode> interceptor;
  if (settings && settings.get() != Py_None) interceptor = make_interceptor(code, settings.get());
  if (PyErr_ExceptionMatches(PyExc_RecursionError)) PyErr_Clear();  // first seen where nothing more can be called
  if (PyErr_Occurred()) PyErr_WriteUnraisable(callback.get());
  PyErr_Restore(type, value, traceback);
  discovering = false;
  return interceptor;
}

PyObject* set_discover(PyObject*, PyObject* callable) {
  PyObject* old = discover_callback;
  discover_callback = callable == Py_None ? nullptr : Py_NewRef(callable);
  capture::set_discover(discover_callback ? discover : nullptr);
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyObject* hook_installed(PyObject*, PyObject*) { return PyBool_FromLong(capture::hook_installed()); }

PyMethodDef methods[] = {
    {"mark_code", mark_code, METH_VARARGS,
     "mark_code(code, settings): frames of this code object are compiled from now on."},
    {"unmark_code", unmark_code, METH_O, "unmark_code(code): takes the mark back."},
    {"redirect_calls", redirect_calls, METH_NOARGS,
     "redirect_calls(): keeps no frame hook for what is marked by now, if the interpreter allows that (3.12 and "
     "later)."},
    {"code_report", code_report, METH_O, "code_report(code): what is compiled for a marked code object, or None."},
    {"set_discover", set_discover, METH_O,
     "set_discover(callable or None): callable(function, code) gives settings to mark an unseen code object with, or "
     "None."},
    {"hook_installed", hook_installed, METH_NOARGS, "Is the frame hook installed?"},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace
}  // namespace framejit::ext::dispatch
