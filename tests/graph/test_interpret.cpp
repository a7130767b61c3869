// The reference interpreter on graphs: results and their aliasing, writes, products, flags. Scalars and reductions are
// compared with NumPy in test_numpy.cpp.
#include "graph/interpret.h"

#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>

#include "graph/text.h"

namespace framejit::graph {
namespace {

std::vector<double> doubles(const ArrayRef& a) {
  std::vector<double> out;
  const int64_t n = a.shape.empty() ? 1 : a.shape[0];
  for (int64_t i = 0; i < n; ++i) {
    double x;
    std::memcpy(&x, a.data + (a.shape.empty() ? 0 : i * a.strides[0]), sizeof(x));
    out.push_back(x);
  }
  return out;
}

class Interpret : public ::testing::Test {
 protected:
  ArrayRef row(std::vector<double>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), {static_cast<int64_t>(values.size())}, {8}};
  }

  Interpretation run(const char* text, std::vector<ArrayRef> params, std::vector<int64_t> symbols = {}) {
    auto g = parse(text);
    EXPECT_TRUE(g) << g.error().line << ": " << g.error().message;
    auto out = interpret(*g, params, symbols);
    EXPECT_TRUE(out) << out.error();
    return std::move(*out);
  }

  std::vector<double> x_{1, 2, 3, 4}, y_{10, 20, 30, 40};
};

TEST_F(Interpret, ResultsShareBytesAsTheirRootsDo) {
  Interpretation out = run(R"(graph @f(%x: f64[4]) {
    %1 = negative %x : f64[4]
    %2 = view %1 : f64[2] strides=[-16] root=%1 offset=24
    %3 = view %x : f64[2] root=%x offset=8
    write %2, %3
    return %2, %1, %3
  })",
                           {row(x_)});
  EXPECT_EQ(doubles(out.results[0].array), (std::vector<double>{2, 3}));
  EXPECT_EQ(doubles(out.results[1].array), (std::vector<double>{-1, 3, -3, 2}));
  EXPECT_EQ(out.results[0].array.data - out.results[1].array.data, 24);
  EXPECT_FALSE(out.results[0].owned.empty());
  EXPECT_TRUE(out.results[1].owned.empty()) << "the first result with the root owns its bytes";
  EXPECT_TRUE(out.results[2].owned.empty());
  EXPECT_EQ(out.results[2].array.data, reinterpret_cast<std::byte*>(x_.data() + 1));
}

TEST_F(Interpret, AWriteReadsItsValueFirst) {
  run("graph @f(%x: f64[4]) {\n  %1 = view %x : f64[3] root=%x offset=8\n  %2 = view %x : f64[3] root=%x offset=0\n"
      "  write %1, %2\n  return\n}",
      {row(x_)});
  EXPECT_EQ(x_, (std::vector<double>{1, 1, 2, 3}));
}

