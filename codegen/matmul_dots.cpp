// Dot products along contiguous k, and one row along the rows of B.
#include "codegen/matmul_generator.h"

namespace framejit::codegen::detail {

void MatMulGenerator::dots(int rows, int columns) {
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
  const auto load_last = [&](const Xmm& to, const Address& at) {
    narrow_ ? load_elements(to, tail, at) : load_masked(to, mask(), at);
  };
  const auto step = [&](bool masked) {
    for (int j = 0; j < columns; ++j) {
      const Address at = j == 0   ? ptr[column]
                         : j == 1 ? ptr[column + columns_pitch]
                         : j == 2 ? ptr[column + columns_pitch * 2]
                                  : ptr[column + columns_pitch3];
      masked ? load_last(b(j), at) : load(b(j), at);
    }
    for (int row = 0; row < rows; ++row) {
      if (columns == 1 && !masked) {
        multiply_add(acc(row, 0), b(0), row_address(row), spare);
        continue;
      }
      masked ? load_last(element, row_address(row)) : load(element, row_address(row));
      for (int j = 0; j < columns; ++j) multiply_add(acc(row, j), element, b(j), spare);
    }
  };
  L(loop);
  cmp(depth, core_.lanes * group());
  jl(rest, T_NEAR);
  step(false);
  add(base0, vector_bytes());
  if (rows > 4) add(base4, vector_bytes());
  add(column, vector_bytes());
  sub(depth, core_.lanes * group());
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
void MatMulGenerator::sum_lanes(const Xmm& r, const Xmm& scratch) {
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

/// Rows of B are read from end to end, so that what fetches ahead of the program is not stopped by the pages of a
/// column.
void MatMulGenerator::vector_matrix(int steps) {
  const Reg64 c = rax, left = r8, b3 = r9, b4 = r11, b7 = rdx, scratch = rsi;
  const Reg64 ahead0 = rbx, ahead4 = r12, ahead7 = r13;
  const auto a = [&](int i) { return vec(4 + i); };
  constexpr int kSpare = 4 + MatMulCore::kRowDepth;
  Label loop, single, rest, done;
  for (const Reg64& r : {ahead0, ahead4, ahead7}) push(r);
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
  mov(scratch, arg(&MatMulArgs::b_ahead));
  lea(ahead0, ptr[b_at_row + scratch]);
  lea(ahead4, ptr[b4 + scratch]);
  lea(ahead7, ptr[b7 + scratch]);
  const auto at = [&](int i, int v, bool next = false) {
    const int by = v * vector_bytes();
    const Reg64 first = next ? ahead0 : b_at_row, fifth = next ? ahead4 : b4, eighth = next ? ahead7 : b7;
    switch (i) {
      case 0: return ptr[first + by];
      case 1: return ptr[first + pitch + by];
      case 2: return ptr[first + pitch * 2 + by];
      case 3: return ptr[first + b3 + by];
      case 4: return ptr[fifth + by];
      case 5: return ptr[fifth + pitch + by];
      case 6: return ptr[fifth + pitch * 2 + by];
      default: return ptr[eighth + by];
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
      for (int v = 0; v < vectors; ++v) {
        multiply_add(vec(v), a(i), at(i, v), kSpare);
        if (v * vector_bytes() % 64 == 0) prefetcht1(at(i, v, true));
      }
    for (int v = 0; v < vectors; ++v) store(ptr[c + v * vector_bytes()], vec(v));
    for (const Reg64& r : {c, b_at_row, b4, b7, ahead0, ahead4, ahead7}) add(r, vectors * vector_bytes());
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
  store_masked(ptr[c], mask(), vec(0));
  L(done);
  for (const Reg64& r : {ahead7, ahead4, ahead0}) pop(r);
  vzeroupper();
  ret();
}

}  // namespace framejit::codegen::detail
