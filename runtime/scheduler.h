// Threads: oneTBB behind one face. The result of anything scheduled here is the same for any number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace framejit::runtime {

/// 1: everything on the calling thread. 0: all that affinity, cgroup limits and OMP_NUM_THREADS allow.
void set_num_threads(int n);
int num_threads();

/// Runs body(begin, end) over [0, n) cut at multiples of `grain`, on the calling thread and on workers. `nanoseconds`
/// is the estimated cost of all; below the threshold (about 10 us when a region ended less than 50 us ago, 100 us
/// otherwise, which several pieces of work that follow each other as closely may make together) it runs here. The
/// workers' sticky flags are merged into the caller's MXCSR.
void parallel_for(int64_t n, int64_t grain, double nanoseconds, const std::function<void(int64_t, int64_t)>& body);

/// Of the calling thread, what it starts runs on at most so many threads while this is in scope; 0 changes nothing.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int before_;
};

/// Whether any work of this estimated cost is split. num_threads(), which reads files when it is first asked, is asked
/// only then.
bool may_split(double nanoseconds);
/// Whether parallel_for would split work of this estimated cost now. False in a forked child, and inside a body.
bool worth_splitting(double nanoseconds);

/// Called once at import: fork handlers (the child never touches the parent's arenas), shutdown order.
void initialize_scheduler();

}  // namespace framejit::runtime
