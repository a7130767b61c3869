// Library calls: see library_call_capture.h.
#include "ext/frontends/numpy/library_call_capture.h"

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/py/instance.h"
#include "capture/python_names.h"
#include "capture/warnings.h"
#include "ext/arrays/errstate.h"
#include "ext/frontends/numpy/call.h"
#include "ext/frontends/numpy/index.h"
#include "ext/library_calls/draws.h"
#include "ext/library_calls/library_call.h"
#include "ext/library_calls/listed_functions.h"
#include "graph/layout.h"
#include "graph/pass.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"

namespace framejit::ext::frontends {

using arrays::numpy_module;
using arrays::scalar_dtype_of;
using capture::SourceRef;
using codegen::StridedArray;
using graph::Dim;
using graph::Dims;
using library_calls::LibraryCall;
using library_calls::Piece;

namespace {

struct Arguments {
  Session& session;
  std::vector<ValueId> operands;
  std::vector<Wrap> wraps;
};

Captured<Piece> slot(Arguments& into, const Value* value) {
  Piece piece;
  piece.kind = Piece::Slot;
  piece.wrap = value->wrap();
  graph::GraphBuilder& builder = into.session.builder();
  ValueId id = value->id();
  if (into.session.graph().node(id).op == Op::Constant)
    id = builder.view(builder.full(id, {1}), {}, {}, 0);  // which lies in memory
  for (piece.slot = 0; piece.slot < into.operands.size(); ++piece.slot)
    if (into.operands[piece.slot] == id && into.wraps[piece.slot] == value->wrap()) return piece;
  into.operands.push_back(id);
  into.wraps.push_back(value->wrap());
  return piece;
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
      if (!library_calls::is_immutable(o)) break;
      piece.object = value->object;
      return piece;
    }
    case ValueKind::Int: {
      piece.object = Ref<>::steal(PyLong_FromLongLong(into.session.graph().shapes().specialize(value->dim())));
      return piece;
    }
    case ValueKind::Array:
      if (value->wrap() == Wrap::PyComplex || value->wrap() == Wrap::Tensor) break;
      return slot(into, value);
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Slice:
      piece.kind = value->kind == ValueKind::Tuple  ? Piece::Tuple
                   : value->kind == ValueKind::List ? Piece::List
                                                    : Piece::Slice;
      if (value->partial) break;
      for (Value* item : value->items) {
        FRAMEJIT_TRY(part, argument(into, item));
        piece.items.push_back(std::move(part));
      }
      return piece;
    default: break;
  }
  return break_at(BreakId::UnsupportedArgument, "an argument of type " + type_name(*value) + " of a library call");
}

/// Lengths in place of those of the operands that are symbolic or large, in three variants. The second one moves each
/// of them by another power of 7, so that a result's length that is a sum of multiples of them tells the multiples; the
/// third one is to check. Lengths that differ by a few, such as those of diagonals beside one another, stay so.
class SampleInputs {
 public:
  /// Gives each length of the operands a stand-in; a longer one has a longer stand-in. With `bound`, symbolic lengths
  /// whose values differ by a few now are assumed to differ by that always, which becomes a guard. This is done for
  /// long ones only: stand-ins of short lengths are longer than these, and a product over many axes would take too
  /// long.
  SampleInputs(Session& session, const std::vector<ValueId>& operands, bool bound) : session_(session), bound_(bound) {
    graph::ShapeEnv& shapes = session.graph().shapes();
    Dims all;
    for (ValueId operand : operands)
      for (const Dim& dim : session.graph().type(operand).shape) all.push_back(dim);
    std::stable_sort(all.begin(), all.end(),
                     [&](const Dim& a, const Dim& b) { return shapes.hint(a) < shapes.hint(b); });
    for (const Dim& dim : all) of(dim, 0);
  }

