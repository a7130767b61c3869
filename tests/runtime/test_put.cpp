// Items of arrays that are written at places: beside the reference interpreter, in place and not, with what takes them
// back. The oracle makes a run that raised a flag go back, and compares the params with what they were.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "oracle.h"

namespace framejit::runtime::testing {
namespace {

/// Indices from -3 to 3.
constexpr Fill kSmall{.special = false, .limit = 3};

const std::string kBehind = "  %s = reduce_sum %x {axes=[0]} : f64[]\n  return %s\n}";

/// Squares of what is large raise a flag behind the write.
std::string with_flag(const std::string& put) {
  return put +
         "  write %x, %p\n  %h = constant {value=1e200} : f64[]\n  %l = multiply %h, %x : f64[6]\n"
         "  %m = multiply %l, %l : f64[6]\n  return %m\n}";
}

codegen::Program lowered(const Graph& graph) {
  codegen::LowerOptions options;
  options.cpu = codegen::detected_cpu();
  options.numpy_loop = reference_loop;
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program) << program.error();
  return std::move(*program);
}

std::string listed(const std::string& text) { return codegen::listing(lowered(parse_graph(text))); }

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Put, ByIndices) {
  const std::string head = "graph @f(%x: f64[6], %v: f64[5], %i: i64[5]) {\n  %p = put %x, %v, %i : f64[6]\n";
  expect_agrees(head + "  write %x, %p\n" + kBehind, {}, kSmall);
  expect_agrees(head + "  return %p\n}", {}, kSmall);  // a copy
  expect_agrees(with_flag(head), {}, kSmall);          // an item that is written twice goes back to what it was first
}

TEST(Put, OneValueForAll) {
  expect_agrees(
      "graph @f(%x: f64[6], %v: f64[], %i: i32[5]) {\n  %p = put %x, %v, %i : f64[6]\n  write %x, %p\n" + kBehind, {},
      kSmall);
}

TEST(Put, OfSeveralAxesAndRows) {
  for (const std::string dtype : {"u8", "f16", "f32", "i64", "c64", "c128"}) {
    const std::string type = dtype + "[4, 5, 3]";
    expect_agrees("graph @f(%x: " + type + ", %v: " + dtype + "[7, 3], %i: i64[7], %j: i16[7]) {\n  %p = put %x, %v, " +
                      "%i, %j : " + type + "\n  write %x, %p\n  return %p\n}",
                  {}, kSmall);
    expect_agrees("graph @f(%x: " + type + ", %v: " + dtype +
                      "[7, 5, 3], %i: i64[7]) {\n  %p = put %x, %v, %i : " + type + "\n  write %x, %p\n  return %v\n}",
                  {}, kSmall);
  }
}

TEST(Put, IntoViews) {
  expect_agrees(R"(graph @f(%x: f64[6, 4], %v: f64[5], %i: i64[5]) {
  %c = view %x : f64[6] strides=[-32] root=%x offset=168
  %p = put %c, %v, %i : f64[6]
  write %c, %p
  return %v
})",
                {}, kSmall);
}

TEST(Put, ByMask) {
  for (const std::string dtype : {"u8", "f16", "f32", "f64", "c128"}) {
    const std::string n = dtype + "[100]", half = dtype + "[50]";
    // As many places as values: the first or the last half.
    const std::string head = "graph @f(%x: " + n + ", %v: " + half + ") {\n  %i = iota : i64[100]\n" +
                             "  %n = constant {value=49} : i64[]\n  %m = greater %i, %n : bool[100]\n" +
                             "  %p = put %x, %v, %m : " + n + "\n";
    expect_agrees(head + "  write %x, %p\n  return %v\n}");
    expect_agrees(head + "  return %p\n}");
  }
  expect_agrees(R"(graph @f(%x: f64[3, 4], %v: f64[2, 4]) {
  %i = iota : i64[3]
  %n = constant {value=0} : i64[]
  %m = greater %i, %n : bool[3]
  %p = put %x, %v, %m : f64[3, 4]
  write %x, %p
  %h = constant {value=1e300} : f64[]
  %l = multiply %x, %h : f64[3, 4]
  %q = multiply %l, %l : f64[3, 4]
  return %q
})");
}

