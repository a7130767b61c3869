// Operands of a step, and terms as expressions of a kernel.
#include "codegen/lower_stage_kernels.h"

#include "graph/support/check.h"

namespace framejit::codegen::detail {

namespace {

void mark_nonnegative(LoopOperand& operand) {
  for (const Dim& s : operand.strides)
    if (!s.is_const()) operand.nonnegative = true;
}

}  // namespace

codegen::Access inner_access(const LoopOperand& operand) {
  if (operand.scratch) return codegen::Access::Contiguous;
  if (operand.index) return codegen::Access::Broadcast;
  if (operand.strides.empty()) return operand.written ? codegen::Access::Contiguous : codegen::Access::Broadcast;
  const Dim& inner = operand.strides.back();
  if (inner == Dim(0)) return codegen::Access::Broadcast;
  if (inner == Dim(graph::size_of(operand.dtype))) return codegen::Access::Contiguous;
  return codegen::Access::Strided;
}

OperandId StepOperands::memory_operand(const Access& access, bool written, bool by_numpy_loop) {
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (memory[i].first == access && step.operands[memory[i].second].written == written) {
      if (by_numpy_loop) mark_nonnegative(step.operands[memory[i].second]);
      return memory[i].second;
    }
  LoopOperand operand;
  operand.buffer = access.buffer;
  operand.dtype = access.dtype;
  operand.offset = access.offset;
  operand.strides = stages_.axes.strides(access);
  operand.written = written;
  if (by_numpy_loop) mark_nonnegative(operand);
  const OperandId id = append(std::move(operand));
  memory.emplace_back(access, id);
  return id;
}

OperandId StepOperands::append(LoopOperand operand) {
  if (step.operands.size() >= LoopStep::kMostOperands) fail("a loop of too many operands");
  step.operands.push_back(std::move(operand));
  return static_cast<OperandId>(step.operands.size() - 1);
}

OperandId StepOperands::literal_operand(const Term& constant) {
  LoopOperand operand;
  operand.buffer = context_.literal(graph::element_of(constant.dtype, constant.constant).data(),
                                    static_cast<std::size_t>(graph::size_of(constant.dtype)));
  operand.dtype = constant.dtype;
  operand.strides.assign(stages_.axes.extents.size(), 0);
  return append(std::move(operand));
}

OperandId StepOperands::index_operand() {
  if (index_) return *index_;
  LoopOperand operand;
  operand.dtype = DType::I64;
  operand.index = true;
  operand.strides.assign(stages_.axes.extents.size(), 0);
  index_ = append(std::move(operand));
  return *index_;
}

OperandId StepOperands::scratch_operand(TermId t) {
  auto [it, added] = in_memory.try_emplace(t, 0);
  if (added) {
    LoopOperand operand;
    operand.scratch = true;
    operand.dtype = stages_.terms[t].dtype;
    operand.buffer = take_slot(t);
    operand.written = true;
    const auto [same, first] = scratch_.try_emplace({operand.buffer, operand.dtype}, 0);
    if (first) same->second = append(std::move(operand));
    it->second = same->second;
  }
  return it->second;
}

BufferIndex StepOperands::take_slot(TermId t) {
  const int size = graph::size_of(stages_.terms[t].dtype), now = stages_.stage_of[t];
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].itemsize == size && slots[i].last_read < now) {
      slots[i].last_read = stages_.last_read(t);
      return static_cast<BufferIndex>(i);
    }
  slots.push_back({size, stages_.last_read(t)});
  return static_cast<BufferIndex>(slots.size() - 1);
}

OperandId StepOperands::own_scratch(DType dtype, int stage) {
  LoopOperand operand;
  operand.scratch = operand.written = true;
  operand.dtype = dtype;
  slots.push_back({graph::size_of(dtype), stage});
  operand.buffer = static_cast<BufferIndex>(slots.size() - 1);
  return append(std::move(operand));
}

