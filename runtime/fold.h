// Scalar pieces of reductions that the run time does itself: combining partial results, walking outputs, float16.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "graph/dtype.h"
#include "graph/op.h"
#include "runtime/bound.h"

namespace framejit::runtime {

/// *into = op(*into, *value). For folds whose order does not matter: integers, bool, and minimum or maximum of floats
/// (a NaN in either gives NaN). Add, Multiply, Minimum, Maximum, LogicalOr, LogicalAnd.
void combine(graph::Op op, graph::DType dtype, char* into, const char* value);

/// Is the element a zero or a NaN?
bool zero_or_nan(graph::DType dtype, const char* element);

// Only reached where the machine has AVX2 and F16C, which kernels need as well.
[[gnu::target("f16c")]] inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }
[[gnu::target("f16c")]] inline uint16_t float_to_half(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }

/// Sets `count` elements that are `stride` bytes apart.
void fill(char* to, int64_t count, int64_t stride, const char* element, int itemsize);

/// Calls f(byte offset, count, stride) for the rows of `output` elements along the axes that are not reduced.
template <class F>
void for_each_row_of_outputs(const BoundLoop& loop, F f) {
  constexpr int kMaxRank = 64;
  int64_t extents[kMaxRank], strides[kMaxRank], position[kMaxRank] = {};
  int rank = 0;
  for (int axis = 0; axis < loop.rank(); ++axis) {
    if (axis >= loop.reduced_first && axis < loop.reduced_last) continue;
    extents[rank] = loop.extents[axis];
    strides[rank] = loop.stride(loop.step->output, axis);
    if (extents[rank++] == 0) return;
  }
  const int64_t count = rank > 0 ? extents[rank - 1] : 1, stride = rank > 0 ? strides[rank - 1] : 0;
  int64_t offset = 0;
  while (true) {
    f(offset, count, stride);
    int axis = rank - 2;
    for (; axis >= 0; --axis) {
      offset += strides[axis];
      if (++position[axis] < extents[axis]) break;
      offset -= strides[axis] * extents[axis];
      position[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace framejit::runtime
