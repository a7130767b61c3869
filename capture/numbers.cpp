// Python numbers: symbolic ints are Dims under guards, run-time floats are 0-d graph values with the semantics of
// Python.
//
// Python float operations never warn. The nodes made here may still set a floating-point flag (overflow of a product):
// the region then gives its place to the bytecode, which is slower but right. What raises in Python (division by zero,
// int to float overflow) is excluded by a guard or is a Break.
#include "capture/numbers.h"

#include <cstring>

#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/repr.h"

namespace framejit::capture {

namespace {

Captured<graph::ValueId> i64(Executor& x, Value* v);
Captured<Value*> runtime_int_binary(Executor& x, int op, Value* left, Value* right);
Captured<bool> expect_within(Executor& x, Value* v, int64_t bound);
Captured<Value*> int_binary(Executor& x, int nb, const graph::Dim& l, const graph::Dim& r);
Captured<Value*> compare_ids(Executor& x, int op, graph::ValueId a, graph::ValueId b);

constexpr int64_t kExactFloat = int64_t{1} << 53;  // ints up to here are floats without rounding
constexpr int64_t kFactor = int64_t{1} << 31;      // symbolic factors below this do not overflow
constexpr int64_t kTerm = int64_t{1} << 61;

enum Nb {
  kAdd,
  kAnd,
  kFloorDivide,
  kLshift,
  kMatMul,
  kMultiply,
  kRemainder,
  kOr,
  kPower,
  kRshift,
  kSubtract,
  kTrueDivide,
  kXor
};

graph::Scalar bits_of(double d) {
  graph::Scalar s;
  std::memcpy(&s.lo, &d, sizeof d);
  return s;
}

bool is_runtime_int(const Value& v) { return v.is_array() && v.wrap() == Wrap::PyInt; }
bool is_integer(const Value& v) { return is_runtime_int(v) || is_int_like(v); }
bool is_runtime(const Value& v) { return v.is_array(); }
bool is_float_like(const Value& v) {
  return (v.is_array() && v.wrap() == Wrap::PyFloat) || (v.is_constant() && PyFloat_CheckExact(v.object.get()));
}

}  // namespace

bool is_number(const Value& v) {
  switch (v.kind) {
    case ValueKind::Int: return true;
    case ValueKind::Array:
      return v.wrap() == Wrap::PyFloat || v.wrap() == Wrap::PyInt || v.wrap() == Wrap::PyBool ||
             v.wrap() == Wrap::PyComplex;
    case ValueKind::Constant: {
      PyObject* o = v.object.get();
      return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o);
    }
    default: return false;
  }
}

bool is_int_like(const Value& v) {
  if (v.kind == ValueKind::Int) return true;
  return v.is_constant() && (PyLong_CheckExact(v.object.get()) || PyBool_Check(v.object.get()));
}

bool fits_int64(const Value& v) {
  if (v.kind == ValueKind::Int) return true;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(v.object.get(), &overflow);
  return overflow == 0;
}

graph::Dim dim_of(const Value& v) {
  if (v.kind == ValueKind::Int) return v.dim();
  int overflow = 0;
  return graph::Dim(static_cast<int64_t>(PyLong_AsLongLongAndOverflow(v.object.get(), &overflow)));
}

Captured<graph::ValueId> f64(Executor& x, Value* v) {
  graph::GraphBuilder& b = x.session().builder();
  if (v->is_array() && v->wrap() == Wrap::PyFloat) return v->id();
  if (v->is_constant()) {
    PyObject* o = v->object.get();
    if (PyFloat_CheckExact(o)) return b.constant(graph::DType::F64, bits_of(PyFloat_AS_DOUBLE(o)));
    if (PyLong_CheckExact(o) || PyBool_Check(o)) {
      const double d = PyLong_AsDouble(o);
      if (d == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return break_at(BreakId::WouldRaise, "int too large to convert to float");
      }
      return b.constant(graph::DType::F64, bits_of(d));
    }
  }
  if (is_runtime_int(*v)) {
    FRAMEJIT_REQUIRE(expect_within(x, v, kExactFloat));
    graph::BuildResult cast = b.cast(v->id(), graph::DType::F64);
    if (!cast) return break_at(BreakId::WouldRaise, cast.error().message);
    return *cast;
  }
  if (v->kind == ValueKind::Int) {
    graph::ShapeEnv& env = x.shapes();
    if (!env.holds(graph::Relation::Le, v->dim(), graph::Dim(kExactFloat)) ||
        !env.holds(graph::Relation::Le, graph::Dim(-kExactFloat), v->dim()))
      return break_at(BreakId::ScalarOverflow, "int beyond 2**53 as float");
    graph::BuildResult cast = b.cast(b.dim_value(v->dim()), graph::DType::F64);
    if (!cast) return break_at(BreakId::WouldRaise, cast.error().message);
    return *cast;
  }
  return break_at(BreakId::UnsupportedArgument, "a value that is not a Python number");
}

