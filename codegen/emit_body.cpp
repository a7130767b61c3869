// The body of a nest: expressions become values in registers, invariants in front of the loops.
#include <algorithm>

#include "codegen/emit_nest.h"
#include "codegen/interleave.h"

namespace framejit::codegen {

using graph::Op;
namespace x86 = asmjit::x86;

namespace {

/// Hoisted constants beyond this would only be spilled; they are then loaded from the pool where they are used.
constexpr int kHoistedConstants[2] = {6, 14};
constexpr std::size_t kTogether = 4;  // functions whose instructions take turns
constexpr std::size_t kNear = 64;     // expressions, over which an early result would hold a register

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

void NestBody::analyse() {
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

void NestBody::hoist_constants() {
  int budget = kHoistedConstants[v_.avx512];
  for (std::size_t i = 0; i < nest_.body.size(); ++i)
    if (nest_.body[i].kind == ExprKind::Constant && budget-- > 0) hoisted_[i] = constant(nest_.body[i]);
}

void NestBody::hoist_row() {
  // `values_` collects what the evaluation needs; only what is an invariant by itself is kept for the loops.
  values_ = hoisted_;
  for (std::size_t i = 0; i < nest_.body.size(); ++i) {
    const Expr& e = nest_.body[i];
    if (!invariant_[i] || hoisted_[i].valid || e.kind == ExprKind::Constant) continue;
    hoisted_[i] = value(static_cast<uint16_t>(i), 0);
  }
}

/// What reductions are divided by, numbers of elements, stays: a mean is as exact as NumPy's.
bool NestBody::shares_divisor(const Expr& e) const {
  if (!nest_.shares_divisors || e.kind != ExprKind::Apply || e.op != Op::Divide) return false;
  if ((e.dtype != DType::F32 && e.dtype != DType::F64) || !invariant_[e.args[1]] || invariant_[e.args[0]]) return false;
  const Expr& divisor = nest_.body[e.args[1]];
  return divisor.kind != ExprKind::Constant && !(divisor.op == Op::Cast && graph::is_int(divisor.operand_dtype));
}

/// Makes reciprocals of the divisors. Jumps to `exact` where one of these is not of middling magnitude, so that its
/// reciprocal might be less exact, raise a flag of its own or be none. False: there is no such divisor.
bool NestBody::share_divisors(const Label& exact) {
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

Value NestBody::constant(const Expr& e) {
  Value r;
  r.valid = true;
  if (e.dtype == DType::Bool) r.m = v_.mask_const(e.constant.lo & 0xff);
  else r.v = v_.splat(graph::size_of(e.dtype), e.constant.lo);
  return r;
}

Value NestBody::inner_index(const Expr& e, int u) {
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
Value NestBody::contract(const Expr& e, int u) {
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

Value NestBody::compute(uint16_t expr, int u) {
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

const Value& NestBody::value(uint16_t expr, int u) {
  if (!values_[expr].valid) values_[expr] = compute(expr, u);
  return values_[expr];
}

void NestBody::eval_body(int u) {
  // Operators in the order of the nest, whether used or not (they may raise flags); loads and constants where needed.
  values_ = hoisted_;
  for (OperandState& o : operands_) o.parts[0].valid = false;
  for (std::size_t i = 0; i < nest_.body.size(); ++i) {
    if (nest_.body[i].kind != ExprKind::Apply || contracted_[i] || values_[i].valid) continue;
    evaluate_by_turns(independent_functions(i), u);
  }
  for (const NestStore& s : nest_.stores) {
    if (!contracted_[s.expr]) value(s.expr, u);
    if (graph::is_complex(nest_.operands[s.operand].dtype)) value(s.imaginary, u);
  }
}

/// A function whose chain of instructions may take turns with another one's: nothing of it stands in memory.
bool NestBody::is_chain_of_its_own(std::size_t i) const {
  const Expr& e = nest_.body[i];
  return e.kind == ExprKind::Apply && !values_[i].valid && graph::is_float(e.operand_dtype) &&
         is_heavy(e.op, e.operand_dtype) && e.op != Op::FloorDivide && e.op != Op::Remainder && e.op != Op::Fmod;
}

/// An elementary function and the next ones that depend on none of the others. A processor does not look so far ahead
/// that it would find them by itself.
std::vector<std::size_t> NestBody::independent_functions(std::size_t first) const {
  std::vector<std::size_t> found{first};
  if (bodies_take_turns_ || !is_chain_of_its_own(first)) return found;
  const std::size_t end = std::min(nest_.body.size(), first + kNear);
  std::vector<bool> depends(end - first, false);
  depends[0] = true;
  for (std::size_t i = first + 1; i < end && found.size() < kTogether; ++i) {
    const Expr& e = nest_.body[i];
    if (e.kind != ExprKind::Apply) continue;
    for (int k = 0; k < graph::def(e.op).operands; ++k)
      if (e.args[k] >= first && depends[e.args[k] - first]) depends[i - first] = true;
    if (depends[i - first] || !is_chain_of_its_own(i)) continue;
    found.push_back(i);
    depends[i - first] = true;
  }
  return found;
}

void NestBody::evaluate_by_turns(const std::vector<std::size_t>& functions, int u) {
  for (const std::size_t i : functions)
    for (int k = 0; k < graph::def(nest_.body[i].op).operands; ++k) value(nest_.body[i].args[k], u);
  std::vector<asmjit::BaseNode*> before;
  for (const std::size_t i : functions) {
    before.push_back(cc_.cursor());
    value(static_cast<uint16_t>(i), u);
  }
  if (before.size() > 1) interleave(cc_, before);
}

void NestBody::store_all(int u, std::size_t first_store) {
  for (std::size_t i = first_store; i < nest_.stores.size(); ++i)
    store(nest_.stores[i], u, nest_.stores[i].non_temporal);
}

std::ptrdiff_t NestBody::heavy_ops() const {
  return std::count_if(nest_.body.begin(), nest_.body.end(),
                       [](const Expr& e) { return e.kind == ExprKind::Apply && is_heavy(e.op, e.operand_dtype); });
}

void NestBody::store(const NestStore& s, int u, bool non_temporal) {
  if (graph::is_complex(operands_[s.operand].dtype))
    store_parts(s.operand, u, values_[s.expr].v, values_[s.imaginary].v, non_temporal);
  else store_operand(s.operand, u, values_[s.expr], non_temporal);
}

DType NestBody::fold_dtype() const { return nest_.body[nest_.stores[0].expr].dtype; }

}  // namespace framejit::codegen
