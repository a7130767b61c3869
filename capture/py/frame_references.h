// Slots of frames that hold tagged references: CPython 3.14 and later, with the GIL.
#pragma once

#include <internal/pycore_stackref.h>

namespace framejit::capture::py {

using Slot = _PyStackRef;
inline const Slot kEmptySlot = PyStackRef_NULL;

inline bool is_object(Slot slot) { return !PyStackRef_IsNull(slot) && !PyStackRef_IsTaggedInt(slot); }
/// The object, borrowed, or null.
inline PyObject* peek(Slot slot) { return is_object(slot) ? PyStackRef_AsPyObjectBorrow(slot) : nullptr; }
/// A slot that takes over a reference; of null: an empty one.
inline Slot own(PyObject* object) { return object ? PyStackRef_FromPyObjectSteal(object) : PyStackRef_NULL; }
/// The reference that a slot held, to be dropped later, or null: it may have been borrowed.
inline PyObject* owned(Slot slot) {
  return is_object(slot) && PyStackRef_RefcountOnObject(slot) ? PyStackRef_AsPyObjectBorrow(slot) : nullptr;
}
/// The slot holds a reference of its own from here on.
inline void make_owned(Slot& slot) {
  if (PyObject* object = peek(slot); object && !PyStackRef_RefcountOnObject(slot)) slot = own(Py_NewRef(object));
}

}  // namespace framejit::capture::py
