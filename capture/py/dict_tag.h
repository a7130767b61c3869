// Dicts that number their changes: CPython 3.11 to 3.13.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

namespace framejit::capture::py {

inline std::shared_ptr<const uint64_t> watch(PyObject*) { return nullptr; }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // 3.12 says that it will go; 3.14 is without
inline const uint64_t* tag(PyObject* dict) { return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#pragma GCC diagnostic pop

}  // namespace framejit::capture::py
