// The NumPy C API, imported once for the whole extension module, and NumPy's types in the graph's terms.
//
// Every file of ext that calls NumPy includes this header and nothing else of NumPy's.
#pragma once

#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL framejit_array_api
#define PY_UFUNC_UNIQUE_SYMBOL framejit_ufunc_api
#ifndef FRAMEJIT_IMPORT_NUMPY
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/ufuncobject.h>

#include <optional>

#include "capture/py/ref.h"
#include "graph/graph.h"

namespace framejit::ext::arrays {

/// Imports NumPy and its C API; false with an exception set. Safe to call again.
bool import_numpy();

struct NumpyVersion {
  int major = 0, minor = 0;
  friend auto operator<=>(const NumpyVersion&, const NumpyVersion&) = default;
};
NumpyVersion numpy_version();

/// numpy, and the module that holds the ufuncs (numpy._core.umath or numpy.core.umath). Null if there is none.
PyObject* numpy_module();
PyObject* umath_module();
/// np._NoValue, which NumPy's own functions hand on for what they were not given.
PyObject* no_value();

/// The element type, for the dtypes that framejit compiles: bool, the integers, float32 and float64; native byte order,
/// no metadata, and not the C types that share a size with another one (long long).
std::optional<graph::DType> dtype_of(PyArray_Descr* descr);
std::optional<graph::DType> dtype_of_type_num(int type_num);
int type_num_of(graph::DType dtype);
/// NumPy's one descriptor of the dtype. Borrowed from NumPy for ever.
PyArray_Descr* descr_of(graph::DType dtype);
/// A scalar of NumPy, of a value in memory. Null: an exception is set.
PyObject* make_scalar(graph::DType dtype, const void* value);
PyTypeObject* scalar_type_of(graph::DType dtype);

/// An exact NumPy scalar of a dtype that framejit compiles.
std::optional<graph::DType> scalar_dtype_of(PyObject* object);

/// The bits of `object` as an element of `dtype`, as an assignment to an array makes them. Nothing, with no exception
/// set, where NumPy raises, warns, or changes a finite number into an infinity, zero or subnormal one.
std::optional<graph::Scalar> pack(PyObject* object, graph::DType dtype);

}  // namespace framejit::ext::arrays
