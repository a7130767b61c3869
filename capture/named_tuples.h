// Instances of classes that derive from tuple.
#pragma once

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> construct_tuple(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords);
/// tuple.__new__(*args)
Captured<Value*> make_tuple_instance(Executor& x, const Values& args);
/// An exact tuple of a tuple instance's items, where its class leaves this method to tuple; else null.
Captured<Value*> as_tuple(Executor& x, Value* v, PyObject* method);
/// What a named tuple's field holds; null: `descriptor` is none of one.
Captured<Value*> field_of(Executor& x, Value* v, PyObject* descriptor);

/// Of a Python class that derives from tuple.
bool is_tuple_class(const PyTypeObject* type);
bool is_tuple_instance(const Value& v);
PyObject* tuple_new();

}  // namespace framejit::capture
