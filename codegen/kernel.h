// What code generation hands to the run time: machine code as bytes, and the program that strings kernels together.
// Assembler-free and Python-free, so that runtime/ may include it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/dim.h"
#include "graph/dtype.h"
#include "graph/graph.h"
#include "graph/shape_env.h"

namespace framejit::codegen {

/// max(x, 0) by the order of its operands: of equal zeros the second one is taken. A NaN stays.
enum class Relu : uint8_t { None, ZeroFirst, ZeroSecond };

/// Arguments of a part of a matrix-product core, which reads those named for it; distances in bytes. Nothing beyond the
/// operands' elements is read or written, but for copies and transpositions, which write whole vectors.
struct MatMulArgs {
  const char* a;        // tile, dots: first element of A; copy, transpose: the source
  const char* b;        // tile: first row of B; dots: first column of B, contiguous along k
  char* c;              // first element of C; copy, transpose: the destination
  int64_t a_row;        // between rows of A, or of a transposed source
  int64_t a_k;          // between two k of A, or of a copied source; weight_gradient: between lines of A
  int64_t b_k;          // tile: between rows of B; dots: between columns of B
  int64_t c_row;        // between rows of C, or of the destination
  int64_t k;            // depth; copy, transpose: rows of the destination
  int64_t live;         // masked tile, copy: live lanes of the last vector; transpose: rows; vector_matrix: columns
  int64_t panels;       // tile: tiles next to each other, at least one; indirect_tile: below each other; else lines
  int64_t b_panel;      // tile: from a panel of B to the next; dots: between columns of C; else between lines of B
  int64_t add;          // tile, weight_gradient: C += product instead of C = product
  int64_t b_ahead = 0;  // tile, streamed, vector_matrix: how far ahead B is prefetched; copy, transpose: the source
  int64_t b_last = 0;   // tile: rows at the end of B that prefetch nothing: the memory after them may not exist
  /// indirect_tile, line_convolution: for each k, the distance from `a` or `b`; weight_gradient: for each column of C,
  /// how far A is moved.
  const int64_t* reach;
  int64_t c_panel;             // line_convolution: from a line of C to the next; weight_gradient: between columns of C
  const char* bias = nullptr;  // tile: a row that is added to each of C's, after the product; null: none
  int64_t relu = 0;            // tile: a Relu, of what C becomes
};

/// Offsets of the parts stand, as uint32, at the begin of the code.
using MatMulFn = void (*)(const MatMulArgs*);

/// Fixed by element size and instruction set:
///   tile              C[rows, vectors] (+)= A[rows, k] B[k, vectors]: for each element one chain of fused
///                     multiply-adds along k, the same in every part; then `bias` and `relu`, in registers; `masked`:
///                     the last vector has `live` lanes
///   copy              rows of `vectors` vectors; idle lanes of the last one become copies of a live one
///   transpose         `live` <= lanes rows, contiguous along k, to rows of a vector; idle lanes are copies of the last
///                     row
///   dots              C[rows, columns] = dot products along contiguous k: one chain for each lane, then their sum
///   vector_matrix     C[1, live] = a row A[1, k] times B[k, live], k at most kRowDepth; `add`: the chain starts from C
///   streamed          the tile of so many rows and streamed_vectors(rows), which prefetches B to the second-level
///   cache
struct MatMulCore {
  int item = 4;    // bytes of an element
  int lanes = 16;  // of a vector
  bool avx512 = true;

  static constexpr int kMostRows = 14, kMostDots = 8, kMostDotColumns = 4;
  static constexpr int kHalf = 0;  // in place of a number of vectors: half a vector, in registers of that size
  static constexpr int kCopy = 5 * kMostRows * 2, kTranspose = kCopy + 4, kDots = kTranspose + 1;
  static constexpr int kRow = kDots + kMostDots * kMostDotColumns, kRowDepth = 8, kNarrowRows = 6;
  static constexpr int kStreamed = kRow + kRowDepth, kParts = kStreamed + kMostRows - 1;

  MatMulCore() = default;
  MatMulCore(graph::DType dtype, bool has_avx512)
      : item(graph::size_of(dtype)), lanes((has_avx512 ? 64 : 32) / item), avx512(has_avx512) {}

