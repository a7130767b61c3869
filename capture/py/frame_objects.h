// Slots of frames that hold objects as they are: CPython 3.11 to 3.13.
#pragma once

#include <Python.h>

namespace framejit::capture::py {

using Slot = PyObject*;
inline constexpr Slot kEmptySlot = nullptr;

/// The object, borrowed, or null.
inline PyObject* peek(Slot slot) { return slot; }
/// A slot that takes over a reference; of null: an empty one.
inline Slot own(PyObject* object) { return object; }
/// The reference that a slot held, to be dropped later, or null.
inline PyObject* owned(Slot slot) { return slot; }
/// The slot holds a reference of its own from here on.
inline void make_owned(Slot&) {}

}  // namespace framejit::capture::py
