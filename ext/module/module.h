// Parts of the extension module register what they add to it; module.cpp runs them when the module is made.
#pragma once

#include "capture/py/ref.h"

namespace framejit::ext::module {

/// Declared at namespace scope in the file that implements the part. `init` gives false with an exception set on
/// failure.
class ModulePart {
 public:
  using Init = bool (*)(PyObject* module);
  ModulePart(int order, Init init);

  static bool init_all(PyObject* module);

 private:
  int order_;
  Init init_;
  ModulePart* next_;
};

}  // namespace framejit::ext::module
