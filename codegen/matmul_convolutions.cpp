// Convolutions: elements of an image lie where a table says.
#include <algorithm>

#include "codegen/matmul_generator.h"

namespace framejit::codegen::detail {

/// The table takes the place of a distance between two k; tiles stand below each other, with B the same for all.
void MatMulGenerator::indirect_tile(int rows, int vectors) {
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

void MatMulGenerator::line_convolution(int rows, int vectors) {
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
void MatMulGenerator::store_lines(int rows, int vectors) {
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
  for (int row = 0; row < rows; ++row) store_masked(last(row), last_lanes, vec((row + 1) * vectors - 1));
  jmp(stored, T_NEAR);
  L(whole);
  for (int row = 0; row < rows; ++row) store(last(row), vec((row + 1) * vectors - 1));
  L(stored);
}

/// A line of B meets the line of the window that lies on it, for each line of C.
void MatMulGenerator::depthwise(int window, int lines, int vectors) {
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
    for (int line = first; line < end; ++line) switch (at - line) {
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

void MatMulGenerator::weight_gradient(int rows, int columns) {
  const Reg64 bases[] = {rax, rbx, rbp, r8}, moved[] = {r9, r10, r11, r12, r13}, b_line = r15, lines_left = r14,
              origin = rsi;
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

}  // namespace framejit::codegen::detail
