// Folds: NumPy's pairwise leaf, folds in any order, strict left folds, and folds of rows into a row.
#include <algorithm>
#include <iterator>
#include <tuple>

#include "codegen/emit_nest.h"
#include "graph/support/check.h"

namespace framejit::codegen {

using graph::Op;
namespace x86 = asmjit::x86;

Vec NestEmitter::combine(const Vec& a, const Vec& b) {
  Operands x;
  x.op = nest_.fold == Fold::PairwiseLeaf ? Op::Add : nest_.combine;
  x.operand = x.result = fold_dtype();
  x.a.v = a;
  x.b.v = b;
  x.a.valid = x.b.valid = true;
  return apply(v_, x).v;
}

/// One element in lane 0, zeros above (which no combiner turns into a flag).
Vec NestEmitter::load_scalar(int size, const Mem& from) {
  const Vec r = cc_.newXmm();
  switch (size) {
    case 1:
    case 2: {
      const Gp element = v_.gp();
      Mem sized = from;
      sized.setSize(size);
      cc_.movzx(element.r32(), sized);
      cc_.vmovd(r.xmm(), element.r32());
      break;
    }
    case 4: cc_.vmovd(r.xmm(), from); break;
    default: cc_.vmovq(r.xmm(), from); break;
  }
  return r;
}

void NestEmitter::store_scalar(int size, const Mem& to, const Vec& a) {
  switch (size) {
    case 1: cc_.vpextrb(to, a.xmm(), asmjit::Imm(0)); break;
    case 2: cc_.vpextrw(to, a.xmm(), asmjit::Imm(0)); break;
    case 4: cc_.vmovd(to, a.xmm()); break;
    default: cc_.vmovq(to, a.xmm()); break;
  }
}

// --- Pairwise
// ----------------------------------------------------------------------------------------------------------

/// (0+1)+(2+3), and so on for each four lanes; then the upper half is added to the lower. Shuffles repeat live lanes,
/// so no lane raises what a live one does not.
Vec NestEmitter::pairwise_horizontal(const Vec& a, int size) {
  const int width = v_.bytes(size);
  const Vec swapped =
      v_.op(size == 4 ? I::kIdVpermilps : I::kIdVpermilpd, size, a, asmjit::Imm(size == 4 ? 0xb1 : 0x55));
  const Vec pairs = v_.fadd(size, a, swapped);
  const Vec other = size == 4 ? v_.op(I::kIdVpermilps, size, pairs, asmjit::Imm(0x4e))
                              : v_.op(I::kIdVpermpd, size, pairs, asmjit::Imm(0x4e));
  const Vec fours = v_.fadd(size, pairs, other);
  if (v_.lanes == 4) return fours;
  LaneScope scope(v_, 4);
  return v_.fadd(size, v_.lower_half(fours, width), v_.upper_half(fours, width));
}

void NestEmitter::add_elements_in_order(const Vec& accumulator, const Value& element_values) {
  const int size = fold_size();
  const Mem buffer = v_.scratch(3);
  v_.store(size, buffer, to_memory(fold_dtype(), element_values));
  for_each_lane([&](const Gp& lane) {
    Mem from = buffer.cloneAdjusted(0);
    from.setIndex(lane, size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3);
    const Vec element = load_scalar(size, from);
    LaneScope scope(v_, 16 / size);
    cc_.vmovups(accumulator.xmm(), combine(accumulator, element).xmm());
  });
}

/// Strided elements, added to accumulators of one element each, as memory operands; the first ones become the
/// accumulators.
void NestEmitter::add_elements(OperandState& o, std::vector<x86::Xmm>& sums, int count) {
  const bool first = sums.empty();
  for_each_element(o, 0, count * o.size, [&](int i, const Mem& at) {
    if (first) sums.push_back(cc_.newXmm());
    const x86::Xmm sum = sums[static_cast<std::size_t>(i)];
    if (o.size == 16 && first) return void(cc_.vmovupd(sum, at));
    if (o.size == 16) return void(cc_.vaddpd(sum, sum, at));
    if (o.size == 4) return void(first ? cc_.vmovss(sum, at) : cc_.vaddss(sum, sum, at));
    if (o.part == 8 && !first) return void(cc_.vaddsd(sum, sum, at));
    const x86::Xmm element = first ? sum : cc_.newXmm();
    cc_.vmovsd(element, at);
    if (!first) cc_.vaddps(sum, sum, element);
  });
}

/// (0+1)+(2+3), and so on; by component.
void NestEmitter::sum_elements(std::vector<x86::Xmm>& sums, Vec (&totals)[2]) {
  const bool twice = fold_size() == 8;
  for (std::size_t n = sums.size() / 2; n > 0; n /= 2)
    for (std::size_t i = 0; i < n; ++i)
      cc_.emit(twice ? I::kIdVaddpd : I::kIdVaddps, sums[i], sums[2 * i], sums[2 * i + 1]);
  cc_.vmovups(totals[0].xmm(), sums[0]);
  if (totals[1].isXmm()) cc_.emit(twice ? I::kIdVpermilpd : I::kIdVpermilps, totals[1], sums[0], asmjit::Imm(1));
}

/// Complex numbers are counted in real ones: four accumulators for each part, in blocks of four elements. Where they
/// are just read the parts take turns in the accumulators as well.
void NestEmitter::fold_pairwise() {
  const NestStore& store = nest_.stores[0];
  const OperandState& out = operands_[store.operand];
  const int size = fold_size(), components = out.size / out.part, block_length = 8 / components,
            vectors = block_length / v_.lanes;
  const uint16_t results[2] = {store.expr, store.imaginary};
  const Expr& first_part = nest_.body[store.expr];
  const bool read = nest_.stores.size() == 1 && std::ssize(nest_.body) == components &&
                    first_part.kind == ExprKind::Load && first_part.args[1] == 0 &&
                    (components == 1 || nest_.body[store.imaginary].args[1] == 1) && !invariant_[store.expr];
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  Vec totals[2], accumulators[2][2];  // by component, and by vector of a block
  for (int c = 0; c < components; ++c) {
    totals[c] = cc_.newXmm();
    for (int i = 0; i < vectors; ++i) accumulators[c][i] = v_.fresh(size);
    LaneScope scope(v_, 16 / size);
    cc_.vmovups(totals[c].xmm(), v_.splat(size, Vasm::sign_bit(size)));  // -0.0 + x is x for every x
  }
  const Label tail = cc_.newLabel(), reduce = cc_.newLabel(), again = cc_.newLabel();
  const Gp limit = v_.gp();
  cc_.lea(limit, x86::ptr(n_inner_, -block_length));
  cc_.test(limit, limit);
  cc_.js(tail);
  OperandState* const strided =
      read && operands_[first_part.args[0]].access == Access::Strided ? &operands_[first_part.args[0]] : nullptr;
  std::vector<x86::Xmm> elements;
  const auto block = [&](bool first) {
    if (strided) add_elements(*strided, elements, block_length);
    for (int i = 0; i < vectors; ++i) {
      if (strided) {
        advance_strided();
        continue;
      }
      const bool halves = read && components == 2;
      if (!halves) eval_body(i);
      for (int c = 0; c < components; ++c) {
        const Vec element = halves ? load_half(operands_[first_part.args[0]], i, c) : values_[results[c]].v;
        cc_.vmovups(accumulators[c][i], first ? element : v_.fadd(size, accumulators[c][i], element));
      }
      store_all(i, 1);
      advance_strided();
    }
    cc_.add(index_, block_length);
    cc_.cmp(index_, limit);
  };
  block(true);
  cc_.jg(reduce);
  cc_.bind(again);
  block(false);
  cc_.jle(again);
  cc_.bind(reduce);
  if (strided) sum_elements(elements, totals);
  if (read && components == 2 && !strided)
    std::tie(accumulators[0][0], accumulators[1][0]) = v_.unzip(size, accumulators[0][0], accumulators[1][0]);
  for (int c = 0; c < components && !strided; ++c) {
    Vec sum = pairwise_horizontal(accumulators[c][0], size);
    if (vectors == 2) {
      LaneScope scope(v_, 4);
      sum = v_.fadd(size, sum, pairwise_horizontal(accumulators[c][1], size));
    }
    cc_.vmovups(totals[c].xmm(), sum.xmm());
  }
  cc_.bind(tail);
  tail_loop([&] {
    eval_body(0);
    for (int c = 0; c < components; ++c) add_elements_in_order(totals[c], values_[results[c]]);
    store_all(0, 1);
  });
  if (components == 1) return store_scalar(size, x86::ptr(out.row), totals[0]);
  // In one piece, as it is read again.
  const Vec both = cc_.newXmm();
  cc_.emit(size == 4 ? I::kIdVunpcklps : I::kIdVunpcklpd, both, totals[0].xmm(), totals[1].xmm());
  LaneScope scope(v_, 2);
  v_.store(size, x86::ptr(out.row), both);
}

// --- Any order
// ---------------------------------------------------------------------------------------------------------

Vec NestEmitter::horizontal(const Vec& a, int size) {
  Vec r = a;
  int width = v_.bytes(size);
  while (width > 16) {
    const Vec low = v_.lower_half(r, width), high = v_.upper_half(r, width);
    width /= 2;
    LaneScope scope(v_, width / size);
    r = combine(low, high);
  }
  LaneScope scope(v_, 16 / size);
  for (int step = width / 2; step >= size; step /= 2) {
    Vec shifted;
    if (step >= 4) shifted = v_.op(I::kIdVpshufd, size, r, asmjit::Imm(step == 8 ? 0x4e : 0xb1));
    else shifted = v_.op(I::kIdVpsrldq, size, r, asmjit::Imm(step));
    r = combine(r, shifted);
  }
  return r;
}

void NestEmitter::fold_any_order() {
  const DType t = fold_dtype();
  const int size = fold_size();
  const NestStore& store = nest_.stores[0];
  const bool idempotent = nest_.combine != Op::Add && nest_.combine != Op::Multiply;
  const uint64_t identity = nest_.combine == Op::Multiply ? (graph::is_float(t) ? float_bits(size, 1.0) : 1)
                            : graph::is_float(t)          ? Vasm::sign_bit(size)
                                                          : 0;
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  const int unroll = nest_accumulators(nest_);
  const Mem out = x86::ptr(operands_[store.operand].row);
  std::vector<Vec> accumulators;
  for (int u = 0; u < unroll; ++u) {
    accumulators.push_back(v_.fresh(size));
    // Minimum and the like start from the value so far; sums from nothing, and are added to it in the end.
    cc_.vmovups(accumulators[u], idempotent ? v_.broadcast(size, out) : v_.splat(size, identity));
  }
  const auto take = [&](int u) {
    cc_.vmovups(accumulators[u], combine(accumulators[u], values_[store.expr].v));
    store_all(u, 1);
    advance_strided();
  };
  if (counts_bools()) count_bools(accumulators[0]);
  const Label again = cc_.newLabel(), tail = cc_.newLabel();
  const Gp limit = v_.gp();
  cc_.lea(limit, x86::ptr(n_inner_, -unroll * v_.lanes));
  cc_.cmp(limit, index_);
  cc_.jl(tail);
  cc_.bind(again);
  for (int u = 0; u < unroll; ++u) {
    eval_body(u);
    take(u);
  }
  cc_.add(index_, unroll * v_.lanes);
  cc_.cmp(index_, limit);
  cc_.jle(again);
  cc_.bind(tail);
  tail_loop([&] {
    eval_body(0);
    Vec element = values_[store.expr].v;
    if (!idempotent) element = v_.select(size, tail_mask(size), element, v_.splat(size, identity));
    cc_.vmovups(accumulators[0], combine(accumulators[0], element));
    store_all(0, 1);
  });
  Vec total = accumulators[0];
  for (int u = 1; u < unroll; ++u) total = combine(total, accumulators[u]);
  total = horizontal(total, size);
  if (!idempotent) {
    LaneScope scope(v_, 16 / size);
    total = combine(load_scalar(size, out), total);
  }
  store_scalar(size, out, total);
}

/// Are bools that lie side by side added as integers, and nothing else done?
bool NestEmitter::counts_bools() const {
  if (nest_.combine != Op::Add || fold_dtype() != DType::I64 || nest_.stores.size() != 1 || nest_.body.size() != 2)
    return false;
  const Expr &loaded = nest_.body[0], &cast = nest_.body[1];
  return nest_.stores[0].expr == 1 && loaded.kind == ExprKind::Load && loaded.dtype == DType::Bool &&
         operands_[loaded.args[0]].access == Access::Contiguous && cast.kind == ExprKind::Apply &&
         cast.op == Op::Cast && cast.args[0] == 0 && v_.bytes(8) == (v_.avx512 ? 64 : 32);
}

/// As many at once as a vector has bytes, which are summed in groups of eight.
void NestEmitter::count_bools(const Vec& counts) {
  const int bytes = v_.bytes(8);
  const Vec ones = v_.splat(8, 0x0101010101010101), zero = v_.splat(8, 0);
  const Label again = cc_.newLabel(), end = cc_.newLabel();
  const Gp limit = v_.gp();
  cc_.lea(limit, x86::ptr(n_inner_, -bytes));
  cc_.bind(again);
  cc_.cmp(index_, limit);
  cc_.jg(end);
  const Vec some = v_.fresh_bytes(bytes);
  cc_.emit(I::kIdVpminub, some, ones,
           x86::ptr(operands_[nest_.body[0].args[0]].row, index_));  // any byte but 0 is True
  cc_.emit(I::kIdVpsadbw, some, some, zero);
  cc_.emit(I::kIdVpaddq, counts, counts, some);
  cc_.add(index_, bytes);
  cc_.jmp(again);
  cc_.bind(end);
}

void NestEmitter::fold_any_order_bool() {
  // Both are "is there a lane that decides": a true one for any, a false one for all.
  const NestStore& store = nest_.stores[0];
  const bool all = nest_.combine == Op::LogicalAnd || nest_.combine == Op::Multiply || nest_.combine == Op::Minimum ||
                   nest_.combine == Op::BitwiseAnd;
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  const Mask found = v_.mask_const(false);
  const auto take = [&](const Mask& m) {
    const Mask merged = v_.mask_or(found, all ? v_.mask_not(m) : m);
    if (v_.avx512) cc_.kmovq(found.k, merged.k);
    else cc_.vmovups(found.v, v_.mask_lanes(merged, found.size));
  };
  const Label again = cc_.newLabel(), tail = cc_.newLabel(), undecided = cc_.newLabel();
  const Gp limit = v_.gp();
  cc_.lea(limit, x86::ptr(n_inner_, -v_.lanes));
  cc_.test(limit, limit);
  cc_.js(tail);
  cc_.bind(again);
  eval_body(0);
  take(values_[store.expr].m);
  store_all(0, 1);
  advance_strided();
  cc_.add(index_, v_.lanes);
  cc_.cmp(index_, limit);
  cc_.jle(again);
  cc_.bind(tail);
  tail_loop([&] {
    eval_body(0);
    take(values_[store.expr].m);
    store_all(0, 1);
  });
  v_.branch(found, false, undecided);
  cc_.mov(x86::byte_ptr(operands_[store.operand].row), all ? 0 : 1);
  cc_.bind(undecided);
}

// --- Blocks
// ---------------------------------------------------------------------------------------------------------

/// A product is added as it is computed, with one rounding.
void NestEmitter::fold_blocks() {
  const int size = fold_size(), unroll = nest_accumulators(nest_);
  const uint16_t folded = nest_.stores[0].expr;
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  std::vector<Vec> block, totals;
  for (int u = 0; u < unroll; ++u) {
    block.push_back(v_.fresh(size));
    totals.push_back(v_.fresh(size));
    clear(totals.back());
  }
  const auto add = [&](const Vec& to, const Vec& element) {
    cc_.emit(size == 4 ? I::kIdVaddps : I::kIdVaddpd, to, to, element);
  };
  const Label again = cc_.newLabel(), inside = cc_.newLabel(), tail = cc_.newLabel();
  const Gp limit = v_.gp(), end = v_.gp();
  if (rare_) cc_.jmp(tail);
  cc_.lea(limit, x86::ptr(n_inner_, -unroll * v_.lanes));
  cc_.cmp(index_, limit);
  cc_.jg(tail);
  cc_.bind(again);
  cc_.lea(end, x86::ptr(index_, (kBlock - 1) * unroll * v_.lanes));
  cc_.cmp(end, limit);
  cc_.cmovg(end, limit);
  for (const Vec& sum : block) clear(sum);
  cc_.bind(inside);
  for (int u = 0; u < unroll; ++u) {
    eval_body(u);
    if (contracted_[folded]) {
      const Expr& product = nest_.body[folded];
      const Vec a = value(product.args[0], u).v, b = value(product.args[product.op == Op::Square ? 0 : 1], u).v;
      cc_.emit(size == 4 ? I::kIdVfmadd231ps : I::kIdVfmadd231pd, block[u], a, b);
    } else {
      add(block[u], values_[folded].v);
    }
    store_all(u, 1);
    advance_strided();
  }
  cc_.add(index_, unroll * v_.lanes);
  cc_.cmp(index_, end);
  cc_.jle(inside);
  for (int u = 0; u < unroll; ++u) add(totals[u], block[u]);
  cc_.cmp(index_, limit);
  cc_.jle(again);
  cc_.bind(tail);
  tail_loop([&] {
    eval_body(0);
    add(totals[0], v_.keep(size, tail_mask(size), value(folded, 0).v));
    store_all(0, 1);
  });
  for (int n = unroll / 2; n > 0; n /= 2)
    for (int u = 0; u < n; ++u) add(totals[u], totals[u + n]);
  store_scalar(size, x86::ptr(operands_[nest_.stores[0].operand].row), horizontal(totals[0], size));
}

// --- Left fold
// ---------------------------------------------------------------------------------------------------------

void NestEmitter::fold_left() {
  const NestStore& store = nest_.stores[0];
  if (fold_dtype() == DType::Bool) return fold_any_order_bool();  // order does not matter
  const int size = fold_size();
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  const Mem out = x86::ptr(operands_[store.operand].row);
  const Vec total = load_scalar(size, out);
  const Label again = cc_.newLabel(), tail = cc_.newLabel();
  const Gp limit = v_.gp();
  cc_.lea(limit, x86::ptr(n_inner_, -v_.lanes));
  cc_.test(limit, limit);
  cc_.js(tail);
  cc_.bind(again);
  eval_body(0);
  add_elements_in_order(total, values_[store.expr]);
  store_all(0, 1);
  advance_strided();
  cc_.add(index_, v_.lanes);
  cc_.cmp(index_, limit);
  cc_.jle(again);
  cc_.bind(tail);
  tail_loop([&] {
    eval_body(0);
    add_elements_in_order(total, values_[store.expr]);
    store_all(0, 1);
  });
  store_scalar(size, out, total);
}

// --- Rows
// --------------------------------------------------------------------------------------------------------------

void NestEmitter::fold_rows_block(int unroll) {
  const DType t = fold_dtype();
  const NestStore& store = nest_.stores[0];
  OperandState& out = operands_[store.operand];
  const int components = out.size / out.part;
  const uint16_t results[2] = {store.expr, store.imaginary};
  for (OperandState& o : operands_) cc_.mov(o.at, o.block);
  std::vector<Value> accumulators;  // the components of each vector
  for (int u = 0; u < unroll; ++u) {
    out.parts[0].valid = false;
    for (int c = 0; c < components; ++c) {
      const Value loaded = load_operand(store.operand, u, c);
      Value accumulator;  // registers of its own: written in the loop
      accumulator.valid = true;
      if (t != DType::Bool) {
        accumulator.v = v_.copy(graph::size_of(t), loaded.v);
      } else {
        accumulator.m = v_.mask_const(false);
        if (v_.avx512) cc_.kmovq(accumulator.m.k, loaded.m.k);
        else cc_.vmovups(accumulator.m.v, v_.mask_lanes(loaded.m, accumulator.m.size));
      }
      accumulators.push_back(accumulator);
    }
  }
  const Gp rows = v_.gp();
  const Label again = cc_.newLabel();
  cc_.mov(rows, n_outer_);
  cc_.bind(again);
  for (int u = 0; u < unroll; ++u) {
    eval_body(u);
    for (int c = 0; c < components; ++c) {
      const Value& element = values_[results[c]];
      Value& accumulator = accumulators[static_cast<std::size_t>(u * components + c)];
      if (t != DType::Bool) {
        cc_.vmovups(accumulator.v, combine(accumulator.v, element.v));
        continue;
      }
      Operands x;
      x.op = nest_.combine;
      x.operand = x.result = DType::Bool;
      x.a = accumulator;
      x.b = element;
      const Mask merged = apply(v_, x).m;
      if (v_.avx512) cc_.kmovq(accumulator.m.k, merged.k);
      else cc_.vmovups(accumulator.m.v, v_.mask_lanes(merged, accumulator.m.size));
    }
    store_all(u, 1);
  }
  for (std::size_t i = 0; i < operands_.size(); ++i)
    if (i != store.operand) cc_.add(operands_[i].at, x86::qword_ptr(strides_, static_cast<int>(16 * i + 8)));
  cc_.dec(rows);
  cc_.jnz(again);
  for (int u = 0; u < unroll; ++u) {
    const Value* of = &accumulators[static_cast<std::size_t>(u * components)];
    if (components == 2) store_parts(store.operand, u, of[0].v, of[1].v, false);
    else store_operand(store.operand, u, of[0], false);
  }
  for (OperandState& o : operands_) {
    if (o.access == Access::Contiguous) cc_.add(o.block, unroll * v_.lanes * o.size);
    else if (o.access == Access::Strided) cc_.add(o.block, o.step);
  }
}

void NestEmitter::fold_rows() {
  bool strided = false;
  for (OperandState& o : operands_) {
    o.block = cc_.newIntPtr();
    cc_.mov(o.block, o.row);
    strided = strided || o.access == Access::Strided;
  }
  cc_.xor_(index_.r32(), index_.r32());
  // Several vectors side by side hide the latency of the combiner and use whole cache lines of each row.
  const std::size_t size = nest_.body.size();
  const int unroll = strided || heavy_ops() > 0 || size > 10 ? 1 : size > 4 ? 2 : 4;
  for (int u = unroll; u >= 1; u = u == 4 ? 1 : u - 1) {
    const Label again = cc_.newLabel(), done = cc_.newLabel();
    const Gp limit = v_.gp();
    cc_.lea(limit, x86::ptr(n_inner_, -u * v_.lanes));
    cc_.cmp(index_, limit);
    cc_.jg(done);
    cc_.bind(again);
    fold_rows_block(u);
    cc_.add(index_, u * v_.lanes);
    cc_.cmp(index_, limit);
    cc_.jle(again);
    cc_.bind(done);
  }
  const Label exit = cc_.newLabel();
  cc_.cmp(index_, n_inner_);
  cc_.jge(exit);
  tail_ = true;
  set_tail();
  fold_rows_block(1);
  tail_ = false;
  cc_.bind(exit);
}

}  // namespace framejit::codegen
