// Gathers, scans and histograms: loops that no kernel is made for, against elements one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "codegen/gather.h"
#include "codegen/histogram.h"
#include "codegen/scan.h"

namespace framejit::codegen::testing {
namespace {

using graph::DType;
using graph::Op;

struct Array {
  std::vector<int64_t> shape, strides;
  std::vector<double> numbers;    // where it is of float64
  std::vector<int64_t> integers;  // where it is of int64

  explicit Array(std::vector<int64_t> lengths, DType dtype = DType::F64) : shape(std::move(lengths)), dtype_(dtype) {
    int64_t count = 1;
    for (std::size_t a = shape.size(); a-- > 0; count *= shape[a]) strides.insert(strides.begin(), 8 * count);
    dtype == DType::F64 ? numbers.resize(static_cast<std::size_t>(count))
                        : integers.resize(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0.5);
  }
  StridedArray view() {
    char* data =
        dtype_ == DType::F64 ? reinterpret_cast<char*>(numbers.data()) : reinterpret_cast<char*>(integers.data());
    return {data, dtype_, shape, strides};
  }

 private:
  DType dtype_;
};

Array indices(std::vector<int64_t> shape, int64_t length, unsigned seed) {
  Array out(std::move(shape), DType::I64);
  std::mt19937 random(seed);
  for (int64_t& i : out.integers) i = static_cast<int64_t>(random() % static_cast<unsigned>(2 * length)) - length;
  return out;
}

TEST(Gather, OfALine) {
  for (int64_t n : {1, 7, 2047, 2049, 5000}) {
    Array x({40}), out({n}), at = indices({n}, 40, 1);
    const StridedArray index = at.view();
    const StridedArray* all[] = {&index};
    ASSERT_EQ(gather(x.view(), all, 0, out.view()), Gathered::Done);
    for (std::size_t i = 0; i < at.integers.size(); ++i)
      EXPECT_EQ(out.numbers[i], x.numbers[static_cast<std::size_t>((at.integers[i] + 40) % 40)]);
  }
}

TEST(Gather, OfAxesBetweenOthers) {
  Array x({3, 5, 4, 2}), out({3, 6, 7, 2}), rows = indices({6, 1}, 5, 2), columns = indices({7}, 4, 3);
  const StridedArray i = rows.view(), j = columns.view();
  const StridedArray* all[] = {&i, &j};
  ASSERT_EQ(gather(x.view(), all, 1, out.view()), Gathered::Done);
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b < 6; ++b)
      for (std::size_t c = 0; c < 7; ++c)
        for (std::size_t d = 0; d < 2; ++d) {
          const auto row = static_cast<std::size_t>((rows.integers[b] + 5) % 5),
                     column = static_cast<std::size_t>((columns.integers[c] + 4) % 4);
          EXPECT_EQ(out.numbers[((a * 6 + b) * 7 + c) * 2 + d], x.numbers[((a * 5 + row) * 4 + column) * 2 + d]);
        }
}

TEST(Gather, BoundsAndWhatIsNotDone) {
  Array x({5}), out({3000}), at = indices({3000}, 5, 4), other({3000});
  StridedArray index = at.view();
  const StridedArray* all[] = {&index};
  for (int64_t wrong : {int64_t{5}, int64_t{-6}, INT64_MAX, INT64_MIN})
    for (std::size_t place : {std::size_t{0}, std::size_t{2100}, std::size_t{2999}}) {
      const int64_t right = std::exchange(at.integers[place], wrong);
      EXPECT_EQ(gather(x.view(), all, 0, out.view()), Gathered::Outside);
      at.integers[place] = right;
    }
  EXPECT_EQ(gather(x.view(), all, 0, out.view()), Gathered::Done);
  EXPECT_EQ(gather(x.view(), all, 1, out.view()), Gathered::Unknown);
  index = other.view();
  EXPECT_EQ(gather(x.view(), all, 0, out.view()), Gathered::Unknown);
}

TEST(Scan, AlongEachAxis) {
  Array x({4, 9, 11});
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (Op op : {Op::Add, Op::Maximum, Op::Minimum}) {
      Array out(x.shape);
      ASSERT_TRUE(scan(op, x.view(), axis, out.view()));
      const std::size_t step = static_cast<std::size_t>(x.strides[axis] / 8),
                        length = static_cast<std::size_t>(x.shape[axis]);
      for (std::size_t i = 0; i < x.numbers.size(); ++i) {
        const std::size_t k = i / step % length;
        const double before = k == 0 ? x.numbers[i] : out.numbers[i - step], number = x.numbers[i];
        const double expected = k == 0              ? number
                                : op == Op::Add     ? before + number
                                : op == Op::Maximum ? std::max(before, number)
                                                    : std::min(before, number);
        EXPECT_EQ(out.numbers[i], expected);
      }
    }
}

TEST(FindExtreme, AlongEachAxis) {
  Array x({4, 9, 11});
  for (double& number : x.numbers) number = static_cast<double>(static_cast<int64_t>(number * 7) % 13);
  x.numbers[50] = x.numbers[60] = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (Op op : {Op::Minimum, Op::Maximum}) {
      std::vector<int64_t> rest = x.shape;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
      Array out(rest, DType::I64);
      ASSERT_TRUE(find_extreme(op, x.view(), axis, out.view()));
      const std::size_t step = static_cast<std::size_t>(x.strides[axis] / 8),
                        length = static_cast<std::size_t>(x.shape[axis]);
      for (std::size_t i = 0; i < out.integers.size(); ++i) {
        const double* line = &x.numbers[i / step * step * length + i % step];
        std::size_t place = 0;
        for (std::size_t k = 0; k < length; ++k) {
          const double best = line[place * step], number = line[k * step];
          if (best == best && (number != number || (op == Op::Minimum ? number < best : number > best))) place = k;
        }
        EXPECT_EQ(out.integers[i], static_cast<int64_t>(place));
      }
    }
  Array wrong({4, 9});
  EXPECT_FALSE(find_extreme(Op::Minimum, x.view(), 2, wrong.view()));
}

TEST(Scan, WhatIsNotDone) {
  Array x({6}), out({6}), shorter({5});
  EXPECT_FALSE(scan(Op::Subtract, x.view(), 0, out.view()));
  EXPECT_FALSE(scan(Op::Add, x.view(), 1, out.view()));
  EXPECT_FALSE(scan(Op::Add, x.view(), 0, shorter.view()));
  StridedArray half = x.view();
  half.dtype = DType::F16;
  EXPECT_FALSE(scan(Op::Add, half, 0, out.view()));
}

TEST(Histogram, CountsAndSumsOfWeights) {
  const std::vector<double> edges{0.0, 0.25, 0.5, 0.75, 1.0};
  for (int64_t n : {0, 1, 255, 256, 257, 1000, 65536, 65537}) {
    Array x({n}), weights({n}), counts({4}, DType::I64), sums({4});
    std::mt19937 random(static_cast<unsigned>(n));
    for (double& number : x.numbers) number = static_cast<double>(random() % 1300) / 1000 - 0.15;
    if (n > 2) x.numbers[2] = std::numeric_limits<double>::quiet_NaN();
    std::vector<int64_t> expected(4);
    for (double number : x.numbers)
      if (number >= 0 && number <= 1) ++expected[number == 1 ? 3 : static_cast<std::size_t>(number * 4)];
    ASSERT_TRUE(histogram(x.view(), nullptr, edges, false, counts.view()));
    EXPECT_EQ(counts.integers, expected);
    std::fill(weights.numbers.begin(), weights.numbers.end(), 0.5);
    const StridedArray weight = weights.view();
    ASSERT_TRUE(histogram(x.view(), &weight, edges, false, sums.view()));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sums.numbers[i], 0.5 * static_cast<double>(expected[i]));
    if (n == 0) continue;
    x.numbers[0] = 0.1;
    weights.numbers[0] = std::numeric_limits<double>::infinity();
    EXPECT_FALSE(histogram(x.view(), &weight, edges, false, sums.view()));
  }
}

TEST(Histogram, RangeOfFiniteNumbers) {
  Array x({1001}), big({2}, DType::I64), none({0});
  EXPECT_EQ(range_of(x.view()), std::pair(0.5, 1000.5));
  x.numbers[1000] = -3;
  EXPECT_EQ(range_of(x.view()), std::pair(-3.0, 999.5));
  for (double odd : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    x.numbers[7] = odd;
    EXPECT_EQ(range_of(x.view()), std::nullopt);
  }
  EXPECT_EQ(range_of(none.view()), std::nullopt);
  big.integers = {-5, int64_t{1} << 52};
  EXPECT_EQ(range_of(big.view()), std::pair(-5.0, 0x1p52));
  big.integers[1] *= 2;
  EXPECT_EQ(range_of(big.view()), std::nullopt);
}

}  // namespace
}  // namespace framejit::codegen::testing
