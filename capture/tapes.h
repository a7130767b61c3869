// Tapes: what of a capture is differentiated.
#pragma once

#include <vector>

#include "capture/undo_log.h"
#include "graph/graph.h"

namespace framejit::capture {

class Tapes {
 public:
  explicit Tapes(UndoLog& undo) : undo_(undo) {}

  /// What comes from here on is differentiated: it has no loops that go by array values.
  void add() {
    ++count_;
    undo_.learn([this] { --count_; });
  }
  bool any() const { return count_ > 0; }

  /// Values through which no gradient goes.
  const std::vector<graph::ValueId>& stops() const { return stops_; }
  void add_stop(graph::ValueId id) {
    stops_.push_back(id);
    undo_.learn([this] { stops_.pop_back(); });
  }

 private:
  UndoLog& undo_;
  std::vector<graph::ValueId> stops_;
  int count_ = 0;
};

}  // namespace framejit::capture
