// Sums in NumPy's order. A run of n elements is split at n/2 - (n/2 mod 8) until 128 or fewer are left, which the leaf
// kernel adds with eight accumulators; the halves are added here. The tree depends on n alone, so threads may compute
// its subtrees in any order: what they give is added in the tree's order.
#include <algorithm>
#include <functional>
#include <iterator>

#include "runtime/execute.h"
#include "runtime/fold.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

using namespace codegen;
using graph::DType;

namespace {

constexpr int kMaxRank = 64;
constexpr int64_t kSubtree = 16384;  // elements of a piece of work, about, when one run is split between threads

/// What a leaf gives: a number, or the parts of one, which stay in one register.
template <class Real, int kNumberOfParts>
struct Sum {
  static constexpr int kParts = kNumberOfParts;
  typedef Real Parts __attribute__((vector_size(sizeof(Real) * kParts)));
  Parts part;
  friend Sum operator+(const Sum& a, const Sum& b) { return {a.part + b.part}; }

  /// Complex sums are counted in real numbers: 128 to a leaf, the others split at a multiple of 8.
  static constexpr int64_t kLeaf = 128 / kParts;
  static int64_t split_at(int64_t n) {
    const int64_t half = n * kParts / 2;
    return (half - half % 8) / kParts;
  }
};

constexpr int kMostLeaves = 64;  // of one call of the kernel

/// How a run, or a part of it, falls into leaves: their lengths, and behind each of them how many sums are joined with
/// what stands before.
template <class Total>
struct Leaves {
  int64_t length = -1;
  int count = 0;
  int64_t lengths[kMostLeaves];
  uint8_t joins[kMostLeaves];

  void cut(int64_t n) {
    length = n;
    count = 0;
    add(n);
  }

 private:
  void add(int64_t n) {
    if (n <= Total::kLeaf) {
      joins[count] = 0;
      lengths[count++] = n;
      return;
    }
    const int64_t half = Total::split_at(n);
    add(half);
    add(n - half);
    ++joins[count - 1];
  }
};

/// The sum so far, as the output array would hold it.
template <class Total>
struct Accumulated {
  Total value{};
  void add(const Total& run, bool half) {
    value = value + run;
    if constexpr (sizeof(Total) == sizeof(float))
      if (half) value.part[0] = half_to_float(float_to_half(value.part[0]));
  }
};

template <class Total>
class Pairwise {
 public:
  Pairwise(const BoundLoop& loop, RunState& state)
      : loop_(loop),
        step_(*loop.step),
        state_(state),
        rank_(loop.rank()),
        run_first_(rank_ - static_cast<int>(step_.run_axes)),
        half_(step_.operands[step_.output].dtype == DType::F16) {
    most_ = has_index() ? Total::kLeaf
                        : Total::kLeaf * kMostLeaves / 2;  // no leaf but a whole run is shorter than half a leaf
    if (step_.longest_run > 0) most_ = step_.longest_run;
    if (loop.scratch_bytes > 0) most_ = std::min(most_, loop.tile);
    for (int axis = run_first_; axis < rank_; ++axis) run_length_ *= loop.extents[axis];
    cut_ = step_.run_cut > 0 ? step_.run_cut : std::max<int64_t>(run_length_, 1);
    for (int axis = loop.reduced_first; axis < run_first_; ++axis) runs_ *= loop.extents[axis];
  }

  void execute() {
    if (loop_.outputs == 0) return;
    if (step_.parallel && may_split(loop_.nanoseconds) && loop_.outputs < 4 * num_threads() &&
        worth_splitting(loop_.nanoseconds)) {
      for (int64_t i = 0; i < loop_.outputs && !state_.stopped(); ++i) split_output(i);
      return;
    }
    run_pieces(loop_.outputs, 1, loop_.nanoseconds, step_.parallel, state_, [this](int64_t begin, int64_t end) {
      Worker worker(*this);
      if (has_short_rows()) return worker.short_rows(begin, end);
      for (int64_t i = begin; i < end && !state_.stopped(); ++i) worker.output(i);
    });
  }

 private:
  /// Pointers of all operands at a position of the axes outside the run.
  struct Place {
    char* pointers[kMaxOperands];
    char* output;
  };

