// The matrix-product core against a plain triple loop.
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/matmul.h"
#include "harness.h"

namespace framejit::codegen::testing {
namespace {

template <class T>
void check(const Executable& code, int64_t m, int64_t n, int64_t k, int pad, bool integers, std::mt19937& random) {
  const auto fn = reinterpret_cast<MatMulFn>(const_cast<void*>(code.entry()));
  const int64_t lda = k + pad, ldb = n + (n == 1 ? 0 : 2 * pad), ldc = n + pad;
  // The matrices end at a guard page: nothing past the last column of the last row is touched.
  const auto buffer = [&](int64_t rows, int64_t columns, int64_t pitch) {
    GuardedBuffer b(
        static_cast<std::size_t>(rows > 0 ? ((rows - 1) * pitch + columns) * static_cast<int64_t>(sizeof(T)) : 0));
    T* x = reinterpret_cast<T*>(b.data());
    for (std::size_t i = 0; i < b.size() / sizeof(T); ++i)
      x[i] = integers ? static_cast<T>(static_cast<int>(random() % 15) - 7) : static_cast<T>(random() / 4.0e9 - 0.5);
    return b;
  };
  const GuardedBuffer a = buffer(m, k, lda), b = buffer(k, n, ldb), c = buffer(m, n, ldc);
  const T *x = reinterpret_cast<const T*>(a.data()), *y = reinterpret_cast<const T*>(b.data());
  T* z = reinterpret_cast<T*>(c.data());
  const std::vector<T> before(z, z + c.size() / sizeof(T));
  fn(a.data(), b.data(), c.data(), m, n, k, lda * sizeof(T), ldb * sizeof(T), ldc * sizeof(T));
  const double epsilon = sizeof(T) == 4 ? 6e-8 : 1.2e-16;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < ldc && i * ldc + j < static_cast<int64_t>(before.size()); ++j) {
      if (j >= n) {
        ASSERT_EQ(z[i * ldc + j], before[i * ldc + j]) << "wrote between rows";
        continue;
      }
      double want = 0, magnitude = 0;
      for (int64_t l = 0; l < k; ++l) {
        want += static_cast<double>(x[i * lda + l]) * static_cast<double>(y[l * ldb + j]);
        magnitude += std::fabs(static_cast<double>(x[i * lda + l]) * static_cast<double>(y[l * ldb + j]));
      }
      if (integers)
        ASSERT_EQ(z[i * ldc + j], want) << m << "x" << n << "x" << k << " at " << i << "," << j;
      else
        ASSERT_NEAR(z[i * ldc + j], want, magnitude * epsilon * (static_cast<double>(k) + 2))
            << m << "x" << n << "x" << k;
    }
}

template <class T>
void check_all(DType t, Isa isa) {
  auto emitted = emit_matmul(t, isa, true);
  ASSERT_TRUE(emitted.has_value());
  EXPECT_FALSE(emitted->listing.empty());
  const Executable code(emitted->bytes);
  std::mt19937 random(1);
  for (int64_t m : {0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 25})
    for (int64_t n = 0; n <= 70; n += n < 36 ? 1 : 5)
      for (int64_t k : {0, 1, 2, 7, n < 2 || m == 1 ? 45 : 8}) {
        check<T>(code, m, n, k, static_cast<int>(n % 3), true, random);
        if (::testing::Test::HasFatalFailure()) return;
      }
  for (auto [m, n, k] : {std::array<int64_t, 3>{64, 64, 64},
                         {49, 33, 255},
                         {50, 65, 256},
                         {61, 130, 257},
                         {3, 40, 600},
                         {97, 31, 513}, {100, 150, 300}, {211, 128, 37}, {1, 300, 41}, {1, 77, 300}, {41, 1, 300}, {7, 1, 77}, {1, 1, 1000}}) {
    check<T>(code, m, n, k, 1, true, random);
    check<T>(code, m, n, k, 0, false, random);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

class MatMul : public ::testing::TestWithParam<Isa> {};

TEST_P(MatMul, Float32) { check_all<float>(DType::F32, GetParam()); }
TEST_P(MatMul, Float64) { check_all<double>(DType::F64, GetParam()); }

TEST_P(MatMul, IdleColumnsRaiseNothing) {
  // An infinity times a live column of ones is no invalid operation, whatever the idle columns hold.
  auto emitted = emit_matmul(DType::F64, GetParam());
  ASSERT_TRUE(emitted.has_value());
  const Executable code(emitted->bytes);
  const auto fn = reinterpret_cast<MatMulFn>(const_cast<void*>(code.entry()));
  for (int n : {1, 3, 5, 7, 9, 13, 31}) {
    const int m = n == 31 ? 1 : 5;
    std::vector<double> a(m * 300, HUGE_VAL), b(300 * n, 1.0), c(m * n);
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before & ~63u);
    fn(reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(b.data()), reinterpret_cast<char*>(c.data()), m, n,
       300, 300 * 8, n * 8, n * 8);
    const unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    EXPECT_EQ(after & kSeen, 0u) << n;
    for (double x : c) EXPECT_EQ(x, HUGE_VAL);
  }
}

TEST_P(MatMul, RowsAreIndependent) {
  // A run may hand any rows to any thread, single ones too.
  auto emitted = emit_matmul(DType::F32, GetParam());
  ASSERT_TRUE(emitted.has_value());
  const Executable code(emitted->bytes);
  const auto fn = reinterpret_cast<MatMulFn>(const_cast<void*>(code.entry()));
  std::mt19937 random(3);
  const int64_t m = 57, k = 600;
  for (int64_t n : {1, 5, 40, 300}) {
    std::vector<float> a(m * k), b(k * n), c(m * n), d(m * n);
    for (std::vector<float>* x : {&a, &b})
      for (float& y : *x) y = static_cast<float>(random() / 4.0e9 - 0.5);
    const auto run = [&](std::vector<float>& out, int64_t from, int64_t to) {
      fn(reinterpret_cast<char*>(&a[from * k]), reinterpret_cast<char*>(b.data()), reinterpret_cast<char*>(&out[from * n]), to - from, n, k,
         k * 4, n * 4, n * 4);
    };
    run(c, 0, m);
    run(d, 0, 56);
    run(d, 56, 57);
    EXPECT_EQ(std::memcmp(c.data(), d.data(), c.size() * 4), 0) << n;
  }
}

TEST_P(MatMul, OtherDtypesAreDenied) { EXPECT_FALSE(emit_matmul(DType::I32, GetParam()).has_value()); }

INSTANTIATE_TEST_SUITE_P(Isas, MatMul, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
