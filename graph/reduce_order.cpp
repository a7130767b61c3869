// NumPy's buffering rule for reductions (npyiter_find_buffering_setup), for one input and one output without casts.
#include "graph/reduce_order.h"

#include <algorithm>

namespace framejit::graph {

namespace {

constexpr int64_t kBufferSize = 8192;  // np.getbufsize()

bool joins(int64_t inner_extent, int64_t inner_stride, int64_t outer_extent, int64_t outer_stride) {
  return (inner_extent == 1 && inner_stride == 0) || (outer_extent == 1 && outer_stride == 0) ||
         inner_stride * inner_extent == outer_stride;
}

std::vector<WalkAxis> coalesce(const std::vector<WalkAxis>& axes) {
  std::vector<WalkAxis> out;
  for (const WalkAxis& a : axes) {
    if (!out.empty() && joins(out.back().extent, out.back().in, a.extent, a.in) &&
        joins(out.back().extent, out.back().out, a.extent, a.out)) {
      WalkAxis& b = out.back();
      if (b.extent == 1 && b.in == 0) b.in = a.in;
      if (b.extent == 1 && b.out == 0) b.out = a.out;
      b.extent *= a.extent;
    } else {
      out.push_back(a);
    }
  }
  if (out.empty()) out.push_back({1, 0, 0});
  return out;
}

/// What the iterator chose: calls run over the axes before `dim` and, unless `dim` is where the output turns between
/// moving and standing still, over `dim` too.
struct Core {
  std::size_t dim = 0;
  int64_t size = 0, core = 1;
  bool turns = false, buffered = false;
};

Core choose_core(const std::vector<WalkAxis>& axes) {
  // In how many axes each operand has a single stride; the one that stops having it must be buffered, which costs.
  std::size_t single_in = 1, single_out = 1, turn = 0;
  int cost = 1, best_cost = 1;
  int64_t size = axes[0].extent;
  Core best{0, size, 1, false, false};
  for (std::size_t d = 1; d < axes.size() && turn == 0; ++d) {
    if (size >= kBufferSize && cost > 1) break;
    const WalkAxis &inner = axes[d - 1], &outer = axes[d];
    if (single_out == d && inner.out * inner.extent == outer.out) {
      ++single_out;
    } else {
      cost += single_out == d;
      if (outer.out == 0 || inner.out == 0) turn = d;
    }
    if (single_in == d && inner.in * inner.extent == outer.in) ++single_in;
    else cost += single_in == d;
    const int64_t core = size;
    size *= outer.extent;
    if (size == 0) break;
    const double usable = static_cast<double>(cost > 1 ? std::min(size, kBufferSize) : size);
    if (cost * static_cast<double>(best.size) <= best_cost * usable) {
      best_cost = cost;
      best = {d, size, core, false, false};
    }
  }
  best.turns = turn != 0 && best.dim == turn;
  best.buffered = single_in + best.turns <= best.dim || single_out + best.turns <= best.dim;
  return best;
}

}  // namespace

ReducePlan plan_reduction(std::vector<WalkAxis> axes) {
  ReducePlan plan{coalesce(axes), 1, 1, false};
  const Core core = choose_core(plan.axes);
  plan.folds = plan.axes[0].out == 0;
  for (std::size_t d = 0; d <= core.dim; ++d) plan.span *= plan.axes[d].extent;
  if (core.turns) plan.call = core.core;
  else if (core.buffered && core.size > kBufferSize) plan.call = core.core * (kBufferSize / core.core);
  else plan.call = core.size;
  return plan;
}

Offsets offsets_at(std::span<const WalkAxis> axes, int64_t position) {
  Offsets at{0, 0};
  for (const WalkAxis& a : axes) {
    at.in += position % a.extent * a.in;
    at.out += position % a.extent * a.out;
    position /= a.extent;
  }
  return at;
}

}  // namespace framejit::graph
