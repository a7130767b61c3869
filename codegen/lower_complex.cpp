// Operators on complex numbers, made of operators on their parts: NumPy's formulas (loops.c.src, loops_arithm_fp,
// loops_unary_complex), to the bit. Where the elements of one vector take different ways, both operands of each
// operation are chosen first, so that nothing is computed, and no flag raised, that NumPy's loop would not; the
// exceptions are rare operands of division and absolute value, of which `may_redo` (lower.cpp) knows.
#include <bit>
#include <limits>

#include "codegen/lower_terms.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace detail {

namespace {

class Composer {
 public:
  Composer(TermBuilder& terms, Op op, DType operand, DType result, const std::vector<TermId>& args)
      : terms_(terms), op_(op), operand_(operand), result_(result), part_(graph::part_of(operand)), args_(args) {}

  TermId compose() {
    if (op_ == Op::Cast) return cast();
    if (op_ == Op::Where) return terms_.pair(where(args_[0], re(1), re(2)), where(args_[0], im(1), im(2)));
    switch (op_) {
      case Op::Add:
      case Op::Subtract: return terms_.pair(apply(op_, re(0), re(1)), apply(op_, im(0), im(1)));
      case Op::Negative: return terms_.pair(negative(re(0)), negative(im(0)));
      case Op::Conjugate: return terms_.pair(re(0), negative(im(0)));
      case Op::Multiply: return product(re(0), im(0), re(1), im(1));
      case Op::Square: return product(re(0), im(0), re(0), im(0));
      case Op::Divide: return quotient();
      case Op::Reciprocal: return reciprocal();
      case Op::Absolute: return absolute();
      case Op::Equal: return both(test(op_, re(0), re(1)), test(op_, im(0), im(1)));
      case Op::NotEqual: return either(test(op_, re(0), re(1)), test(op_, im(0), im(1)));
      case Op::Minimum:
      case Op::Maximum: return first_where(is_nan(0), op_ == Op::Minimum);
      case Op::Fmin:
      case Op::Fmax: return first_where(is_nan(1), op_ == Op::Fmin);
      case Op::IsNan:
      case Op::IsInf: return either(predicate(op_, re(0)), predicate(op_, im(0)));
      case Op::IsFinite: return both(predicate(op_, re(0)), predicate(op_, im(0)));
      case Op::LogicalNot: return logical(Op::LogicalNot, truth(0));
      case Op::LogicalAnd:
      case Op::LogicalOr:
      case Op::LogicalXor: return logical(op_, truth(0), truth(1));
      default: FRAMEJIT_CHECK(false, "no parts of " + std::string(graph::name_of(op_)));
    }
  }

 private:
  TermId re(std::size_t i) { return terms_.part(args_[i], 0); }
  TermId im(std::size_t i) { return terms_.part(args_[i], 1); }
  TermId number(double value) {
    const uint64_t bits =
        part_ == DType::F32 ? std::bit_cast<uint32_t>(static_cast<float>(value)) : std::bit_cast<uint64_t>(value);
    return terms_.constant(part_, {bits, 0});
  }

  TermId apply(Op op, TermId a) { return terms_.apply(op, part_, part_, {a}); }
  TermId apply(Op op, TermId a, TermId b) { return terms_.apply(op, part_, part_, {a, b}); }
  TermId add(TermId a, TermId b) { return apply(Op::Add, a, b); }
  TermId subtract(TermId a, TermId b) { return apply(Op::Subtract, a, b); }
  TermId multiply(TermId a, TermId b) { return apply(Op::Multiply, a, b); }
  TermId divide(TermId a, TermId b) { return apply(Op::Divide, a, b); }
  TermId negative(TermId a) { return apply(Op::Negative, a); }
  TermId fused(TermId a, TermId b, TermId c) { return terms_.apply(Op::MultiplyAdd, part_, part_, {a, b, c}); }
  TermId where(TermId condition, TermId a, TermId b) {
    return terms_.apply(Op::Where, part_, part_, {condition, a, b});
  }

  TermId predicate(Op op, TermId a) { return terms_.apply(op, part_, DType::Bool, {a}); }
  TermId test(Op op, TermId a, TermId b) { return terms_.apply(op, part_, DType::Bool, {a, b}); }
  TermId logical(Op op, TermId a) { return terms_.apply(op, DType::Bool, DType::Bool, {a}); }
  TermId logical(Op op, TermId a, TermId b) { return terms_.apply(op, DType::Bool, DType::Bool, {a, b}); }
  TermId either(TermId a, TermId b) { return logical(Op::LogicalOr, a, b); }
  TermId both(TermId a, TermId b) { return logical(Op::LogicalAnd, a, b); }
  TermId is_nan(std::size_t i) { return either(predicate(Op::IsNan, re(i)), predicate(Op::IsNan, im(i))); }
  TermId truth(std::size_t i) {
    return either(test(Op::NotEqual, re(i), number(0)), test(Op::NotEqual, im(i), number(0)));
  }

