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
#include "capture/py/extent.h"
#include "capture/value.h"
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
  /// How many elements of a mask are true, as a dimension that the graph measures.
  graph::Dim count_of(graph::ValueId mask);
  /// What a 0-d i64 is when the graph runs, as a dimension: between 0 and `most`. `hint`: to decide by.
  graph::Dim measured(graph::ValueId number, const graph::Dim& most, int64_t hint);
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

  /// The caller has made a change that others may see; `revert` runs if the transaction is taken back.
  void record(std::function<void()> revert) { undo_.push_back({std::move(revert), Undo::World, nullptr}); }
  /// The same of a change to a Value and to nothing else.
  void record(const Value* changed, std::function<void()> revert) {
    undo_.push_back({std::move(revert), Undo::OneValue, changed});
  }
  /// Something was found out, under guards that hold on any path: no change.
  void learn(std::function<void()> revert) { undo_.push_back({std::move(revert), Undo::Knowledge, nullptr}); }

  /// Values through which no gradient goes.
  const std::vector<graph::ValueId>& stops() const { return stops_; }
  void add_stop(graph::ValueId id) {
    stops_.push_back(id);
    learn([this] { stops_.pop_back(); });
  }

  /// What comes from here on is differentiated: it has no loops that go by array values.
  void add_tape() {
    ++tapes_;
    learn([this] { --tapes_; });
  }
  bool has_tape() const { return tapes_ > 0; }

  const FlagActions& flag_actions() const { return flag_actions_; }
  bool has_flag_actions() const { return static_cast<bool>(builder_.flag_rule()); }
  void set_flag_actions(FlagActions actions);

  /// How many changes were recorded so far.
  std::size_t changes() const { return undo_.size(); }
  /// Is something guarded that only a long chain of objects leads to? Guards, texts and fetches are as long as the
  /// chain.
  bool is_too_deep() const { return too_deep_; }

  /// Counts the items that an instruction went through: some look at or copy a whole container.
  void spend(std::size_t items) { spent_ += items; }
  /// The work of all that was counted, in instructions.
  uint64_t work() const { return spent_ / 32; }
  /// A single instruction may open many containers: is it time to give it up?
  bool is_work_limit_exceeded() const { return work() > work_limit_; }
  void set_work_limit(uint64_t limit) { work_limit_ = limit; }

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
  bool is_pure(const Mark& m, const std::set<const Value*>& apart = {}) const;
  /// Takes back what was done to these since the mark, and gives those to which something was done. The rest stays.
  std::set<const Value*> take_back(const Mark& m, const std::set<const Value*>& apart);

  // One side of a branch, or the body of a loop: nodes go into its block.
  void open(graph::Block& block) {
    graph_->open(block);
    open_.push_back(++blocks_);
  }
  void close() {
    graph_->close();
    open_.pop_back();
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
  struct Undo {
    std::function<void()> revert;
    enum What : uint8_t { World, OneValue, Knowledge } what;
    const Value* value;
  };
  std::vector<Undo> undo_;
  std::set<graph::ValueId> shared_;  // roots
  struct Counted {
    graph::ValueId mask;
    graph::Dim count;
    int64_t at;  // how many graph values there were
    uint64_t block;
  };
  bool is_open(uint64_t block) const;
  std::vector<Counted> counted_;
  uint64_t blocks_ = 0;                        // that have been opened so far: their numbers
  std::vector<uint64_t> open_;                 // the numbers of those that are
  std::map<graph::ValueId, Writing> writing_;  // of those that are not simply allowed
  int tapes_ = 0;
  uint32_t location_ = 0;
  uint64_t spent_ = 0;
  uint64_t work_limit_ = UINT64_MAX;  // of the instruction that is executed
  bool too_deep_ = false;
  bool o1_ = false;
  FlagActions flag_actions_;
  PyObject *file_ = nullptr, *globals_ = nullptr;
  std::vector<Origin> origins_;  // of the graph's calls
  bool overlaps(std::size_t written, std::size_t other);
  friend class RegionBuilder;
};

}  // namespace framejit::capture
