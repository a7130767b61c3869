// Decisions about dimensions: by canonical form, by what was decided before, else by the hints with a guard.
#include "graph/shape_env.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace framejit::graph {

namespace {

/// Each relation as a question about one difference: is it 0, or is it negative?
struct Question {
  Dim difference;
  bool zero;     // "== 0"; otherwise "< 0"
  bool negated;  // the relation is the opposite of the question
};

/// Nothing if the difference overflows.
std::optional<Question> question_of(Relation relation, const Dim& left, const Dim& right) {
  const bool orders = relation == Relation::Lt || relation == Relation::Le;
  const bool swapped = !orders && left.hash() > right.hash();  // a == b and b == a are one question
  std::optional<Dim> d = swapped ? difference(right, left) : difference(left, right);
  if (d && relation == Relation::Le) d = difference(*d, 1);
  if (!d) return std::nullopt;
  return Question{std::move(*d), !orders, relation == Relation::Ne};
}

/// Whether no int64 on the symbolic side changes the answer.
bool is_limit(Relation relation, const Dim& left, const Dim& right) {
  const Dim low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  if (relation == Relation::Lt) return left == high || right == low;
  return relation == Relation::Le && (left == low || right == high);
}

}  // namespace

bool related(Relation relation, int64_t left, int64_t right) {
  switch (relation) {
    case Relation::Eq: return left == right;
    case Relation::Ne: return left != right;
    case Relation::Lt: return left < right;
    case Relation::Le: return left <= right;
  }
  return false;
}

Dim ShapeEnv::fresh(int64_t hint) {
  hints_.push_back(hint);
  return Dim::symbol(SymbolId{static_cast<uint32_t>(hints_.size() - 1)});
}

bool ShapeEnv::is_measured(const Dims& dims, std::size_t since) const {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& d) { return is_measured(d, since); });
}

bool ShapeEnv::is_measured(const Dim& d, std::size_t since) const {
  if (measured_.empty() || d.is_const()) return false;
  std::vector<SymbolId> symbols;
  d.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](SymbolId s) {
    return static_cast<std::size_t>(s) >= since && std::find(measured_.begin(), measured_.end(), s) != measured_.end();
  });
}

bool ShapeEnv::holds(Relation relation, const Dim& left, const Dim& right) {
  if (left.is_const() && right.is_const()) return related(relation, left.value(), right.value());
  if (is_limit(relation, left, right)) return relation == Relation::Le;
  const std::optional<Question> q = question_of(relation, left, right);
  if (q && q->difference.is_const()) {
    const int64_t d = q->difference.value();
    return (q->zero ? d == 0 : d < 0) != q->negated;
  }
  const std::size_t key = q ? q->difference.hash() * 2 + q->zero : 0;
  const auto [first, last] = decided_.equal_range(key);
  for (auto it = first; q && it != last; ++it)
    if (it->second.difference == q->difference && it->second.zero == q->zero) return it->second.answer != q->negated;
  if (!q)
    for (const DimGuard& g : guards_)
      if (g.relation == relation && g.left == left && g.right == right) return g.outcome;
  // The sides are compared, not the difference with 0: it overflows if they are far apart.
  const bool outcome = related(relation, hint(left), hint(right));
  if (q)
    decided_.emplace(key,
                     Decision{q->difference, q->zero, outcome != q->negated, static_cast<uint32_t>(guards_.size())});
  guards_.push_back({relation, left, right, outcome});
  return outcome;
}

bool ShapeEnv::fits(const Dim& a, const Dim& b) {
  if (!measured_.empty() && hint(a) != hint(b)) (void)(suggest(a, b) || suggest(b, a));
  return equal(a, b);
}

/// Makes the hint of a measured symbol that of `value`, where all that has been decided stays so. Not 0: the strides of
/// arrays without elements are others.
bool ShapeEnv::suggest(const Dim& measured, const Dim& value) {
  std::vector<SymbolId> symbol, others;
  measured.collect_symbols(symbol);
  value.collect_symbols(others);
  if (symbol.size() != 1 || !(measured == Dim::symbol(symbol[0])) || !is_measured(measured) || hint(value) == 0)
    return false;
  if (std::find(others.begin(), others.end(), symbol[0]) != others.end()) return false;
  int64_t& now = hints_[static_cast<std::size_t>(symbol[0])];
  const int64_t before = std::exchange(now, hint(value));
  const bool agrees = std::all_of(guards_.begin(), guards_.end(), [&](const DimGuard& g) {
    return related(g.relation, hint(g.left), hint(g.right)) == g.outcome;
  });
  if (!agrees) now = before;
  return agrees;
}

int64_t ShapeEnv::specialize(const Dim& d) {
  if (d.is_const()) return d.value();
  const int64_t value = hint(d);
  holds(Relation::Eq, d, value);
  return value;
}

bool ShapeEnv::limit(const ArraySize& array) {
  int64_t bytes = array.item;
  bool known = true;
  for (const Dim& d : array.shape) {
    const int64_t extent = hint(d);
    if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes)) return false;
    known = known && d.is_const();
  }
  if (bytes > array.most) return false;
  const auto implies = [&](const ArraySize& other) {
    return other.item >= array.item && other.most <= array.most && other.shape == array.shape;
  };
  if (!known && std::none_of(limited_.rbegin(), limited_.rend(), implies)) limited_.push_back(array);
  return true;
}

DimGuard ArraySize::condition() const {
  Dim bytes = item;
  for (const Dim& d : shape) bytes = bytes * max(d, 1);
  return {Relation::Le, bytes, most, true};
}

void ShapeEnv::rollback(Mark m) {
  hints_.resize(m.symbols);
  limited_.erase(limited_.begin() + static_cast<std::ptrdiff_t>(m.limited), limited_.end());
  std::erase_if(measured_, [&](SymbolId s) { return static_cast<std::size_t>(s) >= m.symbols; });
  guards_.resize(m.guards);
  std::erase_if(decided_, [&](const auto& entry) { return entry.second.guard >= m.guards; });
}

}  // namespace framejit::graph