  int vector_bytes() const { return item * lanes; }
  /// Rows of the largest tile of so many vectors (kHalf, 1, 2, 4 or 8): accumulators, vectors of B and broadcast
  /// elements of A share the registers.
  int most_rows(int vectors) const {
    if (vectors >= 8) return avx512 ? 3 : 1;
    if (vectors >= 4) return avx512 ? 6 : 3;
    return avx512 ? kMostRows : vectors == 2 ? 6 : 8;
  }
  bool has_tile(int rows, int vectors, bool masked) const {
    return rows <= most_rows(vectors) && (!masked || vectors <= (avx512 ? 2 : 1));
  }
  int most_streamed_rows() const { return most_rows(1); }
  int streamed_vectors(int rows) const { return rows <= most_rows(4) ? 4 : rows <= most_rows(2) ? 2 : 1; }
  int most_dot_columns(int rows) const { return rows > 4 ? 1 : avx512 ? 4 : 2; }

  static constexpr int tile(int rows, int vectors, bool masked) {
    const int width = vectors == 8 ? 4 : vectors == 4 ? 3 : vectors;
    return (width * kMostRows + rows - 1) * 2 + masked;
  }
  static constexpr int copy(int vectors, bool masked) { return kCopy + (vectors - 1) * 2 + masked; }
  static constexpr int dots(int rows, int columns) { return kDots + (rows - 1) * kMostDotColumns + columns - 1; }
  static constexpr int vector_matrix(int depth) { return kRow + depth - 1; }
  static constexpr int streamed(int rows) { return kStreamed + rows - 2; }  // two at least

  /// A part of the code at `entry`.
  template <class Fn = MatMulFn>
  static Fn part(const void* entry, int number) {
    const auto* offsets = static_cast<const uint32_t*>(entry);
    return reinterpret_cast<Fn>(reinterpret_cast<uintptr_t>(entry) + offsets[number]);
  }
};

/// The parts that follow those of a MatMulCore in its code, for convolutions of floats:
///   indirect_tile     a tile whose elements of A are found by a table, for each k the same distance from those of
///                     the first k
///   line_convolution  C[rows, columns of `vectors` vectors] = A[rows, k] B, line after line; rows of B are found by
///                     a table. Whole vectors of B are read, the last one of C has `live` lanes
///   weight_gradient   C[rows, columns] (+)= sums, over lines of k elements, of B times A, which is moved by `a_row`
///                     for each row and by a table for each column: one chain for each lane, then their sum
///   depthwise         weight_gradient for one row of A, the weights of one window, and several lines of C at once: a
///                     vector of B is read once for all of them. `a_k`: between lines of the window in A; `k`: its
///                     columns; `a_row`, `b_k`: in B, from a column to the next and from a line to the next
struct ConvolutionCore {
  static constexpr int kLineRows = 4, kLineVectors = 8, kGradientRows = 4, kGradientColumns = 5, kDepthwiseVectors = 4;
  static constexpr int kDepthwiseLines[] = {4, 2}, kDepthwiseWindows[] = {3, 5};
  static constexpr int kIndirect = MatMulCore::kParts, kLineConvolution = kIndirect + 2 * MatMulCore::kMostRows;
  static constexpr int kWeightGradient = kLineConvolution + kLineRows * kLineVectors;
  static constexpr int kDepthwise = kWeightGradient + kGradientRows * kGradientColumns;
  static constexpr int kParts = kDepthwise + 4 * kDepthwiseVectors;

  /// The most rows that an indirect_tile of one or two vectors can have.
  static int most_indirect_rows(const MatMulCore& core, int vectors) {
    return core.avx512 ? MatMulCore::kMostRows : vectors == 1 ? 12 : 6;
  }
  /// Accumulators, an element of A for each row and, unless it is an operand from memory, a vector of B.
  static int most_line_vectors(const MatMulCore& core, int rows) {
    return std::min(kLineVectors, rows == 1 ? kLineVectors : ((core.avx512 ? 31 : 15) - rows) / rows);
  }
  static int most_depthwise_vectors(const MatMulCore& core, int lines) {
    return core.avx512 || lines == 2 ? kDepthwiseVectors : 2;
  }
  /// As many accumulators as AVX2 has room for.
  static constexpr int most_gradient_rows(int columns) { return std::min(kGradientRows, 12 / columns); }

