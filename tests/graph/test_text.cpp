// The text form: what is printed, what is read back, what is refused.
#include <gtest/gtest.h>

#include <random>

#include "graph/builder.h"
#include "graph/text.h"

namespace framejit::graph {
namespace {

TEST(Text, ShowsEveryKindOfNode) {
  Graph g("step");
  GraphBuilder b(g);
  const Dim n = g.shapes().fresh(5);
  const ValueId x = b.param({DType::F32, {n, 64}, {256, 4}}, "x");
  const ValueId y = b.param({DType::F32, {64}, {-4}}, "not an identifier");
  const ValueId c = b.constant(DType::F32, {0x3fc00000});
  b.set_location(g.add_location({"sim.py", 14, 0, 0}));
  const ValueId operands[] = {x, c};
  const ValueId product = *b.elementwise(Op::Multiply, operands);
  const ValueId row = b.select(product, 0, 0);
  ASSERT_TRUE(b.write(y, row));
  const ValueId sum = *b.reduce(Op::ReduceSum, product, {1});
  const ValueId size = b.dim_value(n * 2 + 1);
  const ValueId zeros = b.full(c, {n});
  const ValueId counted = b.iota(DType::I64, n);
  g.set_results({sum, y, row});
  (void)size, (void)zeros, (void)counted;
  EXPECT_EQ(print(g), R"(graph @step(%x: f32[s0, 64], %1: f32[64] strides=[-4]) {
  %2 = constant {value=1.5} : f32[]
  %3 = multiply %x, %2 : f32[s0, 64]
  %4 = view %3 : f32[64] root=%3 offset=0
  write %1, %4
  %6 = reduce_sum %3 {axes=[1]} : f32[s0]
  %7 = dim {dim=2*s0 + 1} : i64[]
  %8 = full %2 : f32[s0]
  %9 = iota : i64[s0]
  return %6, %1, %4
}
)");
  PrintOptions options;
  options.locations = true;
  const std::string located = print(g, options);
  EXPECT_NE(located.find("%3 = multiply %x, %2 : f32[s0, 64]  # sim.py:14\n"), std::string::npos);
  auto parsed = parse(located);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(print(*parsed), print(g));
  EXPECT_EQ(parsed->shapes().symbol_count(), 1u);
}

TEST(Text, ParamsWithOneNameAreToldApart) {
  Graph g;
  GraphBuilder b(g);
  for (int i = 0; i < 3; ++i) b.param({DType::F64, {}, {}}, "x");
  b.param({DType::F64, {}, {}}, "x_2");
  g.set_results({g.params()[1]});
  EXPECT_EQ(print(g), "graph @f(%x: f64[], %x_2: f64[], %x_3: f64[], %x_2_2: f64[]) {\n  return %x_2\n}\n");
}

TEST(Text, WhatBecomesOfFlagsStandsWithTheAttributes) {
  Graph g;
  GraphBuilder b(g);
  const ValueId x = b.param({DType::F64, {4}, {8}}, "x");
  b.set_flag_rule({5, 8});
  const ValueId operands[] = {x, x};
  const ValueId quotient = *b.elementwise(Op::Divide, operands);
  const ValueId sum = *b.reduce(Op::ReduceSum, quotient, {0});
  const ValueId sign = *b.elementwise(Op::SignBit, {&quotient, 1});  // raises none
  b.set_flag_rule({0, 16});
  const ValueId root = *b.elementwise(Op::Sqrt, {&quotient, 1});
  g.set_results({sum, sign, root});
  const std::string text = R"(graph @f(%x: f64[4]) {
  %1 = divide %x, %x {ignore=divide|invalid, trap=over} : f64[4]
  %2 = reduce_sum %1 {axes=[0], ignore=divide|invalid, trap=over} : f64[]
  %3 = signbit %1 : bool[4]
  %4 = sqrt %1 {trap=under} : f64[4]
  return %2, %3, %4
}
)";
  EXPECT_EQ(print(g), text);
  auto parsed = parse(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(print(*parsed), text);
  EXPECT_EQ(parsed->node(root).flag_rule, (FlagRule{0, 16}));
}

