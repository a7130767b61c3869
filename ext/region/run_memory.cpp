// How much memory a run needs.
#include "ext/region/run_memory.h"

#include <utility>

namespace framejit::ext::region {

RunSizes::RunSizes(const guards::GuardProgram& g, const Materializer& m) {
  std::size_t end = 0;
  auto take = [&end](std::size_t count) { return static_cast<uint32_t>(std::exchange(end, end + count)); };
  take(g.slot_count());
  symbols = take(g.symbol_count());
  params = take(g.input_count());
  scalars = take(2 * g.input_count());
  cells = take(2 * m.root_count());
  roots = take(m.root_count());
  results = take(m.root_count());
  objects = take(m.object_count());
  owned = static_cast<uint32_t>(end) - roots;
  all = static_cast<uint32_t>(end + kClearedAtOnce);
}

}  // namespace framejit::ext::region
