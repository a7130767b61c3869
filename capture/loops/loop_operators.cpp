// Operators and subscripts of a compiled loop, with the results and types that the interpreter gives.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "capture/loops/loop_instructions.h"
#include "capture/py/extent.h"
#include "capture/py/layouts.h"

namespace framejit::capture {

namespace {

struct Place {
  cfg::Id base, at;
  Typed view;
};

Typed int_binary(LoopTranslator& t, int op_kind, const Typed& a, const Typed& b);
Typed float_binary(LoopTranslator& t, int op_kind, cfg::Id x, cfg::Id y);
Typed scalar_binary(LoopTranslator& t, int op_kind, const Typed& a, const Typed& b);

}  // namespace

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

// As float_divmod of the interpreter does it, for a divisor that is not 0, and NumPy in each of its types.
template <class T>
T mod_of(T a, T b) {
  T mod = std::fmod(a, b);
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) mod += b;
  } else {
    mod = std::copysign(T{0}, b);
  }
  return mod;
}

template <class T>
T floor_div_of(T a, T b) {
  const T mod = std::fmod(a, b);
  T quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  T floored = std::floor(quotient);
  if (quotient - floored > T{0.5}) floored += 1;
  return floored;
}

template <class T>
T power_of(T a, T b) {
  return std::pow(a, b);
}

/// A function of float32 for numbers of that type that are given as float64.
template <float (*f)(float, float)>
double single(double a, double b) {
  return f(static_cast<float>(a), static_cast<float>(b));
}

cfg::Function of_two(const char* name, double (*function)(double, double), bool is_power = false) {
  return {name, reinterpret_cast<const void*>(function), Type::F64, 2, Type::F64, is_power};
}
const cfg::Function kFloatMod = of_two("float_mod", mod_of<double>),
                    kFloatFloorDiv = of_two("float_floordiv", floor_div_of<double>),
                    kFloatPower = of_two("pow", power_of<double>, true),
                    kSingleMod = of_two("single_mod", single<mod_of<float>>),
                    kSingleFloorDiv = of_two("single_floordiv", single<floor_div_of<float>>),
                    kSinglePower = of_two("powf", single<power_of<float>>);

constexpr int64_t kExactInFloat = int64_t{1} << 53;

int bits_of(DType t) { return 8 * graph::size_of(t); }

cfg::Mem mem_of(DType t) {
  switch (t) {
    case DType::Bool:
    case DType::U8: return cfg::Mem::U8;
    case DType::I8: return cfg::Mem::I8;
    case DType::I16: return cfg::Mem::I16;
    case DType::U16: return cfg::Mem::U16;
    case DType::I32: return cfg::Mem::I32;
    case DType::U32: return cfg::Mem::U32;
    case DType::F32: return cfg::Mem::F32;
    case DType::F64: return cfg::Mem::F64;
    default: return cfg::Mem::I64;
  }
}

Type machine_type(DType t) { return cfg::type_of(mem_of(t)); }

}  // namespace

/// The common type of two NumPy scalars, of those that loops have.
DType common(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (graph::is_float(a) || graph::is_float(b)) {
    if (a == DType::F64 || b == DType::F64) return DType::F64;
    const DType other = graph::is_float(a) ? b : a;  // the one beside float32
    return graph::is_float(other) || bits_of(other) <= 16 ? DType::F32 : DType::F64;
  }
  const bool same_sign = graph::is_signed_int(a) == graph::is_signed_int(b);
  if (same_sign) return bits_of(a) > bits_of(b) ? a : b;
  const DType s = graph::is_signed_int(a) ? a : b, u = graph::is_signed_int(a) ? b : a;
  if (bits_of(s) > bits_of(u)) return s;
  return bits_of(u) == 8 ? DType::I16 : bits_of(u) == 16 ? DType::I32 : DType::I64;
}

/// A Python int in a computation of floats.
cfg::Id as_f64(LoopTranslator& t, const Typed& v) {
  const cfg::Id id = v.ids[0];
  if (t.type_of(id) == Type::F64) return id;
  if (t.type_of(id) == Type::F32) return t.op(Op::ToF64, Type::F64, t.settled(id));
  if (t.cfg.is_const(id)) return t.number(static_cast<double>(t.cfg.at(id).imm));
  return t.op(Op::ToF64, Type::F64, id);
}

