// Executable memory: private anonymous pages, written first, then made executable; never both at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/support/expected.h"

namespace framejit::runtime {

/// A sealed block of code; unmapped on destruction.
class CodeBlock {
 public:
  /// Places the pieces one after the other, each at a 64-byte boundary, gaps filled with int3, a guard page at both
  /// ends.
  static Expected<CodeBlock, std::string> seal(std::span<const std::span<const uint8_t>> pieces);
  CodeBlock() = default;
  CodeBlock(CodeBlock&&) noexcept;
  CodeBlock& operator=(CodeBlock&&) noexcept;
  ~CodeBlock();
  const void* entry(std::size_t piece) const { return entries_[piece]; }
  std::size_t bytes() const { return size_; }

 private:
  void* map_ = nullptr;
  std::size_t map_size_ = 0, size_ = 0;
  std::vector<const void*> entries_;
};

}  // namespace framejit::runtime
