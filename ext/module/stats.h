// Counters behind framejit.stats(). Every place that counts holds the GIL, so they are plain integers.
#pragma once

#include <cstdint>
#include <map>

#include "capture/break.h"

namespace framejit::ext::module {

// X(name): what each counts is in the documentation of framejit.stats().
#define FRAMEJIT_STATS(X) \
  X(frames_marked)        \
  X(frames_captured)      \
  X(graph_breaks)         \
  X(guard_failures)       \
  X(recompiles)           \
  X(kernels_compiled)     \
  X(kernel_calls)         \
  X(library_calls)        \
  X(loops_widened)        \
  X(parallel_rounds)      \
  X(vector_rounds)        \
  X(grouped_products)     \
  X(internal_errors) X(code_bytes) X(compile_ns) X(capture_steps) X(disk_cache_hits) X(disk_cache_misses)

struct Stats {
#define FRAMEJIT_STAT_FIELD(name) int64_t name = 0;
  FRAMEJIT_STATS(FRAMEJIT_STAT_FIELD)
#undef FRAMEJIT_STAT_FIELD
};

inline Stats stats;

/// Breaks by reason; each counts once for each place.
inline std::map<capture::BreakId, int64_t> break_counts;

}  // namespace framejit::ext::module
