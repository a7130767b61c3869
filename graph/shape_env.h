// What is known of symbolic dimensions: the value that each symbol had at capture, and the relations relied upon since.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/dim.h"

namespace framejit::graph {

enum class Relation : uint8_t { Eq, Ne, Lt, Le };  // Gt and Ge are Lt and Le with the operands swapped

bool related(Relation relation, int64_t left, int64_t right);

/// A relation that held at capture and must hold again wherever the graph is used.
struct DimGuard {
  Relation relation;
  Dim left, right;
  bool outcome;  // what the relation gave at capture
};

/// An array of the program that is captured, whether or not the compiled one makes it.
struct ArraySize {
  Dims shape;
  int64_t item, most;  // bytes of an element, and that the array may have

  /// Its bytes are at most `most`. Axes of length 0 count as 1, as in NumPy's own check.
  DimGuard condition() const;
};

class ShapeEnv {
 public:
  /// A new symbol whose value at capture was `hint`.
  Dim fresh(int64_t hint);
  /// The symbol is no input of the graph: a node measures it (Op::Measure). What is relied upon of it is checked then.
  void set_measured(SymbolId symbol) { measured_.push_back(symbol); }
  /// `since`: by a symbol from that number on.
  bool is_measured(const Dim& d, std::size_t since = 0) const;
  bool is_measured(const Dims& dims, std::size_t since = 0) const;
  int64_t hint(const Dim& d) const { return d.evaluate(hints_); }
  std::size_t symbol_count() const { return hints_.size(); }
  const std::vector<int64_t>& hints() const { return hints_; }

  /// Decides by canonical form where possible; else by the guards already recorded; else by the hints, recording a
  /// guard. Neither side may have wrapped; their difference may.
  bool holds(Relation relation, const Dim& left, const Dim& right);
  bool equal(const Dim& a, const Dim& b) { return holds(Relation::Eq, a, b); }
  /// The same, asked where there is nothing else that would do: what is measured is taken to be the other one, if
  /// nothing speaks against it.
  bool fits(const Dim& a, const Dim& b);
  /// Fixes a symbolic dimension to its hint (a guard) and gives the constant.
  int64_t specialize(const Dim& d);

  /// Whether an array is within its size for the values seen at capture. What symbols decide is recorded as a condition
  /// of the graph: it is checked where symbols are bound, not at each call.
  bool limit(const ArraySize& array);

  const std::vector<DimGuard>& guards() const { return guards_; }
  const std::vector<ArraySize>& limited() const { return limited_; }

  /// For transactions: forget what was recorded after `mark()`.
  struct Mark {
    std::size_t symbols, guards, limited;
  };
  Mark mark() const { return {hints_.size(), guards_.size(), limited_.size()}; }
  void rollback(Mark m);

 private:
  /// An answer that a guard already fixes, so that it is neither asked nor recorded again.
  struct Decision {
    Dim difference;
    bool zero, answer;  // is the difference 0 (or, not `zero`, negative)?
    uint32_t guard;
  };

  bool suggest(const Dim& measured, const Dim& value);

  std::vector<int64_t> hints_;
  std::vector<SymbolId> measured_;
  std::vector<DimGuard> guards_;
  std::vector<ArraySize> limited_;
  std::unordered_multimap<std::size_t, Decision> decided_;
};

}  // namespace framejit::graph
