// Threads: one oneTBB arena, entered only where the work is worth it.
//
// fork: oneTBB's workers do not exist in the child and its arenas must not be touched there, not even destroyed. A pid
// flag set by the atfork handler makes everything serial in the child; arenas are never destroyed (the process's end
// takes them), which also settles the order of shutdown.
#include "runtime/scheduler.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "graph/support/clock.h"
#include "graph/support/fp_state.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace framejit::runtime {
namespace {

constexpr double kHotThreshold = 10e3;    // nanoseconds of work; workers still spin for the next region
constexpr double kColdThreshold = 100e3;  // they sleep: waking one takes 35 to 45 us
constexpr int64_t kHotWindow = 50'000;  // nanoseconds since the last region, or the last work above the first threshold
constexpr int64_t kRetryAfter = 1'000'000'000;  // nanoseconds until workers that could not be had are asked for again
constexpr int kMostThreads = 256;               // oneTBB has no more workers in a process, unless there are more CPUs

/// CPUs that a control group allows, rounded up; 0: no limit.
int cgroup_cpus() {
  double limit = 0;
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {  // version 2: "max 100000" or "150000 100000"
    long long quota = 0, period = 0;
    if (std::fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
      limit = static_cast<double>(quota) / static_cast<double>(period);
    std::fclose(file);
  } else if (std::FILE* quota_file = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")) {
    long long quota = 0, period = 0;
    if (std::fscanf(quota_file, "%lld", &quota) == 1 && quota > 0) {
      if (std::FILE* period_file = std::fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")) {
        if (std::fscanf(period_file, "%lld", &period) == 1 && period > 0)
          limit = static_cast<double>(quota) / static_cast<double>(period);
        std::fclose(period_file);
      }
    }
    std::fclose(quota_file);
  }
  return static_cast<int>(limit + 0.999);
}

/// The budget that OpenMP's variable gives, which pools of processes set for their workers; 0: none. Of a list, the
/// first: the others are for regions within regions.
int openmp_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  char* end = nullptr;
  const long long threads = std::strtoll(text, &end, 10);
  while (*end == ' ') ++end;
  const bool good = end != text && (*end == '\0' || *end == ',') && threads > 0;
  return good ? static_cast<int>(std::min<long long>(threads, kMostThreads)) : 0;
}

/// CPUs that affinity and a control group allow.
int allowed_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const int limit = cgroup_cpus(); limit > 0) cpus = std::min(cpus, limit);
  return std::max(cpus, 1);
}

int default_threads() {
  const int cpus = allowed_cpus(), budget = openmp_threads();
  return budget > 0 ? std::min(cpus, budget) : cpus;
}

/// How many threads can be started beside those that there are, `wanted` at most. So many are started, and ended at
/// once: oneTBB's workers start each other, and end the process where that fails.
int startable_threads(int wanted) {
  constexpr int kSlack = 2;  // for threads that are joined but still counted, and for the program's own
  const auto most = static_cast<std::size_t>(wanted) + kSlack;
  std::vector<pthread_t> started;
  started.reserve(most);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  pthread_attr_setstacksize(&attributes, tbb::global_control::active_value(tbb::global_control::thread_stack_size));
  std::mutex gate;
  gate.lock();
  const auto wait = [](void* at) -> void* {
    std::lock_guard lock(*static_cast<std::mutex*>(at));
    return nullptr;
  };
  while (started.size() < most) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, wait, &gate) != 0) break;
    started.push_back(thread);
  }
  gate.unlock();
  for (const pthread_t thread : started) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return std::clamp(static_cast<int>(started.size()) - kSlack, 0, wanted);
}

struct State {
  std::mutex mutex;
  // By size; never destroyed: a thread may be inside one when the size changes, and a child may not touch its parent's.
  std::map<int, std::unique_ptr<tbb::task_arena>> arenas;
  std::unique_ptr<tbb::global_control> limit;
  int workers = 0;                   // that arenas may have started
  std::atomic<int64_t> next_try{0};  // no worker could be had: when to ask again
  std::atomic<int> threads{0};       // 0: not asked yet
  std::atomic<tbb::task_arena*> arena{nullptr};
  std::atomic<int64_t> last_region{0};
  std::atomic<bool> child{false};
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

/// Of as many threads as there can be. Null: there is the caller's alone, or no memory.
std::unique_ptr<tbb::task_arena> make_arena(State& s, int threads) try {
  const int missing = std::max(threads - 1 - s.workers, 0), found = missing > 0 ? startable_threads(missing) : 0;
  s.workers += found;
  const int slots = std::min(threads, s.workers + 1);
  if (slots <= 1) return nullptr;
  // oneTBB would ignore more threads than CPUs, with a warning on stderr. Where there are fewer than were asked for,
  // all arenas together have no more either.
  if (found < missing ||
      slots > static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)))
    s.limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                    static_cast<std::size_t>(s.workers) + 1);
  auto arena = std::make_unique<tbb::task_arena>(slots);
  arena->initialize();  // at its first use it would be left half made by an error
  return arena;
} catch (const std::exception&) {
  return nullptr;
}

