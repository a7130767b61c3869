// One row for each operator of the table: its derivative, or why it has none. An operator without a row does not
// compile.
//
// Elementwise rules give the cotangent of an operand from that of the result, `g`: it is unbroadcast behind them. They
// are linear in g. Where a formula would be infinity times 0 at a point where the derivative is finite, the formula
// avoids it, not the caller.
#include "graph/passes/grad_rules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "graph/mask_operators.h"
#include "graph/network_operators.h"
#include "graph/random.h"
#include "graph/scalar_cast.h"
#include "graph/support/check.h"

namespace framejit::graph {

E Math::done(BuildResult built) {
  FRAMEJIT_CHECK(built.has_value(), "a derivative of shapes that do not fit: " + built.error().message);
  return {this, *built};
}

E Math::number(double value, DType dtype) {
  if (dtype == DType::F64) return of(builder_.constant(dtype, scalar_of(value)));
  if (dtype == DType::F32) return of(builder_.constant(dtype, scalar_of(static_cast<float>(value))));
  return cast(number(value, dtype == DType::C128 ? DType::F64 : DType::F32), dtype);
}

E Math::apply(Op op, std::initializer_list<E> operands) {
  std::vector<ValueId> ids;
  for (const E& e : operands) ids.push_back(e.id);
  return done(builder_.elementwise(op, ids));
}

E Math::cast(E x, DType dtype) { return type(x).dtype == dtype ? x : done(builder_.cast(x.id, dtype)); }
E Math::reshape(E x, Dims shape) { return type(x).shape == shape ? x : done(builder_.reshape(x.id, std::move(shape))); }
E Math::broadcast(E x, Dims shape) {
  return type(x).shape == shape ? x : done(builder_.broadcast_to(x.id, std::move(shape)));
}
E Math::permute(E x, const std::vector<int>& axes) { return of(builder_.transpose(x.id, axes)); }
E Math::matmul(E a, E b) { return done(builder_.matmul(a.id, b.id)); }
E Math::real(E x) {
  const DType dtype = type(x).dtype;
  return is_complex(dtype) ? of(builder_.copy(builder_.reinterpret(x.id, part_of(dtype)), 'K')) : x;
}
E Math::zeros(DType dtype, Dims shape) { return of(builder_.full(number(0, dtype).id, std::move(shape))); }

E Math::sum(E x, std::vector<int64_t> axes, bool keep) {
  if (axes.empty()) return x;
  const E reduced = done(builder_.reduce(Op::ReduceSum, x.id, axes));
  return keep ? of(builder_.keep_dims(reduced.id, x.id, axes)) : reduced;
}

E Math::unbroadcast(E x, Dims shape) {
  const Dims own = type(x).shape;
  if (own == shape) return x;
  const std::size_t missing = own.size() - shape.size();
  std::vector<int64_t> axes;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (i < missing || (shape[i - missing] == Dim(1) && !(own[i] == Dim(1)))) axes.push_back(static_cast<int64_t>(i));
  return reshape(sum(x, std::move(axes)), std::move(shape));
}

E operator+(E a, E b) { return a.math->apply(Op::Add, {a, b}); }
E operator-(E a, E b) { return a.math->apply(Op::Subtract, {a, b}); }
E operator*(E a, E b) { return a.math->apply(Op::Multiply, {a, b}); }
E operator/(E a, E b) { return a.math->apply(Op::Divide, {a, b}); }
E operator-(E a) { return a.math->apply(Op::Negative, {a}); }

namespace {

E number_like(E x, double value) { return x.math->number(value, x.math->type(x).dtype); }

}  // namespace

E operator+(E a, double b) { return a + number_like(a, b); }
E operator-(E a, double b) { return a - number_like(a, b); }
E operator*(E a, double b) { return a * number_like(a, b); }
E operator/(E a, double b) { return a / number_like(a, b); }
E operator-(double a, E b) { return number_like(b, a) - b; }
E operator/(double a, E b) { return number_like(b, a) / b; }

namespace {

E f(Op op, E x) { return x.math->apply(op, {x}); }
E f(Op op, E a, E b) { return a.math->apply(op, {a, b}); }
E f(Op op, E a, double b) { return f(op, a, number_like(a, b)); }
E square(E x) { return f(Op::Square, x); }
E sqrt(E x) { return f(Op::Sqrt, x); }
E exp(E x) { return f(Op::Exp, x); }
E both(E a, E b) { return f(Op::LogicalAnd, a, b); }
E either(E a, E b) { return f(Op::LogicalOr, a, b); }
E where(E condition, E a, E b) { return a.math->apply(Op::Where, {condition, a, b}); }
E where(E condition, E a, double b) { return where(condition, a, number_like(a, b)); }
/// g where the condition holds, else 0.
E only(E condition, E g) { return where(condition, g, 0.0); }
E unless(E condition, E g) { return where(condition, number_like(g, 0), g); }

template <Op op>
struct Gradient;

/// The cotangents of the operands that want one, unbroadcast.
template <class F>
BackwardResult elementwise(const Backward& at, F&& of_operand) {
  std::vector<ValueId> out(at.inputs.size(), kNoValue);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!at.needed[i]) continue;
    const E d = of_operand(i);
    if (d.id != kNoValue) out[i] = at.math.unbroadcast(d, at.input_type(i).shape).id;
  }
  return out;
}

[[maybe_unused]] constexpr E kNothing{};

