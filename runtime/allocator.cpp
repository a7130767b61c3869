// Recycling allocator.
//
//     block:   ... [ 64-byte header ][ data, at the size class's capacity ]
//
// Small and medium blocks (below 4 MiB) come from aligned_alloc and are kept, once released, in bins by size class:
// first in the releasing thread's own (no lock, no atomic read-modify-write), beyond a limit in shared ones under a
// mutex. Large blocks are mappings of their own at 2 MiB boundaries, kept in a shared list, because the page faults of
// a fresh 40 MB array cost as much as computing it.
#include "runtime/allocator.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace framejit::runtime {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = std::size_t{4} << 20;
constexpr int64_t kIdleNanoseconds = 10'000'000'000;  // a large block unused for so long goes back to the system

struct Header {
  std::size_t capacity;
  uint32_t size_class;  // kLargeClass: a mapping of its own
  void* map;            // large blocks: the whole mapping
  std::size_t map_size;
  Header* next;       // while in a bin
  std::size_t asked;  // while in use: its end is marked behind so many bytes; 0: it is not
};
static_assert(sizeof(Header) <= kAlignment);

Header* header_of(void* block) { return reinterpret_cast<Header*>(static_cast<char*>(block) - kAlignment); }
void* block_of(Header* h) { return reinterpret_cast<char*>(h) + kAlignment; }

// Size classes: multiples of 64 up to 512, then four steps in each doubling.
constexpr uint32_t kSteps = 8;  // classes 0..7: 64, 128, ... 512
constexpr uint32_t kClasses = kSteps + 4 * 13;
constexpr uint32_t kLargeClass = 0xffffffffu;

constexpr uint32_t class_of(std::size_t bytes) {
  if (bytes <= 512) return bytes == 0 ? 0 : static_cast<uint32_t>((bytes - 1) / 64);
  const auto log = static_cast<uint32_t>(std::bit_width(bytes - 1)) - 1;  // 512 < bytes <= 1024: 9
  const auto quarter = static_cast<uint32_t>(((bytes - 1) >> (log - 2)) & 3);
  return kSteps + (log - 9) * 4 + quarter;
}
constexpr std::size_t capacity_of(uint32_t size_class) {
  if (size_class < kSteps) return (size_class + 1) * std::size_t{64};
  const uint32_t log = 9 + (size_class - kSteps) / 4, quarter = (size_class - kSteps) % 4;
  return (std::size_t{1} << log) + (quarter + 1) * (std::size_t{1} << (log - 2));
}
static_assert(class_of(512) == 7 && class_of(513) == 8 && capacity_of(8) == 640);
static_assert(capacity_of(class_of(641)) == 768 && capacity_of(class_of(1024)) == 1024);
static_assert(class_of(kLarge) == kClasses - 1 && capacity_of(kClasses - 1) == kLarge);

/// How many blocks of a class a thread keeps to itself: 256 KiB worth, at most 64, and none from 1 MiB on.
constexpr uint32_t thread_limit(uint32_t size_class) {
  const std::size_t capacity = capacity_of(size_class);
  if (capacity >= (std::size_t{1} << 20)) return 0;
  return static_cast<uint32_t>(std::clamp<std::size_t>((std::size_t{256} << 10) / capacity, 1, 64));
}
constexpr auto kThreadLimit = [] {
  std::array<uint8_t, kClasses> limits{};
  for (uint32_t c = 0; c < kClasses; ++c) limits[c] = static_cast<uint8_t>(thread_limit(c));
  return limits;
}();

int64_t now_nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

