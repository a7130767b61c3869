// What a Function tells about itself.
#pragma once

#include <Python.h>

namespace framejit::ext::dispatch {

class CodeState;

// Methods of Function.
PyObject* function_cache_entries(PyObject* self, PyObject*);
PyObject* function_cache_clear(PyObject* self, PyObject*);
PyObject* function_graphs(PyObject* self, PyObject*);
PyObject* function_asm(PyObject* self, PyObject*);
PyObject* function_report(PyObject* self, PyObject*);
PyObject* function_time_kernels(PyObject* self, PyObject* args);

/// What function_report() gives, for any state.
PyObject* report_of(CodeState& state);

}  // namespace framejit::ext::dispatch
