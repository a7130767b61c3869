// The rounds of an inner loop in a form from which several at once are built (vectors.cpp, unrolled.cpp).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

/// What a number is in rounds that are done at once.
struct Form {
  enum Kind : uint8_t { Fixed, Steps, Lanes } kind = Fixed;
  int64_t step = 0;     // Steps: from round to round
  bool loaded = false;  // it depends on what the loop reads
};

class Rounds {
 protected:
  Rounds(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, bool divides)
      : cfg_(cfg), shape_(shape), head_(head), front_(front), divides_(divides) {}

  static constexpr std::size_t kMostNodes = 160, kMostBlocks = 16, kMostParams = 16;
  static constexpr int64_t kMostStep = 1 << 20;

  /// A node in the order of the program; `where`: the condition under which it is done, or none.
  struct Step {
    Id id, where;
  };

  struct Access {
    Id id;
    Node node;
    int64_t stride;  // bytes from round to round
    std::size_t place;
    bool stores;
  };

  struct Interval {
    int64_t low, high;
  };

  /// Holds if a value is not 0, or if it is. No value: always.
  struct Condition {
    Id value = kNone;
    bool negated = false;
  };

  // The blocks of the loop as one list of nodes, with choices where control met. These nodes are copies, which stand in
  // no block: what is built is made from them.

  Id copy(Node n);

  Id copy(Op op, Type type, Id a, Id b, Id c = kNone);

  Id copied_constant(int64_t value);

  Id name(Id v) const {
    const auto at = names_.find(v);
    return at == names_.end() ? v : at->second;
  }

  Id positive(const Condition& c) { return c.negated ? copy(Op::Eq, Type::I64, c.value, copied_constant(0)) : c.value; }

  Condition both(const Condition& a, const Condition& b);

  /// Of a block, once control is in one that dominates it.
  Condition relative(uint32_t b, uint32_t up);

  Condition along(uint32_t p, int k, uint32_t up);

  std::vector<uint32_t> sorted_before(uint32_t b) const;

  bool line_up();

  /// Two stores at the same place, one of which is done in each round, are one.
  void join_stores();

  void choose_params(uint32_t b);

  /// A node of the loop, in simpler form if its numbers are small.
  void take(Node n, Id id, Id where);

  /// A natural number of 31 bits by a constant: a product with the reciprocal, shifted (Granlund and Montgomery, 1994).
  Id divided(const Node& n, int64_t by);

  bool is_true(Id c) const;

  // Numbers that are known to be small.

  static constexpr int64_t kMostNumber = int64_t{1} << 40;

  static std::optional<Interval> interval_of(Mem mem);

  std::optional<Interval> interval(Id v, int depth = 0) const;

  std::optional<Interval> interval_of(const Node& n, int depth = 0) const;

  bool is_inside(Id v) const { return form_.count(v) != 0; }
  Form form(Id v) const {
    const auto at = form_.find(v);
    return at == form_.end() ? Form{} : at->second;
  }
  std::optional<int64_t> number(Id v) const {
    if (!cfg_.is_const(v) || cfg_.at(v).type != Type::I64) return std::nullopt;
    return cfg_.at(v).imm;
  }

  // Building.

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

  /// The first byte of all rounds and the one behind the last.
  std::pair<Id, Id> span(const Access& a, Id more);

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_, front_;
  const bool divides_;  // divisions of small numbers become products
  int back_ = 0;
  std::vector<double> flow_;  // by block: how much of what enters the loop comes there, if each branch halves it
  std::vector<Step> order_;
  std::map<Id, Id> names_;  // of values of the loop: their copies
  std::map<int64_t, Id> constants_;
  std::vector<Id> next_;      // what the next round gets
  Id end_condition_ = kNone;  // whether there is one
  std::map<Id, Form> form_;   // of parameters and copies
  std::vector<Access> accesses_;
  Id count_ = kNone, end_ = kNone;  // the loop goes on until they are equal
  int64_t step_ = 0;
  uint32_t at_ = kNone;       // the block that is being built
  std::map<Id, Id> scalars_;  // of the state that is being built
};

}  // namespace framejit::cfg
