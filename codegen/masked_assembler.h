// Masked loads and stores for xbyak code: the last vector of a row uses only some of its lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#define XBYAK_NO_OP_NAMES
#include <xbyak/xbyak.h>

namespace framejit::codegen::detail {

using Xbyak::Address;
using Xbyak::Label;
using Xbyak::Opmask;
using Xbyak::Reg64;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

/// Elements have 32 or 64 bits. The mask is in `tail`, or on AVX2 in a vector, `mask`.
class MaskedAssembler : public Xbyak::CodeGenerator {
 protected:
  MaskedAssembler(std::size_t size, void* buffer, bool avx512, int item)
      : CodeGenerator(size, buffer), avx512_(avx512), f32_(item == 4) {}

  void load(const Xmm& to, const Address& from) { f32_ ? vmovups(to, from) : vmovupd(to, from); }
  void store(const Address& to, const Xmm& from) { f32_ ? vmovups(to, from) : vmovupd(to, from); }
  void load_masked(const Xmm& to, const Xmm& mask, const Address& from) {
    if (avx512_) load(to | tail | T_z, from);
    else f32_ ? vmaskmovps(to, mask, from) : vmaskmovpd(to, mask, from);
  }
  void store_masked(const Address& to, const Xmm& mask, const Xmm& from) {
    if (avx512_) store(to | tail, from);
    else f32_ ? vmaskmovps(to, mask, from) : vmaskmovpd(to, mask, from);
  }

  /// The mask of `live` (1..lanes) lanes, into `tail` or `mask`; both registers are overwritten.
  void set_mask(const Reg64& live, const Reg64& scratch, const Xmm& mask) {
    if (avx512_) {
      mov(scratch, -1);
      bzhi(scratch, scratch, live);
      kmovq(tail, scratch);
      return;
    }
    lea(scratch, ptr[rip + mask_table_]);
    neg(live);
    vmovups(mask, ptr[scratch + live * (f32_ ? 4 : 8) + 32]);
  }
  /// Ones before zeros: the mask of n lanes begins n elements before the zeros.
  void write_mask_table() {
    L(mask_table_);
    for (int i = 0; i < 8; ++i) dd(0xffffffffu);
    for (int i = 0; i < 8; ++i) dd(0);
  }

  const bool avx512_, f32_;  // f32_: elements of 32 bits, whatever they are
  const Opmask tail = Xbyak::util::k1;

 private:
  Label mask_table_;
};

}  // namespace framejit::codegen::detail
