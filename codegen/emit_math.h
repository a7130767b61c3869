// Own vector math of O1, on one vector of float32 or float64, by families of functions over MathTools. Private to the
// emitter.
#pragma once

#include <cmath>
#include <span>

#include "codegen/emit_ops.h"
#include "codegen/math_tables.inc"

namespace framejit::codegen {

/// What all functions are made of: constants, polynomials, rare lanes, and sums whose rounding errors are kept.
class MathTools {
 public:
  using Op = graph::Op;

  /// `brief`: float64 that is rounded to float32 at the end.
  MathTools(Vasm& vasm, int element_size, bool is_brief = false)
      : v(vasm), cc(vasm.cc), size(element_size), f32(element_size == 4), brief(is_brief) {}

 protected:
  /// May be shared: never to be changed in place.
  Vec num(double value) { return v.constant(size, float_bits(size, value)); }
  /// An operand that may lie in memory: the second of a sum or product, the second or the third of a multiply-add.
  asmjit::Operand con(double value) { return v.constant_operand(size, float_bits(size, value)); }
  Mem mem(double value) { return v.const_mem(size, float_bits(size, value)); }
  std::span<const double> table(std::span<const double> single, std::span<const double> twice) const {
    return f32 || brief ? single : twice;
  }
  /// Coefficients lowest first, in z.
  Vec polynomial(const Vec& z, std::span<const double> c);
  Vec horner(const Vec& z, std::span<const double> c, std::size_t first, std::size_t step);
  Mask not_finite(const Vec& x);
  /// Of numbers without a sign, and NaN. On AVX2 there is "greater" only.
  Mask at_least(const Vec& x, double limit) {
    return v.igreater(size, x, v.constant_operand(size, float_bits(size, limit) - 1));
  }
  /// Not low <= |x| < high; NaN and 0 are outside.
  Mask beyond(const Vec& x, double low, double high);
  Mask outside(const Vec& x, double low, double high);
  Mask tiny(const Vec& x);
  /// Where any lane is rare, those lanes of `result` become what `slow` computes. It stands beside the common way.
  template <class F>
  void rarely(const Mask& rare, const Vec& result, F&& slow) {
    const Label done = cc.newLabel();
    v.branch(rare, false, done);
    const Vasm::NoSharing none(v);
    const Vec computed = slow();
    cc.vmovups(result, v.select(size, rare, computed, result));
    cc.bind(done);
  }
  Mask smaller(const Vec& magnitude, double limit) { return v.fcmp(size, Cmp::Lt, magnitude, num(limit)); }
  Mask infinite(const Vec& magnitude) { return v.icmp(size, true, Cmp::Eq, magnitude, num(HUGE_VAL)); }
  Mask is_nan(const Vec& magnitude) { return v.icmp(size, true, Cmp::Gt, magnitude, num(HUGE_VAL)); }
  Mask has_sign(const Vec& x) { return v.icmp(size, true, Cmp::Lt, x, v.zero(size)); }
  Vec sign_of(const Vec& x) { return v.and_const(size, x, Vasm::sign_bit(size)); }
  void raise_invalid_where(const Mask& any);
  Vec power_of_two(const Vec& shifted);
  /// A number in two parts: the rounded one, and about what rounding lost.
  struct DoubleDouble {
    Vec high, low;
  };
  /// a + b, where |a| >= |b| or a is 0.
  DoubleDouble fast_sum(const Vec& a, const Vec& b) {
    const Vec sum = v.fadd(size, a, b);
    return {sum, v.fadd(size, v.fsub(size, a, sum), b)};
  }
  DoubleDouble sum(const Vec& a, const Vec& b) {
    const Vec total = v.fadd(size, a, b), of_b = v.fsub(size, total, a);
    return {total, v.fadd(size, v.fsub(size, a, v.fsub(size, total, of_b)), v.fsub(size, b, of_b))};
  }
  DoubleDouble quotient(const DoubleDouble& a, const DoubleDouble& b);
  Vec joined(const DoubleDouble& a) { return v.fadd(size, a.high, a.low); }

  static constexpr int kFraction(bool single) { return single ? 23 : 52; }
  /// 1.5 * 2^fraction: adding it leaves a small integer in the low bits.
  double magic() const { return f32 ? 12582912.0 : 6755399441055744.0; }

  Vasm& v;
  asmjit::x86::Compiler& cc;
  const int size;
  const bool f32, brief;
};

/// Exponentials, logarithms and what is made of them, in one number (emit_math.cpp).
class ExpLogMath : protected MathTools {
 public:
  explicit ExpLogMath(const MathTools& tools) : MathTools(tools) {}

  Vec exp(const Vec& x);
  Vec exp2(const Vec& x);
  Vec expm1(const Vec& x);
  Vec log(Op op, const Vec& x);
  Vec log1p(const Vec& x);
  Vec sinh(const Vec& x);
  Vec cosh(const Vec& x);
  Vec tanh(const Vec& x);
  Vec erf(const Vec& x);

