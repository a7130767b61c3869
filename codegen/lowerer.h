// Lowering, inside: what the functions that lower a graph share (lower_parts.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/lower_terms.h"

namespace framejit::codegen::detail {

using graph::Graph;
using graph::Group;
using graph::Node;
using graph::OpClass;

/// Nodes that one step computes (reductions: one step each, behind it).
struct Part {
  std::vector<ValueId> nodes;
  std::set<ValueId> stored;  // values that later parts or groups, or the caller, read from memory
  Dims shape;
  uint32_t group = 0;
  bool ahead =
      false;  // reductions of what the writes among its nodes will write: these are made by another part, later
};

/// A graph that is being lowered: `run` once, then it is used up.
class Lowerer : public Memory {
 public:
  Lowerer(const Graph& of, const std::vector<Group>& its_groups, const LowerOptions& with)
      : graph(of),
        groups(&its_groups),
        options(with),
        facts(of.shapes()),
        kernels(program, with),
        context{with, program, facts, kernels} {}

  Program run();
  BufferIndex buffer_of(ValueId root) override;

  Dim bytes_of(ValueId v) const { return graph.type(v).size() * Dim(graph::size_of(graph.type(v).dtype)); }
  OpClass cls(ValueId v) const { return graph::def(graph.node(v).op).cls; }
  bool may_flag(ValueId v) const { return detail::may_flag(graph, v); }
  /// The shape that a node is computed over.
  const Dims& shape_of(ValueId v) const;
  bool same_shape(const Dims& a, const Dims& b);
  bool is_scalar_shape(const Dims& shape);
  bool is_param_write(ValueId v) const;
  bool writes_param(const Part& part) const;
  /// An array in which items are replaced, and its write to where the array lies: one step that writes the items there.
  bool is_in_place(const Part& part) const;
  /// Is it known to whom to say what a node has raised?
  bool attributable(ValueId v) const {
    return !may_flag(v) || (!graph.node(v).calls.empty() && cls(v) != OpClass::Reduction);
  }
  /// Complex division and absolute value raise, beside what NumPy's loops do, flags of steps in between.
  bool may_redo(ValueId v) const;
  bool needs_numpy_loop(ValueId v) const;
  /// What becomes of the flags of a part.
  graph::FlagRule rule_of(const Part& part) const;

  const Graph& graph;
  const std::vector<Group>* groups;
  const LowerOptions& options;
  Program program;
  Facts facts;
  KernelPool kernels;
  LowerContext context;
  std::map<ValueId, BufferIndex> buffers;
  std::map<ValueId, uint32_t> result_number;
  std::map<ValueId, std::size_t> last_reader;  // by root: the last part that reads it
  std::vector<Part> parts;
  std::map<const Part*, std::size_t> loop_of;  // by part that is one loop, of no block: its step
  bool needs_undo = false;
  int depth = 0;                  // of blocks
  std::set<ValueId> taken_back;   // writes of items whose step keeps what it overwrites
  std::set<ValueId> written;      // roots
  std::set<BufferIndex> follows;  // pointers to where a value happens to lie; the others are memory to write to
};

}  // namespace framejit::codegen::detail
