// Operators, comparisons and truth, whatever the operands are.
#pragma once

#include <string>
#include <utility>

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> binary(Executor& x, int nb, Value* left, Value* right);
Captured<Value*> unary(Executor& x, Unary op, Value* v);
Captured<Value*> compare(Executor& x, int op, Value* left, Value* right);
Captured<Value*> object_binary(Executor& x, int nb, Value* left, Value* right);
Captured<Value*> object_compare(Executor& x, int op, Value* left, Value* right);
Captured<std::pair<Value*, Value*>> as_sequences(Executor& x, const std::string& name, Value* left, Value* right);
Captured<bool> truth_of(Executor& x, Value* v);
/// The truth of what is known at run time only, as a 0-d bool of the graph.
Captured<graph::ValueId> condition_of(Executor& x, Value* v);
/// bool(v) or not v.
Captured<Value*> truth_value(Executor& x, Value* v, bool negated);
Captured<bool> is_same(Executor& x, Value* left, Value* right);
Captured<bool> equal(Executor& x, Value* left, Value* right);  // as `in` and dict lookup do: identity, then ==
Captured<bool> contains(Executor& x, Value* container, Value* item);
Captured<Value*> fold(Executor& x, int nb, PyObject* left, PyObject* right);

}  // namespace framejit::capture
