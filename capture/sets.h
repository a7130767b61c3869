// Sets.
#pragma once

#include <cstdint>
#include <string>

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> make_set(Executor& x);
Ref<> element(Executor& x, Value* v);
Captured<int64_t> set_size(Executor& x, Value* set);
Captured<bool> set_add(Executor& x, Value* set, Value* item);
Captured<bool> set_update(Executor& x, Value* set, Value* iterable);
Captured<Value*> set_method(Executor& x, Value* set, const std::string& name, const Values& args);
Captured<Value*> set_binary(Executor& x, int nb, Value* left, Value* right);
Captured<Value*> set_compare(Executor& x, int op, Value* left, Value* right);
Captured<bool> set_contains(Executor& x, Value* set, Value* item);
Captured<Value*> iterate_set(Executor& x, Value* set);

}  // namespace framejit::capture
