// FlagRules: how floating-point flags are handled by the nodes of a capture, since the program said so.
#pragma once

#include <array>
#include <vector>

#include "capture/undo_log.h"
#include "graph/builder.h"

namespace framejit::capture {

/// For divide, over, under and invalid: a str such as "ignore". Null: as where the region began.
using FlagActions = std::array<Ref<>, 4>;

class FlagRules {
 public:
  FlagRules(graph::GraphBuilder& builder, UndoLog& undo) : builder_(builder), undo_(undo) {}

  const FlagActions& actions() const { return actions_; }
  bool any() const { return static_cast<bool>(builder_.flag_rule()); }
  void set(FlagActions actions);

 private:
  graph::GraphBuilder& builder_;
  UndoLog& undo_;
  FlagActions actions_;
  struct Change {
    std::size_t number;  // in the log
    FlagActions before;
  };
  std::vector<Change> changes_;  // those that were not taken back
};

}  // namespace framejit::capture