// The formulas see: g the cotangent of the result; x, y operand and result (one operand); a, b, y (two).
#define FRAMEJIT_UNARY(name, formula)                            \
  template <>                                                    \
  struct Gradient<Op::name> {                                    \
    static BackwardResult rule(const Backward& at) {             \
      return elementwise(at, [&](std::size_t) {                  \
        const E g = at.g;                                        \
        [[maybe_unused]] const auto x = [&] { return at.x(0); }; \
        [[maybe_unused]] const auto y = [&] { return at.y(); };  \
        return formula;                                          \
      });                                                        \
    }                                                            \
    static constexpr GradientRow row{rule, {}};                  \
  };
#define FRAMEJIT_BINARY(name, of_a, of_b)                        \
  template <>                                                    \
  struct Gradient<Op::name> {                                    \
    static BackwardResult rule(const Backward& at) {             \
      return elementwise(at, [&](std::size_t i) {                \
        const E g = at.g;                                        \
        [[maybe_unused]] const auto a = [&] { return at.x(0); }; \
        [[maybe_unused]] const auto b = [&] { return at.x(1); }; \
        [[maybe_unused]] const auto y = [&] { return at.y(); };  \
        return i == 0 ? (of_a) : (of_b);                         \
      });                                                        \
    }                                                            \
    static constexpr GradientRow row{rule, {}};                  \
  };
#define FRAMEJIT_RULE(name, function)               \
  template <>                                       \
  struct Gradient<Op::name> {                       \
    static constexpr GradientRow row{function, {}}; \
  };
#define FRAMEJIT_NONE(name, why)                    \
  template <>                                       \
  struct Gradient<Op::name> {                       \
    static constexpr GradientRow row{nullptr, why}; \
  };

constexpr double kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10;
constexpr double kTwoBySqrtPi = 2 * std::numbers::inv_sqrtpi;
constexpr double kSqrt2Pi = 2.5066282746310002;

FRAMEJIT_BINARY(Add, g, g)
FRAMEJIT_BINARY(Subtract, g, -g)
FRAMEJIT_BINARY(Multiply, g* b(), g* a())
FRAMEJIT_BINARY(Divide, g / b(), -(g / b() * y()))
FRAMEJIT_UNARY(Negative, -g)
FRAMEJIT_UNARY(Square, g*(x() * 2.0))
FRAMEJIT_UNARY(Reciprocal, -(g* square(y())))
FRAMEJIT_UNARY(Sqrt, g / (y() * 2.0))
FRAMEJIT_UNARY(Cbrt, g / (square(y()) * 3.0))
FRAMEJIT_UNARY(Exp, g* y())
FRAMEJIT_UNARY(Exp2, g*(y() * kLn2))
FRAMEJIT_UNARY(Expm1, g*(y() + 1.0))
FRAMEJIT_UNARY(Log, g / x())
FRAMEJIT_UNARY(Log2, g / (x() * kLn2))
FRAMEJIT_UNARY(Log10, g / (x() * kLn10))
FRAMEJIT_UNARY(Log1p, g / (x() + 1.0))
FRAMEJIT_UNARY(Sin, g* f(Op::Cos, x()))
FRAMEJIT_UNARY(Cos, -(g* f(Op::Sin, x())))
FRAMEJIT_UNARY(Tan, g*(square(y()) + 1.0))
FRAMEJIT_UNARY(Arcsin, g / sqrt(1.0 - square(x())))
FRAMEJIT_UNARY(Arccos, -(g / sqrt(1.0 - square(x()))))
FRAMEJIT_UNARY(Arctan, g / (square(x()) + 1.0))
FRAMEJIT_UNARY(Sinh, g* f(Op::Cosh, x()))
FRAMEJIT_UNARY(Cosh, g* f(Op::Sinh, x()))
FRAMEJIT_UNARY(Tanh, g * (1.0 - square(y())))
FRAMEJIT_UNARY(Arcsinh, g / sqrt(square(x()) + 1.0))
FRAMEJIT_UNARY(Arccosh, g / (sqrt(x() - 1.0) * sqrt(x() + 1.0)))
FRAMEJIT_UNARY(Arctanh, g / ((1.0 - x()) * (x() + 1.0)))
FRAMEJIT_UNARY(Erf, g*(exp(-square(x())) * kTwoBySqrtPi))
FRAMEJIT_UNARY(Erfc, -(g*(exp(-square(x())) * kTwoBySqrtPi)))
FRAMEJIT_UNARY(Expit, g*(y() * (1.0 - y())))
FRAMEJIT_UNARY(Logit, g / (x() * (1.0 - x())))
FRAMEJIT_BINARY(Xlogy, g* f(Op::Log, b()), g*(a() / b()))
FRAMEJIT_BINARY(Xlog1py, g* f(Op::Log1p, b()), g*(a() / (b() + 1.0)))
FRAMEJIT_UNARY(Ndtr, g*(exp(square(x()) * -0.5) / kSqrt2Pi))
// a ** (b - 1) is infinite at a = 0 = b, where the factor b is 0.
FRAMEJIT_BINARY(Power, g*(b() * f(Op::Power, a(), where(f(Op::Equal, b(), 0), number_like(g, 1), b() - 1.0))),
                g*(y() * f(Op::Log, where(f(Op::Equal, a(), 0), number_like(g, 1), a()))))
