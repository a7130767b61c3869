// Classes whose __init__ has a mark, where the interpreter would enter it without asking the hook: from 3.13 on,
// CALL_ALLOC_AND_ENTER_INIT begins that frame itself, as no other specialised call does (kConstructorsSkipHook).
// CPython specialises calls of a class only if its `tp_alloc` is PyType_GenericAlloc, so such classes get another
// function that does the same, and keep it.
#pragma once

#include "capture/py/ref.h"

namespace framejit::capture {

/// Calls of the class go through C from now on, so that the frame of its __init__ comes to the hook.
void enter_through_hook(PyTypeObject* type);
/// The same for all classes there are whose __init__ is a function of this code.
void enter_through_hook(PyCodeObject* init);

}  // namespace framejit::capture