/// Bytes; written by the owning thread only, read by whoever asks for statistics.
class OwnedCounter {
 public:
  void add(int64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }
  void clear() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

struct ThreadCache {
  std::array<Header*, kClasses> head{};
  std::array<uint8_t, kClasses> count{};
  OwnedCounter in_use, cached;  // in_use may be negative: blocks allocated elsewhere and released here
};

struct CachedLarge {
  Header* header;
  int64_t released_at;
};

struct Shared {
  std::mutex mutex;
  std::array<Header*, kClasses> head{};
  std::vector<CachedLarge> large;  // oldest first
  std::vector<ThreadCache*> threads;
  int64_t cached = 0;       // bytes in the shared bins and in `large`
  int64_t from_system = 0;  // bytes that the system gave and did not get back
  int64_t peak = 0;
  int64_t in_use_of_dead_threads = 0;
  int64_t cap = 0;
};

int64_t memory_limit() {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/memory.max", "re")) {
    long long value = 0;
    if (std::fscanf(file, "%lld", &value) == 1 && value > 0) limit = std::min<int64_t>(limit, value);
    std::fclose(file);
  }
  return limit;
}

Shared& shared() {
  // Never destroyed: threads may release blocks after main has returned.
  static Shared* const instance = [] {
    auto* s = new Shared;
    s->cap = std::min<int64_t>(memory_limit() / 8, int64_t{512} << 20);
    pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); }, [] { shared().mutex.unlock(); });
    return s;
  }();
  return *instance;
}
// Made before there are threads: a fork while one of them made it would leave the child waiting for ever.
[[maybe_unused]] const Shared& made_early = shared();

// The pointer alone is thread-local with the cheap model: one load, no call, and room in the static block even when the
// library is loaded late.
__attribute__((tls_model("initial-exec"))) thread_local ThreadCache* t_cache = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local bool t_exited = false;

void to_system(Shared& s, Header* h) {  // under the mutex
  s.from_system -= static_cast<int64_t>(h->capacity);
  if (h->size_class == kLargeClass) munmap(h->map, h->map_size);
  else std::free(h);
}

void evict_large(Shared& s, int64_t now) {
  std::size_t drop = 0;
  int64_t cached = s.cached;
  while (drop < s.large.size() && (cached > s.cap || now - s.large[drop].released_at > kIdleNanoseconds)) {
    cached -= static_cast<int64_t>(s.large[drop].header->capacity);
    to_system(s, s.large[drop].header);
    ++drop;
  }
  s.large.erase(s.large.begin(), s.large.begin() + static_cast<std::ptrdiff_t>(drop));
  s.cached = cached;
}

void to_shared(Shared& s, Header* h) {  // under the mutex
  if (s.cached + static_cast<int64_t>(h->capacity) > s.cap) evict_large(s, now_nanoseconds());
  if (s.cached + static_cast<int64_t>(h->capacity) > s.cap) return to_system(s, h);
  s.cached += static_cast<int64_t>(h->capacity);
  h->next = s.head[h->size_class];
  s.head[h->size_class] = h;
}

void flush(ThreadCache& cache) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  for (uint32_t c = 0; c < kClasses; ++c) {
    while (Header* h = cache.head[c]) {
      cache.head[c] = h->next;
      to_shared(s, h);
    }
    cache.count[c] = 0;
  }
  cache.cached.clear();
}

struct ExitHook {
  ~ExitHook() {
    ThreadCache* cache = t_cache;
    t_cache = nullptr;
    t_exited = true;  // what this thread still releases goes to the shared bins
    if (!cache) return;
    flush(*cache);
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    s.in_use_of_dead_threads += cache->in_use.get();
    std::erase(s.threads, cache);
    delete cache;
  }
};

ThreadCache* make_cache() {
  if (t_exited) return nullptr;
  auto* cache = new (std::nothrow) ThreadCache;
  if (!cache) return nullptr;
  static thread_local ExitHook hook;
  (void)&hook;  // odr-use: registers the destructor
  {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    s.threads.push_back(cache);
  }
  t_cache = cache;
  return cache;
}

ThreadCache* cache_of_thread() { return t_cache ? t_cache : make_cache(); }

void count_in_use(int64_t bytes) {
  if (ThreadCache* cache = cache_of_thread()) {
    cache->in_use.add(bytes);
  } else {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    s.in_use_of_dead_threads += bytes;
  }
}