uint16_t KernelBuilder::operand(OperandId id, bool written) {
  auto [it, added] = numbers_.try_emplace({id, written}, static_cast<uint16_t>(operands.size()));
  if (added) {
    operands.push_back(id);
    nest.operands.push_back(
        {step_operands_.step.operands[id].dtype, inner_access(step_operands_.step.operands[id]), written});
  }
  return it->second;
}

uint16_t KernelBuilder::push(Expr expr) {
  if (nest.body.size() >= 60'000) fail("a kernel of more than 60000 operations");
  nest.body.push_back(expr);
  return static_cast<uint16_t>(nest.body.size() - 1);
}

uint16_t KernelBuilder::load(OperandId id, uint8_t part) {
  auto it = loads.find({id, part});
  if (it != loads.end()) return it->second;
  Expr e{};
  e.kind = ExprKind::Load;
  e.dtype = e.operand_dtype = graph::part_of(step_operands_.step.operands[id].dtype);
  e.args[0] = operand(id, false);
  e.args[1] = part;
  return loads[{id, part}] = push(e);
}

uint16_t KernelBuilder::expr_of_part(TermId t, uint8_t part) {
  const Term& term = stages_.terms[t];
  if (!graph::is_complex(term.dtype)) return expr(t);
  if (stages_.computed(t) && (term.numpy_loop || stages_.stage_of[t] != stage_))
    return load(step_operands_.in_memory.at(t), part);
  if (term.kind == Term::kLoad) return load(step_operands_.memory_operand(term.access, false), part);
  if (term.kind == Term::kPair) return expr(term.args[part]);
  if (term.kind == Term::kCopy) return expr_of_part(term.args[0], part);
  Expr e{};
  e.kind = ExprKind::Constant;
  e.dtype = e.operand_dtype = graph::part_of(term.dtype);
  e.constant.lo = part ? term.constant.hi : term.constant.lo;
  return push(e);
}

void KernelBuilder::store(OperandId to, TermId t) {
  NestStore s{};
  s.expr = expr_of_part(t, 0);
  if (graph::is_complex(stages_.terms[t].dtype)) s.imaginary = expr_of_part(t, 1);
  s.operand = operand(to, true);
  nest.stores.push_back(s);
}

uint16_t KernelBuilder::expr(TermId t) {
  if (auto it = exprs_.find(t); it != exprs_.end()) return it->second;
  const Term& term = stages_.terms[t];
  if (stages_.computed(t) && (term.numpy_loop || stages_.stage_of[t] != stage_))
    return load(step_operands_.in_memory.at(t));
  Expr e{};
  e.dtype = e.operand_dtype = term.dtype;
  switch (term.kind) {
    case Term::kLoad: return load(step_operands_.memory_operand(term.access, false));
    case Term::kConstant:
      e.kind = ExprKind::Constant;
      e.constant = term.constant;
      break;
    case Term::kIndex: return exprs_[t] = index_expr();
    case Term::kCopy: return exprs_[t] = expr(term.args[0]);
    case Term::kPart: return exprs_[t] = expr_of_part(term.args[0], term.part);
    case Term::kPair: FRAMEJIT_CHECK(false, "a complex number as one expression");
    case Term::kApply:
      e.kind = ExprKind::Apply;
      e.op = term.op;
      e.operand_dtype = term.operand_dtype;
      for (std::size_t a = 0; a < term.args.size(); ++a) e.args[a] = expr(term.args[a]);
      break;
  }
  return exprs_[t] = push(e);
}

uint16_t KernelBuilder::index_expr() {
  Expr first{};
  first.kind = ExprKind::Load;
  first.dtype = first.operand_dtype = DType::I64;
  first.args[0] = operand(step_operands_.index_operand(), false);
  const uint16_t start = push(first);
  Expr count{};
  count.kind = ExprKind::InnerIndex;
  count.dtype = count.operand_dtype = DType::I64;
  const uint16_t inner = push(count);
  Expr sum{};
  sum.kind = ExprKind::Apply;
  sum.op = Op::Add;
  sum.dtype = sum.operand_dtype = DType::I64;
  sum.args[0] = start;
  sum.args[1] = inner;
  return push(sum);
}

}  // namespace framejit::codegen::detail