FRAMEJIT_BINARY(Arctan2, g*(b() / (square(a()) + square(b()))), -(g*(a() / (square(a()) + square(b())))))
FRAMEJIT_BINARY(Hypot, g*(a() / y()), g*(b() / y()))
FRAMEJIT_BINARY(Logaddexp, g* exp(a() - y()), g* exp(b() - y()))
FRAMEJIT_BINARY(Logaddexp2, g* f(Op::Exp2, a() - y()), g* f(Op::Exp2, b() - y()))
FRAMEJIT_BINARY(Nextafter, g, kNothing)
FRAMEJIT_BINARY(Heaviside, kNothing, only(f(Op::Equal, a(), 0), g))
FRAMEJIT_BINARY(Copysign, where(f(Op::Equal, f(Op::SignBit, a()), f(Op::SignBit, y())), g, -g), kNothing)
FRAMEJIT_BINARY(Remainder, g, -(g* f(Op::Floor, a() / b())))
FRAMEJIT_BINARY(Fmod, g, -(g* f(Op::Trunc, a() / b())))
// Where both operands are equal, all of it is the first one's; a NaN is its own.
FRAMEJIT_BINARY(Minimum, unless(f(Op::Less, b(), a()), g), only(f(Op::Less, b(), a()), g))
FRAMEJIT_BINARY(Maximum, unless(f(Op::Greater, b(), a()), g), only(f(Op::Greater, b(), a()), g))
FRAMEJIT_BINARY(Fmin, unless(either(f(Op::Less, b(), a()), f(Op::IsNan, a())), g),
                only(either(f(Op::Less, b(), a()), f(Op::IsNan, a())), g))
FRAMEJIT_BINARY(Fmax, unless(either(f(Op::Greater, b(), a()), f(Op::IsNan, a())), g),
                only(either(f(Op::Greater, b(), a()), f(Op::IsNan, a())), g))

constexpr std::string_view kSteps = "its derivative is 0 wherever it has one";
constexpr std::string_view kTruth = "it gives truth values";
constexpr std::string_view kIntegers = "it is of integers";
constexpr std::string_view kNoOperands = "it has no operands that could vary";
constexpr std::string_view kFlow = "loops that depend on array values have no derivative";
constexpr std::string_view kSides = "the pass follows the sides itself";
FRAMEJIT_NONE(Carried, kFlow)
FRAMEJIT_NONE(If, kSides)
FRAMEJIT_NONE(Loop, kFlow)
FRAMEJIT_NONE(Output, kSides)
FRAMEJIT_NONE(Expect, kFlow)
FRAMEJIT_NONE(Measure, kFlow)
FRAMEJIT_NONE(Nonzero, kIntegers)
FRAMEJIT_NONE(Put, "what is differentiated calls NumPy for it")
FRAMEJIT_NONE(FloorDivide, kSteps)
FRAMEJIT_NONE(Floor, kSteps)
FRAMEJIT_NONE(Ceil, kSteps)
FRAMEJIT_NONE(Rint, kSteps)
FRAMEJIT_NONE(Trunc, kSteps)
FRAMEJIT_NONE(Gcd, kIntegers)
FRAMEJIT_NONE(Lcm, kIntegers)
FRAMEJIT_NONE(BitwiseAnd, kIntegers)
FRAMEJIT_NONE(BitwiseOr, kIntegers)
FRAMEJIT_NONE(BitwiseXor, kIntegers)
FRAMEJIT_NONE(Invert, kIntegers)
FRAMEJIT_NONE(LeftShift, kIntegers)
FRAMEJIT_NONE(RightShift, kIntegers)
FRAMEJIT_NONE(IsNan, kTruth)
FRAMEJIT_NONE(IsInf, kTruth)
FRAMEJIT_NONE(IsFinite, kTruth)
FRAMEJIT_NONE(SignBit, kTruth)
FRAMEJIT_NONE(Equal, kTruth)
FRAMEJIT_NONE(NotEqual, kTruth)
FRAMEJIT_NONE(Less, kTruth)
FRAMEJIT_NONE(LessEqual, kTruth)
FRAMEJIT_NONE(Greater, kTruth)
FRAMEJIT_NONE(GreaterEqual, kTruth)
FRAMEJIT_NONE(LogicalAnd, kTruth)
FRAMEJIT_NONE(LogicalOr, kTruth)
FRAMEJIT_NONE(LogicalXor, kTruth)
FRAMEJIT_NONE(LogicalNot, kTruth)
FRAMEJIT_NONE(ReduceAny, kTruth)
FRAMEJIT_NONE(ReduceAll, kTruth)
FRAMEJIT_NONE(Param, kNoOperands)
FRAMEJIT_NONE(Constant, kNoOperands)
FRAMEJIT_NONE(DimValue, kNoOperands)
FRAMEJIT_NONE(Empty, kNoOperands)
FRAMEJIT_NONE(Iota, kNoOperands)
FRAMEJIT_NONE(View, "the pass follows memory itself")
FRAMEJIT_NONE(Write, "the pass follows memory itself")

/// Of z: in its direction; in that of 0 there is none.
BackwardResult absolute_rule(const Backward& at) {
  return elementwise(at, [&](std::size_t) {
    const E x = at.x(0), g = at.g;
    const DType dtype = at.input_type(0).dtype;
    if (!is_complex(dtype)) return g * f(Op::Sign, x);
    const E y = at.y();
    return at.math.cast(g / where(f(Op::Equal, y, 0), number_like(y, 1), y), dtype) * x;
  });
}
FRAMEJIT_RULE(Absolute, absolute_rule)

