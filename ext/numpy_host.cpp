// Host calls: see numpy_host.h.
#include "ext/numpy_host.h"

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/warnings.h"
#include "ext/errstate.h"
#include "ext/host_records.h"
#include "ext/numpy_door_parts.h"
#include "ext/numpy_host_call.h"
#include "ext/numpy_index.h"
#include "graph/layout.h"
#include "graph/pass.h"
#include "graph/support/check.h"

namespace framejit::ext {

using capture::SourceRef;
using capture::WarningsRaise;
using codegen::HostArray;
using graph::Dim;
using graph::Dims;

namespace {

// ---- the list

/// By module: functions that only read their arguments and give a fresh array or a number.
struct Listed {
  const char* module;
  std::vector<const char*> names;
};

const std::vector<Listed>& listed() {
  static const std::vector<Listed> all = {
      {"numpy",
       {"sort",       "argsort",     "lexsort",     "partition", "argpartition", "searchsorted", "digitize", "interp",
        "convolve",   "correlate",   "cumsum",      "cumprod",   "argmin",       "argmax",       "take",     "choose",
        "trace",      "dot",         "vdot",        "inner",     "tensordot",    "einsum",       "kron",     "linspace",
        "logspace",   "geomspace",   "eye",         "identity",  "tri",          "tril",         "triu",     "bartlett",
        "blackman",   "hamming",     "hanning",     "kaiser",    "percentile",   "quantile",     "median",   "repeat",
        "tile",       "nansum",      "nanprod",     "nancumsum", "nancumprod",   "nan_to_num",   "isclose",  "i0",
        "unwrap",     "vander",      "packbits",  "unpackbits",   "isin",         "allclose", "array_equal",
        "polyval",    "pad",         "select",  "bincount", "nanmean", "nanmedian", "nanpercentile", "nanquantile", "nanvar", "nanstd",
        "nanmax",     "nanmin",      "nanargmax",   "nanargmin", "ediff1d",      "histogram_bin_edges", "block",
        "histogram", "insert",   "delete",       "unravel_index", "ravel_multi_index", "tril_indices", "triu_indices"}},
      {"numpy.linalg", {"inv", "solve", "det", "cholesky", "pinv", "matrix_power", "eigvalsh", "norm", "cond", "matrix_rank", "eigvals", "multi_dot",
                        "tensorinv", "tensorsolve", "matrix_norm", "vector_norm", "vecdot",
                        "eigh", "svd", "qr", "slogdet"}},
      {"numpy.fft", {"fftfreq", "rfftfreq", "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "irfft", "rfft2", "irfft2", "rfftn", "irfftn",
                     "hfft", "ihfft"}},
      {"framejit._host", {"unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "rounded", "lstsq", "histogram2d"}},
  };
  return all;
}

}  // namespace

namespace {

/// A ufunc of numbers that NumPy, or scipy.special, has under its own name.
bool is_library_ufunc(PyUFuncObject* ufunc) {
  if (!ufunc->name || ufunc->ntypes == 0 || ufunc->types[0] == NPY_OBJECT) return false;
  for (const char* home : {"numpy", "scipy.special"}) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), home);
    PyObject* found = module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), ufunc->name) : nullptr;
    if (found == reinterpret_cast<PyObject*>(ufunc)) return true;
  }
  return false;
}

}  // namespace

bool is_host_function(PyObject* callable) {
  static auto* known = new std::map<PyObject*, bool>;  // those found: kept alive for ever
  if (auto at = known->find(callable); at != known->end()) return at->second;
  if (!PyCallable_Check(callable) || PyType_Check(callable)) return false;
  if (PyObject_TypeCheck(callable, &PyUFunc_Type)) return is_library_ufunc(reinterpret_cast<PyUFuncObject*>(callable));
  Ref<> home = Ref<>::steal(PyObject_GetAttrString(callable, "__module__"));
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  const char* words = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!words || !home || !PyUnicode_Check(home.get())) return false;
  for (const Listed& row : listed()) {
    if (PyUnicode_CompareWithASCIIString(home.get(), row.module) != 0) continue;
    if (std::none_of(row.names.begin(), row.names.end(), [&](const char* n) { return std::string_view(n) == words; })) continue;
    Ref<> module = Ref<>::steal(PyImport_GetModule(home.get()));
    Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), words)) : Ref<>();
    PyErr_Clear();
    if (found.get() != callable) return false;
    Py_INCREF(callable);
    return (*known)[callable] = true;
  }
  return false;
}

bool is_host_method(std::string_view name) {
  for (std::string_view known : {"argmin", "argmax", "argsort", "argpartition", "cumsum", "cumprod", "take", "choose", "trace", "repeat",
                                 "searchsorted", "dot", "round", "byteswap", "__divmod__"})
    if (name == known) return true;
  return false;
}

namespace {

// ---- a call, as data

// Custom operators are numbered from 0.
constexpr int64_t kFirstIndex = graph::kFirstRaisingHost;

bool same_pieces(const Piece& a, const Piece& b) {
  if (a.kind != b.kind || a.slot != b.slot || a.wrap != b.wrap || a.items.size() != b.items.size()) return false;
  if (a.object.get() != b.object.get()) {
    if (!a.object || !b.object || !PyLong_CheckExact(a.object.get()) || !PyLong_CheckExact(b.object.get())) return false;
    if (PyObject_RichCompareBool(a.object.get(), b.object.get(), Py_EQ) != 1) return false;
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), same_pieces);
}

bool same_calls(const HostCall& a, const HostCall& b) {
  return a.callable.get() == b.callable.get() && a.result == b.result && a.through_view == b.through_view && a.view == b.view && a.sequence == b.sequence &&
         a.count == b.count && a.first == b.first && a.item == b.item &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_pieces) &&
         std::equal(a.keywords.begin(), a.keywords.end(), b.keywords.begin(), b.keywords.end(), [](const auto& x, const auto& y) {
           return x.first.get() == y.first.get() && same_pieces(x.second, y.second);
         });
}

std::vector<std::unique_ptr<HostCall>>& calls() {
  static auto* all = new std::vector<std::unique_ptr<HostCall>>;  // plans hold the pointers
  return *all;
}

