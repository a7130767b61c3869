// Matrix-product cores, through xbyak.
#pragma once

#include <string>

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// Does emit_matmul know the dtype?
constexpr bool has_matmul(graph::DType dtype) {
  using graph::DType;
  return dtype == DType::F32 || dtype == DType::F64 || (graph::is_int(dtype) && graph::size_of(dtype) >= 4);
}

/// The parts of MatMulCore(dtype, isa == Isa::Avx512), for floats and integers of 32 and 64 bits; sums of integers,
/// signed or not, are right modulo 2^32 or 2^64, and convolutions have no parts. The table of offsets comes first, so
/// the code has no entry of its own.
Expected<KernelCode, std::string> emit_matmul(graph::DType dtype, Isa isa, bool with_listing = false);

/// Narrow elements are multiplied in groups that fill 32 bits, packed next to each other along k: pairs of bfloat16,
/// added up in float32, or pairs of int16, or fours of uint8 (A) and int8 (B), in int32. `k` counts groups, and A, B
/// and C are, to the tiles, of 4-byte elements.
enum class NarrowProduct : unsigned char { BFloat16, Int16, Int8 };

/// The tiles of MatMulCore(F32, true) and what packs their operands, where the processor has AVX512-BF16 or VNNI; and,
/// for elements where they lie, as many as `k` says:
///   dots      of bytes the low 8 bits of a sum are right
///   row(n)    C[n, live] (+)= A[n, k] B[k, live], n up to MatMulCore::kNarrowRows; rows of A are contiguous, whole
///             groups with zeros behind k
Expected<KernelCode, std::string> emit_narrow_matmul(NarrowProduct kind, const Cpu& cpu);

/// The parts of a AmxCore, where the processor has AMX for such elements; not for int16.
Expected<KernelCode, std::string> emit_amx_matmul(NarrowProduct kind, const Cpu& cpu);

}  // namespace framejit::codegen