  static constexpr int indirect_tile(int rows, int vectors) { return kIndirect + (rows - 1) * 2 + vectors - 1; }
  static constexpr int line_convolution(int rows, int vectors) {
    return kLineConvolution + (rows - 1) * kLineVectors + vectors - 1;
  }
  /// Of kDepthwiseWindows lines of a window, kDepthwiseLines lines of C.
  static constexpr int depthwise(int window, int lines, int vectors) {
    return kDepthwise + ((window == 5) * 2 + (lines == 2)) * kDepthwiseVectors + vectors - 1;
  }
  static constexpr int weight_gradient(int rows, int columns) {
    return kWeightGradient + (rows - 1) * kGradientColumns + columns - 1;
  }
};

/// The registers of AMX, for narrow elements in groups of 32 bits (NarrowProduct); arguments are MatMulArgs:
///   configure  the registers take the Shape at `a`; before the first product of a thread
///   release    they are empty again, and no thread switch has to carry them
///   product    C[rows, columns] (+)= A[rows, k] B[k, columns], by `rows` x `columns` registers of C; `k` is a multiple
///              of kSide. Rows of A and C, and those of B, `b_k` apart, are contiguous.
struct AmxCore {
  static constexpr int kSide = 16, kRowBytes = 64;  // rows of a register, and its groups; bytes of these
  static constexpr int kConfigure = 0, kRelease = 1, kProduct = 2, kParts = kProduct + 4;
  static constexpr int product(int rows, int columns) { return kProduct + 2 * (rows - 1) + columns - 1; }

  // Numbers of the registers.
  static constexpr int c(int row, int column) { return 2 * row + column; }
  static constexpr int a(int row) { return 4 + row; }
  static constexpr int b(int column) { return 6 + column; }

  /// As LDTILECFG reads it.
  struct alignas(64) Shape {
    uint8_t palette = 1, start_row = 0, reserved[14]{};
    uint16_t row_bytes[16]{};
    uint8_t rows[16]{};