cfg::Mem memory_of(DType t) { return t == DType::C128 ? cfg::Mem::F64 : mem_of(t); }

namespace {

/// The same integer, which an element type can hold; else the interpreter goes on.
cfg::Id in_range(LoopTranslator& t, cfg::Id value, DType dtype) {
  if (dtype == DType::I64) return value;
  cfg::Node n;
  n.op = Op::Extend;
  n.type = Type::I64;
  n.mem = mem_of(dtype);
  n.args[0] = value;
  const cfg::Id cut = t.add(n);
  t.check(t.op(Op::Eq, Type::I64, cut, value));
  return value;
}

}  // namespace

cfg::Id exact_in_float(LoopTranslator& t, cfg::Id value) {
  const cfg::Id above = t.op(Op::Add, Type::I64, value, t.integer(kExactInFloat));
  t.check(t.op(Op::Below, Type::I64, above, t.integer(2 * kExactInFloat)));
  return value;
}

cfg::Id magnitude(LoopTranslator& t, const Typed& v) {
  const cfg::Id id = v.ids[0];
  if (v.kind == Kind::Scalar && graph::is_unsigned_int(v.dtype)) return id;
  const cfg::Id made = t.op(Op::Select, Type::I64, t.op(Op::Lt, Type::I64, id, t.integer(0)),
                            t.exact(Op::SubExact, t.integer(0), id), id);
  return v.kind == Kind::Scalar ? in_range(t, made, v.dtype) : made;
}

cfg::Id converted(LoopTranslator& t, const Typed& v, DType to) {
  const cfg::Id id = v.ids[0];
  if (graph::is_float(to)) {
    const cfg::Id wide = as_f64(t, v);
    if (to == DType::F64) return wide;
    if (t.type_of(id) == Type::F32) return id;
    if (v.kind == Kind::Float || (v.kind == Kind::Scalar && v.dtype == DType::F64)) {
      // A number too large for float32 is one that NumPy warns of.
      const cfg::Id narrow = t.op(Op::ToF32, Type::F32, t.settled(wide));
      t.check_finite(narrow);
      return narrow;
    }
    return t.op(Op::ToF32, Type::F32, wide);
  }
  if (t.type_of(id) != Type::I64) throw NotCompiled{"a float where an integer is stored"};
  if (to == DType::Bool) return t.op(Op::Ne, Type::I64, id, t.integer(0));
  if (v.kind == Kind::Scalar && (v.dtype == to || v.dtype == DType::Bool)) return id;
  if (v.kind == Kind::Bool) return id;
  return in_range(t, id, to);
}

Typed binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b) {
  const int op_kind = nb % kBinaryKinds;
  if (a.is_complex() || b.is_complex()) {
    if (!a.is_single() || !b.is_single())
      if (std::optional<Typed> made = matrix_binary(t, nb, a, b)) return *made;
    return complex_binary(t, op_kind, a, b);
  }
  if (!a.is_number() || !b.is_number()) {
    std::optional<Typed> made;
    if (std::optional<Typed> list = list_binary(t, nb, a, b)) return *list;
    if (nb == kMatmul) made = dot_product(t, known(t, a), known(t, b), false);
    else made = vector_binary(t, nb, a, b);
    if (!made) made = matrix_binary(t, nb, nb == kMatmul ? known(t, a) : a, nb == kMatmul ? known(t, b) : b);
    if (made) return *made;
    throw NotCompiled{"an operator on something that is not a number", a.is_array() || b.is_array()};
  }
  if (a.kind == Kind::Scalar || b.kind == Kind::Scalar) return scalar_binary(t, op_kind, a, b);
  if (a.kind == Kind::Float || b.kind == Kind::Float) return float_binary(t, op_kind, as_f64(t, a), as_f64(t, b));
  return int_binary(t, op_kind, a, b);
}

bool is_computed_alike(int nb, DType dtype) {
  switch (nb % kBinaryKinds) {
    case kAdd:
    case kSub:
    case kMul: return true;
    case kTrueDiv: return dtype == DType::F64;
    case kAnd:
    case kOr:
    case kXor:
    case kFloorDiv:
    case kRemainder: return dtype == DType::I64;
    default: return false;
  }
}

