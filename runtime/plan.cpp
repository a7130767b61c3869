// Plan: owns the code, keeps bound programs, runs them.
#include "runtime/plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

#include "graph/support/check.h"
#include "graph/support/fp_state.h"
#include "runtime/allocator.h"
#include "runtime/band.h"
#include "runtime/bound.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/fold.h"
#include "runtime/perf_names.h"
#include "runtime/product_pair.h"
#include "runtime/scheduler.h"
#include "runtime/trace.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr std::size_t kStackBuffers = 64, kStackSlots = 16;
constexpr std::size_t kBoundSlots = 64;    // a power of two
constexpr double kFastNanoseconds = 10e3;  // longer steps may be split or cancelled
constexpr std::size_t kLiteralAlignment = 64;

/// Where a pointer comes from.
struct Origin {
  enum Kind : uint8_t { kParam, kResult, kFixed, kScratch } kind;
  uint32_t number;
  char* fixed;
};

constexpr int64_t kFastScratch = 8192;  // bytes

}  // namespace

/// A program that is one call of one kernel: all that a run has to do.
struct FastCall {
  KernelFn kernel = nullptr;    // null: not of this shape
  GuardedFn guarded = nullptr;  // in its place, for one row
  uint32_t count = 0;
  bool repeatable = false;  // writes nothing that it reads
  graph::FlagRule flag_rule;
  int64_t inner = 0, outer = 0;
  std::array<Origin, 16> origins;
  std::array<int64_t, 16> offsets;
  std::array<int64_t, 32> strides;

  /// The pointers that the kernel is called with.
  void place(std::span<char* const> params, std::span<char* const> results, char* scratch, char** pointers) const {
    for (uint32_t i = 0; i < count; ++i) {
      const Origin& from = origins[i];
      char* base = from.kind == Origin::kParam    ? params[from.number]
                   : from.kind == Origin::kResult ? results[from.number]
                   : from.kind == Origin::kFixed  ? from.fixed
                                                  : scratch;
      pointers[i] = base + offsets[i];
    }
  }
  /// The flags that were raised, by the rule.
  unsigned run(std::span<char* const> params, std::span<char* const> results) const;
};

struct Ready {
  Bound bound;
  FastCall fast;
  mutable std::atomic<char*> memory{nullptr};     // PlanOptions::resident: of a run, while none is under way
  mutable std::atomic<Bound*> measured{nullptr};  // bound to what was measured, of a run, while none is under way
  mutable std::atomic<Ready*> moved{nullptr};     // a copy that runs move, while none is under way
  ~Ready() {
    delete moved.load(std::memory_order_relaxed);
    release(memory.load(std::memory_order_relaxed));
    delete measured.load(std::memory_order_relaxed);
  }
};

namespace {

std::string_view name_of(const Step& step) {
  if (const auto* loop = std::get_if<LoopStep>(&step)) return loop->name;
  if (const auto* product = std::get_if<MatMulStep>(&step)) return product->name;
  if (const auto* attention = std::get_if<AttentionStep>(&step)) return attention->name;
  if (const auto* call = std::get_if<LibraryCallStep>(&step)) return call->name;
  return std::holds_alternative<FlowStep>(step) ? "flow" : "undo";
}

bool is_static(const Program& program) {
  if (!program.conditions.empty() || !program.measured.empty()) return false;
  bool fixed = true;
  const auto look = [&](const graph::Dim& d) { fixed = fixed && d.is_const(); };
  for (const Buffer& b : program.buffers) look(b.bytes), look(b.value);
  for (const Step& step : program.steps) for_each_dim(step, look);
  return fixed;
}

}  // namespace

struct Plan::Impl {
  Program program;
  PlanOptions options;
  CodeBlock code;
  char* literals = nullptr;  // the bytes of all Literal buffers
  std::vector<char*> fixed;  // by buffer: where Literals lie
  bool may_set_flags = false, has_undo = false;
  std::size_t first_param_write = ~std::size_t{0};
  const Ready* constant = nullptr;  // where no Dim needs a symbol
  mutable std::array<std::atomic<const Ready*>, kBoundSlots> slots{};
  std::vector<Dependents> dependents;  // by Program::measured
  Movable movable;
  std::vector<std::unique_ptr<KeptPanels>> kept;  // by step