Captured<Value*> to_float(Executor& x, Value* v) {
  if (is_float_like(*v)) return v;
  if (v->is_constant()) {
    Ref<> f = is_plain(v->object.get()) ? Ref<>::steal(PyNumber_Float(v->object.get())) : Ref<>();
    if (!f) return PyErr_Occurred() ? raises_current(x, "float()") : break_at(BreakId::WouldRaise, "float()");
    return x.values().constant(f.get());
  }
  FRAMEJIT_TRY(id, f64(x, v));
  return x.values().array(id, Wrap::PyFloat);
}

namespace {

/// The run ends for the interpreter unless the number is, say, greater than 0.
Captured<bool> expect_number(Executor& x, graph::Op than_zero, graph::ValueId number) {
  graph::GraphBuilder& b = x.session().builder();
  const graph::ValueId operands[] = {number, b.constant(x.session().graph().type(number).dtype, {})};
  graph::BuildResult holds = b.elementwise(than_zero, operands);
  if (!holds) return break_at(BreakId::WouldRaise, holds.error().message);
  b.expect(*holds);
  return true;
}

}  // namespace

Captured<Value*> number_binary(Executor& x, int nb, Value* left, Value* right) {
  const int op = nb % 13;  // Python numbers are immutable: in place is the same
  if (left->is_constant() && right->is_constant()) return fold(x, nb, left->object.get(), right->object.get());
  if (is_int_like(*left) && is_int_like(*right)) {
    if (!fits_int64(*left) || !fits_int64(*right)) return break_at(BreakId::ScalarOverflow);
    if (op != kTrueDivide) return int_binary(x, nb, dim_of(*left), dim_of(*right));
  }
  const bool usable = [&] {
    for (Value* v : {left, right})
      if (!is_float_like(*v) && !is_int_like(*v) && !is_runtime_int(*v)) return false;
    return is_float_like(*left) || is_float_like(*right) || op == kTrueDivide;
  }();
  if (usable && (op == kAdd || op == kSubtract || op == kMultiply || op == kTrueDivide)) {
    graph::Op node = op == kAdd        ? graph::Op::Add
                     : op == kSubtract ? graph::Op::Subtract
                     : op == kMultiply ? graph::Op::Multiply
                                       : graph::Op::Divide;
    if (op == kTrueDivide) {
      // Division by zero raises in Python.
      if (right->kind == ValueKind::Int) {
        if (x.shapes().holds(graph::Relation::Eq, right->dim(), graph::Dim(0))) return divides_by_zero(x);
      } else {
        Value* divisor = specialize(x, right);
        if (divisor) {
          if (PyObject_IsTrue(divisor->object.get()) != 1) return divides_by_zero(x);
          right = divisor;
          if (left->is_constant()) return fold(x, nb, left->object.get(), right->object.get());
        } else {
          FRAMEJIT_TRY(number, f64(x, right));
          FRAMEJIT_REQUIRE(expect_number(x, graph::Op::NotEqual, number));
        }
      }
      // int / int is rounded once: exact only if both are floats exactly, which f64() guards for those that vary.
      const bool of_ints = !is_float_like(*left) && !is_float_like(*right);
      for (Value* v : {left, right})
        if (of_ints && v->is_constant() &&
            (!fits_int64(*v) || dim_of(*v).value() > kExactFloat || dim_of(*v).value() < -kExactFloat))
          return break_at(BreakId::ScalarOverflow);
    }
    FRAMEJIT_TRY(a, f64(x, left));
    FRAMEJIT_TRY(b, f64(x, right));
    const graph::ValueId operands[] = {a, b};
    graph::BuildResult made = x.session().builder().elementwise(node, operands);
    if (!made) return break_at(BreakId::WouldRaise, made.error().message);
    return x.values().array(*made, Wrap::PyFloat);
  }
  if (is_integer(*left) && is_integer(*right)) {
    Captured<Value*> whole = runtime_int_binary(x, op, left, right);
    if (whole || whole.error().id != BreakId::UnsupportedArgument) return whole;
  }
  // Everything else needs the values: **, //, % and the bit operations.
  Value* l = specialize(x, left);
  Value* r = l ? specialize(x, right) : nullptr;
  if (l && r) return fold(x, nb, l->object.get(), r->object.get());
  return break_at(BreakId::UnsupportedArgument, "this operation on a number that is known only at run time");
}

