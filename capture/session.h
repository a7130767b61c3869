// Session: everything that one capture builds up - graph, guards, inputs, values, the effects - with transactions.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/array_inputs.h"
#include "capture/break.h"
#include "capture/code_position.h"
#include "capture/flag_rules.h"
#include "capture/guard_set.h"
#include "capture/measures.h"
#include "capture/tapes.h"
#include "capture/undo_log.h"
#include "capture/value_arena.h"
#include "capture/work_meter.h"
#include "graph/builder.h"

namespace framejit::capture {

class Frontend;

/// The numbers that differed between earlier calls of this function. They are symbols in the graph. The strings are
/// Source::str() for ints, "<source>.shape[i]" for dimensions, and "len(<source>)" for lists.
struct Varied {
  std::set<std::string> names;
  bool all = false;  // dynamic=True
  bool contains(const std::string& name) const { return all || names.count(name) != 0; }
};

class Session {
 public:
  Session(std::string name, const Varied& varied, std::vector<Frontend*> frontends, bool o1 = false);

  /// Its number: no two sessions of a process have the same.
  int64_t serial() const { return serial_; }
  graph::Graph& graph() { return *graph_; }
  const graph::Graph& graph() const { return *graph_; }
  std::unique_ptr<graph::Graph> take_graph() { return std::move(graph_); }
  graph::GraphBuilder& builder() { return builder_; }
  CodePosition& position() { return position_; }
  const Varied& varied() const { return varied_; }
  const std::vector<Frontend*>& frontends() const { return frontends_; }
  /// May operators be computed within their stated bounds, where NumPy's bits cannot be had?
  bool o1() const { return o1_; }

  ValueArena& values() { return values_; }
  Measures& measures() { return measures_; }

  GuardSet& guards() { return guards_; }
  ArrayInputs& inputs() { return inputs_; }

  /// Breaks where a node since the last question is of a kind that is not compiled.
  Captured<bool> check_nodes();

  UndoLog& undo() { return undo_; }
  WorkMeter& work() { return work_; }
  const WorkMeter& work() const { return work_; }

  Tapes& tapes() { return tapes_; }
  FlagRules& flag_rules() { return flag_rules_; }

  struct Mark {
    graph::Graph::Mark graph;
    std::size_t guards, inputs, undo, values;
    bool overlap;
  };
  Mark mark() const;
  void rollback(const Mark& m);

 private:
  const int64_t serial_;
  std::unique_ptr<graph::Graph> graph_;
  graph::GraphBuilder builder_;
  CodePosition position_;
  UndoLog undo_;
  Measures measures_;
  Tapes tapes_;
  FlagRules flag_rules_;
  WorkMeter work_;
  GuardSet guards_;
  ArrayInputs inputs_;
  ValueArena values_;
  const Varied& varied_;
  std::vector<Frontend*> frontends_;
  const bool o1_;
  std::size_t checked_ = 0;  // nodes
};

/// Has nothing changed since the mark but what was made since, and these?
inline bool is_pure(Session& s, const Session::Mark& m, const std::set<const Value*>& apart = {}) {
  return s.undo().is_pure(m.undo, m.values, apart);
}

/// Does the type go by a size that was measured since, in a block? Behind the block nobody knows it.
inline bool is_measured_since(const Session& s, const Session::Mark& m, const graph::Type& type) {
  const graph::ShapeEnv& shapes = s.graph().shapes();
  return shapes.is_measured(type.shape, m.graph.shapes.symbols) ||
         shapes.is_measured(type.strides, m.graph.shapes.symbols);
}

}  // namespace framejit::capture
