// Functions that make arrays: zeros, full, arange, asarray, astype, copy.
#include <algorithm>
#include <bit>
#include <cmath>

#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/numpy/call.h"
#include "ext/frontends/numpy/index.h"
#include "graph/layout.h"

namespace framejit::ext::frontends {

using graph::Dim;
using graph::Dims;
using graph::Relation;

namespace {

Captured<Dims> shape_of(Session& session, Value* value) {
  FRAMEJIT_TRY(dims, dims_argument(session, value));
  for (const Dim& dim : dims)
    if (!session.graph().shapes().holds(Relation::Le, 0, dim))
      return break_at(BreakId::WouldRaise, "negative dimensions are not allowed");
  return dims;
}

Captured<ValueId> known_number(Session& session, int number, DType dtype) {
  Ref<> object = Ref<>::steal(PyLong_FromLong(number));
  std::optional<graph::Scalar> bits = object ? arrays::pack(object.get(), dtype) : std::nullopt;
  if (!bits) return break_at(BreakId::UnsupportedArgument, "a dtype= that the number does not fit");
  return session.builder().constant(dtype, *bits);
}

/// order=: absent, None or 'C'.
Captured<bool> c_order_only(Value* order) {
  PyObject* object = !absent(order) && order->is_constant() ? order->object.get() : nullptr;
  const bool is_c =
      absent(order) || (object && PyUnicode_CheckExact(object) && PyUnicode_CompareWithASCIIString(object, "C") == 0);
  if (!is_c) return break_at(BreakId::UnsupportedArgument, "an order= other than 'C'");
  return true;
}

struct Fresh {
  Dims shape;
  DType dtype;
};

/// What empty, zeros and ones are given.
Captured<Fresh> fresh_arguments(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"shape", "dtype", "order", "device", "like"}, 1));
  FRAMEJIT_TRY(plain, none_given({v[3], v[4]}));
  FRAMEJIT_TRY(ordered, c_order_only(v[2]));
  (void)plain, (void)ordered;
  FRAMEJIT_TRY(shape, shape_of(call.session, v[0]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  return Fresh{std::move(shape), dtype.value_or(DType::F64)};
}

Captured<Value*> call_empty(const Call& call) {
  FRAMEJIT_TRY(wanted, fresh_arguments(call));
  return fresh_array(call.session, call.session.builder().empty(wanted.dtype, std::move(wanted.shape)));
}

/// np.ndarray(shape, dtype) of memory of its own.
Captured<Value*> call_ndarray(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"shape", "dtype", "buffer", "offset", "strides", "order"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[2], v[4]}));
  FRAMEJIT_REQUIRE(c_order_only(v[5]));
  if (v[3]) return break_at(BreakId::UnsupportedArgument, "np.ndarray with an offset=");
  FRAMEJIT_TRY(shape, shape_of(call.session, v[0]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  return fresh_array(call.session, call.session.builder().empty(dtype.value_or(DType::F64), std::move(shape)));
}

Captured<Value*> filled(const Call& call, int number) {
  FRAMEJIT_TRY(wanted, fresh_arguments(call));
  FRAMEJIT_TRY(value, known_number(call.session, number, wanted.dtype));
  return fresh_array(call.session, call.session.builder().full(value, std::move(wanted.shape)));
}

Captured<Value*> call_zeros(const Call& call) { return filled(call, 0); }
Captured<Value*> call_ones(const Call& call) { return filled(call, 1); }

/// What is filled in: one number, in the dtype asked for or its own.
Captured<ValueId> fill_value(Session& session, Value* value, std::optional<DType> dtype) {
  FRAMEJIT_TRY(number, operand(session, value));
  if (!number.type.scalar) return break_at(BreakId::UnsupportedArgument, "an array as fill value");
  DType to = dtype.value_or(number.type.dtype);
  // copyto of a NaN into integers warns or not, by version.
  if (graph::is_float(number.type.dtype) && !graph::is_float(to) && !graph::is_complex(to))
    return break_at(BreakId::UnsupportedArgument, "a float as fill value of integers");
  // It becomes an int64 on the way to a bool.
  if (to == DType::Bool && number.literal() && !arrays::pack(number.type.value, number.type.dtype))
    return break_at(BreakId::WouldRaise, "a Python int too large for an int64");
  return convert(session, number, to);
}

Captured<Value*> call_full(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"shape", "fill_value", "dtype", "order", "device", "like"}, 2));
  FRAMEJIT_REQUIRE(none_given({v[3], v[4], v[5]}));
  FRAMEJIT_TRY(shape, shape_of(call.session, v[0]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[2]));
  FRAMEJIT_TRY(value, fill_value(call.session, v[1], dtype));
  return fresh_array(call.session, call.session.builder().full(value, std::move(shape)));
}

