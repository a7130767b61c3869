// Whether two views share bytes, compared with all bytes of both.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "graph/passes/memory.h"

namespace framejit::graph {
namespace {

Type view(DType dtype, Dims shape, Dims strides, Dim offset) {
  Type type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  type.strides = std::move(strides);
  type.offset = std::move(offset);
  return type;
}

std::set<int64_t> bytes_of(const Type& type) {
  std::set<int64_t> firsts{type.offset.value()}, bytes;
  for (int i = 0; i < type.rank(); ++i) {
    std::set<int64_t> next;
    for (int64_t first : firsts)
      for (int64_t at = 0; at < type.shape[i].value(); ++at) next.insert(first + at * type.strides[i].value());
    firsts = std::move(next);
  }
  for (int64_t first : firsts)
    for (int64_t byte = 0; byte < size_of(type.dtype); ++byte) bytes.insert(first + byte);
  return bytes;
}

bool share_bytes(const Type& a, const Type& b) {
  const std::set<int64_t> x = bytes_of(a), y = bytes_of(b);
  return std::any_of(x.begin(), x.end(), [&](int64_t byte) { return y.contains(byte); });
}

TEST(Memory, WhatNeverMeetsSharesNoByte) {
  std::mt19937 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto any = [&] {
    const DType dtypes[] = {DType::I8, DType::I16, DType::F32, DType::F64};
    Dims shape, strides;
    for (int64_t rank = below(3); rank > 0; --rank) {
      shape.emplace_back(below(4));
      strides.emplace_back((below(9) - 3) * (1 + below(4)));
    }
    return view(dtypes[below(4)], shape, strides, 100 + below(40));
  };
  int met = 0, apart = 0, found = 0;
  for (int i = 0; i < 20000; ++i) {
    const Type a = any(), b = any();
    const bool shared = share_bytes(a, b);
    const bool never = never_meet(a, b);
    ASSERT_FALSE(shared && never) << i;
    ASSERT_EQ(never, never_meet(b, a)) << i;
    met += shared;
    apart += !shared;
    found += never;
  }
  EXPECT_GT(met, 2000);
  EXPECT_GT(found, apart / 2);
}

TEST(Memory, ColumnsNeverMeet) {
  const Dim n = Dim::symbol(SymbolId{0}), m = Dim::symbol(SymbolId{1});
  const auto column = [&](int64_t k, DType dtype = DType::F64) { return view(dtype, {n, m}, {m * 208, 208}, 8 * k); };
  EXPECT_TRUE(never_meet(column(0), column(1)));
  EXPECT_TRUE(never_meet(column(25), column(1)));
  EXPECT_FALSE(never_meet(column(1), column(1)));
  EXPECT_FALSE(never_meet(column(0), column(26))) << "the first one of the next row";
  EXPECT_FALSE(never_meet(column(0, DType::C128), column(1))) << "it is two columns wide";
  EXPECT_TRUE(never_meet(column(0, DType::C128), column(2)));
  const Type first = view(DType::F64, {n}, {8}, 0), second = view(DType::F64, {m}, {8}, n * 8);
  EXPECT_TRUE(never_meet(first, second)) << "one ends where the other begins";
  EXPECT_FALSE(never_meet(first, view(DType::F64, {m}, {8}, n * 8 - 8)));
  EXPECT_FALSE(never_meet(first, view(DType::F64, {m}, {8}, m * 8)));
}

TEST(Memory, DivisorsOfDimensions) {
  const Dim n = Dim::symbol(SymbolId{0}), m = Dim::symbol(SymbolId{1});
  EXPECT_EQ(divisor(0), 0);
  EXPECT_EQ(divisor(-12), 12);
  EXPECT_EQ(divisor(n * 8), 8);
  EXPECT_EQ(divisor(n * 8 + m * 12), 4);
  EXPECT_EQ(divisor(n * 8 + 3), 1);
  EXPECT_EQ(divisor(floordiv(n, 2) * 6), 6);
}

}  // namespace
}  // namespace framejit::graph
