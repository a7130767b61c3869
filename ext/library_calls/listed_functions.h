// Functions of libraries that a library call may call: those that only read their arguments and give fresh arrays or
// numbers.
#pragma once

#include <Python.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/py/ref.h"

namespace framejit::ext::library_calls {

struct LibraryCall;

/// Where a function says that it is defined.
struct FunctionName {
  std::string module, name;
};
/// Nullopt if reading them might run code of the program's, or there are none. Functions have them, also NumPy's in C.
std::optional<FunctionName> function_name(PyObject* callable);

/// Is it a listed function: np.sort, np.linalg.inv, scipy.linalg.lapack.dgesv?
bool is_library_function(PyObject* callable);
/// Is it one whose code in Python, or a polyfill, is followed first, because its parts are faster than a call?
bool is_followed(PyObject* callable);
/// Is the call left to the interpreter because it may write to an argument? Functions of BLAS and LAPACK do if a flag
/// allows it. Those that are given the length of a work space are left as well: LAPACK prints that it does not fit the
/// arrays with which the results are found out.
bool is_left_alone(const LibraryCall& call);
/// The exceptions that the listed functions of BLAS and LAPACK raise of themselves, for arguments that do not fit.
bool is_fortran_error(PyObject* type);

/// The operands that a function of LAPACK copies to compute in the copies, each with the name of the flag that lets it
/// compute in the operand itself.
std::vector<std::pair<std::size_t, capture::Ref<>>> flags_of_operands(const LibraryCall& call);
/// And a method of ndarray: x.argsort?
bool is_library_method(std::string_view name);

}  // namespace framejit::ext::library_calls
