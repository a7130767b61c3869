// Matrix-product core: a register-blocked micro-kernel for float32 and float64 on AVX2 and AVX-512.
//
//     for each block of k (at most 256): for each block of columns (two vectors, then one, the last one masked):
//       copy the block of B to the stack where enough rows share it
//       for each block of rows (12, then 8, 4, 2, 1; AVX2: 6, 4, 2, 1): accumulators in registers along k
//
// The first block of k overwrites C, later ones add to it. A single row takes eight vectors of columns at a time, in the same order. A
// single column of B, its elements next to each other, has an order of its own: a sum along each row of A. Idle columns raise no flags:
// AVX-512 masks the arithmetic, AVX2 fills them with a live column.
#include "codegen/matmul.h"

#include <cstdint>
#include <string>
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

constexpr int kDepth = 256;  // rows of B in a block: two vectors of it fit the first-level cache
constexpr int kWide = 8;     // vectors of columns where there is one row
constexpr std::size_t kMaxCode = 64 << 10;

class MatMulGenerator : public Xbyak::CodeGenerator {
 public:
  MatMulGenerator(void* buffer, bool is_f32, bool use_avx512)
      : CodeGenerator(kMaxCode, buffer),
        f32_(is_f32),
        avx512_(use_avx512),
        element_(is_f32 ? 4 : 8),
        vector_bytes_(use_avx512 ? 64 : 32),
        vector_lanes_(vector_bytes_ / element_) {
    generate();
  }

 private:
  // Registers outside the micro-kernel.
  const Reg64 a_block = rdi, b_block = rsi, rows_left = r8, columns_left = r9;
  // Inside it: three row bases for A (then C), so that twelve rows need no further pointers.
  const Reg64 row0 = rax, row4 = rbx, row8 = rbp, lda = r10, lda3 = r11, b_at = rdx, ldb = r12, depth = rcx,
              c_block = r13, ldc = r14, scratch = r15;
  const Opmask tail = k1;

  // Stack frame, from rsp.
  enum Frame : int {
    kA = 0,
    kB = 8,
    kC = 16,
    kM = 24,
    kN = 32,
    kK = 40,
    kLda = 48,
    kLdb = 56,
    kLdc = 64,
    kDepthNow = 72,
    kAccumulate = 80,
    kCColumn = 88,
    kBColumn = 96,
    kSavedRsp = 104,
    kMask = 128,
    kPanel = 192,
  };
  int panel_row() const { return 2 * vector_bytes_; }
  int frame_bytes() const { return kPanel + kDepth * panel_row(); }
  Address slot(int at) { return qword[rsp + at]; }

  Xmm vec(int i) const { return avx512_ ? static_cast<Xmm>(Zmm(i)) : static_cast<Xmm>(Ymm(i)); }

  void load(const Xmm& to, const Address& from) { f32_ ? vmovups(to, from) : vmovupd(to, from); }
  void store(const Address& to, const Xmm& from) { f32_ ? vmovups(to, from) : vmovupd(to, from); }
  void broadcast(const Xmm& to, const Address& from) {
    if (f32_)
      vbroadcastss(to, from);
    else
      vbroadcastsd(avx512_ ? static_cast<Ymm>(Zmm(to.getIdx())) : Ymm(to.getIdx()), from);
  }
  void add(const Xmm& to, const Xmm& x) { f32_ ? vaddps(to, to, x) : vaddpd(to, to, x); }
  using CodeGenerator::add;
  /// AVX2: lanes of `r` outside the mask become those of `filler`.
  void fill_idle(const Xmm& r, const Xmm& filler, const Xmm& mask) {
    const Ymm target(r.getIdx()), other(filler.getIdx()), lanes(mask.getIdx());
    f32_ ? vblendvps(target, other, target, lanes) : vblendvpd(target, other, target, lanes);
  }
  void multiply_add(const Xmm& to, const Xmm& x, const Xbyak::Operand& y) { f32_ ? vfmadd231ps(to, x, y) : vfmadd231pd(to, x, y); }

