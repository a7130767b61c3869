// Reductions: np.sum and its kin, as functions and as methods.
#include <algorithm>

#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/numpy/call.h"
#include "ext/frontends/numpy/index.h"
#include "graph/layout.h"

namespace framejit::ext::frontends {

using graph::Dim;
using graph::Relation;

namespace {

struct Reduction {
  ValueId x = graph::kNoValue;
  std::vector<int64_t> axes;
  bool keep = false;
  std::optional<DType> dtype;
};

struct Arguments {
  Value *a, *axis, *dtype, *keepdims;
};

Captured<Reduction> reduction(Session& session, const Arguments& given) {
  Reduction result;
  FRAMEJIT_TRY(array, array_argument(session, given.a));
  result.x = array->id();
  int rank = session.graph().type(array->id()).rank();
  FRAMEJIT_TRY(axes, axes_argument(session, given.axis, rank));
  if (axes.empty()) return break_at(BreakId::UnsupportedArgument, "a reduction over no axis");
  result.axes = std::move(axes);
  FRAMEJIT_TRY(keep, flag_argument(given.keepdims, false));
  result.keep = keep;
  FRAMEJIT_TRY(dtype, dtype_argument(given.dtype));
  result.dtype = dtype;
  return result;
}

Dim count_of(Session& session, const Reduction& r) {
  Dim count = 1;
  for (int64_t axis : r.axes) count = count * session.graph().type(r.x).shape[static_cast<std::size_t>(axis)];
  return count;
}

/// The reduction of x, which is r.x or a cast of it. The layout follows r.x, which is what NumPy's iterator sees.
Captured<ValueId> reduce(Session& session, const Reduction& r, Op op, ValueId x) {
  FRAMEJIT_TRY(id, built(session.builder().reduce(op, x, r.axes)));
  if (x == r.x) return id;
  graph::Graph& graph = session.graph();
  const graph::Type source = graph.type(r.x), type = graph.type(id);
  const graph::Type* operand = &source;
  graph::AxisOrder order;
  for (int axis : graph::iterator_order(graph.shapes(), source.shape, {&operand, 1})) {
    auto above = std::lower_bound(r.axes.begin(), r.axes.end(), axis);
    if (above == r.axes.end() || *above != axis) order.push_back(axis - static_cast<int>(above - r.axes.begin()));
  }
  graph.node(id).type.strides = graph::packed_strides(graph.shapes(), type.dtype, type.shape, order);
  return id;
}

/// An array of its own, laid out as `like`: NumPy's strides of kept axes are not those of a copy.
Value* own_array(Session& session, ValueId id, ValueId like) {
  graph::Dims strides = session.graph().type(like).strides;
  session.graph().node(id).type.strides = std::move(strides);
  return fresh_array(session, id);
}

/// Over the reduction's axes; the result has them as length 1 where they are kept, and is an array of its own.
Captured<Value*> reduced(Session& session, const Reduction& r, Op op, ValueId x) {
  graph::GraphBuilder& builder = session.builder();
  FRAMEJIT_TRY(id, reduce(session, r, op, x));
  if (!r.keep) return session.values().array(id, scalar_wrap(session.graph().type(id)));
  ValueId kept = builder.keep_dims(id, r.x, r.axes);
  return own_array(session, builder.copy(kept, 'K'), kept);
}

/// Integers narrower than the machine's are summed in int64 or uint64.
DType wide(DType dtype) {
  if (graph::is_unsigned_int(dtype)) return DType::U64;
  return graph::is_float(dtype) || graph::is_complex(dtype) ? dtype : DType::I64;
}

/// NumPy sums integers into doubles through a buffer that cuts its runs. All partial sums are whole numbers: below
/// 2**53 no order rounds.
bool sums_exactly(Session& session, const Reduction& r) {
  constexpr int64_t kExact = int64_t{1} << 53;
  DType dtype = session.graph().type(r.x).dtype;
  int bits = dtype == DType::Bool ? 1 : 8 * graph::size_of(dtype);
  if (bits > 32) return false;
  return session.graph().shapes().holds(Relation::Le, count_of(session, r), Dim(kExact >> bits));
}

/// A sum that fits one of the buffers that NumPy casts through, in the order of memory: one run that nothing cuts.
bool fits_buffer(Session& session, const Reduction& r) {
  constexpr int64_t kBuffer = 8192;
  graph::ShapeEnv& shapes = session.graph().shapes();
  const graph::Type type = session.graph().type(r.x);
  bool whole = static_cast<int>(r.axes.size()) == type.rank();
  bool ordered = type.rank() == 1 || graph::is_c_contiguous(shapes, type);
  return whole && ordered && shapes.holds(Relation::Le, count_of(session, r), kBuffer);
}

bool is_order_known(Session& session, const Reduction& r) {
  const Dim count = count_of(session, r);
  return arrays::sum_order(count.is_const() ? count.value() : INT64_MAX).known;
}

/// The operand of a sum, in the dtype that NumPy adds up in.
Captured<ValueId> summand(Session& session, const Reduction& r, DType to) {
  DType from = session.graph().type(r.x).dtype;
  if (graph::is_float(to) || graph::is_complex(to)) {
    if (!is_order_known(session, r))
      return break_at(BreakId::UnsupportedArgument, "the order of sums of this NumPy is not known");
    bool exact = !graph::is_float(from) && to == DType::F64 && sums_exactly(session, r);
    if (from != to && !exact && !fits_buffer(session, r))
      return break_at(BreakId::UnsupportedArgument, "a sum in another dtype: NumPy's buffers decide its order");
  } else if (graph::is_float(from) || graph::is_complex(from) || to == DType::Bool) {
    return break_at(BreakId::UnsupportedArgument, "a sum in another dtype");
  }
  return cast(session, r.x, to);
}

Captured<Value*> call_sum(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "dtype", "out", "keepdims", "initial", "where"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[3], v[5], v[6]}));
  FRAMEJIT_TRY(r, reduction(call.session, {v[0], v[1], v[2], v[4]}));
  DType to = r.dtype.value_or(wide(call.session.graph().type(r.x).dtype));
  FRAMEJIT_TRY(x, summand(call.session, r, to));
  return reduced(call.session, r, call.op, x);
}

