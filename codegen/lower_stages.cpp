// A step's terms become stages: kernels, and between them NumPy's own loops over the tile's scratch.
//
//     stage 0  kernel   what depends on memory alone              -> scratch
//     stage 1  loops    exp, log ... of scratch or of memory      -> scratch, or straight into fresh memory
//     stage 2  kernel   what depends on stage 1 ...               -> memory, or the fold
//
// Even stages are one kernel each, odd ones a list of NumPy loops in program order. Where terms have slots for their
// flags, those of two slots are in kernels of their own.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "codegen/emit.h"
#include "codegen/lower_stage_kernels.h"
#include "graph/passes/memory.h"

namespace framejit::codegen::detail {

namespace {

constexpr int64_t kMinTile = 256, kMaxTile = 8192;
constexpr std::size_t kMaxNameLength = 60;
/// Nanoseconds per element above which arithmetic, not memory, is what a step waits for: a second loop beside the plain
/// one, with stores of its own, then costs more registers than it saves (a sum of three exponentials of 10^6 float64:
/// 11 %, Black-Scholes: 8 %).
constexpr double kStreamed = 3.0;

/// Estimated nanoseconds per element, in cache.
double cost_of(const Term& term) {
  const double width = graph::size_of(term.operand_dtype) / 4.0;
  switch (term.kind) {
    case Term::kConstant:
    case Term::kPair:
    case Term::kPart:
    case Term::kCopy: return 0;
    case Term::kIndex: return 0.02;
    case Term::kLoad: return 0.02 * graph::size_of(term.dtype) / 4.0;
    case Term::kApply: break;
  }
  if (term.numpy_loop)
    return graph::def(term.op).exactness == graph::Exactness::NumpyLoop ? 0.6 * width * width : 0.2 * width;
  switch (term.op) {
    case Op::Divide:
    case Op::Reciprocal:
    case Op::Sqrt: return 0.15 * width * width;
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod: return 1.0 * width;
    default: return graph::def(term.op).exactness == graph::Exactness::NumpyLoop ? 0.4 * width * width : 0.03 * width;
  }
}

class StageBuilder {
 public:
  /// `keeps`: what is overwritten is kept in scratch.
  StageBuilder(const StepSpec& spec, LowerContext& context, bool keeps = false)
      : spec_(spec),
        context_(context),
        keeps_(keeps),
        stages_(spec, context.facts),
        operands_(step_, stages_, context) {}

  LoopStep build() {
    step_.group = spec_.group;
    step_.extents = stages_.axes.extents;
    prepare_fold();
    stages_.check_numpy_loop_operands();
    collect_outputs();
    emit_stages();
    add_guarded();
    finish();
    add_joint();
    return std::move(step_);
  }

 private:
  void prepare_fold() {
    if (!spec_.fold) return;
    const FoldSpec& fold = *spec_.fold;
    step_.reduce = fold.kind;
    step_.reduced_axes = stages_.axes.reduced;
    step_.run_axes = stages_.axes.run;
    step_.run_cut = fold.run_cut;
    step_.combine = fold.combine;
    step_.accumulator = fold.accumulator;
    step_.identity = fold.identity;
    step_.redo_zero_or_nan = fold.redo_zero_or_nan;
  }

  /// What must be written to scratch by the stage that computes it: values of kernels that another stage reads, and
  /// what NumPy loops compute, unless that goes straight into fresh memory.
  void collect_outputs() {
    crosses_.assign(stages_.terms.size(), false);
    for (TermId user : stages_.order)
      for (TermId arg : stages_.terms[user].args)
        if (stages_.computed(arg) && (stages_.terms[arg].numpy_loop || stages_.stage_of[arg] != stages_.stage_of[user]))
          crosses_[arg] = true;
    for (std::size_t i = 0; i < spec_.stores.size(); ++i) {
      const TermId value = spec_.stores[i].value;
      if (stages_.computed(value) && stages_.store_stage[i] != stages_.stage_of[value] && stages_.store_stage[i] >= 0)
        crosses_[value] = true;
    }
    if (spec_.fold && stages_.computed(stages_.value) &&
        (stages_.terms[stages_.value].numpy_loop || stages_.stage_of[stages_.value] != stages_.fold_stage))
      crosses_[stages_.value] = true;
    for (TermId t : stages_.order) {
      if (!stages_.terms[t].numpy_loop && !crosses_[t]) continue;
      if (!stages_.computed(t)) continue;
      if (const auto direct = stages_.direct.find(t); direct != stages_.direct.end())
        operands_.in_memory[t] = operands_.memory_operand(direct->second->access, true);
      else operands_.scratch_operand(t);
    }
  }

