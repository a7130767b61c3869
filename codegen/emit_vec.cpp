// Vasm: instructions for both vector instruction sets.
#include "codegen/emit_vec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/support/check.h"

namespace framejit::codegen {

using asmjit::Operand;
namespace x86 = asmjit::x86;

uint64_t float_bits(int size, double value) {
  return size == 4 ? std::bit_cast<uint32_t>(static_cast<float>(value)) : std::bit_cast<uint64_t>(value);
}

// --- Registers and constants
// -------------------------------------------------------------------------------------------

Vec Vasm::fresh_bytes(int register_bytes) {
  if (register_bytes <= 16) return cc.newXmm();
  if (register_bytes == 32) return cc.newYmm();
  return cc.newZmm();
}

Vec Vasm::fresh(int size) { return fresh_bytes(bytes(size)); }

Mem Vasm::const_table(const void* data, std::size_t table_bytes) {
  return cc.newConst(asmjit::ConstPoolScope::kGlobal, data, table_bytes);
}

Mem Vasm::large_table(const void* data, std::size_t table_bytes) {
  for (const Table& t : tables_)
    if (t.data == data) return x86::ptr(t.label);
  tables_.push_back({data, table_bytes, cc.newLabel()});
  return x86::ptr(tables_.back().label);
}

void Vasm::emit_tables() {
  for (const Table& t : tables_) {
    cc.bind(t.label);
    cc.embed(t.data, t.size);
  }
}

Mem Vasm::const_mem(int size, uint64_t bits) {
  const int width = std::max(bytes(size), 16);
  if (avx512 && size >= 4) {
    Mem m = const_table(&bits, size);
    switch (width / size) {
      case 2: return m._1to2();
      case 4: return m._1to4();
      case 8: return m._1to8();
      default: return m._1to16();
    }
  }
  uint8_t replicated[64];
  for (int i = 0; i < width; i += size) std::memcpy(replicated + i, &bits, size);
  return const_table(replicated, width);
}

Vec Vasm::zero(int size) {
  const Vec r = fresh(size);
  const Vec x = lower_half(lower_half(r, 64), 32);  // writing xmm clears the rest
  if (avx512) cc.vpxord(r, r, r);
  else cc.vpxor(x, x, x);
  return r;
}

Vec Vasm::ones(int size) {
  if (avx512) {
    const uint32_t all = ~uint32_t{0};
    return broadcast_as(4, size, const_table(&all, 4));
  }
  const Vec r = fresh(size);
  cc.vpcmpeqd(r, r, r);
  return r;
}

Vec Vasm::splat(int size, uint64_t bits) {
  const uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << (size * 8)) - 1;
  bits &= mask;
  if (bits == 0) return zero(size);
  if (bits == mask && !avx512) return ones(size);
  return broadcast(size, const_table(&bits, size));
}

/// Not valid where there are no registers left for it.
Vec Vasm::shared_constant(int size, uint64_t bits) {
  constexpr std::size_t kMost[2] = {4, 12};
  if (bits == 0 || !anchor_ || !sharing_) return {};
  for (const Shared& s : shared_)
    if (s.bytes == bytes(size) && s.size == size && s.bits == bits) return s.vec;
  if (shared_.size() >= kMost[avx512]) return {};
  asmjit::BaseNode* here = cc.setCursor(anchor_);
  const Vec r = splat(size, bits);
  anchor_ = cc.cursor();
  cc.setCursor(here);
  shared_.push_back({bytes(size), size, bits, r});
  return r;
}

Vec Vasm::constant(int size, uint64_t bits) {
  const Vec shared = shared_constant(size, bits);
  return shared.isValid() ? shared : splat(size, bits);
}

asmjit::Operand Vasm::constant_operand(int size, uint64_t bits) {
  const Vec shared = shared_constant(size, bits);
  return shared.isValid() ? asmjit::Operand(shared) : asmjit::Operand(const_mem(size, bits));
}

Vec Vasm::splat_f(int size, double value) { return splat(size, float_bits(size, value)); }

Vec Vasm::copy(int size, const Vec& a) {
  const Vec r = fresh(size);
  cc.vmovups(r, a);
  return r;
}

