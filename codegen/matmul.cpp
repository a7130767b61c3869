// Parts of a matrix-product core: tiles held in registers along k, the packing that feeds them, dot products, convolutions.
//
//     tile, two vectors:  b0, b1 <- B[k, :]                  four and more:  e[rows] <- A[:, k]
//                         for each row: e <- A[row, k]                       for each vector: b <- B[k, v]
//                           acc[row, :] += e * b0, b1                          acc[:, v] += e[rows] * b
//
// Rows of A are reached through a pointer for every four of them, so that packed and plain, row- and column-major blocks
// of A need no parts of their own. Idle columns raise no flags: AVX-512 masks the arithmetic, AVX2 fills them with a live column.
//
// Integers have no fused multiply-add: a product goes through a register, or two, of its own. AVX2 has none to spare for those, so
// that there one register at a time holds an element of A, and one a vector of B.
#include "codegen/matmul.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define XBYAK_NO_OP_NAMES
#include <xbyak/xbyak.h>

#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

using Xbyak::Address;
using Xbyak::Label;
using Xbyak::Opmask;
using Xbyak::Reg64;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

constexpr std::size_t kMaxCode = 256 << 10;

class MatMulGenerator : public Xbyak::CodeGenerator {
 public:
  MatMulGenerator(void* buffer, const MatMulCore& core, bool integers, std::optional<NarrowProduct> narrow = {})
      : CodeGenerator(kMaxCode, buffer), core_(core), f32_(core.item == 4), avx512_(core.avx512), integers_(integers), narrow_(narrow) {
    std::vector<uint32_t> offsets(MatMulCore::kParts, 0);
    for (int i = 0; i < MatMulCore::kParts; ++i) dd(0);
    auto begin_part = [&](int number) {
      align(16);
      offsets[static_cast<std::size_t>(number)] = static_cast<uint32_t>(getSize());
      for (int code_byte : {0xf3, 0x0f, 0x1e, 0xfa}) db(code_byte);  // endbr64
    };
    for (int vectors : {MatMulCore::kHalf, 1, 2, 4, 8})
      for (int rows = 1; rows <= core.most_rows(vectors); ++rows)
        for (bool masked : {false, true}) {
          if (!core.has_tile(rows, vectors, masked)) continue;
          begin_part(MatMulCore::tile(rows, vectors, masked));
          half_ = vectors == MatMulCore::kHalf;
          tile(rows, half_ ? 1 : vectors, masked);
        }
    half_ = false;
    pack(begin_part);
    if (!narrow_) dots_and_rows(begin_part);
    if (!narrow_ && !integers_) convolutions(begin_part);
    align(32);
    // Ones before zeros: the mask of n lanes begins n elements before the zeros.
    L(mask_table_);
    for (int i = 0; i < 8; ++i) dd(0xffffffffu);
    for (int i = 0; i < 8; ++i) dd(0);
    // What vfixupimm makes of a class of numbers, by Relu: negative ones, and zeros of either sign, become 0.
    L(relu_table_);
    for (uint32_t responses : {0u, 0x08080000u, 0x08080800u})
      for (int i = 0; i < core.item; i += 4) dd(responses);
    for (std::size_t i = 0; i < offsets.size(); ++i) rewrite(i * 4, offsets[i], 4);
  }

 private:
  /// Moves elements, whatever they are.
  template <class F>
  void pack(F&& begin_part) {
    for (int vectors : {1, 2})
      for (bool masked : {false, true}) {
        begin_part(MatMulCore::copy(vectors, masked));
        copy(vectors, masked);
      }
    begin_part(MatMulCore::kTranspose);
    transpose();
  }

  template <class F>
  void dots_and_rows(F&& begin_part) {
    for (int rows = 1; rows <= MatMulCore::kMostDots; ++rows)
      for (int columns = 1; columns <= core_.most_dot_columns(rows); ++columns) {
        begin_part(MatMulCore::dots(rows, columns));
        dots(rows, columns);
      }
    for (int steps = 1; steps <= MatMulCore::kRowDepth; ++steps) {
      begin_part(MatMulCore::row(steps));
      row(steps);
    }
  }

  template <class F>
  void convolutions(F&& begin_part) {
    for (int vectors : {1, 2})
      for (int rows = 1; rows <= core_.most_reached(vectors); ++rows) {
        begin_part(MatMulCore::reached(rows, vectors));
        reached(rows, vectors);
      }
    for (int rows = 1; rows <= MatMulCore::kLineRows; ++rows)
      for (int vectors = 1; vectors <= core_.most_line_vectors(rows); ++vectors) {
        begin_part(MatMulCore::lines(rows, vectors));
        lines(rows, vectors);
      }
    for (int window : MatMulCore::kStencilWindows)
      for (int lines : MatMulCore::kStencilLines)
        for (int vectors = 1; vectors <= core_.most_stencil_vectors(lines); ++vectors) {
          begin_part(MatMulCore::stencils(window, lines, vectors));
          stencils(window, lines, vectors);
        }
    for (int columns = 1; columns <= MatMulCore::kSlideColumns; ++columns)
      for (int rows = 1; rows <= MatMulCore::most_slide_rows(columns); ++rows) {
        begin_part(MatMulCore::slides(rows, columns));
        slides(rows, columns);
      }
  }

