// The object that spliced code holds in its constants: the region that is asked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/splice.h"

namespace framejit::capture {

/// A JUMP_FORWARD whose argument is set in the live code.
struct PatchedJump {
  uint32_t unit, end;  // of its first prefix, and behind it
};

/// The sites of a code object, for its regions. It owns one Python object, a weak reference.
struct SiteTable {
  enum : int32_t { kNoQuestion = -1, kWritesPushed = -2 };
  struct Site {
    uint32_t instr, last;  // the last instruction of its loop, if there is one
    int16_t depth;
  };
  /// The JUMP_FORWARD that a site begins with: 0, or over the site.
  struct Switch {
    uint32_t unit;
    uint8_t distance;
    bool dormant = false;
  };
  PyCodeObject* code = nullptr;          // compared, never followed
  Ref<> user;                            // a weak reference to the code that it was made from
  std::shared_ptr<SiteHandler> handler;  // null once the SplicedCode is gone
  std::shared_ptr<SiteHandler> retired;  // a handler that went while it was being asked
  int busy = 0;
  std::vector<Site> sites;
  std::vector<Switch> switches;  // of the sites
  int jumps = 0;                 // of debuggers that go on: all sites are jumped over
  struct Pad {
    PatchedJump entry, out;
    uint32_t pops_end, pushes_end;
  } pad;
  std::vector<int32_t> site_at;  // code unit of a question -> index into sites, or one of the above
  std::vector<int32_t> landing;  // Instr index -> code unit to resume at, or -1
  /// The same, for regions that end at the head of a loop, or where a loop goes on after its end: the site there is
  /// asked for an entry first.
  std::vector<int32_t> asking_landing;
  std::vector<uint32_t> own_unit;  // Instr index -> code unit of the user's instruction
  std::vector<int16_t> depth;      // Instr index -> stack depth
};

/// A new region object. Null: an exception is set.
Ref<> make_region(std::shared_ptr<SiteTable> table);
bool is_region(PyObject* object);
/// The table that was given to make_region() for `object`, which is a region.
SiteTable& table_of(PyObject* object);
/// Is it the rewritten code of a SplicedCode, that is alive or not?
bool is_spliced(PyCodeObject* code);
/// The pad's jumps lead nowhere until the next region leaves.
void clear_pad(SiteTable& table);

}  // namespace framejit::capture
