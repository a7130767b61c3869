// Runs the steps of a bound program.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/bound.h"

namespace framejit::runtime {

/// Asks the caller, now and then on long runs, whether to stop. Only the thread that started the run asks.
class Poller {
 public:
  explicit Poller(bool (*poll)()) : poll_(poll), thread_(std::this_thread::get_id()) {}

  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool active() const { return poll_ != nullptr; }
  /// Called between pieces of work; true: stop.
  bool check();

 private:
  bool (*poll_)();
  std::thread::id thread_;
  int64_t last_ = 0;
  std::atomic<bool> cancelled_{false};
};

/// What a run hands to its steps.
struct RunState {
  char* const* buffers;      // first byte of each buffer
  Poller* poller = nullptr;  // null: nothing is ever cancelled
  bool redo = false;
  bool unexpected = false;  // with `redo`: an `expect` of `location` does not hold
  uint32_t location = 0;
  // Scratch for one tile of any step, taken before the run began: a run that has begun never runs out of memory.
  char* reserve = nullptr;
  std::mutex reserve_mutex;
  std::atomic<unsigned>* slots = nullptr;  // flags raised, by Program::flag_slots
  uint32_t rounds = 0;                     // of loops, for the poller

  bool stopped() const { return redo || (poller && poller->cancelled()); }
};

/// Positions [begin, end) of the first axis of a step that is one call of a kernel; all of one that has no axis.
void execute_directly(const BoundLoop& loop, int64_t begin, int64_t end, char* const* buffers);
void execute_loop(const BoundLoop& loop, RunState& state);
void execute_pairwise(const BoundLoop& loop, RunState& state);
/// `kept`: of a B that never changes; else null.
class KeptPanels;
void execute_matmul(const BoundMatMul& step, KeptPanels* kept, RunState& state);
std::vector<codegen::StridedArray> arrays_of(const BoundLibraryCall& call, char* const* buffers);
void execute_library_call(const BoundLibraryCall& call, graph::FlagRule rule, RunState& state);
/// `at`: the number of the step. Gives that of the next one.
std::size_t execute_flow(const BoundFlow& flow, std::size_t at, char** buffers, RunState& state);

/// Called for rectangles of C that are done, once for each element: batch number, rows, columns.
using FinishedTile =
    std::function<void(int64_t batch, int64_t row, int64_t row_end, int64_t column, int64_t column_end)>;
/// Writes a rectangle of A, rows and k of one matrix, to `to`; bytes from row to row.
using ProduceA =
    std::function<void(int64_t batch, int64_t row, int64_t row_end, int64_t k, int64_t k_end, char* to, int64_t pitch)>;
/// `panels`: those of all of B where they are packed already (pack_panels). `produce`: in place of `a`, where
/// product.produced_rows. `bias`: a row that is added to each of C's, where product.takes_bias().
void run_product(const Product& product, const char* a, const char* b, char* c, RunState& state,
                 const FinishedTile* finished = nullptr, const char* panels = nullptr,
                 const ProduceA* produce = nullptr, const char* bias = nullptr);

/// May the panels of B be packed once, for all runs? And then: their bytes, and packing.
bool has_panels(const Product& product);
int64_t panel_bytes(const Product& product);
void pack_panels(const Product& product, const char* b, char* to);

/// The panels of a B that never changes, packed by the first run that meets it.
class KeptPanels {
 public:
  ~KeptPanels();
  /// Null where there are none: for want of memory, or because those that are kept are of another B.
  const char* of(const Product& product, const char* b);

 private:
  using Layout = std::array<int64_t, 5>;
  static Layout layout(const Product& p) { return {p.n, p.k, p.b_k, p.b_column, p.way.depth}; }

