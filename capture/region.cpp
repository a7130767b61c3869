// Recipes, effects and guards of a Region.
#include "capture/region.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/named_tuples.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/region_builder.h"
#include "graph/layout.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

const Value* resolved(const Value* v) { return v && v->kind == ValueKind::Lazy && !v->items.empty() ? v->items[0] : v; }

Value* resolved(Value* v) { return const_cast<Value*>(resolved(static_cast<const Value*>(v))); }

/// `seen`: what was asked about before, here or further up: where one thing is not materializable nothing is.
bool materializable(const Value* v, std::unordered_set<const Value*>& seen, int depth) {
  v = resolved(v);
  if (v && v->transient) return false;
  if (!v || v->source || (v->object && v->kind == ValueKind::Tuple)) return true;
  if (!seen.insert(v).second) return true;
  if (depth > 64) return false;
  switch (v->kind) {
    case ValueKind::Null:
      if (v->which() == graph::kNoValue) return !v->partial;
      break;
    case ValueKind::Constant:
    case ValueKind::Int: return true;
    case ValueKind::Array:
      if (v->partial) return false;
      break;
    case ValueKind::Iterator:
      if (v->as_iterator().position < 0 || v->as_iterator().over == Over::Map ||
          v->as_iterator().over == Over::Generator ||
          (v->as_iterator().over == Over::Set && !v->items[0]->source && !v->items[0]->is_constant()) ||
          v->as_iterator().over == Over::Values || v->as_iterator().over == Over::Items ||
          (v->as_iterator().over == Over::Keys && dict_changed(*v)))
        return false;
      // They are made before any store is committed.
      for (const Value* over : v->items)
        if (over->changed) return false;
      if (v->as_iterator().over == Over::Reversed &&
          static_cast<int64_t>(v->items[0]->items.size()) != dim_of(*v->items[1]).value())
        return false;
      break;
    case ValueKind::Function:
      // Annotations are an object of the recipe: constants only.
      if (const Value* notes = v->items[3])
        for (const Value* item : notes->items)
          if (!resolved(item)->is_constant()) return false;
      break;
    case ValueKind::Lazy: return v->source != nullptr;
    case ValueKind::Object: {
      if (v->source) return true;
      if (is_exception(*v) || is_partial(class_of(*v)) || !PyType_HasFeature(class_of(*v), Py_TPFLAGS_HEAPTYPE))
        return false;
      bool all = v->attributes().empty() || !is_tuple_instance(*v);
      for (const auto& [name, value] : v->attributes()) all = all && materializable(value, seen, depth + 1);
      for (const Value* item : v->items) all = all && materializable(item, seen, depth + 1);
      return all;
    }
    case ValueKind::BoundMethod:
      if (v->as_method().form == MethodPart::Super) return false;
      break;
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Dict:
    case ValueKind::Slice:
    case ValueKind::Range:
    case ValueKind::Text:
    case ValueKind::Cell: break;
    case ValueKind::Set:
      if (v->partial) return false;
      break;
  }
  bool all = true;
  for (const Value* item : v->items) all = all && (!item || materializable(item, seen, depth + 1));
  return all;
}

Recipe of(Recipe::Kind kind) {
  Recipe r{};
  r.kind = kind;
  return r;
}

}  // namespace

bool is_materializable(const Value* v) {
  std::unordered_set<const Value*> seen;
  return materializable(v, seen, 0);
}

std::size_t kept_entries(const std::vector<Value*>& before, const std::vector<Value*>& now) {
  std::size_t kept = 0;
  while (kept < before.size() && kept < now.size() && before[kept] == now[kept]) ++kept;
  return kept;
}

uint32_t RegionBuilder::add(Recipe r) {
  region_.recipes.push_back(std::move(r));
  return static_cast<uint32_t>(region_.recipes.size() - 1);
}

void RegionBuilder::fill(uint32_t at, const std::vector<Value*>& items) {
  for (Value* item : items) {
    const uint32_t index = item ? recipe(item) : add(of(Recipe::Kind::Null));
    region_.recipes[at].items.push_back(index);
  }
}

Recipe RegionBuilder::result(graph::ValueId id, Wrap wrap) {
  auto at = std::find(results_.begin(), results_.end(), id);
  if (at == results_.end()) at = results_.insert(results_.end(), id);
  Recipe r = of(Recipe::Kind::Result);
  r.index = static_cast<uint32_t>(at - results_.begin());
  r.wrap = wrap;
  const graph::Graph& graph = s_.graph();
  const graph::ValueId root = graph.root(id);
  const bool as_base = graph.node(root).op == graph::Op::Param && graph::repeats_elements(graph, root);
  r.writing = s_.inputs().writing(id);
  if (r.writing == Writing::Allowed && !as_base && graph::repeats_elements(graph, id)) r.writing = Writing::Refused;
  return r;
}

