#include "ext/module/core_code.h"

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "codegen/matmul.h"
#include "ext/module/config.h"

namespace framejit::ext::module {

const runtime::CodeBlock* sealed(std::optional<runtime::CodeBlock>& block,
                                 Expected<codegen::KernelCode, std::string> kernel) {
  if (!block && kernel) {
    const std::span<const uint8_t> piece(kernel->bytes);
    if (auto made = runtime::CodeBlock::seal({&piece, 1})) block = std::move(*made);
  }
  return block ? &*block : nullptr;
}

const runtime::CodeBlock* matmul_code(graph::DType dtype) {
  static auto& blocks =
      *new std::array<std::optional<runtime::CodeBlock>, 8>;  // threads may run them while the process ends
  const codegen::Isa isa = target_cpu().isa;
  if (isa == codegen::Isa::None) return nullptr;
  auto& block = blocks[graph::is_int(dtype) * 4U + (graph::size_of(dtype) == 8) * 2U + (isa == codegen::Isa::Avx512)];
  return block ? &*block : sealed(block, codegen::emit_matmul(dtype, isa));
}

}  // namespace framejit::ext::module