  ~Impl() {
    release(literals);
    for (auto& slot : slots) delete slot.load(std::memory_order_relaxed);
    delete constant;
  }

  graph::FlagRule rule_of(std::size_t step) const {
    return step < program.flag_rules.size() ? program.flag_rules[step] : graph::FlagRule{};
  }
  void place_literals();
  void find_param_writes();
  std::unique_ptr<Ready> prepare(std::span<const int64_t> symbols, std::span<const int64_t> values) const;
  const Ready& ready_for(std::span<const int64_t> symbols, std::span<const int64_t> values,
                         std::unique_ptr<Ready>& own) const;
  const Ready& ready_to_begin(std::span<const int64_t> symbols, std::unique_ptr<Ready>& own) const;
  bool moves(std::span<const int64_t> symbols) const {
    return !constant && (movable.fixed.size() < symbols.size() ||
                         std::find(movable.fixed.begin(), movable.fixed.end(), false) != movable.fixed.end());
  }
  std::unique_ptr<Ready> moved_to(const Ready& ready, std::span<const int64_t> symbols) const;
  FastCall fast_call(const Bound& bound) const;
  bool run_fast_guarded(const Ready& ready, std::span<char* const> params, std::span<char* const> results) const;
  RunResult run(const Ready& ready, std::unique_ptr<Ready>& own, std::span<char* const> params,
                std::span<char* const> results, bool (*poll)(), unsigned watched,
                const std::function<bool()>& still) const;
  RunResult run_steps(const Ready& ready, std::unique_ptr<Ready>& own, std::span<char* const> params,
                      std::span<char* const> results, bool (*poll)(), unsigned watched,
                      const std::function<bool()>& still) const;
  void run_step(const Bound& bound, std::size_t i, RunState& state) const;
  void run_wave(const Bound& bound, std::size_t first, std::size_t last, char* memory, RunState& state) const;
  static void check_results(const BoundLoop& loop, RunState& state);
  static void run_loop(const BoundLoop& loop, RunState& state);
};

namespace {

/// Keeps the memory of a run's temporaries, where the saved bytes lie, and the pointers to put them back through.
class SavedParams final : public Undo {
 public:
  /// `done`: how many steps have run.
  SavedParams(const Bound& bound, std::unique_ptr<const Ready> own, std::vector<char*> buffers, char* memory,
              std::size_t done)
      : bound_(bound), own_(std::move(own)), buffers_(std::move(buffers)), memory_(memory), done_(done) {}
  ~SavedParams() override { release(memory_); }

  void rollback() override {
    // Last saved first put back: where two of them overlap, the older bytes win.
    for (std::size_t i = std::min(done_, bound_.steps.size()); i-- > 0;)
      if (const auto* undo = std::get_if<BoundUndo>(&bound_.steps[i])) restore_undo(*undo, buffers_.data());
      else if (const auto* call = std::get_if<BoundLibraryCall>(&bound_.steps[i]); call && call->callee.take_back)
        call->callee.take_back(arrays_of(*call, buffers_.data()));
  }

 private:
  const Bound& bound_;
  std::unique_ptr<const Ready> own_;
  std::vector<char*> buffers_;
  char* memory_;
  std::size_t done_;
};

}  // namespace

// ---- making ready
// -----------------------------------------------------------------------------------------------------------

void Plan::Impl::place_literals() {
  fixed.assign(program.buffers.size(), nullptr);
  std::size_t bytes = 0;
  auto padded = [](std::size_t n) { return (n + kLiteralAlignment - 1) / kLiteralAlignment * kLiteralAlignment; };
  for (const Buffer& b : program.buffers)
    if (b.kind == BufferKind::Literal) bytes += padded(b.literal.size());
  if (bytes == 0) return;
  literals = static_cast<char*>(allocate(bytes));
  if (!literals) throw std::bad_alloc();
  std::size_t at = 0;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.kind != BufferKind::Literal) continue;
    fixed[i] = literals + at;
    std::memcpy(fixed[i], b.literal.data(), b.literal.size());
    at += padded(b.literal.size());
  }
}

