// Rounds of a loop on several threads.
//
// The rounds are done in strips of a few milliseconds, each in pieces that threads take. Between strips all rounds so
// far are done and none of the others, so the loop can go on there. The first pieces are done by the caller alone:
// they tell how long a round takes.
#include "runtime/parallel_loop.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "graph/support/clock.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

namespace {

using Wide = __int128;

constexpr int64_t kPieceNanoseconds = 200'000;
constexpr int64_t kShortNanoseconds = 2'000'000;
constexpr double kGain = 0.9;              // of the time of one thread: it has to be faster than that
constexpr double kWorthSplitting = 100e3;  // the scheduler splits this in any case
constexpr int64_t kProbeNanoseconds = 20'000;
constexpr int64_t kLongRound = 100'000'000;  // too much would be undone if the interpreter waits
constexpr double kLongestKept = 1e6;         // a round whose end the interpreter may wait for, in nanoseconds
constexpr int64_t kMostChecks = 1000;
constexpr int64_t kSavedOfPiece = 1 << 16, kSavedOfRound = 1 << 20;  // bytes
constexpr int64_t kSavedOfStrip = 1 << 19;                           // for each thread: it stays in the caches
constexpr int64_t kMostRounds = int64_t{1} << 40;
constexpr std::size_t kMostAxes = 16;          // of an access
constexpr int kPieces = 16, kLeastPieces = 4;  // in a strip, for each thread
constexpr int64_t kMostSetbacks = 10, kAskAgain = 32, kCompared = 4;
constexpr int64_t kSmallNanoseconds = 120'000;

bool eager = false;

/// Numbers of a frame are below this: their products and sums fit 128 bits.
constexpr Wide kMostNumber = Wide{1} << 62;
bool fits(Wide n) { return -kMostNumber < n && n < kMostNumber; }

/// Bytes from `low` on, up to `high`.
struct Reach {
  Wide low, high;
};

}  // namespace

bool ParallelLoop::set_eager(bool on) { return std::exchange(eager, on); }

bool ParallelLoop::is_wanted() { return eager || num_threads() > 1; }

ParallelLoop::ParallelLoop(cfg::ParallelLoop& loop, Body body)
    : loop_(loop), body_(std::move(body)), totals_(loop.sums.size()) {
  const cfg::Cfg& graph = loop.body;
  const auto fails = [&](uint32_t exit) { return exit != cfg::kNone && graph.number_of(exit) == 1; };
  for (uint32_t b : cfg::shape_of(graph).order) {
    for (const cfg::Id id : graph.blocks[b].nodes) may_fail_ = may_fail_ || fails(graph.at(id).exit);
    may_fail_ = may_fail_ || (graph.blocks[b].end == cfg::Block::End::Leave && fails(graph.blocks[b].exit));
  }
  for (const cfg::ParallelLoop::Sum& sum : loop.sums) may_fail_ = may_fail_ || !sum.is_float || sum.is_finite;
  loop.run = [this](int64_t rounds) { return run(rounds); };
}

/// INT64_MAX where it does not fit.
int64_t ParallelLoop::number(const cfg::FrameProduct& p) const {
  Wide out = p.times;
  for (const uint32_t slot : {p.of, p.by}) {
    if (slot == cfg::kNone) continue;
    out *= loop_.frame[slot];
    if (!fits(out)) return INT64_MAX;
  }
  return static_cast<int64_t>(out);
}