/// Null: the caller works alone.
tbb::task_arena* arena_for(int threads) {
  State& s = state();
  if (s.next_try.load(std::memory_order_relaxed) > now_ns()) return nullptr;
  std::lock_guard lock(s.mutex);
  auto at = s.arenas.find(threads);
  if (at == s.arenas.end()) {
    std::unique_ptr<tbb::task_arena> made = make_arena(s, threads);
    if (!made) {
      s.next_try.store(now_ns() + kRetryAfter, std::memory_order_relaxed);
      return nullptr;
    }
    at = s.arenas.emplace(threads, std::move(made)).first;
  }
  s.arena.store(at->second.get(), std::memory_order_release);
  return at->second.get();
}

// The installed oneTBB is not instrumented: what it orders is told to ThreadSanitizer here, and races inside its
// headers are in tests/runtime/tsan.supp.
#ifdef __SANITIZE_THREAD__
char g_started;
void happens_before(void* point) { __tsan_release(point); }
void happens_after(void* point) { __tsan_acquire(point); }
#define FRAMEJIT_TSAN(edge) edge
#else
#define FRAMEJIT_TSAN(edge)
#endif

thread_local bool t_inside = false;  // a body that calls parallel_for again runs it here
thread_local int t_limit = 0;        // ThreadLimit

/// Work above the first threshold that a thread asked for, one piece soon after the other: what wakes the workers when
/// it is as much together as one piece would have to be.
struct Streak {
  int64_t end = 0;  // when the last one will be done
  double nanoseconds = 0;
};
thread_local Streak t_streak;

}  // namespace

void initialize_scheduler() {
  static std::once_flag once;
  std::call_once(once, [] {
    state();
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] {
                     State& s = state();
                     s.child.store(true, std::memory_order_relaxed);
                     s.arena.store(nullptr, std::memory_order_relaxed);
                     s.mutex.unlock();
                   });
  });
}

void set_num_threads(int n) {
  State& s = state();
  s.threads.store(n <= 0 ? default_threads() : std::min(n, std::max(allowed_cpus(), kMostThreads)),
                  std::memory_order_relaxed);
  s.arena.store(nullptr, std::memory_order_release);
}

int num_threads() {
  State& s = state();
  if (s.child.load(std::memory_order_relaxed)) return 1;
  int n = s.threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = default_threads();
    s.threads.store(n, std::memory_order_relaxed);
  }
  return t_limit > 0 ? std::min(n, t_limit) : n;
}

ThreadLimit::ThreadLimit(int threads) : before_(t_limit) {
  if (threads > 0) t_limit = threads;
}
ThreadLimit::~ThreadLimit() { t_limit = before_; }

bool may_split(double nanoseconds) { return nanoseconds >= kHotThreshold; }

bool worth_splitting(double nanoseconds) {
  if (!may_split(nanoseconds)) [[likely]]
    return false;
  if (t_inside || num_threads() <= 1) return false;
  if (nanoseconds >= kColdThreshold) return true;
  const int64_t now = now_ns();
  if (now - state().last_region.load(std::memory_order_relaxed) < kHotWindow) return true;
  if (now - t_streak.end > kHotWindow) t_streak.nanoseconds = 0;
  t_streak.nanoseconds += nanoseconds;
  t_streak.end = now + static_cast<int64_t>(nanoseconds);
  return t_streak.nanoseconds >= kColdThreshold;
}

void parallel_for(int64_t n, int64_t grain, double nanoseconds, const std::function<void(int64_t, int64_t)>& body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (n + grain - 1) / grain;
  if (pieces <= 1 || !worth_splitting(nanoseconds)) return body(0, n);

  initialize_scheduler();
  const int threads = num_threads();
  tbb::task_arena* arena = state().arena.load(std::memory_order_acquire);
  if (!arena || arena->max_concurrency() != threads) arena = arena_for(threads);
  if (!arena) [[unlikely]]
    return body(0, n);

  const std::thread::id caller = std::this_thread::get_id();
  const unsigned control = _mm_getcsr() & ~kStickyFlags;
  std::atomic<unsigned> flags{0};
  auto piece = [&](const tbb::blocked_range<int64_t>& r) {
    FRAMEJIT_TSAN(happens_after(&g_started));
    const int64_t begin = r.begin() * grain, end = std::min(n, r.end() * grain);
    const bool was_inside = std::exchange(t_inside, true);
    if (std::this_thread::get_id() == caller) {
      body(begin, end);
    } else {
      const unsigned before = _mm_getcsr();
      _mm_setcsr(control);
      body(begin, end);
      flags.fetch_or(_mm_getcsr() & kStickyFlags, std::memory_order_relaxed);
      _mm_setcsr(before);
    }
    t_inside = was_inside;
    FRAMEJIT_TSAN(happens_before(&flags));
  };
  // A few pieces for each thread: enough to even out a thread that lost its CPU, few enough to cost nothing.
  const int64_t tbb_grain = std::max<int64_t>(1, pieces / (int64_t{threads} * 4));
  auto all = [&] {
    FRAMEJIT_TSAN(happens_after(&g_started));  // a full arena has another thread run this
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, pieces, static_cast<std::size_t>(tbb_grain)), piece,
                      tbb::simple_partitioner());
  };
  FRAMEJIT_TSAN(happens_before(&g_started));
  arena->execute(all);
  FRAMEJIT_TSAN(happens_after(&flags));
  state().last_region.store(now_ns(), std::memory_order_relaxed);
  if (const unsigned raised = flags.load(std::memory_order_relaxed)) _mm_setcsr(_mm_getcsr() | raised);
}

}  // namespace framejit::runtime
