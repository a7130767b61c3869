// Evaluates a program's dimensions and lays out its temporaries.
#include "runtime/bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "graph/support/check.h"
#include "runtime/band.h"
#include "runtime/product_pair.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr double kMemoryNanoseconds = 0.05;  // per byte, where a step's data does not fit the cache
constexpr int64_t kCacheBytes = int64_t{2} << 20;
constexpr int64_t kTempAlignment = 64;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// The least cost that is assumed of a library call: too little to release the GIL for.
constexpr double kLibraryCallNanoseconds = 1e3;

/// Longer steps are split by themselves, which evens out better than steps of different lengths beside each other.
constexpr double kBesideNanoseconds = 100e3;

/// Rows, columns and depth of a product from which on making groups of its operands pays.
constexpr int64_t kLeastNarrow = 48;

/// Of what computes an A: bytes of rows that are too short to go row by row, nanoseconds for an element of four bytes.
constexpr int64_t kShortRow = 256;
constexpr double kLongArithmetic = 0.4;

/// A loop may run for any time: long enough to release the GIL, and to look for signals.
constexpr double kLoopNanoseconds = 1e6;

}  // namespace

SymbolRanges::SymbolRanges(const Program& program, std::span<const int64_t> symbols)
    : least(symbols.begin(), symbols.end()), most(symbols.begin(), symbols.end()) {
  for (const Measured& m : program.measured) {
    least[static_cast<std::size_t>(m.symbol)] = 0;
    most[static_cast<std::size_t>(m.symbol)] = m.most.at_most(least, most);
  }
}

namespace {

/// A loop of ours takes as long as its result is.
double nanoseconds_of_library_call(const BoundLibraryCall& call) {
  if (!call.callee.name) return kLibraryCallNanoseconds;
  double elements = 1;
  for (int64_t n : call.shapes.back()) elements *= static_cast<double>(n);
  return elements;
}

double cost_of(const BoundStep& step) {
  if (const auto* loop = std::get_if<BoundLoop>(&step)) return loop->nanoseconds;
  if (const auto* product = product_of(step)) return product->product.nanoseconds;
  if (const auto* attention = std::get_if<std::shared_ptr<const BoundAttention>>(&step))
    return (*attention)->attention.nanoseconds;
  return 0;
}

double nanoseconds_of(const BoundStep& step) {
  if (const auto* call = std::get_if<BoundLibraryCall>(&step)) return nanoseconds_of_library_call(*call);
  if (const auto* flow = std::get_if<BoundFlow>(&step))
    return flow->step->kind == FlowStep::BranchBack ? kLoopNanoseconds : 0;
  return cost_of(step);
}

int64_t scratch_of(const BoundStep& step) {
  if (const auto* loop = std::get_if<BoundLoop>(&step)) return loop->scratch_bytes;
  if (const auto* product = product_of(step))
    return product->product.scratch_bytes + (product->narrowed ? product->narrowed->bytes() : 0);
  if (const auto* attention = std::get_if<std::shared_ptr<const BoundAttention>>(&step))
    return (*attention)->attention.scratch_bytes;
  return 0;
}

bool joins(const BoundLoop& loop, int axis) {
  if (loop.extents[axis] == 1) return true;
  for (std::size_t i = 0; i < loop.operands.size(); ++i)
    if (loop.stride(i, axis) != loop.stride(i, axis + 1) * loop.extents[axis + 1]) return false;
  return true;
}

/// Are so many lines of memory, one from each row, still in the second-level cache, and known to the processor's
/// tables of pages, when the next elements of the rows are read? Distances that are multiples of large powers of two
/// leave most of its sets unused.
bool stays_in_cache(int64_t rows, int64_t stride) {
  constexpr int64_t kLine = 64, kSets = 1024, kWays = 8, kPages = 1024;
  const int64_t sets = kSets / std::gcd(kSets, std::max<int64_t>(1, std::abs(stride) / kLine));
  return rows <= std::min(sets * kWays / 2, kPages);
}

/// Kernels on two axes or more, each element by itself.
bool is_kernel_of_elements(const BoundLoop& loop) {
  const bool has_index =
      std::any_of(loop.operands.begin(), loop.operands.end(), [](const BoundOperand& o) { return o.index; });
  const bool kernels =
      std::all_of(loop.stages.begin(), loop.stages.end(), [](const BoundStage& s) { return s.kernel != nullptr; });
  return loop.rank() >= 2 && loop.step->reduce == ReduceKind::None && loop.step->scratch_slots == 0 &&
         !loop.guarded.kernel && !has_index && kernels;
}

void remove_axis(BoundLoop& out, int axis) {
  const std::size_t rank = out.extents.size();
  out.extents[axis + 1] *= out.extents[axis];
  out.extents.erase(out.extents.begin() + axis);
  std::vector<int64_t> strides;
  strides.reserve(out.operands.size() * (rank - 1));
  for (std::size_t i = 0; i < out.operands.size(); ++i)
    for (std::size_t a = 0; a < rank; ++a)
      if (static_cast<int>(a) != axis) strides.push_back(out.strides[i * rank + a]);
  out.strides = std::move(strides);
  if (axis < out.reduced_first) --out.reduced_first;
  if (axis < out.reduced_last) --out.reduced_last;
}

void bind_direct(const LoopStep& step, BoundLoop& out) {
  const int rank = out.rank();
  if (rank > 2 || out.size == 0 || out.stages.size() != 1 || !out.stages[0].kernel || out.stages[0].slot >= 0 ||
      out.guarded.kernel || out.scratch_bytes > 0 || step.redo_zero_or_nan)
    return;
  if (step.reduce != ReduceKind::None && (out.reduced_last - out.reduced_first != 1)) return;
  if (step.reduce == ReduceKind::Pairwise && out.extents.back() > step.longest_run) return;
  const std::vector<uint16_t>& operands = out.stages[0].operands;
  if (std::any_of(operands.begin(), operands.end(), [&](uint16_t o) { return out.operands[o].index; })) return;
  out.direct.assign(2 * std::max<std::size_t>(operands.size(), 1), 0);
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (int axis = 0; axis < rank; ++axis)
      out.direct[2 * i + static_cast<std::size_t>(rank - 1 - axis)] = out.stride(operands[i], axis);
}

/// NumPy's arrays begin 16 bytes behind a cache line, which makes each vector of a kernel touch two. NumPy loops keep
/// their stretches.
int operand_to_align(const LoopStep& step, const BoundLoop& out) {
  if (out.tile == 0 || step.reduce != ReduceKind::None || out.rank() == 0) return -1;
  for (const BoundStage& stage : out.stages)
    if (!stage.kernel) return -1;
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    if (const LoopOperand& o = step.operands[i]; o.written && !o.scratch)
      if (out.stride(i, out.rank() - 1) == out.operands[i].itemsize) return static_cast<int>(i);
  return -1;
}

/// By what the factors hold.
Narrowed narrowed_of(graph::DType dtype) {
  const int bytes = graph::size_of(dtype);
  return bytes == 4 ? Narrowed::Rounded : bytes == 2 ? Narrowed::Low16 : Narrowed::Low8;
}

class Binder {
 public:
  /// To the symbols of `bound`.
  Binder(const Program& program, const CodeBlock& code, Bound& bound, std::span<const int64_t> values = {})
      : program_(program), code_(code), bound_(bound), symbols_(bound.symbols) {
    for (const Measured& m : program.measured)
      if (int64_t& n = symbols_[static_cast<std::size_t>(m.symbol)]; n == kUnknown)
        n = bound.ranges.most[static_cast<std::size_t>(m.symbol)];
    for (std::size_t s = 0; s < values.size(); ++s)
      if (symbols_[s] == kUnknown) symbols_[s] = values[s];
  }

