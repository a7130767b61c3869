// Elementwise steps and the reductions whose order is that of the loops: axes outside the two that a kernel takes are
// an odometer; steps with scratch go tile by tile through their stages.
#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>

#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/support/fp_state.h"
#include "runtime/allocator.h"
#include "runtime/execute.h"
#include "runtime/fold.h"
#include "runtime/plan.h"
#include "runtime/scheduler.h"
#include "runtime/trace.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kPollNanoseconds = 50'000'000;
constexpr int kMaxRank = 64;

/// Part of a step: the whole domain but for [begin, end) along one axis.
struct Part {
  int axis = -1;
  int64_t begin = 0, end = 0;
  char* output = nullptr;  // in place of the reduced-into operand, for partial results
};

/// Steps the odometer of axes [0, rank - 2); false when it has gone round.
bool advance(const BoundLoop& loop, const int64_t* extents, int64_t* position, char** pointers) {
  const int operands = static_cast<int>(loop.operands.size());
  for (int axis = loop.rank() - 3; axis >= 0; --axis) {
    const bool carry = ++position[axis] == extents[axis];
    const int64_t steps = carry ? 1 - extents[axis] : 1;
    if (carry) position[axis] = 0;
    for (int i = 0; i < operands; ++i) pointers[i] += loop.stride(i, axis) * steps;
    if (!carry) return true;
  }
  return false;
}

/// Rows of a window for a NumPy loop: one call where all rows follow each other for every operand.
void run_numpy_loop(const BoundLoop& loop, const BoundStage& stage, const Window& w) {
  const int rank = loop.rank();
  const std::size_t count = stage.operands.size();
  char* args[8];
  intptr_t steps[8];
  int64_t outer_steps[8];
  FRAMEJIT_CHECK(count <= 8, "operands of a NumPy loop");
  bool joined = true;
  for (std::size_t i = 0; i < count; ++i) {
    const uint16_t operand = stage.operands[i];
    const BoundOperand& o = loop.operands[operand];
    args[i] = w.pointers[operand];
    steps[i] = o.scratch ? o.itemsize : rank >= 1 ? loop.stride(operand, rank - 1) : o.itemsize;
    outer_steps[i] = o.scratch ? o.itemsize * w.inner : rank >= 2 ? loop.stride(operand, rank - 2) : 0;
    joined = joined && outer_steps[i] == steps[i] * w.inner;
  }
  // Some of NumPy's loops clear the flags that were raised before them.
  const unsigned before = fp_flags();
  if (x87_flags()) clear_x87_flags();
  if (joined || w.outer == 1) {
    const intptr_t n = w.inner * w.outer;
    stage.numpy_loop.function(args, &n, steps, stage.numpy_loop.data);
  } else {
    const intptr_t n = w.inner;
    unsigned raised = 0;
    for (int64_t row = 0; row < w.outer; ++row) {
      char* row_args[8];
      for (std::size_t i = 0; i < count; ++i) row_args[i] = args[i] + outer_steps[i] * row;
      raised |= fp_flags();
      stage.numpy_loop.function(row_args, &n, steps, stage.numpy_loop.data);
    }
    raise_fp_flags(raised);
  }
  const unsigned raised_x87 = x87_flags();
  if (raised_x87) clear_x87_flags();
  raise_fp_flags(before | raised_x87);
}

constexpr int kFlaggedRows = 8;   // a part of a step with more of them goes on stage by stage
constexpr int kFlaggedTiles = 8;  // the same of tiles

/// The joint stages over one window. False: they raised flags, and what they wrote over is as it was.
bool run_joint(const BoundLoop& loop, const Window& w) {
  for (const BoundStage& stage : loop.joint.stages) run_stage(loop, stage, w);
  if (!(fp_flags() & kReported)) [[likely]]
    return true;
  clear_fp_flags();
  const int rank = loop.rank();
  for (const GuardedKernel::Saved& saved : loop.joint.saved)
    for (int64_t row = 0; row < w.outer; ++row) {
      const int itemsize = loop.operands[saved.operand].itemsize;
      restore_row(w.pointers[saved.operand] + (rank >= 2 ? row * loop.stride(saved.operand, rank - 2) : 0),
                  rank >= 1 ? loop.stride(saved.operand, rank - 1) : 0,
                  w.pointers[saved.scratch] + row * w.inner * itemsize, w.inner, itemsize);
    }
  return false;
}

