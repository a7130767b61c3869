#include "ext/library_calls/linalg_native.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <type_traits>

#include "capture/py/until_exit.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/numpy_loops.h"
#include "ext/module/config.h"
#include "ext/module/control.h"
#include "runtime/allocator.h"
#include "runtime/elimination.h"

namespace framejit::ext::library_calls {

using capture::Wrap;
using codegen::StridedArray;
using graph::DType;

namespace {

constexpr int64_t kFewRows = 64;    // a call is over before copies count
constexpr int64_t kLongRows = 256;  // other threads run meanwhile
constexpr int64_t kBlock = 16;      // rows and columns that are copied at a time

struct Release {
  void operator()(char* memory) const { runtime::release(memory); }
};
using Memory = std::unique_ptr<char, Release>;

/// A matrix, with bytes from row to row and from column to column.
struct Matrix {
  char* data;
  int64_t rows, columns, row, column;
};

enum class Part : uint8_t { All, Lower, Upper };

/// In blocks, through memory of their own: lines that lie a power of two apart would drive each other out of the cache.
/// Rows of one of the two are contiguous, and columns of the other.
template <class T>
void transpose(const Matrix& from, const Matrix& to, Part part) {
  T block[kBlock][kBlock];
  const auto move = [&](int64_t i, int64_t j, auto rows, auto columns) {
    const char* source = from.data + i * from.row + j * from.column;
    for (int64_t r = 0; r < rows; ++r, source += from.row)
      for (int64_t c = 0; c < columns; ++c) block[r][c] = reinterpret_cast<const T*>(source)[c];
    char* target = to.data + i * to.row + j * to.column;
    for (int64_t c = 0; c < columns; ++c, target += to.column)
      for (int64_t r = 0; r < rows; ++r) reinterpret_cast<T*>(target)[r] = block[r][c];
  };
  constexpr std::integral_constant<int64_t, kBlock> whole;
  for (int64_t j = 0; j < from.columns; j += kBlock)
    for (int64_t i = 0; i < from.rows; i += kBlock) {
      if (part == Part::Lower ? i + kBlock <= j : part == Part::Upper && j + kBlock <= i) continue;
      const int64_t rows = std::min(kBlock, from.rows - i), columns = std::min(kBlock, from.columns - j);
      if (rows == kBlock && columns == kBlock) move(i, j, whole, whole);
      else move(i, j, rows, columns);
    }
}

template <class T>
void copy(const Matrix& from, const Matrix& to, Part part) {
  if (from.column == sizeof(T) && to.row == sizeof(T)) return transpose<T>(from, to, part);
  for (int64_t i = 0; i < from.rows; ++i)
    for (int64_t j = 0; j < from.columns; ++j)
      *reinterpret_cast<T*>(to.data + i * to.row + j * to.column) =
          *reinterpret_cast<const T*>(from.data + i * from.row + j * from.column);
}

/// The elements of a part, and others.
void copy(DType dtype, Matrix from, Matrix to, Part part) {
  if (from.column != graph::size_of(dtype)) {
    const auto turned = [](const Matrix& m) { return Matrix{m.data, m.columns, m.rows, m.column, m.row}; };
    from = turned(from), to = turned(to);
    part = part == Part::Lower ? Part::Upper : part == Part::Upper ? Part::Lower : part;
  }
  dtype == DType::F64 ? copy<double>(from, to, part) : copy<std::complex<double>>(from, to, part);
}

bool is_aligned(const StridedArray& a) {
  const uintptr_t all =
      reinterpret_cast<uintptr_t>(a.data) | static_cast<uintptr_t>(a.strides[0]) | static_cast<uintptr_t>(a.strides[1]);
  return all % alignof(double) == 0;
}

/// NumPy computes in float64 and complex128 whatever it is given.
bool is_of_doubles(const StridedArray& a) {
  return (a.dtype == DType::F64 || a.dtype == DType::C128) && a.shape.size() == 2 && is_aligned(a);
}

PyObject* function_of(const char* module, const char* name) {
  PyObject* const home = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return home && PyModule_Check(home) ? PyDict_GetItemString(PyModule_GetDict(home), name) : nullptr;
}

}  // namespace

bool read_cholesky(const LibraryCall& call, NativeCall& out) {
  if (call.args.size() != 1 || !call.keywords.empty() || call.args[0].kind != Piece::Slot ||
      call.args[0].wrap != Wrap::NdArray || function_of("numpy.linalg", "cholesky") != call.callable.get())
    return false;
  out.kind = NativeCall::Cholesky;
  out.array = call.args[0].slot;
  return true;
}

bool run_cholesky(const NativeCall& native, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  const StridedArray &a = arrays[native.array], &out = arrays.back();
  const auto by_numpy = [&] { return native.otherwise(native.call, arrays, rule); };
  if (!is_of_doubles(a) || !is_of_doubles(out) || a.dtype != out.dtype || a.shape[0] != a.shape[1] ||
      a.shape[0] < kFewRows)
    return by_numpy();
  const module::ScopedGil gil;
  const codegen::NumpyLoop loop = arrays::linalg_loop("cholesky_lo", a.dtype);
  if (!loop) return by_numpy();
  const int64_t n = a.shape[0], item = graph::size_of(a.dtype), line = n * item;
  const Memory memory(static_cast<char*>(runtime::allocate(static_cast<std::size_t>(n * line))));
  if (!memory) return by_numpy();
  const Matrix given{a.data, n, n, a.strides[0], a.strides[1]}, columns{memory.get(), n, n, item, line},
      made{out.data, n, n, out.strides[0], out.strides[1]};
  PyThreadState* const released = n >= kLongRows ? PyEval_SaveThread() : nullptr;
  const unsigned flags = _mm_getcsr();
  // LAPACK reads a half only. NumPy copies what it is given, and makes the other half zeros.
  copy(a.dtype, given, columns, Part::Lower);
  char* places[] = {columns.data, columns.data};
  const intptr_t counts[] = {1, n}, steps[] = {0, 0, item, line, item, line};
  loop.function(places, counts, steps, loop.data);
  const bool failed = std::isnan(*reinterpret_cast<const double*>(columns.data));  // NumPy makes all of it NaN then
  if (!failed) {
    for (int64_t i = 0; out.strides[1] == item && i < n; ++i)
      std::memset(made.data + i * made.row + i * item, 0, static_cast<std::size_t>((n - i) * item));
    copy(a.dtype, columns, made, out.strides[1] == item ? Part::Lower : Part::All);
  }
  _mm_setcsr(flags);
  if (released) capture::py::until_exit([&] { PyEval_RestoreThread(released); });
  const bool has_no_memory = PyErr_Occurred() != nullptr;
  clear_error();
  return failed || has_no_memory ? by_numpy() : true;
}

bool read_solve(const LibraryCall& call, NativeCall& out) {
  if (call.args.size() != 2 || !call.keywords.empty() || function_of("numpy.linalg", "solve") != call.callable.get())
    return false;
  for (const Piece& piece : call.args) {
    if (piece.kind != Piece::Slot || piece.wrap != Wrap::NdArray) return false;
    out.indices.push_back(piece.slot);
  }
  out.kind = NativeCall::Solve;
  return true;
}

bool run_solve(const NativeCall& native, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  const StridedArray &a = arrays[native.indices[0]], &b = arrays[native.indices[1]], &x = arrays.back();
  const auto by_numpy = [&] { return native.otherwise(native.call, arrays, rule); };
  const codegen::Isa isa = module::target_cpu().isa;
  if (isa == codegen::Isa::None || !is_of_doubles(a) || !is_of_doubles(b) || !is_of_doubles(x) || a.dtype != b.dtype ||
      a.dtype != x.dtype || a.shape[0] != a.shape[1] || b.shape[0] != a.shape[0] ||
      !runtime::is_eliminated(a.shape[0], b.shape[1]) || b.strides[1] != graph::size_of(a.dtype) ||
      x.strides[1] != graph::size_of(a.dtype))
    return by_numpy();
  const runtime::DenseSystem system{a.data,       b.data,       x.data,       a.shape[0],   b.shape[1],
                                    a.strides[0], a.strides[1], b.strides[0], x.strides[0], a.dtype == DType::C128};
  const Memory scratch(
      static_cast<char*>(runtime::allocate(static_cast<std::size_t>(runtime::elimination_bytes(system)))));
  if (!scratch) return by_numpy();
  const unsigned flags = _mm_getcsr();
  const bool solved = runtime::eliminate(system, scratch.get(), isa == codegen::Isa::Avx512);
  _mm_setcsr(flags);
  return solved || by_numpy();
}

}  // namespace framejit::ext::library_calls
