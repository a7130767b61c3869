// A step's terms become stages: kernels, and between them NumPy's own loops over the tile's scratch.
//
//     stage 0  kernel   what depends on memory alone              -> scratch
//     stage 1  loops    exp, log ... of scratch or of memory      -> scratch, or straight into fresh memory
//     stage 2  kernel   what depends on stage 1 ...               -> memory, or the fold
//
// Even stages are one kernel each, odd ones a list of NumPy loops in program order. Where terms have slots for their
// flags, those of two slots are in kernels of their own.
#include <algorithm>
#include <map>
#include <optional>

#include "codegen/emit.h"
#include "codegen/lower_step.h"
#include "graph/support/check.h"

namespace framejit::codegen::detail {

namespace {

constexpr int64_t kMinTile = 256, kMaxTile = 8192;
constexpr std::size_t kMaxNameLength = 60;
/// Nanoseconds per element above which arithmetic, not memory, is what a step waits for: a second loop beside the plain
/// one, with stores of its own, then costs more registers than it saves (a sum of three exponentials of 10^6 float64:
/// 11 %, Black-Scholes: 8 %).
constexpr double kStreamed = 3.0;

using OperandId = uint16_t;

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
  StageBuilder(const StepSpec& spec, LowerContext& context)
      : spec_(spec), context_(context), axes_(loop_axes(spec, context.facts)), terms_(spec.terms) {}

  LoopStep build() {
    step_.group = spec_.group;
    step_.extents = axes_.extents;
    prepare_fold();
    gather_for_runs();
    find_needed();
    number_stages();
    prepare_fold_scratch();
    check_numpy_loop_operands();
    collect_outputs();
    emit_stages();
    add_guarded();
    finish();
    return std::move(step_);
  }

 private:
  // ---- preparation --------------------------------------------------------------------------------------------------

  void prepare_fold() {
    if (!spec_.fold) return;
    const FoldSpec& fold = *spec_.fold;
    value_ = fold.value;
    step_.reduce = fold.kind;
    step_.reduced_axes = axes_.reduced;
    step_.run_axes = axes_.run;
    step_.run_cut = fold.run_cut;
    step_.combine = fold.combine;
    step_.accumulator = fold.accumulator;
    step_.identity = fold.identity;
    step_.redo_zero_or_nan = fold.redo_zero_or_nan;
  }

  bool many_run_axes() const { return spec_.fold && spec_.fold->kind == ReduceKind::Pairwise && axes_.run > 1; }

  /// Where a run crosses rows, NumPy loops and the fold work on the linear tile: loads get a copy in scratch.
  void gather_for_runs() {
    if (!many_run_axes()) return;
    const std::size_t count = terms_.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (!terms_[i].numpy_loop) continue;
      for (std::size_t a = 0; a < terms_[i].args.size(); ++a) {
        const Term& arg = terms_[terms_[i].args[a]];
        if (arg.kind != Term::kLoad || is_scalar(arg.access)) continue;
        const TermId copy = append_copy(terms_[i].args[a]);
        terms_[i].args[a] = copy;
      }
    }
    if (terms_[value_].kind != Term::kCopy) value_ = append_copy(value_);
  }

  TermId append_copy(TermId of) {
    Term copy;
    copy.kind = Term::kCopy;
    copy.dtype = copy.operand_dtype = terms_[of].dtype;
    copy.args = {of};
    terms_.push_back(std::move(copy));
    return static_cast<TermId>(terms_.size() - 1);
  }

  /// The same element for the whole step.
  static bool is_scalar(const Access& access) {
    return std::all_of(access.strides.begin(), access.strides.end(), [](const Dim& s) { return s == Dim(0); });
  }

  /// Terms in an order in which arguments come first (copies were appended behind their users), and only those needed.
  void find_needed() {
    visited_.assign(terms_.size(), false);
    for (const StoreTerm& s : spec_.stores) visit(s.value);
    for (TermId t : spec_.kept) visit(t);
    if (spec_.fold) visit(value_);
  }

