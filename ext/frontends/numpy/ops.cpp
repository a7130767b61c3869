// Operands and elementwise nodes: see ops.h.
#include "ext/frontends/numpy/ops.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "codegen/emit.h"
#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/batch.h"
#include "ext/module/config.h"
#include "graph/layout.h"

namespace framejit::ext::frontends {

using arrays::OperandType;
using graph::Relation;

std::string type_name(const Value& value) {
  if (value.is_constant() && value.object) return Py_TYPE(value.object.get())->tp_name;
  switch (value.kind) {
    case ValueKind::Tuple: return "tuple";
    case ValueKind::List: return "list";
    case ValueKind::Dict: return "dict";
    case ValueKind::Slice: return "slice";
    case ValueKind::Object: return value.object ? Py_TYPE(value.object.get())->tp_name : "object";
    default: return "object";
  }
}

namespace {

Captured<Operand> constant_operand(Session& session, Value* value) {
  PyObject* object = value->object.get();
  if (compilable(object) && value->source) {
    FRAMEJIT_TRY(input, wrap_object(session, object, value->source));
    return operand(session, input);
  }
  Operand result;
  result.value = value;
  result.type.scalar = true;
  result.type.value = object;
  if (PyBool_Check(object)) {
    result.type.dtype = DType::Bool;
  } else if (PyLong_CheckExact(object)) {
    result.type.dtype = DType::I64;
    result.type.literal = true;
  } else if (PyFloat_CheckExact(object)) {
    result.type.dtype = DType::F64;
    result.type.literal = true;
  } else if (PyComplex_CheckExact(object)) {
    result.type.dtype = DType::C128;
    result.type.literal = true;
  } else if (auto dtype = arrays::scalar_dtype_of(object)) {
    result.type.dtype = *dtype;
  } else {
    return break_at(PyArray_Check(object) ? BreakId::UnsupportedArray : BreakId::UnknownObject,
                    std::string("operand of type ") + Py_TYPE(object)->tp_name);
  }
  return result;
}

Captured<Operand> array_operand(Session& session, Value* value) {
  Operand result;
  result.value = value;
  result.id = value->id();
  const graph::Type& type = session.graph().type(value->id());
  result.type.dtype = type.dtype;
  result.type.scalar = type.rank() == 0;
  switch (value->wrap()) {
    case Wrap::NdArray:
    case Wrap::NumpyScalar:
    case Wrap::PyBool: return result;
    case Wrap::PyInt:
    case Wrap::PyFloat:
    case Wrap::PyComplex: result.type.literal = true; return result;
    case Wrap::Generator:
    case Wrap::Tensor: break;
  }
  return break_at(BreakId::UnknownObject, "an operand that is not NumPy's");
}

}  // namespace

Value* array_of_tensor(Session& session, Value* value) {
  const bool tensor = value->is_array() && value->wrap() == Wrap::Tensor;
  if (!tensor || session.graph().type(value->id()).dtype == DType::BF16) return value;
  return session.values().array(value->id(), Wrap::NdArray);
}

bool is_sequence(const Value& value) {
  if (value.kind == ValueKind::Tuple || value.kind == ValueKind::List) return true;
  return value.kind == ValueKind::Constant && (PyTuple_Check(value.object.get()) || PyList_Check(value.object.get()));
}

Captured<Operand> operand(Session& session, Value* value) {
  switch (value->kind) {
    case ValueKind::Constant: return constant_operand(session, value);
    case ValueKind::Array: return array_operand(session, value);
    case ValueKind::Int: {
      Operand result;
      result.value = value;
      result.dim = value->dim();
      result.symbolic = true;
      result.type = {DType::I64, true, true, nullptr};
      return result;
    }
    case ValueKind::Tuple:
    case ValueKind::List: {
      FRAMEJIT_TRY(array, array_of_items(session, value));
      return array_operand(session, array);
    }
    default:
      return break_at(
          value->object && PyArray_Check(value->object.get()) ? BreakId::UnsupportedArray : BreakId::UnknownObject,
          "operand of type " + type_name(*value));
  }
}

Captured<ValueId> cast(Session& session, ValueId x, DType to) {
  DType from = session.graph().type(x).dtype;
  if (from == to) return x;
  // Out of range, NumPy's vector body and its scalar tail give different numbers.
  if (to == DType::U32 && graph::is_float(from))
    return break_at(BreakId::UnsupportedArgument, "float to uint32: the result out of range depends on the position");
  if (graph::is_complex(from) && !graph::is_complex(to) && to != DType::Bool)
    return break_at(BreakId::UnsupportedArgument, "complex numbers to real ones, of which NumPy warns");
  return built(session.builder().cast(x, to));
}

namespace {

/// The values that a Python int may have to become an element of `dtype` exactly as NumPy makes it. Into a float it
/// goes through a double, which is exact up to 2**53.
std::pair<int64_t, int64_t> int_range(DType dtype) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kExact = int64_t{1} << 53;
  if (dtype == DType::F16) return {-65504, 65504};
  if (graph::is_float(dtype) || graph::is_complex(dtype)) return {-kExact, kExact};
  if (dtype == DType::Bool) return {-kMax - 1, kMax};
  int bits = 8 * graph::size_of(dtype);
  if (graph::is_unsigned_int(dtype)) return {0, bits == 64 ? kMax : (int64_t{1} << bits) - 1};
  int64_t limit = bits == 64 ? kMax : (int64_t{1} << (bits - 1)) - 1;
  return {-limit - 1, limit};
}

Captured<ValueId> convert_int(Session& session, const graph::Dim& dim, DType to) {
  auto [low, high] = int_range(to);
  graph::ShapeEnv& shapes = session.graph().shapes();
  bool whole = low == std::numeric_limits<int64_t>::min();
  bool fits = (whole || shapes.holds(Relation::Le, low, dim)) &&
              (high == std::numeric_limits<int64_t>::max() || shapes.holds(Relation::Le, dim, high));
  if (!fits) return break_at(BreakId::ScalarOverflow, "a Python int out of the range of the array's dtype");
  return cast(session, session.builder().dim_value(dim), to);
}

Captured<ValueId> convert_known(Session& session, PyObject* object, DType to) {
  std::optional<graph::Scalar> bits = arrays::pack(object, to);
  if (!bits) return break_at(BreakId::WouldRaise, "a Python number out of the range of the array's dtype");
  return session.builder().constant(to, *bits);
}

/// A Python number that is computed at run time.
Captured<ValueId> convert_number(Session& session, const Operand& number, DType to) {
  DType from = number.type.dtype;
  if (from == to) return number.id;
  if ((graph::is_float(to) || graph::is_complex(to)) && from == DType::I64) {
    FRAMEJIT_TRY(wide, cast(session, number.id, DType::F64));
    return cast(session, wide, to);
  }
  if (graph::is_float(to) || graph::is_complex(to) || to == DType::Bool) return cast(session, number.id, to);
  return break_at(BreakId::UnsupportedArgument, "a Python number, known at run time only, as an element of integers");
}

}  // namespace

