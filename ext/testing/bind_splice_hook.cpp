// Test bindings of the frame hook, and the stress mode that splices all code: framejit._core._hook_*.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <map>
#include <string>
#include <vector>

#include "capture/hook.h"
#include "capture/splice.h"
#include "ext/module/module.h"
#include "ext/testing/splice_mock.h"

namespace framejit::ext::testing {

namespace {

using namespace capture;

/// enter(function, code, locals) gives None, ("result", value), ("raise", exception) or a code object.
class PythonInterceptor final : public FrameInterceptor {
 public:
  explicit PythonInterceptor(PyObject* callable) : callable_(Ref<>::share(callable)) {}

  Outcome enter(PyFunctionObject* function, PyCodeObject* code, py::Slots locals, int local_count) override {
    if (busy_) return {};
    busy_ = true;
    Ref<> values = Ref<>::steal(PyList_New(0));
    for (int i = 0; values && i < local_count; ++i) PyList_Append(values.get(), locals[i] ? locals[i] : Py_None);
    Ref<> answer = Ref<>::steal(PyObject_CallFunction(callable_.get(), "OOO", function, code, values.get()));
    busy_ = false;
    if (!answer) return {true, nullptr, nullptr};
    if (PyCode_Check(answer.get())) {
      replacement_ = answer;
      return {false, nullptr, reinterpret_cast<PyCodeObject*>(answer.get())};
    }
    const char* what;
    PyObject* value;
    if (answer.get() == Py_None || !PyArg_ParseTuple(answer.get(), "sO", &what, &value)) {
      PyErr_Clear();
      return {};
    }
    if (std::string(what) == "result") return {true, Ref<>::share(value).release(), nullptr};
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
    return {true, nullptr, nullptr};
  }

 private:
  Ref<> callable_;
  Ref<> replacement_;
  bool busy_ = false;
};

/// Runs frames of one code object as its spliced form.
class SplicingInterceptor final : public FrameInterceptor {
 public:
  explicit SplicingInterceptor(std::unique_ptr<SplicedCode> spliced) : spliced_(std::move(spliced)) {}
  Outcome enter(PyFunctionObject*, PyCodeObject*, py::Slots, int) override {
    return {false, nullptr, spliced_->code()};
  }

 private:
  std::unique_ptr<SplicedCode> spliced_;
};

struct Stress {
  std::vector<std::string> excluded;  // parts of file names
  unsigned share = 0;
  uint64_t seed = 1;
  MockCounters counters;
  uint64_t codes = 0;
  std::map<std::string, uint64_t> declined;  // reason: how often
};
Stress* stress = nullptr;

bool is_excluded(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) {
    PyErr_Clear();
    return true;
  }
  for (const std::string& part : stress->excluded)
    if (std::string_view(file).find(part) != std::string_view::npos) return true;
  return false;
}

std::unique_ptr<SplicedCode> splice_stressed(PyCodeObject* code) {
  auto view = CodeView::decode(code, CodeView::Keep::Contents);
  SpliceOptions options;
  options.all_boundaries = true;
  auto handler = make_mock_handler(view, stress->seed * 7919 + stress->codes, stress->share, &stress->counters);
  auto made = SplicedCode::make(std::move(view), std::move(handler), options);
  if (!made) {
    ++stress->declined[made.error()];
    return nullptr;
  }
  ++stress->codes;
  return std::move(*made);
}

std::shared_ptr<FrameInterceptor> splice_everything(PyFunctionObject*, PyCodeObject* code) {
  if (is_excluded(code)) return nullptr;
  auto spliced = splice_stressed(code);
  return spliced ? std::make_shared<SplicingInterceptor>(std::move(spliced)) : nullptr;
}

void configure_stress(unsigned share, uint64_t seed) {
  if (!stress) stress = new Stress;  // frames that run spliced code use it until the process ends
  stress->share = share;
  stress->seed = seed;
}

/// _splice_stressed(code, share, seed): its spliced form, or the code itself where it cannot be spliced. Lives for
/// ever.
PyObject* stressed_code(PyObject*, PyObject* args) {
  PyObject* code;
  unsigned share;
  unsigned long long seed;
  if (!PyArg_ParseTuple(args, "O!IK", &PyCode_Type, &code, &share, &seed)) return nullptr;
  configure_stress(share, seed);
  auto spliced = splice_stressed(reinterpret_cast<PyCodeObject*>(code));
  if (!spliced) return Ref<>::share(code).release();
  return Ref<>::share(reinterpret_cast<PyObject*>(spliced.release()->code())).release();
}

/// _hook_splice_all(share, seed, excluded): from now on every frame that begins runs spliced at every boundary; `share`
/// of 256 sites run a random stretch. share=None: off.
PyObject* splice_all(PyObject*, PyObject* args) {
  PyObject* share;
  unsigned long long seed = 1;
  PyObject* excluded = nullptr;
  if (!PyArg_ParseTuple(args, "O|KO!", &share, &seed, &PyTuple_Type, &excluded)) return nullptr;
  if (share == Py_None) {
    set_discover(nullptr);
    Py_RETURN_NONE;
  }
  configure_stress(static_cast<unsigned>(PyLong_AsUnsignedLong(share)), seed);
  stress->excluded.clear();
  for (Py_ssize_t i = 0; excluded && i < PyTuple_GET_SIZE(excluded); ++i)
    if (const char* part = PyUnicode_AsUTF8(PyTuple_GET_ITEM(excluded, i))) stress->excluded.emplace_back(part);
  if (PyErr_Occurred()) return nullptr;
  set_discover(splice_everything);
  Py_RETURN_NONE;
}

PyObject* splice_all_counters(PyObject*, PyObject*) {
  const Stress none;
  const Stress& s = stress ? *stress : none;
  Ref<> declined = Ref<>::steal(PyDict_New());
  for (const auto& [reason, count] : s.declined) {
    Ref<> number = Ref<>::steal(PyLong_FromUnsignedLongLong(count));
    if (!declined || !number || PyDict_SetItemString(declined.get(), reason.c_str(), number.get()) < 0) return nullptr;
  }
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:O}", "codes", s.codes, "asked", s.counters.asked, "exits",
                       s.counters.exits, "instructions", s.counters.instructions, "moves", s.counters.moves, "errors",
                       splice_internal_errors(), "declined", declined.get());
}

