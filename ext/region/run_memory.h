// The memory of one run of a region, and what the run owns until its results are handed over.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "ext/guards/guard_program.h"
#include "ext/region/materialize.h"

namespace framejit::ext::region {

inline constexpr std::size_t kMemoryOnStack = 2 << 10;
inline constexpr std::size_t kClearedAtOnce = 4;  // words

inline std::size_t words(std::size_t count) { return count * sizeof(void*); }

/// In words: where the arrays of a run begin, the first at 0.
struct RunSizes {
  uint32_t symbols = 0, params = 0, scalars = 0, cells = 0, roots = 0, results = 0, objects = 0, all = 0;
  uint32_t owned = 0;  // of references, from roots on

  RunSizes(const guards::GuardProgram& g, const Materializer& m);
};

/// Divides one block of memory among the arrays of a run. What owns references starts zeroed.
struct RunMemory {
  guards::Matched matched;
  Workspace workspace;

  RunMemory(char* memory, const RunSizes& sizes, const guards::LiveSlots& live) : owned_(sizes.owned) {
    auto at = [memory](uint32_t word) { return memory + words(word); };
    matched.live = &live;
    matched.slots = reinterpret_cast<PyObject**>(memory);
    matched.symbols = reinterpret_cast<int64_t*>(at(sizes.symbols));
    matched.params = reinterpret_cast<char**>(at(sizes.params));
    matched.scalars = reinterpret_cast<int64_t*>(at(sizes.scalars));
    workspace.matched = &matched;
    workspace.cells = reinterpret_cast<int64_t*>(at(sizes.cells));
    workspace.roots = reinterpret_cast<PyObject**>(at(sizes.roots));
    workspace.results = reinterpret_cast<char**>(at(sizes.results));
    workspace.objects = reinterpret_cast<PyObject**>(at(sizes.objects));
  }
  void clear_owned() {
    // Most runs own little: no call of memset for it. What lies behind is room that is always there.
    std::memset(workspace.roots, 0, words(kClearedAtOnce));
    if (owned_ > kClearedAtOnce) std::memset(workspace.roots, 0, words(owned_));
  }

 private:
  uint32_t owned_;
};

/// A RunMemory, on the stack where it is small.
#define FRAMEJIT_RUN_MEMORY(name, live, sizes)          \
  alignas(8) char name##_stack[kMemoryOnStack];         \
  std::unique_ptr<char[]> name##_heap;                  \
  if (words((sizes).all) > kMemoryOnStack) [[unlikely]] \
    name##_heap.reset(new char[words((sizes).all)]);    \
  RunMemory name(name##_heap ? name##_heap.get() : name##_stack, sizes, live)

/// What a run owns until its results are handed over.
class Run {
 public:
  Run(const Materializer& m, Workspace& w, bool in_a_frame) : workspace(w), in_frame(in_a_frame), materializer_(m) {}
  ~Run() {
    materializer_.drop(workspace);
    for (PyObject* object : trash) Py_XDECREF(object);
  }
  Run(const Run&) = delete;
  std::size_t root_count() const { return materializer_.root_count(); }

  Workspace& workspace;
  const bool in_frame;           // else a whole call
  std::vector<PyObject*> trash;  // released last
  std::vector<unsigned> unsaid;  // flags of a run that is done and has to warn, by slot of the plan
  bool others_ran = false;       // another thread or Python code, since the guards were tested

 private:
  const Materializer& materializer_;
};

}  // namespace framejit::ext::region
