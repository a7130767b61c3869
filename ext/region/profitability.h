// Whether a compiled region is faster than the interpreter, by what its parts were measured to take.
#pragma once

#include "capture/region.h"

namespace framejit::ext::region {

/// Does a run take less time than the bytecode, which calls the same functions with the arrays at hand? `region`: its
/// graph is optimized; `asks`: SciPy's error state is looked at before each run, for loops that are SciPy's own. Only
/// ever false there and where there are library calls.
bool is_profitable(const capture::Region& region, bool asks, bool o1);

/// Is a region, not compiled yet, more than branches on single values, one after the other? Each is a step of a plan,
/// while the bytecode runs one side only.
bool is_worth_compiling(const capture::Region& region);

/// Whether no operation of a region works on a whole array.
bool works_on_elements(const capture::Region& region);

/// Does a region, not compiled yet, that the bytecode of a loop enters in each round save more than entering it costs?
bool is_worth_entering(const capture::Region& region);

/// Is it clear that a region saves many times what entering it costs? It has many operations, or makes large arrays.
bool gains_much(const capture::Region& region);

/// Runs that a region is expected to have, if nothing else is known.
inline constexpr double kExpectedRuns = 300, kSoonRuns = 4;

/// What so many runs of a region save at least, by estimate, in nanoseconds: so long may it take to compile.
double worth(const capture::Region& region, double runs);

/// What the bytecode of a region takes at least, in nanoseconds, whatever the sizes that vary; 0 where that cannot be
/// told.
double least_bytecode_time(const capture::Region& region);

}  // namespace framejit::ext::region
