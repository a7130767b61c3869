// A program as text, for reports.
#include <algorithm>

#include "codegen/lower.h"
#include "codegen/lower_step.h"

namespace framejit::codegen {

namespace detail {

namespace {

std::string list(const Dims& dims) {
  std::string out = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    out += dims[i].str();
  }
  return out + "]";
}

std::string buffer_name(const Program& program, BufferIndex index) {
  const Buffer& b = program.buffers[index];
  switch (b.kind) {
    case BufferKind::Param: return "param " + std::to_string(b.number);
    case BufferKind::Result: return "result " + std::to_string(b.number);
    case BufferKind::Temp: return "temp " + std::to_string(index);
    case BufferKind::Pointer: return "pointer " + std::to_string(index);
    case BufferKind::Literal: return "literal";
    case BufferKind::DimValue: return "dim " + b.value.str();
  }
  return "";
}

std::string operand_text(const Program& program, const LoopOperand& o) {
  std::string out = o.written ? "write " : "read ";
  out += graph::name_of(o.dtype);
  if (o.index) return "index";
  if (o.scratch) return out + " scratch " + std::to_string(o.buffer);
  out += " " + buffer_name(program, o.buffer);
  if (!(o.offset == Dim(0))) out += " + " + o.offset.str();
  return out + " strides " + list(o.strides);
}

std::string_view reduce_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::None: return "none";
    case ReduceKind::Pairwise: return "pairwise";
    case ReduceKind::Rows: return "rows";
    case ReduceKind::AnyOrder: return "any order";
    case ReduceKind::LeftFold: return "left fold";
  }
  return "";
}

std::string loop_text(const Program& program, const LoopStep& step) {
  std::string out = "loop " + step.name + " " + list(step.extents) + " group " + std::to_string(step.group);
  if (step.reduce != ReduceKind::None) {
    out += " reduce " + std::string(reduce_name(step.reduce)) + " " + std::string(graph::name_of(step.combine)) +
           " over " + std::to_string(step.reduced_axes);
    if (step.run_axes > 1) out += " runs of " + std::to_string(step.run_axes) + " axes";
    if (step.run_cut > 0) out += " cut " + std::to_string(step.run_cut);
  }
  if (step.tile > 0) out += " tile " + std::to_string(step.tile);
  out += "\n";
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    out += "    %" + std::to_string(i) + ": " + operand_text(program, step.operands[i]) + "\n";
  const auto list_stage = [&](const Stage& stage, const char* indent) {
    const auto* kernel = std::get_if<KernelIndex>(&stage.code);
    out += indent;
    out += kernel ? "kernel " + std::to_string(*kernel) + " " + program.kernels[*kernel].name : "numpy_loop";
    out += "(";
    for (std::size_t i = 0; i < stage.operands.size(); ++i)
      out += (i ? ", %" : "%") + std::to_string(stage.operands[i]);
    out += ")";
    if (stage.slot >= 0) out += " flags " + std::to_string(stage.slot);
    if (stage.streaming)
      out +=
          " streaming " + std::to_string(*stage.streaming) + " from " + std::to_string(step.streaming_bytes) + " bytes";
    out += "\n";
  };
  for (const Stage& stage : step.stages) list_stage(stage, "    ");
  for (const Stage& stage : step.joint.stages) list_stage(stage, "    joint ");
  if (step.guarded) {
    out += "    guarded kernel " + std::to_string(step.guarded->kernel) + " " +
           program.kernels[step.guarded->kernel].name + "(";
    for (std::size_t i = 0; i < step.guarded->operands.size(); ++i)
      out += (i ? ", %" : "%") + std::to_string(step.guarded->operands[i]);
    out += ")\n";
  }
  return out;
}

