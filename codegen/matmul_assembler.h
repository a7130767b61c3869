// What the parts of a matrix-product core are written with: registers, and instructions on vectors of its elements.
//
// Rows of A are reached through a pointer for every four of them, so that packed and plain, row- and column-major
// blocks of A need no parts of their own. Idle columns raise no flags: AVX-512 masks the arithmetic, AVX2 fills them
// with a live column.
//
// Integers have no fused multiply-add: a product goes through a register, or two, of its own. AVX2 has none to spare
// for those, so that there one register at a time holds an element of A, and one a vector of B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/masked_assembler.h"
#include "codegen/matmul.h"

namespace framejit::codegen::detail {

/// Which registers hold what.
struct MatMulRegisters {
  const Reg64 args = Xbyak::util::rdi;
  // Tiles: a base for every four rows of A, then of C.
  const Reg64 base0 = Xbyak::util::rax, base4 = Xbyak::util::rbx, base8 = Xbyak::util::rbp, base12 = Xbyak::util::r8;
  const Reg64 pitch = Xbyak::util::r10, pitch3 = Xbyak::util::r11, a_k = Xbyak::util::r9, b_at = Xbyak::util::rdx,
              b_k = Xbyak::util::r12, depth = Xbyak::util::rcx, c_tile = Xbyak::util::r13, c_row = Xbyak::util::r14,
              panels = Xbyak::util::r15, ahead = Xbyak::util::rsi;
  const Reg64 b_at_row = Xbyak::util::rcx;  // one row
};

/// Loads, stores and arithmetic of elements, and addresses of rows.
class MatMulAssembler : public MaskedAssembler, protected MatMulRegisters {
 protected:
  MatMulAssembler(std::size_t size, void* buffer, const MatMulCore& core, bool integers,
                  std::optional<NarrowProduct> narrow)
      : MaskedAssembler(size, buffer, core.avx512, core.item), core_(core), integers_(integers), narrow_(narrow) {}

  Address arg(int64_t MatMulArgs::* field) {
    const MatMulArgs sample{};
    return qword[args + (reinterpret_cast<const char*>(&(sample.*field)) - reinterpret_cast<const char*>(&sample))];
  }
  Address arg_a() { return qword[args + offsetof(MatMulArgs, a)]; }
  Address arg_b() { return qword[args + offsetof(MatMulArgs, b)]; }
  Address arg_c() { return qword[args + offsetof(MatMulArgs, c)]; }
  Address arg_bias() { return qword[args + offsetof(MatMulArgs, bias)]; }
  Address arg_reach() { return qword[args + offsetof(MatMulArgs, reach)]; }

  Xmm vec(int i) const {
    if (avx512_ && !half_) return Zmm(i);
    return avx512_ || !half_ ? static_cast<Xmm>(Ymm(i)) : Xmm(i);
  }
  Xmm mask() const { return vec(15); }    // AVX2
  Xmm filler() const { return vec(14); }  // AVX2
  int vector_bytes() const { return half_ ? core_.vector_bytes() / 2 : core_.vector_bytes(); }