TEST(Put, WritesInPlaceAndKeepsTheItemsOnly) {
  const std::string head = "graph @f(%x: f64[6], %v: f64[5], %i: i64[5]) {\n  %p = put %x, %v, %i : f64[6]\n";
  const std::string alone = listed(head + "  write %x, %p\n  return %v\n}");
  EXPECT_EQ(count(alone, "put"), 1) << alone;
  EXPECT_EQ(count(alone, "write f64 param 0"), 1) << alone;
  EXPECT_EQ(count(alone, "write u8 temp"), 0) << alone;  // all indices are tried before one item is written
  EXPECT_EQ(count(alone, "undo"), 0) << alone;
  EXPECT_EQ(count(alone, "loop"), 0) << alone;
  const std::string flagged = listed(with_flag(head));
  EXPECT_EQ(count(flagged, "write u8 temp"), 1) << flagged;
  EXPECT_EQ(count(flagged, "undo"), 0) << flagged;
  // The second one may end the run when the first one has written.
  const std::string two =
      listed(head + "  write %x, %p\n  %q = put %x, %v, %i : f64[6]\n  write %x, %q\n  return %v\n}");
  EXPECT_EQ(count(two, "write u8 temp"), 2) << two;
  // Something else needs the array as it would be.
  const std::string copied = listed(head + "  %n = negative %p : f64[6]\n  write %x, %n\n  return %p\n}");
  EXPECT_EQ(count(copied, "write u8 temp"), 0) << copied;
  EXPECT_EQ(count(copied, "undo"), 1) << copied;
  // The values are read from the array that is written.
  const std::string shared = listed(
      "graph @f(%x: f64[6], %i: i64[6]) {\n  %v = view %x : f64[6] strides=[-8] root=%x offset=40\n"
      "  %p = put %x, %v, %i : f64[6]\n  write %x, %p\n  return %i\n}");
  EXPECT_EQ(count(shared, "undo"), 1) << shared;
}

TEST(Put, SharedMemoryIsReadBeforeItIsWritten) {
  expect_agrees(
      "graph @f(%x: f64[6], %i: i64[6]) {\n  %v = view %x : f64[6] strides=[-8] root=%x offset=40\n"
      "  %p = put %x, %v, %i : f64[6]\n  write %x, %p\n  return %i\n}",
      {}, kSmall);
}

TEST(Put, AnIndexOutOfBoundsLeavesAllAsItWas) {
  const Graph graph = parse_graph(
      "graph @f(%x: f64[6000], %v: f64[5000], %i: i64[5000]) {\n  %p = put %x, %v, %i : f64[6000]\n  write %x, %p\n"
      "  return %v\n}");
  std::mt19937_64 random(7);
  std::vector<ParamMemory> params;
  for (ValueId p : graph.params()) params.push_back(make_param(graph.type(p), {}, random, {}));
  auto* indices = reinterpret_cast<int64_t*>(params[2].bytes.data() + params[2].first);
  for (int64_t i = 0; i < 5000; ++i) indices[i] = i % 6000;
  for (const int64_t bad : {int64_t{6000}, int64_t{-6001}, INT64_MAX, INT64_MIN})
    for (const int64_t at : {0, 2047, 2048, 4999}) {
      const int64_t good = std::exchange(indices[at], bad);
      auto plan = Plan::create(lowered(graph));
      ASSERT_TRUE(plan);
      std::vector<ParamMemory> actual = params;
      std::vector<char*> pointers;
      for (ParamMemory& p : actual) pointers.push_back(reinterpret_cast<char*>(p.bytes.data() + p.first));
      EXPECT_EQ((*plan)->run(pointers, {}, {}).status, RunStatus::Bailout);
      for (std::size_t p = 0; p < params.size(); ++p) EXPECT_EQ(actual[p].bytes, params[p].bytes);
      indices[at] = good;
    }
}

}  // namespace
}  // namespace framejit::runtime::testing