BackwardResult conjugate_rule(const Backward& at) { return std::vector{at.math.conjugate(at.g).id}; }
FRAMEJIT_RULE(Conjugate, conjugate_rule)

/// Of reals it steps.
BackwardResult sign_rule(const Backward& at) {
  if (is_complex(at.input_type(0).dtype)) return Unexpected<NoGradient>{{"the sign of complex numbers", at.node}};
  return std::vector{kNoValue};
}
FRAMEJIT_RULE(Sign, sign_rule)

BackwardResult where_rule(const Backward& at) {
  return elementwise(at, [&](std::size_t i) {
    return i == 0 ? kNothing : i == 1 ? only(at.x(0), at.g) : unless(at.x(0), at.g);
  });
}
FRAMEJIT_RULE(Where, where_rule)

/// minimum(maximum(x, low), high)
BackwardResult clip_rule(const Backward& at) {
  return elementwise(at, [&](std::size_t i) {
    const E x = at.x(0), low = at.x(1), high = at.x(2);
    const E raised = f(Op::Less, x, low), lowered = f(Op::Less, high, f(Op::Maximum, x, low));
    if (i == 0) return unless(either(raised, lowered), at.g);
    if (i == 2) return only(lowered, at.g);
    return only(both(raised, f(Op::LogicalNot, lowered)), at.g);
  });
}
FRAMEJIT_RULE(Clip, clip_rule)

BackwardResult multiply_add_rule(const Backward& at) {
  return elementwise(at, [&](std::size_t i) { return i == 2 ? at.g : at.g * at.x(1 - i); });
}
FRAMEJIT_RULE(MultiplyAdd, multiply_add_rule)

BackwardResult compress_rule(const Backward& at) {
  return std::vector{kNoValue, append_expand(at.math.builder(), at.x(0).id, at.g.id)};
}
FRAMEJIT_RULE(Compress, compress_rule)

BackwardResult expand_rule(const Backward& at) {
  const BuildResult few = append_compress(at.math.builder(), at.x(0).id, at.g.id, at.input_type(1).shape[0]);
  FRAMEJIT_CHECK(few.has_value(), "what a mask chooses of a cotangent");
  return std::vector{kNoValue, *few};
}
FRAMEJIT_RULE(Expand, expand_rule)

BackwardResult cast_rule(const Backward& at) {
  const DType dtype = at.input_type(0).dtype;
  return std::vector{at.math.cast(is_complex(dtype) ? at.g : at.math.real(at.g), dtype).id};
}
FRAMEJIT_RULE(Cast, cast_rule)

BackwardResult copy_rule(const Backward& at) { return std::vector{at.g.id}; }
FRAMEJIT_RULE(Copy, copy_rule)

BackwardResult full_rule(const Backward& at) {
  std::vector<int64_t> axes;
  for (int i = 0; i < at.math.type(at.g).rank(); ++i) axes.push_back(i);
  return std::vector{at.math.sum(at.g, std::move(axes)).id};
}
FRAMEJIT_RULE(Full, full_rule)

// ---- reductions

/// A reduced value with its axes back, of length 1.
E kept(const Backward& at, E reduced) {
  Dims shape = at.input_type(0).shape;
  for (int64_t axis : at.math.graph().node(at.node).axes()) shape[static_cast<std::size_t>(axis)] = 1;
  return at.math.reshape(reduced, std::move(shape));
}

BackwardResult sum_rule(const Backward& at) {
  return std::vector{at.math.broadcast(kept(at, at.g), at.input_type(0).shape).id};
}
FRAMEJIT_RULE(ReduceSum, sum_rule)

/// Equal parts to all elements that are the extreme one.
BackwardResult extreme_rule(const Backward& at) {
  Math& m = at.math;
  const DType dtype = m.type(at.g).dtype;
  const std::vector<int64_t> axes = m.graph().node(at.node).axes();
  const E hit = m.cast(f(Op::Equal, at.x(0), kept(at, at.y())), dtype);
  return std::vector{(hit * (kept(at, at.g) / m.sum(hit, axes, true))).id};
}
FRAMEJIT_RULE(ReduceMin, extreme_rule)
FRAMEJIT_RULE(ReduceMax, extreme_rule)

/// The product of the others: of all where there is no 0, of the rest for a single 0, else 0.
BackwardResult prod_rule(const Backward& at) {
  Math& m = at.math;
  const std::vector<int64_t> axes = m.graph().node(at.node).axes();
  const E x = at.x(0), zero = f(Op::Equal, x, 0);
  const E zeros = m.sum(m.cast(zero, m.type(x).dtype), axes, true);
  const E rest = where(zero, number_like(x, 1), x);
  const BuildResult product = m.builder().reduce(Op::ReduceProd, rest.id, axes);
  const E others = kept(at, m.of(*product)) / rest;
  const E alone = both(zero, f(Op::Equal, zeros, 1));
  const E none = f(Op::Equal, zeros, 0);
  return std::vector{(kept(at, at.g) * where(either(alone, none), others, 0.0)).id};
}
FRAMEJIT_RULE(ReduceProd, prod_rule)

// ---- products

E transposed(E x) {
  std::vector<int> axes;
  const int rank = x.math->type(x).rank();
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  std::swap(axes[static_cast<std::size_t>(rank - 1)], axes[static_cast<std::size_t>(rank - 2)]);
  return x.math->permute(x, axes);
}

