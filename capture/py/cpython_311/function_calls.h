// How functions are called: CPython 3.11 enters all of them without a C call, whatever their vectorcall is.
#pragma once

#include "capture/py/plain_vectorcall.h"

namespace framejit::capture::py {

using FunctionGetsCode = void (*)(PyFunctionObject* function, PyObject* code);

inline bool watch_functions(FunctionGetsCode) { return false; }
inline void visit_functions(FunctionGetsCode) {}
inline void set_vectorcall(PyFunctionObject*, vectorcallfunc) {}

}  // namespace framejit::capture::py
