// See emit_cfg_power.h.
#include "codegen/emit_cfg_power.h"

#include <bit>
#include <cstdint>

#include "graph/cfg/cfg.h"

namespace framejit::codegen {

using asmjit::x86::Vec;
namespace I = asmjit::x86::Inst;

namespace {

// How far the number that pow rounds is from the exact power, as a part of the power, if it is between 2**-32 and
// 2**32. glibc 2.28 and later compute exp(exponent * log(x)), with the logarithm as a sum of two numbers. The last step
// is scale + scale * t, rounded once, where scale is 2 ** (k / 128), and t is about r, the rest of the logarithm:
// |r| <= log(2) / 256 < 2 ** -8. Six roundings (five with fused operations) are of numbers like r: half a unit in the
// last place of r each, which is 2 ** -62. What is left is smaller than 3/4 of that: the logarithm is wrong by at most
// 1.5 * 2 ** -68 of itself, and it is below log(2 ** 32); the polynomial for exp is wrong by 2 ** -65.
double error_of_power() { return 1.01 * ((cfg::is_power_fused() ? 5 : 6) + 0.75) * 0x1p-62; }
constexpr double kLeast = 0x1p-32;

}  // namespace

QuickPower emit_quick_power(asmjit::x86::Compiler& cc, double exponent, const Vec& x, bool packed,
                            const std::function<asmjit::Operand(double)>& number, const std::function<Vec()>& fresh) {
  const auto emit = [&](I::Id one, I::Id many, const Vec& to, const Vec& a, const asmjit::Operand& b) {
    cc.emit(packed ? many : one, to, a, b);
  };
  const auto multiply = [&](const Vec& to, const Vec& a, const asmjit::Operand& b) {
    emit(I::kIdVmulsd, I::kIdVmulpd, to, a, b);
  };
  const auto subtract = [&](const Vec& to, const Vec& a, const Vec& b) { emit(I::kIdVsubsd, I::kIdVsubpd, to, a, b); };
  const auto mask = [&](const Vec& to, const Vec& a, const asmjit::Operand& bits) {
    cc.emit(I::kIdVandpd, to, a, bits);
  };
  /// a * b - c
  const auto rest_of_product = [&](const Vec& a, const Vec& b, const Vec& c) {
    const Vec to = fresh();
    cc.emit(I::kIdVmovaps, to, c);
    emit(I::kIdVfmsub231sd, I::kIdVfmsub231pd, to, a, b);
    return to;
  };
  const auto at_least = [&](const Vec& v, double bound) {
    const Vec to = fresh();
    emit(I::kIdVmaxsd, I::kIdVmaxpd, to, v, number(bound));
    return to;
  };
  const auto at_most = [&](const Vec& v, double bound) {
    const Vec to = fresh();
    emit(I::kIdVminsd, I::kIdVminpd, to, v, number(bound));
    return to;
  };
  const asmjit::Operand magnitude = number(std::bit_cast<double>(uint64_t{0x7fffffffffffffff}));
  QuickPower out{fresh(), {}, {}};
  if (exponent == 0.5) {
    out.least = fresh();
    out.limit = at_most(at_least(x, kLeast * kLeast), 1 / (kLeast * kLeast));
    if (packed) cc.emit(I::kIdVsqrtpd, out.result, x);
    else cc.emit(I::kIdVsqrtsd, out.result, x, x);
    // About 2 * result times the error of the root. A number that is not within the limits has become another one.
    emit(I::kIdVfnmadd231sd, I::kIdVfnmadd231pd, out.limit, out.result, out.result);
    mask(out.limit, out.limit, magnitude);
    // Half a unit in the last place is the power of 2 that the exponent's bits stand for, times 2 ** -53.
    mask(out.least, out.result, number(std::bit_cast<double>(uint64_t{0x7ff0000000000000})));
    multiply(out.least, out.least, number(2 * 0x1p-53));
    emit(I::kIdVfnmadd231sd, I::kIdVfnmadd231pd, out.least, out.result, number(2 * error_of_power()));
    multiply(out.least, out.least, out.result);
    return out;
  }
  Vec error;
  if (exponent == 2) {
    multiply(out.result, x, x);
    error = rest_of_product(x, x, out.result);
  } else {
    const Vec square = fresh(), cube = fresh();
    error = fresh();
    multiply(square, x, x);
    multiply(cube, square, x);
    const Vec rest_of_square = rest_of_product(x, x, square), rest = rest_of_product(square, x, cube);
    emit(I::kIdVfmadd231sd, I::kIdVfmadd231pd, rest, rest_of_square, x);
    emit(I::kIdVaddsd, I::kIdVaddpd, out.result, cube, rest);
    subtract(error, out.result, cube);
    subtract(error, rest, error);
  }
  mask(error, error, magnitude);
  Vec power = out.result;
  if (exponent != 2) {
    power = fresh();
    mask(power, out.result, magnitude);
  }
  emit(I::kIdVfmadd231sd, I::kIdVfmadd231pd, error, power, number(error_of_power()));
  // Towards 0, where numbers are not farther apart, the farthest that pow may round. It is the power again, or the
  // power is above the greatest that is quick; the limit is above the power if that is below the least.
  out.least = at_most(power, 1 / kLeast);
  subtract(out.least, out.least, error);
  out.limit = at_least(power, kLeast);
  return out;
}

}  // namespace framejit::codegen
