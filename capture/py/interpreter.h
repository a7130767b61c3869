// What the interpreter is asked for under names that differ between its versions.
#pragma once

#include "capture/py/ref.h"

// Exported by every supported CPython, declared in a public header by none of the later ones.
extern "C" PyAPI_FUNC(int) _PySet_NextEntry(PyObject* set, Py_ssize_t* at, PyObject** element, Py_hash_t* hash);
extern "C" PyAPI_FUNC(int) _PySet_Update(PyObject* set, PyObject* iterable);

namespace framejit::capture {

bool is_finalizing();
Py_hash_t hash_pointer(const void* pointer);
/// Does what a weak reference refers to still live?
bool is_alive(PyObject* weakref);
/// Does it stand for a module, or a name of one, that is imported when it is first read (PEP 810, 3.15)?
bool is_lazy_import(PyObject* object);
/// Sets the function that makes the annotations of a function (3.14).
void set_annotate(PyObject* function, PyObject* annotate);
/// Is the one reference to this argument of a C function that of the caller's stack, which drops it? A reference count
/// does not say so from 3.14 on.
bool is_sole_argument(PyObject* argument);
/// Lets the interpreter put its own instructions into the code at its next run, not after some runs (3.11).
void prepare_soon(PyCodeObject* code);

}  // namespace framejit::capture