/// What a run hands to a piece: the objects for the operands.
Ref<> build(const Piece& piece, const std::vector<Ref<>>& operands) {
  if (piece.kind == Piece::Known) return piece.object;
  if (piece.kind == Piece::Slot) return operands[piece.slot];
  const auto count = static_cast<Py_ssize_t>(piece.items.size());
  Ref<> out = Ref<>::steal(piece.kind == Piece::List ? PyList_New(count) : PyTuple_New(count));
  for (Py_ssize_t i = 0; out && i < count; ++i) {
    Ref<> item = build(piece.items[static_cast<std::size_t>(i)], operands);
    if (!item) return {};
    if (piece.kind == Piece::List)
      PyList_SET_ITEM(out.get(), i, item.release());
    else
      PyTuple_SET_ITEM(out.get(), i, item.release());
  }
  if (out && piece.kind == Piece::Slice)
    return Ref<>::steal(PySlice_New(PyTuple_GET_ITEM(out.get(), 0), PyTuple_GET_ITEM(out.get(), 1), PyTuple_GET_ITEM(out.get(), 2)));
  return out;
}

Ref<> invoke(const HostCall& call, const std::vector<Ref<>>& operands) {
  std::vector<Ref<>> held;  // what is built for this call alone
  std::vector<PyObject*> stack;
  stack.reserve(call.args.size() + call.keywords.size());
  const auto push = [&](const Piece& piece) {
    PyObject* object = piece.kind == Piece::Known ? piece.object.get() : nullptr;
    if (piece.kind == Piece::Slot) object = operands[piece.slot].get();
    if (!object) object = held.emplace_back(build(piece, operands)).get();
    stack.push_back(object);
    return object != nullptr;
  };
  for (const Piece& piece : call.args)
    if (!push(piece)) return {};
  for (const auto& [name, piece] : call.keywords)
    if (!push(piece)) return {};
  return Ref<>::steal(PyObject_Vectorcall(call.callable.get(), stack.data(), call.args.size(), call.names.get()));
}

/// The wraps of the slots, in their order.
void collect(const Piece& piece, std::vector<Wrap>& wraps) {
  if (piece.kind == Piece::Slot) {
    if (wraps.size() <= piece.slot) wraps.resize(piece.slot + 1);
    wraps[piece.slot] = piece.wrap;
  }
  for (const Piece& item : piece.items) collect(item, wraps);
}

std::vector<Wrap> wraps_of(const HostCall& call) {
  std::vector<Wrap> wraps;
  for (const Piece& piece : call.args) collect(piece, wraps);
  for (const auto& [name, piece] : call.keywords) collect(piece, wraps);
  return wraps;
}

Ref<> array_over(DType dtype, std::span<const int64_t> shape, std::span<const int64_t> strides, char* data, int flags) {
  PyArray_Descr* descr = descr_of(dtype);
  Py_INCREF(descr);
  return Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), shape.data(), strides.data(), data,
                                           flags, nullptr));
}

/// The object that stands for an operand in memory.
Ref<> as_object(const HostArray& a, Wrap wrap, int flags) {
  switch (wrap) {
    case Wrap::NdArray: return array_over(a.dtype, a.shape, a.strides, a.data, flags);
    case Wrap::NumpyScalar: return Ref<>::steal(PyArray_Scalar(a.data, descr_of(a.dtype), nullptr));
    case Wrap::PyFloat: return Ref<>::steal(PyFloat_FromDouble(*reinterpret_cast<const double*>(a.data)));
    case Wrap::PyInt: return Ref<>::steal(PyLong_FromLongLong(*reinterpret_cast<const int64_t*>(a.data)));
    case Wrap::PyBool: return Ref<>::steal(PyBool_FromLong(*a.data != 0));
    case Wrap::PyComplex:
    case Wrap::Tensor: break;
  }
  return {};
}

/// The fresh array that `array` shows the whole of, in another order of its axes; null: it is none of these.
PyArrayObject* shown_whole(PyArrayObject* array) {
  PyObject* base = PyArray_BASE(array);
  if (!base || !PyArray_CheckExact(base)) return nullptr;
  auto* owner = reinterpret_cast<PyArrayObject*>(base);
  const bool whole = PyArray_BYTES(owner) == PyArray_BYTES(array) && PyArray_SIZE(owner) == PyArray_SIZE(array) &&
                     PyArray_TYPE(owner) == PyArray_TYPE(array) && PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED);
  return whole ? owner : nullptr;
}

/// Its object as what the graph says the result is: written to `out`.
bool take_result(PyObject* object, Wrap wrap, bool through_view, const HostArray& out) {
  if (!object) return false;
  if (through_view) {
    if (!PyArray_CheckExact(object)) return false;
    object = reinterpret_cast<PyObject*>(shown_whole(reinterpret_cast<PyArrayObject*>(object)));
    if (!object) return false;
  }
  if (wrap == Wrap::NumpyScalar) {
    if (scalar_dtype_of(object) != out.dtype) return false;
    PyArray_ScalarAsCtype(object, out.data);
    return true;
  }
  if (wrap == Wrap::PyFloat && PyFloat_CheckExact(object)) {
    *reinterpret_cast<double*>(out.data) = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (wrap == Wrap::PyBool && PyBool_Check(object)) {
    *out.data = object == Py_True;
    return true;
  }
  if (wrap == Wrap::PyInt && PyLong_CheckExact(object)) {
    const long long number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred()) return false;
    *reinterpret_cast<int64_t*>(out.data) = number;
    return true;
  }
  if (wrap != Wrap::NdArray || !PyArray_CheckExact(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (dtype_of(PyArray_DESCR(array)) != out.dtype || PyArray_NDIM(array) != static_cast<int>(out.shape.size())) return false;
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (PyArray_DIM(array, i) != out.shape[at] || PyArray_STRIDE(array, i) != out.strides[at]) return false;
  }
  if (!PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED | NPY_ARRAY_OWNDATA)) return false;
  std::memcpy(out.data, PyArray_BYTES(array), static_cast<std::size_t>(PyArray_NBYTES(array)));
  return true;
}

/// What a function raises of itself the bytecode will raise; what a signal handler raised in between is raised once we are out of here.
void clear_error() {
  if (!PyErr_Occurred()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  static PyObject* const linalg = PyObject_GetAttrString(numpy_module(), "linalg");
  static PyObject* const singular = linalg ? PyObject_GetAttrString(linalg, "LinAlgError") : nullptr;  // no ValueError in NumPy 1
  PyErr_Restore(type, value, traceback);
  for (PyObject* own : {PyExc_ValueError, PyExc_TypeError, PyExc_LookupError, PyExc_ArithmeticError, PyExc_MemoryError, PyExc_RuntimeError, PyExc_Warning,
                        PyExc_AttributeError, PyExc_NameError, PyExc_AssertionError, PyExc_BufferError, PyExc_SystemError, singular})
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(own)) return PyErr_Clear();
  struct Raised {
    PyObject *type, *value, *traceback;
  };
  auto* raised = new Raised;
  PyErr_Fetch(&raised->type, &raised->value, &raised->traceback);
  Py_AddPendingCall(
      [](void* memory) {
        auto* all = static_cast<Raised*>(memory);
        PyErr_Restore(all->type, all->value, all->traceback);
        delete all;
        return -1;
      },
      raised);
}

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};