PyObject* mark(PyObject*, PyObject* args) {
  PyObject *code, *callable;
  if (!PyArg_ParseTuple(args, "O!O", &PyCode_Type, &code, &callable)) return nullptr;
  return PyBool_FromLong(
      mark_code(reinterpret_cast<PyCodeObject*>(code), std::make_shared<PythonInterceptor>(callable)));
}

PyObject* unmark(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object is needed");
  unmark_code(reinterpret_cast<PyCodeObject*>(code));
  Py_RETURN_NONE;
}

PyObject* installed(PyObject*, PyObject*) { return PyBool_FromLong(hook_installed()); }

PyObject* discoverer = nullptr;

std::shared_ptr<FrameInterceptor> discover_by_callable(PyFunctionObject* function, PyCodeObject* code) {
  Ref<> callable = Ref<>::share(discoverer);
  if (!callable) return nullptr;
  Ref<> found = Ref<>::steal(PyObject_CallFunction(callable.get(), "OO", function, code));
  if (!found || found.get() == Py_None) return nullptr;
  return std::make_shared<PythonInterceptor>(found.get());
}

/// _hook_discover(callable or None): callable(function, code) gives None or what _hook_mark takes.
PyObject* discover(PyObject*, PyObject* callable) {
  const bool off = callable == Py_None;
  Ref<> old = Ref<>::steal(discoverer);
  discoverer = off ? nullptr : Ref<>::share(callable).release();
  set_discover(off ? nullptr : discover_by_callable);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"_hook_mark", mark, METH_VARARGS, "Marks a code object."},
    {"_hook_unmark", unmark, METH_O, "Takes the mark off."},
    {"_hook_installed", installed, METH_NOARGS, "Is the hook in the interpreter's slot?"},
    {"_hook_discover", discover, METH_O, "Sets what is asked about unmarked code."},
    {"_splice_stressed", stressed_code, METH_VARARGS, "Code spliced at every boundary, with the mock."},
    {"_hook_splice_all", splice_all, METH_VARARGS, "Splices everything that begins to run."},
    {"_hook_splice_all_counters", splice_all_counters, METH_NOARGS, "What was spliced, asked and left."},
    {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

module::ModulePart part(91, init);

}  // namespace
}  // namespace framejit::ext::testing
