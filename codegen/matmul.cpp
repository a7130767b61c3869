// Parts of a matrix-product core: tiles held in registers along k, the packing that feeds them, dot products,
// convolutions.
//
//     tile, two vectors:  b0, b1 <- B[k, :]                  four and more:  e[rows] <- A[:, k]
//                         for each row: e <- A[row, k]                       for each vector: b <- B[k, v]
//                           acc[row, :] += e * b0, b1                          acc[:, v] += e[rows] * b
#include "codegen/matmul.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "codegen/assemble.h"
#include "codegen/matmul_generator.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace detail {

MatMulGenerator::MatMulGenerator(void* buffer, const MatMulCore& core, bool integers,
                                 std::optional<NarrowProduct> narrow)
    : MatMulAssembler(kMaxCode, buffer, core, integers, narrow) {
  std::vector<uint32_t> offsets(ConvolutionCore::kParts, 0);
  for (int i = 0; i < ConvolutionCore::kParts; ++i) dd(0);
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
  is_streamed_ = true;
  for (int rows = 2; rows <= core.most_streamed_rows(); ++rows) {
    begin_part(MatMulCore::streamed(rows));
    tile(rows, core.streamed_vectors(rows), false);
  }
  is_streamed_ = false;
  pack(begin_part);
  dots_and_rows(begin_part);
  if (!narrow_ && !integers_) convolutions(begin_part);
  align(32);
  write_mask_table();
  // What vfixupimm makes of a class of numbers, by Relu: negative ones, and zeros of either sign, become 0.
  L(relu_table_);
  for (uint32_t responses : {0u, 0x08080000u, 0x08080800u})
    for (int i = 0; i < core.item; i += 4) dd(responses);
  for (std::size_t i = 0; i < offsets.size(); ++i) rewrite(i * 4, offsets[i], 4);
}

/// Moves elements, whatever they are.
template <class F>
void MatMulGenerator::pack(F&& begin_part) {
  for (int vectors : {1, 2})
    for (bool masked : {false, true}) {
      begin_part(MatMulCore::copy(vectors, masked));
      copy(vectors, masked);
    }
  begin_part(MatMulCore::kTranspose);
  transpose();
}

template <class F>
void MatMulGenerator::dots_and_rows(F&& begin_part) {
  for (int rows = 1; rows <= MatMulCore::kMostDots; ++rows)
    for (int columns = 1; columns <= core_.most_dot_columns(rows); ++columns) {
      begin_part(MatMulCore::dots(rows, columns));
      dots(rows, columns);
    }
  for (int steps = 1; steps <= (narrow_ ? MatMulCore::kNarrowRows : MatMulCore::kRowDepth); ++steps) {
    begin_part(MatMulCore::vector_matrix(steps));
    narrow_ ? narrow_rows(steps) : vector_matrix(steps);
  }
}

template <class F>
void MatMulGenerator::convolutions(F&& begin_part) {
  for (int vectors : {1, 2})
    for (int rows = 1; rows <= ConvolutionCore::most_indirect_rows(core_, vectors); ++rows) {
      begin_part(ConvolutionCore::indirect_tile(rows, vectors));
      indirect_tile(rows, vectors);
    }
  for (int rows = 1; rows <= ConvolutionCore::kLineRows; ++rows)
    for (int vectors = 1; vectors <= ConvolutionCore::most_line_vectors(core_, rows); ++vectors) {
      begin_part(ConvolutionCore::line_convolution(rows, vectors));
      line_convolution(rows, vectors);
    }
  for (int window : ConvolutionCore::kDepthwiseWindows)
    for (int lines : ConvolutionCore::kDepthwiseLines)
      for (int vectors = 1; vectors <= ConvolutionCore::most_depthwise_vectors(core_, lines); ++vectors) {
        begin_part(ConvolutionCore::depthwise(window, lines, vectors));
        depthwise(window, lines, vectors);
      }
  for (int columns = 1; columns <= ConvolutionCore::kGradientColumns; ++columns)
    for (int rows = 1; rows <= ConvolutionCore::most_gradient_rows(columns); ++rows) {
      begin_part(ConvolutionCore::weight_gradient(rows, columns));
      weight_gradient(rows, columns);
    }
}

