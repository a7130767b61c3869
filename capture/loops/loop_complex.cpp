// Complex numbers of a compiled loop: Python's, and NumPy's complex128. A value is two floats.
#include <bit>
#include <cmath>

#include "capture/loops/loop_instructions.h"
#include "capture/py/cpython/facts.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

constexpr int64_t kMostPower = 4;

double length(double x, double y) { return std::hypot(x, y); }

const cfg::Function kHypot{"hypot", reinterpret_cast<const void*>(&length), Type::F64, 2, Type::F64};

}  // namespace

Typed of_complex(cfg::Id real, cfg::Id imaginary, bool of_numpy) {
  Typed v;
  v.kind = of_numpy ? Kind::ComplexScalar : Kind::Complex;
  v.dtype = graph::DType::C128;
  v.ids = {real, imaginary};
  return v;
}

/// The two parts of a number, of which the second one is 0 for a real one.
Typed as_complex(LoopTranslator& t, const Typed& v) {
  if (v.is_complex()) return v;
  return of_complex(t.settled(as_f64(t, v)), t.number(0.0), false);
}

namespace {

/// A result of NumPy's scalars may be one of which NumPy warns; one of Python's multiplication or division that is NaN
/// in both parts may have been computed in another way.
Typed complex_result(LoopTranslator& t, cfg::Id real, cfg::Id imaginary, bool of_numpy, bool may_recover) {
  if (of_numpy) {
    t.pending.push_back(real);
    t.pending.push_back(imaginary);
  } else if (may_recover && py::kRecoversComplexNaNs) {
    t.check(
        t.op(Op::Or, Type::I64, t.op(Op::Eq, Type::I64, real, real), t.op(Op::Eq, Type::I64, imaginary, imaginary)));
  }
  return of_complex(real, imaginary, of_numpy);
}

Typed complex_product(LoopTranslator& t, const Typed& x, const Typed& y, bool of_numpy) {
  const auto f64 = [&](Op o, cfg::Id a, cfg::Id b) { return t.op(o, Type::F64, a, b); };
  const cfg::Id a = x.ids[0], b = x.ids[1], c = y.ids[0], d = y.ids[1];
  return complex_result(t, f64(Op::Sub, f64(Op::Mul, a, c), f64(Op::Mul, b, d)),
                        f64(Op::Add, f64(Op::Mul, a, d), f64(Op::Mul, b, c)), of_numpy, true);
}

/// By Smith's method: the divisor's smaller part over its larger one comes first. Python divides by the denominator,
/// NumPy multiplies by its reciprocal.
Typed complex_quotient(LoopTranslator& t, const Typed& x, const Typed& y, bool of_numpy) {
  const auto f64 = [&](Op o, cfg::Id a, cfg::Id b) { return t.op(o, Type::F64, a, b); };
  const auto either = [&](cfg::Id first, cfg::Id a, cfg::Id b) { return t.op(Op::Select, Type::F64, first, a, b); };
  const cfg::Id a = x.ids[0], b = x.ids[1], c = y.ids[0], d = y.ids[1];
  const cfg::Id real_first = t.op(Op::Le, Type::I64, t.op(Op::Abs, Type::F64, d), t.op(Op::Abs, Type::F64, c));
  const cfg::Id large = either(real_first, c, d), small = either(real_first, d, c);
  t.check(t.op(Op::Ne, Type::I64, large, t.number(0.0)));
  const cfg::Id ratio = f64(Op::Div, small, large);
  cfg::Id below = f64(Op::Add, large, f64(Op::Mul, small, ratio));
  if (of_numpy) {
    t.check_finite(below);  // the quotient would hide it
    below = f64(Op::Div, t.number(1.0), below);
  }
  const Op by = of_numpy ? Op::Mul : Op::Div;
  const cfg::Id u = either(real_first, a, b), v = either(real_first, b, a);
  const cfg::Id product = f64(Op::Mul, u, ratio);
  const cfg::Id real = f64(Op::Add, u, f64(Op::Mul, v, ratio));
  const cfg::Id imaginary = either(real_first, f64(Op::Sub, v, product), f64(Op::Sub, product, v));
  return complex_result(t, f64(by, real, below), f64(by, imaginary, below), of_numpy, true);
}

/// By repeated squares, as the interpreter does it for a power that is a whole number.
Typed complex_power(LoopTranslator& t, const Typed& x, const Typed& y, bool of_numpy) {
  const auto exponent = [&](cfg::Id id, double value) {
    if (!t.cfg.is_const(id)) return false;
    return t.type_of(id) == Type::I64 ? static_cast<double>(t.cfg.at(id).imm) == value
                                      : std::bit_cast<double>(t.cfg.at(id).imm) == value;
  };
  const bool is_real = !y.is_complex() || exponent(y.ids[1], 0.0);
  int64_t n = 0;
  for (int64_t k = 1; is_real && k <= kMostPower; ++k)
    if (exponent(y.ids[0], static_cast<double>(k))) n = k;
  if (n == 0 || (of_numpy && n != 2)) throw NotCompiled{"a power of complex numbers"};
  if (of_numpy) return complex_product(t, x, x, true);
  Typed square = x;
  Typed made = of_complex(t.number(1.0), t.number(0.0), false);
  for (int64_t bit = 1; bit <= n; bit <<= 1) {
    if (n & bit) made = complex_product(t, made, square, false);
    if (2 * bit <= n) square = complex_product(t, square, square, false);
  }
  t.check_finite(made.ids[0], true);
  t.check_finite(made.ids[1], true);
  return made;
}

}  // namespace

