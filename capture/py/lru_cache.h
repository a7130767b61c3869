// The wrappers of functools.lru_cache as they lie in memory: what they would answer, without calling them.
#pragma once

#include <utility>
#include <vector>

#include "capture/py/ref.h"

namespace framejit::capture {

/// Exactly functools._lru_cache_wrapper, of a layout that is known here. False for all where it is another.
bool is_lru_cache(const PyTypeObject* type);

// Of such objects only:
PyObject* lru_function(PyObject* cache);  // borrowed
/// Nothing is ever kept: each call is a miss.
bool lru_keeps_nothing(PyObject* cache);
/// What the key of a call is made of; the key itself is a tuple of these, but for a single str or int.
std::vector<HeldRef> lru_key_parts(PyObject* cache, const std::vector<Ref<>>& args,
                                   const std::vector<std::pair<Ref<>, Ref<>>>& keywords);
/// Null: no memory, without an exception.
Ref<> lru_key(const std::vector<HeldRef>& parts);
/// Borrowed from the cache, or null; nothing is counted. `cache` may be any object.
PyObject* lru_result(PyObject* cache, PyObject* key);
/// What a call that finds its result does beside giving it; nothing where it is not there any more.
void lru_count_hit(PyObject* cache, PyObject* key);
void lru_count_miss(PyObject* cache);

}  // namespace framejit::capture
