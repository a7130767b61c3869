// Graph: typed SSA over arrays, in program order.
//
//     graph @f(%x: f32[s0, 64], %c: f32[]) {
//       %2 = multiply %x, %c : f32[s0, 64]  # sim.py:14
//       %3 = reduce_sum %2 {axes=[1]} : f32[s0]
//       return %3
//     }
//
// Control flow. `if` runs one of two blocks; `loop` runs its block, then again while its first result is true: the
// other results become the `carried` values of the next round, and may be followed by more that only the last round
// gives. An `output` of either is a fresh value with the bytes that the block's result had. Within a block only memory
// that is made there is written. `expect` ends the run where its operand is false: the interpreter's answer is needed.
//
// Memory. A value is *fresh* (it owns its bytes: results of elementwise operators, copies, fulls), a *param* (it owns
// bytes that the user can see) or a *view* (it shares the bytes of its root, at an offset and with strides of its own).
// Nodes stand in program order, and a node that reads a value reads the bytes as they are at that place: a `write`
// changes what later nodes see through every view of the same root, and nothing may move across it that touches the
// same root. Two params are assumed not to overlap when one of them is written (capture guards it).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/dim.h"
#include "graph/dtype.h"
#include "graph/op.h"
#include "graph/shape_env.h"

namespace framejit::graph {

enum class ValueId : uint32_t {};
inline constexpr ValueId kNoValue{0xffffffffu};
constexpr uint32_t index(ValueId v) { return static_cast<uint32_t>(v); }

/// dtype, shape, and where the elements lie. Strides and offset are in bytes; a 0-d value has empty shape and strides.
struct Type {
  DType dtype = DType::F64;
  Dims shape;
  Dims strides;
  ValueId root = kNoValue;  // for a view: the fresh value or param whose bytes it shares; kNoValue: itself
  Dim offset = 0;           // for a view: of its first element from the root's first element

  int rank() const { return static_cast<int>(shape.size()); }
  bool is_view() const { return root != kNoValue; }
  Dim size() const { return product(shape); }  // elements
};

/// Do two values of the same root (or one of them the root) have the same elements at the same indices?
bool same_place(const Type& a, const Type& b);

/// C-order byte strides of a shape. A shape that is known to be empty has strides 0, as arrays of NumPy 2.4 have; what
/// an older NumPy shows for an empty array is for the one who makes the array object.
Dims c_strides(DType dtype, std::span<const Dim> shape);

/// A scalar of any dtype, as bits (complex: real part in lo, imaginary part in hi). Little endian, zero extended.
struct Scalar {
  uint64_t lo = 0, hi = 0;
  friend bool operator==(const Scalar&, const Scalar&) = default;
};

/// The scalar as an element of an array.
std::array<uint8_t, 16> element_of(DType dtype, const Scalar& value);
/// The reverse.
Scalar scalar_from(DType dtype, const void* element);

/// Where in the user's code a node comes from.
struct Location {
  std::string file;
  int line = 0, column = 0, end_column = 0;
};

/// A call of a ufunc by the user's code, which NumPy names when it warns: the text by `op`, the place by `location` and
/// `origin` (what that indexes is the capture's).
struct Call {
  Op op;
  uint32_t location = 0, origin = 0;
};

enum class AttrKey : uint8_t { Index, Value, Axes, Dim, Name, Window, Most };
using AttrValue = std::variant<int64_t, Scalar, std::vector<int64_t>, Dim, std::string>;

/// How a window goes over the axes of space of an image. As an attribute: groups, then four numbers for each axis.
struct Window {
  static constexpr int64_t kMost = (int64_t{1} << 31) - 1;  // of an axis's numbers: places times strides fit 64 bits
  struct Axis {
    int64_t stride = 1, before = 0, after = 0, dilation = 1;  // before, after: zeros around the image

    /// The number of places of a window of `size` elements, where it fits.
    Dim places(const Dim& image, int64_t size) const {
      return floordiv(image + (Dim(before) + Dim(after) - Dim(dilation) * (Dim(size) - 1) - 1), stride) + Dim(1);
    }
  };
  int64_t groups = 1;  // of channels, each convolved by itself
  std::vector<Axis> axes;

  /// The image with the zeros around it, of which parts are copied: within kMostMemory for every convolution.
  Dims padded(Dims image) const;

  static std::optional<Window> from(const std::vector<int64_t>& numbers);
  std::vector<int64_t> numbers() const;
};

/// Attention's Index: which keys a query sees. The first query the first key, or the last query the last.
enum class Causal : uint8_t { None, FromFirst, FromLast };

/// Where the operands of an attention, or of its gradients, stand among a node's inputs; behind q, k, v and the scale.
struct AttentionOperands {
  std::optional<std::size_t> g, y;  // of the gradients: the cotangent of the result, and the result
  std::optional<std::size_t> mask;
  std::optional<std::size_t> state, probability;  // of weights that are dropped

  AttentionOperands(Op op, std::size_t count);
  static bool fits(Op op, std::size_t count) {
    const std::size_t least = op == Op::Attention ? 4 : 6;
    return least <= count && count <= least + 3;
  }
};

/// What becomes of the floating-point flags (bits of fenv.h) that a node raises: those of `ignored` are dropped, those
/// of `trapped` make the run's answer no good. Of all others the one decides who runs the graph.
struct FlagRule {
  static constexpr int kTrappedShift = 8;
  uint8_t ignored = 0, trapped = 0;