void drop_shared(Shared& s) {  // under the mutex
  for (Header*& head : s.head)
    while (Header* h = head) {
      head = h->next;
      to_system(s, h);
    }
  for (const CachedLarge& l : s.large) to_system(s, l.header);
  s.large.clear();
  s.cached = 0;
}

void note_from_system(Shared& s, std::size_t capacity) {
  s.from_system += static_cast<int64_t>(capacity);
  s.peak = std::max(s.peak, s.from_system);
}

[[gnu::noinline]] void* allocate_class(uint32_t size_class) {
  const std::size_t capacity = capacity_of(size_class);
  Shared& s = shared();
  Header* h = nullptr;
  {
    std::lock_guard lock(s.mutex);
    if ((h = s.head[size_class])) {
      s.head[size_class] = h->next;
      s.cached -= static_cast<int64_t>(capacity);
    }
  }
  if (!h) {
    h = static_cast<Header*>(std::aligned_alloc(kAlignment, capacity + kAlignment));
    if (!h) {
      trim();
      h = static_cast<Header*>(std::aligned_alloc(kAlignment, capacity + kAlignment));
      if (!h) return nullptr;
    }
    h->capacity = capacity;
    h->size_class = size_class;
    h->map = nullptr;
    h->map_size = 0;
    h->asked = 0;
    std::lock_guard lock(s.mutex);
    note_from_system(s, capacity);
  }
  count_in_use(static_cast<int64_t>(capacity));
  return block_of(h);
}

Header* map_large(std::size_t capacity) {
  // One huge page more than needed: room to align, and in front of the data for the header.
  const std::size_t reserve = capacity + 2 * kHugePage;
  void* raw = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t data = (start + page + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t map = data - page, end = data + capacity;
  if (map > start) munmap(raw, map - start);
  if (start + reserve > end) munmap(reinterpret_cast<void*>(end), start + reserve - end);
  madvise(reinterpret_cast<void*>(data), capacity, MADV_HUGEPAGE);
  auto* h = header_of(reinterpret_cast<void*>(data));
  h->capacity = capacity;
  h->size_class = kLargeClass;
  h->map = reinterpret_cast<void*>(map);
  h->map_size = end - map;
  h->asked = 0;
  return h;
}

void* allocate_large(std::size_t bytes, bool& fresh) {
  if (bytes > (std::size_t{1} << 47)) return nullptr;
  const std::size_t capacity = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  Shared& s = shared();
  fresh = false;
  Header* h = nullptr;
  {
    std::lock_guard lock(s.mutex);
    // The youngest that fits without wasting more than a quarter: its lines are the likeliest to be in a cache.
    for (auto it = s.large.rbegin(); it != s.large.rend(); ++it) {
      if (it->header->capacity < capacity || it->header->capacity > capacity + capacity / 4) continue;
      h = it->header;
      s.large.erase(std::next(it).base());
      s.cached -= static_cast<int64_t>(h->capacity);
      break;
    }
  }
  if (!h) {
    h = map_large(capacity);
    if (!h) {
      trim();
      if (!(h = map_large(capacity))) return nullptr;
    }
    fresh = true;
    std::lock_guard lock(s.mutex);
    note_from_system(s, capacity);
  }
  count_in_use(static_cast<int64_t>(h->capacity));
  return block_of(h);
}

[[gnu::noinline]] void release_large(Header* h) {
  count_in_use(-static_cast<int64_t>(h->capacity));
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  const int64_t now = now_nanoseconds();
  s.large.push_back({h, now});
  s.cached += static_cast<int64_t>(h->capacity);
  evict_large(s, now);
}

[[gnu::noinline]] void release_shared(Header* h) {
  count_in_use(-static_cast<int64_t>(h->capacity));
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  to_shared(s, h);
}

constinit std::atomic<int64_t> g_fail_in{-1};

bool injected_fault() {
  const int64_t left = g_fail_in.load(std::memory_order_relaxed);
  if (left < 0) [[likely]]
    return false;
  if (left == 0) return true;
  g_fail_in.store(left - 1, std::memory_order_relaxed);
  return false;
}

constinit std::atomic<bool> g_checks_ends{false};
constexpr unsigned char kEnd = 0xe5;

/// Nothing may have been written behind what was asked for.
void check_end(Header* h) {
  const auto* end = static_cast<const unsigned char*>(block_of(h)) + std::exchange(h->asked, 0);
  if (std::all_of(end, end + kAlignment, [](unsigned char c) { return c == kEnd; })) return;
  std::fprintf(stderr, "framejit: memory was written behind its end\n");
  std::abort();
}

void* take(std::size_t bytes) {
  if (bytes >= kLarge) [[unlikely]] {
    bool fresh;
    return allocate_large(bytes, fresh);
  }
  const uint32_t size_class = class_of(bytes);
  if (ThreadCache* cache = t_cache) [[likely]] {
    if (Header* h = cache->head[size_class]) [[likely]] {
      cache->head[size_class] = h->next;
      --cache->count[size_class];
      cache->in_use.add(static_cast<int64_t>(h->capacity));
      cache->cached.add(-static_cast<int64_t>(h->capacity));
      return block_of(h);
    }
  }
  return allocate_class(size_class);
}

}  // namespace