    /// For `rows` x `columns` elements of C, 1 to 2 kSide of either.
    static Shape of(int64_t rows, int64_t columns) {
      Shape s;
      const auto set = [&](int number, int64_t height, int64_t groups) {
        if (height <= 0 || groups <= 0) return;
        s.rows[number] = static_cast<uint8_t>(std::min<int64_t>(height, kSide));
        s.row_bytes[number] = static_cast<uint16_t>(4 * std::min<int64_t>(groups, kSide));
      };
      for (int i = 0; i < 2; ++i) {
        set(a(i), rows - i * kSide, kSide);
        set(b(i), kSide, columns - i * kSide);
        for (int j = 0; j < 2; ++j) set(c(i, j), rows - i * kSide, columns - j * kSide);
      }
      return s;
    }
  };
};
static_assert(sizeof(AmxCore::Shape) == 64);

/// Arguments of the parts of a SoftmaxCore, for float32.
struct SoftmaxArgs {
  float* row;
  const float* other;   // softmax: added to the row's elements, or null; merge: added to the row
  int64_t live, width;  // softmax: elements that count; elements of the row
  float scale;          // softmax: of the row's elements, before `other`; gradient
  float largest, sum;   // softmax, in and out: of the blocks so far; divide, gradient: `sum`
  float decay;          // softmax, out; merge: what the sums of earlier blocks are multiplied by; gradient
  float* towards;       // gradient: the cotangents of the weights
};
using SoftmaxFn = void (*)(SoftmaxArgs*);

/// A softmax that sees a row block by block:
///   softmax  live elements become exp(scale * element + other - largest), the others 0
///   merge    row = row * decay + other
///   divide   row /= sum
///   gradient row *= decay; towards = (towards - sum) * row * scale
struct SoftmaxCore {
  static constexpr int kSoftmax = 0, kMerge = 1, kDivide = 2, kGradient = 3, kParts = 4;
  static SoftmaxFn part(const void* entry, int number) { return MatMulCore::part<SoftmaxFn>(entry, number); }
};

/// Machine code of an inner kernel. No calls out, no stack unwinding, leaves MXCSR's control bits alone (flags
/// accumulate).
///   ptrs[i]     first element of operand i
///   strides     [2*i] inner, [2*i+1] outer stride of operand i, in bytes
/// Idle lanes of masked tails raise no flags. Fold kernels of Pairwise steps at O0: see Fold::PairwiseLeaf
/// (loop_nest.h).
using KernelFn = void (*)(char* const* ptrs, const int64_t* strides, int64_t n_inner, int64_t n_outer);

/// A kernel that looks at MXCSR behind each outer row, and stops where one of kGuardedFlags is set: how many rows are
/// left then, the one at hand, which is written, among them. 0: none raised any. Rows are not empty. With
/// LoopNest::guards_together it looks behind so many rows that they have kGuardedElements or more; all of these are
/// left.
using GuardedFn = int64_t (*)(char* const* ptrs, const int64_t* strides, int64_t n_inner, int64_t n_outer);
inline constexpr unsigned kGuardedFlags = 0x1d;    // all but denormal and inexact
inline constexpr int64_t kGuardedElements = 1024;  // to look takes as long as to compute some dozens

/// An inner loop of NumPy's, with its signature: steps in bytes. `data` is what the loop was registered with. Needs no
/// GIL.
struct NumpyLoop {
  void (*function)(char** args, const intptr_t* dimensions, const intptr_t* steps, void* data) = nullptr;
  void* data = nullptr;
  explicit operator bool() const { return function != nullptr; }
};

/// An operand of a library call: lengths and byte strides.
struct StridedArray {
  char* data;
  graph::DType dtype;
  std::span<const int64_t> shape, strides;
  bool is_last_use = false;  // nothing reads the memory after the call, which may write there
};

/// A pure function over arrays: reads all arrays but the last, fills that one. False: its answer is none that a graph
/// can hold, the run ends in RunStatus::Bailout. Called on the thread that runs the plan.
struct LibraryFunction {
  bool (*function)(void* context, std::span<const StridedArray> arrays, graph::FlagRule rule) = nullptr;
  void* context = nullptr;
  const char* name = nullptr;  // in listings; null: that of a call
  /// Takes back what it has written into a param, with the same arrays, of which only the written ones and the one
  /// before are read; null: it writes into none.
  void (*take_back)(std::span<const StridedArray> arrays) = nullptr;
};

/// Position-independent bytes.
struct KernelCode {
  /// Eight of the bytes are an address of this process. In a store it is a number: a place in a list that the graph
  /// gives, which the code was made from.
  struct Address {
    uint32_t at, number;
  };
  std::string name;
  std::vector<uint8_t> bytes;
  std::string listing;  // assembly text, only where asked for
  std::vector<Address> addresses;

