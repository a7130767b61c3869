// Recycling allocator for results: blocks return to per-thread bins and come back without page faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace framejit::runtime {

/// At least 64-byte aligned (2 MiB with huge pages advised from 4 MiB on). Null when out of memory. Any thread may release.
void* allocate(std::size_t bytes);
void* allocate_zeroed(std::size_t bytes);
void* reallocate(void* block, std::size_t bytes);
void release(void* block);

struct AllocatorStats {
  int64_t bytes_in_use, bytes_cached, peak_bytes;
};
AllocatorStats allocator_stats();
/// Gives cached blocks back to the system (also done on out of memory).
void trim();

}  // namespace framejit::runtime