  int64_t of(const Dim& dim, int variant) {
    const graph::ShapeEnv& shapes = session_.graph().shapes();
    const int64_t real = shapes.hint(dim);
    if (dim.is_const() && real <= kSmall) return real;
    for (std::size_t at = 0; at < dims_.size(); ++at) {
      if (dims_[at] == dim) return length(at, variant);
      const int64_t more = real - shapes.hint(dims_[at]);
      if (std::abs(more) >= kFew) continue;
      const bool known = (dim - dims_[at]).is_const(), may_bind = (bound_ && real > kSmall) || more == 0;
      if (known || (may_bind && session_.graph().shapes().equal(dims_[at] + Dim(more), dim)))
        return length(at, variant) + more;
      is_loose_ = is_loose_ || (!may_bind && real > kSmall);
    }
    dims_.push_back(dim);
    return length(dims_.size() - 1, variant);
  }

  /// Are there lengths that `bound` would bind?
  bool is_loose() const { return is_loose_; }
  bool any() const { return !dims_.empty(); }
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
  static constexpr int64_t kSmall = 16, kFew = 4;
  static constexpr std::size_t kMost = 3;

  static int64_t length(std::size_t at, int variant) {
    int64_t power = 1;
    for (std::size_t i = 0; i < std::min(at, kMost); ++i) power *= 7;
    const int64_t base = 23 + 8 * static_cast<int64_t>(at);
    return variant == 0 ? base : variant == 1 ? base + power : base + 2 * power + 3 + static_cast<int64_t>(at);
  }

  Session& session_;
  bool bound_, is_loose_ = false;
  std::vector<Dim> dims_;
};

using Lengths = std::function<int64_t(const Dim&)>;

/// An array of ours like an operand: its dtype, its axes in the same order of memory, packed where it is, with zeros,
/// or ones on the diagonal of the last two axes.
Ref<> like(Session& session, ValueId operand, const Lengths& length, bool ones) {
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
  PyArray_Descr* descr = arrays::descr_of(type.dtype);
  Py_INCREF(descr);
  Ref<> array = Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape.data(), strides.data(), data,
                                                  NPY_ARRAY_WRITEABLE, nullptr));
  if (!array || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), memory.release()) < 0) return {};
  if (ones && rank >= 2 && std::find(shape.begin(), shape.end(), 0) == shape.end()) {
    const int last = rank - 1;
    shape[last - 1] = std::min(shape[last - 1], shape[last]);
    strides[last - 1] += strides[last];
    Py_INCREF(descr);
    const Ref<> diagonal = Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, last, shape.data(), strides.data(),
                                                             data, NPY_ARRAY_WRITEABLE, nullptr));
    const Ref<> one = Ref<>::steal(PyLong_FromLong(1));
    if (!diagonal || !one || PyArray_FillWithScalar(reinterpret_cast<PyArrayObject*>(diagonal.get()), one.get()) < 0)
      return {};
  }
  return array;
}

Ref<> example(Session& session, ValueId operand, Wrap wrap, int64_t number, const Lengths& length, bool ones) {
  switch (wrap) {
    case Wrap::NdArray: return like(session, operand, length, ones);
    case Wrap::NumpyScalar: {
      const DType dtype = session.graph().type(operand).dtype;
      int64_t bits[2] = {graph::is_int(dtype) ? number : 0, 0};
      return Ref<>::steal(PyArray_Scalar(bits, arrays::descr_of(dtype), nullptr));
    }
    case Wrap::PyFloat: return Ref<>::steal(PyFloat_FromDouble(0.5));
    case Wrap::PyInt: return Ref<>::steal(PyLong_FromLongLong(number));
    case Wrap::PyBool: return Ref<>::share(Py_True);
    case Wrap::Generator: {
      static constinit capture::Once once;
      PyObject* const stand_in = once.get([] {
        const Ref<> module = Ref<>::steal(PyImport_ImportModule("numpy.random"));
        return module ? PyObject_CallMethod(module.get(), "default_rng", "i", 0) : nullptr;
      });
      return stand_in ? Ref<>::share(stand_in) : Ref<>();
    }
    case Wrap::PyComplex:
    case Wrap::Tensor: break;
  }
  return {};
}

/// What a call gives, in lengths as they were in that call.
struct ResultSignature {
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
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int a, int b) { return PyArray_STRIDE(array, a) < PyArray_STRIDE(array, b); });
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