Typed complex_binary(LoopTranslator& t, int op_kind, const Typed& a, const Typed& b) {
  const auto is_other = [](const Typed& v) {
    return v.kind == Kind::Scalar && v.dtype != graph::DType::F64 && v.dtype != graph::DType::I64;
  };
  if ((!a.is_number() && !a.is_complex()) || (!b.is_number() && !b.is_complex()))
    throw NotCompiled{"an operator on something that is not a number", a.is_array() || b.is_array()};
  const auto is_of_numpy = [](const Typed& v) { return v.kind == Kind::Scalar || v.kind == Kind::ComplexScalar; };
  // A float64 is a float: Python's complex number, asked first, takes it.
  const bool takes_float = a.kind == Kind::Complex && b.kind == Kind::Scalar && b.dtype == graph::DType::F64;
  const bool of_numpy = is_of_numpy(a) || (is_of_numpy(b) && !takes_float);
  if (is_other(a) || is_other(b) || (of_numpy && (a.kind == Kind::Bool || b.kind == Kind::Bool)))
    throw NotCompiled{"an operator on complex numbers and others"};
  if (op_kind == kPower) return complex_power(t, as_complex(t, a), b, of_numpy);
  const auto f64 = [&](Op o, cfg::Id x, cfg::Id y) { return t.op(o, Type::F64, x, y); };
  if constexpr (py::kMixesComplex) {
    if (!of_numpy && a.is_complex() != b.is_complex()) {
      // The real operand has no imaginary part, not one of 0.
      const Typed& z = a.is_complex() ? a : b;
      const cfg::Id real = t.settled(as_f64(t, a.is_complex() ? b : a));
      const bool first = a.is_complex();
      switch (op_kind) {
        case kAdd: return of_complex(f64(Op::Add, z.ids[0], real), z.ids[1], false);
        case kSub:
          if (first) return of_complex(f64(Op::Sub, z.ids[0], real), z.ids[1], false);
          return of_complex(f64(Op::Sub, real, z.ids[0]), t.op(Op::Neg, Type::F64, z.ids[1]), false);
        case kMul: return of_complex(f64(Op::Mul, z.ids[0], real), f64(Op::Mul, z.ids[1], real), false);
        case kTrueDiv:
          if (!first) throw NotCompiled{"a real number divided by a complex one"};
          t.check(t.op(Op::Ne, Type::I64, real, t.number(0.0)));
          return of_complex(f64(Op::Div, z.ids[0], real), f64(Op::Div, z.ids[1], real), false);
        default: throw NotCompiled{"an operator on complex numbers"};
      }
    }
  }
  const Typed x = as_complex(t, a), y = as_complex(t, b);
  // What is not finite in an operand shows in each of these results, but for the quotient's divisor.
  for (const Typed* v : {&x, &y})
    for (const cfg::Id id : v->ids)
      if (op_kind == kTrueDiv) t.settled(id);
      else std::erase(t.pending, id);
  switch (op_kind) {
    case kAdd:
    case kSub: {
      const Op o = op_kind == kAdd ? Op::Add : Op::Sub;
      return complex_result(t, f64(o, x.ids[0], y.ids[0]), f64(o, x.ids[1], y.ids[1]), of_numpy, false);
    }
    case kMul: return complex_product(t, x, y, of_numpy);
    case kTrueDiv: return complex_quotient(t, x, y, of_numpy);
    default: throw NotCompiled{"an operator on complex numbers"};
  }
}

