// Plans themselves: many threads at once, forked children, cancelled runs, failing allocations, shared temporaries.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "oracle.h"
#include "runtime/allocator.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

std::unique_ptr<Plan> make_plan(const std::string& text) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = codegen::detected_cpu();
  options.numpy_loop = reference_loop;
  auto program = codegen::lower(graph, fused(graph), options);
  if (!program) {
    ADD_FAILURE() << program.error();
    return nullptr;
  }
  auto plan = Plan::create(std::move(*program));
  if (!plan) {
    ADD_FAILURE() << plan.error();
    return nullptr;
  }
  return std::move(*plan);
}

constexpr int64_t kMany = 2'000'000;
const char* const kSquares = R"(graph @f(%a: f32[2000000]) {
  %1 = multiply %a, %a : f32[2000000]
  %2 = add %1, %a : f32[2000000]
  %3 = reduce_sum %2 {axes=[0]} : f32[]
  return %2, %3
})";

/// Runs kSquares; the sum and the last element.
std::pair<float, float> run_squares(const Plan& plan) {
  std::vector<float> in(kMany), out(kMany);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 1000) * 0.25f;
  float sum = 0;
  char* params[] = {reinterpret_cast<char*>(in.data())};
  char* results[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(&sum)};
  if (plan.run(params, results, {}).status != RunStatus::Done) return {NAN, NAN};
  return {sum, out.back()};
}

TEST(Plan, ForkAfterParallelKernels) {
  initialize_scheduler();
  set_num_threads(2);
  auto plan = make_plan(kSquares);
  ASSERT_TRUE(plan);
  const auto expected = run_squares(*plan);
  EXPECT_EQ(expected.second, 999 * 0.25f * 999 * 0.25f + 999 * 0.25f);
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      auto other = make_plan("graph @g(%a: f64[10]) {\n  %1 = negative %a : f64[10]\n  return %1\n}");
      _exit(other && run_squares(*plan) == expected && num_threads() == 1 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(run_squares(*plan), expected);
  }
  set_num_threads(0);
}

TEST(Plan, ManyThreadsAtOnce) {
  auto plan = make_plan(R"(graph @f(%a: f64[s0]) {
    %1 = exp %a : f64[s0]
    %2 = add %1, %a : f64[s0]
    %3 = reduce_sum %2 {axes=[0]} : f64[]
    return %2, %3
  })");
  ASSERT_TRUE(plan);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 200; ++i) {
        const std::vector<int64_t> symbols{1 + (i * 7 + t) % 150};
        const auto n = static_cast<std::size_t>(symbols[0]);
        std::vector<double> in(n, 1.5), out(n);
        double sum = 0;
        char* params[] = {reinterpret_cast<char*>(in.data())};
        char* results[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(&sum)};
        if (plan->result_bytes(0, symbols) != symbols[0] * 8) ++wrong;
        if (plan->run(params, results, symbols).status != RunStatus::Done) ++wrong;
        for (double x : out)
          if (x != std::exp(1.5) + 1.5) ++wrong;
        if (std::abs(sum - static_cast<double>(n) * (std::exp(1.5) + 1.5)) > 1e-9) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Plan, ThreadsMoveOperandsForThemselves) {
  auto plan = make_plan(R"(graph @f(%m: f64[300, 7], %x: f64[7]) {
    %2 = view %m : f64[7] root=%m offset=56*s0
    %3 = exp %2 : f64[7]
    %4 = add %3, %x : f64[7]
    %5 = reduce_sum %4 {axes=[0]} : f64[]
    return %4, %5
  })");
  ASSERT_TRUE(plan);
  std::vector<double> m(300 * 7), x(7, 0.5);
  std::iota(m.begin(), m.end(), 0.0);
  for (double& number : m) number /= 1000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 600; ++i) {
        const std::vector<int64_t> symbols{(i * 7 + t) % 300};
        std::vector<double> out(7);
        double sum = 0;
        char* params[] = {reinterpret_cast<char*>(m.data()), reinterpret_cast<char*>(x.data())};
        char* results[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(&sum)};
        if (plan->run(params, results, symbols).status != RunStatus::Done) ++wrong;
        for (std::size_t k = 0; k < 7; ++k)
          if (out[k] != std::exp(m[static_cast<std::size_t>(symbols[0]) * 7 + k]) + 0.5) ++wrong;
        if (plan->resident_bytes() < 0) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Plan, ThreadsShareOnePlanWhileOthersComeAndGo) {
  initialize_scheduler();
  set_num_threads(2);
  auto shared = make_plan(kSquares);
  ASSERT_TRUE(shared);
  const auto expected = run_squares(*shared);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i) {
        auto own = make_plan(kSquares);
        if (!own || run_squares(*own) != expected) ++wrong;
        own.reset();
        if (run_squares(*shared) != expected) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  set_num_threads(0);
}