Mem Vasm::scratch(int slot) {
  Mem& m = scratch_[slot];
  if (m.baseType() == asmjit::RegType::kNone) m = cc.newStack(64, 64);
  return m;
}

// --- Memory
// ------------------------------------------------------------------------------------------------------------

Vec Vasm::load(int size, const Mem& from) {
  const Vec r = fresh(size);
  Mem part = from;  // a constant is 16 bytes or more
  part.setSize(bytes(size));
  switch (bytes(size)) {
    case 1:
    case 2: FRAMEJIT_CHECK(false, "vector of less than four bytes"); break;
    case 4: cc.vmovd(r.xmm(), part); break;
    case 8: cc.vmovq(r.xmm(), part); break;
    default: cc.vmovups(r, from); break;
  }
  return r;
}

void Vasm::store(int size, const Mem& to, const Vec& a) {
  switch (bytes(size)) {
    case 4: cc.vmovd(to, a.xmm()); break;
    case 8: cc.vmovq(to, a.xmm()); break;
    default: cc.vmovups(to, a); break;
  }
}

Vec Vasm::broadcast(int size, const Mem& from) { return broadcast_as(size, size, from); }

Vec Vasm::broadcast_as(int element, int size, const Mem& from) {
  const Vec r = fresh(size);
  cc.emit(by_size(element, I::kIdVpbroadcastb, I::kIdVpbroadcastw, I::kIdVpbroadcastd, I::kIdVpbroadcastq), r, from);
  return r;
}

Vec Vasm::broadcast_gp(int size, const Gp& from) {
  const Vec x = cc.newXmm(), r = fresh(size);
  cc.vmovq(x.xmm(), from.r64());
  cc.emit(by_size(size, I::kIdVpbroadcastb, I::kIdVpbroadcastw, I::kIdVpbroadcastd, I::kIdVpbroadcastq), r, x);
  return r;
}

// --- Arithmetic
// --------------------------------------------------------------------------------------------------------

Vec Vasm::op(InstId id, int size, const Operand& a, const Operand& b) {
  const Vec r = fresh(size);
  cc.emit(id, r, a, b);
  return r;
}

Vec Vasm::op1(InstId id, int size, const Operand& a) {
  const Vec r = fresh(size);
  cc.emit(id, r, a);
  return r;
}

Vec Vasm::bitwise(int size, InstId avx2, InstId evex, const Vec& a, const Operand& b) {
  return op(avx512 ? evex : avx2, size, a, b);
}

Vec Vasm::iadd(int size, const Vec& a, const Operand& b) {
  return op(by_size(size, I::kIdVpaddb, I::kIdVpaddw, I::kIdVpaddd, I::kIdVpaddq), size, a, b);
}
Vec Vasm::isub(int size, const Vec& a, const Operand& b) {
  return op(by_size(size, I::kIdVpsubb, I::kIdVpsubw, I::kIdVpsubd, I::kIdVpsubq), size, a, b);
}

/// Even lanes and odd lanes of `size` bytes are moved into lanes of 2 * size, extended, worked on and put together
/// again.
template <class F>
Vec Vasm::by_halves(int size, bool is_signed, const Vec& a, const Vec& b, F&& f) {
  const int wide = 2 * size, n = size * 8;
  // The lane count halves, but the register stays as wide as it is.
  LaneScope scope(*this, std::max(bytes(size), 16) / wide);
  const uint64_t low = (uint64_t{1} << n) - 1;
  const Vec a_even = is_signed ? sar(wide, shl(wide, a, n), n) : and_const(wide, a, low);
  const Vec a_odd = is_signed ? sar(wide, a, n) : shr(wide, a, n);
  const Vec even = f(a_even, and_const(wide, b, low));
  const Vec odd = f(a_odd, shr(wide, b, n));
  return bit_or(wide, and_const(wide, even, low), shl(wide, odd, n));
}