  /// Sets the numbers. False if the list does not have all addresses.
  bool number(std::span<const void* const> list) {
    for (Address& address : addresses) {
      const void* held;
      std::memcpy(&held, bytes.data() + address.at, sizeof held);
      const auto found = std::find(list.begin(), list.end(), held);
      if (found == list.end()) return false;
      address.number = static_cast<uint32_t>(found - list.begin());
    }
    return true;
  }
  /// Puts in the addresses of this process. False if the code and the list do not fit.
  bool place(std::span<const void* const> list) {
    for (const Address& address : addresses) {
      if (address.number >= list.size() || bytes.size() < sizeof(void*) || address.at > bytes.size() - sizeof(void*))
        return false;
      std::memcpy(bytes.data() + address.at, &list[address.number], sizeof(void*));
    }
    return true;
  }
};

/// Keeps machine code from one process to the next, by a key that says all that the code depends on, except the
/// processor and this build.
class KernelStore {
 public:
  virtual ~KernelStore() = default;
  /// Leaves `out` as it is if nothing is found.
  virtual bool find(std::string_view key, KernelCode& out) = 0;
  /// Code that cannot be kept is dropped.
  virtual void add(std::string_view key, const KernelCode& code) = 0;
};

using KernelIndex = uint32_t;
using BufferIndex = uint32_t;

enum class BufferKind : uint8_t {
  Param,     // memory of the caller: `param` says which graph param
  Result,    // fresh memory that the caller allocates and keeps: `result` says which root (Program::result_roots)
  Temp,      // memory that the plan owns; lives from its first to its last step
  Pointer,   // no memory of its own: lies where a FlowStep says
  Literal,   // constant bytes inside the program
  DimValue,  // an i64 that holds the value of `value` for the symbols of the run
};

struct Buffer {
  BufferKind kind;
  uint32_t number = 0;   // Param: graph param; Result: index into Program::results_roots
  graph::Dim bytes = 0;  // Result, Temp
  std::vector<uint8_t> literal;
  graph::Dim value = 0;  // DimValue
};

/// An operand of a loop step: byte offset of the first element, byte strides per loop axis (outer to inner).
struct LoopOperand {
  BufferIndex buffer = 0;
  bool scratch = false;  // tile-local: `buffer` is the scratch slot, element size in `dtype`; strides are of the tile
  graph::DType dtype;
  graph::Dim offset = 0;
  graph::Dims strides;
  bool written = false;
  /// An i64 cell of the run time's own in place of a buffer: the index, along the innermost axis, of the first element
  /// that a kernel is given.
  bool index = false;
  /// Read by a NumPy loop: a run in which one of its strides is negative ends in RunStatus::Bailout.
  bool nonnegative = false;
};

/// One stage over a tile: a kernel, or a NumPy loop over one output and its inputs (inputs first, as NumPy orders
/// them).
struct Stage {
  std::variant<KernelIndex, NumpyLoop> code;
  std::vector<uint16_t> operands;        // into LoopStep::operands, in the order that the kernel or loop expects
  std::optional<KernelIndex> streaming;  // the same kernel with non-temporal stores: see LoopStep::streaming_bytes
  int32_t slot = -1;                     // into Program::flag_slots: whose flags the stage sets, and no others
};

/// All stages of a step as one kernel. It keeps what it overwrites of a row, so that a row whose flags have to be told
/// apart can be put back and run stage by stage. If it overwrites nothing that it reads, it looks at the flags of
/// several rows together (LoopNest::guards_together).
struct GuardedKernel {
  struct Saved {
    uint16_t operand, scratch;  // into LoopStep::operands
  };
  KernelIndex kernel;  // a GuardedFn
  std::vector<uint16_t> operands;
  std::vector<Saved> saved;
};

/// The stages of a step without owners of flags, so that each is as much of the step as lies between two NumPy loops.
/// They keep what they overwrite of a tile, so that a tile that raised flags can be put back and run in the step's own
/// stages.
struct JointStages {
  std::vector<Stage> stages;
  std::vector<GuardedKernel::Saved> saved;
};

enum class ReduceKind : uint8_t { None, Pairwise, Rows, AnyOrder, LeftFold };

/// A rectangular domain. Axes are ordered outer to inner and coalesced. With scratch operands the two innermost axes
/// are cut into tiles of at most `tile` elements: whole rows, or (long rows) stretches of one row that are multiples of
/// 64 elements, the last one not shorter than 32. A tile's scratch is contiguous.
///
/// Reductions: the last stage holds the fold kernel. `output` has stride 0 on reduced axes and, but for Pairwise, is
/// set to `identity` before. Reduced axes are the innermost `reduced_axes` ones; for Rows they stand just outside the
/// innermost axis, which is not reduced. Pairwise: the innermost `run_axes` axes are one run, whose linear index
/// NumPy's recursion splits; runs, and their cuts, are added to a start value of +0.0 one after the other. With
/// run_axes > 1 all that the fold kernel and the NumPy loops read is scratch, or the same for the whole run.
struct LoopStep {
  /// Room for what a group of the fuser reads and writes, and for the scratch of stages of one call each.
  static constexpr std::size_t kMostOperands = 128;

