// Parts of a softmax that sees its row block by block: what was summed before is scaled when a larger element comes.
//
// exp(x) = 2^n (1 + r + r^2 P(r)), x = n ln 2 + r, P as in emit_math.cpp; arguments are never above 0, results below
// the normal numbers are 0 on AVX2.
#include "codegen/attention.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "codegen/assemble.h"
#include "codegen/masked_assembler.h"
#include "codegen/math_tables.inc"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

using detail::Address;
using detail::Label;
using detail::Reg64;
using detail::Xmm;
using detail::Ymm;
using detail::Zmm;

constexpr std::size_t kMaxCode = 16 << 10;

class SoftmaxGenerator : public detail::MaskedAssembler {
 public:
  SoftmaxGenerator(void* buffer, bool avx512) : MaskedAssembler(kMaxCode, buffer, avx512, 4) {
    uint32_t offsets[SoftmaxCore::kParts];
    for (int i = 0; i < SoftmaxCore::kParts; ++i) dd(0);
    for (int part = 0; part < SoftmaxCore::kParts; ++part) {
      align(16);
      offsets[part] = static_cast<uint32_t>(getSize());
      for (int code_byte : {0xf3, 0x0f, 0x1e, 0xfa}) db(code_byte);  // endbr64
      switch (part) {
        case SoftmaxCore::kSoftmax: softmax(); break;
        case SoftmaxCore::kMerge: merge(); break;
        case SoftmaxCore::kGradient: gradient(); break;
        default: divide(); break;
      }
      vzeroupper();
      ret();
    }
    align(64);
    write_mask_table();
    for (auto& [label, value] : constants_) {
      align(64);
      L(label);
      for (int i = 0; i < lanes(); ++i) dd(bits(value));
    }
    for (std::size_t i = 0; i < SoftmaxCore::kParts; ++i) rewrite(i * 4, offsets[i], 4);
  }

 private:
  static uint32_t bits(float value) {
    uint32_t out;
    std::memcpy(&out, &value, 4);
    return out;
  }
  int lanes() const { return avx512_ ? 16 : 8; }
  Xmm vec(int i) const { return avx512_ ? static_cast<Xmm>(Zmm(i)) : static_cast<Xmm>(Ymm(i)); }
  Xmm mask() const { return vec(15); }  // AVX2
  Address constant(double value) {
    for (auto& [label, known] : constants_)
      if (bits(known) == bits(static_cast<float>(value))) return ptr[rip + label];
    constants_.emplace_back(Label(), static_cast<float>(value));
    return ptr[rip + constants_.back().first];
  }
  Address field(std::size_t offset) { return ptr[args + static_cast<int>(offset)]; }

  const Reg64 args = rdi, row = rax, other = r8, left = rcx, scratch = rdx;

  void load_tail(const Xmm& to, const Address& from) { load_masked(to, mask(), from); }
  void store_tail(const Address& to, const Xmm& from) { store_masked(to, mask(), from); }

  /// body(masked) for whole vectors, then for what is left; `pointers` move on.
  template <class F>
  void each_vector(std::initializer_list<Reg64> pointers, F&& body) {
    Label loop, rest, done;
    L(loop);
    cmp(left, lanes());
    jl(rest, T_NEAR);
    body(false);
    for (const Reg64& p : pointers) add(p, 4 * lanes());
    sub(left, lanes());
    jmp(loop, T_NEAR);
    L(rest);
    test(left, left);
    jz(done, T_NEAR);
    lea(r9, ptr[left * 4]);
    set_mask(left, scratch, mask());
    body(true);
    for (const Reg64& p : pointers) add(p, r9);
    L(done);
  }

  template <class F>
  void fold(int i, int spare, F&& combine) {  // all lanes into the first
    if (avx512_) {
      vextractf64x4(Ymm(spare), Zmm(i), 1);
      combine(Ymm(i), Ymm(i), Ymm(spare));
    }
    vextractf128(Xmm(spare), Ymm(i), 1);
    combine(Xmm(i), Xmm(i), Xmm(spare));
    vpermilpd(Xmm(spare), Xmm(i), 1);
    combine(Xmm(i), Xmm(i), Xmm(spare));
    vmovshdup(Xmm(spare), Xmm(i));
    combine(Xmm(i), Xmm(i), Xmm(spare));
  }