bool ParallelLoop::is_independent(int64_t rounds) {
  if (rounds >= kMostRounds) return false;
  const auto sum = [&](const std::vector<cfg::FrameProduct>& products) {
    Wide out = 0;
    for (const cfg::FrameProduct& p : products) out += number(p);
    return out;
  };
  for (const cfg::ParallelLoop::Natural& n : loop_.naturals) {
    const Wide first = loop_.frame[n.base], step = sum(n.per_round);
    if (!fits(step) || first < 0 || first + step * (rounds - 1) < 0) return false;
  }
  struct Step {
    bool stores;
    Wide by;
    Reach first, all;  // of the first round, of all
  };
  std::vector<Step> steps;
  for (const cfg::ParallelAccess& a : loop_.accesses) {
    if (a.within.size() >= kMostAxes) return false;
    Step s{a.stores, sum(a.per_round), {loop_.frame[a.base], loop_.frame[a.base]}, {}};
    if (!fits(s.by)) return false;
    for (const cfg::ParallelAccess::Within& w : a.within) {
      const int64_t length = loop_.frame[w.length], stride = number(w.stride);
      if (length < 1 || length >= kMostRounds || stride == INT64_MAX) return false;
      const Wide far = Wide{length - 1} * stride;
      (far < 0 ? s.first.low : s.first.high) += far;
    }
    s.first.high += a.size;
    s.all = s.first;
    const Wide far = s.by * (rounds - 1);
    (far < 0 ? s.all.low : s.all.high) += far;
    if (may_fail_ && a.stores && memory_ && std::none_of(memory_->begin(), memory_->end(), [&s](const Memory& m) {
          return m.first <= s.all.low && s.all.high <= m.second;
        }))
      return false;
    steps.push_back(s);
  }
  for (const auto& [a, b] : loop_.apart)
    if (steps[a].all.high > steps[b].all.low && steps[b].all.high > steps[a].all.low) return false;
  is_repeatable_ = true;
  for (const Step& a : steps)
    for (const Step& b : steps) {
      if (!a.stores || a.all.high <= b.all.low || b.all.high <= a.all.low) continue;
      is_repeatable_ = is_repeatable_ && b.stores;
      const Wide reach = std::max(a.first.high, b.first.high) - std::min(a.first.low, b.first.low);
      if (a.by != b.by || reach > (a.by < 0 ? -a.by : a.by)) return false;
    }
  return true;
}

/// May what rounds store stay there if one of them ends early? No check of an index fails, so nothing raises; the loop
/// does them again, and stores the same. The interpreter waits until pieces are done.
bool ParallelLoop::may_keep_stores(int64_t rounds) {
  if (!loop_.checks || !is_repeatable_) return false;
  if (eager) {
    if (std::exchange(saves_, !saves_)) return false;
  } else if (round_ns_ > kLongestKept) {
    return false;
  }
  if (loop_.may_warn && unseen_warnings_ && !unseen_warnings_()) return false;
  const int64_t symbols[] = {0, rounds};
  char* const pointers[] = {reinterpret_cast<char*>(loop_.frame.data()), nullptr};
  return cfg::interpret(*loop_.checks, {symbols, pointers, nullptr}, nullptr, kMostChecks) == 0;
}

/// Calls f(address, bytes) for all that the rounds of a piece may store.
template <class F>
void ParallelLoop::for_each_stored(const Piece& piece, F f) const {
  for (const cfg::ParallelAccess& a : loop_.accesses) {
    if (!a.stores) continue;
    int64_t step = 0;
    for (const cfg::FrameProduct& p : a.per_round) step += number(p);
    struct Axis {
      int64_t length, stride, at;
    };
    // No memory is asked for: what was stored is put back in any case.
    std::array<Axis, kMostAxes> axes;
    std::size_t count = 0;
    axes[count++] = {piece.count, step, 0};
    for (const cfg::ParallelAccess::Within& w : a.within) axes[count++] = {loop_.frame[w.length], number(w.stride), 0};
    int64_t bytes = a.size;
    // Neighbours are one.
    for (std::size_t i = count; i-- > 0;)
      if (axes[i].stride == bytes) {
        bytes *= axes[i].length;
        std::copy(axes.begin() + static_cast<std::ptrdiff_t>(i + 1), axes.begin() + static_cast<std::ptrdiff_t>(count),
                  axes.begin() + static_cast<std::ptrdiff_t>(i));
        i = --count;
      }
    for (bool more = true; more;) {
      int64_t at = loop_.frame[a.base] + piece.first * step;
      for (std::size_t k = 0; k < count; ++k) at += axes[k].at * axes[k].stride;
      f(reinterpret_cast<char*>(at), static_cast<std::size_t>(bytes));
      more = false;
      for (std::size_t k = 0; k < count; ++k) {
        Axis& axis = axes[k];
        if ((more = ++axis.at < axis.length)) break;
        axis.at = 0;
      }
    }
  }
}

