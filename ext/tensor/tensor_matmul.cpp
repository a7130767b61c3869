// The eager products of Tensors: the core that captured products run, on the arrays where they lie.
#include "ext/tensor/tensor_matmul.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "capture/py/until_exit.h"
#include "codegen/attention.h"
#include "codegen/matmul.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/result_arrays.h"
#include "ext/module/config.h"
#include "ext/module/core_code.h"
#include "ext/tensor/tensor.h"
#include "graph/support/fp_state.h"
#include "runtime/allocator.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/narrow.h"

namespace framejit::ext::tensor {

using capture::Ref;
using module::target_cpu;

namespace {

using codegen::NarrowProduct;

struct NarrowCode {
  const runtime::CodeBlock* block = nullptr;
  bool in_amx = false;
  NarrowProduct kind = NarrowProduct::BFloat16;
};

/// For products of bfloat16 and of integers of 8 and 16 bits, by tile registers only if `tiles`; none where the
/// processor has none.
NarrowCode narrow_code(graph::DType dtype, bool tiles) {
  static auto& blocks =
      *new std::array<std::optional<runtime::CodeBlock>, 6>;  // threads may run them while the process ends
  const codegen::Cpu& cpu = target_cpu();
  const bool rounded = dtype == graph::DType::BF16;
  const NarrowProduct kind = rounded                      ? NarrowProduct::BFloat16
                             : graph::size_of(dtype) == 2 ? NarrowProduct::Int16
                                                          : NarrowProduct::Int8;
  const bool has_amx = rounded ? cpu.amx_bf16 : kind == NarrowProduct::Int8 && cpu.amx_int8;
  const bool in_amx = tiles && has_amx && codegen::allow_amx();
  if (!in_amx && !(rounded ? cpu.avx512_bf16 : cpu.vnni)) return {};
  auto& block = blocks[static_cast<std::size_t>(kind) * 2 + in_amx];
  return {block ? &*block
                : module::sealed(block,
                                 in_amx ? codegen::emit_amx_matmul(kind, cpu) : codegen::emit_narrow_matmul(kind, cpu)),
          in_amx, kind};
}

/// Rows, columns and depth from which on making groups of integers, by which they gain speed alone, pays.
constexpr int64_t kLeastNarrow = 48;

constexpr double kLongNanoseconds = 50e3;  // a product without the GIL

/// run(state); false with an exception set where memory is short.
template <class F>
bool with_scratch(int64_t bytes, double nanoseconds, F&& run) {
  // Where the allocator has nothing for other threads' scratch, they take turns with this one.
  char* const reserve = bytes > 0 ? static_cast<char*>(runtime::allocate(static_cast<std::size_t>(bytes))) : nullptr;
  if (bytes > 0 && !reserve) {
    PyErr_NoMemory();
    return false;
  }
  runtime::RunState state;
  state.buffers = nullptr;
  state.reserve = reserve;
  PyThreadState* const released = nanoseconds > kLongNanoseconds ? PyEval_SaveThread() : nullptr;
  run(state);
  clear_fp_flags();
  if (released) capture::py::until_exit([&] { PyEval_RestoreThread(released); });
  runtime::release(reserve);
  return true;
}

bool run(runtime::Product& product, graph::DType dtype, const runtime::CodeBlock& code, PyArrayObject* a,
         PyArrayObject* b, PyArrayObject* c) {
  const codegen::Cpu& cpu = target_cpu();
  product.core = codegen::MatMulCore(dtype, cpu.isa == codegen::Isa::Avx512);
  product.code = code.entry(0);
  product.l2_bytes = cpu.l2_bytes;
  product.plan();
  return with_scratch(product.scratch_bytes, product.nanoseconds, [&](runtime::RunState& state) {
    runtime::run_product(product, PyArray_BYTES(a), PyArray_BYTES(b), PyArray_BYTES(c), state);
  });
}

/// The same by a core of groups: sums are of 32 bits, then rounded or truncated. Few rows or columns meet factors where
/// they lie, whose groups are made of others as a whole before: `operands`.
struct NarrowProductPlan {
  runtime::Product product;
  NarrowCode code;
  std::optional<runtime::NarrowOperands> operands;
};

/// Nothing where the processor, or what can be had from it, would be slower than a product in a wider dtype.
std::optional<NarrowProductPlan> plan_narrow(const runtime::Product& given, graph::DType dtype) {
  NarrowProductPlan out{given, narrow_code(dtype, false), {}};
  runtime::Product& product = out.product;
  product.core = codegen::MatMulCore(graph::DType::F32, true);
  product.l2_bytes = target_cpu().l2_bytes;
  if (out.code.block) {
    const runtime::Product before = product;
    product.factor = graph::size_of(dtype);
    product.code = out.code.block->entry(0);
    product.plan();
    if (product.lies_right()) return out;
    product = before;
  }
  if (dtype != graph::DType::BF16 && std::min({given.m, given.n, given.k}) < kLeastNarrow) return std::nullopt;
  out.code = narrow_code(dtype, true);
  if (!out.code.block) return std::nullopt;
  const runtime::Narrowed from =
      out.code.kind == NarrowProduct::Int8 ? runtime::Narrowed::Whole8 : runtime::Narrowed::Whole16;
  out.operands = runtime::take_groups(product, from, out.code.block->entry(0), out.code.in_amx);
  product.plan();
  return out;
}

bool run(const NarrowProductPlan& plan, PyArrayObject* a, PyArrayObject* b, PyArrayObject* c) {
  const runtime::Product& product = plan.product;
  const int64_t elements = PyArray_SIZE(c), sums = (4 * elements + 63) / 64 * 64,
                groups = plan.operands ? plan.operands->bytes() : 0;
  const NarrowProduct kind = plan.code.kind;
  const runtime::Narrowed back = kind == NarrowProduct::Int8    ? runtime::Narrowed::Low8
                                 : kind == NarrowProduct::Int16 ? runtime::Narrowed::Low16
                                                                : runtime::Narrowed::Rounded;
  return with_scratch(sums + groups + product.scratch_bytes, product.nanoseconds, [&](runtime::RunState& state) {
    char* const memory = state.reserve;
    state.reserve += sums;
    if (plan.operands)
      runtime::run_narrowed(product, *plan.operands, PyArray_BYTES(a), PyArray_BYTES(b), memory, state);
    else runtime::run_product(product, PyArray_BYTES(a), PyArray_BYTES(b), memory, state);
    state.reserve = memory;
    runtime::narrow_sums(back, memory, PyArray_BYTES(c), elements, state);
  });
}

/// A C-contiguous array; NumPy has its own strides for an empty one, and the memory of what does not compile.
Ref<> new_result(graph::DType dtype, int number, int rank, npy_intp* shape) {
  const bool empty = std::find(shape, shape + rank, 0) != shape + rank;
  return Ref<>::steal(empty || dtype == graph::DType::BF16 ? PyArray_SimpleNew(rank, shape, number)
                                                           : arrays::new_c_array(dtype, rank, shape));
}

/// The product in a wider dtype, rounded or truncated.
PyObject* by_wider(PyObject* a, PyObject* b, graph::DType wide, PyArray_Descr* descr) {
  // In the order in which the elements lie: a copy to another one takes as long as a small product.
  const auto widened = [wide](PyObject* o) {
    auto* array = reinterpret_cast<PyArrayObject*>(o);
    const bool turned = PyArray_IS_F_CONTIGUOUS(array) && !PyArray_IS_C_CONTIGUOUS(array);
    const auto transposed = [](PyArrayObject* x) { return Ref<>::steal(PyArray_Transpose(x, nullptr)); };
    Ref<> from = turned ? transposed(array) : Ref<>::share(o);
    if (!from) return from;
    array = reinterpret_cast<PyArrayObject*>(from.get());
    Ref<> to = new_result(wide, tensor_descr(wide)->type_num, PyArray_NDIM(array), PyArray_DIMS(array));
    if (!to || PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(to.get()), array) != 0) return Ref<>();
    return turned ? transposed(reinterpret_cast<PyArrayObject*>(to.get())) : std::move(to);
  };
  Ref<> left = widened(a), right = left ? widened(b) : Ref<>();
  Ref<> product = right ? Ref<>::steal(core_matmul(left.get(), right.get())) : Ref<>();
  if (!product) return nullptr;
  Py_INCREF(descr);
  return PyArray_CastToType(reinterpret_cast<PyArrayObject*>(product.get()), descr, 0);
}

}  // namespace

