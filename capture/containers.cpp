// Tuples, lists and dicts: items, stores, lengths. Stores into existing ones are effects, visible to later loads.
#include "capture/containers.h"

#include <algorithm>

#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/named_tuples.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/sets.h"

namespace framejit::capture {

namespace {

Captured<bool> length_hint(Executor& x, Value* v);

constexpr int64_t kArrayRows = 64;  // of an array that is unpacked

// The very object that becomes a dict's key: of which nothing but what it is decides about hash and equality. Null for
// others.
PyObject* plain_key(const Value* v) {
  PyObject* o = v->is_constant() || (v->kind == ValueKind::Tuple && !v->source) ? v->object.get() : nullptr;
  return o && is_plain_key(o) ? o : nullptr;
}

bool equal_keys(PyObject* a, PyObject* b) {
  if (a == b) return true;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);  // plain objects
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

// Do lookups in this existing dict run no code? Nothing changes it during capture.
bool has_plain_keys(Value* dict) {
  if (!dict->as_dict().key_index) dict->as_dict().key_index = std::make_unique<KeyIndex>();
  if (dict->as_dict().key_index->all_plain) return true;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict->object.get(), &at, &key, &value))
    if (!is_plain_key(key)) return false;
  dict->as_dict().key_index->all_plain = true;
  return true;
}

// Bounds of a slice over `size` items; all parts are known.
struct Bounds {
  Py_ssize_t start, step, count;
};
Captured<Bounds> bounds_of(Executor& x, Value* slice, Py_ssize_t size) {
  PyObject* parts[3];
  Ref<> owned[3];
  for (int i = 0; i < 3; ++i) {
    Value* part = look(x, slice->items[static_cast<std::size_t>(i)]);
    if (!part->is_none() && !is_int_like(*part))
      return break_at(BreakId::UnsupportedArgument, "a slice whose bound is not an int");
    owned[i] = specialize(x, part)->object;
    parts[i] = owned[i].get();
  }
  Ref<> object = Ref<>::steal(PySlice_New(parts[0], parts[1], parts[2]));
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (!object || PySlice_Unpack(object.get(), &start, &stop, &step) < 0) {
    PyErr_Clear();
    return break_at(BreakId::WouldRaise, "a slice with these bounds");
  }
  const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
  return Bounds{start, step, count};
}

// The place of an index in `size` items.
Captured<std::size_t> place_of(Executor& x, Value* key, std::size_t size, const char* what) {
  if (!is_int_like(*key)) return break_at(BreakId::UnsupportedArgument, "an index that is not an int");
  Value* known = specialize(x, key);
  if (!fits_int64(*known)) return break_at(BreakId::WouldRaise, what);
  int64_t at = dim_of(*known).value();
  if (at < 0) at += static_cast<int64_t>(size);
  if (at < 0 || at >= static_cast<int64_t>(size)) return raises(x, PyExc_IndexError, what);
  return static_cast<std::size_t>(at);
}

void set_items(Session& s, Value* v, Values items) {
  s.work().spend(items.size());
  Values before = std::move(v->items);
  v->items = std::move(items);
  s.undo().record(v, [v, before = std::move(before)] { v->items = before; });
}

}  // namespace

bool has_changed(Session& s, const Value* container, const Values& items, std::size_t& changes) {
  if (s.undo().changes() == changes) return false;
  changes = s.undo().changes();
  s.work().spend(items.size());
  return container->items != items;
}

Captured<bool> replace_items(Executor& x, Value* list, std::size_t at, std::size_t count, const Values& fresh) {
  Values& items = list->items;
  x.session().work().spend(items.size() - at + fresh.size());
  const auto first = items.begin() + static_cast<std::ptrdiff_t>(at), last = first + static_cast<std::ptrdiff_t>(count);
  const Values gone(first, last);
  for (const Value* v : gone) {
    const auto is_it = [v](const Value* other) { return other == v; };
    if (may_finalize_in(list, v) && std::none_of(items.begin(), first, is_it) &&
        std::none_of(last, items.end(), is_it) && std::none_of(fresh.begin(), fresh.end(), is_it))
      return finalizes();
  }
  const auto replace = [list, at](std::size_t old, const Values& with) {
    const auto from = list->items.begin() + static_cast<std::ptrdiff_t>(at);
    list->items.insert(list->items.erase(from, from + static_cast<std::ptrdiff_t>(old)), with.begin(), with.end());
  };
  replace(count, fresh);
  x.session().undo().record(list, [replace, gone, now = fresh.size()] { replace(now, gone); });
  if (list->source) {
    x.session().work().spend(items.size());
    x.effects().replace(list);
  }
  return true;
}

