// The log of stores, and the state of globals as later loads see it.
#include "capture/effects.h"

#include <algorithm>
#include <utility>

#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

void Effects::append(PendingEffect effect) {
  Value* target = effect.target;
  const bool first = target && !target->changed;
  if (first) target->changed = true;
  const bool names = effect.kind == Effect::Kind::StoreGlobal || (target && target->kind == ValueKind::Dict);
  name_stores_ += names;
  log_.push_back(std::move(effect));
  session_.undo().record([this, target, first, names] {
    if (first) target->changed = false;
    name_stores_ -= names;
    log_.pop_back();
  });
}

void Effects::store_attr(Value* object, PyObject* name, Value* value) {
  const std::string text = text_of(name);
  if (auto* known = object->attributes().find(text)) {
    Value* before = std::exchange(known->second, value);
    session_.undo().record([object, text, before] { object->attributes().find(text)->second = before; });
  } else {
    object->attributes().append(text, value);
    session_.undo().record([object] { object->attributes().drop_last(); });
  }
  append({Effect::Kind::StoreAttr, object, nullptr, value, {}, Ref<>::share(name), {}});
}

std::size_t Effects::global_hash(PyObject* dict, PyObject* name) {
  return reinterpret_cast<std::size_t>(dict) * 1000003 + key_hash(name);
}

const GlobalSlot* Effects::global(PyObject* dict, PyObject* name) const {
  const auto [first, last] = global_index_.equal_range(global_hash(dict, name));
  for (auto at = first; at != last; ++at) {
    const GlobalSlot& slot = globals_[at->second];
    if (slot.dict == dict && same_key(slot.key, name)) return &slot;
  }
  return nullptr;
}

void Effects::remember_namespace(PyObject* dict) {
  if (std::find(namespaces_.begin(), namespaces_.end(), dict) != namespaces_.end()) return;
  namespaces_.push_back(dict);
  session_.undo().learn([this] { namespaces_.pop_back(); });
}

bool Effects::stores_variables_of(PyObject* dict) const {
  return std::find(stored_namespaces_.begin(), stored_namespaces_.end(), dict) != stored_namespaces_.end();
}

void Effects::remember_global(PyObject* dict, PyObject* name, Value* value) {
  if (const GlobalSlot* known = global(dict, name)) {
    const auto i = static_cast<std::size_t>(known - globals_.data());
    Value* before = globals_[i].value;
    globals_[i].value = value;
    session_.undo().learn([this, i, before] { globals_[i].value = before; });
    return;
  }
  const auto at = global_index_.emplace(global_hash(dict, name), globals_.size());
  globals_.push_back({dict, name, value});
  session_.undo().learn([this, at] {
    global_index_.erase(at);
    globals_.pop_back();
  });
}

void Effects::store_global(PyObject* dict, PyObject* name, Value* value) {
  remember_global(dict, name, value);
  if (!stores_variables_of(dict)) {
    stored_namespaces_.push_back(dict);
    session_.undo().record([this] { stored_namespaces_.pop_back(); });
  }
  append({Effect::Kind::StoreGlobal, nullptr, nullptr, value, Ref<>::share(dict), Ref<>::share(name), {}});
}

void Effects::store_cell(Value* cell, Value* value) {
  std::vector<Value*> before = cell->items;
  cell->items = value ? std::vector<Value*>{value} : std::vector<Value*>{};
  session_.undo().record(cell, [cell, before = std::move(before)] { cell->items = before; });
  if (cell->source) append({Effect::Kind::StoreCell, cell, nullptr, value, {}, {}, {}});
}

void Effects::store_item(Value* container, Value* key, Value* value) {
  append({Effect::Kind::StoreItem, container, key, value, {}, {}, {}});
}

void Effects::extend(Value* list, std::vector<Value*> items) {
  append({Effect::Kind::ListExtend, list, nullptr, nullptr, {}, {}, std::move(items)});
}

void Effects::replace(Value* list) {
  FRAMEJIT_CHECK(list->kind == ValueKind::List, "only lists are replaced");
  append({Effect::Kind::ListReplace, list, nullptr, nullptr, {}, {}, list->items});
}

void Effects::change_set(Value* set, Value* how, Value* operand) {
  append({Effect::Kind::SetChange, set, how, operand, {}, {}, {}});
}

void Effects::count_call(PyObject* cache, SourceRef hit) {
  append({Effect::Kind::CountCall, nullptr, nullptr, nullptr, Ref<>::share(cache), {}, {}, std::move(hit)});
}

void Effects::print(PyObject* function, std::vector<Value*> items, Ref<> names) {
  append(
      {Effect::Kind::Print, nullptr, nullptr, nullptr, Ref<>::share(function), std::move(names), std::move(items), {}});
}

}  // namespace framejit::capture
