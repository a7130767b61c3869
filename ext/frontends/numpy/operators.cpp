// The operators of Python on arrays and NumPy scalars: which ufunc each one calls, and where an operator is not its
// ufunc.
#include <opcode.h>

#include <bit>
#include <vector>

#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/numpy/library_call_capture.h"
#include "ext/frontends/numpy/ops.h"

namespace framejit::ext::frontends {

using graph::Relation;

namespace {

struct BinaryOperator {
  int nb;
  Op op;
};

// The in-place forms follow in the same order (NB_INPLACE_ADD - NB_ADD apart). For `@` see matrix_product.
constexpr BinaryOperator kBinary[] = {
    {NB_ADD, Op::Add},           {NB_AND, Op::BitwiseAnd},     {NB_FLOOR_DIVIDE, Op::FloorDivide},
    {NB_LSHIFT, Op::LeftShift},  {NB_MULTIPLY, Op::Multiply},  {NB_REMAINDER, Op::Remainder},
    {NB_OR, Op::BitwiseOr},      {NB_POWER, Op::Power},        {NB_RSHIFT, Op::RightShift},
    {NB_SUBTRACT, Op::Subtract}, {NB_TRUE_DIVIDE, Op::Divide}, {NB_XOR, Op::BitwiseXor},
};
constexpr int kInplace = NB_INPLACE_ADD - NB_ADD;

constexpr Op kCompare[] = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual, Op::Greater, Op::GreaterEqual};
static_assert(Py_LT == 0 && Py_LE == 1 && Py_EQ == 2 && Py_NE == 3 && Py_GT == 4 && Py_GE == 5);

constexpr const char* kNames[] = {"add", "and_", "floordiv", "lshift", "matmul",  "mul", "mod",
                                  "or_", "pow",  "rshift",   "sub",    "truediv", "xor"};

/// Arithmetic of NumPy scalars has code of its own: integers warn on overflow, where arrays wrap, and powers are the C
/// library's. What is the same: IEEE operations, comparisons, bits.
bool scalar_math_differs(Op op, DType result) {
  switch (op) {
    case Op::Power: return true;
    case Op::LeftShift:
    case Op::RightShift: return true;
    case Op::BitwiseAnd:
    case Op::BitwiseOr:
    case Op::BitwiseXor:
    case Op::Invert: return false;
    default: return !graph::is_float(result) && graph::def(op).result != graph::ResultRule::Bool;
  }
}

Captured<Value*> check_scalar_math(Session& session, Op op, Value* result) {
  if (scalar_math_differs(op, session.graph().type(result->id()).dtype))
    return break_at(BreakId::UnsupportedArgument, "arithmetic of NumPy scalars that warns on overflow");
  return result;
}

/// What `own` makes of an operator, or else the operator as a library call.
template <class Own>
Captured<Value*> or_library_call(Session& session, const char* name, std::initializer_list<const Operand*> operands,
                                 Own&& own) {
  const Session::Mark mark = session.mark();
  Captured<Value*> result = own();
  if (result || result.error().id != BreakId::UnsupportedArgument) return result;
  session.rollback(mark);
  std::vector<Value*> values;
  for (const Operand* operand : operands) values.push_back(operand->value);
  Captured<Value*> called = operator_call(session, name, values);
  return called ? called : result;
}

constexpr int64_t kElided =
    256 * 1024;  // bytes of an operand from which NumPy writes the result into it, where it is a temporary one

/// May the array be one that nobody but the operator holds?
bool may_be_temporary(Session& session, const Operand& x) {
  if (x.id == graph::kNoValue || !x.is_array()) return false;
  const graph::Node& node = session.graph().node(x.id);
  const bool on_stack = x.value->source && x.value->source->kind == capture::SourceKind::Stack;
  return (node.op != Op::Param || on_stack) && !node.type.is_view();
}

/// For that the operands of a product change places where only the second one is a temporary one, which decides which
/// product of parts is rounded first.
Captured<bool> check_places(Session& session, Op op, const Operand& left, const Operand& right) {
  if (op != Op::Multiply || right.id == left.id || !may_be_temporary(session, right)) return true;
  graph::Graph& graph = session.graph();
  const graph::Type type = graph.type(right.id);
  const bool fused =
      graph::is_complex(type.dtype) && arrays::complex_forms(type.dtype).product == codegen::ComplexForms::Fused;
  if (fused && !graph.shapes().holds(Relation::Lt, type.size() * graph::Dim(graph::size_of(type.dtype)), kElided))
    return break_at(BreakId::UnsupportedArgument, "a product with a large array that may be a temporary one");
  return true;
}

/// NumPy writes the result of an operator into a large temporary operand, which then keeps its own layout.
Captured<Value*> check_elision(Session& session, Value* result, std::initializer_list<const Operand*> operands) {
  graph::Graph& graph = session.graph();
  const graph::Type type = graph.type(result->id());
  if (type.rank() < 2) return result;
  for (const Operand* operand : operands) {
    if (!may_be_temporary(session, *operand)) continue;
    const graph::Node& node = graph.node(operand->id);
    if (node.type.dtype != type.dtype) continue;
    if (node.type.shape != type.shape || node.type.strides == type.strides) continue;
    if (!graph.shapes().holds(Relation::Lt, type.size() * graph::Dim(graph::size_of(type.dtype)), kElided))
      return break_at(BreakId::UnsupportedArgument, "operands in different memory orders");
  }
  return result;
}

Captured<Value*> compute(Session& session, Op op, const Operand& left, const Operand& right, bool inplace);

bool is_number(const Operand& exponent, double& value, bool& real) {
  PyObject* object = exponent.type.value;
  if (!object || exponent.type.dtype == DType::Bool || graph::is_complex(exponent.type.dtype)) return false;
  real = graph::is_float(exponent.type.dtype);
  const double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
  value = number;
  return true;
}

Captured<Value*> unary_ufunc(Session& session, Op op, const Operand& x) {
  return apply_ufunc(session, op, std::span<const Operand>(&x, 1));
}

/// An exponent that is known at run time only: the run ends for the interpreter where NumPy takes a shorter way than
/// np.power.
Captured<bool> expect_long_power(Session& session, const Operand& base, const Operand& exponent) {
  if (!graph::is_float(base.type.dtype) && !graph::is_complex(base.type.dtype)) return true;
  if (exponent.id == graph::kNoValue || graph::is_complex(exponent.type.dtype)) return true;
  const bool real = graph::is_float(exponent.type.dtype);
  graph::GraphBuilder& b = session.builder();
  for (const double shortcut : real ? std::vector{0.5} : std::vector{-1.0, 2.0}) {
    FRAMEJIT_TRY(number, cast(session, exponent.id, DType::F64));
    const ValueId operands[] = {number, b.constant(DType::F64, graph::Scalar{std::bit_cast<uint64_t>(shortcut), 0})};
    FRAMEJIT_TRY(other, built(b.elementwise(Op::NotEqual, operands)));
    b.expect(other);
  }
  return true;
}

/// NumPy 2.3 and later: int -1 and 2, float 0.5, of Python's own types.
Captured<Value*> narrow_power(Session& session, const Operand& base, const Operand& exponent) {
  const Operand both[] = {base, exponent};
  double value = 0;
  bool real = false;
  if (!exponent.literal() || exponent.type.dtype == DType::Bool) return apply_ufunc(session, Op::Power, both);
  if (exponent.symbolic) {
    for (const int64_t shortcut : {-1, 2})
      if (session.graph().shapes().holds(Relation::Eq, exponent.dim, shortcut)) value = static_cast<double>(shortcut);
  } else if (!is_number(exponent, value, real)) {
    FRAMEJIT_REQUIRE(expect_long_power(session, base, exponent));
  }
  if (!real && value == 2) return unary_ufunc(session, Op::Square, base);
  if (graph::is_float(base.type.dtype) || graph::is_complex(base.type.dtype)) {
    if (!real && value == -1) return unary_ufunc(session, Op::Reciprocal, base);
    if (real && value == 0.5) return unary_ufunc(session, Op::Sqrt, base);
  }
  return apply_ufunc(session, Op::Power, both);
}

/// Up to 2.2: -1, 0, 0.5, 1 and 2 as Python number, NumPy scalar or 0-d array. The result keeps the dtype of the base.
Captured<Value*> wide_power(Session& session, const Operand& base, Operand exponent, bool inplace) {
  if (!exponent.type.value) specialize_number(session, exponent, "the way of ** depends on the exponent");
  const Operand both[] = {base, exponent};
  if (!exponent.type.scalar) return apply_ufunc(session, Op::Power, both);
  if (!exponent.type.value && !exponent.symbolic)
    return break_at(BreakId::UnsupportedArgument, "a power whose short way depends on the exponent's value");
  double value = 0;
  bool real = false;
  if (exponent.symbolic) value = static_cast<double>(session.graph().shapes().specialize(exponent.dim));
  else if (!is_number(exponent, value, real)) return break_at(BreakId::UnsupportedArgument, "a bool as exponent");
  if (graph::is_float(base.type.dtype) || graph::is_complex(base.type.dtype)) {
    if (value == 1) return positive(session, base);
    if (value == -1) return unary_ufunc(session, Op::Reciprocal, base);
    if (value == 0) return break_at(BreakId::UnsupportedArgument, "a power of 0");
    if (value == 0.5) return unary_ufunc(session, Op::Sqrt, base);
    if (value == 2) return unary_ufunc(session, Op::Square, base);
  } else if (value == 2) {
    if (!real || inplace) return unary_ufunc(session, Op::Square, base);
    // Through a copy in C or Fortran order, whatever the order of the base.
    const graph::Type& type = session.graph().type(base.id);
    if (base.type.dtype == DType::Bool || type.rank() == 0 || type.strides != graph::c_strides(type.dtype, type.shape))
      return break_at(BreakId::UnsupportedArgument, "integers to the power 2.0");
    FRAMEJIT_TRY(real_base, cast(session, base.id, DType::F64));
    Operand as_double = base;
    as_double.id = real_base;
    as_double.type.dtype = DType::F64;
    return unary_ufunc(session, Op::Square, as_double);
  }
  return apply_ufunc(session, Op::Power, both);
}

Captured<Value*> power(Session& session, const Operand& base, const Operand& exponent, bool inplace) {
  if (base.is_array() && arrays::numpy_probe().wide_power) return wide_power(session, base, exponent, inplace);
  if (base.is_array()) return narrow_power(session, base, exponent);
  const Operand both[] = {base, exponent};
  return apply_ufunc(session, Op::Power, both);
}

Captured<Value*> compute(Session& session, Op op, const Operand& left, const Operand& right, bool inplace) {
  if (op == Op::Power) return power(session, left, right, inplace);
  const Operand both[] = {left, right};
  return apply_ufunc(session, op, both);
}

/// `x op= y` on an array: computed in the loop's dtype, stored in x's own.
Captured<Value*> inplace_operator(Session& session, Op op, const Operand& left, const Operand& right) {
  const graph::Graph& graph = session.graph();
  bool shares = right.is_array() && right.id != left.id && graph.root(right.id) == graph.root(left.id);
  if (op == Op::Power && shares) return break_at(BreakId::OverlappingMemory, "**= with an exponent in the same memory");
  Value* const both[] = {left.value, right.value};
  if (is_odd_place(session, op, left.id, both))
    return break_at(BreakId::OverlappingMemory,
                    "an operator in place, on memory that NumPy's loop takes another way over");
  FRAMEJIT_TRY(result, compute(session, op, left, right, true));
  FRAMEJIT_REQUIRE(store_result(session, left.id, result->id()));
  return left.value;
}

Captured<Value*> out_of_place(Session& session, const char* name, Op op, const Operand& left, const Operand& right) {
  FRAMEJIT_REQUIRE(check_places(session, op, left, right));
  FRAMEJIT_TRY(result, or_library_call(session, name, {&left, &right}, [&]() -> Captured<Value*> {
                 FRAMEJIT_TRY(own, compute(session, op, left, right, false));
                 return left.is_array() || right.is_array() ? Captured<Value*>(own)
                                                            : check_scalar_math(session, op, own);
               }));
  return left.is_array() || right.is_array() ? check_elision(session, result, {&left, &right})
                                             : Captured<Value*>(result);
}

}  // namespace