/// shape= of the functions that make an array like another one. NumPy looks at the model's order where the ranks are
/// the same.
Captured<bool> reshape_model(Session& session, graph::Type& type, Value* shape) {
  if (absent(shape)) return true;
  FRAMEJIT_TRY(dims, dims_argument(session, shape));
  if (static_cast<int>(dims.size()) == type.rank() && !graph::is_c_contiguous(session.graph().shapes(), type))
    return break_at(BreakId::UnsupportedArgument, "shape= with a model in another order than C");
  for (const Dim& dim : dims)
    if (!session.graph().shapes().holds(graph::Relation::Le, 0, dim))
      return break_at(BreakId::WouldRaise, "negative dimensions are not allowed");
  type.strides = graph::c_strides(type.dtype, dims);
  type.shape = std::move(dims);
  return true;
}

/// The model of an array like another one, with what shape= makes of it.
Captured<graph::Type> model(Session& session, Value* value, Value* shape) {
  FRAMEJIT_TRY(array, array_argument(session, value));
  graph::Type type = session.graph().type(array->id());
  FRAMEJIT_REQUIRE(reshape_model(session, type, shape));
  return type;
}

/// Strides of a fresh array of `dtype` that keeps the model's order of axes, as a copy does.
Dims strides_like(Session& session, const graph::Type& model, DType dtype) {
  graph::ShapeEnv& shapes = session.graph().shapes();
  return graph::packed_strides(shapes, dtype, model.shape, graph::copy_order(shapes, model));
}

Captured<Value*> full_like(Session& session, const graph::Type& model, ValueId value) {
  Dims strides = strides_like(session, model, session.graph().type(value).dtype);
  return fresh_array(session, session.builder().full(value, model.shape, std::move(strides)));
}

Captured<Value*> filled_like(const Call& call, int number) {
  FRAMEJIT_TRY(v, bind(call, {"a", "dtype", "order", "subok", "shape", "device"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[2], v[5]}));
  FRAMEJIT_TRY(subok, flag_argument(v[3], true));  // there are no subclasses here
  (void)subok;
  FRAMEJIT_TRY(type, model(call.session, v[0], v[4]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  FRAMEJIT_TRY(value, known_number(call.session, number, dtype.value_or(type.dtype)));
  return full_like(call.session, type, value);
}

Captured<Value*> call_empty_like(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"prototype", "dtype", "order", "subok", "shape", "device"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[2], v[5]}));
  FRAMEJIT_TRY(subok, flag_argument(v[3], true));  // there are no subclasses here
  (void)subok;
  FRAMEJIT_TRY(type, model(call.session, v[0], v[4]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  const DType to = dtype.value_or(type.dtype);
  Dims strides = strides_like(call.session, type, to);
  return fresh_array(call.session, call.session.builder().empty(to, type.shape, std::move(strides)));
}

Captured<Value*> call_zeros_like(const Call& call) { return filled_like(call, 0); }
Captured<Value*> call_ones_like(const Call& call) { return filled_like(call, 1); }

Captured<Value*> call_full_like(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "fill_value", "dtype", "order", "subok", "shape", "device"}, 2));
  FRAMEJIT_REQUIRE(none_given({v[3], v[6]}));
  FRAMEJIT_REQUIRE(flag_argument(v[4], true));
  FRAMEJIT_TRY(type, model(call.session, v[0], v[5]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[2]));
  FRAMEJIT_TRY(value, fill_value(call.session, v[1], dtype.value_or(type.dtype)));
  return full_like(call.session, type, value);
}