int g_polls = 0;

TEST(Plan, LongRunsCanBeCancelled) {
  // Each step takes a while; the param is written at the end, and must be as before.
  std::string text = "graph @f(%a: f64[3000000]) {\n  %1 = sin %a : f64[3000000]\n";
  for (int i = 2; i < 40; ++i)
    text += "  %" + std::to_string(i) + " = sin %" + std::to_string(i - 1) + " : f64[3000000]\n";
  text += "  write %a, %39\n  return %a\n}";
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    auto plan = make_plan(text);
    ASSERT_TRUE(plan);
    const std::vector<double> before(3'000'000, 0.5);
    std::vector<double> data = before;
    char* params[] = {reinterpret_cast<char*>(data.data())};
    g_polls = 0;
    RunResult run = plan->run(params, {}, {}, [] { return ++g_polls >= 2; });
    EXPECT_EQ(run.status, RunStatus::Interrupted);
    EXPECT_EQ(g_polls, 2);
    EXPECT_TRUE(data == before);
  }
  set_num_threads(0);
}

TEST(Plan, OutOfMemoryLeavesParamsAlone) {
  const char* const text = R"(graph @f(%a: f32[5000], %b: f32[5000]) {
    %2 = exp %b : f32[5000]
    %3 = reduce_sum %2 {axes=[0]} : f32[]
    %4 = multiply %a, %3 : f32[5000]
    write %a, %4
    %6 = sin %a : f32[5000]
    write %b, %6
    return %3
  })";
  auto plan = make_plan(text);
  ASSERT_TRUE(plan);
  const std::vector<float> before_a(5000, 0.5f), before_b(5000, 1.25f);
  std::vector<float> done_a;
  for (int64_t n = 0; n < 20; ++n) {
    std::vector<float> a = before_a, b = before_b;
    float sum = 0;
    char* params[] = {reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(b.data())};
    char* results[] = {reinterpret_cast<char*>(&sum)};
    fail_allocations_from(n);
    const RunResult run = plan->run(params, results, {});
    fail_allocations_from(-1);
    if (run.status == RunStatus::OutOfMemory) {
      EXPECT_TRUE(a == before_a && b == before_b);
    } else {
      ASSERT_EQ(run.status, RunStatus::Done);
      if (done_a.empty()) done_a = a;
      EXPECT_TRUE(a == done_a && a != before_a);
    }
  }
}

TEST(Plan, TemporariesShareMemory) {
  // A chain through six arrays that cannot fuse: at most two of them live at once.
  std::string text = "graph @f(%a: f32[1000, 1000]) {\n";
  std::string last = "%a";
  int number = 1;
  for (int i = 0; i < 6; ++i) {
    const std::string sum = "%" + std::to_string(number++), next = "%" + std::to_string(number++);
    text += "  " + sum + " = reduce_sum " + last + " {axes=[0]} : f32[1000]\n  " + next + " = subtract " + last + ", " +
            sum + " : f32[1000, 1000]\n";
    last = next;
  }
  text += "  return " + last + "\n}";
  auto plan = make_plan(text);
  ASSERT_TRUE(plan);
  trim();
  const int64_t elsewhere = allocator_stats().bytes_cached;  // by other threads
  std::vector<float> in(1'000'000, 1.0f), out(1'000'000);
  char* params[] = {reinterpret_cast<char*>(in.data())};
  char* results[] = {reinterpret_cast<char*>(out.data())};
  EXPECT_EQ(plan->run(params, results, {}).status, RunStatus::Done);
  EXPECT_LE(allocator_stats().bytes_cached - elsewhere, int64_t{11} << 20);
  expect_agrees(text);
}

TEST(Plan, CodePagesAreNeverWritable) {
  auto plan = make_plan(kSquares);
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->code_bytes(), 0u);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) EXPECT_EQ(line.find("rwx"), std::string::npos) << line;
}

TEST(Plan, ListingNamesStepsAndKernels) {
  auto plan = make_plan(kSquares);
  ASSERT_TRUE(plan);
  const std::string listing = codegen::listing(plan->program());
  EXPECT_NE(listing.find("pairwise"), std::string::npos) << listing;
  EXPECT_NE(listing.find("multiply_add"), std::string::npos) << listing;
}

TEST(Plan, EqualKernelsAreOne) {
  auto plan = make_plan(R"(graph @f(%a: f32[30], %b: f32[40]) {
    %2 = multiply %a, %a : f32[30]
    %3 = multiply %b, %b : f32[40]
    return %2, %3
  })");
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->program().kernels.size(), 1u);
}

}  // namespace
}  // namespace framejit::runtime::testing
