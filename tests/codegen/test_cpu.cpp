// The processor is what xbyak finds.
#include <gtest/gtest.h>
#include <xbyak/xbyak_util.h>

#include "codegen/cpu.h"

namespace framejit::codegen {

TEST(Cpu, IsWhatXbyakFinds) {
  using X = Xbyak::util::Cpu;
  const X found;
  const Cpu& cpu = detected_cpu();
  const bool avx2 = found.has(X::tAVX2) && found.has(X::tFMA) && found.has(X::tF16C) && found.has(X::tBMI2);
  const bool avx512 = avx2 && found.has(X::tAVX512F) && found.has(X::tAVX512DQ) && found.has(X::tAVX512CD) &&
                      found.has(X::tAVX512BW) && found.has(X::tAVX512VL);
  EXPECT_EQ(cpu.isa, avx512 ? Isa::Avx512 : avx2 ? Isa::Avx2 : Isa::None);
  EXPECT_EQ(cpu.vnni, avx512 && found.has(X::tAVX512_VNNI));
  EXPECT_EQ(cpu.avx512_fp16, avx512 && found.has(X::tAVX512_FP16));
  EXPECT_EQ(cpu.avx512_bf16, avx512 && found.has(X::tAVX512_BF16));
  EXPECT_EQ(cpu.amx_bf16, avx512 && found.has(X::tAMX_TILE) && found.has(X::tAMX_BF16));
  EXPECT_EQ(cpu.amx_int8, avx512 && found.has(X::tAMX_TILE) && found.has(X::tAMX_INT8));
}

}  // namespace framejit::codegen