Typed complex_unary(LoopTranslator& t, Opcode opcode, const Typed& v) {
  if (opcode == Opcode::UnaryPositive && v.kind == Kind::Complex) return of_complex(v.ids[0], v.ids[1], false);
  if (opcode != Opcode::UnaryNegative) throw NotCompiled{"an operator on complex numbers"};
  return of_complex(t.op(Op::Neg, Type::F64, t.settled(v.ids[0])), t.op(Op::Neg, Type::F64, t.settled(v.ids[1])),
                    v.kind == Kind::ComplexScalar);
}

Typed complex_compare(LoopTranslator& t, int py_op, const Typed& a, const Typed& b) {
  const auto fits = [](const Typed& v) { return v.is_complex() || v.kind == Kind::Float; };
  if ((py_op != Py_EQ && py_op != Py_NE) || !fits(a) || !fits(b)) throw NotCompiled{"a comparison of complex numbers"};
  const Typed x = as_complex(t, a), y = as_complex(t, b);
  for (const Typed* v : {&x, &y})
    for (const cfg::Id id : v->ids) t.settled(id);
  const cfg::Id same = t.op(Op::And, Type::I64, t.op(Op::Eq, Type::I64, x.ids[0], y.ids[0]),
                            t.op(Op::Eq, Type::I64, x.ids[1], y.ids[1]));
  const cfg::Id made = py_op == Py_EQ ? same : t.op(Op::Eq, Type::I64, same, t.integer(0));
  const bool of_numpy = a.kind == Kind::ComplexScalar || b.kind == Kind::ComplexScalar;
  return of_numpy ? of_scalar(made, graph::DType::Bool) : of_bool(made);
}

Typed complex_part(LoopTranslator& t, const Typed& v, const std::string& name) {
  if (name != "real" && name != "imag") throw NotCompiled{"the attribute " + name + " of a complex number"};
  const cfg::Id part = t.settled(v.ids[name == "imag"]);
  return v.kind == Kind::Complex ? of_float(part) : of_scalar(part, graph::DType::F64);
}

/// abs(): Python raises where NumPy may warn.
Typed complex_length(LoopTranslator& t, const Typed& v) {
  const cfg::Id x = t.settled(v.ids[0]), y = t.settled(v.ids[1]);
  const bool raises = v.kind == Kind::Complex;
  t.check_finite(x, raises);
  t.check_finite(y, raises);
  const cfg::Id made = t.call(kHypot, x, y);
  t.check_finite(made, raises);
  return v.kind == Kind::Complex ? of_float(made) : of_scalar(made, graph::DType::F64);
}

/// complex(a) or complex(a, b), of floats and ints.
Typed make_complex(LoopTranslator& t, const std::vector<Typed>& args) {
  for (const Typed& a : args)
    if (a.kind != Kind::Float && a.kind != Kind::Int)
      throw NotCompiled{"complex() of something that is not a float or int"};
  return of_complex(as_f64(t, args[0]), args.size() > 1 ? as_f64(t, args[1]) : t.number(0.0), false);
}

}  // namespace framejit::capture
