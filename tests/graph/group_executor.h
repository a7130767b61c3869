// Runs the groups of a graph as loop nests would: registers inside of a group, memory between groups.
#pragma once

#include <span>
#include <vector>

#include "graph/interpret.h"
#include "graph/passes/fuse.h"

namespace framejit::graph::executor {

enum class Order {
  ElementByElement,  // all nodes for one element, then for the next
  Backwards,         // the same from the last element
  NodeByNode,        // one node for all elements, then the next: what a stage with a large tile does
};

/// The bytes of each result in C order, and whether every value that a group loads had been stored.
struct Executed {
  std::vector<std::vector<std::byte>> results;
  bool all_stored = true;
};

Executed run_groups(const Graph& graph, std::span<const Group> groups, std::span<const ArrayRef> params,
                    std::span<const int64_t> symbols, Order order);

/// The bytes of an array in C order.
std::vector<std::byte> packed(const ArrayRef& array, int item_size);

}  // namespace framejit::graph::executor
