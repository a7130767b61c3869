// Materializer: the objects that are live where a region ends, made from its recipes; and its effects, committed.
//
// What can fail for want of memory comes first: result arrays are allocated, numbers made with their value still open,
// containers built around them. Then the kernels run and write straight into these objects. Only what depends on a
// computed value (an int, a bool, a copy) is made after that. Effects come last, in program order, and what they
// displace is released at the very end, because a finalizer may look at anything.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capture/region.h"
#include "codegen/kernel.h"
#include "ext/arrays/result_arrays.h"
#include "ext/guards/guard_program.h"
#include "runtime/plan.h"

namespace framejit::ext::region {

/// The working memory of one run; sized by the Materializer, provided and zeroed by the caller.
struct Workspace {
  guards::Matched* matched;
  PyObject** roots;    // owned: array or number of each result root
  char** results;      // memory of each result root
  int64_t* cells;      // two words for each root that is neither
  PyObject** objects;  // owned: one for each recipe
};

class Materializer {
 public:
  /// The region, the guard program and the program outlive it. Fails with a reason on a recipe that cannot be made.
  static Expected<std::unique_ptr<Materializer>, std::string> make(const capture::Region& region,
                                                                   const guards::GuardProgram& guards,
                                                                   const runtime::Plan& plan);
  /// What recipes and effects fetch, for GuardProgram::make.
  static std::vector<capture::SourceRef> sources(const capture::Region& region);

  std::size_t root_count() const { return root_count_; }
  std::size_t object_count() const { return recipe_count_; }

  /// The steps of a run, in this order. False: out of memory, or a size beyond 64 bits, with the Python exception set;
  /// nothing is visible yet.
  bool prepare(Workspace& w) const;  // memory of the roots, objects that do not depend on values
  bool finish(Workspace& w) const { return (!measures_ && late_.empty()) || make_late(w); }  // the others
  /// Stores the effects, up to the first one that cannot be done: false, with the exception set that the bytecode would
  /// have raised there. What each of them displaced, or null, is appended to `trash`.
  bool commit(Workspace& w, std::vector<PyObject*>& trash) const;
  /// After commit() failed: undoes what it did, which is in `trash` from `first` on. False: it cannot all be undone.
  bool take_back(Workspace& w, const std::vector<PyObject*>& trash, std::size_t first) const;
  /// After finish() failed: None for the objects that could not be made.
  void complete(Workspace& w) const;
  /// Releases what the workspace still owns.
  void drop(Workspace& w) const;

  bool has_effects() const { return !region_.effects.empty(); }

 private:
  /// Measured: an array as large as a run finds out, made behind it of hidden memory with room for the most.
  enum class Storage : uint8_t { Array, Number, Cell, Hidden, Measured };
  struct Root {
    Storage storage = Storage::Hidden;
    capture::Wrap wrap = capture::Wrap::NdArray;  // Number
    arrays::ArrayLayout layout;
  };
  /// What a Result recipe gives.
  struct Result {
    enum Kind : uint8_t { RootObject, RootCopy, RootView, RootNumber, ParamObject, ParamView, ParamNumber } kind;
    capture::Wrap wrap;
    uint32_t number = 0;  // root or param
    arrays::ArrayLayout layout;
    graph::Dim offset = 0;
    capture::Writing writing = capture::Writing::Allowed;
  };
  struct Step {
    enum How : uint8_t { Make, Fill, Root, Fetch } how;  // Root, Fetch: only a reference to what is there
    uint32_t recipe;
    uint32_t root = 0;
    guards::GuardOperand operand{};
  };

  Materializer(const capture::Region& region, const guards::GuardProgram& guards, const runtime::Plan& plan)
      : region_(region), guards_(guards), plan_(plan), recipe_count_(region.recipes.size()) {}
  std::string analyse();
  std::string analyse_result(uint32_t recipe);
  void order(uint32_t recipe);
  void order_fill(uint32_t recipe);
  Step step_of(uint32_t recipe) const;

  std::span<const int64_t> symbols(const Workspace& w) const { return {w.matched->symbols, guards_.symbol_count()}; }
  bool allocate_root(Workspace& w, std::size_t k) const;
  bool make_early(Workspace& w) const;
  bool make_late(Workspace& w) const;
  bool make_measured(Workspace& w) const;
  bool is_measured(graph::ValueId v) const;
  PyObject* create(Workspace& w, uint32_t recipe) const;
  PyObject* create_result(Workspace& w, const Result& result) const;
  PyObject* create_function(Workspace& w, const capture::Recipe& r) const;
  PyObject* create_iterator(Workspace& w, const capture::Recipe& r) const;
  capture::Ref<> call(Workspace& w, const capture::Recipe& r) const;
  bool fill(Workspace& w, uint32_t recipe) const;
  bool may_collect(const std::vector<Step>& steps) const;
  bool run(Workspace& w, const std::vector<Step>& steps) const;
  bool run_late(Workspace& w) const;
  bool store(Workspace& w, const capture::Effect& effect, std::vector<PyObject*>& trash) const;
  bool undo(Workspace& w, const capture::Effect& effect, PyObject* displaced) const;

  const capture::Region& region_;
  const guards::GuardProgram& guards_;
  const runtime::Plan& plan_;
  std::size_t recipe_count_, root_count_ = 0;
  bool measures_ = false;
  bool early_collects_ = false, late_collects_ = false, effects_collect_ = false;  // they may begin a cycle collection
  std::vector<Root> roots_;
  std::vector<Result> results_;     // of Result recipes
  std::vector<int32_t> result_of_;  // recipe -> results_
  // What is only referred to comes first: an allocation may run finalizers, and objects that guards vouch for may die.
  std::vector<Step> first_, early_, late_;
  std::vector<uint8_t> visited_, filled_, is_late_, fill_late_;
};

}  // namespace framejit::ext::region
