// GraphBuilder: appends nodes with their result types. The shape, layout and aliasing rules of operators are here, and
// in mask_operators.h and network_operators.h; dtypes are the caller's (operands of an elementwise operator must agree,
// insert casts first).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/support/expected.h"

namespace framejit::graph {

/// Why an operator does not apply to these operands ("operands could not be broadcast together ..."). The frontend
/// turns it into a break: eager execution raises, with its own words.
struct ShapeError {
  std::string message;
};
using BuildResult = Expected<ValueId, ShapeError>;

inline Unexpected<ShapeError> shape_error(std::string message) { return {ShapeError{std::move(message)}}; }
/// As NumPy writes a shape in its messages: (3,), (3,4), ().
std::string shape_str(std::span<const Dim> shape);

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}
  Graph& graph() { return graph_; }
  void set_location(uint32_t location) { location_ = location; }
  /// For what is appended from now on.
  void set_flag_rule(FlagRule rule) { flag_rule_ = rule; }
  FlagRule flag_rule() const { return flag_rule_; }

  ValueId param(Type type, std::string name);
  ValueId constant(DType dtype, Scalar value);  // 0-d
  ValueId dim_value(const Dim& d);              // 0-d i64: the value of a dimension
  /// Fresh memory that nothing was written to.
  ValueId empty(DType dtype, Dims shape, std::optional<Dims> strides = {});
  /// `value`: 0-d. Fresh memory that is filled with it, in C order if no strides are given.
  ValueId full(ValueId value, Dims shape, std::optional<Dims> strides = {});
  /// 0, 1 .. n-1, in integers or rounded to a float dtype. The frontend adds start and step as NumPy's arange fills.
  ValueId iota(DType dtype, const Dim& n);

  /// Broadcasts; where a symbolic dimension decides whether an axis is broadcast, that is guarded; result layout is
  /// NumPy's order 'K' (axes sorted by |stride| of the operands, negative strides become positive, broadcast-only axes
  /// in C order). `seen`: the values whose strides NumPy's iterator sees in place of `operands`, which is what an
  /// operand was before the cast that promotion puts in; it matters where that had strides of 0.
  BuildResult elementwise(Op op, std::span<const ValueId> operands, std::span<const ValueId> seen = {});
  /// As astype(order='K'): axes sorted by |stride|.
  BuildResult cast(ValueId x, DType dtype);
  /// `axes` sorted, non-negative. The result has those axes removed; layout as NumPy allocates it. An empty reduction
  /// of min or max is a ShapeError.
  BuildResult reduce(Op op, ValueId x, std::vector<int64_t> axes);
  /// keepdims: the view of `reduced`, a reduction of x over `axes`, that has them as axes of length 1, with NumPy's
  /// strides.
  ValueId keep_dims(ValueId reduced, ValueId x, std::span<const int64_t> axes);

  // Views: results share the root of x. (A constant has no bytes to share: the view is one of a copy.)
  ValueId view(ValueId x, Dims shape, Dims strides, Dim offset_from_x);
  /// The same bytes as elements of another dtype, of `offset` bytes behind the operand's.
  ValueId reinterpret(ValueId x, DType dtype, int64_t offset = 0);
  /// Bounds are normalised already (0 <= start, length elements at `step`).
  ValueId slice(ValueId x, int axis, const Dim& start, const Dim& length, int64_t step);
  ValueId select(ValueId x, int axis, const Dim& position);  // drops the axis
  ValueId expand_dims(ValueId x, int axis);                  // as x[None]: stride 0 (np.expand_dims is a reshape)
  ValueId transpose(ValueId x, std::span<const int> permutation);
  BuildResult broadcast_to(ValueId x, Dims shape);
  /// A view where NumPy gives a view, else a C-ordered copy; `shape` has no -1.
  BuildResult reshape(ValueId x, Dims shape);
  /// order: 'C' or 'K'.
  ValueId copy(ValueId x, char order);

  /// Stores `value` (same dtype, broadcastable to dst) into dst. Reads of `value` complete before the first store:
  /// another view of dst's root is copied first. The value of a write has dst's type and is no operand of anything.
  Expected<ValueId, ShapeError> write(ValueId dst, ValueId value);

  /// order: how the axes of the batch lie, 'C' or 'K' as np.matmul leaves them.
  BuildResult matmul(ValueId a, ValueId b, char order = 'C');

  // Control flow. Blocks are filled while they are open (Graph::open).
  ValueId branch(ValueId condition, std::unique_ptr<Block> if_true, std::unique_ptr<Block> if_false);
  /// A value that the loop's body, the open block, begins a round with.
  ValueId carried(Type type);
  ValueId loop(std::vector<ValueId> initial, std::unique_ptr<Block> body);
  /// Result `index` of a branch's blocks, or of a loop's body, not counting its condition.
  ValueId output(ValueId control, int64_t index);
  void expect(ValueId condition);
  /// A dimension that is known when the graph runs: what a 0-d i64 holds then, `most` at most. `hint`: to decide by.
  Dim measure(ValueId count, const Dim& most, std::optional<int64_t> hint = {});

  /// A call of the library function number `index`; the result is fresh, in C order where no strides are given.
  ValueId library_call(int64_t index, std::vector<ValueId> operands, DType dtype, Dims shape,
                       std::optional<Dims> strides = {});

  using Attrs = std::vector<std::pair<AttrKey, AttrValue>>;
  /// For those who know the operator's rules, such as mask_operators.h and network_operators.h.
  ValueId append(Op op, std::vector<ValueId> inputs, Type type, Attrs attrs = {});

 private:
  Graph& graph_;
  uint32_t location_ = 0;
  FlagRule flag_rule_;
};

}  // namespace framejit::graph