uint32_t RegionBuilder::recipe(Value* given) {
  Value* v = resolved(given);
  if (auto seen = made_.find(v); seen != made_.end()) return seen->second;
  // Objects fixed by an Identity guard need no fetching; equal ints and strings keep the caller's object.
  const bool fixed =
      v->is_constant() && (!v->source || !is_plain(v->object.get()) || v->is_none() || PyBool_Check(v->object.get()));
  if (fixed || (v->kind == ValueKind::Tuple && v->object && !v->source)) {
    auto [at, fresh] = constants_.emplace(v->object.get(), 0u);
    if (fresh) {
      Recipe r = of(Recipe::Kind::Constant);
      r.object = v->object;
      at->second = add(std::move(r));
    }
    return made_[v] = at->second;
  }
  if (v->source) {
    Recipe r = of(Recipe::Kind::Fetch);
    r.source = v->source;
    return made_[v] = add(std::move(r));
  }
  if (v->kind == ValueKind::Array) {
    if (v->which() == graph::kNoValue) return made_[v] = add(result(v->id(), v->wrap()));
    const uint32_t number = add(result(v->which(), Wrap::PyInt));
    const uint32_t own = add(v->is_never_new() ? of(Recipe::Kind::Null) : result(v->id(), v->wrap()));
    const uint32_t at = made_[v] = add(of(Recipe::Kind::Choice));
    region_.recipes[at].items = {number, own};
    fill(at, v->items);
    return at;
  }
  if (v->kind == ValueKind::Int) {
    Recipe r = of(Recipe::Kind::Int);
    r.dim = v->dim();
    return made_[v] = add(std::move(r));
  }
  if (v->kind == ValueKind::Null && v->which() != graph::kNoValue) {
    const uint32_t number = add(result(v->which(), Wrap::PyInt));
    const uint32_t at = made_[v] = add(of(Recipe::Kind::Choice));
    region_.recipes[at].items = {number};
    fill(at, v->items);
    return at;
  }
  if (v->kind == ValueKind::Null) return made_[v] = add(of(Recipe::Kind::Null));

  const uint32_t at = made_[v] = add(of(kind_of(*v)));
  switch (v->kind) {
    case ValueKind::Function: {
      auto* code = reinterpret_cast<PyCodeObject*>(v->object.get());
      Values parts{s_.values().constant(v->object.get()),
                   s_.values().constant(v->as_function().globals.get()),
                   s_.values().constant(code->co_qualname),
                   v->items[0],
                   v->items[1],
                   v->items[2],
                   v->items[4]};
      fill(at, parts);
      if (const Value* notes = v->items[3]) {
        Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(notes->items.size())));
        FRAMEJIT_CHECK(tuple, "no memory for annotations");
        for (std::size_t i = 0; i < notes->items.size(); ++i)
          PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Ref<>(resolved(notes->items[i])->object).release());
        region_.recipes[at].object = tuple;
      }
      break;
    }
    case ValueKind::Object: {
      if (is_tuple_instance(*v)) {
        region_.recipes[at].object = Ref<>::share(tuple_new());
        fill(at, {s_.values().constant(v->object.get()), s_.values().tuple(v->items)});
        break;
      }
      region_.recipes[at].object = v->object;
      std::vector<Value*> parts;
      for (const auto& [name, value] : v->attributes()) {
        parts.push_back(s_.values().constant(interned(name.c_str())));
        parts.push_back(value);
      }
      fill(at, parts);
      break;
    }
    case ValueKind::Text:
      region_.recipes[at].object = v->object;
      fill(at, v->items);
      break;
    case ValueKind::BoundMethod:
      if (v->items[1]) {
        fill(at, v->items);
      } else {
        region_.recipes[at].object = v->as_method().name;
        fill(at, {v->items[0]});
      }
      break;
    case ValueKind::Iterator: {
      // An outer iterator is made over its inner ones as they stand; the innermost is advanced to its position.
      PyTypeObject* type = v->as_iterator().over == Over::Enumerate  ? &PyEnum_Type
                           : v->as_iterator().over == Over::Zip      ? &PyZip_Type
                           : v->as_iterator().over == Over::Reversed ? &PyReversed_Type
                                                                     : nullptr;
      region_.recipes[at].object = Ref<>::share(reinterpret_cast<PyObject*>(type));
      if (v->as_iterator().over == Over::Enumerate) {
        Captured<Value*> count =
            number_binary(x_, 0, v->items[1], s_.values().integer(graph::Dim(v->as_iterator().position)));
        FRAMEJIT_CHECK(count.has_value(), "the count of an enumerate");
        fill(at, {v->items[0], *count});
      } else if (v->as_iterator().over == Over::Zip) {
        fill(at, v->items);
      } else {
        region_.recipes[at].index = static_cast<uint32_t>(v->as_iterator().position);
        const Value* over = resolved(v->items[0]);
        if (over->kind == ValueKind::Range && !over->source) fill(at, over->items);
        else fill(at, {v->items[0]});
      }
      break;
    }
    default: fill(at, v->items);
  }
  return at;
}

