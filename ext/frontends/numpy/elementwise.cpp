// Calls of ufuncs, np.where, np.clip, and of the scalar types.
#include <cmath>

#include "ext/frontends/numpy/call.h"
#include "ext/frontends/numpy/index.h"
#include "ext/frontends/numpy/library_call_capture.h"
#include "graph/mask_operators.h"

namespace framejit::ext::frontends {

using arrays::descr_of;
using arrays::numpy_version;

namespace {

/// What a ufunc is told beside its operands.
struct Keywords {
  Value* out = nullptr;    // the array to write: out=array, out=(array,) or the argument behind the operands
  Value* where = nullptr;  // an array of bools; null where it is True
  bool other = false;      // dtype= of another dtype than the ufunc computes in, and the like
  bool array = false;      // out=...: an array also where there would be a number
};

/// Is the ufunc told the dtype that it computes in anyway?
bool is_own_dtype(const Call& call, std::size_t operands, Value* told) {
  auto dtype = dtype_argument(told);
  return dtype && *dtype && computes_in(call.session, call.op, call.args.first(operands), **dtype);
}

Captured<Keywords> keywords_of(const Call& call, std::size_t operands) {
  const bool takes_ellipsis = numpy_version().major > 2 || (numpy_version().major == 2 && numpy_version().minor >= 3);
  Keywords found;
  Value* out = call.args.size() > operands ? call.args[operands] : nullptr;
  for (const auto& [name, value] : call.keywords) {
    if (name == "out" && !out) {
      out = value->kind == ValueKind::Tuple && value->items.size() == 1 ? value->items[0] : value;
    } else if (name == "where") {
      const bool always = value->is_constant() && value->object.get() == Py_True;
      if (always) continue;
      FRAMEJIT_TRY(mask, array_argument(call.session, value));
      if (call.session.graph().type(mask->id()).dtype != DType::Bool)
        return break_at(BreakId::WouldRaise, "where= of another dtype than bool");
      found.where = mask;
    } else if (name != "dtype" || !(value->is_none() || is_own_dtype(call, operands, value))) {
      found.other = true;
    }
  }
  if (out && out->is_constant() && out->object.get() == Py_Ellipsis && takes_ellipsis) {
    found.array = true;
  } else if (!absent(out)) {
    FRAMEJIT_TRY(array, output_argument(call.session, out));
    found.out = array;
  }
  return found;
}

/// out[where] = the ufunc's results there.
Captured<bool> store_masked(Session& session, ValueId out, ValueId result, ValueId mask) {
  const DType from = session.graph().type(result).dtype, to = session.graph().type(out).dtype;
  if (!PyArray_CanCastTypeTo(descr_of(from), descr_of(to), NPY_SAME_KIND_CASTING))
    return break_at(BreakId::WouldRaise, "the result does not cast to the dtype of out=");
  // NumPy casts what is there already to the loop's dtype too, which may raise flags, and where memory overlaps it
  // casts that back.
  if (from != to) return break_at(BreakId::UnsupportedArgument, "a ufunc with where= and an out= of another dtype");
  const ValueId choices[] = {mask, result, out};
  FRAMEJIT_TRY(all, built(session.builder().elementwise(Op::Where, choices)));
  return store_result(session, out, all);
}

}  // namespace

namespace {

/// Among Python numbers alone, such an int is an object to NumPy.
bool is_long_int(const Value* v) {
  if (!v->is_constant() || !PyLong_CheckExact(v->object.get())) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(v->object.get(), &overflow);
  return overflow != 0;
}

}  // namespace

Captured<Value*> call_ufunc(const Call& call) {
  std::size_t operands = graph::def(call.op).operands;
  if (call.args.size() < operands || call.args.size() > operands + 1)
    return break_at(BreakId::WouldRaise, "a ufunc with another number of arguments");
  const auto operand_values = call.args.first(operands);
  const bool numbers = std::all_of(operand_values.begin(), operand_values.end(),
                                   [](const Value* v) { return !v->is_array() || v->is_weak(); });
  if (numbers && std::any_of(operand_values.begin(), operand_values.end(), is_long_int))
    return break_at(BreakId::UnsupportedArgument, "a ufunc of an int of more than 64 bits");
  FRAMEJIT_TRY(given, keywords_of(call, operands));
  Value* const out = given.out;
  if (given.other && !given.where && !out) return library_call(call.session, call.callable, call.args, call.keywords);
  if (given.other) return break_at(BreakId::UnsupportedArgument, "a ufunc with such keywords");
  if (call.args.size() > operands && (call.op == Op::Maximum || call.op == Op::Minimum))
    return break_at(BreakId::UnknownCallable, "np.maximum of three operands, of which newer versions warn");
  if (given.where && (!out || call.op == Op::Power || call.op == Op::Fmin || call.op == Op::Fmax))
    return break_at(BreakId::UnsupportedArgument, "a ufunc with where=");
  const std::size_t first = call.session.graph().value_count();
  auto mark = [&] {
    if (arrays::ufunc_of(call.op)) call.session.position().mark_call(first);  // SciPy's have no say
  };
  if (out && is_odd_place(call.session, call.op, out->id(), call.args.first(operands)))
    return break_at(BreakId::OverlappingMemory, "out= overlaps an operand, or is reversed");
  if (given.where) {
    std::vector<Operand> seen;
    for (Value* value : call.args.first(operands)) {
      FRAMEJIT_TRY(one, operand(call.session, value));
      seen.push_back(std::move(one));
    }
    FRAMEJIT_TRY(result, apply_ufunc(call.session, call.op, seen, given.where->id()));
    FRAMEJIT_REQUIRE(store_masked(call.session, out->id(), result->id(), given.where->id()));
    mark();
    return out;
  }
  FRAMEJIT_TRY(result, apply_ufunc(call.session, call.op, call.args.first(operands)));
  if (!out) {
    mark();
    return given.array ? fresh_array(call.session, result->id()) : result;
  }
  FRAMEJIT_REQUIRE(store_result(call.session, out->id(), result->id()));
  mark();
  return out;
}

Captured<Value*> call_scalar_type(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"/x"}, 1));
  FRAMEJIT_TRY(x, operand(call.session, args[0]));
  if (!x.type.scalar) return break_at(BreakId::UnsupportedArgument, "a scalar type called with an array");
  // Into an integer: NaN and numbers out of range raise.
  if (x.id != graph::kNoValue && !graph::is_int(x.type.dtype) && x.type.dtype != DType::Bool &&
      graph::is_int(call.dtype))
    return break_at(BreakId::UnsupportedArgument, "a float, known at run time only, as an integer");
  FRAMEJIT_TRY(id, convert(call.session, x, call.dtype));
  // A 0-d array may be written later.
  if (x.is_array() && id == x.id) id = copy_element(call.session, id);
  return call.session.values().array(id, Wrap::NumpyScalar);
}

