// Attributes of objects, and globals.
#pragma once

#include <string>

#include "capture/executor.h"

namespace framejit::capture {

/// Guards that looking up the name on the class of an Object finds `raw`; null: it finds nothing.
void guard_lookup(Executor& x, const Value* v, PyObject* raw, PyObject* name);
/// Guards that attributes are looked up on the same classes in the same order: `__bases__` can be assigned.
void guard_mro(Executor& x, PyTypeObject* type);
/// With `self`: a method found on the type is given unbound, *self is then v (else null).
Captured<Value*> get_attr(Executor& x, Value* v, PyObject* name, Value** self = nullptr);
/// A C method of an exact builtin or array type.
bool has_method(Executor& x, Value* v, PyObject* name);
/// A method or property of an array's type that is written in Python, under a guard. Borrowed.
PyObject* python_member(Executor& x, Value* v, PyObject* name);
/// Is there such an attribute? Both answers are guarded.
Captured<bool> has_attr(Executor& x, Value* v, PyObject* name);
/// `value` null: deletes.
Captured<bool> set_attr(Executor& x, Value* v, PyObject* name, Value* value);
/// As object.__setattr__ does: what __setattr__ of the class says does not count.
Captured<bool> set_attr_generic(Executor& x, Value* v, PyObject* name, Value* value);
Captured<Value*> load_global(Executor& x, PyObject* globals, PyObject* builtins, PyObject* name);
/// `module`: what its text has in front, for a variable of another module.
Captured<Value*> global_item(Executor& x, PyObject* dict, PyObject* name, const std::string& module = {});
/// `value` null: deletes.
Captured<bool> store_global(Executor& x, PyObject* dict, PyObject* name, Value* value);
/// Does storing the attribute set a member of the instance and nothing else? Guarded.
bool stores_plainly(Executor& x, Value* v, PyObject* name);
/// Does reading it find a member of the instance or of its class, and run nothing? Not guarded.
bool reads_plainly(const Value* v, PyObject* name);
Captured<bool> may_store_in(Executor& x, PyObject* dict);
Value* function_at(Executor& x, PyObject* function, const std::string& shown);

SourceRef attr_source(const SourceRef& base, PyObject* name);
/// An object whose identity a guard has fixed; `expression` is for printing.
SourceRef fixed_source(PyObject* object, std::string expression);
/// Interned for the life of the process: function-local names only.
PyObject* interned(const char* text);

}  // namespace framejit::capture