/// The strides of a stage's operands along the two inner axes; `inner`: the length of a row of scratch.
void find_strides(const BoundLoop& loop, const BoundStage& stage, int64_t inner, int64_t* strides) {
  const int rank = loop.rank();
  for (std::size_t i = 0; i < stage.operands.size(); ++i) {
    const uint16_t operand = stage.operands[i];
    const BoundOperand& o = loop.operands[operand];
    if (o.scratch) {
      strides[2 * i] = o.itemsize;
      strides[2 * i + 1] = o.itemsize * inner;
    } else if (o.index) {
      strides[2 * i] = strides[2 * i + 1] = 0;
    } else {
      strides[2 * i] = rank >= 1 ? loop.stride(operand, rank - 1) : 0;
      strides[2 * i + 1] = rank >= 2 ? loop.stride(operand, rank - 2) : 0;
    }
  }
}

/// A kernel that has no scratch, and nothing else beside it, at each place of the outer axes.
void run_kernel(const BoundLoop& loop, Window& w, const int64_t* extents, int64_t* position) {
  const BoundStage& stage = loop.stages[0];
  char* pointers[kMaxOperands];
  int64_t strides[2 * kMaxOperands];
  find_strides(loop, stage, w.inner, strides);
  do {
    for (std::size_t i = 0; i < stage.operands.size(); ++i) pointers[i] = w.pointers[stage.operands[i]];
    stage.kernel(pointers, strides, w.inner, w.outer);
  } while (advance(loop, extents, position, w.pointers));
}

/// The stages over one window. `w` holds the pointers of its operands, scratch included. `flagged` counts the windows
/// whose joint stages raised flags.
void run_stages(const BoundLoop& loop, const Window& w, int& flagged, RunState& state) {
  if (!loop.joint.stages.empty() && flagged < kFlaggedTiles) {
    if (run_joint(loop, w)) return;
    ++flagged;
  }
  for (const BoundStage& stage : loop.stages) {
    run_stage(loop, stage, w);
    if (stage.slot < 0) continue;
    if (const unsigned raised = fp_flags() & kReported) [[unlikely]] {
      state.slots[stage.slot].fetch_or(raised, std::memory_order_relaxed);
      clear_fp_flags();
    }
  }
}

/// By how many elements a window's operand begins behind a cache line.
int64_t behind_line(const BoundLoop& loop, const Window& w) {
  constexpr uintptr_t kLine = 64;
  if (loop.aligned < 0) return 0;
  const auto bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(w.pointers[loop.aligned]) % kLine);
  return bytes / loop.operands[static_cast<std::size_t>(loop.aligned)].itemsize;
}

/// The two innermost axes of a step with scratch, tile by tile.
void run_tiles(const BoundLoop& loop, const Window& all, char* scratch, int64_t* index_cell, int& flagged,
               RunState& state) {
  const int rank = loop.rank(), operands = static_cast<int>(loop.operands.size());
  Window w = all;
  auto place = [&](int64_t row, int64_t column) {
    for (int i = 0; i < operands; ++i) {
      const BoundOperand& o = loop.operands[i];
      if (o.scratch) w.pointers[i] = scratch + o.offset;
      else if (!o.index)
        w.pointers[i] = all.pointers[i] + (rank >= 2 ? row * loop.stride(i, rank - 2) : 0) +
                        (rank >= 1 ? column * loop.stride(i, rank - 1) : 0);
    }
    *index_cell = all.inner_start + column;
  };
  if (all.inner <= loop.tile) {
    const int64_t rows = std::max<int64_t>(1, loop.tile / std::max<int64_t>(1, all.inner));
    for (int64_t row = 0; row < all.outer; row += rows) {
      w.outer = std::min(rows, all.outer - row);
      place(row, 0);
      run_stages(loop, w, flagged, state);
    }
    return;
  }
  // Column stretches outside of rows: a row fold then goes down its columns while they are in cache. The order of rows
  // is kept within each column.
  w.outer = 1;
  const bool columns_outside = loop.step->reduce == ReduceKind::Rows;
  auto stretch = [&](int64_t column) {
    const int64_t left = all.inner - column;
    return left - loop.tile < kShortestTile ? left : loop.tile;
  };
  if (columns_outside) {
    for (int64_t column = 0; column < all.inner; column += w.inner) {
      w.inner = stretch(column);
      for (int64_t row = 0; row < all.outer; ++row) {
        place(row, column);
        run_stages(loop, w, flagged, state);
      }
    }
    return;
  }
  for (int64_t row = 0; row < all.outer; ++row)
    for (int64_t column = 0; column < all.inner; column += w.inner) {
      w.inner = stretch(column);
      place(row, column);
      if (column == 0) w.inner -= behind_line(loop, w);
      run_stages(loop, w, flagged, state);
    }
}