  void visit(TermId root) {
    if (visited_[root]) return;
    std::vector<std::pair<TermId, std::size_t>> stack{{root, 0}};
    visited_[root] = true;
    while (!stack.empty()) {
      auto& [term, next] = stack.back();
      if (next < terms_[term].args.size()) {
        const TermId arg = terms_[term].args[next++];
        if (!visited_[arg]) {
          visited_[arg] = true;
          stack.emplace_back(arg, 0);
        }
      } else {
        order_.push_back(term);
        stack.pop_back();
      }
    }
  }

  bool computed(TermId t) const {
    const Term& term = terms_[t];
    if (term.kind == Term::kPart) return computed(term.args[0]);
    return term.kind == Term::kApply || term.kind == Term::kCopy || term.kind == Term::kPair;
  }

  void number_stages() {
    stage_.assign(terms_.size(), 0);
    int highest = 0;
    for (TermId t : order_) {
      const Term& term = terms_[t];
      if (!computed(t)) continue;
      int stage = term.numpy_loop ? 1 : 0;
      for (TermId arg : term.args) {
        if (!computed(arg) && terms_[arg].kind != Term::kIndex) continue;
        const int from = stage_[arg];
        if (term.numpy_loop) stage = std::max(stage, terms_[arg].numpy_loop ? from : from + 1);
        else stage = std::max(stage, terms_[arg].numpy_loop ? from + 1 : from);
      }
      if (!term.numpy_loop && term.slot >= 0) {
        while (slot_of_stage(stage) >= 0 && slot_of_stage(stage) != term.slot) stage += 2;
        stage_slots_[stage] = term.slot;
      }
      stage_[t] = stage;
      highest = std::max(highest, stage);
    }
    // Late stores and the fold are in the last kernel.
    last_ = highest + highest % 2;
    store_stage_.clear();
    for (const StoreTerm& s : spec_.stores) {
      const bool numpy_loop = computed(s.value) && terms_[s.value].numpy_loop;
      int stage = s.late ? last_ : numpy_loop ? stage_[s.value] + 1 : stage_[s.value];
      if (numpy_loop && s.direct && !direct_.contains(s.value) && can_write_directly(s)) {
        direct_[s.value] = &s;
        stage = -1;  // the loop itself
      }
      store_stage_.push_back(stage);
    }
  }

  /// Whose flags the kernel of a stage sets; -1: nobody's, or nobody asks.
  int32_t slot_of_stage(int stage) const {
    const auto it = stage_slots_.find(stage);
    return it == stage_slots_.end() ? -1 : it->second;
  }

  bool can_write_directly(const StoreTerm& s) const {
    const Dims strides = axes_.strides(s.access);
    return strides.empty() || strides.back() == Dim(graph::size_of(s.access.dtype));
  }

  /// A run of several axes is folded from scratch, by a kernel of its own.
  void prepare_fold_scratch() {
    if (!spec_.fold) return;
    fold_stage_ = last_;
    if (computed(value_) && terms_[value_].numpy_loop) fold_stage_ = std::max(fold_stage_, stage_[value_] + 1);
    if (many_run_axes()) fold_stage_ = std::max(fold_stage_, stage_[value_] + 2);
  }

  void check_numpy_loop_operands() const {
    for (TermId t : order_) {
      const Term& term = terms_[t];
      if (!term.numpy_loop) continue;
      const std::string op(graph::name_of(term.op));
      if (term.dtype == DType::F16 && axes_.extents.empty()) fail(op + " of a float16 scalar is left to NumPy");
      for (std::size_t a = 0; a < term.args.size(); ++a) {
        const Term& arg = terms_[term.args[a]];
        if (arg.kind != Term::kLoad) continue;
        const Dims strides = axes_.strides(arg.access);
        bool zero = false, moves = false;
        for (const Dim& s : strides) {
          if (s.is_const() && s.value() < 0) fail(op + " of an array with a negative stride is left to NumPy");
          zero = zero || s == Dim(0);
          moves = moves || !(s == Dim(0));
        }
        if (term.op == Op::Power && a == 1 && zero && moves)
          fail("power with an exponent that is broadcast along some axes only is left to NumPy");
        if (term.dtype == DType::F16 && moves && !(strides.back() == Dim(2)))
          fail(op + " of a float16 array that is not contiguous is left to NumPy");
      }
    }
  }