/// Do columns lie one after the other, so that the matrix is better made as its transpose?
bool is_by_columns(const Type& matrix) {
  const std::size_t rank = matrix.shape.size();
  const Dim item = size_of(matrix.dtype);
  return rank >= 2 && matrix.strides[rank - 2] == item && !(matrix.strides[rank - 1] == item);
}

/// Matrices that follow each other as one.
E joined(E x) {
  Math& m = *x.math;
  const Dims shape = m.type(x).shape;
  Dim rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows = rows * shape[i];
  return m.reshape(x, {rows, shape.back()});
}

/// Vectors become matrices, as matmul sees them; the result gets the axes that it lacks. A cotangent lies in memory as
/// its operand does.
BackwardResult matmul_rule(const Backward& at) {
  Math& m = at.math;
  const Dims left = at.input_type(0).shape, right = at.input_type(1).shape;
  const bool left_by_columns = is_by_columns(at.input_type(0)), right_by_columns = is_by_columns(at.input_type(1));
  Dims as_left = left, as_right = right, as_result = m.type(at.g).shape;
  if (left.size() == 1) as_left.insert(as_left.begin(), 1);
  if (right.size() == 1) as_right.push_back(1);
  if (right.size() == 1) as_result.push_back(1);
  if (left.size() == 1) as_result.insert(as_result.end() - 1, 1);
  const E g = m.reshape(at.g, as_result);
  const auto product = [&](E a, E b, bool by_columns) {
    return by_columns ? transposed(m.matmul(transposed(b), transposed(a))) : m.matmul(a, b);
  };
  std::vector<ValueId> out(2, kNoValue);
  const auto add_left = [&] {
    const E b = m.reshape(at.x(1), as_right);
    out[0] = m.reshape(m.unbroadcast(product(g, transposed(b), left_by_columns), as_left), left).id;
  };
  const auto add_right = [&] {
    E a = m.reshape(at.x(0), as_left), of = g;
    if (as_right.size() == 2) a = joined(a), of = joined(g);  // the sum over all matrices of A is one along k
    out[1] = m.reshape(m.unbroadcast(product(transposed(a), of, right_by_columns), as_right), right).id;
  };
  // First what reads an operand whose memory is free behind it, before more is needed.
  const bool left_stays = m.graph().node(m.graph().root(at.inputs[0])).op == Op::Param;
  if (at.needed[0] && left_stays) add_left();
  if (at.needed[1]) add_right();
  if (at.needed[0] && !left_stays) add_left();
  return out;
}
FRAMEJIT_RULE(MatMul, matmul_rule)

std::vector<int> swapped(std::size_t rank, std::size_t a, std::size_t b) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int>(i));
  std::swap(axes[a], axes[b]);
  return axes;
}

/// Contiguous.
E packed(E x) {
  const Type& type = x.math->type(x);
  return type.strides == c_strides(type.dtype, type.shape) ? x : x.math->of(x.math->builder().copy(x.id, 'C'));
}

E convolution(E image, E weights, const Window& window) {
  const BuildResult built = append_convolution(image.math->builder(), image.id, packed(weights).id, window);
  FRAMEJIT_CHECK(built.has_value(), "the derivative of a convolution: " + built.error().message);
  return image.math->of(*built);
}

/// Along one axis of space the elements first, first + stride ... of an image, and the taps of the window, begin, begin
/// + stride ..., that they meet: all of them where the stride is 1. The n-th of these elements meets the first of these
/// taps at place n + shift of the result.
struct Phase {
  int64_t first = 0, count = 0, begin = 0, taps = 0, shift = 0, stride = 1;

  static std::vector<Phase> all(const Window::Axis& axis, int64_t length, int64_t size) {
    std::vector<Phase> out;
    for (int64_t begin = 0; begin < axis.stride; ++begin) {
      Phase p{0, 0, begin, begin < size ? (size - 1 - begin) / axis.stride + 1 : 0, 0, axis.stride};
      p.first = ((begin - axis.before) % axis.stride + axis.stride) % axis.stride;
      p.count = p.first < length ? (length - 1 - p.first) / axis.stride + 1 : 0;
      p.shift = (p.first + axis.before - begin) / axis.stride;
      out.push_back(p);
    }
    return out;
  }
};

/// The cotangent of the image at one phase of each axis: that of the result convolved with the taps turned around;
/// nothing where it is zero.
std::optional<E> phase_cotangent(E w, E g, const Window& window, std::span<const Phase> phases) {
  Math& m = *g.math;
  GraphBuilder& b = m.builder();
  Window back;
  back.groups = window.groups;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& p = phases[i];
    const int n = static_cast<int>(i) + 2;
    const int64_t places = m.type(g).shape[i + 2].value(), dilation = window.axes[i].dilation;
    const int64_t before = dilation * (p.taps - 1) - p.shift, after = p.shift + p.count - places;
    // Places whose window lies in the padding alone.
    const int64_t skipped = std::max<int64_t>(-before, 0), dropped = std::max<int64_t>(-after, 0);
    if (p.taps == 0 || p.count == 0 || places <= skipped + dropped) return std::nullopt;
    if (skipped || dropped) g = m.of(b.slice(g.id, n, skipped, places - skipped - dropped, 1));
    back.axes.push_back({1, std::max<int64_t>(before, 0), std::max<int64_t>(after, 0), dilation});
    w = m.of(b.slice(w.id, n, p.begin + (p.taps - 1) * p.stride, p.taps, -p.stride));
  }
  // [out, in / groups, ...] -> [in, out / groups, ...]
  const Dims filter = m.type(w).shape;
  Dims split = {window.groups, filter[0].value() / window.groups, filter[1]};
  Dims joined = {filter[1].value() * window.groups, filter[0].value() / window.groups};
  for (std::size_t i = 2; i < filter.size(); ++i) {
    split.push_back(filter[i]);
    joined.push_back(filter[i]);
  }
  w = m.reshape(m.permute(m.reshape(w, split), swapped(split.size(), 1, 2)), joined);
  return convolution(g, w, back);
}

