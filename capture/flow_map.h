// FlowMap: where the paths of a function meet again, from its bytecode. Edges of exceptions do not count.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "capture/code_view.h"

namespace framejit::capture {

class FlowMap {
 public:
  static constexpr uint32_t kNowhere = 0xffffffffu;

  explicit FlowMap(const CodeView& view);

  /// The return of the function, where paths that return meet.
  uint32_t end() const { return static_cast<uint32_t>(joins_.size()); }
  /// The first instruction that all paths from `i` on to a return go through, or end(). kNowhere: no path returns.
  uint32_t join(uint32_t i) const { return joins_[i]; }
  /// The instructions of the loop whose rounds begin at `head`, by a jump back that is not the iteration of a `for`;
  /// empty where there is none. The test of a `while` ends a round, wherever the compiler has put it.
  const std::vector<bool>& loop_at(uint32_t head) const;
  bool is_head(uint32_t i) const { return heads_[i]; }

 private:
  std::vector<std::vector<uint32_t>> next_, before_;  // by instruction; end() stands behind the last one
  std::vector<uint32_t> joins_;
  void move_head(const CodeView& view, uint32_t head);

  std::vector<bool> heads_;
  std::unordered_map<uint32_t, uint32_t> entered_at_;  // by head: where the jump back goes, if that is in front of it
  mutable std::unordered_map<uint32_t, std::vector<bool>> loops_;  // by head: those that were asked for
};

}  // namespace framejit::capture