/// How many rows a guarded kernel looks at together.
int64_t rows_together(const BoundGuarded& guarded, int64_t inner) {
  return guarded.saved.empty() ? (kGuardedElements + inner - 1) / inner : 1;
}

/// The window's rows by the guarded kernel, up to the first ones that raise flags, which are done again in stages and
/// counted in `flagged`; how many rows are done.
int64_t run_guarded(const BoundLoop& loop, Window w, const int64_t* outer_strides, char* scratch, int& flagged,
                    RunState& state) {
  const int rank = loop.rank();
  char* pointers[kMaxOperands];
  int64_t strides[2 * kMaxOperands];
  const std::size_t count = loop.guarded.operands.size();
  for (std::size_t i = 0; i < count; ++i) {
    const uint16_t operand = loop.guarded.operands[i];
    const BoundOperand& o = loop.operands[operand];
    pointers[i] = o.scratch ? scratch + o.offset : w.pointers[operand];
    strides[2 * i] = o.scratch ? o.itemsize : rank >= 1 ? loop.stride(operand, rank - 1) : 0;
    strides[2 * i + 1] = o.scratch ? 0 : outer_strides[operand];
  }
  const int64_t left = loop.guarded.kernel(pointers, strides, w.inner, w.outer);
  if (left == 0) [[likely]]
    return w.outer;
  ++flagged;
  clear_fp_flags();
  const int64_t row = w.outer - left, last = row + std::min(left, rows_together(loop.guarded, w.inner));
  const auto go_on = [&](int64_t rows) {
    for (std::size_t i = 0; i < loop.operands.size(); ++i)
      w.pointers[i] =
          loop.operands[i].scratch ? scratch + loop.operands[i].offset : w.pointers[i] + rows * outer_strides[i];
  };
  go_on(row);
  w.outer = 1;
  for (const GuardedKernel::Saved& saved : loop.guarded.saved)
    restore_row(w.pointers[saved.operand], rank >= 1 ? loop.stride(saved.operand, rank - 1) : 0,
                w.pointers[saved.scratch], w.inner, loop.operands[saved.operand].itemsize);
  for (int64_t i = row; i < last; ++i) {
    run_stages(loop, w, flagged, state);
    go_on(1);
  }
  return last;
}

/// The two innermost axes of a step that has a guarded kernel.
void run_guarded_rows(const BoundLoop& loop, const Window& all, char* scratch, int64_t* index_cell, int& flagged,
                      RunState& state) {
  const int rank = loop.rank();
  const std::size_t operands = loop.operands.size();
  int64_t strides[kMaxOperands];
  Window w;
  auto place = [&](int64_t row, int64_t column) {
    for (std::size_t i = 0; i < operands; ++i)
      if (!loop.operands[i].scratch)
        w.pointers[i] = all.pointers[i] + (rank >= 2 ? row * loop.stride(i, rank - 2) : 0) +
                        (rank >= 1 ? column * loop.stride(i, rank - 1) : 0);
  };
  int64_t row = 0;
  if (all.inner <= kGuardedRow) {
    for (std::size_t i = 0; i < operands; ++i) strides[i] = rank >= 2 ? loop.stride(i, rank - 2) : 0;
    w.inner = all.inner;
    while (row < all.outer && flagged < kFlaggedRows) {
      place(row, 0);
      w.outer = all.outer - row;
      row += run_guarded(loop, w, strides, scratch, flagged, state);
    }
    if (row < all.outer) {
      place(row, 0);
      w.outer = all.outer - row;
      run_tiles(loop, w, scratch, index_cell, flagged, state);
    }
    return;
  }
  for (std::size_t i = 0; i < operands; ++i) strides[i] = loop.stride(i, rank - 1) * kGuardedRow;
  for (; row < all.outer; ++row) {
    int64_t column = 0;
    while (column < all.inner && flagged < kFlaggedRows) {
      place(row, column);
      const int64_t ahead = column == 0 ? behind_line(loop, w) : 0;
      const int64_t left = all.inner - column;
      w.inner = ahead > 0 ? kGuardedRow - ahead : std::min(left, kGuardedRow);
      w.outer = ahead > 0 ? 1 : left / w.inner;
      column += run_guarded(loop, w, strides, scratch, flagged, state) * w.inner;
    }
    if (column < all.inner) {
      place(row, column);
      w.inner = all.inner - column;
      w.outer = 1;
      run_tiles(loop, w, scratch, index_cell, flagged, state);
    }
  }
}

