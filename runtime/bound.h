// A program bound to values of its symbols: every Dim evaluated, axes that turn out to be redundant dropped, memory for
// temporaries laid out. What a run then does is arithmetic on pointers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "codegen/kernel.h"
#include "runtime/attention.h"
#include "runtime/exec_memory.h"
#include "runtime/narrow.h"
#include "runtime/product.h"

namespace framejit::runtime {

/// No stretch of a long row is shorter than this (unless the row is), so that a NumPy loop takes the same path as on
/// the row.
inline constexpr int64_t kShortestTile = 32;

/// Elements of a row of a guarded kernel: few, so that what it keeps stays in the first level of the cache.
inline constexpr int64_t kGuardedRow = 256;

struct BoundOperand {
  codegen::BufferIndex buffer = 0;
  bool scratch = false, index = false;
  int itemsize = 0;
  int64_t offset = 0;  // bytes from the buffer; scratch: from the tile's scratch, for the tile size of the step
};

struct BoundStage {
  codegen::KernelFn kernel = nullptr;  // null: the NumPy loop
  codegen::NumpyLoop numpy_loop;
  std::vector<uint16_t> operands;
  int32_t slot = -1;
};

struct BoundGuarded {
  codegen::GuardedFn kernel = nullptr;  // null: there is none
  std::vector<uint16_t> operands;
  std::vector<codegen::GuardedKernel::Saved> saved;
};

struct BoundJoint {
  std::vector<BoundStage> stages;  // empty: there are none
  std::vector<codegen::GuardedKernel::Saved> saved;
};

struct BoundLoop {
  const codegen::LoopStep* step = nullptr;
  std::vector<int64_t> extents;  // outer to inner
  std::vector<BoundOperand> operands;
  std::vector<int64_t> strides;  // [operand * rank + axis]
  std::vector<BoundStage> stages;
  BoundGuarded guarded;
  BoundJoint joint;
  int64_t size = 0;        // product of the extents
  int64_t outputs = 1;     // product of the axes that are not reduced
  double nanoseconds = 0;  // estimate for the whole step on one thread
  int64_t tile = 0, scratch_bytes = 0;
  int aligned = -1;  // the operand whose tiles begin at cache lines, but for the first of a row; -1: none
  int reduced_first = 0, reduced_last = 0;  // [first, last) of extents is reduced
  std::vector<int64_t> direct;  // where the step is one call of a kernel: the strides that it takes; else empty

  /// Short rows that follow each other in memory, several as one: an operand that is the same for each of them is
  /// repeated in the scratch.
  struct JoinedRows {
    struct Repeated {
      std::size_t operand;
      int64_t scratch;
    };
    int64_t length = 0;  // of a row; 0: they are not joined
    int64_t rest = 0;    // rows behind those of the second axis from the end
    std::vector<Repeated> repeated;
  } joined;

  int rank() const { return static_cast<int>(extents.size()); }
  int64_t stride(std::size_t operand, int axis) const { return strides[operand * extents.size() + axis]; }
};

struct BoundMatMul {
  Product product;  // where `narrowed`, of groups
  std::optional<NarrowOperands> narrowed;
  BoundOperand a, b, c;
  std::optional<BoundLoop> epilogue;  // rank: batch axes, rows, columns; none where tiles do what it does
  std::optional<BoundLoop> joined;    // ... for rectangles of whole rows, where these are short
  std::optional<BoundLoop> producer;  // of A, where A is computed part by part; rank: batch axes, rows, k
  bool joined_rows = false;           // ... rows of which follow each other in memory for all that it reads
  static constexpr int64_t kMostRepeated = 16 << 10;  // bytes of that, on the stack
  int64_t groups = 1;                                 // of rows, which to the epilogue follow each other
  int column_axes = 1;                                // of the epilogue; 0: C is one column
  std::optional<BoundOperand> bias;                   // that tiles add
};

struct BoundAttention {
  Attention attention;
  BoundOperand q, k, v, mask, g, y, scale, probability, state, out;
};

struct BoundUndo {
  BoundOperand source;
  std::vector<int64_t> extents, strides;  // outer to inner; the innermost run is copied at once where it is contiguous
  codegen::BufferIndex saved;
};

struct BoundLibraryCall {
  codegen::LibraryFunction callee;
  std::vector<BoundOperand> operands;
  std::vector<graph::DType> dtypes;
  std::vector<std::vector<int64_t>> shapes, strides;
  std::vector<bool> last_uses;  // temporaries that no other step names
};

struct BoundFlow {
  const codegen::FlowStep* step = nullptr;
  int64_t offset = 0;
};

/// A step that another one does as it goes: MatMulStep::producer.
struct BoundNothing {};

/// Attention is many times as large as the others, and seldom there.
/// The large ones are held by pointers: a plan may have thousands of steps.
using BoundStep = std::variant<BoundLoop, std::shared_ptr<const BoundMatMul>, std::shared_ptr<const BoundAttention>,
                               BoundUndo, BoundLibraryCall, BoundFlow, BoundNothing>;
inline const BoundMatMul* product_of(const BoundStep& step) {
  const auto* product = std::get_if<std::shared_ptr<const BoundMatMul>>(&step);
  return product ? product->get() : nullptr;
}

/// Steps that are run row block by row block (band.h).
struct Band {
  /// A temporary of these steps alone: memory for the rows of a block.
  struct Temp {
    codegen::BufferIndex buffer;
    int64_t pitch, low, offset;  // from row to row; of the first byte that row 0 touches; in the band's memory
  };
  std::size_t first = 0, last = 0;
  int64_t rows = 0, block = 0;
  int64_t bytes = 0, scratch_bytes = 0;  // for the temporaries, and for the step that takes most
  std::vector<Temp> temps;
  double nanoseconds = 0;
  bool parallel = true;

