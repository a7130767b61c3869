// The shape, layout and aliasing rules of the operators.
#include "graph/builder.h"

#include <algorithm>

#include "graph/layout.h"
#include "graph/passes/memory.h"
#include "graph/support/check.h"

namespace framejit::graph {

namespace {

/// One axis of a broadcast; false where the lengths do not fit.
bool broadcast_axis(ShapeEnv& shapes, const Dim& a, Dim& result) {
  if (a == result || a == Dim(1)) return true;
  if (result == Dim(1)) {
    result = a;
    return true;
  }
  if (shapes.fits(a, result)) {
    if (a.is_const()) result = a;
    return true;
  }
  if (shapes.equal(a, 1)) return true;
  if (!shapes.equal(result, 1)) return false;
  result = a;
  return true;
}

/// Merges `shape` into `result`, aligned at the last axis.
bool broadcast_into(ShapeEnv& shapes, std::span<const Dim> shape, Dims& result) {
  if (shape.size() > result.size()) result.insert(result.begin(), shape.size() - result.size(), Dim(1));
  const std::size_t missing = result.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (!broadcast_axis(shapes, shape[i], result[missing + i])) return false;
  return true;
}

std::vector<const Type*> types_of(const Graph& graph, std::span<const ValueId> values) {
  std::vector<const Type*> out;
  for (ValueId v : values) out.push_back(&graph.type(v));
  return out;
}

}  // namespace

std::string shape_str(std::span<const Dim> shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ",";
    out += shape[i].str();
  }
  out += shape.size() == 1 ? ",)" : ")";
  return out;
}

ValueId GraphBuilder::append(Op op, std::vector<ValueId> inputs, Type type, Attrs attrs) {
  Node node{};
  node.op = op;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.type = std::move(type);
  node.location = location_;
  const ValueId v = graph_.append(std::move(node));
  if (flag_rule_ && (op == Op::LibraryCall || may_set_flags(graph_, v))) graph_.node(v).flag_rule = flag_rule_;
  return v;
}

ValueId GraphBuilder::param(Type type, std::string name) {
  FRAMEJIT_CHECK(!type.is_view(), "a param owns its bytes");
  const int64_t number = static_cast<int64_t>(graph_.params().size());
  Attrs attrs{{AttrKey::Index, number}};
  if (!name.empty()) attrs.emplace_back(AttrKey::Name, std::move(name));
  return append(Op::Param, {}, std::move(type), std::move(attrs));
}

ValueId GraphBuilder::constant(DType dtype, Scalar value) {
  return append(Op::Constant, {}, Type{dtype, {}, {}}, {{AttrKey::Value, value}});
}

ValueId GraphBuilder::dim_value(const Dim& d) {
  return append(Op::DimValue, {}, Type{DType::I64, {}, {}}, {{AttrKey::Dim, d}});
}

ValueId GraphBuilder::empty(DType dtype, Dims shape, std::optional<Dims> strides) {
  if (!strides) strides = packed_strides(graph_.shapes(), dtype, shape, c_order(static_cast<int>(shape.size())));
  return append(Op::Empty, {}, Type{dtype, std::move(shape), std::move(*strides)});
}

ValueId GraphBuilder::full(ValueId value, Dims shape, std::optional<Dims> strides) {
  const DType dtype = graph_.type(value).dtype;
  FRAMEJIT_CHECK(graph_.type(value).rank() == 0, "full takes a 0-d value");
  if (!strides) strides = packed_strides(graph_.shapes(), dtype, shape, c_order(static_cast<int>(shape.size())));
  return append(Op::Full, {value}, Type{dtype, std::move(shape), std::move(*strides)});
}

ValueId GraphBuilder::iota(DType dtype, const Dim& n) {
  FRAMEJIT_CHECK(is_int(dtype) || is_float(dtype), "iota of integers or floats");
  const Dims shape{n};
  return append(Op::Iota, {}, Type{dtype, shape, packed_strides(graph_.shapes(), dtype, shape, c_order(1))});
}