  /// No flag counts: what sets one may be dead.
  static constexpr FlagRule drop() { return {1 | 4 | 8 | 16, 0}; }
  /// What is left of the flags that were raised; the trapped ones shifted.
  unsigned apply(unsigned raised) const {
    return (raised & ~(ignored | unsigned{trapped})) | (raised & trapped) << kTrappedShift;
  }
  explicit operator bool() const { return ignored || trapped; }
  friend bool operator==(const FlagRule&, const FlagRule&) = default;
};

struct Block;

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<std::pair<AttrKey, AttrValue>>
      attrs;  // Index: param number; Value: constant bits; Axes; Dim; Name; Window; Most
  Type type;
  uint32_t location = 0;  // index into Graph::locations
  /// Indices into Graph::calls, ascending: the calls to which the node's floating-point flags belong, one but for what
  /// cse joined. Empty: not known; NumPy has to warn itself.
  std::vector<uint32_t> calls;
  FlagRule flag_rule;                          // of what may raise flags
  std::vector<std::unique_ptr<Block>> blocks;  // bodies of structured control flow
  bool rematerialized = false;  // computes what has been computed before, where it is used, so that it was not kept

  const AttrValue* find(AttrKey key) const;
  /// The attributes that the operator's row demands.
  const std::vector<int64_t>& axes() const;
  const Scalar& value() const;
  const Dim& dim() const;
  const Dim& most() const;
  Window window() const;
  int64_t index() const;
  std::string_view name() const;  // empty where there is none
};

/// A body: its own parameters, nodes and results. Values of enclosing blocks are visible in it.
struct Block {
  std::vector<ValueId>
      params;                  // nodes with Op::Param, of a loop's body Op::Carried; they stand here and not in `nodes`
  std::vector<ValueId> nodes;  // in program order
  std::vector<ValueId> results;
};

class Graph {
 public:
  explicit Graph(std::string name = "f") : name_(std::move(name)) { locations_.emplace_back(); }

  const std::string& name() const { return name_; }
  Block& body() { return body_; }
  const Block& body() const { return body_; }
  ShapeEnv& shapes() { return shapes_; }
  const ShapeEnv& shapes() const { return shapes_; }

  Node& node(ValueId v) { return nodes_[index(v)]; }
  const Node& node(ValueId v) const { return nodes_[index(v)]; }
  const Type& type(ValueId v) const { return node(v).type; }
  std::size_t value_count() const { return nodes_.size(); }

  /// The value that owns the bytes of `v`.
  ValueId root(ValueId v) const { return type(v).is_view() ? type(v).root : v; }

  /// Appends to the innermost open block: a Carried to its params, else to its nodes; a Param always to those of the
  /// graph. Types come from GraphBuilder or from a parser; the verifier checks them. References to nodes do not survive
  /// an append.
  ValueId append(Node node);
  /// Nodes go into `block` until it is closed; the body is open where no other is.
  void open(Block& block) { open_.push_back(&block); }
  void close() { open_.pop_back(); }
  bool is_in_block() const { return !open_.empty(); }

  /// Location 0 is "unknown". The same location twice in a row is one entry.
  uint32_t add_location(Location location);
  const Location& location(uint32_t i) const { return locations_[i]; }

  /// Calls are numbered in the order in which they are made.
  uint32_t add_call(Call call) {
    calls_.push_back(call);
    return static_cast<uint32_t>(calls_.size() - 1);
  }
  const std::vector<Call>& calls() const { return calls_; }

  const std::vector<ValueId>& params() const { return body_.params; }
  const std::vector<ValueId>& results() const { return body_.results; }
  void set_results(std::vector<ValueId> results) { body_.results = std::move(results); }

  /// What is appended from here on is the gradient of what is there, and what comes behind it.
  void begin_gradient() { gradients_.push_back(ValueId{static_cast<uint32_t>(nodes_.size())}); }
  /// Where gradients begin: indices of the body's nodes, ascending.
  std::vector<std::size_t> gradient_starts() const;

  /// The same graph with one result; nothing where there are blocks.
  std::optional<Graph> with_result(ValueId result) const;

  /// For transactions at capture: rollback forgets what was appended after `mark()`. What was changed in place stays.
  /// The same block must be open.
  struct Mark {
    std::size_t nodes, block_nodes, params, gradients;
    ShapeEnv::Mark shapes;
  };
  Mark mark() const;
  void rollback(const Mark& m);

 private:
  Block& current() { return open_.empty() ? body_ : *open_.back(); }

  std::string name_;
  std::vector<Node> nodes_;
  Block body_;
  std::vector<Block*> open_;
  ShapeEnv shapes_;
  std::vector<Location> locations_;
  std::vector<Call> calls_;
  std::vector<ValueId> gradients_;  // the first value of each, ascending
};

/// Calls f with the nodes of a block and of the blocks in it, in program order; a node comes before what its blocks
/// hold.
template <class F>
void for_each_node(const Graph& graph, const Block& block, F&& f) {
  for (ValueId v : block.nodes) {
    f(v);
    for (const std::unique_ptr<Block>& inner : graph.node(v).blocks) for_each_node(graph, *inner, f);
  }
}

/// What a node reads: its operands, and the values from outside that its blocks use, each once.
std::vector<ValueId> used_values(const Graph& graph, ValueId v);
/// The roots from outside that a block writes, each once; those that a node writes, itself or in its blocks.
std::vector<ValueId> written_roots(const Graph& graph, const Block& block);
std::vector<ValueId> written_roots(const Graph& graph, ValueId v);

}  // namespace framejit::graph