  void run(bool beside, int64_t block_bytes) {
    Bound& bound = bound_;
    beside_ = beside && program_.measured.empty();
    bound.dim_values.assign(program_.buffers.size(), 0);
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) bind_buffer(i);
    for (const graph::DimGuard& g : program_.conditions) check(g);
    if (bound.redo) return;
    bound.steps.reserve(program_.steps.size());
    for (const Step& step : program_.steps) {
      bound.steps.push_back(bind_step(step));
      if (const auto* product = product_of(bound.steps.back()); product && product->producer)
        bound.steps[std::get<MatMulStep>(step).producer_step] = BoundNothing{};
      if (std::holds_alternative<UndoStep>(step)) bound.last_undo = bound.steps.size();
    }
    for (const BoundStep& step : bound.steps) bound.nanoseconds += nanoseconds_of(step);
    find_waves(bound);
    if (!beside_) find_bands(program_, bound, block_bytes);
    find_product_pairs(program_, bound);
    lay_out_temps(bound);
    for (ProductPair& pair : bound.pairs) {
      pair.partials = bound.temp_bytes;
      bound.temp_bytes += round_up(pair.partial_bytes, kTempAlignment);
    }
    const int64_t reserve = bound.temp_bytes;
    auto band = bound.bands.begin();
    for (std::size_t i = 0, end; i < bound.steps.size(); i = end) {
      int64_t at = reserve;
      if (band != bound.bands.end() && band->first == i) {
        end = band->last;
        bound.reserves.resize(end, at);
        bound.temp_bytes = std::max(bound.temp_bytes, at + round_up(band->bytes + band->scratch_bytes, kTempAlignment));
        ++band;
        continue;
      }
      for (std::size_t step = i; step < bound.wave_end[i]; ++step)
        if (auto* loop = std::get_if<BoundLoop>(&bound.steps[step])) {
          block_inner_axis(*loop);
          join_rows(*loop);
        }
      for (end = i; end < bound.wave_end[i]; ++end) {
        bound.reserves.push_back(at);
        at += round_up(scratch_of(bound.steps[end]), kTempAlignment);
      }
      bound.temp_bytes = std::max(bound.temp_bytes, at);
    }
  }

