// Symbols of a program that say where operands begin, and nothing else: a run replaces the offsets of a program that is
// bound already.
#include <algorithm>
#include <memory>

#include "runtime/bound.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

/// Is it a product that no other step has a part in?
bool is_plain(const MatMulStep& product) {
  return !product.epilogue && !product.in_registers && !product.producer && !product.windows && !product.constant_b;
}

const LoopOperand* operand_of(const Step& step, std::size_t operand) {
  if (const auto* loop = std::get_if<LoopStep>(&step)) return &loop->operands[operand];
  if (const auto* call = std::get_if<LibraryCallStep>(&step)) return &call->operands[operand];
  if (const auto* undo = std::get_if<UndoStep>(&step)) return &undo->source;
  const auto& product = std::get<MatMulStep>(step);
  return operand == 0 ? &product.a : operand == 1 ? &product.b : &product.c;
}

std::size_t operand_count(const Step& step) {
  if (const auto* loop = std::get_if<LoopStep>(&step)) return loop->operands.size();
  if (const auto* call = std::get_if<LibraryCallStep>(&step)) return call->operands.size();
  if (std::holds_alternative<UndoStep>(step)) return 1;
  const auto* product = std::get_if<MatMulStep>(&step);
  return product && is_plain(*product) ? 3 : 0;
}

/// The same operand in the bound step, which belongs to this bound program alone (own_steps).
BoundOperand& operand_of(BoundStep& step, std::size_t operand) {
  if (auto* loop = std::get_if<BoundLoop>(&step)) return loop->operands[operand];
  if (auto* call = std::get_if<BoundLibraryCall>(&step)) return call->operands[operand];
  if (auto* undo = std::get_if<BoundUndo>(&step)) return undo->source;
  auto& product = const_cast<BoundMatMul&>(*std::get<std::shared_ptr<const BoundMatMul>>(step));
  return operand == 0 ? product.a : operand == 1 ? product.b : product.c;
}

bool fails(const Program& program, const Movable& what, std::span<const int64_t> symbols) {
  return std::any_of(what.conditions.begin(), what.conditions.end(), [&](std::size_t i) {
    const graph::DimGuard& g = program.conditions[i];
    return graph::related(g.relation, g.left.evaluate(symbols), g.right.evaluate(symbols)) != g.outcome;
  });
}

}  // namespace

Movable movable_of(const Program& program) {
  Movable out;
  const auto fix_symbols = [&](const std::vector<graph::SymbolId>& symbols) {
    for (const graph::SymbolId s : symbols) {
      if (static_cast<std::size_t>(s) >= out.fixed.size()) out.fixed.resize(static_cast<std::size_t>(s) + 1);
      out.fixed[static_cast<std::size_t>(s)] = true;
    }
  };
  const auto symbols_of = [](const graph::Dim& d) {
    std::vector<graph::SymbolId> used;
    d.collect_symbols(used);
    return used;
  };
  const auto fix = [&](const graph::Dim& d) { fix_symbols(symbols_of(d)); };
  std::vector<bool> is_measured;
  for (const Measured& m : program.measured) {
    fix_symbols({m.symbol});
    fix(m.most);
    is_measured.resize(std::max(is_measured.size(), static_cast<std::size_t>(m.symbol) + 1));
    is_measured[static_cast<std::size_t>(m.symbol)] = true;
  }
  /// A symbol in an expression with a measured one is bound when that is measured.
  const auto fix_beside_measured = [&](const graph::Dim& d) {
    const std::vector<graph::SymbolId> used = symbols_of(d);
    const auto measured = [&](graph::SymbolId s) {
      return static_cast<std::size_t>(s) < is_measured.size() && is_measured[static_cast<std::size_t>(s)];
    };
    if (std::any_of(used.begin(), used.end(), measured)) fix_symbols(used);
  };
  for (const Buffer& b : program.buffers) {
    fix(b.bytes);
    fix_beside_measured(b.value);
  }
  for (const graph::DimGuard& g : program.conditions) {
    fix_beside_measured(g.left);
    fix_beside_measured(g.right);
  }
  for (const Step& step : program.steps) {
    const std::size_t count = operand_count(step);
    if (count == 0) for_each_dim(step, fix);
    for (std::size_t i = 0; i < count; ++i) {
      const LoopOperand& o = *operand_of(step, i);
      fix_beside_measured(o.offset);
      std::for_each(o.strides.begin(), o.strides.end(), fix);
    }
    if (const auto* loop = std::get_if<LoopStep>(&step)) std::for_each(loop->extents.begin(), loop->extents.end(), fix);
    if (const auto* undo = std::get_if<UndoStep>(&step)) std::for_each(undo->extents.begin(), undo->extents.end(), fix);
    if (const auto* call = std::get_if<LibraryCallStep>(&step))
      for (const graph::Dims& shape : call->shapes) std::for_each(shape.begin(), shape.end(), fix);
    if (const auto* product = std::get_if<MatMulStep>(&step); product && count > 0) {
      for (const graph::Dim* d :
           {&product->m, &product->n, &product->k, &product->summed, &product->next_a, &product->next_b})
        fix(*d);
      std::for_each(product->batch.begin(), product->batch.end(), fix);
    }
  }
  const auto moves = [&](const graph::Dim& d) {
    const std::vector<graph::SymbolId> used = symbols_of(d);
    return std::any_of(used.begin(), used.end(),
                       [&](graph::SymbolId s) { return out.holds(static_cast<std::size_t>(s)); });
  };
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    for (std::size_t k = 0; k < operand_count(program.steps[i]); ++k) {
      const LoopOperand& o = *operand_of(program.steps[i], k);
      if (!o.scratch && moves(o.offset)) out.places.push_back({i, k});
    }
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].kind == BufferKind::DimValue && moves(program.buffers[i].value)) out.buffers.push_back(i);
  for (std::size_t i = 0; i < program.conditions.size(); ++i)
    if (moves(program.conditions[i].left) || moves(program.conditions[i].right)) out.conditions.push_back(i);
  return out;
}

void own_steps(const Movable& what, Bound& bound) {
  for (const Movable::Place& place : what.places)
    if (auto* product = std::get_if<std::shared_ptr<const BoundMatMul>>(&bound.steps[place.step]))
      *product = std::make_shared<const BoundMatMul>(**product);
}

void move_operands(const Program& program, const Movable& what, std::span<const int64_t> symbols, Bound& bound) {
  for (std::size_t s = 0; s < symbols.size(); ++s)
    if (what.holds(s)) bound.symbols[s] = symbols[s];
  try {
    bound.redo = fails(program, what, symbols);
    for (const std::size_t i : what.buffers) bound.dim_values[i] = program.buffers[i].value.evaluate(symbols);
    for (const Movable::Place& place : what.places)
      operand_of(bound.steps[place.step], place.operand).offset =
          operand_of(program.steps[place.step], place.operand)->offset.evaluate(symbols);
  } catch (const graph::DimOverflow&) {
    bound.redo = true;
  }
}

bool is_refused(const Program& program, const Movable& what, std::span<const int64_t> symbols) try {
  return fails(program, what, symbols);
} catch (const graph::DimOverflow&) {
  return true;
}

}  // namespace framejit::runtime
