// Rounds of a loop on several threads.
//
// The rounds are done in strips of a few milliseconds, each in pieces that threads take. Between strips all rounds so
// far are done and none of the others, so the loop can go on there. The first piece is done by the caller alone: it
// tells how long a round takes.
#include "runtime/parallel_loop.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "graph/support/clock.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {

namespace {

using Wide = __int128;

constexpr int64_t kPieceNanoseconds = 200'000, kStripNanoseconds = 3'000'000;
constexpr int64_t kLongRound = 100'000'000;  // the interpreter waits for a round to end
constexpr int64_t kSavedOfPiece = 1 << 18, kSavedOfRound = 1 << 20;  // bytes
constexpr int64_t kMostRounds = int64_t{1} << 40;
constexpr int kPieces = 8;  // in a strip, for each thread
constexpr int64_t kMostWait = 1024;

bool eager = false;

/// Of a frame: numbers whose products and sums fit.
constexpr Wide kMostNumber = Wide{1} << 62;
bool fits(Wide n) { return -kMostNumber < n && n < kMostNumber; }

/// Bytes from `low` on, up to `high`.
struct Reach {
  Wide low, high;
};

}  // namespace

bool ParallelLoop::set_eager(bool on) { return std::exchange(eager, on); }

bool ParallelLoop::is_wanted() { return eager || num_threads() > 1; }

ParallelLoop::ParallelLoop(cfg::ParallelLoop& loop, Body body) : loop_(loop), body_(std::move(body)) {
  const cfg::Cfg& graph = loop.body;
  const auto fails = [&](uint32_t exit) { return exit != cfg::kNone && graph.number_of(exit) == 1; };
  for (uint32_t b : cfg::shape_of(graph).order) {
    for (const cfg::Id id : graph.blocks[b].nodes) may_fail_ = may_fail_ || fails(graph.at(id).exit);
    may_fail_ = may_fail_ || (graph.blocks[b].end == cfg::Block::End::Leave && fails(graph.blocks[b].exit));
  }
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

bool ParallelLoop::is_independent(int64_t rounds) const {
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
    steps.push_back(s);
  }
  for (const Step& a : steps)
    for (const Step& b : steps) {
      if (!a.stores || a.all.high <= b.all.low || b.all.high <= a.all.low) continue;
      const Wide reach = std::max(a.first.high, b.first.high) - std::min(a.first.low, b.first.low);
      if (a.by != b.by || reach > (a.by < 0 ? -a.by : a.by)) return false;
    }
  return true;
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
    std::vector<Axis> axes{{piece.count, step, 0}};
    for (const cfg::ParallelAccess::Within& w : a.within) axes.push_back({loop_.frame[w.length], number(w.stride), 0});
    int64_t bytes = a.size;
    // Neighbours are one.
    for (std::size_t i = axes.size(); i-- > 0;)
      if (axes[i].stride == bytes) {
        bytes *= axes[i].length;
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
        i = axes.size();
      }
    for (bool more = true; more;) {
      int64_t at = loop_.frame[a.base] + piece.first * step;
      for (const Axis& axis : axes) at += axis.at * axis.stride;
      f(reinterpret_cast<char*>(at), static_cast<std::size_t>(bytes));
      more = false;
      for (Axis& axis : axes) {
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
  piece.out.resize(2 * loop_.carried.size());
  piece.first = first;
  piece.count = count;
  piece.done = piece.failed = false;
  ++used_;
}

void ParallelLoop::do_piece(Piece& piece) const {
  if (may_fail_) {
    char* to = piece.saved.data();
    for_each_stored(piece, [&](const char* from, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      to += bytes;
    });
  }
  const int64_t symbols[] = {piece.first, piece.count};
  char* const frame = const_cast<char*>(reinterpret_cast<const char*>(loop_.frame.data()));
  piece.failed = body_(symbols, &frame, piece.out.data()) != 0;
  piece.done = true;
}

/// All pieces, or none of them.
bool ParallelLoop::keep_pieces() {
  const std::span<Piece> pieces(pieces_.data(), std::exchange(used_, 0));
  const bool good = std::none_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.failed; });
  for (const Piece& p : pieces) {
    if (good) {
      rounds_done_ += p.count;
      for (std::size_t k = 0; k < loop_.carried.size(); ++k)
        if (p.out[2 * k + 1] != 0) loop_.frame[loop_.carried[k]] = p.out[2 * k];
      continue;
    }
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
  const int64_t all = rounds - 1;
  if (wait_ > 0) return --wait_, 0;
  int64_t done = 0;
  used_ = 0;
  try {
    run(all, done);
  } catch (const std::exception&) {  // no memory for the next strip
  }
  return done;
}

void ParallelLoop::run(int64_t all, int64_t& done) {
  const int threads = num_threads();
  const auto set_back = [&] {
    setbacks_ = std::min<int64_t>(setbacks_ + 1, 10);
    wait_ = eager ? 0 : std::min(kMostWait, int64_t{1} << setbacks_);
  };
  if (!is_wanted()) return;
  if (!is_independent(all)) return set_back();
  const std::size_t saved = may_fail_ ? bytes_of_round() : 0;
  if (saved > kSavedOfRound) return set_back();
  const int64_t most = saved > 0 ? std::max<int64_t>(1, kSavedOfPiece / static_cast<int64_t>(saved)) : all;
  add_piece(0, std::min<int64_t>(std::max<int64_t>(all / 64, 1), most), saved);
  const int64_t start = now_ns();
  do_piece(pieces_[0]);
  const int64_t first = pieces_[0].count;
  const double round_ns = std::max(static_cast<double>(now_ns() - start) / static_cast<double>(first), 0.1);
  if (!keep_pieces()) return set_back();
  done = first;
  if (!eager && (round_ns > kLongRound || !worth_splitting(static_cast<double>(all - done) * round_ns))) return;
  while (done < all && !(poll_ && *poll_ != 0)) {
    const double strip_ns = std::min<double>(kStripNanoseconds * threads, static_cast<double>(all - done) * round_ns);
    const double piece_ns = std::min<double>(kPieceNanoseconds, strip_ns / threads);
    const int64_t piece = eager ? 2 : std::clamp<int64_t>(static_cast<int64_t>(piece_ns / round_ns), 1, most);
    int64_t next = done;
    while (next < all && used_ < static_cast<std::size_t>(kPieces * threads)) {
      add_piece(next, std::min(piece, all - next), saved);
      next += pieces_[used_ - 1].count;
    }
    const int64_t begin = now_ns();
    try {
      parallel_for(static_cast<int64_t>(used_), 1, static_cast<double>(next - done) * round_ns,
                   [&](int64_t from, int64_t to) {
                     for (int64_t k = from; k < to; ++k) do_piece(pieces_[static_cast<std::size_t>(k)]);
                   });
    } catch (const std::exception&) {
      for (std::size_t k = 0; k < used_; ++k)
        if (!pieces_[k].done) do_piece(pieces_[k]);
    }
    if (!keep_pieces()) return set_back();
    strips_ns_ += static_cast<double>(now_ns() - begin);
    alone_ns_ += static_cast<double>(next - done) * round_ns;
    done = next;
    if (strips_ns_ < kStripNanoseconds) continue;
    // Other processes may have the other processors.
    const bool gains = eager || strips_ns_ < 0.95 * alone_ns_;
    strips_ns_ = alone_ns_ = 0;
    if (!gains) return set_back();
    setbacks_ = 0;
  }
}

}  // namespace framejit::runtime
