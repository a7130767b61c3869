// Where the fields of builtin objects lie, in bytes: what machine code reads. The same in all versions; what differs is
// in facts.h of the version's folder.
#pragma once

#include <Python.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "capture/py/cpython/facts.h"

namespace framejit::capture::py {

inline constexpr int kTypeField = offsetof(PyObject, ob_type);
inline constexpr int kRefcountField = 0;
inline constexpr std::size_t kRefcountSize = sizeof(static_cast<PyObject*>(nullptr)->ob_refcnt);
inline constexpr int kFloatValue = offsetof(PyFloatObject, ob_fval);
inline constexpr int kListSize = offsetof(PyVarObject, ob_size);
inline constexpr int kListItems = offsetof(PyListObject, ob_item);
inline constexpr int kTupleItems = offsetof(PyTupleObject, ob_item);
/// The value of a NumPy scalar of 64 bits.
inline constexpr int kScalarValue = sizeof(PyObject);
/// Of an int: its tag or its count of digits, and its first digit.
inline constexpr int kIntTag = sizeof(PyObject), kIntDigit = sizeof(PyObject) + sizeof(Py_ssize_t);
inline constexpr int kIntSignBits = 3;  // of a tag
/// There may be one object for all ints of a value up to this one: in 3.15; fewer before.
inline constexpr int64_t kMostSharedInt = 1024;
/// Gives an int of which there is one reference another value; false if it has no room for that, or if there is one
/// object for all ints of this value.
inline bool set_int(PyObject* object, int64_t value) {
  constexpr int kNegative = 2;
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (magnitude <= static_cast<uint64_t>(kMostSharedInt)) return false;
  auto* const tag = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(object) + kIntTag);
  auto* const digits = reinterpret_cast<digit*>(reinterpret_cast<char*>(object) + kIntDigit);
  const int64_t room = kIntsHaveTags ? *tag >> kIntSignBits : std::abs(*tag);
  const int64_t count = (std::bit_width(magnitude) + PyLong_SHIFT - 1) / PyLong_SHIFT;
  if (count > room) return false;
  if (kIntsHaveTags) *tag = count << kIntSignBits | (value < 0 ? kNegative : 0);
  else *tag = value < 0 ? -count : count;
  for (int64_t i = 0; i < count; ++i) digits[i] = static_cast<digit>(magnitude >> (PyLong_SHIFT * i) & PyLong_MASK);
  return true;
}

/// Of an iterator over a list, a tuple, or what has __getitem__: the next index, and what it goes over.
inline constexpr int kIteratorIndex = sizeof(PyObject), kIteratorSequence = sizeof(PyObject) + sizeof(Py_ssize_t);

/// What such an iterator goes over, borrowed; null: it is at its end, or none.
inline PyObject* sequence_of(PyObject* iterator) {
  if (!Py_IS_TYPE(iterator, &PyListIter_Type) && !Py_IS_TYPE(iterator, &PySeqIter_Type)) return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(iterator) + kIteratorSequence);
}

/// Of an enumerate object: its next number is where an iterator has its next index; an int of any size, or null.
inline constexpr int kEnumerateLong = kIteratorSequence + 2 * sizeof(PyObject*);

/// What an iterator takes its items from, borrowed: a sequence, the iterator that enumerate() counts, the iterators of
/// zip().
inline PyObject* taken_from(PyObject* iterator) {
  if (PyObject* sequence = sequence_of(iterator)) return sequence;
  if (!Py_IS_TYPE(iterator, &PyEnum_Type) && !Py_IS_TYPE(iterator, &PyZip_Type)) return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(iterator) + kIteratorSequence);
}

}  // namespace framejit::capture::py