void Plan::Impl::find_param_writes() {
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    const Step& step = program.steps[i];
    if (std::holds_alternative<UndoStep>(step)) has_undo = true;
    auto writes = [&](const LoopOperand& o) {
      if (!o.scratch && !o.index && o.written && program.buffers[o.buffer].kind == BufferKind::Param)
        first_param_write = i;
    };
    if (const auto* loop = std::get_if<LoopStep>(&step))
      for (const LoopOperand& o : loop->operands) writes(o);
    else if (const auto* product = std::get_if<MatMulStep>(&step)) writes(product->c);
    else if (const auto* call = std::get_if<LibraryCallStep>(&step)) {
      writes(call->operands.back());
      has_undo = has_undo || call->callee.take_back;
    }
  }
}

std::unique_ptr<Ready> Plan::Impl::prepare(std::span<const int64_t> symbols, std::span<const int64_t> values) const {
  auto ready = std::make_unique<Ready>();
  ready->bound = bind(program, code, symbols, values, options.beside, options.block_bytes);
  ready->fast = fast_call(ready->bound);
  return ready;
}

FastCall Plan::Impl::fast_call(const Bound& bound) const {
  FastCall fast;
  if (bound.steps.size() != 1 || bound.redo) return fast;
  const auto* loop = std::get_if<BoundLoop>(&bound.steps[0]);
  if (!loop || loop->rank() > 2 || loop->size == 0 || loop->nanoseconds >= kFastNanoseconds) return fast;
  const ReduceKind reduce = loop->step->reduce;
  if (reduce != ReduceKind::None && (reduce != ReduceKind::Pairwise || loop->direct.empty())) return fast;
  const int rank = loop->rank();
  const GuardedFn guarded = loop->guarded.kernel;
  const bool one_row = rank < 1 || loop->size == loop->extents[rank - 1];
  if (guarded ? !one_row : loop->scratch_bytes || loop->stages.size() != 1 || !loop->stages[0].kernel) return fast;
  const std::vector<uint16_t>& operands = guarded ? loop->guarded.operands : loop->stages[0].operands;
  if (operands.size() > fast.origins.size()) return fast;
  int64_t scratch = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const uint16_t operand = operands[i];
    const BoundOperand& o = loop->operands[operand];
    if (o.index) return fast;
    if (o.scratch) {
      fast.origins[i] = {Origin::kScratch, 0, nullptr};
      fast.offsets[i] = scratch;
      fast.strides[2 * i] = o.itemsize;
      fast.strides[2 * i + 1] = 0;
      scratch += loop->size * o.itemsize;
      if (scratch > kFastScratch) return fast;
      continue;
    }
    const Buffer& buffer = program.buffers[o.buffer];
    switch (buffer.kind) {
      case BufferKind::Param: fast.origins[i] = {Origin::kParam, buffer.number, nullptr}; break;
      case BufferKind::Result: fast.origins[i] = {Origin::kResult, buffer.number, nullptr}; break;
      case BufferKind::Literal: fast.origins[i] = {Origin::kFixed, 0, fixed[o.buffer]}; break;
      case BufferKind::Temp:
      case BufferKind::Pointer:
      case BufferKind::DimValue: return fast;
    }
    fast.offsets[i] = o.offset;
    fast.strides[2 * i] = rank >= 1 ? loop->stride(operand, rank - 1) : 0;
    fast.strides[2 * i + 1] = rank >= 2 ? loop->stride(operand, rank - 2) : 0;
  }
  fast.count = static_cast<uint32_t>(operands.size());
  fast.inner = rank >= 1 ? loop->extents[rank - 1] : 1;
  fast.outer = rank >= 2 ? loop->extents[rank - 2] : 1;
  fast.guarded = guarded;
  fast.repeatable = first_param_write >= 1;
  fast.flag_rule = rule_of(0);
  if (!guarded) fast.kernel = loop->stages[0].kernel;
  return fast;
}