// Not by an operator for each part, except for integers: errors have another text.
Captured<Value*> number_divmod(Executor& x, Value* left, Value* right) {
  if (is_integer(*left) && is_integer(*right)) {
    FRAMEJIT_TRY(quotient, number_binary(x, kFloorDivide, left, right));
    FRAMEJIT_TRY(remainder, number_binary(x, kRemainder, left, right));
    return x.values().tuple({quotient, remainder});
  }
  Value* l = specialize(x, left);
  Value* r = l ? specialize(x, right) : nullptr;
  if (!l || !r) return break_at(BreakId::UnsupportedArgument, "divmod() of a number that is known only at run time");
  const Ref<> made = Ref<>::steal(PyNumber_Divmod(l->object.get(), r->object.get()));
  if (!made) return raises_current(x, "divmod()");
  return x.values().constant(made.get());
}

// Neumaier's summation, as sum() of CPython has it: what the additions of floats lose is added at the end.
Captured<Value*> compensated_sum(Executor& x, const Values& items, Value* start) {
  graph::GraphBuilder& b = x.session().builder();
  const auto apply = [&b](graph::Op op, std::initializer_list<graph::ValueId> operands) {
    return *b.elementwise(op, std::vector<graph::ValueId>(operands));  // of 0-d float64: never refused
  };
  const auto is_whole = [](const Value& v) { return is_int_like(v) || is_runtime_int(v); };
  const graph::ValueId zero = b.constant(graph::DType::F64, {});
  Value* total = look(x, start);
  graph::ValueId lost = graph::kNoValue;
  for (Value* item : items) {
    item = look(x, item);
    if (!is_float_like(*item) && !is_whole(*item)) return static_cast<Value*>(nullptr);
    if (!is_float_like(*total) && !is_whole(*total)) return static_cast<Value*>(nullptr);
    if (!is_float_like(*total) || (!is_float_like(*item) && !py::kSumCompensatesAll)) {
      FRAMEJIT_TRY(sum, number_binary(x, kAdd, total, item));
      total = sum;
      continue;
    }
    FRAMEJIT_TRY(high, f64(x, total));
    FRAMEJIT_TRY(added, f64(x, item));
    const graph::ValueId sum = apply(graph::Op::Add, {high, added});
    const graph::ValueId larger =
        apply(graph::Op::GreaterEqual, {apply(graph::Op::Absolute, {high}), apply(graph::Op::Absolute, {added})});
    const graph::ValueId of_high = apply(graph::Op::Add, {apply(graph::Op::Subtract, {high, sum}), added});
    const graph::ValueId of_item = apply(graph::Op::Add, {apply(graph::Op::Subtract, {added, sum}), high});
    const graph::ValueId now = apply(graph::Op::Where, {larger, of_high, of_item});
    lost = apply(graph::Op::Add, {lost == graph::kNoValue ? zero : lost, now});
    total = x.values().array(sum, Wrap::PyFloat);
  }
  if (lost == graph::kNoValue) return total;
  // The sign of a zero stays, and no infinity becomes a NaN.
  FRAMEJIT_TRY(high, f64(x, total));
  const graph::ValueId counts =
      apply(graph::Op::LogicalAnd, {apply(graph::Op::NotEqual, {lost, zero}), apply(graph::Op::IsFinite, {lost})});
  return x.values().array(apply(graph::Op::Where, {counts, apply(graph::Op::Add, {high, lost}), high}), Wrap::PyFloat);
}

namespace {

Captured<graph::ValueId> i64(Executor& x, Value* v) {
  if (v->is_array()) return v->id();
  if (!fits_int64(*v)) return break_at(BreakId::ScalarOverflow);
  graph::GraphBuilder& b = x.session().builder();
  if (v->kind == ValueKind::Int) return b.dim_value(v->dim());
  return b.constant(graph::DType::I64, graph::Scalar{static_cast<uint64_t>(dim_of(*v).value()), 0});
}

/// The run ends for the interpreter where the number is beyond the bound.
Captured<bool> expect_within(Executor& x, Value* v, int64_t bound) {
  if (!v->is_array()) {
    const graph::Dim d = dim_of(*v);
    const bool within = d.is_const() ? d.value() <= bound && d.value() >= -bound
                                     : x.shapes().holds(graph::Relation::Le, d, graph::Dim(bound)) &&
                                           x.shapes().holds(graph::Relation::Le, graph::Dim(-bound), d);
    return within ? Captured<bool>(true) : break_at(BreakId::ScalarOverflow);
  }
  graph::GraphBuilder& b = x.session().builder();
  for (const bool above : {true, false}) {
    const graph::ValueId limit =
        b.constant(graph::DType::I64, graph::Scalar{static_cast<uint64_t>(above ? bound : -bound), 0});
    const graph::ValueId operands[] = {v->id(), limit};
    graph::BuildResult within = b.elementwise(above ? graph::Op::LessEqual : graph::Op::GreaterEqual, operands);
    if (!within) return break_at(BreakId::ScalarOverflow, within.error().message);
    b.expect(*within);
  }
  return true;
}

}  // namespace

