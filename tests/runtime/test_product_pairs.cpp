// Two products of one matrix with vectors, which read it once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/text.h"
#include "oracle.h"
#include "runtime/bound.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

codegen::Program lowered(const std::string& text, int64_t l2_bytes) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = cpus()[0];
  options.cpu.l2_bytes = l2_bytes;
  options.o1 = true;
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program);
  return std::move(*program);
}

std::vector<ProductPair> pairs_of(const std::string& text, int64_t l2_bytes = 1 << 16) {
  const codegen::Program program = lowered(text, l2_bytes);
  std::vector<std::span<const uint8_t>> pieces;
  for (const codegen::KernelCode& kernel : program.kernels) pieces.emplace_back(kernel.bytes);
  auto code = CodeBlock::seal(pieces);
  return bind(program, *code, {}, {}, false, 1 << 20).pairs;
}

// (A x) A
const std::string kChain = R"(graph @f(%a: f64[503, 411], %x: f64[411]) {
  %2 = matmul %a, %x : f64[503]
  %3 = matmul %2, %a : f64[411]
  return %3, %2
})";

// r A, A p; something else in between.
const std::string kBoth = R"(graph @f(%a: f32[503, 811], %p: f32[811], %r: f32[503]) {
  %3 = matmul %r, %a : f32[811]
  %4 = subtract %3, %3 : f32[811]
  %5 = cast %4 : i32[811]
  %6 = matmul %a, %p : f32[503]
  return %3, %6
})";

// A transposed, as the first operand.
const std::string kTransposed = R"(graph @f(%a: f64[503, 411], %x: f64[411], %z: f64[503]) {
  %3 = matmul %a, %x : f64[503]
  %4 = view %a : f64[411, 503] strides=[8, 3288] root=%a offset=0
  %5 = matmul %4, %z : f64[411]
  return %3, %5
})";

TEST(ProductPairs, ReadOneMatrixOnce) {
  for (const std::string& text : {kChain, kBoth, kTransposed}) EXPECT_EQ(pairs_of(text).size(), 1u) << text;
  for (const ProductPair& pair : pairs_of(kBoth)) {
    EXPECT_EQ(pair.block % 8, 0);
    EXPECT_LE(pair.block * 811 * 4, 1 << 16);
  }
}

TEST(ProductPairs, NotOfAMatrixInTheCache) { EXPECT_EQ(pairs_of(kChain, 1 << 20).size(), 0u); }

TEST(ProductPairs, NotWhereTheSecondHasToWait) {
  // Its vector is made of the first one's result; so is an operand that is written in between.
  EXPECT_EQ(pairs_of(R"(graph @f(%a: f64[503, 411], %x: f64[411]) {
  %2 = matmul %a, %x : f64[503]
  %3 = negative %2 : f64[503]
  %4 = matmul %3, %a : f64[411]
  return %4, %2
})")
                .size(),
            0u);
  EXPECT_EQ(pairs_of(R"(graph @f(%a: f64[503, 411], %x: f64[411], %r: f64[503]) {
  %3 = matmul %a, %x : f64[503]
  write %r, %3
  %5 = matmul %r, %a : f64[411]
  return %5, %3
})")
                .size(),
            0u);
  // A x, where x is y A.
  EXPECT_EQ(pairs_of(R"(graph @f(%a: f64[503, 411], %y: f64[503]) {
  %2 = matmul %y, %a : f64[411]
  %3 = matmul %a, %2 : f64[503]
  return %3, %2
})")
                .size(),
            0u);
  // Two matrices, and two products of one kind.
  EXPECT_EQ(pairs_of(R"(graph @f(%a: f64[503, 411], %b: f64[503, 411], %x: f64[411], %r: f64[503]) {
  %4 = matmul %a, %x : f64[503]
  %5 = matmul %r, %b : f64[411]
  %6 = negative %x : f64[411]
  %7 = matmul %a, %6 : f64[503]
  return %4, %5, %7
})")
                .size(),
            0u);
}

TEST(ProductPairs, NotOfIntegers) {
  EXPECT_EQ(pairs_of(R"(graph @f(%a: i32[503, 811], %p: i32[811], %r: i32[503]) {
  %3 = matmul %r, %a : i32[811]
  %4 = matmul %a, %p : i32[503]
  return %3, %4
})")
                .size(),
            0u);
}

TEST(ProductPairs, ValuesAreThoseOfTheProducts) {
  constexpr std::size_t kRows = 6003, kColumns = 811;  // two parts of the rows
  const std::string text = R"(graph @f(%a: f32[6003, 811], %p: f32[811], %r: f32[6003]) {
  %3 = matmul %r, %a : f32[811]
  %4 = matmul %a, %p : f32[6003]
  return %3, %4
})";
  EXPECT_EQ(pairs_of(text).at(0).parts, 2);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> a(kRows * kColumns), p(kColumns), r(kRows);
  for (auto* v : {&a, &p, &r}) std::generate(v->begin(), v->end(), [&] { return number(random); });
  std::vector<std::vector<float>> seen;
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    auto plan = Plan::create(lowered(text, 1 << 18));
    std::vector<float> sums(kColumns), dots(kRows);
    char* params[] = {reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(p.data()),
                      reinterpret_cast<char*>(r.data())};
    char* results[] = {reinterpret_cast<char*>(sums.data()), reinterpret_cast<char*>(dots.data())};
    EXPECT_EQ((*plan)->run(params, results, {}).flags, 0u);
    for (std::size_t j = 0; j < kColumns; ++j) {
      double exact = 0, magnitude = 0;
      for (std::size_t i = 0; i < kRows; ++i) {
        exact += double{r[i]} * a[i * kColumns + j];
        magnitude += std::abs(double{r[i]} * a[i * kColumns + j]);
      }
      EXPECT_LE(std::abs(sums[j] - exact), (kRows + 1) * 6e-8 * magnitude);
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      double exact = 0, magnitude = 0;
      for (std::size_t j = 0; j < kColumns; ++j) {
        exact += double{a[i * kColumns + j]} * p[j];
        magnitude += std::abs(double{a[i * kColumns + j]} * p[j]);
      }
      EXPECT_LE(std::abs(dots[i] - exact), (kColumns + 1) * 6e-8 * magnitude);
    }
    sums.insert(sums.end(), dots.begin(), dots.end());
    seen.push_back(sums);
  }
  set_num_threads(0);
  EXPECT_EQ(seen[0], seen[1]);
}

}  // namespace
}  // namespace framejit::runtime::testing
