// Effects: plain stores into objects that exist outside, collected in program order and committed once, after the
// graph.
#pragma once

#include <unordered_map>
#include <vector>

#include "capture/region.h"
#include "capture/session.h"

namespace framejit::capture {

/// An Effect over Values; RegionBuilder turns it into recipes.
struct PendingEffect {
  Effect::Kind kind;
  Value* target = nullptr;
  Value* key = nullptr;
  Value* value = nullptr;  // null: delete
  Ref<> object, name;      // StoreGlobal: dict and key; StoreAttr: name
  std::vector<Value*> items;
  SourceRef source = {};
};

/// Values keyed by a module dict and a name in it.
struct GlobalSlot {
  PyObject* dict;
  PyObject* key;
  Value* value;  // null: deleted
};

class Effects {
 public:
  explicit Effects(Session& session) : session_(session) {}

  void store_attr(Value* object, PyObject* name, Value* value);
  void store_global(PyObject* dict, PyObject* name, Value* value);
  /// Cells: `value` null deletes.
  void store_cell(Value* cell, Value* value);
  void store_item(Value* container, Value* key, Value* value);
  void extend(Value* list, std::vector<Value*> items);
  /// The list takes its present items as its contents.
  void replace(Value* list);

  /// `how`: a SetChange.
  void change_set(Value* set, Value* how, Value* operand);
  /// A call of a cached function: a hit, or (without a source) a miss.
  void count_call(PyObject* cache, SourceRef hit);
  /// A call of print(): the last items are named by a tuple, if there is one.
  void print(PyObject* function, std::vector<Value*> items, Ref<> names);

  /// A global that was looked at or stored before; null: not yet.
  const GlobalSlot* global(PyObject* dict, PyObject* name) const;
  /// Dicts in which variables were looked up or stored.
  void remember_namespace(PyObject* dict);
  const std::vector<PyObject*>& namespaces() const { return namespaces_; }
  /// Was a variable of a module, or an item of an existing dict, stored? To which dict variables were stored.
  bool stores_names() const { return name_stores_ > 0; }
  bool stores_variables_of(PyObject* dict) const;
  void remember_global(PyObject* dict, PyObject* name, Value* value);

  const std::vector<PendingEffect>& log() const { return log_; }

 private:
  void append(PendingEffect effect);
  Session& session_;
  std::vector<PendingEffect> log_;
  static std::size_t global_hash(PyObject* dict, PyObject* name);
  std::vector<GlobalSlot> globals_;
  std::unordered_multimap<std::size_t, std::size_t> global_index_;  // global_hash(): place in globals_
  std::vector<PyObject*> namespaces_, stored_namespaces_;
  uint32_t name_stores_ = 0;
};

}  // namespace framejit::capture
