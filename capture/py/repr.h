// Printing and comparing exact builtin objects. None of these runs user code: other objects are shown by type and name
// only.
#pragma once

#include <string>

#include "capture/py/ref.h"

namespace framejit::capture {

/// The text of an exact str, else its short_repr.
std::string text_of(PyObject* object);
/// repr() of numbers, strings and tuples of these, cut to a line; "<function f>", "<class C>", "<T object>" of others,
/// and "<T 'name'>" of callables of C that have a name.
std::string short_repr(PyObject* object);
/// Exact int, float, complex, bool, str, bytes, None, Ellipsis, NotImplemented, or a tuple or frozenset of these.
bool is_plain(PyObject* object);
/// What has neither hash nor equality of its own that runs code: plain objects, classes of no metaclass, tuples of
/// these.
bool is_plain_key(PyObject* object);
/// int | float
bool is_union(PyObject* object);
/// Equal in type and value (floats by bits), for plain objects; identical, for others. Null equals null.
bool same_plain(PyObject* a, PyObject* b);
/// Keys of sources and guards: identical, or equal plain objects.
bool same_key(PyObject* a, PyObject* b);
/// Equal for keys that are the same. 0 for all but exact str and int: other keys are few.
std::size_t key_hash(PyObject* key);
/// May a plain object differ from itself, or have such an item?
bool has_nan(PyObject* plain);
/// Is there an int in this plain object for whose text sys.set_int_max_str_digits() has a say?
bool has_long_int(PyObject* plain);

}  // namespace framejit::capture
