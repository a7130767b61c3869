// Products of bfloat16 and of small integers that are read where they lie, against sums that are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "codegen/matmul.h"
#include "products.h"
#include "runtime/allocator.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

using Case = ProductCase;

/// Products of narrow elements where they lie, by sums that are exact: of small integers, whose low bits or, as
/// bfloat16, which themselves are compared.
class InPlaceProduct : public ::testing::Test {
 protected:
  using Kind = codegen::NarrowProduct;

  void SetUp() override {
    if (!codegen::detected_cpu().avx512_bf16 || !codegen::detected_cpu().vnni) GTEST_SKIP() << "no narrow products";
  }

  static int64_t bytes_of(Kind kind) { return kind == Kind::Int8 ? 1 : 2; }

  struct Given {
    Case of;
    Kind kind;
    Product product;
    int64_t a_bytes, b_bytes, c_bytes;
    std::unique_ptr<Guarded> a, b, c;
    std::vector<double> x, y;  // by batch, row and column

    void put(char* to, double value) const {
      const auto wide = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &wide, 4);
      if (kind == Kind::BFloat16) {
        const auto high = static_cast<uint16_t>(bits >> 16);
        std::memcpy(to, &high, 2);
      } else {
        const auto number = static_cast<int16_t>(value);
        std::memcpy(to, &number, static_cast<std::size_t>(bytes_of(kind)));
      }
    }

