// Library calls as data, and their runs: see library_call.h.
#include <algorithm>
#include <cfenv>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "capture/warnings.h"
#include "ext/arrays/errstate.h"
#include "ext/library_calls/draws.h"
#include "ext/library_calls/library_call.h"
#include "ext/library_calls/listed_functions.h"
#include "ext/module/control.h"
#include "ext/module/module.h"
#include "graph/pass.h"
#include "graph/support/check.h"

namespace framejit::ext::library_calls {

using capture::Ref;
using capture::Wrap;
using codegen::StridedArray;
using graph::DType;

namespace {

// Custom operators are numbered from 0.
constexpr int64_t kFirstIndex = graph::kFirstRaisingLibraryCall;

bool same_pieces(const Piece& a, const Piece& b) {
  if (a.kind != b.kind || a.slot != b.slot || a.wrap != b.wrap || a.items.size() != b.items.size()) return false;
  if (a.object.get() != b.object.get()) {
    if (!a.object || !b.object || !PyLong_CheckExact(a.object.get()) || !PyLong_CheckExact(b.object.get()))
      return false;
    if (PyObject_RichCompareBool(a.object.get(), b.object.get(), Py_EQ) != 1) return false;
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), same_pieces);
}

}  // namespace

bool same_arguments(const LibraryCall& a, const LibraryCall& b) {
  return a.callable.get() == b.callable.get() &&
         std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_pieces) &&
         std::equal(a.keywords.begin(), a.keywords.end(), b.keywords.begin(), b.keywords.end(),
                    [](const auto& x, const auto& y) {
                      return x.first.get() == y.first.get() && same_pieces(x.second, y.second);
                    });
}

namespace {

bool same_calls(const LibraryCall& a, const LibraryCall& b) {
  return a.result == b.result && a.through_view == b.through_view && a.view == b.view && a.sequence == b.sequence &&
         a.count == b.count && a.first == b.first && a.item == b.item && same_arguments(a, b);
}

std::vector<std::unique_ptr<LibraryCall>>& calls() {
  static auto* all = new std::vector<std::unique_ptr<LibraryCall>>;  // plans hold the pointers
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
    if (piece.kind == Piece::List) PyList_SET_ITEM(out.get(), i, item.release());
    else PyTuple_SET_ITEM(out.get(), i, item.release());
  }
  if (out && piece.kind == Piece::Slice)
    return Ref<>::steal(
        PySlice_New(PyTuple_GET_ITEM(out.get(), 0), PyTuple_GET_ITEM(out.get(), 1), PyTuple_GET_ITEM(out.get(), 2)));
  return out;
}

}  // namespace

Ref<> invoke(const LibraryCall& call, const std::vector<Ref<>>& operands, const std::vector<bool>& flags) {
  std::vector<Ref<>> held;  // what is built for this call alone
  std::vector<PyObject*> stack;
  stack.reserve(call.args.size() + call.keywords.size() + flags.size());
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
  for (const bool flag : flags) stack.push_back(flag ? Py_True : Py_False);
  PyObject* const names = flags.empty() ? call.names.get() : call.names_with_flags.get();
  return Ref<>::steal(capture::py::until_exit(
      [&] { return PyObject_Vectorcall(call.callable.get(), stack.data(), call.args.size(), names); }));
}

namespace {

/// The wraps of the slots, in their order.
void collect(const Piece& piece, std::vector<Wrap>& wraps) {
  if (piece.kind == Piece::Slot) {
    if (wraps.size() <= piece.slot) wraps.resize(piece.slot + 1);
    wraps[piece.slot] = piece.wrap;
  }
  for (const Piece& item : piece.items) collect(item, wraps);
}

}  // namespace

std::vector<Wrap> wraps_of(const LibraryCall& call) {
  std::vector<Wrap> wraps;
  for (const Piece& piece : call.args) collect(piece, wraps);
  for (const auto& [name, piece] : call.keywords) collect(piece, wraps);
  return wraps;
}