  std::string name;
  uint32_t group = 0;   // of the fusion, for reports
  graph::Dims extents;  // outer to inner; empty: one element
  std::vector<LoopOperand> operands;
  std::vector<Stage> stages;             // run in order for each tile
  std::optional<GuardedKernel> guarded;  // does the same as the stages
  JointStages joint;                     // do the same as the stages; empty where there are none
  uint32_t scratch_slots = 0;
  int64_t tile = 0;             // elements; 0 where there is no scratch
  bool parallel = true;         // axes that are not reduced may be split between threads
  double cost = 1;              // estimated nanoseconds per element, on one thread, in cache
  int64_t streaming_bytes = 0;  // where the step touches as much as this, streaming kernels are taken

  ReduceKind reduce = ReduceKind::None;
  uint32_t reduced_axes = 0;
  uint32_t run_axes = 1;
  int64_t run_cut = 0;  // Pairwise: cut a run every so many elements (0: never), combined by a left fold
  uint16_t output = 0;  // the operand that is reduced into
  graph::Op combine = graph::Op::Add;
  /// Pairwise: of the fold kernel's scalar; f32 for an f16 output, which is rounded once per run.
  graph::DType accumulator = graph::DType::F64;
  /// Pairwise, at O1: the fold kernel is a Fold::Blocks for runs of up to so many elements; longer ones are split as
  /// NumPy splits them. 0: it is NumPy's leaf.
  int64_t longest_run = 0;
  graph::Scalar identity{};
  bool redo_zero_or_nan = false;   // a result that is a zero or a NaN is left to NumPy: RunStatus::Bailout
  bool small_domain_redo = false;  // a domain of one element is left to NumPy (loops over float16)
};

/// B of a convolution: a row for each channel and place of the window, a column for each place of the result, elements
/// of an image [channel, ...] or, around it, zeros. By axis of space, outer to inner; axes that an image lacks have
/// length 1.
struct Windows {
  static constexpr int kAxes = 3;
  struct Axis {
    graph::Dim image, result;  // lengths
    graph::Dim pitch;          // of the image, in bytes
    int64_t window = 1, stride = 1, dilation = 1, before = 0;
  };
  Axis axes[kAxes];
  graph::Dim channel;  // from one to the next, in bytes
  /// The innermost batch axis, where there is more than one; to the epilogue they are joined with the rows.
  int64_t groups = 1;
  /// B transposed: a row for each place of the result, a column for each place of the window and channel, channels
  /// innermost.
  bool transposed = false;
};

/// What tiles of floats do before they store: C = relu(C + bias).
struct TileEpilogue {
  std::optional<LoopOperand> bias;  // contiguous along columns, the same for all rows
  Relu relu = Relu::None;
};

/// C[batch, m, n] = A[batch, m, k] B[batch, k, n].
struct MatMulStep {
  std::string name;
  uint32_t group = 0;
  graph::DType dtype;
  KernelIndex kernel = 0;
  /// A core of groups, which large products may take: operands are rounded to bfloat16, or hold integers of `dtype`
  /// only; sums stay of 32 bits.
  std::optional<KernelIndex> narrow;
  bool in_amx = false;  // ... and it is a AmxCore
  MatMulCore core;
  int64_t l2_bytes = 0;
  LoopOperand a, b, c;  // strides [batch..., row, column], 0 where an operand is broadcast; columns of C are contiguous
  graph::Dims batch;
  graph::Dim m, n, k;
  std::optional<Windows> windows;  // a convolution: B's row and column strides are nothing
  bool winograd = false;           // ... which may be made of sums and differences of elements, with fewer products
  bool constant_b = false;         // B is memory of the caller that never changes: its panels may be kept
  /// C is the sum of so many products; bytes from an A and a B to the next.
  graph::Dim summed = 1, next_a = 0, next_b = 0;
  /// One kernel over [batch..., m, n], no n of 1 (a convolution: the result's own axes), for each rectangle of C when
  /// done; may write there.
  std::optional<LoopStep> epilogue;
  std::optional<TileEpilogue> in_registers;  // does the same as `epilogue`, where the product is made of tiles
  /// What step number `producer_step` computes, for this product alone: all of A. The same as one kernel over
  /// [batch..., m, k], which may be run on rectangles of A when they are wanted, into memory of their own; then A lies
  /// nowhere as a whole, and that step has nothing to do.
  std::optional<LoopStep> producer;
  uint32_t producer_step = 0;
};

/// Saves the bytes of an operand into a Temp before the steps that overwrite it, so that they can be put back.
struct UndoStep {
  LoopOperand source;  // strides over `extents`
  graph::Dims extents;
  BufferIndex saved;  // contiguous
};

/// out = softmax(scale * q k^T + mask) v for each batch and head; strides [batch, head, row, column], columns of the
/// mask and of the result are contiguous or, of the mask, broadcast. Weights are dropped with a probability by the
/// numbers that a state gives (graph/random.h), where there is one. With the cotangent `g` of its result `y`: out is
/// graph::Op::AttentionGradients.
struct AttentionStep {
  std::string name;
  uint32_t group = 0;
  KernelIndex product = 0, softmax = 0;
  MatMulCore core;
  int64_t l2_bytes = 0;
  LoopOperand q, k, v, scale, out;
  std::optional<LoopOperand> mask, g, y, probability, state;
  graph::Dim batch, heads, key_heads, queries, keys, depth, width;
  /// A query sees keys up to its own number plus `ahead` only.
  bool causal = false;
  graph::Dim ahead = 0;