Captured<ValueId> convert(Session& session, const Operand& operand, DType to) {
  if (operand.symbolic) return convert_int(session, operand.dim, to);
  if (operand.id == graph::kNoValue) {
    // A NumPy scalar or a bool has elements of its own dtype first.
    if (operand.literal() || operand.type.dtype == to) return convert_known(session, operand.type.value, to);
    FRAMEJIT_TRY(own, convert_known(session, operand.type.value, operand.type.dtype));
    return cast(session, own, to);
  }
  if (operand.literal()) return convert_number(session, operand, to);
  return cast(session, operand.id, to);
}

namespace {

// What an operator's loop does on a kind of dtype where it is not the row's own operation.
enum class Form : uint8_t { Other, Copy };

struct Special {
  Op op;
  char kind;  // of the loop's dtype
  Form form;
  Op emit;
};

constexpr Special kSpecial[] = {
    {Op::Add, 'b', Form::Other, Op::BitwiseOr},      {Op::Multiply, 'b', Form::Other, Op::BitwiseAnd},
    {Op::Minimum, 'b', Form::Other, Op::BitwiseAnd}, {Op::Maximum, 'b', Form::Other, Op::BitwiseOr},
    {Op::Fmin, 'b', Form::Other, Op::BitwiseAnd},    {Op::Fmax, 'b', Form::Other, Op::BitwiseOr},
    {Op::Fmin, 'i', Form::Other, Op::Minimum},       {Op::Fmin, 'u', Form::Other, Op::Minimum},
    {Op::Fmax, 'i', Form::Other, Op::Maximum},       {Op::Fmax, 'u', Form::Other, Op::Maximum},
    {Op::Conjugate, 'i', Form::Copy, Op::Copy},      {Op::Conjugate, 'u', Form::Copy, Op::Copy},
    {Op::Conjugate, 'f', Form::Copy, Op::Copy},      {Op::Invert, 'b', Form::Other, Op::LogicalNot},
    {Op::Absolute, 'u', Form::Copy, Op::Copy},       {Op::Floor, 'b', Form::Copy, Op::Copy},
    {Op::Floor, 'i', Form::Copy, Op::Copy},          {Op::Floor, 'u', Form::Copy, Op::Copy},
    {Op::Ceil, 'b', Form::Copy, Op::Copy},           {Op::Ceil, 'i', Form::Copy, Op::Copy},
    {Op::Ceil, 'u', Form::Copy, Op::Copy},           {Op::Trunc, 'b', Form::Copy, Op::Copy},
    {Op::Trunc, 'i', Form::Copy, Op::Copy},          {Op::Trunc, 'u', Form::Copy, Op::Copy},
};

const Special* special(Op op, DType dtype) {
  for (const Special& row : kSpecial)
    if (row.op == op && row.kind == graph::info(dtype).kind) return &row;
  return nullptr;
}

/// Operators whose loops on integers (or bool) have no node.
bool left_to_numpy(Op op, DType dtype) {
  char kind = graph::info(dtype).kind;
  switch (op) {
    case Op::IsNan:
    case Op::IsInf:
    case Op::IsFinite:
    case Op::Reciprocal: return kind != 'f' && kind != 'c';  // of an integer 0: NumPy's own rules
    case Op::Rint: return kind != 'f';
    case Op::Sign: return kind == 'u';
    case Op::Clip: return kind == 'b' || kind == 'c';
    case Op::Less:  // which raise invalid, of complex numbers
    case Op::LessEqual:
    case Op::Greater:
    case Op::GreaterEqual: return kind == 'c';
    default: return !graph::takes(op, dtype);
  }
}

/// An integer loop of power raises for a negative exponent, and a kernel cannot.
bool exponent_may_raise(const Operand& exponent, DType loop) {
  if (!graph::is_signed_int(loop) || graph::is_unsigned_int(exponent.type.dtype)) return false;
  if (exponent.type.dtype == DType::Bool) return false;
  if (!exponent.type.value) return true;
  Ref<> zero = Ref<>::steal(PyLong_FromLong(0));
  int negative = PyObject_RichCompareBool(exponent.type.value, zero.get(), Py_LT);
  PyErr_Clear();
  return negative != 0;
}

}  // namespace

