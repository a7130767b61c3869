// The eager product of two Tensors: the core that captured products run, on the arrays where they lie.
#include "ext/tensor_matmul.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "codegen/matmul.h"
#include "ext/config.h"
#include "ext/numpy_api.h"
#include "ext/result_arrays.h"
#include "runtime/allocator.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/fp_state.h"

namespace framejit::ext {

using capture::Ref;

namespace {

/// Null where there is no core for this processor. Kept for the life of the process.
const runtime::CodeBlock* code_for(graph::DType dtype, codegen::Isa isa) {
  static std::array<std::optional<runtime::CodeBlock>, 4> blocks;
  if (isa == codegen::Isa::None) return nullptr;
  auto& block = blocks[(dtype == graph::DType::F64) * 2U + (isa == codegen::Isa::Avx512)];
  if (!block)
    if (auto kernel = codegen::emit_matmul(dtype, isa)) {
      const std::span<const uint8_t> piece(kernel->bytes);
      if (auto sealed = runtime::CodeBlock::seal({&piece, 1})) block = std::move(*sealed);
    }
  return block ? &*block : nullptr;
}

constexpr double kLongNanoseconds = 50e3;  // a product without the GIL

}  // namespace

PyObject* core_matmul(PyObject* a, PyObject* b) {
  auto *left = reinterpret_cast<PyArrayObject*>(a), *right = reinterpret_cast<PyArrayObject*>(b);
  const int number = PyArray_TYPE(left);
  if (number != PyArray_TYPE(right) || (number != NPY_FLOAT32 && number != NPY_FLOAT64)) return nullptr;
  if (!PyArray_ISBEHAVED_RO(left) || !PyArray_ISBEHAVED_RO(right)) return nullptr;
  const int left_rank = PyArray_NDIM(left), right_rank = PyArray_NDIM(right);
  if (left_rank == 0 || right_rank == 0) return nullptr;
  const npy_intp *left_shape = PyArray_DIMS(left), *right_shape = PyArray_DIMS(right);
  const npy_intp *left_strides = PyArray_STRIDES(left), *right_strides = PyArray_STRIDES(right);
  const bool rows = left_rank >= 2, columns = right_rank >= 2;

  runtime::Product product;
  const graph::DType dtype = number == NPY_FLOAT32 ? graph::DType::F32 : graph::DType::F64;
  const npy_intp item = graph::size_of(dtype);
  product.m = rows ? left_shape[left_rank - 2] : 1;
  product.k = left_shape[left_rank - 1];
  product.n = columns ? right_shape[right_rank - 1] : 1;
  if (product.k != (columns ? right_shape[right_rank - 2] : right_shape[0])) return nullptr;
  product.a_row = rows ? left_strides[left_rank - 2] : item;
  product.a_k = left_strides[left_rank - 1];
  product.b_k = columns ? right_strides[right_rank - 2] : right_strides[0];
  product.b_column = columns ? right_strides[right_rank - 1] : item;

  // Batches, aligned at their last axis; a mismatch is NumPy's to report.
  const int left_batch = std::max(left_rank - 2, 0), right_batch = std::max(right_rank - 2, 0);
  const int batch = std::max(left_batch, right_batch);
  npy_intp shape[NPY_MAXDIMS];
  if (batch + 2 > NPY_MAXDIMS) return nullptr;
  for (int axis = 0; axis < batch; ++axis) {
    const int i = axis - (batch - left_batch), j = axis - (batch - right_batch);
    const npy_intp x = i >= 0 ? left_shape[i] : 1, y = j >= 0 ? right_shape[j] : 1;
    if (x != y && x != 1 && y != 1) return nullptr;
    shape[axis] = x == 1 ? y : x;
    product.batch.push_back({shape[axis], x == 1 ? 0 : left_strides[i], y == 1 ? 0 : right_strides[j], 0});
  }
  int rank = batch;
  if (rows) shape[rank++] = product.m;
  if (columns) shape[rank++] = product.n;

  const codegen::Cpu& cpu = target_cpu();
  const runtime::CodeBlock* code = code_for(dtype, cpu.isa);
  if (!code) return nullptr;
  const bool empty = std::find(shape, shape + rank, 0) != shape + rank;  // NumPy has its own strides then
  Ref<> out = Ref<>::steal(empty ? PyArray_SimpleNew(rank, shape, number) : new_c_array(dtype, rank, shape));
  if (!out) return nullptr;
  auto* result = reinterpret_cast<PyArrayObject*>(out.get());
  for (int axis = 0; axis < batch; ++axis) product.batch[static_cast<std::size_t>(axis)].c = PyArray_STRIDES(result)[axis];
  product.c_row = rows ? PyArray_STRIDES(result)[batch] : item;
  product.core = codegen::MatMulCore(dtype, cpu.isa == codegen::Isa::Avx512);
  product.code = code->entry(0);
  product.l2_bytes = cpu.l2_bytes;
  product.plan();
  // Where the allocator has nothing for other threads' scratch, they take turns with this one.
  char* const reserve =
      product.scratch_bytes > 0 ? static_cast<char*>(runtime::allocate(static_cast<std::size_t>(product.scratch_bytes))) : nullptr;
  if (product.scratch_bytes > 0 && !reserve) return PyErr_NoMemory();
  runtime::RunState state;
  state.buffers = nullptr;
  state.reserve = reserve;
  PyThreadState* const released = product.nanoseconds > kLongNanoseconds ? PyEval_SaveThread() : nullptr;
  runtime::run_product(product, PyArray_BYTES(left), PyArray_BYTES(right), PyArray_BYTES(result), state);
  runtime::clear_fp_flags();
  if (released) PyEval_RestoreThread(released);
  runtime::release(reserve);
  return out.release();
}

}  // namespace framejit::ext
