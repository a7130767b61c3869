// The Python code behind functions that are not Python functions themselves.
#pragma once

#include <Python.h>

namespace framejit::ext::arrays {

/// The polyfill of a callable, or of a function that dispatches by __array_function__ (np.roll) the Python function
/// behind; borrowed, or null.
PyObject* numpy_implementation(PyObject* callable);

}  // namespace framejit::ext::arrays
