// The order of NumPy's reductions. The iterator sorts the axes by |stride| of the operand, fastest first; what follows
// depends on the fastest axis:
//
//     reduced       runs: out += pairwise(run), one run after the other       -> Pairwise
//     kept          rows: out[i] += in[i], one row after the other            -> Rows
//
// Where the order cannot be seen (integers, minimum and maximum but for zeros and NaN, any and all) it is free.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/lower_step.h"
#include "graph/layout.h"
#include "graph/reduce_order.h"

namespace framejit::codegen::detail {

namespace {

using graph::Scalar;

constexpr int64_t kBufferSize = 8192;  // NumPy's, unless setbufsize changed it, which the frontend guards

template <class T>
Scalar scalar_of(T value) {
  Scalar out;
  std::memcpy(&out.lo, &value, sizeof(value));
  return out;
}

Scalar one(DType dtype) {
  switch (dtype) {
    case DType::F16: return {0x3c00, 0};
    case DType::BF16: return {0x3f80, 0};
    case DType::F32:
    case DType::C64: return scalar_of(1.0f);
    case DType::F64:
    case DType::C128: return scalar_of(1.0);
    default: return {1, 0};
  }
}

/// What minimum (or maximum) leaves any number as it is with.
Scalar extreme(DType dtype, bool highest) {
  if (dtype == DType::F16) return {highest ? 0x7c00u : 0xfc00u, 0};
  if (dtype == DType::F32) return scalar_of(highest ? INFINITY : -INFINITY);
  if (dtype == DType::F64)
    return scalar_of(highest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
  const int bits = 8 * graph::size_of(dtype);
  if (dtype == DType::Bool) return {highest ? 1u : 0u, 0};
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t sign = uint64_t{1} << (bits - 1);
  if (graph::is_unsigned_int(dtype)) return {highest ? all : 0, 0};
  return {highest ? all & ~sign : sign, 0};
}

/// Runs of a pairwise sum: which of the leading reduced axes (fastest first) are one run, and where it is cut.
struct Runs {
  std::size_t axes;
  int64_t cut;
};

class Reduction {
 public:
  Reduction(const graph::Graph& graph, ValueId node, const graph::Type& seen, bool casting, LowerContext& context)
      : node_(graph.node(node)),
        operand_(graph.type(node_.inputs[0])),
        seen_(seen),
        casting_(casting),
        context_(context) {}

  FoldSpec build() {
    out_.reduced.assign(operand_.shape.size(), false);
    for (int64_t axis : node_.axes()) out_.reduced[static_cast<std::size_t>(axis)] = true;
    output_access();
    const graph::Type* type = &seen_;
    for (int axis : graph::iterator_order(context_.facts.env(), operand_.shape, {&type, 1}))
      if (!context_.facts.is_one(operand_.shape[static_cast<std::size_t>(axis)])) out_.order.push_back(axis);
    out_.in_run.assign(operand_.shape.size(), false);
    const DType dtype = operand_.dtype;
    out_.accumulator = dtype;
    switch (node_.op) {
      case Op::ReduceSum:
        out_.combine = Op::Add;
        sum();
        break;
      case Op::ReduceProd:
        out_.combine = Op::Multiply;
        out_.identity = one(dtype);
        if (dtype == DType::F16 || graph::is_complex(dtype))
          fail("prod of float16 and of complex numbers is left to NumPy");
        ordered(graph::is_int(dtype) ? ReduceKind::AnyOrder : ReduceKind::LeftFold);
        break;
      case Op::ReduceMin:
      case Op::ReduceMax:
        if (graph::is_complex(dtype)) fail("minimum and maximum of complex numbers are left to NumPy");
        out_.combine = node_.op == Op::ReduceMin ? Op::Minimum : Op::Maximum;
        out_.identity = extreme(dtype, node_.op == Op::ReduceMin);
        out_.redo_zero_or_nan = graph::is_float(dtype) && !context_.options.o1 && !context_.options.any_zero;
        ordered(ReduceKind::AnyOrder);
        break;
      case Op::ReduceAny:
      case Op::ReduceAll:
        out_.combine = node_.op == Op::ReduceAny ? Op::LogicalOr : Op::LogicalAnd;
        out_.identity = {node_.op == Op::ReduceAll ? 1u : 0u, 0};
        out_.accumulator = DType::Bool;
        ordered(ReduceKind::AnyOrder);
        break;
      default: fail(std::string(graph::name_of(node_.op)) + " is no reduction that can be lowered");
    }
    return std::move(out_);
  }

 private:
  void output_access() {
    out_.output.dtype = node_.type.dtype;
    std::size_t kept = 0;
    for (std::size_t axis = 0; axis < operand_.shape.size(); ++axis)
      out_.output.strides.push_back(out_.reduced[axis] ? Dim(0) : node_.type.strides[kept++]);
  }

  bool fastest_is_reduced() const {
    return out_.order.empty() || out_.reduced[static_cast<std::size_t>(out_.order[0])];
  }

  void ordered(ReduceKind innermost) { out_.kind = fastest_is_reduced() ? innermost : ReduceKind::Rows; }

  /// A kept fastest axis means rows, but one of length 1 does not count.
  void drop_fastest_ones() {
    while (!out_.order.empty() && !fastest_is_reduced() && context_.facts.decide_one(extent(0)))
      out_.order.erase(out_.order.begin());
  }

  void sum() {
    const DType dtype = operand_.dtype;
    if (graph::is_int(dtype) || dtype == DType::Bool) return ordered(ReduceKind::AnyOrder);
    drop_fastest_ones();
    if (dtype == DType::BF16) fail("sum of bfloat16 has no NumPy order");
    if (!fastest_is_reduced()) {
      out_.kind = ReduceKind::Rows;
      return;
    }
    out_.kind = ReduceKind::Pairwise;
    if (dtype == DType::F16) out_.accumulator = DType::F32;
    std::size_t leading = 0;
    while (leading < out_.order.size() && out_.reduced[static_cast<std::size_t>(out_.order[leading])]) ++leading;
    const Runs runs = find_runs(leading);
    for (std::size_t i = 0; i < runs.axes; ++i) out_.in_run[static_cast<std::size_t>(out_.order[i])] = true;
    out_.run_cut = runs.cut;
  }

  const Dim& extent(std::size_t i) const { return operand_.shape[static_cast<std::size_t>(out_.order[i])]; }
  const Dim& stride(std::size_t i) const { return seen_.strides[static_cast<std::size_t>(out_.order[i])]; }
  bool collapses(std::size_t i) { return context_.facts.proven_equal(stride(i), stride(i - 1) * extent(i - 1)); }

  /// The leading axes that are reduced are one run up to NumPy 2.2, whatever their strides; later only where they
  /// collapse.
  Runs find_runs(std::size_t leading) {
    if (leading == 0) return {0, 0};
    if (context_.options.pairwise_cut > 0) return {leading, context_.options.pairwise_cut};
    std::size_t joined = 1;
    while (joined < leading && collapses(joined)) ++joined;
    if (joined == leading) return {leading, casting_ ? kBufferSize : 0};
    if (casting_) fail("a sum with a cast over several axes that do not follow each other in memory");
    // Beyond here NumPy's choice depends on the extents themselves.
    std::vector<graph::WalkAxis> walk;
    for (std::size_t i = 0; i < out_.order.size(); ++i) {
      const Dim& moves = out_.output.strides[static_cast<std::size_t>(out_.order[i])];
      if (!extent(i).is_const() || !stride(i).is_const() || !moves.is_const())
        fail("a sum over several axes that do not follow each other in memory, of symbolic lengths");
      if (extent(i).value() == 0) return {leading, 0};
      walk.push_back({extent(i).value(), stride(i).value(), moves.value()});
    }
    const graph::ReducePlan plan = graph::plan_reduction(walk);
    // A call never spans more than a run; where calls are whole cores of one output each, the core is the run.
    const bool cut = plan.span > plan.call && plan.span % plan.call != 0;
    int64_t length = 1;
    Runs out{0, 0};
    while (out.axes < leading && length < plan.call) length *= walk[out.axes++].extent;
    if (length > plan.call || cut) {
      while (out.axes < leading && length < plan.span) length *= walk[out.axes++].extent;
      out.cut = plan.call;
    }
    return out;
  }

  const graph::Node& node_;
  const graph::Type& operand_;
  const graph::Type& seen_;
  const bool casting_;
  LowerContext& context_;
  FoldSpec out_;
};

}  // namespace

FoldSpec reduction(const graph::Graph& graph, ValueId node, const graph::Type& seen, bool casting,
                   LowerContext& context) {
  return Reduction(graph, node, seen, casting, context).build();
}

}  // namespace framejit::codegen::detail