namespace {

/// NumPy gives views of one array with a column for each axis.
Captured<Value*> nonzero(Session& session, Value* given) {
  FRAMEJIT_TRY(x, array_argument(session, given));
  const graph::Type type = session.graph().type(x->id());
  if (type.rank() == 0) return break_at(BreakId::UnsupportedArgument, "np.nonzero of a 0-d array");
  graph::GraphBuilder& builder = session.builder();
  ValueId mask = x->id();
  if (type.dtype != DType::Bool) {
    const ValueId operands[] = {x->id(), builder.constant(type.dtype, {})};
    FRAMEJIT_TRY(differs, built(builder.elementwise(Op::NotEqual, operands)));
    mask = differs;
  }
  const ValueId places = graph::append_nonzero(builder, mask, session.measures().count_of(mask));
  std::vector<Value*> columns;
  for (int a = 0; a < type.rank(); ++a)
    columns.push_back(session.values().array(builder.select(places, 1, a), Wrap::NdArray));
  return session.values().tuple(std::move(columns));
}

Captured<Value*> method_nonzero(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"/self"}, 1));
  return nonzero(call.session, args[0]);
}

Captured<Value*> call_where(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"/condition", "/x", "/y"}, 1));
  if (!args[1] && !args[2]) return nonzero(call.session, args[0]);
  if (!args[1] || !args[2]) return break_at(BreakId::WouldRaise, "either both or neither of x and y should be given");
  return where(call.session, args[0], args[1], args[2]);
}

