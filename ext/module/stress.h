// Stress modes: rare paths made common, for tests (framejit.mark(stress=), config.stress).
#pragma once

#include <cstdint>
#include <string_view>

namespace framejit::ext::module {

struct Stress {
  bool rewrite = false;     // nothing is declined for having no array work; frames run spliced from the first call on
  bool guards = false;      // each guard fails once
  bool interp = false;      // graphs run in the reference interpreter
  bool verify = false;      // regions only predict; the bytecode runs, and is compared
  bool losing = false;      // what loses to the interpreter runs all the same
  int64_t break_every = 0;  // a region ends after so many instructions of the frame; 0: never for that

  bool any() const { return rewrite || guards || interp || verify || losing || break_every > 0; }
  /// Frames go through spliced code although a whole call could be captured.
  bool splices() const { return rewrite || verify || break_every > 0; }
  /// Every boundary is a site.
  bool all_sites() const { return verify || break_every > 0; }
};

/// From a comma list that the Python side has checked (framejit._api._stress).
Stress read_stress(std::string_view text);
Stress operator|(const Stress& a, const Stress& b);

}  // namespace framejit::ext::module