Typed either_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b) {
  const auto as_python = [&](const Typed& v) {
    if (v.kind != Kind::Either) return known(t, v);
    return v.dtype == DType::F64 ? of_float(v.ids[2]) : of_int(v.ids[1]);
  };
  Typed made;
  made.kind = Kind::Either;
  made.dtype = a.kind == Kind::Either ? a.dtype : b.dtype;
  // It is one of NumPy's if an operand is.
  const cfg::Id of_numpy = t.integer(LoopTag::kScalar + static_cast<int64_t>(made.dtype));
  const cfg::Id of_python = t.integer(made.dtype == DType::F64 ? LoopTag::kFloat : LoopTag::kInt);
  cfg::Id tag = of_python;
  for (const Typed* v : {&a, &b})
    if (v->kind == Kind::Either)
      tag = t.op(Op::Select, Type::I64, t.op(Op::Eq, Type::I64, v->ids[0], of_numpy), of_numpy, tag);
  const bool is_float = made.dtype == DType::F64;
  const Typed x = as_python(a), y = as_python(b);
  const cfg::Id value = is_float ? float_binary(t, nb % kBinaryKinds, x.ids[0], y.ids[0]).ids[0]
                                 : int_binary(t, nb % kBinaryKinds, x, y).ids[0];
  if (is_float) t.pending.push_back(value);
  made.ids = {tag, is_float ? t.integer(0) : value, is_float ? value : t.number(0.0)};
  return made;
}

