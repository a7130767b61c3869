// Executable memory: code runs, nothing is writable and executable at once, what is unused traps.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/exec_memory.h"

namespace framejit::runtime {
namespace {

// mov eax, N; ret
std::vector<uint8_t> returns(uint8_t n) { return {0xb8, n, 0, 0, 0, 0xc3}; }

int call(const void* entry) { return reinterpret_cast<int (*)()>(const_cast<void*>(entry))(); }

TEST(ExecMemory, RunsAlignedPieces) {
  std::vector<std::vector<uint8_t>> code;
  for (int i = 0; i < 100; ++i) code.push_back(returns(static_cast<uint8_t>(i)));
  std::vector<std::span<const uint8_t>> pieces(code.begin(), code.end());
  auto block = CodeBlock::seal(pieces);
  ASSERT_TRUE(block.has_value());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->entry(i)) % 64, 0u);
    EXPECT_EQ(call(block->entry(i)), static_cast<int>(i));
    EXPECT_EQ(static_cast<const uint8_t*>(block->entry(i))[6], 0xcc) << "int3 behind each piece";
  }
  CodeBlock moved = std::move(*block);
  EXPECT_EQ(call(moved.entry(7)), 7);
}

TEST(ExecMemory, NoPageIsWritableAndExecutable) {
  const std::vector<uint8_t> code = returns(1);
  const std::span<const uint8_t> piece(code);
  auto block = CodeBlock::seal({&piece, 1});
  ASSERT_TRUE(block.has_value());
  std::ifstream maps("/proc/self/maps");
  bool executable = false;
  for (std::string line; std::getline(maps, line);) {
    EXPECT_EQ(line.find("rwx"), std::string::npos) << line;
    std::uintptr_t begin = 0, end = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx", &begin, &end), 2);
    const auto entry = reinterpret_cast<std::uintptr_t>(block->entry(0));
    if (begin <= entry && entry < end) executable = line.find("r-xp") != std::string::npos;
  }
  EXPECT_TRUE(executable);
}

TEST(ExecMemory, BlocksOfManyThreads) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::vector<uint8_t> code = returns(static_cast<uint8_t>(t));
      const std::span<const uint8_t> piece(code);
      for (int i = 0; i < 200; ++i) {
        auto block = CodeBlock::seal({&piece, 1});
        if (!block.has_value() || call(block->entry(0)) != t) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ExecMemory, EmptyProgramsNeedNone) {
  auto block = CodeBlock::seal({});
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->bytes(), 0u);
}

TEST(ExecMemory, GuardPagesTrap) {
  const std::vector<uint8_t> code = returns(1);
  const std::span<const uint8_t> piece(code);
  auto block = CodeBlock::seal({&piece, 1});
  ASSERT_TRUE(block.has_value());
  const auto* entry = static_cast<const volatile uint8_t*>(block->entry(0));
  EXPECT_DEATH((void)entry[-1], "");
  EXPECT_DEATH((void)entry[4096], "");
}

}  // namespace
}  // namespace framejit::runtime