/// start + i * step in one dtype; `n` elements.
Captured<Value*> progression(Session& session, DType dtype, const Dim& n, ValueId start, ValueId step, bool from_zero,
                             bool by_one) {
  graph::GraphBuilder& builder = session.builder();
  ValueId at = builder.iota(dtype, settle(session, n));
  if (!by_one) {
    const ValueId inputs[] = {at, step};
    FRAMEJIT_TRY(scaled, built(builder.elementwise(Op::Multiply, inputs)));
    at = scaled;
  }
  if (!from_zero) {
    const ValueId inputs[] = {start, at};
    FRAMEJIT_TRY(moved, built(builder.elementwise(Op::Add, inputs)));
    at = moved;
  }
  return fresh_array(session, at);
}

Captured<Value*> integer_range(Session& session, const Dim& start, const Dim& stop, const Dim& step_dim, DType dtype) {
  graph::ShapeEnv& shapes = session.graph().shapes();
  int64_t step = shapes.specialize(step_dim);
  if (step == 0) return break_at(BreakId::WouldRaise, "arange with a step of 0");
  bool by_one = step == 1, from_zero = start == Dim(0);
  if (dtype != DType::I64 && !(dtype == DType::F64 && by_one && from_zero))
    return break_at(BreakId::UnsupportedArgument, "np.arange in another dtype");
  Dim span = step > 0 ? stop - start : start - stop, size = step > 0 ? Dim(step) : Dim(0) - step;
  Dim n = 0;
  if (shapes.holds(Relation::Lt, 0, span)) n = by_one ? span : floordiv(span - Dim(1), size) + Dim(1);
  // As doubles the numbers are exact up to 2**53.
  if (dtype == DType::F64 && !shapes.holds(Relation::Le, n, int64_t{1} << 53))
    return break_at(BreakId::UnsupportedArgument, "np.arange of a huge range");
  graph::GraphBuilder& builder = session.builder();
  ValueId first = from_zero ? graph::kNoValue : builder.dim_value(start);
  ValueId by = by_one ? graph::kNoValue : builder.dim_value(step);
  return progression(session, dtype, n, first, by, from_zero, by_one);
}

std::optional<double> known_float(Value* value) {
  if (!value->is_constant() || !value->object) return std::nullopt;
  PyObject* object = value->object.get();
  if (!PyFloat_CheckExact(object) && !PyLong_CheckExact(object)) return std::nullopt;
  double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return std::isfinite(number) && std::fabs(number) <= 0x1p53 ? std::optional<double>(number) : std::nullopt;
}

/// Floats that are known. NumPy stores start and start + step, and fills on with their difference.
Captured<Value*> float_range(Session& session, double start, double stop, double step) {
  double size = (stop - start) / step;
  if (step == 0 || !std::isfinite(size) || std::fabs(size) > 1e9 || (size == 0 && stop != start))
    return break_at(BreakId::UnsupportedArgument, "np.arange of such floats");
  double second = start + step, by = second - start;
  // The fill must give the second element again, and -0.0 as the first one is lost by it.
  if (start + by != second || (start == 0 && std::signbit(start)))
    return break_at(BreakId::UnsupportedArgument, "np.arange of such floats");
  int64_t n = size > 0 ? static_cast<int64_t>(std::ceil(size)) : 0;
  graph::GraphBuilder& builder = session.builder();
  auto number = [&](double value) { return builder.constant(DType::F64, {std::bit_cast<uint64_t>(value), 0}); };
  return progression(session, DType::F64, n, number(start), number(by), start == 0, by == 1);
}