  Place place(int64_t output, int64_t outer_run) const {
    Place p;
    int64_t position[kMaxRank];
    for (int axis = loop_.reduced_first - 1; axis >= 0; --axis) {
      position[axis] = output % loop_.extents[axis];
      output /= loop_.extents[axis];
    }
    for (int axis = run_first_ - 1; axis >= loop_.reduced_first; --axis) {
      const int64_t length = std::max<int64_t>(loop_.extents[axis], 1);  // where it is 0 there is no run
      position[axis] = outer_run % length;
      outer_run /= length;
    }
    for (std::size_t i = 0; i < loop_.operands.size(); ++i) {
      const BoundOperand& o = loop_.operands[i];
      if (o.scratch || o.index) continue;
      char* pointer = state_.buffers[o.buffer] + o.offset;
      for (int axis = 0; axis < run_first_; ++axis) pointer += position[axis] * loop_.stride(i, axis);
      p.pointers[i] = pointer;
    }
    p.output = p.pointers[step_.output];
    return p;
  }

  void store(char* output, const Total& total) const {
    if (half_) {
      const uint16_t h = float_to_half(static_cast<float>(total.part[0]));
      std::memcpy(output, &h, sizeof(h));
    } else {
      std::memcpy(output, &total, sizeof(total));
    }
  }

  /// Short runs, read in place, that follow each other in memory or are a single leaf each.
  bool has_short_rows() const {
    if (runs_ == 0 || run_length_ == 0 || run_length_ > (step_.longest_run > 0 ? most_ : most_ / 2) ||
        run_length_ > cut_ || loop_.scratch_bytes > 0 || loop_.reduced_first == 0 || step_.run_axes != 1 || has_index())
      return false;
    if (step_.longest_run > 0) return runs_ == 1;
    if (run_length_ <= Total::kLeaf) return true;
    if (runs_ > 1 || loop_.reduced_first != rank_ - 1) return false;
    for (std::size_t i = 0; i < loop_.operands.size(); ++i)
      if (i != step_.output && loop_.stride(i, rank_ - 2) != run_length_ * loop_.stride(i, rank_ - 1)) return false;
    return true;
  }
  bool has_index() const {
    return std::any_of(loop_.operands.begin(), loop_.operands.end(), [](const BoundOperand& o) { return o.index; });
  }

  /// One thread's view: its scratch, and the tile that the scratch holds.
  class Worker {
   public:
    explicit Worker(const Pairwise& p)
        : p_(p), scratch_(p.loop_.scratch_bytes, p.state_), fold_(p.loop_.stages.back()) {
      for (std::size_t i = 0; i < fold_.operands.size(); ++i) {
        const uint16_t operand = fold_.operands[i];
        const BoundOperand& o = p_.loop_.operands[operand];
        advance_[i] = o.scratch ? o.itemsize : o.index ? 0 : p_.loop_.stride(operand, p_.rank_ - 1);
        if (operand == p_.step_.output) advance_[i] = 0;
        strides_[2 * i] = advance_[i];
        strides_[2 * i + 1] = operand == p_.step_.output ? sizeof(Total) : 0;
      }
    }
    void output(int64_t index) {
      Accumulated<Total> total;
      for (int64_t run = 0; run < p_.runs_; ++run) {
        begin_run(p_.place(index, run));
        for (int64_t start = 0; start < p_.run_length_; start += p_.cut_)
          total.add(tree(start, std::min(p_.cut_, p_.run_length_ - start)), p_.half_);
      }
      p_.store(p_.place(index, 0).output, total.value);
    }

    void begin_run(const Place& place) {
      place_ = place;
      tile_start_ = tile_length_ = 0;
    }

    Total tree(int64_t start, int64_t n) {
      const bool staged = p_.loop_.scratch_bytes > 0;
      if (staged && n <= p_.loop_.tile && (start < tile_start_ || start + n > tile_start_ + tile_length_))
        produce(start, n);
      if (n <= p_.most_) return leaves(start, n);
      const int64_t half = Total::split_at(n);
      const Total left = tree(start, half);
      return left + tree(start + half, n - half);
    }

    /// Rows [begin, end) of outputs: the leaves of several of them in one call of the kernel.
    void short_rows(int64_t begin, int64_t end) {
      const int row_axis = p_.loop_.reduced_first - 1;
      const int64_t rows = p_.loop_.extents[row_axis], n = p_.run_length_;
      if (p_.step_.longest_run > 0) return whole_rows(begin, end);
      const Leaves<Total>& cut = leaves_of(n);
      const int64_t most = kMostLeaves / cut.count;
      int64_t lengths[kMostLeaves], strides[2 * kMaxOperands];
      for (int64_t row = 0; row < most; ++row) std::copy_n(cut.lengths, cut.count, lengths + row * cut.count);
      for (std::size_t i = 0; i < fold_.operands.size(); ++i) {
        const bool output = fold_.operands[i] == p_.step_.output;
        strides[2 * i] = strides_[2 * i];
        strides[2 * i + 1] = output ? sizeof(Total) : p_.loop_.stride(fold_.operands[i], row_axis) - n * advance_[i];
      }
      while (begin < end) {
        const int64_t count = std::min({end - begin, rows - begin % rows, most});
        Accumulated<Total> totals[kMostLeaves];
        for (int64_t run = 0; run < p_.runs_; ++run) {
          const Place place = p_.place(begin, run);
          Total sums[kMostLeaves];
          char* pointers[kMaxOperands];
          for (std::size_t i = 0; i < fold_.operands.size(); ++i)
            pointers[i] = fold_.operands[i] == p_.step_.output ? reinterpret_cast<char*>(sums)
                                                               : place.pointers[fold_.operands[i]];
          call(pointers, strides, lengths, count * cut.count);
          for (int64_t row = 0; row < count; ++row) totals[row].add(join(cut, sums + row * cut.count), p_.half_);
        }
        const Place place = p_.place(begin, 0);
        for (int64_t row = 0; row < count; ++row)
          p_.store(place.output + row * p_.loop_.stride(p_.step_.output, row_axis), totals[row].value);
        begin += count;
      }
    }

