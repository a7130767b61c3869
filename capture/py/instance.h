// Looking into instances and types without running user code and without leaving a trace on the object.
#pragma once

#include "capture/py/ref.h"

namespace framejit::capture {

/// What the instance's own dict holds under an exact str (borrowed), or null. Does not make the dict of an instance
/// that keeps its attributes inline, which would slow the object down from then on.
PyObject* instance_attr(PyObject* object, PyObject* name);
/// The same. Instances of a class mostly have an attribute at the same position: looked at first, and set.
PyObject* instance_attr(PyObject* object, PyObject* name, Py_ssize_t& position);
/// Does nobody else hold the dict of the instance's attributes? Otherwise another object may have the same attributes.
bool has_own_dict(PyObject* object);
/// A method of a builtin container or str, bound in C (append = list.append of a list): the descriptor of its class,
/// borrowed. Null for others.
PyObject* descriptor_of_builtin(PyObject* method);
/// collections.defaultdict, no subclass: a dict but for what it does about missing keys, and for what copies of it are.
bool is_defaultdict(PyObject* object);
/// An exact dict, or a defaultdict.
inline bool is_known_dict(PyObject* object) { return PyDict_CheckExact(object) || is_defaultdict(object); }
/// __doc__ and __module__ of a function, members until 3.13 and got by code since: what the function holds (borrowed).
/// Null for other names.
PyObject* text_of_function(PyObject* function, PyObject* name);
/// Can the instance hold attributes of its own?
bool has_instance_dict(PyTypeObject* type);
/// The dict that holds the attributes of a type.
Ref<> type_dict(PyTypeObject* type);
/// What the type's own dict holds under the name (borrowed), or null.
PyObject* own_attr(PyTypeObject* type, PyObject* name);
/// Has a class on the type's MRO a name that is no str? Looking up another one may ask it whether the two are equal.
bool has_odd_names(PyTypeObject* type);
/// The raw object on the type's MRO (borrowed), or null.
PyObject* type_attr(PyTypeObject* type, PyObject* name);
PyObject* type_attr(PyTypeObject* type, const char* name);

}  // namespace framejit::capture
