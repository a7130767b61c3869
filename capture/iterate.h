// Iterators.
#pragma once

#include <cstdint>

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> iterate(Executor& x, Value* iterable);
Captured<Value*> iterator_of(Executor& x, Value* v);
/// The next item, or null at the end.
Captured<Value*> next_item(Executor& x, Value* iterator);

/// How many items an iterator has yet to give, or -1 if that is not known.
int64_t rounds_left(const Value* iterator);
/// Have keys come or gone since the Iterator over a Dict was made?
bool dict_changed(const Value& iterator);

}  // namespace framejit::capture
