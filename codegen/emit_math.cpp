// Own vector math of O1, on float32 and float64. The bounds in ulp stand in the rows of graph/op.h.
//
// Each function has a common way without special cases, and beside it, behind a branch that is hardly ever taken, what
// is rare: NaN, infinities, numbers out of range or so small that their squares could underflow. Rare lanes take the
// common way with a harmless number.
//
// Flags as NumPy's: overflow and underflow of exp by the scaling multiplications, divide of log(0), invalid of log(-1)
// and sin(inf). Underflow may be raised too often, never too seldom: errstate ignores it, or NumPy's own loop has the
// last word.
#include "codegen/emit_math.h"
#include "graph/support/check.h"

namespace framejit::codegen {

using graph::Op;
using graph::Own;

Vec MathTools::horner(const Vec& z, std::span<const double> c, std::size_t first, std::size_t step) {
  std::size_t last = first;
  while (last + step < c.size()) last += step;
  const Vec r = v.copy(size, num(c[last]));
  for (std::size_t i = last; i > first; i -= step)
    cc.emit(f32 ? I::kIdVfmadd213ps : I::kIdVfmadd213pd, r, z, mem(c[i - step]));
  return r;
}

Vec MathTools::polynomial(const Vec& z, std::span<const double> c) {
  if (c.size() < 8) return horner(z, c, 0, 1);
  // Even and odd powers in two chains, for latency.
  const Vec zz = v.fmul(size, z, z);
  return v.fma(size, horner(zz, c, 1, 2), z, horner(zz, c, 0, 2));
}

Mask MathTools::not_finite(const Vec& x) { return at_least(v.fabs(size, x), HUGE_VAL); }

/// Not low <= x < high. Signed comparisons are one instruction everywhere.
Mask MathTools::beyond(const Vec& x, double low, double high) {
  const uint64_t first = float_bits(size, low), span = float_bits(size, high) - first, sign = Vasm::sign_bit(size);
  return v.igreater(size, v.isub(size, x, v.constant_operand(size, first ^ sign)),
                    v.constant_operand(size, (span - 1) ^ sign));
}

Mask MathTools::outside(const Vec& x, double low, double high) { return beyond(v.fabs(size, x), low, high); }

/// |x| < 1/2^60. Raises underflow where x^2 does, since some of NumPy's loops do; where errstate minds, NumPy then
/// decides.
Mask MathTools::tiny(const Vec& x) {
  const Mask out = v.icmp(size, true, Cmp::Lt, v.fabs(size, x), num(0x1p-60));
  const Vec number = v.keep(size, out, brief ? num(0x1p-1022) : x);
  v.fmul(size, number, number);
  return out;
}

/// 2^n with a normal result, for an integer n that `magic` was added to.
Vec MathTools::power_of_two(const Vec& shifted) { return v.iadd(size, v.shl(size, shifted, kFraction(f32)), con(1.0)); }

/// a / b
MathTools::DoubleDouble MathTools::quotient(const DoubleDouble& a, const DoubleDouble& b) {
  const Vec inverse = v.fdiv(size, num(1.0), b.high), high = v.fmul(size, a.high, inverse);
  const Vec rest = v.fadd(size, v.fnma(size, high, b.high, a.high), v.fnma(size, high, b.low, a.low));
  return {high, v.fmul(size, rest, inverse)};
}

void MathTools::raise_invalid_where(const Mask& any) {
  const Label none = cc.newLabel();
  v.branch(any, false, none);
  v.raise_invalid();
  cc.bind(none);
}

ExpLogMath::Split ExpLogMath::split(const Vec& high, const Vec* low, bool whole) {
  const auto ln2 = table(kLn2F32, kLn2F64);
  Split out;
  out.shifted = v.fma(size, high, num(1 / std::log(2.0)), con(magic()));
  out.n = v.fsub(size, out.shifted, con(magic()));
  const Vec reduced = v.fnma(size, out.n, con(ln2[0]), high);  // exact
  out.r = v.fnma(size, out.n, con(ln2[1]), reduced);
  if (whole) out.lost = v.fnma(size, out.n, con(ln2[1]), v.fsub(size, reduced, out.r));
  if (low) out.r = v.fadd(size, out.r, *low);
  out.series = horner(out.r, table(kExpF32, kExpF64), 0, 1);
  return out;
}

Vec ExpLogMath::exp_of(const Vec& high, const Vec* low, bool normal) {
  const Split e = split(high, low);
  // 1 + r (1 + r series): no power of r by itself, which could underflow
  return scaled(v.fma(size, e.r, v.fma(size, e.r, e.series, con(1.0)), con(1.0)), e, normal);
}

/// value 2^n
Vec ExpLogMath::scaled(const Vec& value, const Split& e, bool normal) {
  if (v.avx512) return v.op(f32 ? I::kIdVscalefps : I::kIdVscalefpd, size, value, e.n);
  if (normal) return v.fmul(size, value, power_of_two(e.shifted));
  // Two factors: the product reaches beyond both ends of the range, rounds once and raises what it should.
  const Vec half = v.fround(size, v.fmul(size, e.n, mem(0.5)), Vasm::kFloor);
  const Vec first = v.fmul(size, value, power_of_two(v.fadd(size, half, con(magic()))));
  return v.fmul(size, first, power_of_two(v.fadd(size, v.fsub(size, e.n, half), con(magic()))));
}

/// The common way of exp and exp2, and for large numbers the other one: `f` computes finite numbers, the result normal
/// or not.
template <class F>
Vec ExpLogMath::exponential(const Vec& x, double limit, double low, double high, F&& f) {
  const Mask rare = at_least(v.fabs(size, x), limit);
  const Vec result = f(v.drop(size, rare, x), true);
  rarely(rare, result, [&] {
    const Mask special = not_finite(x);
    const Vec finite = v.drop(size, special, x);
    const Vec clipped = v.fmax_x86(size, v.fmin_x86(size, finite, con(high)), con(low));
    // A subnormal result underflows for some of NumPy's loops even where it is exact.
    const Vec least = v.keep(size, v.fcmp(size, Cmp::Lt, clipped, num(-limit)), num(f32 ? 0x1p-126 : 0x1p-1022));
    v.fmul(size, least, least);
    // Of +inf and NaN it is the number itself, of -inf it is 0.
    const Vec kept = v.select(size, v.fcmp(size, Cmp::Lt, x, v.zero(size)), v.zero(size), x);
    return v.select(size, special, kept, f(clipped, false));
  });
  return result;
}

Vec ExpLogMath::exp(const Vec& x) {
  return exponential(x, f32 ? 87 : 708, f32 ? -120 : -780, f32 ? 100 : 720,
                     [&](const Vec& y, bool normal) { return exp_of(y, nullptr, normal); });
}

Vec ExpLogMath::exp2(const Vec& x) {
  return exponential(x, f32 ? 126 : 1022, f32 ? -170 : -1120, f32 ? 140 : 1040, [&](const Vec& y, bool normal) {
    Split e;
    e.shifted = v.fadd(size, y, con(magic()));
    e.n = v.fsub(size, e.shifted, con(magic()));
    e.r = v.fsub(size, y, e.n);  // exact
    return scaled(v.fma(size, e.r, horner(e.r, table(kExp2F32, kExp2F64), 0, 1), con(1.0)), e, normal);
  });
}

/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for a normal x; for other bits anything, without flags.
ExpLogMath::Parts ExpLogMath::parts(const Vec& x) {
  // The bits of x less those of sqrt(1/2): k above the fraction, and what is to be added to sqrt(1/2) again.
  const int fraction = kFraction(f32);
  const uint64_t root = float_bits(size, std::sqrt(0.5)), one = float_bits(size, 1.0),
                 field = (uint64_t{1} << fraction) - 1;
  const Vec distance = v.isub(size, x, v.constant_operand(size, root - one));
  const double unit = f32 ? 0x1p23 : 0x1p52;  // whose last bits are an integer
  Parts out;
  out.k = v.fsub(size, v.or_const(size, v.shr(size, distance, fraction), float_bits(size, unit)),
                 con(unit + (f32 ? 127 : 1023)));
  out.f = v.fsub(size, v.iadd(size, v.and_const(size, distance, field), v.constant_operand(size, root)), con(1.0));
  return out;
}

/// log(1 + f) + more, where `more` is small beside it or absent.
Vec ExpLogMath::log_near_one(const Vec& f, const Vec* more) {
  const Vec square = v.fmul(size, f, f);
  if (f32) {
    // f + f^2 (f P(f) - 1/2)
    const Vec inner = v.fma(size, f, horner(f, kLogPF32, 0, 1), con(-0.5));
    const Vec value = v.fma(size, square, inner, f);
    return more ? v.fadd(size, value, *more) : value;
  }
  // f - f^2/2 + s (f^2/2 + R) with s = f / (2 + f)
  const Vec s = v.fdiv(size, f, v.fadd(size, f, con(2.0)));
  const Vec z = v.fmul(size, s, s), half_square = v.fmul(size, square, con(0.5));
  const Vec inner = v.fma(size, z, horner(z, kLogF64, 0, 1), half_square);
  const Vec small = more ? v.fma(size, s, inner, *more) : v.fmul(size, s, inner);
  return v.fsub(size, f, v.fsub(size, half_square, small));
}

/// log(1 + f) in float64, and about what rounding it lost.
MathTools::DoubleDouble ExpLogMath::log_in_parts(const Vec& f) {
  const Vec half_square = v.fmul(size, v.fmul(size, f, f), con(0.5));
  const Vec s = v.fdiv(size, f, v.fadd(size, f, con(2.0))), z = v.fmul(size, s, s);
  return fast_sum(f, v.fms(size, s, v.fma(size, z, horner(z, kLogF64, 0, 1), half_square), half_square));
}

/// The logarithm to the operator's base, of what parts() gave.
Vec ExpLogMath::log_of(Op op, const Parts& x) {
  const auto step = op == Op::Log10 ? table(kLog10Of2F32, kLog10Of2F64) : table(kLn2F32, kLn2F64);
  if (op == Op::Log) {
    const Vec more = v.fmul(size, x.k, mem(step[1]));
    return v.fma(size, x.k, con(step[0]), log_near_one(x.f, &more));
  }
  if (f32 && op == Op::Log2) return v.fma(size, log_near_one(x.f, nullptr), con(1 / M_LN2), x.k);
  if (f32)
    return v.fma(size, x.k, con(step[0]),
                 v.fma(size, log_near_one(x.f, nullptr), con(1 / M_LN10), v.fmul(size, x.k, mem(step[1]))));
  const double* factor = op == Op::Log2 ? kLog2OfEF64 : kLog10OfEF64;
  const DoubleDouble natural = log_in_parts(x.f);
  const Vec product = v.fmul(size, natural.high, con(factor[0]));
  Vec low = v.fma(size, natural.low, con(factor[0]), v.fms(size, natural.high, con(factor[0]), product));
  low = v.fma(size, natural.high, con(factor[1]), low);
  if (op == Op::Log10) low = v.fma(size, x.k, con(step[1]), low);
  const DoubleDouble total = fast_sum(op == Op::Log2 ? x.k : v.fmul(size, x.k, con(step[0])), product);
  return v.fadd(size, total.high, v.fadd(size, total.low, low));
}

/// log, log2, log10
Vec ExpLogMath::log(Op op, const Vec& x) {
  const Mask rare = beyond(x, f32 ? 0x1p-126 : 0x1p-1022, HUGE_VAL);
  const Vec result = log_of(op, parts(x));
  rarely(rare, result, [&] {
    const double lift = f32 ? 0x1p25 : 0x1p54;
    const Mask special = v.mask_or(log_pole(x, 0), not_finite(x));
    const Vec positive = v.select(size, special, num(1.0), x);
    const Mask subnormal = smaller(positive, f32 ? 0x1p-126 : 0x1p-1022);
    Parts lifted = parts(v.select(size, subnormal, v.fmul(size, positive, mem(lift)), positive));
    lifted.k = v.fsub(size, lifted.k, v.keep(size, subnormal, num(std::log2(lift))));
    return v.select(size, special, at_pole(x, 0), log_of(op, lifted));
  });
  return result;
}

/// x <= pole; raises what a logarithm raises there.
Mask ExpLogMath::log_pole(const Vec& x, double pole) {
  const Mask at = v.fcmp(size, Cmp::Eq, x, num(pole)), beyond = v.fcmp(size, Cmp::Lt, x, num(pole));
  const Label not_at = cc.newLabel(), not_beyond = cc.newLabel();
  v.branch(at, false, not_at);
  v.raise_divide();
  cc.bind(not_at);
  v.branch(beyond, false, not_beyond);
  v.raise_invalid();
  cc.bind(not_beyond);
  return v.mask_or(at, beyond);
}

/// A logarithm at its pole: -inf; beyond it: NaN; else x, which is an infinity or a NaN.
Vec ExpLogMath::at_pole(const Vec& x, double pole) {
  const Vec nan = v.splat(size, f32 ? 0xffc00000u : 0xfff8000000000000u);
  const Vec beyond = v.select(size, v.fcmp(size, Cmp::Lt, x, num(pole)), nan, x);
  return v.select(size, v.fcmp(size, Cmp::Eq, x, num(pole)), num(-HUGE_VAL), beyond);
}

/// log(u) + c / u with u + c = 1 + x
Vec ExpLogMath::log1p_of(const Vec& x) {
  const Vec one = num(1.0), u = v.fadd(size, x, one), b = v.fsub(size, u, one);
  const Vec c = v.fadd(size, v.fsub(size, x, b), v.fsub(size, one, v.fsub(size, u, b)));
  return v.fadd(size, log_of(Op::Log, parts(u)), v.fdiv(size, c, u));
}

Vec ExpLogMath::log1p(const Vec& x) {
  const Mask rare = v.mask_or(outside(x, 0x1p-60, HUGE_VAL), v.icmp(size, false, Cmp::Ge, x, num(-1.0)));
  const Vec result = log1p_of(v.select(size, rare, num(1.0), x));
  rarely(rare, result, [&] {
    tiny(x);
    log_pole(x, -1);
    return at_pole(x, -1);  // tiny numbers are themselves
  });
  return result;
}

/// exp(x) - 1, for numbers whose square is normal; in float32 the second part is 0.
MathTools::DoubleDouble ExpLogMath::less_one(const Vec& x) {
  const Split e = split(x, nullptr, !f32);
  const Vec scale = power_of_two(e.shifted);
  if (f32) {
    const Vec inner = v.fma(size, v.fmul(size, e.r, e.r), e.series, e.r);
    return {v.fma(size, inner, scale, v.fsub(size, scale, con(1.0))), v.zero(size)};
  }
  const DoubleDouble inner = fast_sum(e.r, v.fma(size, v.fmul(size, e.r, e.r), e.series, e.lost));
  const DoubleDouble total = sum(v.fsub(size, scale, con(1.0)), v.fmul(size, inner.high, scale));
  return {total.high, v.fma(size, inner.low, scale, total.low)};
}

Vec ExpLogMath::tanh(const Vec& x) {
  // t / (t + 2) with t = exp(2 |x|) - 1
  const Vec magnitude = v.fabs(size, x);
  const Mask rare = outside(x, 0x1p-60, HUGE_VAL);
  const double bound = f32 ? 10.0 : 22.0;
  const Vec limit = num(bound);
  const Vec bounded = v.select(size, v.mask_or(rare, at_least(magnitude, bound)), limit, magnitude);
  const DoubleDouble t = less_one(v.fadd(size, bounded, bounded));
  Vec value;
  if (f32) {
    value = v.fdiv(size, t.high, v.fadd(size, t.high, con(2.0)));
  } else {
    DoubleDouble below = sum(num(2.0), t.high);
    below.low = v.fadd(size, below.low, t.low);
    value = joined(quotient(t, below));
  }
  const Vec result = v.bit_or(size, value, v.and_const(size, x, Vasm::sign_bit(size)));
  // Tiny numbers and NaN are themselves, infinities were bounded.
  rarely(rare, result, [&] {
    tiny(x);
    return v.select(size, v.icmp(size, true, Cmp::Eq, magnitude, num(HUGE_VAL)), result, x);
  });
  return result;
}

Vec ExpLogMath::expm1(const Vec& x) {
  const Mask rare = outside(x, 0x1p-60, f32 ? 87.0 : 708.0);
  const Vec result = joined(less_one(v.select(size, rare, num(1.0), x)));
  rarely(rare, result, [&] {
    // Tiny numbers, +inf and NaN are themselves; below -50 it is -1.
    const Mask low = v.fcmp(size, Cmp::Lt, x, v.zero(size));
    const Mask kept = v.mask_or(tiny(x), v.mask_and(not_finite(x), v.mask_not(low)));
    const Vec large = v.select(size, v.mask_or(kept, low), num(1.0), x);
    const Vec bounded = v.fmin_x86(size, large, con(f32 ? 100.0 : 720.0));
    const Vec value = v.select(size, low, num(-1.0), exp_of(bounded, nullptr, false));
    return v.select(size, kept, x, value);
  });
  return result;
}

/// exp(|x|) / 2 of large numbers; infinities and NaN are themselves.
Vec ExpLogMath::half_exp(const Vec& magnitude) {
  const Mask special = not_finite(magnitude);
  const Vec finite = v.select(size, special, num(1.0), magnitude);
  Split e = split(v.fmin_x86(size, finite, con(f32 ? 100.0 : 720.0)), nullptr);
  e.n = v.fsub(size, e.n, con(1.0));
  e.shifted = v.fadd(size, e.n, con(magic()));
  const Vec value = v.fma(size, e.r, v.fma(size, e.r, e.series, con(1.0)), con(1.0));
  return v.select(size, special, magnitude, scaled(value, e, false));
}

Vec ExpLogMath::sinh(const Vec& x) {
  // (t + t / (t + 1)) / 2 with t = exp(|x|) - 1
  const Vec magnitude = v.fabs(size, x), sign = v.and_const(size, x, Vasm::sign_bit(size));
  const Mask rare = outside(x, 0x1p-60, f32 ? 87.0 : 708.0);
  const DoubleDouble t = less_one(v.select(size, rare, num(1.0), magnitude));
  const Vec over = v.fdiv(size, t.high, v.fadd(size, t.high, con(1.0)));
  const Vec twice = v.fadd(size, t.high, v.fadd(size, over, t.low));
  const Vec result = v.bit_or(size, v.fmul(size, twice, mem(0.5)), sign);
  rarely(rare, result, [&] {
    const Mask kept = tiny(x);
    const Vec large = half_exp(v.select(size, kept, num(1.0), magnitude));
    return v.select(size, kept, x, v.bit_or(size, large, sign));
  });
  return result;
}

Vec ExpLogMath::cosh(const Vec& x) {
  const Vec magnitude = v.fabs(size, x);
  const Mask rare = at_least(magnitude, f32 ? 87.0 : 708.0);
  const Vec e = exp_of(v.drop(size, rare, magnitude), nullptr, true);
  const Vec result = v.fma(size, e, con(0.5), v.fdiv(size, num(0.5), e));
  rarely(rare, result, [&] { return half_exp(v.select(size, rare, magnitude, num(1.0))); });
  return result;
}

Vec ExpLogMath::erf(const Vec& x) {
  const Mask special = v.fcmp(size, Cmp::Unordered, x, x);
  const Vec number = v.drop(size, special, x);
  const Vec magnitude = v.fmin_x86(size, v.fabs(size, number), con(f32 ? 4.5 : 6.0));
  const Mask is_small = smaller(magnitude, 1.0);
  const Vec sized = v.select(size, smaller(magnitude, f32 ? 0x1p-15 : 0x1p-30), v.zero(size), magnitude);
  const Vec z = v.fmul(size, sized, sized), inside = v.select(size, is_small, z, v.zero(size));
  // x + x E(x^2); the product of a tiny number is exact enough and may underflow only with it.
  const Vec direct = v.fma(size, polynomial(inside, table(kErfF32, kErfF64)), magnitude, magnitude);
  // 1 - exp(-x^2) Q(1 / (x + 2) - 1/4), with the square in two parts
  const Vec beyond = v.fmax_x86(size, magnitude, con(1.0));
  const Vec t = v.fsub(size, v.fdiv(size, num(1.0), v.fadd(size, beyond, con(2.0))), con(0.25));
  const Vec square = v.fneg(size, v.fmul(size, beyond, beyond));
  const Vec lost = v.fnma(size, beyond, beyond, v.fneg(size, square));
  const Vec exponential = exp_of(square, &lost, true);
  const Vec far = v.fnma(size, exponential, polynomial(t, table(kErfcF32, kErfcF64)), con(1.0));
  const Vec value = v.bit_or(size, v.select(size, is_small, direct, far), v.and_const(size, x, Vasm::sign_bit(size)));
  return v.select(size, special, x, value);
}

bool has_math(Op op, DType t) {
  return (t == DType::F32 || t == DType::F64) && has(graph::def(op).own, Own::Math | Own::MathInFloat64);
}

namespace {

/// float32 by the way of float64, rounded at the end: in two halves where a register does not hold as many float64.
template <class F>
Vec in_float64(Vasm& v, const Vec& a, const Vec& b, F&& f) {
  const auto computed = [&](const Vec& x, const Vec& y) {
    const auto wide = [&](const Vec& narrow) { return narrow.isValid() ? v.op1(I::kIdVcvtps2pd, 8, narrow) : narrow; };
    const Vec wide_x = wide(x), wide_y = wide(y);
    return v.op1(I::kIdVcvtpd2ps, 4, f(wide_x, wide_y));
  };
  const int bytes = v.bytes(4);
  if (2 * bytes <= (v.avx512 ? 64 : 32)) return computed(a, b);
  const LaneScope halves(v, v.lanes / 2);
  const auto upper = [&](const Vec& x) { return x.isValid() ? v.upper_half(x, bytes) : x; };
  const auto lower = [&](const Vec& x) { return x.isValid() ? v.lower_half(x, bytes) : x; };
  const Vec low = computed(lower(a), lower(b)), high = computed(upper(a), upper(b));
  return v.concat(low, high, bytes / 2);
}

Vec emit_math(const MathTools& tools, Op op, const Vec& a, const Vec& b) {
  ExpLogMath exponential(tools);
  AngleMath angles(tools);
  DoubleDoubleMath twofold(tools);
  SpecialMath special(tools);
  switch (op) {
    case Op::Exp: return exponential.exp(a);
    case Op::Exp2: return exponential.exp2(a);
    case Op::Expm1: return exponential.expm1(a);
    case Op::Log:
    case Op::Log2:
    case Op::Log10: return exponential.log(op, a);
    case Op::Log1p: return exponential.log1p(a);
    case Op::Sin:
    case Op::Cos:
    case Op::Tan: return angles.sine(op, a);
    case Op::Arcsin: return angles.arcsin(a, false);
    case Op::Arccos: return angles.arcsin(a, true);
    case Op::Arctan: return angles.arctan(a);
    case Op::Sinh: return exponential.sinh(a);
    case Op::Cosh: return exponential.cosh(a);
    case Op::Tanh: return exponential.tanh(a);
    case Op::Erf: return exponential.erf(a);
    case Op::Hypot: return angles.hypot(a, b);
    case Op::Expit: return special.expit(a);
    case Op::Xlogy: return special.xlogy(a, b, false);
    case Op::Heaviside: return twofold.heaviside(a, b);
    case Op::Nextafter: return twofold.nextafter(a, b);
    case Op::Power: return twofold.power(a, b);
    case Op::Arctan2: return angles.arctan2(a, b);
    case Op::Logaddexp: return twofold.logaddexp(a, b, false);
    case Op::Logaddexp2: return twofold.logaddexp(a, b, true);
    case Op::Arcsinh: return twofold.arcsinh(a);
    case Op::Arccosh: return twofold.arccosh(a);
    case Op::Arctanh: return twofold.arctanh(a);
    case Op::Cbrt: return twofold.cbrt(a);
    case Op::Gamma: return special.gamma(a);
    case Op::Gammaln: return special.gammaln(a);
    case Op::Erfc: return special.erfc(a);
    case Op::Ndtr: return special.ndtr(a);
    case Op::Logit: return special.logit(a);
    case Op::Xlog1py: return special.xlogy(a, b, true);
    default: FRAMEJIT_CHECK(false, "no vector math for " + std::string(graph::name_of(op)));
  }
}

}  // namespace

Vec math(Vasm& v, Op op, int size, const Vec& a, const Vec& b) {
  if (size == 8 || has(graph::def(op).own, Own::Math)) return emit_math(MathTools(v, size), op, a, b);
  return in_float64(v, a, b, [&](const Vec& x, const Vec& y) { return emit_math(MathTools(v, 8, true), op, x, y); });
}

}  // namespace framejit::codegen
