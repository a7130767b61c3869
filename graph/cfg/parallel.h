// Loops whose rounds several threads may do.
//
// The rounds of such a loop become a graph of their own (`body`), and the graph of the whole nest calls whoever runs it
// in front of the loop. That call does as many rounds as it likes, from the first one on, and at least one less than
// there are. The loop then does the others. So all exits are the loop's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

/// The product of a constant and up to two numbers of ParallelLoop::frame.
struct FrameProduct {
  int64_t times = 1;
  uint32_t of = kNone, by = kNone;
};

/// The addresses of a load or a store, as a sum. In round r it touches `size` bytes at frame[base], plus r times the
/// sum of `per_round`, plus x times the stride for each of `within`. Such an x is any number from 0 up to the length.
struct ParallelAccess {
  struct Within {
    uint32_t length;
    FrameProduct stride;
  };
  bool stores = false;
  int size = 0;
  uint32_t base = kNone;
  std::vector<FrameProduct> per_round;
  std::vector<Within> within;
};

struct ParallelLoop {
  /// Symbols: the first round, and how many rounds. Pointers: the frame; a buffer for the numbers that each round adds
  /// to the sums of floats, one sum after the other. Exit 0: all rounds are done; its values are those of `carried`,
  /// each followed by whether any of these rounds has set it, and what the rounds add to each sum of integers. Exit 1:
  /// a check failed, or the interpreter waits; these rounds may have stored.
  Cfg body;
  /// The checks of rounds but those of CheckFinite: with the symbols and pointers of the body, exit 0 if none of them
  /// fails in these rounds. None: what the program computes decides, or such a failure would raise.
  std::optional<Cfg> checks;
  bool may_warn = false;  // then a number that is not finite ends the body, or a sum beyond 64 bits

  std::vector<int64_t> frame;  // values from outside of the loop, which are stored before each call
  std::vector<ParallelAccess> accesses;
  /// A number that must not be negative in any round.
  struct Natural {
    uint32_t base;
    std::vector<FrameProduct> per_round;
  };
  std::vector<Natural> naturals;
  // Places of variables in the frame, which the call changes. Those that are only handed on:
  std::vector<uint32_t> carried;
  /// Sums to which rounds add floats or natural numbers. The caller adds the floats in the order of the rounds.
  struct Sum {
    uint32_t place;
    bool is_float;
    bool is_finite = false;  // of floats: no sum may be infinite or NaN
  };
  std::vector<Sum> sums;

  bool has_vectors = false;  // the body does several rounds at once, of this loop or of one in it (outer_vectors.h)
  int lanes = 1;             // how many rounds of this loop
  std::vector<std::pair<uint32_t, uint32_t>> apart;  // accesses that must not meet, if rounds of an inner loop are

  /// Gives how many rounds were done, of those that there are.
  std::function<int64_t(int64_t rounds)> run;
};

struct ParallelLoops {
  bool for_threads = true;     // else only loops whose bodies have vectors
  bool vectors = true;         // are rounds of outer loops done in vectors, where that may pay (outer_vectors.h)?
  bool needs_vectors = false;  // if there are none, nobody needs the graph
  std::vector<std::unique_ptr<ParallelLoop>> found;

  bool have_vectors() const;
};

/// ParallelLoop::checks of a body.
std::optional<Cfg> checks_of_rounds(const Cfg& body);

/// Finds loops whose rounds do not depend on each other unless their accesses meet, which is known where they run. Not
/// in one another: the outer one. Needs preheaders and exits of each block's own (edit.h).
void make_parallel(Cfg& cfg, int vector_bytes, ParallelLoops& loops);

}  // namespace framejit::cfg