/// What calls have given that is not taken yet, by the memory of its first item: that belongs to one run as long as anything of it is
/// asked for. A run that ends before leaves its own behind, so the oldest go.
class Given {
 public:
  void put(const char* memory, Ref<> items, Py_ssize_t left) {
    Ref<> old = take(memory);
    if (given_.size() == kMost) {
      old = std::move(given_.front().items);
      given_.erase(given_.begin());
    }
    given_.push_back({memory, std::move(items), left});
  }
  /// All items; null where there are none. The last one that asks for one of them ends their life here.
  Ref<> get(const char* memory) {
    for (Entry& entry : given_)
      if (entry.memory == memory) return --entry.left > 0 ? entry.items : take(memory);
    return {};
  }

 private:
  static constexpr std::size_t kMost = 16;
  struct Entry {
    const char* memory;
    Ref<> items;
    Py_ssize_t left;
  };
  Ref<> take(const char* memory) {
    const auto at = std::find_if(given_.begin(), given_.end(), [memory](const Entry& entry) { return entry.memory == memory; });
    if (at == given_.end()) return {};
    Ref<> items = std::move(at->items);
    given_.erase(at);
    return items;
  }
  std::vector<Entry> given_;
};

Given& given() {
  static auto* all = new Given;  // with the GIL only
  return *all;
}

/// An item of what a call gives, borrowed.
PyObject* item_of(PyObject* items, Py_ssize_t i) {
  return PyList_CheckExact(items) ? PyList_GET_ITEM(items, i) : PyTuple_GET_ITEM(items, i);
}

/// Does the call only move and compare elements, so that it neither sets a floating-point flag nor warns, and never writes to an operand?
bool is_quiet(const HostCall& call) {
  static const auto* const names = [] {
    auto* found = new std::vector<PyObject*>;
    for (const char* name : {"sort", "argsort", "argmin", "argmax", "searchsorted", "repeat", "tile"})
      for (PyObject* home : {PyModule_GetDict(numpy_module()), PyArray_Type.tp_dict})
        if (PyObject* function = PyDict_GetItemString(home, name)) found->push_back(Py_NewRef(function));
    return found;
  }();
  return std::find(names->begin(), names->end(), call.callable.get()) != names->end();
}

/// What each run of the call would find out again.
void prepare(HostCall& call) {
  call.wraps = wraps_of(call);
  call.quiet = is_quiet(call);
  if (call.keywords.empty()) return;
  call.names = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(call.keywords.size())));
  FRAMEJIT_CHECK(call.names, "no memory for the names of keywords");
  for (std::size_t i = 0; i < call.keywords.size(); ++i)
    PyTuple_SET_ITEM(call.names.get(), static_cast<Py_ssize_t>(i), Ref<>(call.keywords[i].first).release());
}

bool run_host(void* context, std::span<const HostArray> arrays, graph::FlagRule rule) {
  const auto& call = *static_cast<const HostCall*>(context);
  const Gil gil;
  if (call.first) {
    const Ref<> items = given().get(arrays[0].data);
    return items && take_result(item_of(items.get(), call.item), call.result, call.through_view, arrays.back());
  }
  std::vector<Ref<>> operands;
  operands.reserve(call.wraps.size());
  // Of what is not writeable, some functions make a copy before they read it.
  for (std::size_t i = 0; i < call.wraps.size(); ++i)
    operands.push_back(as_object(arrays[i], call.wraps[i], call.quiet ? NPY_ARRAY_WRITEABLE : 0));
  Ref<> result;
  if (call.quiet) {
    result = invoke(call, operands);
  } else {
    const ErrState now = ErrState::current();
    const unsigned watched = (now.watched() & ~rule.ignored) | rule.minded;
    std::optional<OwnErrState> raising;
    if (watched != now.watched() || !now.warns_only()) raising.emplace(watched);  // else what warns raises
    WarningsRaise too;
    result = invoke(call, operands);
  }
  bool fits = !call.sequence || (result && Py_IS_TYPE(result.get(), call.sequence) && Py_SIZE(result.get()) == call.count);
  PyObject* item = fits && call.sequence ? item_of(result.get(), 0) : result.get();
  fits = fits && take_result(item, call.result, call.through_view, arrays.back());
  clear_error();
  if (fits && call.count > 1) given().put(arrays.back().data, std::move(result), call.count - 1);
  return fits;
}

// ---- capture

struct Arguments {
  Session& session;
  std::vector<ValueId> operands;
  std::vector<Wrap> wraps;
};

Captured<Piece> slot(Arguments& into, const Value* value) {
  Piece piece;
  piece.kind = Piece::Slot;
  piece.wrap = value->wrap;
  const graph::Graph& graph = into.session.graph();
  if (graph.node(graph.root(value->id)).op == Op::Constant)
    return break_at(BreakId::UnsupportedArgument, "a number of the graph as the argument of a host call");
  for (piece.slot = 0; piece.slot < into.operands.size(); ++piece.slot)
    if (into.operands[piece.slot] == value->id && into.wraps[piece.slot] == value->wrap) return piece;
  into.operands.push_back(value->id);
  into.wraps.push_back(value->wrap);
  return piece;
}

/// Objects that are the same at each call, and that no function changes.
bool is_immutable(PyObject* o) {
  return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
         PyComplex_CheckExact(o) || PyUnicode_CheckExact(o) || PyArray_DescrCheck(o) || PyType_Check(o) || scalar_dtype_of(o) ||
         PyTuple_CheckExact(o) || o == no_value();
}

Captured<Piece> argument(Arguments& into, Value* value) {
  Piece piece;
  switch (value->kind) {
    case ValueKind::Constant: {
      PyObject* o = value->object.get();
      if (compilable(o) && value->source && PyArray_Check(o)) {
        FRAMEJIT_TRY(input, wrap_object(into.session, o, value->source));
        return slot(into, input);
      }
      if (!is_immutable(o)) break;
      piece.object = value->object;
      return piece;
    }
    case ValueKind::Int: {
      piece.object = Ref<>::steal(PyLong_FromLongLong(into.session.graph().shapes().specialize(value->dim)));
      return piece;
    }
    case ValueKind::Array:
      if (value->wrap == Wrap::PyComplex || value->wrap == Wrap::Tensor) break;
      return slot(into, value);
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Slice:
      piece.kind = value->kind == ValueKind::Tuple ? Piece::Tuple : value->kind == ValueKind::List ? Piece::List : Piece::Slice;
      if (value->partial) break;
      for (Value* item : value->items) {
        FRAMEJIT_TRY(part, argument(into, item));
        piece.items.push_back(std::move(part));
      }
      return piece;
    default: break;
  }
  return break_at(BreakId::UnsupportedArgument, "an argument of type " + type_name(*value) + " of a host call");
}

