// Groups form a graph by the memory that they share; it is walked by levels or from its ends.
#include "graph/passes/schedule_groups.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

using Before = std::vector<std::vector<std::size_t>>;  // by group: those that have to run first

/// Who stored a root last, and who has loaded it since.
struct Access {
  std::vector<std::size_t> stored, loaded;
};

Before dependences(const Graph& graph, const Block& block, const std::vector<Group>& groups) {
  std::unordered_map<uint32_t, std::vector<ValueId>> outputs;  // of an if or a loop
  for (ValueId v : block.nodes)
    if (graph.node(v).op == Op::Output) outputs[index(graph.node(v).inputs[0])].push_back(v);
  std::unordered_map<uint32_t, Access> roots;
  std::vector<std::size_t> expects;
  Before before(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    before[g] = expects;
    const auto needs = [&](const std::vector<std::size_t>& others) {
      before[g].insert(before[g].end(), others.begin(), others.end());
    };
    const auto store = [&](ValueId root) {
      Access& access = roots[index(root)];
      needs(access.stored);
      needs(access.loaded);
      access = {{g}, {}};
    };
    for (ValueId v : groups[g].nodes) {
      const Node& n = graph.node(v);
      const std::vector<ValueId> used = is_control(n.op) ? used_values(graph, v) : n.inputs;
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (!is_control(n.op) && !reads_operand(n, i)) continue;
        Access& access = roots[index(graph.root(used[i]))];
        needs(access.stored);
        access.loaded.push_back(g);
      }
    }
    for (ValueId v : groups[g].nodes) {
      for (ValueId root : written_roots(graph, v)) store(root);
      if (const auto it = outputs.find(index(v)); it != outputs.end())
        for (ValueId output : it->second) store(output);
      if (graph.node(v).op == Op::Expect || graph.node(v).op == Op::Measure) expects.push_back(g);
    }
    for (ValueId v : groups[g].stored) store(v);
    std::vector<std::size_t>& own = before[g];
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    std::erase(own, g);
  }
  return before;
}

std::vector<std::size_t> by_breadth(const Before& before) {
  std::vector<std::size_t> level(before.size(), 0), out(before.size());
  for (std::size_t g = 0; g < before.size(); ++g) {
    out[g] = g;
    for (std::size_t first : before[g]) level[g] = std::max(level[g], level[first] + 1);
  }
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  return out;
}

std::vector<std::size_t> by_depth(const Before& before) {
  std::vector<bool> needed(before.size(), false), done(before.size(), false);
  for (const std::vector<std::size_t>& firsts : before)
    for (std::size_t first : firsts) needed[first] = true;
  std::vector<std::size_t> out;
  std::vector<std::pair<std::size_t, std::size_t>>
      path;  // a group, and how many of those before it have been looked at
  for (std::size_t end = 0; end < before.size(); ++end) {
    if (needed[end]) continue;
    path.emplace_back(end, 0);
    while (!path.empty()) {
      auto& [g, next] = path.back();
      if (next < before[g].size()) {
        const std::size_t first = before[g][next++];
        if (!done[first]) path.emplace_back(first, 0);
        continue;
      }
      if (!done[g]) out.push_back(g);
      done[g] = true;
      path.pop_back();
    }
  }
  return out;
}

}  // namespace

std::vector<Group> schedule_groups(const Graph& graph, const Block& block, std::vector<Group> groups, ExecOrder order) {
  if (order == ExecOrder::Program) return groups;
  const Before before = dependences(graph, block, groups);
  std::vector<Group> out;
  out.reserve(groups.size());
  for (std::size_t g : order == ExecOrder::Breadth ? by_breadth(before) : by_depth(before))
    out.push_back(std::move(groups[g]));
  return out;
}

}  // namespace framejit::graph