Captured<Value*> call_arange(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"start", "stop", "step", "dtype", "device", "like"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[4], v[5]}));
  Session& session = call.session;
  FRAMEJIT_TRY(dtype, dtype_argument(v[3]));
  Ref<> zero = Ref<>::steal(PyLong_FromLong(0)), one = Ref<>::steal(PyLong_FromLong(1));
  Value* start = absent(v[1]) ? session.values().constant(zero.get()) : v[0];
  Value* stop = absent(v[1]) ? v[0] : v[1];
  Value* step = absent(v[2]) ? session.values().constant(one.get()) : v[2];
  std::optional<Dim> a = as_dim(*start), b = as_dim(*stop), c = as_dim(*step);
  if (a && b && c) return integer_range(session, *a, *b, *c, dtype.value_or(DType::I64));
  std::optional<double> x = known_float(start), y = known_float(stop), z = known_float(step);
  if (x && y && z && dtype.value_or(DType::F64) == DType::F64) return float_range(session, *x, *y, *z);
  return break_at(BreakId::UnsupportedArgument, "np.arange of numbers known at run time only");
}

/// An array of its own with the elements of an array or number.
Captured<Value*> copied(Session& session, Value* value, std::optional<DType> dtype, char order) {
  FRAMEJIT_TRY(x, operand(session, value));
  // Out of range, numbers raise and elements do not: only arrays change their dtype here.
  if (dtype && *dtype != x.type.dtype && !x.is_array())
    return break_at(BreakId::UnsupportedArgument, "a number as an array of another dtype");
  DType to = dtype.value_or(x.type.dtype);
  FRAMEJIT_TRY(id, convert(session, x, to));
  if (id == x.id || !x.is_array() || order != 'K') id = session.builder().copy(id, order);
  return fresh_array(session, id);
}

/// The dtype of an array of numbers, where that is one which all of them have, Python ints being floats among floats.
std::optional<DType> common_dtype(std::span<const Operand> items) {
  std::optional<DType> common;
  for (const Operand& item : items)
    if (!(item.literal() && item.type.dtype == DType::I64)) {
      if (common && *common != item.type.dtype) return std::nullopt;
      common = item.type.dtype;
    }
  if (!common) return DType::I64;
  for (const Operand& item : items)
    if (item.type.dtype != *common && *common != DType::F64) return std::nullopt;
  return common;
}

bool is_sequence(const Value* value) { return value->kind == ValueKind::List || value->kind == ValueKind::Tuple; }

/// Nested sequences as one array: the leaves in C order, and the lengths of the sequences around them.
struct Nested {
  std::vector<Value*> leaves;
  std::vector<int64_t> lengths;
};

Captured<bool> flatten(Value* value, std::size_t depth, Nested& into) {
  if (!is_sequence(value)) {
    if (depth != into.lengths.size()) return break_at(BreakId::WouldRaise, "an inhomogeneous sequence");
    into.leaves.push_back(value);
    return true;
  }
  const auto length = static_cast<int64_t>(value->items.size());
  if (depth == into.lengths.size() && into.leaves.empty()) into.lengths.push_back(length);
  if (depth >= into.lengths.size() || into.lengths[depth] != length || length == 0 || value->partial)
    return break_at(BreakId::UnsupportedArgument, "a sequence of this kind as an array");
  for (Value* item : value->items) {
    FRAMEJIT_REQUIRE(flatten(item, depth + 1, into));
  }
  return true;
}

/// The dtype of a fresh array of arrays, or of numbers each of which has the dtype of an array of it.
Captured<DType> common_dtype_of_arrays(std::span<const Operand> arrays) {
  std::vector<arrays::OperandType> types;
  for (const Operand& array : arrays) {
    types.push_back(array.type);
    types.back().scalar = types.back().literal = false;
    types.back().value = nullptr;
  }
  return arrays::result_type(types);
}

/// An int that no integer type of NumPy's holds: the array is one of objects.
bool is_object(const Operand& item) {
  PyObject* number = item.literal() ? item.type.value : nullptr;
  if (!number || !PyLong_CheckExact(number)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow <= 0) return overflow < 0;
  PyLong_AsUnsignedLongLong(number);
  if (!PyErr_Occurred()) return false;
  PyErr_Clear();
  return true;
}

