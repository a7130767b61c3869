// One scalar operator on vectors: the families that the emitter is made of.
#pragma once

#include "codegen/emit_vec.h"
#include "graph/op.h"

namespace framejit::codegen {

struct Operands {
  graph::Op op;
  DType operand;  // of a (of b and c for where)
  DType result;
  Value a, b, c;
  bool invariant_bounds = false;  // clip: both bounds are the same for the whole inner run
};

/// Is there an instruction sequence for it? `o1`: with own vector math.
bool has_op(graph::Op op, DType operand, DType result, bool o1);

/// Any elementwise operator but cast (emit_apply.cpp).
Value apply(Vasm& v, const Operands& x);

/// Casts between bool, integers, float16, float32 and float64 (emit_cast.cpp).
Value cast(Vasm& v, DType from, DType to, const Value& a);
bool has_cast(DType from, DType to);

/// floor_divide, remainder, fmod (emit_divide.cpp).
Vec divide_float(Vasm& v, graph::Op op, int size, const Vec& a, const Vec& b);
Vec divide_int(Vasm& v, graph::Op op, int size, bool is_signed, const Vec& a, const Vec& b);

/// Own vector math of O1 (emit_math*.cpp).
bool has_math(graph::Op op, DType t);
Vec math(Vasm& v, graph::Op op, int size, const Vec& a, const Vec& b);

/// Shifts of integers by the same count, which as in NumPy may be any number: the result is 0 then, or the sign.
Vec shift(Vasm& v, graph::Op op, DType t, const Vec& a, uint64_t count);

/// NumPy's minimum and maximum on floats: a NaN: a; else b where equal, unordered.
Vec minmax_float(Vasm& v, bool minimum, int size, const Vec& a, const Vec& b);

}  // namespace framejit::codegen