Captured<Value*> get_item(Executor& x, Value* container, Value* key) {
  static PyObject* const kGetItem = interned("__getitem__");
  if (Frontend* frontend = frontend_of(x, *container)) {
    switch (key->kind) {
      case ValueKind::Object:
      case ValueKind::Function:
      case ValueKind::BoundMethod:
      case ValueKind::Iterator:
      case ValueKind::Dict: return break_at(BreakId::UnknownObject, "index of an array");
      default: break;
    }
    FRAMEJIT_REQUIRE(force(x, key));
    return frontend->get_item(x.session(), container, key);
  }
  switch (container->kind) {
    case ValueKind::Tuple:
    case ValueKind::List: {
      FRAMEJIT_REQUIRE(open(x, container));
      if (key->kind == ValueKind::Slice) {
        FRAMEJIT_TRY(b, bounds_of(x, key, static_cast<Py_ssize_t>(container->items.size())));
        if (container->kind == ValueKind::Tuple && b.step == 1 &&
            b.count == static_cast<Py_ssize_t>(container->items.size()))
          return container;  // the very object
        Value* part = x.values().make(container->kind);
        for (Py_ssize_t i = 0; i < b.count; ++i)
          part->items.push_back(container->items[static_cast<std::size_t>(b.start + i * b.step)]);
        return part;
      }
      const bool tuple = container->kind == ValueKind::Tuple;
      FRAMEJIT_TRY(at, place_of(x, key, container->items.size(),
                                tuple ? "tuple index out of range" : "list index out of range"));
      return look(x, container->items[at]);
    }
    case ValueKind::Dict: {
      FRAMEJIT_TRY(found, dict_peek(x, container, key));
      if (!found) return missing_item(x, container, key);
      return look(x, found);
    }
    case ValueKind::Range: {
      FRAMEJIT_TRY(items, unpack(x, container));
      FRAMEJIT_TRY(at, place_of(x, key, items.size(), "range object index out of range"));
      return items[at];
    }
    case ValueKind::Constant: {
      PyObject* o = container->object.get();
      FRAMEJIT_TRY(of_class, special(x, container, kGetItem, {key}));
      if (of_class) return look(x, of_class);
      if (!PyUnicode_CheckExact(o) && !PyBytes_CheckExact(o)) break;
      Ref<> known_key = plain(x, key);
      if (key->kind == ValueKind::Slice) {
        Ref<> parts[3];
        for (std::size_t i = 0; i < 3; ++i) parts[i] = plain(x, key->items[i]);
        if (!parts[0] || !parts[1] || !parts[2]) break;
        known_key = Ref<>::steal(PySlice_New(parts[0].get(), parts[1].get(), parts[2].get()));
      }
      if (!known_key) break;
      Ref<> item = Ref<>::steal(PyObject_GetItem(o, known_key.get()));
      return item ? Captured<Value*>(x.values().constant(item.get())) : raises_current(x, "index");
    }
    case ValueKind::Object: {
      FRAMEJIT_TRY(item, special(x, container, kGetItem, {key}));
      if (item) return look(x, item);
      FRAMEJIT_TRY(tuple, as_tuple(x, container, kGetItem));
      if (tuple) return get_item(x, tuple, key);
      break;
    }
    default: break;
  }
  PyObject* type = type_of(x, container);
  return break_at(BreakId::UnknownObject,
                  (type ? std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) : "object") + "[...]");
}

