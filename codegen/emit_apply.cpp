// Elementwise operators: arithmetic, comparisons, predicates, bits, select.
#include <algorithm>

#include "codegen/emit_ops.h"
#include "graph/support/check.h"

namespace framejit::codegen {

using graph::Op;
using graph::Own;

namespace {

bool is_comparison(Op op) {
  return op == Op::Equal || op == Op::NotEqual || op == Op::Less || op == Op::LessEqual || op == Op::Greater ||
         op == Op::GreaterEqual;
}

Cmp comparison(Op op) {
  switch (op) {
    case Op::Equal: return Cmp::Eq;
    case Op::NotEqual: return Cmp::Ne;
    case Op::Less: return Cmp::Lt;
    case Op::LessEqual: return Cmp::Le;
    case Op::Greater: return Cmp::Gt;
    default: return Cmp::Ge;
  }
}

bool is_logical(Op op) {
  return op == Op::LogicalAnd || op == Op::LogicalOr || op == Op::LogicalXor || op == Op::LogicalNot;
}

bool is_supported(DType t) { return t != DType::BF16 && !graph::is_complex(t); }

uint64_t infinity_bits(int size) { return size == 4 ? 0x7f800000u : 0x7ff0000000000000u; }

/// No predicate of a float raises a flag, so they look at the bits.
Mask float_predicate(Vasm& v, Op op, int size, const Vec& a) {
  if (op == Op::SignBit) return v.icmp(size, true, Cmp::Lt, a, v.zero(size));
  const Vec magnitude = v.fabs(size, a), infinity = v.splat(size, infinity_bits(size));
  const Cmp predicate = op == Op::IsNan ? Cmp::Gt : op == Op::IsInf ? Cmp::Eq : Cmp::Lt;
  return v.icmp(size, true, predicate, magnitude, infinity);
}

Vec sign_float(Vasm& v, int size, const Vec& a) {
  // Zeros of both signs give +0, a NaN stays.
  const Vec zero = v.zero(size), one = v.splat_f(size, 1.0);
  const Vec unit = v.bit_or(size, one, v.and_const(size, a, Vasm::sign_bit(size)));
  const Vec r = v.select(size, v.fcmp(size, Cmp::Eq, a, zero), zero, unit);
  return v.select(size, v.fcmp(size, Cmp::Unordered, a, a), a, r);
}

Vec clip_float(Vasm& v, int size, const Operands& x) {
  const Vec &a = x.a.v, &lo = x.b.v, &hi = x.c.v;
  if (!x.invariant_bounds) return minmax_float(v, true, size, minmax_float(v, false, size, a, lo), hi);
  // Bounds of stride 0: x < lo: lo, then x > hi: hi. A bound that is NaN is the result everywhere.
  const Vec raised = v.select(size, v.fcmp(size, Cmp::Lt, a, lo), lo, a);
  const Vec clipped = v.select(size, v.fcmp(size, Cmp::Gt, raised, hi), hi, raised);
  const Vec with_hi = v.select(size, v.fcmp(size, Cmp::Unordered, hi, hi), hi, clipped);
  return v.select(size, v.fcmp(size, Cmp::Unordered, lo, lo), lo, with_hi);
}

Value vec(const Vec& r) {
  Value out;
  out.v = r;
  out.valid = true;
  return out;
}

Value mask(const Mask& m) {
  Value out;
  out.m = m;
  out.valid = true;
  return out;
}

Vec apply_float(Vasm& v, const Operands& x) {
  const int size = graph::size_of(x.operand);
  const Vec &a = x.a.v, &b = x.b.v;
  switch (x.op) {
    case Op::Add: return v.fadd(size, a, b);
    case Op::Subtract: return v.fsub(size, a, b);
    case Op::Multiply: return v.fmul(size, a, b);
    case Op::Divide: return v.fdiv(size, a, b);
    case Op::Square: return v.fmul(size, a, a);
    case Op::MultiplyAdd: return v.fma(size, a, b, x.c.v);
    case Op::Reciprocal: return v.fdiv(size, v.splat_f(size, 1.0), a);
    case Op::Sqrt: return v.fsqrt(size, a);
    case Op::Negative: return v.fneg(size, a);
    case Op::Absolute: return v.fabs(size, a);
    case Op::Copysign: {
      const Vec sign = v.splat(size, Vasm::sign_bit(size));
      return v.bit_or(size, v.bit_andnot(size, sign, a), v.bit_and(size, sign, b));
    }
    case Op::Sign: return sign_float(v, size, a);
    case Op::Floor: return v.fround(size, a, Vasm::kFloor);
    case Op::Ceil: return v.fround(size, a, Vasm::kCeil);
    case Op::Rint: return v.fround(size, a, Vasm::kNearest);
    case Op::Trunc: return v.fround(size, a, Vasm::kTrunc);
    case Op::Minimum: return minmax_float(v, true, size, a, b);
    case Op::Maximum: return minmax_float(v, false, size, a, b);
    case Op::Fmin:  // b NaN: a, else x86's choice, without its flags
      return v.select(size, v.mask_or(v.fcmp(size, Cmp::Lt, a, b), v.fcmp(size, Cmp::Unordered, b, b)), a, b);
    case Op::Fmax:
      return v.select(size, v.mask_or(v.fcmp(size, Cmp::Gt, a, b), v.fcmp(size, Cmp::Unordered, b, b)), a, b);
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod: return divide_float(v, x.op, size, a, b);
    case Op::Clip: return clip_float(v, size, x);
    default: return math(v, x.op, size, a, b);
  }
}

Vec apply_int(Vasm& v, const Operands& x) {
  const int size = graph::size_of(x.operand);
  const bool is_signed = graph::is_signed_int(x.operand);
  const Vec &a = x.a.v, &b = x.b.v;
  switch (x.op) {
    case Op::Add: return v.iadd(size, a, b);
    case Op::Subtract: return v.isub(size, a, b);
    case Op::Multiply: return v.imul(size, a, b);
    case Op::Square: return v.imul(size, a, a);
    case Op::Negative: return v.isub(size, v.zero(size), a);
    case Op::Absolute: return is_signed ? v.iabs(size, a) : a;
    case Op::Sign: {
      const Vec zero = v.zero(size), one = v.splat(size, 1);
      const Vec positive = v.select(size, v.nonzero(size, a), one, zero);
      return is_signed ? v.select(size, v.icmp(size, true, Cmp::Lt, a, zero), v.splat(size, ~uint64_t{0}), positive)
                       : positive;
    }
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc: return a;
    case Op::Minimum:
    case Op::Fmin: return v.imin(size, is_signed, a, b);
    case Op::Maximum:
    case Op::Fmax: return v.imax(size, is_signed, a, b);
    case Op::Clip: return v.imin(size, is_signed, v.imax(size, is_signed, a, b), x.c.v);
    case Op::BitwiseAnd: return v.bit_and(size, a, b);
    case Op::BitwiseOr: return v.bit_or(size, a, b);
    case Op::BitwiseXor: return v.bit_xor(size, a, b);
    case Op::Invert: return v.bit_not(size, a);
    case Op::LeftShift: return v.shl_v(size, a, b);
    case Op::RightShift: return is_signed ? v.sar_v(size, a, b) : v.shr_v(size, a, b);
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod: return divide_int(v, x.op, size, is_signed, a, b);
    default: FRAMEJIT_CHECK(false, "integer operator without instructions: " + std::string(graph::name_of(x.op)));
  }
}

Mask apply_bool(Vasm& v, const Operands& x) {
  const Mask &a = x.a.m, &b = x.b.m;
  switch (x.op) {
    case Op::Add:
    case Op::BitwiseOr:
    case Op::LogicalOr:
    case Op::Maximum:
    case Op::Fmax: return v.mask_or(a, b);
    case Op::Multiply:
    case Op::BitwiseAnd:
    case Op::LogicalAnd:
    case Op::Minimum:
    case Op::Fmin: return v.mask_and(a, b);
    case Op::BitwiseXor:
    case Op::LogicalXor:
    case Op::NotEqual: return v.mask_xor(a, b);
    case Op::Equal: return v.mask_not(v.mask_xor(a, b));
    case Op::Less: return v.mask_and(v.mask_not(a), b);
    case Op::LessEqual: return v.mask_or(v.mask_not(a), b);
    case Op::Greater: return v.mask_and(a, v.mask_not(b));
    case Op::GreaterEqual: return v.mask_or(a, v.mask_not(b));
    case Op::Invert:
    case Op::LogicalNot: return v.mask_not(a);
    case Op::Absolute: return a;
    case Op::Clip: return v.mask_and(v.mask_or(a, b), x.c.m);
    default: FRAMEJIT_CHECK(false, "bool operator without instructions: " + std::string(graph::name_of(x.op)));
  }
}

Mask truth(Vasm& v, DType t, const Value& a) {
  if (t == DType::Bool) return a.m;
  const int size = graph::size_of(t);
  return graph::is_float(t) ? v.fcmp(size, Cmp::Ne, a.v, v.zero(size)) : v.nonzero(size, a.v);
}

Mask apply_logical(Vasm& v, const Operands& x) {
  const Mask a = truth(v, x.operand, x.a);
  if (x.op == Op::LogicalNot) return v.mask_not(a);
  const Mask b = truth(v, x.operand, x.b);
  return x.op == Op::LogicalAnd ? v.mask_and(a, b) : x.op == Op::LogicalOr ? v.mask_or(a, b) : v.mask_xor(a, b);
}

/// float16: as float32, rounded once. Of equal numbers NumPy's minimum and maximum take the first one.
Value apply_half(Vasm& v, const Operands& x) {
  const auto wide = [&](const Value& a) { return a.valid ? cast(v, DType::F16, DType::F32, a) : a; };
  Operands f = x;
  f.operand = DType::F32;
  f.a = wide(x.a);
  f.b = wide(x.b);
  if (x.op == Op::Minimum || x.op == Op::Maximum) {
    const Mask better = v.fcmp(4, x.op == Op::Minimum ? Cmp::Le : Cmp::Ge, f.a.v, f.b.v);
    return vec(v.select(2, v.mask_or(better, v.fcmp(4, Cmp::Unordered, f.a.v, f.a.v)), x.a.v, x.b.v));
  }
  if (x.result == DType::Bool) return apply(v, f);
  f.result = DType::F32;
  return cast(v, DType::F32, DType::F16, apply(v, f));
}

}  // namespace

Vec shift(Vasm& v, Op op, DType t, const Vec& a, uint64_t count) {
  const int size = graph::size_of(t), bits = 8 * size;
  const bool left = op == Op::LeftShift, arithmetic = !left && graph::is_signed_int(t);
  if (bits < 64) count &= (uint64_t{1} << bits) - 1;
  const int n = static_cast<int>(std::min<uint64_t>(count, static_cast<uint64_t>(arithmetic ? bits - 1 : bits)));
  if (size > 1) return left ? v.shl(size, a, n) : arithmetic ? v.sar(size, a, n) : v.shr(size, a, n);
  // There are no shifts of bytes: of pairs of them, without what came from the neighbour.
  const uint64_t own = (left ? 0xffu << n : 0xffu >> n) & 0xffu, sign = 0x80u >> n;
  Vec r;
  {
    const LaneScope scope(v, std::max(v.bytes(1), 16) / 2);
    r = left ? v.shl(2, a, n) : v.shr(2, a, n);
  }
  r = v.bit_and(1, r, v.constant(1, own));
  return arithmetic ? v.isub(1, v.bit_xor(1, r, v.constant(1, sign)), v.constant(1, sign)) : r;
}

Vec minmax_float(Vasm& v, bool minimum, int size, const Vec& a, const Vec& b) {
  // A compare and a blend: minps and maxps raise invalid on a quiet NaN, which NumPy's do not show.
  const Mask better = v.fcmp(size, minimum ? Cmp::Lt : Cmp::Gt, a, b);
  return v.select(size, v.mask_or(better, v.fcmp(size, Cmp::Unordered, a, a)), a, b);
}

bool has_op(Op op, DType operand, DType result, bool o1) {
  if (!is_supported(operand) || !is_supported(result)) return false;
  if (op == Op::Cast) return has_cast(operand, result);
  if (op == Op::Where) return operand == result || operand == DType::Bool;
  const auto& row = graph::def(op);
  if (row.cls != graph::OpClass::Elementwise || graph::result_dtype(op, operand) != result) return false;
  if (operand == DType::Bool) return has(row.own, Own::Bool);
  if (graph::is_int(operand)) return has(row.own, Own::Int);
  if (operand == DType::F16) return has(row.own, Own::Half);
  return has(row.own, Own::Float) || (o1 && (has(row.own, Own::FloatAtO1) || has_math(op, operand)));
}

Value apply(Vasm& v, const Operands& x) {
  if (x.op == Op::Where) {
    if (x.result == DType::Bool) return mask(v.mask_select(x.a.m, x.b.m, x.c.m));
    return vec(v.select(graph::size_of(x.result), x.a.m, x.b.v, x.c.v));
  }
  if (x.operand == DType::F16) return apply_half(v, x);
  if (is_logical(x.op)) return mask(apply_logical(v, x));
  const bool predicate = x.op == Op::IsNan || x.op == Op::IsInf || x.op == Op::IsFinite || x.op == Op::SignBit;
  if (predicate) {
    if (graph::is_float(x.operand)) return mask(float_predicate(v, x.op, graph::size_of(x.operand), x.a.v));
    return mask(v.mask_const(x.op == Op::IsFinite));
  }
  if (x.operand == DType::Bool) return mask(apply_bool(v, x));
  const int size = graph::size_of(x.operand);
  if (is_comparison(x.op)) {
    const Cmp predicate_kind = comparison(x.op);
    return mask(graph::is_float(x.operand)
                    ? v.fcmp(size, predicate_kind, x.a.v, x.b.v)
                    : v.icmp(size, graph::is_signed_int(x.operand), predicate_kind, x.a.v, x.b.v));
  }
  return vec(graph::is_float(x.operand) ? apply_float(v, x) : apply_int(v, x));
}

}  // namespace framejit::codegen
