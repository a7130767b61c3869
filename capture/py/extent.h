// Where the elements of an array-like object lie, asked through the buffer protocol (exact array types only: no user
// code).
#pragma once

#include <cstdint>
#include <optional>

#include "capture/py/ref.h"

namespace framejit::capture {

struct Extent {
  std::uintptr_t low, high;  // [low, high) holds every element; equal: there is none
  bool writeable;
  bool overlaps(const Extent& other) const { return low < other.high && other.low < high; }
};

/// Nothing where the object does not tell.
std::optional<Extent> extent_of(PyObject* object);

}  // namespace framejit::capture
