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
namespace x86 = asmjit::x86;

/// Largest |x| whose multiples of pi/2 are taken off by a three-part constant; above, the bits of 2/pi are multiplied
/// out.
constexpr double kReductionLimit = 1e5;

Vec MathEmitter::horner(const Vec& z, std::span<const double> c, std::size_t first, std::size_t step) {
  std::size_t last = first;
  while (last + step < c.size()) last += step;
  const Vec r = v.copy(size, num(c[last]));
  for (std::size_t i = last; i > first; i -= step)
    cc.emit(f32 ? I::kIdVfmadd213ps : I::kIdVfmadd213pd, r, z, mem(c[i - step]));
  return r;
}

Vec MathEmitter::polynomial(const Vec& z, std::span<const double> c) {
  if (c.size() < 8) return horner(z, c, 0, 1);
  // Even and odd powers in two chains, for latency.
  const Vec zz = v.fmul(size, z, z);
  return v.fma(size, horner(zz, c, 1, 2), z, horner(zz, c, 0, 2));
}

Mask MathEmitter::not_finite(const Vec& x) { return at_least(v.fabs(size, x), HUGE_VAL); }

/// Not low <= x < high. Signed comparisons are one instruction everywhere.
Mask MathEmitter::beyond(const Vec& x, double low, double high) {
  const uint64_t first = float_bits(size, low), span = float_bits(size, high) - first, sign = Vasm::sign_bit(size);
  return v.igreater(size, v.isub(size, x, v.constant_operand(size, first ^ sign)),
                    v.constant_operand(size, (span - 1) ^ sign));
}

Mask MathEmitter::outside(const Vec& x, double low, double high) { return beyond(v.fabs(size, x), low, high); }

/// |x| < 1/2^60. Raises underflow where x^2 does, since some of NumPy's loops do; where errstate minds, NumPy then
/// decides.
Mask MathEmitter::tiny(const Vec& x) {
  const Mask out = v.icmp(size, true, Cmp::Lt, v.fabs(size, x), num(0x1p-60));
  const Vec number = v.keep(size, out, brief ? num(0x1p-1022) : x);
  v.fmul(size, number, number);
  return out;
}

/// 2^n with a normal result, for an integer n that `magic` was added to.
Vec MathEmitter::power_of_two(const Vec& shifted) {
  return v.iadd(size, v.shl(size, shifted, kFraction(f32)), con(1.0));
}