  // ---- operands -----------------------------------------------------------------------------------------------------

  OperandId memory_operand(const Access& access, bool written, bool by_numpy_loop = false) {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (memory_[i].first == access && step_.operands[memory_[i].second].written == written) {
        if (by_numpy_loop) mark_nonnegative(step_.operands[memory_[i].second]);
        return memory_[i].second;
      }
    LoopOperand operand;
    operand.buffer = access.buffer;
    operand.dtype = access.dtype;
    operand.offset = access.offset;
    operand.strides = axes_.strides(access);
    operand.written = written;
    if (by_numpy_loop) mark_nonnegative(operand);
    const OperandId id = append_operand(std::move(operand));
    memory_.emplace_back(access, id);
    return id;
  }

  static void mark_nonnegative(LoopOperand& operand) {
    for (const Dim& s : operand.strides)
      if (!s.is_const()) operand.nonnegative = true;
  }

  OperandId append_operand(LoopOperand operand) {
    if (step_.operands.size() >= 64) fail("a loop of more than 64 operands");
    step_.operands.push_back(std::move(operand));
    return static_cast<OperandId>(step_.operands.size() - 1);
  }

  OperandId literal_operand(const Term& constant) {
    LoopOperand operand;
    operand.buffer = context_.literal(graph::element_of(constant.dtype, constant.constant).data(),
                                      static_cast<std::size_t>(graph::size_of(constant.dtype)));
    operand.dtype = constant.dtype;
    operand.strides.assign(axes_.extents.size(), 0);
    return append_operand(std::move(operand));
  }

  OperandId index_operand() {
    if (index_) return *index_;
    LoopOperand operand;
    operand.dtype = DType::I64;
    operand.index = true;
    operand.strides.assign(axes_.extents.size(), 0);
    index_ = append_operand(std::move(operand));
    return *index_;
  }

  /// Where a computed value lies for other stages. One operand for all that take turns in a slot.
  OperandId scratch_operand(TermId t) {
    auto [it, added] = in_memory_.try_emplace(t, 0);
    if (added) {
      LoopOperand operand;
      operand.scratch = true;
      operand.dtype = terms_[t].dtype;
      operand.buffer = take_slot(t);
      operand.written = true;
      const auto [same, first] = scratch_.try_emplace({operand.buffer, operand.dtype}, 0);
      if (first) same->second = append_operand(std::move(operand));
      it->second = same->second;
    }
    return it->second;
  }

