// What differs between versions and builds of NumPy and cannot be asked for. Each is found out once, when it is needed
// for the first time: all together would take longer than the compilation of a small function. GIL held; NumPy
// imported.
#pragma once

#include <cstdint>

#include "codegen/lower.h"

namespace framejit::ext::arrays {

struct NumpyProbe {
  /// Promotion is the version's own (not switched by NPY_PROMOTION_STATE).
  bool promotion_known = false;
  /// `**` takes the short ways of NumPy up to 2.2: exponents -1, 0, 0.5, 1 and 2 of any kind of scalar. Else: int -1
  /// and 2, float 0.5.
  bool wide_power = false;
  /// np.clip drops Python bounds that an integer array cannot exceed.
  bool clip_drops_bounds = false;
};

const NumpyProbe& numpy_probe();

/// np.array(x, ndmin=) gives new axes the stride of the whole array, not of an element.
bool has_wide_new_axes();

/// `dtype`: a complex one.
codegen::ComplexForms complex_forms(graph::DType dtype);

struct SumOrder {
  bool known = false;             // contiguous sums of float32 and float64 agree with one of the known orders
  std::int64_t pairwise_cut = 0;  // which one: the length at which a run is cut, 0 for never
};

/// How `most` floats are added up now, or fewer. Not known where np.setbufsize has changed where sums are cut. Sums
/// that no version cuts are quickly found out about.
SumOrder sum_order(std::int64_t most = INT64_MAX);

}  // namespace framejit::ext::arrays