/// Lengths in place of those of the operands that are symbolic or large, in three variants. The second one moves each of them by another
/// power of 7, so that a result's length that is a sum of multiples of them tells the multiples; the third one is to check.
class StandIns {
 public:
  /// Of all lengths of the operands: a longer one has a longer stand-in.
  StandIns(Session& session, const std::vector<ValueId>& operands) : session_(session) {
    graph::ShapeEnv& shapes = session.graph().shapes();
    Dims all;
    for (ValueId operand : operands)
      for (const Dim& dim : session.graph().type(operand).shape) all.push_back(dim);
    std::stable_sort(all.begin(), all.end(), [&](const Dim& a, const Dim& b) { return shapes.hint(a) < shapes.hint(b); });
    for (const Dim& dim : all) of(dim, 0);
  }

  int64_t of(const Dim& dim, int variant) {
    const graph::ShapeEnv& shapes = session_.graph().shapes();
    const int64_t real = shapes.hint(dim);
    if (dim.is_const() && real <= kSmall) return real;
    std::size_t at = 0;
    while (at < dims_.size() && !(dims_[at] == dim)) {
      if (shapes.hint(dims_[at]) == real && session_.graph().shapes().equal(dims_[at], dim)) break;
      ++at;
    }
    if (at == dims_.size()) dims_.push_back(dim);
    return length(at, variant);
  }

  bool few() const { return dims_.size() <= kMost; }
  /// The real length of what was so long in the three variants.
  std::optional<Dim> real(int64_t first, int64_t second, int64_t third) const {
    Dim sum = 0;
    int64_t rest = second - first, at_first = 0, at_third = 0;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      const int64_t multiple = ((rest % 7) + 10) % 7 - 3;  // the digit of `rest` in base 7, between -3 and 3
      rest = (rest - multiple) / 7;
      sum = sum + dims_[i] * Dim(multiple);
      at_first += multiple * length(i, 0);
      at_third += multiple * length(i, 2);
    }
    if (rest != 0 || third - at_third != first - at_first) return std::nullopt;
    return sum + Dim(first - at_first);
  }

 private:
  static constexpr int64_t kSmall = 16;
  static constexpr std::size_t kMost = 3;

  static int64_t length(std::size_t at, int variant) {
    int64_t power = 1;
    for (std::size_t i = 0; i < std::min(at, kMost); ++i) power *= 7;
    const int64_t base = 23 + 8 * static_cast<int64_t>(at);
    return variant == 0 ? base : variant == 1 ? base + power : base + 2 * power + 3 + static_cast<int64_t>(at);
  }

  Session& session_;
  std::vector<Dim> dims_;
};

using Lengths = std::function<int64_t(const Dim&)>;

/// An array of ours like an operand: its dtype, its axes in the same order of memory, packed where it is, with ones on the diagonal of the
/// last two axes.
Ref<> like(Session& session, ValueId operand, const Lengths& length) {
  graph::ShapeEnv& shapes = session.graph().shapes();
  const graph::Type type = session.graph().type(operand);
  const int rank = type.rank();
  std::vector<int64_t> shape, strides(static_cast<std::size_t>(rank));
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) {
    shape.push_back(length(type.shape[static_cast<std::size_t>(i)]));
    order.push_back(i);
  }
  auto hint = [&](int axis) { return std::abs(shapes.hint(type.strides[static_cast<std::size_t>(axis)])); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return hint(a) > hint(b); });
  int64_t packed = graph::size_of(type.dtype), extent = packed;
  for (int i = 0; i < rank; ++i) {
    const int64_t real = shapes.hint(type.shape[static_cast<std::size_t>(i)]);
    packed *= real;
    if (real > 1) extent += (real - 1) * hint(i);
  }
  const bool loose = extent > packed;
  int64_t step = graph::size_of(type.dtype) * (loose ? 2 : 1), bytes = step;
  int64_t offset = 0;
  for (int i = rank; i-- > 0;) {
    const auto at = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    const int64_t real = shapes.hint(type.strides[at]);
    strides[at] = real == 0 ? 0 : real < 0 ? -step : step;
    if (real < 0) offset += step * (shape[at] - 1);
    if (real != 0) step *= std::max<int64_t>(shape[at], 1);
    bytes = std::max(bytes, step);
  }
  npy_intp size = bytes;
  Ref<> memory = Ref<>::steal(PyArray_ZEROS(1, &size, NPY_UINT8, 0));
  if (!memory) return {};
  char* data = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(memory.get())) + offset;
  PyArray_Descr* descr = descr_of(type.dtype);
  Py_INCREF(descr);
  Ref<> array = Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape.data(), strides.data(), data,
                                                  NPY_ARRAY_WRITEABLE, nullptr));
  if (!array || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), memory.release()) < 0) return {};
  if (rank >= 2 && std::find(shape.begin(), shape.end(), 0) == shape.end()) {
    Ref<> ones = Ref<>::steal(PyObject_CallMethod(numpy_module(), "eye", "LL", static_cast<long long>(shape[shape.size() - 2]),
                                                  static_cast<long long>(shape.back())));
    if (!ones || PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(array.get()), reinterpret_cast<PyArrayObject*>(ones.get())) < 0)
      return {};
  }
  return array;
}

Ref<> example(Session& session, ValueId operand, Wrap wrap, int64_t number, const Lengths& length) {
  switch (wrap) {
    case Wrap::NdArray: return like(session, operand, length);
    case Wrap::NumpyScalar: {
      const DType dtype = session.graph().type(operand).dtype;
      int64_t bits[2] = {graph::is_int(dtype) ? number : 0, 0};
      return Ref<>::steal(PyArray_Scalar(bits, descr_of(dtype), nullptr));
    }
    case Wrap::PyFloat: return Ref<>::steal(PyFloat_FromDouble(0.5));
    case Wrap::PyInt: return Ref<>::steal(PyLong_FromLongLong(number));
    case Wrap::PyBool: return Ref<>::share(Py_True);
    case Wrap::PyComplex:
    case Wrap::Tensor: break;
  }
  return {};
}

/// What a call gives, in lengths as they were in that call.
struct Seen {
  Wrap wrap = Wrap::NdArray;
  DType dtype = DType::F64;
  std::vector<int64_t> shape;
  graph::AxisOrder order;
  std::vector<int64_t> reshaped;  // where the fresh array is given through a view of another shape: that
  std::vector<std::size_t> view;  // where the fresh array is given through a view: the axes of it in the view's order
};

