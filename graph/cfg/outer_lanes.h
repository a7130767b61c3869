// Values, conditions and nodes of rounds that are done at once, one in each lane.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "graph/cfg/outer_nest.h"

namespace framejit::cfg {

/// See outer_vectors.cpp.
class OuterLanes : public OuterNest {
 protected:
  OuterLanes(Cfg& cfg, const Shape& shape, uint32_t head, const std::vector<OuterVariable>& variables, uint32_t exit,
             int bytes)
      : OuterNest(cfg, shape, head, variables, bytes), exit_(exit) {}

  // Values of the vectors that are built.

  Id add(Node n);
  Node node_of(Op op, Type type, Id a = kNone, Id b = kNone, Id c = kNone, int lanes = 1) const;
  Id make(Op op, Id a, Id b = kNone) { return add(node_of(op, Type::I64, a, b)); }
  Id in_lanes(Op op, Type type, Id a, Id b = kNone, Id c = kNone) { return add(node_of(op, type, a, b, c, lanes_)); }
  Id constant(int64_t value);
  Id splat(Id v) { return in_lanes(Op::Splat, cfg_.at(v).type, v); }
  Id splat_of(int64_t value) { return splat(constant(value)); }
  /// The number that a value is in all lanes, or in the first one.
  Id scalar(Id v);
  Id fresh_scalar(Id v);
  Id step_of(const Form& f);
  /// 0, and then one step more in each lane.
  Id ramp(Id step);
  Id vector(Id v);
  Id made_of_lanes(Node n);
  Id lane(Id v, Id which) { return add(node_of(Op::Lane, cfg_.at(v).type, v, which)); }
  Id reversed(Id v);

  // Conditions.

  /// Holds if the number is not 0, and in the lanes in which the vector is not 0.
  struct Condition {
    Id scalar = kNone, lanes = kNone;
    bool is_true() const { return scalar == kNone && lanes == kNone; }
  };

  /// The opposite of a condition in lanes.
  Id opposite(Id c);
  Id choice(Id c, Id yes, Id no);
  /// 1 where it holds, else 0.
  Id truth(Id c);
  Id both(Id a, Id b);
  Condition both(const Condition& a, const Condition& b);
  Id as_lanes(const Condition& c);
  Condition either(const Condition& a, const Condition& b);
  /// That the end of a place leads along an edge.
  Condition last(const ExitEdge& e, std::size_t l);
  /// Is the other end of a block a way out of a loop, which all lanes take or none?
  bool is_common(uint32_t b, int k, std::size_t l) const;
  Condition along(const ExitEdge& e, std::size_t l, uint32_t up);
  /// That control comes to a place, once it is at one that is always before it.
  Condition relative(uint32_t place, std::size_t l, uint32_t up);
  /// Gives the condition under which a lane comes to a place in its round.
  Condition condition_of(uint32_t place, std::size_t l);

  // Nodes with effects.

  Id none(Id lanes) { return add(node_of(Op::AllOf, Type::I64, opposite(lanes))); }
  void check(Id condition, uint32_t exit);
  /// A condition in lanes that has to hold where another one does.
  void check_lanes(Id holds, const Condition& where, uint32_t exit);
  void emit_check(const Node& n, const Condition& where);
  /// In lanes: from -most to most.
  Id is_near_0(Id v, int64_t most);
  /// Checks that a float holds an operand of a division.
  void check_operand(Id v, const Condition& where);
  /// The quotient of floats is rounded: rounded down, it may be too large by 1. It is exact but for that if both
  /// numbers are of so few bits that floats hold them.
  void emit_division(Id id, const Condition& where);
  void emit_exact(Id id, const Condition& where);
  /// The address of the first lane without what is constant, and the bytes from there to each lane.
  void set_address(Node& n, const Node& of);
  void emit_access(Id id, uint32_t b, const Condition& where);
  void emit_nodes(uint32_t b, std::size_t l);
  void emit_hoisted(std::size_t l, const Condition& where);

  const uint32_t exit_;                           // where a check leads to that fails in vectors only
  uint32_t at_ = kNone;                           // the block that is being built
  std::map<Id, Id> scalars_, vectors_;            // of values of the nest
  Id active_ = kNone;                             // lanes that are in the loop that is being built; none: all
  std::map<std::pair<uint32_t, int>, Id> left_;   // lanes that have left a loop by one of several ways
  std::set<Id> hoisted_;                          // done in front of their loop
  std::set<std::pair<Id, Id>> hoisted_operands_;  // of divisions, checked there
};

}  // namespace framejit::cfg