BuildResult GraphBuilder::elementwise(Op op, std::span<const ValueId> operands, std::span<const ValueId> seen) {
  FRAMEJIT_CHECK(def(op).cls == OpClass::Elementwise, std::string(name_of(op)) + " is not elementwise");
  FRAMEJIT_CHECK(operands.size() == def(op).operands, "number of operands of " + std::string(name_of(op)));
  FRAMEJIT_CHECK(seen.empty() || seen.size() == operands.size(), "one seen value for each operand");
  const DType dtype = graph_.type(operands.back()).dtype;
  FRAMEJIT_CHECK(takes(op, dtype), std::string(name_of(op)) + " of " + std::string(name_of(dtype)));
  Dims shape;
  bool fits = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Type& t = graph_.type(operands[i]);
    const DType expected = op == Op::Where && i == 0 ? DType::Bool : dtype;
    FRAMEJIT_CHECK(t.dtype == expected, "operands of " + std::string(name_of(op)) + " differ in dtype");
    fits = fits && broadcast_into(graph_.shapes(), t.shape, shape);
  }
  if (!fits) {
    std::string message = "operands could not be broadcast together with shapes";
    for (ValueId v : operands) message.append(" ").append(shape_str(graph_.type(v).shape));
    return shape_error(message);
  }
  const std::vector<const Type*> types = types_of(graph_, seen.empty() ? operands : seen);
  ShapeEnv& shapes = graph_.shapes();
  const AxisOrder order = op == Op::Where ? iterator_order(shapes, shape, types) : ufunc_order(shapes, shape, types);
  const DType result = *result_dtype(op, dtype);
  Dims strides = packed_strides(shapes, result, shape, order);
  return append(op, {operands.begin(), operands.end()}, Type{result, std::move(shape), std::move(strides)});
}

BuildResult GraphBuilder::cast(ValueId x, DType dtype) {
  const Type& t = graph_.type(x);
  const AxisOrder order = copy_order(graph_.shapes(), t);
  Type type{dtype, t.shape, packed_strides(graph_.shapes(), dtype, t.shape, order)};
  return append(Op::Cast, {x}, std::move(type));
}

BuildResult GraphBuilder::reduce(Op op, ValueId x, std::vector<int64_t> axes) {
  FRAMEJIT_CHECK(def(op).cls == OpClass::Reduction, std::string(name_of(op)) + " is no reduction");
  const Type& t = graph_.type(x);
  ShapeEnv& shapes = graph_.shapes();
  FRAMEJIT_CHECK(takes(op, t.dtype), std::string(name_of(op)) + " of " + std::string(name_of(t.dtype)));
  std::vector<bool> reduced(t.shape.size(), false);
  Dim count = 1;
  for (int64_t axis : axes) {
    FRAMEJIT_CHECK(axis >= 0 && axis < t.rank() && !reduced[axis], "axes of a reduction");
    reduced[axis] = true;
    count = count * t.shape[axis];
  }
  if ((op == Op::ReduceMin || op == Op::ReduceMax) && !shapes.holds(Relation::Lt, 0, count))
    return shape_error("zero-size array to a reduction operation which has no identity");
  const Type* operand = &t;
  AxisOrder order;  // of the kept axes, numbered as in the result
  Dims shape;
  std::vector<int> number(t.shape.size());
  for (int i = 0; i < t.rank(); ++i) {
    number[i] = static_cast<int>(shape.size());
    if (!reduced[i]) shape.push_back(t.shape[i]);
  }
  for (int axis : iterator_order(shapes, t.shape, {&operand, 1}))
    if (!reduced[axis]) order.push_back(number[axis]);
  const DType result = *result_dtype(op, t.dtype);
  Dims strides = packed_strides(shapes, result, shape, order);
  return append(op, {x}, Type{result, std::move(shape), std::move(strides)}, {{AttrKey::Axes, std::move(axes)}});
}

