// A computation of one sample as one of all samples of a batch: nodes with one more axis, in front.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "graph/builder.h"

namespace framejit::graph {

struct BatchRequest {
  std::size_t first = 0;         // index in the body's nodes of the first one that belongs to the sample
  std::vector<ValueId> samples;  // values that differ from sample to sample
  std::vector<ValueId> batches;  // for each: the value with the axis of the samples in front, else of its shape
  std::vector<ValueId> outputs;
  std::vector<ValueId> stops;  // values that count as constants in a gradient that is taken later
  bool o1 = false;             // products may be computed in another way than those of the samples
};

struct Batch {
  std::vector<ValueId> outputs;  // fresh, in C order
  std::vector<ValueId> nodes;    // of the sample: what the outputs need no longer
  std::vector<ValueId> stops;    // those of all samples
};

/// Appends what gives, for each sample, the bits that the nodes from `first` on give for one. Nothing where an operator
/// has no rule for that, or where its layout would be another one; then nodes may have been appended that nothing uses.
std::optional<Batch> append_batch(GraphBuilder& builder, const BatchRequest& request);

}  // namespace framejit::graph