Captured<bool> set_item(Executor& x, Value* container, Value* key, Value* value) {
  if (Frontend* frontend = frontend_of(x, *container)) {
    value = look(x, value);
    for (Value* v : {key, value}) {
      switch (v->kind) {
        case ValueKind::Object:
        case ValueKind::Function:
        case ValueKind::BoundMethod:
        case ValueKind::Iterator:
        case ValueKind::Dict: return break_at(BreakId::UnknownObject, "store into an array");
        default: break;
      }
      FRAMEJIT_REQUIRE(force(x, v));
    }
    return frontend->set_item(x.session(), container, key, value);
  }
  if (container->kind == ValueKind::Dict) return dict_set(x, container, key, value);
  if (container->kind == ValueKind::Object) {
    static PyObject* const kSetItem = interned("__setitem__");
    FRAMEJIT_TRY(done, special(x, container, kSetItem, {key, value}));
    if (done) return true;
  }
  if (container->kind != ValueKind::List) return break_at(BreakId::UserEffect, "store into an item");
  FRAMEJIT_REQUIRE(open(x, container));
  if (key->kind == ValueKind::Slice) {
    FRAMEJIT_TRY(fresh, unpack_fast(x, look(x, value)));  // before the bounds are taken: it may be the list itself
    FRAMEJIT_TRY(b, bounds_of(x, key, static_cast<Py_ssize_t>(container->items.size())));
    if (b.step == 1)
      return replace_items(x, container, static_cast<std::size_t>(b.start), static_cast<std::size_t>(b.count), fresh);
    if (static_cast<Py_ssize_t>(fresh.size()) != b.count)
      return break_at(BreakId::WouldRaise, "an extended slice of another size");
    Values items = container->items;
    for (Py_ssize_t i = 0; i < b.count; ++i)
      items[static_cast<std::size_t>(b.start + i * b.step)] = fresh[static_cast<std::size_t>(i)];
    if (may_finalize_in(container, container->items, items)) return finalizes();
    set_items(x.session(), container, std::move(items));
    if (container->source) x.effects().replace(container);
    return true;
  }
  FRAMEJIT_TRY(at, place_of(x, key, container->items.size(), "list assignment index out of range"));
  Value* before = container->items[at];
  if (may_finalize_in(container, before)) return finalizes();
  container->items[at] = value;
  x.session().undo().record(container, [container, at, before] { container->items[at] = before; });
  if (container->source)
    x.effects().store_item(container, x.values().integer(graph::Dim(static_cast<int64_t>(at))), value);
  return true;
}

Captured<bool> del_item(Executor& x, Value* container, Value* key) {
  Values items;
  if (container->kind == ValueKind::Object) {
    static PyObject* const kDelItem = interned("__delitem__");
    FRAMEJIT_TRY(done, special(x, container, kDelItem, {key}));
    if (done) return true;
  }
  if (container->kind == ValueKind::Dict) return del_key(x, container, key);
  if (container->kind == ValueKind::List && key->kind != ValueKind::Slice) {
    FRAMEJIT_REQUIRE(open(x, container));
    FRAMEJIT_TRY(at, place_of(x, key, container->items.size(), "list assignment index out of range"));
    return replace_items(x, container, at, 1, {});
  }
  if (container->kind == ValueKind::List) {
    FRAMEJIT_REQUIRE(open(x, container));
    FRAMEJIT_TRY(b, bounds_of(x, key, static_cast<Py_ssize_t>(container->items.size())));
    std::vector<bool> gone(container->items.size());
    for (Py_ssize_t i = 0; i < b.count; ++i) gone[static_cast<std::size_t>(b.start + i * b.step)] = true;
    for (std::size_t i = 0; i < gone.size(); ++i)
      if (!gone[i]) items.push_back(container->items[i]);
    if (may_finalize_in(container, container->items, items)) return finalizes();
  } else {
    return break_at(BreakId::UserEffect, "deletion of an item");
  }
  set_items(x.session(), container, std::move(items));
  if (container->source) x.effects().replace(container);
  return true;
}

Captured<bool> del_key(Executor& x, Value* dict, Value* key) {
  FRAMEJIT_TRY(at, find_key(x, dict, key));
  if (at < 0) return key_error(x, key);
  const auto pair = dict->items.begin() + at;
  Value* const held_key = *pair;
  Value* const held = *(pair + 1);
  if (may_finalize_in(dict, held)) return finalizes();
  if (dict->source) {
    FRAMEJIT_REQUIRE(may_store_in(x, dict->object.get()));
  }
  dict->items.erase(pair, pair + 2);
  if (dict->as_dict().key_index && dict->as_dict().key_index->covered > 0)
    --dict->as_dict().key_index->covered;  // all were covered by the lookup
  ++dict->as_dict().deleted;
  x.session().undo().record(dict, [dict, at, held_key, held] {
    dict->items.insert(dict->items.begin() + at, {held_key, held});
    dict->forget_keys();
    --dict->as_dict().deleted;
  });
  if (dict->source) x.effects().store_item(dict, x.values().constant(wanted_key(x, key).get()), nullptr);
  return true;
}