  void run_again(const Dependents& what) {
    bound_.redo = false;
    for (std::size_t i : what.buffers) bind_buffer(i);
    for (std::size_t i : what.conditions) check(program_.conditions[i]);
    for (std::size_t i : what.steps) {
      BoundStep step = bind_step(program_.steps[i]);
      if (auto* call = std::get_if<BoundLibraryCall>(&step))
        call->last_uses = std::get<BoundLibraryCall>(bound_.steps[i]).last_uses;
      bound_.steps[i] = std::move(step);
      bound_.temp_bytes =
          std::max(bound_.temp_bytes, bound_.reserves[i] + round_up(scratch_of(bound_.steps[i]), kTempAlignment));
    }
  }

 private:
  void bind_buffer(std::size_t i) {
    if (program_.buffers[i].kind == BufferKind::DimValue) bound_.dim_values[i] = value(program_.buffers[i].value);
  }

  void check(const graph::DimGuard& g) {
    if (is_known(g) && holds(g) != g.outcome) bound_.redo = true;
  }

  BoundStep bind_step(const Step& step) {
    if (const auto* loop = std::get_if<LoopStep>(&step)) return bind_loop(*loop, bound_);
    if (const auto* product = std::get_if<MatMulStep>(&step))
      return std::make_shared<const BoundMatMul>(bind_matmul(*product, bound_));
    if (const auto* attention = std::get_if<AttentionStep>(&step))
      return std::make_shared<const BoundAttention>(bind_attention(*attention));
    if (const auto* call = std::get_if<LibraryCallStep>(&step)) return bind_library_call(*call);
    if (const auto* flow = std::get_if<FlowStep>(&step)) return BoundFlow{flow, value(flow->offset)};
    return bind_undo(std::get<UndoStep>(step));
  }

  /// Kernels that write memory of the plan or of the caller's results only, where nothing moves by pointers.
  bool may_run_beside(std::size_t i, const Bound& bound) const {
    const Step& step = program_.steps[i];
    const bool kernels = std::holds_alternative<LoopStep>(step) || std::holds_alternative<MatMulStep>(step) ||
                         std::holds_alternative<AttentionStep>(step);
    if (!kernels || bound.costs[i] >= kBesideNanoseconds) return false;
    if (i < program_.flag_rules.size() && program_.flag_rules[i]) return false;
    bool fits = true;
    for_each_buffer(program_, bound, i, [&](BufferIndex b, bool written) {
      const BufferKind kind = program_.buffers[b].kind;
      fits = fits && kind != BufferKind::Pointer && !(written && kind == BufferKind::Param);
    });
    return fits;
  }

  /// Flags that have owners have to be told apart step by step.
  void find_waves(Bound& bound) const {
    const std::size_t count = bound.steps.size();
    bound.wave_end.resize(count);
    for (const BoundStep& step : bound.steps) bound.costs.push_back(cost_of(step));
    if (!beside_ || program_.per_call_flags)
      return std::iota(bound.wave_end.begin(), bound.wave_end.end(), std::size_t{1});
    for (std::size_t i = 0, end; i < count; i = end) {
      std::set<BufferIndex> read, written;
      for (end = i; end < count; ++end) {
        if (!may_run_beside(end, bound)) break;
        bool alone = false;
        for_each_buffer(program_, bound, end, [&](BufferIndex b, bool writes) {
          alone = alone || written.contains(b) || (writes && read.contains(b));
        });
        if (alone && end > i) break;
        for_each_buffer(program_, bound, end, [&](BufferIndex b, bool writes) { (writes ? written : read).insert(b); });
      }
      end = std::max(end, i + 1);
      for (std::size_t step = i; step < end; ++step) bound.wave_end[step] = end;
    }
  }

  int64_t value(const graph::Dim& d) const { return d.is_const() ? d.value() : d.evaluate(symbols_); }

  bool is_known(const graph::DimGuard& g) const {
    if (program_.measured.empty()) return true;
    std::vector<graph::SymbolId> used;
    g.left.collect_symbols(used);
    g.right.collect_symbols(used);
    return std::none_of(used.begin(), used.end(),
                        [&](graph::SymbolId s) { return bound_.symbols[static_cast<std::size_t>(s)] == kUnknown; });
  }

  bool holds(const graph::DimGuard& g) const { return graph::related(g.relation, value(g.left), value(g.right)); }

  BoundOperand bind_operand(const LoopOperand& o) const {
    BoundOperand out;
    out.buffer = o.buffer;
    out.scratch = o.scratch;
    out.index = o.index;
    out.itemsize = graph::size_of(o.dtype);
    out.offset = o.scratch ? 0 : value(o.offset);
    return out;
  }

