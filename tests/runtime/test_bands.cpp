// Steps that go by the same rows, run block by block, against the reference interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "graph/text.h"
#include "oracle.h"
#include "runtime/bound.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

/// Bytes of temporaries, with blocks of so many bytes.
int64_t buffer_bytes(const std::string& text, int64_t block_bytes) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = cpus()[0];
  options.numpy_loop = reference_loop;
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program);
  PlanOptions plan_options;
  plan_options.block_bytes = block_bytes;
  auto plan = Plan::create(std::move(*program), plan_options);
  EXPECT_TRUE(plan);
  return (*plan)->buffer_bytes({});
}

constexpr int64_t kNone = int64_t{1} << 40;

const char* const kNorm = R"(graph @f(%x: f32[200, 24], %g: f32[24]) {
  %2 = reduce_sum %x {axes=[1]} : f32[200]
  %3 = view %2 : f32[200, 1] root=%2 offset=0
  %4 = constant {value=24} : f32[]
  %5 = divide %3, %4 : f32[200, 1]
  %6 = subtract %x, %5 : f32[200, 24]
  %7 = sqrt %6 : f32[200, 24]
  %8 = multiply %7, %7 : f32[200, 24]
  %9 = reduce_sum %8 {axes=[1]} : f32[200]
  %10 = view %9 : f32[200, 1] root=%9 offset=0
  %11 = divide %7, %10 : f32[200, 24]
  %12 = multiply %11, %g : f32[200, 24]
  return %12
})";

const char* const kSoftmax = R"(graph @f(%x: f64[300, 7]) {
  %1 = reduce_max %x {axes=[1]} : f64[300]
  %2 = view %1 : f64[300, 1] root=%1 offset=0
  %3 = subtract %x, %2 : f64[300, 7]
  %4 = exp %3 : f64[300, 7]
  %5 = reduce_sum %4 {axes=[1]} : f64[300]
  %6 = view %5 : f64[300, 1] root=%5 offset=0
  %7 = divide %4, %6 : f64[300, 7]
  return %7, %1
})";

// The rows of one step are the elements of another.
const char* const kDifferences = R"(graph @f(%x: f64[128, 3, 8]) {
  %1 = reduce_sum %x {axes=[2]} : f64[128, 3]
  %2 = reduce_sum %1 {axes=[1]} : f64[128]
  %3 = sqrt %2 : f64[128]
  %4 = view %3 : f64[128, 1, 1] root=%3 offset=0
  %5 = multiply %x, %4 : f64[128, 3, 8]
  %6 = cast %5 : f32[128, 3, 8]
  %7 = reduce_sum %6 {axes=[0]} : f32[3, 8]
  return %5, %7
})";

// A row needs its neighbour: threads cannot share it.
const char* const kNeighbours = R"(graph @f(%x: f64[257, 8]) {
  %1 = sqrt %x : f64[257, 8]
  %2 = view %1 : f64[256, 8] root=%1 offset=64
  %3 = view %1 : f64[256, 8] root=%1 offset=0
  %4 = subtract %2, %3 : f64[256, 8]
  %5 = view %4 : f64[255, 8] root=%4 offset=64
  %6 = view %4 : f64[255, 8] root=%4 offset=0
  %7 = subtract %5, %6 : f64[255, 8]
  %8 = view %7 : f64[254, 8] root=%7 offset=64
  %9 = view %7 : f64[254, 8] root=%7 offset=0
  %10 = subtract %8, %9 : f64[254, 8]
  %11 = view %x : f64[254, 8] root=%x offset=128
  %12 = multiply %10, %11 : f64[254, 8]
  return %12
})";

// What is read far apart is not what lies between: less than the least number of blocks.
const char* const kApart = R"(graph @f(%x: f64[3, 600]) {
  %1 = view %x : f64[600] root=%x offset=0
  %2 = view %x : f64[600] root=%x offset=9600
  %3 = subtract %1, %2 : f64[600]
  %4 = sqrt %1 : f64[600]
  %5 = view %4 : f64[1, 600] root=%4 offset=0
  %6 = negative %x : f64[3, 600]
  %7 = view %6 : f64[1, 600] root=%6 offset=0
  write %7, %5
  %9 = view %6 : f64[1, 600] root=%6 offset=4800
  %10 = view %3 : f64[1, 600] root=%3 offset=0
  write %9, %10
  return %6
})";

