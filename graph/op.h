// The operator table: one row for each operator. Capture, passes, code generation, the interpreter, the verifier, the
// text form, the functions of Tensors, docs/o1.md and the tests that go through all operators read it.
#pragma once

#include <array>
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
  LibraryCall,  // a function known to be pure, over whole arrays; which one is its Index
  Control,      // runs blocks, or ends the run; it has no value, but `output`s
};

/// How bit equality with eager NumPy is reached at O0.
enum class Exactness : uint8_t {
  Native,       // one IEEE operation, integer arithmetic, or a formula proven equal: emitted inline
  NumpyLoop,    // NumPy's own inner loop on tiles; at O1 an own polynomial where codegen has one, else the same loop
  LibraryCall,  // the whole operation is a call of the library; at O1 an own core where codegen has one
};

/// What the result dtype is, given operands of dtype T.
enum class ResultRule : uint8_t { Same, Bool, Attribute };

enum class Flags : uint8_t {
  None,
  Float,    // may set floating-point status flags when T is floating or complex
  IntZero,  // additionally signals division by zero (and MIN // -1 as overflow) on integers: must be raised by the
            // kernel
};

/// Sets of dtypes: one bit for each, in the order of DType.
enum class Takes : uint16_t {
  Bool = 0x0001,
  Int = 0x01fe,
  Float = 0x1e00,
  Complex = 0x6000,
  Integral = Bool | Int,
  IntOrFloat = Int | Float,
  Real = Bool | Int | Float,
  Inexact = Float | Complex,
  Number = Int | Float | Complex,
  Any = Bool | Int | Float | Complex,
  Single = 0x0800,
  SingleOrDouble = 0x1800,
};

constexpr bool has(Takes set, DType t) { return (static_cast<unsigned>(set) >> static_cast<int>(t) & 1) != 0; }

/// On which dtypes the code generator has code of its own for an elementwise operator; on the others there is NumPy's
/// loop alone. No operator has code on bfloat16: the library's loop computes it.
enum class Own : uint8_t {
  None = 0,
  Float = 1,            // float32 and float64: apply_float (codegen/emit_apply.cpp)
  FloatAtO1 = 2,        // the same, at O1 only: of equal operands NumPy's loop takes either
  Half = 4,             // float16: the code on float32, whose result is rounded once, as NumPy's loops do
  Int = 8,              // apply_int
  Bool = 16,            // apply_bool
  Complex = 32,         // made of operators on the parts (codegen/lower_complex.cpp)
  Math = 64,            // an elementary function of O1 on float32 and float64 (codegen/emit_math.cpp)
  MathInFloat64 = 128,  // the same on float64; float32 is computed in float64 and rounded
};

constexpr Own operator|(Own a, Own b) { return static_cast<Own>(static_cast<unsigned>(a) | static_cast<unsigned>(b)); }
constexpr bool has(Own set, Own any) { return (static_cast<unsigned>(set) & static_cast<unsigned>(any)) != 0; }

/// Error bounds of an elementary function at O1, in units of the last place of the exact result; 0 where it is exact.
struct Ulps {
  float f32 = 0, f64 = 0;
};

inline constexpr uint8_t kAnyOperands = 255;