  BoundLoop bind_loop(const LoopStep& step, Bound& bound, bool may_drop_axes = true) const {
    BoundLoop out;
    out.step = &step;
    out.size = 1;
    for (const graph::Dim& d : step.extents) {
      out.extents.push_back(value(d));
      out.size *= out.extents.back();
    }
    const std::size_t rank = out.extents.size();
    out.strides.assign(step.operands.size() * rank, 0);
    double bytes = 0;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const LoopOperand& o = step.operands[i];
      out.operands.push_back(bind_operand(o));
      if (o.scratch || o.index) continue;
      FRAMEJIT_CHECK(o.strides.size() == rank, "a stride for each axis in " + step.name);
      double touched = graph::size_of(o.dtype);
      for (std::size_t axis = 0; axis < rank; ++axis) {
        const int64_t stride = value(o.strides[axis]);
        out.strides[i * rank + axis] = stride;
        if (stride != 0) touched *= static_cast<double>(out.extents[axis]);
        if (o.nonnegative && stride < 0 && out.extents[axis] > 1) bound.redo = true;
      }
      bytes += touched;
    }
    reduced_range(step, out);
    if (may_drop_axes) drop_axes(step, out);
    if (step.small_domain_redo && out.size == 1) bound.redo = true;
    const bool streams = step.streaming_bytes > 0 && bytes >= static_cast<double>(step.streaming_bytes);
    for (const Stage& stage : step.stages) out.stages.push_back(bind_stage(stage, streams));
    if (step.guarded)
      out.guarded = {reinterpret_cast<GuardedFn>(const_cast<void*>(code_.entry(step.guarded->kernel))),
                     step.guarded->operands, step.guarded->saved};
    for (const Stage& stage : step.joint.stages) out.joint.stages.push_back(bind_stage(stage, false));
    out.joint.saved = step.joint.saved;
    bind_scratch(step, out);
    bind_direct(step, out);
    out.aligned = operand_to_align(step, out);
    out.nanoseconds = static_cast<double>(out.size) * step.cost;
    if (bytes > kCacheBytes) out.nanoseconds += bytes * kMemoryNanoseconds;
    return out;
  }

  void reduced_range(const LoopStep& step, BoundLoop& out) const {
    const int rank = out.rank(), reduced = static_cast<int>(step.reduced_axes);
    if (step.reduce == ReduceKind::None) return;
    out.reduced_last = step.reduce == ReduceKind::Rows ? rank - 1 : rank;
    out.reduced_first = out.reduced_last - reduced;
    FRAMEJIT_CHECK(out.reduced_first >= 0, "reduced axes of " + step.name);
    for (int axis = 0; axis < rank; ++axis)
      if (axis < out.reduced_first || axis >= out.reduced_last) out.outputs *= out.extents[axis];
  }

  /// Outer axes of length 1 go, and axes that turn out to follow each other in memory for all operands are joined. The
  /// inner axis keeps its stride, on which the kernels rely.
  void drop_axes(const LoopStep& step, BoundLoop& out) const {
    if (step.reduce == ReduceKind::Pairwise || step.reduce == ReduceKind::Rows) return;
    for (const BoundOperand& o : out.operands)
      if (o.index) return;
    int axis = out.rank() - 2;
    while (axis >= 0) {
      const bool same_kind = (axis >= out.reduced_first && axis < out.reduced_last) ==
                             (axis + 1 >= out.reduced_first && axis + 1 < out.reduced_last);
      if (same_kind && joins(out, axis)) remove_axis(out, axis);
      --axis;
    }
  }

  /// Rows of a few elements leave most lanes of a vector idle, and a row that is written stands in the way of the next
  /// one's load.
  void join_rows(BoundLoop& out) const {
    constexpr int64_t kShort = 256, kLine = 64, kBytes = 2048, kFewest = 8;
    if (!is_kernel_of_elements(out)) return;
    const int inner = out.rank() - 1, outer = inner - 1;
    const int64_t length = out.extents[inner], rows = out.extents[outer];
    int64_t narrowest = kLine, widest = 1;
    std::vector<std::size_t> repeated;
    for (std::size_t i = 0; i < out.operands.size(); ++i) {
      const int64_t item = out.operands[i].itemsize, along = out.stride(i, inner), across = out.stride(i, outer);
      if (along == 0 && across == 0) continue;
      if (along != item || across != (out.step->operands[i].written || across != 0 ? item * length : 0)) return;
      if (across == 0) repeated.push_back(i);
      narrowest = std::min(narrowest, item), widest = std::max(widest, item);
    }
    // Whole lines of memory for each operand.
    const int64_t together = round_up(kBytes / std::max<int64_t>(1, length * widest), kLine / narrowest);
    if (length < 2 || length * widest >= kShort || rows < kFewest * together || repeated.empty()) return;
    for (std::size_t i : repeated) {
      out.joined.repeated.push_back({i, out.scratch_bytes});
      out.scratch_bytes += round_up(together * length * out.operands[i].itemsize, kTempAlignment);
    }
    out.joined.length = length;
    out.joined.rest = rows % together;
    for (std::size_t i = 0; i < out.operands.size(); ++i)
      out.strides[i * out.extents.size() + static_cast<std::size_t>(outer)] *= together;
    out.extents[outer] = rows / together;
    out.extents[inner] = together * length;
    out.direct.clear();
  }

  /// Where an operand lies across the inner axis, blocks of that go along the axis that the operand lies along: the
  /// lines of memory that a block touches are used up while they are in cache.
  void block_inner_axis(BoundLoop& out) const {
    constexpr int64_t kWidest = 16, kNarrowest = 8;
    const int rank = out.rank(), inner = rank - 1;
    if (!is_kernel_of_elements(out)) return;
    int along = -1;
    for (std::size_t i = 0; i < out.operands.size(); ++i) {
      const int64_t item = out.operands[i].itemsize;
      if (out.stride(i, inner) == 0) continue;  // one element for all of a row
      for (int axis = 0; axis < inner; ++axis)
        if (std::abs(out.stride(i, axis)) == item && out.extents[axis] >= kNarrowest &&
            !stays_in_cache(out.extents[inner], out.stride(i, inner)))
          along = axis;
    }
    if (along < 0) return;
    const int64_t length = out.extents[inner];
    int64_t width = std::min(length, kWidest);
    while (width >= kNarrowest && length % width != 0) --width;
    if (width < kNarrowest) return;
    // Other axes, blocks, the axis along which the operand lies, elements of a block.
    std::vector<int64_t> extents, strides;
    const auto in_order = [&](auto&& take) {
      for (int axis = 0; axis < inner; ++axis)
        if (axis != along) take(axis, 1, out.extents[axis]);
      take(inner, width, length / width);
      take(along, 1, out.extents[along]);
      take(inner, 1, width);
    };
    in_order([&](int, int64_t, int64_t extent) { extents.push_back(extent); });
    for (std::size_t i = 0; i < out.operands.size(); ++i)
      in_order([&](int axis, int64_t step, int64_t) { strides.push_back(out.stride(i, axis) * step); });
    out.extents = std::move(extents);
    out.strides = std::move(strides);
    out.direct.clear();
    for (std::size_t i = 0; i < out.stages.size(); ++i) out.stages[i] = bind_stage(out.step->stages[i], false);
  }

  BoundStage bind_stage(const Stage& stage, bool streams) const {
    BoundStage out;
    out.operands = stage.operands;
    out.slot = stage.slot;
    if (const auto* kernel = std::get_if<KernelIndex>(&stage.code)) {
      const KernelIndex chosen = streams && stage.streaming ? *stage.streaming : *kernel;
      out.kernel = reinterpret_cast<KernelFn>(const_cast<void*>(code_.entry(chosen)));
    } else {
      out.numpy_loop = std::get<NumpyLoop>(stage.code);
    }
    return out;
  }

  void bind_scratch(const LoopStep& step, BoundLoop& out) const {
    if (step.scratch_slots == 0) return;
    // A little more than `tile`: the last stretch of a row is merged into the one before when it is short.
    out.tile = std::max<int64_t>(kGuardedRow, step.tile);  // a pairwise leaf at least, and a guarded row
    const int64_t capacity = std::min<int64_t>(std::max<int64_t>(out.size, 1), out.tile + kShortestTile);
    std::vector<int64_t> slot_item(step.scratch_slots, 0);
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      if (step.operands[i].scratch)
        slot_item[step.operands[i].buffer] =
            std::max<int64_t>(slot_item[step.operands[i].buffer], out.operands[i].itemsize);
    std::vector<int64_t> at(step.scratch_slots, 0);
    for (uint32_t slot = 0; slot < step.scratch_slots; ++slot) {
      at[slot] = out.scratch_bytes;
      // The odd line keeps slots from lying at the same place of every cache set.
      out.scratch_bytes += round_up(slot_item[slot] * capacity, kTempAlignment) + kTempAlignment;
    }
    for (BoundOperand& o : out.operands)
      if (o.scratch) o.offset = at[o.buffer];
  }

  BoundLibraryCall bind_library_call(const LibraryCallStep& step) const {
    BoundLibraryCall out;
    out.callee = step.callee;
    out.last_uses.assign(step.operands.size(), false);
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const LoopOperand& o = step.operands[i];
      out.operands.push_back(bind_operand(o));
      out.dtypes.push_back(o.dtype);
      std::vector<int64_t>&shape = out.shapes.emplace_back(), &strides = out.strides.emplace_back();
      for (const graph::Dim& d : step.shapes[i]) shape.push_back(value(d));
      for (const graph::Dim& d : o.strides) strides.push_back(value(d));
    }
    return out;
  }

  BoundMatMul bind_matmul(const MatMulStep& step, Bound& bound) const {
    BoundMatMul out;
    out.a = bind_operand(step.a);
    out.b = bind_operand(step.b);
    out.c = bind_operand(step.c);
    Product& p = out.product;
    p.core = step.core;
    p.code = code_.entry(step.kernel);
    p.l2_bytes = step.l2_bytes;
    p.m = value(step.m);
    p.n = value(step.n);
    p.k = value(step.k);
    const std::size_t axes = step.batch.size();
    p.a_row = value(step.a.strides[axes]);
    p.a_k = value(step.a.strides[axes + 1]);
    p.b_k = value(step.b.strides[axes]);
    p.b_column = value(step.b.strides[axes + 1]);
    p.c_row = value(step.c.strides[axes]);
    for (std::size_t i = 0; i < axes; ++i)
      p.batch.push_back(
          {value(step.batch[i]), value(step.a.strides[i]), value(step.b.strides[i]), value(step.c.strides[i])});
    if (step.windows) p.windows = bind_windows(*step.windows);
    p.summed = value(step.summed), p.next_a = value(step.next_a), p.next_b = value(step.next_b);
    p.winograd = step.winograd;
    if (step.narrow && std::min({p.m, p.n, p.k}) >= kLeastNarrow)
      out.narrowed = take_groups(p, narrowed_of(step.dtype), code_.entry(*step.narrow), step.in_amx);
    p.plan();
    if (step.in_registers && p.takes_bias()) {
      if (step.in_registers->bias) out.bias = bind_operand(*step.in_registers->bias);
      p.relu = step.in_registers->relu;
    } else if (step.epilogue) {
      out.epilogue = bind_loop(*step.epilogue, bound, false);
      if (step.windows) out.groups = step.windows->groups;
      const auto rows = static_cast<int>(axes) - (out.groups > 1);
      while (step.windows && out.epilogue->rank() > rows + 2 && joins(*out.epilogue, out.epilogue->rank() - 2))
        remove_axis(*out.epilogue, out.epilogue->rank() - 2);
      out.column_axes = out.epilogue->rank() - 1 - rows;
      BoundLoop joined = *out.epilogue;
      join_rows(joined);
      if (joined.joined.length > 0 && out.column_axes == 1 && joined.scratch_bytes <= BoundMatMul::kMostRepeated)
        out.joined = std::move(joined);
      p.nanoseconds += out.epilogue->nanoseconds;
    }
    if (step.producer && program_.measured.empty() && !out.narrowed) take_producer(*step.producer, out, bound);
    return out;
  }

  void take_producer(const LoopStep& step, BoundMatMul& out, Bound& bound) const {
    BoundLoop loop = bind_loop(step, bound, false);
    const int k = loop.rank() - 1;
    out.joined_rows = joins(loop, k - 1);
    // Rows of a few elements are several at once where they follow each other, which those of a rectangle do not. Long
    // arithmetic fetches ahead along whole rows.
    if (!out.joined_rows && loop.extents.back() * out.product.core.item < kShortRow) return;
    const double width = out.product.core.item / 4.0;
    if (step.cost > kLongArithmetic * width * width && out.product.k > out.product.way.depth) return;
    if (!out.product.produce_a(out.joined_rows)) return;
    out.product.nanoseconds += loop.nanoseconds;
    out.producer = std::move(loop);
  }

  Product::Windows bind_windows(const Windows& windows) const {
    Product::Windows out;
    for (int i = 0; i < Windows::kAxes; ++i) {
      const Windows::Axis& a = windows.axes[i];
      out.axes[i] = {value(a.image), value(a.result), value(a.pitch), a.window, a.stride, a.dilation, a.before};
    }
    out.channel = value(windows.channel);
    out.transposed = windows.transposed;
    return out;
  }

  BoundAttention bind_attention(const AttentionStep& step) const {
    BoundAttention out;
    Attention& a = out.attention;
    a.core = step.core;
    a.product_code = code_.entry(step.product), a.softmax_code = code_.entry(step.softmax);
    a.l2_bytes = step.l2_bytes;
    a.batch = value(step.batch), a.heads = value(step.heads), a.key_heads = value(step.key_heads);
    a.queries = value(step.queries), a.keys = value(step.keys), a.depth = value(step.depth),
    a.width = value(step.width);
    a.causal = step.causal, a.ahead = value(step.ahead);
    const auto bind = [&](const LoopOperand& o, BoundOperand& operand, Attention::Matrix& matrix) {
      operand = bind_operand(o);
      matrix = {value(o.strides[0]), value(o.strides[1]), value(o.strides[2]), value(o.strides[3])};
    };
    bind(step.q, out.q, a.q);
    bind(step.k, out.k, a.k);
    bind(step.v, out.v, a.v);
    if (step.mask) bind(*step.mask, out.mask, a.mask);
    a.masked = step.mask.has_value();
    a.backward = step.g.has_value();
    if (a.backward) {
      bind(*step.g, out.g, a.g);
      bind(*step.y, out.y, a.y);
      out.out = bind_operand(step.out);
    } else {
      bind(step.out, out.out, a.out);
    }
    out.scale = bind_operand(step.scale);
    a.drops = step.state.has_value();
    if (a.drops) out.probability = bind_operand(*step.probability), out.state = bind_operand(*step.state);
    a.plan();
    return out;
  }

  BoundUndo bind_undo(const UndoStep& step) const {
    BoundUndo out;
    out.source = bind_operand(step.source);
    out.saved = step.saved;
    for (std::size_t axis = 0; axis < step.extents.size(); ++axis) {
      out.extents.push_back(value(step.extents[axis]));
      out.strides.push_back(value(step.source.strides[axis]));
    }
    return out;
  }

  // ---- temporaries: a Temp lives from the first step that names it to the last one; through all of a loop that names
  // it; for ever if a pointer may lie there
  // --------------------------------------

  struct Life {
    BufferIndex buffer;
    std::size_t first, last;
    int64_t bytes, offset;
  };

  void lay_out_temps(Bound& bound) const {
    constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
    const std::size_t count = program_.buffers.size();
    std::vector<std::size_t> first(count, kNever), last(count, 0);
    for (std::size_t i = 0, begin = 0; i < program_.steps.size(); ++i) {
      if (bound.wave_end[begin] <= i) begin = i;
      for_each_buffer(program_, bound, i, [&](BufferIndex b, bool) {
        first[b] = std::min(first[b], begin);
        last[b] = bound.wave_end[begin] - 1;
      });
    }
    // Memory with saved elements stays in use until the run has ended.
    for (const Step& step : program_.steps)
      if (const auto* undo = std::get_if<UndoStep>(&step)) last[undo->saved] = program_.steps.size();
      else if (const auto* call = std::get_if<LibraryCallStep>(&step); call && call->callee.take_back)
        last[call->operands[call->operands.size() - 2].buffer] = program_.steps.size();
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const auto* flow = std::get_if<FlowStep>(&program_.steps[i]);
      if (!flow) continue;
      if (flow->kind == FlowStep::MoveBuffer) last[flow->b] = program_.steps.size();
      if (flow->kind != FlowStep::BranchBack) continue;
      for (std::size_t inner = flow->target; inner < i; ++inner)
        for_each_buffer(program_, bound, inner, [&](BufferIndex b, bool) {
          first[b] = std::min<std::size_t>(first[b], flow->target);
          last[b] = std::max(last[b], i);
        });
    }
    find_last_uses(bound, last);
    for (const ProductPair& pair : bound.pairs) {
      std::size_t& begin = first[product_of(bound.steps[pair.second])->c.buffer];
      begin = std::min(begin, pair.first);
    }
    std::set<BufferIndex> in_band;
    for (const Band& band : bound.bands) {
      for (const Band::Temp& t : band.temps) in_band.insert(t.buffer);
      for (const Band::Window& w : band.windows) in_band.insert(w.buffer);
    }
    std::vector<Life> lives;
    for (std::size_t b = 0; b < count; ++b) {
      if (program_.buffers[b].kind != BufferKind::Temp || first[b] == kNever ||
          in_band.contains(static_cast<BufferIndex>(b)))
        continue;
      const int64_t bytes =
          round_up(std::max<int64_t>(bound.ranges.bytes(program_.buffers[b].bytes), 1), kTempAlignment);
      lives.push_back({static_cast<BufferIndex>(b), first[b], last[b], bytes, 0});
    }
    // Largest first, each at the lowest offset that is free during its life.
    std::vector<Life> order = lives;
    std::stable_sort(order.begin(), order.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
    bound.temp_offsets.assign(count, -1);
    std::vector<Life> placed;  // by offset
    for (Life& life : order) {
      for (const Life& p : placed) {
        if (p.offset >= life.offset + life.bytes) break;
        if (p.first <= life.last && life.first <= p.last) life.offset = std::max(life.offset, p.offset + p.bytes);
      }
      placed.insert(std::upper_bound(placed.begin(), placed.end(), life.offset,
                                     [](int64_t offset, const Life& p) { return offset < p.offset; }),
                    life);
      bound.temp_offsets[life.buffer] = life.offset;
      bound.temp_bytes = std::max(bound.temp_bytes, life.offset + life.bytes);
    }
  }

  /// Which temporaries library calls may write to. What they give may lie there, and other steps take it from there as
  /// long as they name the result.
  void find_last_uses(Bound& bound, std::vector<std::size_t>& last) const {
    std::set<BufferIndex> moved;
    for (const Step& step : program_.steps)
      if (std::holds_alternative<FlowStep>(step)) for_each_buffer(step, [&](BufferIndex b, bool) { moved.insert(b); });
    for (std::size_t i = 0; i < bound.steps.size(); ++i) {
      auto* call = std::get_if<BoundLibraryCall>(&bound.steps[i]);
      if (!call) continue;
      const std::size_t given = last[call->operands.back().buffer];
      for (std::size_t k = 0; k < call->operands.size(); ++k) {
        const BufferIndex b = call->operands[k].buffer;
        const auto names = std::count_if(call->operands.begin(), call->operands.end(),
                                         [b](const BoundOperand& o) { return o.buffer == b; });
        call->last_uses[k] = program_.buffers[b].kind == BufferKind::Temp && last[b] == i && names == 1 &&
                             bound.wave_end[i] == i + 1 && !moved.contains(b);
      }
      for (std::size_t k = 0; k + 1 < call->operands.size(); ++k)
        if (call->last_uses[k]) last[call->operands[k].buffer] = given;
    }
  }

  const Program& program_;
  const CodeBlock& code_;
  Bound& bound_;
  std::vector<int64_t> symbols_;
  bool beside_ = false;
};