  void emit_stages() {
    const int end = std::max(stages_.last_kernel, stages_.fold_stage);
    for (int stage = 0; stage <= end; ++stage) {
      if (stage % 2) emit_numpy_loops(stage);
      else emit_kernel_stage(stage);
    }
  }

  void emit_kernel_stage(int stage) {
    KernelBuilder n(stages_, operands_, stage);
    n.nest.o1 = context_.options.o1;
    n.nest.shares_divisors = shares_divisors();
    for (TermId t : stages_.order)
      if (stages_.computed(t) && !stages_.terms[t].numpy_loop && stages_.stage_of[t] == stage) {
        for (uint8_t part = 0; part <= graph::is_complex(stages_.terms[t].dtype); ++part) n.expr_of_part(t, part);
        if (crosses_[t]) n.store(operands_.in_memory.at(t), t);
      }
    bool streams = false;
    for (std::size_t i = 0; i < spec_.stores.size(); ++i) {
      if (stages_.store_stage[i] != stage) continue;
      const OperandId to = operands_.memory_operand(spec_.stores[i].access, true);
      if (keeps_ && is_loaded(spec_.stores[i].access)) step_.joint.saved.push_back(keep_old(n, spec_.stores[i], to));
      n.store(to, spec_.stores[i].value);
      streams = true;
    }
    if (spec_.fold && stage == stages_.fold_stage) add_fold(n);
    if (n.nest.body.empty()) return;
    if (n.nest.stores.empty()) {
      // Computed for its flags alone; a kernel stores something all the same.
      const auto last = static_cast<uint16_t>(n.nest.body.size() - 1);
      const OperandId sink = operands_.own_scratch(n.nest.body[last].dtype, stage);
      n.nest.stores.push_back({n.operand(sink, true), last, false});
    }
    n.nest.name = name_of_nest(n.nest);
    Stage out;
    out.operands = n.operands;
    out.code = context_.kernels.add(n.nest);
    out.slot = stages_.slot_of_stage(stage);
    if (streams && spec_.streams && step_.stages.empty() && stages_.last_kernel == 0) add_streaming(n, out);
    step_.stages.push_back(std::move(out));
  }

  /// Rows that are long enough to pay for it; and a product may underflow where the quotient would not, which owners of
  /// flags would tell.
  bool shares_divisors() const {
    constexpr int64_t kLeast = 32;
    return context_.options.o1 && !context_.per_call_flags && !stages_.axes.extents.empty() &&
           context_.facts.hint(stages_.axes.extents.back()) >= kLeast;
  }

