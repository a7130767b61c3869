// _core.stats(), _core.stats_reset(), _core.trace_start(), _core.trace_stop().
#include "ext/module/stats.h"

#include <Python.h>

#include "capture/py/ref.h"
#include "ext/module/module.h"
#include "runtime/allocator.h"
#include "runtime/trace.h"

namespace framejit::ext::module {
namespace {

using capture::Ref;

bool put(PyObject* dict, const char* name, int64_t value) {
  Ref<> number = Ref<>::steal(PyLong_FromLongLong(value));
  return number && PyDict_SetItemString(dict, name, number.get()) == 0;
}

PyObject* stats_dict(PyObject*, PyObject*) {
  Ref<> dict = Ref<>::steal(PyDict_New());
  if (!dict) return nullptr;
#define FRAMEJIT_STAT_PUT(name) \
  if (!put(dict.get(), #name, stats.name)) return nullptr;
  FRAMEJIT_STATS(FRAMEJIT_STAT_PUT)
#undef FRAMEJIT_STAT_PUT
  if (!put(dict.get(), "peak_buffer_bytes", runtime::allocator_stats().peak_bytes)) return nullptr;
  return dict.release();
}

PyObject* break_counts_dict(PyObject*, PyObject*) {
  Ref<> dict = Ref<>::steal(PyDict_New());
  if (!dict) return nullptr;
  for (const auto& [id, count] : break_counts)
    if (!put(dict.get(), capture::code_of(id).data(), count)) return nullptr;
  return dict.release();
}

PyObject* stats_reset(PyObject*, PyObject*) {
  const int64_t code_bytes = stats.code_bytes;  // a gauge: the code is still there
  stats = Stats{};
  break_counts.clear();
  stats.code_bytes = code_bytes;
  Py_RETURN_NONE;
}

PyObject* trace_start(PyObject*, PyObject*) {
  runtime::trace_start();
  Py_RETURN_NONE;
}

PyObject* trace_stop(PyObject*, PyObject*) {
  const std::string text = runtime::trace_stop();
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyMethodDef methods[] = {{"stats", stats_dict, METH_NOARGS, "The counters since import or stats_reset()."},
                         {"break_counts", break_counts_dict, METH_NOARGS, "Places that broke, by reason."},
                         {"stats_reset", stats_reset, METH_NOARGS, "Sets the counters to zero."},
                         {"trace_start", trace_start, METH_NOARGS, "Notes spans of time from now on."},
                         {"trace_stop", trace_stop, METH_NOARGS, "Stops; the spans as the text of a JSON file."},
                         {nullptr, nullptr, 0, nullptr}};

const ModulePart part(10, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace
}  // namespace framejit::ext::module