ValueId GraphBuilder::keep_dims(ValueId reduced, ValueId x, std::span<const int64_t> axes) {
  const Type& t = graph_.type(x);
  const Type* operand = &t;
  Dims shape = t.shape;
  for (int64_t axis : axes) shape[axis] = 1;
  const AxisOrder order = iterator_order(graph_.shapes(), t.shape, {&operand, 1});
  Dims strides = packed_strides(graph_.shapes(), graph_.type(reduced).dtype, shape, order);
  return view(reduced, std::move(shape), std::move(strides), 0);
}

ValueId GraphBuilder::view(ValueId x, Dims shape, Dims strides, Dim offset_from_x) {
  if (graph_.node(x).op == Op::Constant || graph_.node(x).op == Op::DimValue) x = copy(x, 'C');  // gives it bytes
  const Type& t = graph_.type(x);
  Type type{t.dtype, std::move(shape), std::move(strides), graph_.root(x), t.offset + offset_from_x};
  FRAMEJIT_CHECK(type.shape.size() == type.strides.size(), "a stride for each axis");
  return append(Op::View, {x}, std::move(type));
}

ValueId GraphBuilder::reinterpret(ValueId x, DType dtype, int64_t offset) {
  const Type t = graph_.type(x);
  const ValueId made = view(x, t.shape, t.strides, offset);
  graph_.node(made).type.dtype = dtype;
  return made;
}

ValueId GraphBuilder::slice(ValueId x, int axis, const Dim& start, const Dim& length, int64_t step) {
  const Type& t = graph_.type(x);
  Dims shape = t.shape, strides = t.strides;
  const Dim offset = start * strides[axis];
  shape[axis] = length;
  strides[axis] = strides[axis] * Dim(step);
  return view(x, std::move(shape), std::move(strides), offset);
}

ValueId GraphBuilder::select(ValueId x, int axis, const Dim& position) {
  const Type& t = graph_.type(x);
  Dims shape = t.shape, strides = t.strides;
  const Dim offset = position * strides[axis];
  shape.erase(shape.begin() + axis);
  strides.erase(strides.begin() + axis);
  return view(x, std::move(shape), std::move(strides), offset);
}

ValueId GraphBuilder::expand_dims(ValueId x, int axis) {
  const Type& t = graph_.type(x);
  Dims shape = t.shape, strides = t.strides;
  shape.insert(shape.begin() + axis, 1);
  strides.insert(strides.begin() + axis, 0);  // as x[None]
  return view(x, std::move(shape), std::move(strides), 0);
}

ValueId GraphBuilder::transpose(ValueId x, std::span<const int> permutation) {
  const Type& t = graph_.type(x);
  FRAMEJIT_CHECK(permutation.size() == t.shape.size(), "a permutation of all axes");
  Dims shape, strides;
  for (int axis : permutation) {
    shape.push_back(t.shape[axis]);
    strides.push_back(t.strides[axis]);
  }
  return view(x, std::move(shape), std::move(strides), 0);
}

BuildResult GraphBuilder::broadcast_to(ValueId x, Dims shape) {
  const Type& t = graph_.type(x);
  const std::string message =
      "input operand has shape " + shape_str(t.shape) + " which does not broadcast to " + shape_str(shape);
  if (t.shape.size() > shape.size()) return shape_error(message);
  Dims strides(shape.size(), 0);
  const std::size_t missing = shape.size() - t.shape.size();
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    const Dim& target = shape[missing + i];
    if (t.shape[i] == Dim(1) && !(target == Dim(1))) continue;  // repeated
    if (graph_.shapes().fits(t.shape[i], target))
      strides[missing + i] = graph_.shapes().equal(t.shape[i], 1) ? Dim(0) : t.strides[i];
    else if (!graph_.shapes().equal(t.shape[i], 1)) return shape_error(message);
  }
  return view(x, std::move(shape), std::move(strides), 0);
}