Captured<ResultSignature> signature_of(PyObject* object, const std::string& name) {
  ResultSignature seen;
  if (auto dtype = scalar_dtype_of(object)) return ResultSignature{Wrap::NumpyScalar, *dtype, {}, {}};
  if (PyBool_Check(object)) return ResultSignature{Wrap::PyBool, DType::Bool, {}, {}};
  if (PyLong_CheckExact(object)) return ResultSignature{Wrap::PyInt, DType::I64, {}, {}};
  if (PyFloat_CheckExact(object)) return ResultSignature{Wrap::PyFloat, DType::F64, {}, {}};
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (PyArray_CheckExact(object) && !PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA)) {
    PyArrayObject* whole = library_calls::shown_whole(array);
    if (whole && transposed_axes(array, whole, seen.view)) {
      array = whole;
    } else if (whole && PyArray_IS_C_CONTIGUOUS(whole) && PyArray_SIZE(array) > 0 &&
               order_of(array) == graph::c_order(PyArray_NDIM(array))) {
      seen.view.clear();
      seen.reshaped.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
      array = whole;
    }
  }
  if (!PyArray_CheckExact(object) || !PyArray_CHKFLAGS(array, NPY_ARRAY_BEHAVED | NPY_ARRAY_OWNDATA) ||
      PyArray_SIZE(array) == 0)
    return break_at(BreakId::UnsupportedArgument, name + " gives no fresh array here");
  std::optional<DType> dtype = arrays::dtype_of(PyArray_DESCR(array));
  std::optional<graph::AxisOrder> order = order_of(array);
  if (!dtype || !order)
    return break_at(BreakId::UnsupportedArgument, name + " gives an array of a kind that is not compiled");
  seen.dtype = *dtype;
  seen.order = std::move(*order);
  seen.shape.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
  return seen;
}

std::string name_of_callable(PyObject* callable) {
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* words = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  std::string text = words ? words : "a library call";
  PyErr_Clear();
  return text;
}

/// The same of a call, whose several results come in a tuple or list.
struct ResultSignatures {
  PyTypeObject* sequence = nullptr;
  std::vector<ResultSignature> items;
  int64_t nanoseconds = 0;  // that it took
};

/// np.linalg gives tuples with names, whose classes are those of its module.
bool is_sequence_of_results(PyObject* object) {
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const module_name = PyUnicode_InternFromString("__module__");
  PyObject* home = PyTuple_Check(object) ? capture::own_attr(type, module_name) : nullptr;
  const char* words = home && PyUnicode_Check(home) ? PyUnicode_AsUTF8(home) : nullptr;
  return words && std::string_view(words).starts_with("numpy.linalg.");
}

Captured<ResultSignatures> signatures_of(PyObject* object, const std::string& name) {
  ResultSignatures all;
  const bool several = is_sequence_of_results(object);
  if (several) all.sequence = Py_TYPE(object);
  if (several && Py_SIZE(object) == 0) return break_at(BreakId::UnsupportedArgument, name + " gives nothing here");
  for (Py_ssize_t i = 0; i < (several ? Py_SIZE(object) : 1); ++i) {
    FRAMEJIT_TRY(seen, signature_of(several ? library_calls::item_of(object, i) : object, name));
    all.items.push_back(std::move(seen));
  }
  return all;
}

/// The call of examples, in which every int that is known at run time only is `number`. Matrices that can be inverted
/// come first, then zeros: the ones of others may be indices that are out of bounds.
Captured<ResultSignatures> try_out(Arguments& arguments, const LibraryCall& call, int64_t number,
                                   const Lengths& length) {
  const std::string name = name_of_callable(call.callable.get());
  Ref<> result;
  int64_t nanoseconds = 0;
  for (bool ones : {true, false}) {
    std::vector<Ref<>> objects;
    for (std::size_t i = 0; i < arguments.operands.size(); ++i)
      objects.push_back(example(arguments.session, arguments.operands[i], arguments.wraps[i], number, length, ones));
    if (std::all_of(objects.begin(), objects.end(), [](const Ref<>& o) { return static_cast<bool>(o); })) {
      arrays::ScopedErrState quiet(0);
      result = capture::call_with_warnings_raised([&] {
        const int64_t start = now_ns();
        Ref<> made = invoke(call, objects);
        nanoseconds = now_ns() - start;
        return made;
      });
    }
    library_calls::clear_error();
    if (result) break;
  }
  if (!result) return break_at(BreakId::UnsupportedArgument, name + " of such arguments");
  FRAMEJIT_TRY(all, signatures_of(result.get(), name));
  all.nanoseconds = nanoseconds;
  return all;
}