MathEmitter::Split MathEmitter::split(const Vec& high, const Vec* low, bool whole) {
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

Vec MathEmitter::exp_of(const Vec& high, const Vec* low, bool normal) {
  const Split e = split(high, low);
  // 1 + r (1 + r series): no power of r by itself, which could underflow
  return scaled(v.fma(size, e.r, v.fma(size, e.r, e.series, con(1.0)), con(1.0)), e, normal);
}

/// value 2^n
Vec MathEmitter::scaled(const Vec& value, const Split& e, bool normal) {
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
Vec MathEmitter::exponential(const Vec& x, double limit, double low, double high, F&& f) {
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

Vec MathEmitter::exp(const Vec& x) {
  return exponential(x, f32 ? 87 : 708, f32 ? -120 : -780, f32 ? 100 : 720,
                     [&](const Vec& y, bool normal) { return exp_of(y, nullptr, normal); });
}

Vec MathEmitter::exp2(const Vec& x) {
  return exponential(x, f32 ? 126 : 1022, f32 ? -170 : -1120, f32 ? 140 : 1040, [&](const Vec& y, bool normal) {
    Split e;
    e.shifted = v.fadd(size, y, con(magic()));
    e.n = v.fsub(size, e.shifted, con(magic()));
    e.r = v.fsub(size, y, e.n);  // exact
    return scaled(v.fma(size, e.r, horner(e.r, table(kExp2F32, kExp2F64), 0, 1), con(1.0)), e, normal);
  });
}

/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for a normal x; for other bits anything, without flags.
MathEmitter::Parts MathEmitter::parts(const Vec& x) {
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
Vec MathEmitter::log_near_one(const Vec& f, const Vec* more) {
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
MathEmitter::DoubleDouble MathEmitter::log_in_parts(const Vec& f) {
  const Vec half_square = v.fmul(size, v.fmul(size, f, f), con(0.5));
  const Vec s = v.fdiv(size, f, v.fadd(size, f, con(2.0))), z = v.fmul(size, s, s);
  return fast_sum(f, v.fms(size, s, v.fma(size, z, horner(z, kLogF64, 0, 1), half_square), half_square));
}

/// The logarithm to the operator's base, of what parts() gave.
Vec MathEmitter::log_of(Op op, const Parts& x) {
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
Vec MathEmitter::log(Op op, const Vec& x) {
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
Mask MathEmitter::log_pole(const Vec& x, double pole) {
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
Vec MathEmitter::at_pole(const Vec& x, double pole) {
  const Vec nan = v.splat(size, f32 ? 0xffc00000u : 0xfff8000000000000u);
  const Vec beyond = v.select(size, v.fcmp(size, Cmp::Lt, x, num(pole)), nan, x);
  return v.select(size, v.fcmp(size, Cmp::Eq, x, num(pole)), num(-HUGE_VAL), beyond);
}

/// log(u) + c / u with u + c = 1 + x
Vec MathEmitter::log1p_of(const Vec& x) {
  const Vec one = num(1.0), u = v.fadd(size, x, one), b = v.fsub(size, u, one);
  const Vec c = v.fadd(size, v.fsub(size, x, b), v.fsub(size, one, v.fsub(size, u, b)));
  return v.fadd(size, log_of(Op::Log, parts(u)), v.fdiv(size, c, u));
}

Vec MathEmitter::log1p(const Vec& x) {
  const Mask rare = v.mask_or(outside(x, 0x1p-60, HUGE_VAL), v.icmp(size, false, Cmp::Ge, x, num(-1.0)));
  const Vec result = log1p_of(v.select(size, rare, num(1.0), x));
  rarely(rare, result, [&] {
    tiny(x);
    log_pole(x, -1);
    return at_pole(x, -1);  // tiny numbers are themselves
  });
  return result;
}

MathEmitter::Reduced MathEmitter::reduce(const Vec& x) {
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
void MathEmitter::reduce_lane(const Gp& lane) {
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

void MathEmitter::reduce_large(const Reduced& out, const Vec& x, const Mask& large) {
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

Vec MathEmitter::by_quadrant(Op op, const Vec& quadrants, const Vec& sine_value, const Vec& cosine_value) {
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
Vec MathEmitter::sine_of(const Reduced& reduced, const Vec& sized, Op op) {
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
Vec MathEmitter::short_sine(const Vec& x, Op op) {
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
Vec MathEmitter::sine(Op op, const Vec& argument) {
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

Vec MathEmitter::any_sine(const Vec& argument, Op op) {
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

/// a / b
MathEmitter::DoubleDouble MathEmitter::quotient(const DoubleDouble& a, const DoubleDouble& b) {
  const Vec inverse = v.fdiv(size, num(1.0), b.high), high = v.fmul(size, a.high, inverse);
  const Vec rest = v.fadd(size, v.fnma(size, high, b.high, a.high), v.fnma(size, high, b.low, a.low));
  return {high, v.fmul(size, rest, inverse)};
}

/// exp(x) - 1, for numbers whose square is normal; in float32 the second part is 0.
MathEmitter::DoubleDouble MathEmitter::less_one(const Vec& x) {
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

Vec MathEmitter::tanh(const Vec& x) {
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

Vec MathEmitter::expm1(const Vec& x) {
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
Vec MathEmitter::half_exp(const Vec& magnitude) {
  const Mask special = not_finite(magnitude);
  const Vec finite = v.select(size, special, num(1.0), magnitude);
  Split e = split(v.fmin_x86(size, finite, con(f32 ? 100.0 : 720.0)), nullptr);
  e.n = v.fsub(size, e.n, con(1.0));
  e.shifted = v.fadd(size, e.n, con(magic()));
  const Vec value = v.fma(size, e.r, v.fma(size, e.r, e.series, con(1.0)), con(1.0));
  return v.select(size, special, magnitude, scaled(value, e, false));
}

Vec MathEmitter::sinh(const Vec& x) {
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

Vec MathEmitter::cosh(const Vec& x) {
  const Vec magnitude = v.fabs(size, x);
  const Mask rare = at_least(magnitude, f32 ? 87.0 : 708.0);
  const Vec e = exp_of(v.drop(size, rare, magnitude), nullptr, true);
  const Vec result = v.fma(size, e, con(0.5), v.fdiv(size, num(0.5), e));
  rarely(rare, result, [&] { return half_exp(v.select(size, rare, magnitude, num(1.0))); });
  return result;
}

Vec MathEmitter::arctan(const Vec& x) {
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
Vec MathEmitter::arcsin(const Vec& x, bool cosine) {
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

Vec MathEmitter::erf(const Vec& x) {
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

Vec MathEmitter::hypot(const Vec& x, const Vec& y) {
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

Vec emit_math(MathEmitter emitter, Op op, const Vec& a, const Vec& b) {
  switch (op) {
    case Op::Exp: return emitter.exp(a);
    case Op::Exp2: return emitter.exp2(a);
    case Op::Expm1: return emitter.expm1(a);
    case Op::Log:
    case Op::Log2:
    case Op::Log10: return emitter.log(op, a);
    case Op::Log1p: return emitter.log1p(a);
    case Op::Sin:
    case Op::Cos:
    case Op::Tan: return emitter.sine(op, a);
    case Op::Arcsin: return emitter.arcsin(a, false);
    case Op::Arccos: return emitter.arcsin(a, true);
    case Op::Arctan: return emitter.arctan(a);
    case Op::Sinh: return emitter.sinh(a);
    case Op::Cosh: return emitter.cosh(a);
    case Op::Tanh: return emitter.tanh(a);
    case Op::Erf: return emitter.erf(a);
    case Op::Hypot: return emitter.hypot(a, b);
    case Op::Expit: return emitter.expit(a);
    case Op::Xlogy: return emitter.xlogy(a, b, false);
    case Op::Heaviside: return emitter.heaviside(a, b);
    case Op::Nextafter: return emitter.nextafter(a, b);
    case Op::Power: return emitter.power(a, b);
    case Op::Arctan2: return emitter.arctan2(a, b);
    case Op::Logaddexp: return emitter.logaddexp(a, b, false);
    case Op::Logaddexp2: return emitter.logaddexp(a, b, true);
    case Op::Arcsinh: return emitter.arcsinh(a);
    case Op::Arccosh: return emitter.arccosh(a);
    case Op::Arctanh: return emitter.arctanh(a);
    case Op::Cbrt: return emitter.cbrt(a);
    case Op::Gamma: return emitter.gamma(a);
    case Op::Gammaln: return emitter.gammaln(a);
    case Op::Erfc: return emitter.erfc(a);
    case Op::Ndtr: return emitter.ndtr(a);
    case Op::Logit: return emitter.logit(a);
    case Op::Xlog1py: return emitter.xlogy(a, b, true);
    default: FRAMEJIT_CHECK(false, "no vector math for " + std::string(graph::name_of(op)));
  }
}

}  // namespace

Vec math(Vasm& v, Op op, int size, const Vec& a, const Vec& b) {
  if (size == 8 || has(graph::def(op).own, Own::Math)) return emit_math(MathEmitter(v, size), op, a, b);
  return in_float64(v, a, b, [&](const Vec& x, const Vec& y) { return emit_math(MathEmitter(v, 8, true), op, x, y); });
}

}  // namespace framejit::codegen
