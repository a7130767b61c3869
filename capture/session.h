// Session: everything that one capture builds up - graph, guards, inputs, values, the effects - with transactions.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/break.h"
#include "capture/guard.h"
#include "capture/measures.h"
#include "capture/py/extent.h"
#include "capture/undo_log.h"
#include "capture/value.h"
#include "capture/work_meter.h"
#include "graph/builder.h"

namespace framejit::capture {

class Frontend;

/// What earlier captures of this function saw vary: these are symbolic now. Strings are Source::str() of ints, and
/// "<source>.shape[i]" of dimensions.
struct Varied {
  std::set<std::string> names;
  bool all = false;  // dynamic=True
  bool contains(const std::string& name) const { return all || names.count(name) != 0; }
};

/// A graph param: where it comes from at run time.
struct Input {
  SourceRef source;
  ArraySpec spec;  // wrap says how to get at the data: array memory, or the number itself
  uint32_t guard;  // its Array guard
};

/// Where NumPy looks when it warns: the file of the running code, and its globals (`__name__`, `__warningregistry__`).
struct Origin {
  HeldRef file, globals;
};

/// May an array be written, as far as that is not its memory's affair? Views of it inherit this.
enum class Writing : uint8_t { Allowed, Warns, Refused, Foreign };

/// How floating-point flags are handled since the program said so, for divide, over, under and invalid: a str such as
/// "ignore". Null: as where the region began.
using FlagActions = std::array<Ref<>, 4>;

class Session {
 public:
  Session(std::string name, const Varied& varied, std::vector<Frontend*> frontends);

  /// Its number: no two sessions of a process have the same.
  int64_t serial() const { return serial_; }
  graph::Graph& graph() { return *graph_; }
  const graph::Graph& graph() const { return *graph_; }
  graph::GraphBuilder& builder() { return builder_; }
  const Varied& varied() const { return varied_; }
  const std::vector<Frontend*>& frontends() const { return frontends_; }
  /// May operators be computed within their stated bounds, where NumPy's bits cannot be had?
  bool o1() const { return o1_; }
  void set_o1(bool o1) { o1_ = o1; }

  // Values (owned by the session's arena).
  Value* make(ValueKind kind);
  Value* constant(PyObject* object);  // takes a reference of its own; the caller keeps its
  Value* array(graph::ValueId id, Wrap wrap);
  /// Is the memory that of a Tensor?
  bool is_of_tensor(graph::ValueId id) const;
  Value* integer(const graph::Dim& dim);  // Constant for a known one, an array for what is measured
  Measures& measures() { return measures_; }
  Value* tuple(std::vector<Value*> items);

  /// The graph param for an array-like object: finds the one made before for the same object, or guards and adds one.
  /// Two params never stand for one object.
  Value* array_input(PyObject* object, SourceRef source, ArraySpec spec);
  void add_guard(Guard guard);  // duplicates are dropped
  const std::vector<Guard>& guards() const { return guards_; }
  const std::vector<Input>& inputs() const { return inputs_; }

  /// A param is about to be written: guards that it is writeable, and breaks where another array input overlaps it.
  Captured<bool> prepare_write(graph::ValueId dst);
  /// Guards that this stays so. Called when all inputs are known.
  void keep_memory_apart();

  /// What NumPy lets a program do to an array that it has just been given.
  void set_writing(graph::ValueId v, Writing writing);
  Writing writing(graph::ValueId v) const;

  /// An input that was wrapped after a write overlaps the written memory: the instruction must be given up.
  bool has_overlap() const { return overlap_; }
  /// Breaks where a node since the last question is of a kind that is not compiled.
  Captured<bool> check_nodes();
  /// Relations that the ShapeEnv recorded since the last call become guards at the present location.
  void sync_dim_guards();
  /// Gives them their texts.
  void show_dim_guards();

  UndoLog& undo() { return undo_; }
  WorkMeter& work() { return work_; }
  const WorkMeter& work() const { return work_; }

  /// Values through which no gradient goes.
  const std::vector<graph::ValueId>& stops() const { return stops_; }
  void add_stop(graph::ValueId id) {
    stops_.push_back(id);
    undo_.learn([this] { stops_.pop_back(); });
  }