namespace {

Typed int_binary(LoopTranslator& t, int op_kind, const Typed& a, const Typed& b) {
  const cfg::Id x = a.ids[0], y = b.ids[0];
  const bool natural = a.natural && b.natural;
  const auto is_likely = [&](const Typed& v) { return v.natural || v.seldom_negative; };
  switch (op_kind) {
    case kAdd: {
      Typed made = of_int(t.exact(Op::AddExact, x, y), natural);
      made.seldom_negative = is_likely(a) && is_likely(b);
      return made;
    }
    case kSub: {
      Typed made = of_int(t.exact(Op::SubExact, x, y));
      made.seldom_negative = !t.wraps_indices() && is_likely(a) && t.cfg.is_const(y) && t.cfg.at(y).imm > 0;
      return made;
    }
    case kMul: return of_int(t.exact(Op::MulExact, x, y), natural);
    case kAnd:
    case kOr:
    case kXor: {
      const cfg::Id made = t.op(op_kind == kAnd ? Op::And : op_kind == kOr ? Op::Or : Op::Xor, Type::I64, x, y);
      if (a.kind == Kind::Bool && b.kind == Kind::Bool) return of_bool(made);
      return of_int(made, natural || (op_kind == kAnd && (a.natural || b.natural)));
    }
    case kFloorDiv:
    case kRemainder: {
      t.check(t.op(Op::Ne, Type::I64, y, t.integer(0)));
      // The least integer by -1 is too large.
      if (!t.cfg.is_const(y)) t.check(t.op(Op::Ne, Type::I64, y, t.integer(-1)));
      else if (t.cfg.at(y).imm == -1) throw NotCompiled{"a division by -1"};
      return of_int(t.op(op_kind == kFloorDiv ? Op::FloorDiv : Op::FloorMod, Type::I64, x, y),
                    natural || (op_kind == kRemainder && b.natural));
    }
    case kShl: {
      t.check(t.op(Op::Below, Type::I64, y, t.integer(63)));
      const cfg::Id made = t.op(Op::Shl, Type::I64, x, y);
      t.check(t.op(Op::Eq, Type::I64, t.op(Op::Shr, Type::I64, made, y), x));
      return of_int(made, a.natural);
    }
    case kShr:
      t.check(t.op(Op::Below, Type::I64, y, t.integer(64)));
      return of_int(t.op(Op::Shr, Type::I64, x, y), a.natural);
    case kTrueDiv: {
      t.check(t.op(Op::Ne, Type::I64, y, t.integer(0)));
      exact_in_float(t, x);
      exact_in_float(t, y);
      return of_float(t.op(Op::Div, Type::F64, as_f64(t, a), as_f64(t, b)));
    }
    case kPower: {
      if (!t.cfg.is_const(y) || t.cfg.at(y).imm < 0 || t.cfg.at(y).imm > 8) throw NotCompiled{"a power of ints"};
      int64_t left = t.cfg.at(y).imm;
      if (left == 0) return of_int(t.integer(1), true);
      cfg::Id made = x;
      while (--left > 0) made = t.exact(Op::MulExact, made, x);
      return of_int(made, a.natural || t.cfg.at(y).imm % 2 == 0);
    }
    default: throw NotCompiled{"an operator on ints"};
  }
}

Typed float_binary(LoopTranslator& t, int op_kind, cfg::Id x, cfg::Id y) {
  const auto is_not_zero = [&] { t.check(t.op(Op::Ne, Type::I64, y, t.number(0.0))); };
  switch (op_kind) {
    case kAdd: return of_float(t.op(Op::Add, Type::F64, x, y));
    case kSub: return of_float(t.op(Op::Sub, Type::F64, x, y));
    case kMul: return of_float(t.op(Op::Mul, Type::F64, x, y));
    case kTrueDiv: is_not_zero(); return of_float(t.op(Op::Div, Type::F64, x, y));
    case kRemainder: is_not_zero(); return of_float(t.call(kFloatMod, x, y));
    case kFloorDiv: is_not_zero(); return of_float(t.call(kFloatFloorDiv, x, y));
    case kPower: {
      const cfg::Id made = t.call(kFloatPower, x, y);
      t.check_finite(made, true);  // an overflow, a complex result, a power of 0
      return of_float(made);
    }
    default: throw NotCompiled{"an operator on floats"};
  }
}

bool is_positive_constant(LoopTranslator& t, const Typed& v) {
  if ((v.kind != Kind::Int && v.kind != Kind::Float) || !t.cfg.is_const(v.ids[0])) return false;
  const int64_t bits = t.cfg.at(v.ids[0]).imm;
  return v.kind == Kind::Int ? bits > 0 : std::bit_cast<double>(bits) > 0;
}

Typed scalar_binary(LoopTranslator& t, int op_kind, const Typed& a, const Typed& b) {
  // A Python number takes part as a number of the scalar's type, or of a kind above it.
  const auto weak = [](const Typed& number, DType other) {
    if (number.kind == Kind::Float) return graph::is_float(other) ? other : DType::F64;
    if (number.kind == Kind::Int) return other == DType::Bool ? DType::I64 : other;
    return other;
  };
  DType type = a.kind != Kind::Scalar   ? weak(a, b.dtype)
               : b.kind != Kind::Scalar ? weak(b, a.dtype)
                                        : common(a.dtype, b.dtype);
  if ((a.kind == Kind::Bool || b.kind == Kind::Bool) && (a.kind != Kind::Scalar || b.kind != Kind::Scalar) &&
      type == DType::Bool && op_kind != kAnd && op_kind != kOr && op_kind != kXor)
    throw NotCompiled{"arithmetic of NumPy's bools"};
  if (type == DType::Bool && op_kind != kAnd && op_kind != kOr && op_kind != kXor)
    throw NotCompiled{"arithmetic of NumPy's bools"};
  if (op_kind == kTrueDiv && !graph::is_float(type)) type = DType::F64;
  // Which of the operands a result that is not finite shows on, so that one look at the result is enough.
  const auto operand = [&](const Typed& v, bool shows) {
    const cfg::Id id = converted(t, v, type);
    if (!shows) return t.settled(id);
    std::erase(t.pending, id);
    return id;
  };
  if (graph::is_float(type)) {
    const auto called = [&](const cfg::Function& f, cfg::Id x, cfg::Id y) {
      const auto wide = [&](cfg::Id v) { return type == DType::F64 ? v : t.op(Op::ToF64, Type::F64, v); };
      const cfg::Id wide_result = t.call(f, wide(x), wide(y));
      const cfg::Id result = type == DType::F64 ? wide_result : t.op(Op::ToF32, Type::F32, wide_result);
      t.pending.push_back(result);
      return of_scalar(result, type);
    };
    Op made;
    switch (op_kind) {
      case kAdd: made = Op::Add; break;
      case kSub: made = Op::Sub; break;
      case kMul: made = Op::Mul; break;
      case kTrueDiv: made = Op::Div; break;
      case kPower: {
        const cfg::Id x = operand(a, is_positive_constant(t, b)), y = operand(b, false);
        return called(type == DType::F64 ? kFloatPower : kSinglePower, x, y);
      }
      case kFloorDiv:
      case kRemainder: {
        // Beside a divisor of 0, NumPy computes what Python does.
        const cfg::Id x = operand(a, false), y = operand(b, false);
        const cfg::Id zero = t.number(0.0);
        t.check(t.op(Op::Ne, Type::I64, y, type == DType::F64 ? zero : t.op(Op::ToF32, Type::F32, zero)));
        if (op_kind == kRemainder) return called(type == DType::F64 ? kFloatMod : kSingleMod, x, y);
        return called(type == DType::F64 ? kFloatFloorDiv : kSingleFloorDiv, x, y);
      }
      default: throw NotCompiled{"an operator on NumPy's floats"};
    }
    const cfg::Id y = operand(b, op_kind != kTrueDiv), x = operand(a, true);
    const cfg::Id result = t.op(made, machine_type(type), x, y);
    t.pending.push_back(result);
    return of_scalar(result, type);
  }
  const cfg::Id x = converted(t, a, type), y = converted(t, b, type);
  Typed made;
  switch (op_kind) {
    case kAdd: made = of_scalar(in_range(t, t.exact(Op::AddExact, x, y), type), type); break;
    case kSub: made = of_scalar(in_range(t, t.exact(Op::SubExact, x, y), type), type); break;
    case kMul: made = of_scalar(in_range(t, t.exact(Op::MulExact, x, y), type), type); break;
    case kAnd: made = of_scalar(t.op(Op::And, Type::I64, x, y), type); break;
    case kOr: made = of_scalar(t.op(Op::Or, Type::I64, x, y), type); break;
    case kXor: made = of_scalar(t.op(Op::Xor, Type::I64, x, y), type); break;
    case kShr:
      t.check(t.op(Op::Below, Type::I64, y, t.integer(bits_of(type))));
      made = of_scalar(t.op(Op::Shr, Type::I64, x, y), type);
      made.natural = made.natural || a.natural;
      break;
    case kShl: {
      t.check(t.op(Op::Below, Type::I64, y, t.integer(bits_of(type) - 1)));
      const cfg::Id shifted = in_range(t, t.op(Op::Shl, Type::I64, x, y), type);
      t.check(t.op(Op::Eq, Type::I64, t.op(Op::Shr, Type::I64, shifted, y), x));
      made = of_scalar(shifted, type);
      break;
    }
    case kFloorDiv:
    case kRemainder:
      t.check(t.op(Op::Lt, Type::I64, t.integer(0), y));
      made = of_scalar(t.op(op_kind == kFloorDiv ? Op::FloorDiv : Op::FloorMod, Type::I64, x, y), type);
      made.natural = made.natural || op_kind == kRemainder;
      break;
    case kPower: {
      constexpr int64_t kMost = 8;
      const int64_t exponent = b.kind == Kind::Int && t.cfg.is_const(y) ? t.cfg.at(y).imm : 0;
      if (exponent < 1 || exponent > kMost) throw NotCompiled{"a power of NumPy's integers"};
      cfg::Id power = x;
      for (int64_t k = 1; k < exponent; ++k) power = in_range(t, t.exact(Op::MulExact, power, x), type);
      made = of_scalar(power, type);
      made.natural = made.natural || exponent % 2 == 0;
      break;
    }
    default: throw NotCompiled{"an operator on NumPy's integers"};
  }
  made.natural = made.natural || (a.natural && b.natural && op_kind != kSub);
  return made;
}

}  // namespace

