// Own vector math of O1: exp, log, sin, cos, tanh, erf on float32 and float64. Bounds in ulp
// (tests/codegen/test_math.cpp): exp, log, sin, cos: 1.5 (f32), 1 (f64); tanh, erf: 2.5. Flags as NumPy's: overflow and
// underflow of exp by the scaling multiplications, divide of log(0), invalid of log(-1) and sin(inf).
//
// Lanes that would disturb the others (NaN, infinities, subnormals, zeros) compute on a harmless number and get their
// result by a select in the end.
#include <cmath>
#include <span>

#include "codegen/emit_ops.h"
#include "codegen/math_tables.inc"
#include "graph/support/check.h"

namespace framejit::codegen {

using graph::Op;
namespace x86 = asmjit::x86;

namespace {

/// Largest |x| whose multiples of pi/2 are taken off by a three-part constant; above, the bits of 2/pi are multiplied
/// out.
constexpr double kReductionLimit = 1e5;

class MathEmitter {
 public:
  MathEmitter(Vasm& vasm, int element_size) : v(vasm), cc(vasm.cc), size(element_size), f32(element_size == 4) {}

  Vec exp(const Vec& x);
  Vec log(const Vec& x);
  Vec sine(const Vec& x, bool cosine);
  Vec tanh(const Vec& x);
  Vec erf(const Vec& x);

 private:
  Vec num(double value) { return v.splat_f(size, value); }
  Mem mem(double value) { return v.const_mem(size, float_bits(size, value)); }
  std::span<const double> table(std::span<const double> single, std::span<const double> twice) const {
    return f32 ? single : twice;
  }
  /// Coefficients lowest first, in z.
  Vec polynomial(const Vec& z, std::span<const double> c);
  Vec horner(const Vec& z, std::span<const double> c, std::size_t first, std::size_t step);
  Mask not_finite(const Vec& x);
  Mask smaller(const Vec& magnitude, double limit) { return v.fcmp(size, Cmp::Lt, magnitude, num(limit)); }
  /// exp(high + low) with all the range handled by the caller: arguments are finite.
  Vec exp_of(const Vec& high, const Vec* low);
  Vec power_of_two(const Vec& n);
  struct Reduced {
    Vec r, low, quadrant;  // quadrant: integers, the low two bits count
  };
  Reduced reduce(const Vec& x, const Vec& magnitude);
  void reduce_large(const Reduced& out, const Vec& x, const Mask& large);
  void reduce_lane(const Gp& lane);

  static constexpr int kFraction(bool single) { return single ? 23 : 52; }
  /// 1.5 * 2^fraction: adding it leaves a small integer in the low bits.
  double magic() const { return f32 ? 12582912.0 : 6755399441055744.0; }