const Ready& Plan::Impl::ready_for(std::span<const int64_t> symbols, std::span<const int64_t> values,
                                   std::unique_ptr<Ready>& own) const {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (int64_t s : symbols) hash = (hash ^ static_cast<uint64_t>(s)) * 0xff51afd7ed558ccdu, hash ^= hash >> 32;
  // What is published is never changed nor freed before the plan is, so that readers need no lock; sizes that find
  // their two slots taken are bound anew in each run.
  for (uint64_t probe = 0; probe < 2; ++probe) {
    std::atomic<const Ready*>& slot = slots[(hash + probe) & (kBoundSlots - 1)];
    const Ready* ready = slot.load(std::memory_order_acquire);
    if (!ready) {
      if (!own) own = prepare(symbols, values);
      const Ready* expected = nullptr;
      if (slot.compare_exchange_strong(expected, own.get(), std::memory_order_acq_rel)) return *own.release();
      ready = expected;
    }
    if (std::equal(symbols.begin(), symbols.end(), ready->bound.symbols.begin(), ready->bound.symbols.end())) {
      own.reset();
      return *ready;
    }
  }
  if (!own) own = prepare(symbols, values);
  return *own;
}

/// Before anything is measured, and without what moves.
const Ready& Plan::Impl::ready_to_begin(std::span<const int64_t> symbols, std::unique_ptr<Ready>& own) const {
  if (constant) return *constant;
  if (program.measured.empty() && !moves(symbols)) return ready_for(symbols, symbols, own);
  std::vector<int64_t> known(symbols.begin(), symbols.end());
  for (const Measured& m : program.measured) known[static_cast<std::size_t>(m.symbol)] = kUnknown;
  for (std::size_t s = 0; s < known.size(); ++s)
    if (movable.holds(s)) known[s] = kUnknown;
  return ready_for(known, symbols, own);
}

/// A copy for this run, with its values of the symbols that move.
std::unique_ptr<Ready> Plan::Impl::moved_to(const Ready& ready, std::span<const int64_t> symbols) const {
  std::unique_ptr<Ready> out(ready.moved.exchange(nullptr, std::memory_order_acq_rel));
  if (!out) {
    out = std::make_unique<Ready>();
    out->bound = ready.bound;
    own_steps(movable, out->bound);
    out->fast = ready.fast;
  }
  move_operands(program, movable, symbols, out->bound);
  if (Bound* measured = out->measured.load(std::memory_order_relaxed))
    move_operands(program, movable, symbols, *measured);
  if (ready.fast.kernel || ready.fast.guarded) out->fast = fast_call(out->bound);
  return out;
}

// ---- running
// ----------------------------------------------------------------------------------------------------------------

/// False: flags were raised, and the params are as before.
bool Plan::Impl::run_fast_guarded(const Ready& ready, std::span<char* const> params,
                                  std::span<char* const> results) const {
  const FastCall& fast = ready.fast;
  alignas(64) std::array<char, kFastScratch> scratch;
  std::array<char*, 16> pointers;
  fast.place(params, results, scratch.data(), pointers.data());
  clear_fp_flags();
  if (fast.guarded(pointers.data(), fast.strides.data(), fast.inner, fast.outer) == 0) [[likely]]
    return true;
  clear_fp_flags();
  const auto& loop = std::get<BoundLoop>(ready.bound.steps[0]);
  auto number = [&](uint16_t operand) {
    return static_cast<std::size_t>(std::ranges::find(loop.guarded.operands, operand) - loop.guarded.operands.begin());
  };
  for (const GuardedKernel::Saved& saved : loop.guarded.saved) {
    const std::size_t i = number(saved.operand);
    restore_row(pointers[i], fast.strides[2 * i], pointers[number(saved.scratch)], fast.inner,
                loop.operands[saved.operand].itemsize);
  }
  return false;
}

unsigned FastCall::run(std::span<char* const> params, std::span<char* const> results) const {
  std::array<char*, 16> pointers;
  place(params, results, nullptr, pointers.data());
  if (!repeatable) clear_fp_flags();
  kernel(pointers.data(), strides.data(), inner, outer);
  unsigned flags = fp_flags() & kReported;
  if (flags) [[unlikely]] {
    clear_fp_flags();
    if (repeatable && flag_rule.apply(flags)) {  // were they set before?
      kernel(pointers.data(), strides.data(), inner, outer);
      flags = fp_flags() & kReported;
      clear_fp_flags();
    }
  }
  return flag_rule.apply(flags);
}

unsigned Plan::run_short(std::span<char* const> params, std::span<char* const> results) const {
  return short_->run(params, results);
}

