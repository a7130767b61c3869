// Casts between bool, the eight integers, float16, float32 and float64, to NumPy's bits.
#include "codegen/emit_ops.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

constexpr double kTwo31 = 2147483648.0, kTwo63 = 9223372036854775808.0;

/// Integers from lanes of one size to lanes of another: two's complement truncation or extension.
Vec resize(Vasm& v, const Vec& a, int from, int to, bool is_signed) {
  if (from == to) return a;
  return from < to ? v.widen(a, from, to, is_signed) : v.narrow(a, from, to);
}

/// AVX2, 64-bit integers to double with one rounding: the halves are placed in the mantissas of 2^52 and of 2^84.
Vec int64_to_f64(Vasm& v, const Vec& a, bool is_signed) {
  const uint64_t high_magic = is_signed ? 0x4530000080000000u : 0x4530000000000000u;
  const uint64_t both_magic = is_signed ? 0x4530000080100000u : 0x4530000000100000u;
  const Vec low_word = v.and_const(8, a, 0xffffffffu);
  const Vec low = v.or_const(8, low_word, 0x4330000000000000u);
  const Vec high = v.xor_const(8, v.shr(8, a, 32), high_magic);
  return v.fadd(8, v.fsub(8, high, v.splat(8, both_magic)), low);
}

/// For a second rounding to float32 to be harmless, the 64-bit integer is first rounded to odd at bit 11 where it has
/// more bits than a double; then both steps together round once.
Vec round_to_odd(Vasm& v, const Vec& a, bool is_signed) {
  const Vec rest = v.and_const(8, a, 0x7ff);
  const Vec kept = v.and_const(8, a, ~uint64_t{0x7ff});
  const Mask inexact = v.nonzero(8, rest);
  const Vec odd = v.select(8, inexact, v.or_const(8, kept, 0x800), kept);
  const Vec magnitude = is_signed ? v.shr(8, v.iadd(8, a, v.splat(8, uint64_t{1} << 53)), 54) : v.shr(8, a, 53);
  return v.select(8, v.nonzero(8, magnitude), odd, a);
}

Vec int_to_float(Vasm& v, DType from, int to, const Vec& a) {
  const int size = graph::size_of(from);
  const bool is_signed = graph::is_signed_int(from);
  if (size <= 2 || (size == 4 && is_signed)) {
    const Vec words = resize(v, a, size, 4, is_signed);
    return v.op1(to == 4 ? I::kIdVcvtdq2ps : I::kIdVcvtdq2pd, to, words);
  }
  if (size == 4) {
    if (v.avx512) return v.op1(to == 4 ? I::kIdVcvtudq2ps : I::kIdVcvtudq2pd, to, a);
    if (to == 8) return v.fadd(8, v.op1(I::kIdVcvtdq2pd, 8, v.xor_const(4, a, 0x80000000u)), v.splat_f(8, kTwo31));
    // Both halves are exact; their sum rounds once.
    const Vec low = v.op1(I::kIdVcvtdq2ps, 4, v.and_const(4, a, 0xffff));
    const Vec high = v.op1(I::kIdVcvtdq2ps, 4, v.shr(4, a, 16));
    return v.fma(4, high, v.splat_f(4, 65536.0), low);
  }
  if (v.avx512) {
    if (to == 4) return v.op1(is_signed ? I::kIdVcvtqq2ps : I::kIdVcvtuqq2ps, 4, a);
    return v.op1(is_signed ? I::kIdVcvtqq2pd : I::kIdVcvtuqq2pd, 8, a);
  }
  if (to == 8) return int64_to_f64(v, a, is_signed);
  return v.op1(I::kIdVcvtpd2ps, 4, int64_to_f64(v, round_to_odd(v, a, is_signed), is_signed));
}

/// cvtt to signed 64 bits; out of range gives 2^63 and raises invalid.
Vec truncate_to_int64(Vasm& v, int from, const Vec& a) {
  if (v.avx512) return v.op1(from == 4 ? I::kIdVcvttps2qq : I::kIdVcvttpd2qq, 8, a);
  const Mem in = v.scratch(0), out = v.scratch(1);
  v.store(from, in, a);
  for (int i = 0; i < v.lanes; ++i) {
    const Gp r = v.gp();
    const Mem element = in.cloneAdjusted(i * from);
    if (from == 4) v.cc.vcvttss2si(r, element);
    else v.cc.vcvttsd2si(r, element);
    v.cc.mov(out.cloneAdjusted(i * 8), r);
  }
  return v.load(8, out);
}

Vec float_to_int(Vasm& v, int from, DType to, const Vec& a) {
  const int size = graph::size_of(to);
  if (size <= 4) {
    // To any integer of up to 32 bits: through int32, then the low bits.
    return resize(v, v.op1(from == 4 ? I::kIdVcvttps2dq : I::kIdVcvttpd2dq, 4, a), 4, size, true);
  }
  if (to == DType::I64) return truncate_to_int64(v, from, a);
  // From 2^63 up: subtract it, convert, flip the top bit. Negative numbers wrap without a flag.
  const Vec limit = v.splat_f(from, kTwo63);
  const Mask big = v.fcmp(from, Cmp::Ge, a, limit);
  const Vec converted = truncate_to_int64(v, from, v.fsub(from, a, v.keep(from, big, limit)));
  return v.bit_xor(8, converted, v.keep(8, big, v.splat(8, Vasm::sign_bit(8))));
}

/// float64 to float32, such that a second rounding to float16 is the only one: the last place of 24 says whether
/// anything lies below.
Vec to_odd_float(Vasm& v, const Vec& a) {
  constexpr uint64_t kBelow = (uint64_t{1} << 29) - 1;
  const Vec kept = v.and_const(8, a, ~kBelow);
  const Vec odd = v.select(8, v.nonzero(8, v.and_const(8, a, kBelow)), v.or_const(8, kept, kBelow + 1), kept);
  return v.op1(I::kIdVcvtpd2ps, 4, odd);
}

}  // namespace

bool has_cast(DType from, DType to) {
  // Out of range, NumPy's float to uint32 depends on the position of the element.
  return !(graph::is_float(from) && to == DType::U32);
}

Value cast(Vasm& v, DType from, DType to, const Value& a) {
  Value r;
  r.valid = true;
  const int source = graph::size_of(from), target = graph::size_of(to);
  if (from == to) return a;
  if (from == DType::F16) {
    r.v = v.op1(I::kIdVcvtph2ps, 4, a.v);
    return cast(v, DType::F32, to, r);
  }
  if (to == DType::F16) {
    const Vec single = from == DType::F64 ? to_odd_float(v, a.v) : cast(v, from, DType::F32, a).v;
    r.v = v.op(I::kIdVcvtps2ph, 2, single, asmjit::Imm(0));
    return r;
  }
  if (to == DType::Bool) {
    r.m = graph::is_float(from) ? v.fcmp(source, Cmp::Ne, a.v, v.zero(source)) : v.nonzero(source, a.v);
  } else if (from == DType::Bool) {
    r.v = v.keep(target, a.m, graph::is_float(to) ? v.splat_f(target, 1.0) : v.splat(target, 1));
  } else if (graph::is_float(from)) {
    if (graph::is_float(to)) r.v = v.op1(target == 8 ? I::kIdVcvtps2pd : I::kIdVcvtpd2ps, target, a.v);
    else r.v = float_to_int(v, source, to, a.v);
  } else if (graph::is_float(to)) {
    r.v = int_to_float(v, from, target, a.v);
  } else {
    r.v = resize(v, a.v, source, target, graph::is_signed_int(from));
  }
  return r;
}

}  // namespace framejit::codegen
