// See emit_cfg_power.h.
#include "codegen/emit_cfg_power.h"

#include <bit>
#include <cstdint>

namespace framejit::codegen {

using asmjit::x86::Vec;
namespace I = asmjit::x86::Inst;

QuickPower emit_quick_power(asmjit::x86::Compiler& cc, double exponent, const Vec& x, bool packed,
                            const std::function<asmjit::Operand(double)>& number, const std::function<Vec()>& fresh) {
  const auto emit = [&](I::Id one, I::Id many, const Vec& to, const Vec& a, const asmjit::Operand& b) {
    cc.emit(packed ? many : one, to, a, b);
  };
  const auto multiply = [&](const Vec& to, const Vec& a, const asmjit::Operand& b) {
    emit(I::kIdVmulsd, I::kIdVmulpd, to, a, b);
  };
  const auto subtract = [&](const Vec& to, const Vec& a, const Vec& b) { emit(I::kIdVsubsd, I::kIdVsubpd, to, a, b); };
  /// a * b - c
  const auto rest_of_product = [&](const Vec& a, const Vec& b, const Vec& c) {
    const Vec to = fresh();
    cc.emit(I::kIdVmovaps, to, c);
    emit(I::kIdVfmsub231sd, I::kIdVfmsub231pd, to, a, b);
    return to;
  };
  /// A number that is not within the limits of what is quick becomes another one; so does NaN.
  const auto limited = [&](const Vec& v, double least) {
    const Vec to = fresh();
    emit(I::kIdVmaxsd, I::kIdVmaxpd, to, v, number(least));
    emit(I::kIdVminsd, I::kIdVminpd, to, to, number(1 / least));
    return to;
  };
  const asmjit::Operand magnitude =
      exponent == 2 ? asmjit::Operand() : number(std::bit_cast<double>(uint64_t{0x7fffffffffffffff}));
  constexpr double kWithin = 0.488, kUnit = 0x1p-52, kLeast = 0x1p-32;
  if (exponent == 0.5) {
    QuickPower out{fresh(), limited(x, kLeast * kLeast), fresh(), true};
    if (packed) cc.emit(I::kIdVsqrtpd, out.result, x);
    else cc.emit(I::kIdVsqrtsd, out.result, x, x);
    // About 2 * result times the error of the root.
    emit(I::kIdVfnmadd231sd, I::kIdVfnmadd231pd, out.checked, out.result, out.result);
    cc.emit(I::kIdVandpd, out.checked, out.checked, magnitude);
    // A unit in the last place is the power of 2 that the exponent's bits stand for, times 2 ** -52.
    cc.emit(I::kIdVandpd, out.expected, out.result, number(std::bit_cast<double>(uint64_t{0x7ff0000000000000})));
    multiply(out.expected, out.expected, number(2 * kWithin * kUnit));
    multiply(out.expected, out.expected, out.result);
    return out;
  }
  QuickPower out{fresh(), {}, {}, false};
  if (exponent == 2) {
    multiply(out.result, x, x);
    out.checked = rest_of_product(x, x, out.result);
  } else {
    const Vec square = fresh(), cube = fresh();
    out.checked = fresh();
    multiply(square, x, x);
    multiply(cube, square, x);
    const Vec rest_of_square = rest_of_product(x, x, square), rest = rest_of_product(square, x, cube);
    emit(I::kIdVfmadd231sd, I::kIdVfmadd231pd, rest, rest_of_square, x);
    emit(I::kIdVaddsd, I::kIdVaddpd, out.result, cube, rest);
    subtract(out.checked, out.result, cube);
    subtract(out.checked, rest, out.checked);
  }
  // With its error, made so much larger that it would lead to another number just where it is too large.
  emit(I::kIdVfmadd132sd, I::kIdVfmadd132pd, out.checked, out.result, number(0.5 / kWithin));
  out.expected = out.result;
  if (exponent != 2) {
    out.expected = fresh();
    cc.emit(I::kIdVandpd, out.expected, out.result, magnitude);
    cc.emit(I::kIdVandpd, out.checked, out.checked, magnitude);
  }
  out.expected = limited(out.expected, kLeast);
  return out;
}

}  // namespace framejit::codegen
