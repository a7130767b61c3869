// The parts of a softmax against float64, block by block.
#include "codegen/attention.h"

#include <cmath>
#include <random>

#include "harness.h"

namespace framejit::codegen::testing {
namespace {

class Softmax : public ::testing::TestWithParam<Isa> {
 protected:
  static Executable make() {
    auto emitted = emit_softmax(GetParam(), true);
    EXPECT_TRUE(emitted.has_value());
    EXPECT_FALSE(emitted->listing.empty());
    return Executable(emitted->bytes);
  }
};

/// Floats that end at a guard page.
class Row {
 public:
  Row(int64_t count, std::mt19937& random, double range) : buffer_(static_cast<std::size_t>(count) * 4), count_(count) {
    for (int64_t i = 0; i < count; ++i) data()[i] = static_cast<float>((random() / 4294967296.0 * 2 - 1) * range);
  }
  float* data() const { return reinterpret_cast<float*>(buffer_.data()); }
  float& operator[](int64_t i) const { return data()[i]; }
  std::vector<float> copy() const { return {data(), data() + count_}; }

 private:
  GuardedBuffer buffer_;
  int64_t count_;
};

TEST_P(Softmax, BlockByBlock) {
  const Executable code = make();
  std::mt19937 random(1);
  for (int64_t width : {1, 3, 7, 8, 9, 16, 17, 31, 40, 64})
    for (bool masked : {false, true})
      for (double range : {1.0, 30.0, 300.0}) {
        SoftmaxArgs args{};
        args.largest = -HUGE_VALF;
        args.scale = 0.37f;
        std::vector<double> scores;
        double sum = 0;
        for (int block = 0; block < 4; ++block) {
          const Row row(width, random, range), mask(width, random, range);
          const std::vector<float> before = row.copy();
          args.row = row.data();
          args.other = masked ? mask.data() : nullptr;
          args.width = width;
          args.live = block == 1 ? 0 : block == 2 ? (width + 1) / 2 : width;
          const float largest = args.largest;
          SoftmaxCore::part(code.entry(), SoftmaxCore::kSoftmax)(&args);
          float expected = largest;
          std::vector<float> block_scores;
          for (int64_t i = 0; i < args.live; ++i) {
            float score = before[static_cast<std::size_t>(i)] * args.scale;
            if (masked) score += mask[i];
            block_scores.push_back(score);
            expected = std::max(expected, score);
          }
          EXPECT_EQ(args.largest, expected);
          const double decay = std::exp(static_cast<double>(largest - expected));
          EXPECT_NEAR(args.decay, decay, 4e-7 * decay + 1e-38);
          sum *= decay;
          for (int64_t i = 0; i < width; ++i) {
            if (i >= args.live) {
              EXPECT_EQ(row[i], 0.0f) << i;
              continue;
            }
            // The difference is rounded once; below the normal numbers anything small will do.
            const double want = std::exp(static_cast<double>(block_scores[static_cast<std::size_t>(i)] - expected));
            EXPECT_NEAR(row[i], want, 2.5e-7 * want + 1.2e-38) << i << " of " << width;
            sum += want;
          }
          EXPECT_NEAR(args.sum, sum, 1e-6 * sum * 4);
        }
      }
}

TEST_P(Softmax, WhatIsClosedAndWhatIsNotANumber) {
  const Executable code = make();
  std::mt19937 random(2);
  const Row row(20, random, 1.0), mask(20, random, 1.0);
  SoftmaxArgs args{};
  args.row = row.data(), args.other = mask.data(), args.live = args.width = 20, args.scale = 1,
  args.largest = -HUGE_VALF;
  for (int64_t i = 0; i < 20; ++i) mask[i] = -HUGE_VALF;
  SoftmaxCore::part(code.entry(), SoftmaxCore::kSoftmax)(&args);
  EXPECT_EQ(row.copy(), std::vector<float>(20, 0.0f));
  EXPECT_EQ(args.sum, 0.0f);
  EXPECT_EQ(args.largest, -HUGE_VALF);
  // One key that counts.
  for (int64_t i = 0; i < 20; ++i) row[i] = 1;
  mask[18] = 0;
  SoftmaxCore::part(code.entry(), SoftmaxCore::kSoftmax)(&args);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(row[i], i == 18 ? 1.0f : 0.0f);
  EXPECT_EQ(args.sum, 1.0f);
  for (int64_t at : {3, 18}) {
    args.sum = 0, args.largest = -HUGE_VALF, args.other = nullptr;
    for (int64_t i = 0; i < 20; ++i) row[i] = static_cast<float>(i);
    row[at] = NAN;
    SoftmaxCore::part(code.entry(), SoftmaxCore::kSoftmax)(&args);
    EXPECT_TRUE(std::isnan(row[at]));
    EXPECT_TRUE(std::isnan(args.sum));
  }
}

TEST_P(Softmax, MergeAndDivide) {
  const Executable code = make();
  std::mt19937 random(3);
  for (int64_t width = 1; width < 40; ++width) {
    const Row row(width, random, 1.0), other(width, random, 1.0);
    std::vector<float> want = row.copy();
    SoftmaxArgs args{};
    args.row = row.data(), args.other = other.data(), args.width = width, args.decay = 0.3f, args.sum = 0.7f;
    SoftmaxCore::part(code.entry(), SoftmaxCore::kMerge)(&args);
    for (int64_t i = 0; i < width; ++i)
      want[static_cast<std::size_t>(i)] = std::fma(want[static_cast<std::size_t>(i)], 0.3f, other[i]);
    EXPECT_EQ(row.copy(), want);
    SoftmaxCore::part(code.entry(), SoftmaxCore::kDivide)(&args);
    for (float& value : want) value /= 0.7f;
    EXPECT_EQ(row.copy(), want);
  }
}

TEST_P(Softmax, Gradient) {
  const Executable code = make();
  std::mt19937 random(4);
  for (int64_t width = 1; width < 40; ++width) {
    const Row row(width, random, 1.0), towards(width, random, 1.0);
    std::vector<float> weights = row.copy(), want = towards.copy();
    SoftmaxArgs args{};
    args.row = row.data(), args.towards = towards.data(), args.width = width, args.decay = 0.3f, args.sum = 0.7f,
    args.scale = 1.7f;
    SoftmaxCore::part(code.entry(), SoftmaxCore::kGradient)(&args);
    for (std::size_t i = 0; i < want.size(); ++i) {
      weights[i] *= 0.3f;
      const float off = want[i] - 0.7f;
      want[i] = off * weights[i] * 1.7f;
    }
    EXPECT_EQ(row.copy(), weights);
    EXPECT_EQ(towards.copy(), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Softmax, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
