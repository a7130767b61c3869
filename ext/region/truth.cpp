// By the reference interpreter where that is sooner done than a compilation.
#include "ext/region/truth.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ext/region/compiled_region.h"
#include "ext/region/interpreted.h"

namespace framejit::ext::region {

using guards::GuardProgram;
using guards::LiveSlots;
using guards::Matched;

namespace {

constexpr int64_t kElementsToInterpret = 1 << 14;

/// Of what a graph without blocks reads and makes, for the symbols that it was captured with, is it few?
bool has_few_elements(const graph::Graph& graph) {
  int64_t all = 0;
  const auto add = [&](graph::ValueId v) {
    int64_t count = 1;
    for (const graph::Dim& d : graph.type(v).shape) count *= std::max<int64_t>(graph.shapes().hint(d), 0);
    all += count;
  };
  for (const graph::ValueId v : graph.body().nodes) {
    const graph::Node& node = graph.node(v);
    if (graph::def(node.op).cls == graph::OpClass::Contraction) return false;
    add(v);
    for (const graph::ValueId input : node.inputs) add(input);
    if (all > kElementsToInterpret) return false;
  }
  return true;
}

/// By the reference interpreter, for few elements.
std::optional<bool> quick_truth(const capture::Region& region, const LiveSlots& live, int local_count) {
  if (!has_few_elements(*region.graph)) return std::nullopt;
  auto guards = GuardProgram::make(region.guards, region.inputs, {}, region.graph->shapes(), local_count);
  if (!guards) return std::nullopt;
  const std::size_t inputs = (*guards)->input_count();
  std::vector<PyObject*> slots((*guards)->slot_count());
  std::vector<int64_t> symbols((*guards)->symbol_count()), scalars(2 * inputs);
  std::vector<char*> params(inputs);
  Matched m{&live, slots.data(), symbols.data(), params.data(), scalars.data()};
  if (!(*guards)->match(m)) return std::nullopt;
  return interpreted_truth(*region.graph, params, symbols);
}

}  // namespace

std::optional<bool> truth(std::shared_ptr<capture::Region> region, const CompileOptions& options, const LiveSlots& live,
                          int local_count) {
  if (const std::optional<bool> quick = quick_truth(*region, live, local_count)) return quick;
  auto made = Entry::make(std::move(region), options, live, local_count);
  if (!made) return std::nullopt;
  Entry& entry = **made;
  std::optional<bool> out;
  entry.try_out(live, false, [&](const Workspace& w) { out = w.objects[entry.region().result] == Py_True; });
  return out;
}

}  // namespace framejit::ext::region
