// See emit_cfg_power.h.
#include "codegen/emit_cfg_power.h"

#include <bit>
#include <cstdint>

namespace framejit::codegen {

using asmjit::x86::Vec;
namespace I = asmjit::x86::Inst;

QuickPower emit_quick_power(asmjit::x86::Compiler& cc, double exponent, const Vec& x, bool packed,
                            const std::function<Vec(double)>& number, const std::function<Vec()>& fresh) {
  const auto emit = [&](I::Id one, I::Id many, const Vec& to, const Vec& a, const Vec& b) {
    cc.emit(packed ? many : one, to, a, b);
  };
  const auto multiply = [&](const Vec& to, const Vec& a, const Vec& b) { emit(I::kIdVmulsd, I::kIdVmulpd, to, a, b); };
  const auto subtract = [&](const Vec& to, const Vec& a, const Vec& b) { emit(I::kIdVsubsd, I::kIdVsubpd, to, a, b); };
  /// a * b - c
  const auto rest_of_product = [&](const Vec& a, const Vec& b, const Vec& c) {
    const Vec to = fresh();
    cc.emit(I::kIdVmovaps, to, c);
    emit(I::kIdVfmsub231sd, I::kIdVfmsub231pd, to, a, b);
    return to;
  };
  QuickPower out{fresh(), fresh(), fresh(), fresh()};
  if (exponent == 0.5) {
    if (packed) cc.emit(I::kIdVsqrtpd, out.result, x);
    else cc.emit(I::kIdVsqrtsd, out.result, x, x);
    // About 2 * result times the error of the root.
    cc.emit(I::kIdVmovaps, out.error, x);
    emit(I::kIdVfnmadd231sd, I::kIdVfnmadd231pd, out.error, out.result, out.result);
  } else if (exponent == 2) {
    multiply(out.result, x, x);
    out.error = rest_of_product(x, x, out.result);
  } else {
    const Vec square = fresh(), cube = fresh();
    multiply(square, x, x);
    multiply(cube, square, x);
    const Vec rest_of_square = rest_of_product(x, x, square), rest = rest_of_product(square, x, cube);
    emit(I::kIdVfmadd231sd, I::kIdVfmadd231pd, rest, rest_of_square, x);
    emit(I::kIdVaddsd, I::kIdVaddpd, out.result, cube, rest);
    subtract(out.error, out.result, cube);
    subtract(out.error, rest, out.error);
  }
  // A unit in the last place is the power of 2 that the exponent's bits stand for, times 2 ** -52. For small results
  // the limit is below 0.
  constexpr double kWithin = 0.488, kUnit = 0x1p-52, kLeast = 0x1p-32;
  // At least the limit of numbers below kLeast.
  const double small = kWithin * kUnit * kLeast * (exponent == 0.5 ? 2 * kLeast : 0.5);
  cc.emit(I::kIdVandpd, out.scale, out.result, number(std::bit_cast<double>(uint64_t{0x7ff0000000000000})));
  multiply(out.limit, out.scale, number(exponent == 0.5 ? 2 * kWithin * kUnit : kWithin * kUnit));
  if (exponent == 0.5) multiply(out.limit, out.limit, out.result);
  subtract(out.limit, out.limit, number(small));
  cc.emit(I::kIdVandpd, out.error, out.error, number(std::bit_cast<double>(uint64_t{0x7fffffffffffffff})));
  return out;
}

}  // namespace framejit::codegen
