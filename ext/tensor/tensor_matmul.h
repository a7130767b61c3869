// The eager products of Tensors: the core that compiled graphs use, so that both give the same bits; and products of
// integers as nodes.
#pragma once

#include <cstdint>
#include <optional>

#include "capture/py/ref.h"
#include "capture/session.h"
#include "codegen/matmul.h"
#include "graph/graph.h"

namespace framejit::ext::tensor {

/// The dtype in which a core multiplies matrices of `dtype`; bfloat16 and narrow integers are rounded and truncated
/// from it. Nothing for other dtypes.
constexpr std::optional<graph::DType> matmul_dtype(graph::DType dtype) {
  using graph::DType;
  if (dtype == DType::BF16) return DType::F32;
  if (codegen::has_matmul(dtype)) return dtype;
  if (graph::is_int(dtype)) return DType::I32;
  return std::nullopt;
}

/// a @ b as a new C-contiguous ndarray, for ndarrays of one dtype with any strides. Null without an exception where
/// the core does not apply (shapes that do not fit, another dtype, a processor without AVX2): NumPy's product is next.
PyObject* core_matmul(PyObject* a, PyObject* b);

/// The dtype in which a core computes what operands of `dtype` give, rounded to theirs at the end: float16 and bfloat16
/// in float32; for a convolution integers in float64. Nothing for other dtypes.
constexpr std::optional<graph::DType> core_dtype(graph::DType dtype, bool attention) {
  using graph::DType;
  if (dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16) return DType::F32;
  if (attention || graph::is_complex(dtype)) return std::nullopt;
  return DType::F64;
}

/// As GraphBuilder::convolution, of float32 or float64 ndarrays of one dtype; raises where the shapes do not fit or
/// there is no core.
PyObject* core_convolution(PyObject* image, PyObject* weights, const graph::Window& window);

/// As GraphBuilder::attention, of float32 ndarrays; `mask` may be null. Raises where the shapes do not fit or there is
/// no core.
struct CoreDropped {
  float probability;
  uint64_t state;
};
PyObject* core_attention(PyObject* q, PyObject* k, PyObject* v, float scale, PyObject* mask, graph::Causal causal,
                         std::optional<CoreDropped> dropped);

}  // namespace framejit::ext::tensor