// clang-format off
// X(Enumerator, text name, operand count, dtypes taken, class, exactness, result rule, flags, commutative,
//   NumPy ufunc or function[, .own, .ulps, .functions, .methods, .primitives]): the columns by name are OpDef's.
#define FRAMEJIT_OPS(X)                                                                                                \
  X(Param, "param", 0, Any, Source, Native, Attribute, None, false, "")                                                \
  X(Constant, "constant", 0, Any, Source, Native, Attribute, None, false, "")                                          \
  X(DimValue, "dim", 0, Any, Source, Native, Attribute, None, false, "")                                               \
  X(Empty, "empty", 0, Any, Source, Native, Attribute, None, false, "empty")                                           \
  X(Full, "full", 1, Any, Source, Native, Same, None, false, "full")                                                   \
  X(Iota, "iota", 0, Any, Source, Native, Attribute, None, false, "arange")                                            \
  X(Add, "add", 2, Any, Elementwise, Native, Same, Float, true, "add",                                                 \
    .own = Float | Half | Int | Bool | Complex, .functions = "add tensor_add scalar_add", .methods = "add",            \
    .primitives = "Add TensorAdd")                                                                                     \
  X(Subtract, "subtract", 2, Number, Elementwise, Native, Same, Float, false, "subtract",                              \
    .own = Float | Half | Int | Complex, .functions = "sub subtract tensor_sub scalar_sub", .methods = "sub subtract", \
    .primitives = "Sub")                                                                                               \
  X(Multiply, "multiply", 2, Any, Elementwise, Native, Same, Float, true, "multiply",                                  \
    .own = Float | Half | Int | Bool | Complex, .functions = "mul multiply tensor_mul scalar_mul",                     \
    .methods = "mul multiply", .primitives = "Mul")                                                                    \
  X(Divide, "divide", 2, Inexact, Elementwise, Native, Same, Float, false, "divide",                                   \
    .own = Float | Half | Complex, .functions = "true_divide divide tensor_div scalar_div",                            \
    .methods = "true_divide divide", .primitives = "Div RealDiv")                                                      \
  X(FloorDivide, "floor_divide", 2, IntOrFloat, Elementwise, Native, Same, IntZero, false, "floor_divide",             \
    .own = Float | Int, .functions = "floor_divide floor_div tensor_floordiv floordiv scalar_floordiv",                \
    .methods = "floor_divide", .primitives = "FloorDiv")                                                               \
  X(Remainder, "remainder", 2, IntOrFloat, Elementwise, Native, Same, IntZero, false, "remainder",                     \
    .own = Float | Int, .functions = "remainder mod floor_mod tensor_mod floormod scalar_mod", .methods = "remainder", \
    .primitives = "Mod FloorMod")                                                                                      \
  X(Fmod, "fmod", 2, IntOrFloat, Elementwise, Native, Same, IntZero, false, "fmod",                                    \
    .own = Float | Int, .functions = "fmod", .methods = "fmod")                                                        \
  X(Power, "power", 2, Number, Elementwise, NumpyLoop, Same, Float, false, "power",                                    \
    .own = MathInFloat64, .ulps = {1.0, 1.0}, .functions = "pow tensor_pow pows scalar_pow", .methods = "pow",         \
    .primitives = "Pow")                                                                                               \
  X(Arctan2, "arctan2", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "arctan2",                               \
    .own = MathInFloat64, .ulps = {1.0, 1.5}, .functions = "atan2 arctan2", .methods = "atan2 arctan2",                \
    .primitives = "Atan2")                                                                                             \
  X(Hypot, "hypot", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "hypot",                                     \
    .own = Math, .ulps = {1.5, 1.5}, .functions = "hypot", .methods = "hypot", .primitives = "Hypot")                  \
  X(Logaddexp, "logaddexp", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "logaddexp",                         \
    .own = MathInFloat64, .ulps = {2.0, 2.0})                                                                          \
  X(Logaddexp2, "logaddexp2", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "logaddexp2",                      \
    .own = MathInFloat64, .ulps = {2.0, 2.0})                                                                          \
  X(Nextafter, "nextafter", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "nextafter",                         \
    .own = Math)                                                                                                       \
  X(Heaviside, "heaviside", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "heaviside",                         \
    .own = Math)                                                                                                       \
  X(Gcd, "gcd", 2, Int, Elementwise, NumpyLoop, Same, None, true, "gcd")                                               \
  X(Lcm, "lcm", 2, Int, Elementwise, NumpyLoop, Same, None, true, "lcm")                                               \
  X(Minimum, "minimum", 2, Any, Elementwise, Native, Same, None, false, "minimum",                                     \
    .own = Float | Half | Int | Bool | Complex, .functions = "minimum", .methods = "minimum", .primitives = "Minimum") \
  X(Maximum, "maximum", 2, Any, Elementwise, Native, Same, None, false, "maximum",                                     \
    .own = Float | Half | Int | Bool | Complex, .functions = "maximum", .methods = "maximum", .primitives = "Maximum") \
  X(Fmin, "fmin", 2, Any, Elementwise, NumpyLoop, Same, None, false, "fmin",                                           \
    .own = FloatAtO1 | Int | Bool | Complex, .functions = "fmin", .primitives = "Fmin")                                \
  X(Fmax, "fmax", 2, Any, Elementwise, NumpyLoop, Same, None, false, "fmax",                                           \
    .own = FloatAtO1 | Int | Bool | Complex, .functions = "fmax", .primitives = "Fmax")                                \
  X(Copysign, "copysign", 2, Float, Elementwise, Native, Same, None, false, "copysign",                                \
    .own = Float | Half, .functions = "copysign", .methods = "copysign")                                               \
  X(Negative, "negative", 1, Number, Elementwise, Native, Same, None, false, "negative",                               \
    .own = Float | Half | Int | Complex, .functions = "neg negative scalar_usub", .methods = "neg negative",           \
    .primitives = "Neg")                                                                                               \
  X(Conjugate, "conjugate", 1, Complex, Elementwise, Native, Same, None, false, "conjugate",                           \
    .own = Complex)                                                                                                    \
  X(Absolute, "absolute", 1, Any, Elementwise, Native, Same, None, false, "absolute",                                  \
    .own = Float | Half | Int | Bool | Complex, .functions = "abs absolute", .methods = "abs absolute",                \
    .primitives = "Abs")                                                                                               \
  X(Sign, "sign", 1, Number, Elementwise, Native, Same, None, false, "sign",                                           \
    .own = Float | Half | Int, .functions = "sign sgn", .methods = "sign", .primitives = "Sign")                       \
  X(MultiplyAdd, "multiply_add", 3, SingleOrDouble, Elementwise, Native, Same, Float, false, "math.fma",               \
    .own = Float)                                                                                                      \
  X(Square, "square", 1, Number, Elementwise, Native, Same, Float, false, "square",                                    \
    .own = Float | Half | Int | Complex, .functions = "square", .methods = "square", .primitives = "Square")           \
  X(Reciprocal, "reciprocal", 1, Inexact, Elementwise, Native, Same, Float, false, "reciprocal",                       \
    .own = Float | Half | Complex, .functions = "reciprocal", .methods = "reciprocal", .primitives = "Reciprocal Inv") \
  X(Sqrt, "sqrt", 1, Inexact, Elementwise, Native, Same, Float, false, "sqrt",                                         \
    .own = Float | Half, .functions = "sqrt", .methods = "sqrt", .primitives = "Sqrt")                                 \
  X(Floor, "floor", 1, Real, Elementwise, Native, Same, None, false, "floor",                                          \
    .own = Float | Half | Int)                                                                                         \
  X(Ceil, "ceil", 1, Real, Elementwise, Native, Same, None, false, "ceil",                                             \
    .own = Float | Half | Int)                                                                                         \
  X(Rint, "rint", 1, Float, Elementwise, Native, Same, None, false, "rint",                                            \
    .own = Float | Half)                                                                                               \
  X(Trunc, "trunc", 1, Real, Elementwise, Native, Same, None, false, "trunc",                                          \
    .own = Float | Half | Int)                                                                                         \
  X(Exp, "exp", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "exp",                                         \
    .own = Math, .ulps = {1.5, 1.0}, .functions = "exp tensor_exp", .methods = "exp", .primitives = "Exp")             \
  X(Exp2, "exp2", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "exp2",                                      \
    .own = Math, .ulps = {1.5, 1.0}, .functions = "exp2")                                                              \
  X(Expm1, "expm1", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "expm1",                                   \
    .own = Math, .ulps = {2.0, 1.5}, .functions = "expm1 tensor_expm1", .methods = "expm1", .primitives = "Expm1")     \
  X(Log, "log", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "log",                                         \
    .own = Math, .ulps = {1.5, 1.0}, .functions = "log", .methods = "log", .primitives = "Log")                        \
  X(Log2, "log2", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "log2",                                      \
    .own = Math, .ulps = {2.0, 1.5}, .functions = "log2", .methods = "log2")                                           \
  X(Log10, "log10", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "log10",                                   \
    .own = Math, .ulps = {2.5, 1.5}, .functions = "log10", .methods = "log10")                                         \
  X(Log1p, "log1p", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "log1p",                                   \
    .own = Math, .ulps = {2.0, 1.5}, .functions = "log1p", .methods = "log1p", .primitives = "Log1p")                  \
  X(Sin, "sin", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "sin",                                         \
    .own = Math, .ulps = {1.5, 1.0}, .functions = "sin", .methods = "sin", .primitives = "Sin")                        \
  X(Cos, "cos", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "cos",                                         \
    .own = Math, .ulps = {1.5, 1.0}, .functions = "cos", .methods = "cos", .primitives = "Cos")                        \
  X(Tan, "tan", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "tan",                                         \
    .own = Math, .ulps = {3.5, 1.5}, .functions = "tan", .methods = "tan", .primitives = "Tan")                        \
  X(Arcsin, "arcsin", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "arcsin",                                \
    .own = Math, .ulps = {1.5, 1.5}, .functions = "asin arcsin", .methods = "asin arcsin", .primitives = "Asin")       \
  X(Arccos, "arccos", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "arccos",                                \
    .own = Math, .ulps = {2.0, 1.5}, .functions = "acos arccos", .methods = "acos arccos", .primitives = "ACos")       \
  X(Arctan, "arctan", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "arctan",                                \
    .own = Math, .ulps = {2.0, 1.5}, .functions = "atan arctan", .methods = "atan arctan", .primitives = "Atan")       \
  X(Sinh, "sinh", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "sinh",                                      \
    .own = Math, .ulps = {2.5, 2.0}, .functions = "sinh", .methods = "sinh", .primitives = "Sinh")                     \
  X(Cosh, "cosh", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "cosh",                                      \
    .own = Math, .ulps = {2.0, 1.5}, .functions = "cosh", .methods = "cosh", .primitives = "Cosh")                     \
  X(Tanh, "tanh", 1, Inexact, Elementwise, NumpyLoop, Same, Float, false, "tanh",                                      \
    .own = Math, .ulps = {2.5, 1.5}, .functions = "tanh", .methods = "tanh", .primitives = "Tanh")                     \
  X(Arcsinh, "arcsinh", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "arcsinh",                               \
    .own = MathInFloat64, .ulps = {1.0, 1.0})                                                                          \
  X(Arccosh, "arccosh", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "arccosh",                               \
    .own = MathInFloat64, .ulps = {1.0, 1.0})                                                                          \
  X(Arctanh, "arctanh", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "arctanh",                               \
    .own = MathInFloat64, .ulps = {1.0, 1.0})                                                                          \
  X(Cbrt, "cbrt", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "cbrt",                                        \
    .own = MathInFloat64, .ulps = {1.0, 1.0})                                                                          \
  X(Erf, "erf", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.erf",                             \
    .own = Math, .ulps = {1.5, 1.5}, .functions = "erf", .methods = "erf", .primitives = "Erf")                        \
  X(Ndtr, "ndtr", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.ndtr",                          \
    .own = MathInFloat64, .ulps = {1.0, 6.5})                                                                          \
  X(Gamma, "gamma", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.gamma",                       \
    .own = MathInFloat64, .ulps = {1.0, 6.5})                                                                          \
  X(Gammaln, "gammaln", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.gammaln",                 \
    .own = MathInFloat64, .ulps = {1.0, 5.0})                                                                          \
  X(Erfc, "erfc", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.erfc",                          \
    .own = MathInFloat64, .ulps = {1.0, 7.5})                                                                          \
  X(Expit, "expit", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.expit",                       \
    .own = Math, .ulps = {2.5, 2.5})                                                                                   \
  X(Logit, "logit", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.logit",                       \
    .own = MathInFloat64, .ulps = {1.0, 1.0})                                                                          \
  X(Xlogy, "xlogy", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.xlogy",                       \
    .own = Math, .ulps = {2.0, 2.0})                                                                                   \
  X(Xlog1py, "xlog1py", 2, Float, Elementwise, NumpyLoop, Same, Float, false, "scipy.special.xlog1py",                 \
    .own = MathInFloat64, .ulps = {1.0, 3.0})                                                                          \
  X(IsNan, "isnan", 1, Any, Elementwise, Native, Bool, None, false, "isnan",                                           \
    .own = Float | Half | Int | Bool | Complex, .functions = "isnan", .methods = "isnan", .primitives = "IsNan")       \
  X(IsInf, "isinf", 1, Any, Elementwise, Native, Bool, None, false, "isinf",                                           \
    .own = Float | Half | Int | Bool | Complex, .functions = "isinf", .methods = "isinf", .primitives = "IsInf")       \
  X(IsFinite, "isfinite", 1, Any, Elementwise, Native, Bool, None, false, "isfinite",                                  \
    .own = Float | Half | Int | Bool | Complex, .functions = "isfinite", .methods = "isfinite",                        \
    .primitives = "IsFinite")                                                                                          \
  X(SignBit, "signbit", 1, Float, Elementwise, Native, Bool, None, false, "signbit",                                   \
    .own = Float | Half, .functions = "signbit", .methods = "signbit")                                                 \
  X(Equal, "equal", 2, Any, Elementwise, Native, Bool, None, true, "equal",                                            \
    .own = Float | Half | Int | Bool | Complex, .functions = "equal eq scalar_eq", .methods = "equal eq",              \
    .primitives = "Equal")                                                                                             \
  X(NotEqual, "not_equal", 2, Any, Elementwise, Native, Bool, None, true, "not_equal",                                 \
    .own = Float | Half | Int | Bool | Complex, .functions = "not_equal ne scalar_ne", .methods = "not_equal ne",      \
    .primitives = "NotEqual")                                                                                          \
  X(Less, "less", 2, Any, Elementwise, Native, Bool, None, false, "less",                                              \
    .own = Float | Half | Int | Bool, .functions = "less lt tensor_lt scalar_lt", .methods = "less lt",                \
    .primitives = "Less")                                                                                              \
  X(LessEqual, "less_equal", 2, Any, Elementwise, Native, Bool, None, false, "less_equal",                             \
    .own = Float | Half | Int | Bool, .functions = "less_equal le tensor_le scalar_le", .methods = "less_equal le",    \
    .primitives = "LessEqual")                                                                                         \
  X(Greater, "greater", 2, Any, Elementwise, Native, Bool, None, false, "greater",                                     \
    .own = Float | Half | Int | Bool, .functions = "greater gt tensor_gt scalar_gt", .methods = "greater gt",          \
    .primitives = "Greater")                                                                                           \
  X(GreaterEqual, "greater_equal", 2, Any, Elementwise, Native, Bool, None, false, "greater_equal",                    \
    .own = Float | Half | Int | Bool, .functions = "greater_equal ge tensor_ge scalar_ge",                             \
    .methods = "greater_equal ge", .primitives = "GreaterEqual")                                                       \
  X(BitwiseAnd, "bitwise_and", 2, Integral, Elementwise, Native, Same, None, true, "bitwise_and",                      \
    .own = Int | Bool, .functions = "bitwise_and", .methods = "bitwise_and", .primitives = "BitwiseAnd")               \
  X(BitwiseOr, "bitwise_or", 2, Integral, Elementwise, Native, Same, None, true, "bitwise_or",                         \
    .own = Int | Bool, .functions = "bitwise_or", .methods = "bitwise_or", .primitives = "BitwiseOr")                  \
  X(BitwiseXor, "bitwise_xor", 2, Integral, Elementwise, Native, Same, None, true, "bitwise_xor",                      \
    .own = Int | Bool, .functions = "bitwise_xor", .methods = "bitwise_xor", .primitives = "BitwiseXor")               \
  X(Invert, "invert", 1, Integral, Elementwise, Native, Same, None, false, "invert",                                   \
    .own = Int | Bool, .functions = "bitwise_not invert", .methods = "bitwise_not", .primitives = "Invert")            \
  X(LeftShift, "left_shift", 2, Int, Elementwise, Native, Same, None, false, "left_shift",                             \
    .own = Int, .functions = "bitwise_left_shift", .primitives = "LeftShift")                                          \
  X(RightShift, "right_shift", 2, Int, Elementwise, Native, Same, None, false, "right_shift",                          \
    .own = Int, .functions = "bitwise_right_shift", .primitives = "RightShift")                                        \
  X(LogicalAnd, "logical_and", 2, Any, Elementwise, Native, Bool, None, true, "logical_and",                           \
    .own = Float | Half | Int | Bool | Complex, .functions = "logical_and", .methods = "logical_and",                  \
    .primitives = "LogicalAnd")                                                                                        \
  X(LogicalOr, "logical_or", 2, Any, Elementwise, Native, Bool, None, true, "logical_or",                              \
    .own = Float | Half | Int | Bool | Complex, .functions = "logical_or", .methods = "logical_or",                    \
    .primitives = "LogicalOr")                                                                                         \
  X(LogicalXor, "logical_xor", 2, Any, Elementwise, Native, Bool, None, true, "logical_xor",                           \
    .own = Float | Half | Int | Bool | Complex, .functions = "logical_xor", .methods = "logical_xor",                  \
    .primitives = "LogicalXor")                                                                                        \
  X(LogicalNot, "logical_not", 1, Any, Elementwise, Native, Bool, None, false, "logical_not",                          \
    .own = Float | Half | Int | Bool | Complex, .functions = "logical_not", .methods = "logical_not",                  \
    .primitives = "LogicalNot")                                                                                        \
  X(Where, "where", 3, Any, Elementwise, Native, Same, None, false, "where",                                           \
    .own = Float | Int | Bool | Complex)                                                                               \
  X(Clip, "clip", 3, Any, Elementwise, Native, Same, None, false, "clip",                                              \
    .own = Float | Int | Bool)                                                                                         \
  X(Cast, "cast", 1, Any, Cast, Native, Attribute, Float, false, "astype")                                             \
  X(ReduceSum, "reduce_sum", 1, Any, Reduction, Native, Same, Float, false, "sum")                                     \
  X(ReduceProd, "reduce_prod", 1, Any, Reduction, Native, Same, Float, false, "prod")                                  \
  X(ReduceMin, "reduce_min", 1, Any, Reduction, Native, Same, None, false, "min")                                      \
  X(ReduceMax, "reduce_max", 1, Any, Reduction, Native, Same, None, false, "max")                                      \
  X(ReduceAny, "reduce_any", 1, Any, Reduction, Native, Bool, None, false, "any")                                      \
  X(ReduceAll, "reduce_all", 1, Any, Reduction, Native, Bool, None, false, "all")                                      \
  X(View, "view", 1, Any, View, Native, Same, None, false, "")                                                         \
  X(Copy, "copy", 1, Any, Copy, Native, Same, None, false, "copy")                                                     \
  X(Write, "write", 2, Any, Write, Native, Same, None, false, "")                                                      \
  X(MatMul, "matmul", 2, Any, Contraction, LibraryCall, Same, Float, false, "matmul",                                  \
    .functions = "matmul bmm mm", .methods = "matmul bmm mm")                                                          \
  X(Convolution, "convolution", 2, Any, Contraction, LibraryCall, Same, Float, false, "framejit.ops.conv2d")           \
  X(ConvolutionWeights, "convolution_weights", 2, Any, Contraction, LibraryCall, Same, Float, false, "framejit.grad")  \
  X(Attention, "attention", kAnyOperands, Single, Contraction, LibraryCall, Same, Float, false,                        \
    "framejit.ops.flash_attention_score")                                                                              \
  X(AttentionGradients, "attention_gradients", kAnyOperands, Single, Contraction, LibraryCall, Same, Float, false,     \
    "framejit.grad")                                                                                                   \
  X(LibraryCall, "library_call", kAnyOperands, Any, LibraryCall, LibraryCall, Attribute, None, false, "")              \
  X(Compress, "compress", 2, Any, LibraryCall, Native, Same, None, false, "compress")                                  \
  X(Expand, "expand", 2, Any, LibraryCall, Native, Same, None, false, "place")                                         \
  X(Nonzero, "nonzero", 1, Any, LibraryCall, Native, Attribute, None, false, "nonzero")                                \
  X(Put, "put", kAnyOperands, Any, LibraryCall, Native, Same, None, false, "put")                                      \
  X(Carried, "carried", 0, Any, Source, Native, Attribute, None, false, "")                                            \
  X(If, "if", 1, Any, Control, Native, Attribute, None, false, "")                                                     \
  X(Loop, "loop", kAnyOperands, Any, Control, Native, Attribute, None, false, "")                                      \
  X(Output, "output", 1, Any, Source, Native, Attribute, None, false, "")                                              \
  X(Expect, "expect", 1, Any, Control, Native, Attribute, None, false, "")                                             \
  X(Measure, "measure", 1, Any, Control, Native, Attribute, None, false, "")
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
  /// The dtypes of its operands (Where: of the second and third operand, the first is bool). Where NumPy would promote
  /// first, such as exp of an integer, the frontend inserts the cast.
  Takes takes;
  OpClass cls;
  Exactness exactness;
  ResultRule result;
  Flags flags;
  bool commutative;  // to the bit, NaN payloads apart
  std::string_view numpy;
  Own own = Own::None;
  Ulps ulps = {};
  // Names on the side of Tensors, with blanks between them, where the operator is all that is behind the name:
  // functions of framejit.ops, methods of Tensor, primitives. Methods are among the functions.
  std::string_view functions = "", methods = "", primitives = "";
};