constexpr int64_t kMostPhases = 16;

/// The cotangent of the image. Where the window steps, elements of the image meet every so many taps only: phase by
/// phase. Where it is dilated as well, or the steps are large, by one with zeros between the elements of the result's.
E image_cotangent(E w, E g, Dims image, Window window) {
  Math& m = *g.math;
  GraphBuilder& b = m.builder();
  const Dims filter = m.type(w).shape;
  int64_t count = 1;
  for (const Window::Axis& axis : window.axes) count *= std::min(axis.stride, kMostPhases + 1);
  std::vector<std::vector<Phase>> phases;
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    Window::Axis& axis = window.axes[i];
    const int n = static_cast<int>(i) + 2;
    const int64_t length = m.shapes().specialize(image[i + 2]);
    int64_t places = m.shapes().specialize(m.type(g).shape[i + 2]);
    if (axis.stride > 1 && (axis.dilation > 1 || count > kMostPhases)) {
      Dims spread = m.type(g).shape;
      spread[i + 2] = (places - 1) * axis.stride + 1;
      const E with_zeros = m.zeros(m.type(g).dtype, spread);
      const auto written = b.write(b.slice(with_zeros.id, n, 0, places, axis.stride), g.id);
      FRAMEJIT_CHECK(written.has_value(), "spreading a cotangent");
      g = with_zeros;
      axis.stride = 1;
    }
    phases.push_back(Phase::all(axis, length, filter[i + 2].value()));
  }
  std::vector<std::vector<Phase>> each = {{}};
  for (const std::vector<Phase>& axis : phases) {
    std::vector<std::vector<Phase>> longer;
    for (const std::vector<Phase>& head : each)
      for (const Phase& p : axis) {
        longer.push_back(head);
        longer.back().push_back(p);
      }
    each = std::move(longer);
  }
  if (each.size() == 1)
    if (const std::optional<E> whole = phase_cotangent(w, g, window, each[0])) return *whole;
  const E out = m.zeros(m.type(g).dtype, image);
  for (const std::vector<Phase>& one : each) {
    const std::optional<E> part = phase_cotangent(w, g, window, one);
    if (!part) continue;
    ValueId place = out.id;
    for (std::size_t i = 0; i < one.size(); ++i)
      place = b.slice(place, static_cast<int>(i) + 2, one[i].first, one[i].count, one[i].stride);
    FRAMEJIT_CHECK(b.write(place, part->id).has_value(), "a phase of a cotangent");
  }
  return out;
}

E weights_cotangent(E image, E g, Dims filter, const Window& window) {
  const BuildResult built =
      append_convolution_weights(g.math->builder(), image.id, packed(g).id, window, std::move(filter));
  FRAMEJIT_CHECK(built.has_value(), "the derivative of a convolution: " + built.error().message);
  return g.math->of(*built);
}

BackwardResult convolution_rule(const Backward& at) {
  const Window window = at.math.graph().node(at.node).window();
  std::vector<ValueId> out(2, kNoValue);
  // The image's memory may be free behind the weights' cotangent, before that of its own is needed.
  if (at.needed[1]) out[1] = weights_cotangent(at.x(0), at.g, at.input_type(1).shape, window).id;
  if (at.needed[0]) out[0] = image_cotangent(at.x(1), at.g, at.input_type(0).shape, window).id;
  return out;
}
FRAMEJIT_RULE(Convolution, convolution_rule)

/// Linear in both: by the image as a convolution is with the cotangent as weights, and by the result's cotangent a
/// convolution with it.
BackwardResult convolution_weights_rule(const Backward& at) {
  const Window window = at.math.graph().node(at.node).window();
  std::vector<ValueId> out(2, kNoValue);
  if (at.needed[0]) out[0] = image_cotangent(at.g, at.x(1), at.input_type(0).shape, window).id;
  if (at.needed[1]) out[1] = convolution(at.x(0), at.g, window).id;
  return out;
}
FRAMEJIT_RULE(ConvolutionWeights, convolution_weights_rule)

/// Weights of which some are dropped, as random.h says; `all` is their shape to the attention.
E kept_weights(E weights, const Dims& all, E probability, E state) {
  Math& m = *weights.math;
  const auto word = [&](uint64_t value) { return m.of(m.builder().constant(DType::U64, Scalar{value})); };
  const E number = m.cast(m.of(m.builder().iota(DType::I64, product(all))), DType::U64);
  const auto mixed = [&](E z, uint64_t shift) { return f(Op::BitwiseXor, z, f(Op::RightShift, z, word(shift))); };
  E z = m.reshape(state, {}) + (number + word(1)) * word(SplitMix64::kGamma);
  z = mixed(mixed(mixed(z, 30) * word(SplitMix64::kFirst), 27) * word(SplitMix64::kSecond), 31);
  const E drawn = m.cast(f(Op::RightShift, z, word(SplitMix64::kShift)), DType::F32) * 0x1p-24;
  const E p = m.reshape(probability, {});
  const E keep = m.reshape(f(Op::GreaterEqual, drawn, p), m.type(weights).shape);
  return where(keep, weights / (1.0 - p), 0.0);
}

