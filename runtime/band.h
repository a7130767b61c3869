// Bands: steps that go by the same rows, run row block by row block, so that what lies between them stays in cache. The
// values are those of step after step: each row sees the same calculation.
//
// In a plain band a row needs no rows but its own, so threads share its rows. In a staggered one steps read rows around
// their own, as stencils do:
//
//     %1 = sqrt %x                   front      5 6 7
//     %2 = %1[1:] - %1[:-1]          1 behind   4 5 6
//     %3 = %2[1:] + %2[:-1]          2 behind   3 4 5
//
// Each step follows the front at a distance at which all that it reads is there, and all that it overwrites has been
// read. One thread runs it; with several threads the steps are run one after the other instead.
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