constexpr int64_t kMostTried = 1 << 16;  // elements

bool same_but_lengths(const ResultSignature& a, const ResultSignature& b) {
  return a.wrap == b.wrap && a.dtype == b.dtype && a.order == b.order && a.view == b.view &&
         a.shape.size() == b.shape.size() && a.reshaped.size() == b.reshaped.size();
}

bool same_but_lengths(const ResultSignatures& a, const ResultSignatures& b) {
  return a.sequence == b.sequence &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [](const ResultSignature& x, const ResultSignature& y) { return same_but_lengths(x, y); });
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
  int64_t nanoseconds = 0;
};

Predicted predicted_by(Session& session, const ResultSignature& like, Dims shape, Dims reshaped) {
  Predicted out;
  out.wrap = like.wrap;
  out.view = like.view;
  if (!like.reshaped.empty()) out.reshaped = std::move(reshaped);
  Dims strides = graph::packed_strides(session.graph().shapes(), like.dtype, shape, like.order);
  out.type = graph::Type{like.dtype, std::move(shape), std::move(strides)};
  return out;
}

/// Are the arrays that stand in for the operands small? Over many axes they may be larger than all memory.
bool are_small(SampleInputs& lengths, const Arguments& arguments, int variant) {
  constexpr double kMostElements = 1 << 18;
  return std::all_of(arguments.operands.begin(), arguments.operands.end(), [&](ValueId operand) {
    double elements = 1;
    for (const Dim& dim : arguments.session.graph().type(operand).shape)
      elements *= static_cast<double>(lengths.of(dim, variant));
    return elements <= kMostElements;
  });
}

/// By stand-ins; nothing where these do not tell the lengths of the result.
std::optional<AllPredicted> predict_by(SampleInputs& lengths, Arguments& arguments, const LibraryCall& call) {
  Session& session = arguments.session;
  std::vector<ResultSignatures> seen;
  // Two are enough if they are equal. It is not one, because a function's first call may be its slowest.
  const bool differ = lengths.any() || !std::all_of(arguments.wraps.begin(), arguments.wraps.end(),
                                                    [](Wrap wrap) { return wrap == Wrap::NdArray; });
  const int variants = differ ? 3 : 2;
  for (int variant = 0; variant < variants; ++variant) {
    if (!lengths.few() || !are_small(lengths, arguments, variants - 1)) return std::nullopt;
    Captured<ResultSignatures> one =
        try_out(arguments, call, variant + 1, [&](const Dim& dim) { return lengths.of(dim, variant); });
    if (!one || (variant > 0 && !same_but_lengths(*one, seen[0]))) return std::nullopt;
    seen.push_back(std::move(*one));
  }
  auto real = [&](std::size_t item, std::vector<int64_t> ResultSignature::* which) {
    Dims dims;
    for (std::size_t i = 0; i < (seen[0].items[item].*which).size(); ++i)
      if (std::optional<Dim> dim = lengths.real((seen.front().items[item].*which)[i], (seen[1].items[item].*which)[i],
                                                (seen.back().items[item].*which)[i]))
        dims.push_back(settle(session, *dim));
    return dims;
  };
  AllPredicted out{seen[0].sequence, {}, std::min(seen[1].nanoseconds, seen.back().nanoseconds)};
  for (std::size_t i = 0; i < seen[0].items.size(); ++i) {
    const ResultSignature& like = seen[0].items[i];
    Dims shape = real(i, &ResultSignature::shape), reshaped = real(i, &ResultSignature::reshaped);
    if (shape.size() != like.shape.size() || reshaped.size() != like.reshaped.size()) return std::nullopt;
    out.items.push_back(predicted_by(session, like, std::move(shape), std::move(reshaped)));
  }
  return out;
}