std::size_t ParallelLoop::bytes_of_round() const {
  Wide out = 0;
  for (const cfg::ParallelAccess& a : loop_.accesses) {
    if (!a.stores) continue;
    Wide bytes = a.size;
    for (const cfg::ParallelAccess::Within& w : a.within) bytes = std::min(kMostNumber, bytes * loop_.frame[w.length]);
    out += bytes;
  }
  return static_cast<std::size_t>(std::min(out, kMostNumber));
}

void ParallelLoop::add_piece(int64_t first, int64_t count, std::size_t saved) {
  if (used_ == pieces_.size()) pieces_.emplace_back();
  Piece& piece = pieces_[used_];
  piece.saved.resize(std::max(piece.saved.size(), saved * static_cast<std::size_t>(count)));
  piece.out.resize(2 * loop_.carried.size() + loop_.sums.size());
  const auto floats = std::count_if(loop_.sums.begin(), loop_.sums.end(), [](const auto& sum) { return sum.is_float; });
  piece.added.resize(static_cast<std::size_t>(floats * count));
  piece.first = first;
  piece.count = count;
  piece.done = piece.failed = false;
  ++used_;
  if (used_ > 1) return;
  for (std::size_t k = 0; k < totals_.size(); ++k) totals_[k] = loop_.frame[loop_.sums[k].place];
  sums_are_good_ = true;
}

void ParallelLoop::do_timed_piece(Piece& piece) const {
  const int64_t start = thread_ns();
  do_piece(piece);
  piece.nanoseconds = thread_ns() - start;
}

void ParallelLoop::do_piece(Piece& piece) const {
  if (saves_) {
    char* to = piece.saved.data();
    for_each_stored(piece, [&](const char* from, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      to += bytes;
    });
  }
  const int64_t symbols[] = {piece.first, piece.count};
  char* const pointers[] = {const_cast<char*>(reinterpret_cast<const char*>(loop_.frame.data())),
                            reinterpret_cast<char*>(piece.added.data())};
  piece.failed = body_(symbols, pointers, piece.out.data(), keeps_stores() ? &kNobodyWaits : poll_) != 0;
  std::atomic_ref(piece.done).store(true, std::memory_order_release);
}

/// Processor time that a round took, on average.
double ParallelLoop::nanoseconds_of_round(std::span<const Piece> pieces) {
  int64_t nanoseconds = 0, rounds = 0;
  for (const Piece& p : pieces) {
    nanoseconds += p.nanoseconds;
    rounds += p.count;
  }
  return std::max(static_cast<double>(nanoseconds) / static_cast<double>(rounds), 0.1);
}

/// Adds the numbers that the rounds of a piece add; false: a sum is beyond 64 bits, or not finite.
bool ParallelLoop::add_up(const Piece& piece) {
  std::size_t floats = 0, integers = 2 * loop_.carried.size();
  for (std::size_t k = 0; k < loop_.sums.size(); ++k) {
    const cfg::ParallelLoop::Sum& sum = loop_.sums[k];
    if (!sum.is_float) {
      if (__builtin_add_overflow(totals_[k], piece.out[integers++], &totals_[k])) return false;
      continue;
    }
    auto value = std::bit_cast<double>(totals_[k]);
    const double* const added = piece.added.data() + floats++ * static_cast<std::size_t>(piece.count);
    for (int64_t r = piece.count; r-- > 0;) {  // the last round's stands first
      value += added[r];
      if (sum.is_finite && !std::isfinite(value)) return false;
    }
    totals_[k] = std::bit_cast<int64_t>(value);
  }
  return true;
}

/// Adds up the pieces that are done, as far as all in front of them are. The order is that of the rounds, whichever
/// thread is here.
void ParallelLoop::add_up_done() {
  if (loop_.sums.empty()) return;
  const std::unique_lock lock(adding_, std::try_to_lock);
  if (!lock) return;
  for (; added_ < used_ && std::atomic_ref(pieces_[added_].done).load(std::memory_order_acquire); ++added_)
    sums_are_good_ = sums_are_good_ && !pieces_[added_].failed && add_up(pieces_[added_]);
}