namespace {

/// Gives a fresh value the layout of a ufunc's result. With operands that are cast NumPy takes its general iterator,
/// whose order differs from the short way's for axes of length 1.
void lay_out(Session& session, ValueId result, std::span<const ValueId> seen, bool casts) {
  graph::Graph& graph = session.graph();
  const graph::Type type = graph.type(result);
  std::vector<const graph::Type*> types;
  for (ValueId value : seen) types.push_back(&graph.type(value));
  graph::AxisOrder order = casts ? graph::iterator_order(graph.shapes(), type.shape, types)
                                 : graph::ufunc_order(graph.shapes(), type.shape, types);
  graph.node(result).type.strides = graph::packed_strides(graph.shapes(), type.dtype, type.shape, order);
}

/// A ufunc's loop that gives its operand `x` back; NumPy sees `seen`, which may have been cast.
ValueId identity_loop(Session& session, ValueId x, ValueId seen) {
  ValueId result = session.builder().copy(x, 'K');
  lay_out(session, result, std::span(&seen, 1), seen != x);
  return result;
}

}  // namespace

ValueId copy_element(Session& session, ValueId element) {
  graph::GraphBuilder& builder = session.builder();
  if (session.graph().type(element).dtype != DType::Bool) return builder.copy(element, 'C');
  return *builder.elementwise(Op::Absolute, std::span(&element, 1));
}

Captured<Value*> positive(Session& session, const Operand& x) {
  FRAMEJIT_TRY(id, convert(session, x, x.type.dtype));
  return session.values().array(identity_loop(session, id, id), x.type.scalar ? Wrap::NumpyScalar : Wrap::NdArray);
}