Value* length_of_list(Executor& x, Value* list) {
  if (list->kind != ValueKind::List || !list->partial) return nullptr;
  auto* type = reinterpret_cast<PyObject*>(&PyList_Type);
  const Py_ssize_t now = PyList_GET_SIZE(list->object.get());
  graph::Dim before(now);
  if (x.session().varied().names.count("len(" + list->source->str() + ")") == 0) {
    guard(x, GuardKind::Length, list->source, type, nullptr, now);
  } else {
    before = x.shapes().fresh(now);
    Guard g{};
    g.kind = GuardKind::IntSymbol;
    g.source = list->source;
    g.object = Ref<>::share(type);
    g.dim.left = before;
    x.session().guards().add(std::move(g));
  }
  return x.values().integer(before + graph::Dim(static_cast<int64_t>(list->items.size())));
}

Captured<Value*> length(Executor& x, Value* v) {
  if (Frontend* frontend = frontend_of(x, *v)) return frontend->length(x.session(), v);
  static PyObject* const kLen = interned("__len__");
  const auto by_method = [&]() -> Captured<Value*> {
    FRAMEJIT_TRY(answer, special(x, v, kLen, {}));
    answer = look(x, answer);
    if (answer && is_int_like(*answer) && (!answer->is_constant() || PyLong_CheckExact(answer->object.get())) &&
        x.shapes().holds(graph::Relation::Le, graph::Dim(0), dim_of(*answer)))
      return answer;
    return break_at(BreakId::UnknownObject, "len()");
  };
  if (Value* n = length_of_list(x, v)) return n;
  int64_t n = 0;
  switch (v->kind) {
    case ValueKind::Tuple:
    case ValueKind::List:
    case ValueKind::Dict: {
      FRAMEJIT_REQUIRE(open(x, v));
      n = static_cast<int64_t>(v->items.size() / (v->kind == ValueKind::Dict ? 2 : 1));
      break;
    }
    case ValueKind::Range: {
      FRAMEJIT_TRY(items, unpack(x, v));
      n = static_cast<int64_t>(items.size());
      break;
    }
    case ValueKind::Set: {
      FRAMEJIT_TRY(size, set_size(x, v));
      n = size;
      break;
    }
    case ValueKind::Object: {
      FRAMEJIT_TRY(tuple, as_tuple(x, v, kLen));
      if (tuple) return length(x, tuple);
      return by_method();
    }
    case ValueKind::Iterator:
      if (v->as_iterator().position != kView) return break_at(BreakId::WouldRaise, "len() of an iterator");
      return length(x, v->items[0]);
    case ValueKind::Constant:
      if (PyUnicode_CheckExact(v->object.get()) || PyBytes_CheckExact(v->object.get())) {
        n = PyObject_Size(v->object.get());
        break;
      }
      if (PyFrozenSet_CheckExact(v->object.get())) {
        n = PySet_GET_SIZE(v->object.get());
        break;
      }
      if (PyType_Check(v->object.get())) return by_method();
      if (!PyLong_CheckExact(v->object.get()) && !PyFloat_CheckExact(v->object.get()) && !v->is_none())
        return break_at(BreakId::UnknownObject, "len()");
      return raises(x, PyExc_TypeError,
                    std::string("object of type '") + Py_TYPE(v->object.get())->tp_name + "' has no len()");
    case ValueKind::Int: return raises(x, PyExc_TypeError, "object of type 'int' has no len()");
    default: return break_at(BreakId::UnknownObject, "len()");
  }
  return x.values().integer(graph::Dim(n));
}

Captured<bool> append(Executor& x, Value* list, Value* item) {
  if (list->kind != ValueKind::List) return break_at(BreakId::UnknownObject, "append to an object that is not a list");
  list->items.push_back(item);
  x.session().undo().record(list, [list] { list->items.pop_back(); });
  if (list->source) x.effects().extend(list, {item});
  return true;
}

// A key to look for, which may be made of what is known.
Ref<> wanted_key(Executor& x, Value* key) {
  key = look(x, key);
  if (PyObject* k = plain_key(key)) return Ref<>::share(k);
  if (key->kind != ValueKind::Tuple) return plain(x, key);
  const auto count = static_cast<Py_ssize_t>(key->items.size());
  Ref<> tuple = Ref<>::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    Ref<> item = wanted_key(x, key->items[static_cast<std::size_t>(i)]);
    if (!item) return {};
    PyTuple_SET_ITEM(tuple.get(), i, item.release());
  }
  if (!tuple) PyErr_Clear();
  return tuple;
}

