// The instructions of the nodes of a control-flow graph.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "codegen/emit_cfg_registers.h"
#include "graph/cfg/self_calls.h"

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
  asmjit::InvokeNode* call_itself(const Node& n);
  /// The signature of the function that makes such calls: the SelfCallRun, the depth, the arguments.
  static void describe(const cfg::SelfCalls& self, asmjit::FuncSignatureBuilder& signature);
  /// A symbol or a pointer.
  void emit_input(Id id);
  /// Which argument of a called graph an input is, or -1.
  int argument_of(const Node& input) const;
  Mem of_run(std::size_t offset) const;
  void emit_select(Id id);

  std::vector<Label> exits_;
  std::vector<bool> taken_;                              // by exit
  std::map<std::vector<int64_t>, uint32_t> same_exits_;  // by number and values
  std::vector<std::function<void()>> rare_;              // emits what rarely runs, behind all blocks
  bool has_cell_ = false;
  Mem cell_;  // on the stack: what goes from a vector register to a general one
  Gp symbols_, pointers_, objects_, out_, poll_;

  /// If the graph calls itself: the second function, which is its code with arguments in registers.
  struct Itself {
    const cfg::SelfCalls* calls = nullptr;
    asmjit::FuncNode* function = nullptr;
    bool is_called = false;  // this is its code
    Gp run, depth;           // in it: the address of the SelfCallRun, and how many calls may still be within this one
    std::vector<Gp> arguments;
    std::vector<Mem> floats;  // by argument: memory that has it
    Label gives_up;
  };
  Itself itself_;
};

}  // namespace framejit::codegen