void* allocate(std::size_t bytes) {
  if (injected_fault()) [[unlikely]]
    return nullptr;
  if (!g_checks_ends.load(std::memory_order_relaxed)) [[likely]]
    return take(bytes);
  void* const block = bytes == 0 || bytes > SIZE_MAX - kAlignment ? take(bytes) : take(bytes + kAlignment);
  if (!block || bytes == 0) return block;
  header_of(block)->asked = bytes;
  std::memset(static_cast<char*>(block) + bytes, kEnd, kAlignment);
  return block;
}

void release(void* block) {
  if (!block) return;
  Header* h = header_of(block);
  if (h->asked != 0) [[unlikely]]
    check_end(h);
  const uint32_t size_class = h->size_class;
  if (size_class == kLargeClass) [[unlikely]]
    return release_large(h);
  ThreadCache* cache = cache_of_thread();
  if (!cache || cache->count[size_class] >= kThreadLimit[size_class]) [[unlikely]]
    return release_shared(h);
  h->next = cache->head[size_class];
  cache->head[size_class] = h;
  ++cache->count[size_class];
  cache->in_use.add(-static_cast<int64_t>(h->capacity));
  cache->cached.add(static_cast<int64_t>(h->capacity));
}

void* allocate_zeroed(std::size_t bytes) {
  bool fresh = false;
  void* block;
  if (bytes >= kLarge && !g_checks_ends.load(std::memory_order_relaxed)) {
    if (injected_fault()) return nullptr;
    block = allocate_large(bytes, fresh);
  } else {
    block = allocate(bytes);
  }
  if (block && !fresh) std::memset(block, 0, bytes);
  return block;
}

void* reallocate(void* block, std::size_t bytes) {
  if (!block) return allocate(bytes);
  Header* h = header_of(block);
  const bool fits = h->size_class == kLargeClass ? bytes >= kLarge && bytes <= h->capacity && bytes >= h->capacity / 2
                                                 : bytes < kLarge && class_of(bytes) == h->size_class;
  if (fits && h->asked == 0) return block;
  void* moved = allocate(bytes);
  if (!moved) return nullptr;
  std::memcpy(moved, block, std::min(bytes, h->asked != 0 ? h->asked : h->capacity));
  release(block);
  return moved;
}

AllocatorStats allocator_stats() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  AllocatorStats stats{s.in_use_of_dead_threads, s.cached, s.peak};
  for (const ThreadCache* cache : s.threads) {
    stats.bytes_in_use += cache->in_use.get();
    stats.bytes_cached += cache->cached.get();
  }
  return stats;
}

void trim() {
  if (t_cache) flush(*t_cache);
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  drop_shared(s);
}

void check_ends() { g_checks_ends.store(true, std::memory_order_relaxed); }

void fail_allocations_from(int64_t n) { g_fail_in.store(n, std::memory_order_relaxed); }

}  // namespace framejit::runtime