  /// Address of row `row` of the block at row0 (row4, row8 four and eight rows on).
  Address row_address(int row, const Reg64& pitch, const Reg64& pitch3, int displacement) {
    const Reg64& base = row < 4 ? row0 : row < 8 ? row4 : row8;
    switch (row % 4) {
      case 0: return ptr[base + displacement];
      case 1: return ptr[base + pitch + displacement];
      case 2: return ptr[base + pitch * 2 + displacement];
      default: return ptr[base + pitch3 + displacement];
    }
  }

  void set_row_bases(const Reg64& first, const Reg64& pitch, int rows) {
    mov(row0, first);
    if (rows > 4) lea(row4, ptr[row0 + pitch * 4]);
    if (rows > 8) lea(row8, ptr[row4 + pitch * 4]);
  }

  void zero(const Xmm& r) {
    if (avx512_)
      vpxord(r, r, r);
    else
      vxorps(r, r, r);
  }

  /// C[rows, vectors] (+)= A[rows, depth] B[depth, vectors]; the last vector masked or whole.
  void micro_kernel(int rows, int vectors, bool masked) {
    const auto accumulator = [&](int row, int v) { return vec(row * vectors + v); };
    const int free = rows * vectors;
    const auto b = [&](int v) { return vec(free + v); };
    const bool wide = vectors > 2;  // a single row: B is multiplied from memory
    const Xmm element = wide ? vec(free) : vec(free + vectors);
    const Xmm mask = vec(15), filler = vec(14);  // AVX2 only; masked blocks there have at most four rows
    Label loop, done, overwrite, stored;

    for (int i = 0; i < rows * vectors; ++i) zero(vec(i));
    set_row_bases(a_block, lda, rows);
    mov(b_at, b_block);
    mov(depth, slot(kDepthNow));
    if (masked && !avx512_) vmovups(mask, ptr[rsp + kMask]);
    test(depth, depth);
    jz(done, T_NEAR);
    align(32);
    L(loop);
    for (int v = 0; v < vectors && !wide; ++v) {
      const Address from = ptr[b_at + v * vector_bytes_];
      if (!masked || v + 1 < vectors) {
        load(b(v), from);
      } else if (avx512_) {
        load(b(v) | tail | T_z, from);
      } else {
        f32_ ? vmaskmovps(b(v), mask, from) : vmaskmovpd(b(v), mask, from);
        broadcast(filler, from);
        fill_idle(b(v), filler, mask);
      }
    }
    for (int row = 0; row < rows; ++row) {
      broadcast(element, row_address(row, lda, lda3, 0));
      for (int v = 0; v < vectors; ++v) {
        const bool edge = masked && v + 1 == vectors && avx512_;
        if (wide)
          multiply_add(accumulator(row, v), element, ptr[b_at + v * vector_bytes_]);
        else
          multiply_add(edge ? accumulator(row, v) | tail : accumulator(row, v), element, b(v));
      }
    }
    add(row0, element_);
    if (rows > 4) add(row4, element_);
    if (rows > 8) add(row8, element_);
    add(b_at, ldb);
    dec(depth);
    jnz(loop, T_NEAR);
    L(done);

    // Rows of C; `depth` is free and holds three times the pitch.
    set_row_bases(c_block, ldc, rows);
    lea(depth, ptr[ldc + ldc * 2]);
    cmp(slot(kAccumulate), 0);
    je(overwrite, T_NEAR);
    each_of_c(rows, vectors, masked, [&](int row, int v, const Address& at, bool edge) {
      const Xmm old = b(0);
      if (!edge) {
        load(old, at);
        add(accumulator(row, v), old);
      } else if (avx512_) {
        load(old | tail | T_z, at);
        f32_ ? vaddps(accumulator(row, v) | tail, accumulator(row, v), old)
             : vaddpd(accumulator(row, v) | tail, accumulator(row, v), old);
      } else {
        f32_ ? vmaskmovps(old, mask, at) : vmaskmovpd(old, mask, at);
        broadcast(filler, at);
        fill_idle(old, filler, mask);
        add(accumulator(row, v), old);
      }
    });
    L(overwrite);
    each_of_c(rows, vectors, masked, [&](int row, int v, const Address& at, bool edge) {
      if (!edge)
        store(at, accumulator(row, v));
      else if (avx512_)
        store(at | tail, accumulator(row, v));
      else
        f32_ ? vmaskmovps(at, mask, accumulator(row, v)) : vmaskmovpd(at, mask, accumulator(row, v));
    });
    // Next block of rows.
    imul(row0, lda, rows);
    add(a_block, row0);
    imul(row0, ldc, rows);
    add(c_block, row0);
    sub(rows_left, rows);
  }