  /// What comes from here on is differentiated: it has no loops that go by array values.
  void add_tape() {
    ++tapes_;
    undo_.learn([this] { --tapes_; });
  }
  bool has_tape() const { return tapes_ > 0; }

  const FlagActions& flag_actions() const { return flag_actions_; }
  bool has_flag_actions() const { return static_cast<bool>(builder_.flag_rule()); }
  void set_flag_actions(FlagActions actions);

  /// Is something guarded that only a long chain of objects leads to? Guards, texts and fetches are as long as the
  /// chain.
  bool is_too_deep() const { return too_deep_; }

  uint32_t location() const { return location_; }
  void set_location(uint32_t location);
  /// The code that runs symbolically; both borrowed.
  void set_frame(PyObject* file, PyObject* globals) {
    file_ = file;
    globals_ = globals;
  }
  /// The operators that were appended since there were `first` values are those of one call of a ufunc, made by the
  /// running code: it is their graph::Call.
  void mark_call(std::size_t first);

  struct Mark {
    graph::Graph::Mark graph;
    std::size_t guards, inputs, undo, values;
    bool overlap;
  };
  Mark mark() const;
  void rollback(const Mark& m);
  /// Has nothing changed since the mark but what was made since, and these?
  bool is_pure(const Mark& m, const std::set<const Value*>& apart = {}) const {
    return undo_.is_pure(m.undo, m.values, apart);
  }

  // One side of a branch, or the body of a loop: nodes go into its block.
  void open(graph::Block& block) {
    graph_->open(block);
    measures_.open();
  }
  void close() {
    graph_->close();
    measures_.close();
  }
  /// Does the type go by a size that was measured since, in a block? Behind the block nobody knows it.
  bool is_measured_since(const Mark& m, const graph::Type& type) const {
    return graph_->shapes().is_measured(type.shape, m.graph.shapes.symbols) ||
           graph_->shapes().is_measured(type.strides, m.graph.shapes.symbols);
  }
  /// The memory may be that of another value too, which one is known at run time: it is not written any more.
  void share(graph::ValueId v);
  bool is_shared(graph::ValueId v) const { return shared_.count(graph_->root(v)) != 0; }

 private:
  const int64_t serial_;
  std::unique_ptr<graph::Graph> graph_;
  graph::GraphBuilder builder_;
  UndoLog undo_;
  Measures measures_;
  WorkMeter work_;
  const Varied& varied_;
  std::vector<Frontend*> frontends_;
  std::vector<std::unique_ptr<Value>> arena_;
  std::vector<Guard> guards_;
  std::unordered_multimap<std::size_t, std::size_t> guard_index_;  // hash: place in guards_
  std::vector<Input> inputs_;
  std::unordered_multimap<std::size_t, std::size_t> input_index_;  // input_key(): place in inputs_
  std::unordered_set<std::string> input_names_;
  std::vector<PyObject*> input_objects_;  // alive during capture: the frame holds them
  std::vector<Value*> input_values_;
  std::vector<std::optional<Extent>> extents_;  // of the first inputs, as many as a write has asked for
  std::vector<std::size_t> written_;            // inputs that the graph writes
  std::size_t checked_ = 0;                     // nodes
  bool overlap_ = false;                        // an input read after a write shares its memory
  std::size_t dim_guards_ = 0;                  // how many of the ShapeEnv's guards are in guards_
  std::vector<graph::ValueId> stops_;
  std::set<graph::ValueId> shared_;            // roots
  std::map<graph::ValueId, Writing> writing_;  // of those that are not simply allowed
  int tapes_ = 0;
  uint32_t location_ = 0;
  bool too_deep_ = false;
  bool o1_ = false;
  FlagActions flag_actions_;
  PyObject *file_ = nullptr, *globals_ = nullptr;
  std::vector<Origin> origins_;  // of the graph's calls
  bool overlaps(std::size_t written, std::size_t other);
  friend class RegionBuilder;
};

}  // namespace framejit::capture
