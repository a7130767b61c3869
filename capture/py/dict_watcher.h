// Dicts whose changes are told to a watcher: CPython 3.14 and later. All watchers of a process share eight numbers;
// where none is free, no dict has a version and what is looked up in it is compared each time.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace framejit::capture::py {

using WatchedDicts = std::unordered_map<PyObject*, std::weak_ptr<uint64_t>>;

inline WatchedDicts& watched_dicts() {
  static WatchedDicts* const dicts = new WatchedDicts;  // it is told of dicts until the process ends
  return *dicts;
}

/// Called in front of each change.
inline int note_change(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
  static uint64_t changes = 1;
  const auto found = watched_dicts().find(dict);
  if (found == watched_dicts().end()) return 0;
  if (const std::shared_ptr<uint64_t> version = found->second.lock()) *version = ++changes;
  if (event == PyDict_EVENT_DEALLOCATED) watched_dicts().erase(found);
  return 0;
}

inline std::shared_ptr<const uint64_t> watch(PyObject* dict) {
  static const int watcher = PyDict_AddWatcher(note_change);
  if (std::shared_ptr<uint64_t> known = watched_dicts()[dict].lock()) return known;
  auto version = std::make_shared<uint64_t>(1);
  if (watcher < 0 || PyDict_Watch(watcher, dict) < 0) {
    PyErr_Clear();
    *version = 0;
  }
  watched_dicts()[dict] = version;
  return version;
}

inline const uint64_t* tag(PyObject*) { return nullptr; }

}  // namespace framejit::capture::py
