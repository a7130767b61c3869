// Reverse-mode derivatives: appends to a graph what gives the cotangents of some of its values from those of others.
// What is appended is made of the operators of the table, so it can be differentiated again.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace framejit::graph {

/// Why there is no derivative, for the user.
struct NoGradient {
  std::string why;
  ValueId node = kNoValue;  // where, if it is a node
};

/// A library call, or an operator that the library has a rule for, whose cotangent is known, and its operands and
/// result as they were when it ran.
struct LibraryBackward {
  ValueId call, cotangent;
  std::vector<bool> needed;
  std::function<ValueId(std::size_t)> operand;
  std::function<ValueId()> result;
};

/// Facts about library calls that the graph does not have.
struct LibraryGradients {
  /// The operator of the table that a call computes, if it is one: its row counts.
  std::function<std::optional<Op>(ValueId call)> same_as;
  /// The cotangents of the operands, in their shapes and dtypes; kNoValue where there is none.
  std::function<Expected<std::vector<ValueId>, NoGradient>(const LibraryBackward&)> rule;
};

struct GradientRequest {
  std::size_t first = 0;  // index in the body's nodes of the first one that counts: the values are constants before it
  std::vector<ValueId> wrt;  // a view here has a cotangent of its own, apart from that of what it is a view of
  std::vector<ValueId> outputs;
  std::vector<ValueId> seeds;  // their cotangents: of their shapes and dtypes
  std::vector<ValueId> stops;  // values that count as constants
  LibraryGradients library;
  bool o1 = false;        // operators may be joined that sum in another order
  bool integers = false;  // integers and bools vary too: what reaches them is cast to their dtype
};

struct Gradients {
  std::vector<ValueId> values;    // of `wrt`: fresh values, each with memory of its own
  std::vector<bool> reached;      // of `wrt`: false if nothing flows to it, and its value is zeros
  std::vector<ValueId> inserted;  // nodes put between those that were there: values that are overwritten later
};

/// All nodes of the body from `first` on count. Where it fails, nodes may have been appended that nothing uses.
Expected<Gradients, NoGradient> append_gradients(GraphBuilder& builder, const GradientRequest& request);

/// The operator's row: why it has no derivative, or nothing where it has one.
std::string_view why_no_gradient(Op op);

}  // namespace framejit::graph
