// Operators of Python numbers.
#pragma once

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> number_binary(Executor& x, int nb, Value* left, Value* right);
Captured<Value*> number_divmod(Executor& x, Value* left, Value* right);
Captured<Value*> number_unary(Executor& x, Unary op, Value* v);
/// sum() of Python ints and floats where it compensates (3.12); null: one is no such number.
Captured<Value*> compensated_sum(Executor& x, const Values& items, Value* start);
Captured<Value*> number_compare(Executor& x, int op, Value* left, Value* right);
Captured<Value*> to_float(Executor& x, Value* v);
/// A graph value of dtype F64 for a Python number.
Captured<graph::ValueId> f64(Executor& x, Value* v);
/// int() of a float of the graph that is known at run time only.
Captured<Value*> truncated(Executor& x, graph::ValueId v);

/// Is it an exact Python number: a constant int, float, bool or complex, a symbolic int, or a run-time number?
bool is_number(const Value& v);
bool is_int_like(const Value& v);   // constant int or bool, or a Dim
graph::Dim dim_of(const Value& v);  // of an is_int_like value that fits int64
bool fits_int64(const Value& v);

}  // namespace framejit::capture