Typed unary(LoopTranslator& t, Opcode opcode, const Typed& v) {
  if (v.is_complex()) return complex_unary(t, opcode, v);
  if (!v.is_number()) {
    if (opcode == Opcode::UnaryNegative)
      if (std::optional<Typed> made = vector_negative(t, v)) return *made;
    throw NotCompiled{"an operator on something that is not a number", v.is_array()};
  }
  const bool is_bool = v.kind == Kind::Bool || (v.kind == Kind::Scalar && v.dtype == DType::Bool);
  if (is_bool && v.kind == Kind::Scalar) throw NotCompiled{"an operator on NumPy's bools"};
  const cfg::Id id = v.ids[0];
  if (opcode == Opcode::UnaryPositive) {
    if (v.kind != Kind::Scalar) return is_bool ? of_int(id, true) : v;
    Typed copy = v;
    copy.origin = 0;
    return copy;
  }
  if (opcode == Opcode::UnaryInvert) {
    if (v.kind != Kind::Int) throw NotCompiled{"~ of something that is not an int"};
    return of_int(t.op(Op::Xor, Type::I64, id, t.integer(-1)));
  }
  if (v.kind == Kind::Float) return of_float(t.op(Op::Neg, Type::F64, id));
  if (v.kind == Kind::Scalar && graph::is_float(v.dtype)) {
    const cfg::Id made = t.op(Op::Neg, machine_type(v.dtype), t.settled(id));
    return of_scalar(made, v.dtype);
  }
  if (v.kind == Kind::Scalar) {
    if (graph::is_unsigned_int(v.dtype)) throw NotCompiled{"- of an unsigned integer"};
    return of_scalar(in_range(t, t.exact(Op::SubExact, t.integer(0), id), v.dtype), v.dtype);
  }
  return of_int(t.exact(Op::SubExact, t.integer(0), id));
}

