#include "ext/module/explained.h"

#include <structmember.h>

#include <cstddef>

#include "ext/module/module.h"

namespace framejit::ext::module {

using capture::Ref;

namespace {

PyTypeObject* the_type = nullptr;

struct Explained {
  PyObject_HEAD PyObject* function;
  PyObject* explain;
  PyObject* dict;  // the function's, with the name by which this is found
  vectorcallfunc vectorcall;
};

Explained* as_explained(PyObject* self) { return reinterpret_cast<Explained*>(self); }

/// The arguments by position, or those by keyword, as explain() takes them.
Ref<> positional(PyObject* const* args, Py_ssize_t count) {
  Ref<> tuple = Ref<>::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; tuple && i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  return tuple;
}

Ref<> by_keyword(PyObject* const* values, PyObject* names) {
  Ref<> dict = Ref<>::steal(PyDict_New());
  for (Py_ssize_t i = 0; dict && names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(names, i), values[i]) < 0) return {};
  return dict;
}

/// Replaces the current exception by what explain() returns, unless that is None or explain() raises an Exception.
void explain(const Explained* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  const Ref<> by_position = positional(args, count);
  const Ref<> named = by_keyword(args + count, names);
  const Ref<> better = by_position && named
                           ? Ref<>::steal(PyObject_CallFunctionObjArgs(self->explain, self->function, value,
                                                                       by_position.get(), named.get(), nullptr))
                           : Ref<>();
  const bool interrupted = !better && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception);
  if (!interrupted && (!better || better.get() == Py_None)) {
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return;
  }
  const Ref<> replaced[] = {Ref<>::steal(type), Ref<>::steal(value), Ref<>::steal(traceback)};
  if (better) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(better.get())), better.get());
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  PyObject* result = PyObject_Vectorcall(as_explained(self)->function, args, flags, names);
  if (!result && PyErr_ExceptionMatches(PyExc_Exception))
    explain(as_explained(self), args, PyVectorcall_NARGS(flags), names);
  return result;
}

PyObject* explained_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"function", "explain", "module", "qualname", nullptr};
  PyObject *function, *explain, *module, *qualname;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OUU:Explained", const_cast<char**>(names), &PyFunction_Type,
                                   &function, &explain, &module, &qualname))
    return nullptr;
  Ref<> self = Ref<>::steal(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  Explained* e = as_explained(self.get());
  e->function = Py_NewRef(function);
  e->explain = Py_NewRef(explain);
  e->vectorcall = vectorcall;
  PyObject* own = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  e->dict = own ? PyDict_Copy(own) : PyDict_New();
  if (!e->dict) return nullptr;
  for (const char* name : {"__name__", "__doc__", "__annotations__"}) {
    const Ref<> value = Ref<>::steal(PyObject_GetAttrString(function, name));
    if (!value || PyDict_SetItemString(e->dict, name, value.get()) < 0) return nullptr;
  }
  if (PyDict_SetItemString(e->dict, "__module__", module) < 0 ||
      PyDict_SetItemString(e->dict, "__qualname__", qualname) < 0 ||
      PyDict_SetItemString(e->dict, "__wrapped__", function) < 0)
    return nullptr;
  return self.release();
}

int explained_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_explained(self)->function);
  Py_VISIT(as_explained(self)->explain);
  Py_VISIT(as_explained(self)->dict);
  return 0;
}

int explained_clear(PyObject* self) {
  Py_CLEAR(as_explained(self)->dict);
  return 0;  // the others stay: a call that goes on needs them
}

void explained_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(as_explained(self)->dict);
  Py_CLEAR(as_explained(self)->function);
  Py_CLEAR(as_explained(self)->explain);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* explained_get(PyObject* self, PyObject* object, PyObject*) {
  return !object || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

PyObject* explained_repr(PyObject* self) { return PyObject_Repr(as_explained(self)->function); }

/// An attribute of the function's.
PyObject* forward(PyObject* self, void* name) {
  return PyObject_GetAttrString(as_explained(self)->function, static_cast<const char*>(name));
}

/// Pickled by name.
PyObject* explained_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

char kCode[] = "__code__", kDefaults[] = "__defaults__", kKwdefaults[] = "__kwdefaults__", kGlobals[] = "__globals__";
PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                        {kCode, forward, nullptr, nullptr, kCode},
                        {kDefaults, forward, nullptr, nullptr, kDefaults},
                        {kKwdefaults, forward, nullptr, nullptr, kKwdefaults},
                        {kGlobals, forward, nullptr, nullptr, kGlobals},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {{"__reduce__", explained_reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(Explained, dict), READONLY, nullptr},
                         {"__vectorcalloffset__", T_PYSSIZET, offsetof(Explained, vectorcall), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(explained_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(explained_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(explained_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(explained_clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(explained_get)},
                       {Py_tp_repr, reinterpret_cast<void*>(explained_repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {0, nullptr}};

PyType_Spec spec = {"framejit._core.Explained", sizeof(Explained), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

const ModulePart part(21, [](PyObject* module) {
  the_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return the_type && PyModule_AddObjectRef(module, "Explained", reinterpret_cast<PyObject*>(the_type)) == 0;
});

}  // namespace

PyObject* explained_function(PyObject* callable) {
  return Py_IS_TYPE(callable, the_type) ? as_explained(callable)->function : nullptr;
}

}  // namespace framejit::ext::module