std::string flow_text(const Program& program, const FlowStep& step) {
  const auto at = [&] {
    return buffer_name(program, step.a) + (step.offset == Dim(0) ? "" : " + " + step.offset.str());
  };
  switch (step.kind) {
    case FlowStep::Jump: return "jump to " + std::to_string(step.target);
    case FlowStep::BranchIfFalse: return "jump to " + std::to_string(step.target) + " unless " + at();
    case FlowStep::BranchBack: return "jump to " + std::to_string(step.target) + " if " + at();
    case FlowStep::Expect: return "expect " + at();
    case FlowStep::SetSymbol: return "s" + std::to_string(step.target) + " is " + at();
    case FlowStep::MoveBuffer:
      return "move " + buffer_name(program, step.a) + " to " + buffer_name(program, step.b) +
             (step.offset == Dim(0) ? "" : " + " + step.offset.str());
    case FlowStep::RotateBuffers:
      return "rotate " + buffer_name(program, step.a) + ", " + buffer_name(program, step.b) + ", " +
             buffer_name(program, step.c);
  }
  return "";
}

}  // namespace

}  // namespace detail

std::string listing(const Program& program) {
  using namespace detail;
  std::string out;
  const bool flows = std::any_of(program.steps.begin(), program.steps.end(),
                                 [](const Step& step) { return std::holds_alternative<FlowStep>(step); });
  std::size_t number = 0;
  for (const Step& step : program.steps) {
    if (flows) out += std::to_string(number++) + ": ";
    if (const auto* loop = std::get_if<LoopStep>(&step)) {
      out += loop_text(program, *loop);
    } else if (const auto* product = std::get_if<MatMulStep>(&step)) {
      out += !product->windows ? "matmul " : product->windows->transposed ? "convolution_weights " : "convolution ";
      out += std::string(graph::name_of(product->dtype)) + " ";
      if (!product->batch.empty()) out += list(product->batch) + " x ";
      out += "[" + product->m.str() + ", " + product->k.str() + "] x [" + product->k.str() + ", " + product->n.str() +
             "]\n";
      for (const LoopOperand* o : {&product->a, &product->b, &product->c})
        out += "    " + operand_text(program, *o) + "\n";
      if (product->producer) out += "  its A produced by " + loop_text(program, *product->producer);
      if (product->epilogue) out += "  finished by " + loop_text(program, *product->epilogue);
      if (const auto& tiles = product->in_registers) {
        out += "  or in the registers of tiles:";
        if (tiles->bias) out += " add " + buffer_name(program, tiles->bias->buffer);
        out += std::string(tiles->relu != Relu::None && tiles->bias ? "," : "") +
               (tiles->relu != Relu::None ? " relu\n" : "\n");
      }
    } else if (const auto* attention = std::get_if<AttentionStep>(&step)) {
      out += std::string(attention->g ? "attention_gradients " : "attention ") +
             list({attention->batch, attention->heads, attention->queries, attention->depth}) + " x " +
             list({attention->key_heads, attention->keys, attention->width}) + (attention->causal ? " causal" : "") +
             (attention->state ? " dropped\n" : "\n");
      for (const LoopOperand* o : {&attention->q, &attention->k, &attention->v, &attention->out})
        out += "    " + operand_text(program, *o) + "\n";
      if (attention->mask) out += "    mask " + operand_text(program, *attention->mask) + "\n";
      for (const auto* o : {&attention->g, &attention->y, &attention->probability, &attention->state})
        if (*o) out += "    " + operand_text(program, **o) + "\n";
    } else if (const auto* call = std::get_if<LibraryCallStep>(&step)) {
      out += call->name + "\n";
      for (const LoopOperand& o : call->operands) out += "    " + operand_text(program, o) + "\n";
    } else if (const auto* flow = std::get_if<FlowStep>(&step)) {
      out += flow_text(program, *flow) + "\n";
    } else {
      const auto& undo = std::get<UndoStep>(step);
      out += "undo " + list(undo.extents) + "\n    " + operand_text(program, undo.source) + "\n";
    }
  }
  for (const graph::DimGuard& g : program.conditions) {
    static constexpr const char* kNames[] = {"==", "!=", "<", "<="};
    out += std::string("condition ") + (g.outcome ? "" : "not ") + g.left.str() + " " +
           kNames[static_cast<int>(g.relation)] + " " + g.right.str() + "\n";
  }
  return out;
}

}  // namespace framejit::codegen