Vec Vasm::imul(int size, const Vec& a, const Vec& b) {
  switch (size) {
    case 1: return by_halves(1, false, a, b, [&](const Vec& x, const Vec& y) { return imul(2, x, y); });
    case 2: return op(I::kIdVpmullw, 2, a, b);
    case 4: return op(I::kIdVpmulld, 4, a, b);
    default: break;
  }
  if (avx512) return op(I::kIdVpmullq, 8, a, b);
  // (ah * 2^32 + al) * (bh * 2^32 + bl), modulo 2^64
  const Vec low = op(I::kIdVpmuludq, 8, a, b);
  const Vec cross = iadd(8, op(I::kIdVpmuludq, 8, shr(8, a, 32), b), op(I::kIdVpmuludq, 8, a, shr(8, b, 32)));
  return iadd(8, low, shl(8, cross, 32));
}

Vec Vasm::imin(int size, bool is_signed, const Vec& a, const Vec& b) {
  if (size == 8 && !avx512) return select(8, icmp(8, is_signed, Cmp::Lt, a, b), a, b);
  return is_signed ? op(by_size(size, I::kIdVpminsb, I::kIdVpminsw, I::kIdVpminsd, I::kIdVpminsq), size, a, b)
                   : op(by_size(size, I::kIdVpminub, I::kIdVpminuw, I::kIdVpminud, I::kIdVpminuq), size, a, b);
}

Vec Vasm::imax(int size, bool is_signed, const Vec& a, const Vec& b) {
  if (size == 8 && !avx512) return select(8, icmp(8, is_signed, Cmp::Gt, a, b), a, b);
  return is_signed ? op(by_size(size, I::kIdVpmaxsb, I::kIdVpmaxsw, I::kIdVpmaxsd, I::kIdVpmaxsq), size, a, b)
                   : op(by_size(size, I::kIdVpmaxub, I::kIdVpmaxuw, I::kIdVpmaxud, I::kIdVpmaxuq), size, a, b);
}

Vec Vasm::iabs(int size, const Vec& a) {
  if (size == 8 && !avx512) {
    const Vec sign = sar(8, a, 63);
    return isub(8, bit_xor(8, a, sign), sign);
  }
  return op1(by_size(size, I::kIdVpabsb, I::kIdVpabsw, I::kIdVpabsd, I::kIdVpabsq), size, a);
}

Vec Vasm::shl(int size, const Vec& a, int count) {
  return op(by_size(size, I::kIdNone, I::kIdVpsllw, I::kIdVpslld, I::kIdVpsllq), size, a, asmjit::Imm(count));
}
Vec Vasm::shr(int size, const Vec& a, int count) {
  return op(by_size(size, I::kIdNone, I::kIdVpsrlw, I::kIdVpsrld, I::kIdVpsrlq), size, a, asmjit::Imm(count));
}
Vec Vasm::sar(int size, const Vec& a, int count) {
  if (size == 8 && !avx512) {
    // AVX2 has no such shift: shift the bits that differ from the sign.
    const Vec sign = op(I::kIdVpcmpgtq, 8, zero(8), a);
    return bit_xor(8, shr(8, bit_xor(8, a, sign), count), sign);
  }
  return op(by_size(size, I::kIdNone, I::kIdVpsraw, I::kIdVpsrad, I::kIdVpsraq), size, a, asmjit::Imm(count));
}

Vec Vasm::shl_v(int size, const Vec& a, const Vec& counts) {
  if (size >= 4) return op(size == 4 ? I::kIdVpsllvd : I::kIdVpsllvq, size, a, counts);
  if (size == 2 && avx512) return op(I::kIdVpsllvw, 2, a, counts);
  return by_halves(size, false, a, counts, [&](const Vec& x, const Vec& c) { return shl_v(2 * size, x, c); });
}
Vec Vasm::shr_v(int size, const Vec& a, const Vec& counts) {
  if (size >= 4) return op(size == 4 ? I::kIdVpsrlvd : I::kIdVpsrlvq, size, a, counts);
  if (size == 2 && avx512) return op(I::kIdVpsrlvw, 2, a, counts);
  return by_halves(size, false, a, counts, [&](const Vec& x, const Vec& c) { return shr_v(2 * size, x, c); });
}
Vec Vasm::sar_v(int size, const Vec& a, const Vec& counts) {
  if (size == 4) return op(I::kIdVpsravd, 4, a, counts);
  if (size == 8) {
    if (avx512) return op(I::kIdVpsravq, 8, a, counts);
    const Vec sign = op(I::kIdVpcmpgtq, 8, zero(8), a);
    return bit_xor(8, shr_v(8, bit_xor(8, a, sign), counts), sign);
  }
  if (size == 2 && avx512) return op(I::kIdVpsravw, 2, a, counts);
  return by_halves(size, true, a, counts, [&](const Vec& x, const Vec& c) { return sar_v(2 * size, x, c); });
}