BuildResult GraphBuilder::reshape(ValueId x, Dims shape) {
  if (!graph_.shapes().equal(graph_.type(x).size(), product(shape)))
    return shape_error("cannot reshape array of size " + graph_.type(x).size().str() + " into shape " +
                       shape_str(shape));
  if (std::optional<Dims> strides = reshape_strides(graph_.shapes(), graph_.type(x), shape))
    return view(x, std::move(shape), std::move(*strides), 0);
  const ValueId packed = copy(x, 'C');
  Dims strides = packed_strides(graph_.shapes(), graph_.type(x).dtype, shape, c_order(static_cast<int>(shape.size())));
  return view(packed, std::move(shape), std::move(strides), 0);
}

ValueId GraphBuilder::copy(ValueId x, char order) {
  const Type& t = graph_.type(x);
  FRAMEJIT_CHECK(order == 'C' || order == 'F' || order == 'K', "order of a copy");
  AxisOrder axes = order == 'K' ? copy_order(graph_.shapes(), t) : c_order(t.rank());
  if (order == 'F') std::reverse(axes.begin(), axes.end());
  Type type{t.dtype, t.shape, packed_strides(graph_.shapes(), t.dtype, t.shape, axes)};
  return append(Op::Copy, {x}, std::move(type));
}

Expected<ValueId, ShapeError> GraphBuilder::write(ValueId dst, ValueId value) {
  FRAMEJIT_CHECK(graph_.type(dst).dtype == graph_.type(value).dtype, "write: dtypes differ");
  // Leading axes of length 1 that dst does not have are dropped, as in assignment.
  while (graph_.type(value).rank() > graph_.type(dst).rank()) {
    if (!graph_.shapes().equal(graph_.type(value).shape[0], 1)) break;
    value = select(value, 0, 0);
  }
  Type target = graph_.type(dst);
  const Type& source = graph_.type(value);
  bool fits = source.rank() <= target.rank();
  const int missing = target.rank() - source.rank();
  for (int i = 0; fits && i < source.rank(); ++i) {
    const Dim& d = source.shape[i];
    fits = d == Dim(1) || graph_.shapes().fits(d, target.shape[missing + i]) || graph_.shapes().equal(d, 1);
  }
  if (!fits)
    return shape_error("could not broadcast input array from shape " + shape_str(source.shape) + " into shape " +
                       shape_str(target.shape));
  target.root = graph_.root(dst);
  if (graph_.root(value) == target.root && !same_place(source, target)) value = copy(value, 'K');
  return append(Op::Write, {dst, value}, std::move(target));
}

namespace {

/// What a matrix product makes of its operands' shapes; 1-D operands get an axis of length 1, which `result` lacks
/// again.
struct MatMulShape {
  Dims result;
  bool fits;
};

MatMulShape matmul_shape(ShapeEnv& shapes, const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) return {{}, false};
  const std::span<const Dim> left_batch = std::span(a).first(a.size() < 2 ? 0 : a.size() - 2);
  const std::span<const Dim> right_batch = std::span(b).first(b.size() < 2 ? 0 : b.size() - 2);
  Dims result;
  bool fits = shapes.equal(a.back(), b.size() < 2 ? b[0] : b[b.size() - 2]);
  fits = fits && broadcast_into(shapes, left_batch, result) && broadcast_into(shapes, right_batch, result);
  if (a.size() >= 2) result.push_back(a[a.size() - 2]);
  if (b.size() >= 2) result.push_back(b.back());
  return {std::move(result), fits};
}