namespace {

/// Is one a float32, and the other one an integer of Python's, which becomes one?
bool is_of_float32(const Typed& a, const Typed& b) {
  const Typed &real = a.is_integer() ? b : a, &whole = a.is_integer() ? a : b;
  return whole.kind != Kind::Scalar && real.kind == Kind::Scalar && real.dtype == DType::F32;
}

}  // namespace

Typed compare(LoopTranslator& t, int py_op, const Typed& a, const Typed& b) {
  if (std::optional<Typed> made = compare_characters(t, py_op, a, b)) return *made;
  if (a.is_complex() || b.is_complex()) return complex_compare(t, py_op, a, b);
  if (!a.is_number() || !b.is_number())
    throw NotCompiled{"a comparison of something that is not a number", a.is_array() || b.is_array()};
  cfg::Id x, y;
  const bool scalars = a.kind == Kind::Scalar || b.kind == Kind::Scalar;
  if (a.is_integer() && b.is_integer()) {
    x = a.ids[0];
    y = b.ids[0];
  } else if (a.is_integer() != b.is_integer() && !is_of_float32(a, b)) {
    const Typed& whole = a.is_integer() ? a : b;
    // A float holds such an integer exactly; the interpreter compares others by their value.
    const int64_t whole_known = t.cfg.is_const(whole.ids[0]) ? t.cfg.at(whole.ids[0]).imm : kExactInFloat + 1;
    if (whole_known < -kExactInFloat || whole_known > kExactInFloat) exact_in_float(t, whole.ids[0]);
    x = t.settled(as_f64(t, a));
    y = t.settled(as_f64(t, b));
  } else {
    DType type = DType::F64;
    if (scalars) {
      const DType known_type = a.kind == Kind::Scalar ? a.dtype : b.dtype;
      type = a.kind == Kind::Scalar && b.kind == Kind::Scalar ? common(a.dtype, b.dtype) : known_type;
    }
    x = t.settled(converted(t, a, type));
    y = t.settled(converted(t, b, type));
  }
  cfg::Id made;
  switch (py_op) {
    case Py_LT: made = t.op(Op::Lt, Type::I64, x, y); break;
    case Py_LE: made = t.op(Op::Le, Type::I64, x, y); break;
    case Py_EQ: made = t.op(Op::Eq, Type::I64, x, y); break;
    case Py_NE: made = t.op(Op::Ne, Type::I64, x, y); break;
    case Py_GT: made = t.op(Op::Lt, Type::I64, y, x); break;
    default: made = t.op(Op::Le, Type::I64, y, x); break;
  }
  return scalars ? of_scalar(made, DType::Bool) : of_bool(made);
}

/// Is the number among those of a tuple? Ints only: a NaN would be found by its identity.
cfg::Id contains(LoopTranslator& t, const Typed& container, const Typed& item) {
  if (container.kind == Kind::String && item.kind == Kind::Character) return contains_character(t, container, item);
  if (container.kind != Kind::Tuple || item.kind != Kind::Int) throw NotCompiled{"`in`", container.is_array()};
  cfg::Id found = t.integer(0);
  for (const Typed& part : container.items) {
    const Typed number = known(t, part);
    if (number.kind != Kind::Int) throw NotCompiled{"`in` a tuple that holds something other than ints"};
    found = t.op(Op::Or, Type::I64, found, t.op(Op::Eq, Type::I64, item.ids[0], number.ids[0]));
  }
  return found;
}

// Subscripts.