PyObject* core_matmul(PyObject* a, PyObject* b) {
  auto *left = reinterpret_cast<PyArrayObject*>(a), *right = reinterpret_cast<PyArrayObject*>(b);
  const int number = PyArray_TYPE(left);
  const std::optional<graph::DType> found = tensor_dtype_of(PyArray_DESCR(left));
  if (number != PyArray_TYPE(right) || !found) return nullptr;
  const graph::DType dtype = *found;
  const std::optional<graph::DType> wide = matmul_dtype(dtype);
  if (!wide) return nullptr;
  if (!PyArray_ISBEHAVED_RO(left) || !PyArray_ISBEHAVED_RO(right)) return nullptr;
  const int left_rank = PyArray_NDIM(left), right_rank = PyArray_NDIM(right);
  if (left_rank == 0 || right_rank == 0) return nullptr;
  const npy_intp *left_shape = PyArray_DIMS(left), *right_shape = PyArray_DIMS(right);
  const npy_intp *left_strides = PyArray_STRIDES(left), *right_strides = PyArray_STRIDES(right);
  const bool rows = left_rank >= 2, columns = right_rank >= 2;

  runtime::Product product;
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

  // Sums of what is narrower than a core's elements are of 32 bits.
  int64_t pitch = (*wide == dtype ? item : 4) * product.n;
  product.c_row = pitch;
  pitch *= product.m;
  for (int axis = batch; axis-- > 0; pitch *= shape[axis]) product.batch[static_cast<std::size_t>(axis)].c = pitch;
  std::optional<NarrowProductPlan> narrow;
  if (*wide != dtype && !(narrow = plan_narrow(product, dtype))) return by_wider(a, b, *wide, PyArray_DESCR(left));
  const runtime::CodeBlock* code = narrow ? narrow->code.block : module::matmul_code(dtype);
  if (!code) return nullptr;
  Ref<> out = new_result(dtype, number, rank, shape);
  if (!out) return nullptr;
  auto* result = reinterpret_cast<PyArrayObject*>(out.get());
  const bool done = narrow ? run(*narrow, left, right, result) : run(product, dtype, *code, left, right, result);
  if (!done) return nullptr;
  return out.release();
}