/// np.array([a, b, c]) of numbers, NumPy scalars, sequences of them, or arrays of one shape: leaf by leaf.
Captured<Value*> from_items(Session& session, Value* sequence, std::optional<DType> dtype) {
  constexpr std::size_t kMost = 64;
  Nested nested;
  FRAMEJIT_REQUIRE(flatten(sequence, 0, nested));
  if (nested.leaves.size() > kMost) return break_at(BreakId::UnsupportedArgument, "an array of too many items");
  std::vector<Operand> leaves;
  bool arrays = false, numbers = false;
  for (Value* value : nested.leaves) {
    FRAMEJIT_TRY(leaf, operand(session, value));
    arrays = arrays || leaf.is_array();
    numbers = numbers || !leaf.is_array();
    leaves.push_back(std::move(leaf));
  }
  if (!dtype && std::any_of(leaves.begin(), leaves.end(), is_object))
    return break_at(BreakId::UnsupportedArgument, "an array of objects");
  if (arrays && numbers) return break_at(BreakId::UnsupportedArgument, "an array of arrays and numbers");
  graph::Graph& graph = session.graph();
  Dims shape(nested.lengths.begin(), nested.lengths.end());
  DType to = DType::F64;
  if (arrays) {
    const Dims each = graph.type(leaves[0].id).shape;
    for (const Operand& leaf : leaves) {
      const Dims other = graph.type(leaf.id).shape;
      bool same = other.size() == each.size() && !each.empty();
      for (std::size_t i = 0; same && i < each.size(); ++i) same = graph.shapes().equal(each[i], other[i]);
      if (!same) return break_at(BreakId::UnsupportedArgument, "an array of arrays that differ in shape");
    }
    FRAMEJIT_TRY(common, common_dtype_of_arrays(leaves));
    to = dtype.value_or(common);
    shape.insert(shape.end(), each.begin(), each.end());
  } else {
    std::optional<DType> common = common_dtype(leaves);
    if (!common && !dtype) {
      FRAMEJIT_TRY(promoted, common_dtype_of_arrays(leaves));
      common = promoted;
    }
    const bool as_floats = common && dtype && common == DType::I64 && graph::is_float(*dtype);
    if (!common || (dtype.value_or(*common) != *common && !as_floats))
      return break_at(BreakId::UnsupportedArgument, "an array of items of different dtypes");
    to = dtype.value_or(*common);
  }
  const ValueId array = session.builder().empty(to, std::move(shape));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    ValueId place = array;
    std::size_t rest = i, step = leaves.size();
    for (int64_t length : nested.lengths) {
      step /= static_cast<std::size_t>(length);
      place = session.builder().select(place, 0, static_cast<int64_t>(rest / step));
      rest %= step;
    }
    FRAMEJIT_TRY(element, convert(session, leaves[i], to));
    FRAMEJIT_REQUIRE(write(session, place, element));
  }
  return fresh_array(session, array);
}

enum class CopyMode : uint8_t { Never, Always, IfNeeded };

/// Does an array do as it is where this order is asked for?
bool is_in_order(Session& session, ValueId x, char order) {
  graph::ShapeEnv& shapes = session.graph().shapes();
  const graph::Type& type = session.graph().type(x);
  return order == 'K' || shapes.equal(type.size(), 0) ||
         (order == 'C' ? graph::is_c_contiguous(shapes, type) : graph::is_f_contiguous(shapes, type));
}

