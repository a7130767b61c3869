// Detection of the processor: features by its own instructions, caches by the C library.
#include "codegen/cpu.h"

#include <cpuid.h>
#include <sys/syscall.h>
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#endif
#include <unistd.h>

#include <cstdint>
#include <initializer_list>

namespace framejit::codegen {

namespace {

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// Leaf 1 or 7, which is 0 if there is none. On virtual machines each CPUID is a call of the hypervisor, so it is read
/// from the C library, which has asked when the process began.
Leaf leaf_of(uint32_t leaf, uint32_t subleaf) {
#if __has_include(<sys/platform/x86.h>)
  const unsigned index = leaf == 1 ? CPUID_INDEX_1 : subleaf == 0 ? CPUID_INDEX_7 : CPUID_INDEX_7_ECX_1;
  const auto& words = __x86_get_cpuid_feature_leaf(index)->cpuid_array;
  return {words[0], words[1], words[2], words[3]};
#else
  Leaf found;
  if (!__get_cpuid_count(leaf, subleaf, &found.eax, &found.ebx, &found.ecx, &found.edx)) return {};
  return found;
#endif
}

/// Which registers the operating system saves, or none if it does not say.
uint32_t saved_registers() {
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has(uint32_t word, std::initializer_list<int> bits) {
  for (const int bit : bits)
    if (!(word >> bit & 1)) return false;
  return true;
}

/// xbyak's Cpu finds the same, but asks CPUID many times, also for caches and cores. Numbers of bits: Intel 64 and
/// IA-32 Architectures Software Developer's Manual, CPUID. What the system does not save is not among the features,
/// with the exception of AMX: see allow_amx.
Cpu detect() {
  Cpu cpu;
  const Leaf first = leaf_of(1, 0), seventh = leaf_of(7, 0);
  const bool fma = has(first.ecx, {12}), system_says = has(first.ecx, {27}), f16c = has(first.ecx, {28, 29});
  const uint32_t saved = system_says ? saved_registers() : 0;
  if (has(saved, {1, 2}) && fma && f16c && has(seventh.ebx, {5, 8})) cpu.isa = Isa::Avx2;  // AVX2, BMI2
  // F, DQ, CD, BW, VL
  if (cpu.isa == Isa::Avx2 && has(saved, {5, 6, 7}) && has(seventh.ebx, {16, 17, 28, 30, 31})) {
    cpu.isa = Isa::Avx512;
    const bool tiles = has(seventh.edx, {24});
    cpu.vnni = has(seventh.ecx, {11});
    cpu.avx512_fp16 = has(seventh.edx, {23});
    cpu.avx512_bf16 = seventh.eax >= 1 && has(leaf_of(7, 1).eax, {5});
    cpu.amx_bf16 = tiles && has(seventh.edx, {22});
    cpu.amx_int8 = tiles && has(seventh.edx, {25});
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