  std::once_flag once_;
  char* memory_ = nullptr;
  const char* b_ = nullptr;
  Layout layout_{};
};

/// The product whose groups `operands` are; they lie in the first bytes of the state's reserve.
void run_narrowed(const Product& product, const NarrowOperands& operands, const char* a, const char* b, char* c,
                  RunState& state, const FinishedTile* finished = nullptr, const char* bias = nullptr);

/// `count` contiguous sums of 32 bits as narrower elements: float32 to the nearest bfloat16, ties to even, a NaN stays
/// one; or low bits.
void narrow_sums(Narrowed from, const char* sums, char* to, int64_t count, RunState& state);

/// A product without batches, on this thread; `scratch` has room for what it wants.
void run_product_here(const Product& product, const char* a, const char* b, char* c, char* scratch);

struct AttentionData {
  const char *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr, *g = nullptr, *y = nullptr;
  char* out = nullptr;
  float scale = 1, probability = 0;
  uint64_t state = 0;
};
void run_attention(const Attention& attention, const AttentionData& data, RunState& state);
void execute_attention(const BoundAttention& step, RunState& state);
void save_undo(const BoundUndo& undo, RunState& state);
void restore_undo(const BoundUndo& undo, char* const* buffers);

inline constexpr double kPieceNanoseconds = 2e6;  // of a run that may be cancelled
inline constexpr double kLeastPiece = 5e3;        // nanoseconds that handing a piece to another thread is worth

/// How many pieces work is cut into: some for each thread, so that one that is late holds up little, and enough to ask
/// the poller.
struct Cut {
  /// At most `each` pieces for each thread, if the poller does not want more. It does not if pieces ask it themselves.
  Cut(double nanoseconds, bool parallel, const RunState& state, int each = 4, bool asks = false);

  bool split = false, polled = false;
  int threads = 1;
  int64_t fewest = 1, most = 1;
};

/// Work that is split in pieces: [0, n) at multiples of `grain`, on several threads where that pays, and such that a
/// cancelled run ends within milliseconds.
void run_pieces(int64_t n, int64_t grain, double nanoseconds, bool parallel, RunState& state,
                const std::function<void(int64_t, int64_t)>& body);
/// The same at multiples of `piece`.
void run_pieces(int64_t n, int64_t piece, double nanoseconds, const Cut& cut, RunState& state,
                const std::function<void(int64_t, int64_t)>& body);

// ---- shared by the two executors
// ------------------------------------------------------------------------------------------

inline constexpr std::size_t kMaxOperands = codegen::LoopStep::kMostOperands;

/// A rectangle of the two innermost axes, and where each operand's first element of it lies.
struct Window {
  char* pointers[kMaxOperands];
  int64_t inner = 1, outer = 1;
  int64_t inner_start = 0;  // along the innermost axis, for index operands
};

/// Runs one stage over a window whose scratch operands are contiguous.
void run_stage(const BoundLoop& loop, const BoundStage& stage, const Window& window);

/// Calls f(window) for so many rows of a loop whose rows are joined, which `window` begins with: most of them several
/// at once, the others as one row. `scratch`: for what is repeated.
template <class F>
void for_joined_rows(const BoundLoop& loop, Window w, int64_t rows, char* scratch, F&& f) {
  const int64_t length = loop.joined.length, together = loop.extents.back() / length;
  for (const BoundLoop::JoinedRows::Repeated& r : loop.joined.repeated) {
    const auto row = static_cast<std::size_t>(length * loop.operands[r.operand].itemsize);
    char* const begin = scratch + r.scratch;
    for (std::size_t at = 0; at < static_cast<std::size_t>(std::min(rows, together)) * row; at += row)
      std::memcpy(begin + at, w.pointers[r.operand], row);
    w.pointers[r.operand] = begin;
  }
  w.outer = rows / together;
  w.inner = together * length;
  if (w.outer > 0) f(w);
  if (rows % together == 0) return;
  for (std::size_t i = 0; i < loop.operands.size(); ++i) w.pointers[i] += w.outer * loop.stride(i, loop.rank() - 2);
  w.outer = 1;
  w.inner = rows % together * length;
  f(w);
}

/// Puts back what a guarded kernel kept of a row.
void restore_row(char* memory, int64_t stride, const char* saved, int64_t count, int itemsize);

/// Scratch of one tile, given back when it leaves scope.
class Scratch {
 public:
  Scratch(int64_t bytes, RunState& state);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  RunState& state_;
  char* data_ = nullptr;
  bool reserved_ = false;
};

}  // namespace framejit::runtime