bool specialize_number(Session& session, Operand& number, const char* reason) {
  const Value* value = number.value;
  if (!number.literal() || number.type.value || !value->source || !value->object) return false;
  if (!PyFloat_CheckExact(value->object.get()) || session.varied().names.count(value->source->str())) return false;
  capture::Guard guard{};
  guard.kind = capture::GuardKind::Equal;
  guard.source = value->source;
  guard.object = value->object;
  guard.reason = reason;
  session.guards().add(std::move(guard));
  number.type.value = value->object.get();
  number.id = graph::kNoValue;
  return true;
}

namespace {

/// Are the operator's loops on complex numbers the same wherever its operands lie?
bool has_one_path(Op op, DType complex) {
  const bool vectors = op == Op::Multiply || op == Op::Square || op == Op::Absolute;
  return !vectors && codegen::is_composed(op, complex, complex, arrays::complex_forms(complex));
}

/// What NumPy's own loops do on other paths than on fresh or ordinary memory; alone, so that the rest stays compiled.
std::optional<std::string> odd_memory(const graph::Graph& graph, Op op, std::span<const ValueId> inputs, ValueId mask) {
  // NumPy's own loops over float16 that is not contiguous take other ways.
  const bool half = graph.type(inputs.back()).dtype == DType::F16 && op != Op::Where && !graph::is_half_in_float(op);
  for (ValueId input : inputs) {
    const graph::Dims& strides = graph.type(input).strides;
    if (half && (op == Op::Clip || strides.empty() || !(strides.back() == graph::Dim(2))))
      return "np." + std::string(graph::name_of(op)) + " of such float16";
  }
  const DType dtype = graph.type(inputs.back()).dtype;
  if (graph::is_complex(dtype) ? has_one_path(op, dtype) : graph::def(op).exactness != graph::Exactness::NumpyLoop)
    return std::nullopt;
  for (ValueId input : inputs)
    for (const graph::Dim& stride : graph.type(input).strides)
      if (stride.is_const() && stride.value() < 0)
        return "np." + std::string(graph::name_of(op)) + " of reversed memory";
  if (graph::is_complex(dtype) && (op == Op::Multiply || op == Op::Square)) {
    // An iterator, which operands of unlike ranks and masks go through, gives a single element no stride.
    const std::size_t first = graph.type(inputs.front()).rank(), last = graph.type(inputs.back()).rank();
    const bool iterated = mask != graph::kNoValue || (first != last && first != 0 && last != 0);
    bool single = mask == graph::kNoValue || graph.type(mask).size() == graph::Dim(1);
    for (ValueId input : inputs) single = single && graph.type(input).size() == graph::Dim(1);
    if (single && iterated)
      return "np." + std::string(graph::name_of(op)) + " of single complex numbers that an iterator goes over";
  }
  if (op == Op::Fmax || op == Op::Fmin) {
    // Of two zeros the tail of NumPy's loop gives another than its body, and where loops end is the iterator's matter.
    const graph::Type &a = graph.type(inputs[0]), &b = graph.type(inputs[1]), &larger = a.rank() < b.rank() ? b : a;
    const bool packed =
        larger.strides == graph::c_strides(larger.dtype, larger.shape) && !(larger.size() == graph::Dim(1));
    const bool one_loop =
        a.rank() == b.rank() ? a.shape == b.shape && a.strides == b.strides : a.rank() == 0 || b.rank() == 0;
    if (!packed || !one_loop)
      return "np." + std::string(graph::name_of(op)) + " of operands that NumPy's iterator goes over";
  }
  if (op != Op::Power || !graph::is_float(graph.type(inputs[0]).dtype)) return std::nullopt;
  // Where NumPy sees an exponent of stride 0 depends on shapes and buffers.
  const graph::Type &base = graph.type(inputs[0]), &exponent = graph.type(inputs[1]);
  if (base.size() == graph::Dim(1)) return "np.power of single numbers";
  if (exponent.rank() == 0) return std::nullopt;
  if (base.shape != exponent.shape || exponent.size() == graph::Dim(1) || graph::repeats_elements(graph, inputs[1]))
    return "a power with a broadcast exponent";
  return std::nullopt;
}

std::vector<OperandType> types_of(std::span<const Operand> operands) {
  std::vector<OperandType> types;
  for (const Operand& operand : operands) types.push_back(operand.type);
  return types;
}

/// Asks for types; where NumPy 1, which promotes by value, has no answer, once more with the numbers known.
template <class Ask>
auto ask_types(Session& session, std::vector<Operand>& operands, Ask&& ask) {
  auto answer = ask(types_of(operands));
  bool known = false;
  if (!answer && arrays::numpy_version().major < 2)
    for (Operand& operand : operands)
      known = specialize_number(session, operand, "this NumPy promotes by value") || known;
  return known ? ask(types_of(operands)) : std::move(answer);
}

}  // namespace

