#include "runtime/band.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "runtime/scheduler.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kLeastBlocks = 8;  // what all rows touch is at least as many blocks: less stays in cache anyway
constexpr int64_t kMostBlocks = 4;   // a row that touches more stays in no cache
constexpr int64_t kNear = 8;         // rows
constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kMostFollowers = 24;
constexpr double kMostMoved = 0.6;      // of what the steps of a staggered band move one after the other
constexpr int64_t kSavedPart = 8;       // of a block, for each step: to begin one takes as long as to move that
constexpr int64_t kBlocksOfWindow = 4;  // after which what is left in a window is moved to its begin
constexpr int64_t kStretch = 64, kAlignment = 64;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t ceil_div(int64_t n, int64_t by) { return n > 0 ? (n + by - 1) / by : -(-n / by); }

/// What the accesses of a band to one buffer have in common: the bytes [low, high) of row 0, and the distance between
/// rows.
struct Footprint {
  int64_t pitch = 0, low = 0, high = 0;
  bool read = false, written = false, alike = true;
  std::set<std::pair<int64_t, int64_t>> places;  // of the accesses: what is read in several places may be far apart

  /// What a row touches. Places that are a few rows apart, as in a stencil, are rows of the same block.
  int64_t bytes() const {
    if (written) return high - low;
    int64_t sum = 0, last = std::numeric_limits<int64_t>::min();
    for (const auto& [from, to] : places) {
      if (sum > 0 && from <= last + kNear * std::abs(pitch)) continue;
      sum += to - from;
      last = from;
    }
    return sum;
  }
};

class Finder {
 public:
  Finder(const Program& program, Bound& bound, int64_t block_bytes)
      : program_(program), bound_(bound), block_bytes_(block_bytes) {
    for (const Step& step : program.steps)
      if (const auto* flow = std::get_if<FlowStep>(&step))
        if (flow->kind == FlowStep::Jump || flow->kind == FlowStep::BranchIfFalse || flow->kind == FlowStep::BranchBack)
          targets_.insert(flow->target);
  }

  void run() {
    bound_.bands.clear();
    if (stays_in_cache()) return;
    // Flags that have owners are looked at between the steps before the first write.
    std::size_t begin = 0;
    if (program_.per_call_flags)
      while (begin < bound_.steps.size() && !writes_param(begin)) ++begin;
    for (std::size_t first = begin; first < bound_.steps.size();) {
      std::size_t last = first;
      rows_ = 0;
      while (!program_.per_call_flags && last < bound_.steps.size() && last - first < kMostSteps &&
             (last == first || !targets_.contains(last)) && take(first, last))
        ++last;
      if (std::optional<Band> staggered = num_threads() == 1 ? find_staggered(first) : std::nullopt;
          staggered && staggered->last > last) {
        first = staggered->last;
        add(std::move(*staggered));
        continue;
      }
      if (last - first >= 2) note(first, last);
      first = std::max(last, first + 1);
    }
  }

 private:
  const BoundLoop& loop(std::size_t i) const { return std::get<BoundLoop>(bound_.steps[i]); }

  bool writes_param(std::size_t i) const {
    bool found = false;
    for_each_buffer(program_, bound_, i, [&](BufferIndex b, bool written) {
      found = found || (written && program_.buffers[b].kind == BufferKind::Param);
    });
    return found;
  }

  /// Would so many steps as a band may have touch too little, if each were the one that touches the most?
  bool stays_in_cache() const {
    int64_t most = 0;
    for (const BoundStep& step : bound_.steps) {
      const auto* loop = std::get_if<BoundLoop>(&step);
      if (!loop || loop->rank() == 0) continue;
      int64_t bytes = 0;
      for (std::size_t k = 0; k < loop->operands.size(); ++k) {
        int64_t row = loop->operands[k].itemsize;
        for (int axis = 0; axis < loop->rank(); ++axis)
          row += std::abs(loop->stride(k, axis)) * (axis == 0 ? 1 : loop->extents[axis]);
        bytes += row * loop->extents[0];
      }
      most = std::max(most, bytes);
    }
    return most < kLeastBlocks * block_bytes_ / static_cast<int64_t>(kMostSteps);
  }

