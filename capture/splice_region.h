// The objects that spliced code holds in its constants: the region that is asked, and the goto that an exit goes
// through.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/splice.h"

namespace framejit::capture {

/// What a region needs to know of its code. Owns no Python object.
struct SiteTable {
  struct Site {
    uint32_t instr;
    int16_t depth;
  };
  PyCodeObject* code = nullptr;          // compared, never followed
  std::shared_ptr<SiteHandler> handler;  // null once the SplicedCode is gone
  std::shared_ptr<SiteHandler> retired;  // a handler that went while it was being asked
  int busy = 0;
  std::vector<Site> sites;
  std::vector<int32_t> site_at;    // code unit of the question -> index into sites, or -1
  std::vector<int32_t> landing;    // Instr index -> code unit to resume at, or -1
  std::vector<uint32_t> own_unit;  // Instr index -> code unit of the user's instruction
  std::vector<int16_t> depth;      // Instr index -> stack depth
};

/// A new region object. Null: an exception is set.
Ref<> make_region(std::shared_ptr<SiteTable> table);
bool is_region(PyObject* object);
/// The function that spliced code calls to go to an exit; one for the process. Borrowed; null: an exception is set.
PyObject* goto_function();

}  // namespace framejit::capture