Captured<Value*> truncated(Executor& x, graph::ValueId v) {
  graph::GraphBuilder& b = x.session().builder();
  const auto failed = [](const graph::BuildResult& made) {
    return break_at(BreakId::WouldRaise, made.error().message);
  };
  graph::BuildResult number = v;
  if (x.session().graph().type(v).dtype != graph::DType::F64) number = b.cast(v, graph::DType::F64);
  if (!number) return failed(number);
  // A NaN is not within either.
  const graph::ValueId size[] = {*number};
  graph::BuildResult magnitude = b.elementwise(graph::Op::Absolute, size);
  if (!magnitude) return failed(magnitude);
  const graph::ValueId operands[] = {*magnitude, b.constant(graph::DType::F64, bits_of(static_cast<double>(kTerm)))};
  graph::BuildResult within = b.elementwise(graph::Op::LessEqual, operands);
  if (!within) return failed(within);
  b.expect(*within);
  graph::BuildResult whole = b.cast(*number, graph::DType::I64);
  if (!whole) return failed(whole);
  return x.values().array(*whole, Wrap::PyInt);
}

namespace {

Captured<Value*> runtime_int_binary(Executor& x, int op, Value* left, Value* right) {
  graph::Op node;
  int64_t bound;
  switch (op) {
    case kAdd: node = graph::Op::Add, bound = kTerm; break;
    case kSubtract: node = graph::Op::Subtract, bound = kTerm; break;
    case kMultiply: node = graph::Op::Multiply, bound = kFactor; break;
    case kFloorDivide:
    case kRemainder:
      // One sign of the divisor, which is not zero.
      if (right->is_constant() ? !fits_int64(*right) || dim_of(*right).value() <= 0 : !is_runtime_int(*right))
        return break_at(BreakId::UnsupportedArgument, "division by an int that is not above 0");
      if (!right->is_constant()) FRAMEJIT_REQUIRE(expect_number(x, graph::Op::Greater, right->id()));
      node = op == kFloorDivide ? graph::Op::FloorDivide : graph::Op::Remainder, bound = kTerm;
      break;
    default: return break_at(BreakId::UnsupportedArgument, "this operation on a number that is known only at run time");
  }
  graph::ValueId operands[2];
  for (int k : {0, 1}) {
    Value* v = k == 0 ? left : right;
    FRAMEJIT_REQUIRE(expect_within(x, v, bound));
    FRAMEJIT_TRY(id, i64(x, v));
    operands[k] = id;
  }
  graph::BuildResult made = x.session().builder().elementwise(node, operands);
  if (!made) return break_at(BreakId::WouldRaise, made.error().message);
  return x.values().array(*made, Wrap::PyInt);
}

Captured<Value*> int_binary(Executor& x, int nb, const graph::Dim& l, const graph::Dim& r) {
  graph::ShapeEnv& env = x.shapes();
  auto within = [&](const graph::Dim& d, int64_t bound) {
    if (d.is_const()) return d.value() <= bound && d.value() >= -bound;
    return env.holds(graph::Relation::Le, d, graph::Dim(bound)) &&
           env.holds(graph::Relation::Le, graph::Dim(-bound), d);
  };
  const int op = nb % 13;
  switch (op) {
    case kAdd:
    case kSubtract:
      if (!within(l, kTerm) || !within(r, kTerm)) return break_at(BreakId::ScalarOverflow);
      return x.values().integer(op == kAdd ? l + r : l - r);
    case kMultiply:
      if (!within(l, kFactor) || !within(r, kFactor)) return break_at(BreakId::ScalarOverflow);
      return x.values().integer(l * r);
    case kFloorDivide:
    case kRemainder: {
      if (env.holds(graph::Relation::Eq, r, graph::Dim(0))) return divides_by_zero(x);
      // One sign of the divisor, so that the rounding is one formula.
      if (!env.holds(graph::Relation::Lt, graph::Dim(0), r) || !within(l, kTerm)) break;
      const graph::Dim quotient = floordiv(l, r);
      return x.values().integer(op == kFloorDivide ? quotient : l - r * quotient);
    }
    default: break;
  }
  Value* a = x.values().integer(graph::Dim(env.specialize(l)));
  Value* b = x.values().integer(graph::Dim(env.specialize(r)));
  return fold(x, nb, a->object.get(), b->object.get());
}

}  // namespace

