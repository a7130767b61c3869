// Products in the tile registers of AMX, to the bit, in the order that docs/o1.md gives: where there is no AMX by its
// emulation. Those of narrow integers in vectors too.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "../codegen/amx_emulator.h"
#include "codegen/matmul.h"
#include "products.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

using codegen::AmxCore;
using codegen::NarrowProduct;
using codegen::testing::AmxEmulator;

constexpr int64_t kSide = AmxCore::kSide;

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// To the nearest, ties to even.
float rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/// The sums of x(i) * y(i): evens and odds apart, each 16 of them from zero on.
template <class X, class Y>
float in_order(int64_t k, X&& x, Y&& y) {
  float sum = 0;
  for (int64_t block = 0; block < k; block += 2 * kSide) {
    float halves[2] = {0, 0};
    for (int64_t i = block; i < std::min(k, block + 2 * kSide); ++i)
      halves[i % 2] = std::fma(x(i), y(i), halves[i % 2]);
    sum += halves[0] + halves[1];
  }
  return sum;
}

/// A product as `plan` takes it: groups of four bytes, packed here.
class PackedBytes {
 public:
  PackedBytes(int64_t m, int64_t n, int64_t groups, int64_t batch, const void* code, std::mt19937_64& random)
      : m_(m),
        n_(n),
        k_(groups),
        batch_(batch),
        a_row_((4 * groups) | 64),
        b_bytes_((n + 31) / 32 * groups * 128),
        c_row_(4 * n + 12),
        c_bytes_((m - 1) * c_row_ + 4 * n),
        a_(batch * m * a_row_),
        b_(batch * b_bytes_),
        c_(batch * c_bytes_) {
    for (int64_t i = 0; i < batch * m * a_row_; ++i) a_.data[i] = static_cast<char>(random());
    for (int64_t i = 0; i < batch * b_bytes_; ++i) b_.data[i] = static_cast<char>(random());
    p_.core = codegen::MatMulCore(DType::F32, true);
    p_.code = code;
    p_.narrow = p_.in_amx = true;
    p_.m = m, p_.n = n, p_.k = groups;
    p_.a_row = a_row_, p_.a_k = 4, p_.b_k = 128, p_.b_column = 4, p_.c_row = c_row_;
    if (batch > 1) p_.batch = {{batch, m * a_row_, b_bytes_, c_bytes_}};
  }

  Product& product() { return p_; }

  void expect_right(bool added, bool in_pieces = false) {
    p_.added = added;
    p_.plan();
    if (in_pieces) p_.nanoseconds = 1e9;
    EXPECT_EQ(p_.way.path, Product::Path::Amx);
    std::memset(c_.data, 0x11, static_cast<std::size_t>(batch_ * c_bytes_));
    RunState state;
    run_product(p_, a_.data, b_.data, c_.data, state);
    EXPECT_TRUE(AmxEmulator::released());
    const int32_t before = 0x11111111;
    for (int64_t batch = 0; batch < batch_; ++batch)
      for (int64_t i = 0; i < m_; ++i)
        for (int64_t j = 0; j < n_ + (i + 1 < m_ ? 3 : 0); ++j) {
          int32_t got, want = added || j >= n_ ? before : 0;
          std::memcpy(&got, c_.data + batch * c_bytes_ + i * c_row_ + 4 * j, 4);
          for (int64_t l = 0; l < 4 * k_ && j < n_; ++l) {
            const char* const b = b_.data + batch * b_bytes_ + j / 32 * k_ * 128 + l / 4 * 128 + j % 32 * 4 + l % 4;
            want += static_cast<uint8_t>(a_.data[(batch * m_ + i) * a_row_ + l]) * static_cast<int8_t>(*b);
          }
          ASSERT_EQ(got, want) << m_ << "x" << n_ << "x" << k_ << " at " << i << "," << j;
        }
  }

 private:
  int64_t m_, n_, k_, batch_, a_row_, b_bytes_, c_row_, c_bytes_;
  Guarded a_, b_, c_;
  Product p_;
};

class AmxProduct : public ::testing::Test {
 protected:
  AmxProduct() {
    auto kernel = codegen::emit_amx_matmul(NarrowProduct::Int8, AmxEmulator::add_to(codegen::select_cpu("")));
    const std::span<const uint8_t> piece(kernel->bytes);
    block_ = std::move(*CodeBlock::seal({&piece, 1}));
    initialize_scheduler();
  }
  const void* code() const { return block_->entry(0); }

  AmxEmulator amx_;
  std::optional<CodeBlock> block_;
  std::mt19937_64 random_{5};
};

TEST_F(AmxProduct, TailsOfRowsAndColumns) {
  for (int64_t m = 1; m <= 34; ++m)
    for (int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 65}) {
      PackedBytes(m, n, kSide, 1, code(), random_).expect_right(n % 2 == 0);
      PackedBytes(n, m, kSide, 1, code(), random_).expect_right(n % 2 == 1);
      if (HasFatalFailure()) return;
    }
}

