// Keeps the cycle collector from running while a region makes its objects.
#pragma once

#include <Python.h>

#include "capture/py/cpython/facts.h"

namespace framejit::ext::region {

/// While it is in scope no cycle collection begins: its callbacks and finalizers could change what the guards have
/// vouched for, and move the memory of inputs. From 3.12 on none begins where objects are made.
class NoCollection {
 public:
  explicit NoCollection(bool wanted) : held_(!capture::py::kCollectsAtEvalBreaker && wanted && PyGC_Disable()) {}
  ~NoCollection() {
    if (held_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;

 private:
  bool held_;
};

}  // namespace framejit::ext::region