  /// A slot that nobody reads any more when `t` is computed, else a new one.
  BufferIndex take_slot(TermId t) {
    const int size = graph::size_of(terms_[t].dtype), now = stage_[t];
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].itemsize == size && slots_[i].last_read < now) {
        slots_[i].last_read = last_read(t);
        return static_cast<BufferIndex>(i);
      }
    slots_.push_back({size, last_read(t)});
    return static_cast<BufferIndex>(slots_.size() - 1);
  }

  int last_read(TermId t) const {
    int last = stage_[t];
    for (TermId user : order_)
      for (TermId arg : terms_[user].args)
        if (arg == t) last = std::max(last, stage_[user]);
    for (std::size_t i = 0; i < spec_.stores.size(); ++i)
      if (spec_.stores[i].value == t) last = std::max(last, store_stage_[i]);
    if (spec_.fold && value_ == t) last = std::max(last, fold_stage_);
    return last;
  }

  /// What must be written to scratch by the stage that computes it: values of kernels that another stage reads, and
  /// what NumPy loops compute, unless that goes straight into fresh memory.
  void collect_outputs() {
    crosses_.assign(terms_.size(), false);
    for (TermId user : order_)
      for (TermId arg : terms_[user].args)
        if (computed(arg) && (terms_[arg].numpy_loop || stage_[arg] != stage_[user])) crosses_[arg] = true;
    for (std::size_t i = 0; i < spec_.stores.size(); ++i) {
      const TermId value = spec_.stores[i].value;
      if (computed(value) && store_stage_[i] != stage_[value] && store_stage_[i] >= 0) crosses_[value] = true;
    }
    if (spec_.fold && computed(value_) && (terms_[value_].numpy_loop || stage_[value_] != fold_stage_))
      crosses_[value_] = true;
    for (TermId t : order_) {
      if (!terms_[t].numpy_loop && !crosses_[t]) continue;
      if (!computed(t)) continue;
      if (const auto direct = direct_.find(t); direct != direct_.end())
        in_memory_[t] = memory_operand(direct->second->access, true);
      else scratch_operand(t);
    }
  }

  // ---- kernels ------------------------------------------------------------------------------------------------------

  /// One kernel: a LoopNest under construction, and which operands of the step it takes.
  struct Nest {
    LoopNest nest;
    std::vector<OperandId> operands;
    std::map<std::pair<OperandId, bool>, uint16_t> numbers;
    std::map<TermId, uint16_t> exprs;
    std::map<std::pair<OperandId, uint8_t>, uint16_t> loads;  // by operand and part
  };

  uint16_t nest_operand(Nest& n, OperandId id, bool written) {
    auto [it, added] = n.numbers.try_emplace({id, written}, static_cast<uint16_t>(n.operands.size()));
    if (added) {
      n.operands.push_back(id);
      n.nest.operands.push_back({step_.operands[id].dtype, inner_access(step_.operands[id]), written});
    }
    return it->second;
  }

  codegen::Access inner_access(const LoopOperand& operand) const {
    if (operand.scratch) return codegen::Access::Contiguous;
    if (operand.index) return codegen::Access::Broadcast;
    if (operand.strides.empty()) return operand.written ? codegen::Access::Contiguous : codegen::Access::Broadcast;
    const Dim& inner = operand.strides.back();
    if (inner == Dim(0)) return codegen::Access::Broadcast;
    if (inner == Dim(graph::size_of(operand.dtype))) return codegen::Access::Contiguous;
    return codegen::Access::Strided;
  }

  uint16_t push(Nest& n, Expr expr) {
    if (n.nest.body.size() >= 60'000) fail("a kernel of more than 60000 operations");
    n.nest.body.push_back(expr);
    return static_cast<uint16_t>(n.nest.body.size() - 1);
  }

  uint16_t load(Nest& n, OperandId id, uint8_t part = 0) {
    auto it = n.loads.find({id, part});
    if (it != n.loads.end()) return it->second;
    Expr e{};
    e.kind = ExprKind::Load;
    e.dtype = e.operand_dtype = graph::part_of(step_.operands[id].dtype);
    e.args[0] = nest_operand(n, id, false);
    e.args[1] = part;
    return n.loads[{id, part}] = push(n, e);
  }

  /// A part of a complex term, or the whole of a real one.
  uint16_t expr_of_part(Nest& n, TermId t, uint8_t part, int stage) {
    const Term& term = terms_[t];
    if (!graph::is_complex(term.dtype)) return expr(n, t, stage);
    if (computed(t) && (term.numpy_loop || stage_[t] != stage)) return load(n, in_memory_.at(t), part);
    if (term.kind == Term::kLoad) return load(n, memory_operand(term.access, false), part);
    if (term.kind == Term::kPair) return expr(n, term.args[part], stage);
    if (term.kind == Term::kCopy) return expr_of_part(n, term.args[0], part, stage);
    Expr e{};
    e.kind = ExprKind::Constant;
    e.dtype = e.operand_dtype = graph::part_of(term.dtype);
    e.constant.lo = part ? term.constant.hi : term.constant.lo;
    return push(n, e);
  }

  void store(Nest& n, OperandId to, TermId t, int stage) {
    NestStore s{};
    s.expr = expr_of_part(n, t, 0, stage);
    if (graph::is_complex(terms_[t].dtype)) s.imaginary = expr_of_part(n, t, 1, stage);
    s.operand = nest_operand(n, to, true);
    n.nest.stores.push_back(s);
  }

  /// The expression for a term in the kernel of `stage`. Arguments of the same stage are there already, because terms
  /// are visited in order.
  uint16_t expr(Nest& n, TermId t, int stage) {
    if (auto it = n.exprs.find(t); it != n.exprs.end()) return it->second;
    const Term& term = terms_[t];
    if (computed(t) && (term.numpy_loop || stage_[t] != stage)) return load(n, in_memory_.at(t));
    Expr e{};
    e.dtype = e.operand_dtype = term.dtype;
    switch (term.kind) {
      case Term::kLoad: return load(n, memory_operand(term.access, false));
      case Term::kConstant:
        e.kind = ExprKind::Constant;
        e.constant = term.constant;
        break;
      case Term::kIndex: return n.exprs[t] = index_expr(n);
      case Term::kCopy: return n.exprs[t] = expr(n, term.args[0], stage);
      case Term::kPart: return n.exprs[t] = expr_of_part(n, term.args[0], term.part, stage);
      case Term::kPair: FRAMEJIT_CHECK(false, "a complex number as one expression");
      case Term::kApply:
        e.kind = ExprKind::Apply;
        e.op = term.op;
        e.operand_dtype = term.operand_dtype;
        for (std::size_t a = 0; a < term.args.size(); ++a) e.args[a] = expr(n, term.args[a], stage);
        break;
    }
    return n.exprs[t] = push(n, e);
  }

  /// Position along the axis: that of the kernel's first element, and the kernel's own count.
  uint16_t index_expr(Nest& n) {
    Expr first{};
    first.kind = ExprKind::Load;
    first.dtype = first.operand_dtype = DType::I64;
    first.args[0] = nest_operand(n, index_operand(), false);
    const uint16_t start = push(n, first);
    Expr count{};
    count.kind = ExprKind::InnerIndex;
    count.dtype = count.operand_dtype = DType::I64;
    const uint16_t inner = push(n, count);
    Expr sum{};
    sum.kind = ExprKind::Apply;
    sum.op = Op::Add;
    sum.dtype = sum.operand_dtype = DType::I64;
    sum.args[0] = start;
    sum.args[1] = inner;
    return push(n, sum);
  }

  void emit_stages() {
    const int end = std::max(last_, fold_stage_);
    for (int stage = 0; stage <= end; ++stage) {
      if (stage % 2) emit_numpy_loops(stage);
      else emit_kernel_stage(stage);
    }
  }

  void emit_kernel_stage(int stage) {
    Nest n;
    n.nest.o1 = context_.options.o1;
    n.nest.shares_divisors = shares_divisors();
    for (TermId t : order_)
      if (computed(t) && !terms_[t].numpy_loop && stage_[t] == stage) {
        for (uint8_t part = 0; part <= graph::is_complex(terms_[t].dtype); ++part) expr_of_part(n, t, part, stage);
        if (crosses_[t]) store(n, in_memory_.at(t), t, stage);
      }
    bool streams = false;
    for (std::size_t i = 0; i < spec_.stores.size(); ++i) {
      if (store_stage_[i] != stage) continue;
      store(n, memory_operand(spec_.stores[i].access, true), spec_.stores[i].value, stage);
      streams = true;
    }
    if (spec_.fold && stage == fold_stage_) add_fold(n, stage);
    if (n.nest.body.empty()) return;
    if (n.nest.stores.empty()) {
      // Computed for its flags alone; a kernel stores something all the same.
      const auto last = static_cast<uint16_t>(n.nest.body.size() - 1);
      LoopOperand sink;
      sink.scratch = sink.written = true;
      sink.dtype = n.nest.body[last].dtype;
      slots_.push_back({graph::size_of(sink.dtype), stage});
      sink.buffer = static_cast<BufferIndex>(slots_.size() - 1);
      n.nest.stores.push_back({nest_operand(n, append_operand(std::move(sink)), true), last, false});
    }
    n.nest.name = name_of_nest(n.nest);
    Stage out;
    out.operands = n.operands;
    out.code = context_.kernels.add(n.nest);
    out.slot = slot_of_stage(stage);
    if (streams && spec_.streams && step_.stages.empty() && last_ == 0) add_streaming(n, out);
    step_.stages.push_back(std::move(out));
  }

  /// Rows that are long enough to pay for it; and a product may underflow where the quotient would not, which owners of
  /// flags would tell.
  bool shares_divisors() const {
    constexpr int64_t kLeast = 32;
    return context_.options.o1 && !context_.per_call_flags && !axes_.extents.empty() &&
           context_.facts.hint(axes_.extents.back()) >= kLeast;
  }

  void add_fold(Nest& n, int stage) {
    const FoldSpec& fold = *spec_.fold;
    uint16_t e = expr_of_part(n, value_, 0, stage);
    const uint16_t imaginary =
        graph::is_complex(terms_[value_].dtype) ? expr_of_part(n, value_, 1, stage) : uint16_t{0};
    if (fold.kind == ReduceKind::Pairwise && fold.accumulator != terms_[value_].dtype) {
      Expr wide{};
      wide.kind = ExprKind::Apply;
      wide.op = Op::Cast;
      wide.operand_dtype = terms_[value_].dtype;
      wide.dtype = fold.accumulator;
      wide.args[0] = e;
      e = push(n, wide);
    }
    const OperandId output = memory_operand(fold.output, true);
    step_.output = output;
    const uint16_t number = nest_operand(n, output, true);
    n.nest.stores.push_back({number, e, false, imaginary});
    n.nest.combine = fold.combine;
    NestOperand& operand = n.nest.operands[number];
    operand.access = fold.kind == ReduceKind::Rows ? inner_access(step_.operands[output]) : codegen::Access::Broadcast;
    switch (fold.kind) {
      case ReduceKind::Pairwise:
        n.nest.fold = Fold::PairwiseLeaf;
        operand.dtype = fold.accumulator;
        if (!n.nest.o1 || operand.dtype != fold.output.dtype || !has_blocks(operand.dtype) || axes_.run > 1 ||
            !slots_.empty())
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
  void add_streaming(const Nest& n, Stage& stage) {
    // What is touched beside the result takes part of the third level, and others take some: of 32 MB the plain stores
    // are the faster ones up to 8 MB in all, the others from 16 MB on.
    const int64_t threshold =
        std::max<int64_t>(2 * context_.options.cpu.l2_bytes, context_.options.cpu.l3_bytes / 8 * 3);
    Dim bytes = 0;
    LoopNest streaming = n.nest;
    bool any = false;
    for (const auto& [access, operand] : memory_)
      bytes = bytes + graph::product(axes_.extents) * Dim(graph::size_of(access.dtype));
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
    for (std::size_t i = 0; i < spec_.stores.size(); ++i) {
      const Access& stored = spec_.stores[i].access;
      for (std::size_t j = 0; j < i; ++j)
        if (spec_.stores[j].access.buffer == stored.buffer) return false;
      for (TermId t : order_)
        if (terms_[t].kind == Term::kLoad && terms_[t].access.buffer == stored.buffer && !(terms_[t].access == stored))
          return false;
    }
    return true;
  }

  /// One kernel beside stages that were cut for their flags alone. Comes last: the terms are of one stage from here on.
  void add_guarded() {
    if (stage_slots_.size() < 2 || spec_.fold || !elementwise_in_place()) return;
    for (TermId t : order_)
      if (terms_[t].numpy_loop || terms_[t].kind == Term::kIndex) return;
    std::fill(stage_.begin(), stage_.end(), 0);
    Nest n;
    n.nest.o1 = context_.options.o1;
    n.nest.guarded = true;
    GuardedKernel out;
    for (TermId t : order_)
      if (computed(t) && !graph::is_complex(terms_[t].dtype)) expr(n, t, 0);
    for (const StoreTerm& s : spec_.stores) {
      const OperandId stored = memory_operand(s.access, true), read = memory_operand(s.access, false);
      if (n.loads.contains({read, 0}) || n.loads.contains({read, 1})) {
        LoopOperand copy;
        copy.scratch = copy.written = true;
        copy.dtype = s.access.dtype;
        slots_.push_back({graph::size_of(copy.dtype), 0});
        copy.buffer = static_cast<BufferIndex>(slots_.size() - 1);
        out.saved.push_back({stored, append_operand(std::move(copy))});
        NestStore old{};
        old.expr = load(n, read, 0);
        if (graph::is_complex(s.access.dtype)) old.imaginary = load(n, read, 1);
        old.operand = nest_operand(n, out.saved.back().scratch, true);
        n.nest.stores.push_back(old);
      }
      store(n, stored, s.value, 0);
    }
    n.nest.name = name_of_nest(n.nest);
    out.operands = n.operands;
    out.kernel = context_.kernels.add(n.nest);
    step_.guarded = std::move(out);
  }

  void emit_numpy_loops(int stage) {
    for (TermId t : order_) {
      const Term& term = terms_[t];
      if (!term.numpy_loop || stage_[t] != stage) continue;
      Stage out;
      for (TermId arg : term.args) {
        if (computed(arg)) out.operands.push_back(in_memory_.at(arg));
        else if (terms_[arg].kind == Term::kLoad)
          out.operands.push_back(memory_operand(terms_[arg].access, false, true));
        else out.operands.push_back(literal_operand(terms_[arg]));
      }
      out.operands.push_back(in_memory_.at(t));
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
    step_.scratch_slots = static_cast<uint32_t>(slots_.size());
    double cost = 0;
    for (TermId t : order_) {
      cost += cost_of(terms_[t]);
      if (!terms_[t].numpy_loop && terms_[t].kind != Term::kApply) continue;
      if (step_.name.size() > kMaxNameLength) continue;
      if (!step_.name.empty()) step_.name += '_';
      step_.name += graph::name_of(terms_[t].op);
    }
    step_.cost = std::max(0.05, cost);
    if (step_.cost > kStreamed)
      for (Stage& stage : step_.stages) stage.streaming.reset();
    if (spec_.fold)
      step_.name +=
          (step_.name.empty() ? "" : "_") + std::string("reduce_") + std::string(graph::name_of(spec_.fold->combine));
    if (step_.name.empty()) step_.name = "copy";
    if (slots_.empty()) return;
    int64_t bytes = 0;
    for (const Slot& slot : slots_) bytes += slot.itemsize;
    int64_t budget = std::max<int64_t>(context_.options.cpu.l1d_bytes * 3 / 4, 16 << 10);
    if (!stage_slots_.empty()) {
      // Arithmetic that is cut for its flags alone: what comes from memory must find room beside the scratch. (Of 32 KB
      // 12 to 24 do equally well, 48 cost half of the speed.)
      budget = std::max<int64_t>(context_.options.cpu.l1d_bytes / 2, 16 << 10);
      for (std::size_t i = 0; i < memory_.size(); ++i) {
        const Access& access = memory_[i].first;
        const bool again = std::any_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](const auto& earlier) { return earlier.first == access; });
        if (!again && !is_scalar(access)) bytes += graph::size_of(access.dtype);
      }
    }
    step_.tile = std::clamp<int64_t>(budget / bytes / 64 * 64, kMinTile, kMaxTile);
  }

  struct Slot {
    int itemsize, last_read;
  };

  const StepSpec& spec_;
  LowerContext& context_;
  const LoopAxes axes_;
  std::vector<Term> terms_;
  LoopStep step_;
  TermId value_ = 0;
  std::vector<bool> visited_, crosses_;
  std::vector<TermId> order_;
  std::vector<int> stage_, store_stage_;
  std::map<int, int32_t> stage_slots_;
  int last_ = 0, fold_stage_ = -1;
  std::map<TermId, const StoreTerm*> direct_;
  std::vector<std::pair<Access, OperandId>> memory_;
  std::map<TermId, OperandId> in_memory_;
  std::map<std::pair<BufferIndex, DType>, OperandId> scratch_;
  std::vector<Slot> slots_;
  std::optional<OperandId> index_;
};

}  // namespace

LoopStep build_step(const StepSpec& spec, LowerContext& context) { return StageBuilder(spec, context).build(); }

}  // namespace framejit::codegen::detail
