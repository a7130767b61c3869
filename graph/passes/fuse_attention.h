// softmax(scale * q k^T + mask) v in a graph that says it by products, exponentials and sums.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace framejit::graph {

class GraphBuilder;

struct AttentionPattern {
  /// Scores in whose place a number stands where a condition holds, or where not. It is so low that a score added to it
  /// is lost.
  struct Closed {
    ValueId condition, number;
    bool where, finite;
  };
  ValueId q, k, v;  // as the products have them: k as [batch, heads, depth, keys]
  float scale = 1;
  std::optional<ValueId> mask;   // added to the scores
  std::optional<Closed> closed;  // ... before these were
  std::vector<ValueId> scores;   // the nodes in between, those apart that give the largest score
  std::vector<ValueId> largest;

  /// What is added to the scores in all.
  std::optional<ValueId> whole_mask(GraphBuilder& builder) const;
};

/// What ends in this product, of float32 and with sizes that are known and worth it; nothing where it is no attention,
/// or where memory that it reads is written. `written`: by root.
std::optional<AttentionPattern> match_attention(const Graph& graph, ValueId product, const std::vector<bool>& written);

/// The roots that are written somewhere.
std::vector<bool> written_memory(const Graph& graph);

}  // namespace framejit::graph