TEST(Text, ScalarsReadBackToTheSameBits) {
  std::mt19937_64 random(3);
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    const int bits = is_complex(dtype) ? 4 * size_of(dtype) : 8 * size_of(dtype);
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    for (int round = 0; round < 300; ++round) {
      Scalar s{random() & mask, is_complex(dtype) ? random() & mask : 0}, back;
      if (dtype == DType::Bool) s.lo &= 1;
      const std::string text = scalar_str(dtype, s);
      ASSERT_TRUE(parse_scalar(text, dtype, back)) << name_of(dtype) << " " << text;
      EXPECT_EQ(s, back) << name_of(dtype) << " " << text;
    }
  }
  EXPECT_EQ(scalar_str(DType::F64, {0x8000000000000000}), "-0");
  EXPECT_EQ(scalar_str(DType::F32, {0x7f800000}), "inf");
  EXPECT_EQ(scalar_str(DType::F64, {0x7ff8000000000001}), "0x7ff8000000000001");
  EXPECT_EQ(scalar_str(DType::I8, {0x80}), "-128");
  EXPECT_EQ(scalar_str(DType::C64, {0x3f800000, 0xbf800000}), "(1, -1)");
}

struct Refused {
  const char* text;
  int line, column;
  const char* message;
};

TEST(Text, ErrorsSayWhere) {
  const Refused refused[] = {
      {"", 1, 1, "expected 'graph'"},
      {"graph @f(%x: f99[]) {\n return\n}", 1, 14, "unknown dtype"},
      {"graph @f(%x: f64[4] strides=[8, 8]) {\n return\n}", 1, 35, "a stride for each axis"},
      {"graph @f(%x: f64[]) {\n  %1 = frobnicate %x : f64[]\n return\n}", 2, 8, "unknown operator"},
      {"graph @f(%x: f64[]) {\n  %1 = add %x : f64[]\n return\n}", 2, 8, "number of operands"},
      {"graph @f(%x: f64[]) {\n  %1 = negative %y : f64[]\n return\n}", 2, 18, "not defined before"},
      {"graph @f(%x: f64[]) {\n  %x = negative %x : f64[]\n return\n}", 2, 4, "defined twice"},
      {"graph @f() {\n  %1 = constant {value=300} : i8[]\n return\n}", 2, 24, "value does not fit the dtype"},
      {"graph @f() {\n  %1 = constant {color=3} : i8[]\n return\n}", 2, 18, "unknown attribute"},
      {"graph @f(%x: f64[]) {\n  %1 = sqrt %x {ignore=none} : f64[]\n return\n}", 2, 24, "unknown flag"},
      {"graph @f(%x: f64[]) {\n  %1 = write %x, %x : f64[]\n return\n}", 2, 8, "a name for what has a value"},
      {"graph @f() {\n  return\n} x", 3, 3, "text after the graph"},
      {"graph @f(%x: f64[s99999999]) {\n return\n}", 1, 27, "too many symbols"},
  };
  for (const Refused& r : refused) {
    auto graph = parse(r.text);
    ASSERT_FALSE(graph) << r.text;
    EXPECT_EQ(graph.error().message, r.message) << r.text;
    EXPECT_EQ(graph.error().line, r.line) << r.text;
    EXPECT_EQ(graph.error().column, r.column) << r.text;
  }
}

TEST(Text, BlocksStandInBraces) {
  const std::string text =
      "graph @f(%x: f32[s0], %c: bool[]) {\n"
      "  %2 = if %c {\n"
      "    %3 = loop %x with %4: f32[s0] {\n"
      "      %5 = negative %4 : f32[s0]\n"
      "      yield %c, %5\n"
      "    }\n"
      "    %6 = output %3 {index=0} : f32[s0]\n"
      "    yield %6\n"
      "  } else {\n"
      "    expect %c\n"
      "    yield %x\n"
      "  }\n"
      "  %8 = output %2 {index=0} : f32[s0]\n"
      "  return %8\n"
      "}\n";
  auto graph = parse(text);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph), text);
  EXPECT_FALSE(
      parse("graph @f(%c: bool[]) {\n %1 = if %c { %2 = logical_not %c : bool[] yield } else { yield %2 }\n return\n}"))
      << "names of a block end with it";
}

/// No text makes the parser crash: cut and changed forms of a good one.
TEST(Text, DamagedTextIsRefusedOrRead) {
  const std::string good =
      "graph @f(%x: f32[s0, 64], %c: f32[]) {\n  %2 = multiply %x, %c : f32[s0, 64]\n"
      "  %3 = view %2 : f32[4] root=%2 offset=8*s0\n  write %3, %c\n"
      "  %5 = reduce_sum %2 {axes=[1]} : f32[s0]\n  return %5\n}\n";
  ASSERT_TRUE(parse(good));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (unsigned i = random() % 4 + 1; i > 0; --i) {
      const std::size_t at = random() % text.size();
      if (random() % 2) text.erase(at, random() % 5 + 1);
      else text[at] = good[random() % good.size()];
      if (text.empty()) break;
    }
    if (auto graph = parse(text)) (void)print(*graph);
  }
}

}  // namespace
}  // namespace framejit::graph