  Vasm& v;
  x86::Compiler& cc;
  const int size;
  const bool f32;
};

Vec MathEmitter::horner(const Vec& z, std::span<const double> c, std::size_t first, std::size_t step) {
  std::size_t last = first;
  while (last + step < c.size()) last += step;
  const Vec r = v.copy(size, num(c[last]));
  for (std::size_t i = last; i > first; i -= step)
    cc.emit(f32 ? I::kIdVfmadd213ps : I::kIdVfmadd213pd, r, z, mem(c[i - step]));
  return r;
}

Vec MathEmitter::polynomial(const Vec& z, std::span<const double> c) {
  if (c.size() < 6) return horner(z, c, 0, 1);
  // Even and odd powers in two chains, for latency.
  const Vec zz = v.fmul(size, z, z);
  return v.fma(size, horner(zz, c, 1, 2), z, horner(zz, c, 0, 2));
}

Mask MathEmitter::not_finite(const Vec& x) {
  return v.icmp(size, true, Cmp::Ge, v.fabs(size, x), v.splat(size, f32 ? 0x7f800000u : 0x7ff0000000000000u));
}

/// 2^n for an integer n with a normal result.
Vec MathEmitter::power_of_two(const Vec& n) {
  const Vec bits = v.fadd(size, n, mem(magic()));
  return v.iadd(size, v.shl(size, bits, kFraction(f32)), num(1.0));
}

Vec MathEmitter::exp_of(const Vec& high, const Vec* low) {
  const auto ln2 = table(kLn2F32, kLn2F64);
  const Vec n = v.fround(size, v.fmul(size, high, mem(1 / std::log(2.0))), Vasm::kNearest);
  const Vec reduced = v.fnma(size, n, num(ln2[0]), high);  // exact
  const Vec rest = low ? v.fms(size, n, num(ln2[1]), *low) : v.fmul(size, n, mem(ln2[1]));
  const Vec r = v.fsub(size, reduced, rest);
  const Vec error = v.fsub(size, v.fsub(size, reduced, r), rest);
  const Vec tail = v.fma(size, v.fmul(size, r, r), polynomial(r, table(kExpF32, kExpF64)), error);
  // 1 + r + tail, with one rounding that counts.
  const Vec one = num(1.0), sum = v.fadd(size, one, r);
  const Vec lost = v.fadd(size, v.fsub(size, one, sum), r);
  const Vec value = v.fadd(size, sum, v.fadd(size, lost, tail));
  if (v.avx512) return v.op(f32 ? I::kIdVscalefps : I::kIdVscalefpd, size, value, n);
  // Two factors: the product reaches beyond both ends of the range, rounds once and raises what it should.
  const Vec half = v.fround(size, v.fmul(size, n, mem(0.5)), Vasm::kFloor);
  return v.fmul(size, v.fmul(size, value, power_of_two(half)), power_of_two(v.fsub(size, n, half)));
}

Vec MathEmitter::exp(const Vec& x) {
  const Mask special = not_finite(x);
  // A tiny number gives 1 as 0 does, and its products could underflow.
  const Mask tiny = smaller(v.fabs(size, x), f32 ? 0x1p-30 : 0x1p-60);
  const Vec finite = v.select(size, v.mask_or(special, tiny), v.zero(size), x);
  const Vec clipped = v.fmax_x86(size, v.fmin_x86(size, finite, num(f32 ? 100.0 : 720.0)), num(f32 ? -120.0 : -780.0));
  // exp of +inf and NaN is itself, of -inf is 0.
  const Vec kept = v.select(size, v.fcmp(size, Cmp::Lt, x, v.zero(size)), v.zero(size), x);
  return v.select(size, special, kept, exp_of(clipped, nullptr));
}

Vec MathEmitter::log(const Vec& x) {
  const auto ln2 = table(kLn2F32, kLn2F64);
  const int fraction = kFraction(f32);
  const double least_normal = f32 ? 0x1p-126 : 0x1p-1022, lift = f32 ? 0x1p25 : 0x1p54;
  const Vec zero = v.zero(size);
  const Mask is_zero = v.fcmp(size, Cmp::Eq, x, zero), negative = v.fcmp(size, Cmp::Lt, x, zero);
  const Mask pole = v.mask_or(is_zero, negative), special = v.mask_or(pole, not_finite(x));
  const Label regular = cc.newLabel();
  v.branch(pole, false, regular);
  {
    const Label no_zero = cc.newLabel();
    v.branch(is_zero, false, no_zero);
    v.raise_divide();
    cc.bind(no_zero);
    v.branch(negative, false, regular);
    v.raise_invalid();
  }
  cc.bind(regular);
  const Vec positive = v.select(size, special, num(1.0), x);
  const Mask subnormal = smaller(positive, least_normal);
  const Vec normal = v.select(size, subnormal, v.fmul(size, positive, mem(lift)), positive);
  // x = 2^k m with m in [sqrt(1/2), sqrt(2))
  const Vec k_bits = v.sar(size, v.isub(size, normal, num(std::sqrt(0.5))), fraction);
  const Vec m = v.isub(size, normal, v.shl(size, k_bits, fraction));
  const Vec k_raised = v.fsub(size, v.iadd(size, k_bits, num(magic())), num(magic()));
  const Vec k = v.fsub(size, k_raised, v.keep(size, subnormal, num(std::log2(lift))));
  // log(1 + f) = f - f^2/2 + s (f^2/2 + R) with s = f / (2 + f)
  const Vec f = v.fsub(size, m, mem(1.0));
  const Vec s = v.fdiv(size, f, v.fadd(size, f, mem(2.0)));
  const Vec z = v.fmul(size, s, s);
  const Vec series = v.fmul(size, z, polynomial(z, table(kLogF32, kLogF64)));
  const Vec half_square = v.fmul(size, v.fmul(size, f, f), mem(0.5));
  const Vec small = v.fma(size, s, v.fadd(size, half_square, series), v.fmul(size, k, mem(ln2[1])));
  const Vec fraction_log = v.fsub(size, f, v.fsub(size, half_square, small));
  const Vec result = v.fma(size, k, num(ln2[0]), fraction_log);
  const double infinity = HUGE_VAL;
  const Vec at_pole = v.select(size, is_zero, num(-infinity), v.splat(size, f32 ? 0xffc00000u : 0xfff8000000000000u));
  return v.select(size, special, v.select(size, pole, at_pole, x), result);
}

MathEmitter::Reduced MathEmitter::reduce(const Vec& x, const Vec& magnitude) {
  const auto half_pi = table(kPiOver2F32, kPiOver2F64);
  // Tiny numbers have quadrant 0; their product with 2/pi could underflow.
  const Vec sized = v.select(size, smaller(magnitude, 0x1p-20), v.zero(size), x);
  const Vec shifted = v.fma(size, sized, num(2 / M_PI), mem(magic()));
  const Vec n = v.fsub(size, shifted, mem(magic()));
  const Vec first = v.fnma(size, n, num(half_pi[0]), x);  // exact
  const Vec second = v.fmul(size, n, mem(half_pi[1]));
  const Vec second_error = v.fms(size, n, num(half_pi[1]), second);
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

Vec MathEmitter::sine(const Vec& argument, bool cosine) {
  const Vec infinity = v.splat(size, f32 ? 0x7f800000u : 0x7ff0000000000000u);
  const Vec argument_magnitude = v.fabs(size, argument);
  const Mask special = v.icmp(size, true, Cmp::Ge, argument_magnitude, infinity);
  const Mask infinite = v.icmp(size, true, Cmp::Eq, argument_magnitude, infinity);
  const Label no_infinity = cc.newLabel();
  v.branch(infinite, false, no_infinity);
  v.raise_invalid();
  cc.bind(no_infinity);
  const Vec x = v.select(size, special, v.zero(size), argument);
  const Vec magnitude = v.fabs(size, x);
  const Mask large = v.fcmp(size, Cmp::Gt, magnitude, num(kReductionLimit));
  // Lanes for the slow reduction take no part in the fast one, whose products could overflow.
  Reduced reduced = reduce(v.select(size, large, v.zero(size), x), magnitude);
  reduce_large(reduced, x, large);
  const Vec &r = reduced.r, &low = reduced.low;
  // r^2 of a tiny number could underflow, and counts for nothing.
  const Vec sized = v.select(size, smaller(v.fabs(size, r), f32 ? 0x1p-30 : 0x1p-60), v.zero(size), r);
  const Vec z = v.fmul(size, sized, sized), half_z = v.fmul(size, z, mem(0.5));
  const Vec one = num(1.0);
  const Vec sine_cubic = v.fmul(size, v.fmul(size, z, sized), polynomial(z, table(kSinF32, kSinF64)));
  const Vec sine_value = v.fadd(size, r, v.fadd(size, sine_cubic, v.fnma(size, half_z, low, low)));
  const Vec near_one = v.fsub(size, one, half_z);
  const Vec cosine_tail =
      v.fma(size, v.fmul(size, z, z), polynomial(z, table(kCosF32, kCosF64)), v.fneg(size, v.fmul(size, sized, low)));
  const Vec cosine_value =
      v.fadd(size, near_one, v.fadd(size, v.fsub(size, v.fsub(size, one, near_one), half_z), cosine_tail));
  const Vec quadrant = cosine ? v.iadd(size, reduced.quadrant, v.splat(size, 1)) : reduced.quadrant;
  const Mask odd = v.nonzero(size, v.and_const(size, quadrant, 1));
  const Vec sign = v.shl(size, v.and_const(size, quadrant, 2), size * 8 - 2);
  const Vec value = v.bit_xor(size, v.select(size, odd, cosine_value, sine_value), sign);
  // NaN stays itself, infinities give a NaN; and sin(-0) is -0.
  const Vec nan = v.or_const(size, argument, f32 ? 0x7fc00000u : 0x7ff8000000000000u);
  const Vec result = v.select(size, special, nan, value);
  return cosine ? result : v.select(size, v.fcmp(size, Cmp::Eq, argument, v.zero(size)), argument, result);
}

Vec MathEmitter::tanh(const Vec& x) {
  const Mask special = v.fcmp(size, Cmp::Unordered, x, x);
  const Vec number = v.select(size, special, v.zero(size), x);
  const Vec magnitude = v.fmin_x86(size, v.fabs(size, number), num(f32 ? 10.0 : 22.0));
  const Mask is_small = smaller(magnitude, 0.625);
  // x + x^3 T(x^2); tiny numbers stay, without underflow.
  const Mask cubic = v.mask_and(is_small, v.fcmp(size, Cmp::Ge, magnitude, num(f32 ? 0x1p-15 : 0x1p-30)));
  const Vec sized = v.keep(size, cubic, number);
  const Vec z = v.fmul(size, sized, sized);
  const Vec direct = v.fma(size, v.fmul(size, z, polynomial(z, table(kTanhF32, kTanhF64))), sized, number);
  // 1 - 2 / (exp(2 |x|) + 1)
  const Vec beyond = v.fmax_x86(size, magnitude, num(0.625));
  const Vec exponential = exp_of(v.fadd(size, beyond, beyond), nullptr);
  const Vec one = num(1.0);
  const Vec far = v.fsub(size, one, v.fdiv(size, num(2.0), v.fadd(size, exponential, one)));
  const Vec signed_far = v.bit_or(size, far, v.and_const(size, x, Vasm::sign_bit(size)));
  return v.select(size, special, x, v.select(size, is_small, direct, signed_far));
}

Vec MathEmitter::erf(const Vec& x) {
  const Mask special = v.fcmp(size, Cmp::Unordered, x, x);
  const Vec number = v.select(size, special, v.zero(size), x);
  const Vec magnitude = v.fmin_x86(size, v.fabs(size, number), num(f32 ? 4.5 : 6.0));
  const Mask is_small = smaller(magnitude, 1.0);
  const Vec sized = v.select(size, smaller(magnitude, f32 ? 0x1p-15 : 0x1p-30), v.zero(size), number);
  const Vec z = v.fmul(size, sized, sized), inside = v.select(size, is_small, z, v.zero(size));
  // x + x E(x^2); the product of a tiny number is exact enough and may underflow only with it.
  const Vec direct = v.fma(size, polynomial(inside, table(kErfF32, kErfF64)), number, number);
  // 1 - exp(-x^2) Q(1 / (x + 2) - 1/4), with the square in two parts
  const Vec beyond = v.fmax_x86(size, magnitude, num(1.0));
  const Vec t = v.fsub(size, v.fdiv(size, num(1.0), v.fadd(size, beyond, num(2.0))), num(0.25));
  const Vec square = v.fneg(size, v.fmul(size, beyond, beyond));
  const Vec lost = v.fnma(size, beyond, beyond, v.fneg(size, square));
  const Vec exponential = exp_of(square, &lost);
  const Vec far = v.fnma(size, exponential, polynomial(t, table(kErfcF32, kErfcF64)), num(1.0));
  const Vec signed_far = v.bit_or(size, far, v.and_const(size, x, Vasm::sign_bit(size)));
  return v.select(size, special, x, v.select(size, is_small, direct, signed_far));
}

}  // namespace

bool has_math(Op op, DType t) {
  if (t != DType::F32 && t != DType::F64) return false;
  switch (op) {
    case Op::Exp:
    case Op::Log:
    case Op::Sin:
    case Op::Cos:
    case Op::Tanh:
    case Op::Erf: return true;
    default: return false;
  }
}

Vec math(Vasm& v, Op op, int size, const Vec& a) {
  MathEmitter emitter(v, size);
  switch (op) {
    case Op::Exp: return emitter.exp(a);
    case Op::Log: return emitter.log(a);
    case Op::Sin: return emitter.sine(a, false);
    case Op::Cos: return emitter.sine(a, true);
    case Op::Tanh: return emitter.tanh(a);
    case Op::Erf: return emitter.erf(a);
    default: FRAMEJIT_CHECK(false, "no vector math for " + std::string(graph::name_of(op)));
  }
}

}  // namespace framejit::codegen
