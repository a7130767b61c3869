// See emit_cfg_fused.h.
#include "codegen/emit_cfg_fused.h"

namespace framejit::codegen {

namespace I = asmjit::x86::Inst;

void emit_fused(asmjit::x86::Compiler& cc, cfg::Op op, cfg::Type type, bool packed, const asmjit::x86::Vec& to,
                const asmjit::x86::Vec& a, const asmjit::Operand& b, const asmjit::Operand& c) {
  // The result is written over the first operand: which of the three are multiplied, counted from 1.
  struct Forms {
    I::Id by_third, by_second, summand;
  };
  // By operation: numbers of 64 bits, vectors of them, numbers of 32 bits, vectors of them.
  constexpr Forms kForms[3][4] = {{{I::kIdVfmadd132sd, I::kIdVfmadd213sd, I::kIdVfmadd231sd},
                                   {I::kIdVfmadd132pd, I::kIdVfmadd213pd, I::kIdVfmadd231pd},
                                   {I::kIdVfmadd132ss, I::kIdVfmadd213ss, I::kIdVfmadd231ss},
                                   {I::kIdVfmadd132ps, I::kIdVfmadd213ps, I::kIdVfmadd231ps}},
                                  {{I::kIdVfmsub132sd, I::kIdVfmsub213sd, I::kIdVfmsub231sd},
                                   {I::kIdVfmsub132pd, I::kIdVfmsub213pd, I::kIdVfmsub231pd},
                                   {I::kIdVfmsub132ss, I::kIdVfmsub213ss, I::kIdVfmsub231ss},
                                   {I::kIdVfmsub132ps, I::kIdVfmsub213ps, I::kIdVfmsub231ps}},
                                  {{I::kIdVfnmadd132sd, I::kIdVfnmadd213sd, I::kIdVfnmadd231sd},
                                   {I::kIdVfnmadd132pd, I::kIdVfnmadd213pd, I::kIdVfnmadd231pd},
                                   {I::kIdVfnmadd132ss, I::kIdVfnmadd213ss, I::kIdVfnmadd231ss},
                                   {I::kIdVfnmadd132ps, I::kIdVfnmadd213ps, I::kIdVfnmadd231ps}}};
  const int which = op == cfg::Op::MulAdd ? 0 : op == cfg::Op::MulSub ? 1 : 2;
  const Forms& forms = kForms[which][(type == cfg::Type::F32 ? 2 : 0) + (packed ? 1 : 0)];
  const auto is_result = [&](const asmjit::Operand& v) { return v.isReg() && v.id() == to.id(); };
  const bool over_b = is_result(b) && !is_result(a);
  if (is_result(c) || (!is_result(a) && !over_b && !c.isMem())) {
    if (!is_result(c)) cc.emit(I::kIdVmovaps, to, c);
    cc.emit(forms.summand, to, a, b);
    return;
  }
  if (!is_result(a) && !over_b) cc.emit(I::kIdVmovaps, to, a);
  const asmjit::Operand& factor = over_b ? static_cast<const asmjit::Operand&>(a) : b;
  if (c.isMem()) cc.emit(forms.by_second, to, factor, c);
  else cc.emit(forms.by_third, to, c, factor);
}

}  // namespace framejit::codegen
