// GuardSet: the guards of one capture, each once.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "capture/code_position.h"
#include "capture/guard.h"
#include "capture/undo_log.h"

namespace framejit::capture {

struct Input;

bool same_source(const SourceRef& a, const SourceRef& b);

class GuardSet {
 public:
  GuardSet(const CodePosition& position, UndoLog& undo) : position_(position), undo_(undo) {}

  const std::vector<Guard>& all() const { return guards_; }
  std::size_t size() const { return guards_.size(); }
  Guard& operator[](std::size_t i) { return guards_[i]; }
  /// Is something guarded that only a long chain of objects leads to? Guards, texts and fetches are as long as the
  /// chain.
  bool is_too_deep() const { return too_deep_; }

  /// Duplicates are dropped. A guard that has no location of its own gets the present one.
  void add(Guard guard);
  /// Adds the relations that were recorded since the last call.
  void add_relations(const graph::ShapeEnv& shapes);
  /// Without a look at the others. Gives its place.
  uint32_t append(Guard guard);
  /// Relations of dimensions get their texts, in which symbols are named by where their values come from.
  void show_dimensions(const std::vector<Input>& inputs);
  /// Drops the guards from there on.
  void roll_back(std::size_t count);
  std::vector<Guard> take() { return std::move(guards_); }

 private:
  const CodePosition& position_;
  UndoLog& undo_;
  std::vector<Guard> guards_;
  std::unordered_multimap<std::size_t, std::size_t> index_;  // hash: place in guards_
  std::size_t relations_ = 0;                                // of the ShapeEnv, that were added
  bool too_deep_ = false;
};

}  // namespace framejit::capture
