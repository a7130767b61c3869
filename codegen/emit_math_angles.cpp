// Own vector math of O1 on angles and lengths: sines, arcs, hypot.
#include "codegen/emit_math.h"

namespace framejit::codegen {

using graph::Op;
namespace x86 = asmjit::x86;

/// Largest |x| whose multiples of pi/2 are taken off by a three-part constant; above, the bits of 2/pi are multiplied
/// out.
constexpr double kReductionLimit = 1e5;

AngleMath::Reduced AngleMath::reduce(const Vec& x) {
  const auto half_pi = table(kPiOver2F32, kPiOver2F64);
  const Vec shifted = v.fma(size, x, num(2 / M_PI), mem(magic()));
  const Vec n = v.fsub(size, shifted, mem(magic()));
  const Vec first = v.fnma(size, n, con(half_pi[0]), x);  // exact
  const Vec second = v.fmul(size, n, mem(half_pi[1]));
  const Vec second_error = v.fms(size, n, con(half_pi[1]), second);
  Reduced out;
  out.r = v.fsub(size, first, second);
  // What the subtraction and the product lost, and the third part.
  const Vec lost = v.fsub(size, v.fsub(size, first, out.r), second);
  out.low = v.fsub(size, v.fsub(size, lost, second_error), v.fmul(size, n, mem(half_pi[2])));
  out.quadrant = shifted;
  return out;
}

/// One lane of scratch 0 (as a double) to r, low and quadrant in scratches 1, 2, 3: x * 2/pi modulo 4 in fixed point,
/// with 192 bits of 2/pi chosen by the exponent of x.
void AngleMath::reduce_lane(const Gp& lane) {
  const auto at = [&](int slot) {
    Mem m = v.scratch(slot).cloneAdjusted(0);
    m.setIndex(lane, f32 ? 2 : 3);
    m.setSize(size);
    return m;
  };
  const x86::Xmm x = cc.newXmm(), sign = cc.newXmm(), high = cc.newXmm(), low = cc.newXmm(), scale = cc.newXmm(),
                 r = cc.newXmm(), error = cc.newXmm();
  if (f32) {
    cc.vmovss(x, at(0));
    cc.vcvtss2sd(x, x, x);
  } else {
    cc.vmovsd(x, at(0));
  }
  const Gp bits = v.gp(), mantissa = v.gp(), position = v.gp(), table_at = v.gp(), w2 = v.gp(), w1 = v.gp(),
           w0 = v.gp(), w_next = v.gp(), p2 = v.gp(), p1 = v.gp(), p0 = v.gp(), product_low = v.gp(),
           product_high = v.gp(), count = v.gp();
  cc.vmovq(bits, x);
  cc.mov(mantissa, asmjit::Imm((int64_t{1} << 52) - 1));
  cc.and_(mantissa, bits);
  cc.bts(mantissa, 52);
  cc.mov(position, bits);
  cc.shr(position, 52);
  cc.and_(position.r32(), 0x7ff);
  cc.sub(position.r32(), 1023 + 54 - 64);  // of the first bit of 2/pi that counts, from the start of the table
  cc.lea(table_at, v.large_table(kTwoOverPi, sizeof kTwoOverPi));
  cc.mov(count.r32(), position.r32());
  cc.shr(position, 3);
  cc.and_(count.r32(), 7);
  const auto word = [&](const Gp& to, int index) {
    cc.mov(to, x86::qword_ptr(table_at, position, 0, 8 * index));
    cc.bswap(to);
  };
  word(w2, 0);
  word(w1, 1);
  word(w0, 2);
  word(w_next, 3);
  cc.shld(w2, w1, count.r8());
  cc.shld(w1, w0, count.r8());
  cc.shld(w0, w_next, count.r8());
  // p = mantissa * w modulo 2^192: two bits of quadrant, 190 of fraction
  cc.mov(product_low, w0);
  cc.mul(product_high, product_low, mantissa);
  cc.mov(p0, product_low);
  cc.mov(p1, product_high);
  cc.mov(product_low, w1);
  cc.mul(product_high, product_low, mantissa);
  cc.add(p1, product_low);
  cc.mov(p2, product_high);
  cc.adc(p2, 0);
  cc.imul(w2, mantissa);
  cc.add(p2, w2);
  const Gp quadrant = v.gp(), negative = v.gp();
  cc.mov(quadrant, p2);
  cc.mov(product_low, asmjit::Imm(int64_t{1} << 61));
  cc.add(quadrant, product_low);
  cc.shr(quadrant, 62);
  // The fraction beside the nearest quadrant, as a signed number of 128 bits in (p2, p1).
  cc.shld(p2, p1, 2);
  cc.shld(p1, p0, 2);
  cc.mov(negative, p2);
  cc.sar(negative, 63);
  cc.xor_(p2, negative);
  cc.xor_(p1, negative);  // its complement is near enough to its negative
  cc.bsr(count, p2);      // not zero: no double comes that near to a multiple of pi/2
  cc.xor_(count.r32(), 63);
  cc.shld(p2, p1, count.r8());
  cc.shl(p1, count.r8());
  // high: the first 53 bits; low: the next 53
  const Gp part = v.gp(), exponent = v.gp();
  cc.mov(part, p2);
  cc.shr(part, 11);
  cc.vxorpd(high, high, high);
  cc.vcvtsi2sd(high, high, part);
  cc.shld(p2, p1, 53);
  cc.mov(part, p2);
  cc.shr(part, 11);
  cc.vxorpd(low, low, low);
  cc.vcvtsi2sd(low, low, part);
  cc.mov(exponent.r32(), 1023 - 53);
  cc.sub(exponent.r32(), count.r32());
  cc.shl(exponent, 52);
  cc.vmovq(scale, exponent);
  cc.vmulsd(high, high, scale);
  cc.vmulsd(low, low, scale);
  const double constants[3] = {kPiOver2F64[0], kPiOver2F64[1], 0x1p-53};
  cc.vmulsd(low, low, v.const_table(&constants[2], 8));
  // (high + low) * pi/2
  const x86::Xmm pi_high = cc.newXmm();
  cc.vmovsd(pi_high, v.const_table(&constants[0], 8));
  cc.vmulsd(r, high, pi_high);
  cc.vmovapd(error, high);
  cc.vfmsub213sd(error, pi_high, r);
  cc.vfmadd231sd(error, high, v.const_table(&constants[1], 8));
  cc.vfmadd231sd(error, low, pi_high);
  // Signs: of the fraction, and of x for both.
  cc.sar(bits, 63);
  cc.xor_(quadrant, bits);
  cc.sub(quadrant, bits);
  cc.xor_(negative, bits);
  cc.shl(negative, 63);
  cc.vmovq(sign, negative);
  cc.vxorpd(r, r, sign);
  cc.vxorpd(error, error, sign);
  if (f32) {
    const x86::Xmm single = cc.newXmm(), rounded = cc.newXmm();
    cc.vcvtsd2ss(single, r, r);
    cc.vcvtss2sd(rounded, single, single);
    cc.vsubsd(r, r, rounded);
    cc.vaddsd(r, r, error);
    cc.vcvtsd2ss(error, r, r);
    cc.vmovss(at(1), single);
    cc.vmovss(at(2), error);
    cc.mov(at(3), quadrant.r32());
  } else {
    cc.vmovsd(at(1), r);
    cc.vmovsd(at(2), error);
    cc.mov(at(3), quadrant);
  }
}

void AngleMath::reduce_large(const Reduced& out, const Vec& x, const Mask& large) {
  const Label skip = cc.newLabel(), again = cc.newLabel();
  v.branch(large, false, skip);
  v.store(size, v.scratch(0), v.select(size, large, x, num(1e6)));
  const Gp lane = v.gp();
  cc.xor_(lane.r32(), lane.r32());
  cc.bind(again);
  reduce_lane(lane);
  cc.inc(lane);
  cc.cmp(lane, v.lanes);
  cc.jb(again);
  cc.vmovups(out.r, v.select(size, large, v.load(size, v.scratch(1)), out.r));
  cc.vmovups(out.low, v.select(size, large, v.load(size, v.scratch(2)), out.low));
  cc.vmovups(out.quadrant, v.select(size, large, v.load(size, v.scratch(3)), out.quadrant));
  cc.bind(skip);
}

Vec AngleMath::by_quadrant(Op op, const Vec& quadrants, const Vec& sine_value, const Vec& cosine_value) {
  const Vec quadrant = op == Op::Cos ? v.iadd(size, quadrants, v.splat(size, 1)) : quadrants;
  const Mask odd = v.nonzero(size, v.and_const(size, quadrant, 1));
  if (op == Op::Tan) {
    const Vec above = v.select(size, odd, cosine_value, sine_value),
              below = v.select(size, odd, sine_value, cosine_value);
    return v.bit_xor(size, v.fdiv(size, above, below), v.shl(size, v.and_const(size, quadrant, 1), size * 8 - 1));
  }
  const Vec sign = v.shl(size, v.and_const(size, quadrant, 2), size * 8 - 2);
  return v.bit_xor(size, v.select(size, odd, cosine_value, sine_value), sign);
}

/// The sine, cosine or tangent of r + low and its quadrant. `sized`: r, or 0 where its square could underflow.
Vec AngleMath::sine_of(const Reduced& reduced, const Vec& sized, Op op) {
  const Vec &r = reduced.r, &low = reduced.low;
  const Vec z = v.fmul(size, sized, sized), half_z = v.fmul(size, z, mem(0.5));
  const Vec one = num(1.0);
  const Vec sine_cubic = v.fmul(size, v.fmul(size, z, sized), polynomial(z, table(kSinF32, kSinF64)));
  const DoubleDouble sine_parts = fast_sum(r, v.fadd(size, sine_cubic, v.fnma(size, half_z, low, low)));
  const Vec near_one = v.fsub(size, one, half_z);
  const Vec cosine_tail =
      v.fma(size, v.fmul(size, z, z), polynomial(z, table(kCosF32, kCosF64)), v.fneg(size, v.fmul(size, sized, low)));
  const DoubleDouble cosine_parts =
      fast_sum(near_one, v.fadd(size, v.fsub(size, v.fsub(size, one, near_one), half_z), cosine_tail));
  if (op != Op::Tan) return by_quadrant(op, reduced.quadrant, sine_parts.high, cosine_parts.high);
  const Mask odd = v.nonzero(size, v.and_const(size, reduced.quadrant, 1));
  const auto either = [&](const Vec& a, const Vec& b) { return v.select(size, odd, a, b); };
  const Vec ratio =
      joined(quotient({either(cosine_parts.high, sine_parts.high), either(cosine_parts.low, sine_parts.low)},
                      {either(sine_parts.high, cosine_parts.high), either(sine_parts.low, cosine_parts.low)}));
  return v.bit_xor(size, ratio, v.shl(size, v.and_const(size, reduced.quadrant, 1), size * 8 - 1));
}

/// float32 of ordinary size: the third part of pi/2 counts only where it is no more than a rounding.
Vec AngleMath::short_sine(const Vec& x, Op op) {
  const auto half_pi = table(kPiOver2F32, kPiOver2F64);
  const Vec shifted = v.fma(size, x, num(2 / M_PI), mem(magic()));
  const Vec n = v.fsub(size, shifted, mem(magic()));
  const Vec first = v.fnma(size, n, con(half_pi[0]), x);  // exact
  const Vec r = v.fnma(size, n, con(half_pi[2]), v.fnma(size, n, con(half_pi[1]), first));
  const Vec z = v.fmul(size, r, r);
  const Vec sine_value = v.fma(size, v.fmul(size, z, r), horner(z, kSinF32, 0, 1), r);
  const Vec cosine_inner = v.fma(size, z, horner(z, kCosF32, 0, 1), con(-0.5));
  const Vec cosine_value = v.fma(size, z, cosine_inner, con(1.0));
  return by_quadrant(op, shifted, sine_value, cosine_value);
}

/// sin, cos, tan
Vec AngleMath::sine(Op op, const Vec& argument) {
  // Powers of tiny numbers could underflow: r^3 in float32, r^4 in float64.
  const Mask rare = outside(argument, f32 ? 0x1p-40 : 0x1p-250, f32 ? 5e3 : kReductionLimit);
  const Vec ordinary = v.select(size, rare, num(1.0), argument);
  Vec result;
  if (f32) {
    result = short_sine(ordinary, op);
  } else {
    const Reduced reduced = reduce(ordinary);
    result = sine_of(reduced, reduced.r, op);
  }
  rarely(rare, result, [&] { return any_sine(argument, op); });
  return result;
}

Vec AngleMath::any_sine(const Vec& argument, Op op) {
  const Vec infinity = v.splat(size, f32 ? 0x7f800000u : 0x7ff0000000000000u);
  const Vec argument_magnitude = v.fabs(size, argument);
  tiny(argument);
  const Mask special = not_finite(argument);
  const Mask infinite = v.icmp(size, true, Cmp::Eq, argument_magnitude, infinity);
  const Label no_infinity = cc.newLabel();
  v.branch(infinite, false, no_infinity);
  v.raise_invalid();
  cc.bind(no_infinity);
  const Vec x = v.drop(size, special, argument);
  const Mask large = v.fcmp(size, Cmp::Gt, v.fabs(size, x), num(kReductionLimit));
  // Lanes for the slow reduction take no part in the fast one, whose products could overflow.
  const Reduced reduced = reduce(v.drop(size, large, x));
  reduce_large(reduced, x, large);
  // r^2 of a tiny number could underflow, and counts for nothing.
  const Mask uncounted = smaller(v.fabs(size, reduced.r), f32 ? 0x1p-30 : 0x1p-60);
  const Vec value = sine_of(reduced, v.drop(size, uncounted, reduced.r), op);
  // NaN stays itself, infinities give a NaN; and sin(-0) is -0.
  const Vec nan = v.or_const(size, argument, f32 ? 0x7fc00000u : 0x7ff8000000000000u);
  const Vec result = v.select(size, special, nan, value);
  return op == Op::Cos ? result : v.select(size, v.fcmp(size, Cmp::Eq, argument, v.zero(size)), argument, result);
}

Vec AngleMath::arctan(const Vec& x) {
  // a + a^3 P(a^2) with a = |x| up to 1/2; pi/4 and a = (|x| - 1) / (|x| + 1) up to sqrt(2) + 1; beyond, pi/2 and a =
  // -1 / |x|
  const auto half_pi = table(kPiOver2F32, kPiOver2F64);
  const Vec one = num(1.0), zero = v.zero(size), sign = v.and_const(size, x, Vasm::sign_bit(size));
  const Mask rare = outside(x, 0x1p-30, 0x1p60);
  const Vec magnitude = v.select(size, rare, one, v.fabs(size, x));
  const Mask middle = v.fcmp(size, Cmp::Gt, magnitude, num(0.5)),
             far = v.fcmp(size, Cmp::Gt, magnitude, num(M_SQRT2 + 1));
  const auto of_three = [&](const Vec& near, const Vec& between, const Vec& beyond) {
    return v.select(size, far, beyond, v.select(size, middle, between, near));
  };
  const Vec a = v.fdiv(size, of_three(magnitude, v.fsub(size, magnitude, one), num(-1.0)),
                       of_three(one, v.fadd(size, magnitude, one), magnitude));
  const Vec z = v.fmul(size, a, a);
  const Vec series = v.fmul(size, v.fmul(size, z, a), polynomial(z, table(kArctanF32, kArctanF64)));
  const DoubleDouble large = fast_sum(of_three(zero, num(half_pi[0] / 2), num(half_pi[0])), a);
  const Vec low = v.fadd(size, large.low, of_three(zero, num(half_pi[1] / 2), num(half_pi[1])));
  const Vec value = v.fadd(size, large.high, v.fadd(size, series, low));
  const Vec result = v.bit_or(size, value, sign);
  rarely(rare, result, [&] {
    tiny(x);
    // Tiny numbers and NaN are themselves, large ones give pi/2.
    const Vec given = v.fabs(size, x);
    const Mask huge =
        v.mask_and(v.icmp(size, true, Cmp::Ge, given, one), v.icmp(size, true, Cmp::Le, given, num(HUGE_VAL)));
    return v.select(size, huge, v.bit_or(size, num(M_PI_2), sign), x);
  });
  return result;
}

/// arcsin, or arccos for `cosine`.
Vec AngleMath::arcsin(const Vec& x, bool cosine) {
  // a + a^3 P(a^2) with a = |x| up to 1/2; beyond, pi/2 with a = -2 sqrt((1 - |x|) / 2)
  const auto half_pi = table(kPiOver2F32, kPiOver2F64);
  const Vec sign = v.and_const(size, x, Vasm::sign_bit(size));
  const Mask rare = outside(x, 0x1p-60, f32 ? 0x1.000002p0 : 0x1.0000000000001p0);
  const Vec magnitude = v.select(size, rare, num(0.25), v.fabs(size, x));
  const Mask beyond = v.fcmp(size, Cmp::Gt, magnitude, num(0.5));
  const Vec half_rest = v.fnma(size, magnitude, num(0.5), con(0.5));  // exact where it is used
  const Vec z = v.select(size, beyond, half_rest, v.fmul(size, magnitude, magnitude));
  const Vec a = v.select(size, beyond, v.fsqrt(size, half_rest), magnitude);
  const Vec series = v.fmul(size, v.fmul(size, z, a), polynomial(z, table(kArcsinF32, kArcsinF64)));
  const Vec arc = v.fadd(size, a, series), twice = v.fadd(size, arc, arc);
  Vec result;
  if (cosine) {
    // beyond: 2 arc for x > 0, pi - 2 arc for x < 0; else pi/2 - arc with the sign of x
    const Mask negative = v.icmp(size, true, Cmp::Lt, x, v.zero(size));
    const Vec above = v.fadd(size, v.fsub(size, num(half_pi[0] * 2), twice), con(half_pi[1] * 2));
    const Vec signed_arc = v.bit_xor(size, arc, sign);
    const Vec inside = v.fadd(size, v.fsub(size, num(half_pi[0]), signed_arc), con(half_pi[1]));
    result = v.select(size, beyond, v.select(size, negative, above, twice), inside);
  } else {
    const DoubleDouble large = fast_sum(num(half_pi[0]), v.fmul(size, a, con(-2.0)));
    const Vec small = v.fnma(size, series, con(2.0), v.fadd(size, large.low, con(half_pi[1])));
    result = v.bit_or(size, v.select(size, beyond, v.fadd(size, large.high, small), arc), sign);
  }
  rarely(rare, result, [&] {
    const Mask near_zero = tiny(x);
    const Mask outside_domain = v.mask_and(v.icmp(size, true, Cmp::Gt, v.fabs(size, x), num(1.0)),
                                           v.icmp(size, true, Cmp::Le, v.fabs(size, x), num(HUGE_VAL)));
    const Label inside = cc.newLabel();
    v.branch(outside_domain, false, inside);
    v.raise_invalid();
    cc.bind(inside);
    const Vec nan = v.or_const(size, x, f32 ? 0x7fc00000u : 0x7ff8000000000000u);
    return v.select(size, near_zero, cosine ? num(M_PI_2) : x, nan);
  });
  return result;
}

Vec AngleMath::hypot(const Vec& x, const Vec& y) {
  const Vec u = v.fabs(size, x), w = v.fabs(size, y);
  const Mask first = v.icmp(size, true, Cmp::Ge, u, w);  // their bits are ordered as they are, NaN above infinity
  const Vec larger = v.select(size, first, u, w), smaller_one = v.select(size, first, w, u);
  const Mask rare = outside(larger, f32 ? 0x1p-30 : 0x1p-400, f32 ? 0x1p60 : 0x1p500);
  const auto length = [&](const Vec& a, const Vec& b) { return v.fsqrt(size, v.fma(size, a, a, v.fmul(size, b, b))); };
  const Vec result = length(v.select(size, rare, num(1.0), larger), v.drop(size, rare, smaller_one));
  rarely(rare, result, [&] {
    const Mask special = not_finite(larger), counted = v.mask_and(rare, v.mask_not(special));
    const Vec a = v.keep(size, counted, larger), b = v.keep(size, counted, smaller_one);
    const Mask huge = v.fcmp(size, Cmp::Ge, a, num(1.0));
    const double factor = f32 ? 0x1p90 : 0x1p600;
    const Vec scale = v.select(size, huge, num(1 / factor), num(factor)),
              back = v.select(size, huge, num(factor), num(1 / factor));
    const Vec value = v.fmul(size, length(v.fmul(size, a, scale), v.fmul(size, b, scale)), back);
    // A subnormal result may underflow where that of the scaled numbers is exact.
    const double least = f32 ? 0x1p-126 : 0x1p-1022;
    const Vec tiny_one = v.keep(size, v.mask_and(counted, outside(value, least, HUGE_VAL)), num(least));
    v.fmul(size, tiny_one, tiny_one);
    // An infinity beside a NaN is an infinity.
    const Vec infinity = num(HUGE_VAL);
    const Mask infinite = v.mask_or(v.icmp(size, true, Cmp::Eq, u, infinity), v.icmp(size, true, Cmp::Eq, w, infinity));
    return v.select(size, infinite, infinity, v.select(size, special, larger, value));
  });
  return result;
}

/// The angle of (x, y), both finite and not negative, one of them not 0; `left`: where x had a sign.
Vec AngleMath::angle(const Vec& y, const Vec& x, const Mask& left) {
  // a = y / x up to 1/2; pi/4 and a = (y - x) / (y + x) up to sqrt(2) + 1; beyond, pi/2 and a = -x / y
  const auto half_pi = table(kPiOver2F32, kPiOver2F64);
  const Mask middle = v.fcmp(size, Cmp::Gt, v.fadd(size, y, y), x),
             far = v.fcmp(size, Cmp::Gt, y, v.fmul(size, x, con(M_SQRT2 + 1)));
  const auto of_three = [&](const Vec& near, const Vec& between, const Vec& beyond) {
    return v.select(size, far, beyond, v.select(size, middle, between, near));
  };
  const Vec zero = v.zero(size);
  const Vec a = v.fdiv(size, of_three(y, v.fsub(size, y, x), v.fneg(size, x)), of_three(x, v.fadd(size, y, x), y));
  const Vec z = v.fmul(size, a, a);
  const Vec series = v.fmul(size, v.fmul(size, z, a), polynomial(z, table(kArctanF32, kArctanF64)));
  const DoubleDouble large = fast_sum(of_three(zero, num(half_pi[0] / 2), num(half_pi[0])), a);
  const Vec low = v.fadd(size, v.fadd(size, large.low, of_three(zero, num(half_pi[1] / 2), num(half_pi[1]))), series);
  // On the left it is pi minus that.
  const Vec turn = v.keep(size, left, v.splat(size, Vasm::sign_bit(size)));
  const DoubleDouble whole = fast_sum(v.keep(size, left, num(half_pi[0] * 2)), v.bit_xor(size, large.high, turn));
  const Vec rest = v.fadd(size, v.keep(size, left, num(half_pi[1] * 2)), v.bit_xor(size, low, turn));
  return v.fadd(size, whole.high, v.fadd(size, whole.low, rest));
}

Vec AngleMath::arctan2(const Vec& y, const Vec& x) {
  const Vec u = v.fabs(size, y), w = v.fabs(size, x), one = num(1.0);
  const Mask rare = v.mask_or(outside(x, 0x1p-150, 0x1p150), outside(y, 0x1p-150, 0x1p150)), left = has_sign(x);
  const Vec sign = sign_of(y);
  const Vec result = v.bit_or(size, angle(v.select(size, rare, one, u), v.select(size, rare, one, w), left), sign);
  rarely(rare, result, [&] {
    const Mask up = infinite(u), across = infinite(w), corner = v.mask_or(up, across);
    const Mask nan = v.mask_or(is_nan(u), is_nan(w)), flat = v.fcmp(size, Cmp::Eq, u, v.zero(size));
    const auto finite = [&](const Vec& number, const Mask& is_infinite) {
      return v.select(size, corner, v.keep(size, is_infinite, one), v.select(size, nan, one, number));
    };
    Vec above = finite(u, up), beside = finite(w, across);
    const Vec scale = v.select(
        size, v.mask_or(v.fcmp(size, Cmp::Gt, above, num(0x1p1000)), v.fcmp(size, Cmp::Gt, beside, num(0x1p1000))),
        num(0.25), one);
    above = v.fmul(size, above, scale);
    beside = v.select(size, v.mask_and(flat, v.mask_not(corner)), one, v.fmul(size, beside, scale));
    const Vec value = v.bit_or(size, angle(above, beside, left), sign);
    return v.select(size, nan, v.select(size, is_nan(u), y, x), value);
  });
  return result;
}

}  // namespace framejit::codegen
