// Machine code that makes objects.
#pragma once

#include <Python.h>

namespace framejit::capture::py {

/// No cyclic collection begins while this lives: it would run finalizers. From CPython 3.12 on, one begins between
/// instructions only.
class NoCollection {
 public:
#if PY_VERSION_HEX < 0x030C0000
  NoCollection() : was_on_(PyGC_Disable() != 0) {}
  ~NoCollection() {
    if (was_on_) PyGC_Enable();
  }

 private:
  bool was_on_;
#endif
};

}  // namespace framejit::capture::py
