// The steps of a run.
#include "ext/region/materialize.h"

#include <cstring>
#include <utility>

#include "ext/region/no_collection.h"
#include "ext/region/recipes.h"
#include "runtime/allocator.h"

namespace framejit::ext::region {

using arrays::as_ndarray;
using capture::Recipe;
using Root = ObjectPlan::Root;
using Step = ObjectPlan::Step;
using Storage = ObjectPlan::Storage;

std::vector<capture::SourceRef> Materializer::sources(const capture::Region& region) {
  std::vector<capture::SourceRef> out;
  for (const Recipe& r : region.recipes)
    if (r.kind == Recipe::Kind::Fetch) out.push_back(r.source);
  for (const capture::Input& input : region.inputs) out.push_back(input.source);
  return out;
}

Expected<std::unique_ptr<Materializer>, std::string> Materializer::make(const capture::Region& region,
                                                                        const guards::GuardProgram& guards,
                                                                        const runtime::Plan& plan) {
  FRAMEJIT_TRY(objects, plan_objects(region, guards, plan));
  return std::unique_ptr<Materializer>(new Materializer(std::move(objects)));
}

bool Materializer::allocate_root(Workspace& w, std::size_t k) const {
  const Root& root = plan_.roots[k];
  switch (root.storage) {
    case Storage::Array: {
      w.roots[k] = arrays::new_array(root.layout, plan_.symbols(w));
      if (!w.roots[k]) return false;
      w.results[k] = PyArray_BYTES(as_ndarray(w.roots[k]));
      return true;
    }
    case Storage::Number:
      w.roots[k] = arrays::new_number(root.wrap, root.layout.dtype);
      if (!w.roots[k]) return false;
      w.results[k] = arrays::number_memory(root.wrap, w.roots[k]);
      return true;
    case Storage::Cell: w.results[k] = reinterpret_cast<char*>(&w.cells[2 * k]); return true;
    case Storage::Measured:
    case Storage::Hidden: {
      const int64_t bytes = plan_.plan.result_bytes(k, plan_.symbols(w));
      w.results[k] = static_cast<char*>(runtime::allocate(bytes > 0 ? static_cast<std::size_t>(bytes) : 1));
      if (w.results[k]) return true;
      PyErr_NoMemory();
      return false;
    }
  }
  return false;
}

bool Materializer::make_measured(Workspace& w) const {
  for (std::size_t k = 0; k < root_count_; ++k) {
    const Root& root = plan_.roots[k];
    if (root.storage != Storage::Measured) continue;
    const graph::Type& type = plan_.region.graph->type(plan_.plan.program().result_roots[k]);
    const int64_t bytes = (type.size() * graph::size_of(type.dtype)).evaluate(plan_.symbols(w));
    w.roots[k] = bytes > 0 ? arrays::new_array(root.layout, plan_.symbols(w))
                           : arrays::new_empty_array(root.layout, plan_.symbols(w));
    if (!w.roots[k]) return false;
    char* const made = PyArray_BYTES(as_ndarray(w.roots[k]));
    std::memcpy(made, w.results[k], static_cast<std::size_t>(bytes));
    runtime::release(std::exchange(w.results[k], made));
  }
  return true;
}

namespace {

/// False with an exception set also if a size is beyond 64 bits.
template <class Make>
bool in_64_bits(Make make) {
  try {
    return make();
  } catch (const graph::DimOverflow& error) {
    PyErr_SetString(PyExc_OverflowError, error.what());
    return false;
  }
}

}  // namespace

inline bool Materializer::make_early(Workspace& w) const {
  if (!plan_.first.empty() && !run(w, plan_.first)) return false;
  for (std::size_t k = 0; k < root_count_; ++k)
    if (!allocate_root(w, k)) return false;
  if (!plan_.early_collects) return run(w, plan_.early);
  const NoCollection none(true);
  return run(w, plan_.early);
}

bool Materializer::prepare(Workspace& w) const {
  return in_64_bits([&] { return make_early(w); });
}

bool Materializer::make_late(Workspace& w) const {
  return in_64_bits([&] { return (!plan_.measures || make_measured(w)) && (plan_.late.empty() || run_late(w)); });
}

bool Materializer::run_late(Workspace& w) const {
  const NoCollection none(plan_.late_collects);
  return run(w, plan_.late);
}

bool Materializer::run(Workspace& w, const std::vector<Step>& steps) const {
  for (const Step& step : steps) switch (step.how) {
      case Step::Root: w.objects[step.recipe] = Py_NewRef(w.roots[step.root]); break;
      case Step::Fetch: w.objects[step.recipe] = Py_NewRef(plan_.guards.object(*w.matched, step.operand)); break;
      case Step::Fill:
        if (!fill(plan_.region.recipes[step.recipe], w, w.objects[step.recipe])) return false;
        break;
      case Step::Make:
        w.objects[step.recipe] = create(plan_, w, step.recipe);
        if (!w.objects[step.recipe]) return false;
        break;
    }
  return true;
}

void Materializer::drop(Workspace& w) const {
  for (std::size_t k = 0; k < root_count_; ++k) {
    const bool hidden =
        plan_.roots[k].storage == Storage::Hidden || (plan_.roots[k].storage == Storage::Measured && !w.roots[k]);
    if (hidden && w.results[k]) runtime::release(w.results[k]);
    Py_XDECREF(w.roots[k]);
  }
  for (std::size_t i = 0; i < object_count_; ++i) Py_XDECREF(w.objects[i]);
}

void Materializer::complete(Workspace& w) const {
  for (std::size_t i = 0; i < object_count_; ++i)
    if (!w.objects[i] && plan_.region.recipes[i].kind != Recipe::Kind::Null) w.objects[i] = Py_NewRef(Py_None);
}

}  // namespace framejit::ext::region