/// copy= of np.array. NumPy 1 takes False for "if needed".
Captured<CopyMode> copy_argument(Session& session, Value* value) {
  if (value && value->is_none() && arrays::numpy_version().major >= 2) return CopyMode::IfNeeded;
  static PyObject* const modes = PyObject_GetAttrString(arrays::numpy_module(), "_CopyMode");
  static PyObject* const members[] = {modes ? PyObject_GetAttrString(modes, "NEVER") : nullptr,
                                      modes ? PyObject_GetAttrString(modes, "ALWAYS") : nullptr,
                                      modes ? PyObject_GetAttrString(modes, "IF_NEEDED") : nullptr};
  PyErr_Clear();
  for (int i = 0; value && value->source && i < 3; ++i) {
    if (value->object.get() != members[i] || !members[i]) continue;
    capture::Guard guard{};
    guard.kind = capture::GuardKind::Identity;
    guard.source = value->source;
    guard.object = value->object;
    session.guards().add(std::move(guard));
    return static_cast<CopyMode>(i);
  }
  FRAMEJIT_TRY(copy, flag_argument(value, true));
  return copy ? CopyMode::Always : arrays::numpy_version().major < 2 ? CopyMode::IfNeeded : CopyMode::Never;
}

Captured<Value*> call_array(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"object", "dtype", "copy", "order", "subok", "ndmin", "like"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[6]}));
  FRAMEJIT_TRY(order, order_argument(v[3], 'K', "CFK"));
  FRAMEJIT_TRY(copy, copy_argument(call.session, v[2]));
  FRAMEJIT_TRY(subok, flag_argument(v[4], false));  // there are no subclasses here
  (void)subok;
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  Value* made = nullptr;
  if (is_sequence(v[0])) {
    if (copy == CopyMode::Never || order == 'F')
      return break_at(BreakId::UnsupportedArgument, "np.array of a sequence without a copy");
    FRAMEJIT_TRY(array, from_items(call.session, v[0], dtype));
    made = array;
  } else {
    FRAMEJIT_TRY(x, operand(call.session, v[0]));
    const bool same =
        x.is_array() && dtype.value_or(x.type.dtype) == x.type.dtype && is_in_order(call.session, x.id, order);
    if (copy == CopyMode::Never && !same) return break_at(BreakId::UnsupportedArgument, "np.array that needs a copy");
    made = x.value;
    if (!same || copy == CopyMode::Always) {
      FRAMEJIT_TRY(array, copied(call.session, v[0], dtype, order));
      made = array;
    }
  }
  if (v[5]) {
    FRAMEJIT_TRY(least, int_argument(call.session, v[5]));
    const graph::Type type = call.session.graph().type(made->id());
    const auto missing = static_cast<std::size_t>(std::max<int64_t>(0, least - type.rank()));
    if (missing && !graph::is_c_contiguous(call.session.graph().shapes(), type))
      return break_at(BreakId::UnsupportedArgument, "np.array of an array that is not contiguous, with more axes");
    Dims shape = type.shape, strides = type.strides;
    shape.insert(shape.begin(), missing, Dim(1));
    strides.insert(
        strides.begin(), missing,
        arrays::has_wide_new_axes() ? type.size() * Dim(graph::size_of(type.dtype)) : Dim(graph::size_of(type.dtype)));
    if (missing)
      made =
          fresh_array(call.session, call.session.builder().view(made->id(), std::move(shape), std::move(strides), 0));
  }
  return made;
}

Captured<Value*> call_asarray(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "dtype", "order", "device", "copy", "like"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[3], v[4], v[5]}));
  FRAMEJIT_TRY(order, order_argument(v[2], 'K', "CFK"));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  if (is_sequence(v[0]) && order == 'F')
    return break_at(BreakId::UnsupportedArgument, "a sequence as an array in Fortran order");
  if (is_sequence(v[0])) return from_items(call.session, v[0], dtype);
  FRAMEJIT_TRY(x, operand(call.session, v[0]));
  if (x.is_array() && dtype.value_or(x.type.dtype) == x.type.dtype && is_in_order(call.session, x.id, order))
    return x.value;
  return copied(call.session, v[0], dtype, order);
}