  /// May its first axis be cut?
  bool fits(std::size_t i) const {
    const auto* loop = std::get_if<BoundLoop>(&bound_.steps[i]);
    if (!loop || loop->rank() == 0 || loop->size == 0 || loop->guarded.kernel) return false;
    const ReduceKind reduce = loop->step->reduce;
    if (reduce != ReduceKind::None && (loop->reduced_first == 0 || loop->rank() < 2)) return false;
    for (const BoundOperand& o : loop->operands)
      if (o.index && loop->rank() == 1) return false;
    for (std::size_t k = 0; k < loop->operands.size(); ++k) {
      const BoundOperand& o = loop->operands[k];
      if (o.scratch || o.index) continue;
      const BufferKind kind = program_.buffers[o.buffer].kind;
      if (kind == BufferKind::Pointer || (loop->step->operands[k].written && kind == BufferKind::Param)) return false;
    }
    return true;
  }

  /// Can step `last` be added to those from `first` on? Then rows_ and footprints_ are those of the longer band.
  bool take(std::size_t first, std::size_t last) {
    if (!fits(last)) return false;
    const int64_t rows = std::gcd(rows_, loop(last).extents[0]);
    if (rows < 2) return false;
    std::map<BufferIndex, Footprint> footprints;
    for (std::size_t i = first; i <= last; ++i) add(loop(i), rows, footprints);
    for (const auto& [buffer, f] : footprints)
      if (f.written && (!f.alike || f.pitch <= 0 || f.high - f.low > f.pitch)) return false;
    rows_ = rows;
    footprints_ = std::move(footprints);
    return true;
  }

  static void add(const BoundLoop& loop, int64_t rows, std::map<BufferIndex, Footprint>& footprints) {
    const int64_t unit = loop.extents[0] / rows;
    for (std::size_t k = 0; k < loop.operands.size(); ++k) {
      const BoundOperand& o = loop.operands[k];
      if (o.scratch || o.index) continue;
      Footprint f;
      f.pitch = unit * loop.stride(k, 0), f.low = o.offset, f.high = o.offset + o.itemsize;
      for (int axis = 0; axis < loop.rank(); ++axis) {
        const int64_t reach = ((axis == 0 ? unit : loop.extents[axis]) - 1) * loop.stride(k, axis);
        (reach < 0 ? f.low : f.high) += reach;
      }
      const bool written = loop.step->operands[k].written;
      auto [it, fresh] = footprints.try_emplace(o.buffer, f);
      Footprint& all = it->second;
      all.alike = all.alike && all.pitch == f.pitch;
      all.low = std::min(all.low, f.low);
      all.high = std::max(all.high, f.high);
      all.read = all.read || !written;
      all.written = all.written || written;
      all.places.emplace(f.low, f.high);
    }
  }

  void note(std::size_t first, std::size_t last) {
    Band band;
    band.first = first;
    band.last = last;
    band.rows = rows_;
    int64_t row_bytes = 0;
    bool hands_on = false;
    for (const auto& [buffer, f] : footprints_) {
      if (f.pitch != 0) row_bytes += f.bytes();
      hands_on = hands_on || (f.read && f.written);
    }
    if (!hands_on || row_bytes > kMostBlocks * block_bytes_ || row_bytes * rows_ < kLeastBlocks * block_bytes_) return;
    int64_t grain = 1;  // rows of a block: NumPy loops see stretches of 64 elements
    for (std::size_t i = first; i < last; ++i) {
      const BoundLoop& l = loop(i);
      band.nanoseconds += l.nanoseconds;
      band.parallel = band.parallel && l.step->parallel;
      band.scratch_bytes = std::max(band.scratch_bytes, l.scratch_bytes);
      const bool calls_numpy =
          std::any_of(l.stages.begin(), l.stages.end(), [](const BoundStage& s) { return !s.kernel; });
      if (calls_numpy && l.rank() == 1) grain = std::lcm(grain, kStretch / std::gcd(kStretch, l.extents[0] / rows_));
    }
    band.block = round_up(std::max<int64_t>(1, block_bytes_ / row_bytes), grain);
    if (band.block * 2 > rows_) return;
    for (const auto& [buffer, f] : footprints_) {
      if (program_.buffers[buffer].kind != BufferKind::Temp || !f.written || used_outside(buffer, first, last))
        continue;
      band.temps.push_back({buffer, f.pitch, f.low, band.bytes});
      // A block may be longer by less than one block: what is left at the end is added to it.
      band.bytes += round_up(2 * band.block * f.pitch, kAlignment) + kAlignment;
    }
    add(std::move(band));
  }

