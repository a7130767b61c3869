// Vectors of rounds of an outer loop whose rounds do not depend on each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

/// A parameter of the head of such a loop.
struct OuterVariable {
  static constexpr std::size_t kNoFlag = static_cast<std::size_t>(-1);
  // Counts: grows by a step. Sum: of natural numbers that rounds add. HandedOn: a round sets it, and nothing else, or
  // leaves it as it was; another parameter is its flag, which is 1 once a round has set it. Without one, each round
  // sets it. Kept: neither, or it is treated with another one.
  enum Kind : uint8_t { Counts, Sum, HandedOn, Kept } kind = Kept;
  Id step = kNone;
  std::size_t flag = kNoFlag;  // which parameter
  bool is_left = false;        // counts down the rounds that are left: the head goes on to the round if it is not 0
};

struct OuterVectorized {
  int lanes = 1;  // rounds of the outer loop that are done at once
  bool done = false;
  std::vector<std::pair<Id, Id>> apart;  // accesses that must not meet in any rounds of the nest
};

/// The rounds of the loop with this head do not depend on each other, and control leaves the graph if a check fails.
/// The rounds of that loop, or of one in it, are done in vectors if that pays. `flags`: by parameter that hands a
/// variable on in the nest, whether a round of the outer loop has set it. `exit`: where control goes if a number is too
/// large for vectors.
OuterVectorized vectorize_outer_loop(Cfg& cfg, uint32_t head, const std::vector<OuterVariable>& variables,
                                     const std::map<Id, Id>& flags, uint32_t exit, int vector_bytes);

/// For tests: loops get vectors, whether that pays or not. Gives what it was.
bool set_outer_vectors_always(bool always);

}  // namespace framejit::cfg