/// The axes from the fastest to the slowest, where the array is packed.
std::optional<graph::AxisOrder> order_of(PyArrayObject* array) {
  const int rank = PyArray_NDIM(array);
  graph::AxisOrder c = graph::c_order(rank), f(c.rbegin(), c.rend()), sorted = c;
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) { return PyArray_STRIDE(array, a) < PyArray_STRIDE(array, b); });
  for (const graph::AxisOrder& order : {c, f, sorted}) {
    npy_intp step = PyArray_ITEMSIZE(array);
    bool packed = true;
    for (int axis : order) {
      packed = packed && PyArray_STRIDE(array, axis) == step;
      step *= PyArray_DIM(array, axis);
    }
    if (packed) return order;
  }
  return std::nullopt;
}

/// The axes of `whole` in the order of the view's; false where the view is no transposition.
bool transposed_axes(PyArrayObject* view, PyArrayObject* whole, std::vector<std::size_t>& axes) {
  const int rank = PyArray_NDIM(whole);
  if (PyArray_NDIM(view) != rank) return false;
  for (int i = 0; i < rank; ++i) {
    int found = -1;
    for (int k = 0; k < rank; ++k)
      if (PyArray_STRIDE(view, i) == PyArray_STRIDE(whole, k) && PyArray_DIM(view, i) == PyArray_DIM(whole, k) &&
          std::find(axes.begin(), axes.end(), static_cast<std::size_t>(k)) == axes.end())
        found = k;
    if (found < 0) return false;
    axes.push_back(static_cast<std::size_t>(found));
  }
  return true;
}

Captured<Seen> look_at(PyObject* object, const std::string& name) {
  Seen seen;
  if (auto dtype = scalar_dtype_of(object)) return Seen{Wrap::NumpyScalar, *dtype, {}, {}};
  if (PyBool_Check(object)) return Seen{Wrap::PyBool, DType::Bool, {}, {}};
  if (PyLong_CheckExact(object)) return Seen{Wrap::PyInt, DType::I64, {}, {}};
  if (PyFloat_CheckExact(object)) return Seen{Wrap::PyFloat, DType::F64, {}, {}};
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (PyArray_CheckExact(object) && !PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA)) {
    PyArrayObject* whole = shown_whole(array);
    if (whole && transposed_axes(array, whole, seen.view)) {
      array = whole;
    } else if (whole && PyArray_IS_C_CONTIGUOUS(whole) && PyArray_SIZE(array) > 0 && order_of(array) == graph::c_order(PyArray_NDIM(array))) {
      seen.view.clear();
      seen.reshaped.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
      array = whole;
    }
  }
  if (!PyArray_CheckExact(object) || !PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED | NPY_ARRAY_OWNDATA) || PyArray_SIZE(array) == 0)
    return break_at(BreakId::UnsupportedArgument, name + " gives no fresh array here");
  std::optional<DType> dtype = dtype_of(PyArray_DESCR(array));
  std::optional<graph::AxisOrder> order = order_of(array);
  if (!dtype || !order) return break_at(BreakId::UnsupportedArgument, name + " gives an array of a kind that is not compiled");
  seen.dtype = *dtype;
  seen.order = std::move(*order);
  seen.shape.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
  return seen;
}

std::string name_of_callable(PyObject* callable) {
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* words = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  std::string text = words ? words : "a host call";
  PyErr_Clear();
  return text;
}

/// The same of a call, whose several results come in a tuple or list.
struct AllSeen {
  PyTypeObject* sequence = nullptr;
  std::vector<Seen> items;
};

/// np.linalg gives tuples with names, whose classes are those of its module.
bool is_sequence_of_results(PyObject* object) {
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  PyObject* home = PyTuple_Check(object) ? PyDict_GetItemString(type->tp_dict, "__module__") : nullptr;
  const char* words = home && PyUnicode_Check(home) ? PyUnicode_AsUTF8(home) : nullptr;
  return words && std::string_view(words).starts_with("numpy.linalg.");
}

Captured<AllSeen> look_at_all(PyObject* object, const std::string& name) {
  AllSeen all;
  const bool several = is_sequence_of_results(object);
  if (several) all.sequence = Py_TYPE(object);
  if (several && Py_SIZE(object) == 0) return break_at(BreakId::UnsupportedArgument, name + " gives nothing here");
  for (Py_ssize_t i = 0; i < (several ? Py_SIZE(object) : 1); ++i) {
    FRAMEJIT_TRY(seen, look_at(several ? item_of(object, i) : object, name));
    all.items.push_back(std::move(seen));
  }
  return all;
}

/// The call of examples, in which every int that is known at run time only is `number`.
Captured<AllSeen> try_out(Arguments& arguments, const HostCall& call, int64_t number, const Lengths& length) {
  std::vector<Ref<>> objects;
  for (std::size_t i = 0; i < arguments.operands.size(); ++i)
    objects.push_back(example(arguments.session, arguments.operands[i], arguments.wraps[i], number, length));
  const std::string name = name_of_callable(call.callable.get());
  Ref<> result;
  if (std::all_of(objects.begin(), objects.end(), [](const Ref<>& o) { return static_cast<bool>(o); })) {
    OwnErrState quiet(0);
    WarningsRaise raising;
    result = invoke(call, objects);
  }
  clear_error();
  if (!result) return break_at(BreakId::UnsupportedArgument, name + " of such arguments");
  return look_at_all(result.get(), name);
}

constexpr int64_t kMostTried = 1 << 16;  // elements

bool same_but_lengths(const Seen& a, const Seen& b) {
  return a.wrap == b.wrap && a.dtype == b.dtype && a.order == b.order && a.view == b.view && a.shape.size() == b.shape.size() &&
         a.reshaped.size() == b.reshaped.size();
}

bool same_but_lengths(const AllSeen& a, const AllSeen& b) {
  return a.sequence == b.sequence && std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                                                [](const Seen& x, const Seen& y) { return same_but_lengths(x, y); });
}

/// What a call gives: the fresh array or number, and the way from it to what the program sees.
struct Predicted {
  graph::Type type;
  Wrap wrap = Wrap::NdArray;
  std::vector<std::size_t> view;
  std::optional<Dims> reshaped;
};

struct AllPredicted {
  PyTypeObject* sequence = nullptr;
  std::vector<Predicted> items;
};