  void add(Band&& band) {
    for (std::size_t i = band.first; i < band.last; ++i) bound_.wave_end[i] = band.last;
    bound_.bands.push_back(std::move(band));
  }

  // ---- staggered

  /// The bytes of a buffer that one row of a step reads or writes.
  struct Access {
    std::size_t step;
    int64_t pitch, low, high;
    bool written;
  };
  using Accesses = std::map<BufferIndex, std::vector<Access>>;

  /// Does an outer axis run along the elements of an operand? Such axes are cut into blocks of their own.
  static bool is_transposed(const BoundLoop& l, std::size_t operand) {
    for (int axis = 0; axis + 1 < l.rank(); ++axis)
      if (std::abs(l.stride(operand, axis)) == l.operands[operand].itemsize) return true;
    return false;
  }

  /// May its rows be run one after the other, behind those of other steps? A param that it writes is not to be written
  /// if NumPy's own answer is needed.
  bool can_follow(std::size_t i) const {
    const auto* l = std::get_if<BoundLoop>(&bound_.steps[i]);
    if (!l || l->rank() == 0 || l->size == 0 || l->step->redo_zero_or_nan) return false;
    if (l->step->reduce != ReduceKind::None && (l->reduced_first == 0 || l->rank() < 2)) return false;
    if (std::any_of(l->stages.begin(), l->stages.end(), [](const BoundStage& s) { return !s.kernel; })) return false;
    for (std::size_t k = 0; k < l->operands.size(); ++k) {
      const BoundOperand& o = l->operands[k];
      const int64_t inner = l->stride(k, l->rank() - 1);
      if (o.index || (!o.scratch && program_.buffers[o.buffer].kind == BufferKind::Pointer)) return false;
      if (inner != 0 && inner != o.itemsize && is_transposed(*l, k)) return false;
    }
    return true;
  }

  /// A long band from `first` on whose rows stay in cache, if it is worth it. Not all lengths are tried, nor all begins
  /// of bands if long ones were tried in vain, so that the time is linear in the number of steps.
  std::optional<Band> find_staggered(std::size_t first) {
    if (first < next_staggered_) return std::nullopt;
    std::size_t last = first;
    while (last < bound_.steps.size() && last - first < kMostFollowers && (last == first || !targets_.contains(last)) &&
           can_follow(last))
      ++last;
    for (std::size_t count = last - first; count >= 2; count -= (count + 3) / 4) {
      Band band;
      band.first = first;
      band.last = first + count;
      if (!stagger(band)) continue;
      // Where operands begin may change later.
      const bool moves = std::ranges::any_of(movable_of(program_).places, [&](const Movable::Place& place) {
        return band.first <= place.step && place.step < band.last;
      });
      if (moves) break;
      return band;
    }
    next_staggered_ = first + std::max<std::size_t>(1, (last - first) / 4);
    return std::nullopt;
  }

