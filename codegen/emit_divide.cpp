// floor_divide, remainder and fmod, on floats and on integers.
#include "codegen/emit_ops.h"

namespace framejit::codegen {

using graph::Op;

namespace {

struct Fmod {
  Vec result;
  Mask invalid;  // lanes in which C's fmod raises invalid
};

/// Exact fmod. While the quotient is too large to be exact, the divisor is scaled by a power of two to some 2^50 (2^21)
/// below the dividend and reduced by; every remainder is exact in a fused multiply-add. Sets flags at random.
Fmod fmod_exact(Vasm& v, int size, const Vec& a, const Vec& b) {
  auto& cc = v.cc;
  const int digits = size == 4 ? 24 : 53, fraction = digits - 1;
  const double exact_limit = size == 4 ? 8388608.0 : 4503599627370496.0;  // 2^(digits - 1)
  const double scale = size == 4 ? 16777216.0 : 9007199254740992.0;       // 2^digits
  const double tiny = size == 4 ? 0x1p-100 : 0x1p-960;
  const uint64_t infinity = size == 4 ? 0x7f800000u : 0x7ff0000000000000u;
  const uint64_t fraction_bits = (uint64_t{1} << fraction) - 1;

  const Vec a_magnitude = v.fabs(size, a), b_magnitude = v.fabs(size, b), inf = v.splat(size, infinity);
  const Mask a_odd = v.icmp(size, true, Cmp::Ge, a_magnitude, inf);  // infinite or NaN
  const Mask b_odd = v.icmp(size, true, Cmp::Ge, b_magnitude, inf);
  const Mask b_zero = v.icmp(size, true, Cmp::Eq, b_magnitude, v.zero(size));
  const Mask special = v.mask_or(v.mask_or(a_odd, b_odd), b_zero);
  const Vec x = v.select(size, special, v.zero(size), a_magnitude);  // reduced in place
  const Vec y = v.select(size, special, v.splat_f(size, 1.0), b_magnitude);
  const Vec quotient = v.fresh(size);
  const auto reduce = [&](const Vec& q, const Vec& divisor) {
    // The quotient may have been rounded up to the next integer: one too many.
    const Vec r = v.fnma(size, v.fround(size, q, Vasm::kTrunc), divisor, x);
    return v.select(size, v.fcmp(size, Cmp::Lt, r, v.zero(size)), v.fadd(size, r, divisor), r);
  };

  const Label again = cc.newLabel(), done = cc.newLabel();
  cc.bind(again);
  cc.emit(size == 4 ? I::kIdVdivps : I::kIdVdivpd, quotient, x, y);
  const Mask big = v.fcmp(size, Cmp::Ge, quotient, v.splat_f(size, exact_limit));
  v.branch(big, false, done);
  {
    const Mask subnormal = v.fcmp(size, Cmp::Lt, y, v.splat_f(size, tiny));
    const Vec normal = v.select(size, subnormal, v.fmul(size, y, v.splat_f(size, scale)), y);
    const Vec significand = v.and_const(size, normal, fraction_bits);
    const Vec wanted = v.isub(size, v.shr(size, x, fraction), v.splat(size, digits - 3));
    const Vec exponent = v.imax(size, true, wanted, v.splat(size, 1));
    const Vec scaled = v.bit_or(size, significand, v.shl(size, exponent, fraction));
    const Vec divisor = v.select(size, big, scaled, y);
    const Vec r = reduce(v.fdiv(size, x, divisor), divisor);
    cc.vmovups(x, v.select(size, big, r, x));
    cc.jmp(again);
  }
  cc.bind(done);
  const Vec r = v.bit_or(size, reduce(quotient, y), v.and_const(size, a, Vasm::sign_bit(size)));

  const Mask b_infinite = v.icmp(size, true, Cmp::Eq, b_magnitude, inf);
  const Mask takes_a = v.mask_and(b_infinite, v.mask_not(a_odd));
  const Vec product = v.fmul(size, a, b);
  const Vec nan = v.fdiv(size, product, product);
  Fmod out;
  out.result = v.select(size, takes_a, a, v.select(size, special, nan, r));
  const Mask unordered = v.fcmp(size, Cmp::Unordered, a, b);
  out.invalid = v.mask_and(special, v.mask_not(v.mask_or(takes_a, unordered)));
  return out;
}

/// fmod with C's flags only: the status word is put back after the reduction.
Vec fmod_clean(Vasm& v, int size, const Vec& a, const Vec& b, bool zero_divisor_invalid) {
  auto& cc = v.cc;
  const Mem status = cc.newStack(4, 4);
  cc.vstmxcsr(status);
  Fmod f = fmod_exact(v, size, a, b);
  cc.vldmxcsr(status);
  if (!zero_divisor_invalid) {
    const Mask b_zero = v.fcmp(size, Cmp::Eq, b, v.zero(size));
    f.invalid = v.mask_and(f.invalid, v.mask_not(b_zero));
  }
  const Label fine = cc.newLabel();
  v.branch(f.invalid, false, fine);
  v.raise_invalid();
  cc.bind(fine);
  return f.result;
}

}  // namespace

Vec divide_float(Vasm& v, Op op, int size, const Vec& a, const Vec& b) {
  const Vec m = fmod_clean(v, size, a, b, op != Op::FloorDivide);
  if (op == Op::Fmod) return m;
  const Vec zero = v.zero(size), sign = v.splat(size, Vasm::sign_bit(size));
  const Mask b_zero = v.fcmp(size, Cmp::Eq, b, zero), m_zero = v.fcmp(size, Cmp::Eq, m, zero);
  const Mask signs_differ = v.icmp(size, true, Cmp::Lt, v.bit_xor(size, m, b), zero);
  const Mask adjust = v.mask_and(signs_differ, v.mask_not(v.mask_or(m_zero, b_zero)));
  if (op == Op::Remainder) {
    const Vec adjusted = v.select(size, adjust, v.fadd(size, m, v.keep(size, adjust, b)), m);
    return v.select(size, m_zero, v.bit_and(size, b, sign), adjusted);
  }
  // NumPy's steps one by one, since their flags are seen: lanes that do not take a step compute on harmless numbers.
  const Vec one = v.splat_f(size, 1.0);
  const Mask b_nonzero = v.mask_not(b_zero);
  const Vec divisor = v.select(size, b_zero, one, b);
  const Vec difference = v.fsub(size, v.keep(size, b_nonzero, a), v.keep(size, b_nonzero, m));
  const Vec d = v.fsub(size, v.fdiv(size, difference, divisor), v.keep(size, adjust, one));
  const Vec floor = v.fround(size, d, Vasm::kFloor);
  const Mask above = v.fcmp(size, Cmp::Gt, v.fsub(size, d, floor), v.splat_f(size, 0.5));
  const Vec rounded = v.fadd(size, floor, v.keep(size, above, one));
  const Mask d_zero = v.fcmp(size, Cmp::Eq, d, zero);
  const Mask plain = v.mask_or(d_zero, b_zero);
  const Vec quotient = v.fdiv(size, v.select(size, plain, a, one), v.select(size, plain, b, one));
  const Vec signed_zero = v.bit_and(size, quotient, sign);
  return v.select(size, b_zero, quotient, v.select(size, d_zero, signed_zero, rounded));
}

Vec divide_int(Vasm& v, Op op, int size, bool is_signed, const Vec& a, const Vec& b) {
  // There is no vector division of integers: one lane after the other. Partial registers have room for whole stores.
  auto& cc = v.cc;
  const Mem a_lanes = v.scratch(0), b_lanes = v.scratch(1);
  v.store(size, a_lanes, a);
  v.store(size, b_lanes, b);
  const Gp i = v.gp(), high = v.gp(), low = v.gp(), divisor = v.gp();
  const auto sized = [&](const Gp& r) { return size == 8 ? Gp(r.r64()) : Gp(r.r32()); };
  const auto element = [&](const Mem& lanes_at) {
    Mem m = lanes_at.cloneAdjusted(0);
    m.setIndex(i, size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3);
    m.setSize(size);
    return m;
  };
  const auto load = [&](const Gp& r, const Mem& from) {
    if (size >= 4) cc.mov(sized(r), from);
    else if (is_signed) cc.movsx(r.r32(), from);
    else cc.movzx(r.r32(), from);
  };
  const Label loop = cc.newLabel(), next = cc.newLabel(), zero = cc.newLabel(), minus_one = cc.newLabel(),
              no_overflow = cc.newLabel();
  cc.xor_(i.r32(), i.r32());
  cc.bind(loop);
  load(low, element(a_lanes));
  load(divisor, element(b_lanes));
  cc.test(sized(divisor), sized(divisor));
  cc.jz(zero);
  const Gp result = v.gp();
  if (is_signed) {
    cc.cmp(sized(divisor), -1);
    cc.je(minus_one);
    cc.mov(sized(high), sized(low));
    cc.sar(sized(high), size == 8 ? 63 : 31);
    cc.idiv(sized(high), sized(low), sized(divisor));
    if (op == Op::Fmod) {
      cc.mov(sized(result), sized(high));
    } else {
      // Round the quotient down where the remainder is not zero and its sign differs from the divisor's.
      const Label same = cc.newLabel();
      const Gp signs = v.gp();
      cc.mov(sized(result), op == Op::FloorDivide ? sized(low) : sized(high));
      cc.test(sized(high), sized(high));
      cc.jz(same);
      cc.mov(sized(signs), sized(high));
      cc.xor_(sized(signs), sized(divisor));
      cc.jns(same);
      if (op == Op::FloorDivide) cc.dec(sized(result));
      else cc.add(sized(result), sized(divisor));
      cc.bind(same);
    }
  } else {
    cc.xor_(high.r32(), high.r32());
    cc.div(sized(high), sized(low), sized(divisor));
    cc.mov(sized(result), op == Op::FloorDivide ? sized(low) : sized(high));
  }
  cc.jmp(next);
  cc.bind(zero);
  cc.xor_(result.r32(), result.r32());
  v.raise_divide();
  cc.jmp(next);
  if (is_signed) {
    cc.bind(minus_one);
    if (op == Op::FloorDivide) {
      cc.mov(sized(result), sized(low));
      cc.neg(sized(result));
      // MIN // -1 stays MIN and counts as overflow.
      const Gp least = v.gp();
      cc.mov(sized(least), asmjit::Imm(static_cast<int64_t>(~uint64_t{0} << (size * 8 - 1))));
      cc.cmp(sized(low), sized(least));
      cc.jne(no_overflow);
      v.raise_overflow();
      cc.bind(no_overflow);
    } else {
      cc.xor_(result.r32(), result.r32());
    }
  }
  cc.bind(next);
  switch (size) {
    case 1: cc.mov(element(a_lanes), result.r8()); break;
    case 2: cc.mov(element(a_lanes), result.r16()); break;
    default: cc.mov(element(a_lanes), sized(result)); break;
  }
  cc.inc(i.r32());
  cc.cmp(i.r32(), v.lanes);
  cc.jb(loop);
  return v.load(size, a_lanes);
}

}  // namespace framejit::codegen