 protected:
  /// exp(high + low) = 2^n (1 + r + r^2 series), of finite arguments.
  struct Split {
    Vec shifted, n, r, series;
    Vec lost;  // of r, where `whole`
  };
  Split split(const Vec& high, const Vec* low, bool whole = false);
  /// exp(high + low), of finite arguments; `normal`: the result is a normal number.
  Vec exp_of(const Vec& high, const Vec* low, bool normal);
  Vec half_exp(const Vec& magnitude);
  template <class F>
  Vec exponential(const Vec& x, double limit, double low, double high, F&& f);
  Vec scaled(const Vec& value, const Split& e, bool normal);
  DoubleDouble less_one(const Vec& x);
  struct Parts {
    Vec k, f;
  };
  Parts parts(const Vec& x);
  Vec log_near_one(const Vec& f, const Vec* more);
  DoubleDouble log_in_parts(const Vec& f);
  Vec log_of(Op op, const Parts& x);
  Vec log1p_of(const Vec& x);
  Mask log_pole(const Vec& x, double pole);
  Vec at_pole(const Vec& x, double pole);
};

/// Sines, arcs and lengths (emit_math_angles.cpp).
class AngleMath : protected MathTools {
 public:
  explicit AngleMath(const MathTools& tools) : MathTools(tools) {}

  Vec sine(Op op, const Vec& x);
  Vec arcsin(const Vec& x, bool cosine);
  Vec arctan(const Vec& x);
  /// On float64.
  Vec arctan2(const Vec& y, const Vec& x);
  Vec hypot(const Vec& x, const Vec& y);

 private:
  struct Reduced {
    Vec r, low, quadrant;  // quadrant: integers, the low two bits count
  };
  Reduced reduce(const Vec& x);
  void reduce_large(const Reduced& out, const Vec& x, const Mask& large);
  void reduce_lane(const Gp& lane);
  Vec by_quadrant(Op op, const Vec& quadrants, const Vec& sine_value, const Vec& cosine_value);
  Vec sine_of(const Reduced& reduced, const Vec& sized, Op op);
  Vec short_sine(const Vec& x, Op op);
  Vec any_sine(const Vec& argument, Op op);
  Vec angle(const Vec& y, const Vec& x, const Mask& left);
};

/// Functions that need a number in two parts, on float64; the last two on both (emit_math_two.cpp).
class DoubleDoubleMath : protected ExpLogMath {
 public:
  explicit DoubleDoubleMath(const MathTools& tools) : ExpLogMath(tools) {}

  Vec power(const Vec& x, const Vec& y);
  Vec logaddexp(const Vec& x, const Vec& y, bool base2);
  Vec arcsinh(const Vec& x);
  Vec arccosh(const Vec& x);
  Vec arctanh(const Vec& x);
  Vec cbrt(const Vec& x);
  Vec heaviside(const Vec& x, const Vec& at_zero);
  Vec nextafter(const Vec& x, const Vec& y);

 protected:
  DoubleDouble times(const DoubleDouble& a, const Vec& b);
  DoubleDouble times(const DoubleDouble& a, double high, double low);
  DoubleDouble log_two(const Vec& k, const DoubleDouble& f);
  DoubleDouble log_of_normal(const Vec& x);
  DoubleDouble log_of_sum(const DoubleDouble& x);
  Vec log_with_root(const Vec& a, const DoubleDouble& square);
  Vec log_of_twice(const Vec& x);
  DoubleDouble exp_near_zero(const DoubleDouble& x);
  Split split_two(const DoubleDouble& x, DoubleDouble& reduced);
  Vec exp_of_two(const DoubleDouble& x, bool normal);
  Vec power_slowly(const Vec& x, const Vec& y, const Vec& given);
  Vec signed_power(const Vec& x, const Vec& y, const Vec& magnitude);
};

/// Functions of scipy.special, on float64; the last two on both, xlogy with `plus_one` on float64
/// (emit_math_special.cpp).
class SpecialMath : protected DoubleDoubleMath {
 public:
  explicit SpecialMath(const MathTools& tools) : DoubleDoubleMath(tools) {}

  Vec gamma(const Vec& x);
  Vec gammaln(const Vec& x);
  Vec erfc(const Vec& x);
  Vec ndtr(const Vec& x);
  Vec logit(const Vec& x);
  Vec expit(const Vec& x);
  Vec xlogy(const Vec& x, const Vec& y, bool plus_one);

 private:
  Vec ratio(const Vec& z, std::span<const double> over, std::span<const double> under);
  DoubleDouble short_log(const Vec& x);
  struct SineOfPi {
    DoubleDouble value;
    Mask integer, even;  // q; what is below q
  };
  SineOfPi sine_of_pi(const Vec& q);
  Vec gamma_above(const Vec& x);
  DoubleDouble log_gamma_above(const Vec& x);
  Vec bounded(const Vec& x, double bound);
  Vec normal_tail(const Vec& x, const Vec& a, const Vec& b);
};

}  // namespace framejit::codegen
