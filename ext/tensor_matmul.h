// The eager product of two Tensors: the core that compiled graphs use, so that both give the same bits.
#pragma once

#include "capture/py/ref.h"

namespace framejit::ext {

/// a @ b as a new C-contiguous ndarray, for float32 or float64 ndarrays of one dtype with any strides. Null without an exception where
/// the core does not apply (shapes that do not fit, another dtype, a processor without AVX2): NumPy's product is next.
PyObject* core_matmul(PyObject* a, PyObject* b);

}  // namespace framejit::ext