TEST_F(AmxProduct, BlocksOfDepthAndBatches) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{33, 35, 16 * 33}, {20, 18, 16 * 40}, {7, 50, 0}, {40, 40, 32}})
    for (int64_t batch : {1, 3})
      for (bool added : {false, true}) {
        PackedBytes product(m, n, k, batch, code(), random_);
        product.product().l2_bytes = 16 << 10;  // one row of registers at once
        product.expect_right(added);
        if (HasFatalFailure()) return;
      }
}

TEST_F(AmxProduct, InPieces) {
  for (int threads : {2, 4}) {
    set_num_threads(threads);
    PackedBytes(300, 270, 32, 2, code(), random_).expect_right(false, true);
    if (HasFatalFailure()) return;
  }
  set_num_threads(0);
}

/// float32 matrices of a graph whose factors are rounded.
struct Factors {
  int64_t m, n, k, batch = 1;
  bool at = false, bt = false, shared_b = false;

  std::string name() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
  static std::string dims(std::vector<int64_t> of) {
    std::string out = "[";
    for (int64_t d : of) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
    return out + "]";
  }
  std::string matrix(int64_t rows, int64_t columns, int64_t count, bool transposed) const {
    std::vector<int64_t> shape{rows, columns}, strides{4 * columns, 4};
    if (transposed) strides = {4, 4 * rows};
    if (count > 1) shape.insert(shape.begin(), count), strides.insert(strides.begin(), 4 * rows * columns);
    return "f32" + dims(shape) + " strides=" + dims(strides);
  }
  int64_t count_of_b() const { return shared_b ? 1 : batch; }
  std::string c() const { return "f32" + (batch > 1 ? dims({batch, m, n}) : dims({m, n})); }
  std::string operands() const { return "%a: " + matrix(m, k, batch, at) + ", %b: " + matrix(k, n, count_of_b(), bt); }
};

class RoundedProduct : public ::testing::Test {
 protected:
  void SetUp() override {
    if (codegen::detected_cpu().isa != codegen::Isa::Avx512)
      GTEST_SKIP() << "no AVX-512, which all processors with AMX have";
    initialize_scheduler();
    cpu_ = AmxEmulator::add_to(codegen::select_cpu("avx512"));
  }

  std::vector<std::byte> floats(int64_t count) {
    std::vector<std::byte> out(static_cast<std::size_t>(count) * 4);
    for (int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(static_cast<double>(random_() % 2000001) / 1e6 - 1);
      std::memcpy(out.data() + 4 * i, &value, 4);
    }
    return out;
  }
  static float at(const std::vector<std::byte>& from, int64_t i) {
    float value;
    std::memcpy(&value, from.data() + 4 * i, 4);
    return value;
  }

  std::vector<std::byte> run(const Factors& f, const std::vector<std::vector<std::byte>>& params) {
    const Ran ran = run_graph("graph @f(" + f.operands() + ") {\n  %9 = matmul %a, %b : " + f.c() + "\n  return %9\n}",
                              params, cpu_, {}, true);
    EXPECT_TRUE(AmxEmulator::released());
    return ran.results.at(0);
  }

  void check(const Factors& f) {
    const std::vector<std::vector<std::byte>> params{floats(f.batch * f.m * f.k), floats(f.count_of_b() * f.k * f.n)};
    const std::vector<std::byte> got = run(f, params);
    for (int64_t batch = 0; batch < f.batch; ++batch)
      for (int64_t i = 0; i < f.m; ++i)
        for (int64_t j = 0; j < f.n; ++j) {
          const auto x = [&](int64_t l) {
            return at(params[0], batch * f.m * f.k + (f.at ? l * f.m + i : i * f.k + l));
          };
          const auto y = [&](int64_t l) {
            return at(params[1], (f.shared_b ? 0 : batch * f.k * f.n) + (f.bt ? j * f.k + l : l * f.n + j));
          };
          const float value = at(got, (batch * f.m + i) * f.n + j);
          ASSERT_EQ(value, in_order(
                               f.k, [&](int64_t l) { return rounded(x(l)); }, [&](int64_t l) { return rounded(y(l)); }))
              << f.name() << " at " << i << "," << j;
          double exact = 0, size = 0;
          for (int64_t l = 0; l < f.k; ++l) {
            exact += static_cast<double>(x(l)) * static_cast<double>(y(l));
            size += std::fabs(static_cast<double>(x(l)) * static_cast<double>(y(l)));
          }
          ASSERT_NEAR(value, exact, size * (0x1p-7 + static_cast<double>(f.k) * 0x1p-23));
        }
  }

