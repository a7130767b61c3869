// Lowering, inside: operands and kernels of a step.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/lower_stage_order.h"

namespace framejit::codegen::detail {

using OperandId = uint16_t;

/// How a kernel goes along an operand of a step.
codegen::Access inner_access(const LoopOperand& operand);

/// The operands of a step, and the slots of its scratch.
class StepOperands {
 public:
  struct Slot {
    int itemsize, last_read;
  };

  StepOperands(LoopStep& of, const StageOrder& stages, LowerContext& context)
      : step(of), stages_(stages), context_(context) {}

  OperandId memory_operand(const Access& access, bool written, bool by_numpy_loop = false);
  OperandId append(LoopOperand operand);
  OperandId literal_operand(const Term& constant);
  OperandId index_operand();
  /// Where a computed value lies for other stages. One operand for all that take turns in a slot.
  OperandId scratch_operand(TermId t);
  /// In a slot of its own, which is read in that stage.
  OperandId own_scratch(DType dtype, int stage);

  LoopStep& step;
  std::vector<std::pair<Access, OperandId>> memory;
  std::map<TermId, OperandId> in_memory;  // where a computed value lies for other stages
  std::vector<Slot> slots;

 private:
  /// A slot that nobody reads any more when `t` is computed, else a new one.
  BufferIndex take_slot(TermId t);

  const StageOrder& stages_;
  LowerContext& context_;
  std::map<std::pair<BufferIndex, DType>, OperandId> scratch_;
  std::optional<OperandId> index_;
};

/// One kernel: a LoopNest under construction, and which operands of the step it takes.
class KernelBuilder {
 public:
  KernelBuilder(const StageOrder& stages, StepOperands& of, int stage)
      : stages_(stages), step_operands_(of), stage_(stage) {}

  uint16_t operand(OperandId id, bool written);
  uint16_t push(Expr expr);
  uint16_t load(OperandId id, uint8_t part = 0);
  /// A part of a complex term, or the whole of a real one.
  uint16_t expr_of_part(TermId t, uint8_t part);
  /// The expression for a term in the kernel of `stage`. Arguments of the same stage are there already, because terms
  /// are visited in order.
  uint16_t expr(TermId t);
  void store(OperandId to, TermId t);
  int stage() const { return stage_; }

  LoopNest nest;
  std::vector<OperandId> operands;
  std::map<std::pair<OperandId, uint8_t>, uint16_t> loads;  // by operand and part

 private:
  /// Position along the axis: that of the kernel's first element, and the kernel's own count.
  uint16_t index_expr();

  const StageOrder& stages_;
  StepOperands& step_operands_;
  const int stage_;
  std::map<std::pair<OperandId, bool>, uint16_t> numbers_;
  std::map<TermId, uint16_t> exprs_;
};

}  // namespace framejit::codegen::detail
