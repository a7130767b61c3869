#include "ext/dispatch/settings.h"

#include <algorithm>

#include "ext/module/config.h"

namespace framejit::ext::dispatch {

bool read_settings(PyObject* dict, JitSettings& out) {
  if (!PyDict_Check(dict)) {
    PyErr_Format(PyExc_TypeError, "settings must be a dict, not %.100s", Py_TYPE(dict)->tp_name);
    return false;
  }
  auto truth = [&](const char* key, bool& flag) {
    PyObject* value = PyDict_GetItemString(dict, key);
    if (!value) return true;
    const int is_true = PyObject_IsTrue(value);
    flag = is_true > 0;
    return is_true >= 0;
  };
  if (!truth("fullgraph", out.fullgraph) || !truth("dynamic", out.dynamic) ||
      !truth("ignore_fp_flags", out.ignore_fp_flags))
    return false;
  PyObject* level = PyDict_GetItemString(dict, "jit_level");
  out.o1 = level && PyUnicode_Check(level) && PyUnicode_CompareWithASCIIString(level, "O0") != 0;
  out.o2 = level && PyUnicode_Check(level) && PyUnicode_CompareWithASCIIString(level, "O2") == 0;
  PyObject* mode = PyDict_GetItemString(dict, "capture_mode");
  out.ast = mode && PyUnicode_CompareWithASCIIString(mode, "ast") == 0;
  out.trace = mode && PyUnicode_CompareWithASCIIString(mode, "trace") == 0;
  PyObject* order = PyDict_GetItemString(dict, "exec_order");
  if (order && PyUnicode_CompareWithASCIIString(order, "bfs") == 0) out.order = graph::ExecOrder::Breadth;
  if (order && PyUnicode_CompareWithASCIIString(order, "dfs") == 0) out.order = graph::ExecOrder::Depth;
  out.plan.beside = out.order == graph::ExecOrder::Breadth;
  PyObject* threads = PyDict_GetItemString(dict, "num_threads");
  PyObject* memory = PyDict_GetItemString(dict, "memory_limit");
  PyObject* resident = PyDict_GetItemString(dict, "resident");
  if (resident) out.plan.resident = PyLong_AsLongLong(resident);
  if (threads) out.plan.threads = static_cast<int>(std::min(PyLong_AsLongLong(threads), 1LL << 20));
  if (memory) out.plan.memory_limit = PyLong_AsLongLong(memory);
  if (PyErr_Occurred() || !truth("constant_parameters", out.constant_parameters) ||
      !truth("keep_layouts", out.keep_layouts) || !truth("cache", out.cached))
    return false;
  PyObject* stress = PyDict_GetItemString(dict, "stress");
  const char* modes = stress ? PyUnicode_AsUTF8(stress) : "";
  if (!modes) return false;
  out.stress = module::read_stress(modes) | module::read_stress(module::config().stress);
  if (out.ignore_fp_flags) out.stress.verify = false;  // a tape and a graph have other values in between
  return true;
}

}  // namespace framejit::ext::dispatch
