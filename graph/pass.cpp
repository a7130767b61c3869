// The order of the passes, and what surrounds each of them.
#include "graph/pass.h"

#include <algorithm>
#include <exception>

#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/support/interrupt.h"
#include "graph/verify.h"

namespace framejit::graph {

PhaseScope::PhaseScope(std::string_view name, Graph& graph, PassContext& context)
    : name_(name),
      graph_(graph),
      context_(context),
      start_(now_ns()),
      enabled_(std::find(context.disabled.begin(), context.disabled.end(), name) == context.disabled.end()),
      exceptions_(std::uncaught_exceptions()),
      timing_(context.timings.size()) {
  if (enabled_) context.timings.push_back({name, 0, false});  // the end may come of a lack of memory
}

PhaseScope::~PhaseScope() noexcept(false) {
  if (!enabled_) return;
  context_.timings[timing_] = {name_, now_ns() - start_, changed_};
  if (!context_.verify || std::uncaught_exceptions() != exceptions_) return;
  const std::optional<std::string> violation = verify(graph_);
  FRAMEJIT_CHECK(!violation, "after " + std::string(name_) + ": " + *violation);
}

std::span<const Pass> all_passes() {
  static constexpr Pass kPasses[] = {
      {"canonicalize", canonicalize},         {"fold", fold},
      {"sink_reshapes", sink_reshapes},       {"store_to_load_forwarding", store_to_load_forwarding},
      {"drop_copies", drop_copies},           {"distribute_parts", distribute_parts},
      {"copy_overlaps", copy_overlaps},       {"cse", cse},
      {"mask_expressions", mask_expressions}, {"fuse_attention", fuse_attention},
      {"hoist_factors", hoist_factors},       {"dce", dce},
      {"rematerialize", rematerialize},       {"reuse_stores", reuse_stores}};
  return kPasses;
}

void optimize(Graph& graph, PassContext& context) {
  for (const Pass& pass : all_passes()) {
    poll_interrupt();
    PhaseScope scope(pass.name, graph, context);
    if (scope.enabled()) scope.set_changed(pass.run(graph, context));
  }
}

}  // namespace framejit::graph