Captured<Value*> dict_peek(Executor& x, Value* dict, Value* key) {
  PyObject* k = plain_key(key);
  const bool simple =
      k && (PyUnicode_CheckExact(k) || PyLong_CheckExact(k) || PyBytes_CheckExact(k) || PyType_Check(k));
  if (!dict->partial || !simple) {
    FRAMEJIT_TRY(at, find_key(x, dict, key));
    return at < 0 ? nullptr : dict->items[static_cast<std::size_t>(at) + 1];
  }
  if (const int64_t at = place_of_key(x, dict, k); at >= 0) return dict->items[static_cast<std::size_t>(at) + 1];
  if (is_defaultdict(dict->object.get()) && x.options().variants >= kMostVariants)
    return break_at(BreakId::UnknownObject, "a defaultdict that varies");
  if (!has_plain_keys(dict)) return break_at(BreakId::UnknownObject, "a dict with keys of unknown behaviour");
  PyObject* found = PyDict_GetItemWithError(dict->object.get(), k);
  if (!found) {
    PyErr_Clear();
    guard(x, GuardKind::HasNot, dict->source, nullptr, k, 1);
    return static_cast<Value*>(nullptr);
  }
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Item;
  source->base = dict->source;
  source->key = Ref<>::share(k);
  Value* value = look(x, lazy(x, found, source));  // its guard says that the key is there
  dict->items.push_back(x.values().constant(k));
  dict->items.push_back(value);
  x.session().undo().learn([dict] { dict->drop_last_pair(); });
  return value;
}

/// What a dict gives for a key that it does not have: of a defaultdict what its factory makes, stored under the key.
Captured<Value*> missing_item(Executor& x, Value* dict, Value* key) {
  if (!dict->source || !is_defaultdict(dict->object.get())) return key_error(x, key);
  static PyObject* const kFactory = interned("default_factory");
  const Ref<> object = Ref<>::steal(PyObject_GetAttr(dict->object.get(), kFactory));
  if (!object) PyErr_Clear();
  if (!object) return break_at(BreakId::UnknownObject, "a defaultdict");
  Value* factory = look(x, lazy(x, object.get(), attr_source(dict->source, kFactory)));
  if (factory->is_none()) return key_error(x, key);
  FRAMEJIT_TRY(made, call(x, factory, {}, {}));
  FRAMEJIT_TRY(at, find_key(x, dict, key));
  if (at >= 0) return break_at(BreakId::UnknownObject, "a default_factory that sets the key itself");
  FRAMEJIT_REQUIRE(dict_set(x, dict, key, made));
  return look(x, made);
}

Captured<int64_t> find_key(Executor& x, Value* dict, Value* key) {
  const Ref<> k = dict->kind == ValueKind::Dict ? wanted_key(x, key) : Ref<>();
  if (!k) return break_at(BreakId::UnknownObject, "key of a dict");
  FRAMEJIT_REQUIRE(open(x, dict));
  return place_of_key(x, dict, k.get());
}

int64_t place_of_key(Executor& x, Value* dict, PyObject* key) {
  constexpr std::size_t kFew = 8;
  const Values& items = dict->items;
  const std::size_t count = items.size() / 2;
  /// The pair with the key among the first `end`, from behind.
  const auto search = [&](std::size_t end) {
    while (end-- > 0)
      if (equal_keys(items[2 * end]->object.get(), key)) return static_cast<int64_t>(2 * end);
    return int64_t{-1};
  };
  if (count <= kFew) return search(count);
  if (!dict->as_dict().key_index) dict->as_dict().key_index = std::make_unique<KeyIndex>();
  KeyIndex& index = *dict->as_dict().key_index;
  if (!index.places) index.places = Ref<>::steal(PyDict_New());
  for (; index.places && index.covered < count; ++index.covered) {
    const Ref<> place = Ref<>::steal(PyLong_FromSize_t(index.covered));
    if (!place || PyDict_SetItem(index.places.get(), items[2 * index.covered]->object.get(), place.get()) < 0) {
      index.places = {};
      index.covered = 0;
    }
  }
  PyObject* place = index.places ? PyDict_GetItemWithError(index.places.get(), key) : nullptr;
  if (PyErr_Occurred() || !index.places) {
    PyErr_Clear();
    x.session().work().spend(count);
    return search(count);
  }
  return place ? search(std::min(count, PyLong_AsSize_t(place) + 1)) : -1;
}

