// Which axes a loop has once its sizes are known: blocks where operands lie across each other, short rows several at
// once.
#include "runtime/bound.h"

#include <gtest/gtest.h>

#include "codegen/lower.h"
#include "oracle.h"

namespace framejit::runtime::testing {
namespace {

struct Axes {
  std::vector<int64_t> extents;
  int64_t joined = 0, rest = 0;
  std::size_t repeated = 0;
  friend bool operator==(const Axes&, const Axes&) = default;
};

/// Of the only loop.
Axes axes(const std::string& text) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = cpus()[0];
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program.has_value());
  std::vector<std::span<const uint8_t>> pieces;
  for (const codegen::KernelCode& kernel : program->kernels) pieces.emplace_back(kernel.bytes);
  auto code = CodeBlock::seal(pieces);
  const Bound bound = bind(*program, *code, {}, {}, false, 1 << 20);
  EXPECT_EQ(bound.steps.size(), 1u);
  const BoundLoop& loop = std::get<BoundLoop>(bound.steps[0]);
  return {loop.extents, loop.joined.length, loop.joined.rest, loop.joined.repeated.size()};
}

std::string sum(const std::string& x, const std::string& y, const std::string& result) {
  return "graph @f(%x: " + x + ", %y: " + y + ") {\n  %2 = add %x, %y : " + result + "\n  return %2\n}";
}

TEST(Bound, OneElementForAllOfARowMakesNoBlocks) {
  EXPECT_EQ(axes(sum("f32[128, 65536]", "f32[128, 1]", "f32[128, 65536]")), (Axes{{128, 65536}}));
}

TEST(Bound, OperandsAcrossEachOtherGoInBlocks) {
  const Axes found = axes(sum("f32[2048, 4096]", "f32[2048, 4096] strides=[4, 8192]", "f32[2048, 4096]"));
  EXPECT_EQ(found.extents, (std::vector<int64_t>{256, 2048, 16}));
}

TEST(Bound, ShortRowsAreSeveralAtOnce) {
  // 2048 bytes and more in whole lines: 176 rows of 12 bytes.
  EXPECT_EQ(axes(sum("f32[100000, 3]", "f32[3]", "f32[100000, 3]")), (Axes{{568, 528}, 3, 32, 1}));
  EXPECT_EQ(axes(sum("f32[1000, 3]", "f32[3]", "f32[1000, 3]")), (Axes{{1000, 3}}));            // too few
  EXPECT_EQ(axes(sum("f32[100000, 64]", "f32[64]", "f32[100000, 64]")), (Axes{{100000, 64}}));  // not short
  EXPECT_EQ(axes(sum("f32[100000, 3]", "f32[100000, 1]", "f32[100000, 3]")), (Axes{{100000, 3}}));
  EXPECT_EQ(axes(sum("f32[100000, 3] strides=[16, 4]", "f32[3]", "f32[100000, 3]")), (Axes{{100000, 3}}));
}

struct Compiled {
  codegen::Program program;
  CodeBlock code;
};

Compiled compiled(const std::string& text) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = cpus()[0];
  options.numpy_loop = reference_loop;
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program.has_value());
  std::vector<std::span<const uint8_t>> pieces;
  for (const codegen::KernelCode& kernel : program->kernels) pieces.emplace_back(kernel.bytes);
  auto code = CodeBlock::seal(pieces);
  return {std::move(*program), std::move(*code)};
}

std::vector<int64_t> offsets(const Bound& bound) {
  std::vector<int64_t> out;
  for (const BoundStep& step : bound.steps) {
    if (const auto* loop = std::get_if<BoundLoop>(&step))
      for (const BoundOperand& o : loop->operands) out.push_back(o.offset);
    if (const auto* undo = std::get_if<BoundUndo>(&step)) out.push_back(undo->source.offset);
  }
  return out;
}

// s0: a row of `m`; s1: how long rows are.
const char* const kRow = R"(graph @f(%m: f64[50, s1], %x: f64[s1]) {
  %2 = view %m : f64[s1] root=%m offset=8*s0*s1
  %3 = multiply %2, %x : f64[s1]
  %4 = view %m : f64[s1] root=%m offset=8*s0*s1 + 8*s1
  write %4, %3
  %6 = dim {dim=s0} : i64[]
  return %6
})";

TEST(Bound, ACounterMovesOperandsOnly) {
  const Compiled f = compiled(kRow);
  const Movable movable = movable_of(f.program);
  EXPECT_TRUE(movable.holds(0));
  EXPECT_FALSE(movable.holds(1));
  EXPECT_TRUE(movable.holds(7));  // a symbol that is in no expression
  EXPECT_FALSE(movable.places.empty());
  Bound moved =
      runtime::bind(f.program, f.code, std::vector<int64_t>{kUnknown, 6}, std::vector<int64_t>{9, 6}, false, 1 << 20);
  own_steps(movable, moved);
  for (int64_t row : {0, 3, 48, 1}) {
    const std::vector<int64_t> symbols{row, 6};
    const Bound bound = runtime::bind(f.program, f.code, symbols, symbols, false, 1 << 20);
    move_operands(f.program, movable, symbols, moved);
    EXPECT_EQ(offsets(moved), offsets(bound));
    EXPECT_EQ(moved.dim_values, bound.dim_values);
    EXPECT_EQ(moved.symbols, bound.symbols);
    EXPECT_EQ(moved.redo, bound.redo);
    EXPECT_EQ(is_refused(f.program, movable, symbols), bound.redo);
  }
}

TEST(Bound, WhatMovesHasAValueThatItMayHave) {
  const Compiled f = compiled(R"(graph @f(%a: f64[100]) {
    %1 = view %a : f64[] root=%a offset=8*floordiv(100, s0)
    %2 = negative %1 : f64[]
    return %2
  })");
  const Bound bound = runtime::bind(f.program, f.code, std::vector{kUnknown}, std::vector<int64_t>{7}, false, 1 << 20);
  EXPECT_EQ(offsets(bound)[0], 8 * 14);
}

TEST(Bound, ALengthDoesNotMove) {
  const Movable movable = movable_of(compiled(R"(graph @f(%a: f64[50]) {
    %1 = view %a : f64[s0] root=%a offset=8*s1
    %2 = exp %1 : f64[s0]
    return %2
  })")
                                         .program);
  EXPECT_FALSE(movable.holds(0));
  EXPECT_TRUE(movable.holds(1));
}

}  // namespace
}  // namespace framejit::runtime::testing
