// MindSpore's promotion of element types.
#include "ext/tensor/tensor_promotion.h"

#include <algorithm>

#include "ext/arrays/promotion.h"

namespace framejit::ext::tensor {

using graph::DType;
using graph::Op;

namespace {

int kind_rank(DType t) {
  switch (graph::info(t).kind) {
    case 'b': return 0;
    case 'i':
    case 'u': return 1;
    case 'f': return 2;
    default: return 3;
  }
}

std::optional<DType> promote_integers(DType a, DType b) {
  if (graph::is_signed_int(a) == graph::is_signed_int(b)) return graph::size_of(a) >= graph::size_of(b) ? a : b;
  DType is_signed = graph::is_signed_int(a) ? a : b, is_unsigned = graph::is_signed_int(a) ? b : a;
  if (graph::size_of(is_signed) > graph::size_of(is_unsigned)) return is_signed;
  switch (is_unsigned) {
    case DType::U8: return DType::I16;
    case DType::U16: return DType::I32;
    case DType::U32: return DType::I64;
    default: return std::nullopt;
  }
}

DType promote_floats(DType a, DType b) {
  bool halves_differ = (a == DType::F16 && b == DType::BF16) || (a == DType::BF16 && b == DType::F16);
  if (halves_differ) return DType::F32;
  return graph::size_of(a) >= graph::size_of(b) ? a : b;
}

DType promote_complex(DType a, DType b) {
  bool wide = a == DType::C128 || b == DType::C128 || a == DType::F64 || b == DType::F64;
  return wide ? DType::C128 : DType::C64;
}

}  // namespace

std::optional<DType> promote(Promoted a, Promoted b) {
  if (a.python_number) std::swap(a, b);
  if (b.python_number) {
    if (kind_rank(a.dtype) >= kind_rank(b.dtype)) return a.dtype;
    switch (kind_rank(b.dtype)) {
      case 1: return DType::I64;
      case 2: return DType::F32;
      default: return DType::C64;
    }
  }
  int rank_a = kind_rank(a.dtype), rank_b = kind_rank(b.dtype);
  int rank = std::max(rank_a, rank_b);
  if (rank == 3) return promote_complex(a.dtype, b.dtype);
  if (rank_a != rank_b) return rank_a > rank_b ? a.dtype : b.dtype;
  switch (rank) {
    case 0: return DType::Bool;
    case 1: return promote_integers(a.dtype, b.dtype);
    default: return promote_floats(a.dtype, b.dtype);
  }
}

DType compute_dtype(Op op, DType promoted) {
  const bool integral = promoted == DType::Bool || graph::is_int(promoted);
  if (!integral || graph::takes(op, promoted)) return promoted;
  if (promoted == DType::Bool && (graph::takes(op, DType::I64) && op != Op::Subtract && op != Op::Negative))
    return DType::I64;
  return graph::takes(op, DType::I64) ? promoted : DType::F32;
}

DType loop_dtype(Op op, DType dtype) { return dtype == DType::F16 && arrays::is_of_scipy(op) ? DType::F32 : dtype; }

std::optional<Op> graph_operator(Op op, DType dtype) {
  if (dtype == DType::Bool && op == Op::Subtract) return Op::LogicalXor;
  if (!graph::takes(op, dtype)) return std::nullopt;
  if (op == Op::Power && graph::is_int(dtype)) return std::nullopt;
  if (dtype == DType::Bool && op == Op::Add) return Op::LogicalOr;
  if (dtype == DType::Bool && op == Op::Multiply) return Op::LogicalAnd;
  return op;
}

DType sum_dtype(DType dtype) { return dtype == DType::Bool || graph::is_int(dtype) ? DType::I64 : dtype; }

}  // namespace framejit::ext::tensor