   private:
    /// Rows of which each is one run of a kernel that takes it as a whole.
    void whole_rows(int64_t begin, int64_t end) {
      const int row_axis = p_.loop_.reduced_first - 1;
      const int64_t rows = p_.loop_.extents[row_axis];
      int64_t strides[2 * kMaxOperands];
      for (std::size_t i = 0; i < fold_.operands.size(); ++i) {
        strides[2 * i] = strides_[2 * i];
        strides[2 * i + 1] = p_.loop_.stride(fold_.operands[i], row_axis);
      }
      for (int64_t count; begin < end; begin += count) {
        count = std::min(end - begin, rows - begin % rows);
        const Place place = p_.place(begin, 0);
        char* pointers[kMaxOperands];
        for (std::size_t i = 0; i < fold_.operands.size(); ++i) pointers[i] = place.pointers[fold_.operands[i]];
        fold_.kernel(pointers, strides, p_.run_length_, count);
      }
    }

    void call(char* const* pointers, const int64_t* strides, const int64_t* lengths, int64_t count) {
      fold_.kernel(pointers, strides, static_cast<int64_t>(reinterpret_cast<intptr_t>(lengths)), count);
    }

    /// At most `most_` elements.
    Total leaves(int64_t start, int64_t n) {
      Total sums[kMostLeaves];
      char* pointers[kMaxOperands];
      int64_t index = start;
      for (std::size_t i = 0; i < fold_.operands.size(); ++i) {
        const uint16_t operand = fold_.operands[i];
        const BoundOperand& o = p_.loop_.operands[operand];
        if (operand == p_.step_.output) pointers[i] = reinterpret_cast<char*>(sums);
        else if (o.scratch) pointers[i] = scratch_.data() + o.offset + (start - tile_start_) * advance_[i];
        else if (o.index) pointers[i] = reinterpret_cast<char*>(&index);
        else pointers[i] = place_.pointers[operand] + start * advance_[i];
      }
      if (p_.step_.longest_run > 0) {
        fold_.kernel(pointers, strides_, n, 1);
        return sums[0];
      }
      const Leaves<Total>& cut = leaves_of(n);
      call(pointers, strides_, cut.lengths, cut.count);
      return join(cut, sums);
    }

    const Leaves<Total>& leaves_of(int64_t n) {
      Leaves<Total>& cut = cuts_[n / 8 % std::ssize(cuts_)];
      if (cut.length != n) cut.cut(n);
      return cut;
    }

    static Total join(const Leaves<Total>& cut, Total* sums) {
      int top = 0;
      for (int k = 0; k < cut.count; ++k) {
        sums[top] = sums[k];
        for (int joins = cut.joins[k]; joins > 0; --joins, --top) sums[top - 1] = sums[top - 1] + sums[top];
        ++top;
      }
      return sums[0];
    }

    /// Fills the scratch with elements [start, start + n) of the run.
    void produce(int64_t start, int64_t n) {
      tile_start_ = start;
      tile_length_ = n;
      for (std::size_t s = 0; s + 1 < p_.loop_.stages.size(); ++s) {
        const BoundStage& stage = p_.loop_.stages[s];
        if (p_.step_.run_axes == 1 || !stage.kernel) stage_window(stage, start, 0, n, 1);
        else stage_rows(stage, start, n);
      }
    }

    /// A stage over part of the run that spans rows: the end of one, whole ones, the beginning of one.
    void stage_rows(const BoundStage& stage, int64_t start, int64_t n) {
      const int64_t columns = p_.loop_.extents[p_.rank_ - 1];
      const int64_t rows = p_.loop_.extents[p_.rank_ - 2];
      int64_t done = 0;
      while (done < n) {
        const int64_t at = start + done, column = at % columns, left = n - done;
        if (column != 0 || left < columns) {
          const int64_t count = std::min(left, columns - column);
          stage_window(stage, at, done, count, 1);
          done += count;
        } else {
          const int64_t count = std::min(left / columns, rows - at / columns % rows);
          stage_window(stage, at, done, columns, count);
          done += columns * count;
        }
      }
    }

