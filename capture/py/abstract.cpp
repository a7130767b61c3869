#include "capture/py/cpython/objects.h"

#include "capture/py/abstract.h"

#include <algorithm>
#include <unordered_set>

#include "capture/py/instance.h"

namespace framejit::capture {

namespace {

constexpr std::size_t kMostClasses = 1000;

PyObject* module_dict(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = modules ? PyDict_GetItemString(modules, name) : nullptr;
  return module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

PyObject* of_module(const char* module, const char* name) {
  PyObject* dict = module_dict(module);
  return dict ? PyDict_GetItemString(dict, name) : nullptr;
}

/// object's, which knows nothing, or one of the standard library's that look for methods.
bool is_known_hook(PyTypeObject* cls) {
  PyObject* hook = type_attr(cls, "__subclasshook__");
  if (hook == type_attr(&PyBaseObject_Type, "__subclasshook__")) return true;
  if (!hook || !Py_IS_TYPE(hook, &PyClassMethod_Type)) return false;
  const Ref<> function = Ref<>::steal(PyObject_GetAttrString(hook, "__func__"));
  if (!function) PyErr_Clear();
  PyObject* globals = function && PyFunction_Check(function.get()) ? PyFunction_GET_GLOBALS(function.get()) : nullptr;
  const char* const modules[] = {"_collections_abc", "contextlib", "os"};
  return globals && std::any_of(std::begin(modules), std::end(modules),
                                [&](const char* name) { return module_dict(name) == globals; });
}

/// Does asking this class, and all that it asks, run no code but the standard library's?
bool is_known(PyObject* cls, std::unordered_set<PyObject*>& seen) {
  if (!PyType_Check(cls) || seen.size() > kMostClasses) return false;
  if (!seen.insert(cls).second) return true;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  PyObject* check = type_attr(Py_TYPE(cls), "__subclasscheck__");
  if (check == type_attr(&PyType_Type, "__subclasscheck__")) return true;
  if (!is_abstract_check(check, "__subclasscheck__") || !is_known_hook(type)) return false;
  PyObject* dump = of_module("_abc", "_get_dump");
  const Ref<> parts = dump ? Ref<>::steal(PyObject_CallOneArg(dump, cls)) : Ref<>();
  PyObject* registry = parts && PyTuple_Check(parts.get()) ? PyTuple_GET_ITEM(parts.get(), 0) : nullptr;
  const Ref<> below =
      Ref<>::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", cls));
  for (PyObject* group : {registry, below.get()}) {
    const Ref<> each = group ? Ref<>::steal(PySequence_Tuple(group)) : Ref<>();
    if (!each) return PyErr_Clear(), false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(each.get()); ++i) {
      PyObject* one = PyTuple_GET_ITEM(each.get(), i);
      const Ref<> member = group == registry ? py::target_of(one) : Ref<>::share(one);
      if (member && !is_known(member.get(), seen)) return false;
    }
  }
  return true;
}

}  // namespace

bool is_abstract_check(PyObject* check, const char* name) {
  PyObject* meta = of_module("abc", "ABCMeta");
  return check && meta && PyType_Check(meta) && check == type_attr(reinterpret_cast<PyTypeObject*>(meta), name);
}

std::optional<bool> is_abstract_subclass(PyTypeObject* type, PyObject* cls) {
  std::unordered_set<PyObject*> seen;
  PyObject* check = of_module("_abc", "_abc_subclasscheck");
  if (!check || Py_TYPE(type)->tp_getattro != PyType_Type.tp_getattro || !is_known(cls, seen)) return std::nullopt;
  const Ref<> answer = Ref<>::steal(PyObject_CallFunctionObjArgs(check, cls, type, nullptr));
  if (!answer) PyErr_Clear();
  return answer ? std::optional<bool>(answer.get() == Py_True) : std::nullopt;
}

const unsigned long long* abstract_registrations() {
  // _abcmodule_state of 3.10 and later: a type, then this number.
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = modules ? PyDict_GetItemString(modules, "_abc") : nullptr;
  auto* state = module && PyModule_Check(module) ? static_cast<char*>(PyModule_GetState(module)) : nullptr;
  PyObject* token = state ? of_module("_abc", "get_cache_token") : nullptr;
  const Ref<> number = token ? Ref<>::steal(PyObject_CallNoArgs(token)) : Ref<>();
  if (!number) return PyErr_Clear(), nullptr;
  const auto* found = reinterpret_cast<const unsigned long long*>(state + sizeof(PyTypeObject*));
  return PyLong_AsUnsignedLongLong(number.get()) == *found ? found : nullptr;
}

}  // namespace framejit::capture
