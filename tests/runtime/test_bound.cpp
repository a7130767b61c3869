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
  const Bound bound = bind(*program, *code, {}, false, 1 << 20);
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

}  // namespace
}  // namespace framejit::runtime::testing