  void add_fold(KernelBuilder& n) {
    const FoldSpec& fold = *spec_.fold;
    uint16_t e = n.expr_of_part(stages_.value, 0);
    const uint16_t imaginary =
        graph::is_complex(stages_.terms[stages_.value].dtype) ? n.expr_of_part(stages_.value, 1) : uint16_t{0};
    if (fold.kind == ReduceKind::Pairwise && fold.accumulator != stages_.terms[stages_.value].dtype) {
      Expr wide{};
      wide.kind = ExprKind::Apply;
      wide.op = Op::Cast;
      wide.operand_dtype = stages_.terms[stages_.value].dtype;
      wide.dtype = fold.accumulator;
      wide.args[0] = e;
      e = n.push(wide);
    }
    const OperandId output = operands_.memory_operand(fold.output, true);
    step_.output = output;
    const uint16_t number = n.operand(output, true);
    n.nest.stores.push_back({number, e, false, imaginary});
    n.nest.combine = fold.combine;
    NestOperand& operand = n.nest.operands[number];
    operand.access = fold.kind == ReduceKind::Rows ? inner_access(step_.operands[output]) : codegen::Access::Broadcast;
    switch (fold.kind) {
      case ReduceKind::Pairwise:
        n.nest.fold = Fold::PairwiseLeaf;
        operand.dtype = fold.accumulator;
        if (!n.nest.o1 || operand.dtype != fold.output.dtype || !has_blocks(operand.dtype) || stages_.axes.run > 1 ||
            !operands_.slots.empty())
          break;
        n.nest.fold = Fold::Blocks;
        step_.longest_run = longest_run(n.nest, context_.options.cpu.isa);
        step_.run_cut = 0;
        break;
      case ReduceKind::Rows: n.nest.fold = Fold::Rows; break;
      case ReduceKind::AnyOrder: n.nest.fold = Fold::AnyOrder; break;
      case ReduceKind::LeftFold: n.nest.fold = Fold::LeftFold; break;
      case ReduceKind::None: break;
    }
  }

  /// A second kernel that bypasses the cache, for steps that touch more than it holds.
  void add_streaming(const KernelBuilder& n, Stage& stage) {
    // What is touched beside the result takes part of the third level, and others take some: of 32 MB the plain stores
    // are the faster ones up to 8 MB in all, the others from 16 MB on.
    const int64_t threshold =
        std::max<int64_t>(2 * context_.options.cpu.l2_bytes, context_.options.cpu.l3_bytes / 8 * 3);
    Dim bytes = 0;
    LoopNest streaming = n.nest;
    bool any = false;
    for (const auto& [access, operand] : operands_.memory)
      bytes = bytes + graph::product(stages_.axes.extents) * Dim(graph::size_of(access.dtype));
    for (NestStore& s : streaming.stores) {
      if (streaming.operands[s.operand].access != codegen::Access::Contiguous) continue;
      if (n.loads.contains({n.operands[s.operand], 0}) || n.loads.contains({n.operands[s.operand], 1}))
        continue;  // in place: its lines are in the cache by then
      s.non_temporal = any = true;
    }
    if (!any || (bytes.is_const() && bytes.value() < threshold)) return;
    stage.streaming = context_.kernels.add(streaming);
    step_.streaming_bytes = threshold;
  }

  /// Does each element of the step depend on what it stores there, and on nothing else that it stores?
  bool elementwise_in_place() const {
    const auto apart = [&](const Access& a, const Access& b) {
      return a.buffer != b.buffer || graph::never_meet(type_of(a), type_of(b));
    };
    for (std::size_t i = 0; i < spec_.stores.size(); ++i) {
      const Access& stored = spec_.stores[i].access;
      for (std::size_t j = 0; j < i; ++j)
        if (!apart(spec_.stores[j].access, stored)) return false;
      for (TermId t : stages_.order)
        if (stages_.terms[t].kind == Term::kLoad && !(stages_.terms[t].access == stored) &&
            !apart(stages_.terms[t].access, stored))
          return false;
    }
    return true;
  }

  /// The place of an access.
  graph::Type type_of(const Access& access) const {
    graph::Type type;
    type.dtype = access.dtype;
    type.shape = spec_.shape;
    type.strides = access.strides;
    type.offset = access.offset;
    return type;
  }

  bool is_loaded(const Access& access) const {
    return std::any_of(stages_.order.begin(), stages_.order.end(), [&](TermId t) {
      return stages_.terms[t].kind == Term::kLoad && stages_.terms[t].access == access;
    });
  }

  /// Has the kernel keep what it will write over.
  GuardedKernel::Saved keep_old(KernelBuilder& n, const StoreTerm& s, OperandId stored) {
    const OperandId read = operands_.memory_operand(s.access, false);
    const OperandId scratch = operands_.own_scratch(s.access.dtype, n.stage());
    NestStore old{};
    old.expr = n.load(read, 0);
    if (graph::is_complex(s.access.dtype)) old.imaginary = n.load(read, 1);
    old.operand = n.operand(scratch, true);
    n.nest.stores.push_back(old);
    return {stored, scratch};
  }