void Plan::Impl::check_results(const BoundLoop& loop, RunState& state) {
  const BoundOperand& out = loop.operands[loop.step->output];
  const graph::DType dtype = loop.step->operands[loop.step->output].dtype;
  for_each_row_of_outputs(loop, [&](int64_t offset, int64_t count, int64_t stride) {
    const char* element = state.buffers[out.buffer] + out.offset + offset;
    for (int64_t i = 0; i < count; ++i, element += stride) state.redo = state.redo || zero_or_nan(dtype, element);
  });
}

void Plan::Impl::run_loop(const BoundLoop& loop, RunState& state) {
  if (!loop.direct.empty() && loop.nanoseconds < kFastNanoseconds)
    execute_directly(loop, 0, loop.rank() > 0 ? loop.extents[0] : 1, state.buffers);
  else if (loop.step->reduce == ReduceKind::Pairwise) execute_pairwise(loop, state);
  else execute_loop(loop, state);
  if (loop.step->redo_zero_or_nan && !state.stopped()) check_results(loop, state);
}

void Plan::Impl::run_step(const Bound& bound, std::size_t i, RunState& state) const {
  const BoundStep& step = bound.steps[i];
  if (std::holds_alternative<BoundNothing>(step)) return;
  const TraceSpan span("kernel", name_of(program.steps[i]));
  if (const auto* loop = std::get_if<BoundLoop>(&step)) {
    run_loop(*loop, state);
  } else if (const auto* product = product_of(step)) {
    execute_matmul(*product, kept[i].get(), state);
  } else if (const auto* attention = std::get_if<std::shared_ptr<const BoundAttention>>(&step)) {
    execute_attention(**attention, state);
  } else if (const auto* call = std::get_if<BoundLibraryCall>(&step)) {
    execute_library_call(*call, rule_of(i), state);
  } else {
    save_undo(std::get<BoundUndo>(step), state);
  }
}

void Plan::Impl::run_wave(const Bound& bound, std::size_t first, std::size_t last, char* memory,
                          RunState& state) const {
  double cost = 0;
  for (std::size_t i = first; i < last; ++i) cost += bound.costs[i];
  std::atomic<bool> redo{false};
  parallel_for(static_cast<int64_t>(last - first), 1, cost, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const std::size_t i = first + static_cast<std::size_t>(at);
      RunState own;
      own.buffers = state.buffers;
      own.poller = state.poller;
      own.reserve = memory + bound.reserves[i];
      own.slots = state.slots;
      run_step(bound, i, own);
      if (own.redo) redo.store(true, std::memory_order_relaxed);
    }
  });
  state.redo = state.redo || redo.load(std::memory_order_relaxed);
}

