// pow with the exponents of cfg::calls_quick_power(), by products and roots.
//
// A product or a root is known with its error, so it is known which number is the nearest to the exact power, and how
// near it is. pow may round another number than the exact power, which it is known to be near: see error_of_power().
// So if all numbers that are as near to the exact power round to one, and it is between 2**-32 and 2**32, pow gives
// that. Else it has to be called: for one number in fifty.
#pragma once

#include <asmjit/x86.h>

#include <functional>

namespace framejit::codegen {

struct QuickPower {
  using Vec = asmjit::x86::Vec;
  Vec result;
  // It is that of pow if `least` is not less than `limit`. Both may be NaN: then pow is called.
  Vec least, limit;
};

/// Emits the products. x: a number, or a vector of them if `packed`. `number`: a constant in each lane;
/// `fresh`: one without contents.
QuickPower emit_quick_power(asmjit::x86::Compiler& cc, double exponent, const asmjit::x86::Vec& x, bool packed,
                            const std::function<asmjit::Operand(double)>& number,
                            const std::function<asmjit::x86::Vec()>& fresh);

}  // namespace framejit::codegen
