// Functions whose errors are explained: _core.Explained(function, explain, module, qualname) calls the function. If
// that raises an Exception, explain(function, error, args, kwargs) returns the exception to raise instead, or None. The
// object is found under the qualified name in the module.
#pragma once

#include "capture/py/ref.h"

namespace framejit::ext::module {

/// The Python function behind an Explained, borrowed, or null.
PyObject* explained_function(PyObject* callable);

}  // namespace framejit::ext::module
