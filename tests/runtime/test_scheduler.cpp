// The scheduler: every index once, flags merged, serial below the threshold and in forked children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "graph/support/fp_state.h"
#include "runtime/scheduler.h"

namespace framejit::runtime {
namespace {

constexpr double kMuch = 1e9;

TEST(Scheduler, VisitsEachIndexOnce) {
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (int64_t n : {0, 1, 63, 64, 65, 1000, 100'003}) {
      for (int64_t grain : {1, 64}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
        std::atomic<bool> aligned{true};
        parallel_for(n, grain, kMuch, [&](int64_t begin, int64_t end) {
          if (begin % grain || (end % grain && end != n)) aligned = false;
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (auto& s : seen) ASSERT_EQ(s, 1);
        EXPECT_TRUE(aligned);
      }
    }
  }
  set_num_threads(0);
  EXPECT_GE(num_threads(), 1);
}

TEST(Scheduler, KeepsToTheBudgetOfOpenMP) {
  unsetenv("OMP_NUM_THREADS");
  set_num_threads(0);
  const int allowed = num_threads();
  const auto with = [](const char* text) {
    setenv("OMP_NUM_THREADS", text, 1);
    set_num_threads(0);
    return num_threads();
  };
  EXPECT_EQ(with("1"), 1);
  EXPECT_EQ(with("1,4"), 1);
  EXPECT_EQ(with(" 1 "), 1);
  EXPECT_EQ(with("100000"), allowed);
  for (const char* text : {"", "0", "-1", "many", "1x"}) EXPECT_EQ(with(text), allowed) << text;
  setenv("OMP_NUM_THREADS", "1", 1);
  set_num_threads(3);
  EXPECT_EQ(num_threads(), 3);
  unsetenv("OMP_NUM_THREADS");
  set_num_threads(0);
}

TEST(Scheduler, SmallWorkStaysHere) {
  set_num_threads(4);
  parallel_for(1000, 1, 5e3, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 1000);
  });
  set_num_threads(0);
}

TEST(Scheduler, ShortWorkThatFollowsEachOtherIsSplit) {
  set_num_threads(2);
  bool split = false;
  for (int attempt = 0; attempt < 100 && !split; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_FALSE(worth_splitting(20e3)) << "alone";
    for (int i = 0; i < 4; ++i) split = worth_splitting(20e3);
  }
  EXPECT_TRUE(split);
  set_num_threads(0);
}

TEST(Scheduler, MergesTheFlagsOfWorkers) {
  set_num_threads(2);
  for (int i = 0; i < 200; ++i) {
    clear_fp_flags();
    std::atomic<int> others{0};
    const auto here = std::this_thread::get_id();
    parallel_for(64, 1, kMuch, [&](int64_t begin, int64_t) {
      if (std::this_thread::get_id() != here) {
        EXPECT_EQ(fp_flags() & kReportedFlags, 0u) << "a worker starts clean";
        ++others;
        raise_fp_flags(4);
        std::this_thread::sleep_for(std::chrono::microseconds(10));
      } else if (begin == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    EXPECT_EQ(fp_flags() & kReportedFlags, others > 0 ? 4u : 0u);
  }
  clear_fp_flags();
  set_num_threads(0);
}

TEST(Scheduler, NestedCallsRunInPlace) {
  set_num_threads(2);
  std::atomic<int64_t> sum{0};
  parallel_for(100, 1, kMuch, [&](int64_t begin, int64_t end) {
    parallel_for(end - begin, 1, kMuch, [&](int64_t b, int64_t e) { sum += e - b; });
  });
  EXPECT_EQ(sum, 100);
  set_num_threads(0);
}

TEST(Scheduler, ManyCallersAtOnce) {
  set_num_threads(2);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int t = 0; t < 6; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) parallel_for(1000, 10, kMuch, [&](int64_t b, int64_t e) { sum += e - b; });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 6 * 50 * 1000);
  set_num_threads(0);
}

TEST(Scheduler, AForkedChildIsSerial) {
  initialize_scheduler();
  set_num_threads(2);
  parallel_for(1000, 1, kMuch, [](int64_t, int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    int calls = 0;
    int64_t sum = 0;
    parallel_for(1000, 1, kMuch, [&](int64_t b, int64_t e) {
      ++calls;
      sum += e - b;
    });
    set_num_threads(4);
    _exit(num_threads() == 1 && calls == 1 && sum == 1000 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(num_threads(), 2);
  set_num_threads(0);
}

}  // namespace
}  // namespace framejit::runtime
