// The number that changes with each change of a dict.
#pragma once

#include <Python.h>

#include <cstdint>

namespace framejit::ext {

inline uint64_t version_tag(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030c0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#if PY_VERSION_HEX >= 0x030c0000
#pragma GCC diagnostic pop
#endif
}

}  // namespace framejit::ext
