// Argument binding. Follows initialize_locals in CPython's ceval.c.
#include "ext/module/bind_arguments.h"

#include <algorithm>

namespace framejit::ext::module {

using capture::Ref;

namespace {

/// The slot of a keyword among those that may be given by keyword, or -1; -2 where a comparison failed.
int slot_of(PyObject* names, int first, int end, PyObject* keyword) {
  for (int i = first; i < end; ++i)
    if (PyTuple_GET_ITEM(names, i) == keyword) return i;
  if (!PyUnicode_CheckExact(keyword)) return -2;  // a str subclass compares as it likes: the interpreter's business
  for (int i = first; i < end; ++i) {
    const int equal = PyUnicode_Compare(PyTuple_GET_ITEM(names, i), keyword);
    if (equal == -1 && PyErr_Occurred()) return -2;
    if (equal == 0) return i;
  }
  return -1;
}

}  // namespace

int argument_slots(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

bool bind_arguments(PyFunctionObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                    PyObject** slots, BoundExtras& extras) {
  const auto* code = reinterpret_cast<const PyCodeObject*>(function->func_code);
  const int named = code->co_argcount + code->co_kwonlyargcount;
  std::fill(slots, slots + argument_slots(code), nullptr);

  const auto direct = static_cast<int>(std::min<Py_ssize_t>(nargs, code->co_argcount));
  std::copy(args, args + direct, slots);
  int extra = named;
  if (code->co_flags & CO_VARARGS) {
    extras.varargs = Ref<>::steal(PyTuple_New(nargs - direct));
    if (!extras.varargs) {
      PyErr_Clear();
      return false;
    }
    for (Py_ssize_t i = direct; i < nargs; ++i) PyTuple_SET_ITEM(extras.varargs.get(), i - direct, Py_NewRef(args[i]));
    slots[extra++] = extras.varargs.get();
  } else if (nargs > direct) {
    return false;
  }
  if (code->co_flags & CO_VARKEYWORDS) {
    extras.varkeywords = Ref<>::steal(PyDict_New());
    if (!extras.varkeywords) {
      PyErr_Clear();
      return false;
    }
    slots[extra] = extras.varkeywords.get();
  }

  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, k);
    PyObject* value = args[nargs + k];
    const int slot = slot_of(code->co_localsplusnames, code->co_posonlyargcount, named, keyword);
    if (slot >= 0) {
      if (slots[slot]) return false;  // given twice
      slots[slot] = value;
    } else if (slot == -1 && extras.varkeywords) {
      if (PyDict_SetItem(extras.varkeywords.get(), keyword, value) < 0) {
        PyErr_Clear();
        return false;
      }
    } else {
      PyErr_Clear();
      return false;
    }
  }

  PyObject* defaults = function->func_defaults;
  const Py_ssize_t count = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  for (int i = direct; i < code->co_argcount; ++i) {
    if (slots[i]) continue;
    const Py_ssize_t d = i - (code->co_argcount - count);
    if (d < 0) return false;
    slots[i] = PyTuple_GET_ITEM(defaults, d);
  }
  for (int i = code->co_argcount; i < named; ++i) {
    if (slots[i]) continue;
    PyObject* value = function->func_kwdefaults ? PyDict_GetItemWithError(function->func_kwdefaults,
                                                                          PyTuple_GET_ITEM(code->co_localsplusnames, i))
                                                : nullptr;
    if (!value) {
      PyErr_Clear();
      return false;
    }
    slots[i] = value;
  }
  return true;
}

}  // namespace framejit::ext::module
