#include "ext/dispatch/diagnostics.h"

#include <algorithm>
#include <iterator>

#include "capture/python_names.h"
#include "ext/module/config.h"
#include "ext/module/events.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"

extern "C" void _PyTraceback_Add(const char*, const char*, int);  // of CPython; an internal header has it from 3.13 on

namespace framejit::ext::dispatch {

using capture::Ref;

namespace {

// Classes of the Python package; owned, set once at its import.
PyObject* graph_break_error = nullptr;
PyObject* performance_warning = nullptr;
PyObject* recompile_limit_warning = nullptr;

PyObject* set_exceptions(PyObject*, PyObject* args) {
  PyObject *break_error, *performance = nullptr, *limit = nullptr;
  if (!PyArg_ParseTuple(args, "O|OO:set_exceptions", &break_error, &performance, &limit)) return nullptr;
  Py_XSETREF(graph_break_error, Py_NewRef(break_error));
  Py_XSETREF(performance_warning, Py_XNewRef(performance));
  Py_XSETREF(recompile_limit_warning, Py_XNewRef(limit));
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"set_exceptions", set_exceptions, METH_VARARGS,
                          "set_exceptions(GraphBreakError, PerformanceWarning, RecompileLimitWarning): classes that "
                          "framejit raises and warns with."},
                         {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

/// The text of a break as logs show it, or a plain form of it where the Python package is not there.
std::string break_text(const capture::Break& b, PyObject* record) {
  Ref<> format = Ref<>::steal(PyImport_ImportModule(python_names::kFormat));
  Ref<> text = format ? Ref<>::steal(PyObject_CallMethod(format.get(), "break_text", "O", record)) : Ref<>();
  const char* utf8 = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8) return utf8;
  PyErr_Clear();
  std::string plain = b.file + ":" + std::to_string(b.line) + " " + b.function +
                      "(): " + std::string(capture::code_of(b.id)) + " " + std::string(capture::info(b.id).what);
  if (!b.detail.empty()) plain += ": " + b.detail;
  return plain;
}

}  // namespace

bool is_library_file(std::string_view file) {
  constexpr std::string_view kFolders[] = {"/site-packages/", "/dist-packages/", "/lib/python3."};
  return std::any_of(std::begin(kFolders), std::end(kFolders),
                     [file](std::string_view folder) { return file.find(folder) != std::string_view::npos; });
}

bool internal_error(const char* where, const char* what) noexcept {
  ++module::stats.internal_errors;
  if (PyErr_Occurred()) PyErr_Clear();
  if (!where) where = "?";
  if (module::events_on(module::Channel::Perf)) try {
      emit(module::Channel::Perf, std::move(module::Record()
                                                .put("function", std::string(where))
                                                .put("what", std::string("internal error"))
                                                .put("text", std::string(what))));
    } catch (const std::exception&) {  // no memory to tell it
    }
  if (!module::config().strict) return false;
  PyErr_Format(PyExc_RuntimeError, "framejit: internal error in %s(): %s", where, what);
  return true;
}

void raise_graph_break(const capture::Break& b) {
  module::Record record = module::break_record(b);
  const std::string text = break_text(b, record.get());
  Ref<> type = graph_break_error ? Ref<>::steal(PyObject_CallMethod(graph_break_error, "_of", "O", record.get()))
                                 : Ref<>::share(PyExc_RuntimeError);
  if (!type) return;
  Ref<> message = Ref<>::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  Ref<> error = message ? Ref<>::steal(PyObject_CallOneArg(type.get(), message.get())) : Ref<>();
  if (!error) return;
  if (PyObject_SetAttrString(error.get(), "record", record.get()) < 0) PyErr_Clear();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  _PyTraceback_Add(b.function.c_str(), b.file.c_str(), b.line);  // the user's line
}

namespace {

/// At the line that runs.
void warn(PyObject* category, const Ref<>& message) {
  auto* frame = reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get()));
  Ref<> held = Ref<>::steal(frame);
  Ref<> code = Ref<>::steal(frame ? PyObject_GetAttrString(frame, "f_code") : nullptr);
  Ref<> file = Ref<>::steal(code ? PyObject_GetAttrString(code.get(), "co_filename") : nullptr);
  const int line = frame ? PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame)) : 1;
  if (!file) file = Ref<>::steal(PyUnicode_FromString("framejit"));
  // Without a registry, which would be a new name among the user's globals. A filter that turns the warning into an
  // error has no say: the call must give what plain Python gives.
  if (category && message && file)
    PyErr_WarnExplicitObject(category, message.get(), file.get(), line, nullptr, nullptr);
  PyErr_Clear();
}

}  // namespace

void warn_performance(const std::string& text) {
  warn(performance_warning,
       Ref<>::steal(PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
}

void warn_recompile_limit(const std::string& function, const guards::GuardFailure& failure, int made) {
  if (!recompile_limit_warning) return;
  Ref<> message = Ref<>::steal(PyUnicode_FromFormat(
      "%s() was compiled %d times, for values that keep changing (config.recompile_limit); the interpreter runs calls "
      "that "
      "fit none of them. The last guard that failed: %s (was %s, is %s)",
      function.c_str(), made, failure.guard.c_str(), failure.expected.c_str(), failure.found.c_str()));
  warn(recompile_limit_warning, message);
}

}  // namespace framejit::ext::dispatch