void MatMulGenerator::tile(int rows, int vectors, bool masked) {
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

void MatMulGenerator::add_bias(const Shape& s) {
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

/// Each register is stored as soon as it is done, which hides what it takes: 6 % of a product of 8 k where all are done
/// before.
void MatMulGenerator::store_relu(const Shape& s, Label& stored) {
  const Reg64 form = ahead, table = depth;
  const Xmm responses = vec(s.free()), zeros = vec(s.free()), kept = vec(s.free() + 1);
  Label none, zero_second;
  mov(form, arg(&MatMulArgs::relu));
  test(form, form);
  jz(none, T_NEAR);
  if (avx512_) {
    lea(table, ptr[rip + relu_table_]);
    broadcast(responses, ptr[table + form * core_.item]);
    store_c(s,
            [&](const Xmm& acc) { f32_ ? vfixupimmps(acc, acc, responses, 0) : vfixupimmpd(acc, acc, responses, 0); });
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

/// A streamed B is read again only when the first-level cache has long lost it.
void MatMulGenerator::prefetch_b(int v) {
  if (v * vector_bytes() % 64 != 0) return;
  const Address at = ptr[b_at + ahead + v * vector_bytes()];
  is_streamed_ ? prefetcht1(at) : prefetcht0(at);
}

/// One k of a tile.
void MatMulGenerator::tile_step(const Shape& s, bool prefetching) {
  if (integers_ && !avx512_) return sparing_step(s);
  if (s.vectors >= 4) return wide_step(s);
  // The element of A as a broadcast operand; not of int8, where the operands differ in sign.
  const bool embedded = s.vectors == 1 && avx512_ && narrow_ != NarrowProduct::Int8;
  for (int v = 0; v < s.vectors; ++v) {
    const Address from = ptr[b_at + v * vector_bytes()];
    const Xmm b = vec(s.free() + v);
    if (!s.edge(v)) load(b, from);
    else if (avx512_) load_masked(b, mask(), from);
    else load_filled(b, filler(), mask(), from);
    if (prefetching) prefetch_b(v);
  }
  for (int row = 0; row < s.rows; ++row) {
    const int held = s.free() + s.vectors;
    const Xmm element = vec(integers_ ? held : held + row % 2);
    if (!embedded) broadcast(element, row_address(row));
    for (int v = 0; v < s.vectors; ++v) {
      const Xmm acc = vec(s.acc(row, v)), b = vec(s.free() + v);
      const Xmm to = s.edge(v) && avx512_ ? acc | tail : acc;
      if (embedded) multiply_add(to, b, row_address_broadcast(row), held);
      else multiply_add(to, element, b, held + 1);
    }
  }
}

/// With few registers: what is multiplied is read anew for each product, or each row.
void MatMulGenerator::sparing_step(const Shape& s) {
  const Xmm b = vec(s.free()), element = vec(s.free() + 1);
  for (int v = 0; v < s.vectors; ++v) {
    const Address from = ptr[b_at + v * vector_bytes()];
    s.edge(v) ? load_masked(b, mask(), from) : load(b, from);
    prefetch_b(v);
    for (int row = 0; row < s.rows; ++row) {
      broadcast(element, row_address(row));
      multiply_add(vec(s.acc(row, v)), element, b, s.free() + 2);
    }
  }
}

void MatMulGenerator::wide_step(const Shape& s) {
  for (int row = 0; row < s.rows; ++row) broadcast(vec(s.free() + row), row_address(row));
  for (int v = 0; v < s.vectors; ++v) {
    const Address from = ptr[b_at + v * vector_bytes()];
    prefetch_b(v);
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

}  // namespace detail

namespace {

KernelCode assemble_product(std::string name, const MatMulCore& core, bool integers,
                            std::optional<NarrowProduct> narrow) {
  return assemble<detail::MatMulGenerator>(std::move(name), detail::MatMulGenerator::kMaxCode, core, integers, narrow);
}

}  // namespace

Expected<KernelCode, std::string> emit_matmul(graph::DType dtype, Isa isa, bool with_listing) {
  if (isa == Isa::None) return Unexpected{std::string("no vector instruction set")};
  if (!has_matmul(dtype)) return Unexpected{"matrix product of " + std::string(graph::name_of(dtype))};
  const MatMulCore core(dtype, isa == Isa::Avx512);
  KernelCode out = assemble_product("matmul_" + std::string(graph::name_of(dtype)), core, graph::is_int(dtype), {});
  if (with_listing)
    out.listing = "; " + out.name + ": " + std::to_string(core.most_rows(2)) + " rows x 2 " +
                  (isa == Isa::Avx512 ? "zmm, " : "ymm, ") + std::to_string(out.bytes.size()) + " bytes\n";
  return out;
}

Expected<KernelCode, std::string> emit_narrow_matmul(NarrowProduct kind, const Cpu& cpu) {
  const bool bf16 = kind == NarrowProduct::BFloat16;
  if (!(bf16 ? cpu.avx512_bf16 : cpu.vnni)) return Unexpected{std::string(bf16 ? "no AVX512-BF16" : "no AVX512-VNNI")};
  return assemble_product(bf16                           ? "matmul_bf16"
                          : kind == NarrowProduct::Int16 ? "matmul_s16"
                                                         : "matmul_u8_s8",
                          MatMulCore(graph::DType::F32, true), false, kind);
}

}  // namespace framejit::codegen
