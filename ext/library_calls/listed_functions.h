// Functions of libraries that a library call may call: those that only read their arguments and give fresh arrays or
// numbers.
#pragma once

#include <Python.h>

#include <string_view>

namespace framejit::ext::library_calls {

struct LibraryCall;

/// Is it a listed function: np.sort, np.linalg.inv, scipy.linalg.lapack.dgesv?
bool is_library_function(PyObject* callable);
/// Would the call write to an argument? Functions of BLAS and LAPACK do if a flag allows it.
bool writes_to_argument(const LibraryCall& call);
/// The exceptions that the listed functions of BLAS and LAPACK raise of themselves, for arguments that do not fit.
bool is_fortran_error(PyObject* type);
/// And a method of ndarray: x.argsort?
bool is_library_method(std::string_view name);

}  // namespace framejit::ext::library_calls