/// All pieces, or none of them.
bool ParallelLoop::keep_pieces(int64_t& rounds) {
  add_up_done();
  const bool all_added = loop_.sums.empty() || added_ == used_;
  added_ = 0;
  const std::span<Piece> pieces(pieces_.data(), std::exchange(used_, 0));
  const bool good = all_added && sums_are_good_ &&
                    std::none_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.failed; });
  for (std::size_t k = 0; good && k < totals_.size(); ++k) loop_.frame[loop_.sums[k].place] = totals_[k];
  for (const Piece& p : pieces) {
    if (good) {
      rounds += p.count;
      rounds_kept_ += keeps_stores() ? p.count : 0;
      for (std::size_t k = 0; k < loop_.carried.size(); ++k)
        if (p.out[2 * k + 1] != 0) loop_.frame[loop_.carried[k]] = p.out[2 * k];
      continue;
    }
    if (!saves_) continue;
    const char* from = p.saved.data();
    for_each_stored(p, [&](char* to, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      from += bytes;
    });
  }
  failures_ += !good;
  return good;
}

int64_t ParallelLoop::run(int64_t rounds) {
  if (wait_ > 0) return --wait_, 0;
  int64_t done = 0;
  used_ = added_ = 0;
  try {
    // Rounds that end because the interpreter waits say nothing about those to come.
    if ((is_wanted() || loop_.has_vectors) && !run(rounds - 1, done) && !eager && !is_awaited()) {
      setbacks_ = std::min(setbacks_ + 1, kMostSetbacks);
      wait_ = int64_t{1} << setbacks_;
    }
  } catch (const std::exception&) {  // no memory for the next strip
  }
  return done;
}

/// Rounds that take so long: as many as vectors have lanes, or a multiple, as long as there are that many.
int64_t ParallelLoop::piece_of(double nanoseconds, const Strip& strip) const {
  const int64_t lanes = loop_.lanes;
  if (eager) return lanes == 1 ? 2 : lanes + 1;
  const int64_t rounds = std::clamp<int64_t>(static_cast<int64_t>(nanoseconds / round_ns_), 1, strip.most);
  return std::min(strip.most, (rounds + lanes - 1) / lanes * lanes);
}

/// Does pieces of the rounds from `next` on, and keeps them; false: nothing was done.
bool ParallelLoop::do_strip(const Strip& strip, int64_t& next, bool together) {
  const int threads = num_threads();
  const double left_ns = static_cast<double>(strip.all - next) * round_ns_;
  const double piece_ns = std::min<double>(kPieceNanoseconds, left_ns / (kLeastPieces * threads));
  const int64_t piece = piece_of(eager ? 0 : piece_ns, strip);
  int64_t end = next, saved = 0;
  while (end < strip.all && used_ < static_cast<std::size_t>(kPieces * threads) && saved < kSavedOfStrip * threads) {
    add_piece(end, std::min(piece, strip.all - end), strip.saved);
    end += pieces_[used_ - 1].count;
    saved += pieces_[used_ - 1].count * static_cast<int64_t>(strip.saved);
  }
  // In the order of the rounds, so that sums can be added up while other pieces are done.
  std::atomic<std::size_t> first{0};
  const auto do_pieces = [&] {
    for (std::size_t k = first++; k < used_; k = first++) {
      do_timed_piece(pieces_[k]);
      add_up_done();
    }
  };
  if (together) {
    try {
      parallel_for(threads, 1, std::max(left_ns, kWorthSplitting), [&](int64_t, int64_t) { do_pieces(); });
    } catch (const std::exception&) {  // the other threads could not be had
    }
  }
  do_pieces();
  round_ns_ = nanoseconds_of_round({pieces_.data(), used_});
  if (!keep_pieces(rounds_done_)) return false;
  next = end;
  return true;
}

/// Measures a round by a few of them, more and more until they take long enough to tell; false: they failed.
bool ParallelLoop::probe(const Strip& strip, int64_t& done) {
  // Few rounds take no longer than looking at the clock does, and would seem long.
  const int64_t most = std::max<int64_t>(strip.all / 4, 1);
  for (int64_t count = loop_.lanes; done < most && !is_awaited(); count *= 4) {
    add_piece(done, std::min({count, strip.most, most - done}), strip.saved);
    do_timed_piece(pieces_[0]);
    const Piece& piece = pieces_[0];
    const bool is_long = piece.nanoseconds >= kProbeNanoseconds || count >= strip.most;
    const int64_t rounds = piece.count;
    round_ns_ = nanoseconds_of_round({pieces_.data(), used_});
    if (!keep_pieces(rounds_done_)) return false;
    done += rounds;
    if (is_long) break;
  }
  return true;
}