PyObject* core_convolution(PyObject* image, PyObject* weights, const graph::Window& window) {
  auto *x = reinterpret_cast<PyArrayObject*>(image), *w = reinterpret_cast<PyArrayObject*>(weights);
  const int number = PyArray_TYPE(x), space = static_cast<int>(window.axes.size()), rank = space + 2;
  const graph::DType dtype = number == NPY_FLOAT32 ? graph::DType::F32 : graph::DType::F64;
  const runtime::CodeBlock* code = module::matmul_code(dtype);
  const bool floating = number == PyArray_TYPE(w) && (number == NPY_FLOAT32 || number == NPY_FLOAT64);
  if (!floating || !code || !PyArray_ISBEHAVED_RO(x) || !PyArray_ISCARRAY_RO(w)) {
    PyErr_SetString(PyExc_TypeError,
                    "a convolution takes float32 or float64, contiguous weights, and a processor with AVX2");
    return nullptr;
  }
  const npy_intp *from = PyArray_DIMS(x), *filter = PyArray_DIMS(w), *strides = PyArray_STRIDES(x);
  bool fits = PyArray_NDIM(x) == rank && PyArray_NDIM(w) == rank && space <= codegen::Windows::kAxes &&
              filter[0] % window.groups == 0 && from[1] == filter[1] * window.groups;
  npy_intp shape[NPY_MAXDIMS];
  runtime::Product product;
  runtime::Product::Windows windows;
  for (auto& axis : windows.axes) axis = {1, 1, 0, 1, 1, 1, 0};
  product.n = 1;
  product.k = fits ? filter[1] : 0;
  for (int i = 0; fits && i < space; ++i) {
    const graph::Window::Axis& a = window.axes[static_cast<std::size_t>(i)];
    const npy_intp length = from[i + 2], size = filter[i + 2];
    const npy_intp last = length + a.before + a.after - 1;
    fits = size > 0 && last >= 0 && (size == 1 || a.dilation <= last / (size - 1));
    shape[i + 2] = fits ? a.places(length, size).value() : 0;
    product.n *= shape[i + 2];
    product.k *= size;
    windows.axes[codegen::Windows::kAxes - space + i] = {length,   shape[i + 2], strides[i + 2], size,
                                                         a.stride, a.dilation,   a.before};
  }
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "the shapes of an image and of the weights of its convolution do not fit");
    return nullptr;
  }
  shape[0] = from[0], shape[1] = filter[0];
  const double padded = [&] {
    double bytes = graph::size_of(dtype);
    for (const graph::Dim& d : window.padded(graph::Dims(from, from + rank))) bytes *= static_cast<double>(d.value());
    return bytes;
  }();
  if (padded > static_cast<double>(graph::kMostMemory)) {
    PyErr_SetString(PyExc_ValueError, "the 'padding' of a convolution makes an image that is too large");
    return nullptr;
  }
  Ref<> out = new_result(dtype, number, rank, shape);
  if (!out) return nullptr;
  const npy_intp item = graph::size_of(dtype);
  product.m = filter[0] / window.groups;
  windows.channel = strides[1];
  product.windows = windows;
  product.a_k = item, product.a_row = product.k * item, product.c_row = product.n * item;
  product.batch = {{shape[0], 0, strides[0], shape[1] * product.c_row}};
  if (window.groups > 1)
    product.batch.push_back(
        {window.groups, product.m * product.a_row, filter[1] * strides[1], product.m * product.c_row});
  return run(product, dtype, *code, w, x, reinterpret_cast<PyArrayObject*>(out.get())) ? out.release() : nullptr;
}

