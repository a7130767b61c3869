// Vector math of O1: functions of scipy.special. Those raise no flags; these none but underflow.
//
// What the gamma function and its logarithm are below 0 comes from what they are above, by Gamma(-q) = -pi / (q sin(pi
// q) Gamma(q)).
#include "codegen/emit_math.h"

namespace framejit::codegen {

/// over(z) / under(z). In powers of z^2, whose rounding is the same above and below where z is large.
Vec SpecialMath::ratio(const Vec& z, std::span<const double> over, std::span<const double> under) {
  const Vec square = v.fmul(size, z, z);
  const auto at = [&](std::span<const double> c) {
    return v.fma(size, horner(square, c, 1, 2), z, horner(square, c, 0, 2));
  };
  return v.fdiv(size, at(over), at(under));
}

/// log(x) of a normal number, in float64 wrong by about 1/8 of a unit.
MathTools::DoubleDouble SpecialMath::short_log(const Vec& x) {
  const Parts of = parts(x);
  if (brief) return log_two(of.k, {of.f, v.zero(size)});
  const DoubleDouble near_one = log_in_parts(of.f), all = fast_sum(v.fmul(size, of.k, con(kLn2F64[0])), near_one.high);
  return {all.high, v.fma(size, of.k, con(kLn2F64[1]), v.fadd(size, all.low, near_one.low))};
}

/// q |sin(pi q)| / pi, at integers anything.
SpecialMath::SineOfPi SpecialMath::sine_of_pi(const Vec& q) {
  const Vec zero = v.zero(size), below = v.fround(size, q, Vasm::kFloor), half = v.fmul(size, below, mem(0.5));
  const Vec distance = v.fabs(size, v.fsub(size, q, v.fround(size, q, Vasm::kNearest))),
            z = v.fmul(size, distance, distance);
  const Mask integer = v.fcmp(size, Cmp::Eq, distance, zero),
             even = v.fcmp(size, Cmp::Eq, v.fround(size, half, Vasm::kTrunc), half);
  const DoubleDouble ratio = fast_sum(num(1.0), v.fmul(size, z, horner(z, kSinPiF64, 0, 1))),
                     product = times({q, zero}, v.select(size, integer, num(1.0), distance));
  DoubleDouble whole = times(ratio, product.high);
  whole.low = v.fma(size, ratio.high, product.low, whole.low);
  return {whole, integer, even};
}

/// The gamma function from 2^-60 to where it overflows.
Vec SpecialMath::gamma_above(const Vec& x) {
  const Vec half_less = v.fsub(size, x, con(0.5)), minus_one = num(-1.0);
  Split e;
  DoubleDouble power;
  if (brief) {
    const Vec logarithm = joined(log_of_normal(v.fadd(size, x, con(3.0))));
    e = split(v.fmul(size, v.fadd(size, logarithm, minus_one), half_less), nullptr);
    power = {v.fma(size, e.r, v.fma(size, e.r, e.series, con(1.0)), con(1.0)), v.zero(size)};
  } else {
    const DoubleDouble logarithm = log_of_sum(sum(x, num(5.5)));
    DoubleDouble less = fast_sum(logarithm.high, minus_one), reduced;
    less.low = v.fadd(size, less.low, logarithm.low);
    e = split_two(times(less, half_less), reduced);
    power = exp_near_zero(reduced);
  }
  // The ratio is 256 times too large, as the power alone would overflow.
  e.n = v.fsub(size, e.n, con(8.0));
  e.shifted = v.fsub(size, e.shifted, con(8.0));
  const Vec factor = ratio(x, table(kGammaOverF32, kGammaOverF64), table(kGammaUnderF32, kGammaUnderF64));
  return scaled(brief ? v.fmul(size, power.high, factor) : joined(times(power, factor)), e, true);
}

Vec SpecialMath::gamma(const Vec& x) {
  const double least = 0x1p-60, most = 171.62437695630272, end = brief ? 35.04009841152643 : most;
  const Vec magnitude = v.fabs(size, x), one = num(1.0);
  const Mask odd = beyond(magnitude, least, std::nextafter(most, HUGE_VAL));
  const Vec result = gamma_above(v.select(size, odd, one, magnitude));
  rarely(beyond(x, least, std::nextafter(end, HUGE_VAL)), result, [&] {
    const Vec zero = v.zero(size), infinity = num(HUGE_VAL);
    const Mask near_zero = smaller(magnitude, least),
               full = v.fcmp(size, Cmp::Le, magnitude, num(brief ? 0x1p-128 : 0x1p-1024));
    const Vec inverse =
        v.select(size, full, infinity,
                 v.fdiv(size, one, v.select(size, v.mask_and(near_zero, v.mask_not(full)), magnitude, one)));
    const Vec above = v.select(size, near_zero, inverse,
                               v.select(size, v.fcmp(size, Cmp::Gt, magnitude, num(end)), infinity, result));
    const Mask ordinary = v.mask_not(v.mask_or(near_zero, not_finite(x)));
    const Vec q = v.select(size, ordinary, magnitude, num(0.5));
    const SineOfPi sine = sine_of_pi(q);
    const DoubleDouble inverted = quotient({v.select(size, sine.even, num(-1.0), one), zero}, sine.value);
    const Vec below = v.fdiv(size, joined(inverted), v.select(size, odd, infinity, result));
    const Mask none = v.mask_or(sine.integer, v.mask_not(ordinary));
    const Vec of_negative = v.select(size, near_zero, v.fneg(size, inverse),
                                     v.select(size, none, v.splat(size, 0x7ff8000000000000u), below));
    return v.select(size, is_nan(magnitude), x, v.select(size, has_sign(x), of_negative, above));
  });
  return result;
}

/// log(Gamma(x)) of a normal number, up to where it overflows. The parts may overlap.
MathTools::DoubleDouble SpecialMath::log_gamma_above(const Vec& x) {
  const DoubleDouble logarithm = short_log(x);
  const Mask small = smaller(x, 0.75), large = v.fcmp(size, Cmp::Ge, x, num(3.0));
  // From 3 on Stirling's formula.
  DoubleDouble less = fast_sum(logarithm.high, num(-1.0));
  less.low = v.fadd(size, less.low, logarithm.low);
  const DoubleDouble product = times(less, v.fsub(size, x, con(0.5))), most = sum(product.high, num(kStirlingF64[0]));
  const Vec sized = v.fmax_x86(size, v.fmin_x86(size, x, con(0x1p30)), con(3.0));
  const Vec square = v.fmul(size, sized, sized);
  const Vec rest = v.fdiv(size, horner(square, table(kStirlingOverF32, kStirlingOverF64), 0, 1),
                          v.fmul(size, sized, horner(square, table(kStirlingUnderF32, kStirlingUnderF64), 0, 1)));
  const Vec low = v.fadd(size, v.fadd(size, most.low, rest), v.fadd(size, product.low, con(kStirlingF64[1])));
  // Below, its zeros are factors; below 3/4 it is log(Gamma(x + 1)) - log(x).
  const Vec near = v.fmin_x86(size, x, con(3.0)), less_one = v.fsub(size, near, con(1.0));
  const Vec t = v.fsub(size, v.fsqrt(size, v.select(size, small, v.fadd(size, x, con(1.0)), near)), con(1.3));
  const Vec zeros = v.fmul(size, less_one, v.select(size, small, x, v.fsub(size, near, con(2.0))));
  const Vec value = v.fmul(size, zeros, polynomial(t, table(kLogGammaF32, kLogGammaF64)));
  return {v.select(size, large, most.high, v.keep(size, small, v.fneg(size, logarithm.high))),
          v.select(size, large, low, v.fsub(size, value, v.keep(size, small, logarithm.low)))};
}

Vec SpecialMath::gammaln(const Vec& x) {
  const Vec magnitude = v.fabs(size, x), one = num(1.0);
  const Mask odd = beyond(magnitude, 0x1p-1022, std::nextafter(brief ? 4.085003365866873e36 : 2.556348e305, HUGE_VAL));
  const DoubleDouble parts_above = log_gamma_above(v.select(size, odd, one, magnitude));
  const Vec result = joined(parts_above);
  rarely(v.mask_or(odd, has_sign(x)), result, [&] {
    const Vec infinity = num(HUGE_VAL);
    const Mask subnormal = v.mask_and(smaller(magnitude, 0x1p-1022), v.fcmp(size, Cmp::Gt, magnitude, num(0x1p-1024)));
    const Vec of_subnormal = joined(log_of_normal(v.fdiv(size, one, v.select(size, subnormal, magnitude, one))));
    const Vec above = v.select(size, subnormal, of_subnormal, v.select(size, odd, infinity, result));
    const Mask kept = v.mask_or(odd, smaller(magnitude, 0x1p-60));
    // Between its zeros below 0 what counts is the absolute error: nothing is brief there.
    SpecialMath whole{MathTools(v, size)};
    const Vec q = v.select(size, kept, num(0.5), magnitude);
    const SineOfPi sine = whole.sine_of_pi(q);
    const DoubleDouble of_q = brief ? whole.log_gamma_above(v.select(size, sine.integer, one, q)) : parts_above;
    const DoubleDouble of_sine = whole.log_of_sum(sine.value), total = sum(of_q.high, of_sine.high);
    const Vec below =
        v.fneg(size, v.fadd(size, total.high, v.fadd(size, total.low, v.fadd(size, of_q.low, of_sine.low))));
    const Vec of_negative =
        v.select(size, not_finite(x), x, v.select(size, kept, above, v.select(size, sine.integer, infinity, below)));
    return v.select(size, is_nan(magnitude), x, v.select(size, has_sign(x), of_negative, above));
  });
  return result;
}

/// 1 / (1 + exp(-x)) = exp(x) / (1 + exp(x))
Vec SpecialMath::expit(const Vec& x) {
  const Vec magnitude = v.fabs(size, x), one = num(1.0);
  const Mask rare = at_least(magnitude, f32 ? 87.0 : 708.0), negative = has_sign(x);
  const Vec e = exp_of(v.fneg(size, v.drop(size, rare, magnitude)), nullptr, true);
  const Vec result = v.fdiv(size, v.select(size, negative, e, one), v.fadd(size, e, one));
  rarely(rare, result, [&] {
    const Mask nan = is_nan(magnitude);
    const Vec counted = v.drop(size, nan, v.keep(size, negative, magnitude));
    const Vec bounded = v.fneg(size, v.fmin_x86(size, counted, con(f32 ? 120.0 : 780.0)));
    return v.select(size, nan, x, v.select(size, negative, exp_of(bounded, nullptr, false), one));
  });
  return result;
}

/// |x|, but no more than `bound`. NaN stays.
Vec SpecialMath::bounded(const Vec& x, double bound) {
  const uint64_t first = float_bits(size, bound), span = float_bits(size, HUGE_VAL) - first,
                 sign = Vasm::sign_bit(size);
  const Vec magnitude = v.fabs(size, x), distance = v.isub(size, magnitude, v.constant_operand(size, first ^ sign));
  return v.select(size, v.igreater(size, distance, v.constant_operand(size, span ^ sign)), magnitude, num(bound));
}

/// The part of the normal distribution beyond x: exp(a b) times a ratio, where a b = -x^2 / 2. In float64 from 0.7 on.
Vec SpecialMath::normal_tail(const Vec& x, const Vec& a, const Vec& b) {
  const Vec product = v.fmul(size, a, b), lost = brief ? Vec() : v.fms(size, a, b, product);
  const Vec exponential = exp_of(product, brief ? nullptr : &lost, brief);
  return v.fmul(size, exponential,
                ratio(x, table(kNormalOverF32, kNormalOverF64), table(kNormalUnderF32, kNormalUnderF64)));
}

/// Twice the normal distribution beyond sqrt(2) |x|; below 0 two less that. In float64 one less erf(x) up to 1/2.
Vec SpecialMath::erfc(const Vec& x) {
  const Vec y = bounded(x, brief ? 10.5 : 27.5), tail = normal_tail(v.fmul(size, y, con(M_SQRT2)), v.fneg(size, y), y);
  const Vec far = v.fadd(size, tail, tail), result = v.select(size, has_sign(x), v.fsub(size, num(2.0), far), far);
  if (brief) return result;
  const Mask small = smaller(y, 0.5);
  const Vec near = v.keep(size, small, x),
            value = v.fma(size, polynomial(v.fmul(size, near, near), kErfNearF64), near, near);
  return v.select(size, small, v.fsub(size, num(1.0), value), result);
}

/// The distribution function of the normal distribution. In float64 (1 + erf(x / sqrt(2))) / 2 up to sqrt(1/2).
Vec SpecialMath::ndtr(const Vec& x) {
  const Vec y = bounded(x, brief ? 15.0 : 39.0), far = normal_tail(y, v.fmul(size, y, con(-0.5)), y);
  const Vec result = v.select(size, has_sign(x), far, v.fsub(size, num(1.0), far));
  if (brief) return result;
  const Mask small = smaller(y, M_SQRT1_2);
  const Vec near = v.keep(size, small, x), square = v.fmul(size, v.fmul(size, near, near), con(0.5));
  const Vec half = num(M_SQRT1_2 / 2), slope = v.fma(size, polynomial(square, kErfNearF64), half, half);
  return v.select(size, small, v.fma(size, near, slope, con(0.5)), result);
}

/// log(x / (1 - x))
Vec SpecialMath::logit(const Vec& x) {
  const Vec zero = v.zero(size), one = num(1.0);
  const Mask rare = beyond(x, 0x1p-1022, 1.0);
  const Vec a = v.select(size, rare, num(0.5), x);
  const DoubleDouble rest = fast_sum(one, v.fneg(size, a));
  const Vec result = joined(brief ? log_of_normal(v.fdiv(size, a, rest.high)) : log_of_sum(quotient({a, zero}, rest)));
  rarely(rare, result, [&] {
    const Mask inside = v.mask_and(v.fcmp(size, Cmp::Gt, x, zero), v.fcmp(size, Cmp::Lt, x, one));
    Parts of = parts(v.fmul(size, v.select(size, inside, x, one), mem(0x1p54)));
    of.k = v.fsub(size, of.k, con(54.0));
    const Vec value = v.select(size, inside, joined(log_two(of.k, {of.f, zero})),
                               v.select(size, is_nan(v.fabs(size, x)), x, v.splat(size, 0x7ff8000000000000u)));
    const Mask at_zero = v.fcmp(size, Cmp::Eq, x, zero), at_one = v.fcmp(size, Cmp::Eq, x, one);
    return v.select(size, at_zero, num(-HUGE_VAL), v.select(size, at_one, num(HUGE_VAL), value));
  });
  return result;
}

/// x log(y), or with `plus_one` x log(1 + y); 0 where x is 0 and y a number.
Vec SpecialMath::xlogy(const Vec& x, const Vec& y, bool plus_one) {
  const Vec zero = v.zero(size), one = num(1.0), size_of_x = v.fabs(size, x);
  const double least = f32 ? 0x1p-126 : 0x1p-1022;
  const Mask odd = plus_one ? v.mask_or(outside(y, 0x1p-60, HUGE_VAL), v.icmp(size, false, Cmp::Ge, y, num(-1.0)))
                            : beyond(y, least, HUGE_VAL);
  const Mask huge = at_least(size_of_x, f32 || brief ? 0x1p110 : 0x1p1000), rare = v.mask_or(odd, huge),
             none = v.fcmp(size, Cmp::Eq, x, zero);
  const Vec ordinary = v.select(size, odd, one, y);
  const Vec logarithm = plus_one ? log1p_of(ordinary) : log_of(Op::Log, parts(ordinary));
  const Vec result = v.drop(size, none, v.fmul(size, v.drop(size, rare, x), logarithm));
  rarely(rare, result, [&] {
    const Vec pole = num(plus_one ? -1.0 : 0.0), infinity = num(HUGE_VAL),
              nan = v.or_const(size, infinity, f32 ? 0x400000u : 0x8000000000000u);
    Vec other = y;  // tiny numbers and what is not finite
    if (!plus_one) {
      const Vec size_of_y = v.fabs(size, y);
      Parts of = parts(v.fmul(size, v.select(size, smaller(size_of_y, least), size_of_y, one), mem(0x1p54)));
      of.k = v.fsub(size, of.k, con(54.0));
      other = v.select(size, not_finite(y), y, log_of(Op::Log, of));
    }
    const Vec below = v.select(size, v.fcmp(size, Cmp::Lt, y, pole), nan, other);
    const Vec factor =
        v.select(size, odd, v.select(size, v.fcmp(size, Cmp::Eq, y, pole), v.fneg(size, infinity), below), logarithm);
    const Mask nothing = v.mask_and(none, v.mask_not(is_nan(v.fabs(size, y))));
    const Mask undefined = v.mask_and(infinite(size_of_x), v.fcmp(size, Cmp::Eq, factor, zero));
    // Products that overflow do so without a flag.
    const double step = brief ? 1 : f32 ? 0x1p16 : 0x1p64, most = brief ? 0x1.ffffffp127 : f32 ? 0x1p112 : 0x1p960;
    const Vec sized =
        v.fmul(size, v.select(size, v.mask_or(nothing, undefined), one, x), v.select(size, huge, num(1 / step), one));
    const Vec product = v.fmul(size, sized, factor);
    const Mask full = v.mask_and(huge, v.fcmp(size, Cmp::Ge, v.fabs(size, product), num(most)));
    const Vec value = v.fmul(size, v.drop(size, full, product), v.select(size, huge, num(step), one));
    const Vec whole = v.select(size, full, v.bit_or(size, infinity, sign_of(product)), value);
    return v.select(size, nothing, zero, v.select(size, undefined, nan, whole));
  });
  return result;
}

}  // namespace framejit::codegen
