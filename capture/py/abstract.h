// Abstract base classes: what isinstance() and issubclass() of them give, found without running code of the program's.
// A check is evaluated at capture if only hooks of the standard library can run. A negative answer is guarded by the
// number of registrations (`GuardKind::Registrations`), which is read in the state of the module `_abc`, once
// get_cache_token() has shown that it is there; where it is not, such a check breaks. Special methods of a class are
// looked up on its metaclass.
#pragma once

#include <optional>

#include "capture/py/ref.h"

namespace framejit::capture {

/// Is `check` ABCMeta's own `__instancecheck__` or `__subclasscheck__`?
bool is_abstract_check(PyObject* check, const char* name);

/// Is `type` a subclass of `cls`, whose metaclass checks as ABCMeta does? Nothing where somebody's own
/// `__subclasshook__` or `__subclasscheck__` might have to be asked.
std::optional<bool> is_abstract_subclass(PyTypeObject* type, PyObject* cls);

/// How often any class was registered with an abstract one. True holds for good, as ABCMeta remembers it; False as long
/// as this stays. Null where this Python does not keep the number where it is looked for.
const unsigned long long* abstract_registrations();

}  // namespace framejit::capture