namespace {

/// An index that lies within the length, counted from the front.
cfg::Id index(LoopTranslator& t, const Typed& v, cfg::Id length) {
  if (!v.is_integer() || v.kind == Kind::Bool || (v.kind == Kind::Scalar && v.dtype == DType::Bool))
    throw NotCompiled{"an index that is no integer", true};
  cfg::Id at = v.ids[0];
  if (t.cfg.is_const(at) && t.cfg.at(at).imm < 0) at = t.op(Op::Add, Type::I64, at, length);
  else if (!v.natural && !v.seldom_negative)  // such an index is left to the interpreter where it is below 0
    at = t.op(Op::Select, Type::I64, t.op(Op::Lt, Type::I64, at, t.integer(0)), t.op(Op::Add, Type::I64, at, length),
              at);
  t.check(t.op(Op::Below, Type::I64, at, length));
  if (!v.natural && v.seldom_negative) t.program->exits[t.exit()].wraps = true;
  return at;
}

Place place_of(LoopTranslator& t, const Typed& array, const Typed& key) {
  const std::size_t rank = (array.ids.size() - 1) / 2;
  const Typed* keys = key.kind == Kind::Tuple ? key.items.data() : &key;
  const std::size_t count = key.kind == Kind::Tuple ? key.items.size() : 1;
  if (count > rank || count == 0) throw NotCompiled{"an index of another number of axes"};
  Place place{array.ids[0], cfg::kNone, {}};
  std::vector<cfg::Id> lengths, strides;  // of a part of the array
  std::vector<int64_t> seen;
  for (std::size_t k = 0; k < count; ++k) {
    const cfg::Id stride = array.ids[1 + rank + k];
    const int64_t size = graph::size_of(array.dtype);
    const Typed part = known(t, keys[k]);
    const std::optional<Cut> cut = cut_of(t, part, array.ids[1 + k]);
    const cfg::Id at = cut ? cut->first : index(t, part, array.ids[1 + k]);
    if (cut) {
      lengths.push_back(cut->count);
      cfg::Id along = stride;
      if (t.cfg.is_const(cut->step) && t.cfg.is_const(stride))
        along = t.integer(t.cfg.at(cut->step).imm * t.cfg.at(stride).imm);
      else if (cut->step != t.integer(1)) along = t.op(Op::Mul, Type::I64, stride, cut->step);
      strides.push_back(along);
      place.view.turned = place.view.turned || cut->down;
      seen.push_back(cut->is_known ? array.seen[k] : 0);  // a short part, as far as can be told
    } else if (lengths.empty() && k + 1 == rank && t.cfg.is_const(stride) && t.cfg.at(stride).imm == size &&
               size <= 8 && count == rank) {
      place.at = at;
      break;
    }
    place.base = t.op(Op::Add, Type::I64, place.base, t.op(Op::Mul, Type::I64, at, stride));
  }
  for (std::size_t k = count; k < rank; ++k) {
    lengths.push_back(array.ids[1 + k]);
    strides.push_back(array.ids[1 + rank + k]);
    seen.push_back(array.seen[k]);
  }
  if (!lengths.empty()) {
    t.cuts_arrays = true;
    // Indices in front leave a part whose elements are together.
    place.view.packed = array.packed && lengths.size() == rank - count;
    place.view.seen = std::move(seen);
    place.view.kind = Kind::View;
    place.view.dtype = array.dtype;
    place.view.array = array.array;
    place.view.slot = array.slot;
    place.view.ids = {place.base};
    place.view.ids.insert(place.view.ids.end(), lengths.begin(), lengths.end());
    place.view.ids.insert(place.view.ids.end(), strides.begin(), strides.end());
  }
  return place;
}

}  // namespace