Vec Vasm::fsqrt(int size, const Vec& a) { return op1(size == 4 ? I::kIdVsqrtps : I::kIdVsqrtpd, size, a); }

Vec Vasm::fma_op(int size, const InstId (&ids)[4], const Vec& a, const Operand& b, const Operand& c) {
  const Vec r = copy(size, a);
  if (b.isMem()) cc.emit(ids[size == 4 ? 2 : 3], r, c, b);  // the 132 form: r = r * b + c
  else cc.emit(ids[size == 4 ? 0 : 1], r, b, c);            // the 213 form
  return r;
}
Vec Vasm::fma(int size, const Vec& a, const Operand& b, const Operand& c) {
  return fma_op(size, {I::kIdVfmadd213ps, I::kIdVfmadd213pd, I::kIdVfmadd132ps, I::kIdVfmadd132pd}, a, b, c);
}
Vec Vasm::fnma(int size, const Vec& a, const Operand& b, const Operand& c) {
  return fma_op(size, {I::kIdVfnmadd213ps, I::kIdVfnmadd213pd, I::kIdVfnmadd132ps, I::kIdVfnmadd132pd}, a, b, c);
}
Vec Vasm::fms(int size, const Vec& a, const Operand& b, const Operand& c) {
  return fma_op(size, {I::kIdVfmsub213ps, I::kIdVfmsub213pd, I::kIdVfmsub132ps, I::kIdVfmsub132pd}, a, b, c);
}

Vec Vasm::fround(int size, const Vec& a, Rounding mode) {
  const asmjit::Imm imm(mode | 8);  // 8: no inexact flag
  return avx512 ? op(size == 4 ? I::kIdVrndscaleps : I::kIdVrndscalepd, size, a, imm)
                : op(size == 4 ? I::kIdVroundps : I::kIdVroundpd, size, a, imm);
}

// --- Masks
// -------------------------------------------------------------------------------------------------------------

Mask Vasm::fcmp(int size, Cmp predicate, const Vec& a, const Vec& b) {
  const InstId id = size == 4 ? I::kIdVcmpps : I::kIdVcmppd;
  Mask m;
  m.size = size;
  if (avx512) {
    m.k = cc.newKq();
    cc.emit(id, m.k, a, b, asmjit::Imm(kCmpImm[static_cast<int>(predicate)]));
  } else {
    m.v = fresh(size);
    cc.emit(id, m.v, a, b, asmjit::Imm(kCmpImm[static_cast<int>(predicate)]));
  }
  return m;
}

Mask Vasm::icmp_avx2(int size, bool is_signed, Cmp predicate, const Vec& a, const Vec& b) {
  const InstId equal = by_size(size, I::kIdVpcmpeqb, I::kIdVpcmpeqw, I::kIdVpcmpeqd, I::kIdVpcmpeqq);
  const InstId greater = by_size(size, I::kIdVpcmpgtb, I::kIdVpcmpgtw, I::kIdVpcmpgtd, I::kIdVpcmpgtq);
  const auto flip = [&](const Vec& x) { return is_signed ? x : bit_xor(size, x, constant(size, sign_bit(size))); };
  Mask m;
  m.size = size;
  switch (predicate) {
    case Cmp::Eq:
    case Cmp::Ne: m.v = op(equal, size, a, b); break;
    case Cmp::Lt:
    case Cmp::Ge: m.v = op(greater, size, flip(b), flip(a)); break;
    default: m.v = op(greater, size, flip(a), flip(b)); break;  // Gt, Le
  }
  return predicate == Cmp::Ne || predicate == Cmp::Ge || predicate == Cmp::Le ? mask_not(m) : m;
}