Captured<Value*> call_prod(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "dtype", "out", "keepdims", "initial", "where"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[3], v[5], v[6]}));
  FRAMEJIT_TRY(r, reduction(call.session, {v[0], v[1], v[2], v[4]}));
  DType from = call.session.graph().type(r.x).dtype, to = r.dtype.value_or(wide(from));
  if (to == DType::F16 || graph::is_complex(to) || (from != to && (graph::is_float(from) || !graph::is_int(to))))
    return break_at(BreakId::UnsupportedArgument, "a product in another dtype, or of float16 or complex numbers");
  FRAMEJIT_TRY(x, cast(call.session, r.x, to));
  return reduced(call.session, r, call.op, x);
}

Captured<Value*> extreme(const Call& call, const std::vector<Value*>& v) {
  FRAMEJIT_REQUIRE(none_given({v[2], v[4], v[5]}));
  FRAMEJIT_TRY(r, reduction(call.session, {v[0], v[1], nullptr, v[3]}));
  Op op = call.op;
  if (graph::is_complex(call.session.graph().type(r.x).dtype))
    return break_at(BreakId::UnsupportedArgument, "the least or the greatest of complex numbers");
  if (call.session.graph().type(r.x).dtype == DType::Bool) op = op == Op::ReduceMin ? Op::ReduceAll : Op::ReduceAny;
  if (!call.session.graph().shapes().holds(Relation::Lt, 0, count_of(call.session, r)))
    return break_at(BreakId::WouldRaise, "zero-size array to a reduction operation which has no identity");
  return reduced(call.session, r, op, r.x);
}

Captured<Value*> call_extreme(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "out", "keepdims", "initial", "where"}, 1));
  return extreme(call, v);
}

Captured<Value*> truth(const Call& call, const std::vector<Value*>& v) {
  FRAMEJIT_REQUIRE(none_given({v[2], v[4]}));
  FRAMEJIT_TRY(r, reduction(call.session, {v[0], v[1], nullptr, v[3]}));
  FRAMEJIT_TRY(x, cast(call.session, r.x, DType::Bool));
  return reduced(call.session, r, call.op, x);
}

Captured<Value*> call_truth(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "out", "keepdims", "where"}, 1));
  return truth(call, v);
}

/// The count of a mean: np.intp(n), a NumPy scalar.
Captured<Operand> count_operand(Session& session, const Dim& count) {
  if (count.is_const()) {
    Ref<> number = Ref<>::steal(PyLong_FromLongLong(count.value()));
    Ref<> scalar = number ? Ref<>::steal(PyObject_CallOneArg(
                                reinterpret_cast<PyObject*>(arrays::scalar_type_of(DType::I64)), number.get()))
                          : Ref<>();
    PyErr_Clear();
    if (!scalar) return break_at(BreakId::UnsupportedArgument, "the count of a mean");
    return operand(session, session.values().constant(scalar.get()));
  }
  return operand(session, session.values().array(session.builder().dim_value(count), Wrap::NumpyScalar));
}

