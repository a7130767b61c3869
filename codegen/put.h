// Writes items of an array at places that a mask or indices name (graph::Op::Put): a step that no kernel is made for.
#pragma once

#include "codegen/kernel.h"
#include "graph/graph.h"

namespace framejit::codegen {

/// How many bytes keep what a node overwrites.
graph::Dim saved_bytes_of(const graph::Graph& graph, const graph::Node& put);

/// A LibraryFunction over the operands of the node, memory for what is overwritten (bytes; none: it is not kept) and
/// the result, which may lie where the first operand does. False where an index is out of bounds or the mask chooses
/// another number of places; if what is overwritten is kept, some items may be written then.
bool put(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule);

/// Puts back what `put` over the same arrays has overwritten. It reads the kept bytes only.
void take_back_put(std::span<const StridedArray> arrays);

}  // namespace framejit::codegen