bool is_odd_place(Session& session, Op op, ValueId out, std::span<Value* const> operands) {
  const graph::Graph& graph = session.graph();
  const graph::Type& to = graph.type(out);
  bool one_path = graph::def(op).exactness == graph::Exactness::Native, complex = false;
  for (Value* value : operands) {
    const DType dtype = value->is_array() ? graph.type(value->id()).dtype : to.dtype;
    if (!graph::is_complex(dtype)) continue;
    complex = true;
    one_path = one_path && has_one_path(op, dtype);
  }
  if (one_path) return false;
  // A single element that is written over itself is not multiplied as others are.
  const bool multiplies = complex && (op == Op::Multiply || op == Op::Square || op == Op::Power);
  const bool over = std::any_of(operands.begin(), operands.end(),
                                [&](Value* v) { return v->is_array() && graph.root(v->id()) == graph.root(out); });
  if (multiplies && over && session.graph().shapes().equal(to.size(), graph::Dim(1))) return true;
  const bool packed = to.strides == graph::c_strides(to.dtype, to.shape);
  if (complex && (op == Op::Square || op == Op::Power || op == Op::Absolute) && !packed) return true;
  for (const graph::Dim& stride : to.strides)
    if (stride.is_const() && stride.value() < 0) return true;
  for (Value* value : operands) {
    if (!value->is_array() || graph.root(value->id()) != graph.root(out)) continue;
    const graph::Type& from = graph.type(value->id());
    if (!(from.offset == to.offset) || from.shape != to.shape || from.strides != to.strides) return true;
  }
  return false;
}

Captured<Value*> apply_ufunc(Session& session, Op op, std::span<const Operand> given, ValueId mask) {
  std::vector<Operand> operands(given.begin(), given.end());
  bool scalars = true;
  for (const Operand& operand : operands) scalars = scalars && operand.type.scalar;
  const bool number = operands[0].value && operands[0].value->wrap() == Wrap::NumpyScalar;
  if (op == Op::Square && number && graph::is_complex(operands[0].type.dtype))
    return break_at(BreakId::OverlappingMemory, "np.square of a complex scalar, over whose memory NumPy writes");
  FRAMEJIT_TRY(loop, ask_types(session, operands, [&](const std::vector<OperandType>& types) {
                 return arrays::loop_types(arrays::ufunc_of(op), types);
               }));
  DType dtype = loop.in[0];
  if (op == Op::Power && exponent_may_raise(operands[1], dtype))
    return break_at(BreakId::UnsupportedArgument, "integers to a power that may be negative");
  std::vector<ValueId> inputs, seen;
  bool casts = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    FRAMEJIT_TRY(input, convert(session, operands[i], loop.in[i]));
    inputs.push_back(input);
    seen.push_back(operands[i].type.scalar ? input : operands[i].id);
    casts = casts || seen.back() != input;
  }
  const Special* row = special(op, dtype);
  ValueId result;
  if (row && row->form == Form::Copy) {
    result = identity_loop(session, inputs[0], seen[0]);
  } else {
    Op emitted = row ? row->emit : op;
    if (left_to_numpy(emitted, dtype))
      return break_at(BreakId::UnsupportedArgument,
                      "np." + std::string(graph::name_of(op)) + " of " + std::string(graph::name_of(dtype)));
    const bool own = session.o1() &&
                     codegen::emits(emitted, dtype, dtype, true, module::target_cpu().isa);  // one way over any memory
    if (auto reason = own ? std::nullopt : odd_memory(session.graph(), emitted, inputs, mask))
      return break_at(BreakId::UnsupportedArgument, std::move(*reason));
    for (ValueId& input : inputs) {
      if (mask == graph::kNoValue) break;
      Ref<> harmless = Ref<>::steal(PyLong_FromLong(op == Op::Arctanh ? 0 : 1));  // sets no flag, for any operator
      FRAMEJIT_TRY(tame, convert_known(session, harmless.get(), dtype));
      const ValueId choices[] = {mask, input, tame};
      FRAMEJIT_TRY(safe, built(session.builder().elementwise(Op::Where, choices)));
      input = safe;
    }
    FRAMEJIT_TRY(node, built(session.builder().elementwise(emitted, inputs, seen)));
    result = node;
    if (casts) lay_out(session, result, seen, true);
  }
  if (session.graph().type(result).dtype != loop.out)
    return break_at(BreakId::UnsupportedArgument, "a loop with a result of another dtype");
  return session.values().array(result, scalars ? Wrap::NumpyScalar : Wrap::NdArray);
}