  const Reg64 args = rdi;
  // Tiles: a base for every four rows of A, then of C.
  const Reg64 base0 = rax, base4 = rbx, base8 = rbp, base12 = r8;
  const Reg64 pitch = r10, pitch3 = r11, a_k = r9, b_at = rdx, b_k = r12, depth = rcx, c_tile = r13, c_row = r14,
              panels = r15, ahead = rsi;
  const Reg64 b_at_row = rcx;  // one row
  const Opmask tail = k1;

  Address arg(int64_t MatMulArgs::*field) {
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

  void load(const Xmm& to, const Address& from) { f32_ ? vmovups(to, from) : vmovupd(to, from); }
  void store(const Address& to, const Xmm& from) { f32_ ? vmovups(to, from) : vmovupd(to, from); }
  void broadcast(const Xmm& to, const Address& from) {
    if (f32_)
      vbroadcastss(to, from);
    else if (to.isXMM())
      vmovddup(to, from);
    else
      vbroadcastsd(to.isZMM() ? static_cast<Ymm>(Zmm(to.getIdx())) : Ymm(to.getIdx()), from);
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
  void load_masked(const Xmm& to, const Xmm& mask, const Address& from) {
    if (avx512_)
      load(to | tail | T_z, from);
    else
      f32_ ? vmaskmovps(to, mask, from) : vmaskmovpd(to, mask, from);
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
    vmovups(mask, ptr[scratch + live * core_.item + 32]);
  }

  // ---- tiles --------------------------------------------------------------------------------------------------------

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

  void tile(int rows, int vectors, bool masked) {
    const Shape s{rows, vectors, masked};
    Label panel, loop, end, cold, overwrite, plain, stored, finish;
    for (const Reg64& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    if (masked) {
      mov(rcx, arg(&MatMulArgs::live));
      set_mask(rcx, rax, mask());
    }
    mov(a_k, arg(&MatMulArgs::a_k));
    mov(b_k, arg(&MatMulArgs::b_k));
    mov(c_tile, arg_c());
    mov(c_row, arg(&MatMulArgs::c_row));
    mov(panels, arg(&MatMulArgs::panels));
    mov(b_at, arg_b());

    L(panel);
    mov(ptr[rsp - 8], b_at);
    mov(depth, arg(&MatMulArgs::k));
    cmp(depth, kPrefetchDepth);
    jl(cold, T_NEAR);
    mov(pitch, c_row);
    mov(base0, c_tile);
    set_bases(rows);
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v < vectors; v += std::max(1, 64 / vector_bytes())) prefetchw(row_address(row, v * vector_bytes()));
    L(cold);
    for (int i = 0; i < s.free(); ++i) zero(vec(i));
    mov(pitch, arg(&MatMulArgs::a_row));
    mov(base0, arg_a());
    set_bases(rows);
    mov(ahead, arg(&MatMulArgs::b_last));
    mov(ptr[rsp - 16], ahead);
    sub(depth, ahead);
    mov(ahead, arg(&MatMulArgs::b_ahead));
    jz(end, T_NEAR);
    align(32);
    L(loop);
    tile_step(s);
    add(base0, a_k);
    if (rows > 4) add(base4, a_k);
    if (rows > 8) add(base8, a_k);
    if (rows > 12) add(base12, a_k);
    add(b_at, b_k);
    dec(depth);
    jnz(loop, T_NEAR);
    L(end);
    mov(depth, ptr[rsp - 16]);
    mov(qword[rsp - 16], 0);
    xor_(ahead, ahead);
    test(depth, depth);
    jnz(loop, T_NEAR);

    mov(pitch, c_row);
    mov(base0, c_tile);
    set_bases(rows);
    cmp(arg(&MatMulArgs::add), 0);
    je(overwrite, T_NEAR);
    each_of_c(s, [&](const Xmm& acc, const Address& at, bool edge) {
      const Xmm old = vec(s.free());
      if (!edge) {
        add_vectors(acc, acc, at);
      } else if (avx512_) {
        add_vectors(acc | tail, acc, at);
      } else {
        load_filled(old, filler(), mask(), at);
        add_vectors(acc, acc, old);
      }
    });
    L(overwrite);
    const bool finishes = !integers_ && (!narrow_ || narrow_ == NarrowProduct::BFloat16);
    if (finishes) {
      mov(depth, arg_bias());
      or_(depth, arg(&MatMulArgs::relu));
      jnz(finish, T_NEAR);
    }
    L(plain);
    store_c(s, [](const Xmm&) {});
    L(stored);
    add(c_tile, vectors * vector_bytes());
    mov(b_at, ptr[rsp - 8]);
    add(b_at, arg(&MatMulArgs::b_panel));
    dec(panels);
    jnz(panel, T_NEAR);
    for (const Reg64& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
    if (!finishes) return;
    L(finish);
    add_bias(s);
    store_relu(s, stored);
    jmp(plain, T_NEAR);
  }

  // Behind the product the registers of A and B are free.

  void add_bias(const Shape& s) {
    const Reg64 at = depth;
    const Xmm bias = vec(s.free());
    Label none;
    mov(at, arg_bias());
    test(at, at);
    jz(none, T_NEAR);
    add(at, c_tile);
    sub(at, arg_c());
    for (int v = 0; v < s.vectors; ++v) {
      const Address from = ptr[at + v * vector_bytes()];
      s.edge(v) ? load_masked(bias, mask(), from) : load(bias, from);  // a number and the 0 of an idle lane raise nothing
      for (int row = 0; row < s.rows; ++row) add_vectors(vec(s.acc(row, v)), vec(s.acc(row, v)), bias);
    }
    L(none);
  }

  /// Each register is stored as soon as it is done, which hides what it takes: 6 % of a product of 8 k where all are done before.
  void store_relu(const Shape& s, Label& stored) {
    const Reg64 form = ahead, table = depth;
    const Xmm responses = vec(s.free()), zeros = vec(s.free()), kept = vec(s.free() + 1);
    Label none, zero_second;
    mov(form, arg(&MatMulArgs::relu));
    test(form, form);
    jz(none, T_NEAR);
    if (avx512_) {
      lea(table, ptr[rip + relu_table_]);
      broadcast(responses, ptr[table + form * core_.item]);
      store_c(s, [&](const Xmm& acc) { f32_ ? vfixupimmps(acc, acc, responses, 0) : vfixupimmpd(acc, acc, responses, 0); });
    } else {
      const auto store_kept = [&](int predicate) {
        store_c(s, [&](const Xmm& acc) {
          f32_ ? vcmpps(kept, acc, zeros, predicate) : vcmppd(kept, acc, zeros, predicate);
          vandps(acc, acc, kept);
        });
      };
      constexpr int kNotLess = 0x15, kNotLessOrEqual = 0x16;  // quiet, of a NaN true
      zero(zeros);
      cmp(form, static_cast<int>(Relu::ZeroSecond));
      je(zero_second, T_NEAR);
      store_kept(kNotLess);
      jmp(stored, T_NEAR);
      L(zero_second);
      store_kept(kNotLessOrEqual);
    }
    jmp(stored, T_NEAR);
    L(none);
  }

  /// Of what `f` makes of each register.
  template <class F>
  void store_c(const Shape& s, F&& f) {
    each_of_c(s, [&](const Xmm& acc, const Address& at, bool edge) {
      f(acc);
      if (!edge)
        store(at, acc);
      else if (avx512_)
        store(at | tail, acc);
      else
        f32_ ? vmaskmovps(at, mask(), acc) : vmaskmovpd(at, mask(), acc);
    });
  }

  /// One k of a tile.
  void tile_step(const Shape& s, bool prefetching = true) {
    if (integers_ && !avx512_) return sparing_step(s);
    if (s.vectors >= 4) return wide_step(s);
    // The element of A as a broadcast operand; not of int8, where the operands differ in sign.
    const bool embedded = s.vectors == 1 && avx512_ && narrow_ != NarrowProduct::Int8;
    for (int v = 0; v < s.vectors; ++v) {
      const Address from = ptr[b_at + v * vector_bytes()];
      const Xmm b = vec(s.free() + v);
      if (!s.edge(v))
        load(b, from);
      else if (avx512_)
        load_masked(b, mask(), from);
      else
        load_filled(b, filler(), mask(), from);
      if (prefetching && v * vector_bytes() % 64 == 0) prefetcht0(ptr[b_at + ahead + v * vector_bytes()]);
    }
    for (int row = 0; row < s.rows; ++row) {
      const int held = s.free() + s.vectors;
      const Xmm element = vec(integers_ ? held : held + row % 2);
      if (!embedded) broadcast(element, row_address(row));
      for (int v = 0; v < s.vectors; ++v) {
        const Xmm acc = vec(s.acc(row, v)), b = vec(s.free() + v);
        const Xmm to = s.edge(v) && avx512_ ? acc | tail : acc;
        if (embedded)
          multiply_add(to, b, row_address_broadcast(row), held);
        else
          multiply_add(to, element, b, held + 1);
      }
    }
  }

  /// With few registers: what is multiplied is read anew for each product, or each row.
  void sparing_step(const Shape& s) {
    const Xmm b = vec(s.free()), element = vec(s.free() + 1);
    for (int v = 0; v < s.vectors; ++v) {
      const Address from = ptr[b_at + v * vector_bytes()];
      s.edge(v) ? load_masked(b, mask(), from) : load(b, from);
      if (v * vector_bytes() % 64 == 0) prefetcht0(ptr[b_at + ahead + v * vector_bytes()]);
      for (int row = 0; row < s.rows; ++row) {
        broadcast(element, row_address(row));
        multiply_add(vec(s.acc(row, v)), element, b, s.free() + 2);
      }
    }
  }
  Address row_address_broadcast(int row) {
    const Reg64& base = row < 4 ? base0 : row < 8 ? base4 : row < 12 ? base8 : base12;
    switch (row % 4) {
      case 0: return ptr_b[base];
      case 1: return ptr_b[base + pitch];
      case 2: return ptr_b[base + pitch * 2];
      default: return ptr_b[base + pitch3];
    }
  }

  void wide_step(const Shape& s) {
    for (int row = 0; row < s.rows; ++row) broadcast(vec(s.free() + row), row_address(row));
    for (int v = 0; v < s.vectors; ++v) {
      const Address from = ptr[b_at + v * vector_bytes()];
      if (v * vector_bytes() % 64 == 0) prefetcht0(ptr[b_at + ahead + v * vector_bytes()]);
      const int held = s.free() + s.rows;
      if (s.rows == 1) {
        multiply_add(vec(s.acc(0, v)), vec(s.free()), from, held);
        continue;
      }
      const Xmm b = vec(held + (avx512_ && !integers_ ? v % 2 : 0));
      load(b, from);
      for (int row = 0; row < s.rows; ++row) multiply_add(vec(s.acc(row, v)), vec(s.free() + row), b, held + 1);
    }
  }

  template <class F>
  void each_of_c(const Shape& s, F&& f) {
    for (int row = 0; row < s.rows; ++row)
      for (int v = 0; v < s.vectors; ++v) f(vec(s.acc(row, v)), row_address(row, v * vector_bytes()), s.edge(v));
  }

  // ---- packing ------------------------------------------------------------------------------------------------------

  void copy(int vectors, bool masked) {
    const Reg64 from = rax, to = rdx, from_step = r9, to_step = r10, left = rcx, live = r8, scratch = r11;
    Label loop, done;
    if (masked) {
      mov(live, arg(&MatMulArgs::live));
      set_mask(live, scratch, mask());
    }
    mov(from, arg_a());
    mov(to, arg_c());
    mov(from_step, arg(&MatMulArgs::a_k));
    mov(to_step, arg(&MatMulArgs::c_row));
    mov(left, arg(&MatMulArgs::k));
    test(left, left);
    jz(done, T_NEAR);
    L(loop);
    for (int v = 0; v < vectors; ++v) {
      const Address at = ptr[from + v * vector_bytes()];
      if (masked && v + 1 == vectors)
        load_filled(vec(v), filler(), mask(), at);
      else
        load(vec(v), at);
    }
    for (int v = 0; v < vectors; ++v) store(ptr[to + v * vector_bytes()], vec(v));
    add(from, from_step);
    add(to, to_step);
    dec(left);
    jnz(loop);
    L(done);
    vzeroupper();
    ret();
  }

  /// Blocks of lanes x lanes. Pointers to the rows lie in the red zone.
  void transpose() {
    const Reg64 at = rdx, to = r8, to_step = r10, to_step3 = r11, left = rcx, row = rax, last = r9, scratch = rsi;
    const int lanes = core_.lanes;
    Label block, rest, done;
    mov(row, arg_a());
    mov(last, arg(&MatMulArgs::live));
    for (int i = 0; i < lanes; ++i) {
      mov(ptr[rsp - 128 + 8 * i], row);
      mov(scratch, row);
      add(scratch, arg(&MatMulArgs::a_row));
      cmp(last, i + 1);
      cmovg(row, scratch);
    }
    mov(to, arg_c());
    mov(to_step, arg(&MatMulArgs::c_row));
    lea(to_step3, ptr[to_step + to_step * 2]);
    mov(left, arg(&MatMulArgs::k));
    xor_(at, at);
    L(block);
    cmp(left, lanes);
    jl(rest, T_NEAR);
    for (int i = 0; i < lanes; ++i) {
      mov(row, ptr[rsp - 128 + 8 * i]);
      load(vec(i), ptr[row + at]);
    }
    const std::vector<int> columns = transpose_registers();
    auto store_column = [&](int j) {
      const Xmm value = vec(columns[static_cast<std::size_t>(j)]);
      switch (j % 4) {
        case 0: store(ptr[to], value); break;
        case 1: store(ptr[to + to_step], value); break;
        case 2: store(ptr[to + to_step * 2], value); break;
        default:
          store(ptr[to + to_step3], value);
          lea(to, ptr[to + to_step * 4]);
      }
    };
    for (int j = 0; j < lanes; ++j) store_column(j);
    add(at, vector_bytes());
    sub(left, lanes);
    jmp(block, T_NEAR);

    L(rest);
    test(left, left);
    jz(done, T_NEAR);
    const Xmm mask = vec(2 * lanes - 1);  // a temporary of the network, dead until the loads are done
    mov(last, left);
    set_mask(last, scratch, mask);
    for (int i = 0; i < lanes; ++i) {
      mov(row, ptr[rsp - 128 + 8 * i]);
      load_masked(vec(i), mask, ptr[row + at]);
    }
    FRAMEJIT_CHECK(transpose_registers() == columns, "the same network");
    for (int j = 0; j < lanes; ++j) {
      if (j > 0) {
        cmp(left, j);
        jle(done, T_NEAR);
      }
      store_column(j);
    }
    L(done);
    vzeroupper();
    ret();
  }

  /// Transposes registers [0, lanes), with [lanes, 2 lanes) as temporaries; gives the register of each column.
  std::vector<int> transpose_registers() {
    const int lanes = core_.lanes, quads = vector_bytes() / 16, width = lanes / quads;  // width: elements of 128 bits
    std::vector<int> from(static_cast<std::size_t>(lanes)), to(from);
    for (int i = 0; i < lanes; ++i) from[static_cast<std::size_t>(i)] = i, to[static_cast<std::size_t>(i)] = lanes + i;
    const auto in = [&](int i) { return vec(from[static_cast<std::size_t>(i)]); };
    const auto out = [&](int i) { return vec(to[static_cast<std::size_t>(i)]); };
    if (f32_) {
      for (int i = 0; i < lanes; i += 2) {
        vunpcklps(out(i), in(i), in(i + 1));
        vunpckhps(out(i + 1), in(i), in(i + 1));
      }
      std::swap(from, to);
      for (int i = 0; i < lanes; i += 4)
        for (int half = 0; half < 2; ++half) {
          vunpcklpd(out(i + 2 * half), in(i + half), in(i + half + 2));
          vunpckhpd(out(i + 2 * half + 1), in(i + half), in(i + half + 2));
        }
    } else {
      for (int i = 0; i < lanes; i += 2) {
        vunpcklpd(out(i), in(i), in(i + 1));
        vunpckhpd(out(i + 1), in(i), in(i + 1));
      }
    }
    std::swap(from, to);
    // Register width * g + c now holds, in its 128 bits number q, column width * q + c of rows width * g and on.
    if (!avx512_) {
      for (int c = 0; c < width; ++c) {
        const Ymm low(in(c).getIdx()), high(in(width + c).getIdx());
        vperm2f128(Ymm(out(c).getIdx()), low, high, 0x20);
        vperm2f128(Ymm(out(width + c).getIdx()), low, high, 0x31);
      }
      return to;
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (int c = 0; c < width; ++c)
        for (int half = 0; half < 2; ++half) {
          // First pass: even and odd 128-bit parts of neighbours; second: the same of what that gave.
          const int x = pass == 0 ? 2 * half * width + c : half * width + c;
          const int y = pass == 0 ? x + width : x + 2 * width;
          const Zmm left(in(x).getIdx()), right(in(y).getIdx());
          const int even = pass == 0 ? 2 * half * width + c : half * width + c;
          const int odd = pass == 0 ? even + width : even + 2 * width;
          vshuff32x4(Zmm(out(even).getIdx()), left, right, 0x88);
          vshuff32x4(Zmm(out(odd).getIdx()), left, right, 0xdd);
        }
      std::swap(from, to);
    }
    return from;
  }

  // ---- dot products -------------------------------------------------------------------------------------------------

  void dots(int rows, int columns) {
    const Reg64 column = r8, columns_pitch = r9, columns_pitch3 = rdx;
    const auto acc = [&](int row, int j) { return vec(row * columns + j); };
    const auto b = [&](int j) { return vec(rows * columns + j); };
    const Xmm element = vec(rows * columns + columns);
    const int spare = element.getIdx() + 1;
    Label loop, rest, done;
    push(rbx);
    mov(base0, arg_a());
    mov(pitch, arg(&MatMulArgs::a_row));
    set_bases(rows);
    mov(column, arg_b());
    mov(columns_pitch, arg(&MatMulArgs::b_k));
    lea(columns_pitch3, ptr[columns_pitch + columns_pitch * 2]);
    mov(depth, arg(&MatMulArgs::k));
    for (int i = 0; i < rows * columns; ++i) zero(vec(i));
    const auto step = [&](bool masked) {
      for (int j = 0; j < columns; ++j) {
        const Address at = j == 0   ? ptr[column]
                           : j == 1 ? ptr[column + columns_pitch]
                           : j == 2 ? ptr[column + columns_pitch * 2]
                                    : ptr[column + columns_pitch3];
        masked ? load_masked(b(j), mask(), at) : load(b(j), at);
      }
      for (int row = 0; row < rows; ++row) {
        if (columns == 1 && !masked) {
          multiply_add(acc(row, 0), b(0), row_address(row), spare);
          continue;
        }
        masked ? load_masked(element, mask(), row_address(row)) : load(element, row_address(row));
        for (int j = 0; j < columns; ++j) multiply_add(acc(row, j), element, b(j), spare);
      }
    };
    L(loop);
    cmp(depth, core_.lanes);
    jl(rest, T_NEAR);
    step(false);
    add(base0, vector_bytes());
    if (rows > 4) add(base4, vector_bytes());
    add(column, vector_bytes());
    sub(depth, core_.lanes);
    jmp(loop, T_NEAR);
    L(rest);
    test(depth, depth);
    jz(done, T_NEAR);
    set_mask(depth, rsi, mask());
    step(true);
    L(done);
    const Reg64 to = rax;
    mov(rsi, arg_c());
    for (int row = 0; row < rows; ++row) {
      mov(to, rsi);
      for (int j = 0; j < columns; ++j) {
        sum_lanes(acc(row, j), element);
        f32_ ? vmovss(ptr[to], Xmm(acc(row, j).getIdx())) : vmovsd(ptr[to], Xmm(acc(row, j).getIdx()));
        if (j + 1 < columns) add(to, arg(&MatMulArgs::b_panel));
      }
      if (row + 1 < rows) add(rsi, arg(&MatMulArgs::c_row));
    }
    pop(rbx);
    vzeroupper();
    ret();
  }

  /// The sum of all lanes into the first one: halves are added.
  void sum_lanes(const Xmm& r, const Xmm& scratch) {
    const int x = r.getIdx(), y = scratch.getIdx();
    if (avx512_) {
      vextractf64x4(Ymm(y), Zmm(x), 1);
      add_vectors(Ymm(x), Ymm(x), Ymm(y));
      vextractf64x2(Xmm(y), Ymm(x), 1);
    } else {
      vextractf128(Xmm(y), Ymm(x), 1);
    }
    add_vectors(Xmm(x), Xmm(x), Xmm(y));
    vpermilpd(Xmm(y), Xmm(x), 1);
    add_vectors(Xmm(x), Xmm(x), Xmm(y));
    if (!f32_) return;
    vmovshdup(Xmm(y), Xmm(x));
    add_vectors(Xmm(x), Xmm(x), Xmm(y));
  }

  // ---- one row --------------------------------------------------------------------------------------------------------

  /// Rows of B are read from end to end, so that what fetches ahead of the program is not stopped by the pages of a column.
  void row(int steps) {
    const Reg64 c = rax, left = r8, b3 = r9, b4 = r11, b7 = rdx, scratch = rsi;
    const auto a = [&](int i) { return vec(4 + i); };
    constexpr int kSpare = 4 + MatMulCore::kRowDepth;
    Label loop, single, rest, done;
    mov(scratch, arg_a());
    mov(c, arg(&MatMulArgs::a_k));
    for (int i = 0; i < steps; ++i) {
      broadcast(a(i), ptr[scratch]);
      if (i + 1 < steps) add(scratch, c);
    }
    mov(c, arg_c());
    mov(left, arg(&MatMulArgs::live));
    mov(b_at_row, arg_b());
    mov(pitch, arg(&MatMulArgs::b_k));
    lea(b3, ptr[pitch + pitch * 2]);
    lea(b4, ptr[b_at_row + pitch * 4]);
    lea(b7, ptr[b4 + b3]);
    const auto at = [&](int i, int v) {
      const int by = v * vector_bytes();
      switch (i) {
        case 0: return ptr[b_at_row + by];
        case 1: return ptr[b_at_row + pitch + by];
        case 2: return ptr[b_at_row + pitch * 2 + by];
        case 3: return ptr[b_at_row + b3 + by];
        case 4: return ptr[b4 + by];
        case 5: return ptr[b4 + pitch + by];
        case 6: return ptr[b4 + pitch * 2 + by];
        default: return ptr[b7 + by];
      }
    };
    const auto block = [&](int vectors) {
      Label overwrite, start;
      cmp(arg(&MatMulArgs::add), 0);
      je(overwrite);
      for (int v = 0; v < vectors; ++v) load(vec(v), ptr[c + v * vector_bytes()]);
      jmp(start);
      L(overwrite);
      for (int v = 0; v < vectors; ++v) zero(vec(v));
      L(start);
      for (int i = 0; i < steps; ++i)
        for (int v = 0; v < vectors; ++v) multiply_add(vec(v), a(i), at(i, v), kSpare);
      for (int v = 0; v < vectors; ++v) store(ptr[c + v * vector_bytes()], vec(v));
      for (const Reg64& r : {c, b_at_row, b4, b7}) add(r, vectors * vector_bytes());
      sub(left, vectors * core_.lanes);
    };
    L(loop);
    cmp(left, 4 * core_.lanes);
    jl(single, T_NEAR);
    block(4);
    jmp(loop, T_NEAR);
    L(single);
    cmp(left, core_.lanes);
    jl(rest, T_NEAR);
    block(1);
    jmp(single, T_NEAR);
    L(rest);
    test(left, left);
    jz(done, T_NEAR);
    set_mask(left, scratch, mask());
    Label overwrite;
    zero(vec(0));
    cmp(arg(&MatMulArgs::add), 0);
    je(overwrite);
    load_filled(vec(0), filler(), mask(), ptr[c]);
    L(overwrite);
    for (int i = 0; i < steps; ++i) {
      load_filled(vec(1), filler(), mask(), at(i, 0));
      multiply_add(vec(0), a(i), vec(1), kSpare);
    }
    if (avx512_)
      store(ptr[c] | tail, vec(0));
    else
      f32_ ? vmaskmovps(ptr[c], mask(), vec(0)) : vmaskmovpd(ptr[c], mask(), vec(0));
    L(done);
    vzeroupper();
    ret();
  }

  // ---- convolutions -----------------------------------------------------------------------------------------------------

  /// The table takes the place of a distance between two k; tiles stand below each other, with B the same for all.
  void reached(int rows, int vectors) {
    const Shape s{rows, vectors, false};
    const Reg64 reach = r9, origin = rsi;
    Label panel, loop, done, overwrite;
    for (const Reg64& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    mov(b_k, arg(&MatMulArgs::b_k));
    mov(origin, arg_a());
    mov(c_tile, arg_c());
    mov(c_row, arg(&MatMulArgs::c_row));
    mov(panels, arg(&MatMulArgs::panels));
    L(panel);
    for (int i = 0; i < s.free(); ++i) zero(vec(i));
    mov(b_at, arg_b());
    mov(reach, arg_reach());
    mov(pitch, arg(&MatMulArgs::a_row));
    lea(pitch3, ptr[pitch + pitch * 2]);
    mov(depth, arg(&MatMulArgs::k));
    test(depth, depth);
    jz(done, T_NEAR);
    align(32);
    L(loop);
    mov(base0, ptr[reach]);
    add(base0, origin);
    set_further_bases(rows);
    tile_step(s, false);
    add(reach, 8);
    add(b_at, b_k);
    dec(depth);
    jnz(loop, T_NEAR);
    L(done);
    mov(pitch, c_row);
    mov(base0, c_tile);
    set_bases(rows);
    cmp(arg(&MatMulArgs::add), 0);
    je(overwrite, T_NEAR);
    each_of_c(s, [&](const Xmm& acc, const Address& at, bool) { add_vectors(acc, acc, at); });
    L(overwrite);
    each_of_c(s, [&](const Xmm& acc, const Address& at, bool) { store(at, acc); });
    imul(rax, arg(&MatMulArgs::a_row), rows);
    add(origin, rax);
    imul(rax, c_row, rows);
    add(c_tile, rax);
    dec(panels);
    jnz(panel, T_NEAR);
    for (const Reg64& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
  }

  void lines(int rows, int vectors) {
    const Reg64 reach = r9, origin = rsi;
    const auto acc = [&](int row, int v) { return vec(row * vectors + v); };
    const auto element = [&](int row) { return vec(rows * vectors + row); };
    const Xmm b = vec(rows * vectors + rows);
    const bool embedded = rows == 1;
    Label line, loop, done;
    for (const Reg64& r : {r12, r13, r14, r15}) push(r);
    mov(b_k, arg(&MatMulArgs::b_panel));
    mov(origin, arg_b());
    mov(c_tile, arg_c());
    mov(c_row, arg(&MatMulArgs::c_panel));
    mov(panels, arg(&MatMulArgs::panels));
    L(line);
    for (int i = 0; i < rows * vectors; ++i) zero(vec(i));
    mov(base0, arg_a());
    mov(pitch, arg(&MatMulArgs::a_row));
    set_bases(rows);
    mov(reach, arg_reach());
    mov(depth, arg(&MatMulArgs::k));
    test(depth, depth);
    jz(done, T_NEAR);
    align(16);
    L(loop);
    mov(b_at, ptr[reach]);
    for (int row = 0; row < rows; ++row) broadcast(element(row), row_address(row));
    for (int v = 0; v < vectors; ++v) {
      const Address from = ptr[b_at + origin + v * vector_bytes()];
      if (!embedded) load(b, from);
      for (int row = 0; row < rows; ++row)
        embedded ? multiply_add(acc(row, v), element(row), from, 0) : multiply_add(acc(row, v), element(row), b, 0);
    }
    add(reach, 8);
    add(base0, core_.item);
    dec(depth);
    jnz(loop, T_NEAR);

    L(done);
    mov(pitch, arg(&MatMulArgs::c_row));
    store_lines(rows, vectors);
    add(origin, b_k);
    add(c_tile, c_row);
    dec(panels);
    jnz(line, T_NEAR);
    for (const Reg64& r : {r15, r14, r13, r12}) pop(r);
    vzeroupper();
    ret();
  }

  /// Sums in the first registers to rows from `c_tile` on, `pitch` apart; those behind them are overwritten.
  void store_lines(int rows, int vectors) {
    const Reg64 live = r9, scratch = r8;
    const Xmm last_lanes = vec(rows * vectors);
    Label whole, stored;
    mov(base0, c_tile);
    set_bases(rows);
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v + 1 < vectors; ++v) store(row_address(row, v * vector_bytes()), vec(row * vectors + v));
    const auto last = [&](int row) { return row_address(row, (vectors - 1) * vector_bytes()); };
    mov(live, arg(&MatMulArgs::live));
    cmp(live, core_.lanes);
    je(whole, T_NEAR);
    set_mask(live, scratch, last_lanes);
    for (int row = 0; row < rows; ++row) {
      const Xmm& from = vec((row + 1) * vectors - 1);
      if (avx512_)
        store(last(row) | tail, from);
      else
        f32_ ? vmaskmovps(last(row), last_lanes, from) : vmaskmovpd(last(row), last_lanes, from);
    }
    jmp(stored, T_NEAR);
    L(whole);
    for (int row = 0; row < rows; ++row) store(last(row), vec((row + 1) * vectors - 1));
    L(stored);
  }

  /// A line of B meets the line of the window that lies on it, for each line of C.
  void stencils(int window, int lines, int vectors) {
    const Reg64 a_line = r8, a_line3 = r9, a_column = rax, b_line = rbx, column = rcx, step = rsi, origin = r14;
    const auto acc = [&](int line, int v) { return vec(line * vectors + v); };
    const auto weight = [&](int line) { return vec(lines * vectors + line); };
    const Xmm b = vec(lines * vectors + lines);
    Label block;
    for (const Reg64& r : {rbx, r12, r13, r14, r15}) push(r);
    mov(b_k, arg(&MatMulArgs::b_k));
    mov(origin, arg_b());
    mov(c_tile, arg_c());
    mov(panels, arg(&MatMulArgs::panels));
    mov(step, arg(&MatMulArgs::a_row));
    L(block);
    for (int i = 0; i < lines * vectors; ++i) zero(vec(i));
    mov(a_line, arg(&MatMulArgs::a_k));
    lea(a_line3, ptr[a_line + a_line * 2]);
    mov(b_line, origin);
    for (int at = 0; at < lines + window - 1; ++at) {
      const int first = std::max(0, at - window + 1), end = std::min(lines, at + 1);
      Label loop;
      mov(a_column, arg_a());
      mov(b_at, b_line);
      mov(column, arg(&MatMulArgs::k));
      L(loop);
      for (int line = first; line < end; ++line)
        switch (at - line) {
          case 0: broadcast(weight(line), ptr[a_column]); break;
          case 3: broadcast(weight(line), ptr[a_column + a_line3]); break;
          default: broadcast(weight(line), ptr[a_column + a_line * (at - line)]);
        }
      for (int v = 0; v < vectors; ++v) {
        load(b, ptr[b_at + v * vector_bytes()]);
        for (int line = first; line < end; ++line) multiply_add(acc(line, v), weight(line), b, 0);
      }
      add(a_column, core_.item);
      add(b_at, step);
      dec(column);
      jnz(loop);
      add(b_line, b_k);
    }
    mov(pitch, arg(&MatMulArgs::c_panel));
    store_lines(lines, vectors);
    for (int line = 0; line < lines; ++line) add(origin, b_k), add(c_tile, pitch);
    dec(panels);
    jnz(block, T_NEAR);
    for (const Reg64& r : {r15, r14, r13, r12, rbx}) pop(r);
    vzeroupper();
    ret();
  }

  void slides(int rows, int columns) {
    const Reg64 bases[] = {rax, rbx, rbp, r8}, moved[] = {r9, r10, r11, r12, r13}, b_line = r15, lines_left = r14, origin = rsi;
    const auto acc = [&](int row, int column) { return vec(row * columns + column); };
    const Xmm b = vec(13), element = vec(14);
    Label line, loop, rest, done, no_rest, overwrite;
    for (const Reg64& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    mov(depth, arg(&MatMulArgs::k));
    and_(depth, core_.lanes - 1);
    jz(no_rest);
    set_mask(depth, rax, mask());
    L(no_rest);
    for (int i = 0; i < rows * columns; ++i) zero(vec(i));
    mov(rax, arg_reach());
    for (int i = 0; i < columns; ++i) mov(moved[i], ptr[rax + 8 * i]);
    mov(origin, arg_a());
    mov(b_line, arg_b());
    mov(lines_left, arg(&MatMulArgs::panels));
    const auto step = [&](bool masked) {
      masked ? load_masked(b, mask(), ptr[b_at]) : load(b, ptr[b_at]);
      for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column) {
          const Address from = ptr[bases[row] + moved[column]];
          if (masked) load_masked(element, mask(), from);
          masked ? multiply_add(acc(row, column), b, element, 0) : multiply_add(acc(row, column), b, from, 0);
        }
    };
    L(line);
    mov(bases[0], origin);
    for (int row = 1; row < rows; ++row) {
      mov(bases[row], bases[row - 1]);
      add(bases[row], arg(&MatMulArgs::a_row));
    }
    mov(b_at, b_line);
    mov(depth, arg(&MatMulArgs::k));
    sub(depth, core_.lanes);
    jl(rest, T_NEAR);
    align(16);
    L(loop);
    step(false);
    for (int row = 0; row < rows; ++row) add(bases[row], vector_bytes());
    add(b_at, vector_bytes());
    sub(depth, core_.lanes);
    jge(loop, T_NEAR);
    L(rest);
    add(depth, core_.lanes);
    jz(done, T_NEAR);
    step(true);
    L(done);
    add(origin, arg(&MatMulArgs::a_k));
    add(b_line, arg(&MatMulArgs::b_panel));
    dec(lines_left);
    jnz(line, T_NEAR);

    const auto each_sum = [&](auto&& f) {
      mov(origin, arg_c());
      for (int row = 0; row < rows; ++row) {
        mov(rax, origin);
        for (int column = 0; column < columns; ++column) {
          f(Xmm(acc(row, column).getIdx()));
          if (column + 1 < columns) add(rax, arg(&MatMulArgs::c_panel));
        }
        if (row + 1 < rows) add(origin, arg(&MatMulArgs::c_row));
      }
    };
    for (int i = 0; i < rows * columns; ++i) sum_lanes(vec(i), element);
    cmp(arg(&MatMulArgs::add), 0);
    je(overwrite, T_NEAR);
    each_sum([&](const Xmm& sum) { f32_ ? vaddss(sum, sum, ptr[rax]) : vaddsd(sum, sum, ptr[rax]); });
    L(overwrite);
    each_sum([&](const Xmm& sum) { f32_ ? vmovss(ptr[rax], sum) : vmovsd(ptr[rax], sum); });
    for (const Reg64& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
  }

  static constexpr int kPrefetchDepth = 32;  // below it, C is as near as the operands
  const MatMulCore core_;
  const bool f32_, avx512_;  // f32_: elements of 32 bits, whatever they are
  const bool integers_;      // of a 32 or 64 bits
  const std::optional<NarrowProduct> narrow_;
  bool half_ = false;
  Label mask_table_, relu_table_;
};

KernelCode assemble(std::string name, const MatMulCore& core, bool integers, std::optional<NarrowProduct> narrow) {
  // Written into memory of our own, which is never executable; the code is position independent.
  std::vector<uint8_t> buffer(kMaxCode);
  KernelCode out;
  out.name = std::move(name);
  try {
    const MatMulGenerator generator(buffer.data(), core, integers, narrow);
    out.bytes.assign(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(generator.getSize()));
  } catch (const Xbyak::Error& error) {
    FRAMEJIT_CHECK(false, error.what());
  }
  return out;
}

}  // namespace

Expected<KernelCode, std::string> emit_matmul(graph::DType dtype, Isa isa, bool with_listing) {
  if (isa == Isa::None) return Unexpected{std::string("no vector instruction set")};
  if (!has_matmul(dtype)) return Unexpected{"matrix product of " + std::string(graph::name_of(dtype))};
  const MatMulCore core(dtype, isa == Isa::Avx512);
  KernelCode out = assemble("matmul_" + std::string(graph::name_of(dtype)), core, graph::is_int(dtype), {});
  if (with_listing)
    out.listing = "; " + out.name + ": " + std::to_string(core.most_rows(2)) + " rows x 2 " +
                  (isa == Isa::Avx512 ? "zmm, " : "ymm, ") + std::to_string(out.bytes.size()) + " bytes\n";
  return out;
}

Expected<KernelCode, std::string> emit_narrow_matmul(NarrowProduct kind, const Cpu& cpu) {
  const bool bf16 = kind == NarrowProduct::BFloat16;
  if (!(bf16 ? cpu.avx512_bf16 : cpu.vnni)) return Unexpected{std::string(bf16 ? "no AVX512-BF16" : "no AVX512-VNNI")};
  return assemble(bf16 ? "matmul_bf16" : kind == NarrowProduct::Int16 ? "matmul_s16" : "matmul_u8_s8", MatMulCore(graph::DType::F32, true), false, kind);
}

}  // namespace framejit::codegen