/// By stand-ins; where these do not tell the lengths of the result the real ones do, specialised.
Captured<AllPredicted> predict(Arguments& arguments, const HostCall& call) {
  Session& session = arguments.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  StandIns lengths(session, arguments.operands);
  std::vector<AllSeen> seen;
  for (int variant = 0; variant < 3 && lengths.few(); ++variant) {
    Captured<AllSeen> one = try_out(arguments, call, variant + 1, [&](const Dim& dim) { return lengths.of(dim, variant); });
    if (!one || (variant > 0 && !same_but_lengths(*one, seen[0]))) break;
    seen.push_back(std::move(*one));
  }
  auto finish = [&](const Seen& like, Dims shape, Dims reshaped) {
    Predicted out;
    out.wrap = like.wrap;
    out.view = like.view;
    if (!like.reshaped.empty()) out.reshaped = std::move(reshaped);
    Dims strides = graph::packed_strides(shapes, like.dtype, shape, like.order);
    out.type = graph::Type{like.dtype, std::move(shape), std::move(strides)};
    return out;
  };
  auto real = [&](std::size_t item, std::vector<int64_t> Seen::*which) {
    Dims dims;
    for (std::size_t i = 0; i < (seen[0].items[item].*which).size(); ++i)
      if (std::optional<Dim> dim = lengths.real((seen[0].items[item].*which)[i], (seen[1].items[item].*which)[i], (seen[2].items[item].*which)[i]))
        dims.push_back(settle(session, *dim));
    return dims;
  };
  AllPredicted out;
  if (seen.size() == 3) {
    out.sequence = seen[0].sequence;
    for (std::size_t i = 0; i < seen[0].items.size(); ++i) {
      const Seen& like = seen[0].items[i];
      Dims shape = real(i, &Seen::shape), reshaped = real(i, &Seen::reshaped);
      if (shape.size() != like.shape.size() || reshaped.size() != like.reshaped.size()) break;
      out.items.push_back(finish(like, std::move(shape), std::move(reshaped)));
    }
    if (out.items.size() == seen[0].items.size()) return out;
  }
  int64_t elements = 0;
  bool counts = false;  // may a length of the result be one of the ints?
  for (std::size_t i = 0; i < arguments.operands.size(); ++i) {
    const graph::Type& type = session.graph().type(arguments.operands[i]);
    elements += shapes.hint(type.size());
    counts = counts || (arguments.wraps[i] != Wrap::NdArray && graph::is_int(type.dtype));
  }
  if (counts || elements > kMostTried)
    return break_at(BreakId::UnsupportedArgument, name_of_callable(call.callable.get()) + " of arrays whose result's lengths are not known");
  FRAMEJIT_TRY(exact, try_out(arguments, call, 1, [&](const Dim& dim) { return shapes.specialize(dim); }));
  out = {exact.sequence, {}};
  for (const Seen& like : exact.items)
    out.items.push_back(finish(like, Dims(like.shape.begin(), like.shape.end()), Dims(like.reshaped.begin(), like.reshaped.end())));
  return out;
}

/// The number under which plans know the call.
int64_t number_of(std::unique_ptr<HostCall> call) {
  const auto known = std::find_if(calls().begin(), calls().end(), [&](const auto& other) { return same_calls(*other, *call); });
  const int64_t index = kFirstIndex + (known - calls().begin());
  if (known == calls().end()) calls().push_back(std::move(call));
  return index;
}

/// What the program sees of a result.
Captured<Value*> shown(Session& session, ValueId id, const Predicted& result) {
  graph::GraphBuilder& builder = session.builder();
  if (!result.view.empty()) {
    const std::vector<int> axes(result.view.begin(), result.view.end());
    id = builder.transpose(id, axes);
  } else if (result.reshaped) {
    FRAMEJIT_TRY(view, built(builder.reshape(id, *result.reshaped)));
    id = view;
  }
  return session.array(id, result.wrap);
}

}  // namespace

Captured<Value*> host_call(Session& session, PyObject* callable, std::span<Value* const> args,
                           std::span<const capture::Keyword> keywords) {
  auto call = std::make_unique<HostCall>();
  call->callable = Ref<>::share(callable);
  Arguments arguments{session, {}, {}};
  if (PyObject_TypeCheck(callable, &PyUFunc_Type) && static_cast<int>(args.size()) != reinterpret_cast<PyUFuncObject*>(callable)->nin)
    return break_at(BreakId::UnsupportedArgument, "arguments for what a ufunc gives");
  for (Value* value : args) {
    FRAMEJIT_TRY(piece, argument(arguments, value));
    call->args.push_back(std::move(piece));
  }
  for (const auto& [name, value] : keywords) {
    // What was renamed warns by Python's warnings.
    if ((name == "out" && !value->is_none()) || name == "interpolation")
      return break_at(BreakId::UnsupportedArgument, "a host call with " + std::string(name) + "=");
    FRAMEJIT_TRY(piece, argument(arguments, value));
    call->keywords.emplace_back(Ref<>::steal(PyUnicode_InternFromString(std::string(name).c_str())), std::move(piece));
  }
  for (ValueId operand : arguments.operands) {
    const Dim size = session.graph().type(operand).size();
    if (!session.graph().shapes().holds(graph::Relation::Lt, 0, size))
      return break_at(BreakId::UnsupportedArgument, "a host call of an empty array");
  }
  // NumPy 1 promotes by the value of a scalar, where the others have another dtype.
  for (std::size_t i = 0; i < arguments.operands.size() && numpy_version().major < 2; ++i) {
    const graph::Type& type = session.graph().type(arguments.operands[i]);
    const bool scalar = arguments.wraps[i] != Wrap::NdArray || type.rank() == 0;
    if (scalar && std::any_of(arguments.operands.begin(), arguments.operands.end(),
                              [&](ValueId other) { return session.graph().type(other).dtype != type.dtype; }))
      return break_at(BreakId::UnsupportedArgument, "a host call of a scalar of another dtype that is known at run time only");
  }
  prepare(*call);
  FRAMEJIT_TRY(results, predict(arguments, *call));
  call->sequence = results.sequence;
  call->count = static_cast<Py_ssize_t>(results.items.size());
  std::vector<Value*> items;
  int64_t first = 0;
  ValueId memory = graph::kNoValue;  // of the first item
  for (const Predicted& result : results.items) {
    if (memory != graph::kNoValue) {
      call = std::make_unique<HostCall>();
      call->first = calls()[static_cast<std::size_t>(first - kFirstIndex)].get();
      call->item = static_cast<Py_ssize_t>(items.size());
    }
    call->result = result.wrap;
    call->through_view = !result.view.empty() || result.reshaped;
    call->view = result.view;
    const int64_t number = number_of(std::move(call));
    std::vector<ValueId> operands = memory == graph::kNoValue ? std::move(arguments.operands) : std::vector<ValueId>{memory};
    const ValueId id = session.builder().host_call(number, std::move(operands), result.type.dtype, result.type.shape, result.type.strides);
    if (memory == graph::kNoValue) memory = id, first = number;
    FRAMEJIT_TRY(item, shown(session, id, result));
    items.push_back(item);
  }
  if (!results.sequence) return items[0];
  if (results.sequence == &PyTuple_Type) return session.tuple(std::move(items));
  const bool is_list = results.sequence == &PyList_Type;
  Value* made = session.make(is_list ? ValueKind::List : ValueKind::Object);
  if (!is_list) made->object = Ref<>::share(reinterpret_cast<PyObject*>(results.sequence));
  made->items = std::move(items);
  return made;
}

