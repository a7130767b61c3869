// Materializer: the objects that are live where a region ends, made from its recipes.
//
// What can fail for want of memory comes first: result arrays are allocated, numbers made with their value still open,
// containers built around them. Then the kernels run and write straight into these objects. Only what depends on a
// computed value (an int, a bool, a copy) is made after that. Effects come last (effects.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/region.h"
#include "ext/region/object_plan.h"

namespace framejit::ext::region {

class Materializer {
 public:
  /// The region, the guard program and the program outlive it. Fails with a reason on a recipe that cannot be made.
  static Expected<std::unique_ptr<Materializer>, std::string> make(const capture::Region& region,
                                                                   const guards::GuardProgram& guards,
                                                                   const runtime::Plan& plan);
  /// What recipes and effects fetch, for GuardProgram::make.
  static std::vector<capture::SourceRef> sources(const capture::Region& region);

  std::size_t root_count() const { return root_count_; }
  std::size_t object_count() const { return object_count_; }

  /// The steps of a run, in this order. False: out of memory, or a size beyond 64 bits, with the Python exception set;
  /// nothing is visible yet.
  bool prepare(Workspace& w) const;  // memory of the roots, objects that do not depend on values
  bool finish(Workspace& w) const { return (!plan_.measures && plan_.late.empty()) || make_late(w); }  // the others
  /// After finish() or the effects failed: None for the objects that could not be made.
  void complete(Workspace& w) const;
  /// Releases what the workspace still owns.
  void drop(Workspace& w) const;

 private:
  explicit Materializer(ObjectPlan plan)
      : plan_(std::move(plan)), root_count_(plan_.roots.size()), object_count_(plan_.region.recipes.size()) {}
  bool allocate_root(Workspace& w, std::size_t k) const;
  bool make_early(Workspace& w) const;
  bool make_late(Workspace& w) const;
  bool make_measured(Workspace& w) const;
  bool run(Workspace& w, const std::vector<ObjectPlan::Step>& steps) const;
  bool run_late(Workspace& w) const;

  ObjectPlan plan_;
  std::size_t root_count_, object_count_;
};

}  // namespace framejit::ext::region
