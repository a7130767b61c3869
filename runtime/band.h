// Bands: steps that go by the same rows, run row block by row block, so that what lies between them stays in cache. The
// values are those of step after step: each row sees the same calculation.
#pragma once

#include "runtime/bound.h"
#include "runtime/execute.h"

namespace framejit::runtime {

/// Notes the bands of a program in bound.bands; their steps are waves that end where the band does. Called before
/// temporaries are laid out.
void find_bands(const codegen::Program& program, Bound& bound, int64_t block_bytes);

/// `run(loop, state)` runs a step over a block of rows.
void execute_band(const Bound& bound, const Band& band, RunState& state,
                  const std::function<void(const BoundLoop&, RunState&)>& run);

}  // namespace framejit::runtime