Mask Vasm::icmp(int size, bool is_signed, Cmp predicate, const Vec& a, const Vec& b) {
  if (!avx512) return icmp_avx2(size, is_signed, predicate, a, b);
  static constexpr int kImm[] = {0, 4, 1, 2, 6, 5};
  const InstId id = is_signed ? by_size(size, I::kIdVpcmpb, I::kIdVpcmpw, I::kIdVpcmpd, I::kIdVpcmpq)
                              : by_size(size, I::kIdVpcmpub, I::kIdVpcmpuw, I::kIdVpcmpud, I::kIdVpcmpuq);
  Mask m;
  m.k = cc.newKq();
  m.size = size;
  cc.emit(id, m.k, a, b, asmjit::Imm(kImm[static_cast<int>(predicate)]));
  return m;
}

Mask Vasm::igreater(int size, const Vec& a, const Operand& b) {
  Mask m;
  m.size = size;
  if (avx512) {
    m.k = cc.newKq();
    cc.emit(size == 4 ? I::kIdVpcmpd : I::kIdVpcmpq, m.k, a, b, asmjit::Imm(6));
  } else {
    m.v = op(size == 4 ? I::kIdVpcmpgtd : I::kIdVpcmpgtq, size, a, b);
  }
  return m;
}

Mask Vasm::nonzero(int size, const Vec& a) {
  if (!avx512) return icmp(size, true, Cmp::Ne, a, zero(size));
  Mask m;
  m.k = cc.newKq();
  m.size = size;
  cc.emit(by_size(size, I::kIdVptestmb, I::kIdVptestmw, I::kIdVptestmd, I::kIdVptestmq), m.k, a, a);
  return m;
}

Mask Vasm::mask_const(bool value) {
  Mask m;
  if (avx512) {
    m.k = cc.newKq();
    cc.emit(value ? I::kIdKxnorq : I::kIdKxorq, m.k, m.k, m.k);
  } else {
    m.size = std::clamp(32 / lanes, 1, 8);
    m.v = value ? ones(m.size) : zero(m.size);
  }
  return m;
}

Mask Vasm::mask_op(InstId k, InstId v, const Mask& a, const Mask& b) {
  Mask m;
  if (avx512) {
    m.k = cc.newKq();
    m.size = a.size;
    cc.emit(k, m.k, a.k, b.k);
  } else {
    m.size = std::min(a.size, b.size);
    m.v = op(v, m.size, mask_lanes(a, m.size), mask_lanes(b, m.size));
  }
  return m;
}

Mask Vasm::mask_not(const Mask& a) {
  Mask m;
  m.size = a.size;
  if (avx512) {
    m.k = cc.newKq();
    cc.knotq(m.k, a.k);
  } else {
    m.v = op(I::kIdVpxor, a.size, a.v, ones(a.size));
  }
  return m;
}

Vec Vasm::mask_lanes(const Mask& m, int size) {
  if (m.size == size) return m.v;
  return m.size < size ? widen(m.v, m.size, size, true) : narrow(m.v, m.size, size);
}

Vec Vasm::select(int size, const Mask& m, const Vec& a, const Vec& b) {
  if (avx512) {
    // Not vpblendm: the register allocator believes that it reads what the result held before, and keeps that from
    // round to round.
    const Vec r = copy(size, b);
    cc.k(m.k).emit(by_size(size, I::kIdVmovdqu8, I::kIdVmovdqu16, I::kIdVmovdqu32, I::kIdVmovdqu64), r, a);
    return r;
  }
  const Vec r = fresh(size);
  cc.vpblendvb(r, b, a, mask_lanes(m, size));
  return r;
}

Mask Vasm::mask_select(const Mask& m, const Mask& a, const Mask& b) {
  return mask_or(mask_and(m, a), mask_and(mask_not(m), b));
}

Vec Vasm::keep(int size, const Mask& m, const Vec& a) {
  if (!avx512) return op(I::kIdVpand, size, a, mask_lanes(m, size));
  const Vec r = fresh(size);
  cc.k(m.k).z().emit(by_size(size, I::kIdVmovdqu8, I::kIdVmovdqu16, I::kIdVmovdqu32, I::kIdVmovdqu64), r, a);
  return r;
}

Vec Vasm::drop(int size, const Mask& m, const Vec& a) {
  return avx512 ? select(size, m, zero(size), a) : op(I::kIdVpandn, size, mask_lanes(m, size), a);
}