  TermId cast() {
    const DType to = graph::part_of(result_);
    if (!graph::is_complex(operand_)) {
      const TermId real = operand_ == to ? args_[0] : terms_.apply(Op::Cast, operand_, to, {args_[0]});
      return terms_.pair(real, terms_.constant(to, {}));
    }
    if (result_ == DType::Bool) return truth(0);
    return terms_.pair(terms_.apply(Op::Cast, part_, to, {re(0)}), terms_.apply(Op::Cast, part_, to, {im(0)}));
  }

  TermId product(TermId ar, TermId ai, TermId br, TermId bi) {
    if (terms_.forms(operand_).product == ComplexForms::Fused)
      return terms_.pair(fused(ar, br, negative(multiply(ai, bi))), fused(ar, bi, multiply(ai, br)));
    return terms_.pair(subtract(multiply(ar, br), multiply(ai, bi)), add(multiply(ar, bi), multiply(ai, br)));
  }

  /// Smith's, with the products of a reciprocal; by 0 each part is divided by |0|.
  TermId quotient() {
    const TermId wide = test(Op::GreaterEqual, apply(Op::Absolute, re(1)), apply(Op::Absolute, im(1)));
    const TermId larger = where(wide, re(1), im(1)), smaller = where(wide, im(1), re(1));
    const TermId p = where(wide, re(0), im(0)), q = where(wide, im(0), re(0));
    const TermId zero = number(0), by_zero = both(wide, test(Op::Equal, larger, zero));
    const TermId ratio = ratio_of(smaller, where(by_zero, number(1), larger), is_nan(1));
    const TermId scale = divide(number(1), where(by_zero, zero, add(larger, multiply(smaller, ratio))));
    const TermId to_p = where(by_zero, zero, multiply(q, ratio)), to_q = where(by_zero, zero, multiply(p, ratio));
    return terms_.pair(multiply(add(p, to_p), scale),
                       multiply(subtract(where(wide, q, to_q), where(wide, to_q, q)), scale));
  }

  /// NumPy compares the parts of a divisor by instructions that raise invalid for a NaN, as 0 / 0 does.
  TermId ratio_of(TermId smaller, TermId larger, TermId nan) {
    const TermId zero = number(0);
    return divide(where(nan, zero, smaller), where(nan, zero, larger));
  }

  TermId reciprocal() {
    const TermId wide = test(Op::LessEqual, apply(Op::Absolute, im(0)), apply(Op::Absolute, re(0)));
    const TermId larger = where(wide, re(0), im(0)), smaller = where(wide, im(0), re(0));
    const TermId ratio = ratio_of(smaller, larger, is_nan(0)), one = number(1);
    const TermId by = add(larger, multiply(smaller, ratio));
    return terms_.pair(divide(where(wide, one, ratio), by), divide(negative(where(wide, ratio, one)), by));
  }

  /// An infinite part: infinity, whatever the other one; else a NaN goes through maximum and minimum.
  TermId absolute() {
    const TermId real = apply(Op::Absolute, re(0)), imaginary = apply(Op::Absolute, im(0));
    const TermId infinite = either(predicate(Op::IsInf, real), predicate(Op::IsInf, imaginary)), zero = number(0),
                 one = number(1);
    const TermId larger = apply(Op::Maximum, real, imaginary), smaller = apply(Op::Minimum, real, imaginary);
    const TermId ratio = divide(where(infinite, zero, smaller), where(test(Op::Equal, larger, zero), one, larger));
    const TermId size = multiply(apply(Op::Sqrt, fused(ratio, ratio, one)), larger);
    return where(infinite, number(std::numeric_limits<double>::infinity()), size);
  }

  /// The first operand where `nan` holds, or it is the smaller (or the larger) one or equal: by the real parts where no
  /// imaginary one is NaN, and where they are equal by the imaginary ones.
  TermId first_where(TermId nan, bool minimum) {
    const TermId numbers = logical(Op::LogicalNot, either(predicate(Op::IsNan, im(0)), predicate(Op::IsNan, im(1))));
    const TermId by_real = both(test(minimum ? Op::Less : Op::Greater, re(0), re(1)), numbers);
    const TermId by_imaginary = test(minimum ? Op::LessEqual : Op::GreaterEqual, im(0), im(1));
    const TermId first = either(nan, either(by_real, both(test(Op::Equal, re(0), re(1)), by_imaginary)));
    return terms_.pair(where(first, re(0), re(1)), where(first, im(0), im(1)));
  }

  TermBuilder& terms_;
  const Op op_;
  const DType operand_, result_, part_;
  const std::vector<TermId>& args_;
};

}  // namespace

TermId compose(TermBuilder& terms, Op op, DType operand, DType result, const std::vector<TermId>& args) {
  return Composer(terms, op, operand, result, args).compose();
}

}  // namespace detail

bool is_composed(graph::Op op, graph::DType operand, graph::DType result, const ComplexForms& forms) {
  using graph::DType, graph::Op;
  if (op == Op::Cast) return graph::is_complex(result) || (graph::is_complex(operand) && result == DType::Bool);
  if (!graph::is_complex(operand) || !has(graph::def(op).own, graph::Own::Complex)) return false;
  if (op == Op::Multiply || op == Op::Square) return forms.product != ComplexForms::Unknown;
  return op != Op::Absolute || forms.scaled_absolute;
}

}  // namespace framejit::codegen
