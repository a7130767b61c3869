// How functions are called: CPython 3.11 enters all of them without a C call, whatever their vectorcall is.
#pragma once

#include "capture/py/plain_vectorcall.h"

namespace framejit::capture::py {

enum class FunctionEvent : uint8_t { Found, Made, Changed, Gone };
using FunctionWatcher = void (*)(FunctionEvent event, PyFunctionObject* function, PyObject* code);

inline constexpr bool kPropertiesSkipVectorcall = true;
inline bool watch_functions(FunctionWatcher) { return false; }
inline void visit_functions(FunctionWatcher, void (*)(PyFunctionObject* getter)) {}
inline void set_vectorcall(PyFunctionObject*, vectorcallfunc) {}

}  // namespace framejit::capture::py
