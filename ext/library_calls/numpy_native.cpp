// Library calls that loops of ours do: x[i], x[:, i, j], np.take, np.cumsum, np.cumprod, accumulate of four ufuncs,
// np.argmin, np.argmax, np.histogram, np.tril, np.triu; lapack_native.h and linalg_native.h have those of LAPACK. What
// is recognised here stays a library call to everything else: the layout of the result is NumPy's answer at capture,
// and an index that is out of bounds, or a warning, ends the run in Redo.
#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

#include "capture/py/until_exit.h"
#include "codegen/gather.h"
#include "codegen/histogram.h"
#include "codegen/scan.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/numpy_api.h"
#include "ext/library_calls/lapack_native.h"
#include "ext/library_calls/library_call.h"
#include "ext/library_calls/linalg_native.h"
#include "ext/module/control.h"
#include "graph/support/fp_state.h"

namespace framejit::ext::library_calls {

using capture::Ref;
using capture::Wrap;
using codegen::StridedArray;
using graph::DType;
using graph::Op;

namespace {

bool is_slot(const Piece* piece) { return piece && piece->kind == Piece::Slot && piece->wrap == Wrap::NdArray; }

bool is_none(const Piece* piece) { return !piece || (piece->kind == Piece::Known && piece->object.get() == Py_None); }

/// `:`
bool is_whole(const Piece& piece) {
  if (piece.kind != Piece::Slice) {
    auto* slice = reinterpret_cast<PySliceObject*>(piece.object.get());
    return piece.kind == Piece::Known && PySlice_Check(piece.object.get()) && slice->start == Py_None &&
           slice->stop == Py_None && slice->step == Py_None;
  }
  return is_none(&piece.items[0]) && is_none(&piece.items[1]) && is_none(&piece.items[2]);
}

/// The arguments by name; nothing where there is one that has none of these.
std::optional<std::vector<const Piece*>> by_name(const LibraryCall& call, std::initializer_list<const char*> names) {
  std::vector<const Piece*> out(names.size());
  if (call.args.size() > names.size()) return std::nullopt;
  for (std::size_t i = 0; i < call.args.size(); ++i) out[i] = &call.args[i];
  for (const auto& [keyword, piece] : call.keywords) {
    std::size_t at = 0;
    for (const char* name : names) {
      if (PyUnicode_CompareWithASCIIString(keyword.get(), name) == 0) break;
      ++at;
    }
    if (at == names.size()) return std::nullopt;
    out[at] = &piece;
  }
  return out;
}

/// axis=: an int, or None for all elements.
bool read_axis(const Piece* piece, std::optional<int64_t>& axis) {
  if (is_none(piece)) return axis = std::nullopt, true;
  if (piece->kind != Piece::Known || !PyLong_CheckExact(piece->object.get())) return false;
  axis = PyLong_AsLongLong(piece->object.get());
  return !PyErr_Occurred() || (PyErr_Clear(), false);
}

/// x[:, i, j]
bool read_getitem(const LibraryCall& call, NativeCall& out) {
  if (call.args.size() != 2 || !call.keywords.empty() || !is_slot(&call.args[0])) return false;
  out.array = call.args[0].slot;
  const Piece& key = call.args[1];
  if (is_slot(&key)) return out.indices = {key.slot}, true;
  if (key.kind != Piece::Tuple) return false;
  std::size_t i = 0;
  for (; i < key.items.size() && is_whole(key.items[i]); ++i) ++*out.axis;
  for (; i < key.items.size() && is_slot(&key.items[i]); ++i) out.indices.push_back(key.items[i].slot);
  for (; i < key.items.size() && is_whole(key.items[i]); ++i) continue;
  return i == key.items.size() && !out.indices.empty();
}

bool read_take(const LibraryCall& call, NativeCall& out) {
  const auto args = by_name(call, {"a", "indices", "axis", "out", "mode"});
  if (!args || !is_slot((*args)[0]) || !is_slot((*args)[1]) || !is_none((*args)[3]) || (*args)[4]) return false;
  out.array = (*args)[0]->slot;
  out.indices = {(*args)[1]->slot};
  return read_axis((*args)[2], out.axis);
}

bool read_scan(const LibraryCall& call, Op op, bool flat, NativeCall& out) {
  const auto args =
      flat ? by_name(call, {"a", "axis", "dtype", "out"}) : by_name(call, {"array", "axis", "dtype", "out"});
  if (!args || !is_slot((*args)[0]) || !is_none((*args)[3])) return false;
  out.array = (*args)[0]->slot;
  out.kind = NativeCall::Scan;
  out.op = op;
  if (!(*args)[1] && !flat) return true;
  return (flat || !is_none((*args)[1])) && read_axis((*args)[1], out.axis);
}

bool read_find(const LibraryCall& call, Op op, NativeCall& out) {
  const auto args = by_name(call, {"a", "axis", "out"});
  if (!args || !is_slot((*args)[0]) || !is_none((*args)[2])) return false;
  out.array = (*args)[0]->slot;
  out.kind = NativeCall::Find;
  out.op = op;
  return read_axis((*args)[1], out.axis);
}

/// A float, or an int that is a number of float64.
std::optional<double> number_in(const Piece& piece) {
  if (piece.kind != Piece::Known) return std::nullopt;
  PyObject* const o = piece.object.get();
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (!PyLong_CheckExact(o)) return std::nullopt;
  const double number = PyLong_AsDouble(o);
  if (PyErr_Occurred()) PyErr_Clear();
  else if (std::abs(number) < 0x1p53) return number;
  return std::nullopt;
}

/// Intervals of one width. What is no number of elements or sum of weights is left to NumPy.
bool read_histogram(const LibraryCall& call, NativeCall& out) {
  const auto args = by_name(call, {"a", "bins", "range", "density", "weights"});
  if (!args || !is_slot((*args)[0])) return false;
  const Piece *a = (*args)[0], *bins = (*args)[1], *range = (*args)[2], *density = (*args)[3], *weights = (*args)[4];
  out.kind = NativeCall::Histogram;
  out.array = a->slot;
  constexpr double kMostBins = 1 << 24;
  if (bins) {
    const std::optional<double> count = number_in(*bins);
    if (!count || !PyLong_CheckExact(bins->object.get()) || *count < 1 || *count > kMostBins) return false;
    out.bins = static_cast<int64_t>(*count);
  }
  if (!is_none(range)) {
    if (range->kind != Piece::Tuple || range->items.size() != 2) return false;
    const std::optional<double> first = number_in(range->items[0]), last = number_in(range->items[1]);
    if (!first || !last || !(*first < *last)) return false;
    out.range = std::pair(*first, *last);
  }
  if (!is_none(density) && !(density->kind == Piece::Known && density->object.get() == Py_False)) return false;
  if (is_slot(weights)) out.indices = {weights->slot};
  return is_none(weights) || is_slot(weights);
}

bool read_triangle(const LibraryCall& call, bool is_upper, NativeCall& out) {
  const auto args = by_name(call, {"m", "k"});
  if (!args || !is_slot((*args)[0])) return false;
  out.kind = NativeCall::Triangle;
  out.array = (*args)[0]->slot;
  out.is_upper = is_upper;
  if (!(*args)[1]) return true;
  const std::optional<double> diagonal = number_in(*(*args)[1]);
  out.diagonal = static_cast<int64_t>(diagonal.value_or(0));
  return diagonal && PyLong_CheckExact((*args)[1]->object.get());
}

std::optional<Op> scanned(std::string_view ufunc) {
  if (ufunc == "add" || ufunc == "cumsum") return Op::Add;
  if (ufunc == "multiply" || ufunc == "cumprod") return Op::Multiply;
  if (ufunc == "minimum") return Op::Minimum;
  if (ufunc == "maximum") return Op::Maximum;
  return std::nullopt;
}

/// A function of numpy's, or a method of ndarray, by its name; "" for others.
std::string_view name_in_numpy(PyObject* callable) {
  static const auto* const known = [] {
    auto* found = new std::vector<std::pair<PyObject*, const char*>>;
    for (const char* name : {"take", "cumsum", "cumprod", "argmin", "argmax", "histogram", "tril", "triu"})
      for (PyObject* home : {PyModule_GetDict(arrays::numpy_module()), PyArray_Type.tp_dict})
        if (PyObject* function = PyDict_GetItemString(home, name)) found->emplace_back(Py_NewRef(function), name);
    PyObject* operators = PyImport_ImportModule("operator");
    if (PyObject* getitem = operators ? PyObject_GetAttrString(operators, "getitem") : nullptr)
      found->emplace_back(getitem, "getitem");
    PyErr_Clear();
    return found;
  }();
  for (const auto& [function, name] : *known)
    if (function == callable) return name;
  return "";
}

bool recognise(const LibraryCall& call, NativeCall& out) {
  if (call.first || (call.through_view && call.view.empty())) return false;
  PyObject* callable = call.callable.get();
  if (Py_IS_TYPE(callable, &PyUFunc_Type))
    return false;  // calls of ufuncs that loops of ours do are nodes of their own
  const std::string_view name = name_in_numpy(callable);
  if (call.sequence)
    return name == "histogram" ? call.result == Wrap::NdArray && read_histogram(call, out)
                               : read_tridiagonal(call, out);
  if (name == "argmin" || name == "argmax") return read_find(call, name == "argmin" ? Op::Minimum : Op::Maximum, out);
  if (call.result != Wrap::NdArray) return false;
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    const std::string_view method = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    const bool accumulates = self && PyObject_TypeCheck(self, &PyUFunc_Type) && method == "accumulate";
    const char* ufunc = accumulates ? reinterpret_cast<PyUFuncObject*>(self)->name : nullptr;
    if (ufunc && PyDict_GetItemString(PyModule_GetDict(arrays::numpy_module()), ufunc) == self) {
      const std::optional<Op> op = scanned(ufunc);
      return op && read_scan(call, *op, false, out);
    }
  }
  if (name == "getitem") return read_getitem(call, out);
  if (name == "take") return read_take(call, out);
  if (name == "tril" || name == "triu") return read_triangle(call, name == "triu", out);
  if (read_cholesky(call, out) || read_solve(call, out)) return true;
  const std::optional<Op> op = scanned(name);
  return op && read_scan(call, *op, true, out);
}

/// All elements as one axis, where they lie so.
bool flatten(StridedArray& x, int64_t& length, int64_t& stride) {
  length = 1;
  stride = graph::size_of(x.dtype);
  for (std::size_t a = x.shape.size(); a-- > 0;) {
    if (x.shape[a] == 1) continue;
    if (length == 1) stride = x.strides[a];
    if (x.strides[a] != stride * length) return false;
    length *= x.shape[a];
  }
  x.shape = {&length, 1};
  x.strides = {&stride, 1};
  return true;
}

/// np.linspace(first, last, bins + 1): NumPy's edges; null if they do not ascend.
Ref<> edges_of(double first, double last, int64_t bins) {
  static PyObject* const linspace = PyObject_GetAttrString(arrays::numpy_module(), "linspace");
  Ref<> edges = Ref<>::steal(
      linspace ? PyObject_CallFunction(linspace, "ddL", first, last, static_cast<long long>(bins + 1)) : nullptr);
  clear_error();
  if (!edges || !PyArray_CheckExact(edges.get())) return {};
  auto* const array = reinterpret_cast<PyArrayObject*>(edges.get());
  if (PyArray_TYPE(array) != NPY_DOUBLE || PyArray_NDIM(array) != 1 || PyArray_DIM(array, 0) != bins + 1 ||
      !PyArray_IS_C_CONTIGUOUS(array))
    return {};
  const auto* at = static_cast<const double*>(PyArray_DATA(array));
  return std::is_sorted(at, at + bins + 1, std::less_equal<>()) ? std::move(edges) : Ref<>();
}

/// All elements in order as one axis, where that can be.
bool is_line(StridedArray& x, int64_t& length, int64_t& stride) {
  return x.shape.size() == 1 || flatten(x, length, stride);
}

/// False: NumPy has to do it.
bool run_histogram(const NativeCall& native, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  StridedArray x = arrays[native.array], weights{};
  int64_t length, stride, other_length, other_stride;
  if (!is_line(x, length, stride)) return false;
  if (graph::is_float(x.dtype) && x.dtype != DType::F64) return false;  // whose edges are of its dtype
  if (!native.indices.empty()) {
    weights = arrays[native.indices[0]];
    if (weights.dtype != DType::F64 || !std::ranges::equal(weights.shape, arrays[native.array].shape) ||
        !is_line(weights, other_length, other_stride))
      return false;
  }
  const std::optional<std::pair<double, double>> found = native.range ? native.range : codegen::range_of(x);
  if (!found) return false;
  auto [first, last] = *found;
  if (first == last) first -= 0.5, last += 0.5;
  if (last == 0.0 || !std::isfinite(last - first)) return false;  // which of two zeros the last edge is
  const module::ScopedGil gil;
  if (((arrays::ErrState::current().watched() & ~rule.ignored) | rule.trapped) & FE_UNDERFLOW) return false;
  const Ref<> edges = edges_of(first, last, native.bins);
  if (!edges) return false;
  auto* const array = reinterpret_cast<PyArrayObject*>(edges.get());
  const std::span<const double> at(static_cast<const double*>(PyArray_DATA(array)),
                                   static_cast<std::size_t>(native.bins) + 1);
  if (!codegen::histogram(x, native.indices.empty() ? nullptr : &weights, at, !native.range, arrays.back()))
    return false;
  Ref<> items = Ref<>::steal(PyTuple_Pack(2, Py_None, edges.get()));
  clear_error();
  if (!items) return false;
  keep_items(arrays.back().data, std::move(items), 1);
  return true;
}

/// False: the rows are not contiguous.
bool run_triangle(const NativeCall& native, const StridedArray& x, const StridedArray& out) {
  const auto item = static_cast<int64_t>(graph::size_of(x.dtype));
  if (x.shape.size() != 2 || out.shape.size() != 2 || x.strides[1] != item || out.strides[1] != item) return false;
  const int64_t columns = x.shape[1];
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    // In front of this column the elements are of one kind, from there on of the other.
    const int64_t cut = std::clamp<int64_t>(i + native.diagonal + !native.is_upper, 0, columns);
    const int64_t first = native.is_upper ? cut : 0, end = native.is_upper ? columns : cut;
    char* const row = out.data + i * out.strides[0];
    std::memset(row, 0, static_cast<std::size_t>(first * item));
    if (end > first)
      std::memcpy(row + first * item, x.data + i * x.strides[0] + first * item,
                  static_cast<std::size_t>((end - first) * item));
    std::memset(row + end * item, 0, static_cast<std::size_t>((columns - end) * item));
  }
  return true;
}

