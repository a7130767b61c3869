// EntryTable: the entries of a code object by place, and those that were taken out.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ext/dispatch/compile_site.h"
#include "ext/dispatch/retired_entries.h"
#include "ext/dispatch/spliced_sites.h"

namespace framejit::ext::dispatch {

struct EntryTable {
  CompileSite whole;  // from the function's start to a return
  SplicedSites sites;
  RetiredEntries retired;

  /// Oldest place first: the function's start (-1), then sites in order.
  template <class F>
  void for_each_place(F&& f) {
    f(whole, -1);
    for (std::size_t site = 0; site < sites.size(); ++site)
      if (CompileSite* place = sites.at(static_cast<uint32_t>(site))) f(*place, static_cast<int>(site));
  }
  std::vector<std::pair<std::shared_ptr<region::Entry>, int>> all() const;

  void retire(CompileSite& place, std::size_t entry) { retired.entries().push_back(place.take_out(entry)); }
  /// What entries were made for has died.
  void drop_invalid();
  /// As if nothing had been compiled.
  void clear();
  int traverse(visitproc visit, void* arg) const;
};

}  // namespace framejit::ext::dispatch