TEST(Bands, AgreeWithTheInterpreter) {
  for (const char* text : {kNorm, kSoftmax, kDifferences, kNeighbours, kApart})
    for (int threads : {1, 3}) {
      set_num_threads(threads);
      expect_agrees(text, {}, {.special = false, .limit = 100});
    }
  set_num_threads(0);
}

TEST(Bands, KeepWhatLiesBetweenTheirStepsInBlocks) {
  EXPECT_LT(buffer_bytes(kNorm, 2048), buffer_bytes(kNorm, kNone) / 4);
  EXPECT_LT(buffer_bytes(kSoftmax, 1024), buffer_bytes(kSoftmax, kNone) / 2);
  EXPECT_EQ(buffer_bytes(kApart, 1 << 14), buffer_bytes(kApart, kNone));
  set_num_threads(2);
  EXPECT_EQ(buffer_bytes(kNeighbours, 1024), buffer_bytes(kNeighbours, kNone));
  set_num_threads(1);
  EXPECT_LT(buffer_bytes(kNeighbours, 1024), buffer_bytes(kNeighbours, kNone) / 2);
  set_num_threads(0);
}

/// At O1 each step of a norm is one call of a kernel, for all rows and for a block of them; at O0 the sums are trees.
TEST(Bands, StepsOfOneCall) {
  const auto direct = [](bool o1) {
    const Graph graph = parse_graph(kNorm);
    codegen::LowerOptions options;
    options.cpu = cpus()[0];
    options.o1 = o1;
    auto program = codegen::lower(graph, fused(graph), options);
    std::vector<std::span<const uint8_t>> pieces;
    for (const codegen::KernelCode& kernel : program->kernels) pieces.emplace_back(kernel.bytes);
    auto code = CodeBlock::seal(pieces);
    const Bound bound = bind(*program, *code, {}, {}, false, 128);
    EXPECT_EQ(bound.bands.size(), 1u);
    return std::ranges::count_if(bound.steps,
                                 [](const BoundStep& step) { return !std::get<BoundLoop>(step).direct.empty(); }) -
           std::ssize(bound.steps);
  };
  EXPECT_EQ(direct(true), 0);
  EXPECT_EQ(direct(false), -2);
}

TEST(Bands, ASumIsAShortRun) {
  for (bool o1 : {false, true}) {
    codegen::LowerOptions options;
    options.cpu = cpus()[0];
    options.o1 = o1;
    const Graph graph =
        parse_graph("graph @f(%x: f32[5, 100]) {\n  %1 = reduce_sum %x {axes=[1]} : f32[5]\n  return %1\n}\n");
    auto plan = Plan::create(std::move(*codegen::lower(graph, fused(graph), options)));
    EXPECT_EQ((*plan)->is_short(), o1);
    std::vector<float> x(500), sums(5);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    char* params[] = {reinterpret_cast<char*>(x.data())};
    char* results[] = {reinterpret_cast<char*>(sums.data())};
    EXPECT_EQ((*plan)->run(params, results, {}).flags, 0u);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(sums[i], static_cast<float>(4950 + 10000 * i));
  }
}

/// Programs whose rows need rows around them: views of rows and columns, sums of rows, and writes to parts.
class RandomStencils {
 public:
  explicit RandomStencils(uint64_t seed) : random_(seed) {
    const int64_t rows = pick(24, 70), columns = pick(1, 5);
    for (const char* name : {"x", "y"}) {
      values_.push_back({name, rows, columns});
      text_ += (text_.empty() ? "graph @f(%" : ", %") + std::string(name) + ": " + type(rows, columns);
    }
    text_ += ") {\n";
    for (int64_t left = pick(3, 12); left > 0; --left) add();
    const std::string last = values_.back().name;
    const bool is_param = last == "y";
    text_ += is_param ? "  return\n}" : "  return %" + last + "\n}";
  }
  const std::string& text() const { return text_; }

 private:
  struct Value {
    std::string name;
    int64_t rows, columns;
  };