  /// False: one of its steps has other rows, they touch too much, or it is not worth it.
  bool stagger(Band& band) const {
    Accesses accesses;
    std::map<BufferIndex, int64_t> pitches;  // of what is written
    for (std::size_t i = band.first; i < band.last; ++i) add_accesses(i, accesses);
    for (const auto& [buffer, all] : accesses) {
      if (std::none_of(all.begin(), all.end(), [](const Access& a) { return a.written; })) continue;
      int64_t& pitch = pitches[buffer];
      for (const Access& a : all) pitch = std::max(pitch, a.pitch);
      if (std::any_of(all.begin(), all.end(), [&](const Access& a) {
            return a.pitch <= 0 || (is_of_one_step(all) ? a.pitch != pitch : pitch % a.pitch != 0);
          }))
        return false;
    }
    if (!find_rows(band, pitches, accesses)) return false;
    for (std::size_t i = band.first; i < band.last; ++i) find_lag(band, i, pitches, accesses);
    int64_t row_bytes = 0, most_rows = 0, least_rows = std::numeric_limits<int64_t>::max(), most_lag = 0;
    for (const auto& [buffer, all] : accesses) row_bytes += widest(all);
    for (const Band::Follower& f : band.followers) {
      most_rows = std::max(most_rows, f.rows);
      least_rows = std::min(least_rows, f.rows);
      most_lag = std::max(most_lag, f.lag);
    }
    band.rows = 0;
    for (const Band::Follower& f : band.followers) band.rows = std::max(band.rows, f.rows + f.lag);
    band.block = std::max<int64_t>(1, block_bytes_ / std::max<int64_t>(1, row_bytes));
    int64_t in_use = 0, moved = 0, moved_once = 0;  // bytes; the last two: of a row, step by step and together
    bool hands_on = false;
    for (const auto& [buffer, all] : accesses) {
      const Band::Window window = window_of(band, buffer, widest(all), all);
      in_use += window.high - window.low;
      moved_once += window.pitch;
      for (std::size_t k = 0; k < all.size(); ++k)
        if (k == 0 || all[k].step != all[k - 1].step) moved += window.pitch;
      if (!pitches.contains(buffer)) continue;
      hands_on = hands_on || std::any_of(all.begin(), all.end(), [](const Access& a) { return !a.written; });
      if (program_.buffers[buffer].kind != BufferKind::Temp || used_outside(buffer, band.first, band.last)) continue;
      band.windows.push_back(window);
      band.bytes += window.capacity;
    }
    for (std::size_t i = band.first; i < band.last; ++i) {
      band.nanoseconds += loop(i).nanoseconds;
      band.scratch_bytes = std::max(band.scratch_bytes, loop(i).scratch_bytes);
    }
    return in_use <= kMostBlocks * block_bytes_ && hands_on && row_bytes * most_rows >= kLeastBlocks * block_bytes_ &&
           least_rows >= 2 * (band.block + most_lag) &&
           static_cast<double>(moved_once) <= kMostMoved * static_cast<double>(moved) &&
           (moved - moved_once) * band.block >= block_bytes_ / kSavedPart * std::ssize(band.followers);
  }

  void add_accesses(std::size_t i, Accesses& accesses) const {
    const BoundLoop& l = loop(i);
    for (std::size_t k = 0; k < l.operands.size(); ++k) {
      const BoundOperand& o = l.operands[k];
      if (o.scratch) continue;
      Access a{i, l.stride(k, 0), o.offset, o.offset + o.itemsize, l.step->operands[k].written};
      for (int axis = 1; axis < l.rank(); ++axis) {
        const int64_t reach = (l.extents[axis] - 1) * l.stride(k, axis);
        (reach < 0 ? a.low : a.high) += reach;
      }
      accesses[o.buffer].push_back(a);
    }
  }

  static bool is_of_one_step(const std::vector<Access>& all) { return all.front().step == all.back().step; }

  /// The rows of each step are so many elements of its first axis that the buffers have one pitch for all steps.
  bool find_rows(Band& band, std::map<BufferIndex, int64_t>& pitches, Accesses& accesses) const {
    std::vector<int64_t> units(band.last - band.first, 0);
    for (const auto& [buffer, pitch] : pitches)
      for (const Access& a : accesses[buffer]) {
        if (is_of_one_step(accesses[buffer])) continue;
        int64_t& unit = units[a.step - band.first];
        if (unit != 0 && unit != pitch / a.pitch) return false;
        unit = pitch / a.pitch;
      }
    for (std::size_t i = band.first; i < band.last; ++i) {
      const int64_t unit = units[i - band.first];
      if (unit == 0) return false;
      const int64_t extent = loop(i).extents[0];
      if (extent % unit != 0 || extent / unit < 2) return false;
      band.followers.push_back({extent / unit, 0});
    }
    for (auto& [buffer, all] : accesses)
      for (Access& a : all) {
        const int64_t unit = units[a.step - band.first];
        (a.pitch < 0 ? a.low : a.high) += (unit - 1) * a.pitch;
        a.pitch *= unit;
      }
    for (auto& [buffer, pitch] : pitches) pitch = widest(accesses[buffer]);
    return true;
  }

