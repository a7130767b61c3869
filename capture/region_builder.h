// RegionBuilder: turns the state of the outermost frame at an exit into recipes, effects and guards of a Region.
#pragma once

#include <unordered_map>

#include "capture/executor.h"
#include "capture/symbolic_frame.h"

namespace framejit::capture {

/// Can the object be made again at the exit?
bool is_materializable(const Value* v);
/// So many entries at the bottom of a stack are still those that it had.
std::size_t kept_entries(const std::vector<Value*>& before, const std::vector<Value*>& now);

class RegionBuilder {
 public:
  RegionBuilder(Executor& x, Session& s, Region& region) : x_(x), s_(s), region_(region) {}

  /// `initial`: the locals at the entry, `stack`: its stack. The graph and the guards move into the region.
  void build(const SymbolicFrame& frame, const std::vector<Value*>& initial, const std::vector<Value*>& stack,
             Value* returned);

  /// A region that gives what has been computed so far of a bool, and does nothing else. False: it has blocks.
  bool build_truth(graph::ValueId truth);

 private:
  uint32_t recipe(Value* v);
  uint32_t add(Recipe r);
  Recipe result(graph::ValueId id, Wrap wrap);
  void fill(uint32_t at, const std::vector<Value*>& items);
  Recipe::Kind kind_of(const Value& v) const;
  /// The stack as CPython has it, where LOAD_METHOD finds a C method: that and self, not a bound method, whose errors
  /// read otherwise.
  std::vector<Value*> as_pushed(std::vector<Value*> stack);
  void add_effects();
  void keep_apart();

  Executor& x_;
  Session& s_;
  Region& region_;
  std::unordered_map<const Value*, uint32_t> made_;
  std::unordered_map<PyObject*, uint32_t> constants_;
  std::vector<graph::ValueId> results_;
};

}  // namespace framejit::capture
