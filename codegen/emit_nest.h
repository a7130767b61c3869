// The code of one LoopNest, in layers: operands (NestOperands), body (NestBody), loops (NestEmitter). Private to the
// emitter.
//
//   entry -> pointers and strides to registers, constants
//   for each outer row                        (Rows folds: for each block of columns, then for each row)
//     invariants (broadcast loads and what depends on them alone)
//     main loop: whole vectors                 body emitted `unroll` times
//     tail loop: at most one vector at a time  body emitted once, with masks
//
// Idle lanes of a tail are filled with a copy of its first element at every load, so that they raise what a live lane
// raises anyway, whatever the body does.
#pragma once

#include <vector>

#include "codegen/emit_ops.h"
#include "codegen/loop_nest.h"

namespace framejit::codegen {

/// Where a nest stands, and the loads and stores of its operands there (emit_access.cpp).
class NestOperands {
 protected:
  NestOperands(const LoopNest& nest, asmjit::x86::Compiler& cc, bool avx512);

  struct OperandState {
    DType dtype;
    int size;
    int part;  // of a complex element: the size of one part; else `size`
    Access access;
    Gp row;          // first element of the row
    Gp at;           // Strided and Rows: element at the current position; else unused
    Gp stride;       // Strided: inner stride in bytes
    Gp thrice;       // Strided: stride * 3
    Gp step;         // Strided: stride * lanes
    Gp block;        // Rows: first row of the current block of columns
    Vec index[2];    // Strided, 4 bytes and more: offsets for gathers
    Value parts[2];  // complex: what the body at hand has loaded
  };

  void load_arguments();
  void advance_strided();
  Mem address(const OperandState& o, int u);
  Value load_operand(int operand, int u, int part = 0);
  Vec load_lanes(OperandState& o, int u);
  Vec load_tail(OperandState& o, int u);
  Vec gather(OperandState& o, int part = 0);
  Vec gather_by_element(OperandState& o, int u);
  Vec load_elements(OperandState& o, int part, int width);
  void store_elements(OperandState& o, int part, int width, const Vec& a);
  template <class F>
  void for_each_element(OperandState& o, int part, int width, F&& visit);
  Vec load_half(OperandState& o, int u, int half);
  void load_parts(OperandState& o, int u);
  void store_operand(int operand, int u, const Value& value, bool non_temporal);
  void store_parts(int operand, int u, const Vec& real, const Vec& imaginary, bool non_temporal);
  void scatter_parts(OperandState& o, int u, const Vec& real, const Vec& imaginary);
  void scatter_by_element(OperandState& o, int u, const Vec& a);
  Vec load_broadcast(const OperandState& o, int part);
  Value to_value(DType t, const Vec& loaded);
  Vec to_memory(DType t, const Value& value);
  Vec iota(int size);
  Mask tail_mask(int size);
  Mask tail_mask_of_parts(int size, int half);
  template <class F>
  void for_each_lane(F&& body);

  const LoopNest& nest_;
  asmjit::x86::Compiler& cc_;
  Vasm v_;
  std::vector<OperandState> operands_;
  Gp ptrs_, strides_;
  Gp index_;  // inner index of the current vector
  bool tail_ = false;
  bool rows_ = false;  // inside a Rows fold: operands are at `at`, not at row + index
  Gp count_;           // live lanes of the tail, 1..lanes
  KReg tail_k_;
  Vec tail_lanes_[2];  // AVX2: masks for lanes of 4 and 8 bytes
  KReg
      tail_parts_k_[2];  // of twice the live lanes, the parts of complex elements: the first vector of them, the second
  Vec tail_parts_lanes_[2][2];  // AVX2: by size and half
};

/// The expressions of a nest as values in registers (emit_body.cpp).
class NestBody : protected NestOperands {
 protected:
  using NestOperands::NestOperands;

  void analyse();
  void hoist_constants();
  void hoist_row();
  bool shares_divisor(const Expr& e) const;
  bool share_divisors(const Label& exact);
  void eval_body(int u);
  bool is_chain_of_its_own(std::size_t expr) const;
  std::vector<std::size_t> independent_functions(std::size_t first) const;
  void evaluate_by_turns(const std::vector<std::size_t>& functions, int u);
  const Value& value(uint16_t expr, int u);
  Value compute(uint16_t expr, int u);
  Value contract(const Expr& e, int u);
  Value constant(const Expr& e);
  Value inner_index(const Expr& e, int u);
  void store_all(int u, std::size_t first_store);
  void store(const NestStore& s, int u, bool non_temporal);
  std::ptrdiff_t heavy_ops() const;
  DType fold_dtype() const;
  int fold_size() const { return graph::size_of(fold_dtype()); }