  /// A step may run a row if the steps before it have run all rows that touch the same bytes, unless both only read.
  void find_lag(Band& band, std::size_t i, const std::map<BufferIndex, int64_t>& pitches,
                const Accesses& accesses) const {
    int64_t& lag = band.followers[i - band.first].lag;
    for (const auto& [buffer, pitch] : pitches)
      for (const Access& mine : accesses.at(buffer))
        for (const Access& other : accesses.at(buffer)) {
          if (mine.step != i || other.step >= i || !(mine.written || other.written)) continue;
          const int64_t ahead = ceil_div(mine.high - other.low, pitch);
          lag = std::max(lag, band.followers[other.step - band.first].lag + ahead - 1);
        }
  }

  static int64_t widest(const std::vector<Access>& all) {
    int64_t pitch = 0;
    for (const Access& a : all) pitch = std::max(pitch, std::abs(a.pitch));
    return pitch;
  }

  /// The bytes of a buffer that are in use at a time: those of a block of rows, and of rows that later steps still
  /// read.
  Band::Window window_of(const Band& band, BufferIndex buffer, int64_t pitch, const std::vector<Access>& all) const {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    Band::Window w{buffer, pitch, kMost, -kMost, kMost, 0, band.bytes};
    for (const Access& a : all) {
      const int64_t lag = band.followers[a.step - band.first].lag;
      w.low = std::min(w.low, a.low - (band.block + lag) * pitch);
      w.high = std::max(w.high, a.high - (lag + 1) * pitch);
      w.first = std::min(w.first, a.low);
    }
    w.capacity = round_up(w.high - w.low + kBlocksOfWindow * band.block * pitch, kAlignment) + kAlignment;
    return w;
  }

  bool used_outside(BufferIndex buffer, std::size_t first, std::size_t last) const {
    bool found = false;
    for (std::size_t i = 0; i < program_.steps.size() && !found; ++i)
      if (i < first || i >= last)
        for_each_buffer(program_, bound_, i, [&](BufferIndex b, bool) { found = found || b == buffer; });
    return found;
  }

  const Program& program_;
  Bound& bound_;
  const int64_t block_bytes_;
  std::set<std::size_t> targets_;
  int64_t rows_ = 0;
  std::map<BufferIndex, Footprint> footprints_;
  std::size_t next_staggered_ = 0;
};

/// A step of which rows are run, block by block.
class Rows {
 public:
  Rows(const BoundLoop& all, int64_t rows) : all_(all), rows_(rows), unit_(all.extents[0] / rows) {
    if (all.direct.empty()) loop_ = all;
  }

  void run(int64_t begin, int64_t count, RunState& state,
           const std::function<void(const BoundLoop&, RunState&)>& run_loop) {
    if (!all_.direct.empty()) return execute_directly(all_, begin * unit_, (begin + count) * unit_, state.buffers);
    run_loop(block(begin, count), state);
  }

 private:
  const BoundLoop& block(int64_t begin, int64_t count) {
    const double part = static_cast<double>(count) / static_cast<double>(rows_);
    loop_.extents[0] = count * unit_;
    loop_.size = all_.size / rows_ * count;
    loop_.outputs = all_.step->reduce == ReduceKind::None ? 1 : all_.outputs / rows_ * count;
    loop_.nanoseconds = all_.nanoseconds * part;
    for (std::size_t k = 0; k < loop_.operands.size(); ++k)
      if (!loop_.operands[k].scratch && !loop_.operands[k].index)
        loop_.operands[k].offset = all_.operands[k].offset + begin * unit_ * all_.stride(k, 0);
    return loop_;
  }

  const BoundLoop& all_;
  BoundLoop loop_;
  int64_t rows_, unit_;
};

}  // namespace

void find_bands(const Program& program, Bound& bound, int64_t block_bytes) {
  // Steps that are bound again may have other rows. Flags with rules are looked at after each step.
  if (!program.measured.empty() || !program.flag_rules.empty()) return;
  Finder(program, bound, block_bytes).run();
}