namespace detail {

consteval auto all_ops() {
  using enum Own;
  return std::array{
#define FRAMEJIT_OP_ROW(op_, name_, operands_, takes_, cls_, exactness_, result_, flags_, commutative_, numpy_, ...) \
  OpDef{.op = Op::op_,                                                                                               \
        .name = name_,                                                                                               \
        .operands = operands_,                                                                                       \
        .takes = Takes::takes_,                                                                                      \
        .cls = OpClass::cls_,                                                                                        \
        .exactness = Exactness::exactness_,                                                                          \
        .result = ResultRule::result_,                                                                               \
        .flags = Flags::flags_,                                                                                      \
        .commutative = commutative_,                                                                                 \
        .numpy = numpy_ __VA_OPT__(, ) __VA_ARGS__},
      FRAMEJIT_OPS(FRAMEJIT_OP_ROW)
#undef FRAMEJIT_OP_ROW
  };
}

}  // namespace detail

inline constexpr auto kOps = detail::all_ops();
inline constexpr int kOpCount = kOps.size();

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
  return def(op).cls == OpClass::Contraction || def(op).cls == OpClass::LibraryCall || is_control(op);
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
constexpr bool is_half_in_float(Op op) { return has(def(op).own, Own::Half); }

/// May the operands change places? Of products of complex numbers one is rounded before the other.
constexpr bool is_commutative(Op op, DType operand) {
  return def(op).commutative && !(op == Op::Multiply && is_complex(operand));
}

constexpr bool takes(Op op, DType operand) { return has(def(op).takes, operand); }

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