/// np.ascontiguousarray and np.asfortranarray.
Captured<Value*> contiguous(const Call& call, char order) {
  FRAMEJIT_TRY(v, bind(call, {"a", "dtype", "like"}, 1));
  FRAMEJIT_REQUIRE(none_given({v[2]}));
  FRAMEJIT_TRY(array, array_argument(call.session, v[0]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  const graph::Type type = call.session.graph().type(array->id());
  if (type.rank() == 0) return break_at(BreakId::UnsupportedArgument, "np.ascontiguousarray of a 0-d array");
  if (call.session.graph().shapes().equal(type.size(), 0))
    return break_at(BreakId::UnsupportedArgument, "np.ascontiguousarray of an empty array");
  if (dtype.value_or(type.dtype) == type.dtype && is_in_order(call.session, array->id(), order)) return array;
  return copied(call.session, array, dtype, order);
}

Captured<Value*> call_ascontiguousarray(const Call& call) { return contiguous(call, 'C'); }
Captured<Value*> call_asfortranarray(const Call& call) { return contiguous(call, 'F'); }

Captured<Value*> copy_with_order(const Call& call, Value* array, Value* order_value, char otherwise) {
  FRAMEJIT_TRY(order, order_argument(order_value, otherwise, "CFK"));
  FRAMEJIT_TRY(x, array_argument(call.session, array));
  return copied(call.session, x, std::nullopt, order);
}

Captured<Value*> call_copy(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "order"}, 1));
  return copy_with_order(call, v[0], v[1], 'K');
}

Captured<Value*> method_copy(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "order"}, 1));
  return copy_with_order(call, v[0], v[1], 'C');
}

Captured<Value*> method_astype(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "dtype", "order", "casting", "subok", "copy"}, 2));
  FRAMEJIT_REQUIRE(order_argument(v[2], 'K', "K"));
  FRAMEJIT_REQUIRE(flag_argument(v[4], true));
  NPY_CASTING casting = NPY_UNSAFE_CASTING;
  if (!absent(v[3])) {
    const bool known = v[3]->is_constant() && PyUnicode_CheckExact(v[3]->object.get()) &&
                       PyArray_CastingConverter(v[3]->object.get(), &casting);
    PyErr_Clear();
    if (!known) return break_at(BreakId::UnsupportedArgument, "astype() with casting=");
  }
  FRAMEJIT_TRY(copy, flag_argument(v[5], true));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  if (!dtype || v[1]->is_none()) return break_at(BreakId::UnsupportedArgument, "astype(None)");
  FRAMEJIT_TRY(x, operand(call.session, v[0]));
  if (!PyArray_CanCastTypeTo(arrays::descr_of(x.type.dtype), arrays::descr_of(*dtype), casting))
    return break_at(BreakId::WouldRaise, "astype() between dtypes of different kinds");
  if (x.type.dtype == *dtype && !copy) return x.value;
  FRAMEJIT_TRY(id, convert(call.session, x, *dtype));
  if (id == x.id) id = call.session.builder().copy(id, 'K');
  return call.session.values().array(id, x.is_array() ? Wrap::NdArray : Wrap::NumpyScalar);
}

constexpr FunctionRow kFunctions[] = {
    {"empty", call_empty},
    {"empty_like", call_empty_like},
    {"ndarray", call_ndarray},
    {"zeros", call_zeros, Op::Param, true},
    {"ones", call_ones, Op::Param, true},
    {"full", call_full, Op::Param, true},
    {"zeros_like", call_zeros_like},
    {"ones_like", call_ones_like},
    {"full_like", call_full_like},
    {"arange", call_arange, Op::Param, true},
    {"array", call_array},
    {"asarray", call_asarray},
    {"asanyarray", call_asarray},
    {"ascontiguousarray", call_ascontiguousarray},
    {"asfortranarray", call_asfortranarray},
    {"copy", call_copy},
};

constexpr FunctionRow kMethods[] = {{"astype", method_astype}, {"copy", method_copy}};

}  // namespace

Captured<Value*> array_of_items(Session& session, Value* sequence) {
  return from_items(session, sequence, std::nullopt);
}

std::span<const FunctionRow> creation_functions() { return kFunctions; }
std::span<const FunctionRow> creation_methods() { return kMethods; }

}  // namespace framejit::ext::frontends