Captured<Value*> number_unary(Executor& x, Unary op, Value* v) {
  if (v->is_constant()) {
    PyObject* o = v->object.get();
    if (py::kInvertingBoolWarns && op == Unary::Invert && PyBool_Check(o))
      return break_at(BreakId::UnsupportedArgument, "~ of a bool");
    Ref<> result = Ref<>::steal(op == Unary::Positive   ? PyNumber_Positive(o)
                                : op == Unary::Negative ? PyNumber_Negative(o)
                                                        : PyNumber_Invert(o));
    if (!result) return raises_current(x, "unary operator");
    return x.values().constant(result.get());
  }
  if (v->kind == ValueKind::Int) {
    if (op == Unary::Positive) return v;
    FRAMEJIT_TRY(negative, int_binary(x, kSubtract, graph::Dim(op == Unary::Negative ? 0 : -1), v->dim()));
    return negative;
  }
  if (v->wrap() == Wrap::PyFloat && op == Unary::Positive) return v;
  if (v->wrap() == Wrap::PyFloat && op == Unary::Negative) {
    const graph::ValueId operands[] = {v->id()};
    graph::BuildResult made = x.session().builder().elementwise(graph::Op::Negative, operands);
    if (made) return x.values().array(*made, Wrap::PyFloat);
  }
  return break_at(BreakId::UnsupportedArgument, "unary operator on a number that is known only at run time");
}

Captured<Value*> number_compare(Executor& x, int op, Value* left, Value* right) {
  // A float that was passed in is compared to decide something: its value is guarded while it does not vary.
  if (is_runtime(*left) || is_runtime(*right)) {
    Value* l = specialize(x, left);
    Value* r = l ? specialize(x, right) : nullptr;
    if (l && r) {
      left = l;
      right = r;
    }
  }
  if (left->is_constant() && right->is_constant()) {
    Ref<> result = Ref<>::steal(PyObject_RichCompare(left->object.get(), right->object.get(), op));
    if (!result) return raises_current(x, "comparison");
    return x.values().constant(result.get());
  }
  if (is_int_like(*left) && is_int_like(*right)) {
    if (!fits_int64(*left) || !fits_int64(*right)) return break_at(BreakId::ScalarOverflow);
    const graph::Dim l = dim_of(*left), r = dim_of(*right);
    graph::ShapeEnv& env = x.shapes();
    switch (op) {
      case Py_EQ: return x.boolean(env.holds(graph::Relation::Eq, l, r));
      case Py_NE: return x.boolean(env.holds(graph::Relation::Ne, l, r));
      case Py_LT: return x.boolean(env.holds(graph::Relation::Lt, l, r));
      case Py_LE: return x.boolean(env.holds(graph::Relation::Le, l, r));
      case Py_GT: return x.boolean(env.holds(graph::Relation::Lt, r, l));
      default: return x.boolean(env.holds(graph::Relation::Le, r, l));
    }
  }
  if (is_integer(*left) && is_integer(*right)) {
    FRAMEJIT_TRY(a, i64(x, left));
    FRAMEJIT_TRY(b, i64(x, right));
    return compare_ids(x, op, a, b);
  }
  // Python compares int and float by value, without rounding: only ints that are floats exactly become nodes.
  for (Value* v : {left, right})
    if (is_int_like(*v) && v->is_constant() &&
        (!fits_int64(*v) || dim_of(*v).value() > kExactFloat || dim_of(*v).value() < -kExactFloat))
      return break_at(BreakId::ScalarOverflow);
  FRAMEJIT_TRY(a, f64(x, left));
  FRAMEJIT_TRY(b, f64(x, right));
  return compare_ids(x, op, a, b);
}

namespace {

Captured<Value*> compare_ids(Executor& x, int op, graph::ValueId a, graph::ValueId b) {
  static constexpr graph::Op kOps[] = {graph::Op::Less,     graph::Op::LessEqual, graph::Op::Equal,
                                       graph::Op::NotEqual, graph::Op::Greater,   graph::Op::GreaterEqual};
  const graph::ValueId operands[] = {a, b};
  graph::BuildResult made = x.session().builder().elementwise(kOps[op], operands);
  if (!made) return break_at(BreakId::WouldRaise, made.error().message);
  return x.values().array(*made, Wrap::PyBool);
}

}  // namespace

}  // namespace framejit::capture
