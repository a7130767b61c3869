// functools.lru_cache: the layout of Modules/_functoolsmodule.c in CPython 3.11. Where it is another, nothing is known.
#include "capture/py/lru_cache.h"

namespace framejit::capture {

namespace {

struct Link {
  PyObject_HEAD Link *prev, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};

struct Cache {
  Link root;  // of a ring, oldest use first
  ternaryfunc wrapper;
  int typed;
  PyObject* cache;  // dict: key to Link, or to the result where the size has no bound
  Py_ssize_t hits;
  PyObject* func;
  Py_ssize_t maxsize;  // -1: no bound
  Py_ssize_t misses;
  PyObject* kwd_mark;
  PyTypeObject* link_type;
  PyObject *info_type, *dict, *weakrefs;
};

Cache* as_cache(PyObject* object) { return reinterpret_cast<Cache*>(object); }

/// Does a wrapper of ours show what was put in where it is expected?
bool layout_fits(PyTypeObject* type) {
  if (type->tp_basicsize != sizeof(Cache)) return false;
  Ref<> builtins = Ref<>::steal(PyImport_ImportModule("builtins"));
  Ref<> length = builtins ? Ref<>::steal(PyObject_GetAttrString(builtins.get(), "len")) : Ref<>();
  Ref<> text = Ref<>::steal(PyUnicode_FromString("three"));
  Ref<> made = length ? Ref<>::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(type), "OiOO", length.get(), 7,
                                                           Py_True, length.get()))
                      : Ref<>();
  Ref<> five = made && text ? Ref<>::steal(PyObject_CallOneArg(made.get(), text.get())) : Ref<>();
  if (!five) return false;
  const Cache* c = as_cache(made.get());
  if (c->func != length.get() || c->maxsize != 7 || c->typed != 1 || c->hits != 0 || c->misses != 1) return false;
  if (!c->cache || !PyDict_CheckExact(c->cache) || PyDict_GET_SIZE(c->cache) != 1 || !c->kwd_mark) return false;
  PyObject *key, *link;
  Py_ssize_t at = 0;
  PyDict_Next(c->cache, &at, &key, &link);
  if (Py_TYPE(link) != c->link_type || c->link_type->tp_basicsize != sizeof(Link)) return false;
  const auto* only = reinterpret_cast<Link*>(link);
  return only->key == key && only->result == five.get() && only->next == &c->root && c->root.prev == only;
}

PyTypeObject* cache_type() {
  static PyTypeObject* const found = [] {
    PyObject* module =
        PyImport_GetModuleDict() ? PyDict_GetItemString(PyImport_GetModuleDict(), "_functools") : nullptr;
    PyObject* type = module && PyModule_Check(module)
                         ? PyDict_GetItemString(PyModule_GetDict(module), "_lru_cache_wrapper")
                         : nullptr;
    const bool fits = type && PyType_Check(type) && layout_fits(reinterpret_cast<PyTypeObject*>(type));
    if (PyErr_Occurred()) PyErr_Clear();
    return fits ? reinterpret_cast<PyTypeObject*>(Py_NewRef(type)) : nullptr;
  }();
  return found;
}

/// Borrowed: a Link, or a result.
PyObject* entry_of(const Cache* c, PyObject* key) {
  PyObject* found = PyDict_GetItemWithError(c->cache, key);
  if (!found && PyErr_Occurred()) PyErr_Clear();
  return found;
}

}  // namespace

bool is_lru_cache(const PyTypeObject* type) { return cache_type() && type == cache_type(); }

PyObject* lru_function(PyObject* cache) { return as_cache(cache)->func; }

bool lru_keeps_nothing(PyObject* cache) { return as_cache(cache)->maxsize == 0; }

std::vector<HeldRef> lru_key_parts(PyObject* cache, const std::vector<Ref<>>& args,
                                   const std::vector<std::pair<Ref<>, Ref<>>>& keywords) {
  const Cache* c = as_cache(cache);
  std::vector<HeldRef> parts(args.begin(), args.end());
  if (!keywords.empty()) parts.push_back(Ref<>::share(c->kwd_mark));
  for (const auto& [name, value] : keywords) {
    parts.push_back(name);
    parts.push_back(value);
  }
  auto add_type = [&parts](const Ref<>& value) {
    parts.push_back(Ref<>::share(reinterpret_cast<PyObject*>(Py_TYPE(value.get()))));
  };
  if (c->typed) {
    for (const Ref<>& arg : args) add_type(arg);
    for (const auto& [name, value] : keywords) add_type(value);
  }
  return parts;
}

Ref<> lru_key(const std::vector<HeldRef>& parts) {
  if (parts.size() == 1 && (PyUnicode_CheckExact(parts[0].get()) || PyLong_CheckExact(parts[0].get())))
    return Ref<>::share(parts[0].get());
  Ref<> key = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  if (!key) PyErr_Clear();
  for (std::size_t i = 0; key && i < parts.size(); ++i)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Py_NewRef(parts[i].get()));
  return key;
}

PyObject* lru_result(PyObject* cache, PyObject* key) {
  if (!cache || !is_lru_cache(Py_TYPE(cache))) return nullptr;
  const Cache* c = as_cache(cache);
  PyObject* found = c->maxsize == 0 ? nullptr : entry_of(c, key);
  return found && c->maxsize > 0 ? reinterpret_cast<Link*>(found)->result : found;
}

void lru_count_hit(PyObject* cache, PyObject* key) {
  Cache* c = as_cache(cache);
  PyObject* found = entry_of(c, key);
  if (!found) return;
  ++c->hits;
  if (c->maxsize < 0) return;
  auto* link = reinterpret_cast<Link*>(found);
  link->prev->next = link->next;
  link->next->prev = link->prev;
  Link* last = c->root.prev;
  last->next = c->root.prev = link;
  link->prev = last;
  link->next = &c->root;
}

void lru_count_miss(PyObject* cache) { ++as_cache(cache)->misses; }

}  // namespace framejit::capture