namespace {

Captured<Value*> host_call_of(Session& session, const char* module_name, const char* name, std::span<Value* const> args,
                              std::span<const capture::Keyword> keywords) {
  Ref<> module = Ref<>::steal(PyImport_ImportModule(module_name));
  Ref<> function = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), name)) : Ref<>();
  PyErr_Clear();
  if (!function) return break_at(BreakId::UnknownCallable, name);
  return host_call(session, function.get(), args, keywords);
}

}  // namespace

Ref<> fold_numbers(int nb, PyObject* left, PyObject* right) {
  auto is_number = [](PyObject* o) { return scalar_dtype_of(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o); };
  if (!is_number(left) || !is_number(right)) return {};
  static const std::map<int, binaryfunc> operators = {{0, PyNumber_Add}, {2, PyNumber_FloorDivide}, {5, PyNumber_Multiply},
                                                      {6, PyNumber_Remainder}, {10, PyNumber_Subtract}, {11, PyNumber_TrueDivide}};
  const auto found = operators.find(nb % 13);
  Ref<> made;
  if (found != operators.end()) {
    OwnErrState raising(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID);
    WarningsRaise too;
    made = Ref<>::steal(found->second(left, right));
  }
  clear_error();
  return made && scalar_dtype_of(made.get()) ? std::move(made) : Ref<>();
}

Captured<Value*> host_operator(Session& session, const char* name, std::span<Value* const> args) {
  return host_call_of(session, "operator", name, args, {});
}

Captured<Value*> host_helper(Session& session, const char* name, std::span<Value* const> args) {
  return host_call_of(session, "framejit._host", name, args, {});
}

Captured<Value*> host_after(Session& session, PyObject* function, std::span<Value* const> args,
                            std::span<const capture::Keyword> keywords) {
  Ref<> module = Ref<>::steal(PyImport_ImportModule("framejit._host"));
  Ref<> after = module ? Ref<>::steal(PyObject_CallMethod(module.get(), "in_place", "O", function)) : Ref<>();
  PyErr_Clear();
  if (!after) return break_at(BreakId::UnknownCallable, name_of_callable(function));
  return host_call(session, after.get(), args, keywords);
}

codegen::HostFunction numpy_host_function(int64_t index) {
  const int64_t at = index - kFirstIndex;
  if (at < 0 || at >= static_cast<int64_t>(calls().size())) return {};
  HostCall& call = *calls()[static_cast<std::size_t>(at)];
  if (const codegen::HostFunction native = native_function(call, run_host); native.function) return native;
  return {run_host, &call};
}

std::optional<std::vector<Wrap>> host_operands(int64_t index) {
  const int64_t at = index - kFirstIndex;
  if (at < 0 || at >= static_cast<int64_t>(calls().size()) || calls()[static_cast<std::size_t>(at)]->sequence ||
      calls()[static_cast<std::size_t>(at)]->first)
    return std::nullopt;
  return wraps_of(*calls()[static_cast<std::size_t>(at)]);
}

HostArguments host_arguments(int64_t index, const std::vector<Ref<>>& operands) {
  const HostCall& call = *calls()[static_cast<std::size_t>(index - kFirstIndex)];
  HostArguments out{call.callable, Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(call.args.size()))), Ref<>::steal(PyDict_New())};
  for (std::size_t i = 0; out.args && i < call.args.size(); ++i) {
    Ref<> one = build(call.args[i], operands);
    if (!one) return {};
    PyTuple_SET_ITEM(out.args.get(), static_cast<Py_ssize_t>(i), one.release());
  }
  for (const auto& [name, piece] : call.keywords) {
    Ref<> one = build(piece, operands);
    if (!one || !out.keywords || PyDict_SetItem(out.keywords.get(), name.get(), one.get()) < 0) return {};
  }
  return out;
}

// ---- calls in files

namespace {

constexpr const char* kPieceNames[] = {"known", "operand", "tuple", "list", "slice"};

Ref<> piece_record(const Piece& piece) {
  const char* name = kPieceNames[piece.kind];
  if (piece.kind == Piece::Known) return Ref<>::steal(Py_BuildValue("(sO)", name, piece.object.get()));
  if (piece.kind == Piece::Slot) return Ref<>::steal(Py_BuildValue("(sni)", name, static_cast<Py_ssize_t>(piece.slot), static_cast<int>(piece.wrap)));
  Ref<> out = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(piece.items.size() + 1)));
  if (!out) return {};
  PyTuple_SET_ITEM(out.get(), 0, PyUnicode_FromString(name));
  for (std::size_t i = 0; i < piece.items.size(); ++i) {
    Ref<> item = piece_record(piece.items[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i + 1), item.release());
  }
  return out;
}

bool read_piece(PyObject* record, Piece& out, int depth = 0) {
  const char* name = PyTuple_Check(record) && PyTuple_GET_SIZE(record) > 0 && depth < 32 ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(record, 0)) : nullptr;
  if (!name) return false;
  const auto kind = std::find_if(std::begin(kPieceNames), std::end(kPieceNames), [&](const char* known) { return std::string_view(known) == name; });
  if (kind == std::end(kPieceNames)) return false;
  out.kind = static_cast<Piece::Kind>(kind - std::begin(kPieceNames));
  const Py_ssize_t count = PyTuple_GET_SIZE(record);
  if (out.kind == Piece::Known) {
    out.object = count == 2 ? Ref<>::share(PyTuple_GET_ITEM(record, 1)) : Ref<>();
    return out.object && is_immutable(out.object.get());
  }
  if (out.kind == Piece::Slot) {
    const long long slot = count == 3 ? PyLong_AsLongLong(PyTuple_GET_ITEM(record, 1)) : -1;
    const long wrap = count == 3 ? PyLong_AsLong(PyTuple_GET_ITEM(record, 2)) : -1;
    out.slot = static_cast<std::size_t>(slot);
    out.wrap = static_cast<Wrap>(wrap);
    return slot >= 0 && slot < 64 && wrap >= 0 && wrap < static_cast<long>(Wrap::PyComplex);
  }
  for (Py_ssize_t i = 1; i < count; ++i)
    if (!read_piece(PyTuple_GET_ITEM(record, i), out.items.emplace_back(), depth + 1)) return false;
  return out.kind != Piece::Slice || out.items.size() == 3;
}