/// By stand-ins; where these do not tell the lengths of the result the real ones do, specialised.
Captured<AllPredicted> predict(Arguments& arguments, const LibraryCall& call) {
  Session& session = arguments.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  SampleInputs lengths(session, arguments.operands, false);
  std::optional<AllPredicted> found = predict_by(lengths, arguments, call);
  if (!found && lengths.is_loose()) {
    SampleInputs bound(session, arguments.operands, true);
    found = predict_by(bound, arguments, call);
  }
  if (found) return std::move(*found);
  int64_t elements = 0;
  bool counts = false;  // may a length of the result be one of the ints?
  for (std::size_t i = 0; i < arguments.operands.size(); ++i) {
    const graph::Type& type = session.graph().type(arguments.operands[i]);
    elements += shapes.hint(type.size());
    counts = counts || (arguments.wraps[i] != Wrap::NdArray && graph::is_int(type.dtype));
  }
  if (counts || elements > kMostTried)
    return break_at(BreakId::UnsupportedArgument,
                    name_of_callable(call.callable.get()) + " of arrays whose result's lengths are not known");
  FRAMEJIT_TRY(exact, try_out(arguments, call, 1, [&](const Dim& dim) { return shapes.specialize(dim); }));
  AllPredicted out{exact.sequence, {}, exact.nanoseconds};
  for (const ResultSignature& like : exact.items)
    out.items.push_back(predicted_by(session, like, Dims(like.shape.begin(), like.shape.end()),
                                     Dims(like.reshaped.begin(), like.reshaped.end())));
  return out;
}

/// What calls with the same arguments, of operands of the same types, were found to give. Only of lengths that are
/// known: then nothing of a graph is in it.
class Predictions {
 public:
  const AllPredicted* find(const LibraryCall& call, const std::vector<graph::Type>& operands) const {
    for (const Made& made : made_)
      if (library_calls::same_arguments(*made.call, call) &&
          std::equal(operands.begin(), operands.end(), made.operands.begin(), made.operands.end(), same_types))
        return &made.results;
    return nullptr;
  }
  void keep(const LibraryCall& call, std::vector<graph::Type> operands, const AllPredicted& results) {
    for (const graph::Type& type : operands)
      for (int i = 0; i < type.rank(); ++i)
        if (const auto at = static_cast<std::size_t>(i); !type.shape[at].is_const() || !type.strides[at].is_const())
          return;
    auto copy = std::make_unique<LibraryCall>();
    copy->callable = call.callable;
    copy->args = call.args;
    copy->keywords = call.keywords;
    if (made_.size() == kMost) made_.erase(made_.begin());
    made_.push_back({std::move(copy), std::move(operands), results});
  }

 private:
  static constexpr std::size_t kMost = 32;
  struct Made {
    std::unique_ptr<LibraryCall> call;
    std::vector<graph::Type> operands;
    AllPredicted results;
  };
  static bool same_types(const graph::Type& a, const graph::Type& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
  }
  std::vector<Made> made_;
};

/// As predict(), by what is known.
Captured<AllPredicted> predicted(Arguments& arguments, const LibraryCall& call) {
  static auto* known = new Predictions;
  std::vector<graph::Type> operands;
  for (const ValueId operand : arguments.operands) operands.push_back(arguments.session.graph().type(operand));
  if (const AllPredicted* found = known->find(call, operands)) return *found;
  FRAMEJIT_TRY(results, predict(arguments, call));
  known->keep(call, std::move(operands), results);
  return results;
}

// ---- draws

/// What says how many numbers a draw gives; null: it does not say.
Piece* size_piece(LibraryCall& call, const library_calls::DrawMethod& method) {
  if (method.size_at < 0) return nullptr;
  const auto at = static_cast<std::size_t>(method.size_at) + 1;
  Piece* piece = at < call.args.size() ? &call.args[at] : nullptr;
  for (auto& [name, given] : call.keywords)
    if (PyUnicode_CompareWithASCIIString(name.get(), "size") == 0) piece = &given;
  return piece && piece->kind != Piece::Slot && piece->object.get() != Py_None ? piece : nullptr;
}

std::optional<int64_t> length_of(PyObject* o) {
  const long long number = o && PyLong_CheckExact(o) ? PyLong_AsLongLong(o) : -1;
  PyErr_Clear();
  return number > 0 ? std::optional<int64_t>(number) : std::nullopt;
}

