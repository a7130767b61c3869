// What the processor can do, and the override that tests use.
#pragma once

#include <string_view>

namespace framejit::codegen {

enum class Isa : unsigned char { None, Avx2, Avx512 };  // Avx2: with FMA and F16C; Avx512: F, CD, BW, DQ, VL

struct Cpu {
  Isa isa = Isa::None;
  bool amx_bf16 = false, amx_int8 = false;  // where tiles are allowed: see allow_amx
  bool avx512_bf16 = false, avx512_fp16 = false, vnni = false;
  long l1d_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 8 << 20;
};

/// Detected once.
const Cpu& detected_cpu();
/// `override_name`: "", "avx2", "avx512" (without AMX; never more than what is there), "none".
Cpu select_cpu(std::string_view override_name);

/// Asks the operating system, once, for the tile registers of AMX, for all threads. A process that has them needs
/// larger stacks for signals, so that this is left to who is about to use them.
bool allow_amx();

}  // namespace framejit::codegen