  /// A step of a staggered band (band.h): it has `rows` rows and runs `lag` rows behind the front.
  struct Follower {
    int64_t rows, lag;
  };
  /// A temporary of these steps alone: memory for the bytes that are in use while the front is at row f, from
  /// `low` + f * `pitch` to `high` + f * `pitch`, but none in front of `first`.
  struct Window {
    codegen::BufferIndex buffer;
    int64_t pitch, low, high, first;
    int64_t capacity, offset;  // in the band's memory
  };
  std::vector<Follower> followers;  // one for each step; none: its rows need no others
  std::vector<Window> windows;
};

/// Two products of one matrix that are run together (product_pair.h).
struct ProductPair {
  std::size_t first = 0, second = 0;  // steps
  int64_t parts = 1, block = 0;       // of the rows of the matrix; rows of it that stay in the cache
  int64_t partial_bytes = 0;          // sums over all parts but the first one
  int64_t partials = 0;               // where they lie in the memory of the temporaries
};

/// Of the symbols: those that are measured lie somewhere in between.
struct SymbolRanges {
  std::vector<int64_t> least, most;

  SymbolRanges() = default;
  SymbolRanges(const codegen::Program& program, std::span<const int64_t> symbols);
  /// No more than that; a number that no memory has where it cannot be told.
  int64_t bytes(const graph::Dim& d) const { return std::min(d.at_most(least, most), graph::kMostMemory); }
};

struct Bound {
  std::vector<int64_t> symbols;
  std::vector<int64_t> measured;  // by Program::measured: what the steps that go by it are bound to, or kUnknown
  SymbolRanges ranges;
  std::vector<BoundStep> steps;
  std::vector<int64_t> temp_offsets;  // by buffer; -1 where it is no Temp
  int64_t temp_bytes = 0;             // of all Temps, and behind them the reserves of scratch
  std::vector<double> costs;          // by step, in nanoseconds; 0 for what is not a kernel
  std::vector<int64_t> reserves;      // by step: where its scratch lies in that memory
  std::vector<std::size_t>
      wave_end;             // by step: behind the last of those that it stands among and may run beside, or of its band
  std::vector<Band> bands;  // in the order of their steps
  std::vector<ProductPair> pairs;   // in the order of their first steps
  std::vector<int64_t> dim_values;  // by buffer
  double nanoseconds = 0;
  bool redo = false;          // a condition does not hold: NumPy's own answer is needed
  std::size_t last_undo = 0;  // steps before this one only save
};

/// The value of a symbol that is to be measured still, or that differs from run to run (Movable).
inline constexpr int64_t kUnknown = INT64_MIN;

/// f(buffer, is it written) for each buffer that the step names
void for_each_buffer(const codegen::Step& step, const std::function<void(codegen::BufferIndex, bool)>& f);

/// ... and for each one that step number `i` names as it is bound.
void for_each_buffer(const codegen::Program& program, const Bound& bound, std::size_t i,
                     const std::function<void(codegen::BufferIndex, bool)>& f);

/// f(dim) for each dimension that binding the step evaluates.
void for_each_dim(const codegen::Step& step, const std::function<void(const graph::Dim&)>& f);

/// `beside`, `block_bytes`: PlanOptions. Of `symbols`, what is measured is kUnknown: only the steps up to the first
/// Measure are of use then. What moves is kUnknown, and has a value that it may have in `values`.
Bound bind(const codegen::Program& program, const CodeBlock& code, std::span<const int64_t> symbols,
           std::span<const int64_t> values, bool beside, int64_t block_bytes);

/// What goes by a measured symbol, by number.
struct Dependents {
  std::vector<std::size_t> steps, buffers, conditions;
};
Dependents dependents_of(const codegen::Program& program, graph::SymbolId symbol);

/// Symbols that say where operands begin, and nothing else, such as the counter of a loop around `a[i] + b[i]`, and
/// what is evaluated from them. A program that is bound without their values is bound for all of them: move_operands()
/// gives it those of a run.
struct Movable {
  struct Place {
    std::size_t step, operand;
  };
  std::vector<bool> fixed;  // by symbol: it is none of these; those beyond the end are
  std::vector<Place> places;
  std::vector<std::size_t> buffers, conditions;

  bool holds(std::size_t symbol) const { return symbol >= fixed.size() || !fixed[symbol]; }
};
Movable movable_of(const codegen::Program& program);

/// `bound`: with no step that another one shares (own_steps). bound.redo is what the conditions give that go by these
/// symbols.
void move_operands(const codegen::Program& program, const Movable& what, std::span<const int64_t> symbols,
                   Bound& bound);
/// Lets the copy of a bound program have the steps that move_operands() changes for itself.
void own_steps(const Movable& what, Bound& bound);
/// Would move_operands() set bound.redo?
bool is_refused(const codegen::Program& program, const Movable& what, std::span<const int64_t> symbols);

/// Binds anew what goes by a symbol of which bound.symbols has another value now. Temporaries stay where they are.
/// bound.redo is what that gives.
void rebind(const codegen::Program& program, const CodeBlock& code, const Dependents& what, Bound& bound);

}  // namespace framejit::runtime