  void broadcast(const Xmm& to, const Address& from) {
    if (f32_) vbroadcastss(to, from);
    else if (to.isXMM()) vmovddup(to, from);
    else vbroadcastsd(to.isZMM() ? static_cast<Ymm>(Zmm(to.getIdx())) : Ymm(to.getIdx()), from);
  }
  using CodeGenerator::add;
  void add_vectors(const Xmm& to, const Xmm& x, const Xbyak::Operand& y) {
    if (narrow_ && narrow_ != NarrowProduct::BFloat16) return vpaddd(to, x, y);
    if (integers_) return f32_ ? vpaddd(to, x, y) : vpaddq(to, x, y);
    f32_ ? vaddps(to, x, y) : vaddpd(to, x, y);
  }
  /// `spare`: the first of kSpares registers that integers write.
  void multiply_add(const Xmm& to, const Xmm& x, const Xbyak::Operand& y, int spare) {
    if (narrow_ == NarrowProduct::BFloat16) return vdpbf16ps(to, x, y);
    if (narrow_ == NarrowProduct::Int16) return vpdpwssd(to, x, y);
    if (narrow_ == NarrowProduct::Int8) return vpdpbusd(to, x, y);
    if (!integers_) return f32_ ? vfmadd231ps(to, x, y) : vfmadd231pd(to, x, y);
    const Xmm product = vec(spare), sum = vec(to.getIdx());
    if (f32_) {
      vpmulld(product, x, y);
    } else if (avx512_) {
      vpmullq(product, x, y);
    } else {
      // Of 64 bits: the low halves' product, and those of a low and a high half, whose low half counts.
      const Xmm high = vec(spare + 1);
      vpsrlq(product, x, 32);
      vpmuludq(product, product, y);
      if (y.isMEM()) vmovdqu(high, static_cast<const Address&>(y));
      vpsrlq(high, y.isMEM() ? high : static_cast<const Xmm&>(y), 32);
      vpmuludq(high, high, x);
      vpaddq(product, product, high);
      vpsllq(product, product, 32);
      add_vectors(sum, sum, product);
      vpmuludq(product, x, y);
    }
    add_vectors(to, sum, product);
  }
  /// Elements of a group along k.
  int group() const { return !narrow_ ? 1 : narrow_ == NarrowProduct::Int8 ? 4 : 2; }
  /// Narrow elements as they lie, of which `live` has a bit each.
  void load_elements(const Xmm& to, const Opmask& live, const Address& from) {
    group() == 4 ? vmovdqu8(to | live | T_z, from) : vmovdqu16(to | live | T_z, from);
  }
  /// A vector whose idle lanes are copies of its first one; `filler` is written on AVX2.
  void load_filled(const Xmm& to, const Xmm& filler, const Xmm& mask, const Address& from) {
    if (avx512_) {
      broadcast(to, from);
      load(to | tail, from);
      return;
    }
    load_masked(to, mask, from);
    broadcast(filler, from);
    f32_ ? vblendvps(to, filler, to, mask) : vblendvpd(to, filler, to, mask);
  }
  void zero(const Xmm& r) { avx512_ ? vpxord(r, r, r) : vxorps(r, r, r); }

  /// Address of row `row` from base0 (base4, base8 and base12: four, eight and twelve rows on).
  Address row_address(int row, int displacement = 0) {
    const Reg64& base = row < 4 ? base0 : row < 8 ? base4 : row < 12 ? base8 : base12;
    switch (row % 4) {
      case 0: return ptr[base + displacement];
      case 1: return ptr[base + pitch + displacement];
      case 2: return ptr[base + pitch * 2 + displacement];
      default: return ptr[base + pitch3 + displacement];
    }
  }
  void set_bases(int rows) {
    lea(pitch3, ptr[pitch + pitch * 2]);
    set_further_bases(rows);
  }
  void set_further_bases(int rows) {
    if (rows > 4) lea(base4, ptr[base0 + pitch * 4]);
    if (rows > 8) lea(base8, ptr[base4 + pitch * 4]);
    if (rows > 12) lea(base12, ptr[base8 + pitch * 4]);
  }

  struct Shape {
    int rows, vectors;
    bool masked;
    int acc(int row, int v) const { return row * vectors + v; }
    int free() const { return rows * vectors; }
    bool edge(int v) const { return masked && v + 1 == vectors; }
  };

  Address row_address_broadcast(int row) {
    const Reg64& base = row < 4 ? base0 : row < 8 ? base4 : row < 12 ? base8 : base12;
    switch (row % 4) {
      case 0: return ptr_b[base];
      case 1: return ptr_b[base + pitch];
      case 2: return ptr_b[base + pitch * 2];
      default: return ptr_b[base + pitch3];
    }
  }

  template <class F>
  void each_of_c(const Shape& s, F&& f) {
    for (int row = 0; row < s.rows; ++row)
      for (int v = 0; v < s.vectors; ++v) f(vec(s.acc(row, v)), row_address(row, v * vector_bytes()), s.edge(v));
  }

  /// Of what `f` makes of each register.
  template <class F>
  void store_c(const Shape& s, F&& f) {
    each_of_c(s, [&](const Xmm& acc, const Address& at, bool edge) {
      f(acc);
      edge ? store_masked(at, mask(), acc) : store(at, acc);
    });
  }

  const MatMulCore core_;
  const bool integers_;  // of 32 or 64 bits
  const std::optional<NarrowProduct> narrow_;
  bool half_ = false;
  bool is_streamed_ = false;  // B passes by once for all rows
};

}  // namespace framejit::codegen::detail