bool mentions(const graph::Dim& d, graph::SymbolId symbol) {
  std::vector<graph::SymbolId> used;
  d.collect_symbols(used);
  return std::find(used.begin(), used.end(), symbol) != used.end();
}

}  // namespace

void for_each_buffer(const Step& step, const std::function<void(BufferIndex, bool)>& f) {
  if (const auto* loop = std::get_if<LoopStep>(&step)) {
    for (const LoopOperand& o : loop->operands)
      if (!o.scratch && !o.index) f(o.buffer, o.written);
  } else if (const auto* product = std::get_if<MatMulStep>(&step)) {
    for (const LoopOperand* o : {&product->a, &product->b, &product->c}) f(o->buffer, o->written);
    if (product->epilogue) for_each_buffer(*product->epilogue, f);
  } else if (const auto* attention = std::get_if<AttentionStep>(&step)) {
    for (const LoopOperand* o : {&attention->q, &attention->k, &attention->v, &attention->scale, &attention->out})
      f(o->buffer, o->written);
    for (const auto* o : attention->optional_operands())
      if (*o) f((*o)->buffer, false);
  } else if (const auto* call = std::get_if<LibraryCallStep>(&step)) {
    for (const LoopOperand& o : call->operands) f(o.buffer, o.written);
  } else if (const auto* flow = std::get_if<FlowStep>(&step)) {
    if (flow->kind == FlowStep::Jump) return;
    f(flow->a, true);
    if (flow->kind == FlowStep::MoveBuffer || flow->kind == FlowStep::RotateBuffers) f(flow->b, true);
    if (flow->kind == FlowStep::RotateBuffers) f(flow->c, true);
  } else {
    const auto& undo = std::get<UndoStep>(step);
    f(undo.source.buffer, false);
    f(undo.saved, true);
  }
}

