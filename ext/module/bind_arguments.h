// Binding of call arguments to a function's local slots, as CPython's frame setup does it.
#pragma once

#include "capture/py/ref.h"

namespace framejit::ext::module {

/// Slots that arguments take: positional, keyword-only, *args, **kwargs.
int argument_slots(const PyCodeObject* code);

/// Positional arguments of the exact number, and nothing else: the argument vector is the slots.
inline bool binds_directly(const PyCodeObject* code, Py_ssize_t nargs, PyObject* kwnames) {
  return !kwnames && nargs == code->co_argcount && code->co_kwonlyargcount == 0 &&
         !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
}

/// What a binding made itself.
struct BoundExtras {
  capture::Ref<> varargs, varkeywords;
};

/// Fills `slots` with borrowed references. False where the call raises TypeError (the interpreter then says so in its
/// own words) or memory ran out; no exception is left.
bool bind_arguments(PyFunctionObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                    PyObject** slots, BoundExtras& extras);

}  // namespace framejit::ext::module
