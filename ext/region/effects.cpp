// How each kind of effect is stored and undone.
#include "ext/region/effects.h"

#include <algorithm>

#include "capture/py/interpreter.h"
#include "capture/py/lru_cache.h"
#include "ext/guards/guard_program_impl.h"
#include "ext/region/no_collection.h"
#include "ext/region/printing.h"

namespace framejit::ext::region {

using capture::Ref;
using capture::Wrap;

namespace {

/// Where a store of the list's item goes; -1: nowhere.
Py_ssize_t place_in(PyObject* list, PyObject* index) {
  const Py_ssize_t size = PyList_GET_SIZE(list);
  Py_ssize_t at = PyLong_AsSsize_t(index);
  if (at < 0) at += size;
  return at < size ? std::max<Py_ssize_t>(at, -1) : -1;
}

/// A key that was deleted would come back as the last one.
bool is_undoable(const capture::Effect& e) {
  using Kind = capture::Effect::Kind;
  return e.kind != Kind::SetChange && e.kind != Kind::CountCall && e.kind != Kind::Print &&
         (e.value >= 0 || (e.kind != Kind::StoreGlobal && e.kind != Kind::StoreItem));
}

/// What it displaced, or null, is appended to `trash`. False: an exception is set.
bool store(Workspace& w, const capture::Effect& e, std::vector<PyObject*>& trash) {
  using Kind = capture::Effect::Kind;
  PyObject* target = e.target >= 0 ? w.objects[e.target] : nullptr;
  PyObject* value = e.value >= 0 ? w.objects[e.value] : nullptr;
  PyObject* key = e.name ? e.name.get() : e.key >= 0 ? w.objects[e.key] : nullptr;
  Ref<> displaced;
  auto set_in = [&](PyObject* dict) {
    displaced = Ref<>::share(PyDict_GetItemWithError(dict, key));
    return (value ? PyDict_SetItem(dict, key, value) : PyDict_DelItem(dict, key)) == 0;
  };
  bool done = false;
  switch (e.kind) {
    case Kind::StoreCell:
      displaced = Ref<>::steal(PyCell_GET(target));
      PyCell_SET(target, Py_XNewRef(value));
      done = true;
      break;
    case Kind::StoreGlobal: done = set_in(e.object.get()); break;
    case Kind::StoreAttr:
      displaced = Ref<>::share(guards::fetch_attribute(target, key));
      done = PyObject_GenericSetAttr(target, key, value) == 0;
      break;
    case Kind::StoreItem: {
      if (PyDict_Check(target)) {
        done = set_in(target);
        break;
      }
      const Py_ssize_t at = place_in(target, key);
      if (at < 0) {
        PyErr_SetString(PyExc_IndexError, "list assignment index out of range");
        break;
      }
      displaced = Ref<>::steal(PyList_GET_ITEM(target, at));
      PyList_SET_ITEM(target, at, Py_NewRef(value));
      done = true;
      break;
    }
    case Kind::ListExtend: {
      const Py_ssize_t before = PyList_GET_SIZE(target);
      done = std::all_of(e.items.begin(), e.items.end(),
                         [&](uint32_t item) { return PyList_Append(target, w.objects[item]) == 0; });
      if (!done) PyList_SetSlice(target, before, PyList_GET_SIZE(target), nullptr);
      break;
    }
    case Kind::ListReplace: {
      const Ref<> items = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(e.items.size())));
      for (std::size_t i = 0; items && i < e.items.size(); ++i)
        PyList_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(w.objects[e.items[i]]));
      if (items) displaced = Ref<>::steal(PyList_GetSlice(target, 0, PyList_GET_SIZE(target)));
      done = displaced && PyList_SetSlice(target, 0, PyList_GET_SIZE(target), items.get()) == 0;
      break;
    }
    case Kind::SetChange: done = capture::change_set(target, static_cast<int>(PyLong_AsLong(key)), value); break;
    case Kind::CountCall: {
      if (!e.source) {
        capture::lru_count_miss(e.object.get());
        done = true;
        break;
      }
      const Ref<> looked_up = capture::lru_key(e.source->parts);
      if (looked_up) capture::lru_count_hit(e.object.get(), looked_up.get());
      done = static_cast<bool>(looked_up);
      break;
    }
    case Kind::Print: {
      std::vector<PyObject*> args;
      for (const uint32_t item : e.items) args.push_back(w.objects[item]);
      const std::size_t named = e.name ? static_cast<std::size_t>(PyTuple_GET_SIZE(e.name.get())) : 0;
      done = static_cast<bool>(
          Ref<>::steal(PyObject_Vectorcall(e.object.get(), args.data(), args.size() - named, e.name.get())));
      break;
    }
  }
  if (done) trash.push_back(displaced.release());
  return done;
}