/// Is it what a host call may call?
bool is_listed(PyObject* callable) {
  if (is_host_function(callable)) return true;
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* words = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (words && Py_IS_TYPE(callable, &PyMethodDescr_Type))
    return reinterpret_cast<PyDescrObject*>(callable)->d_type == &PyArray_Type && is_host_method(words);
  static constexpr const char* kOperators[] = {"getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_",
                                               "or_", "xor", "neg", "pos", "abs", "invert", "lt", "le", "eq", "ne", "gt", "ge"};
  const bool is_ufunc = PyObject_TypeCheck(callable, &PyUFunc_Type);
  for (const char* home : {"numpy", "operator", "framejit._host"}) {
    const bool is_known = words && ((home[0] == 'n' && is_ufunc) || home[0] == 'f' || std::any_of(std::begin(kOperators), std::end(kOperators),
                                                                 [&](const char* known) { return std::string_view(known) == words; }));
    Ref<> module = is_known ? Ref<>::steal(PyImport_ImportModule(home)) : Ref<>();
    Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), words)) : Ref<>();
    PyErr_Clear();
    if (found.get() == callable) return true;
  }
  return false;
}

PyObject* field(PyObject* record, const char* name) { return PyDict_GetItemString(record, name); }

std::unique_ptr<HostCall> read_call(PyObject* record) {
  auto call = std::make_unique<HostCall>();
  if (!PyDict_Check(record)) return nullptr;
  for (const char* name : {"callable", "args", "keywords", "result", "through_view", "sequence", "count", "first", "item"})
    if (!field(record, name)) return nullptr;
  call->result = static_cast<Wrap>(PyLong_AsLong(field(record, "result")));
  call->through_view = field(record, "through_view") == Py_True;
  call->count = PyLong_AsSsize_t(field(record, "count"));
  call->item = PyLong_AsSsize_t(field(record, "item"));
  if (PyErr_Occurred() || call->count < 1 || call->item < 0 || static_cast<unsigned>(call->result) >= static_cast<unsigned>(Wrap::PyComplex)) return nullptr;
  if (PyObject* first = field(record, "first"); first != Py_None) {
    const int64_t at = PyLong_AsLongLong(first) - kFirstIndex;
    if (at < 0 || at >= static_cast<int64_t>(calls().size()) || call->item >= calls()[static_cast<std::size_t>(at)]->count) return nullptr;
    call->first = calls()[static_cast<std::size_t>(at)].get();
    return call;
  }
  if (!PyTuple_Check(field(record, "args")) || !PyDict_Check(field(record, "keywords")) || !is_listed(field(record, "callable"))) return nullptr;
  call->callable = Ref<>::share(field(record, "callable"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(field(record, "args")); ++i)
    if (!read_piece(PyTuple_GET_ITEM(field(record, "args"), i), call->args.emplace_back())) return nullptr;
  PyObject *name, *piece;
  for (Py_ssize_t at = 0; PyDict_Next(field(record, "keywords"), &at, &name, &piece);) {
    if (!PyUnicode_Check(name) || PyUnicode_CompareWithASCIIString(name, "out") == 0) return nullptr;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    call->keywords.emplace_back(Ref<>::steal(name), Piece{});
    if (!read_piece(piece, call->keywords.back().second)) return nullptr;
  }
  prepare(*call);
  PyObject* sequence = field(record, "sequence");
  if (sequence == Py_None) return call->count == 1 ? std::move(call) : nullptr;
  if (!PyType_Check(sequence)) return nullptr;
  call->sequence = reinterpret_cast<PyTypeObject*>(Py_NewRef(sequence));
  return call;
}

}  // namespace

Ref<> host_call_record(int64_t index) {
  const int64_t at = index - kFirstIndex;
  if (at < 0 || at >= static_cast<int64_t>(calls().size())) {
    PyErr_SetString(PyExc_ValueError, "a custom operator");
    return {};
  }
  const HostCall& call = *calls()[static_cast<std::size_t>(at)];
  Ref<> args = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(call.args.size()))), keywords = Ref<>::steal(PyDict_New());
  for (std::size_t i = 0; args && i < call.args.size(); ++i) {
    Ref<> piece = piece_record(call.args[i]);
    if (!piece) return {};
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), piece.release());
  }
  for (const auto& [name, piece] : call.keywords) {
    Ref<> one = piece_record(piece);
    if (!one || !keywords || PyDict_SetItem(keywords.get(), name.get(), one.get()) < 0) return {};
  }
  const auto first = std::find_if(calls().begin(), calls().end(), [&](const auto& other) { return other.get() == call.first; });
  Ref<> number = call.first ? Ref<>::steal(PyLong_FromLongLong(kFirstIndex + (first - calls().begin()))) : Ref<>::share(Py_None);
  if (!args || !keywords || !number) return {};
  auto or_none = [](PyObject* object) { return object ? object : Py_None; };
  return Ref<>::steal(Py_BuildValue("{s:O,s:O,s:O,s:i,s:O,s:O,s:n,s:O,s:n}", "callable", or_none(call.callable.get()), "args", args.get(), "keywords",
                                    keywords.get(), "result", static_cast<int>(call.result), "through_view", call.through_view ? Py_True : Py_False,
                                    "sequence", or_none(reinterpret_cast<PyObject*>(call.sequence)), "count", call.count, "first", number.get(), "item",
                                    call.item));
}

bool host_call_fits(int64_t index, const std::vector<graph::Type>& operands, const graph::Type& result) {
  const int64_t at = index - kFirstIndex;
  if (at < 0 || at >= static_cast<int64_t>(calls().size())) return false;
  const HostCall& call = *calls()[static_cast<std::size_t>(at)];
  auto fits = [](Wrap wrap, const graph::Type& type) {
    const DType number = wrap == Wrap::PyFloat ? DType::F64 : wrap == Wrap::PyInt ? DType::I64 : DType::Bool;
    return wrap == Wrap::NdArray || (type.rank() == 0 && (wrap == Wrap::NumpyScalar || type.dtype == number));
  };
  if (!fits(call.result, result)) return false;
  if (call.first) return operands.size() == 1;
  const std::vector<Wrap> wraps = wraps_of(call);
  return std::equal(wraps.begin(), wraps.end(), operands.begin(), operands.end(), fits);
}

std::optional<int64_t> host_call_from_record(PyObject* record) {
  std::unique_ptr<HostCall> call = read_call(record);
  if (call) return number_of(std::move(call));
  PyErr_SetString(PyExc_ValueError, "a call that cannot be made");
  return std::nullopt;
}

}  // namespace framejit::ext