/// Of np.matmul's result: that of its loop over matrices, which are C-ordered.
AxisOrder matmul_order(ShapeEnv& shapes, const Type& a, const Type& b, const Dims& result) {
  const std::size_t matrix = static_cast<std::size_t>((a.rank() > 1) + (b.rank() > 1)), batch = result.size() - matrix;
  AxisOrder order = c_order(static_cast<int>(result.size()));
  if (batch < 2) return order;
  const auto of_batch = [](const Type& t) {
    const auto axes = static_cast<std::ptrdiff_t>(std::max(t.rank() - 2, 0));
    return Type{t.dtype, Dims(t.shape.begin(), t.shape.begin() + axes),
                Dims(t.strides.begin(), t.strides.begin() + axes)};
  };
  const Type left = of_batch(a), right = of_batch(b);
  const Type* const both[] = {&left, &right};
  const AxisOrder outer = iterator_order(shapes, std::span(result).first(batch), both);
  std::copy(outer.begin(), outer.end(), order.begin() + static_cast<std::ptrdiff_t>(matrix));
  return order;
}

}  // namespace

BuildResult GraphBuilder::matmul(ValueId a, ValueId b, char order) {
  const Type &left = graph_.type(a), &right = graph_.type(b);
  FRAMEJIT_CHECK(left.dtype == right.dtype, "matmul: dtypes differ");
  MatMulShape m = matmul_shape(graph_.shapes(), left.shape, right.shape);
  if (!m.fits)
    return shape_error("matmul: mismatch of shapes " + shape_str(left.shape) + " and " + shape_str(right.shape));
  const AxisOrder axes =
      order == 'C' ? c_order(static_cast<int>(m.result.size())) : matmul_order(graph_.shapes(), left, right, m.result);
  Dims strides = packed_strides(graph_.shapes(), left.dtype, m.result, axes);
  return append(Op::MatMul, {a, b}, Type{left.dtype, std::move(m.result), std::move(strides)});
}

ValueId GraphBuilder::branch(ValueId condition, std::unique_ptr<Block> if_true, std::unique_ptr<Block> if_false) {
  const ValueId v = append(Op::If, {condition}, Type{DType::Bool, {}, {}});
  graph_.node(v).blocks.push_back(std::move(if_true));
  graph_.node(v).blocks.push_back(std::move(if_false));
  return v;
}

ValueId GraphBuilder::carried(Type type) { return append(Op::Carried, {}, std::move(type)); }

ValueId GraphBuilder::loop(std::vector<ValueId> initial, std::unique_ptr<Block> body) {
  FRAMEJIT_CHECK(initial.size() == body->params.size(), "a first value for each carried one");
  const ValueId v = append(Op::Loop, std::move(initial), Type{DType::Bool, {}, {}});
  graph_.node(v).blocks.push_back(std::move(body));
  return v;
}

ValueId GraphBuilder::output(ValueId control, int64_t index) {
  const Node& n = graph_.node(control);
  const std::size_t at = static_cast<std::size_t>(index) + (n.op == Op::Loop ? 1 : 0);
  const Type& t = graph_.type(n.blocks[0]->results[at]);
  return append(Op::Output, {control}, Type{t.dtype, t.shape, t.strides}, {{AttrKey::Index, index}});
}

void GraphBuilder::expect(ValueId condition) { append(Op::Expect, {condition}, Type{DType::Bool, {}, {}}); }

Dim GraphBuilder::measure(ValueId count, const Dim& most, std::optional<int64_t> hint) {
  const Dim symbol = graph_.shapes().fresh(hint.value_or(std::max<int64_t>(graph_.shapes().hint(most) / 2, 61)));
  std::vector<SymbolId> id;
  symbol.collect_symbols(id);
  graph_.shapes().set_measured(id[0]);
  append(Op::Measure, {count}, Type{DType::Bool, {}, {}}, {{AttrKey::Dim, symbol}, {AttrKey::Most, most}});
  return symbol;
}

ValueId GraphBuilder::library_call(int64_t index, std::vector<ValueId> operands, DType dtype, Dims shape,
                                   std::optional<Dims> strides) {
  if (!strides) strides = packed_strides(graph_.shapes(), dtype, shape, c_order(static_cast<int>(shape.size())));
  return append(Op::LibraryCall, std::move(operands), Type{dtype, std::move(shape), std::move(*strides)},
                {{AttrKey::Index, index}});
}

}  // namespace framejit::graph
