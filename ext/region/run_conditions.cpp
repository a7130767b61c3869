// The second test, in memory of its own.
#include "ext/region/run_conditions.h"

#include <algorithm>

namespace framejit::ext::region {

bool RunConditions::still_hold(const guards::Matched& before, bool in_frame) const {
  FRAMEJIT_RUN_MEMORY(now, *before.live, sizes);
  return guards.match(now.matched) && std::equal(before.slots, before.slots + guards.slot_count(), now.matched.slots) &&
         !finalizers.may_run(now.matched, in_frame);
}

}  // namespace framejit::ext::region