/// Nothing: not all of them are known, or there are no elements.
std::optional<std::vector<int64_t>> lengths_of(const Piece& size) {
  std::vector<std::optional<int64_t>> lengths;
  if (size.kind == Piece::Tuple || size.kind == Piece::List) {
    for (const Piece& item : size.items)
      lengths.push_back(item.kind == Piece::Known ? length_of(item.object.get()) : std::nullopt);
  } else if (size.kind == Piece::Known && PyTuple_CheckExact(size.object.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size.object.get()); ++i)
      lengths.push_back(length_of(PyTuple_GET_ITEM(size.object.get(), i)));
  } else {
    lengths.push_back(size.kind == Piece::Known ? length_of(size.object.get()) : std::nullopt);
  }
  std::vector<int64_t> out;
  for (const std::optional<int64_t>& length : lengths) {
    if (!length) return std::nullopt;
    out.push_back(*length);
  }
  return out;
}

/// The size that a draw is given in place of its own: one number, in as many dimensions.
Ref<> small_size(const Piece& size, std::size_t rank) {
  Ref<> one = Ref<>::steal(PyLong_FromLong(1));
  if (size.kind == Piece::Known && PyLong_CheckExact(size.object.get())) return one;
  Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(rank)));
  for (std::size_t i = 0; tuple && i < rank; ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Ref<>(one).release());
  return tuple;
}

constexpr int64_t kFewestDrawn = 64;  // numbers: for fewer, saving the state takes longer than drawing them

/// The dtype is asked of a stand-in, which gives one number; the shape is the size.
Captured<AllPredicted> predict_draw(Arguments& arguments, LibraryCall& call, const library_calls::DrawMethod& method) {
  Session& session = arguments.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  const auto refused = [&](const char* why) {
    return break_at(BreakId::UnknownObject, std::string("numpy.random.Generator.") + method.name + "() " + why);
  };
  AllPredicted out;
  if (Piece* size = size_piece(call, method)) {
    const auto lengths = lengths_of(*size);
    if (!lengths) return refused("of a size that is not known");
    const bool has_arrays = std::count(arguments.wraps.begin(), arguments.wraps.end(), Wrap::NdArray) > 0;
    const bool broadcasts = has_arrays && std::string_view(method.name) != "choice";  // which draws from its array
    Piece given = std::exchange(*size, Piece{});
    size->object = broadcasts ? Ref<>::share(Py_None) : small_size(given, lengths->size());
    auto seen = try_out(arguments, call, 1, [](const Dim&) { return int64_t{1}; });
    *size = std::move(given);
    if (!seen) return Unexpected<Break>(std::move(seen.error()));
    const ResultSignature& like = seen->items[0];
    if (seen->sequence || like.wrap != Wrap::NdArray || !like.view.empty() || !like.reshaped.empty() ||
        (!broadcasts && like.shape.size() != lengths->size()))
      return refused("of such arguments");
    Predicted one;
    Dims shape(lengths->begin(), lengths->end());
    Dims strides = graph::packed_strides(shapes, like.dtype, shape, graph::c_order(static_cast<int>(shape.size())));
    one.type = graph::Type{like.dtype, std::move(shape), std::move(strides)};
    out.items.push_back(std::move(one));
    out.nanoseconds = seen->nanoseconds;
  } else {
    FRAMEJIT_TRY(found, predicted(arguments, call));
    if (found.sequence || found.items[0].wrap != Wrap::NdArray) return refused("of single numbers");
    out = std::move(found);
  }
  if (shapes.hint(out.items[0].type.size()) < kFewestDrawn) return refused("of few numbers");
  return out;
}

/// The draw before in the region; kNoValue: there is none.
ValueId last_draw(const graph::Graph& graph) {
  const std::vector<ValueId>& nodes = graph.body().nodes;
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const graph::Node& node = graph.node(*at);
    const LibraryCall* call = node.op == Op::LibraryCall ? library_calls::library_call_at(node.index()) : nullptr;
    if (call && call->draws) return *at;
  }
  return graph::kNoValue;
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
  return session.values().array(id, result.wrap);
}

}  // namespace