    /// `at`: linear index in the run of the window's first element; `done`: its index in the tile.
    void stage_window(const BoundStage& stage, int64_t at, int64_t done, int64_t inner, int64_t outer) {
      Window w;
      w.inner = inner;
      w.outer = outer;
      int64_t index = p_.step_.run_axes == 1 ? at : at % p_.loop_.extents[p_.rank_ - 1];
      for (uint16_t operand : stage.operands) {
        const BoundOperand& o = p_.loop_.operands[operand];
        if (o.scratch) w.pointers[operand] = scratch_.data() + o.offset + done * o.itemsize;
        else if (o.index) w.pointers[operand] = reinterpret_cast<char*>(&index);
        else w.pointers[operand] = place_.pointers[operand] + offset_in_run(operand, at);
      }
      run_stage(p_.loop_, stage, w);
    }

    int64_t offset_in_run(uint16_t operand, int64_t at) const {
      if (p_.step_.run_axes == 1) return at * p_.loop_.stride(operand, p_.rank_ - 1);
      int64_t offset = 0;
      for (int axis = p_.rank_ - 1; axis >= p_.run_first_; --axis) {
        offset += at % p_.loop_.extents[axis] * p_.loop_.stride(operand, axis);
        at /= p_.loop_.extents[axis];
      }
      return offset;
    }

    const Pairwise& p_;
    Scratch scratch_;
    const BoundStage& fold_;
    Leaves<Total> cuts_[4];  // of lengths that come again
    Place place_;
    int64_t tile_start_ = 0, tile_length_ = 0;
    int64_t advance_[kMaxOperands], strides_[2 * kMaxOperands];
  };

  // ---- one output, its tree split between threads
  // ---------------------------------------------------------------------

  struct Piece {
    int64_t run, start, length;
  };

  void cut_tree(int64_t run, int64_t start, int64_t n, std::vector<Piece>& pieces) const {
    if (n <= kSubtree) {
      pieces.push_back({run, start, n});
      return;
    }
    const int64_t half = Total::split_at(n);
    cut_tree(run, start, half, pieces);
    cut_tree(run, start + half, n - half, pieces);
  }

  Total join(int64_t n, const Total*& partial) const {
    if (n <= kSubtree) return *partial++;
    const int64_t half = Total::split_at(n);
    const Total left = join(half, partial);
    return left + join(n - half, partial);
  }

  void split_output(int64_t output) {
    std::vector<Piece> pieces;
    for (int64_t run = 0; run < runs_; ++run)
      for (int64_t start = 0; start < run_length_; start += cut_)
        cut_tree(run, start, std::min(cut_, run_length_ - start), pieces);
    std::vector<Total> partial(pieces.size());
    run_pieces(static_cast<int64_t>(pieces.size()), 1, loop_.nanoseconds / static_cast<double>(loop_.outputs), true,
               state_, [&](int64_t begin, int64_t end) {
                 Worker worker(*this);
                 for (int64_t i = begin; i < end; ++i) {
                   const Piece& piece = pieces[static_cast<std::size_t>(i)];
                   worker.begin_run(place(output, piece.run));
                   partial[static_cast<std::size_t>(i)] = worker.tree(piece.start, piece.length);
                 }
               });
    if (state_.stopped()) return;
    const Total* next = partial.data();
    Accumulated<Total> total;
    for (int64_t run = 0; run < runs_; ++run)
      for (int64_t start = 0; start < run_length_; start += cut_)
        total.add(join(std::min(cut_, run_length_ - start), next), half_);
    store(place(output, 0).output, total.value);
  }

  const BoundLoop& loop_;
  const LoopStep& step_;
  RunState& state_;
  const int rank_, run_first_;
  const bool half_;
  int64_t run_length_ = 1, runs_ = 1, cut_ = 1;
  int64_t most_ = 0;  // elements of one call of the kernel
};

}  // namespace

void execute_pairwise(const BoundLoop& loop, RunState& state) {
  switch (loop.step->accumulator) {
    case DType::F32: return Pairwise<Sum<float, 1>>(loop, state).execute();
    case DType::F64: return Pairwise<Sum<double, 1>>(loop, state).execute();
    case DType::C64: return Pairwise<Sum<float, 2>>(loop, state).execute();
    default: return Pairwise<Sum<double, 2>>(loop, state).execute();
  }
}

}  // namespace framejit::runtime