void run_part(const BoundLoop& loop, const Part& part, RunState& state) {
  const int rank = loop.rank(), operands = static_cast<int>(loop.operands.size());
  int64_t extents[kMaxRank], position[kMaxRank] = {};
  for (int axis = 0; axis < rank; ++axis) {
    extents[axis] = axis == part.axis ? part.end - part.begin : loop.extents[axis];
    if (extents[axis] == 0) return;
  }
  Scratch scratch(loop.scratch_bytes, state);
  int64_t index_cell = 0;
  Window w;
  for (int i = 0; i < operands; ++i) {
    const BoundOperand& o = loop.operands[i];
    if (o.index) w.pointers[i] = reinterpret_cast<char*>(&index_cell);
    else if (!o.scratch)
      w.pointers[i] =
          state.buffers[o.buffer] + o.offset + (part.axis >= 0 ? part.begin * loop.stride(i, part.axis) : 0);
  }
  if (part.output) w.pointers[loop.step->output] = part.output;
  w.inner = rank >= 1 ? extents[rank - 1] : 1;
  w.outer = rank >= 2 ? extents[rank - 2] : 1;
  w.inner_start = part.axis == rank - 1 ? part.begin : 0;
  index_cell = w.inner_start;
  const bool tiled = loop.step->scratch_slots > 0;
  // Of a loop whose rows are joined; those behind the last block are the last part's.
  const int64_t together = loop.joined.length > 0 ? extents[rank - 1] / loop.joined.length : 1;
  const bool last = part.axis < 0 || part.axis != rank - 2 || part.end == loop.extents[rank - 2];
  const int64_t rows = w.outer * together + (last ? loop.joined.rest : 0);
  if (!loop.guarded.kernel && loop.joined.length == 0 && !tiled && loop.joint.stages.empty() &&
      loop.stages.size() == 1 && loop.stages[0].kernel && loop.stages[0].slot < 0)
    return run_kernel(loop, w, extents, position);
  int flagged = 0;
  do {
    if (loop.guarded.kernel) run_guarded_rows(loop, w, scratch.data(), &index_cell, flagged, state);
    else if (loop.joined.length > 0)
      for_joined_rows(loop, w, rows, scratch.data(),
                      [&](const Window& joined) { run_stages(loop, joined, flagged, state); });
    else if (tiled) run_tiles(loop, w, scratch.data(), &index_cell, flagged, state);
    else run_stages(loop, w, flagged, state);
  } while (advance(loop, extents, position, w.pointers));
}

/// Sets the outputs of a fold to its identity.
void fill_identity(const BoundLoop& loop, RunState& state) {
  const BoundOperand& out = loop.operands[loop.step->output];
  char* const first = state.buffers[out.buffer] + out.offset;
  for_each_row_of_outputs(loop, [&](int64_t offset, int64_t count, int64_t stride) {
    fill(first + offset, count, stride, reinterpret_cast<const char*>(&loop.step->identity), out.itemsize);
  });
}

/// The axis along which a step is split between threads; -1: none.
int split_axis(const BoundLoop& loop) {
  if (!loop.step->parallel) return -1;
  int best = -1;
  for (int axis = 0; axis < loop.rank(); ++axis) {
    if (axis >= loop.reduced_first && axis < loop.reduced_last) continue;
    if (loop.joined.length > 0 && axis == loop.rank() - 1) continue;
    if (loop.extents[axis] >= 64) return axis;
    if (best < 0 || loop.extents[axis] > loop.extents[best]) best = axis;
  }
  return best;
}

}  // namespace

void run_stage(const BoundLoop& loop, const BoundStage& stage, const Window& w) {
  if (!stage.kernel) return run_numpy_loop(loop, stage, w);
  char* pointers[kMaxOperands];
  int64_t strides[2 * kMaxOperands];
  find_strides(loop, stage, w.inner, strides);
  for (std::size_t i = 0; i < stage.operands.size(); ++i) pointers[i] = w.pointers[stage.operands[i]];
  stage.kernel(pointers, strides, w.inner, w.outer);
}

