// The loops around a nest's body, and the body itself.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "codegen/emit_nest.h"
#include "codegen/interleave.h"
#include "codegen/kernel.h"
#include "graph/support/check.h"

namespace framejit::codegen {

using graph::Op;
namespace x86 = asmjit::x86;

namespace {

/// Hoisted constants beyond this would only be spilled; they are then loaded from the pool where they are used.
constexpr int kHoistedConstants[2] = {6, 14};
/// Bodies above this weight are emitted once, masked throughout: compile time counts more than the masks, which are
/// dearer on AVX2. A heavy operator weighs as many simple ones as it has instructions, about.
constexpr std::ptrdiff_t kSingleBody[2] = {100, 200}, kHeavyWeight = 40;
/// Of elementary functions up to this weight there is a main loop all the same, with several bodies by turns: a
/// processor looks a few hundred instructions ahead, which are one body of a long chain, and waits.
constexpr std::ptrdiff_t kMostWeight = 600;
constexpr std::size_t kShortBody = 48, kLongBody = 400;  // instructions
constexpr int kAhead = 2048;                             // bytes

bool is_heavy(Op op, DType t) {
  if (op == Op::FloorDivide || op == Op::Remainder || op == Op::Fmod) return true;
  return graph::is_float(t) && has_math(op, t);
}

}  // namespace

int nest_lanes(const LoopNest& nest, bool avx512) {
  int widest = 1;
  for (const NestOperand& o : nest.operands) widest = std::max(widest, graph::size_of(graph::part_of(o.dtype)));
  for (const Expr& e : nest.body) {
    widest = std::max(widest, graph::size_of(e.dtype));
    if (e.kind == ExprKind::Apply) widest = std::max(widest, graph::size_of(e.operand_dtype));
    // A cast between a float and an integer goes through words of at least four bytes.
    if (e.kind == ExprKind::Apply && e.op == Op::Cast && (graph::is_float(e.dtype) || graph::is_float(e.operand_dtype)))
      widest = std::max(widest, 4);
    // Operators on float16 go through float32.
    const bool half = e.kind == ExprKind::Apply && e.op != Op::Where && e.operand_dtype == DType::F16;
    if (half || (nest.fold != Fold::None && e.dtype == DType::F16)) widest = std::max(widest, 4);
  }
  // The eight accumulators, half of them for each part of complex numbers.
  const int accumulators = nest.fold != Fold::PairwiseLeaf                                  ? 64
                           : graph::is_complex(nest.operands[nest.stores[0].operand].dtype) ? 4
                                                                                            : 8;
  return std::min(accumulators, (avx512 ? 64 : 32) / widest);
}

int nest_accumulators(const LoopNest& nest) {
  const bool heavy = std::any_of(nest.body.begin(), nest.body.end(), [](const Expr& e) {
    return e.kind == ExprKind::Apply && is_heavy(e.op, e.operand_dtype);
  });
  return heavy ? 1 : nest.body.size() <= 4 ? 4 : nest.body.size() <= 10 ? 2 : 1;
}

NestEmitter::NestEmitter(const LoopNest& nest, x86::Compiler& cc, bool avx512)
    : nest_(nest), cc_(cc), v_(cc, avx512, nest_lanes(nest, avx512)) {}

void NestEmitter::analyse() {
  const std::size_t n = nest_.body.size();
  invariant_.assign(n, false);
  contracted_.assign(n, false);
  hoisted_.assign(n, {});
  std::vector<int> uses(n, 0);
  std::vector<bool> only_product(n, true);
  for (std::size_t i = 0; i < n; ++i) {
    const Expr& e = nest_.body[i];
    switch (e.kind) {
      case ExprKind::Constant: invariant_[i] = true; break;
      // In a Rows fold every operand moves on with each row.
      case ExprKind::Load:
        invariant_[i] = nest_.operands[e.args[0]].access == Access::Broadcast && nest_.fold != Fold::Rows;
        break;
      case ExprKind::InnerIndex: break;
      case ExprKind::Apply: {
        const int count = graph::def(e.op).operands;
        invariant_[i] = true;
        for (int a = 0; a < count; ++a) {
          invariant_[i] = invariant_[i] && invariant_[e.args[a]];
          ++uses[e.args[a]];
          if (e.op != Op::Add && e.op != Op::Subtract) only_product[e.args[a]] = false;
        }
        break;
      }
    }
  }
  for (const NestStore& s : nest_.stores) {
    ++uses[s.expr];
    if (graph::is_complex(nest_.operands[s.operand].dtype)) ++uses[s.imaginary];
  }
  for (const Expr& e : nest_.body)
    if (e.kind == ExprKind::Apply && e.op == Op::MultiplyAdd && uses[e.args[2]] == 1 &&
        nest_.body[e.args[2]].kind == ExprKind::Apply)
      contracted_[e.args[2]] = nest_.body[e.args[2]].op == Op::Negative;
  if (!nest_.o1) return;
  for (std::size_t i = 0; i < n; ++i) {
    const Expr& e = nest_.body[i];
    if (e.kind == ExprKind::Apply && (e.op == Op::Multiply || e.op == Op::Square) &&
        (e.dtype == DType::F32 || e.dtype == DType::F64))
      contracted_[i] = uses[i] == 1 && only_product[i] && !invariant_[i];
  }
  // Not where the one use is a store, unless that is a sum; and of two products in one sum only the first is taken in.
  for (const NestStore& s : nest_.stores)
    if (nest_.fold != Fold::Blocks || &s != nest_.stores.data()) contracted_[s.expr] = contracted_[s.imaginary] = false;
  for (const Expr& e : nest_.body)
    if (e.kind == ExprKind::Apply && (e.op == Op::Add || e.op == Op::Subtract) && contracted_[e.args[0]])
      contracted_[e.args[1]] = false;
}

void NestEmitter::load_arguments() {
  for (std::size_t i = 0; i < nest_.operands.size(); ++i) {
    const NestOperand& operand = nest_.operands[i];
    OperandState o;
    o.dtype = operand.dtype;
    o.size = graph::size_of(operand.dtype);
    o.part = graph::size_of(graph::part_of(operand.dtype));
    o.access = operand.access;
    o.row = cc_.newIntPtr();
    cc_.mov(o.row, x86::qword_ptr(ptrs_, static_cast<int>(8 * i)));
    if (o.access == Access::Strided || rows_) o.at = cc_.newIntPtr();
    if (o.access == Access::Strided) {
      o.stride = cc_.newIntPtr();
      o.step = cc_.newIntPtr();
      cc_.mov(o.stride, x86::qword_ptr(strides_, static_cast<int>(16 * i)));
      cc_.imul(o.step, o.stride, asmjit::Imm(v_.lanes));
      o.thrice = cc_.newIntPtr();
      cc_.lea(o.thrice, x86::ptr(o.stride, o.stride, 1));
      if (o.size >= 4) {
        // Offsets of the lanes, for gathers.
        const int per_gather = std::min(v_.avx512 ? 8 : 4, v_.lanes);
        for (int part = 0; part * per_gather < v_.lanes; ++part) {
          uint64_t numbers[8];
          std::iota(numbers, numbers + 8, static_cast<uint64_t>(part * per_gather));
          LaneScope scope(v_, per_gather);
          const Mem table = v_.const_table(numbers, static_cast<std::size_t>(8 * per_gather));
          o.index[part] = v_.imul(8, v_.load(8, table), v_.broadcast_gp(8, o.stride));
        }
      }
    }
    operands_.push_back(o);
  }
}

void NestEmitter::hoist_constants() {
  int budget = kHoistedConstants[v_.avx512];
  for (std::size_t i = 0; i < nest_.body.size(); ++i)
    if (nest_.body[i].kind == ExprKind::Constant && budget-- > 0) hoisted_[i] = constant(nest_.body[i]);
}

void NestEmitter::hoist_row() {
  // `values_` collects what the evaluation needs; only what is an invariant by itself is kept for the loops.
  values_ = hoisted_;
  for (std::size_t i = 0; i < nest_.body.size(); ++i) {
    const Expr& e = nest_.body[i];
    if (!invariant_[i] || hoisted_[i].valid || e.kind == ExprKind::Constant) continue;
    hoisted_[i] = value(static_cast<uint16_t>(i), 0);
  }
}

// --- Divisors that a row shares
// --------------------------------------------------------------------------------------------------------------

/// What reductions are divided by, numbers of elements, stays: a mean is as exact as NumPy's.
bool NestEmitter::shares_divisor(const Expr& e) const {
  if (!nest_.shares_divisors || e.kind != ExprKind::Apply || e.op != Op::Divide) return false;
  if ((e.dtype != DType::F32 && e.dtype != DType::F64) || !invariant_[e.args[1]] || invariant_[e.args[0]]) return false;
  const Expr& divisor = nest_.body[e.args[1]];
  return divisor.kind != ExprKind::Constant && !(divisor.op == Op::Cast && graph::is_int(divisor.operand_dtype));
}

/// Makes reciprocals of the divisors. Jumps to `exact` where one of these is not of middling magnitude, so that its
/// reciprocal might be less exact, raise a flag of its own or be none. False: there is no such divisor.
bool NestEmitter::share_divisors(const Label& exact) {
  std::vector<uint16_t> divisors;
  for (const Expr& e : nest_.body)
    if (shares_divisor(e)) divisors.push_back(e.args[1]);
  if (divisors.empty()) return false;
  reciprocals_.assign(nest_.body.size(), {});
  hoist_row();
  for (uint16_t divisor : divisors) {
    const int size = graph::size_of(nest_.body[divisor].dtype);
    const uint64_t one = float_bits(size, 1.0),
                   margin = size == 4 ? uint64_t{63} << 23 : uint64_t{511} << 52;  // half of the exponents
    const Vec magnitude = v_.fabs(size, value(divisor, 0).v);
    const Vec off = v_.iabs(size, v_.isub(size, magnitude, v_.splat(size, one)));
    v_.branch(v_.icmp(size, true, Cmp::Gt, off, v_.splat(size, margin)), true, exact);
  }
  for (uint16_t divisor : divisors) {
    const int size = graph::size_of(nest_.body[divisor].dtype);
    reciprocals_[divisor] = v_.fdiv(size, v_.splat_f(size, 1.0), value(divisor, 0).v);
  }
  return true;
}

// --- Body
// --------------------------------------------------------------------------------------------------------------

Value NestEmitter::constant(const Expr& e) {
  Value r;
  r.valid = true;
  if (e.dtype == DType::Bool) r.m = v_.mask_const(e.constant.lo & 0xff);
  else r.v = v_.splat(graph::size_of(e.dtype), e.constant.lo);
  return r;
}

Value NestEmitter::inner_index(const Expr& e, int u) {
  const bool real = graph::is_float(e.dtype);
  const int size = graph::size_of(e.dtype);
  const Gp first = v_.gp();
  cc_.lea(first, x86::ptr(index_, u * v_.lanes));
  Value r;
  r.valid = true;
  // Idle lanes repeat the first one, as those of loads do.
  const Vec offsets = tail_ ? v_.keep(size, tail_mask(size), iota(size)) : iota(size);
  r.v = v_.iadd(size, v_.broadcast_gp(size, first), offsets);
  return real ? cast(v_, size == 4 ? DType::I32 : DType::I64, e.dtype, r) : r;
}

/// a * b + c, a * b - c, c - a * b with one rounding (O1 only); a * b + (-c), where a NaN keeps its sign, as in NumPy's
/// loops.
Value NestEmitter::contract(const Expr& e, int u) {
  const int size = graph::size_of(e.dtype);
  Value r;
  r.valid = true;
  if (e.op == Op::MultiplyAdd) {
    const Vec a = value(e.args[0], u).v, b = value(e.args[1], u).v;
    r.v = v_.fms(size, a, b, value(nest_.body[e.args[2]].args[0], u).v);
    return r;
  }
  const bool first = contracted_[e.args[0]];
  const Expr& product = nest_.body[e.args[first ? 0 : 1]];
  const Vec a = value(product.args[0], u).v, b = value(product.args[product.op == Op::Square ? 0 : 1], u).v;
  const Vec c = value(e.args[first ? 1 : 0], u).v;
  r.v = e.op == Op::Add ? v_.fma(size, a, b, c) : first ? v_.fms(size, a, b, c) : v_.fnma(size, a, b, c);
  return r;
}

Value NestEmitter::compute(uint16_t expr, int u) {
  const Expr& e = nest_.body[expr];
  switch (e.kind) {
    case ExprKind::Load: return load_operand(e.args[0], u, e.args[1]);
    case ExprKind::Constant: return constant(e);
    case ExprKind::InnerIndex: return inner_index(e, u);
    case ExprKind::Apply: break;
  }
  if (e.op == Op::Cast) return cast(v_, e.operand_dtype, e.dtype, value(e.args[0], u));
  if (e.op == Op::Divide && !reciprocals_.empty() && shares_divisor(e)) {
    Value r;
    r.valid = true;
    r.v = v_.fmul(graph::size_of(e.dtype), value(e.args[0], u).v, reciprocals_[e.args[1]]);
    return r;
  }
  if ((e.op == Op::LeftShift || e.op == Op::RightShift) && nest_.body[e.args[1]].kind == ExprKind::Constant) {
    Value r;
    r.valid = true;
    r.v = shift(v_, e.op, e.dtype, value(e.args[0], u).v, nest_.body[e.args[1]].constant.lo);
    return r;
  }
  const int count = graph::def(e.op).operands;
  if ((e.op == Op::Add || e.op == Op::Subtract) && (contracted_[e.args[0]] || contracted_[e.args[1]]))
    return contract(e, u);
  if (e.op == Op::MultiplyAdd && contracted_[e.args[2]]) return contract(e, u);
  Operands x;
  x.op = e.op;
  x.operand = e.op == Op::Where ? e.dtype : e.operand_dtype;
  x.result = e.dtype;
  x.a = value(e.args[0], u);
  if (count > 1) x.b = value(e.args[1], u);
  if (count > 2) x.c = value(e.args[2], u);
  x.invariant_bounds = e.op == Op::Clip && invariant_[e.args[1]] && invariant_[e.args[2]];
  return apply(v_, x);
}

const Value& NestEmitter::value(uint16_t expr, int u) {
  if (!values_[expr].valid) values_[expr] = compute(expr, u);
  return values_[expr];
}

void NestEmitter::eval_body(int u) {
  // Operators in the order of the nest, whether used or not (they may raise flags); loads and constants where needed.
  values_ = hoisted_;
  for (OperandState& o : operands_) o.parts[0].valid = false;
  for (std::size_t i = 0; i < nest_.body.size(); ++i)
    if (nest_.body[i].kind == ExprKind::Apply && !contracted_[i]) value(static_cast<uint16_t>(i), u);
  for (const NestStore& s : nest_.stores) {
    if (!contracted_[s.expr]) value(s.expr, u);
    if (graph::is_complex(nest_.operands[s.operand].dtype)) value(s.imaginary, u);
  }
}

void NestEmitter::store_all(int u, std::size_t first_store) {
  for (std::size_t i = first_store; i < nest_.stores.size(); ++i)
    store(nest_.stores[i], u, nest_.stores[i].non_temporal);
}

// --- Loops
// -------------------------------------------------------------------------------------------------------------

void NestEmitter::advance_strided() {
  for (OperandState& o : operands_)
    if (o.access == Access::Strided) cc_.add(o.at, o.step);
}

void NestEmitter::set_tail() {
  const bool loads_parts = std::any_of(operands_.begin(), operands_.end(), [](const OperandState& o) {
    return graph::is_complex(o.dtype) && o.access == Access::Contiguous;
  });
  // count = min(n - index, lanes)
  count_ = v_.gp();
  const Gp all = v_.gp();
  cc_.mov(count_, n_inner_);
  cc_.sub(count_, index_);
  cc_.mov(all.r32(), v_.lanes);
  cc_.cmp(count_, all);
  cc_.cmova(count_, all);
  if (v_.avx512) {
    const Gp bits = v_.gp();
    cc_.mov(bits, -1);
    cc_.bzhi(bits, bits, count_);
    tail_k_ = cc_.newKq();
    cc_.kmovq(tail_k_, bits);
    if (!loads_parts) return;
    const Gp twice = v_.gp();
    cc_.lea(twice, x86::ptr(count_, count_));
    cc_.mov(bits, -1);
    cc_.bzhi(bits, bits, twice);
    for (int half = 0; half < 2; ++half) {
      tail_parts_k_[half] = cc_.newKq();
      cc_.kmovq(tail_parts_k_[half], bits);
      if (half == 0) cc_.shr(bits, v_.lanes);
    }
    return;
  }
  bool wide[2] = {false, false};
  for (const OperandState& o : operands_)
    if (o.part >= 4) wide[o.part == 8] = true;
  for (const Expr& e : nest_.body)
    if (e.kind == ExprKind::InnerIndex && graph::size_of(e.dtype) >= 4) wide[graph::size_of(e.dtype) == 8] = true;
  if (nest_.fold != Fold::None && fold_size() >= 4) wide[fold_size() == 8] = true;
  for (int i = 0; i < 2; ++i) {
    if (!wide[i]) continue;
    const int size = 4 << i;
    tail_lanes_[i] = v_.icmp(size, true, Cmp::Gt, v_.broadcast_gp(size, count_), iota(size)).v;
    if (!loads_parts) continue;
    const Gp left = v_.gp();
    cc_.lea(left, x86::ptr(count_, count_));
    for (int half = 0; half < 2; ++half) {
      tail_parts_lanes_[i][half] = v_.icmp(size, true, Cmp::Gt, v_.broadcast_gp(size, left), iota(size)).v;
      if (half == 0) cc_.sub(left, v_.lanes);
    }
  }
}

std::ptrdiff_t NestEmitter::heavy_ops() const {
  return std::count_if(nest_.body.begin(), nest_.body.end(),
                       [](const Expr& e) { return e.kind == ExprKind::Apply && is_heavy(e.op, e.operand_dtype); });
}

/// Bodies with elementary functions of which nothing stands in memory between two instructions, where that of another
/// one could stand too.
bool NestEmitter::may_interleave() const {
  const auto number = [](DType t) { return graph::is_float(t) || t == DType::Bool; };
  return heavy_ops() > 0 &&
         std::all_of(
             operands_.begin(), operands_.end(),
             [](const OperandState& o) { return o.access != Access::Strided && !graph::is_complex(o.dtype); }) &&
         std::all_of(nest_.body.begin(), nest_.body.end(), [&](const Expr& e) {
           if (e.kind != ExprKind::Apply) return e.kind != ExprKind::InnerIndex;
           return number(e.dtype) && number(e.operand_dtype) && e.op != Op::FloorDivide && e.op != Op::Remainder &&
                  e.op != Op::Fmod;
         });
}

/// How often the body, which stands behind `before` once, is to stand there.
int NestEmitter::unroll_factor(asmjit::BaseNode* before, bool streaming) const {
  // Loop overhead shows in small bodies, and latency: a processor sees the next ones by itself.
  if (heavy_ops() == 0) return nest_.body.size() <= 10 && !streaming ? 2 : 1;
  const std::size_t length = may_interleave() ? straight_length(cc_, before) : 0;
  return length > kLongBody ? 2 : static_cast<int>(std::min<std::size_t>(4, 1 + length / kShortBody));
}

void NestEmitter::main_loop(bool streaming, bool non_temporal) {
  if (rare_) return;
  const Label again = cc_.newLabel(), done = cc_.newLabel();
  asmjit::BaseNode* const entry = cc_.cursor();
  cc_.align(asmjit::AlignMode::kCode, 32);
  cc_.bind(again);
  std::vector<asmjit::BaseNode*> before;
  std::size_t unroll = 1;
  for (int u = 0; before.size() < unroll; ++u) {
    before.push_back(cc_.cursor());
    prefetch(u);
    eval_body(u);
    for (const NestStore& s : nest_.stores) store(s, u, non_temporal && s.non_temporal);
    advance_strided();
    if (u == 0) unroll = static_cast<std::size_t>(unroll_factor(before[0], streaming));
  }
  if (heavy_ops() > 0 && unroll > 1) interleave(cc_, before);
  const int step = static_cast<int>(unroll) * v_.lanes;
  const Gp limit = v_.gp();
  cc_.add(index_, step);
  cc_.cmp(index_, limit);
  cc_.jle(again);
  cc_.bind(done);
  asmjit::BaseNode* const end = cc_.setCursor(entry);
  cc_.lea(limit, x86::ptr(n_inner_, -step));
  cc_.cmp(index_, limit);
  cc_.jg(done);
  cc_.setCursor(end);
}

bool NestEmitter::may_bypass(const NestStore& s) const {
  const OperandState& o = operands_[s.operand];
  return s.non_temporal && o.access == Access::Contiguous && v_.bytes(o.part) >= 16;
}

bool NestEmitter::may_bypass() const {
  return std::any_of(nest_.stores.begin(), nest_.stores.end(), [&](const NestStore& s) { return may_bypass(s); });
}

void NestEmitter::emit_row() {
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  const bool any_non_temporal = may_bypass();
  const bool narrow_access = std::any_of(operands_.begin(), operands_.end(), [&](const OperandState& o) {
    return o.size < 4 && o.access != Access::Broadcast;
  });
  const std::ptrdiff_t weight = std::ssize(nest_.body) + kHeavyWeight * heavy_ops();
  const bool single_body = weight > (may_interleave() ? kMostWeight : kSingleBody[v_.avx512]) && !any_non_temporal &&
                           (v_.avx512 || !narrow_access);
  if (any_non_temporal) {
    // Streaming stores want whole aligned vectors; one run-time check picks the loop.
    const Gp low_bits = v_.gp(), address_bits = v_.gp();
    cc_.xor_(low_bits.r32(), low_bits.r32());
    for (const NestStore& s : nest_.stores) {
      if (!may_bypass(s)) continue;
      const OperandState& o = operands_[s.operand];
      cc_.mov(address_bits, o.row);
      cc_.and_(address_bits, v_.bytes(o.part) - 1);
      cc_.or_(low_bits, address_bits);
    }
    const Label plain = cc_.newLabel(), tail = cc_.newLabel();
    cc_.test(low_bits.r32(), low_bits.r32());
    cc_.jnz(plain);
    main_loop(true, true);
    cc_.jmp(tail);
    cc_.bind(plain);
    main_loop(true, false);
    cc_.bind(tail);
  } else if (!single_body) {
    main_loop(false, false);
  }
  tail_loop([&] {
    if (single_body) prefetch(0);
    eval_body(0);
    for (const NestStore& s : nest_.stores) store(s, 0, false);
  });
}

/// Long arithmetic fills the processor's window, so that the loads of the next vectors come late; not all machines
/// fetch ahead by themselves.
void NestEmitter::prefetch(int u) {
  if (heavy_ops() == 0) return;
  std::vector<bool> loaded(operands_.size(), false);
  for (const Expr& e : nest_.body)
    if (e.kind == ExprKind::Load) loaded[e.args[0]] = true;
  for (std::size_t i = 0; i < operands_.size(); ++i)
    if (loaded[i] && operands_[i].access == Access::Contiguous)
      cc_.prefetcht0(address(operands_[i], u).cloneAdjusted(kAhead));
}

void NestEmitter::emit_fold_or_row() {
  switch (nest_.fold) {
    case Fold::None: emit_row(); break;
    case Fold::PairwiseLeaf: fold_pairwise(); break;
    case Fold::AnyOrder:
      if (fold_dtype() == DType::Bool) fold_any_order_bool();
      else fold_any_order();
      break;
    case Fold::Blocks: fold_blocks(); break;
    case Fold::LeftFold: fold_left(); break;
    case Fold::Rows: break;
  }
}

void NestEmitter::emit_rows_of_elements(const Label& exit) {
  const Label outer = cc_.newLabel();
  const std::vector<Value> constants = hoisted_;
  const bool leaves = nest_.fold == Fold::PairwiseLeaf;
  cc_.bind(outer);
  if (leaves) cc_.mov(n_inner_, x86::qword_ptr(lengths_));
  for (OperandState& o : operands_)
    if (o.access == Access::Strided) cc_.mov(o.at, o.row);
  const Label exact = cc_.newLabel(), done = cc_.newLabel();
  const bool shares = share_divisors(exact);
  emit_fold_or_row();
  if (shares) {
    cc_.jmp(done);
    cc_.bind(exact);
    reciprocals_.clear();
    rare_ = true;
    emit_fold_or_row();
    rare_ = false;
    cc_.bind(done);
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const OperandState& o = operands_[i];
    if (leaves && o.access != Access::Broadcast) {  // behind the row's last element
      const Gp bytes = v_.gp();
      if (o.access == Access::Contiguous) cc_.imul(bytes, n_inner_, asmjit::Imm(o.size));
      else cc_.mov(bytes, n_inner_), cc_.imul(bytes, o.stride);
      cc_.add(o.row, bytes);
    }
    cc_.add(o.row, x86::qword_ptr(strides_, static_cast<int>(16 * i + 8)));
  }
  if (leaves) cc_.add(lengths_, 8);
  if (nest_.guarded) {
    Mem status = cc_.newStack(4, 4);
    status.setSize(4);
    cc_.stmxcsr(status);
    cc_.test(status, kGuardedFlags);
    cc_.jnz(exit);
  }
  cc_.dec(n_outer_);
  cc_.jnz(outer);
  hoisted_ = constants;
}

void NestEmitter::emit_function() {
  cc_.endbr64();
  asmjit::FuncNode* function =
      cc_.addFunc(asmjit::FuncSignatureT<int64_t, const void*, const void*, int64_t, int64_t>());
  function->frame().setAvxEnabled();
  function->frame().setAvxCleanup();
  if (v_.avx512) function->frame().setAvx512Enabled();
  ptrs_ = cc_.newIntPtr();
  strides_ = cc_.newIntPtr();
  n_inner_ = cc_.newInt64();
  n_outer_ = cc_.newInt64();
  index_ = cc_.newInt64();
  function->setArg(0, ptrs_);
  function->setArg(1, strides_);
  if (nest_.fold == Fold::PairwiseLeaf) lengths_ = cc_.newIntPtr();
  function->setArg(2, nest_.fold == Fold::PairwiseLeaf ? lengths_ : n_inner_);
  function->setArg(3, n_outer_);

  const Label exit = cc_.newLabel();
  rows_ = nest_.fold == Fold::Rows;
  cc_.test(n_outer_, n_outer_);
  cc_.jle(exit);
  if (nest_.fold != Fold::PairwiseLeaf) {  // an empty leaf stores its start value
    cc_.test(n_inner_, n_inner_);
    cc_.jle(exit);
  }
  analyse();
  load_arguments();
  hoist_constants();
  v_.share_constants();
  if (rows_) fold_rows();
  else emit_rows_of_elements(exit);
  cc_.bind(exit);
  if (may_bypass()) cc_.sfence();  // once: it takes as long as a row of hundreds of elements
  if (nest_.guarded) cc_.ret(n_outer_);
  else cc_.ret();
  cc_.endFunc();
  v_.emit_tables();
}

}  // namespace framejit::codegen