Captured<Value*> library_call(Session& session, PyObject* callable, std::span<Value* const> args,
                              std::span<const capture::Keyword> keywords) {
  auto call = std::make_unique<LibraryCall>();
  call->callable = Ref<>::share(callable);
  Arguments arguments{session, {}, {}};
  if (PyObject_TypeCheck(callable, &PyUFunc_Type) &&
      static_cast<int>(args.size()) != reinterpret_cast<PyUFuncObject*>(callable)->nin)
    return break_at(BreakId::UnsupportedArgument, "arguments for what a ufunc gives");
  for (Value* value : args) {
    FRAMEJIT_TRY(piece, argument(arguments, value));
    call->args.push_back(std::move(piece));
  }
  for (const auto& [name, value] : keywords) {
    if (name == "interpolation")  // its new name is method: NumPy warns by Python's warnings
      return break_at(BreakId::UnsupportedArgument, "a library call with " + std::string(name) + "=");
    FRAMEJIT_TRY(piece, argument(arguments, value));
    call->keywords.emplace_back(Ref<>::steal(PyUnicode_InternFromString(std::string(name).c_str())), std::move(piece));
  }
  if (library_calls::is_left_alone(*call))
    return break_at(
        BreakId::UnsupportedArgument,
        name_of_callable(callable) + " with an argument that it may write to, or the length of its work space");
  for (ValueId operand : arguments.operands) {
    const Dim size = session.graph().type(operand).size();
    if (!session.graph().shapes().holds(graph::Relation::Lt, 0, size))
      return break_at(BreakId::UnsupportedArgument, "a library call of an empty array");
  }
  // They copy a single complex number that is read-only, as operands are here, and then multiply it by BLAS.
  static PyObject* const products[] = {PyObject_GetAttrString(numpy_module(), "convolve"),
                                       PyObject_GetAttrString(numpy_module(), "correlate")};
  for (ValueId operand : arguments.operands) {
    const graph::Type& type = session.graph().type(operand);
    const bool is_product = std::find(std::begin(products), std::end(products), callable) != std::end(products);
    if (is_product && graph::is_complex(type.dtype) &&
        !session.graph().shapes().holds(graph::Relation::Lt, 1, type.size()))
      return break_at(BreakId::UnsupportedArgument, name_of_callable(callable) + " of a single complex number");
  }
  // NumPy 1 promotes by the value of a scalar, where the others have another dtype.
  for (std::size_t i = 0; i < arguments.operands.size() && arrays::numpy_version().major < 2; ++i) {
    const graph::Type& type = session.graph().type(arguments.operands[i]);
    if (arguments.wraps[i] == Wrap::Generator) continue;
    const bool scalar = arguments.wraps[i] != Wrap::NdArray || type.rank() == 0;
    bool differs = false;
    for (std::size_t k = 0; k < arguments.operands.size(); ++k)
      differs = differs || (arguments.wraps[k] != Wrap::Generator &&
                            session.graph().type(arguments.operands[k]).dtype != type.dtype);
    if (scalar && differs)
      return break_at(BreakId::UnsupportedArgument,
                      "a library call of a scalar of another dtype that is known at run time only");
  }
  prepare(*call);
  const library_calls::DrawMethod* method = library_calls::draw_method(callable);
  FRAMEJIT_TRY(results, method ? predict_draw(arguments, *call, *method) : predicted(arguments, *call));
  // As an operand that no argument reads, the draw before comes first, and no two draws are one.
  if (const ValueId before = method ? last_draw(session.graph()) : graph::kNoValue; before != graph::kNoValue)
    arguments.operands.push_back(before);
  call->sequence = results.sequence;
  call->count = static_cast<Py_ssize_t>(results.items.size());
  call->nanoseconds = results.nanoseconds;
  std::vector<Value*> items;
  int64_t first = 0;
  ValueId memory = graph::kNoValue;  // of the first item
  for (const Predicted& result : results.items) {
    if (memory != graph::kNoValue) {
      call = std::make_unique<LibraryCall>();
      call->first = library_calls::library_call_at(first);
      call->item = static_cast<Py_ssize_t>(items.size());
    }
    call->result = result.wrap;
    call->through_view = !result.view.empty() || result.reshaped;
    call->view = result.view;
    const int64_t number = library_calls::library_call_number(std::move(call));
    std::vector<ValueId> operands =
        memory == graph::kNoValue ? std::move(arguments.operands) : std::vector<ValueId>{memory};
    const ValueId id = session.builder().library_call(number, std::move(operands), result.type.dtype, result.type.shape,
                                                      result.type.strides);
    if (memory == graph::kNoValue) memory = id, first = number;
    FRAMEJIT_TRY(item, shown(session, id, result));
    items.push_back(item);
  }
  if (!results.sequence) return items[0];
  if (results.sequence == &PyTuple_Type) return session.values().tuple(std::move(items));
  const bool is_list = results.sequence == &PyList_Type;
  Value* made = session.values().make(is_list ? ValueKind::List : ValueKind::Object);
  if (!is_list) made->object = Ref<>::share(reinterpret_cast<PyObject*>(results.sequence));
  made->items = std::move(items);
  return made;
}