  std::array<const std::optional<LoopOperand>*, 5> optional_operands() const {
    return {&mask, &g, &y, &probability, &state};
  }
};

struct LibraryCallStep {
  std::string name;
  uint32_t group = 0;
  LibraryFunction callee;
  std::vector<LoopOperand> operands;  // strides of their own shapes; the last one is written
  std::vector<graph::Dims> shapes;
};

/// Control flow between steps, which otherwise run one after the other. Buffers are pointers here: what a Move or a
/// Rotate changes is where later steps find them.
struct FlowStep {
  enum Kind : uint8_t {
    Jump,           // to `target`
    BranchIfFalse,  // to `target` if the bool at `offset` of buffer `a` is false
    BranchBack,     // back to `target` if it is true: the end of a round of a loop
    MoveBuffer,     // `a` lies where `b` does, at `offset`
    RotateBuffers,  // `a` lies where `b` does, and `b` in the memory of `c`, which takes that of `b`
    Expect,     // RunStatus::SpeculationFailed, with `target` as the location, if the bool at `offset` of `a` is false
    SetSymbol,  // symbol number `target` is the i64 at `offset` of `a`; the steps behind go by it
  } kind = Jump;
  BufferIndex a = 0, b = 0, c = 0;
  graph::Dim offset = 0;
  uint32_t target = 0;  // index of a step; Expect: a location of the graph; Measure: a symbol
};

using Step = std::variant<LoopStep, MatMulStep, AttentionStep, UndoStep, LibraryCallStep, FlowStep>;

/// A symbol that a step measures, and how much it is at most.
struct Measured {
  graph::SymbolId symbol;
  graph::Dim most;
};

/// Everything that a Plan needs. Dims are over the graph's symbols.
struct Program {
  std::vector<KernelCode> kernels;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<graph::ValueId>
      result_roots;  // graph values whose bytes the caller allocates, in the order of Result numbers
  /// Relations between symbols on which the lowering relied beyond the graph's own guards, those guards that are about
  /// what is measured, and limits of arrays' sizes; checked by each run, which gives RunStatus::Bailout where one does
  /// not hold.
  std::vector<graph::DimGuard> conditions;
  std::vector<Measured> measured;  // in the order of their steps
  bool may_set_flags = false;
  /// From the first step on that writes a param each stage sets the flags of one operator at most. Then nothing has to
  /// be undone for a warning's sake: a run tells for each slot what was raised. What the steps before raise has to stop
  /// the run.
  bool per_call_flags = false;
  std::vector<std::vector<uint32_t>> flag_slots;  // Graph::calls
  std::vector<graph::FlagRule> flag_rules;        // of the first steps; the others have none
};

}  // namespace framejit::codegen