/// As before store(). `displaced`: what that appended.
bool undo(Workspace& w, const capture::Effect& e, PyObject* displaced) {
  using Kind = capture::Effect::Kind;
  PyObject* target = e.object ? e.object.get() : w.objects[e.target];
  PyObject* key = e.name ? e.name.get() : e.key >= 0 ? w.objects[e.key] : nullptr;
  switch (e.kind) {
    case Kind::StoreCell: return PyCell_Set(target, displaced) == 0;
    case Kind::StoreGlobal: break;
    case Kind::StoreAttr:  // it shone through from the class
      if (displaced == _PyType_Lookup(Py_TYPE(target), key)) displaced = nullptr;
      return PyObject_GenericSetAttr(target, key, displaced) == 0;
    case Kind::StoreItem:
      if (PyDict_Check(target)) break;
      return PyList_SetItem(target, place_in(target, key), Py_NewRef(displaced)) == 0;
    case Kind::ListExtend: {
      const Py_ssize_t size = PyList_GET_SIZE(target);
      return PyList_SetSlice(target, size - static_cast<Py_ssize_t>(e.items.size()), size, nullptr) == 0;
    }
    case Kind::ListReplace: return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), displaced) == 0;
    case Kind::SetChange:
    case Kind::CountCall:
    case Kind::Print: return false;
  }
  return (displaced ? PyDict_SetItem(target, key, displaced) : PyDict_DelItem(target, key)) == 0;
}

}  // namespace

Effects::Effects(const capture::Region& region) : region_(region) {
  using Kind = capture::Effect::Kind;
  std::vector<uint32_t> shown;
  for (const capture::Recipe& r : region.recipes)
    if (r.kind == capture::Recipe::Kind::Text) shown.insert(shown.end(), r.items.begin(), r.items.end());
  for (const capture::Effect& e : region.effects)
    if (e.kind == Kind::Print) {
      prints_ = true;
      shown.insert(shown.end(), e.items.begin(), e.items.end());
    }
  while (!shown.empty()) {
    const capture::Recipe& r = region.recipes[shown.back()];
    shown.pop_back();
    shows_arrays_ = shows_arrays_ ||
                    (r.kind == capture::Recipe::Kind::Result && (r.wrap == Wrap::NdArray || r.wrap == Wrap::Tensor));
    shown.insert(shown.end(), r.items.begin(), r.items.end());
  }
  if (region.effects.size() <= 1) return;  // the last one may begin one: it is there when that is over
  for (const capture::Effect& e : region.effects)
    collect_ = collect_ || e.kind == Kind::StoreAttr || !is_undoable(e) || e.kind == Kind::ListReplace;
}

bool Effects::may_run_code() const {
  return (prints_ && !stdout_is_plain()) || (shows_arrays_ && !arrays_are_shown_plainly());
}

bool Effects::commit(Workspace& w, std::vector<PyObject*>& trash) const {
  const NoCollection none(collect_);
  trash.reserve(trash.size() + region_.effects.size());
  for (const capture::Effect& effect : region_.effects)
    if (!store(w, effect, trash)) return false;
  return true;
}

bool Effects::take_back(Workspace& w, const std::vector<PyObject*>& trash, std::size_t first) const {
  const auto end = region_.effects.begin() + static_cast<std::ptrdiff_t>(trash.size() - first);
  if (!std::all_of(region_.effects.begin(), end, is_undoable)) return false;
  const NoCollection none(collect_);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  bool undone = true;
  for (std::size_t i = trash.size(); undone && i-- > first;) undone = undo(w, region_.effects[i - first], trash[i]);
  PyErr_Restore(type, value, traceback);
  return undone;
}

}  // namespace framejit::ext::region