TEST_F(Interpret, BranchesAndLoops) {
  const char* text = R"(graph @f(%x: f64[4]) {
    %1 = reduce_sum %x {axes=[0]} : f64[]
    %2 = constant {value=5} : f64[]
    %3 = less %1, %2 : bool[]
    %4 = if %3 {
      yield %x, %1
    } else {
      %5 = loop %x, %1 with %6: f64[4], %7: f64[] {
        %8 = constant {value=0.5} : f64[]
        %9 = multiply %6, %8 : f64[4]
        %10 = reduce_sum %9 {axes=[0]} : f64[]
        %11 = greater_equal %10, %2 : bool[]
        yield %11, %9, %10, %7
      }
      %12 = output %5 {index=0} : f64[4]
      %13 = output %5 {index=2} : f64[]
      yield %12, %13
    }
    %14 = output %4 {index=0} : f64[4]
    %15 = output %4 {index=1} : f64[]
    return %14, %15
  })";
  Interpretation out = run(text, {row(x_)});
  EXPECT_EQ(doubles(out.results[0].array), (std::vector<double>{0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(doubles(out.results[1].array), std::vector<double>{5}) << "as the last round began";
  EXPECT_EQ(doubles(run(text, {row(y_)}).results[1].array), std::vector<double>{6.25});
  std::vector<double> small{1, 1, 1, 1};
  out = run(text, {row(small)});
  EXPECT_EQ(doubles(out.results[0].array), small);
  EXPECT_NE(out.results[0].array.data, reinterpret_cast<std::byte*>(small.data()));
}

TEST_F(Interpret, AnExpectationEndsTheRun) {
  auto g = parse("graph @f(%c: bool[]) {\n  expect %c\n  return\n}\n");
  ASSERT_TRUE(g);
  bool yes = true, no = false;
  const ArrayRef met{reinterpret_cast<std::byte*>(&yes), {}, {}}, missed{reinterpret_cast<std::byte*>(&no), {}, {}};
  EXPECT_TRUE(interpret(*g, std::array{met}, {}));
  EXPECT_FALSE(interpret(*g, std::array{missed}, {}));
}

TEST_F(Interpret, Products) {
  std::vector<double> m{1, 2, 3, 4, 5, 6};
  const ArrayRef matrix{reinterpret_cast<std::byte*>(m.data()), {3, 2}, {16, 8}};
  std::vector<double> v{1, 10};
  Interpretation out =
      run("graph @f(%m: f64[3, 2], %v: f64[2]) {\n  %2 = matmul %m, %v : f64[3]\n"
          "  %3 = matmul %v, %v : f64[]\n  return %2, %3\n}",
          {matrix, row(v)});
  EXPECT_EQ(doubles(out.results[0].array), (std::vector<double>{21, 43, 65}));
  EXPECT_EQ(doubles(out.results[1].array), (std::vector<double>{101}));
  Interpretation left = run("graph @f(%m: f64[3, 2], %v: f64[3]) {\n  %2 = matmul %v, %m : f64[2]\n  return %2\n}",
                            {matrix, row(x_ = {1, 10, 100})});
  EXPECT_EQ(doubles(left.results[0].array), (std::vector<double>{531, 642}));
}

TEST_F(Interpret, FlagsAreReportedAndTheCallersKept) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_UNDERFLOW);
  x_ = {0, -1, 1, 2};
  const char* text =
      "graph @f(%x: f64[4]) {\n  %1 = reciprocal %x : f64[4]\n  %2 = sqrt %x : f64[4]\n  return %1, %2\n}";
  EXPECT_EQ(run(text, {row(x_)}).fp_flags, static_cast<unsigned>(FE_DIVBYZERO | FE_INVALID));
  EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_UNDERFLOW), FE_UNDERFLOW);
  EXPECT_EQ(
      run("graph @f(%x: f64[4]) {\n  %1 = less %x, %x : bool[4]\n  return %1\n}", {row(y_ = {NAN, 1, 2, 3})}).fp_flags,
      0u);
}

TEST_F(Interpret, SymbolsAndSources) {
  Interpretation out = run(R"(graph @f(%x: f64[s0]) {
    %1 = dim {dim=2*s0} : i64[]
    %2 = cast %1 : f64[]
    %3 = full %2 : f64[s0]
    %4 = iota : f64[s0]
    %5 = add %3, %4 : f64[s0]
    return %5
  })",
                           {row(x_)}, {4});
  EXPECT_EQ(doubles(out.results[0].array), (std::vector<double>{8, 9, 10, 11}));
}

TEST_F(Interpret, EmptyMemoryHoldsWhatIsWritten) {
  Interpretation out = run(R"(graph @f(%x: f64[4]) {
    %1 = empty : f64[8]
    %2 = view %1 : f64[4] root=%1 offset=0
    %3 = view %1 : f64[4] root=%1 offset=32
    write %2, %x
    write %3, %2
    return %1
  })",
                           {row(x_ = {1, 2, 3, 4})});
  EXPECT_EQ(doubles(out.results[0].array), (std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}));
}

TEST_F(Interpret, BoundsOfClip) {
  const char* scalar = "graph @f(%x: f64[4], %l: f64[], %h: f64[]) {\n  %3 = clip %x, %l, %h : f64[4]\n  return %3\n}";
  double low = 0, high = 3;
  const ArrayRef bounds[] = {{reinterpret_cast<std::byte*>(&low), {}, {}},
                             {reinterpret_cast<std::byte*>(&high), {}, {}}};
  x_ = {-0.0, NAN, 5, 1};
  std::vector<double> got = doubles(run(scalar, {row(x_), bounds[0], bounds[1]}).results[0].array);
  EXPECT_TRUE(std::signbit(got[0])) << "-0 is not less than the bound 0";
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ(got[2], 3);
  low = NAN;
  for (double v : doubles(run(scalar, {row(x_), bounds[0], bounds[1]}).results[0].array)) EXPECT_TRUE(std::isnan(v));
}

TEST_F(Interpret, WhatHasNoReferenceSaysSo) {
  auto g = parse("graph @f(%x: c128[]) {\n  %1 = negative %x : c128[]\n  return %1\n}");
  ASSERT_TRUE(g);
  std::vector<std::byte> bytes(16);
  const ArrayRef x{bytes.data(), {}, {}};
  auto out = interpret(*g, {&x, 1}, {});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), "no reference for negative of c128");
  EXPECT_FALSE(interpret(*g, {}, {}));
}

}  // namespace
}  // namespace framejit::graph
