// Products of groups of narrow elements along k, which are made of wider or as narrow ones first.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/product.h"

namespace framejit::runtime {

/// What an operand is made of: float32, to be rounded; low bits of 32; elements of 16 or 8 bits as they are.
enum class Narrowed : uint8_t { Rounded, Low16, Low8, Whole16, Whole8 };
constexpr int64_t group_of(Narrowed from) { return from == Narrowed::Low8 || from == Narrowed::Whole8 ? 4 : 2; }

/// An operand and its groups: distances in bytes along k and along its other axis, there and as groups, whose other
/// axis may lie in panels. Groups beyond k are zeros.
struct NarrowOperand {
  Narrowed from;
  int64_t k, groups, length, along_k, step;
  int64_t out_along_k, out_step, panel, out_panel, out_matrix;
  int64_t matrices = 1, bytes = 0;
  std::vector<std::pair<int64_t, int64_t>> batch;  // extent and distance of axes along which it is not broadcast
};

struct NarrowOperands {
  NarrowOperand a, b;
  int64_t bytes() const { return a.bytes + b.bytes; }
};

/// Makes `product`, whose C has elements of 32 bits, one of groups along k, contiguous matrix by matrix. `code`: a
/// narrow core or, `in_amx`, a codegen::AmxCore.
NarrowOperands take_groups(Product& product, Narrowed from, const void* code, bool in_amx);

}  // namespace framejit::runtime