RunResult Plan::Impl::run_steps(const Ready& ready, std::unique_ptr<Ready>& own, std::span<char* const> params,
                                std::span<char* const> results, bool (*poll)(), unsigned watched,
                                const std::function<bool()>& still) const {
  const Bound& bound = ready.bound;
  RunResult out;
  clear_fp_flags();
  if (bound.redo) {
    out.status = RunStatus::Bailout;
    return out;
  }
  char* memory = nullptr;
  int64_t room = bound.temp_bytes;  // in it
  bool keeps = room <= options.resident;
  if (bound.temp_bytes > 0) {
    const bool fits = options.memory_limit == 0 || bound.temp_bytes <= options.memory_limit;
    if (keeps) memory = ready.memory.exchange(nullptr, std::memory_order_acq_rel);
    if (!memory && fits) memory = static_cast<char*>(allocate(static_cast<std::size_t>(bound.temp_bytes)));
    if (!memory) {
      out.status = RunStatus::OutOfMemory;
      return out;
    }
  }
  std::array<char*, kStackBuffers> on_stack;
  std::vector<char*> on_heap;
  const std::size_t count = program.buffers.size();
  char** buffers = on_stack.data();
  if (count > kStackBuffers || has_undo) {
    on_heap.resize(count);
    buffers = on_heap.data();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Buffer& buffer = program.buffers[i];
    switch (buffer.kind) {
      case BufferKind::Param: buffers[i] = params[buffer.number]; break;
      case BufferKind::Result: buffers[i] = results[buffer.number]; break;
      case BufferKind::Temp: buffers[i] = memory ? memory + bound.temp_offsets[i] : nullptr; break;
      case BufferKind::Pointer: buffers[i] = nullptr; break;
      case BufferKind::Literal: buffers[i] = fixed[i]; break;
      case BufferKind::DimValue:
        buffers[i] = reinterpret_cast<char*>(const_cast<int64_t*>(&bound.dim_values[i]));
        break;
    }
  }
  Poller poller(poll);
  RunState state;
  state.buffers = buffers;
  state.poller = poll ? &poller : nullptr;
  std::array<std::atomic<unsigned>, kStackSlots> slots_on_stack{};
  std::vector<std::atomic<unsigned>> slots_on_heap(program.flag_slots.size() > kStackSlots ? program.flag_slots.size()
                                                                                           : 0);
  state.slots = slots_on_heap.empty() ? slots_on_stack.data() : slots_on_heap.data();
  const ThreadLimit limit(options.threads);
  std::unique_ptr<Bound> measured;  // for what has been measured so far
  out.measured.assign(program.measured.size(), 0);
  std::size_t next_measured = 0;
  bool as_before = true;  // has the run measured what the one before did, each number once and in their order?
  const auto measure = [&](const BoundFlow& flow) {
    int64_t n = 0;
    std::memcpy(&n, buffers[flow.step->a] + flow.offset, sizeof n);
    if (n < 0 || n > bound.ranges.most[flow.step->target]) {
      state.redo = true;
      return;
    }
    if (!measured) {
      measured.reset(ready.measured.exchange(nullptr, std::memory_order_acq_rel));
      if (!measured) measured = std::make_unique<Bound>(bound);
      measured->symbols = bound.symbols;
      measured->measured.resize(program.measured.size(), kUnknown);
      for (std::size_t i = 0; i < count; ++i)
        if (program.buffers[i].kind == BufferKind::DimValue)
          buffers[i] = reinterpret_cast<char*>(&measured->dim_values[i]);
    }
    // What is measured behind this one belongs to an earlier round of a loop.
    std::size_t k = program.measured.size();
    while (static_cast<uint32_t>(program.measured[--k].symbol) != flow.step->target)
      measured->symbols[static_cast<std::size_t>(program.measured[k].symbol)] = kUnknown;
    measured->symbols[flow.step->target] = out.measured[k] = n;
    as_before = as_before && k == next_measured && measured->measured[k] == n;
    next_measured = k + 1;
    if (!as_before) {
      rebind(program, code, dependents[k], *measured);
      std::fill(measured->measured.begin() + static_cast<std::ptrdiff_t>(k), measured->measured.end(), kUnknown);
      state.redo = measured->redo;
      if (!state.redo) measured->measured[k] = n;
    }
    if (state.redo || measured->temp_bytes <= room) return;
    char* const larger = static_cast<char*>(allocate(static_cast<std::size_t>(measured->temp_bytes)));
    if (!larger) {
      state.redo = true;
      return;
    }
    if (room > 0) std::memcpy(larger, memory, static_cast<std::size_t>(room));
    for (std::size_t i = 0; i < count; ++i)
      if (buffers[i] >= memory && buffers[i] < memory + room) buffers[i] = larger + (buffers[i] - memory);
    release(std::exchange(memory, larger));
    room = measured->temp_bytes;
    keeps = false;
  };
  bool asks = still && !has_undo;  // before the first write; else behind all
  std::size_t done = 0;
  while (done < bound.steps.size() && !state.stopped()) {
    const std::size_t i = done;
    // What cannot be put back is not cancelled.
    if ((measured ? *measured : bound).wave_end[i] > first_param_write && !has_undo) state.poller = nullptr;
    if (program.per_call_flags && i == first_param_write) {
      out.flags = fp_flags() & watched;
      clear_fp_flags();
      if (out.flags) {
        out.status = RunStatus::Flagged;
        release(memory);
        return out;
      }
    }
    const Bound& now = measured ? *measured : bound;
    if (asks && now.wave_end[i] > first_param_write) {
      asks = false;
      if (!still()) {
        state.redo = true;
        break;
      }
    }
    if (const auto* flow = std::get_if<BoundFlow>(&now.steps[i])) {
      if (flow->step->kind == FlowStep::SetSymbol) measure(*flow);
      done = execute_flow(*flow, i, buffers, state);
      continue;
    }
    done = now.wave_end[i];
    state.reserve = memory ? memory + now.reserves[i] : nullptr;
    const auto band = std::ranges::lower_bound(now.bands, i, {}, &Band::first);
    if (band != now.bands.end() && band->first == i) {
      const TraceSpan span("kernel", "band");
      execute_band(now, *band, state, run_loop);
      continue;
    }
    const auto pair =
        std::ranges::find_if(now.pairs, [&](const ProductPair& p) { return p.first == i || p.second == i; });
    if (pair != now.pairs.end()) {
      const TraceSpan span("kernel", "products of one matrix");
      if (pair->first == i) execute_product_pair(now, *pair, memory + pair->partials, state);
      continue;
    }
    if (done > i + 1) {
      run_wave(now, i, done, memory, state);
      continue;
    }
    const graph::FlagRule rule = rule_of(i);
    if (rule) {
      out.flags |= fp_flags() & kReported;
      clear_fp_flags();
    }
    run_step(now, i, state);
    if (rule) {
      out.flags |= rule.apply(fp_flags() & kReported);
      clear_fp_flags();
    }
  }
  out.flags |= fp_flags() & kReported;
  clear_fp_flags();
  for (std::size_t i = 0; i < program.flag_slots.size(); ++i)
    if (const unsigned raised = state.slots[i].load(std::memory_order_relaxed)) [[unlikely]] {
      out.slots.resize(program.flag_slots.size());
      out.slots[i] = raised;
    }
  if (has_undo && still && !state.stopped() && !still()) state.redo = true;
  Bound* none = nullptr;
  if (measured && ready.measured.compare_exchange_strong(none, measured.get(), std::memory_order_acq_rel))
    (void)measured.release();
  const bool cancelled = poller.cancelled();
  if (has_undo && (out.flags || state.redo || cancelled)) {
    auto saved =
        std::make_unique<SavedParams>(bound, std::move(own), std::move(on_heap), std::exchange(memory, nullptr), done);
    if (state.redo || cancelled) saved->rollback();
    else out.undo = std::move(saved);
  }
  char* expected = nullptr;
  if (!keeps || !ready.memory.compare_exchange_strong(expected, memory, std::memory_order_acq_rel)) release(memory);
  if (state.redo || cancelled) {
    out.status = state.unexpected ? RunStatus::SpeculationFailed
                 : state.redo     ? RunStatus::Bailout
                                  : RunStatus::Interrupted;
    out.location = state.location;
    out.flags = 0;
  }
  return out;
}

