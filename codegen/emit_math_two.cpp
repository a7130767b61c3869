// Vector math of O1 that carries a number in two parts: power, logarithms of sums, inverse hyperbolic functions, cbrt.
// On float64; float32 goes through it and is rounded once, with shorter polynomials (`brief`).
#include "codegen/emit_math.h"

namespace framejit::codegen {

/// a b, where no part of it overflows.
MathTools::DoubleDouble DoubleDoubleMath::times(const DoubleDouble& a, const Vec& b) {
  const Vec high = v.fmul(size, a.high, b);
  return {high, v.fma(size, a.low, b, v.fms(size, a.high, b, high))};
}

MathTools::DoubleDouble DoubleDoubleMath::times(const DoubleDouble& a, double high, double low) {
  DoubleDouble product = times(a, num(high));
  product.low = v.fma(size, a.high, con(low), product.low);
  return product;
}

/// k log(2) + log(1 + f), the latter as 2 atanh(s) with s = f / (2 + f).
MathTools::DoubleDouble DoubleDoubleMath::log_two(const Vec& k, const DoubleDouble& f) {
  const auto ln2 = table(kLn2F32, kLn2F64), series = table(kLogTwoF32, kLogTwoF64);
  const Vec below = v.fadd(size, f.high, con(2.0));
  if (brief) {
    const Vec s = v.fdiv(size, v.fadd(size, f.high, f.low), below), z = v.fmul(size, s, s);
    const Vec rest = v.fmul(size, v.fmul(size, z, s), v.fma(size, z, horner(z, series, 0, 1), con(2.0 / 3)));
    return {v.fma(size, k, con(M_LN2), v.fadd(size, v.fadd(size, s, s), rest)), v.zero(size)};
  }
  const Vec lost = v.fadd(size, v.fsub(size, f.high, v.fsub(size, below, con(2.0))), f.low);
  const DoubleDouble s = quotient(f, {below, lost});
  const Vec twice = v.fadd(size, s.high, s.high), z = v.fmul(size, s.high, s.high);
  const Vec z_low = v.fma(size, twice, s.low, v.fms(size, s.high, s.high, z));
  DoubleDouble factor = fast_sum(num(kTwoThirdsF64[0]), v.fmul(size, z, polynomial(z, series)));
  factor.low = v.fadd(size, factor.low, con(kTwoThirdsF64[1]));
  DoubleDouble cube = times({z, z_low}, s.high);
  cube.low = v.fma(size, z, s.low, cube.low);
  DoubleDouble rest = times(cube, factor.high);
  rest.low = v.fma(size, cube.high, factor.low, rest.low);
  const DoubleDouble most = fast_sum(v.fmul(size, k, con(ln2[0])), twice), all = fast_sum(most.high, rest.high);
  const Vec small = v.fma(size, k, con(ln2[1]), v.fadd(size, rest.low, v.fadd(size, s.low, s.low)));
  return fast_sum(all.high, v.fadd(size, v.fadd(size, most.low, all.low), small));
}

MathTools::DoubleDouble DoubleDoubleMath::log_of_normal(const Vec& x) {
  const Parts of = parts(x);
  return log_two(of.k, {of.f, v.zero(size)});
}

/// log(x), where the parts of x may overlap.
MathTools::DoubleDouble DoubleDoubleMath::log_of_sum(const DoubleDouble& x) {
  const DoubleDouble number = fast_sum(x.high, x.low);
  const Parts of = parts(number.high);
  return log_two(of.k, {of.f, v.fmul(size, number.low, power_of_two(v.fsub(size, num(magic()), of.k)))});
}

/// exp(x), x at most half of log(2) in size
MathTools::DoubleDouble DoubleDoubleMath::exp_near_zero(const DoubleDouble& x) {
  const DoubleDouble most = fast_sum(num(1.0), x.high);
  const Vec series = v.fma(size, v.fmul(size, x.high, x.high), horner(x.high, table(kExpF32, kExpF64), 0, 1), x.low);
  return {most.high, v.fadd(size, most.low, series)};
}

/// x = n log(2) + reduced
ExpLogMath::Split DoubleDoubleMath::split_two(const DoubleDouble& x, DoubleDouble& reduced) {
  const auto ln2 = table(kLn2F32, kLn2F64);
  Split out;
  out.shifted = v.fma(size, x.high, num(1 / M_LN2), con(magic()));
  out.n = v.fsub(size, out.shifted, con(magic()));
  reduced = fast_sum(v.fnma(size, out.n, con(ln2[0]), x.high), v.fnma(size, out.n, con(ln2[1]), x.low));
  return out;
}

Vec DoubleDoubleMath::exp_of_two(const DoubleDouble& x, bool normal) {
  if (brief) return exp_of(x.high, nullptr, normal);
  DoubleDouble reduced;
  const Split e = split_two(x, reduced);
  return scaled(joined(exp_near_zero(reduced)), e, normal);
}

/// |x|^y = exp(y log|x|); the sign, where x has one, afterwards.
Vec DoubleDoubleMath::power(const Vec& x, const Vec& y) {
  const Vec magnitude = v.fabs(size, x), one = num(1.0);
  const Mask odd = v.mask_or(outside(x, 0x1p-1022, HUGE_VAL), at_least(v.fabs(size, y), 0x1p65));
  const DoubleDouble exponent = times(log_of_normal(v.select(size, odd, one, magnitude)), v.select(size, odd, one, y));
  const Mask rare = v.mask_or(odd, at_least(v.fabs(size, exponent.high), 708.0));
  const Vec zero = v.zero(size);
  const Vec result =
      exp_of_two({v.select(size, rare, zero, exponent.high), v.select(size, rare, zero, exponent.low)}, true);
  rarely(rare, result,
         [&] { return power_slowly(v.select(size, rare, magnitude, one), v.select(size, rare, y, one), x); });
  rarely(has_sign(x), result, [&] { return signed_power(x, y, result); });
  return result;
}

/// x^y for any x >= 0, NaN and any y; `given`: x with its sign.
Vec DoubleDoubleMath::power_slowly(const Vec& x, const Vec& y, const Vec& given) {
  const Vec one = num(1.0), zero = v.zero(size), infinity = num(HUGE_VAL), huge = num(0x1p65);
  const Mask pole = v.fcmp(size, Cmp::Eq, x, zero), endless = not_finite(y);
  const Mask special = v.mask_or(v.mask_or(pole, endless), not_finite(x));
  const Vec positive = v.select(size, special, one, x),
            bounded = v.fmax_x86(size, v.fmin_x86(size, v.select(size, special, one, y), huge), v.fneg(size, huge));
  const Mask subnormal = smaller(positive, 0x1p-1022);
  Parts of = parts(v.select(size, subnormal, v.fmul(size, positive, mem(0x1p54)), positive));
  of.k = v.fsub(size, of.k, v.keep(size, subnormal, num(54.0)));
  const DoubleDouble exponent = times(log_two(of.k, {of.f, zero}), bounded);
  const Mask far = at_least(v.fabs(size, exponent.high), 720.0);
  const Vec clipped = v.fmax_x86(size, v.fmin_x86(size, exponent.high, con(720.0)), con(-780.0));
  // A subnormal result underflows for some of NumPy's loops even where it is exact.
  const Vec least = v.keep(size, v.fcmp(size, Cmp::Lt, clipped, num(-708.0)), num(0x1p-1022));
  v.fmul(size, least, least);
  const Vec value = exp_of_two({clipped, v.select(size, far, zero, exponent.low)}, false);
  const Mask rising = v.fcmp(size, Cmp::Gt, y, zero), falling = v.fcmp(size, Cmp::Lt, y, zero);
  const Label no_pole = cc.newLabel();
  v.branch(v.mask_and(pole, v.mask_and(falling, v.mask_not(endless))), false, no_pole);
  v.raise_divide();
  cc.bind(no_pole);
  const Mask above = v.fcmp(size, Cmp::Gt, x, one), below = v.fcmp(size, Cmp::Lt, x, one), nan = is_nan(x);
  const Mask to_infinity = v.mask_or(v.mask_and(above, rising), v.mask_and(below, falling));
  const Mask to_zero = v.mask_or(v.mask_and(above, falling), v.mask_and(below, rising));
  const Mask to_one =
      v.mask_or(v.fcmp(size, Cmp::Eq, y, zero),
                v.mask_or(v.fcmp(size, Cmp::Eq, given, one),
                          v.mask_and(v.fcmp(size, Cmp::Eq, x, one), v.mask_not(is_nan(v.fabs(size, y))))));
  const Vec extreme = v.select(size, to_infinity, infinity, v.select(size, to_zero, zero, v.select(size, nan, x, y)));
  return v.select(size, v.mask_or(special, to_one), v.select(size, to_one, one, extreme), value);
}

/// The power of an x with a sign: that of odd y has it, and there is none where y is no integer.
Vec DoubleDoubleMath::signed_power(const Vec& x, const Vec& y, const Vec& magnitude) {
  const Vec half = v.fmul(size, y, mem(0.5));
  const Mask whole = v.fcmp(size, Cmp::Eq, v.fround(size, y, Vasm::kTrunc), y);
  const Mask even = v.fcmp(size, Cmp::Eq, v.fround(size, half, Vasm::kTrunc), half);
  const Mask number = v.mask_and(v.fcmp(size, Cmp::Lt, x, v.zero(size)), v.fcmp(size, Cmp::Gt, x, num(-HUGE_VAL)));
  const Mask none = v.mask_and(v.mask_and(number, v.fcmp(size, Cmp::Eq, y, y)), v.mask_not(whole));
  raise_invalid_where(none);
  const Vec turned = v.select(size, v.mask_and(whole, v.mask_not(even)), v.fneg(size, magnitude), magnitude);
  return v.select(size, none, v.splat(size, 0x7ff8000000000000u), turned);
}

/// log(exp(x) + exp(y)) = larger + log(1 + exp(smaller - larger)), or with powers of 2.
Vec DoubleDoubleMath::logaddexp(const Vec& x, const Vec& y, bool base2) {
  const Mask first = v.fcmp(size, Cmp::Gt, x, y), special = v.mask_or(not_finite(x), not_finite(y));
  const Vec larger = v.select(size, first, x, y), less = v.select(size, first, y, x), zero = v.zero(size);
  const DoubleDouble difference =
      sum(v.select(size, special, zero, less), v.fneg(size, v.select(size, special, zero, larger)));
  const Mask far = at_least(v.fabs(size, difference.high), brief ? (base2 ? 126.0 : 87.0) : (base2 ? 1000.0 : 700.0));
  const Vec high = v.select(size, far, zero, difference.high), low = v.select(size, far, zero, difference.low);
  DoubleDouble reduced;
  Split e;
  if (base2) {
    e.shifted = v.fadd(size, high, con(magic()));
    e.n = v.fsub(size, e.shifted, con(magic()));
    reduced = times({v.fsub(size, high, e.n), low}, kLn2WholeF64[0], kLn2WholeF64[1]);
  } else {
    e = split_two({high, low}, reduced);
  }
  DoubleDouble power = exp_near_zero(reduced);
  const Vec scale = power_of_two(e.shifted);
  DoubleDouble above = sum(num(1.0), v.fmul(size, power.high, scale));
  above.low = v.fma(size, power.low, scale, above.low);
  DoubleDouble more = log_of_sum(above);
  if (base2) more = times(more, kLog2OfEF64[0], kLog2OfEF64[1]);
  const DoubleDouble total = sum(v.select(size, special, zero, larger), more.high);
  const Vec result = v.fadd(size, total.high, v.fadd(size, total.low, more.low));
  rarely(v.mask_or(special, far), result, [&] {
    // Where it is far, only what is about 0 feels it.
    const Vec least = v.keep(size, far, num(0x1p-1022));
    v.fmul(size, least, least);
    const Vec clipped = v.keep(size, far, v.fmax_x86(size, difference.high, con(-1080.0)));
    const Vec small =
        base2 ? exp_of(v.fmul(size, clipped, con(M_LN2)), nullptr, false) : exp_of(clipped, nullptr, false);
    const Vec ordinary =
        v.fadd(size, v.select(size, special, zero, larger), v.fmul(size, small, base2 ? num(1 / M_LN2) : num(1.0)));
    const Vec nan = v.select(size, is_nan(v.fabs(size, x)), x, y);
    const Mask any_nan = v.fcmp(size, Cmp::Unordered, x, y);
    raise_invalid_where(any_nan);  // NumPy compares with signals
    return v.select(size, any_nan, nan, v.select(size, special, larger, ordinary));
  });
  return result;
}

/// log(a + sqrt(square))
Vec DoubleDoubleMath::log_with_root(const Vec& a, const DoubleDouble& square) {
  const Vec root = v.fsqrt(size, square.high), lost = v.fadd(size, v.fnma(size, root, root, square.high), square.low);
  DoubleDouble total = sum(root, a);
  total.low = v.fadd(size, total.low, v.fdiv(size, lost, v.fadd(size, root, root)));
  return joined(log_of_sum(total));
}

/// log(2 x) of large numbers; infinities and NaN are themselves.
Vec DoubleDoubleMath::log_of_twice(const Vec& x) {
  const Mask special = not_finite(x);
  Parts of = parts(v.select(size, special, num(1.0), x));
  of.k = v.fadd(size, of.k, con(1.0));
  return v.select(size, special, x, joined(log_two(of.k, {of.f, v.zero(size)})));
}

Vec DoubleDoubleMath::arcsinh(const Vec& x) {
  const Mask rare = outside(x, 0x1p-27, 0x1p500);
  const Vec magnitude = v.fabs(size, x), a = v.select(size, rare, num(1.0), magnitude), sign = sign_of(x);
  const Vec square = v.fmul(size, a, a);
  DoubleDouble more = sum(square, num(1.0));
  more.low = v.fadd(size, more.low, v.fms(size, a, a, square));
  const Vec result = v.bit_or(size, log_with_root(a, more), sign);
  rarely(rare, result, [&] {
    tiny(x);
    const Mask large = at_least(magnitude, 1.0);
    return v.select(size, large, v.bit_or(size, log_of_twice(v.select(size, large, magnitude, num(1.0))), sign), x);
  });
  return result;
}

Vec DoubleDoubleMath::arccosh(const Vec& x) {
  const uint64_t first = float_bits(size, 1.0) + 1, span = float_bits(size, 0x1p500) - first;
  const Mask rare = v.icmp(size, false, Cmp::Ge, v.isub(size, x, v.constant(size, first)), v.constant(size, span));
  const Vec one = num(1.0), a = v.select(size, rare, num(2.0), x), square = v.fmul(size, a, a);
  DoubleDouble less = fast_sum(square, num(-1.0));
  less.low = v.fadd(size, less.low, v.fms(size, a, a, square));
  const Vec result = log_with_root(a, less);
  rarely(rare, result, [&] {
    const Mask below = v.fcmp(size, Cmp::Lt, x, one), large = v.fcmp(size, Cmp::Gt, x, one),
               at = v.fcmp(size, Cmp::Eq, x, one);
    raise_invalid_where(below);
    const Vec value = v.select(size, large, log_of_twice(v.select(size, large, x, one)), x);
    return v.select(size, at, v.zero(size), v.select(size, below, v.splat(size, 0xfff8000000000000u), value));
  });
  return result;
}

/// Half the logarithm of (1 + x) / (1 - x), whose power of 2 comes off before it is divided again.
Vec DoubleDoubleMath::arctanh(const Vec& x) {
  const auto ln2 = table(kLn2F32, kLn2F64);
  const Mask rare = outside(x, 0x1p-60, 1.0);
  const Vec one = num(1.0), a = v.select(size, rare, num(0.25), v.fabs(size, x)), sign = sign_of(x);
  const DoubleDouble above = fast_sum(one, a), below = fast_sum(one, v.fneg(size, a));
  const Vec k = parts(v.fdiv(size, above.high, below.high)).k, scale = power_of_two(v.fadd(size, k, con(magic())));
  const DoubleDouble scaled_below{v.fmul(size, below.high, scale), v.fmul(size, below.low, scale)};
  DoubleDouble top = sum(above.high, v.fneg(size, scaled_below.high)), bottom = fast_sum(above.high, scaled_below.high);
  top.low = v.fadd(size, top.low, v.fsub(size, above.low, scaled_below.low));
  bottom.low = v.fadd(size, bottom.low, v.fadd(size, above.low, scaled_below.low));
  const DoubleDouble s = quotient(fast_sum(top.high, top.low), bottom);
  const Vec z = v.fmul(size, s.high, s.high), half_k = v.fmul(size, k, con(0.5));
  const Vec series = v.fmul(size, v.fmul(size, z, s.high), v.fmul(size, horner(z, kLogF64, 0, 1), con(0.5)));
  const DoubleDouble most = fast_sum(v.fmul(size, half_k, con(ln2[0])), s.high);
  const Vec small = v.fadd(size, most.low, v.fma(size, half_k, con(ln2[1]), v.fadd(size, s.low, series)));
  const Vec result = v.bit_or(size, v.fadd(size, most.high, small), sign);
  rarely(rare, result, [&] {
    tiny(x);
    const Vec magnitude = v.fabs(size, x);
    const Mask pole = v.fcmp(size, Cmp::Eq, magnitude, one), beyond = v.fcmp(size, Cmp::Gt, magnitude, one);
    raise_invalid_where(beyond);
    const Label no_pole = cc.newLabel();
    v.branch(pole, false, no_pole);
    v.raise_divide();
    cc.bind(no_pole);
    return v.select(size, pole, v.bit_or(size, num(HUGE_VAL), sign),
                    v.select(size, beyond, v.splat(size, 0x7ff8000000000000u), x));
  });
  return result;
}

Vec DoubleDoubleMath::cbrt(const Vec& x) {
  // |x| = 8^q m with m from 0.35 to 2.83; t near 1 / cbrt(m), and then m t^2, whose cube is compared with m
  const auto root_of = [&](const Vec& k, const Vec& f) {
    const Vec one = num(1.0), third = num(1.0 / 3), shifted = v.fma(size, k, third, con(magic())),
              q = v.fsub(size, shifted, con(magic()));
    const Vec rest = v.fnma(size, q, con(3.0), k);
    const Mask up = v.fcmp(size, Cmp::Gt, rest, v.zero(size)), down = has_sign(rest);
    const auto by_rest = [&](double a, double b) {
      return v.select(size, up, num(a), v.select(size, down, num(b), one));
    };
    const Vec m = v.fmul(size, v.fadd(size, f, one), by_rest(2, 0.5));
    Vec t = v.fmul(size, horner(f, kInverseCbrtF64, 0, 1), by_rest(1 / std::cbrt(2.0), std::cbrt(2.0)));
    const Vec error = v.fnma(size, v.fmul(size, m, t), v.fmul(size, t, t), one);
    t = v.fma(size, v.fmul(size, t, error), v.fma(size, error, con(2.0 / 9), third), t);
    const Vec t_square = v.fmul(size, t, t), y = v.fmul(size, m, t_square), square = v.fmul(size, y, y);
    const Vec lost = v.fnma(size, v.fms(size, y, y, square), y, v.fnma(size, square, y, m));
    return v.fmul(size, v.fma(size, lost, v.fmul(size, t_square, third), y), power_of_two(shifted));
  };
  const Vec magnitude = v.fabs(size, x), one = num(1.0), sign = sign_of(x);
  const Mask rare = outside(x, 0x1p-1022, HUGE_VAL);
  const Parts common = parts(v.select(size, rare, one, magnitude));
  const Vec result = v.bit_or(size, root_of(common.k, common.f), sign);
  rarely(rare, result, [&] {
    const Mask kept = v.mask_or(not_finite(x), v.fcmp(size, Cmp::Eq, x, v.zero(size)));
    const Parts lifted =
        parts(v.fmul(size, v.select(size, v.mask_or(kept, v.mask_not(rare)), num(0x1p-1022), magnitude), mem(0x1p54)));
    return v.select(size, kept, x, v.bit_or(size, root_of(v.fsub(size, lifted.k, con(54.0)), lifted.f), sign));
  });
  return result;
}

Vec DoubleDoubleMath::heaviside(const Vec& x, const Vec& at_zero) {
  const Vec zero = v.zero(size);
  const Vec step =
      v.select(size, v.fcmp(size, Cmp::Eq, x, zero), at_zero, v.keep(size, v.fcmp(size, Cmp::Gt, x, zero), num(1.0)));
  return v.select(size, v.fcmp(size, Cmp::Unordered, x, x), x, step);
}

Vec DoubleDoubleMath::nextafter(const Vec& x, const Vec& y) {
  const Vec zero = v.zero(size), one = v.splat(size, 1);
  const Mask larger = v.mask_xor(v.fcmp(size, Cmp::Gt, y, x), has_sign(x)), from_zero = v.fcmp(size, Cmp::Eq, x, zero);
  const Vec step = v.select(size, larger, v.iadd(size, x, one), v.isub(size, x, one));
  const Vec moved = v.select(size, from_zero, v.bit_or(size, one, sign_of(y)), step);
  const Mask nan = v.fcmp(size, Cmp::Unordered, x, y), kept = v.mask_or(nan, v.fcmp(size, Cmp::Eq, x, y));
  const Vec result = v.select(size, kept, v.select(size, v.fcmp(size, Cmp::Unordered, x, x), x, y), moved);
  rarely(v.mask_and(outside(result, f32 ? 0x1p-126 : 0x1p-1022, HUGE_VAL), v.mask_not(kept)), result, [&] {
    const Mask full = v.mask_and(infinite(v.fabs(size, moved)), v.mask_not(kept));
    const Label none = cc.newLabel();
    v.branch(full, false, none);
    v.raise_overflow();
    cc.bind(none);
    const Vec least = v.select(size, v.mask_or(full, kept), num(1.0), num(f32 ? 0x1p-126 : 0x1p-1022));
    v.fmul(size, least, least);
    return moved;
  });
  return result;
}

}  // namespace framejit::codegen
