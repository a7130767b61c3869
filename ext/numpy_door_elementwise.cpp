// Calls of ufuncs, np.where, np.clip, and of the scalar types.
#include <cmath>

#include "ext/numpy_door_parts.h"

namespace framejit::ext {

namespace {

/// The array that a ufunc is told to write: out=array, out=(array,) or the argument behind the operands. Null: none.
Captured<Value*> out_argument(const Call& call, std::size_t operands) {
  Value* out = call.args.size() > operands ? call.args[operands] : nullptr;
  for (const auto& [name, value] : call.keywords) {
    if (name != "out" || out) return break_at(BreakId::UnsupportedArgument, "a ufunc with " + std::string(name) + "=");
    out = value->kind == ValueKind::Tuple && value->items.size() == 1 ? value->items[0] : value;
  }
  if (absent(out)) return static_cast<Value*>(nullptr);
  return array_argument(call.session, out);
}

/// Where an operand lies partly in the memory that is written, NumPy's loops may run on other paths than they do on
/// fresh memory.
bool overlaps_partly(Session& session, ValueId out, std::span<Value* const> operands) {
  const graph::Graph& graph = session.graph();
  for (Value* value : operands) {
    if (!value->is_array() || graph.root(value->id) != graph.root(out)) continue;
    const graph::Type &a = graph.type(value->id), &b = graph.type(out);
    if (!(a.offset == b.offset) || a.shape != b.shape || a.strides != b.strides) return true;
  }
  return false;
}

}  // namespace

Captured<Value*> call_ufunc(const Call& call) {
  std::size_t operands = graph::def(call.op).operands;
  if (call.args.size() < operands || call.args.size() > operands + 1)
    return break_at(BreakId::WouldRaise, "a ufunc with another number of arguments");
  FRAMEJIT_TRY(out, out_argument(call, operands));
  const std::size_t first = call.session.graph().value_count();
  auto mark = [&] {
    if (ufunc_of(call.op)) call.session.mark_call(first);  // SciPy's have no say
  };
  FRAMEJIT_TRY(result, apply_ufunc(call.session, call.op, call.args.first(operands)));
  if (!out) {
    mark();
    return result;
  }
  if (graph::def(call.op).exactness != graph::Exactness::Native &&
      overlaps_partly(call.session, out->id, call.args.first(operands)))
    return break_at(BreakId::OverlappingMemory, "out= overlaps an operand");
  FRAMEJIT_TRY(stored, store_result(call.session, out->id, result->id));
  (void)stored;
  mark();
  return out;
}

Captured<Value*> call_scalar_type(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"x"}, 1));
  FRAMEJIT_TRY(x, operand(call.session, args[0]));
  if (!x.type.scalar) return break_at(BreakId::UnsupportedArgument, "a scalar type called with an array");
  // Into an integer: NaN and numbers out of range raise.
  if (x.id != graph::kNoValue && graph::is_float(x.type.dtype) && graph::is_int(call.dtype))
    return break_at(BreakId::UnsupportedArgument, "a float, known at run time only, as an integer");
  FRAMEJIT_TRY(id, convert(call.session, x, call.dtype));
  // A 0-d array may be written later.
  if (x.is_array() && id == x.id) id = call.session.builder().copy(id, 'C');
  return call.session.array(id, Wrap::NumpyScalar);
}

namespace {

Captured<Value*> call_where(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"condition", "x", "y"}, 3));
  return where(call.session, args[0], args[1], args[2]);
}

Captured<Value*> call_clip(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"a", "a_min", "a_max", "out"}, 3));
  FRAMEJIT_TRY(plain, none_given({args[3]}));
  (void)plain;
  return clip(call.session, args[0], args[1], args[2]);
}

Captured<Value*> call_positive(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"x"}, 1));
  return unary_operator(call.session, capture::Unary::Positive, args[0]);
}

/// abs(): scalars have arithmetic of their own for integers.
Captured<Value*> method_abs(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"self"}, 1));
  FRAMEJIT_TRY(result, apply_ufunc(call.session, Op::Absolute, std::span<Value* const>(args)));
  if (args[0]->wrap == Wrap::NumpyScalar && !graph::is_float(call.session.graph().type(result->id).dtype))
    return break_at(BreakId::UnsupportedArgument, "abs() of an integer scalar");
  return result;
}

/// The factor of np.deg2rad and np.rad2deg, as NumPy has rounded it: what it makes of 1.
Captured<Value*> scale_angle(const Call& call, const char* name) {
  FRAMEJIT_TRY(args, bind(call, {"x"}, 1));
  Session& session = call.session;
  FRAMEJIT_TRY(x, operand(session, args[0]));
  Ref<> ufunc = Ref<>::steal(PyObject_GetAttrString(numpy_module(), name));
  if (!ufunc || !PyObject_TypeCheck(ufunc.get(), &PyUFunc_Type)) {
    PyErr_Clear();
    return break_at(BreakId::UnknownCallable, name);
  }
  FRAMEJIT_TRY(loop, loop_types(reinterpret_cast<PyUFuncObject*>(ufunc.get()), std::span(&x.type, 1)));
  if (!x.type.scalar && x.type.dtype != loop.in[0])
    return break_at(BreakId::UnsupportedArgument, "angles that are not floats");
  Ref<> one = Ref<>::steal(PyFloat_FromDouble(1));
  Py_INCREF(descr_of(loop.in[0]));
  Ref<> unit = Ref<>::steal(PyArray_FromAny(one.get(), descr_of(loop.in[0]), 0, 0, NPY_ARRAY_FORCECAST, nullptr));
  Ref<> factor = unit ? Ref<>::steal(PyObject_CallOneArg(ufunc.get(), unit.get())) : Ref<>();
  if (!factor) {
    PyErr_Clear();
    return break_at(BreakId::UnknownCallable, name);
  }
  FRAMEJIT_TRY(angle, convert(session, x, loop.in[0]));
  FRAMEJIT_TRY(scale, operand(session, session.constant(factor.get())));
  FRAMEJIT_TRY(by, convert(session, scale, loop.in[0]));
  const ValueId inputs[] = {angle, by};
  FRAMEJIT_TRY(result, built(session.builder().elementwise(Op::Multiply, inputs)));
  return session.array(result, x.type.scalar ? Wrap::NumpyScalar : Wrap::NdArray);
}

Captured<Value*> call_to_radians(const Call& call) { return scale_angle(call, "deg2rad"); }
Captured<Value*> call_to_degrees(const Call& call) { return scale_angle(call, "rad2deg"); }

constexpr FunctionRow kFunctions[] = {
    {"where", call_where},        {"clip", call_clip},          {"positive", call_positive},
    {"deg2rad", call_to_radians}, {"radians", call_to_radians}, {"rad2deg", call_to_degrees},
    {"degrees", call_to_degrees},
};

constexpr FunctionRow kMethods[] = {{"__abs__", method_abs}};

}  // namespace

std::span<const FunctionRow> elementwise_functions() { return kFunctions; }
std::span<const FunctionRow> elementwise_methods() { return kMethods; }

}  // namespace framejit::ext