Captured<Value*> binary_operator(Session& session, int nb, Value* left, Value* right) {
  bool inplace = nb >= kInplace;
  int plain = inplace ? nb - kInplace : nb;
  if (plain == NB_MATRIX_MULTIPLY && !inplace) return matrix_product(session, left, right);
  for (const BinaryOperator& row : kBinary) {
    if (row.nb != plain) continue;
    FRAMEJIT_TRY(a, operand(session, left));
    FRAMEJIT_TRY(b, operand(session, right));
    if ((is_sequence(*left) && !b.is_array()) || (is_sequence(*right) && !a.is_array()))
      return break_at(BreakId::UnsupportedArgument,
                      "an operator on a list and a NumPy scalar, which may repeat the list");
    const std::size_t first = session.graph().value_count();
    FRAMEJIT_TRY(result, inplace && a.is_array() ? inplace_operator(session, row.op, a, b)
                                                 : out_of_place(session, kNames[plain], row.op, a, b));
    if (a.is_array() || b.is_array()) session.position().mark_call(first);
    return result;
  }
  return break_at(BreakId::UnsupportedArgument, "an operator that arrays are not compiled for");
}

Captured<Value*> compare_operator(Session& session, int py_op, Value* left, Value* right) {
  if (py_op < Py_LT || py_op > Py_GE)
    return break_at(BreakId::UnsupportedArgument, "a comparison that arrays are not compiled for");
  FRAMEJIT_TRY(a, operand(session, left));
  FRAMEJIT_TRY(b, operand(session, right));
  // Python's complex takes a float64 for a float, which it is an instance of.
  if ((py_op == Py_EQ || py_op == Py_NE) && a.literal() && graph::is_complex(a.type.dtype) && !b.is_array() &&
      !b.literal() && b.type.dtype == DType::F64)
    return break_at(BreakId::UnsupportedArgument,
                    "a complex number before a float64, whose comparison is a bool of Python's");
  static constexpr const char* kCompareNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  return out_of_place(session, kCompareNames[py_op], kCompare[py_op], a, b);
}

Captured<Value*> unary_operator(Session& session, capture::Unary unary, Value* value) {
  FRAMEJIT_TRY(x, operand(session, value));
  if (unary == capture::Unary::Positive) {
    if (x.type.dtype == DType::Bool) return break_at(BreakId::WouldRaise, "+ of bool");
    return positive(session, x);
  }
  Op op = unary == capture::Unary::Negative ? Op::Negative : Op::Invert;
  return or_library_call(session, unary == capture::Unary::Negative ? "neg" : "invert", {&x},
                         [&]() -> Captured<Value*> {
                           FRAMEJIT_TRY(result, unary_ufunc(session, op, x));
                           return x.is_array() ? Captured<Value*>(result) : check_scalar_math(session, op, result);
                         });
}

}  // namespace framejit::ext::frontends
