// Detection of the processor by CPUID and XGETBV.
#include "codegen/cpu.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace framejit::codegen {

namespace {

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Leaf r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

constexpr bool bit(uint32_t word, int n) { return (word >> n) & 1; }

/// The register state that the operating system saves.
uint64_t xcr0() {
  uint32_t lo, hi;
  asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return static_cast<uint64_t>(hi) << 32 | lo;
}

/// Leaf 4 (Intel) and 0x8000001d (AMD) have the same layout.
void read_caches(uint32_t leaf, Cpu& cpu) {
  for (uint32_t i = 0; i < 16; ++i) {
    const Leaf c = cpuid(leaf, i);
    const uint32_t type = c.eax & 31, level = (c.eax >> 5) & 7;
    if (type == 0) return;
    if (type == 2) continue;  // instructions
    const long line = (c.ebx & 0xfff) + 1, partitions = ((c.ebx >> 12) & 0x3ff) + 1, ways = (c.ebx >> 22) + 1;
    const long bytes = line * partitions * ways * (static_cast<long>(c.ecx) + 1);
    if (level == 1) cpu.l1d_bytes = bytes;
    if (level == 2) cpu.l2_bytes = bytes;
    if (level == 3) cpu.l3_bytes = bytes;
  }
}

Cpu detect() {
  Cpu cpu;
  const Leaf features = cpuid(1);
  const bool fma = bit(features.ecx, 12), osxsave = bit(features.ecx, 27), avx = bit(features.ecx, 28),
             f16c = bit(features.ecx, 29);
  const Leaf extended = cpuid(7), extended1 = cpuid(7, 1);
  if (!(osxsave && avx)) return cpu;
  const uint64_t saved = xcr0();
  const bool ymm_saved = (saved & 0x6) == 0x6, zmm_saved = (saved & 0xe6) == 0xe6, tiles_saved = (saved >> 17 & 3) == 3;
  const bool bmi2 = bit(extended.ebx, 8), avx2 = bit(extended.ebx, 5);
  if (ymm_saved && fma && f16c && avx2 && bmi2) cpu.isa = Isa::Avx2;
  const bool f = bit(extended.ebx, 16), dq = bit(extended.ebx, 17), cd = bit(extended.ebx, 28),
             bw = bit(extended.ebx, 30), vl = bit(extended.ebx, 31);
  if (cpu.isa == Isa::Avx2 && zmm_saved && f && dq && cd && bw && vl) {
    cpu.isa = Isa::Avx512;
    cpu.vnni = bit(extended.ecx, 11);
    cpu.avx512_fp16 = bit(extended.edx, 23);
    cpu.avx512_bf16 = bit(extended1.eax, 5);
    const bool tiles = tiles_saved && bit(extended.edx, 24);
    cpu.amx_bf16 = tiles && bit(extended.edx, 22);
    cpu.amx_int8 = tiles && bit(extended.edx, 25);
  }
  if (cpuid(0x80000000u).eax >= 0x8000001du && bit(cpuid(0x80000001u).ecx, 22)) read_caches(0x8000001du, cpu);
  else if (cpuid(0).eax >= 4) read_caches(4, cpu);
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
