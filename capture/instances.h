// Instances of classes, and exceptions, made during capture.
#pragma once

#include <string>

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> make_instance(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords);
/// An instance of a builtin exception class that is made by its arguments alone.
Value* make_exception(Executor& x, PyObject* type, Values args);
Value* make_exception(Executor& x, PyObject* type);  // with arguments that are not known
/// The instruction raises this; a frame that catches it goes on.
Unexpected<Break> raises(Executor& x, PyObject* type, const std::string& text, std::string detail = {});
Unexpected<Break> key_error(Executor& x, Value* key);
Unexpected<Break> divides_by_zero(Executor& x);
/// The same of the error that is set, which is cleared.
Unexpected<Break> raises_current(Executor& x, std::string detail);
Captured<Value*> exception_text(Executor& x, Value* e);
Captured<Value*> call_slot(Executor& x, PyObject* wrapper, const Values& args, const Keywords& keywords);
/// The method bound to v, where the class defines it in Python, else null.
Captured<Value*> special_method(Executor& x, Value* v, PyObject* name);
/// type(v).name(v, *args) where the class defines it in Python, else null.
Captured<Value*> special(Executor& x, Value* v, PyObject* name, const Values& args);
Value* attribute(const Value* made, const std::string& name);  // or null
void set_attribute(Executor& x, Value* made, const std::string& name,
                   Value* value);  // of an instance made here; null: deletes

/// A class of a polyfill in Python, whose instances stand for those of another type.
bool is_polyfill_class(const PyTypeObject* type);
/// The class of an Object.
inline PyTypeObject* class_of(const Value& v) {
  return v.source ? Py_TYPE(v.object.get()) : reinterpret_cast<PyTypeObject*>(v.object.get());
}
/// An exception made during capture.
bool is_exception(const Value& v);

}  // namespace framejit::capture
