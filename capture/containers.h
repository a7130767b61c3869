// Items of lists, tuples and dicts.
#pragma once

#include <cstdint>

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> get_item(Executor& x, Value* container, Value* key);
Captured<bool> set_item(Executor& x, Value* container, Value* key, Value* value);
Captured<bool> del_item(Executor& x, Value* container, Value* key);
Captured<bool> del_key(Executor& x, Value* dict, Value* key);
Captured<Value*> length(Executor& x, Value* v);
/// The length of a list that existed before the call and whose items the graph has not read. The length is guarded, or
/// it is a symbol if earlier calls had other lengths. Null for any other value.
Value* length_of_list(Executor& x, Value* list);
Captured<bool> append(Executor& x, Value* list, Value* item);
Ref<> wanted_key(Executor& x, Value* key);
/// Replaces `count` items of a List, from `at` on.
Captured<bool> replace_items(Executor& x, Value* list, std::size_t at, std::size_t count, const Values& fresh);
/// The place of a key among the items that a Dict has now, or -1.
int64_t place_of_key(Executor& x, Value* dict, PyObject* key);
/// The place of a key in a Dict's items (index of the key), or -1. Opens the dict.
Captured<int64_t> find_key(Executor& x, Value* dict, Value* key);
/// The value under a plain key of a Dict, or null; guards that key only where the dict was not opened.
Captured<Value*> dict_peek(Executor& x, Value* dict, Value* key);
Captured<Value*> missing_item(Executor& x, Value* dict, Value* key);
Captured<bool> dict_set(Executor& x, Value* dict, Value* key, Value* value);
/// Its items. `hinted`: asked for its length first, as list() and tuple() do.
Captured<Values> unpack(Executor& x, Value* iterable, bool hinted = false);
Captured<Values> unpack_fast(Executor& x, Value* iterable);
Captured<bool> extend(Executor& x, Value* list, Value* iterable);

/// An __eq__ that changed what is being searched or compared.
inline Unexpected<Break> changed_by_equality() {
  return break_at(BreakId::UnknownObject, "a list that its items' __eq__ changes");
}
/// Does a container have other items than `items`, those it had at the last question? `changes`: Session::changes()
/// then.
bool has_changed(Session& s, const Value* container, const Values& items, std::size_t& changes);
inline bool is_exact_dict(const Value* v) {
  return v->kind == ValueKind::Dict && (!v->source || PyDict_CheckExact(v->object.get()));
}

}  // namespace framejit::capture
