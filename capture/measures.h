// Measures: numbers of the graph that are dimensions of other values, such as how many elements of a mask are true.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/undo_log.h"
#include "graph/builder.h"

namespace framejit::capture {

class Measures {
 public:
  Measures(graph::GraphBuilder& builder, graph::Graph& graph, UndoLog& undo)
      : builder_(builder), graph_(graph), undo_(undo) {}

  /// How many elements of a mask are true, as a dimension that the graph measures.
  graph::Dim count_of(graph::ValueId mask);
  /// The value of a 0-d i64 when the graph runs, as a dimension between 0 and `most`. `hint`: a likely value, by which
  /// capture decides.
  graph::Dim value_of(graph::ValueId number, const graph::Dim& most, int64_t hint);

  // A block of the graph begins or ends: what is measured in it is not known behind it.
  void open() { open_.push_back(++blocks_); }
  void close() { open_.pop_back(); }

 private:
  struct Known {
    graph::ValueId of;
    graph::Dim dim;
    int64_t at;  // how many graph values there were
    uint64_t block;
  };
  bool is_open(uint64_t block) const;
  void add(graph::ValueId of, const graph::Dim& dim);

  graph::GraphBuilder& builder_;
  graph::Graph& graph_;
  UndoLog& undo_;
  std::vector<Known> known_;
  uint64_t blocks_ = 0;         // that have been opened so far: their numbers
  std::vector<uint64_t> open_;  // the numbers of those that are
};

}  // namespace framejit::capture