Captured<Value*> call_clip(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"a", "a_min", "a_max", "out"}, 3));
  // Then NumPy 1 takes the formula for arrays of bounds, which gives another zero.
  if (!absent(args[3]) && numpy_version().major < 2) return break_at(BreakId::UnsupportedArgument, "np.clip with out=");
  FRAMEJIT_TRY(result, clip(call.session, args[0], args[1], args[2]));
  if (absent(args[3])) return result;
  FRAMEJIT_TRY(out, output_argument(call.session, args[3]));
  FRAMEJIT_REQUIRE(store_result(call.session, out->id(), result->id()));
  return out;
}

Captured<Value*> call_positive(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"/x"}, 1));
  return unary_operator(call.session, capture::Unary::Positive, args[0]);
}

/// abs(): scalars have arithmetic of their own for integers.
Captured<Value*> method_abs(const Call& call) {
  FRAMEJIT_TRY(args, bind(call, {"/self"}, 1));
  FRAMEJIT_TRY(result, apply_ufunc(call.session, Op::Absolute, std::span<Value* const>(args)));
  if (args[0]->wrap() == Wrap::NumpyScalar && !graph::is_float(call.session.graph().type(args[0]->id()).dtype))
    return break_at(BreakId::UnsupportedArgument, "abs() of an integer or complex scalar");
  return result;
}

/// The factor of np.deg2rad and np.rad2deg, as NumPy has rounded it: what it makes of 1.
Captured<Value*> scale_angle(const Call& call, const char* name) {
  FRAMEJIT_TRY(args, bind(call, {"/x"}, 1));
  Session& session = call.session;
  FRAMEJIT_TRY(x, operand(session, args[0]));
  Ref<> ufunc = Ref<>::steal(PyObject_GetAttrString(arrays::numpy_module(), name));
  if (!ufunc || !PyObject_TypeCheck(ufunc.get(), &PyUFunc_Type)) {
    PyErr_Clear();
    return break_at(BreakId::UnknownCallable, name);
  }
  FRAMEJIT_TRY(loop, arrays::loop_types(reinterpret_cast<PyUFuncObject*>(ufunc.get()), std::span(&x.type, 1)));
  if (!x.type.scalar && x.type.dtype != loop.in[0])
    return break_at(BreakId::UnsupportedArgument, "angles that are not floats");
  Ref<> one = Ref<>::steal(PyFloat_FromDouble(1));
  PyArray_Descr* const descr = descr_of(loop.in[0] == DType::F16 ? DType::F32 : loop.in[0]);
  Py_INCREF(descr);
  Ref<> unit = Ref<>::steal(PyArray_FromAny(one.get(), descr, 0, 0, NPY_ARRAY_FORCECAST, nullptr));
  Ref<> factor = unit ? Ref<>::steal(PyObject_CallOneArg(ufunc.get(), unit.get())) : Ref<>();
  if (!factor) {
    PyErr_Clear();
    return break_at(BreakId::UnknownCallable, name);
  }
  FRAMEJIT_TRY(angle, convert(session, x, loop.in[0]));
  const DType computed = loop.in[0] == DType::F16 ? DType::F32 : loop.in[0];  // as NumPy's loop does
  if (computed != loop.in[0]) {
    // In the layout that a ufunc gives its result, which is not that of a cast; one time a number is the number.
    graph::Scalar half_one{};
    half_one.lo = 0x3c00;
    const ValueId with_one[] = {angle, session.builder().constant(DType::F16, half_one)};
    FRAMEJIT_TRY(fresh, built(session.builder().elementwise(Op::Multiply, with_one)));
    FRAMEJIT_TRY(wide, built(session.builder().cast(fresh, computed)));
    angle = wide;
  }
  FRAMEJIT_TRY(scale, operand(session, session.values().constant(factor.get())));
  FRAMEJIT_TRY(by, convert(session, scale, computed));
  const ValueId inputs[] = {angle, by};
  FRAMEJIT_TRY(product, built(session.builder().elementwise(Op::Multiply, inputs)));
  ValueId result = product;
  if (computed != loop.in[0]) {
    FRAMEJIT_TRY(narrow, built(session.builder().cast(product, loop.in[0])));
    result = narrow;
  }
  return session.values().array(result, x.type.scalar ? Wrap::NumpyScalar : Wrap::NdArray);
}

