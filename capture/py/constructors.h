// Classes whose __init__ has a mark, where the interpreter would enter it without asking the hook.
#pragma once

#include "capture/py/ref.h"

namespace framejit::capture {

/// Calls of the class go through C from now on, so that the frame of its __init__ comes to the hook.
void enter_through_hook(PyTypeObject* type);
/// The same for all classes there are whose __init__ is a function of this code.
void enter_through_hook(PyCodeObject* init);

}  // namespace framejit::capture
