// Code objects through the C API that CPython calls unstable: 3.12 and later.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstring>

#include "capture/py/ref.h"

namespace framejit::capture::py {

inline void reserve_stack(PyCodeObject* code, int words) {
  code->co_stacksize += words;
  code->co_framesize += words;
}

/// Sets one unit of the live code.
inline void set_unit(PyCodeObject* code, uint32_t unit, int opcode, uint8_t argument) {
  _Py_CODEUNIT word = _PyCode_CODE(code)[unit];
  word.op.code = static_cast<uint8_t>(opcode);
  word.op.arg = argument;
  _PyCode_CODE(code)[unit] = word;
}
inline void set_argument(PyCodeObject* code, uint32_t unit, uint8_t argument) {
  _PyCode_CODE(code)[unit].op.arg = argument;
}

/// Jumps that were changed are read in the live code.
inline void copy_jump(PyCodeObject*, uint32_t) {}

/// Has the interpreter put its own instructions into the code? It does so when the code is made.
inline bool is_prepared(PyCodeObject*) { return true; }
inline void prepare_soon(PyCodeObject*) {}

inline Py_ssize_t request_extra_index(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
inline bool set_extra(PyCodeObject* code, Py_ssize_t index, void* value) {
  return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), index, value) == 0;
}

/// A code object with the layout, names and flags of `code`, without the audit event of code.replace().
inline PyCodeObject* code_like(PyCodeObject* code, PyObject* bytecode, PyObject* linetable, PyObject* exceptiontable,
                               PyObject* consts, int stacksize, int flags, PyObject* names) {
  const auto locals = Ref<>::steal(PyCode_GetVarnames(code));
  const auto free = Ref<>::steal(PyCode_GetFreevars(code));
  const auto cells = Ref<>::steal(PyCode_GetCellvars(code));
  if (!locals || !free || !cells) return nullptr;
  PyCodeObject* made = PyUnstable_Code_NewWithPosOnlyArgs(
      code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount, code->co_nlocals, stacksize, flags,
      bytecode, consts, names, locals.get(), free.get(), cells.get(), code->co_filename, code->co_name,
      code->co_qualname, code->co_firstlineno, linetable, exceptiontable);
  if (!made) return nullptr;
  if (made->co_nlocalsplus != code->co_nlocalsplus) {
    Py_DECREF(made);
    PyErr_SetString(PyExc_SystemError, "locals of another layout");
    return nullptr;
  }
  // The call knows neither hidden locals (3.12) nor the kinds of arguments (3.14).
  Py_INCREF(code->co_localspluskinds);
  Py_SETREF(made->co_localspluskinds, code->co_localspluskinds);
  Py_INCREF(code->co_localsplusnames);
  Py_SETREF(made->co_localsplusnames, code->co_localsplusnames);
  return made;
}

/// Tools that must see what the thread executes, or this code: sys.settrace, setprofile, sys.monitoring. A tool that
/// uses sys.monitoring may ask for the events of any code alone, also of what is called and compiled into its caller:
/// one that has an id counts.
template <class MonitoringData>
inline bool any_tool_active_in(PyThreadState* tstate, PyCodeObject* code) {
  if (tstate->c_tracefunc || tstate->c_profilefunc) return true;
  const PyInterpreterState* interp = tstate->interp;
  static constexpr unsigned char kNone[sizeof(interp->monitoring_tool_names)] = {};
  static_assert(sizeof(kNone) >= sizeof(interp->monitors.tools));
  if (std::memcmp(interp->monitors.tools, kNone, sizeof(interp->monitors.tools)) != 0 ||
      std::memcmp(interp->monitoring_tool_names, kNone, sizeof(kNone)) != 0)
    return true;
  if (!code || !code->_co_monitoring) return false;
  const auto* data = reinterpret_cast<const MonitoringData*>(code->_co_monitoring);
  return std::memcmp(data->local_monitors.tools, kNone, sizeof(data->local_monitors.tools)) != 0 ||
         std::memcmp(data->active_monitors.tools, kNone, sizeof(data->active_monitors.tools)) != 0;
}

}  // namespace framejit::capture::py