  /// x = exp(x), through t, n and p.
  void exp(const Xmm& x, const Xmm& t, const Xmm& n, const Xmm& p) {
    constexpr double kLog2e = 1.4426950408889634, kLn2High = 0.693359375, kLn2Low = -2.12194440e-4,
                     kLeastNormal = -87.336;
    if (!avx512_) vcmpltps(t, x, constant(kLeastNormal));
    vmovups(n, constant(avx512_ ? -110.0 : -87.0));
    vmaxps(x, n, x);
    vmulps(n, x, constant(kLog2e));
    avx512_ ? vrndscaleps(n, n, 0) : vroundps(Ymm(n.getIdx()), Ymm(n.getIdx()), 0);
    vfnmadd231ps(x, n, constant(kLn2High));
    vfnmadd231ps(x, n, constant(kLn2Low));
    vmovups(p, constant(kExpF32[4]));
    for (int i = 3; i >= 0; --i) vfmadd213ps(p, x, constant(kExpF32[i]));
    vmulps(p, p, x);
    vfmadd213ps(p, x, x);
    vaddps(p, p, constant(1.0));
    if (avx512_) return vscalefps(x, p, n);
    vcvtps2dq(n, n);
    vpslld(Ymm(n.getIdx()), Ymm(n.getIdx()), 23);
    vpaddd(n, n, constant(1.0));
    vmulps(x, p, n);
    vandnps(x, t, x);
  }

  void softmax() {
    const Xmm scale = vec(0), most = vec(1), x = vec(2), sum = vec(3), t = vec(4), n = vec(5), p = vec(6),
              less = vec(7);
    Label unmasked, scaled, bounded;
    mov(row, field(offsetof(SoftmaxArgs, row)));
    mov(other, field(offsetof(SoftmaxArgs, other)));
    mov(left, field(offsetof(SoftmaxArgs, live)));
    vbroadcastss(scale, field(offsetof(SoftmaxArgs, scale)));
    vmovups(less, constant(-HUGE_VAL));
    vmovups(most, less);
    const auto score = [&](bool added) {
      each_vector({row, other}, [&](bool masked) {
        masked ? load_tail(x, ptr[row]) : vmovups(x, ptr[row]);
        vmulps(x, x, scale);
        if (added && masked) load_tail(t, ptr[other]), vaddps(x, x, t);
        if (added && !masked) vaddps(x, x, ptr[other]);
        masked ? store_tail(ptr[row], x) : vmovups(ptr[row], x);
        if (masked && avx512_) return vmaxps(most | tail, most, x);
        if (masked) vblendvps(Ymm(x.getIdx()), Ymm(less.getIdx()), Ymm(x.getIdx()), Ymm(mask().getIdx()));
        vmaxps(most, most, x);
      });
    };
    test(other, other);
    jz(unmasked, T_NEAR);
    score(true);
    jmp(scaled, T_NEAR);
    L(unmasked);
    score(false);
    L(scaled);
    fold(most.getIdx(), t.getIdx(), [&](auto... r) { vmaxps(r...); });
    const Xmm old(8), largest(most.getIdx());
    vmovss(old, field(offsetof(SoftmaxArgs, largest)));
    vmaxss(largest, largest, old);
    vmovss(field(offsetof(SoftmaxArgs, largest)), largest);
    // Where nothing counts all differences are -inf: from 0 then.
    vmovd(r10d, largest);
    cmp(r10d, static_cast<int>(bits(-HUGE_VALF)));
    jne(bounded);
    vxorps(largest, largest, largest);
    L(bounded);
    vsubss(Xmm(x.getIdx()), old, largest);
    exp(x, t, n, p);
    vmovss(field(offsetof(SoftmaxArgs, decay)), Xmm(x.getIdx()));
    vbroadcastss(most, largest);
    vxorps(Xmm(sum.getIdx()), Xmm(sum.getIdx()), Xmm(sum.getIdx()));
    mov(row, field(offsetof(SoftmaxArgs, row)));
    mov(left, field(offsetof(SoftmaxArgs, live)));
    each_vector({row}, [&](bool masked) {
      masked ? load_tail(x, ptr[row]) : vmovups(x, ptr[row]);
      vsubps(x, x, most);
      exp(x, t, n, p);
      masked ? store_tail(ptr[row], x) : vmovups(ptr[row], x);
      if (masked && avx512_) return vaddps(sum | tail, sum, x);
      if (masked) vandps(x, x, mask());
      vaddps(sum, sum, x);
    });
    mov(left, field(offsetof(SoftmaxArgs, width)));
    sub(left, field(offsetof(SoftmaxArgs, live)));
    vxorps(Xmm(x.getIdx()), Xmm(x.getIdx()), Xmm(x.getIdx()));
    each_vector({row}, [&](bool masked) { masked ? store_tail(ptr[row], x) : vmovups(ptr[row], x); });
    fold(sum.getIdx(), t.getIdx(), [&](auto... r) { vaddps(r...); });
    vmovss(old, field(offsetof(SoftmaxArgs, sum)));
    vmulss(old, old, field(offsetof(SoftmaxArgs, decay)));
    vaddss(old, old, Xmm(sum.getIdx()));
    vmovss(field(offsetof(SoftmaxArgs, sum)), old);
  }