/// The cotangents of an attention's operands from that of its result, through the matrix of its weights.
struct AttentionCotangents {
  E q, k, v, scale, mask;
};
Expected<AttentionCotangents, NoGradient> attention_cotangents(const std::vector<E>& operands,
                                                               const AttentionOperands& at, E cotangent, Causal causal,
                                                               ValueId node) {
  const E query = operands[0], key = operands[1], value = operands[2], factor = operands[3];
  Math& m = *query.math;
  ShapeEnv& shapes = m.shapes();
  const Dims queries = m.type(query).shape, keys = m.type(key).shape, values = m.type(value).shape;
  const int64_t heads = shapes.specialize(queries[1]), key_heads = shapes.specialize(keys[1]),
                repeats = heads / key_heads;
  // [batch, key heads, repeats, rows, depth]
  const auto grouped = [&](E x, int64_t own) {
    const Dims s = m.type(x).shape;
    return m.reshape(x, {s[0], key_heads, own, s[2], s[3]});
  };
  const E q = grouped(query, repeats), k = grouped(key, 1), v = grouped(value, 1), g = grouped(cotangent, repeats);
  const E scale = m.reshape(factor, {});
  const E products = m.matmul(q, transposed(k));
  E scores = products * scale;
  const Dims all = {queries[0], queries[1], queries[2], keys[2]};
  const Dims own = m.type(scores).shape;
  if (at.mask) scores = scores + m.reshape(packed(m.broadcast(operands[*at.mask], all)), own);
  if (causal != Causal::None) {
    const auto places = [&](const Dim& n, Dims shape) {
      return m.reshape(m.of(m.builder().iota(DType::I64, n)), std::move(shape));
    };
    E row = places(queries[2], {queries[2], 1});
    if (causal == Causal::FromLast) row = m.apply(Op::Add, {row, m.of(m.builder().dim_value(keys[2] - queries[2]))});
    const E hidden = m.apply(Op::Greater, {places(keys[2], {1, keys[2]}), row});
    scores = where(hidden, number_like(scores, -INFINITY), scores);
  }
  const std::vector<int64_t> last = {4};
  const BuildResult largest = m.builder().reduce(Op::ReduceMax, scores.id, last);
  if (!largest) return Unexpected<NoGradient>{{"attention over no keys", node}};
  const E powers = exp(scores - m.of(m.builder().keep_dims(*largest, scores.id, last)));
  const E probabilities = powers / m.sum(powers, last, true);
  const auto ungrouped = [&](E x, const Dims& shape, bool sum) { return m.reshape(sum ? m.sum(x, {2}) : x, shape); };
  // What is not dropped counts the same share more, forward and backward.
  const auto kept = [&](E x) {
    return at.state ? kept_weights(x, all, operands[*at.probability], operands[*at.state]) : x;
  };
  const E towards = kept(m.matmul(g, transposed(v)));
  const E d = probabilities * (towards - m.sum(towards * probabilities, last, true));
  AttentionCotangents out;
  out.q = ungrouped(m.matmul(d, k) * scale, queries, false);
  out.k = ungrouped(m.matmul(transposed(d), q) * scale, keys, true);
  out.v = ungrouped(m.matmul(transposed(kept(probabilities)), g), values, true);
  out.scale = m.reshape(m.sum(d * products, {0, 1, 2, 3, 4}), m.type(factor).shape);
  if (at.mask) out.mask = m.unbroadcast(m.reshape(d, all), m.type(operands[*at.mask]).shape);
  return out;
}

/// What lies behind so many elements of an array of one axis.
E piece(E flat, const Dim& first, const Dims& shape) {
  const Type& type = flat.math->type(flat);
  GraphBuilder& b = flat.math->builder();
  return flat.math->of(b.view(flat.id, shape, c_strides(type.dtype, shape), first * Dim(size_of(type.dtype))));
}

}  // namespace

std::array<E, 3> attention_gradients(const std::vector<ValueId>& operands, Causal causal, Math& math) {
  const E flat = math.of(append_attention_gradients(math.builder(), operands, causal));
  std::array<E, 3> out;
  Dim first = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Dims shape = math.graph().type(operands[i]).shape;
    out[i] = piece(flat, first, shape);
    first = first + product(shape);
  }
  return out;
}