    std::vector<uint32_t> run() const {
      std::memset(c->data, 0x55, static_cast<std::size_t>(c_bytes * of.batch));
      RunState state;
      run_product(product, a->data, b->data, c->data, state);
      std::vector<uint32_t> out(static_cast<std::size_t>(c_bytes * of.batch / 4));
      if (!out.empty()) std::memcpy(out.data(), c->data, out.size() * 4);
      return out;
    }
  };

  static Given give(Kind kind, const Case& c, const void* code, std::mt19937_64& random) {
    const int64_t item = bytes_of(kind);
    Given g{c, kind, {}, 0, 0, 0, {}, {}, {}, {}, {}};
    Product& p = g.product;
    p.core = codegen::MatMulCore(DType::F32, true);
    p.factor = item;
    p.code = code;
    p.m = c.m, p.n = c.n, p.k = c.k;
    const int64_t a_pitch = ((c.at ? c.m : c.k) * c.spread + c.pad) * item,
                  b_pitch = ((c.bt ? c.k : c.n) * c.spread + c.pad) * item;
    const int64_t step = c.spread * item, a_row = c.at ? step : a_pitch, a_k = c.at ? a_pitch : step;
    const int64_t b_column = c.bt ? b_pitch : step, b_k = c.bt ? step : b_pitch;
    p.a_row = a_row, p.a_k = a_k, p.b_k = b_k, p.b_column = b_column;
    p.c_row = (c.n == 1 ? 1 : c.n + c.pad) * 4;
    // Up to the last element, behind which no memory is.
    const auto span = [&](int64_t rows, int64_t row, int64_t columns, int64_t column) {
      return (rows - 1) * row + (columns - 1) * column + item;
    };
    g.a_bytes = span(c.m, a_row, c.k, a_k), g.b_bytes = span(c.k, b_k, c.n, b_column), g.c_bytes = c.m * p.c_row;
    if (c.batch > 1) p.batch = {{c.batch, g.a_bytes, c.shared_b ? 0 : g.b_bytes, g.c_bytes}};
    p.plan();
    g.a = std::make_unique<Guarded>(g.a_bytes * c.batch);
    g.b = std::make_unique<Guarded>(g.b_bytes * c.batch);
    g.c = std::make_unique<Guarded>(g.c_bytes * c.batch);
    const auto fill = [&](Guarded& to, int64_t bytes, int64_t rows, int64_t row, int64_t columns, int64_t column,
                          std::vector<double>& values) {
      for (int64_t at = 0; at < bytes * c.batch / item; ++at) g.put(to.data + at * item, 77);  // between what is read
      for (int64_t matrix = 0; matrix < c.batch; ++matrix)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            values.push_back(static_cast<double>(random() % 17) - 8);
            g.put(to.data + matrix * bytes + i * row + j * column, values.back());
          }
    };
    fill(*g.a, g.a_bytes, c.m, a_row, c.k, a_k, g.x);
    fill(*g.b, g.b_bytes, c.k, b_k, c.n, b_column, g.y);
    return g;
  }

  static void expect_right(const Given& g, const std::vector<uint32_t>& got) {
    const Case& c = g.of;
    const std::string name = std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
                             (c.at ? " A^T" : "") + (c.bt ? " B^T" : "") + " path " +
                             std::to_string(static_cast<int>(g.product.way.path)) + " kind " +
                             std::to_string(static_cast<int>(g.kind));
    const uint32_t right = g.kind == Kind::Int8 ? 0xff : ~0u;
    const int64_t pitch = c.n == 1 ? 1 : c.n + c.pad;
    for (int64_t batch = 0; batch < c.batch; ++batch)
      for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < pitch; ++j) {
          const uint32_t found = got[static_cast<std::size_t>((batch * c.m + i) * pitch + j)];
          if (j >= c.n) {
            ASSERT_EQ(found, 0x55555555u) << name << " wrote between rows";
            continue;
          }
          double sum = 0;
          for (int64_t l = 0; l < c.k; ++l)
            sum += g.x[static_cast<std::size_t>((batch * c.m + i) * c.k + l)] *
                   g.y[static_cast<std::size_t>(((c.shared_b ? 0 : batch) * c.k + l) * c.n + j)];
          const auto wide = static_cast<float>(sum);
          auto want = static_cast<uint32_t>(static_cast<int32_t>(sum));
          if (g.kind == Kind::BFloat16) std::memcpy(&want, &wide, 4);
          ASSERT_EQ(found & right, want & right) << name << " at " << i << "," << j;
        }
  }

  template <class F>
  static void each_kind(F&& f) {
    for (Kind kind : {Kind::BFloat16, Kind::Int16, Kind::Int8}) {
      auto kernel = codegen::emit_narrow_matmul(kind, codegen::detected_cpu());
      ASSERT_TRUE(kernel.has_value());
      const std::span<const uint8_t> piece(kernel->bytes);
      auto block = CodeBlock::seal({&piece, 1});
      ASSERT_TRUE(block.has_value());
      f(kind, block->entry(0));
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(InPlaceProduct, RowsAndColumns) {
  std::mt19937_64 random(5);
  std::vector<Case> cases;
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {1, 1, 40},
                                                                   {1, 5, 3},
                                                                   {1, 33, 7},
                                                                   {1, 64, 64},
                                                                   {1, 700, 130},
                                                                   {5, 1, 3},
                                                                   {33, 1, 7},
                                                                   {64, 1, 64},
                                                                   {700, 1, 130},
                                                                   {2, 40, 33},
                                                                   {16, 95, 70},
                                                                   {7, 130, 1},
                                                                   {3, 4100, 35},
                                                                   {40, 2, 65},
                                                                   {90, 8, 131},
                                                                   {6, 64, 200}})
    for (int layout = 0; layout < 4; ++layout)
      for (int64_t batch : {1, 3})
        for (int64_t spread : {1, 2})
          cases.push_back({m, n, k, layout % 2 == 1, layout / 2 == 1, batch, m % 2 == 1, (m + k) % 3, spread});
  each_kind([&](Kind kind, const void* code) {
    std::array<int, 11> seen{};
    for (const Case& c : cases) {
      const Given g = give(kind, c, code, random);
      if (!g.product.lies_right()) continue;
      ++seen.at(static_cast<std::size_t>(g.product.way.path));
      expect_right(g, g.run());
      if (HasFatalFailure()) return;
    }
    for (Product::Path path : {Product::Path::Dots, Product::Path::DotsOfB, Product::Path::Row})
      EXPECT_GT(seen.at(static_cast<std::size_t>(path)), 20);
  });
}

