// Runs nests: executable memory, guarded operand buffers, MXCSR, and the instruction sets of this machine.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cpu.h"
#include "codegen/emit.h"

namespace framejit::codegen::testing {

using graph::DType;
using graph::Op;

/// Status flags of MXCSR that NumPy looks at.
enum StatusFlag : unsigned { kInvalid = 1, kDivide = 4, kOverflow = 8, kUnderflow = 16, kSeen = 29 };

/// Bytes in executable memory, never writable at the same time.
class Executable {
 public:
  explicit Executable(const std::vector<uint8_t>& bytes);
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  const void* entry() const { return map_; }

 private:
  void* map_ = nullptr;
  std::size_t size_ = 0;
};

/// A buffer whose last byte stands right before an unmapped page, so that reads past the end fault.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&&) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void* map_ = nullptr;
  std::size_t map_size_ = 0, size_ = 0;
  char* data_ = nullptr;
};

std::vector<Isa> isas();
std::string isa_name(Isa isa);

/// Runs the kernel with cleared flags; gives the flags that NumPy looks at.
unsigned run_kernel(const Executable& code, char* const* ptrs, const int64_t* strides, int64_t n_inner,
                    int64_t n_outer = 1);

/// emit() that must succeed.
Executable compile(const LoopNest& nest, Isa isa);

// Small builders of nests.
uint16_t add_load(LoopNest& nest, DType t, Access access);
uint16_t add_apply(LoopNest& nest, Op op, DType operand, DType result, std::vector<uint16_t> args);
uint16_t add_constant(LoopNest& nest, DType t, uint64_t bits);
void add_store(LoopNest& nest, DType t, Access access, uint16_t expr);

}  // namespace framejit::codegen::testing