Recipe::Kind RegionBuilder::kind_of(const Value& v) const {
  switch (v.kind) {
    case ValueKind::Tuple: return Recipe::Kind::Tuple;
    case ValueKind::List: return Recipe::Kind::List;
    case ValueKind::Dict: return Recipe::Kind::Dict;
    case ValueKind::Set: return Recipe::Kind::Set;
    case ValueKind::Slice: return Recipe::Kind::Slice;
    case ValueKind::Range: return Recipe::Kind::Range;
    case ValueKind::Function: return Recipe::Kind::Function;
    case ValueKind::BoundMethod: return v.items[1] ? Recipe::Kind::BoundMethod : Recipe::Kind::Method;
    case ValueKind::Cell: return Recipe::Kind::Cell;
    case ValueKind::Iterator: return Recipe::Kind::Iterator;
    case ValueKind::Text: return Recipe::Kind::Text;
    case ValueKind::Object: return is_tuple_instance(v) ? Recipe::Kind::Call : Recipe::Kind::Instance;
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Constant:
    case ValueKind::Array:
    case ValueKind::Int: break;
  }
  check_failed(__FILE__, __LINE__, "recipe kind", std::to_string(static_cast<int>(v.kind)));
}

void RegionBuilder::add_effects() {
  for (const PendingEffect& p : x_.effects().log()) {
    Effect e{};
    e.kind = p.kind;
    e.object = p.object;
    e.name = p.name;
    e.source = p.source;
    if (p.target) e.target = static_cast<int32_t>(recipe(p.target));
    if (p.key) e.key = static_cast<int32_t>(recipe(p.key));
    if (p.value) e.value = static_cast<int32_t>(recipe(p.value));
    for (Value* item : p.items) e.items.push_back(recipe(item));
    region_.effects.push_back(std::move(e));
  }
}

// Objects that were two at capture must be two again where one of them changes: a store through one name would be seen
// through the other.
void RegionBuilder::keep_apart() {
  std::vector<const Value*> changed, all;
  std::unordered_set<const Value*> is_changed;
  for (const PendingEffect& p : x_.effects().log())
    if (p.target && is_changed.insert(p.target).second) changed.push_back(p.target);
  for (const auto& [object, tracked] : x_.tracked()) all.push_back(tracked.value);
  std::sort(all.begin(), all.end(), [](const Value* a, const Value* b) { return a->source->str() < b->source->str(); });
  // Only objects of one type can be one.
  using Sort = std::pair<ValueKind, PyTypeObject*>;
  const auto sort_of = [](const Value* v) {
    return Sort(v->kind, v->kind == ValueKind::Object ? Py_TYPE(v->object.get()) : nullptr);
  };
  std::vector<Sort> sorts;  // in the order of their first changes
  std::map<Sort, std::vector<const Value*>> changed_of, others_of;
  for (const Value* v : changed) {
    if (!changed_of.contains(sort_of(v))) sorts.push_back(sort_of(v));
    changed_of[sort_of(v)].push_back(v);
  }
  for (const Value* v : all)
    if (!is_changed.contains(v)) others_of[sort_of(v)].push_back(v);
  for (const Sort& sort : sorts) {
    std::vector<const Value*> several = changed_of[sort];
    Guard g{};
    g.kind = GuardKind::Distinct;
    g.number = static_cast<int64_t>(several.size());
    several.insert(several.end(), others_of[sort].begin(), others_of[sort].end());
    for (const Value* v : several) g.several.push_back(v->source);
    // Cells of one frame, and of one function, are made apart.
    const bool made_apart = sort.first == ValueKind::Cell && std::all_of(several.begin(), several.end(), [&](auto v) {
                              return v->source->kind == several[0]->source->kind;
                            });
    if (several.size() > 1 && !made_apart) s_.guards().add(std::move(g));
  }
  // Attributes, variables and items that are stored, and what is looked up by another way, are not in one dict.
  const Effects& effects = x_.effects();
  const auto own = [this](const Value* object) {
    PyObject* o = object->object.get();
    if (has_instance_dict(Py_TYPE(o)) && has_own_dict(o))  // otherwise no attribute was looked at
      guard(x_, GuardKind::OwnDict, object->source);
  };
  for (const Value* each : effects.stores_names() ? all : changed)
    if (each->kind == ValueKind::Object) own(each);
  for (const Value* dict : all)
    for (PyObject* variables : effects.namespaces())
      if (dict->kind == ValueKind::Dict && (dict->changed || effects.stores_variables_of(variables)))
        s_.guards().add(identity_guard(dict->source, fixed_source(variables, "globals()"), false));
}