Captured<Value*> apply_ufunc(Session& session, Op op, std::span<Value* const> values) {
  std::vector<Operand> operands;
  for (Value* value : values) {
    FRAMEJIT_TRY(one, operand(session, value));
    operands.push_back(std::move(one));
  }
  return apply_ufunc(session, op, operands);
}

bool computes_in(Session& session, Op op, std::span<Value* const> values, DType dtype) {
  std::vector<OperandType> types;
  for (Value* value : values) {
    auto one = operand(session, value);
    if (!one) return false;
    types.push_back(one->type);
  }
  PyUFuncObject* ufunc = arrays::ufunc_of(op);
  if (!ufunc) return false;
  auto loop = arrays::loop_types(ufunc, types);
  return loop && loop->out == dtype &&
         std::all_of(loop->in.begin(), loop->in.begin() + types.size(), [&](DType in) { return in == dtype; });
}

Captured<Value*> where(Session& session, Value* condition, Value* x, Value* y) {
  FRAMEJIT_TRY(c, operand(session, condition));
  FRAMEJIT_TRY(first, operand(session, x));
  FRAMEJIT_TRY(second, operand(session, y));
  std::vector<Operand> choices{first, second};
  FRAMEJIT_TRY(dtype, ask_types(session, choices,
                                [](const std::vector<OperandType>& types) { return arrays::result_type(types); }));
  const Operand &a = choices[0], &b = choices[1];
  FRAMEJIT_TRY(mask, convert(session, c, DType::Bool));
  FRAMEJIT_TRY(left, convert(session, a, dtype));
  FRAMEJIT_TRY(right, convert(session, b, dtype));
  const ValueId inputs[] = {mask, left, right};
  const ValueId seen[] = {c.type.scalar ? mask : c.id, a.type.scalar ? left : a.id, b.type.scalar ? right : b.id};
  FRAMEJIT_TRY(result, built(session.builder().elementwise(Op::Where, inputs, seen)));
  return session.values().array(result, Wrap::NdArray);
}

namespace {

/// Do different indices name different bytes? Arrays made by as_strided may overlap themselves.
bool overlaps_itself(const graph::Type& type) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // |stride|, length
  for (int i = 0; i < type.rank(); ++i) {
    if (!type.strides[i].is_const() || !type.shape[i].is_const()) continue;
    if (type.shape[i].value() == 0) return false;
    if (type.shape[i].value() > 1) axes.emplace_back(std::abs(type.strides[i].value()), type.shape[i].value());
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = graph::size_of(type.dtype);
  for (auto [stride, length] : axes) {
    if (stride < reach) return true;
    reach = stride * (length - 1) + reach;
  }
  return false;
}

/// An assignment to a vector from one in the same memory that runs in the same direction: NumPy copies element by
/// element, so that later ones see what earlier ones stored, unless both lie alike.
bool copies_in_steps(const graph::Graph& graph, ValueId dst, ValueId value) {
  const graph::Type &to = graph.type(dst), &from = graph.type(value);
  if (graph.root(dst) != graph.root(value) || to.rank() != 1 || from.rank() < 1) return false;
  const graph::Dim &a = to.strides[0], &b = from.strides.back();
  const bool against = a.is_const() && b.is_const() && a.value() * b.value() < 0;
  return !against && !(a == b);
}

}  // namespace

