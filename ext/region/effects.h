// Effects: what a region stores, committed in program order once all its objects are there.
//
// What effects displace is released by the caller at the very end, because a finalizer may look at anything.
#pragma once

#include <cstddef>
#include <vector>

#include "capture/region.h"
#include "ext/region/workspace.h"

namespace framejit::ext::region {

class Effects {
 public:
  /// The region outlives it.
  explicit Effects(const capture::Region& region);

  bool any() const { return !region_.effects.empty(); }
  /// Would they run code of the program's, or the texts that are made with them?
  bool may_run_code() const;
  /// Stores the effects, up to the first one that cannot be done: false, with the exception set that the bytecode would
  /// have raised there. What each of them displaced, or null, is appended to `trash`.
  bool commit(Workspace& w, std::vector<PyObject*>& trash) const;
  /// After commit() failed: undoes what it did, which is in `trash` from `first` on. False: it cannot all be undone.
  bool take_back(Workspace& w, const std::vector<PyObject*>& trash, std::size_t first) const;

 private:
  const capture::Region& region_;
  bool collect_ = false;  // they may begin a cycle collection
  bool prints_ = false, shows_arrays_ = false;
};

}  // namespace framejit::ext::region
