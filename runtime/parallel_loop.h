// Rounds of a loop (cfg::ParallelLoop) on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "graph/cfg/parallel.h"

namespace framejit::runtime {

/// Does rounds of one loop as long as that is right and pays: their accesses do not meet, and two threads are faster
/// than one, or the body does several rounds at once in vectors. What rounds have stored is undone if a check fails in
/// one of them, or in one beside it.
class ParallelLoop {
 public:
  /// Compiled: ParallelLoop::body of the graph, optimized.
  using Body =
      std::function<int64_t(const int64_t* symbols, char* const* pointers, int64_t* out, const unsigned char* poll)>;

  /// The loop calls this as long as it lives.
  ParallelLoop(cfg::ParallelLoop& loop, Body body);
  ParallelLoop(const ParallelLoop&) = delete;

  /// Once this byte is not 0, rounds end soon or are undone. For the calls that follow.
  void set_poll(const unsigned char* poll) { poll_ = poll; }

  /// Addresses of the first byte, and behind the last one, of an array.
  using Memory = std::pair<int64_t, int64_t>;
  /// The memory of the program, for the calls that follow. Rounds that may fail are done if all that they may store
  /// lies in one of these: what was there is put back if they do. Null: all memory is the program's.
  void set_memory(const std::vector<Memory>* memory) { memory_ = memory; }

  /// Does NumPy's warning of an operation run no code, and raise nothing? Asked before rounds are done that may end
  /// where NumPy would warn, and whose stores stay there then: the loop does the same rounds again. Null: so it is.
  void set_unseen_warnings(bool (*asked)()) { unseen_warnings_ = asked; }

  /// Rounds that were shared out among threads, and how often a check failed.
  int64_t rounds_done() const { return rounds_done_; }
  int64_t failures() const { return failures_; }
  /// How many rounds were done without copies of the memory that they overwrite, although a check might have failed.
  int64_t rounds_kept() const { return rounds_kept_; }
  /// Rounds that the calling thread did here alone, in vectors.
  int64_t rounds_alone() const { return rounds_alone_; }

  /// Are there threads?
  static bool is_wanted();
  /// For tests: rounds are done in pieces of a few, whether that pays or not. Gives what it was.
  static bool set_eager(bool eager);

 private:
  struct Piece {
    int64_t first = 0, count = 0;
    bool done = false, failed = false;
    int64_t nanoseconds = 0;
    std::vector<char> saved;
    std::vector<int64_t> out;
    std::vector<double> added;  // to sums of floats
  };

  int64_t run(int64_t rounds);
  struct Strip {
    int64_t all, most;  // rounds: that there are, of a piece
    std::size_t saved;  // bytes of a round
  };
  struct Rate {
    double round_ns = 0;
    int64_t calls = 0;
  };

  bool is_awaited() const { return *poll_ != 0; }
  bool keeps_stores() const { return may_fail_ && !saves_; }
  bool run(int64_t all, int64_t& done);
  bool probe(const Strip& strip, int64_t& done);
  bool run_short(const Strip& strip, int64_t& done);
  bool run_alone(const Strip& strip, int64_t& done);
  int64_t piece_of(double nanoseconds, const Strip& strip) const;
  bool do_strip(const Strip& strip, int64_t& next, bool together);
  int64_t number(const cfg::FrameProduct& p) const;
  bool is_independent(int64_t rounds);
  bool may_keep_stores(int64_t rounds);
  template <class F>
  void for_each_stored(const Piece& piece, F f) const;
  std::size_t bytes_of_round() const;
  void add_piece(int64_t first, int64_t count, std::size_t saved);
  void do_piece(Piece& piece) const;
  void do_timed_piece(Piece& piece) const;
  bool add_up(const Piece& piece);
  void add_up_done();
  bool keep_pieces(int64_t& rounds);
  static double nanoseconds_of_round(std::span<const Piece> pieces);

  cfg::ParallelLoop& loop_;
  const Body body_;
  std::mutex adding_;            // for what stands from here to `added_`, while threads do pieces
  std::vector<int64_t> totals_;  // of sums, up to the pieces that are added up
  bool sums_are_good_ = true;
  std::size_t added_ = 0;  // pieces, from the first on
  bool may_fail_ = false;
  bool saves_ = false;         // what pieces are going to overwrite
  bool is_repeatable_ = true;  // no round reads what one of them stores
  bool (*unseen_warnings_)() = nullptr;
  static constexpr unsigned char kNobodyWaits = 0;
  const unsigned char* poll_ = &kNobodyWaits;
  const std::vector<Memory>* memory_ = nullptr;
  std::vector<Piece> pieces_;  // those behind the first `used_` keep their memory
  std::size_t used_ = 0;
  int64_t wait_ = 0;                                           // calls to let pass
  int64_t wait_for_threads_ = 0;                               // calls to do alone, in vectors
  int64_t setbacks_ = 0;                                       // since it last paid
  double round_ns_ = std::numeric_limits<double>::infinity();  // when it was last asked
  int64_t small_ = 0;                                          // calls with hardly anything to do
  Rate alone_, together_;                                      // of calls with little to do
  int64_t short_ = 0;                                          // these calls
  int64_t rounds_done_ = 0, rounds_alone_ = 0, rounds_kept_ = 0, failures_ = 0;
};

}  // namespace framejit::runtime
