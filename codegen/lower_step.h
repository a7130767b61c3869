// Lowering, inside: one loop step as a small expression graph over memory accesses, before it is split into stages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/loop_nest.h"
#include "codegen/lower.h"
#include "codegen/matmul.h"
#include "graph/shape_env.h"

namespace framejit::codegen::detail {

using graph::Dim;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ValueId;

/// A failure while lowering: thrown to `lower`, which gives its text back. Never leaves codegen.
struct LowerFailure {
  std::string reason;
};
[[noreturn]] inline void fail(std::string reason) { throw LowerFailure{std::move(reason)}; }

/// What may be relied upon about symbolic dimensions.
class Facts {
 public:
  explicit Facts(graph::ShapeEnv env) : env_(std::move(env)), recorded_(env_.guards().size()) {}

  /// Holds for every value of the symbols that the graph's guards admit.
  bool proven(graph::Relation relation, const Dim& left, const Dim& right);
  bool proven_equal(const Dim& a, const Dim& b) { return a == b || proven(graph::Relation::Eq, a, b); }
  /// Decided by the values at capture, which becomes a condition of the program where it is not proven.
  bool decide(graph::Relation relation, const Dim& left, const Dim& right) { return env_.holds(relation, left, right); }
  bool is_one(const Dim& d) { return d.is_const() ? d.value() == 1 : proven(graph::Relation::Eq, d, 1); }
  bool decide_one(const Dim& d) { return d.is_const() ? d.value() == 1 : decide(graph::Relation::Eq, d, 1); }
  int64_t hint(const Dim& d) const { return env_.hint(d); }
  graph::ShapeEnv& env() { return env_; }
  /// Conditions of a run: decisions beyond the graph's guards, guards on measured sizes, and the limits of array sizes.
  std::vector<graph::DimGuard> conditions() const;

 private:
  graph::ShapeEnv env_;
  std::size_t recorded_;
};

/// Elements of a buffer along the axes of an iteration shape (not yet ordered or coalesced).
struct Access {
  BufferIndex buffer = 0;
  DType dtype = DType::F64;
  Dim offset = 0;
  Dims strides;
  friend bool operator==(const Access&, const Access&) = default;
};

using TermId = uint32_t;

struct Term {
  enum Kind : uint8_t {
    kLoad,      // of `access`
    kConstant,  // `constant`
    kIndex,     // position along the only axis, i64
    kApply,     // `op` of `args`
    kCopy,      // of args[0]: makes a load go through scratch
    kPair,      // the complex number of two parts
    kPart,      // a part of a complex load, or of what a NumPy loop gives
  } kind;
  Op op = Op::Param;
  DType dtype = DType::F64, operand_dtype = DType::F64;
  std::vector<TermId> args;
  Access access{};
  graph::Scalar constant{};
  bool numpy_loop = false;  // computed by one
  uint8_t part = 0;         // kPart: 0 real, 1 imaginary
  int32_t slot = -1;        // of the flags that it may set; -1: none, or nobody asks whose they are
};

struct StoreTerm {
  Access access;
  TermId value;
  bool late = false;    // after every load of the step: the memory is read as well
  bool direct = false;  // fresh memory, into which a NumPy loop may write
};

/// How the value of a step is reduced.
struct FoldSpec {
  ReduceKind kind = ReduceKind::None;
  Op combine = Op::Add;
  DType accumulator = DType::F64;
  graph::Scalar identity{};
  Access output;
  TermId value = 0;
  std::vector<bool> reduced;  // by axis of the iteration shape
  std::vector<int> order;     // axes from the fastest to the slowest, those of length 1 left out
  std::vector<bool> in_run;   // Pairwise, by axis: part of the run
  int64_t run_cut = 0;
  bool redo_zero_or_nan = false;
};

struct StepSpec {
  std::string name;
  uint32_t group = 0;
  Dims shape;
  std::vector<Term> terms;
  std::vector<StoreTerm> stores;
  std::vector<TermId> kept;  // not stored, but may set a flag
  std::optional<FoldSpec> fold;
  bool streams = false;     // what is stored is not read again by the program
  bool whole_axes = false;  // one loop for each axis of the shape, in that order
};

/// Iteration axes in loop order: groups of the shape's axes, outer to inner, each group one loop.
struct LoopAxes {
  Dims extents;
  std::vector<int> innermost;  // of each group: its stride is the loop's
  uint32_t reduced = 0, run = 1;

  Dims strides(const Access& access) const;
};
LoopAxes loop_axes(const StepSpec& spec, Facts& facts);

/// Where kernels are put together: deduplicates them within a program and within the process.
class KernelPool {
 public:
  KernelPool(Program& program, const LowerOptions& options) : program_(program), options_(options) {}
  /// Fails where the emitter does.
  KernelIndex add(const LoopNest& nest);
  KernelIndex add_matmul(DType dtype);
  KernelIndex add_narrow_matmul(NarrowProduct kind);
  KernelIndex add_amx_matmul(NarrowProduct kind);
  KernelIndex add_softmax();

 private:
  KernelIndex add(std::string key, Expected<KernelCode, std::string> (*emit)(const void*, const LowerOptions&),
                  const void* what);
  Program& program_;
  const LowerOptions& options_;
  std::unordered_map<std::string, KernelIndex> known_;
};

/// What the builder of steps shares with the rest of the lowering.
struct LowerContext {
  const LowerOptions& options;
  Program& program;
  Facts& facts;
  KernelPool& kernels;
  bool per_call_flags = false;  // of the part at hand

  /// The slot for a node's flags; -1 where it sets none or nobody asks.
  int32_t slot_of(const graph::Graph& graph, ValueId node) const;
  BufferIndex literal(const void* bytes, std::size_t size);
  /// Is this operator computed by NumPy's own loop? Fails where neither it nor machine code exists.
  bool needs_numpy_loop(Op op, DType operand, DType result) const;
};

LoopStep build_step(const StepSpec& spec, LowerContext& context);

/// May the node set a floating-point flag, or signal as one does?
bool may_flag(const graph::Graph& graph, ValueId node);

/// The reduction `node` of a value with the iteration shape and memory layout of `seen`: order, runs, start value.
FoldSpec reduction(const graph::Graph& graph, ValueId node, const graph::Type& seen, bool casting,
                   LowerContext& context);

}  // namespace framejit::codegen::detail