void Vasm::branch(const Mask& m, bool any, const Label& target) {
  const Gp bits = gp();
  if (avx512) {
    // A copy, which is in a register: where a mask is spilled the allocator would put memory in its place, and a
    // general register is not loaded by this instruction. interleave() keeps the two together.
    const auto held = cc.newKq();
    cc.kmovq(held, m.k);
    cc.kmovq(bits, held);
    if (lanes < 64) {  // what lies above the lanes is anything
      if (lanes <= 31) {
        cc.test(bits.r32(), asmjit::Imm((uint32_t{1} << lanes) - 1));
      } else {
        cc.test(bits.r32(), bits.r32());
      }
    } else {
      cc.test(bits, bits);
    }
  } else {
    const int width = bytes(m.size);
    cc.vpmovmskb(bits.r32(), m.v);
    if (width < 16) cc.test(bits.r32(), asmjit::Imm((1u << width) - 1));
    else cc.test(bits.r32(), bits.r32());
  }
  if (any) cc.jnz(target);
  else cc.jz(target);
}

// --- Lane sizes
// --------------------------------------------------------------------------------------------------------

Vec Vasm::widen(const Vec& a, int from, int to, bool is_signed) {
  static constexpr InstId kSigned[] = {I::kIdVpmovsxbw, I::kIdVpmovsxbd, I::kIdVpmovsxbq,
                                       I::kIdVpmovsxwd, I::kIdVpmovsxwq, I::kIdVpmovsxdq};
  static constexpr InstId kUnsigned[] = {I::kIdVpmovzxbw, I::kIdVpmovzxbd, I::kIdVpmovzxbq,
                                         I::kIdVpmovzxwd, I::kIdVpmovzxwq, I::kIdVpmovzxdq};
  const int row = from == 1 ? (to == 2 ? 0 : to == 4 ? 1 : 2) : from == 2 ? (to == 4 ? 3 : 4) : 5;
  return op1(is_signed ? kSigned[row] : kUnsigned[row], to, a);
}

Vec Vasm::narrow(const Vec& a, int from, int to) {
  if (avx512) {
    static constexpr InstId kIds[] = {I::kIdVpmovwb, I::kIdVpmovdb, I::kIdVpmovqb,
                                      I::kIdVpmovdw, I::kIdVpmovqw, I::kIdVpmovqd};
    const int row = to == 1 ? (from == 2 ? 0 : from == 4 ? 1 : 2) : to == 2 ? (from == 4 ? 3 : 4) : 5;
    return op1(kIds[row], to, a);
  }
  if (from > 2 * to) return narrow(narrow(a, from, from / 2), from / 2, to);
  const bool full = bytes(from) == 32;
  if (from == 8) {
    if (!full) return op(I::kIdVpshufd, 4, a, asmjit::Imm(0x08));
    const Vec high = upper_half(a, 32), r = fresh(4);
    cc.vshufps(r, a.xmm(), high, asmjit::Imm(0x88));
    return r;
  }
  static constexpr uint8_t kWords[16] = {0, 1, 4, 5, 8, 9, 12, 13, 128, 128, 128, 128, 128, 128, 128, 128};
  static constexpr uint8_t kBytes[16] = {0, 2, 4, 6, 8, 10, 12, 14, 128, 128, 128, 128, 128, 128, 128, 128};
  const uint8_t* pattern = from == 4 ? kWords : kBytes;
  uint8_t twice[32];
  std::memcpy(twice, pattern, 16);
  std::memcpy(twice + 16, pattern, 16);
  if (!full) return op(I::kIdVpshufb, to, a, const_table(twice, 16));
  const Vec shuffled = op(I::kIdVpshufb, from, a, const_table(twice, 32)), r = cc.newYmm();
  cc.vpermq(r, shuffled, asmjit::Imm(0x08));
  return r.xmm();
}

Vec Vasm::lower_half(const Vec& a, int register_bytes) const {
  if (register_bytes <= 32) return a.xmm();
  return a.isZmm() ? Vec(a.ymm()) : a;
}

Vec Vasm::upper_half(const Vec& a, int register_bytes) {
  if (register_bytes == 64) {
    const Vec r = cc.newYmm();
    cc.vextracti64x4(r, a, asmjit::Imm(1));
    return r;
  }
  const Vec r = cc.newXmm();
  if (avx512) cc.vextracti32x4(r, a.ymm(), asmjit::Imm(1));
  else cc.vextracti128(r, a.ymm(), asmjit::Imm(1));
  return r;
}

