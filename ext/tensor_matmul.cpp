// The eager product of two Tensors, by a plan over symbolic sizes for each dtype and instruction set.
#include "ext/tensor_matmul.h"

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "ext/compile.h"
#include "ext/config.h"
#include "ext/numpy_api.h"
#include "graph/builder.h"

namespace framejit::ext {

using capture::Ref;

namespace {

std::unique_ptr<runtime::Plan> make_plan(graph::DType dtype) {
  graph::Graph graph("tensor_matmul");
  graph::GraphBuilder builder(graph);
  const graph::Dim m = graph.shapes().fresh(2), k = graph.shapes().fresh(3), n = graph.shapes().fresh(5);
  auto matrix = [&](const graph::Dim& rows, const graph::Dim& columns, const char* name) {
    graph::Type type;
    type.dtype = dtype;
    type.shape = {rows, columns};
    type.strides = graph::c_strides(dtype, type.shape);
    return builder.param(std::move(type), name);
  };
  const graph::ValueId a = matrix(m, k, "a"), b = matrix(k, n, "b");
  graph::BuildResult product = builder.matmul(a, b);
  if (!product) return nullptr;
  graph.set_results({*product});
  Expected<Compiled, std::string> compiled = compile(graph, {});
  return compiled ? std::move(compiled->plan) : nullptr;
}

/// Null where there is no core for this processor. Kept for the life of the process.
const runtime::Plan* plan_for(graph::DType dtype) {
  static auto* const plans = new std::map<std::pair<graph::DType, std::string>, std::unique_ptr<runtime::Plan>>;
  auto [at, added] = plans->try_emplace({dtype, config().cpu});
  if (added) at->second = make_plan(dtype);
  return at->second.get();
}

}  // namespace

PyObject* core_matmul(PyObject* a, PyObject* b) {
  auto *left = reinterpret_cast<PyArrayObject*>(a), *right = reinterpret_cast<PyArrayObject*>(b);
  if (PyArray_NDIM(left) != 2 || PyArray_NDIM(right) != 2) return nullptr;
  const int number = PyArray_TYPE(left);
  if (number != PyArray_TYPE(right) || (number != NPY_FLOAT32 && number != NPY_FLOAT64)) return nullptr;
  const npy_intp m = PyArray_DIM(left, 0), k = PyArray_DIM(left, 1), n = PyArray_DIM(right, 1);
  if (k != PyArray_DIM(right, 0) || m * k * n == 0 || !PyArray_ISCARRAY_RO(left) || !PyArray_ISCARRAY_RO(right)) return nullptr;
  const runtime::Plan* plan = plan_for(number == NPY_FLOAT32 ? graph::DType::F32 : graph::DType::F64);
  if (!plan) return nullptr;
  npy_intp shape[] = {m, n};
  Ref<> out = Ref<>::steal(PyArray_SimpleNew(2, shape, number));
  if (!out) return nullptr;
  char* params[] = {PyArray_BYTES(left), PyArray_BYTES(right)};
  char* results[] = {PyArray_BYTES(reinterpret_cast<PyArrayObject*>(out.get()))};
  const std::array<int64_t, 3> symbols = {m, k, n};
  const runtime::RunStatus status = plan->run(params, results, symbols).status;
  if (status == runtime::RunStatus::Done) return out.release();
  if (status == runtime::RunStatus::OutOfMemory) PyErr_NoMemory();
  return nullptr;
}

}  // namespace framejit::ext