  /// One kernel beside stages that were cut for their flags alone. Comes last: the terms are of one stage from here on.
  void add_guarded() {
    if (stages_.slot_by_stage.size() < 2 || spec_.fold || !elementwise_in_place()) return;
    for (TermId t : stages_.order)
      if (stages_.terms[t].numpy_loop || stages_.terms[t].kind == Term::kIndex) return;
    std::fill(stages_.stage_of.begin(), stages_.stage_of.end(), 0);
    KernelBuilder n(stages_, operands_, 0);
    n.nest.o1 = context_.options.o1;
    n.nest.guarded = true;
    GuardedKernel out;
    for (TermId t : stages_.order)
      if (stages_.computed(t) && !graph::is_complex(stages_.terms[t].dtype)) n.expr(t);
    for (const StoreTerm& s : spec_.stores) {
      const OperandId stored = operands_.memory_operand(s.access, true);
      if (is_loaded(s.access)) out.saved.push_back(keep_old(n, s, stored));
      n.store(stored, s.value);
    }
    n.nest.guards_together = out.saved.empty();
    n.nest.name = name_of_nest(n.nest);
    out.operands = n.operands;
    out.kernel = context_.kernels.add(n.nest);
    step_.guarded = std::move(out);
  }

  /// Stages that are cut by NumPy loops only, beside those that are cut for their flags as well.
  void add_joint() {
    if (stages_.slot_by_stage.size() < 2 || step_.guarded || spec_.fold || !elementwise_in_place()) return;
    StepSpec unowned = spec_;
    for (Term& term : unowned.terms) {
      if (term.kind == Term::kIndex) return;
      term.slot = -1;
    }
    LoopStep other;
    try {
      other = StageBuilder(unowned, context_, true).build();
    } catch (const LowerFailure&) {  // more operands than a step may have
      return;
    }
    if (other.stages.size() >= step_.stages.size()) return;
    // Slots of scratch are shared: either the one stages run over a tile, or the others.
    std::vector<int> slot_of(other.scratch_slots, -1);
    std::vector<bool> taken(operands_.slots.size(), false);
    for (const LoopOperand& o : other.operands) {
      if (!o.scratch || slot_of[o.buffer] >= 0) continue;
      std::size_t slot = 0;
      while (slot < operands_.slots.size() &&
             (taken[slot] || operands_.slots[slot].itemsize != graph::size_of(o.dtype)))
        ++slot;
      if (slot == operands_.slots.size()) {
        operands_.slots.push_back({graph::size_of(o.dtype), 0});
        taken.push_back(false);
      }
      taken[slot] = true;
      slot_of[o.buffer] = static_cast<int>(slot);
    }
    std::vector<OperandId> number;
    std::vector<LoopOperand> operands = step_.operands;
    for (LoopOperand& o : other.operands) {
      if (o.scratch) o.buffer = static_cast<BufferIndex>(slot_of[o.buffer]);
      const auto same = std::find_if(operands.begin(), operands.end(), [&](const LoopOperand& known) {
        return known.buffer == o.buffer && known.scratch == o.scratch && known.dtype == o.dtype &&
               known.offset == o.offset && known.strides == o.strides && known.written == o.written;
      });
      number.push_back(static_cast<OperandId>(same - operands.begin()));
      if (same == operands.end()) operands.push_back(o);
      else same->nonnegative = same->nonnegative || o.nonnegative;
    }
    if (operands.size() > LoopStep::kMostOperands) return;
    step_.operands = std::move(operands);
    step_.scratch_slots = static_cast<uint32_t>(operands_.slots.size());
    step_.tile = std::max(step_.tile, other.tile);
    for (Stage& stage : other.stages)
      for (OperandId& o : stage.operands) o = number[o];
    for (GuardedKernel::Saved& saved : other.joint.saved) saved = {number[saved.operand], number[saved.scratch]};
    step_.joint = {std::move(other.stages), std::move(other.joint.saved)};
  }

