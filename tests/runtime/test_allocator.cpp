// The recycling allocator: alignment, reuse, zeroing, blocks that cross threads, limits.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "runtime/allocator.h"

namespace framejit::runtime {
namespace {

TEST(Allocator, AlignsEverySize) {
  for (std::size_t bytes :
       {0u, 1u, 63u, 64u, 65u, 511u, 512u, 513u, 640u, 641u, 1000u, 4096u, 100000u, 3u << 20, (4u << 20) - 1}) {
    char* block = static_cast<char*>(allocate(bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u) << bytes;
    std::memset(block, 0xab, bytes);
    release(block);
  }
  for (std::size_t bytes : {4u << 20, 5u << 20, 40'000'000u}) {
    void* block = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2u << 20), 0u) << bytes;
    std::memset(block, 0xab, bytes);
    release(block);
  }
  release(nullptr);
}

TEST(AllocatorDeathTest, EndsAreLookedAt) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{1000}, std::size_t{5} << 20}) {
    const auto write_at = [bytes](std::size_t place) {
      check_ends();
      char* block = static_cast<char*>(reallocate(allocate_zeroed(1), bytes));
      block[place] = 1;
      release(block);
      std::exit(0);
    };
    EXPECT_DEATH(write_at(bytes), "behind its end");
    EXPECT_DEATH(write_at(bytes + 7), "behind its end");
    EXPECT_EXIT(write_at(bytes - 1), testing::ExitedWithCode(0), "");
  }
}

TEST(Allocator, GivesTheSameBlockBack) {
  for (std::size_t bytes : {24u, 5000u, 2u << 20, 40'000'000u}) {
    void* first = allocate(bytes);
    release(first);
    void* second = allocate(bytes);
    EXPECT_EQ(first, second) << bytes;
    release(second);
  }
}

TEST(Allocator, ZeroedBlocksAreZeroAlsoWhenReused) {
  for (std::size_t bytes : {100u, 70'000u, 6u << 20}) {
    auto* dirty = static_cast<unsigned char*>(allocate(bytes));
    std::memset(dirty, 0xff, bytes);
    release(dirty);
    auto* block = static_cast<unsigned char*>(allocate_zeroed(bytes));
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(block[i], 0) << bytes << " at " << i;
    release(block);
  }
}

TEST(Allocator, ReallocateKeepsTheContents) {
  auto* block = static_cast<unsigned char*>(reallocate(nullptr, 10));
  for (int i = 0; i < 10; ++i) block[i] = static_cast<unsigned char>(i);
  for (std::size_t bytes : {20u, 600u, 100'000u, 5u << 20, 50u << 20, 4u << 20, 1000u, 10u}) {
    block = static_cast<unsigned char*>(reallocate(block, bytes));
    ASSERT_NE(block, nullptr);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(block[i], i) << bytes;
    block[bytes - 1] = block[bytes - 1];
  }
  release(block);
}

TEST(Allocator, CountsWhatIsInUse) {
  const int64_t before = allocator_stats().bytes_in_use;
  void* a = allocate(1000);
  void* b = allocate(8u << 20);
  EXPECT_GE(allocator_stats().bytes_in_use - before, (8 << 20) + 1000);
  EXPECT_GE(allocator_stats().peak_bytes, (8 << 20) + 1000);
  std::thread([&] {
    release(a);
    release(b);
  }).join();
  EXPECT_EQ(allocator_stats().bytes_in_use, before);
  EXPECT_GT(allocator_stats().bytes_cached, 0);
  trim();
  EXPECT_EQ(allocator_stats().bytes_cached, 0);
}

TEST(Allocator, CacheIsBounded) {
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(allocate(32u << 20));  // 1.25 GiB of addresses, never touched
  for (void* block : blocks) {
    ASSERT_NE(block, nullptr);
    release(block);
  }
  EXPECT_LE(allocator_stats().bytes_cached, int64_t{513} << 20);
  trim();
}

TEST(Allocator, RefusesWhatNobodyHas) {
  EXPECT_EQ(allocate(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(allocate(~std::size_t{0}), nullptr);
}

TEST(Allocator, InjectedFaults) {
  fail_allocations_from(2);
  void* a = allocate(10);
  void* b = allocate(5u << 20);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(b, nullptr);
  EXPECT_EQ(allocate(10), nullptr);
  EXPECT_EQ(allocate_zeroed(5u << 20), nullptr);
  fail_allocations_from(-1);
  release(a);
  release(b);
}

TEST(Allocator, BlocksCrossThreads) {
  // Each thread fills blocks with its mark, hands them to the next one through a mailbox, checks and releases what it
  // gets.
  constexpr int kThreads = 4, kRounds = 20'000, kMailboxes = 64;
  std::atomic<unsigned char*> mailbox[kMailboxes]{};
  std::atomic<bool> damaged{false};
  auto check_and_release = [&](unsigned char* block) {
    std::size_t size;
    std::memcpy(&size, block, sizeof(size));
    for (std::size_t i = sizeof(size); i < size; ++i)
      if (block[i] != block[sizeof(size)]) damaged = true;
    release(block);
  };
  auto work = [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < kRounds; ++i) {
      const std::size_t size = 16 + random() % (random() % 50 ? 700u : 60'000u);
      auto* block = static_cast<unsigned char*>(allocate(size));
      std::memset(block, thread + 1, size);
      std::memcpy(block, &size, sizeof(size));
      if (unsigned char* other = mailbox[random() % kMailboxes].exchange(block)) check_and_release(other);
    }
  };
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
    for (std::thread& t : threads) t.join();
  }
  for (auto& box : mailbox)
    if (unsigned char* block = box.load()) check_and_release(block);
  EXPECT_FALSE(damaged);
}

TEST(Allocator, WorksInAForkedChild) {
  std::atomic<bool> stop{false};
  std::thread noise([&] {
    while (!stop) release(allocate(700'000));  // takes the shared lock all the time
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      void* blocks[200];
      for (int k = 0; k < 200; ++k) blocks[k] = allocate(static_cast<std::size_t>(100 * k * k));
      for (void* block : blocks) release(block);
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  noise.join();
}

}  // namespace
}  // namespace framejit::runtime
