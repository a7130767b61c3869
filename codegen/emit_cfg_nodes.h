// The instructions of the nodes of a control-flow graph.
#pragma once

#include <map>
#include <vector>

#include "codegen/emit_cfg_registers.h"

namespace framejit::codegen {

/// Each node as instructions over CfgRegisters; checks jump to labels of exits.
class CfgNodes : protected CfgRegisters {
 protected:
  using Cond = asmjit::x86::CondCode;

  using CfgRegisters::CfgRegisters;

  void emit_node(Id id);
  /// Exits that are the same are made once.
  const Label& exit(uint32_t e);
  /// Compares integers: the condition that holds if the comparison does.
  Cond compare(const Node& n);
  void compare_floats(cfg::Type type, const Xmm& a, const Xmm& b);
  /// A number that is not finite gives NaN when it is subtracted from itself.
  void compare_finite(Id id);
  void jump_if(Id condition, bool truth, const Label& to);
  void emit_comparison(Id id);
  void emit_load(Id id);
  void emit_store(const Node& n);
  template <class F, class G>
  void two(Id id, F with_register, G with_small);
  bool is_apart(Id id) const;
  void emit_integer(Id id);
  /// Rounds down, as Python does; the processor truncates.
  void emit_division(Id id);
  /// By a product with the reciprocal (Granlund and Montgomery, 1994). Numbers below 0 are complemented before and
  /// after, which rounds down: floor(n / d) == ~(~n / d).
  void emit_division_by(Id id, int64_t divisor);
  void emit_float(Id id);
  void emit_call(Id id);
  /// See cfg::calls_quick_power().
  void emit_power(Id id);
  /// The call of a node, whose result is not put anywhere yet.
  asmjit::InvokeNode* call(const Node& n);
  void emit_select(Id id);

  std::vector<Label> exits_;
  std::vector<bool> taken_;                              // by exit
  std::map<std::vector<int64_t>, uint32_t> same_exits_;  // by number and values
  bool has_cell_ = false;
  Mem cell_;  // on the stack: what goes from a vector register to a general one
  Gp symbols_, pointers_, objects_, out_, poll_;
};

}  // namespace framejit::codegen