void for_each_buffer(const Program& program, const Bound& bound, std::size_t i,
                     const std::function<void(BufferIndex, bool)>& f) {
  if (std::holds_alternative<BoundNothing>(bound.steps[i])) return;
  const auto* const product = product_of(bound.steps[i]);
  if (!product || !product->producer) return for_each_buffer(program.steps[i], f);
  const auto but_a = [&](BufferIndex b, bool written) {
    if (b != product->a.buffer) f(b, written);
  };
  for_each_buffer(program.steps[i], but_a);
  for_each_buffer(*std::get<MatMulStep>(program.steps[i]).producer, but_a);
}

void for_each_dim(const Step& step, const std::function<void(const graph::Dim&)>& f) {
  const auto all = [&](const graph::Dims& dims) { std::for_each(dims.begin(), dims.end(), f); };
  const auto operand = [&](const LoopOperand& o) {
    f(o.offset);
    all(o.strides);
  };
  if (const auto* loop = std::get_if<LoopStep>(&step)) {
    all(loop->extents);
    for (const LoopOperand& o : loop->operands) operand(o);
  } else if (const auto* product = std::get_if<MatMulStep>(&step)) {
    all({product->m, product->n, product->k, product->summed, product->next_a, product->next_b});
    all(product->batch);
    for (const LoopOperand* o : {&product->a, &product->b, &product->c}) operand(*o);
    if (product->windows) {
      f(product->windows->channel);
      for (const Windows::Axis& axis : product->windows->axes) all({axis.image, axis.result, axis.pitch});
    }
    for (const std::optional<LoopStep>* part : {&product->epilogue, &product->producer})
      if (*part) for_each_dim(**part, f);
  } else if (const auto* attention = std::get_if<AttentionStep>(&step)) {
    all({attention->batch, attention->heads, attention->key_heads, attention->queries, attention->keys,
         attention->depth, attention->width, attention->ahead});
    for (const LoopOperand* o : {&attention->q, &attention->k, &attention->v, &attention->scale, &attention->out})
      operand(*o);
    for (const auto* o : attention->optional_operands())
      if (*o) operand(**o);
  } else if (const auto* call = std::get_if<LibraryCallStep>(&step)) {
    for (const LoopOperand& o : call->operands) operand(o);
    for (const graph::Dims& shape : call->shapes) all(shape);
  } else if (const auto* flow = std::get_if<FlowStep>(&step)) {
    f(flow->offset);
  } else {
    const auto& undo = std::get<UndoStep>(step);
    operand(undo.source);
    all(undo.extents);
  }
}

