// The blocks of an inner loop as one list of nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

/// What a number is in rounds that are done at once.
struct Form {
  enum Kind : uint8_t { Fixed, Steps, Lanes } kind = Fixed;
  int64_t step = 0;     // Steps: from round to round
  bool loaded = false;  // it depends on what the loop reads
};

/// The blocks of an inner loop as one list of nodes, with choices where control met. These nodes are copies, which
/// stand in no block: what is built is made from them.
class RoundNodes {
 protected:
  RoundNodes(Cfg& cfg, const Shape& shape, uint32_t head, bool divides)
      : cfg_(cfg), shape_(shape), head_(head), divides_(divides) {}

  static constexpr std::size_t kMostNodes = 160, kMostBlocks = 16, kMostParams = 16;

  /// A node in the order of the program; `where`: the condition under which it is done, or none.
  struct Step {
    Id id, where;
  };

  /// Holds if a value is not 0, or if it is. No value: always.
  struct Condition {
    Id value = kNone;
    bool negated = false;
  };

  static Node node(Op op, Type type, Id a, Id b, Id c = kNone) {
    Node n;
    n.op = op;
    n.type = type;
    n.args[0] = a;
    n.args[1] = b;
    n.args[2] = c;
    return n;
  }

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

  /// Stores at the same place, of which a round does one at most, are one.
  void join_stores();

  void choose_params(uint32_t b);

  /// A node of the loop, in simpler form if its numbers are small.
  void take(Node n, Id id, Id where);

  /// A natural number of 31 bits, at most `most`, by a constant: a product with the reciprocal, shifted (Granlund and
  /// Montgomery, 1994).
  Id divided(const Node& n, int64_t by, int64_t most);

  /// Notes of products and shifts that their operands are natural numbers of 32 bits.
  void mark_naturals(Node& n) const;

  bool is_true(Id c) const;

  bool is_inside(Id v) const { return form_.count(v) != 0; }
  Form form(Id v) const {
    const auto at = form_.find(v);
    return at == form_.end() ? Form{} : at->second;
  }
  std::optional<int64_t> number(Id v) const { return cfg::number(cfg_, v); }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_;
  const bool divides_;        // divisions of small numbers become products
  uint32_t last_ = kNone;     // the block that asks whether there is another round
  int back_ = 0;              // which of its edges leads to that
  std::vector<double> flow_;  // by block: how much of what enters the loop comes there, if each branch halves it
  std::vector<Step> order_;
  std::map<Id, Id> names_;  // of values of the loop: their copies
  std::map<int64_t, Id> constants_;
  std::vector<Id> next_;      // what the next round gets
  Id end_condition_ = kNone;  // whether there is one
  std::map<Id, Form> form_;   // of parameters and copies
};

}  // namespace framejit::cfg
