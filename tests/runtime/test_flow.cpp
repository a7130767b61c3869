// Branches and loops of a plan: against the interpreter, and how runs of them end.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>

#include "oracle.h"

namespace framejit::runtime::testing {
namespace {

const char* const kBranch = R"(graph @f(%x: f64[s0], %c: bool[], %y: f64[s0]) {
  %3 = multiply %x, %y : f64[s0]
  %4 = if %c {
    %5 = add %3, %x : f64[s0]
    %6 = reduce_sum %5 {axes=[0]} : f64[]
    yield %5, %6, %x, %3
  } else {
    %7 = subtract %3, %y : f64[s0]
    %8 = constant {value=2.5} : f64[]
    yield %7, %8, %y, %7
  }
  %9 = output %4 {index=0} : f64[s0]
  %10 = output %4 {index=1} : f64[]
  %11 = output %4 {index=2} : f64[s0]
  %12 = output %4 {index=3} : f64[s0]
  %13 = multiply %11, %10 : f64[s0]
  return %9, %10, %11, %13, %12
})";

TEST(Flow, BranchesAgree) {
  for (int64_t n : {0, 1, 5, 1000}) expect_agrees(kBranch, {n});
}

TEST(Flow, OnePassesThroughInEachOther) {
  expect_agrees(R"(graph @f(%x: f64[7], %c: bool[], %d: bool[]) {
    %3 = if %c {
      %4 = if %d {
        %5 = negative %x : f64[7]
        yield %5
      } else {
        yield %x
      }
      %6 = output %4 {index=0} : f64[7]
      yield %6, %6
    } else {
      %7 = absolute %x : f64[7]
      yield %7, %x
    }
    %8 = output %3 {index=0} : f64[7]
    %9 = output %3 {index=1} : f64[7]
    %10 = add %8, %9 : f64[7]
    return %9, %10
  })");
}

/// Rounds that shift values from one carried value to the next, with a local array that is written.
TEST(Flow, LoopsAgree) {
  for (int64_t n : {1, 4, 300})
    expect_agrees(R"(graph @f(%x: f64[s0], %y: f64[s0]) {
      %2 = constant {value=0} : i64[]
      %3 = loop %x, %y, %2 with %4: f64[s0], %5: f64[s0], %6: i64[] {
        %7 = constant {value=1} : i64[]
        %8 = add %6, %7 : i64[]
        %9 = constant {value=5} : i64[]
        %10 = less %8, %9 : bool[]
        %11 = constant {value=0.5} : f64[]
        %12 = multiply %4, %11 : f64[s0]
        %13 = copy %12 : f64[s0]
        %14 = view %13 : f64[1] root=%13 offset=0
        write %14, %11
        %16 = add %13, %5 : f64[s0]
        yield %10, %5, %16, %8, %12, %6
      }
      %17 = output %3 {index=0} : f64[s0]
      %18 = output %3 {index=1} : f64[s0]
      %19 = output %3 {index=2} : i64[]
      %20 = output %3 {index=3} : f64[s0]
      %21 = output %3 {index=4} : i64[]
      %22 = add %17, %18 : f64[s0]
      return %22, %19, %20, %21, %18
    })",
                  {n});
}

TEST(Flow, LoopsInLoopsAgree) {
  expect_agrees(R"(graph @f(%x: f64[6]) {
    %1 = constant {value=0} : i64[]
    %2 = constant {value=1} : i64[]
    %3 = constant {value=3} : i64[]
    %4 = loop %x, %1 with %5: f64[6], %6: i64[] {
      %7 = loop %5, %1 with %8: f64[6], %9: i64[] {
        %10 = negative %8 : f64[6]
        %11 = add %10, %x : f64[6]
        %12 = add %9, %2 : i64[]
        %13 = less %12, %3 : bool[]
        yield %13, %11, %12
      }
      %14 = output %7 {index=0} : f64[6]
      %15 = add %6, %2 : i64[]
      %16 = less %15, %3 : bool[]
      yield %16, %14, %15
    }
    %17 = output %4 {index=0} : f64[6]
    return %17
  })");
}

std::unique_ptr<Plan> make_plan(const std::string& text) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = codegen::detected_cpu();
  options.numpy_loop = reference_loop;
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program) << program.error();
  auto plan = Plan::create(std::move(*program));
  EXPECT_TRUE(plan) << plan.error();
  return std::move(*plan);
}

TEST(Flow, WhatIsNotAsExpectedLeavesParamsAsTheyWere) {
  const auto plan = make_plan(R"(graph @f(%x: f64[2], %c: bool[]) {
    %2 = negative %x : f64[2]
    write %x, %2
    expect %c
    return
  })");
  std::array<double, 2> x{1, 2};
  bool met = false;
  std::array<char*, 2> params{reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(&met)};
  EXPECT_EQ(plan->run(params, {}, {}).status, RunStatus::SpeculationFailed);
  EXPECT_EQ(x, (std::array<double, 2>{1, 2}));
  met = true;
  EXPECT_EQ(plan->run(params, {}, {}).status, RunStatus::Done);
  EXPECT_EQ(x, (std::array<double, 2>{-1, -2}));
}

TEST(Flow, ALoopWithoutEndIsCancelled) {
  const auto plan = make_plan(R"(graph @f(%x: f64[2], %c: bool[]) {
    %2 = negative %x : f64[2]
    write %x, %2
    %4 = loop %x with %5: f64[2] {
      %6 = negative %5 : f64[2]
      yield %c, %6
    }
    %7 = output %4 {index=0} : f64[2]
    return %7
  })");
  EXPECT_GT(plan->cost({}), 5e5) << "long enough to look for signals";
  std::array<double, 2> x{1, 2}, out{};
  bool again = true;
  std::array<char*, 2> params{reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(&again)};
  std::array<char*, 1> results{reinterpret_cast<char*>(out.data())};
  EXPECT_EQ(plan->run(params, results, {}, [] { return true; }).status, RunStatus::Interrupted);
  EXPECT_EQ(x, (std::array<double, 2>{1, 2}));
  again = false;
  EXPECT_EQ(plan->run(params, results, {}, [] { return true; }).status, RunStatus::Done);
  EXPECT_EQ(out, (std::array<double, 2>{1, 2}));
}

}  // namespace
}  // namespace framejit::runtime::testing