Typed get_item(LoopTranslator& t, const Typed& container, const Typed& key) {
  if (const std::optional<Typed> item = item_of_object(t, container, key)) return *item;
  const std::optional<Typed> tuple = tuple_of(t, container);
  if (tuple && key.kind == Kind::Int && t.cfg.is_const(key.ids[0])) {
    const auto count = static_cast<int64_t>(tuple->items.size());
    int64_t at = t.cfg.at(key.ids[0]).imm;
    if (at < 0) at += count;
    if (at < 0 || at >= count) throw NotCompiled{"an index outside of a tuple"};
    return tuple->items[static_cast<std::size_t>(at)];
  }
  if (const std::optional<Typed> list = list_of(t, container)) {
    if (key.kind == Kind::Slice) return part_of_list(t, *list, key);
    return item_of(t, *list, index(t, key, count_of(t, *list)));
  }
  if (container.kind == Kind::String) {
    if (key.kind == Kind::Slice) throw NotCompiled{"a part of a str"};
    return character_at(t, container, index(t, key, container.ids[1]));
  }
  const Typed* found = array_of(t, container);
  if (!found) throw NotCompiled{"a subscript of something that is not an array"};
  const Typed array = *found;
  if (std::optional<Typed> made = gathered(t, array, key)) return *made;
  Place place = place_of(t, array, key);
  if (place.view.kind == Kind::View) return place.view;
  if (array.dtype == DType::C128) {
    const cfg::Id real = t.load(place.base, 0, cfg::Mem::F64);
    return of_complex(real, t.load(place.base, sizeof(double), cfg::Mem::F64), true);
  }
  cfg::Node n;
  n.op = Op::Load;
  n.mem = mem_of(array.dtype);
  n.type = cfg::type_of(n.mem);
  n.args[0] = place.base;
  n.args[1] = place.at;
  n.scale = static_cast<uint8_t>(place.at == cfg::kNone ? 1 : graph::size_of(array.dtype));
  return of_scalar(t.add(n), array.dtype);
}

void require_writeable(LoopTranslator& t, const Typed& view) {
  if (view.slot == Typed::kImagined || view.slot == Typed::kTemporary) return;
  const auto input = static_cast<std::size_t>(view.slot);
  const graph::ValueId param = t.session.graph().params()[input];
  const std::optional<Extent> extent = extent_of(t.objects.arrays[input]);
  if (!extent || !extent->writeable || t.session.inputs().writing(param) != Writing::Allowed)
    throw NotCompiled{"an assignment to an array that is read-only, or warns"};
  if (t.objects.written.size() <= input) t.objects.written.resize(input + 1);
  t.objects.written[input] = true;
  std::vector<uint32_t>& written = t.program->written;
  if (std::find(written.begin(), written.end(), view.array) == written.end()) written.push_back(view.array);
}

void set_item(LoopTranslator& t, const Typed& container, const Typed& key, const Typed& value) {
  if (const std::optional<Typed> list = list_of(t, container)) {
    const bool fits = value.kind == Kind::Float || value.kind == Kind::Int || value.kind == Kind::Bool ||
                      value.kind == Kind::Character;
    if (!fits || (!list->holds.empty() && list->holds != held_as(value)))
      throw NotCompiled{"an assignment of another type to an item of a list"};
    const cfg::Id at = index(t, key, count_of(t, *list));
    t.note_item(*list);
    check_is_number(t, value);
    if (list->is_unboxed()) return store_unboxed(t, *list, at, value);
    const cfg::Id slot = t.op(Op::Add, Type::I64, t.load(list->ids[0], py::kListItems),
                              t.op(Op::Mul, Type::I64, at, t.integer(sizeof(PyObject*))));
    store_in_list(t, slot, value);
    return;
  }
  const Typed* found = array_of(t, container);
  if (!found) throw NotCompiled{"an assignment to an item of something that is not an array"};
  const Typed array = *found;
  // A vector that is computed later would read the stored value.
  for (const LoopFrame& f : t.state.frames)
    if (std::any_of(f.stack.begin(), f.stack.end(), [](const Typed& v) { return v.kind == Kind::Vector; }))
      throw NotCompiled{"a computed array that is not stored at once", true};
  const bool is_complex = array.dtype == DType::C128;
  if (value.is_complex() && !is_complex)
    throw NotCompiled{"an assignment of a complex number to an item of a real array"};
  const Place place = place_of(t, array, key);
  if (place.view.kind == Kind::View) return store_vector(t, place.view, value);
  if (!value.is_single()) throw NotCompiled{"an assignment of something that is not a number", true};
  require_writeable(t, array);
  std::vector<cfg::Id> stored = is_complex ? as_complex(t, value).ids : std::vector{converted(t, value, array.dtype)};
  t.flush_pending();
  cfg::Node n;
  n.op = Op::Store;
  n.mem = is_complex ? cfg::Mem::F64 : mem_of(array.dtype);
  n.args[0] = place.base;
  n.args[1] = place.at;
  n.scale = static_cast<uint8_t>(place.at == cfg::kNone ? 1 : graph::size_of(array.dtype));
  for (const cfg::Id part : stored) {
    n.args[2] = part;
    t.add(n);
    n.imm += sizeof(double);
  }
}

}  // namespace framejit::capture
