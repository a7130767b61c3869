// Few rows of narrow elements times a B that lies as it is: its rows are interleaved in registers.
//
//     two rows:   b0 b1 ..                 b0 c0 b1 c1 ..       one for each row of A, by a pair of its elements
//                 c0 c1 ..    ->  pairs    b4 c4 b5 c5 ..
//
// Interleaving stays within 128 bits, so that a sum's columns lie in an order of their own until it is done.
#include <array>

#include "codegen/matmul_generator.h"

namespace framejit::codegen::detail {

void MatMulGenerator::narrow_rows(int rows) {
  const Reg64 left = r9, from = rdx, columns_at = r14, b_k3 = r8, scratch = rsi;
  const Shape s{rows, group(), false};
  const int columns = core_.lanes * group();
  const std::array<Opmask, 3> live = {k1, k2, k3};  // of rows of B behind the last whole group
  const std::array<Opmask, 4> live_of_c = {k4, k5, k6, k7};
  const auto spare = [&](int i) { return vec(s.free() + i); };
  for (const Reg64& r : {rbx, r12, r13, r14}) push(r);
  mov(b_k, arg(&MatMulArgs::b_k));
  lea(b_k3, ptr[b_k + b_k * 2]);
  mov(columns_at, arg_b());
  mov(c_tile, arg_c());
  mov(left, arg(&MatMulArgs::live));

  enum class Rows { All, Live, Rest };
  const auto step = [&](Rows which) {
    const auto load_row = [&](const Xmm& to, int i) {
      const Address at = i == 0   ? ptr[from]
                         : i == 1 ? ptr[from + b_k]
                         : i == 2 ? ptr[from + b_k * 2]
                                  : ptr[from + b_k3];
      if (which == Rows::All) load(to, at);
      else if (which == Rows::Live) load_elements(to, live[0], at);
      else if (i + 1 < group()) load_elements(to, live[static_cast<std::size_t>(i)], at);
      else zero(to);
    };
    std::array<int, 4> b{};
    load_row(spare(0), 0);
    load_row(spare(1), 1);
    if (group() == 2) {
      vpunpcklwd(spare(2), spare(0), spare(1));
      vpunpckhwd(spare(0), spare(0), spare(1));
      b = {2, 0};
    } else {
      vpunpcklbw(spare(2), spare(0), spare(1));
      vpunpckhbw(spare(0), spare(0), spare(1));
      load_row(spare(1), 2);
      load_row(spare(3), 3);
      vpunpcklbw(spare(4), spare(1), spare(3));
      vpunpckhbw(spare(1), spare(1), spare(3));
      vpunpcklwd(spare(3), spare(2), spare(4));
      vpunpckhwd(spare(2), spare(2), spare(4));
      vpunpcklwd(spare(4), spare(0), spare(1));
      vpunpckhwd(spare(0), spare(0), spare(1));
      b = {3, 2, 4, 0};
    }
    for (int row = 0; row < rows; ++row) {
      broadcast(spare(5), row_address(row));
      for (int v = 0; v < group(); ++v)
        multiply_add(vec(s.acc(row, v)), spare(5), spare(b[static_cast<std::size_t>(v)]), 0);
    }
  };
  // Parts of 128 bits are what is transposed.
  const auto order = [&](int row) {
    const auto acc = [&](int v) { return Zmm(s.acc(row, v)); };
    const auto to = [&](int i) { return Zmm(spare(i).getIdx()); };
    for (int half : {0, 1}) {
      vshuff32x4(to(2 * half), acc(0), acc(1), half ? 0xee : 0x44);
      if (group() == 4) vshuff32x4(to(2 * half + 1), acc(2), acc(3), half ? 0xee : 0x44);
    }
    for (int v = 0; v < group(); ++v) {
      if (group() == 2) vshuff32x4(acc(v), to(2 * v), to(2 * v), 0xd8);
      else vshuff32x4(acc(v), to(v / 2 * 2), to(v / 2 * 2 + 1), v % 2 ? 0xdd : 0x88);
    }
  };
  const auto block = [&](bool masked) {
    Label loop, rest, end, store_all;
    for (int i = 0; i < s.free(); ++i) zero(vec(i));
    mov(pitch, arg(&MatMulArgs::a_row));
    mov(base0, arg_a());
    set_bases(rows);
    mov(from, columns_at);
    mov(depth, arg(&MatMulArgs::k));
    sub(depth, group());
    jl(rest, T_NEAR);
    L(loop);
    step(masked ? Rows::Live : Rows::All);
    add(base0, 4);
    if (rows > 4) add(base4, 4);
    lea(from, ptr[from + b_k * group()]);
    sub(depth, group());
    jge(loop, T_NEAR);
    L(rest);
    add(depth, group());
    jz(end, T_NEAR);
    if (!masked) kxnorq(live[0], live[0], live[0]);
    for (int i = 1; i + 1 < group(); ++i) {
      kxorq(live[static_cast<std::size_t>(i)], live[static_cast<std::size_t>(i)], live[static_cast<std::size_t>(i)]);
      Label missing;
      cmp(depth, i);
      jle(missing);
      kmovq(live[static_cast<std::size_t>(i)], live[0]);
      L(missing);
    }
    step(Rows::Rest);
    L(end);
    mov(pitch, arg(&MatMulArgs::c_row));
    mov(base0, c_tile);
    set_bases(rows);
    for (int row = 0; row < rows; ++row) order(row);
    const auto each = [&](auto&& f) {
      for (int row = 0; row < rows; ++row)
        for (int v = 0; v < group(); ++v)
          f(vec(s.acc(row, v)), row_address(row, v * vector_bytes()), live_of_c[static_cast<std::size_t>(v)]);
    };
    cmp(arg(&MatMulArgs::add), 0);
    je(store_all, T_NEAR);
    each([&](const Xmm& acc, const Address& at, const Opmask& k) {
      masked ? add_vectors(acc | k, acc, at) : add_vectors(acc, acc, at);
    });
    L(store_all);
    each([&](const Xmm& acc, const Address& at, const Opmask& k) { masked ? store(at | k, acc) : store(at, acc); });
  };
  Label whole, last, done;
  L(whole);
  cmp(left, columns);
  jl(last, T_NEAR);
  block(false);
  add(columns_at, vector_bytes());
  add(c_tile, columns * core_.item);
  sub(left, columns);
  jmp(whole, T_NEAR);
  L(last);
  test(left, left);
  jz(done, T_NEAR);
  mov(scratch, -1);
  bzhi(scratch, scratch, left);
  kmovq(live[0], scratch);
  for (int v = 0; v < group(); ++v)
    kshiftrq(live_of_c[static_cast<std::size_t>(v)], live[0], static_cast<uint8_t>(v * core_.lanes));
  block(true);
  L(done);
  for (const Reg64& r : {r14, r13, r12, rbx}) pop(r);
  vzeroupper();
  ret();
}

}  // namespace framejit::codegen::detail