/// False: it did not pay, or could not be done.
bool ParallelLoop::run(int64_t all, int64_t& done) {
  // Small so far, or a round is long: fewer and fewer calls ask again.
  const bool is_known = std::isfinite(round_ns_) && (static_cast<double>(all) * round_ns_ < kSmallNanoseconds ||
                                                     round_ns_ > static_cast<double>(kLongRound));
  const bool is_small =
      !eager && is_known && (++small_ < kAskAgain || !std::has_single_bit(static_cast<uint64_t>(small_)));
  if (is_small && !loop_.has_vectors) return true;
  if (!is_independent(all)) return false;
  saves_ = may_fail_ && (is_small || !may_keep_stores(all));
  const std::size_t saved = saves_ ? bytes_of_round() : 0;
  if (saved > kSavedOfRound) return false;
  const auto bytes = static_cast<int64_t>(saved + 8 * loop_.sums.size());
  const Strip strip{all, bytes > 0 ? std::max<int64_t>(1, kSavedOfPiece / bytes) : all, saved};
  if (is_small || !is_wanted() || wait_for_threads_ > 0) {
    wait_for_threads_ -= wait_for_threads_ > 0;
    return run_alone(strip, done);
  }
  if (!probe(strip, done)) return false;
  const double rest = static_cast<double>(all - done) * round_ns_;
  if (!eager && (round_ns_ > kLongRound || rest < kSmallNanoseconds || !worth_splitting(rest)))
    return !loop_.has_vectors || run_alone(strip, done);
  if (!eager && rest < kShortNanoseconds) return run_short(strip, done);
  double strips_ns = 0, work_ns = 0;  // what strips took, and the time of all threads together
  while (done < all && !is_awaited()) {
    const int64_t before = done, start = now_ns();
    if (!do_strip(strip, done, true)) return false;
    strips_ns += static_cast<double>(now_ns() - start);
    work_ns += round_ns_ * static_cast<double>(done - before);
    if (eager || strips_ns <= kShortNanoseconds || strips_ns <= kGain * work_ns) continue;
    // Other processes may have the other processors.
    if (!loop_.has_vectors) return false;
    setbacks_ = std::min(setbacks_ + 1, kMostSetbacks);
    wait_for_threads_ = int64_t{1} << setbacks_;
    return run_alone(strip, done);
  }
  setbacks_ = 0;
  return true;
}

/// The calling thread does all rounds, in vectors.
bool ParallelLoop::run_alone(const Strip& strip, int64_t& done) {
  while (done < strip.all && !is_awaited()) {
    const int64_t start = now_ns();
    add_piece(done, std::min(strip.all - done, piece_of(kPieceNanoseconds, strip)), strip.saved);
    const int64_t rounds = pieces_[0].count;
    do_piece(pieces_[0]);
    if (!keep_pieces(rounds_alone_)) return false;
    done += rounds;
    round_ns_ = std::max(static_cast<double>(now_ns() - start) / static_cast<double>(rounds), 0.1);
  }
  return true;
}

/// Waking threads takes as long as a good part of this. The same rounds are done by one thread and by several in
/// different calls, until it is known which is faster.
bool ParallelLoop::run_short(const Strip& strip, int64_t& done) {
  const int64_t call = ++short_;
  const bool known = alone_.calls >= kCompared && together_.calls >= kCompared;
  const bool gains = together_.round_ns < kGain * alone_.round_ns;
  const bool together = known ? gains != (call % kAskAgain == 0) : call % 2 == 0;
  if (known && !gains && !together) return !loop_.has_vectors || run_alone(strip, done);
  const int64_t before = done, start = now_ns();
  while (done < strip.all && !is_awaited())
    if (!do_strip(strip, done, together)) return false;
  Rate& rate = together ? together_ : alone_;
  const double round_ns =
      static_cast<double>(now_ns() - start) / static_cast<double>(std::max<int64_t>(done - before, 1));
  rate.round_ns = rate.calls++ == 0 ? round_ns : 0.75 * rate.round_ns + 0.25 * round_ns;
  return true;
}

}  // namespace framejit::runtime