namespace {

Captured<Value*> library_call_of(Session& session, const char* module_name, const char* name,
                                 std::span<Value* const> args, std::span<const capture::Keyword> keywords) {
  Ref<> module = Ref<>::steal(PyImport_ImportModule(module_name));
  Ref<> function = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), name)) : Ref<>();
  PyErr_Clear();
  if (!function) return break_at(BreakId::UnknownCallable, name);
  return library_call(session, function.get(), args, keywords);
}

}  // namespace

Captured<Value*> draw(Session& session, PyObject* callable, std::span<Value* const> args,
                      std::span<const capture::Keyword> keywords) {
  const std::string name = std::string("numpy.random.Generator.") + library_calls::draw_method(callable)->name + "()";
  Value* self = args.empty() ? nullptr : args[0];
  if (!self || self->kind != ValueKind::Object || !self->source || !self->object ||
      !library_calls::Draws::allows(self->object.get()))
    return break_at(BreakId::UnknownObject, name + " of such a generator");
  if (session.graph().is_in_block()) return break_at(BreakId::UnknownObject, name + " in a branch or loop on arrays");
  capture::ArraySpec spec;
  spec.wrap = Wrap::Generator;
  spec.dtype = DType::I64;
  std::vector<Value*> all(args.begin(), args.end());
  all[0] = session.inputs().add(self->object.get(), self->source, std::move(spec));
  return library_call(session, callable, all, keywords);
}

Ref<> fold_numbers(int nb, PyObject* left, PyObject* right) {
  auto is_number = [](PyObject* o) {
    return scalar_dtype_of(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o);
  };
  if (!is_number(left) || !is_number(right)) return {};
  static const std::map<int, binaryfunc> operators = {{0, PyNumber_Add},       {2, PyNumber_FloorDivide},
                                                      {5, PyNumber_Multiply},  {6, PyNumber_Remainder},
                                                      {10, PyNumber_Subtract}, {11, PyNumber_TrueDivide}};
  const auto found = operators.find(nb % 13);
  Ref<> made;
  if (found != operators.end()) {
    arrays::ScopedErrState raising(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID);
    made = capture::call_with_warnings_raised([&] { return Ref<>::steal(found->second(left, right)); });
  }
  library_calls::clear_error();
  return made && scalar_dtype_of(made.get()) ? std::move(made) : Ref<>();
}

Captured<Value*> operator_call(Session& session, const char* name, std::span<Value* const> args) {
  return library_call_of(session, "operator", name, args, {});
}

Captured<Value*> helper_call(Session& session, const char* name, std::span<Value* const> args) {
  return library_call_of(session, python_names::kLibraryFunctions, name, args, {});
}

Captured<Value*> copy_after(Session& session, PyObject* function, std::span<Value* const> args,
                            std::span<const capture::Keyword> keywords) {
  Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kLibraryFunctions));
  Ref<> after = module ? Ref<>::steal(PyObject_CallMethod(module.get(), "in_place", "O", function)) : Ref<>();
  PyErr_Clear();
  if (!after) return break_at(BreakId::UnknownCallable, name_of_callable(function));
  return library_call(session, after.get(), args, keywords);
}

}  // namespace framejit::ext::frontends