// ---- the face
// ---------------------------------------------------------------------------------------------------------------

Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::~Plan() = default;

Expected<std::unique_ptr<Plan>, std::string> Plan::create(Program program, const PlanOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(program);
  impl->options = options;
  std::vector<std::span<const uint8_t>> pieces;
  for (const KernelCode& kernel : impl->program.kernels) pieces.emplace_back(kernel.bytes);
  FRAMEJIT_TRY(code, CodeBlock::seal(pieces));
  impl->code = std::move(code);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    name_for_perf(impl->code.entry(i), pieces[i].size(), impl->program.kernels[i].name);
  for (const Step& step : impl->program.steps) {
    const auto* product = std::get_if<MatMulStep>(&step);
    const auto part = [](const std::optional<LoopStep>& loop) { return loop ? &*loop : nullptr; };
    for (const LoopStep* loop : {std::get_if<LoopStep>(&step), product ? part(product->epilogue) : nullptr,
                                 product ? part(product->producer) : nullptr})
      if (loop && loop->operands.size() > kMaxOperands)
        return Unexpected{"a loop step of " + std::to_string(loop->operands.size()) + " operands"};
  }
  impl->may_set_flags = impl->program.may_set_flags;
  impl->place_literals();
  impl->find_param_writes();
  for (const Measured& m : impl->program.measured) impl->dependents.push_back(dependents_of(impl->program, m.symbol));
  for (const Step& step : impl->program.steps) {
    const auto* product = std::get_if<MatMulStep>(&step);
    impl->kept.push_back(product && product->constant_b ? std::make_unique<KeptPanels>() : nullptr);
  }
  if (is_static(impl->program)) impl->constant = impl->prepare({}, {}).release();
  else impl->movable = movable_of(impl->program);
  std::unique_ptr<Plan> plan(new Plan(std::move(impl)));
  const Ready* constant = plan->impl_->constant;
  if (constant && constant->fast.kernel && !plan->impl_->program.per_call_flags) plan->short_ = &constant->fast;
  return plan;
}

