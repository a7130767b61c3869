// _core.config_set(name, value) and _core.config_get(name).
#include "ext/module/config.h"

#include <Python.h>

#include <cstring>

#include "capture/py/ref.h"
#include "ext/module/module.h"
#include "runtime/perf_names.h"
#include "runtime/scheduler.h"

namespace framejit::ext::module {
namespace {

using capture::Ref;

codegen::Cpu& cpu_slot() {
  static codegen::Cpu cpu = codegen::select_cpu("");
  return cpu;
}

enum class Kind { Int, Bool, Text };
struct Field {
  const char* name;
  Kind kind;
  void* at;
  int64_t least;
};

const Field* find(const char* name) {
  static const Field fields[] = {
      {"recompile_limit", Kind::Int, &config().recompile_limit, 0},
      {"num_threads", Kind::Int, &config().num_threads, 0},
      {"cpu", Kind::Text, &config().cpu, 0},
      {"strict", Kind::Bool, &config().strict, 0},
      {"code_bytes_limit", Kind::Int, &config().code_bytes_limit, 0},
      {"cache_dir", Kind::Text, &config().cache_dir, 0},
      {"cache_bytes_limit", Kind::Int, &config().cache_bytes_limit, 0},
      {"instruction_limit", Kind::Int, &config().instruction_limit, 1},
      {"capture_time_limit", Kind::Int, &config().capture_time_limit, 0},
      {"passes", Kind::Text, &config().passes, 0},
      {"perf", Kind::Text, &config().perf, 0},
      {"stress", Kind::Text, &config().stress, 0},
      {"profitability", Kind::Text, &config().profitability, 0},
  };
  for (const Field& field : fields)
    if (std::strcmp(field.name, name) == 0) return &field;
  PyErr_Format(PyExc_KeyError, "framejit has no setting '%s'", name);
  return nullptr;
}

void set_perf(const std::string& where) {
  runtime::set_perf_names(where == "map"       ? runtime::PerfNames::Map
                          : where == "jitdump" ? runtime::PerfNames::Jitdump
                                               : runtime::PerfNames::Off);
}

Profitability profitable_by(const std::string& how) {
  return how == "off" ? Profitability::Off : how == "estimate" ? Profitability::Estimate : Profitability::Measure;
}

bool apply(const Field& field, PyObject* value) {
  switch (field.kind) {
    case Kind::Int: {
      const long long number = PyLong_AsLongLong(value);
      if (number == -1 && PyErr_Occurred()) return false;
      if (number < field.least) {
        PyErr_Format(PyExc_ValueError, "config.%s must be at least %lld, not %lld", field.name,
                     static_cast<long long>(field.least), number);
        return false;
      }
      *static_cast<int64_t*>(field.at) = number;
      if (field.at == &config().num_threads) runtime::set_num_threads(static_cast<int>(number));
      return true;
    }
    case Kind::Bool: {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) return false;
      *static_cast<bool*>(field.at) = truth != 0;
      return true;
    }
    case Kind::Text: {
      const char* text = PyUnicode_AsUTF8(value);
      if (!text) return false;
      *static_cast<std::string*>(field.at) = text;
      if (field.at == &config().cpu) cpu_slot() = codegen::select_cpu(text);
      if (field.at == &config().perf) set_perf(config().perf);
      if (field.at == &config().profitability) config().profitable_by = profitable_by(config().profitability);
      return true;
    }
  }
  return false;
}

PyObject* config_set(PyObject*, PyObject* args) {
  const char* name;
  PyObject* value;
  if (!PyArg_ParseTuple(args, "sO:config_set", &name, &value)) return nullptr;
  const Field* field = find(name);
  if (!field || !apply(*field, value)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* config_get(PyObject*, PyObject* args) {
  const char* name;
  if (!PyArg_ParseTuple(args, "s:config_get", &name)) return nullptr;
  const Field* field = find(name);
  if (!field) return nullptr;
  switch (field->kind) {
    case Kind::Int: return PyLong_FromLongLong(*static_cast<int64_t*>(field->at));
    case Kind::Bool: return PyBool_FromLong(*static_cast<bool*>(field->at));
    case Kind::Text: return PyUnicode_FromString(static_cast<std::string*>(field->at)->c_str());
  }
  return nullptr;
}

PyObject* cpu_features(PyObject*, PyObject*) {
  const codegen::Cpu& cpu = target_cpu();
  const char* isa = cpu.isa == codegen::Isa::Avx512 ? "avx512" : cpu.isa == codegen::Isa::Avx2 ? "avx2" : "none";
  return Py_BuildValue("{s:s,s:N,s:N,s:N,s:N,s:l,s:l,s:l}", "isa", isa, "amx_bf16", PyBool_FromLong(cpu.amx_bf16),
                       "avx512_bf16", PyBool_FromLong(cpu.avx512_bf16), "avx512_fp16", PyBool_FromLong(cpu.avx512_fp16),
                       "vnni", PyBool_FromLong(cpu.vnni), "l1d_bytes", cpu.l1d_bytes, "l2_bytes", cpu.l2_bytes,
                       "l3_bytes", cpu.l3_bytes);
}

PyObject* num_threads(PyObject*, PyObject*) { return PyLong_FromLong(runtime::num_threads()); }

PyMethodDef methods[] = {{"config_set", config_set, METH_VARARGS, "config_set(name, value): changes a setting."},
                         {"config_get", config_get, METH_VARARGS, "config_get(name): the value of a setting."},
                         {"num_threads", num_threads, METH_NOARGS, "How many threads kernels run on."},
                         {"cpu_features", cpu_features, METH_NOARGS, "What code is generated for."},
                         {nullptr, nullptr, 0, nullptr}};

const ModulePart part(10, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

Config& config() {
  static Config instance;
  return instance;
}

extern "C" {
// By these threadpoolctl knows the library.
[[gnu::visibility("default")]] int framejit_get_num_threads() { return runtime::num_threads(); }
[[gnu::visibility("default")]] void framejit_set_num_threads(int n) {
  config().num_threads = n;
  runtime::set_num_threads(n);
}
}

const codegen::Cpu& target_cpu() { return cpu_slot(); }

}  // namespace framejit::ext::module