Captured<bool> write(Session& session, ValueId dst, ValueId value) {
  graph::Graph& graph = session.graph();
  if (graph::repeats_elements(graph, dst)) return break_at(BreakId::WouldRaise, "assignment to a broadcast view");
  if (overlaps_itself(graph.type(graph.root(dst))))
    return break_at(BreakId::OverlappingMemory, "an array that overlaps itself");
  if (copies_in_steps(graph, dst, value))
    return break_at(BreakId::OverlappingMemory, "elements of one array copied among each other at another stride");
  FRAMEJIT_REQUIRE(session.inputs().prepare_write(dst));
  FRAMEJIT_REQUIRE(note_batch_write(session, graph.root(dst)));
  FRAMEJIT_REQUIRE(built(session.builder().write(dst, value)));
  return true;
}

Captured<bool> store_result(Session& session, ValueId dst, ValueId result) {
  graph::Graph& graph = session.graph();
  const graph::Type target = graph.type(dst), found = graph.type(result);
  if (!PyArray_CanCastTypeTo(arrays::descr_of(found.dtype), arrays::descr_of(target.dtype), NPY_SAME_KIND_CASTING))
    return break_at(BreakId::WouldRaise, "the result does not cast back to the array's dtype");
  bool fits = found.rank() <= target.rank();
  const int missing = target.rank() - found.rank();
  for (int i = 0; fits && i < found.rank(); ++i) {
    const graph::Dim &length = found.shape[static_cast<std::size_t>(i)],
                     &wanted = target.shape[static_cast<std::size_t>(missing + i)];
    fits = graph.shapes().equal(length, wanted) || graph.shapes().equal(length, 1);
  }
  if (!fits) return break_at(BreakId::WouldRaise, "non-broadcastable output operand");
  FRAMEJIT_TRY(elements, cast(session, result, target.dtype));
  return write(session, dst, elements);
}

namespace {

/// Has every value of integers (or bools) of one dtype its like in another?
bool holds_all(DType to, DType from) {
  if (from == DType::Bool) return true;
  if (!graph::is_int(from)) return false;
  const bool wider = graph::size_of(to) > graph::size_of(from);
  if (graph::is_signed_int(to) == graph::is_signed_int(from)) return wider || to == from;
  return wider && graph::is_signed_int(to);
}

}  // namespace

namespace {

/// Is an array of this memory among the items of a sequence?
bool holds_memory_of(const graph::Graph& graph, const Value& value, ValueId root) {
  if (value.is_array()) return value.wrap() == Wrap::NdArray && graph.root(value.id()) == root;
  if (value.kind != ValueKind::Tuple && value.kind != ValueKind::List) return false;
  return std::any_of(value.items.begin(), value.items.end(),
                     [&](const Value* item) { return holds_memory_of(graph, *item, root); });
}

/// The value as an array of that dtype stores it. NumPy casts arrays, and raises for scalars out of range and for NaN.
Captured<ValueId> stored(Session& session, const Operand& source, DType to) {
  if (graph::is_int(to) && !source.is_array() && source.id != graph::kNoValue && !source.literal() &&
      !holds_all(to, source.type.dtype))
    return break_at(BreakId::UnsupportedArgument, "a NumPy scalar into integers that may not hold it");
  return convert(session, source, to);
}

/// NumPy stores the scalars of a sequence one by one, so integers have to hold them.
Captured<bool> check_items(Session& session, const Value& sequence, DType to) {
  for (Value* item : sequence.items) {
    if (is_sequence(*item)) {
      FRAMEJIT_REQUIRE(check_items(session, *item, to));
    } else {
      FRAMEJIT_TRY(source, operand(session, item));
      FRAMEJIT_REQUIRE(stored(session, source, to));
    }
  }
  return true;
}

}  // namespace

Captured<bool> store(Session& session, ValueId dst, Value* value) {
  FRAMEJIT_TRY(source, operand(session, value));
  const graph::Type& target = session.graph().type(dst);
  if (is_sequence(*value) && session.graph().type(source.id).rank() > target.rank())
    return break_at(BreakId::WouldRaise, "setting an array element with a sequence");
  if (is_sequence(*value) && holds_memory_of(session.graph(), *value, session.graph().root(dst)))
    return break_at(BreakId::OverlappingMemory, "items of a sequence that are stored one by one where others are read");
  const DType to = target.dtype;
  if (is_sequence(*value) && graph::is_int(to)) FRAMEJIT_REQUIRE(check_items(session, *value, to));
  FRAMEJIT_TRY(elements, stored(session, source, to));
  return write(session, dst, elements);
}

}  // namespace framejit::ext::frontends
