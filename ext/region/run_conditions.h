// What has to hold for a run of a region: its guards, and that no object whose end runs code is dropped.
#pragma once

#include "capture/region.h"
#include "ext/guards/guard_program.h"
#include "ext/region/finalizers.h"
#include "ext/region/materialize.h"
#include "ext/region/run_memory.h"

namespace framejit::ext::region {

struct RunConditions {
  const guards::GuardProgram& guards;  // outlives it, as the region does
  FinalizerCheck finalizers;
  RunSizes sizes;

  RunConditions(const capture::Region& region, const guards::GuardProgram& program, const Materializer& materializer)
      : guards(program), finalizers(region, program), sizes(program, materializer) {}

  /// Others ran since the guards were tested: are the objects that the effects are about still those, as they were?
  bool still_hold(const guards::Matched& before, bool in_frame) const;
};

}  // namespace framejit::ext::region
