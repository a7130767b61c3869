// Recycling allocator for results: blocks return to per-thread bins and come back without page faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace framejit::runtime {

/// At least 64-byte aligned (2 MiB with huge pages advised from 4 MiB on). Null when out of memory. Any thread may
/// release.
void* allocate(std::size_t bytes);
void* allocate_zeroed(std::size_t bytes);
void* reallocate(void* block, std::size_t bytes);
void release(void* block);

struct AllocatorStats {
  int64_t bytes_in_use, bytes_cached;
  int64_t peak_bytes;  // most memory ever taken from the system, in use and cached together
};
AllocatorStats allocator_stats();
/// Gives cached blocks back to the system (also done on out of memory): all shared ones and those of the calling
/// thread.
void trim();

/// For tests: from now on the process ends where something was written behind the end of a block, once the block is
/// released.
void check_ends();

/// Fault injection for tests: the n-th allocation from now on (0: the next) and all after it fail; -1: none does.
void fail_allocations_from(int64_t n);

}  // namespace framejit::runtime