  int64_t pick(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  const Value& any() { return values_[static_cast<std::size_t>(pick(0, std::ssize(values_) - 1))]; }
  static std::string type(int64_t rows, int64_t columns) {
    return "f64[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  }
  std::string define(const std::string& what) {
    const std::string name = std::to_string(++number_);
    text_ += "  %" + name + " = " + what + "\n";
    return name;
  }

  std::string part(const Value& of, int64_t rows, int64_t columns) {
    const int64_t at = 8 * (pick(0, of.rows - rows) * of.columns + pick(0, of.columns - columns));
    return define("view %" + of.name + " : " + type(rows, columns) + " strides=[" + std::to_string(8 * of.columns) +
                  ", 8] root=%" + of.name + " offset=" + std::to_string(at));
  }

  void add() {
    const Value a = any(), b = any();
    const int64_t rows = std::min(a.rows, b.rows) - pick(0, 2),
                  columns = std::max<int64_t>(1, std::min(a.columns, b.columns) - pick(0, 1));
    if (rows < 8) return;
    static constexpr const char* kOps[] = {"add", "subtract", "multiply", "maximum"};
    const std::string op = kOps[pick(0, 3)];
    const std::string sum = "%" + part(a, rows, columns) + ", %" + part(b, rows, columns) + " : " + type(rows, columns);
    std::string made = define(op + " " + sum);
    const int64_t kind = pick(0, 9);
    if (kind < 2) {  // written in place, to a computed value or a param
      const Value target = any();
      if (target.rows < rows || target.columns < columns) return;
      text_ += "  write %" + part(target, rows, columns) + ", %" + made + "\n";
      ++number_;
      return;
    }
    if (kind == 2) {
      const std::string of_rows = define("reduce_sum %" + made + " {axes=[1]} : f64[" + std::to_string(rows) + "]");
      const std::string column = define("view %" + of_rows + " : " + type(rows, 1) + " root=%" + of_rows + " offset=0");
      made = define("subtract %" + made + ", %" + column + " : " + type(rows, columns));
    }
    values_.push_back({made, rows, columns});
  }

  std::mt19937_64 random_;
  std::vector<Value> values_;
  std::string text_;
  int64_t number_ = 1;
};

TEST(Bands, StaggeredStepsAgreeWithTheInterpreter) {
  const char* const count = std::getenv("FRAMEJIT_PROGRAMS");
  const uint64_t programs = count ? std::strtoull(count, nullptr, 10) : 150;
  std::size_t staggered = 0;
  for (uint64_t seed = 0; seed < programs; ++seed) {
    const std::string text = RandomStencils(seed).text();
    const Graph graph = parse_graph(text);
    std::mt19937_64 random(seed);
    std::vector<ParamMemory> params;
    for (ValueId p : graph.params())
      params.push_back(make_param(graph.type(p), {}, random, {.special = seed % 3 == 0, .limit = 100}));
    for (int threads : {1, 2}) {
      set_num_threads(threads);
      for (bool attribute : {false, true})
        for (bool fuse : {false, true})
          for (int64_t block_bytes : {64, 256, 1024}) {
            const CompareOptions options{
                .cpu = cpus()[0], .fuse = fuse, .attribute = attribute, .block_bytes = block_bytes, .bands = true};
            std::string declined;  // what cannot be attributed
            ASSERT_EQ(compare(graph, params, {}, options, &declined), "")
                << "seed " << seed << ", blocks of " << block_bytes << " bytes\n"
                << text;
          }
    }
    set_num_threads(1);
    codegen::LowerOptions options;
    options.cpu = cpus()[0];
    options.numpy_loop = reference_loop;
    auto program = codegen::lower(graph, one_each(graph), options);
    ASSERT_TRUE(program);
    std::vector<std::span<const uint8_t>> pieces;
    for (const codegen::KernelCode& kernel : program->kernels) pieces.emplace_back(kernel.bytes);
    auto code = CodeBlock::seal(pieces);
    for (const Band& band : bind(*program, *code, {}, {}, false, 256).bands) staggered += !band.followers.empty();
  }
  set_num_threads(0);
  EXPECT_GT(staggered, programs / 4);
}

}  // namespace
}  // namespace framejit::runtime::testing
