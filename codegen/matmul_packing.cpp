// Copies and transpositions into panels: elements are moved, whatever they are.
#include <algorithm>
#include <utility>

#include "codegen/matmul_generator.h"
#include "graph/support/check.h"

namespace framejit::codegen::detail {

void MatMulGenerator::copy(int vectors, bool masked) {
  const Reg64 from = rax, to = rdx, from_step = r9, to_step = r10, left = rcx, live = r8, scratch = r11, next = rsi;
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
  mov(next, arg(&MatMulArgs::b_ahead));
  test(left, left);
  jz(done, T_NEAR);
  L(loop);
  for (int v = 0; v < vectors; v += std::max(1, 64 / vector_bytes())) prefetcht0(ptr[from + next + v * vector_bytes()]);
  for (int v = 0; v < vectors; ++v) {
    const Address at = ptr[from + v * vector_bytes()];
    if (masked && v + 1 == vectors) load_filled(vec(v), filler(), mask(), at);
    else load(vec(v), at);
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
void MatMulGenerator::transpose() {
  const Reg64 at = rdx, to = r8, to_step = r10, to_step3 = r11, left = rcx, row = rax, last = r9, scratch = rsi,
              next = rsi;
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
  mov(next, arg(&MatMulArgs::b_ahead));
  xor_(at, at);
  L(block);
  cmp(left, lanes);
  jl(rest, T_NEAR);
  for (int i = 0; i < lanes; ++i) {
    mov(row, ptr[rsp - 128 + 8 * i]);
    load(vec(i), ptr[row + at]);
    add(row, next);
    prefetcht1(ptr[row + at]);
  }
  const std::vector<int> columns = transpose_registers();
  auto store_column = [&](int j) {
    const Xmm value = vec(columns[static_cast<std::size_t>(j)]);
    switch (j % 4) {
      case 0: store(ptr[to], value); break;
      case 1: store(ptr[to + to_step], value); break;
      case 2: store(ptr[to + to_step * 2], value); break;
      default: store(ptr[to + to_step3], value); lea(to, ptr[to + to_step * 4]);
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
std::vector<int> MatMulGenerator::transpose_registers() {
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

}  // namespace framejit::codegen::detail
