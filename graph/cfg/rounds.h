// The rounds of an inner loop in a form from which several at once are built (vectors.cpp, unrolled.cpp).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/registers.h"
#include "graph/cfg/round_nodes.h"

namespace framejit::cfg {

/// The accesses and the count of a loop, and the blocks that are built from its nodes.
class Rounds : protected RoundNodes {
 protected:
  Rounds(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, bool divides)
      : RoundNodes(cfg, shape, head, divides), front_(front) {}

  static constexpr int64_t kMostStep = 1 << 20;

  struct Access {
    Id id;
    Node node;
    int64_t stride;  // bytes from round to round
    std::size_t place;
    bool stores;
  };

  uint32_t block(uint32_t level);

  Id add(Node n);

  Id make(Op op, Id a, Id b = kNone);

  Id constant(int64_t value);

  void branch(Id condition, Edge yes, Edge no);

  void jump(Edge to);

  /// Goes on in a new block if the condition holds, else along the other edge.
  void require(Id condition, bool truth, Edge other);

  /// A block begins that has the parameters of the loop.
  std::vector<Id> begin(uint32_t b);

  /// Values of the round that a state is in.
  void enter(const std::vector<Id>& state) {
    scalars_.clear();
    for (std::size_t i = 0; i < state.size(); ++i) scalars_[cfg_.blocks[head_].params[i]] = state[i];
  }

  /// In the first lane, for what has one form in all.
  Id scalar(Id v);

  const Access& access_of(Id id) const {
    return *std::find_if(accesses_.begin(), accesses_.end(), [&](const Access& a) { return a.id == id; });
  }

  /// Rounds behind the one that a state is in.
  Id left(const std::vector<Id>& state);

  Id address(const Access& a);

  struct Span {
    Id first, bytes;
  };

  /// The bytes of all rounds.
  Span span(const Access& a, Id more);

  /// Have they a byte in common?
  Id meet(const Span& a, const Span& b);

  /// Do other blocks use values of the loop, but those that it hands on?
  bool is_used_outside() const;

  const uint32_t front_;
  std::vector<Access> accesses_;
  Id count_ = kNone, end_ = kNone;  // the loop goes on until they are equal
  int64_t step_ = 0;
  uint32_t at_ = kNone;       // the block that is being built
  std::map<Id, Id> scalars_;  // of the state that is being built
};

}  // namespace framejit::cfg
