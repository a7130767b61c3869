// Limits: how much one capture may do before the rest is left to the bytecode.
#pragma once

#include <cstdint>
#include <optional>

#include "capture/break.h"
#include "capture/region.h"

namespace framejit::capture {

/// Does a node compute with whole arrays? Views and what joins the sides of a branch do not.
bool is_array_work(const graph::Graph& graph, graph::ValueId v);

class Limits {
 public:
  explicit Limits(const CaptureOptions& options);

  /// Asked before each instruction: the break if no more may be executed, else the session knows how much work is left.
  /// `steps`: instructions executed so far.
  std::optional<Break> exceeded(uint32_t steps, Session& session);
  /// A signal is waiting for its handler, which only the interpreter runs: capture is given up for now.
  bool interrupted() const { return interrupted_; }
  /// Has the graph had nodes that compute arrays?
  bool saw_array_work() const { return last_array_work_ > 0; }

 private:
  bool out_of_time(std::size_t nodes) const;

  const CaptureOptions& options_;
  const int64_t started_, started_cpu_;  // ns
  uint64_t next_poll_ = 0;               // in instructions
  uint64_t last_array_work_ = 0;         // instructions when the graph last got a node that computes an array
  std::size_t seen_nodes_ = 0;
  bool interrupted_ = false;
};

}  // namespace framejit::capture
