// Iterators over ranges, made and moved by their fields: making a range object first takes several times as long.
// Its own method reads these fields, each as a C long, and nothing else: a new one, which nobody else has seen yet, may
// get any numbers with `length` >= 0 and `start + length * step` within 64 bits, but for the last step.
#pragma once

#include <cstdint>

#include "capture/py/layouts.h"
#include "capture/py/ref.h"

namespace framejit::capture::py {

/// A field of 64 bits of an object.
inline int64_t& field(PyObject* object, int offset) {
  return *reinterpret_cast<int64_t*>(reinterpret_cast<char*>(object) + offset);
}

/// Sets the position of an iterator over a range, which whoever holds it sees.
inline void advance(PyObject* iterator, int64_t next, int64_t left) {
  if constexpr (kRangeIndex >= 0) {
    field(iterator, kRangeIndex) = field(iterator, kRangeLength) - left;
  } else {
    field(iterator, kRangeStart) = next;
    field(iterator, kRangeLength) = left;
  }
}

/// An iterator of CPython's over `length` numbers from `start` on. Null, with an exception set: there is no memory.
inline Ref<> range_iterator(int64_t start, int64_t length, int64_t step) {
  static PyObject* const empty = PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "i", 0);
  Ref<> made = empty ? Ref<>::steal(PyObject_GetIter(empty)) : Ref<>();
  if (!made) return made;
  field(made.get(), kRangeStart) = start;
  field(made.get(), kRangeStep) = step;
  field(made.get(), kRangeLength) = length;
  return made;
}

}  // namespace framejit::capture::py
