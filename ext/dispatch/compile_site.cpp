// The entries of one place: which may fit, which is dropped.
#include "ext/dispatch/compile_site.h"

#include <utility>

#include "ext/arrays/numpy_api.h"
#include "ext/arrays/tensor_object.h"
#include "ext/module/config.h"
#include "ext/module/stats.h"

namespace framejit::ext::dispatch {

using guards::LiveSlots;
using region::Entry;

namespace {

uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15u; }

}  // namespace

uint64_t kinds_of(const LiveSlots& live) {
  constexpr int kMost = 16;
  uint64_t hash = static_cast<uint64_t>(live.depth) + 1;
  const auto add = [&hash](PyObject* object) {
    if (!object) return hash = mixed(hash, 1), void();
    PyTypeObject* type = Py_TYPE(object);
    hash = mixed(hash, reinterpret_cast<uintptr_t>(type));
    PyObject* held = arrays::is_tensor(object) ? arrays::tensor_array(object) : object;
    if (!held || !PyArray_Check(held)) return;
    auto* array = reinterpret_cast<PyArrayObject*>(held);
    hash = mixed(
        hash, static_cast<uint64_t>(PyArray_DESCR(array)->type_num) * 128 + static_cast<uint64_t>(PyArray_NDIM(array)));
  };
  for (int i = 0; i < std::min(live.local_count, kMost); ++i) add(live.locals[i]);
  for (int i = 0; i < std::min(live.depth, kMost); ++i) add(live.stack[i]);
  return hash ? hash : 1;
}

bool CompileSite::is_left() const {
  constexpr int64_t kFewOfHits = 16;
  int64_t left = 0, others = 0;
  for (const auto& entry : entries) (entry->policy().is_left() ? left : others) += entry->policy().hits();
  return others * kFewOfHits <= left;
}

std::shared_ptr<Entry> CompileSite::fitting(const LiveSlots& live) const {
  for (const auto& entry : entries)
    if (!entry->explain(live)) return entry;
  return nullptr;
}

bool CompileSite::hardly_runs(const Entry& entry) const {
  constexpr int64_t kFewHits = 4;
  const auto is_it = [&entry](const std::shared_ptr<Entry>& each) { return each.get() == &entry; };
  return in_loop && entry.policy().hits() < kFewHits && std::any_of(entries.begin(), entries.end(), is_it);
}

double CompileSite::mean_hits() const {
  int64_t hits = 0;
  for (const std::shared_ptr<Entry>& entry : entries) hits += entry->policy().hits();
  return static_cast<double>(hits) / made;
}

void CompileSite::insert(std::shared_ptr<Entry> entry, uint64_t kinds) {
  entries.reserve(entries.size() + 1);  // where memory runs out, nothing refers to an entry that is not here
  by_kinds[kinds] = entry.get();
  ++made;
  globals = entry->region().globals.get();
  builtins = entry->region().builtins.get();
  entries.insert(entries.begin(), std::move(entry));
}

std::shared_ptr<Entry> CompileSite::take_out(std::size_t entry) {
  std::erase_if(by_kinds, [&](const auto& known) { return known.second == entries[entry].get(); });
  std::shared_ptr<Entry> out = std::move(entries[entry]);
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(entry));
  return out;
}

void CompileSite::lead(uint64_t kinds) {
  const auto known = by_kinds.find(kinds);
  if (known == by_kinds.end() || entries.front().get() == known->second) return;
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.get() == known->second; });
  std::swap(entries.front(), *at);
}

bool CompileSite::note_lost() {
  constexpr int64_t kWarnAt = 16;
  if (!limited) return false;
  ++lost_calls;
  if (lost_calls >= next_try) {
    next_try *= 4;
    exhausted = false;
  }
  return lost_calls >= kWarnAt && at_limit;
}

// Past the limit the interpreter runs calls that no entry fits. After some of them one more entry is compiled, in the
// place of the one that was used least.
bool CompileSite::is_at_limit(bool counts, std::vector<std::shared_ptr<Entry>>& out) {
  constexpr std::size_t kMostEntries = 64;
  constexpr int64_t kFewHits = 2;
  const bool again = limited;
  if (again || entries.size() >= kMostEntries) {
    const auto least = std::min_element(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return a->policy().hits() < b->policy().hits();
    });
    if (least != entries.end()) {
      counts = counts || (*least)->policy().hits() <= kFewHits;
      out.push_back(take_out(static_cast<std::size_t>(least - entries.begin())));
    }
  }
  if (counts) ++churned;
  if (!again && churned <= module::config().recompile_limit) return false;
  limited = true;
  exhausted = true;  // but for this one, the next times
  return !again;
}

bool CompileSite::force_failure() {
  Entry& entry = *entries.front();
  if (entry.all_forced) return false;
  const std::vector<capture::Guard>& guards = entry.guards();
  for (std::size_t i = 0; i < guards.size(); ++i)
    if (forced_before.insert(guards[i].about()).second) {
      forced = static_cast<int>(i);
      ++module::stats.guard_failures;
      return true;
    }
  entry.all_forced = true;
  return false;
}

std::vector<std::shared_ptr<Entry>> CompileSite::clear() {
  std::vector<std::shared_ptr<Entry>> out = std::move(entries);
  entries.clear();
  hints.reset();
  by_kinds.clear();
  failed.clear();
  varied.names.clear();
  made = churned = failures = 0;
  limited = exhausted = false;
  lost_calls = 0;
  next_try = kFirstTry;
  at_limit.reset();
  return out;
}

void TryOrder::find_hint(CompileSite& site, const LiveSlots& live) {
  if (!site.hints) site.hints = std::make_unique<std::array<CompileSite::Hint, 256>>();
  kinds_ = kinds_of(live);
  hint_ = &(*site.hints)[kinds_ >> 56];
  if (hint_->kinds == kinds_ && hint_->entry < site.entries.size()) first_ = hint_->entry;
}

}  // namespace framejit::ext::dispatch
