// All entries at once, and their end.
#include "ext/dispatch/entry_table.h"

namespace framejit::ext::dispatch {

using region::Entry;

int RetiredEntries::traverse(visitproc visit, void* arg) const {
  int result = 0;
  for (const auto& entry : entries_)
    if (!result) result = entry->references().traverse(visit, arg);
  return result;
}

void RetiredEntries::release() {
  const std::shared_ptr<void> owner = std::move(owner_);  // dropped last: it may own this alone
  const std::vector<std::shared_ptr<Entry>> dropped = std::move(entries_);
  entries_.clear();
}

std::vector<std::pair<std::shared_ptr<Entry>, int>> EntryTable::all() const {
  std::vector<std::pair<std::shared_ptr<Entry>, int>> out;
  const_cast<EntryTable*>(this)->for_each_place([&](const CompileSite& place, int site) {
    for (const auto& entry : place.entries) out.emplace_back(entry, site);
  });
  return out;
}

void EntryTable::drop_invalid() {
  RetiredEntries::Busy busy(retired);
  for_each_place([this](CompileSite& place, int) {
    for (std::size_t i = place.entries.size(); i-- > 0;)
      if (place.entries[i]->references().is_broken()) retire(place, i);
  });
}

void EntryTable::clear() {
  for_each_place([&](CompileSite& place, int site) {
    for (auto& entry : place.clear()) retired.entries().push_back(std::move(entry));
    if (site >= 0) sites.set_dormant(place, static_cast<uint32_t>(site), false);
  });
  sites.count_anew();
}

int EntryTable::traverse(visitproc visit, void* arg) const {
  int result = 0;
  const_cast<EntryTable*>(this)->for_each_place([&](const CompileSite& place, int) {
    for (const auto& entry : place.entries)
      if (!result) result = entry->references().traverse(visit, arg);
  });
  return result ? result : retired.traverse(visit, arg);
}

}  // namespace framejit::ext::dispatch
