// Position-independent bytes of a generator of xbyak.
#pragma once

#define XBYAK_NO_OP_NAMES
#include <xbyak/xbyak.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "codegen/kernel.h"
#include "graph/support/check.h"

namespace framejit::codegen {

/// Of at most `most` bytes, a multiple of 64. They are written into memory that is never executable and begins at a
/// multiple of 64, as code does where it runs: xbyak aligns loops by addresses.
template <class Generator, class... Args>
KernelCode assemble(std::string name, std::size_t most, const Args&... args) {
  constexpr std::size_t kAlignment = 64;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(kAlignment, most), &std::free);
  FRAMEJIT_CHECK(buffer != nullptr, "no memory for machine code");
  KernelCode out;
  out.name = std::move(name);
  try {
    const Generator generator(buffer.get(), args...);
    const auto* bytes = static_cast<const uint8_t*>(buffer.get());
    out.bytes.assign(bytes, bytes + generator.getSize());
  } catch (const Xbyak::Error& error) {
    FRAMEJIT_CHECK(false, error.what());
  }
  return out;
}

}  // namespace framejit::codegen