void restore_row(char* memory, int64_t stride, const char* saved, int64_t count, int itemsize) {
  if (stride == itemsize) {
    std::memcpy(memory, saved, static_cast<std::size_t>(count * itemsize));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(memory + i * stride, saved + i * itemsize, static_cast<std::size_t>(itemsize));
}

Scratch::Scratch(int64_t bytes, RunState& state) : state_(state) {
  if (bytes == 0) return;
  data_ = static_cast<char*>(allocate(static_cast<std::size_t>(bytes)));
  if (data_) return;
  state_.reserve_mutex.lock();
  reserved_ = true;
  data_ = state_.reserve;
}

Scratch::~Scratch() {
  if (reserved_) state_.reserve_mutex.unlock();
  else if (data_) release(data_);
}

bool Poller::check() {
  if (cancelled()) return true;
  if (!poll_ || std::this_thread::get_id() != thread_) return false;
  const int64_t now = now_ns();
  if (last_ == 0) last_ = now;
  if (now - last_ < kPollNanoseconds) return false;
  last_ = now;
  if (!poll_()) return false;
  cancelled_.store(true, std::memory_order_relaxed);
  return true;
}

Cut::Cut(double nanoseconds, bool parallel, const RunState& state, int each, bool asks) {
  split = parallel && worth_splitting(nanoseconds);
  polled = state.poller && state.poller->active() && nanoseconds > kPieceNanoseconds;
  if (split) {
    threads = num_threads();
    // A multiple of the threads, so that none has one more than others.
    const double worth = nanoseconds / kLeastPiece / threads;
    fewest = worth < 1 ? std::max<int64_t>(2, static_cast<int64_t>(nanoseconds / kLeastPiece)) : threads;
    most = std::max(fewest, threads * static_cast<int64_t>(std::min<double>(each, worth)));
  }
  if (polled && !asks) {
    const auto checks = static_cast<int64_t>(nanoseconds / kPieceNanoseconds);
    fewest = std::max(fewest, (checks + threads - 1) / threads * threads);
    most = std::max(most, fewest);
  }
}

void run_pieces(int64_t n, int64_t piece, double nanoseconds, const Cut& cut, RunState& state,
                const std::function<void(int64_t, int64_t)>& body) {
  if (!cut.split && !cut.polled) return body(0, n);
  auto checked = [&](int64_t begin, int64_t end) {
    const TraceSpan span(cut.split ? "thread" : nullptr, "part of a kernel");
    for (int64_t at = begin; at < end; at += piece) {
      if (state.stopped() || (cut.polled && state.poller->check())) return;
      body(at, std::min(end, at + piece));
    }
  };
  if (cut.split) parallel_for(n, piece, nanoseconds, checked);
  else checked(0, n);
}

void run_pieces(int64_t n, int64_t grain, double nanoseconds, bool parallel, RunState& state,
                const std::function<void(int64_t, int64_t)>& body) {
  const Cut cut(nanoseconds, parallel, state);
  const int64_t wanted = (n + cut.most - 1) / cut.most;
  run_pieces(n, std::min(n, (wanted + grain - 1) / grain * grain), nanoseconds, cut, state, body);
}

void execute_directly(const BoundLoop& loop, int64_t begin, int64_t end, char* const* buffers) {
  const BoundStage& stage = loop.stages[0];
  const int rank = loop.rank();
  char* pointers[kMaxOperands];
  for (std::size_t i = 0; i < stage.operands.size(); ++i) {
    const BoundOperand& o = loop.operands[stage.operands[i]];
    pointers[i] = buffers[o.buffer] + o.offset;
    if (begin > 0) pointers[i] += begin * loop.direct[2 * i + static_cast<std::size_t>(rank - 1)];
  }
  const int64_t inner = rank == 1 ? end - begin : rank == 2 ? loop.extents[1] : 1, outer = rank == 2 ? end - begin : 1;
  const ReduceKind reduce = loop.step->reduce;
  if (reduce != ReduceKind::None && reduce != ReduceKind::Pairwise) {
    const BoundOperand& o = loop.operands[loop.step->output];
    char* output = buffers[o.buffer] + o.offset;
    int64_t count = 1, stride = 0;
    if (rank == 2) {
      const bool rows = reduce == ReduceKind::Rows;
      count = rows ? inner : outer;
      stride = loop.stride(loop.step->output, rows ? 1 : 0);
      if (!rows) output += begin * stride;
    }
    fill(output, count, stride, reinterpret_cast<const char*>(&loop.step->identity), o.itemsize);
  }
  stage.kernel(pointers, loop.direct.data(), inner, outer);
}

void execute_loop(const BoundLoop& loop, RunState& state) {
  const LoopStep& step = *loop.step;
  if (step.reduce != ReduceKind::None) fill_identity(loop, state);
  if (loop.size == 0) return;
  int axis = split_axis(loop);
  if (step.reduce == ReduceKind::AnyOrder && step.parallel && (axis < 0 || loop.outputs == 1)) {
    // One output: pieces fold into cells of their own, which are combined as they come.
    for (int a = loop.reduced_first; a < loop.reduced_last; ++a)
      if (axis < 0 || loop.extents[a] > loop.extents[axis]) axis = a;
    if (axis < 0) return run_part(loop, {}, state);
    const BoundOperand& out = loop.operands[step.output];
    char* const result = state.buffers[out.buffer] + out.offset;
    const graph::DType dtype = step.operands[step.output].dtype;
    std::mutex mutex;
    const int64_t grain = axis == loop.rank() - 1 ? 64 : 1;
    run_pieces(loop.extents[axis], grain, loop.nanoseconds, true, state, [&](int64_t begin, int64_t end) {
      alignas(16) char cell[16];
      std::memcpy(cell, &step.identity, sizeof(cell));
      run_part(loop, {axis, begin, end, cell}, state);
      std::lock_guard lock(mutex);
      combine(step.combine, dtype, result, cell);
    });
    return;
  }
  if (axis < 0 || loop.nanoseconds < 10e3) return run_part(loop, {}, state);
  const int64_t grain = axis == loop.rank() - 1 ? 64 : 1;
  run_pieces(loop.extents[axis], grain, loop.nanoseconds, step.parallel, state,
             [&](int64_t begin, int64_t end) { run_part(loop, {axis, begin, end}, state); });
}

/// The library's code clears and reads the status flags: those raised so far are set aside meanwhile.
std::vector<codegen::StridedArray> arrays_of(const BoundLibraryCall& call, char* const* buffers) {
  std::vector<codegen::StridedArray> arrays;
  arrays.reserve(call.operands.size());
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    arrays.push_back({buffers[call.operands[i].buffer] + call.operands[i].offset, call.dtypes[i], call.shapes[i],
                      call.strides[i], call.last_uses[i]});
  return arrays;
}

void execute_library_call(const BoundLibraryCall& call, graph::FlagRule rule, RunState& state) {
  const std::vector<codegen::StridedArray> arrays = arrays_of(call, state.buffers);
  const unsigned raised = fp_flags();
  if (!call.callee.function(call.callee.context, arrays, rule)) state.redo = true;
  clear_fp_flags();
  raise_fp_flags(raised);
}

namespace {

template <bool kSave>
void copy_strided(const BoundUndo& undo, char* memory, char* saved) {
  const std::size_t rank = undo.extents.size();
  const auto itemsize = static_cast<std::size_t>(undo.source.itemsize);
  for (int64_t extent : undo.extents)
    if (extent == 0) return;
  int64_t run = 1;  // elements that lie together
  std::size_t outer = rank;
  while (outer > 0 && undo.strides[outer - 1] == run * undo.source.itemsize) run *= undo.extents[--outer];
  const std::size_t bytes = static_cast<std::size_t>(run) * itemsize;
  std::vector<int64_t> position(outer, 0);
  while (true) {
    std::memcpy(kSave ? saved : memory, kSave ? memory : saved, bytes);
    saved += bytes;
    std::size_t axis = outer;
    while (axis > 0) {
      --axis;
      memory += undo.strides[axis];
      if (++position[axis] < undo.extents[axis]) break;
      memory -= undo.strides[axis] * undo.extents[axis];
      position[axis] = 0;
      if (axis == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace

void save_undo(const BoundUndo& undo, RunState& state) {
  copy_strided<true>(undo, state.buffers[undo.source.buffer] + undo.source.offset, state.buffers[undo.saved]);
}

void restore_undo(const BoundUndo& undo, char* const* buffers) {
  copy_strided<false>(undo, buffers[undo.source.buffer] + undo.source.offset, buffers[undo.saved]);
}

}  // namespace framejit::runtime