  void merge() {
    const Xmm decay = vec(0), x = vec(1), y = vec(2);
    mov(row, field(offsetof(SoftmaxArgs, row)));
    mov(other, field(offsetof(SoftmaxArgs, other)));
    mov(left, field(offsetof(SoftmaxArgs, width)));
    vbroadcastss(decay, field(offsetof(SoftmaxArgs, decay)));
    each_vector({row, other}, [&](bool masked) {
      masked ? load_tail(x, ptr[row]) : vmovups(x, ptr[row]);
      masked ? load_tail(y, ptr[other]) : vmovups(y, ptr[other]);
      vfmadd213ps(x, decay, y);
      masked ? store_tail(ptr[row], x) : vmovups(ptr[row], x);
    });
  }

  void divide() {
    const Xmm sum = vec(0), x = vec(1);
    mov(row, field(offsetof(SoftmaxArgs, row)));
    mov(left, field(offsetof(SoftmaxArgs, width)));
    vbroadcastss(sum, field(offsetof(SoftmaxArgs, sum)));
    each_vector({row}, [&](bool masked) {
      masked ? load_tail(x, ptr[row]) : vmovups(x, ptr[row]);
      vdivps(x, x, sum);
      masked ? store_tail(ptr[row], x) : vmovups(ptr[row], x);
    });
  }

  void gradient() {
    const Xmm factor = vec(0), dot = vec(1), scale = vec(2), x = vec(3), y = vec(4);
    mov(row, field(offsetof(SoftmaxArgs, row)));
    mov(other, field(offsetof(SoftmaxArgs, towards)));
    mov(left, field(offsetof(SoftmaxArgs, width)));
    vbroadcastss(factor, field(offsetof(SoftmaxArgs, decay)));
    vbroadcastss(dot, field(offsetof(SoftmaxArgs, sum)));
    vbroadcastss(scale, field(offsetof(SoftmaxArgs, scale)));
    each_vector({row, other}, [&](bool masked) {
      masked ? load_tail(x, ptr[row]) : vmovups(x, ptr[row]);
      masked ? load_tail(y, ptr[other]) : vmovups(y, ptr[other]);
      vmulps(x, x, factor);
      vsubps(y, y, dot);
      masked ? store_tail(ptr[row], x) : vmovups(ptr[row], x);
      vmulps(y, y, x);
      vmulps(y, y, scale);
      masked ? store_tail(ptr[other], y) : vmovups(ptr[other], y);
    });
  }

  std::vector<std::pair<Label, float>> constants_;
};

}  // namespace

Expected<KernelCode, std::string> emit_softmax(Isa isa, bool with_listing) {
  if (isa == Isa::None) return Unexpected{std::string("no vector instruction set")};
  KernelCode out = assemble<SoftmaxGenerator>("softmax_rows", kMaxCode, isa == Isa::Avx512);
  if (with_listing) out.listing = "; " + out.name + ": " + std::to_string(out.bytes.size()) + " bytes\n";
  return out;
}

}  // namespace framejit::codegen
