// What the passes ask about memory: which roots are written, viewed or seen outside, and which nodes read bytes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

/// Facts about the roots of a graph, by index of the root.
struct MemoryFacts {
  explicit MemoryFacts(const Graph& graph);

  std::vector<int32_t> last_write;  // position (in the order of for_each_node) of the last write; -1: never written
  std::vector<bool> viewed;         // has a view or is written: its bytes have an address
  std::vector<bool> escapes;        // a result shares its bytes
  std::vector<bool> result;         // the value itself (any, not only roots) is a result; what a block gives is one
  std::vector<bool> captured;       // the value decides a branch, or is used in a block further in: it has an address
};

/// Has the graph a write? Most have none.
bool has_writes(const Graph& graph);

/// Does the node set floating-point status flags on some operands?
bool may_set_flags(const Graph& graph, ValueId v);

/// The rules for flags of all nodes that may set any: the caller's alone, another one alone, or several.
enum class FlagRules : uint8_t { Callers, Other, Several };
FlagRules flag_rules(const Graph& graph);

/// Does the node read the bytes of its operands? (A view does not; a write reads its value only.)
bool reads_operand(const Node& node, std::size_t operand);

/// Do no two elements of two values of one root share a byte, however large the arrays are? False if that is not known.
/// Columns `x[..., 0]` and `x[..., 1]` never meet; nor do blocks of which one ends
/// before the other one begins.
bool never_meet(const Type& a, const Type& b);

/// Replaces values everywhere: in operands, roots of views, results. Chains of replacements are followed.
class Replacements {
 public:
  explicit Replacements(const Graph& graph) : to_(graph.value_count(), kNoValue) {}
  void add(ValueId from, ValueId to) { to_[index(from)] = to; }
  ValueId operator()(ValueId v) const {
    while (index(v) < to_.size() && to_[index(v)] != kNoValue) v = to_[index(v)];
    return v;
  }
  /// Renames in one node; true where something changed.
  bool rename(Node& node) const;

 private:
  std::vector<ValueId> to_;
};

/// The memories that one library call reads. Whether two of them are one can be told: BLAS has another product of a
/// matrix and its own transpose, with other bits.
class AliasFacts {
 public:
  explicit AliasFacts(const Graph& graph);
  /// May two values become one, where others have been replaced already?
  bool may_merge(ValueId a, ValueId b, const Replacements& replaced) const;

 private:
  const Graph& graph_;
  std::vector<std::pair<ValueId, ValueId>> pairs_;  // of roots
};

}  // namespace framejit::graph