bool RegionBuilder::build_truth(graph::ValueId truth) {
  std::optional<graph::Graph> graph = s_.graph().with_result(truth);
  if (!graph) return false;
  graph::GraphBuilder builder(*graph);
  graph->set_results({builder.copy(truth, 'C')});  // it may be a view of what is written later
  s_.inputs().keep_apart();
  region_.graph = std::make_unique<graph::Graph>(std::move(*graph));
  region_.guards = s_.guards().all();
  region_.inputs = s_.inputs().all();
  region_.returns = true;
  Recipe r = of(Recipe::Kind::Result);
  r.wrap = Wrap::PyBool;
  region_.result = add(std::move(r));
  return true;
}

std::vector<Value*> RegionBuilder::as_pushed(std::vector<Value*> stack) {
  for (std::size_t k = 0; k + 1 < stack.size(); ++k) {
    Value* const method = py::kNullBehindCallable ? stack[k] : stack[k + 1];
    if (method->kind != ValueKind::BoundMethod || method->as_method().form != MethodPart::Loaded) continue;
    if ((py::kNullBehindCallable ? stack[k + 1] : stack[k])->kind != ValueKind::Null) continue;
    PyObject* type = type_of(x_, method->items[0]);
    if (!type || PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject* raw = type_attr(reinterpret_cast<PyTypeObject*>(type), method->as_method().name.get());
    if (!raw || !Py_IS_TYPE(raw, &PyMethodDescr_Type)) continue;
    stack[k] = s_.values().constant(raw);
    stack[k + 1] = method->items[0];
  }
  return stack;
}

void RegionBuilder::build(const SymbolicFrame& frame, const std::vector<Value*>& initial,
                          const std::vector<Value*>& stack, Value* returned) {
  region_.returns = returned != nullptr;
  region_.exit = frame.pc;
  for (std::size_t i = 0; i < frame.locals.size(); ++i)
    if (resolved(frame.locals[i]) != resolved(initial[i]))  // a slot that was unbound may be bound another time
      region_.overwritten.push_back(static_cast<int>(i));
  if (returned) {
    region_.result = recipe(returned);
  } else {
    for (std::size_t i = 0; i < frame.locals.size(); ++i) {
      Value* now = frame.locals[i];
      if (now == initial[i]) continue;
      if (!now) {
        region_.locals.emplace_back(static_cast<int>(i), add(of(Recipe::Kind::Null)));
        continue;
      }
      if (initial[i] && resolved(now) == resolved(initial[i])) continue;
      region_.locals.emplace_back(static_cast<int>(i), recipe(now));
    }
    for (Value* v : as_pushed(frame.stack)) region_.stack.push_back(recipe(v));
    region_.kept = static_cast<uint32_t>(kept_entries(stack, frame.stack));
  }
  add_effects();
  keep_apart();
  s_.inputs().keep_apart();
  // The strides of a view without elements are NumPy's to choose.
  graph::ShapeEnv& shapes = s_.graph().shapes();
  for (const graph::ValueId v : results_)
    for (const graph::Dim& d : s_.graph().type(v).shape)
      if (s_.graph().type(v).is_view() && shapes.is_measured(d)) shapes.holds(graph::Relation::Lt, 0, d);
  s_.guards().add_relations(shapes);
  s_.guards().show_dimensions(s_.inputs().all());
  s_.graph().set_results(results_);
  region_.graph = s_.take_graph();
  region_.guards = s_.guards().take();
  region_.inputs = s_.inputs().take();
  region_.origins = s_.position().take_origins();
  region_.instructions = x_.steps;
}

}  // namespace framejit::capture
