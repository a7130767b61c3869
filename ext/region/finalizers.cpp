// Walks a region's effects over the objects as they are now.
#include "ext/region/finalizers.h"

#include <set>
#include <tuple>

#include "capture/py/drops.h"
#include "ext/arrays/numpy_api.h"
#include "ext/guards/guard_program_impl.h"
#include "ext/module/module.h"

namespace framejit::ext::region {

using capture::Drops;
using capture::Effect;
using capture::Recipe;

namespace {

void array_holds(PyObject* object, Drops& drops) {
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (PyDataType_REFCHK(PyArray_DESCR(array))) drops.set_runs_code();
  drops.give_up(PyArray_BASE(array));
}

/// An array of numbers over memory of its own that nothing refers to weakly: most of what is displaced. It takes
/// nothing along.
bool is_inert(PyObject* object) {
  if (!Py_IS_TYPE(object, &PyArray_Type)) return false;
  const auto* array = reinterpret_cast<PyArrayObject_fields*>(object);
  return !array->base && !array->weakreflist && array->descr->type_num < NPY_OBJECT;
}

const module::ModulePart part(60, [](PyObject*) {
  Drops::set_held_by(&PyArray_Type, array_holds);
  return true;
});

/// Nothing, or what runs no code when it goes.
bool displaces_nothing(const Effect& e) {
  return e.kind == Effect::Kind::ListExtend || e.kind == Effect::Kind::SetChange || e.kind == Effect::Kind::CountCall ||
         e.kind == Effect::Kind::Print;
}

/// What effects have written so far: places, and lists as a whole.
class Written {
 public:
  bool has(const Effect& e) const { return lists_.count(e.target) != 0 || places_.count(place(e)) != 0; }
  void add(const Effect& e) {
    if (e.kind == Effect::Kind::ListReplace) lists_.insert(e.target);
    else if (!displaces_nothing(e)) places_.insert(place(e));
  }

 private:
  using Place = std::tuple<Effect::Kind, int32_t, int32_t, PyObject*, PyObject*>;
  static Place place(const Effect& e) { return {e.kind, e.target, e.key, e.object.get(), e.name.get()}; }
  std::set<int32_t> lists_;
  std::set<Place> places_;
};

}  // namespace

FinalizerCheck::FinalizerCheck(const capture::Region& region, const guards::GuardProgram& guards)
    : region_(region), guards_(guards) {
  for (uint32_t i = 0; i < region.recipes.size(); ++i)
    if (region.recipes[i].kind == Recipe::Kind::Fetch) fetched_[i] = guards.operand_of(region.recipes[i].source);
  std::vector<uint8_t> seen(region.recipes.size());
  if (region.returns) keep(region.result, -1, seen);
  for (const auto& [slot, recipe] : region.locals) keep(recipe, -1, seen);
  for (const uint32_t recipe : region.stack) keep(recipe, -1, seen);
  Written before, after;
  for (const Effect& e : region.effects) {
    if (displaces_nothing(e)) continue;
    if (!before.has(e)) displacing_.push_back(&e);  // else it displaces what the region stored
    before.add(e);
  }
  for (auto e = region.effects.rbegin(); e != region.effects.rend(); ++e) {
    if (e->kind != Effect::Kind::Print && !after.has(*e)) {
      if (e->value >= 0) keep(static_cast<uint32_t>(e->value), e->target, seen);
      for (const uint32_t item : e->items) keep(item, e->target, seen);
    }
    after.add(*e);
  }
}

void FinalizerCheck::keep(uint32_t recipe, int32_t holder, std::vector<uint8_t>& seen) {
  if (auto found = fetched_.find(recipe); found != fetched_.end()) kept_.push_back({found->second, holder});
  if (seen[recipe]) return;
  seen[recipe] = 1;
  for (const uint32_t item : region_.recipes[recipe].items) keep(item, holder, seen);
}

PyObject* FinalizerCheck::object(const guards::Matched& m, int32_t recipe) const {
  const Recipe& r = region_.recipes[static_cast<std::size_t>(recipe)];
  if (r.kind == Recipe::Kind::Constant) return r.object.get();
  auto found = fetched_.find(static_cast<uint32_t>(recipe));
  return found == fetched_.end() ? nullptr : guards_.object(m, found->second);
}

bool FinalizerCheck::given_up_runs_code(const guards::Matched& m, bool in_frame) const {
  Drops drops;
  for (const Kept& kept : kept_)
    drops.keep(guards_.object(m, kept.object), kept.holder < 0 ? nullptr : object(m, kept.holder));
  for (const int slot : region_.overwritten) {
    PyObject* object = slot < m.live->local_count ? m.live->locals[slot] : nullptr;  // a call has its arguments only
    if (object && !is_inert(object)) drops.give_up(object);
  }
  if (in_frame)
    for (int i = region_.loop ? static_cast<int>(region_.kept) : 0; i < m.live->depth; ++i)
      drops.give_up(m.live->stack[i]);
  using Kind = Effect::Kind;
  for (const Effect* effect : displacing_) {
    const Effect& e = *effect;
    PyObject* target = e.object ? e.object.get() : e.target >= 0 ? object(m, e.target) : nullptr;
    if (!target) continue;
    PyObject* key = e.name ? e.name.get() : e.key >= 0 ? object(m, e.key) : nullptr;
    switch (e.kind) {
      case Kind::StoreCell: drops.give_up(PyCell_GET(target)); break;
      case Kind::StoreAttr: drops.give_up(guards::fetch_attribute(target, key)); break;
      case Kind::StoreGlobal:
      case Kind::StoreItem:
        if (!key) return true;
        if (PyDict_Check(target)) {
          drops.give_up(PyDict_GetItemWithError(target, key));
        } else {
          Py_ssize_t at = PyLong_AsSsize_t(key);
          if (at < 0) at += PyList_GET_SIZE(target);
          if (at >= 0 && at < PyList_GET_SIZE(target)) drops.give_up(PyList_GET_ITEM(target, at));
        }
        break;
      case Kind::ListExtend:
      case Kind::SetChange:
      case Kind::CountCall:
      case Kind::Print: break;
      case Kind::ListReplace:
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(target); ++k) drops.give_up(PyList_GET_ITEM(target, k));
    }
  }
  return drops.run_code();
}

}  // namespace framejit::ext::region
