// The parts of a AmxCore, to the bit, in the order that Intel's manual gives: where there is no AMX by its emulation.
#include <cmath>
#include <random>

#include "amx_emulator.h"
#include "codegen/matmul.h"
#include "harness.h"

namespace framejit::codegen::testing {
namespace {

constexpr int64_t kSide = AmxCore::kSide;

uint16_t bfloat16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}
float wide(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

/// Rows that end at a guard page.
template <class T>
class Rows {
 public:
  Rows(int64_t rows, int64_t columns, int64_t pitch)
      : pitch_(pitch), buffer_(static_cast<std::size_t>(rows > 0 ? (rows - 1) * pitch + columns : 0) * sizeof(T)) {}
  template <class F>
  void fill(F&& next) {
    for (std::size_t i = 0; i < buffer_.size() / sizeof(T); ++i) data()[i] = next();
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  T& at(int64_t row, int64_t column) const { return data()[row * pitch_ + column]; }
  int64_t stride() const { return pitch_ * static_cast<int64_t>(sizeof(T)); }
  std::vector<T> copy() const { return {data(), data() + buffer_.size() / sizeof(T)}; }

 private:
  int64_t pitch_;
  GuardedBuffer buffer_;
};

/// C[rows, columns] of narrow elements A and B, `k` groups; columns of B lie in their groups.
template <class A, class B, class C>
struct Product {
  static constexpr int64_t kGroup = 4 / sizeof(A);
  Rows<A> a;
  Rows<B> b;
  Rows<C> c;
  int64_t rows, columns, k;

  Product(int64_t m, int64_t n, int64_t groups)
      : a(m, groups * kGroup, groups * kGroup + 6),
        b(groups, n * kGroup, n * kGroup + 10),
        c(m, n, n + 3),
        rows(m),
        columns(n),
        k(groups) {}

  A x(int64_t row, int64_t i) const { return a.at(row, i); }
  B y(int64_t i, int64_t column) const { return b.at(i / kGroup, column * kGroup + i % kGroup); }

  void run(const Executable& code, bool add) const {
    const AmxCore::Shape shape = AmxCore::Shape::of(rows, columns);
    MatMulArgs args{};
    args.a = reinterpret_cast<const char*>(&shape);
    MatMulCore::part(code.entry(), AmxCore::kConfigure)(&args);
    EXPECT_FALSE(AmxEmulator::released());
    args.a = reinterpret_cast<char*>(a.data()), args.b = reinterpret_cast<char*>(b.data()),
    args.c = reinterpret_cast<char*>(c.data());
    args.a_row = a.stride(), args.b_k = b.stride(), args.c_row = c.stride(), args.k = k, args.add = add;
    MatMulCore::part(code.entry(), AmxCore::product(rows > kSide ? 2 : 1, columns > kSide ? 2 : 1))(&args);
    MatMulCore::part(code.entry(), AmxCore::kRelease)(&args);
    EXPECT_TRUE(AmxEmulator::released());
  }
};

class TileMatMul : public ::testing::Test {
 protected:
  static Executable make(NarrowProduct kind) {
    auto emitted = emit_amx_matmul(kind, AmxEmulator::add_to(select_cpu("")));
    EXPECT_TRUE(emitted.has_value());
    return Executable(emitted->bytes);
  }

  /// Every shape, with and without what C held.
  template <class F>
  static void each_shape(F&& f) {
    for (int64_t rows = 1; rows <= 2 * kSide; ++rows)
      for (int64_t columns = 1; columns <= 2 * kSide; ++columns)
        for (int64_t k : {kSide, 3 * kSide})
          for (bool add : {false, true}) {
            if (k > kSide && (rows + columns) % 5 != 0) continue;
            f(rows, columns, k, add);
            if (HasFatalFailure()) return;
          }
    for (bool add : {false, true}) f(20, 20, 0, add);
  }

  AmxEmulator amx_;
};

using BFloat16Product = Product<uint16_t, uint16_t, float>;

/// The sums of one element: pairs apart, each 16 of them from zero on.
float in_order(const BFloat16Product& p, int64_t row, int64_t column, float sum) {
  for (int64_t block = 0; block < 2 * p.k; block += 2 * kSide) {
    float halves[2] = {0, 0};
    for (int64_t i = block; i < block + 2 * kSide; ++i)
      halves[i % 2] = std::fma(wide(p.x(row, i)), wide(p.y(i, column)), halves[i % 2]);
    sum += halves[0] + halves[1];
  }
  return sum;
}

TEST_F(TileMatMul, BFloat16) {
  const Executable code = make(NarrowProduct::BFloat16);
  std::mt19937 random(3);
  const auto narrow = [&] { return bfloat16_of(static_cast<float>(static_cast<double>(random()) / 2e9 - 1)); };
  const int64_t before = AmxEmulator::emulated();
  each_shape([&](int64_t rows, int64_t columns, int64_t k, bool add) {
    BFloat16Product p(rows, columns, k);
    p.a.fill(narrow);
    p.b.fill(narrow);
    p.c.fill([&] { return static_cast<float>(random() % 1000) / 100; });
    std::vector<float> want = p.c.copy();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        float& to = want[static_cast<std::size_t>(i * (columns + 3) + j)];
        double exact = add ? static_cast<double>(to) : 0, size = std::fabs(exact);
        to = in_order(p, i, j, add ? to : 0);
        for (int64_t l = 0; l < 2 * k; ++l) {
          const double term = static_cast<double>(wide(p.x(i, l))) * static_cast<double>(wide(p.y(l, j)));
          exact += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(to, exact, size * static_cast<double>(2 * k) * 0x1p-24);
      }
    p.run(code, add);
    ASSERT_EQ(p.c.copy(), want) << rows << " rows, " << columns << " columns, k " << k;
  });
  EXPECT_EQ(AmxEmulator::emulated() > before, amx_.emulates());
}

TEST_F(TileMatMul, Int8) {
  const Executable code = make(NarrowProduct::Int8);
  std::mt19937 random(4);
  each_shape([&](int64_t rows, int64_t columns, int64_t k, bool add) {
    Product<uint8_t, int8_t, int32_t> p(rows, columns, k);
    p.a.fill([&] { return static_cast<uint8_t>(random()); });
    p.b.fill([&] { return static_cast<int8_t>(random()); });
    p.c.fill([&] { return static_cast<int32_t>(random() % 2001) - 1000; });
    std::vector<int32_t> want = p.c.copy();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        int32_t& to = want[static_cast<std::size_t>(i * (columns + 3) + j)];
        if (!add) to = 0;
        for (int64_t l = 0; l < 4 * k; ++l) to += p.x(i, l) * p.y(l, j);
      }
    p.run(code, add);
    ASSERT_EQ(p.c.copy(), want) << rows << " rows, " << columns << " columns, k " << k;
  });
}

TEST_F(TileMatMul, WhatIsBelowTheNormalNumbersIsZero) {
  const Executable code = make(NarrowProduct::BFloat16);
  const auto of_rows = [&](float x, float y, float c) {
    BFloat16Product p(1, 1, kSide);
    p.a.fill([] { return uint16_t{0}; });
    p.b.fill([] { return uint16_t{0}; });
    p.a.at(0, 0) = bfloat16_of(x), p.b.at(0, 0) = bfloat16_of(y), p.c.at(0, 0) = c;
    p.run(code, true);
    return p.c.at(0, 0);
  };
  EXPECT_EQ(of_rows(0x1p-63f, 0x1p-63f, 0), 0x1p-126f);
  EXPECT_EQ(of_rows(0x1p-64f, 0x1p-63f, 0), 0);             // the product
  EXPECT_EQ(of_rows(0x1p-127f, 0x1p+20f, 0), 0);            // a factor
  EXPECT_EQ(of_rows(0, 0, 0x1p-127f), 0);                   // what C held
  EXPECT_EQ(of_rows(0x1p-63f, -0x1.8p-63f, 0x1p-126f), 0);  // the sum
  EXPECT_TRUE(std::isnan(of_rows(HUGE_VALF, 0, 1)));
}

TEST_F(TileMatMul, RaisesNothing) {
  const Executable code = make(NarrowProduct::BFloat16);
  BFloat16Product p(3, 3, kSide);
  p.a.fill([] { return bfloat16_of(HUGE_VALF); });
  p.b.fill([] { return uint16_t{0}; });
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before & ~63u);
  p.run(code, false);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(after & 63u, 0u);
  EXPECT_TRUE(std::isnan(p.c.at(0, 0)));
}

TEST(TilesOf, OtherProcessorsAreDenied) {
  EXPECT_FALSE(emit_amx_matmul(NarrowProduct::BFloat16, select_cpu("avx512")).has_value());
  EXPECT_FALSE(emit_amx_matmul(NarrowProduct::Int8, select_cpu("avx512")).has_value());
}

}  // namespace
}  // namespace framejit::codegen::testing