  AmxEmulator amx_;
  codegen::Cpu cpu_;
  std::mt19937_64 random_{6};
};

TEST_F(RoundedProduct, Tails) {
  const int64_t before = AmxEmulator::emulated();
  for (int64_t tail = 0; tail < 33; ++tail)
    for (const Factors& f :
         {Factors{48 + tail, 48, 48}, {48, 48 + tail, 48}, {48, 48, 48 + tail}, {48 + tail, 80 - tail, 81 - tail}}) {
      check(f);
      if (HasFatalFailure()) return;
    }
  EXPECT_EQ(AmxEmulator::emulated() > before, amx_.emulates());
}

TEST_F(RoundedProduct, StridesAndBatches) {
  for (bool transposed_a : {false, true})
    for (bool transposed_b : {false, true})
      for (int64_t batch : {1, 3})
        for (bool shared : {false, true}) {
          if (batch == 1 && shared) continue;
          check({70, 100, 61, batch, transposed_a, transposed_b, shared});
          if (HasFatalFailure()) return;
        }
}

TEST_F(RoundedProduct, DeepOnes) { check({50, 60, 1100}); }

TEST_F(RoundedProduct, SmallOnesStayFloat32) {
  const Factors f{47, 48, 48};
  const std::vector<std::vector<std::byte>> params{floats(47 * 48), floats(48 * 48)};
  const std::vector<std::byte> got = run(f, params);
  const Ran whole =
      run_graph("graph @f(" + f.operands() + ") {\n  %9 = matmul %a, %b : " + f.c() + "\n  return %9\n}", params, cpu_);
  EXPECT_EQ(got, whole.results.at(0));
}

TEST_F(RoundedProduct, NanAndInfinityStayInTheirRowAndColumn) {
  const Factors f{50, 49, 51};
  std::vector<std::vector<std::byte>> params{floats(50 * 51), floats(51 * 49)};
  const float nan = NAN, infinity = HUGE_VALF;
  std::memcpy(params[0].data() + 4 * (49 * 51 + 50), &nan, 4);       // A[49, 50]
  std::memcpy(params[1].data() + 4 * (50 * 49 + 48), &infinity, 4);  // B[50, 48]
  const std::vector<std::byte> got = run(f, params);
  for (int64_t i = 0; i < f.m; ++i)
    for (int64_t j = 0; j < f.n; ++j) {
      const float value = at(got, i * f.n + j);
      EXPECT_EQ(std::isnan(value), i == 49);
      if (i != 49) {
        EXPECT_EQ(std::isinf(value), j == 48);
      }
    }
}

TEST_F(RoundedProduct, ThreadsDoNotChangeBitsOfProductOrEpilogue) {
  const Factors f{333, 290, 1200};  // long enough to be split
  const std::vector<std::vector<std::byte>> params{floats(f.m * f.k), floats(f.k * f.n), floats(f.n),
                                                   floats(f.m * f.n)};
  const std::string c = f.c(), rest = ", %bias: f32[290], %rest: " + c,
                    body = "  %10 = add @, %bias : " + c + "\n  %11 = multiply %10, %rest : " + c +
                           "\n  %12 = constant {value=0} : f32[]\n  %13 = maximum %11, %12 : " + c +
                           "\n  return %13\n}";
  const auto with = [&](std::string product) {
    std::string out = body;
    return out.replace(out.find('@'), 1, product);
  };
  set_num_threads(1);
  const std::vector<std::byte> product = run(f, {params[0], params[1]});
  const Ran after = run_graph("graph @f(%p: " + c + rest + ") {\n" + with("%p"), {product, params[2], params[3]}, cpu_);
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    EXPECT_EQ(run(f, {params[0], params[1]}), product) << threads << " threads";
    const Ran whole =
        run_graph("graph @f(" + f.operands() + rest + ") {\n  %9 = matmul %a, %b : " + c + "\n" + with("%9"), params,
                  cpu_, {}, true);
    EXPECT_EQ(whole.results, after.results) << threads << " threads";
    EXPECT_NE(whole.listing.find("finished by loop"), std::string::npos) << whole.listing;
  }
  set_num_threads(0);
}

/// Matrices of narrow integers, cast to int32 before they are multiplied.
struct Integers {
  DType a, b;
  int64_t m, n, k, batch = 1;
  bool at = false, bt = false, shared_b = false;