/// ret / count, as NumPy's Python code ends its means: true_divide(ret, count, out=ret, casting='unsafe') for arrays,
/// type(ret / count) for scalars.
Captured<Value*> divided(Session& session, Value* ret, const Dim& count) {
  DType dtype = session.graph().type(ret->id()).dtype;
  FRAMEJIT_TRY(dividend, operand(session, ret));
  FRAMEJIT_TRY(divisor, count_operand(session, count));
  const Operand both[] = {dividend, divisor};
  FRAMEJIT_TRY(quotient, apply_ufunc(session, Op::Divide, both));
  FRAMEJIT_TRY(result, cast(session, quotient->id(), dtype));
  if (ret->wrap() == Wrap::NdArray) return own_array(session, result, ret->id());
  return session.values().array(result, Wrap::NumpyScalar);
}

/// The dtype that a mean or variance is computed in.
Captured<DType> mean_dtype(Session& session, const Reduction& r) {
  DType from = session.graph().type(r.x).dtype;
  const bool inexact = graph::is_float(from) || graph::is_complex(from);
  DType to = r.dtype.value_or(inexact ? from : DType::F64);
  if (!(graph::is_float(to) || graph::is_complex(to)) || to == DType::F16)
    return break_at(BreakId::UnsupportedArgument, "a mean of integers as integers, or of float16");
  return to;
}

/// add.reduce, then the division.
Captured<Value*> mean(Session& session, const Reduction& r) {
  FRAMEJIT_TRY(to, mean_dtype(session, r));
  Dim count = count_of(session, r);
  if (!session.graph().shapes().holds(Relation::Lt, 0, count))
    return break_at(BreakId::UnsupportedArgument, "the mean of an empty slice, which warns");
  FRAMEJIT_TRY(x, summand(session, r, to));
  FRAMEJIT_TRY(sum, reduce(session, r, Op::ReduceSum, x));
  if (r.keep) sum = session.builder().keep_dims(sum, r.x, r.axes);
  Wrap wrap = r.keep ? Wrap::NdArray : scalar_wrap(session.graph().type(sum));
  return divided(session, session.values().array(sum, wrap), count);
}

/// x *= x: the squares lie where x lay.
Captured<Value*> squares_of(Session& session, Value* x) {
  const graph::Type type = session.graph().type(x->id());
  Value* parts[2] = {x, nullptr};
  if (graph::is_complex(type.dtype)) {
    parts[0] = complex_part(session, x, 0);
    parts[1] = complex_part(session, x, 1);
  }
  for (Value*& x_part : parts) {
    if (!x_part) continue;
    Value* const twice[] = {x_part, x_part};
    FRAMEJIT_TRY(square, apply_ufunc(session, Op::Multiply, std::span<Value* const>(twice)));
    if (!parts[1]) session.graph().node(square->id()).type.strides = type.strides;
    x_part = square;
  }
  return parts[1] ? apply_ufunc(session, Op::Add, std::span<Value* const>(parts)) : parts[0];
}

/// m = mean(keepdims); x = a - m; x *= x, of complex numbers the sum of the parts' squares; add.reduce(x) / (count -
/// ddof).
Captured<Value*> variance(Session& session, Reduction r, int64_t ddof) {
  if (r.dtype) return break_at(BreakId::UnsupportedArgument, "a variance in another dtype");
  bool keep = r.keep;
  r.keep = true;
  FRAMEJIT_TRY(center, mean(session, r));
  Dim count = count_of(session, r) - Dim(ddof);
  if (!session.graph().shapes().holds(Relation::Lt, 0, count))
    return break_at(BreakId::UnsupportedArgument, "a variance without degrees of freedom, which warns");
  FRAMEJIT_TRY(a, operand(session, session.values().array(r.x, Wrap::NdArray)));
  FRAMEJIT_TRY(m, operand(session, center));
  const Operand both[] = {a, m};
  FRAMEJIT_TRY(x, apply_ufunc(session, Op::Subtract, both));
  FRAMEJIT_TRY(squares, squares_of(session, x));
  Reduction rest = r;
  rest.x = squares->id();
  FRAMEJIT_TRY(sum, reduce(session, rest, Op::ReduceSum, rest.x));
  if (keep) sum = session.builder().keep_dims(sum, rest.x, rest.axes);
  Wrap wrap = keep ? Wrap::NdArray : scalar_wrap(session.graph().type(sum));
  return divided(session, session.values().array(sum, wrap), count);
}

Captured<Value*> variance_of(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "dtype", "out", "ddof", "keepdims", "where", "mean", "correction"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[3], v[6], v[7], v[8]}));
  FRAMEJIT_TRY(r, reduction(call.session, {v[0], v[1], v[2], v[5]}));
  int64_t ddof = 0;
  if (v[4]) {
    FRAMEJIT_TRY(given, int_argument(call.session, v[4]));
    ddof = given;
  }
  return variance(call.session, r, ddof);
}

Captured<Value*> call_var(const Call& call) { return variance_of(call); }

