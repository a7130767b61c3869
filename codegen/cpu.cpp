// Detection of the processor: features by xbyak, caches by the C library.
#include "codegen/cpu.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <xbyak/xbyak_util.h>

namespace framejit::codegen {

namespace {

Cpu detect() {
  using X = Xbyak::util::Cpu;
  const X found;  // what the operating system does not save is not among its features, but for AMX: see allow_amx
  Cpu cpu;
  if (found.has(X::tAVX2) && found.has(X::tFMA) && found.has(X::tF16C) && found.has(X::tBMI2)) cpu.isa = Isa::Avx2;
  if (cpu.isa == Isa::Avx2 && found.has(X::tAVX512F) && found.has(X::tAVX512DQ) && found.has(X::tAVX512CD) &&
      found.has(X::tAVX512BW) && found.has(X::tAVX512VL)) {
    cpu.isa = Isa::Avx512;
    cpu.vnni = found.has(X::tAVX512_VNNI);
    cpu.avx512_fp16 = found.has(X::tAVX512_FP16);
    cpu.avx512_bf16 = found.has(X::tAVX512_BF16);
    cpu.amx_bf16 = found.has(X::tAMX_TILE) && found.has(X::tAMX_BF16);
    cpu.amx_int8 = found.has(X::tAMX_TILE) && found.has(X::tAMX_INT8);
  }
  const auto cache = [](int name, long& bytes) {
    if (const long known = sysconf(name); known > 0) bytes = known;
  };
  cache(_SC_LEVEL1_DCACHE_SIZE, cpu.l1d_bytes);
  cache(_SC_LEVEL2_CACHE_SIZE, cpu.l2_bytes);
  cache(_SC_LEVEL3_CACHE_SIZE, cpu.l3_bytes);
  return cpu;
}

}  // namespace

const Cpu& detected_cpu() {
  static const Cpu cpu = detect();
  return cpu;
}

Cpu select_cpu(std::string_view override_name) {
  Cpu cpu = detected_cpu();
  if (override_name == "none") cpu.isa = Isa::None;
  if (override_name == "avx2" && cpu.isa == Isa::Avx512) cpu.isa = Isa::Avx2;
  if (override_name == "avx512" || cpu.isa != Isa::Avx512) cpu.amx_bf16 = cpu.amx_int8 = false;
  if (cpu.isa != Isa::Avx512) cpu.avx512_bf16 = cpu.avx512_fp16 = cpu.vnni = false;
  return cpu;
}

bool allow_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  static const bool allowed = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
}

}  // namespace framejit::codegen