RunResult Plan::run(std::span<char* const> params, std::span<char* const> results, std::span<const int64_t> symbols,
                    bool (*poll)(), unsigned watched, const std::function<bool()>& still) const {
  const Impl& impl = *impl_;
  std::unique_ptr<Ready> own;
  const Ready& ready = impl.ready_to_begin(symbols, own);
  if (!impl.moves(symbols) || ready.bound.redo) return impl.run(ready, own, params, results, poll, watched, still);
  std::unique_ptr<Ready> moved = impl.moved_to(ready, symbols);
  const Ready& now = *moved;
  RunResult out = impl.run(now, moved, params, results, poll, watched, still);
  // It is gone if the run may still be undone.
  if (moved) delete ready.moved.exchange(moved.release(), std::memory_order_acq_rel);
  return out;
}

/// `own`: what `ready` is, unless the plan keeps it; taken where the run may be undone later.
RunResult Plan::Impl::run(const Ready& ready, std::unique_ptr<Ready>& own, std::span<char* const> params,
                          std::span<char* const> results, bool (*poll)(), unsigned watched,
                          const std::function<bool()>& still) const {
  if (!tracing.load(std::memory_order_relaxed)) [[likely]] {
    if (ready.fast.kernel) {
      RunResult out;
      out.flags = ready.fast.run(params, results);
      if (out.flags && program.per_call_flags)
        out.slots.assign(1, std::exchange(out.flags, 0u));  // one kernel: one slot
      return out;
    }
    if (ready.fast.guarded && run_fast_guarded(ready, params, results)) return {};
  }
  return run_steps(ready, own, params, results, poll, watched, still);
}

bool Plan::wants_redo(std::span<const int64_t> symbols) const {
  std::unique_ptr<Ready> own;
  return impl_->ready_to_begin(symbols, own).bound.redo ||
         (impl_->moves(symbols) && is_refused(impl_->program, impl_->movable, symbols));
}

int64_t Plan::result_bytes(std::size_t result, std::span<const int64_t> symbols) const {
  for (const Buffer& b : impl_->program.buffers)
    if (b.kind == BufferKind::Result && b.number == result)
      return impl_->program.measured.empty() ? b.bytes.evaluate(symbols)
                                             : SymbolRanges(impl_->program, symbols).bytes(b.bytes);
  FRAMEJIT_CHECK(false, "no such result");
  return 0;
}

double Plan::cost(std::span<const int64_t> symbols) const {
  std::unique_ptr<Ready> own;
  return impl_->ready_to_begin(symbols, own).bound.nanoseconds;
}

int64_t Plan::buffer_bytes(std::span<const int64_t> symbols) const {
  std::unique_ptr<Ready> own;
  return impl_->ready_to_begin(symbols, own).bound.temp_bytes;
}

int64_t Plan::resident_bytes() const {
  int64_t bytes = 0;
  const auto bytes_of = [](const Ready& ready) {
    return ready.memory.load(std::memory_order_relaxed) ? ready.bound.temp_bytes : 0;
  };
  const auto add = [&](const Ready* ready) {
    if (!ready) return;
    bytes += bytes_of(*ready);
    // Another thread may take it, and delete it.
    std::unique_ptr<Ready> moved(ready->moved.exchange(nullptr, std::memory_order_acq_rel));
    if (!moved) return;
    bytes += bytes_of(*moved);
    moved.reset(ready->moved.exchange(moved.release(), std::memory_order_acq_rel));
  };
  add(impl_->constant);
  for (const auto& slot : impl_->slots) add(slot.load(std::memory_order_acquire));
  return bytes;
}

const Program& Plan::program() const { return impl_->program; }
std::size_t Plan::code_bytes() const { return impl_->code.bytes(); }

}  // namespace framejit::runtime
