// The operator table: one row for each operator. Capture, passes, code generation, the interpreter, the verifier, the
// text form and the generated tests read it; nothing else lists operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/dtype.h"

namespace framejit::graph {

enum class OpClass : uint8_t {
  Source,       // param, constant, empty, full, iota: no array operand
  Elementwise,  // one scalar function over broadcast operands, all of one dtype unless the row says otherwise
  Cast,         // elementwise; to the dtype of the result type
  Reduction,    // attribute axes (sorted list of non-negative ints), keepdims is a reshape of its own
  View,         // no data moves: the result shares the root of operand 0
  Copy,         // fresh C- or K-ordered copy of operand 0
  Write,        // stores operand 1, broadcast, into operand 0 (a view or root); no result is used
  Contraction,  // matrix product, convolution, attention
  Host,         // a function of the host, known to be pure, over whole arrays; which one is its Index
  Control,      // runs blocks, or ends the run; it has no value, but `output`s
};

/// How bit equality with eager NumPy is reached at O0.
enum class Exactness : uint8_t {
  Native,     // one IEEE operation, integer arithmetic, or a formula proven equal: emitted inline
  NumpyLoop,  // NumPy's own inner loop on tiles; at O1 an own polynomial where codegen has one, else the same loop
  HostCall,   // the whole operation is the host's; at O1 an own core where codegen has one
};

/// What the result dtype is, given operands of dtype T.
enum class ResultRule : uint8_t { Same, Bool, Attribute };

enum class Flags : uint8_t {
  None,
  Float,    // may set floating-point status flags when T is floating or complex
  IntZero,  // additionally signals division by zero (and MIN // -1 as overflow) on integers: must be raised by the
            // kernel
};

inline constexpr uint8_t kAnyOperands = 255;

// clang-format off
// X(Enumerator, text name, operand count, class, exactness, result rule, flags, commutative, NumPy ufunc or function)
#define FRAMEJIT_OPS(X)                                                                                          \
  X(Param, "param", 0, Source, Native, Attribute, None, false, "")                                               \
  X(Constant, "constant", 0, Source, Native, Attribute, None, false, "")                                         \
  X(DimValue, "dim", 0, Source, Native, Attribute, None, false, "")                                              \
  X(Empty, "empty", 0, Source, Native, Attribute, None, false, "empty")                                          \
  X(Full, "full", 1, Source, Native, Same, None, false, "full")                                                  \
  X(Iota, "iota", 0, Source, Native, Attribute, None, false, "arange")                                           \
  X(Add, "add", 2, Elementwise, Native, Same, Float, true, "add")                                                \
  X(Subtract, "subtract", 2, Elementwise, Native, Same, Float, false, "subtract")                                \
  X(Multiply, "multiply", 2, Elementwise, Native, Same, Float, true, "multiply")                                 \
  X(Divide, "divide", 2, Elementwise, Native, Same, Float, false, "divide")                                      \
  X(FloorDivide, "floor_divide", 2, Elementwise, Native, Same, IntZero, false, "floor_divide")                   \
  X(Remainder, "remainder", 2, Elementwise, Native, Same, IntZero, false, "remainder")                           \
  X(Fmod, "fmod", 2, Elementwise, Native, Same, IntZero, false, "fmod")                                          \
  X(Power, "power", 2, Elementwise, NumpyLoop, Same, Float, false, "power")                                      \
  X(Arctan2, "arctan2", 2, Elementwise, NumpyLoop, Same, Float, false, "arctan2")                                \
  X(Hypot, "hypot", 2, Elementwise, NumpyLoop, Same, Float, false, "hypot")                                      \
  X(Logaddexp, "logaddexp", 2, Elementwise, NumpyLoop, Same, Float, false, "logaddexp")                          \
  X(Logaddexp2, "logaddexp2", 2, Elementwise, NumpyLoop, Same, Float, false, "logaddexp2")                       \
  X(Nextafter, "nextafter", 2, Elementwise, NumpyLoop, Same, Float, false, "nextafter")                          \
  X(Heaviside, "heaviside", 2, Elementwise, NumpyLoop, Same, Float, false, "heaviside")                          \
  X(Gcd, "gcd", 2, Elementwise, NumpyLoop, Same, None, true, "gcd")                                              \
  X(Lcm, "lcm", 2, Elementwise, NumpyLoop, Same, None, true, "lcm")                                              \
  X(Minimum, "minimum", 2, Elementwise, Native, Same, None, false, "minimum")                                    \
  X(Maximum, "maximum", 2, Elementwise, Native, Same, None, false, "maximum")                                    \
  X(Fmin, "fmin", 2, Elementwise, NumpyLoop, Same, None, false, "fmin")                                          \
  X(Fmax, "fmax", 2, Elementwise, NumpyLoop, Same, None, false, "fmax")                                          \
  X(Copysign, "copysign", 2, Elementwise, Native, Same, None, false, "copysign")                                 \
  X(Negative, "negative", 1, Elementwise, Native, Same, None, false, "negative")                                 \
  X(Conjugate, "conjugate", 1, Elementwise, Native, Same, None, false, "conjugate")                              \
  X(Absolute, "absolute", 1, Elementwise, Native, Same, None, false, "absolute")                                 \
  X(Sign, "sign", 1, Elementwise, Native, Same, None, false, "sign")                                             \
  X(MultiplyAdd, "multiply_add", 3, Elementwise, Native, Same, Float, false, "math.fma")                         \
  X(Square, "square", 1, Elementwise, Native, Same, Float, false, "square")                                      \
  X(Reciprocal, "reciprocal", 1, Elementwise, Native, Same, Float, false, "reciprocal")                          \
  X(Sqrt, "sqrt", 1, Elementwise, Native, Same, Float, false, "sqrt")                                            \
  X(Floor, "floor", 1, Elementwise, Native, Same, None, false, "floor")                                          \
  X(Ceil, "ceil", 1, Elementwise, Native, Same, None, false, "ceil")                                             \
  X(Rint, "rint", 1, Elementwise, Native, Same, None, false, "rint")                                             \
  X(Trunc, "trunc", 1, Elementwise, Native, Same, None, false, "trunc")                                          \
  X(Exp, "exp", 1, Elementwise, NumpyLoop, Same, Float, false, "exp")                                            \
  X(Exp2, "exp2", 1, Elementwise, NumpyLoop, Same, Float, false, "exp2")                                         \
  X(Expm1, "expm1", 1, Elementwise, NumpyLoop, Same, Float, false, "expm1")                                      \
  X(Log, "log", 1, Elementwise, NumpyLoop, Same, Float, false, "log")                                            \
  X(Log2, "log2", 1, Elementwise, NumpyLoop, Same, Float, false, "log2")                                         \
  X(Log10, "log10", 1, Elementwise, NumpyLoop, Same, Float, false, "log10")                                      \
  X(Log1p, "log1p", 1, Elementwise, NumpyLoop, Same, Float, false, "log1p")                                      \
  X(Sin, "sin", 1, Elementwise, NumpyLoop, Same, Float, false, "sin")                                            \
  X(Cos, "cos", 1, Elementwise, NumpyLoop, Same, Float, false, "cos")                                            \
  X(Tan, "tan", 1, Elementwise, NumpyLoop, Same, Float, false, "tan")                                            \
  X(Arcsin, "arcsin", 1, Elementwise, NumpyLoop, Same, Float, false, "arcsin")                                   \
  X(Arccos, "arccos", 1, Elementwise, NumpyLoop, Same, Float, false, "arccos")                                   \
  X(Arctan, "arctan", 1, Elementwise, NumpyLoop, Same, Float, false, "arctan")                                   \
  X(Sinh, "sinh", 1, Elementwise, NumpyLoop, Same, Float, false, "sinh")                                         \
  X(Cosh, "cosh", 1, Elementwise, NumpyLoop, Same, Float, false, "cosh")                                         \
  X(Tanh, "tanh", 1, Elementwise, NumpyLoop, Same, Float, false, "tanh")                                         \
  X(Arcsinh, "arcsinh", 1, Elementwise, NumpyLoop, Same, Float, false, "arcsinh")                                \
  X(Arccosh, "arccosh", 1, Elementwise, NumpyLoop, Same, Float, false, "arccosh")                                \
  X(Arctanh, "arctanh", 1, Elementwise, NumpyLoop, Same, Float, false, "arctanh")                                \
  X(Cbrt, "cbrt", 1, Elementwise, NumpyLoop, Same, Float, false, "cbrt")                                         \
  X(Erf, "erf", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.erf")                              \
  X(Ndtr, "ndtr", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.ndtr")                           \
  X(Gamma, "gamma", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.gamma")                        \
  X(Gammaln, "gammaln", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.gammaln")                  \
  X(Erfc, "erfc", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.erfc")                           \
  X(Expit, "expit", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.expit")                        \
  X(Logit, "logit", 1, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.logit")                        \
  X(Xlogy, "xlogy", 2, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.xlogy")                        \
  X(Xlog1py, "xlog1py", 2, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.xlog1py")                  \
  X(IsNan, "isnan", 1, Elementwise, Native, Bool, None, false, "isnan")                                          \
  X(IsInf, "isinf", 1, Elementwise, Native, Bool, None, false, "isinf")                                          \
  X(IsFinite, "isfinite", 1, Elementwise, Native, Bool, None, false, "isfinite")                                 \
  X(SignBit, "signbit", 1, Elementwise, Native, Bool, None, false, "signbit")                                    \
  X(Equal, "equal", 2, Elementwise, Native, Bool, None, true, "equal")                                           \
  X(NotEqual, "not_equal", 2, Elementwise, Native, Bool, None, true, "not_equal")                                \
  X(Less, "less", 2, Elementwise, Native, Bool, None, false, "less")                                             \
  X(LessEqual, "less_equal", 2, Elementwise, Native, Bool, None, false, "less_equal")                            \
  X(Greater, "greater", 2, Elementwise, Native, Bool, None, false, "greater")                                    \
  X(GreaterEqual, "greater_equal", 2, Elementwise, Native, Bool, None, false, "greater_equal")                   \
  X(BitwiseAnd, "bitwise_and", 2, Elementwise, Native, Same, None, true, "bitwise_and")                          \
  X(BitwiseOr, "bitwise_or", 2, Elementwise, Native, Same, None, true, "bitwise_or")                             \
  X(BitwiseXor, "bitwise_xor", 2, Elementwise, Native, Same, None, true, "bitwise_xor")                          \
  X(Invert, "invert", 1, Elementwise, Native, Same, None, false, "invert")                                       \
  X(LeftShift, "left_shift", 2, Elementwise, Native, Same, None, false, "left_shift")                            \
  X(RightShift, "right_shift", 2, Elementwise, Native, Same, None, false, "right_shift")                         \
  X(LogicalAnd, "logical_and", 2, Elementwise, Native, Bool, None, true, "logical_and")                          \
  X(LogicalOr, "logical_or", 2, Elementwise, Native, Bool, None, true, "logical_or")                             \
  X(LogicalXor, "logical_xor", 2, Elementwise, Native, Bool, None, true, "logical_xor")                          \
  X(LogicalNot, "logical_not", 1, Elementwise, Native, Bool, None, false, "logical_not")                         \
  X(Where, "where", 3, Elementwise, Native, Same, None, false, "where")                                          \
  X(Clip, "clip", 3, Elementwise, Native, Same, None, false, "clip")                                             \
  X(Cast, "cast", 1, Cast, Native, Attribute, Float, false, "astype")                                            \
  X(ReduceSum, "reduce_sum", 1, Reduction, Native, Same, Float, false, "sum")                                    \
  X(ReduceProd, "reduce_prod", 1, Reduction, Native, Same, Float, false, "prod")                                 \
  X(ReduceMin, "reduce_min", 1, Reduction, Native, Same, None, false, "min")                                     \
  X(ReduceMax, "reduce_max", 1, Reduction, Native, Same, None, false, "max")                                     \
  X(ReduceAny, "reduce_any", 1, Reduction, Native, Bool, None, false, "any")                                     \
  X(ReduceAll, "reduce_all", 1, Reduction, Native, Bool, None, false, "all")                                     \
  X(View, "view", 1, View, Native, Same, None, false, "")                                                        \
  X(Copy, "copy", 1, Copy, Native, Same, None, false, "copy")                                                    \
  X(Write, "write", 2, Write, Native, Same, None, false, "")                                                     \
  X(MatMul, "matmul", 2, Contraction, HostCall, Same, Float, false, "matmul")                                    \
  X(Convolution, "convolution", 2, Contraction, HostCall, Same, Float, false, "framejit.ops.conv2d")             \
  X(ConvolutionWeights, "convolution_weights", 2, Contraction, HostCall, Same, Float, false, "framejit.grad")    \
  X(Attention, "attention", kAnyOperands, Contraction, HostCall, Same, Float, false,                             \
    "framejit.ops.flash_attention_score")                                                                        \
  X(AttentionGradients, "attention_gradients", kAnyOperands, Contraction, HostCall, Same, Float, false,          \
    "framejit.grad")                                                                                             \
  X(Host, "host_call", kAnyOperands, Host, HostCall, Attribute, None, false, "")                                 \
  X(Compress, "compress", 2, Host, Native, Same, None, false, "compress")                                        \
  X(Expand, "expand", 2, Host, Native, Same, None, false, "place")                                               \
  X(Nonzero, "nonzero", 1, Host, Native, Attribute, None, false, "nonzero")                                      \
  X(Carried, "carried", 0, Source, Native, Attribute, None, false, "")                                           \
  X(If, "if", 1, Control, Native, Attribute, None, false, "")                                                    \
  X(Loop, "loop", kAnyOperands, Control, Native, Attribute, None, false, "")                                     \
  X(Output, "output", 1, Source, Native, Attribute, None, false, "")                                             \
  X(Expect, "expect", 1, Control, Native, Attribute, None, false, "")                                            \
  X(Measure, "measure", 1, Control, Native, Attribute, None, false, "")
// clang-format on

enum class Op : uint8_t {
#define FRAMEJIT_OP_ENUM(name, ...) name,
  FRAMEJIT_OPS(FRAMEJIT_OP_ENUM)
#undef FRAMEJIT_OP_ENUM
};

struct OpDef {
  Op op;
  std::string_view name;
  uint8_t operands;
  OpClass cls;
  Exactness exactness;
  ResultRule result;
  Flags flags;
  bool commutative;  // to the bit, NaN payloads apart
  std::string_view numpy;
};

inline constexpr OpDef kOps[] = {
#define FRAMEJIT_OP_ROW(name, text, operands, cls, exact, result, flags, commutative, numpy) \
  {Op::name, text, operands, OpClass::cls, Exactness::exact, ResultRule::result, Flags::flags, commutative, numpy},
    FRAMEJIT_OPS(FRAMEJIT_OP_ROW)
#undef FRAMEJIT_OP_ROW
};
inline constexpr int kOpCount = sizeof(kOps) / sizeof(kOps[0]);

constexpr const OpDef& def(Op op) { return kOps[static_cast<int>(op)]; }
constexpr std::string_view name_of(Op op) { return def(op).name; }

constexpr std::optional<Op> op_from_name(std::string_view name) {
  for (const OpDef& d : kOps)
    if (d.name == name) return d.op;
  return std::nullopt;
}

constexpr bool is_control(Op op) { return def(op).cls == OpClass::Control; }
/// Stands for no value: the text form has no name for it.
constexpr bool is_bare(Op op) { return op == Op::Write || op == Op::Expect || op == Op::Measure; }
/// Is it a step of its own, between arrays in memory?
constexpr bool is_alone(Op op) {
  return def(op).cls == OpClass::Contraction || def(op).cls == OpClass::Host || is_control(op);
}
constexpr bool takes_operands(Op op, std::size_t count) {
  return def(op).operands == kAnyOperands || count == def(op).operands;
}

/// May the operator set a floating-point status flag (or its integer equivalent) on operands of this dtype?
constexpr bool may_set_flags(Op op, DType operand) {
  switch (def(op).flags) {
    case Flags::None: return false;
    case Flags::Float: return is_float(operand) || is_complex(operand);
    case Flags::IntZero: return true;
  }
  return true;
}

/// Is it, on float16, the operator on float32 of what the operands are there, and the result rounded (NumPy's loops do
/// so)?
constexpr bool is_half_in_float(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Subtract:
    case Op::Multiply:
    case Op::Divide:
    case Op::Minimum:
    case Op::Maximum:
    case Op::Copysign:
    case Op::Negative:
    case Op::Absolute:
    case Op::Sign:
    case Op::Square:
    case Op::Reciprocal:
    case Op::Sqrt:
    case Op::Floor:
    case Op::Ceil:
    case Op::Rint:
    case Op::Trunc: return true;
    default: return def(op).cls == OpClass::Elementwise && def(op).result == ResultRule::Bool;
  }
}

/// May the operands change places? Of products of complex numbers one is rounded before the other.
constexpr bool is_commutative(Op op, DType operand) {
  return def(op).commutative && !(op == Op::Multiply && is_complex(operand));
}

/// Does the operator take operands of this dtype? (Where: as second and third operand, the first is bool.) Where NumPy
/// would promote first, such as exp of an integer, the front door inserts the cast.
constexpr bool takes(Op op, DType operand) {
  const bool integral = is_int(operand) || operand == DType::Bool;
  switch (op) {
    case Op::BitwiseAnd:
    case Op::BitwiseOr:
    case Op::BitwiseXor:
    case Op::Invert: return integral;
    case Op::LeftShift:
    case Op::RightShift:
    case Op::Gcd:
    case Op::Lcm: return is_int(operand);
    case Op::Attention:
    case Op::AttentionGradients: return operand == DType::F32;
    case Op::Conjugate: return is_complex(operand);
    case Op::MultiplyAdd: return operand == DType::F32 || operand == DType::F64;
    case Op::Arctan2:
    case Op::Hypot:
    case Op::Logaddexp:
    case Op::Logaddexp2:
    case Op::Nextafter:
    case Op::Heaviside:
    case Op::Arcsinh:
    case Op::Arccosh:
    case Op::Arctanh:
    case Op::Cbrt:
    case Op::Copysign:
    case Op::SignBit:
    case Op::Rint:
    case Op::Erf:
    case Op::Ndtr:
    case Op::Gamma:
    case Op::Gammaln:
    case Op::Erfc:
    case Op::Expit:
    case Op::Logit:
    case Op::Xlogy:
    case Op::Xlog1py: return is_float(operand);
    case Op::Divide:
    case Op::Reciprocal:
    case Op::Sqrt:
    case Op::Exp:
    case Op::Exp2:
    case Op::Expm1:
    case Op::Log:
    case Op::Log2:
    case Op::Log10:
    case Op::Log1p:
    case Op::Sin:
    case Op::Cos:
    case Op::Tan:
    case Op::Arcsin:
    case Op::Arccos:
    case Op::Arctan:
    case Op::Sinh:
    case Op::Cosh:
    case Op::Tanh: return !integral;
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod: return !is_complex(operand) && operand != DType::Bool;
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc: return !is_complex(operand);
    case Op::Subtract:
    case Op::Negative:
    case Op::Power:
    case Op::Square:
    case Op::Sign: return operand != DType::Bool;
    default: return true;
  }
}

/// The dtype of the result for operands of this dtype; nothing where the row leaves it to the node
/// (ResultRule::Attribute).
constexpr std::optional<DType> result_dtype(Op op, DType operand) {
  switch (def(op).result) {
    case ResultRule::Same:
      if (op == Op::Absolute && is_complex(operand)) return operand == DType::C64 ? DType::F32 : DType::F64;
      return operand;
    case ResultRule::Bool: return DType::Bool;
    case ResultRule::Attribute: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace framejit::graph
