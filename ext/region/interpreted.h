// A run of a graph in the reference interpreter, in place of its Plan (stress mode `interp`).
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "graph/graph.h"
#include "runtime/plan.h"

namespace framejit::ext::region {

/// Copies of the params that a run will write.
std::unique_ptr<runtime::Undo> save_written(const graph::Graph& graph, std::span<char* const> params,
                                            std::span<const int64_t> symbols);
/// The bool that a graph gives; nothing where the reference has no meaning for it. Params are as before.
std::optional<bool> interpreted_truth(const graph::Graph& graph, std::span<char* const> params,
                                      std::span<const int64_t> symbols);
/// As Plan::run(). Redo where the reference has no meaning for the graph, or NumPy's own answer is needed.
runtime::RunResult run_interpreted(const graph::Graph& graph, const runtime::Plan& plan, std::span<char* const> params,
                                   std::span<char* const> results, std::span<const int64_t> symbols);

}  // namespace framejit::ext::region
