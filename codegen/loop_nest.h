// LoopNest: the innermost two loops of a kernel, over scalar expressions; what the emitter turns into machine code.
//
//     for j in 0..n_outer:                          # optional; pointers advance by the outer strides
//       for i in 0..n_inner:                        # vectorised, masked tail
//         e0 = load op0[i]; e1 = load op1 (broadcast); e2 = multiply f32 e0 e1; store op2[i] <- e2
//
// Expressions are real: a complex operand is loaded and stored part by part.
//
// Neutral of target and of who uses it: extents and strides come at run time, the *kind* of inner stride is part of the
// code. Broadcast loads and what depends on them alone are hoisted out of the inner loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace framejit::codegen {

enum class Access : uint8_t {
  Contiguous,  // inner stride == element size
  Broadcast,   // inner stride 0
  Strided,     // any inner stride, a multiple of nothing: misaligned is allowed
};

struct NestOperand {
  graph::DType dtype;
  Access access;
  bool written;
};

enum class ExprKind : uint8_t { Load, Constant, Apply, InnerIndex };

struct Expr {
  ExprKind kind;
  graph::Op op = graph::Op::Param;  // Apply: elementwise operators and Cast
  graph::DType dtype;               // of the result
  graph::DType operand_dtype;       // Apply: of the operands
  uint16_t args[3] = {
      0, 0,
      0};  // Apply: earlier expressions; Load: the operand, and which part of a complex element (0 real, 1 imaginary)
  graph::Scalar constant{};
};

struct NestStore {
  uint16_t operand, expr;
  bool non_temporal = false;
  uint16_t imaginary = 0;  // of a complex operand: the expression of that part; `expr` is the real one
};

/// How the values of the first store are combined; its operand is the result. Further stores are elementwise.
enum class Fold : uint8_t {
  None,
  /// NumPy's pairwise leaf: n_inner <= 128 elements (complex: counted in real numbers), eight accumulators
  /// added as a tree, one scalar stored to operand 0 of `stores`. Fewer than 8: left fold from -0.0. In place of
  /// n_inner the kernel takes the address of the lengths of the rows, and a row begins where the one before ended, plus
  /// the outer stride.
  PairwiseLeaf,
  /// out[i] = combine(out[i], value) for each outer row in order; columns are vectorised, accumulators stay in
  /// registers.
  Rows,
  /// Any order (integer sum, min, max, any, all; floats at O1): the inner run is combined into the scalar at the
  /// output, which holds the value so far.
  AnyOrder,
  /// Sums of floats at O1: out = 0 + the run, in as many accumulators as hide the latency of an addition, in blocks of
  /// kBlock vectors for each. Up to kBlock blocks no element passes through more additions than it does in NumPy's
  /// order.
  Blocks,
  /// Strict left fold (prod).
  LeftFold,
};

/// Of Fold::Blocks: vectors of a block for each accumulator, and blocks of a run.
inline constexpr int kBlock = 8;

struct LoopNest {
  std::string name;  // for listings and perf maps
  std::vector<NestOperand> operands;
  std::vector<Expr> body;
  std::vector<NestStore> stores;
  Fold fold = Fold::None;
  graph::Op combine = graph::Op::Add;  // Add, Multiply, Minimum, Maximum, LogicalOr, LogicalAnd
  bool o1 = false;                     // own vector math, contraction to FMA
  bool shares_divisors =
      false;             // O1: a division by what is the same for a row is a product, where the reciprocal is as good
  bool guarded = false;  // stops behind the first outer row that raises a flag: GuardedFn (kernel.h); no fold
  bool guards_together = false;  // ... or behind several rows

  std::string str() const;  // stable text: the key of the kernel cache together with the Isa
};

}  // namespace framejit::codegen