Captured<Value*> call_to_radians(const Call& call) { return scale_angle(call, "deg2rad"); }
Captured<Value*> call_to_degrees(const Call& call) { return scale_angle(call, "rad2deg"); }

/// np.copyto: casts as 'same_kind' allows.
Captured<Value*> call_copyto(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"dst", "src", "casting", "where"}, 2));
  NPY_CASTING casting = NPY_SAME_KIND_CASTING;
  if (!absent(v[2])) {
    const bool known = v[2]->is_constant() && PyUnicode_CheckExact(v[2]->object.get()) &&
                       PyArray_CastingConverter(v[2]->object.get(), &casting);
    PyErr_Clear();
    if (!known) return break_at(BreakId::UnsupportedArgument, "np.copyto with casting=");
  }
  Session& session = call.session;
  FRAMEJIT_TRY(dst, output_argument(session, v[0]));
  FRAMEJIT_TRY(src, operand(session, v[1]));
  const DType to = session.graph().type(dst->id()).dtype;
  const bool casts = PyArray_CanCastTypeTo(descr_of(src.type.dtype), descr_of(to), casting);
  if (!casts || (!src.is_array() && graph::is_unsigned_int(to)))
    return break_at(BreakId::UnsupportedArgument, "np.copyto between dtypes of different kinds");
  FRAMEJIT_TRY(elements, convert(session, src, to));
  const bool always = !v[3] || (v[3]->is_constant() && v[3]->object.get() == Py_True);
  if (!always) {
    FRAMEJIT_TRY(mask, array_argument(session, v[3]));
    if (session.graph().type(mask->id()).dtype != DType::Bool)
      return break_at(BreakId::WouldRaise, "where= of another dtype than bool");
    if (session.graph().type(mask->id()).rank() > session.graph().type(dst->id()).rank())
      return break_at(BreakId::WouldRaise, "where= of more axes than what is written");
    const ValueId choices[] = {mask->id(), elements, dst->id()};
    FRAMEJIT_TRY(all, built(session.builder().elementwise(Op::Where, choices)));
    elements = all;
  }
  FRAMEJIT_REQUIRE(write(session, dst->id(), elements));
  return session.values().constant(Py_None);
}

/// x.fill(value).
Captured<Value*> method_fill(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "/value"}, 2));
  FRAMEJIT_TRY(x, array_argument(call.session, v[0]));
  if (v[1]->is_array() && v[1]->wrap() == Wrap::NdArray)
    return break_at(BreakId::UnsupportedArgument, "fill() with an array");
  if (is_sequence(*v[1])) return break_at(BreakId::WouldRaise, "setting an array element with a sequence");
  FRAMEJIT_REQUIRE(store(call.session, x->id(), v[1]));
  return call.session.values().constant(Py_None);
}