  static std::string type(DType dtype, int64_t rows, int64_t columns, int64_t count, bool transposed) {
    const int64_t item = graph::size_of(dtype);
    std::vector<int64_t> shape{rows, columns}, strides{item * columns, item};
    if (transposed) strides = {item, item * rows};
    if (count > 1) shape.insert(shape.begin(), count), strides.insert(strides.begin(), item * rows * columns);
    return std::string(graph::name_of(dtype)) + Factors::dims(shape) + " strides=" + Factors::dims(strides);
  }
  int64_t count_of_b() const { return shared_b ? 1 : batch; }
  std::string text() const {
    return "graph @f(%a: " + type(a, m, k, batch, at) + ", %b: " + type(b, k, n, count_of_b(), bt) +
           ") {\n  %2 = cast %a : " + type(DType::I32, m, k, batch, at) +
           "\n  %3 = cast %b : " + type(DType::I32, k, n, count_of_b(), bt) +
           "\n  %4 = matmul %2, %3 : " + type(DType::I32, m, n, batch, false) + "\n  return %4\n}";
  }
};

int64_t integer_at(const std::vector<std::byte>& from, DType dtype, int64_t i) {
  int64_t value = 0;
  const int bytes = graph::size_of(dtype), unused = 64 - 8 * bytes;
  std::memcpy(&value, from.data() + i * bytes, static_cast<std::size_t>(bytes));
  value = static_cast<int64_t>(static_cast<uint64_t>(value) << unused);
  return graph::is_signed_int(dtype) ? value >> unused : static_cast<int64_t>(static_cast<uint64_t>(value) >> unused);
}

class IntegerProduct : public ::testing::Test {
 protected:
  void check(const Integers& f, const codegen::Cpu& cpu) {
    const auto bytes = [&](int64_t count) {
      std::vector<std::byte> out(static_cast<std::size_t>(count));
      for (std::byte& b : out) b = static_cast<std::byte>(random_());
      return out;
    };
    const std::vector<std::vector<std::byte>> params{bytes(f.batch * f.m * f.k * graph::size_of(f.a)),
                                                     bytes(f.count_of_b() * f.k * f.n * graph::size_of(f.b))};
    const Ran ran = run_graph(f.text(), params, cpu);
    for (int64_t batch = 0; batch < f.batch; ++batch)
      for (int64_t i = 0; i < f.m; ++i)
        for (int64_t j = 0; j < f.n; ++j) {
          int64_t want = 0;
          for (int64_t l = 0; l < f.k; ++l)
            want +=
                integer_at(params[0], f.a, batch * f.m * f.k + (f.at ? l * f.m + i : i * f.k + l)) *
                integer_at(params[1], f.b, (f.shared_b ? 0 : batch * f.k * f.n) + (f.bt ? j * f.k + l : l * f.n + j));
          ASSERT_EQ(integer_at(ran.results.at(0), DType::U32, (batch * f.m + i) * f.n + j), static_cast<uint32_t>(want))
              << f.text() << " at " << i << "," << j;
        }
  }

  /// And where the processor has tile registers, or they are emulated.
  void check(const Integers& f) {
    for (const codegen::Cpu& cpu : cpus()) check(f, cpu);
    if (codegen::detected_cpu().isa != codegen::Isa::Avx512) return;
    const int64_t before = AmxEmulator::emulated();
    check(f, AmxEmulator::add_to(codegen::select_cpu("avx512")));
    const bool in_amx = f.a == DType::U8 && f.b == DType::I8 && std::min({f.m, f.n, f.k}) >= 48;
    if (amx_.emulates()) {
      EXPECT_EQ(AmxEmulator::emulated() > before, in_amx) << f.text();
    }
  }

  AmxEmulator amx_;
  std::mt19937_64 random_{8};
};

constexpr std::pair<DType, DType> kNarrowPairs[] = {
    {DType::U8, DType::I8},  {DType::I8, DType::U8},   {DType::I8, DType::I8},  {DType::I16, DType::I16},
    {DType::I16, DType::U8}, {DType::U16, DType::I16}, {DType::U16, DType::U16}};

TEST_F(IntegerProduct, Tails) {
  for (const auto& [a, b] : kNarrowPairs)
    for (int64_t tail : {0, 1, 2, 3, 7, 16, 31})
      for (const Integers& f : {Integers{a, b, 48 + tail, 48, 48},
                                {a, b, 48, 48 + tail, 48},
                                {a, b, 48, 48, 48 + tail},
                                {a, b, 47 - tail, 50, 60}}) {
        check(f);
        if (HasFatalFailure()) return;
      }
}

TEST_F(IntegerProduct, StridesAndBatches) {
  for (const auto& [a, b] : kNarrowPairs)
    for (int layout = 0; layout < 4; ++layout)
      for (int64_t batch : {1, 3})
        for (bool shared : {false, true}) {
          if (batch == 1 && shared) continue;
          check({a, b, 70, 100, 61, batch, layout % 2 == 1, layout / 2 == 1, shared});
          if (HasFatalFailure()) return;
        }
}

TEST_F(IntegerProduct, DeepOnes) {
  for (const auto& [a, b] : kNarrowPairs) check({a, b, 50, 60, 3000});
}

}  // namespace
}  // namespace framejit::runtime::testing