namespace {

using RunLoop = std::function<void(const BoundLoop&, RunState&)>;

/// Memory for the rows of a temporary that are in use.
class SlidingWindow {
 public:
  SlidingWindow(const Band::Window& window, char* memory)
      : w_(window), memory_(memory), begin_(aligned(window.first)), end_(begin_) {}

  /// Makes room for what is in use while the front is at that row. Where byte 0 of the temporary would be.
  char* move_to(int64_t front) {
    const int64_t end = w_.high + front * w_.pitch;
    if (end > begin_ + w_.capacity) {
      const int64_t begin = aligned(std::max(w_.first, w_.low + front * w_.pitch));
      if (end_ > begin) std::memmove(memory_, memory_ + (begin - begin_), static_cast<std::size_t>(end_ - begin));
      begin_ = begin;
    }
    end_ = std::max(end_, end);
    return memory_ - begin_;
  }

 private:
  static int64_t aligned(int64_t byte) { return byte / kAlignment * kAlignment; }

  const Band::Window& w_;
  char* const memory_;
  int64_t begin_, end_;
};

/// Gives the steps of a band, whose temporaries lie elsewhere, the state of the run.
void take_state(RunState& own, const RunState& state, std::vector<char*>& buffers, char* reserve) {
  own.buffers = buffers.data();
  own.poller = state.poller;
  own.reserve = reserve;
  own.slots = state.slots;
}

void execute_staggered(const Bound& bound, const Band& band, RunState& state, const RunLoop& run) {
  const Scratch memory(band.bytes + band.scratch_bytes, state);
  std::vector<char*> buffers(state.buffers, state.buffers + bound.temp_offsets.size());
  RunState own;
  take_state(own, state, buffers, memory.data() + band.bytes);
  std::vector<Rows> steps;
  std::vector<int64_t> done(band.followers.size(), 0);
  for (std::size_t i = band.first; i < band.last; ++i)
    steps.emplace_back(std::get<BoundLoop>(bound.steps[i]), band.followers[i - band.first].rows);
  std::vector<SlidingWindow> windows;
  for (const Band::Window& w : band.windows) windows.emplace_back(w, memory.data() + w.offset);
  run_pieces(band.rows, band.block, band.nanoseconds, false, state, [&](int64_t begin, int64_t end) {
    for (int64_t front = begin; front < end && !own.stopped();) {
      front += band.block;
      for (std::size_t k = 0; k < windows.size(); ++k) buffers[band.windows[k].buffer] = windows[k].move_to(front);
      for (std::size_t i = 0; i < steps.size() && !own.stopped(); ++i) {
        const int64_t to = std::min(band.followers[i].rows, front - band.followers[i].lag);
        if (to <= done[i]) continue;
        steps[i].run(done[i], to - done[i], own, run);
        done[i] = to;
      }
    }
  });
  state.redo = state.redo || own.redo;
}

}  // namespace

void execute_band(const Bound& bound, const Band& band, RunState& state, const RunLoop& run) {
  if (!band.followers.empty()) return execute_staggered(bound, band, state, run);
  std::atomic<bool> redo{false};
  run_pieces(band.rows, band.block, band.nanoseconds, band.parallel, state, [&](int64_t begin, int64_t end) {
    const Scratch memory(band.bytes + band.scratch_bytes, state);
    std::vector<char*> buffers(state.buffers, state.buffers + bound.temp_offsets.size());
    RunState own;
    take_state(own, state, buffers, memory.data() + band.bytes);
    std::vector<Rows> steps;
    for (std::size_t i = band.first; i < band.last; ++i)
      steps.emplace_back(std::get<BoundLoop>(bound.steps[i]), band.rows);
    for (int64_t at = begin, count; at < end && !own.stopped(); at += count) {
      count = end - at < 2 * band.block ? end - at : band.block;
      for (const Band::Temp& t : band.temps) buffers[t.buffer] = memory.data() + t.offset - t.low - at * t.pitch;
      for (Rows& step : steps) {
        step.run(at, count, own, run);
        if (own.stopped()) break;
      }
    }
    if (own.redo) redo.store(true, std::memory_order_relaxed);
  });
  state.redo = state.redo || redo.load(std::memory_order_relaxed);
}

}  // namespace framejit::runtime
