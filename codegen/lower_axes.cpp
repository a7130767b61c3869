// Loop axes: the order in which a step walks its iteration shape, and which axes are one loop.
#include <algorithm>
#include <cstdlib>

#include "codegen/lower_step.h"

namespace framejit::codegen::detail {

using graph::Relation;

bool Facts::proven(Relation relation, const Dim& left, const Dim& right) {
  const graph::ShapeEnv::Mark mark = env_.mark();
  const std::size_t before = env_.guards().size();
  const bool answer = env_.holds(relation, left, right);
  const bool known = env_.guards().size() == before;
  if (!known) env_.rollback(mark);
  return known && answer;
}

std::vector<graph::DimGuard> Facts::conditions() const {
  std::vector<graph::DimGuard> out;
  for (std::size_t i = 0; i < env_.guards().size(); ++i)
    if (const graph::DimGuard& g = env_.guards()[i];
        i >= recorded_ || env_.is_measured(g.left) || env_.is_measured(g.right))
      out.push_back(g);
  for (const graph::ArraySize& array : env_.limited()) out.push_back(array.condition());
  return out;
}

Dims LoopAxes::strides(const Access& access) const {
  Dims out;
  for (int axis : innermost) out.push_back(access.strides[static_cast<std::size_t>(axis)]);
  return out;
}

namespace {

std::vector<const Access*> accesses(const StepSpec& spec) {
  std::vector<const Access*> out;
  for (const StoreTerm& s : spec.stores) out.push_back(&s.access);
  if (spec.fold) out.push_back(&spec.fold->output);
  for (const Term& t : spec.terms)
    if (t.kind == Term::kLoad) out.push_back(&t.access);
  return out;
}

/// Axes from the slowest to the fastest in the memory of what is written, else of the first operand that has all axes.
std::vector<int> elementwise_order(const StepSpec& spec, const std::vector<const Access*>& all, Facts& facts) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(spec.shape.size()); ++axis)
    if (!facts.is_one(spec.shape[static_cast<std::size_t>(axis)])) axes.push_back(axis);
  for (const Access* access : all) {
    auto magnitude = [&](int axis) { return std::llabs(facts.hint(access->strides[static_cast<std::size_t>(axis)])); };
    if (std::any_of(axes.begin(), axes.end(), [&](int axis) { return magnitude(axis) == 0; })) continue;
    std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return magnitude(a) > magnitude(b); });
    break;
  }
  return axes;
}

/// The walk of a reduction, outer to inner: kept axes, reduced axes that are no run, the run (Rows: the kept fastest
/// axis).
std::vector<int> reduction_order(const FoldSpec& fold) {
  std::vector<int> kept, reduced, inner;
  for (auto it = fold.order.rbegin(); it != fold.order.rend(); ++it) {
    const auto axis = static_cast<std::size_t>(*it);
    if (fold.kind == ReduceKind::Rows && it + 1 == fold.order.rend()) inner.push_back(*it);
    else if (!fold.reduced[axis]) kept.push_back(*it);
    else if (fold.kind == ReduceKind::Pairwise && fold.in_run[axis]) inner.push_back(*it);
    else reduced.push_back(*it);
  }
  kept.insert(kept.end(), reduced.begin(), reduced.end());
  kept.insert(kept.end(), inner.begin(), inner.end());
  return kept;
}

/// Axes of different roles are never one loop.
int role(const StepSpec& spec, int axis) {
  if (!spec.fold) return 0;
  const auto a = static_cast<std::size_t>(axis);
  if (spec.fold->kind == ReduceKind::Pairwise && spec.fold->in_run[a]) return 2;
  return spec.fold->reduced[a] ? 1 : 0;
}

}  // namespace

LoopAxes loop_axes(const StepSpec& spec, Facts& facts) {
  if (spec.whole_axes) {
    LoopAxes out;
    out.extents = spec.shape;
    for (int axis = 0; axis < static_cast<int>(spec.shape.size()); ++axis) out.innermost.push_back(axis);
    return out;
  }
  const std::vector<const Access*> all = accesses(spec);
  const std::vector<int> order = spec.fold ? reduction_order(*spec.fold) : elementwise_order(spec, all, facts);
  LoopAxes out;
  int last_role = -1;
  uint32_t run = 0;
  const bool rows = spec.fold && spec.fold->kind == ReduceKind::Rows;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int axis = order[i];
    const Dim& extent = spec.shape[static_cast<std::size_t>(axis)];
    const int axis_role = role(spec, axis);
    const bool row_axis = rows && i + 1 == order.size();  // the vectorised axis of a row fold stays by itself
    bool joins = i > 0 && axis_role == last_role && !row_axis;
    for (const Access* access : all) {
      if (!joins) break;
      const Dim& outer = access->strides[static_cast<std::size_t>(out.innermost.back())];
      joins = facts.proven_equal(outer, access->strides[static_cast<std::size_t>(axis)] * extent);
    }
    if (joins) {
      out.extents.back() = out.extents.back() * extent;
      out.innermost.back() = axis;
    } else {
      out.extents.push_back(extent);
      out.innermost.push_back(axis);
      if (axis_role >= 1) ++out.reduced;
      if (axis_role == 2) ++run;
    }
    last_role = axis_role;
  }
  out.run = std::max<uint32_t>(run, 1);
  return out;
}

}  // namespace framejit::codegen::detail