Vec Vasm::concat(const Vec& low, const Vec& high, int half_bytes) {
  const Vec r = fresh_bytes(2 * half_bytes);
  if (half_bytes == 32) cc.vinserti64x4(r, low.zmm(), high.ymm(), asmjit::Imm(1));
  else if (avx512) cc.vinserti32x4(r, low.ymm(), high.xmm(), asmjit::Imm(1));
  else cc.vinserti128(r, low.ymm(), high.xmm(), asmjit::Imm(1));
  return r;
}

Vec Vasm::pick(int size, const Vec& a, const Vec& b, const uint64_t (&indices)[16]) {
  uint8_t table[64] = {};
  for (int i = 0; i < lanes; ++i) std::memcpy(table + i * size, &indices[i], static_cast<std::size_t>(size));
  // asmjit 1.9 does not know that vpermi2ps and vpermi2pd read the register of the indices that they write.
  const Vec at = load(size, const_table(table, static_cast<std::size_t>(bytes(size)))), r = fresh(size);
  cc.vmovaps(r, a);
  cc.emit(size == 4 ? I::kIdVpermt2ps : I::kIdVpermt2pd, r, at, b);
  return r;
}

std::pair<Vec, Vec> Vasm::unzip(int size, const Vec& low, const Vec& high) {
  if (avx512 && bytes(size) > 16) {
    uint64_t even[16], odd[16];
    for (int i = 0; i < 16; ++i) even[i] = static_cast<uint64_t>(2 * i), odd[i] = static_cast<uint64_t>(2 * i + 1);
    return {pick(size, low, high, even), pick(size, low, high, odd)};
  }
  const auto part = [&](int imm) {
    const Vec r = fresh(size);
    if (size == 4) cc.vshufps(r, low, high, asmjit::Imm(imm ? 0xdd : 0x88));
    else cc.vshufpd(r, low, high, asmjit::Imm(imm ? 0xf : 0));
    if (bytes(size) == 32) cc.vpermpd(r, r, asmjit::Imm(0xd8));
    return r;
  };
  return {part(0), part(1)};
}

std::pair<Vec, Vec> Vasm::zip(int size, const Vec& even, const Vec& odd) {
  if (avx512 && bytes(size) > 16) {
    uint64_t low[16], high[16];
    const auto n = static_cast<uint64_t>(lanes);
    for (uint64_t i = 0; i < 16; ++i) low[i] = i / 2 + i % 2 * n, high[i] = low[i] + n / 2;
    return {pick(size, even, odd, low), pick(size, even, odd, high)};
  }
  const Vec a = op(size == 4 ? I::kIdVunpcklps : I::kIdVunpcklpd, size, even, odd);
  const Vec b = op(size == 4 ? I::kIdVunpckhps : I::kIdVunpckhpd, size, even, odd);
  if (bytes(size) == 16) return {a, b};
  const Vec low = fresh(size), high = fresh(size);
  cc.vperm2f128(low, a, b, asmjit::Imm(0x20));
  cc.vperm2f128(high, a, b, asmjit::Imm(0x31));
  return {low, high};
}

// --- Flags
// -------------------------------------------------------------------------------------------------------------

void Vasm::raise_divide() {
  const asmjit::x86::Xmm one = cc.newXmm();
  const float values[2] = {1.0f, 0.0f};
  cc.vmovss(one, const_table(&values[0], 4));
  cc.vdivss(one, one, const_table(&values[1], 4));
}

void Vasm::raise_invalid() {
  const asmjit::x86::Xmm nothing = cc.newXmm();
  const float zero_value = 0.0f;
  cc.vmovss(nothing, const_table(&zero_value, 4));
  cc.vdivss(nothing, nothing, nothing);
}

void Vasm::raise_overflow() {
  const asmjit::x86::Xmm huge = cc.newXmm();
  const float value = 3e38f;
  cc.vmovss(huge, const_table(&value, 4));
  cc.vmulss(huge, huge, huge);
}

}  // namespace framejit::codegen
