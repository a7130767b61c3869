// ObjectPlan: where the results of a region lie, and the steps in which the objects at its end are made, in order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/region.h"
#include "codegen/kernel.h"
#include "ext/arrays/result_arrays.h"
#include "ext/guards/guard_program.h"
#include "ext/region/workspace.h"
#include "runtime/plan.h"

namespace framejit::ext::region {

struct ObjectPlan {
  /// Measured: an array as large as a run finds out, made behind it of hidden memory with room for the most.
  enum class Storage : uint8_t { Array, Number, Cell, Hidden, Measured };
  struct Root {
    Storage storage = Storage::Hidden;
    capture::Wrap wrap = capture::Wrap::NdArray;  // Number
    arrays::ArrayLayout layout;
  };
  /// What a Result recipe gives.
  struct Result {
    enum Kind : uint8_t {
      RootObject,
      RootCopy,
      RootView,
      RootNumber,
      ParamObject,
      ParamArray,
      ParamView,
      ParamNumber
    } kind;
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

  // These outlive it.
  const capture::Region& region;
  const guards::GuardProgram& guards;
  const runtime::Plan& plan;

  std::vector<Root> roots;
  std::vector<Result> results;     // of Result recipes
  std::vector<int32_t> result_of;  // recipe -> results
  // What is only referred to comes first: an allocation may run finalizers, and objects that guards vouch for may die.
  std::vector<Step> first, early, late;
  bool measures = false;
  bool early_collects = false, late_collects = false;  // they may begin a cycle collection

  std::span<const int64_t> symbols(const Workspace& w) const { return {w.matched->symbols, guards.symbol_count()}; }
};

/// Fails with a reason on a recipe that cannot be made.
Expected<ObjectPlan, std::string> plan_objects(const capture::Region& region, const guards::GuardProgram& guards,
                                               const runtime::Plan& plan);

/// Can the value be written into the object after it was made?
inline bool is_open(capture::Wrap wrap, graph::DType dtype) {
  using capture::Wrap;
  return wrap == Wrap::PyFloat || wrap == Wrap::PyComplex || (wrap == Wrap::NumpyScalar && dtype != graph::DType::Bool);
}

}  // namespace framejit::ext::region