  void emit_numpy_loops(int stage) {
    for (TermId t : stages_.order) {
      const Term& term = stages_.terms[t];
      if (!term.numpy_loop || stages_.stage_of[t] != stage) continue;
      Stage out;
      for (TermId arg : term.args) {
        if (stages_.computed(arg)) out.operands.push_back(operands_.in_memory.at(arg));
        else if (stages_.terms[arg].kind == Term::kLoad)
          out.operands.push_back(operands_.memory_operand(stages_.terms[arg].access, false, true));
        else out.operands.push_back(operands_.literal_operand(stages_.terms[arg]));
      }
      out.operands.push_back(operands_.in_memory.at(t));
      out.code = context_.options.numpy_loop(term.op, term.operand_dtype, term.dtype);
      out.slot = term.slot;
      if (term.dtype == DType::F16) step_.small_domain_redo = true;
      step_.stages.push_back(std::move(out));
    }
  }

  static std::string name_of_nest(const LoopNest& nest) {
    std::string name;
    for (const Expr& e : nest.body) {
      if (e.kind != ExprKind::Apply) continue;
      if (!name.empty()) name += '_';
      name += graph::name_of(e.op);
      if (name.size() > kMaxNameLength) break;
    }
    if (nest.fold != Fold::None)
      name += (name.empty() ? "fold_" : "_fold_") + std::string(graph::name_of(nest.combine));
    return name.empty() ? "copy" : name;
  }

  void finish() {
    step_.scratch_slots = static_cast<uint32_t>(operands_.slots.size());
    double cost = 0;
    for (TermId t : stages_.order) {
      cost += cost_of(stages_.terms[t]);
      if (!stages_.terms[t].numpy_loop && stages_.terms[t].kind != Term::kApply) continue;
      if (step_.name.size() > kMaxNameLength) continue;
      if (!step_.name.empty()) step_.name += '_';
      step_.name += graph::name_of(stages_.terms[t].op);
    }
    step_.cost = std::max(0.05, cost);
    if (step_.cost > kStreamed)
      for (Stage& stage : step_.stages) stage.streaming.reset();
    if (spec_.fold)
      step_.name +=
          (step_.name.empty() ? "" : "_") + std::string("reduce_") + std::string(graph::name_of(spec_.fold->combine));
    if (step_.name.empty()) step_.name = "copy";
    if (operands_.slots.empty()) return;
    int64_t bytes = 0;
    for (const StepOperands::Slot& slot : operands_.slots) bytes += slot.itemsize;
    int64_t budget = std::max<int64_t>(context_.options.cpu.l1d_bytes * 3 / 4, 16 << 10);
    if (!stages_.slot_by_stage.empty()) {
      // Arithmetic that is cut for its flags alone: what comes from memory must find room beside the scratch. (Of 32 KB
      // 12 to 24 do equally well, 48 cost half of the speed.)
      budget = std::max<int64_t>(context_.options.cpu.l1d_bytes / 2, 16 << 10);
      for (std::size_t i = 0; i < operands_.memory.size(); ++i) {
        const Access& access = operands_.memory[i].first;
        const bool again =
            std::any_of(operands_.memory.begin(), operands_.memory.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const auto& earlier) { return earlier.first == access; });
        if (!again && !is_scalar(access)) bytes += graph::size_of(access.dtype);
      }
    }
    step_.tile = std::clamp<int64_t>(budget / bytes / 64 * 64, kMinTile, kMaxTile);
  }

  const StepSpec& spec_;
  LowerContext& context_;
  const bool keeps_;
  LoopStep step_;
  StageOrder stages_;
  StepOperands operands_;
  std::vector<bool> crosses_;  // by term: another stage reads it
};

}  // namespace

LoopStep build_step(const StepSpec& spec, LowerContext& context) { return StageBuilder(spec, context).build(); }

}  // namespace framejit::codegen::detail
