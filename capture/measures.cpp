#include "capture/measures.h"

#include <algorithm>
#include <numeric>

#include "graph/support/check.h"

namespace framejit::capture {

bool Measures::is_open(uint64_t block) const {
  return block == 0 || std::find(open_.begin(), open_.end(), block) != open_.end();
}

void Measures::add(graph::ValueId of, const graph::Dim& dim) {
  known_.push_back({of, dim, static_cast<int64_t>(graph_.value_count()), open_.empty() ? 0 : open_.back()});
  undo_.learn([this] { known_.pop_back(); });
}

graph::Dim Measures::count_of(graph::ValueId mask) {
  const auto nodes = static_cast<int64_t>(graph_.value_count());
  for (const Known& known : known_) {
    if (known.of != mask || !is_open(known.block)) continue;
    bool same = true;
    for (int64_t v = known.at; v < nodes; ++v)
      for (const graph::ValueId root : graph::written_roots(graph_, graph::ValueId{static_cast<uint32_t>(v)}))
        same = same && root != graph_.root(mask);
    if (same) return known.dim;
  }
  const graph::Type type = graph_.type(mask);
  std::vector<int64_t> axes(type.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  const graph::BuildResult ones = builder_.cast(mask, graph::DType::I64);
  const graph::BuildResult sum = ones ? builder_.reduce(graph::Op::ReduceSum, *ones, std::move(axes)) : ones;
  FRAMEJIT_CHECK(sum.has_value(), "the count of a mask");
  const graph::Dim count = builder_.measure(*sum, type.size());
  add(mask, count);
  return count;
}

graph::Dim Measures::value_of(graph::ValueId number, const graph::Dim& most, int64_t hint) {
  for (const Known& known : known_)
    if (known.of == number && is_open(known.block)) return known.dim;
  const graph::Dim dim = builder_.measure(number, most, hint);
  add(number, dim);
  return dim;
}

}  // namespace framejit::capture