namespace {

Ref<> array_over(DType dtype, std::span<const int64_t> shape, std::span<const int64_t> strides, char* data, int flags) {
  PyArray_Descr* descr = arrays::descr_of(dtype);
  Py_INCREF(descr);
  return Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), shape.data(),
                                           strides.data(), data, flags, nullptr));
}

/// The object that stands for an operand in memory.
Ref<> as_object(const StridedArray& a, Wrap wrap, int flags) {
  switch (wrap) {
    case Wrap::NdArray: return array_over(a.dtype, a.shape, a.strides, a.data, flags);
    case Wrap::NumpyScalar: return Ref<>::steal(PyArray_Scalar(a.data, arrays::descr_of(a.dtype), nullptr));
    case Wrap::PyFloat: return Ref<>::steal(PyFloat_FromDouble(*reinterpret_cast<const double*>(a.data)));
    case Wrap::PyInt: return Ref<>::steal(PyLong_FromLongLong(*reinterpret_cast<const int64_t*>(a.data)));
    case Wrap::PyBool: return Ref<>::steal(PyBool_FromLong(*a.data != 0));
    case Wrap::Generator: return Ref<>::share(*reinterpret_cast<PyObject* const*>(a.data));
    case Wrap::PyComplex:
    case Wrap::Tensor: break;
  }
  return {};
}

}  // namespace

PyArrayObject* shown_whole(PyArrayObject* array) {
  PyObject* base = PyArray_BASE(array);
  if (!base || !PyArray_CheckExact(base)) return nullptr;
  auto* owner = reinterpret_cast<PyArrayObject*>(base);
  const bool whole = PyArray_BYTES(owner) == PyArray_BYTES(array) && PyArray_SIZE(owner) == PyArray_SIZE(array) &&
                     PyArray_TYPE(owner) == PyArray_TYPE(array) && PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED);
  return whole ? owner : nullptr;
}

namespace {

/// Its object as what the graph says the result is: written to `out`. It may be an operand if the call computes in
/// some.
bool take_result(PyObject* object, Wrap wrap, bool through_view, const StridedArray& out, bool may_be_operand) {
  if (!object) return false;
  if (through_view) {
    if (!PyArray_CheckExact(object)) return false;
    object = reinterpret_cast<PyObject*>(shown_whole(reinterpret_cast<PyArrayObject*>(object)));
    if (!object) return false;
  }
  if (wrap == Wrap::NumpyScalar) {
    if (arrays::scalar_dtype_of(object) != out.dtype) return false;
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
  if (arrays::dtype_of(PyArray_DESCR(array)) != out.dtype || PyArray_NDIM(array) != static_cast<int>(out.shape.size()))
    return false;
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (PyArray_DIM(array, i) != out.shape[at] || PyArray_STRIDE(array, i) != out.strides[at]) return false;
  }
  const bool is_operand = may_be_operand && !PyArray_BASE(array);
  if (!PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED) || !(PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA) || is_operand))
    return false;
  if (!out.is_last_use) std::memcpy(out.data, PyArray_BYTES(array), static_cast<std::size_t>(PyArray_NBYTES(array)));
  return true;
}

}  // namespace

