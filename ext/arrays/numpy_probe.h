// What differs between versions and builds of NumPy and cannot be asked for: found out once, at the first compilation.
#pragma once

#include <cstdint>

#include "codegen/lower.h"

namespace framejit::ext::arrays {

struct NumpyProbe {
  /// Promotion is the version's own (not switched by NPY_PROMOTION_STATE).
  bool promotion_known = false;
  /// Contiguous sums of float32 and float64 agree with one of the known orders; `pairwise_cut` says which: the length
  /// at which a run is cut, 0 for never.
  bool sums_known = false;
  std::int64_t pairwise_cut = 0;
  /// `**` takes the short ways of NumPy up to 2.2: exponents -1, 0, 0.5, 1 and 2 of any kind of scalar. Else: int -1
  /// and 2, float 0.5.
  bool wide_power = false;
  /// np.clip drops Python bounds that an integer array cannot exceed.
  bool clip_drops_bounds = false;
  /// np.array(x, ndmin=) gives new axes the stride of the whole array, not of an element.
  bool wide_new_axes = false;
  codegen::ComplexForms complex64, complex128;
  const codegen::ComplexForms& complex(graph::DType dtype) const {
    return dtype == graph::DType::C64 ? complex64 : complex128;
  }
};

/// GIL held; NumPy imported.
const NumpyProbe& numpy_probe();

/// Are sums of floats to be compiled now? Not where their order is unknown or np.setbufsize has changed where they are
/// cut.
bool sums_compilable();

}  // namespace framejit::ext::arrays