Captured<bool> dict_set(Executor& x, Value* dict, Value* key, Value* value) {
  FRAMEJIT_TRY(at, find_key(x, dict, key));
  if (dict->source) {
    FRAMEJIT_REQUIRE(may_store_in(x, dict->object.get()));
  }
  if (at < 0 && !plain_key(key)) return break_at(BreakId::UnknownObject, "key of a dict");
  Value* k = at < 0 ? x.values().constant(plain_key(key)) : dict->items[static_cast<std::size_t>(at)];
  if (at >= 0) {
    const auto place = static_cast<std::size_t>(at) + 1;
    Value* before = dict->items[place];
    if (may_finalize_in(dict, before)) return finalizes();
    dict->items[place] = value;
    x.session().undo().record(dict, [dict, place, before] { dict->items[place] = before; });
  } else {
    dict->items.push_back(k);
    dict->items.push_back(value);
    x.session().undo().record(dict, [dict] { dict->drop_last_pair(); });
  }
  if (dict->source) x.effects().store_item(dict, k, value);
  return true;
}

namespace {

/// What an object says of its length when a list of it is made: __len__, or __length_hint__, whose answer changes
/// nothing.
Captured<bool> length_hint(Executor& x, Value* v) {
  if (v->kind != ValueKind::Object) return true;
  FRAMEJIT_TRY(tuple, as_tuple(x, v, interned("__len__")));
  if (tuple) return true;
  static PyObject* const kNames[] = {interned("__len__"), interned("__length_hint__")};
  for (PyObject* name : kNames) {
    FRAMEJIT_TRY(answer, special(x, v, name, {}));
    if (!answer && type_attr(class_of(*v), name)) return break_at(BreakId::UnknownObject, text_of(name));
    if (!answer) {
      guard_lookup(x, v, nullptr, name);
      continue;
    }
    answer = look(x, answer);
    if (!answer->is_constant() || !is_int_like(*answer)) return break_at(BreakId::UnknownObject, text_of(name));
    return true;
  }
  return true;
}

}  // namespace

/// list.extend(): an iterator's items are appended one by one, so that it sees the list grow.
Captured<bool> extend(Executor& x, Value* list, Value* iterable) {
  if (iterable->kind != ValueKind::Iterator && iterable->kind != ValueKind::Object) {
    FRAMEJIT_TRY(items, unpack(x, iterable));
    for (Value* item : items) {
      FRAMEJIT_REQUIRE(append(x, list, item));
    }
    return true;
  }
  FRAMEJIT_TRY(iterator, iterate(x, iterable));
  FRAMEJIT_REQUIRE(length_hint(x, iterable));
  for (int count = 0;; ++count) {
    if (count > 10000) return break_at(BreakId::CapturedTooMuch, "a long sequence");
    FRAMEJIT_TRY(item, next_item(x, iterator));
    if (!item) return true;
    FRAMEJIT_REQUIRE(append(x, list, item));
  }
}

/// As PySequence_Fast does: a list is made of the iterator.
Captured<Values> unpack_fast(Executor& x, Value* v) {
  if (v->kind != ValueKind::Object) return unpack(x, v);
  FRAMEJIT_TRY(iterator, iterate(x, v));
  return unpack(x, iterator, true);
}

Captured<Values> unpack(Executor& x, Value* v, bool hinted) {
  switch (v->kind) {
    case ValueKind::Tuple: return v->items;
    case ValueKind::List: {
      FRAMEJIT_REQUIRE(open(x, v));
      return v->items;
    }
    case ValueKind::Array: {
      Frontend* frontend = frontend_of(x, *v);
      if (!frontend || x.session().graph().type(v->id()).rank() == 0) break;
      FRAMEJIT_TRY(size, frontend->length(x.session(), v));
      if (size->is_array()) return break_at(BreakId::UnknownIterable, "as many rows as a mask has chosen");
      Value* n = specialize(x, size);
      if (!n || dim_of(*n).value() > kArrayRows) return break_at(BreakId::CapturedTooMuch, "the rows of an array");
      Values rows;
      for (int64_t i = 0; i < dim_of(*n).value(); ++i) {
        FRAMEJIT_TRY(row, frontend->get_item(x.session(), v, x.values().integer(graph::Dim(i))));
        rows.push_back(row);
      }
      return rows;
    }
    default: break;
  }
  FRAMEJIT_TRY(iterator, iterate(x, v));
  if (hinted) {
    FRAMEJIT_REQUIRE(length_hint(x, v));
  }
  Values items;
  for (;;) {
    if (items.size() > 10000) return break_at(BreakId::CapturedTooMuch, "a long sequence");
    FRAMEJIT_TRY(item, next_item(x, iterator));
    if (!item) return items;
    items.push_back(item);
  }
}

}  // namespace framejit::capture