void clear_error() {
  if (!PyErr_Occurred()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  static PyObject* const linalg = PyObject_GetAttrString(arrays::numpy_module(), "linalg");
  static PyObject* const singular =
      linalg ? PyObject_GetAttrString(linalg, "LinAlgError") : nullptr;  // no ValueError in NumPy 1
  PyObject* const own = type && is_fortran_error(type) ? type : singular;
  PyErr_Restore(type, value, traceback);
  capture::clear_error_of_call(own);
}

namespace {

/// What calls have given that is not taken yet, by the memory of its first item: that belongs to one run as long as
/// anything of it is asked for. A run that ends before leaves its own behind, so the oldest go.
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
    const auto at =
        std::find_if(given_.begin(), given_.end(), [memory](const Entry& entry) { return entry.memory == memory; });
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

/// Does the call only move and compare elements, so that it neither sets a floating-point flag nor warns, and never
/// writes to an operand?
bool is_quiet(const LibraryCall& call) {
  if (Py_IS_TYPE(call.callable.get(), &PyUFunc_Type)) return false;  // none of these is one
  static const auto* const names = [] {
    auto* found = new std::vector<PyObject*>;
    for (const char* name : {"sort", "argsort", "partition", "argpartition", "lexsort", "argmin", "argmax",
                             "searchsorted", "digitize", "repeat", "tile", "tril", "triu", "delete"})
      for (PyObject* home : {PyModule_GetDict(arrays::numpy_module()), PyArray_Type.tp_dict})
        if (PyObject* function = PyDict_GetItemString(home, name)) found->push_back(Py_NewRef(function));
    return found;
  }();
  return std::find(names->begin(), names->end(), call.callable.get()) != names->end();
}

/// Is it a ufunc of NumPy's, of arrays and nothing else? Flags are all that such a call has to tell of.
bool has_only_flags(const LibraryCall& call) {
  if (!Py_IS_TYPE(call.callable.get(), &PyUFunc_Type) || !call.keywords.empty()) return false;
  const char* const name = reinterpret_cast<PyUFuncObject*>(call.callable.get())->name;
  const auto is_array = [](const Piece& piece) { return piece.kind == Piece::Slot && piece.wrap == Wrap::NdArray; };
  return name && PyDict_GetItemString(PyModule_GetDict(arrays::umath_module()), name) == call.callable.get() &&
         std::all_of(call.args.begin(), call.args.end(), is_array);
}

}  // namespace

void keep_items(const char* memory, Ref<> items, Py_ssize_t left) { given().put(memory, std::move(items), left); }

namespace {

Ref<> tuple_of(const std::vector<Ref<>>& items) {
  Ref<> out = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  FRAMEJIT_CHECK(out, "no memory for the names of keywords");
  for (std::size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Ref<>(items[i]).release());
  return out;
}

}  // namespace

void prepare(LibraryCall& call) {
  call.wraps = wraps_of(call);
  call.quiet = is_quiet(call);
  call.only_flags = has_only_flags(call);
  call.draws = draw_method(call.callable.get()) != nullptr;
  std::vector<Ref<>> names;
  for (const auto& keyword : call.keywords) names.push_back(keyword.first);
  if (!names.empty()) call.names = tuple_of(names);
  for (auto& [slot, flag] : flags_of_operands(call)) {
    call.computed_in.push_back(slot);
    names.push_back(std::move(flag));
  }
  if (!call.computed_in.empty()) call.names_with_flags = tuple_of(names);
}

namespace {

/// The calls that this thread is in.
thread_local std::vector<const LibraryCall*> begun;

/// A library's function may be written in Python, marked, and compiled to this very call: `np.repeat(a, n)` calls
/// `a.repeat(n)`, which is a call of np.repeat in a graph.
class Beginning {
 public:
  explicit Beginning(const LibraryCall& call) : call_(call) {
    again_ = std::find(begun.begin(), begun.end(), &call) != begun.end();
    begun.push_back(&call);
  }
  Beginning(const Beginning&) = delete;
  // Not the last one, if calls take turns on this thread.
  ~Beginning() { begun.erase(std::prev(std::find(begun.rbegin(), begun.rend(), &call_).base())); }
  bool again() const { return again_; }

 private:
  const LibraryCall& call_;
  bool again_;
};

/// Does it lie as Fortran has a new array of its shape?
bool lies_as_in_fortran(const StridedArray& a) {
  int64_t stride = graph::size_of(a.dtype);
  for (std::size_t i = 0; i < a.shape.size(); stride *= a.shape[i++])
    if (a.strides[i] != stride) return false;
  return true;
}

bool run_library_call(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule) {
  const auto& call = *static_cast<const LibraryCall*>(context);
  const module::ScopedGil gil;
  if (call.first) {
    const Ref<> items = given().get(arrays[0].data);
    return items && take_result(item_of(items.get(), call.item), call.result, call.through_view, arrays.back(),
                                !call.first->computed_in.empty());
  }
  const Beginning beginning(call);
  if (beginning.again()) return false;
  std::vector<Ref<>> operands;
  operands.reserve(call.wraps.size());
  std::vector<bool> flags;
  for (const std::size_t slot : call.computed_in)
    flags.push_back(arrays[slot].is_last_use && lies_as_in_fortran(arrays[slot]));
  // Of what is not writeable, some functions make a copy before they read it.
  for (std::size_t i = 0; i < call.wraps.size(); ++i) {
    const auto at = std::find(call.computed_in.begin(), call.computed_in.end(), i) - call.computed_in.begin();
    const bool writes = call.quiet || (at < std::ssize(flags) && flags[static_cast<std::size_t>(at)]);
    operands.push_back(as_object(arrays[i], call.wraps[i], writes ? NPY_ARRAY_WRITEABLE : 0));
  }
  if (call.draws && !Draws::take(operands[0].get())) return false;
  Ref<> result;
  if (call.quiet) {
    result = invoke(call, operands);
  } else {
    const arrays::ErrState now = arrays::ErrState::current();
    const arrays::ScopedErrState raising((now.watched() & ~rule.ignored) | rule.trapped, now);
    result = call.only_flags ? invoke(call, operands)
                             : capture::call_with_warnings_raised([&] { return invoke(call, operands, flags); });
  }
  bool fits =
      !call.sequence || (result && Py_IS_TYPE(result.get(), call.sequence) && Py_SIZE(result.get()) == call.count);
  PyObject* item = fits && call.sequence ? item_of(result.get(), 0) : result.get();
  fits = fits && take_result(item, call.result, call.through_view, arrays.back(), !call.computed_in.empty());
  clear_error();
  if (fits && call.count > 1) keep_items(arrays.back().data, std::move(result), call.count - 1);
  return fits;
}

PyObject* library_callable(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  const LibraryCall* call = library_call_at(number);
  return Py_NewRef(call && call->callable ? call->callable.get() : Py_None);
}

PyMethodDef methods[] = {{"library_callable", library_callable, METH_O,
                          "library_callable(index): what a library call of a graph calls, or None."},
                         {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

LibraryCall* library_call_at(int64_t index) {
  const int64_t at = index - kFirstIndex;
  return at < 0 || at >= static_cast<int64_t>(calls().size()) ? nullptr : calls()[static_cast<std::size_t>(at)].get();
}

int64_t library_call_number(std::unique_ptr<LibraryCall> call) {
  const auto known =
      std::find_if(calls().begin(), calls().end(), [&](const auto& other) { return same_calls(*other, *call); });
  const int64_t index = kFirstIndex + (known - calls().begin());
  if (known == calls().end()) calls().push_back(std::move(call));
  return index;
}

codegen::LibraryFunction library_function(int64_t index, bool o1) {
  LibraryCall* call = library_call_at(index);
  if (!call) return {};
  if (const codegen::LibraryFunction native = native_function(*call, run_library_call, o1); native.function)
    return native;
  return {run_library_call, call};
}

std::optional<std::vector<Wrap>> library_call_operands(int64_t index) {
  const LibraryCall* call = library_call_at(index);
  if (!call || call->sequence || call->first || call->draws) return std::nullopt;
  return wraps_of(*call);
}

LibraryCallArguments library_call_arguments(int64_t index, const std::vector<Ref<>>& operands) {
  const LibraryCall& call = *library_call_at(index);
  LibraryCallArguments out{call.callable, Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(call.args.size()))),
                           Ref<>::steal(PyDict_New())};
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

bool is_immutable(PyObject* o) {
  return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
         PyComplex_CheckExact(o) || PyUnicode_CheckExact(o) || PyArray_DescrCheck(o) || PyType_Check(o) ||
         arrays::scalar_dtype_of(o) || PyTuple_CheckExact(o) || o == arrays::no_value();
}

}  // namespace framejit::ext::library_calls