/// An element as Python's number.
Captured<Value*> python_number(Session& session, ValueId id) {
  const DType dtype = session.graph().type(id).dtype;
  if (dtype == DType::Bool) return session.values().array(id, Wrap::PyBool);
  if (dtype == DType::U64) return break_at(BreakId::UnsupportedArgument, "an uint64 as Python's int");
  const bool real = graph::is_float(dtype), complex = graph::is_complex(dtype);
  FRAMEJIT_TRY(number, cast(session, id, complex ? DType::C128 : real ? DType::F64 : DType::I64));
  return session.values().array(number, complex ? Wrap::PyComplex : real ? Wrap::PyFloat : Wrap::PyInt);
}

/// x.item(), of one element, or x.item(i), counted in C order.
Captured<Value*> method_item(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "/index"}, 1));
  Session& session = call.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  const graph::Type type = session.graph().type(v[0]->id());
  if (!v[1] && !(type.size() == graph::Dim(1)))
    return break_at(BreakId::UnsupportedArgument, "item() of many elements");
  graph::Dim offset = 0;
  if (v[1]) {
    FRAMEJIT_TRY(at, int_argument(session, v[1]));
    const int64_t size = shapes.specialize(type.size());
    if (at < -size || at >= size) return break_at(BreakId::WouldRaise, "index out of bounds");
    int64_t rest = at < 0 ? at + size : at;
    for (std::size_t axis = type.shape.size(); axis-- > 0;) {
      const int64_t length = shapes.specialize(type.shape[axis]);
      offset = offset + graph::Dim(rest % length) * type.strides[axis];
      rest /= length;
    }
  }
  ValueId id = v[0]->id();
  if (type.rank() != 0) id = session.builder().view(id, {}, {}, offset);
  if (v[0]->wrap() != Wrap::NumpyScalar) id = copy_element(session, id);
  return python_number(session, id);
}

/// x.tolist(): lists of Python's numbers.
Captured<Value*> method_tolist(const Call& call) {
  constexpr int64_t kMost = 64;
  FRAMEJIT_TRY(v, bind(call, {"/self"}, 1));
  Session& session = call.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  const graph::Type type = session.graph().type(v[0]->id());
  if (type.rank() == 0 || shapes.hint(type.size()) > kMost)
    return break_at(BreakId::UnsupportedArgument, "tolist() of many elements");
  Value* const whole = session.values().make(ValueKind::List);
  std::vector<std::pair<ValueId, Value*>> level{{v[0]->id(), whole}};
  for (int axis = 0; axis < type.rank(); ++axis) {
    std::vector<std::pair<ValueId, Value*>> next;
    const int64_t length = shapes.specialize(type.shape[static_cast<std::size_t>(axis)]);
    for (const auto& [part, list] : level)
      for (int64_t i = 0; i < length; ++i) {
        const ValueId item = session.builder().select(part, 0, i);
        if (axis + 1 < type.rank()) {
          list->items.push_back(session.values().make(ValueKind::List));
          next.emplace_back(item, list->items.back());
        } else {
          FRAMEJIT_TRY(number, python_number(session, copy_element(session, item)));
          list->items.push_back(number);
        }
      }
    level = std::move(next);
  }
  return whole;
}

constexpr FunctionRow kFunctions[] = {
    {"where", call_where, Op::Param, true},
    {"clip", call_clip, Op::Param, true},
    {"positive", call_positive},
    {"deg2rad", call_to_radians},
    {"radians", call_to_radians},
    {"rad2deg", call_to_degrees},
    {"degrees", call_to_degrees},
    {"copyto", call_copyto},
};

constexpr FunctionRow kMethods[] = {
    {"__abs__", method_abs},   {"fill", method_fill},       {"item", method_item},
    {"tolist", method_tolist}, {"nonzero", method_nonzero},
};

}  // namespace

std::span<const FunctionRow> elementwise_functions() { return kFunctions; }
std::span<const FunctionRow> elementwise_methods() { return kMethods; }

}  // namespace framejit::ext::frontends