PyObject* core_attention(PyObject* q, PyObject* k, PyObject* v, float scale, PyObject* mask, graph::Causal causal,
                         std::optional<CoreDropped> dropped) {
  const codegen::Cpu& cpu = target_cpu();
  static auto& blocks =
      *new std::array<std::optional<runtime::CodeBlock>, 2>;  // threads may run them while the process ends
  const runtime::CodeBlock *product = module::matmul_code(graph::DType::F32), *softmax = nullptr;
  if (product) softmax = module::sealed(blocks[cpu.isa == codegen::Isa::Avx512], codegen::emit_softmax(cpu.isa));
  bool floating = product && softmax;
  for (PyObject* o : {q, k, v, mask ? mask : q}) {
    auto* array = reinterpret_cast<PyArrayObject*>(o);
    floating = floating && PyArray_TYPE(array) == NPY_FLOAT32 && PyArray_ISBEHAVED_RO(array);
  }
  if (!floating) {
    PyErr_SetString(PyExc_TypeError, "attention takes float32 and a processor with AVX2");
    return nullptr;
  }
  runtime::Attention a;
  const auto shape = [](PyObject* o, int axis) { return PyArray_DIM(reinterpret_cast<PyArrayObject*>(o), axis); };
  const auto place = [mask](PyObject* o, const char*& data, runtime::Attention::Matrix& matrix) {
    auto* array = reinterpret_cast<PyArrayObject*>(o);
    int64_t strides[4] = {0, 0, 0, 0};
    const int rank = PyArray_NDIM(array);
    for (int i = 0; i < rank; ++i)
      if (o != mask || PyArray_DIM(array, i) != 1) strides[4 - rank + i] = PyArray_STRIDE(array, i);
    data = PyArray_BYTES(array);
    matrix = {strides[0], strides[1], strides[2], strides[3]};
  };
  bool fits = true;
  for (PyObject* o : {q, k, v}) fits = fits && PyArray_NDIM(reinterpret_cast<PyArrayObject*>(o)) == 4;
  fits = fits && shape(q, 0) == shape(k, 0) && shape(k, 0) == shape(v, 0) && shape(k, 1) == shape(v, 1) &&
         shape(k, 1) > 0 && shape(q, 1) % shape(k, 1) == 0 && shape(k, 2) == shape(v, 2) && shape(q, 3) == shape(k, 3);
  if (fits && mask) {
    const npy_intp all[] = {shape(q, 0), shape(q, 1), shape(q, 2), shape(k, 2)};
    const int rank = PyArray_NDIM(reinterpret_cast<PyArrayObject*>(mask));
    fits = rank <= 4;
    for (int i = 0; fits && i < rank; ++i) fits = shape(mask, i) == 1 || shape(mask, i) == all[4 - rank + i];
  }
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "the shapes of queries, keys, values and the mask of attention do not fit");
    return nullptr;
  }
  a.core = codegen::MatMulCore(graph::DType::F32, cpu.isa == codegen::Isa::Avx512);
  a.product_code = product->entry(0), a.softmax_code = softmax->entry(0);
  a.l2_bytes = cpu.l2_bytes;
  a.batch = shape(q, 0), a.heads = shape(q, 1), a.key_heads = shape(k, 1);
  a.queries = shape(q, 2), a.keys = shape(k, 2), a.depth = shape(q, 3), a.width = shape(v, 3);
  a.causal = causal != graph::Causal::None;
  a.ahead = causal == graph::Causal::FromLast ? a.keys - a.queries : 0;
  a.masked = mask != nullptr;
  a.drops = dropped.has_value();
  npy_intp dims[] = {a.batch, a.heads, a.queries, a.width};
  Ref<> out = new_result(graph::DType::F32, NPY_FLOAT32, 4, dims);
  if (!out) return nullptr;
  runtime::AttentionData data;
  data.scale = scale;
  if (dropped) data.probability = dropped->probability, data.state = dropped->state;
  place(q, data.q, a.q);
  place(k, data.k, a.k);
  place(v, data.v, a.v);
  if (mask) place(mask, data.mask, a.mask);
  const char* to;
  place(out.get(), to, a.out);
  data.out = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(out.get()));
  a.plan();
  const bool ran =
      with_scratch(a.scratch_bytes, a.nanoseconds, [&](runtime::RunState& state) { run_attention(a, data, state); });
  return ran ? out.release() : nullptr;
}

}  // namespace framejit::ext::tensor
