// Slots: the locals or the stack of a frame, or the arguments of a call, as objects.
#pragma once

#include <Python.h>

#include <compare>
#include <cstdint>

#include "capture/py/cpython/facts.h"

namespace framejit::capture::py {

/// Words that name objects; all borrowed. Where the version tags the words of its frames (kTaggedSlots), the tags are
/// taken off: bit 0 says that the slot owns no reference, and the bits of a tagged integer, 3, that it holds no object.
/// Arguments have no tags.
class Slots {
 public:
  Slots() = default;
  Slots(PyObject* const* words) : words_(words) {}  // NOLINT: arguments are slots

  /// The object, or null: an unbound local, NULL on the stack, or an integer of the interpreter's own.
  PyObject* operator[](int64_t i) const {
    if constexpr (kTaggedSlots) {
      const auto word = reinterpret_cast<uintptr_t>(words_[i]);
      return word & 2 ? nullptr : reinterpret_cast<PyObject*>(word & ~uintptr_t{1});
    } else {
      return words_[i];
    }
  }
  /// An integer of the interpreter's own, that no object stands for: where a loop is, or where an exception was raised.
  bool is_integer(int64_t i) const { return kTaggedSlots && (reinterpret_cast<uintptr_t>(words_[i]) & 3) == 3; }
  int64_t integer(int64_t i) const { return reinterpret_cast<intptr_t>(words_[i]) >> kIntegerShift; }
  /// The word with its tags. It is no address of an object.
  PyObject* word(int64_t i) const { return words_[i]; }
  bool is_borrowed(int64_t i) const { return kTaggedSlots && (reinterpret_cast<uintptr_t>(words_[i]) & kBorrowed); }
  static constexpr int kIntegerShift = 2, kIntegerTag = 3, kBorrowed = 1;
  bool holds(int64_t count, const PyObject* object) const {
    for (int64_t i = 0; i < count; ++i)
      if ((*this)[i] == object) return true;
    return false;
  }
  /// Where they are: what tells one frame from another.
  const void* address() const { return words_; }
  auto operator<=>(const Slots&) const = default;

 private:
  PyObject* const* words_ = nullptr;
};

}  // namespace framejit::capture::py
