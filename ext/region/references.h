// The Python objects that a compiled region refers to.
#pragma once

#include <Python.h>

#include <functional>
#include <vector>

#include "capture/region.h"

namespace framejit::ext::region {

class References {
 public:
  /// `region` outlives it.
  explicit References(const capture::Region& region);
  ~References();
  References(const References&) = delete;

  /// Visits every object that the region owns a reference to, once for each.
  int traverse(visitproc visit, void* arg) const;
  /// Gives up the references to objects that others own too and that can be referred to weakly. When one of them dies
  /// the region fits no more, and `on_broken` is called.
  void weaken(std::function<void()> on_broken);
  /// Has one of them died?
  bool is_broken() const { return broken_; }
  template <class F>
  bool any(F&& predicate) const {
    for (const capture::HeldRef* ref : refs_)
      if (predicate(ref->get())) return true;
    return false;
  }

 private:
  struct Dependency {
    capture::Ref<> weakref;
    PyObject* object;
  };
  static PyObject* note_death(PyObject* capsule, PyObject* weakref);

  std::vector<const capture::HeldRef*> refs_;  // of the region, once each
  // The weak references are not visited: as long as they are reachable the collector calls back before it clears
  // anything.
  std::vector<Dependency> dependencies_;
  capture::Ref<> watcher_;  // capsule that the weak references call with: this, or null when it is gone
  std::function<void()> on_broken_;
  bool broken_ = false;
};

}  // namespace framejit::ext::region
