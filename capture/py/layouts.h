// Where the fields of builtin objects lie, in bytes: what machine code reads. The same in all versions; what differs is
// in facts.h of the version's folder.
#pragma once

#include <Python.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

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

/// The value of an int of at most one digit; false: it is larger.
inline bool take_small_int(PyObject* object, int64_t& value) {
  const char* const at = reinterpret_cast<const char*>(object);
  int64_t tag;
  digit magnitude;
  std::memcpy(&tag, at + kIntTag, sizeof tag);
  std::memcpy(&magnitude, at + kIntDigit, sizeof magnitude);
  const bool is_small = kIntsHaveTags ? tag < (int64_t{2} << kIntSignBits) : tag >= -1 && tag <= 1;
  value = (kIntsHaveTags ? 1 - (tag & 3) : tag) * static_cast<int64_t>(magnitude);
  return is_small;
}

/// How many bytes a character of an exact str has, 0 if all are ASCII; -1: it is no such object, or not in one piece.
inline int width_of(PyObject* o) {
  if (!PyUnicode_CheckExact(o) || !PyUnicode_IS_COMPACT(o)) return -1;
  return PyUnicode_IS_ASCII(o) ? 0 : static_cast<int>(PyUnicode_KIND(o));
}
/// Where the characters of such a str begin, and the number of them.
constexpr int characters_at(int width) { return width == 0 ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject); }
inline constexpr int kTextLength = offsetof(PyASCIIObject, length);

/// The word with the bits that say how a str is stored, and what those of a str of ASCII characters in one piece are:
/// a mask, and their values.
inline constexpr int kTextState = offsetof(PyASCIIObject, state);
inline std::pair<uint32_t, uint32_t> state_of_ascii() {
  static const std::pair<uint32_t, uint32_t> found = [] {
    const auto word = [](auto&& set) {
      PyASCIIObject o{};
      set(o.state);
      uint32_t bits;
      std::memcpy(&bits, &o.state, sizeof bits);
      return bits;
    };
    const uint32_t ascii = word([](auto& state) { state.ascii = 1; });
    const uint32_t compact = word([](auto& state) { state.compact = 1; });
    return std::pair(ascii | compact, ascii | compact);
  }();
  return found;
}

/// Is it an iterator over a str? CPython has two types of these from 3.12 on.
inline bool is_text_iterator(PyObject* o) {
  const auto type_for = [](const char* text) {
    PyObject* const string = PyUnicode_FromString(text);
    PyObject* const iterator = string ? PyObject_GetIter(string) : nullptr;
    PyTypeObject* const type = iterator ? Py_TYPE(iterator) : nullptr;
    Py_XDECREF(iterator);
    Py_XDECREF(string);
    if (!type) PyErr_Clear();
    return type;
  };
  static PyTypeObject* const of_ascii = type_for("a");
  static PyTypeObject* const of_others = type_for("\u0101");
  return Py_IS_TYPE(o, of_ascii) || Py_IS_TYPE(o, of_others);
}

/// Of an iterator over a list, a tuple, a str, or what has __getitem__: the next index, and what it goes over.
inline constexpr int kIteratorIndex = sizeof(PyObject), kIteratorSequence = sizeof(PyObject) + sizeof(Py_ssize_t);

/// What such an iterator goes over, borrowed; null: it is at its end, or none.
inline PyObject* sequence_of(PyObject* iterator) {
  if (!Py_IS_TYPE(iterator, &PyListIter_Type) && !Py_IS_TYPE(iterator, &PySeqIter_Type) && !is_text_iterator(iterator))
    return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(iterator) + kIteratorSequence);
}

/// Of an enumerate object: its next number is where an iterator has its next index; an int of any size, or null.
inline constexpr int kEnumerateLong = kIteratorSequence + 2 * sizeof(PyObject*);
/// An int of a zip object that is not 0 if its iterators have to end together.
inline constexpr int kZipStrict = kEnumerateLong;

/// What an iterator takes its items from, borrowed: a sequence, the iterator that enumerate() counts, the iterators of
/// zip().
inline PyObject* taken_from(PyObject* iterator) {
  if (PyObject* sequence = sequence_of(iterator)) return sequence;
  if (!Py_IS_TYPE(iterator, &PyEnum_Type) && !Py_IS_TYPE(iterator, &PyZip_Type)) return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(iterator) + kIteratorSequence);
}

}  // namespace framejit::capture::py