Captured<Value*> call_std(const Call& call) {
  FRAMEJIT_TRY(var, variance_of(call));
  const graph::Dims strides = call.session.graph().type(var->id()).strides;
  FRAMEJIT_TRY(root, apply_ufunc(call.session, Op::Sqrt, std::span<Value* const>(&var, 1)));
  call.session.graph().node(root->id()).type.strides = strides;
  return call.session.values().array(root->id(), var->wrap());
}

Captured<Value*> call_mean(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "dtype", "out", "keepdims", "where"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[3], v[5]}));
  FRAMEJIT_TRY(r, reduction(call.session, {v[0], v[1], v[2], v[4]}));
  return mean(call.session, r);
}

/// Newer versions count in NumPy's int, older ones in Python's.
Wrap wrap_of_counts() {
  static constinit capture::Once once;
  PyObject* count = once.get([]() -> PyObject* {
    npy_intp one = 1;
    Ref<> array = Ref<>::steal(PyArray_ZEROS(1, &one, NPY_BOOL, 0));
    return array ? PyObject_CallMethod(arrays::numpy_module(), "count_nonzero", "O", array.get()) : nullptr;
  });
  PyErr_Clear();
  return count && PyLong_CheckExact(count) ? Wrap::PyInt : Wrap::NumpyScalar;
}

/// np.count_nonzero: of a whole array a number.
Captured<Value*> call_count_nonzero(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis", "keepdims"}, 1));
  Session& session = call.session;
  FRAMEJIT_TRY(r, reduction(session, {v[0], v[1], nullptr, v[2]}));
  FRAMEJIT_TRY(truth, cast(session, r.x, DType::Bool));
  if (truth != r.x) session.tapes().add_stop(truth);  // no gradient goes through a count
  r.x = truth;                                        // the strides of the result go by its own
  FRAMEJIT_TRY(ones, cast(session, truth, DType::I64));
  if (!absent(v[1]) || r.keep) return reduced(session, r, Op::ReduceSum, ones);
  FRAMEJIT_TRY(count, reduce(session, r, Op::ReduceSum, ones));
  return session.values().array(count, wrap_of_counts());
}

struct ReducedBy {
  Op op;
  Handler handler;
  Op reduction;
};

constexpr ReducedBy kReducedBy[] = {
    {Op::Add, call_sum, Op::ReduceSum},          {Op::Multiply, call_prod, Op::ReduceProd},
    {Op::Minimum, call_extreme, Op::ReduceMin},  {Op::Maximum, call_extreme, Op::ReduceMax},
    {Op::LogicalAnd, call_truth, Op::ReduceAll}, {Op::LogicalOr, call_truth, Op::ReduceAny},
};

}  // namespace

Captured<Value*> ufunc_reduce(const Call& call) {
  Session& session = call.session;
  std::vector<Value*> args(call.args.begin(), call.args.end());
  std::vector<capture::Keyword> keywords(call.keywords.begin(), call.keywords.end());
  for (const ReducedBy& row : kReducedBy) {
    const bool plain = args.size() <= 2 && reinterpret_cast<PyObject*>(arrays::ufunc_of(row.op)) == call.callable;
    if (!plain) continue;
    // The axis is 0 where none is given.
    const bool given = args.size() > 1 ||
                       std::any_of(keywords.begin(), keywords.end(), [](const auto& k) { return k.first == "axis"; });
    if (!given) keywords.emplace_back("axis", session.values().integer(Dim(0)));
    return row.handler({session, args, keywords, row.reduction});
  }
  return break_at(BreakId::UnsupportedArgument, "reduce() of this ufunc");
}

namespace {

constexpr FunctionRow kFunctions[] = {
    {"count_nonzero", call_count_nonzero, Op::Param, true},
    {"amin", call_extreme, Op::ReduceMin, true},
    {"amax", call_extreme, Op::ReduceMax, true},  // not methods: see below
    {"sum", call_sum, Op::ReduceSum, true},
    {"prod", call_prod, Op::ReduceProd, true},
    {"min", call_extreme, Op::ReduceMin, true},
    {"max", call_extreme, Op::ReduceMax, true},
    {"any", call_truth, Op::ReduceAny, true},
    {"all", call_truth, Op::ReduceAll, true},
    {"mean", call_mean, Op::ReduceSum, true},
    {"var", call_var, Op::ReduceSum, true},
    {"std", call_std, Op::ReduceSum, true},
};
constexpr std::size_t kFunctionsOnly = 3;

}  // namespace

// The methods take the same arguments in the same order, up to `where`.
std::span<const FunctionRow> reduction_functions() { return kFunctions; }
std::span<const FunctionRow> reduction_methods() { return std::span(kFunctions).subspan(kFunctionsOnly); }

}  // namespace framejit::ext::frontends