  bool bodies_take_turns_ = false;  // so that functions in one body need not
  std::vector<bool> invariant_;     // by expression
  std::vector<bool> contracted_;  // what its one user takes into a fused multiply-add: at O1 a product, and a Negative
  std::vector<Value> hoisted_, values_;
  std::vector<Vec> reciprocals_;  // by expression: of divisors that the row at hand shares
};

/// The loops around the body (emit_loops.cpp), and folds (emit_fold.cpp).
class NestEmitter : NestBody {
 public:
  NestEmitter(const LoopNest& nest, asmjit::x86::Compiler& cc, bool avx512) : NestBody(nest, cc, avx512) {}
  void emit_function();

 private:
  void emit_fold_or_row();
  void emit_rows_of_elements(const Label& exit);
  void emit_row();
  /// May a store, or any, bypass the cache?
  bool may_bypass(const NestStore& s) const;
  bool may_bypass() const;
  /// `streaming`: the nest has stores that may bypass the cache; `non_temporal`: here they do.
  void main_loop(bool streaming, bool non_temporal);
  void prefetch(int u);
  template <class F>
  void tail_loop(F&& body);
  void set_tail();
  bool is_in_registers() const;
  bool is_chain() const;
  bool may_interleave() const;
  int unroll_factor(asmjit::BaseNode* before, bool streaming) const;

  // Folds
  void fold_pairwise();
  void fold_any_order();
  void fold_any_order_bool();
  bool counts_bools() const;
  void count_bools(const Vec& counts);
  void fold_blocks();
  void fold_left();
  void fold_rows();
  void fold_rows_block(int unroll);
  void add_elements(OperandState& o, std::vector<asmjit::x86::Xmm>& sums, int count);
  void sum_elements(std::vector<asmjit::x86::Xmm>& sums, Vec (&totals)[2]);
  void add_elements_in_order(const Vec& accumulator, const Value& value);
  Vec combine(const Vec& a, const Vec& b);
  Vec horizontal(const Vec& a, int size);
  Vec pairwise_horizontal(const Vec& a, int size);
  Vec load_scalar(int size, const Mem& from);
  void clear(const Vec& a) { cc_.emit(I::kIdVxorps, a, a, a); }
  void store_scalar(int size, const Mem& to, const Vec& a);

  Gp n_inner_, n_outer_;
  Gp lengths_;         // PairwiseLeaf: where the length of the row at hand stands
  bool rare_ = false;  // what hardly ever runs is done one vector at a time
};

/// Emits a loop over the live lanes; `body` gets a register that counts them.
template <class F>
void NestOperands::for_each_lane(F&& body) {
  const Gp lane = v_.gp();
  const Label again = cc_.newLabel();
  cc_.xor_(lane.r32(), lane.r32());
  cc_.bind(again);
  body(lane);
  cc_.inc(lane);
  if (tail_) cc_.cmp(lane, count_);
  else cc_.cmp(lane, v_.lanes);
  cc_.jb(again);
}

/// One vector at a time from `index_` on, masked; `body` evaluates and stores.
template <class F>
void NestEmitter::tail_loop(F&& body) {
  const Label again = cc_.newLabel(), done = cc_.newLabel();
  cc_.cmp(index_, n_inner_);
  cc_.jge(done);
  cc_.bind(again);
  tail_ = true;
  set_tail();
  body();
  advance_strided();
  tail_ = false;
  cc_.add(index_, v_.lanes);
  cc_.cmp(index_, n_inner_);
  cc_.jl(again);
  cc_.bind(done);
}

/// Calls `visit` with the address of each strided element of `width` bytes at the current position, from the first of
/// vector number `part` on: four to a base register.
template <class F>
void NestOperands::for_each_element(OperandState& o, int part, int width, F&& visit) {
  const int count = width / o.size;
  Gp base = o.at;
  if (part > 0) {
    base = v_.gp();
    cc_.mov(base, o.stride);
    cc_.imul(base, base, asmjit::Imm(part * count));
    cc_.add(base, o.at);
  }
  for (int i = 0; i < count; ++i) {
    if (i > 0 && i % 4 == 0) {
      const Gp next = v_.gp();
      cc_.lea(next, asmjit::x86::ptr(base, o.stride, 2));
      base = next;
    }
    Mem at = i % 4 == 0   ? asmjit::x86::ptr(base)
             : i % 4 == 3 ? asmjit::x86::ptr(base, o.thrice)
                          : asmjit::x86::ptr(base, o.stride, static_cast<uint32_t>(i % 4 - 1));
    at.setSize(static_cast<uint32_t>(o.size));
    visit(i, at);
  }
}

/// Vectors that folds in any order and in blocks take side by side.
int nest_accumulators(const LoopNest& nest);

/// Lanes of the nest's vectors.
int nest_lanes(const LoopNest& nest, bool avx512);

}  // namespace framejit::codegen
