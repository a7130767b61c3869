// The cotangents of values while a gradient is appended: each base has one of its own shape (graph/passes/grad.cpp).
#pragma once

#include <optional>
#include <set>
#include <unordered_map>

#include "graph/passes/grad_rules.h"

namespace framejit::graph {

class Cotangents {
 public:
  explicit Cotangents(Math& math) : math_(math), builder_(math.builder()), graph_(math.graph()) {}

  /// A view that is a base of its own.
  void set_apart(ValueId view) { apart_.insert(view); }
  bool is_apart(ValueId v) const { return apart_.count(v) != 0; }
  ValueId base(ValueId v) const {
    while (graph_.node(v).op == Op::View && !is_apart(v)) v = graph_.node(v).inputs[0];
    return v;
  }

  /// The cotangent of a base or of a view of it; kNoValue where there is none.
  ValueId of(ValueId v);
  void add(ValueId v, ValueId value);
  void erase(ValueId base) { cotangents_.erase(index(base)); }
  /// The elements that a view shows have none.
  void clear(ValueId view);

  /// Why something could not be added.
  const std::optional<NoGradient>& failure() const { return failure_; }

 private:
  struct Cotangent {
    ValueId value = kNoValue;
    bool ours = false;  // memory with the base's layout that nothing else refers to
  };

  /// Memory laid out as a base is, with nothing in it yet.
  ValueId like(ValueId of);
  void write(ValueId dst, ValueId value);
  /// The base's cotangent as memory to write into.
  ValueId memory_of(ValueId of);
  /// The part of `memory`, which has the layout of the base, that lies where the view lies in its base.
  ValueId part(ValueId memory, ValueId of, ValueId view);
  void add_whole(ValueId of, ValueId value);
  /// Axes of a view that show each element of the base once, in another order, with axes of length 1 more or less: the
  /// cotangent of the base from that of the view.
  std::optional<E> reordered(ValueId of, ValueId view, E value);
  /// Adds to a part of memory; where it shows elements twice (windows that overlap), piece by piece.
  void add_pieces(ValueId there, E c);

  Math& math_;
  GraphBuilder& builder_;
  Graph& graph_;
  std::set<ValueId> apart_;
  std::unordered_map<uint32_t, Cotangent> cotangents_;  // by base
  std::optional<NoGradient> failure_;
};

}  // namespace framejit::graph