namespace {

/// One operator gives what is asked for, block by block, but for the scale and the mask.
BackwardResult attention_rule(const Backward& at) {
  Math& m = at.math;
  const auto causal = static_cast<Causal>(m.graph().node(at.node).index());
  const AttentionOperands places(at.op, at.inputs.size());
  std::vector<ValueId> out(at.inputs.size(), kNoValue);
  std::vector<E> operands;
  for (std::size_t i = 0; i < at.inputs.size(); ++i) operands.push_back(at.x(i));
  if (places.probability && at.needed[*places.probability])
    return Unexpected<NoGradient>{{"attention by the probability with which weights are dropped", at.node}};
  if (at.needed[3] || (places.mask && at.needed[*places.mask])) {
    auto all = attention_cotangents(operands, places, at.g, causal, at.node);
    if (!all) return Unexpected<NoGradient>{all.error()};
    const ValueId found[] = {all->q.id, all->k.id, all->v.id, all->scale.id, all->mask.id};
    for (std::size_t i = 0; i < std::min(out.size(), std::size(found)); ++i)
      if (at.needed[i]) out[i] = found[i];
    return out;
  }
  std::vector<ValueId> ids;
  for (const E& x : operands) ids.push_back(x.id);
  ids.insert(ids.begin() + 4, {at.g.id, at.y().id});
  const std::array<E, 3> found = attention_gradients(ids, causal, m);
  for (std::size_t i = 0; i < 3; ++i)
    if (at.needed[i]) out[i] = found[i].id;
  return out;
}
FRAMEJIT_RULE(Attention, attention_rule)

/// That of the cotangents as the formula has them, of which each operand is a view of its own: two may be one value.
BackwardResult attention_gradients_rule(const Backward& at) {
  Math& m = at.math;
  const auto causal = static_cast<Causal>(m.graph().node(at.node).index());
  const AttentionOperands places(at.op, at.inputs.size());
  GradientRequest request;
  std::vector<E> operands;
  for (std::size_t i = 0; i < at.inputs.size(); ++i) {
    const Type type = m.type(at.x(i));
    operands.push_back(m.of(m.builder().view(at.x(i).id, type.shape, type.strides, 0)));
    if (i != places.state) request.wrt.push_back(operands.back().id);
  }
  request.first = m.graph().body().nodes.size();
  request.library = at.library;
  auto all = attention_cotangents(operands, places, operands[*places.g], causal, at.node);
  if (!all) return Unexpected<NoGradient>{all.error()};
  Dim first = 0;
  for (const E& cotangent : {all->q, all->k, all->v}) {
    request.outputs.push_back(cotangent.id);
    request.seeds.push_back(piece(at.g, first, m.type(cotangent).shape).id);
    first = first + product(m.type(cotangent).shape);
  }
  // The result is what the operands make of it.
  auto gradients = append_gradients(m.builder(), request);
  if (!gradients) return Unexpected<NoGradient>{std::move(gradients.error())};
  std::vector<ValueId> out = std::move(gradients->values);
  if (places.state) out.insert(out.begin() + static_cast<std::ptrdiff_t>(*places.state), kNoValue);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!at.needed[i] || i == places.y) out[i] = kNoValue;
  return out;
}
FRAMEJIT_RULE(AttentionGradients, attention_gradients_rule)

BackwardResult library_call_rule(const Backward& at) {
  Math& m = at.math;
  if (!at.library.rule) return Unexpected<NoGradient>{{"a library call", at.node}};
  const std::optional<Op> same = at.library.same_as(at.node);
  // Beside complex numbers real ones are complex too.
  const DType of_result = m.graph().type(at.node).dtype;
  const auto operand = [&](std::size_t i) {
    const E x = at.x(i);
    return is_complex(of_result) && is_float(m.type(x).dtype) ? m.cast(x, of_result) : x;
  };
  if (!same)
    return at.library.rule(
        {at.node, at.g.id, at.needed, [&](std::size_t i) { return operand(i).id; }, [&] { return at.y().id; }});
  // The library promotes its operands itself.
  const DType dtype = m.type(at.g).dtype;
  const Backward promoted{
      m,         *same,     at.inputs, at.needed, at.node, at.g, [&](std::size_t i) { return m.cast(at.x(i), dtype); },
      at.result, at.library};
  BackwardResult out = gradient_row(*same).rule(promoted);
  for (std::size_t i = 0; out && i < out->size(); ++i)
    if ((*out)[i] != kNoValue) (*out)[i] = m.cast(m.of((*out)[i]), at.input_type(i).dtype).id;
  return out;
}
FRAMEJIT_RULE(LibraryCall, library_call_rule)

/// Of functions whose derivative is a library function.
BackwardResult library_function_rule(const Backward& at) {
  if (!at.library.rule) return Unexpected<NoGradient>{{"a library function", at.node}};
  return at.library.rule(
      {at.node, at.g.id, at.needed, [&](std::size_t i) { return at.x(i).id; }, [&] { return at.y().id; }});
}
FRAMEJIT_RULE(Gamma, library_function_rule)
FRAMEJIT_RULE(Gammaln, library_function_rule)

constexpr GradientRow kRows[] = {
#define FRAMEJIT_GRADIENT_ROW(name, ...) Gradient<Op::name>::row,
    FRAMEJIT_OPS(FRAMEJIT_GRADIENT_ROW)
#undef FRAMEJIT_GRADIENT_ROW
};

}  // namespace

bool knows_complex(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Subtract:
    case Op::Negative:
    case Op::Absolute:
    case Op::Conjugate:
    case Op::Sign:
    case Op::Where:
    case Op::Cast:
    case Op::Copy:
    case Op::Full:
    case Op::Compress:
    case Op::Expand:
    case Op::ReduceSum:
    case Op::ReduceMin:
    case Op::ReduceMax:
    case Op::Minimum:
    case Op::Maximum:
    case Op::Fmin:
    case Op::Fmax:
    case Op::Clip: return true;
    default: return false;
  }
}
const GradientRow& gradient_row(Op op) { return kRows[static_cast<int>(op)]; }
std::string_view why_no_gradient(Op op) { return gradient_row(op).why; }

}  // namespace framejit::graph
