// The eager product of two Tensors: the core that compiled graphs use, so that both give the same bits.
#pragma once

#include "capture/py/ref.h"

namespace framejit::ext {

/// a @ b as a new C-contiguous ndarray, for C-contiguous 2-D float32 or float64 ndarrays of one dtype and fitting shapes. Null without
/// an exception where the core does not apply (another rank or dtype, a processor without AVX2): NumPy's product is next.
PyObject* core_matmul(PyObject* a, PyObject* b);

}  // namespace framejit::ext
