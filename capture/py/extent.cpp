// Extents of arrays through the buffer protocol.
#include "capture/py/extent.h"

namespace framejit::capture {

std::optional<Extent> extent_of(PyObject* object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  auto low = reinterpret_cast<std::uintptr_t>(view.buf);
  std::uintptr_t high = low + static_cast<std::uintptr_t>(view.itemsize);
  bool empty = false;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.shape[i] == 0) {
      empty = true;
      break;
    }
    Py_ssize_t span = (view.shape[i] - 1) * view.strides[i];
    if (span < 0) low -= static_cast<std::uintptr_t>(-span);
    else high += static_cast<std::uintptr_t>(span);
  }
  Extent extent{low, empty ? low : high, view.readonly == 0};
  PyBuffer_Release(&view);
  return extent;
}

}  // namespace framejit::capture
