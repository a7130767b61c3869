// The vectorcall that functions are made with.
#pragma once

#include "capture/py/ref.h"

namespace framejit::capture::py {

inline vectorcallfunc plain_vectorcall() {
  static const vectorcallfunc plain = [] {
    const Ref<> globals = Ref<>::steal(PyDict_New());
    const Ref<PyCodeObject> code = Ref<PyCodeObject>::steal(PyCode_NewEmpty("<framejit>", "plain", 1));
    const Ref<> made = globals && code
                           ? Ref<>::steal(PyFunction_New(reinterpret_cast<PyObject*>(code.get()), globals.get()))
                           : Ref<>();
    if (!made) PyErr_Clear();
    return made ? reinterpret_cast<PyFunctionObject*>(made.get())->vectorcall : nullptr;
  }();
  return plain;
}

}  // namespace framejit::capture::py