TEST_F(InPlaceProduct, OneRowOrColumnIsNeverPacked) {
  std::mt19937_64 random(5);
  each_kind([&](Kind kind, const void* code) {
    const auto path = [&](const Case& c) { return give(kind, c, code, random).product.way.path; };
    EXPECT_EQ(path({1, 300, 50}), Product::Path::Row);
    EXPECT_EQ(path({1, 300, 3}), Product::Path::Row);
    EXPECT_EQ(path({300, 1, 50, true}), Product::Path::Row);
    EXPECT_EQ(path({300, 1, 3}), Product::Path::Dots);
    EXPECT_EQ(path({1, 300, 3, false, true}), Product::Path::DotsOfB);
    EXPECT_FALSE(give(kind, {300, 300, 50}, code, random).product.lies_right());
    // Elements as far apart as those of C are.
    EXPECT_FALSE(
        give(kind, {1, 4000, 70, false, false, 1, false, 0, 4 / bytes_of(kind)}, code, random).product.lies_right());
  });
}

TEST_F(InPlaceProduct, ThreadsDoNotChangeBits) {
  initialize_scheduler();
  std::mt19937_64 random(9);
  each_kind([&](Kind kind, const void* code) {
    for (const Case& c : {Case{1, 5000, 101}, Case{7, 3000, 70}, Case{1000, 1, 301}, Case{1, 1000, 300, false, true},
                          Case{5, 700, 90, true}}) {
      Given g = give(kind, c, code, random);
      ASSERT_TRUE(g.product.lies_right());
      // Of bfloat16 sums that are rounded.
      for (int64_t at = 0; kind == Kind::BFloat16 && at < g.a_bytes; at += 2)
        g.put(g.a->data + at, static_cast<double>(random() % 1000) / 700);
      g.product.nanoseconds = 1e9;
      set_num_threads(1);
      const auto serial = g.run();
      for (int threads : {2, 3, 8}) {
        set_num_threads(threads);
        EXPECT_EQ(g.run(), serial) << threads << " threads";
      }
    }
  });
  set_num_threads(0);
}

TEST_F(InPlaceProduct, NanAndInfinityStayInTheirRowAndColumn) {
  std::mt19937_64 random(3);
  auto kernel = codegen::emit_narrow_matmul(Kind::BFloat16, codegen::detected_cpu());
  const std::span<const uint8_t> piece(kernel->bytes);
  auto block = CodeBlock::seal({&piece, 1});
  for (const Case& c : {Case{3, 37, 41}, Case{3, 37, 67, false, true}, Case{40, 3, 67}, Case{40, 3, 67, false, true}}) {
    const Given g = give(Kind::BFloat16, c, block->entry(0), random);
    ASSERT_TRUE(g.product.lies_right());
    g.put(g.a->data + (c.k + c.pad) * 2, NAN);                        // A[1, 0]
    g.put(g.b->data + 2 * (c.bt ? (c.k + c.pad) * 2 : 2), HUGE_VAL);  // B[0, 2]
    for (int64_t i = 0; i < c.m; ++i) g.put(g.a->data + i * (c.k + c.pad) * 2, i == 1 ? NAN : 1.0);
    const std::vector<uint32_t> got = g.run();
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        float value;
        std::memcpy(&value, &got[static_cast<std::size_t>(i * (c.n + c.pad) + j)], 4);
        EXPECT_EQ(std::isnan(value), i == 1) << i << "," << j;
        if (i != 1) {
          EXPECT_EQ(std::isinf(value), j == 2) << i << "," << j;
        }
      }
  }
}

}  // namespace
}  // namespace framejit::runtime::testing
