#include "ext/library_calls/lapack_native.h"

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "capture/py/until_exit.h"
#include "codegen/cpu.h"
#include "ext/arrays/numpy_api.h"
#include "ext/module/control.h"
#include "runtime/tridiagonal.h"

namespace framejit::ext::library_calls {

using capture::Ref;
using capture::Wrap;
using codegen::StridedArray;
using graph::DType;

namespace {

// du2, d, du, x, info = dgtsv(dl, d, du, b)
enum Argument : std::size_t { Lower, Diagonal, Upper, Right, kArguments };
enum Result : Py_ssize_t { Second, Eliminated, Above, Solution, Info, kResults };

Ref<> array_of(int64_t length, double* data) {
  return Ref<>::steal(
      PyArray_New(&PyArray_Type, 1, &length, NPY_DOUBLE, nullptr, data, 0, data ? NPY_ARRAY_WRITEABLE : 0, nullptr));
}

double* data_of(const Ref<>& array) {
  return static_cast<double*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.get())));
}

/// Does this LAPACK compute as our loop does? It could have been compiled with fused operations, or be another one. A
/// system of parts that are not coupled is solved with both.
bool gives_our_bits(PyObject* dgtsv) {
  constexpr int64_t kRows = runtime::kLeastEquations, kPart = 16;
  std::array<Ref<>, kArguments> arrays;
  uint64_t state = 1;
  const auto draw = [&state] {  // from 1 to 2
    state = state * 6364136223846793005u + 1442695040888963407u;
    return 1.0 + static_cast<double>(state >> 32) * 0x1p-32;
  };
  for (std::size_t k = 0; k < kArguments; ++k) {
    const bool beside = k == Lower || k == Upper;
    const int64_t length = beside ? kRows - 1 : kRows;
    arrays[k] = array_of(length, nullptr);
    if (!arrays[k]) return false;
    for (int64_t i = 0; i < length; ++i) data_of(arrays[k])[i] = beside && i % kPart == kPart - 1 ? 0.0 : draw();
  }
  const auto at = [&](Argument k) {
    return std::span<const double>(
        data_of(arrays[k]), static_cast<std::size_t>(PyArray_SIZE(reinterpret_cast<PyArrayObject*>(arrays[k].get()))));
  };
  std::vector<double> second(kRows - 1), eliminated(kRows), above(kRows - 1), x(kRows);
  if (!runtime::solve_tridiagonal({at(Lower), at(Diagonal), at(Upper), at(Right)},
                                  {second.data(), eliminated.data(), above.data(), x.data()}))
    return false;
  const Ref<> theirs = Ref<>::steal(
      PyObject_CallFunctionObjArgs(dgtsv, arrays[0].get(), arrays[1].get(), arrays[2].get(), arrays[3].get(), nullptr));
  if (!theirs || !PyTuple_CheckExact(theirs.get()) || PyTuple_GET_SIZE(theirs.get()) != kResults) return false;
  const auto equals = [&](Result k, const std::vector<double>& ours) {
    PyObject* const item = PyTuple_GET_ITEM(theirs.get(), k);
    if (!PyArray_CheckExact(item)) return false;
    auto* const array = reinterpret_cast<PyArrayObject*>(item);
    return PyArray_TYPE(array) == NPY_DOUBLE && PyArray_SIZE(array) == std::ssize(ours) &&
           PyArray_IS_C_CONTIGUOUS(array) &&
           std::memcmp(PyArray_DATA(array), ours.data(), ours.size() * sizeof(double)) == 0;
  };
  return equals(Second, second) && equals(Eliminated, eliminated) && equals(Above, above) && equals(Solution, x);
}

std::optional<std::span<const double>> vector_in(const StridedArray& a, int64_t length) {
  if (a.dtype != DType::F64 || a.shape.size() != 1 || a.shape[0] != length || a.strides[0] != sizeof(double) ||
      reinterpret_cast<uintptr_t>(a.data) % alignof(double) != 0)
    return std::nullopt;
  return std::span(reinterpret_cast<const double*>(a.data), static_cast<std::size_t>(length));
}

Ref<> memory_of(const StridedArray& operand, bool is_free) {
  return array_of(operand.shape[0], is_free ? reinterpret_cast<double*>(operand.data) : nullptr);
}

}  // namespace

bool read_tridiagonal(const LibraryCall& call, NativeCall& out) {
  if (call.args.size() != kArguments || !call.keywords.empty() || call.sequence != &PyTuple_Type ||
      call.count != kResults || call.result != Wrap::NdArray)
    return false;
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "scipy.linalg._flapack");
  if (!module || !PyModule_Check(module) ||
      PyDict_GetItemString(PyModule_GetDict(module), "dgtsv") != call.callable.get())
    return false;
  for (const Piece& piece : call.args) {
    if (piece.kind != Piece::Slot || piece.wrap != Wrap::NdArray) return false;
    out.indices.push_back(piece.slot);
  }
  static const bool gives = codegen::detected_cpu().isa != codegen::Isa::None && gives_our_bits(call.callable.get());
  clear_error();
  out.kind = NativeCall::Tridiagonal;
  return gives;
}

bool run_tridiagonal(NativeCall& native, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  const module::ScopedGil gil;
  const auto operand = [&](Argument k) -> const StridedArray& { return arrays[native.indices[k]]; };
  const int64_t rows = operand(Diagonal).shape.empty() ? 0 : operand(Diagonal).shape[0];
  const auto lower = vector_in(operand(Lower), rows - 1), diagonal = vector_in(operand(Diagonal), rows),
             upper = vector_in(operand(Upper), rows - 1), right = vector_in(operand(Right), rows);
  if (native.given_up || rows < runtime::kLeastEquations || !lower || !diagonal || !upper || !right)
    return native.otherwise(native.call, arrays, rule);
  // Is it an operand that the function may compute in, and that nothing else reads?
  const auto is_free = [&](Argument k) {
    const std::vector<std::size_t>& slots = native.call->computed_in;
    return operand(k).is_last_use && std::find(slots.begin(), slots.end(), native.indices[k]) != slots.end();
  };
  Ref<> eliminated = memory_of(operand(Diagonal), is_free(Diagonal)), above = memory_of(operand(Upper), is_free(Upper)),
        x = memory_of(operand(Right), is_free(Right));
  Ref<> info = Ref<>::steal(PyLong_FromLong(0));
  clear_error();
  if (!eliminated || !above || !x || !info) return false;
  const unsigned flags = _mm_getcsr();
  const bool solved = runtime::solve_tridiagonal(
      {*lower, *diagonal, *upper, *right},
      {reinterpret_cast<double*>(arrays.back().data), data_of(eliminated), data_of(above), data_of(x)});
  _mm_setcsr(flags);
  if (!solved) {
    native.given_up = true;
    const bool lost = is_free(Diagonal) || is_free(Upper) || is_free(Right);
    return !lost && native.otherwise(native.call, arrays, rule);
  }
  Ref<> items = Ref<>::steal(PyTuple_Pack(kResults, Py_None, eliminated.get(), above.get(), x.get(), info.get()));
  clear_error();
  if (!items) return false;
  keep_items(arrays.back().data, std::move(items), kResults - 1);
  return true;
}

}  // namespace framejit::ext::library_calls
