// Bounds of values in a loop by values that it does not change, and the nodes in front of the loop that compute them.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

constexpr int64_t kMostOffset = int64_t{1} << 55;

/// A bound of a number: the sum of a constant and, if there is one, a value that the loop does not change. That value
/// is a node of the graph (a leaf), or a sum or product of such nodes.
struct Bound {
  Id base = kNone;
  int64_t plus = 0;
  int bits = 0;  // of the base
  bool leaf = false;
};

/// Holds in front of the loop: a + a_plus op b + b_plus; without op: a is not 0.
struct Condition {
  std::optional<Op> op;
  Bound a, b;
  auto key() const { return std::tuple(op ? static_cast<int>(*op) : -1, a.base, a.plus, b.base, b.plus); }
};

inline Bound number(int64_t n) { return {kNone, n, 0, true}; }
std::optional<Bound> plus(std::optional<Bound> b, int64_t by);

/// Arithmetic of bounds: it makes nodes for the block in front of the loop, and notes the conditions that it needs
/// there.
class Bounds {
 public:
  explicit Bounds(Cfg& cfg) : cfg_(cfg) {}

  Id node(Op op, Id a, Id b);
  Id constant(int64_t value);
  Id value(const Bound& b);
  /// The nodes since it was asked last.
  std::vector<Id> take_nodes() { return std::exchange(made_, {}); }

  void need(Condition c) { needs_.push_back(std::move(c)); }
  std::size_t needed() const { return needs_.size(); }
  /// Only the first conditions are needed.
  void keep(std::size_t count) { needs_.resize(count); }
  std::vector<Condition> take_conditions() { return std::exchange(needs_, {}); }

  std::optional<Bound> leaf(Id v);
  std::optional<Bound> sum(const std::optional<Bound>& a, const std::optional<Bound>& b, bool minus = false);
  /// Times a natural number.
  std::optional<Bound> product(const std::optional<Bound>& a, const std::optional<Bound>& by);
  /// The product of two natural numbers; none if it cannot be that their upper bounds `most_a` and `most_b` are below 2
  /// ** 30.
  std::optional<Bound> product_of_naturals(const Bound& a, const Bound& b, const Bound& most_a, const Bound& most_b);
  /// Is a + by <= b? A condition in front of the loop, if it is not known.
  bool at_most(const Bound& a, const Bound& b, int64_t by = 0);

 private:
  Cfg& cfg_;
  std::vector<Condition> needs_;
  std::vector<Id> made_;
};

}  // namespace framejit::cfg
