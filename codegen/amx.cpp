// Products in tile registers (AMX): up to 2 x 2 registers of C, two of A and two of B.
//
//     tmm0 tmm1   +=   tmm4   *   tmm6 tmm7       for each 16 groups along k
//     tmm2 tmm3        tmm5
//
// The shapes of the registers are what was configured, so that no part needs to know of masks.
#include <cstdint>
#include <string>
#include <vector>

#define XBYAK_NO_OP_NAMES
#include <xbyak/xbyak.h>

#include "codegen/assemble.h"
#include "codegen/matmul.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

using Xbyak::Address;
using Xbyak::Label;
using Xbyak::Reg64;
using Xbyak::Tmm;

constexpr std::size_t kMaxCode = 4 << 10;

class TileGenerator : public Xbyak::CodeGenerator {
 public:
  TileGenerator(void* buffer, NarrowProduct kind) : CodeGenerator(kMaxCode, buffer), kind_(kind) {
    std::vector<uint32_t> offsets(AmxCore::kParts, 0);
    for (int i = 0; i < AmxCore::kParts; ++i) dd(0);
    const auto begin_part = [&](int number) {
      align(16);
      offsets[static_cast<std::size_t>(number)] = static_cast<uint32_t>(getSize());
      for (int code_byte : {0xf3, 0x0f, 0x1e, 0xfa}) db(code_byte);  // endbr64
    };
    begin_part(AmxCore::kConfigure);
    mov(rax, ptr[rdi + offsetof(MatMulArgs, a)]);
    ldtilecfg(ptr[rax]);
    ret();
    begin_part(AmxCore::kRelease);
    tilerelease();
    ret();
    for (int rows : {1, 2})
      for (int columns : {1, 2}) {
        begin_part(AmxCore::product(rows, columns));
        product(rows, columns);
      }
    for (std::size_t i = 0; i < offsets.size(); ++i) rewrite(i * 4, offsets[i], 4);
  }

 private:
  static Tmm c(int row, int column) { return Tmm(AmxCore::c(row, column)); }
  static Tmm a(int row) { return Tmm(AmxCore::a(row)); }
  static Tmm b(int column) { return Tmm(AmxCore::b(column)); }

  void multiply_add(int row, int column) {
    if (kind_ == NarrowProduct::BFloat16) tdpbf16ps(c(row, column), a(row), b(column));
    else tdpbusd(c(row, column), a(row), b(column));
  }

  void product(int rows, int columns) {
    const Reg64 args = rdi, a0 = rax, a1 = r11, a_row = rcx, b_at = rdx, b_k = rsi, c0 = r8, c1 = r11, c_row = r9,
                depth = r10;
    const Reg64 b_step = rdi;  // when the arguments are read
    Label zeros, start, loop, done;
    const auto load_argument = [&](const Reg64& to, std::size_t offset) { mov(to, ptr[args + offset]); };
    const auto each_of_c = [&](auto&& f) {
      if (rows == 2) {
        mov(c1, c_row);
        shl(c1, 4);
        add(c1, c0);
      }
      for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column)
          f(c(row, column), ptr[(row == 0 ? c0 : c1) + c_row + column * AmxCore::kRowBytes]);
    };
    load_argument(c0, offsetof(MatMulArgs, c));
    load_argument(c_row, offsetof(MatMulArgs, c_row));
    cmp(qword[args + offsetof(MatMulArgs, add)], 0);
    je(zeros);
    each_of_c([&](const Tmm& r, const Address& at) { tileloadd(r, at); });
    jmp(start);
    L(zeros);
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) tilezero(c(row, column));
    L(start);
    load_argument(a0, offsetof(MatMulArgs, a));
    load_argument(a_row, offsetof(MatMulArgs, a_row));
    load_argument(b_at, offsetof(MatMulArgs, b));
    load_argument(b_k, offsetof(MatMulArgs, b_k));
    load_argument(depth, offsetof(MatMulArgs, k));
    mov(b_step, b_k);
    shl(b_step, 4);
    if (rows == 2) {
      mov(a1, a_row);
      shl(a1, 4);
      add(a1, a0);
    }
    test(depth, depth);
    jz(done);
    align(16);
    L(loop);
    for (int column = 0; column < columns; ++column) {
      tileloadd(b(column), ptr[b_at + b_k + column * AmxCore::kRowBytes]);
      if (column == 0) tileloadd(a(0), ptr[a0 + a_row]);
      multiply_add(0, column);
    }
    if (rows == 2) tileloadd(a(1), ptr[a1 + a_row]);
    for (int column = 0; column < columns && rows == 2; ++column) multiply_add(1, column);
    add(a0, AmxCore::kRowBytes);
    if (rows == 2) add(a1, AmxCore::kRowBytes);
    add(b_at, b_step);
    sub(depth, AmxCore::kSide);
    jnz(loop);
    L(done);
    each_of_c([&](const Tmm& r, const Address& at) { tilestored(at, r); });
    ret();
  }

  const NarrowProduct kind_;
};

}  // namespace

Expected<KernelCode, std::string> emit_amx_matmul(NarrowProduct kind, const Cpu& cpu) {
  FRAMEJIT_CHECK(kind != NarrowProduct::Int16, "AMX has no pairs of int16");
  const bool bf16 = kind == NarrowProduct::BFloat16;
  if (!(bf16 ? cpu.amx_bf16 : cpu.amx_int8)) return Unexpected{std::string(bf16 ? "no AMX-BF16" : "no AMX-INT8")};
  return assemble<TileGenerator>(bf16 ? "matmul_tiles_bf16" : "matmul_tiles_u8_s8", kMaxCode, kind);
}

}  // namespace framejit::codegen