bool run_native(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  auto& native = *static_cast<NativeCall*>(context);
  if (native.kind == NativeCall::Tridiagonal) return run_tridiagonal(native, arrays, rule);
  if (native.kind == NativeCall::Solve) return run_solve(native, arrays, rule);
  if (native.kind == NativeCall::Cholesky) return run_cholesky(native, arrays, rule);
  if (native.kind == NativeCall::Histogram) {
    const unsigned flags = _mm_getcsr();
    const bool done = run_histogram(native, arrays, rule);
    _mm_setcsr(flags);
    return done || native.otherwise(native.call, arrays, rule);
  }
  StridedArray x = arrays[native.array], out = arrays.back();
  // What the program sees, which may be a transposition of the memory.
  std::array<int64_t, 16> lengths, strides;
  const std::vector<std::size_t>& view = native.call->view;
  if (view.size() > lengths.size()) return native.otherwise(native.call, arrays, rule);
  for (std::size_t a = 0; a < view.size(); ++a) lengths[a] = out.shape[view[a]], strides[a] = out.strides[view[a]];
  if (!view.empty())
    out.shape = std::span(lengths).first(view.size()), out.strides = std::span(strides).first(view.size());
  if (native.kind == NativeCall::Triangle)
    return run_triangle(native, x, out) || native.otherwise(native.call, arrays, rule);
  int64_t length, stride;
  const bool flat = !native.axis && flatten(x, length, stride);
  const auto rank = static_cast<int64_t>(x.shape.size());
  const int64_t axis = flat ? 0 : native.axis ? *native.axis + (*native.axis < 0 ? rank : 0) : -1;
  if (axis < 0 || axis >= rank) return native.otherwise(native.call, arrays, rule);
  if (native.kind == NativeCall::Find) {
    int64_t elements = 1;
    for (int64_t n : x.shape) elements *= n;
    return (elements <= kMostFound && codegen::find_extreme(native.op, x, static_cast<std::size_t>(axis), out)) ||
           native.otherwise(native.call, arrays, rule);
  }
  if (native.kind == NativeCall::Gather) {
    std::array<const StridedArray*, 4> indices;
    if (native.indices.size() > indices.size()) return native.otherwise(native.call, arrays, rule);
    for (std::size_t k = 0; k < native.indices.size(); ++k) indices[k] = &arrays[native.indices[k]];
    const auto made =
        codegen::gather(x, std::span(indices).first(native.indices.size()), static_cast<std::size_t>(axis), out);
    return made == codegen::Gathered::Unknown ? native.otherwise(native.call, arrays, rule)
                                              : made == codegen::Gathered::Done;
  }
  // Which of two zeros it is goes by the way that NumPy takes.
  const bool extreme = native.op == Op::Minimum || native.op == Op::Maximum;
  if (extreme && !graph::is_int(x.dtype) && x.dtype != DType::Bool) return native.otherwise(native.call, arrays, rule);
  clear_fp_flags();
  if (!codegen::scan(native.op, x, static_cast<std::size_t>(axis), out))
    return native.otherwise(native.call, arrays, rule);
  const unsigned raised = fp_flags() & kReportedFlags;
  if (raised == 0 || extreme) return true;
  const PyGILState_STATE gil = capture::py::until_exit(PyGILState_Ensure);
  const unsigned watched = (arrays::ErrState::current().watched() & ~rule.ignored) | rule.trapped;
  PyGILState_Release(gil);
  return (raised & watched) == 0;
}

}  // namespace

codegen::LibraryFunction native_function(LibraryCall& call, RunLibraryCall otherwise, bool o1) {
  if (!call.native) {
    NativeCall native{&call, otherwise};
    if (!recognise(call, native)) return {};
    call.native = std::make_unique<NativeCall>(std::move(native));
  }
  static constexpr const char* kNames[] = {"gather",      "scan",     "find",     "histogram",
                                           "tridiagonal", "cholesky", "triangle", "solve"};
  if (is_of_o1(*call.native) && !o1) return {};
  return {run_native, call.native.get(), kNames[call.native->kind]};
}

}  // namespace framejit::ext::library_calls