  template <class F>
  void each_of_c(int rows, int vectors, bool masked, F&& f) {
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v < vectors; ++v)
        f(row, v, row_address(row, ldc, depth, v * vector_bytes_), masked && v + 1 == vectors);
  }

  /// All rows of a block of columns.
  void row_blocks(int vectors, bool masked) {
    const int most = avx512_ ? 12 : masked ? 4 : 6;
    Label again, rest;
    L(again);
    cmp(rows_left, most);
    jl(rest, T_NEAR);
    micro_kernel(most, vectors, masked);
    jmp(again, T_NEAR);
    L(rest);
    for (int rows : {8, 4, 2, 1}) {
      if (rows >= most) continue;
      Label skip;
      cmp(rows_left, rows);
      jl(skip, T_NEAR);
      micro_kernel(rows, vectors, masked);
      L(skip);
    }
  }

  /// Copies the block of B next to each other, where it is whole and many rows read it again.
  void pack_panel() {
    Label loop, skip;
    cmp(rows_left, 48);
    jl(skip, T_NEAR);
    mov(depth, slot(kDepthNow));
    test(depth, depth);
    jz(skip, T_NEAR);
    lea(scratch, ptr[rsp + kPanel]);
    L(loop);
    load(vec(0), ptr[b_block]);
    load(vec(1), ptr[b_block + vector_bytes_]);
    store(ptr[scratch], vec(0));
    store(ptr[scratch + vector_bytes_], vec(1));
    add(b_block, ldb);
    add(scratch, panel_row());
    dec(depth);
    jnz(loop);
    lea(b_block, ptr[rsp + kPanel]);
    mov(ldb, panel_row());
    L(skip);
  }

  /// C[m] = A[m,k] b[k]: four rows at a time, then one. Idle lanes are zeros on both sides.
  void columns_of_one() {
    Label rows_of_four, rest, one, done;
    mov(columns_left, r9);
    and_(columns_left, vector_lanes_ - 1);
    Label whole;
    jz(whole);
    set_tail_mask();
    L(whole);
    mov(a_block, slot(kA));
    mov(c_block, slot(kC));
    mov(rows_left, slot(kM));
    mov(lda, slot(kLda));
    mov(ldc, slot(kLdc));
    lea(lda3, ptr[lda + lda * 2]);
    L(rows_of_four);
    cmp(rows_left, 4);
    jl(rest, T_NEAR);
    dot_rows(4, 2);
    jmp(rows_of_four, T_NEAR);
    L(rest);
    L(one);
    test(rows_left, rows_left);
    jz(done, T_NEAR);
    dot_rows(1, 8);
    jmp(one, T_NEAR);
    L(done);
  }

  /// `rows` sums along k, each in `vectors` accumulators.
  void dot_rows(int rows, int vectors) {
    const auto sum = [&](int row, int v) { return vec(row * vectors + v); };
    const Xmm b = vec(8), element = vec(9);
    for (int i = 0; i < rows * vectors; ++i) zero(vec(i));
    mov(row0, a_block);
    mov(b_at, slot(kB));
    mov(depth, slot(kK));
    for (int width : {vectors, 1}) {
      Label again, rest;
      L(again);
      cmp(depth, width * vector_lanes_);
      jl(rest, T_NEAR);
      for (int v = 0; v < width; ++v) {
        load(b, ptr[b_at + v * vector_bytes_]);
        for (int row = 0; row < rows; ++row) {
          load(element, row_address(row, lda, lda3, v * vector_bytes_));
          multiply_add(sum(row, v), element, b);
        }
      }
      add(row0, width * vector_bytes_);
      add(b_at, width * vector_bytes_);
      sub(depth, width * vector_lanes_);
      jmp(again, T_NEAR);
      L(rest);
    }
    Label no_tail;
    test(depth, depth);
    jz(no_tail, T_NEAR);
    if (!avx512_) vmovups(Ymm(10), ptr[rsp + kMask]);
    load_tail(b, ptr[b_at]);
    for (int row = 0; row < rows; ++row) {
      load_tail(element, row_address(row, lda, lda3, 0));
      multiply_add(sum(row, 0), element, b);
    }
    L(no_tail);
    for (int width = vectors / 2; width > 0; width /= 2)
      for (int row = 0; row < rows; ++row)
        for (int v = 0; v < width; ++v) add(sum(row, v), sum(row, v + width));
    for (int row = 0; row < rows; ++row) {
      const int at = sum(row, 0).getIdx(), other = b.getIdx();
      if (avx512_) {
        vextractf64x4(Ymm(other), Zmm(at), 1);
        add(Ymm(at), Ymm(other));
      }
      vextractf128(Xmm(other), Ymm(at), 1);
      add(Xmm(at), Xmm(other));
      vshufpd(Xmm(other), Xmm(at), Xmm(at), 1);
      add(Xmm(at), Xmm(other));
      if (f32_) {
        vmovshdup(Xmm(other), Xmm(at));
        add(Xmm(at), Xmm(other));
      }
      f32_ ? vmovss(ptr[c_block], Xmm(at)) : vmovsd(ptr[c_block], Xmm(at));
      add(c_block, ldc);
    }
    imul(row0, lda, rows);
    add(a_block, row0);
    sub(rows_left, rows);
  }

  /// The live lanes, zeros beside them.
  void load_tail(const Xmm& to, const Address& from) {
    if (avx512_)
      load(to | tail | T_z, from);
    else
      f32_ ? vmaskmovps(to, Ymm(10), from) : vmaskmovpd(to, Ymm(10), from);
  }

  /// Mask of the live columns, 1..lanes, in columns_left.
  void set_tail_mask() {
    if (avx512_) {
      mov(rax, -1);
      bzhi(rax, rax, columns_left);
      kmovq(tail, rax);
      return;
    }
    // Ones before zeros: the mask of n columns begins n elements before the zeros.
    lea(rax, ptr[rip + mask_table_]);
    mov(scratch, columns_left);
    neg(scratch);
    vmovups(Ymm(0), ptr[rax + scratch * element_ + 32]);
    vmovups(ptr[rsp + kMask], Ymm(0));
  }

  void generate() {
    for (int code_byte : {0xf3, 0x0f, 0x1e, 0xfa}) db(code_byte);  // endbr64
    Label exit, k_block, k_small, column_block, columns_done, next_columns, two_masked, one_whole, one_masked;
    cmp(rcx, 0);
    jle(exit, T_NEAR);
    cmp(r8, 0);
    jle(exit, T_NEAR);
    for (const Reg64& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    const int arguments = 6 * 8 + 8;  // pushed registers, return address
    mov(rax, rsp);
    // The frame is larger than a guard page: touch its pages in order.
    for (int page = 4096; page < frame_bytes(); page += 4096) or_(qword[rsp - page], 0);
    sub(rsp, frame_bytes());
    and_(rsp, -64);
    mov(slot(kSavedRsp), rax);
    mov(slot(kA), rdi);
    mov(slot(kB), rsi);
    mov(slot(kC), rdx);
    mov(slot(kM), rcx);
    mov(slot(kN), r8);
    mov(slot(kK), r9);
    for (int i = 0; i < 3; ++i) {
      mov(rbx, ptr[rax + arguments + 8 * i]);
      mov(slot(kLda + 8 * i), rbx);
    }
    mov(slot(kAccumulate), 0);

    Label matrices, finish;
    cmp(r8, 1);
    jne(matrices, T_NEAR);
    cmp(slot(kLdb), element_);
    jne(matrices, T_NEAR);
    columns_of_one();
    jmp(finish, T_NEAR);
    L(matrices);

    L(k_block);
    mov(rax, slot(kK));
    mov(rbx, kDepth);
    cmp(rax, rbx);
    cmovg(rax, rbx);
    mov(slot(kDepthNow), rax);
    mov(rax, slot(kB));
    mov(slot(kBColumn), rax);
    mov(rax, slot(kC));
    mov(slot(kCColumn), rax);
    mov(columns_left, slot(kN));

    L(column_block);
    mov(a_block, slot(kA));
    mov(b_block, slot(kBColumn));
    mov(c_block, slot(kCColumn));
    mov(rows_left, slot(kM));
    mov(lda, slot(kLda));
    mov(ldb, slot(kLdb));
    mov(ldc, slot(kLdc));
    lea(lda3, ptr[lda + lda * 2]);
    Label rows;
    cmp(rows_left, 1);
    jne(rows, T_NEAR);
    cmp(columns_left, kWide * vector_lanes_);
    jl(rows, T_NEAR);
    micro_kernel(1, kWide, false);
    sub(columns_left, kWide * vector_lanes_);
    add(slot(kBColumn), kWide * vector_bytes_);
    add(slot(kCColumn), kWide * vector_bytes_);
    jmp(next_columns, T_NEAR);
    L(rows);
    cmp(columns_left, 2 * vector_lanes_);
    jl(two_masked, T_NEAR);
    pack_panel();
    row_blocks(2, false);
    sub(columns_left, 2 * vector_lanes_);
    add(slot(kBColumn), 2 * vector_bytes_);
    add(slot(kCColumn), 2 * vector_bytes_);
    jmp(next_columns, T_NEAR);

    L(two_masked);
    cmp(columns_left, vector_lanes_);
    je(one_whole, T_NEAR);
    jl(one_masked, T_NEAR);
    sub(columns_left, vector_lanes_);
    set_tail_mask();
    row_blocks(2, true);
    jmp(columns_done, T_NEAR);
    L(one_whole);
    row_blocks(1, false);
    jmp(columns_done, T_NEAR);
    L(one_masked);
    set_tail_mask();
    row_blocks(1, true);
    jmp(columns_done, T_NEAR);

    L(next_columns);
    test(columns_left, columns_left);
    jnz(column_block, T_NEAR);

    L(columns_done);
    mov(rax, slot(kDepthNow));
    mov(rbx, slot(kLdb));
    imul(rbx, rax);
    add(slot(kB), rbx);
    lea(rbx, ptr[rax * element_]);
    add(slot(kA), rbx);
    mov(slot(kAccumulate), 1);
    sub(slot(kK), rax);
    cmp(slot(kK), 0);
    jg(k_block, T_NEAR);

    L(finish);
    mov(rsp, slot(kSavedRsp));
    for (const Reg64& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    L(exit);
    ret();

    align(32);
    L(mask_table_);
    for (int i = 0; i < 8; ++i) dd(0xffffffffu);
    for (int i = 0; i < 8; ++i) dd(0);
  }

  const bool f32_, avx512_;
  const int element_, vector_bytes_, vector_lanes_;
  Label mask_table_;
};

}  // namespace

Expected<KernelCode, std::string> emit_matmul(graph::DType dtype, Isa isa, bool with_listing) {
  if (isa == Isa::None) return Unexpected{std::string("no vector instruction set")};
  if (dtype != graph::DType::F32 && dtype != graph::DType::F64)
    return Unexpected{"matrix product of " + std::string(graph::name_of(dtype))};
  // Written into memory of our own, which is never executable; the code is position independent.
  std::vector<uint8_t> buffer(kMaxCode);
  KernelCode out;
  out.name = "matmul_" + std::string(graph::name_of(dtype));
  try {
    const MatMulGenerator generator(buffer.data(), dtype == graph::DType::F32, isa == Isa::Avx512);
    out.bytes.assign(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(generator.getSize()));
  } catch (const Xbyak::Error& error) {
    FRAMEJIT_CHECK(false, error.what());
  }
  if (with_listing)
    out.listing = "; " + out.name + ": " + (isa == Isa::Avx512 ? "12 rows x 2 zmm" : "6 rows x 2 ymm") + ", depth " +
                  std::to_string(kDepth) + ", " + std::to_string(out.bytes.size()) + " bytes\n";
  return out;
}

}  // namespace framejit::codegen
