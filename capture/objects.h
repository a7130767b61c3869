// Existing objects become Values, and what a guard fixes of them.
#pragma once

#include <cstdint>

#include "capture/executor.h"

namespace framejit::capture {

Value* lazy(Executor& x, PyObject* object, SourceRef source);
Value* look(Executor& x, Value* v);
Value* wrap(Executor& x, PyObject* object, SourceRef source);
/// Objects of code constants: immutable, tuples become Tuple.
Value* literal(Executor& x, PyObject* object);
/// The same of what an operation gives: another tuple each time.
Value* fresh(Executor& x, PyObject* object);
Value* cell_of(Executor& x, PyObject* cell, SourceRef source);
/// The items of an existing List, Dict under a Length or Keys guard.
Captured<bool> open(Executor& x, Value* container);
/// Everything inside is looked at: what a frontend or a recipe is given.
Captured<bool> force(Executor& x, Value* v);
/// The very object, adding an Identity guard where only its kind was guarded; null where there is none.
PyObject* known(Executor& x, Value* v);
/// The exact object of what is_plain, and of tuples of these, under Equal guards; null for others.
Ref<> plain(Executor& x, Value* v);
/// A Constant in place of a symbolic int or of a float argument, under an Equal guard; null where that is not
/// possible.
Value* specialize(Executor& x, Value* v);
Frontend* frontend_of(Executor& x, const Value& v);
Frontend* frontend_for(Executor& x, PyObject* callable);
/// type(v), borrowed; null: not known.
PyObject* type_of(Executor& x, Value* v);
void guard(Executor& x, GuardKind kind, const SourceRef& source, PyObject* object = nullptr, PyObject* key = nullptr,
           int64_t number = 0);

/// An object from outside whose last reference may be the one that goes, and code would run (capture/py/drops.h): it
/// must run before what follows.
bool may_finalize(const Value* v);
bool may_finalize(PyObject* object);
/// The same for what the stack or a local held, `local` being which one of the entered frame: what was in another one
/// is there yet, as no local gives up such an object during capture, and what has other places is held by these.
bool may_finalize_in_slot(const Value* v, int local = -1);
/// The same for what a container or cell held. One that the region made holds things from outside beside the places
/// that they have there.
bool may_finalize_in(const Value* holder, const Value* v);
/// The same for what a list held and does not hold any more.
bool may_finalize_in(const Value* list, const Values& before, const Values& after);
Unexpected<Break> finalizes();
Unexpected<Break> shared_names();

}  // namespace framejit::capture