Bound bind(const Program& program, const CodeBlock& code, std::span<const int64_t> symbols,
           std::span<const int64_t> values, bool beside, int64_t block_bytes) {
  Bound bound;
  bound.symbols.assign(symbols.begin(), symbols.end());
  bound.ranges = SymbolRanges(program, symbols);
  try {
    Binder(program, code, bound, values).run(beside, block_bytes);
  } catch (const graph::DimOverflow&) {
    bound.redo = true;
  }
  return bound;
}

Dependents dependents_of(const Program& program, graph::SymbolId symbol) {
  Dependents out;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    bool depends = false;
    for_each_dim(program.steps[i], [&](const graph::Dim& d) { depends = depends || mentions(d, symbol); });
    if (depends) out.steps.push_back(i);
  }
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].kind == BufferKind::DimValue && mentions(program.buffers[i].value, symbol))
      out.buffers.push_back(i);
  for (std::size_t i = 0; i < program.conditions.size(); ++i)
    if (mentions(program.conditions[i].left, symbol) || mentions(program.conditions[i].right, symbol))
      out.conditions.push_back(i);
  return out;
}

void rebind(const Program& program, const CodeBlock& code, const Dependents& what, Bound& bound) {
  try {
    Binder(program, code, bound).run_again(what);
  } catch (const graph::DimOverflow&) {
    bound.redo = true;
  }
}

}  // namespace framejit::runtime
