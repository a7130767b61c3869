// Whole products against the sum that product.h promises, to the bit (integers: any sum); the same for any number of
// threads; epilogues against the same operators run by themselves.
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

template <class T>
constexpr DType dtype_of() {
  if (std::is_integral_v<T>) return sizeof(T) == 4 ? DType::I32 : DType::U64;
  return sizeof(T) == 4 ? DType::F32 : DType::F64;
}

template <class T>
T multiply_add(T x, T y, T sum) {
  if constexpr (std::is_integral_v<T>) return x * y + sum;
  else return std::fma(x, y, sum);
}

template <class T>
class Check {
 public:
  Check(const Case& c, const codegen::Cpu& cpu, const void* code, std::mt19937_64& random) : case_(c) {
    const int64_t item = sizeof(T);
    p_.core = codegen::MatMulCore(dtype_of<T>(), cpu.isa == codegen::Isa::Avx512);
    p_.code = code;
    p_.l2_bytes = c.l2_bytes;
    p_.m = c.m, p_.n = c.n, p_.k = c.k;
    const int64_t a_rows = c.at ? c.k : c.m, a_columns = c.at ? c.m : c.k;
    const int64_t b_rows = c.bt ? c.n : c.k, b_columns = c.bt ? c.k : c.n;
    const int64_t a_pitch = (a_columns * c.spread + c.pad) * item, b_pitch = (b_columns * c.spread + c.pad) * item;
    p_.a_row = c.at ? c.spread * item : a_pitch, p_.a_k = c.at ? a_pitch : c.spread * item;
    p_.b_column = c.bt ? b_pitch : c.spread * item, p_.b_k = c.bt ? c.spread * item : b_pitch;
    p_.c_row = (c.n + c.pad) * item;
    a_bytes_ = size(a_rows, a_columns, a_pitch), b_bytes_ = size(b_rows, b_columns, b_pitch);
    c_bytes_ = c.m * c.n > 0 ? (c.m - 1) * p_.c_row + c.n * item : 0;
    if (c.batch != 1) p_.batch = {{c.batch, a_bytes_, c.shared_b ? 0 : b_bytes_, c_bytes_}};
    given_ = p_;
    p_.plan();
    a_ = std::make_unique<Guarded>(a_bytes_ * c.batch);
    b_ = std::make_unique<Guarded>(b_bytes_ * (c.shared_b ? 1 : c.batch));
    c_ = std::make_unique<Guarded>(c_bytes_ * c.batch);
    fill(a_->data, a_bytes_ * c.batch, random);
    fill(b_->data, b_bytes_ * (c.shared_b ? 1 : c.batch), random);
  }

  Product& product() { return p_; }
  char* a() { return a_->data; }
  char* b() { return b_->data; }

  /// And with the panels of B packed before: to the bit.
  std::vector<T> run() {
    const std::vector<T> out = run(nullptr);
    if (has_panels(p_)) {
      const Guarded panels(panel_bytes(p_));
      pack_panels(p_, b_->data, panels.data);
      const std::vector<T> again = run(panels.data);
      EXPECT_TRUE(out.empty() || std::memcmp(out.data(), again.data(), out.size() * sizeof(T)) == 0) << name();
    }
    return out;
  }

  std::vector<T> run(const char* panels) {
    std::memset(c_->data, 0x55, static_cast<std::size_t>(c_bytes_ * case_.batch));
    RunState state;
    run_product(p_, a_->data, b_->data, c_->data, state, nullptr, panels);
    std::vector<T> out(static_cast<std::size_t>(c_bytes_ * case_.batch) / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), c_->data, out.size() * sizeof(T));
    return out;
  }

  void expect_right(const std::vector<T>& got) const {
    const bool dots = p_.way.path == Product::Path::Dots || p_.way.path == Product::Path::DotsOfB;
    const int64_t depth = std::max<int64_t>(p_.way.path == Product::Path::Row ? case_.k : p_.way.depth, 1);
    const int64_t pitch = given_.c_row / static_cast<int64_t>(sizeof(T));
    if (got.empty()) return;
    for (int64_t batch = 0; batch < case_.batch; ++batch)
      for (int64_t i = 0; i < case_.m; ++i)
        for (int64_t j = 0; j < pitch; ++j) {
          const int64_t index = batch * (c_bytes_ / static_cast<int64_t>(sizeof(T))) + i * pitch + j;
          if (j >= case_.n) {
            if (i + 1 == case_.m) continue;  // the next matrix begins here
            T untouched;
            std::memset(&untouched, 0x55, sizeof(T));
            ASSERT_EQ(std::memcmp(&got[static_cast<std::size_t>(index)], &untouched, sizeof(T)), 0)
                << "wrote between rows";
            continue;
          }
          // Of large products some elements, and the last row and column.
          if (case_.m * case_.n * case_.k > 500'000 && (31 * i + j) % 41 != 0 && i + 1 != case_.m && j + 1 != case_.n)
            continue;
          T want = 0;
          double exact = 0, size = 0;
          for (int64_t first = 0; first < case_.k; first += depth) {
            T block = 0;
            for (int64_t l = first; l < std::min(case_.k, first + depth); ++l) {
              const T x = at(a_->data + batch * a_bytes_ + i * given_.a_row + l * given_.a_k);
              const T y = at(b_->data + (case_.shared_b ? 0 : batch * b_bytes_) + l * given_.b_k + j * given_.b_column);
              block = multiply_add(x, y, block);
              exact += static_cast<double>(x) * static_cast<double>(y);
              size += std::fabs(static_cast<double>(x) * static_cast<double>(y));
            }
            want = first == 0 ? block : want + block;
          }
          const T value = got[static_cast<std::size_t>(index)];
          if (dots && !std::is_integral_v<T>)
            ASSERT_NEAR(value, exact, size * static_cast<double>(case_.k) * std::numeric_limits<T>::epsilon())
                << name();
          else ASSERT_EQ(value, want) << name() << " at " << i << "," << j;
        }
  }

  std::string name() const {
    return std::to_string(case_.m) + "x" + std::to_string(case_.n) + "x" + std::to_string(case_.k) +
           (case_.at ? " A^T" : "") + (case_.bt ? " B^T" : "") + " path " +
           std::to_string(static_cast<int>(p_.way.path));
  }

 private:
  static int64_t size(int64_t rows, int64_t columns, int64_t pitch) { return rows * columns > 0 ? rows * pitch : 0; }
  static T at(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  static void fill(char* to, int64_t bytes, std::mt19937_64& random) {
    for (int64_t i = 0; i < bytes; i += static_cast<int64_t>(sizeof(T))) {
      const T value = std::is_integral_v<T> ? static_cast<T>(random())
                                            : static_cast<T>(static_cast<double>(random() % 20001) / 10000 - 1);
      std::memcpy(to + i, &value, sizeof(T));
    }
  }

  Case case_;
  Product p_, given_;
  int64_t a_bytes_, b_bytes_, c_bytes_;
  std::unique_ptr<Guarded> a_, b_, c_;
};

class MatMulProduct : public ::testing::Test {
 protected:
  template <class F>
  void each_core(F&& f) {
    for (const codegen::Cpu& cpu : cpus())
      for (DType dtype : {DType::F32, DType::F64, DType::I32, DType::U64}) {
        auto kernel = codegen::emit_matmul(dtype, cpu.isa);
        ASSERT_TRUE(kernel.has_value());
        const std::span<const uint8_t> piece(kernel->bytes);
        auto block = CodeBlock::seal({&piece, 1});
        ASSERT_TRUE(block.has_value());
        f(cpu, dtype, block->entry(0));
        if (HasFatalFailure()) return;
      }
  }

  /// f of a zero of the dtype.
  template <class F>
  static void of_type(DType dtype, F&& f) {
    switch (dtype) {
      case DType::F32: return f(0.0f);
      case DType::F64: return f(0.0);
      case DType::I32: return f(uint32_t{});
      default: return f(uint64_t{});
    }
  }

  void check(const std::vector<Case>& cases) {
    std::mt19937_64 random(7);
    each_core([&](const codegen::Cpu& cpu, DType dtype, const void* code) {
      for (const Case& c : cases) {
        auto one = [&](auto zero) {
          Check<decltype(zero)> product(c, cpu, code, random);
          product.expect_right(product.run());
        };
        of_type(dtype, one);
        if (HasFatalFailure()) return;
      }
    });
  }
};

std::vector<Case> with_layouts(std::vector<std::array<int64_t, 3>> shapes, int64_t batch = 1) {
  std::vector<Case> out;
  for (const auto& [m, n, k] : shapes)
    for (int layout = 0; layout < 4; ++layout)
      out.push_back({m, n, k, layout % 2 == 1, layout / 2 == 1, batch, (m + n) % 2 == 0, (m + k) % 3, 1});
  return out;
}

TEST_F(MatMulProduct, TailsOfRowsAndColumns) {
  std::vector<std::array<int64_t, 3>> shapes;
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 28, 29, 43, 44})
    for (int64_t n : {1, 2, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 63, 65, 130})
      for (int64_t k : {1, 3, 33}) shapes.push_back({m, n, k});
  check(with_layouts(shapes));
}

TEST_F(MatMulProduct, TailsOfDepth) {
  std::vector<std::array<int64_t, 3>> shapes;
  for (int64_t k : {15, 16, 17, 31, 255, 256, 257, 263, 264, 511, 513, 770})
    for (auto [m, n] : {std::pair<int64_t, int64_t>{3, 40}, {50, 65}, {5, 3}, {3, 200}, {60, 9}})
      shapes.push_back({m, n, k});
  check(with_layouts(shapes));
}

TEST_F(MatMulProduct, Blocks) {
  check(with_layouts({{130, 700, 300}, {61, 1300, 70}, {300, 64, 520}, {45, 330, 1100}}));
}

TEST_F(MatMulProduct, PanelsOfAServeSeveralBlocksOfColumns) {
  std::vector<Case> cases = with_layouts({{130, 300, 300}, {61, 200, 70}});
  for (Case& c : cases) c.l2_bytes = 16 << 10;
  check(cases);
  std::mt19937_64 random(2);
  each_core([&](const codegen::Cpu& cpu, DType, const void* code) {
    const Product p = Check<float>(cases[0], cpu, code, random).product();
    EXPECT_LT(p.way.columns, p.n);
    EXPECT_GT(p.way.a_panels, 1);
    EXPECT_LT(p.way.a_panels * p.way.panel_rows, p.m);
  });
}

TEST_F(MatMulProduct, FewRowsTimesLargeMatrix) {
  std::vector<Case> cases = with_layouts(
      {{2, 4161, 67}, {5, 2100, 130}, {7, 700, 400}, {8, 4097, 65}, {13, 9001, 49}, {14, 2100, 130}, {21, 4161, 67}});
  cases.push_back({8, 4200, 64, false, false, 3, false, 1, 1});
  cases.push_back({3, 4200, 64, false, false, 1, false, 1, 2});
  check(cases);
  std::mt19937_64 random(2);
  each_core([&](const codegen::Cpu& cpu, DType, const void* code) {
    const Product p = Check<float>(cases[0], cpu, code, random).product();
    EXPECT_EQ(p.way.path, Product::Path::Tiles);
    EXPECT_EQ(p.way.depth, p.tuning.streamed_depth);
  });
}

TEST_F(MatMulProduct, RowTimesLargeMatrix) {
  std::vector<Case> cases = with_layouts({{1, 4161, 67}, {1, 300, 1000}, {4161, 1, 64}});
  cases.push_back({1, 4200, 64, false, false, 3, true, 1, 1});
  check(cases);
  std::mt19937_64 random(2);
  each_core([&](const codegen::Cpu& cpu, DType, const void* code) {
    EXPECT_EQ(Check<float>(cases[0], cpu, code, random).product().way.path, Product::Path::Row);
  });
}

TEST_F(MatMulProduct, Nothing) {
  check(with_layouts({{0, 5, 3}, {5, 0, 3}, {5, 3, 0}, {0, 0, 0}, {60, 70, 0}, {1, 1, 0}}));
  check(with_layouts({{3, 5, 2}}, 0));
}

TEST_F(MatMulProduct, Strides) {
  std::vector<Case> cases;
  for (bool at : {false, true})
    for (bool bt : {false, true})
      for (auto [m, n, k] :
           {std::array<int64_t, 3>{3, 5, 7}, {50, 70, 40}, {3, 70, 40}, {50, 3, 40}, {1, 40, 40}, {40, 1, 40}})
        cases.push_back({m, n, k, at, bt, 1, false, 2, 3});
  check(cases);
}

TEST_F(MatMulProduct, Batches) {
  std::vector<Case> cases;
  for (bool shared : {false, true})
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 5, 4}, {4, 4, 4}, {9, 33, 40}, {60, 40, 70}, {20, 1, 50}})
      for (bool bt : {false, true}) cases.push_back({m, n, k, false, bt, 5, shared, 0, 1});
  check(cases);
}

TEST_F(MatMulProduct, ThreadsDoNotChangeBits) {
  initialize_scheduler();
  std::mt19937_64 random(9);
  each_core([&](const codegen::Cpu& cpu, DType dtype, const void* code) {
    for (const Case& c : with_layouts({{300, 310, 300},
                                       {1, 5000, 100},
                                       {1000, 3, 100},
                                       {3, 1000, 100},
                                       {8, 5000, 100},
                                       {30, 1000, 100},
                                       {70, 40, 300}},
                                      2)) {
      auto one = [&](auto zero) {
        Check<decltype(zero)> product(c, cpu, code, random);
        product.product().nanoseconds = 1e9;  // as if it were long: cut in as many pieces as there may be
        set_num_threads(1);
        const auto serial = product.run();
        product.expect_right(serial);
        for (int threads : {2, 3, 8}) {
          set_num_threads(threads);
          EXPECT_EQ(product.run(), serial) << product.name() << " on " << threads << " threads";
        }
      };
      of_type(dtype, one);
      if (HasFatalFailure()) return;
    }
  });
  set_num_threads(0);
}

TEST_F(MatMulProduct, NanAndInfinityStayInTheirRowAndColumn) {
  std::mt19937_64 random(3);
  each_core([&](const codegen::Cpu& cpu, DType dtype, const void* code) {
    if (dtype != DType::F32) return;
    for (const Case& c : with_layouts({{20, 37, 40}, {60, 70, 300}, {3, 70, 40}, {50, 3, 40}})) {
      Check<float> product(c, cpu, code, random);
      const float nan = NAN, infinity = HUGE_VALF;
      const Product& p = product.product();
      std::memcpy(product.a() + (c.at ? 4 : (c.k + c.pad) * 4), &nan, 4);           // A[1, 0]
      std::memcpy(product.b() + 2 * (c.bt ? (c.k + c.pad) * 4 : 4), &infinity, 4);  // B[0, 2]
      const std::vector<float> got = product.run();
      const int64_t pitch = (c.n + c.pad);
      for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < c.n; ++j) {
          const float value = got[static_cast<std::size_t>(i * pitch + j)];
          EXPECT_EQ(std::isnan(value), i == 1) << i << "," << j << " path " << static_cast<int>(p.way.path);
          if (i != 1) {
            EXPECT_EQ(std::isinf(value), j == 2) << i << "," << j;
          }
        }
    }
  });
}

// ---- epilogues
// ----------------------------------------------------------------------------------------------------------------

template <class T = float>
std::vector<std::byte> floats(int64_t count, std::mt19937_64& random) {
  std::vector<std::byte> out(static_cast<std::size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(static_cast<double>(random() % 20001) / 10000 - 1);
    std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return out;
}

/// Some of the elements become NaN, an infinity, -0, or so small that products underflow to -0.
template <class T>
void season(std::vector<std::byte>& params, std::mt19937_64& random) {
  const T small = sizeof(T) == 4 ? T(1e-30) : T(1e-200),
          values[] = {T(NAN), T(HUGE_VAL), T(-HUGE_VAL), T(-0.0), small, -small};
  for (std::size_t i = random() % 9; i < params.size() / sizeof(T); i += 1 + random() % 60)
    std::memcpy(params.data() + i * sizeof(T), &values[random() % 6], sizeof(T));
}

/// To the bit, but for which NaN it is.
template <class T>
void expect_same(const std::vector<std::byte>& got, const std::vector<std::byte>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, got.data() + i, sizeof(T));
    std::memcpy(&y, want.data() + i, sizeof(T));
    ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof(T)) == 0)
        << what << " at " << i / sizeof(T) << ": " << x << ", not " << y;
  }
}

std::size_t loops(const std::string& listing) {
  std::size_t count = 0;
  for (std::size_t at = listing.find("\nloop "); at != std::string::npos; at = listing.find("\nloop ", at + 1)) ++count;
  return count + listing.starts_with("loop ");
}

TEST(Epilogue, BiasAndReluGiveTheBitsOfLoops) {
  std::mt19937_64 random(5);
  initialize_scheduler();
  for (const codegen::Cpu& cpu : cpus())
    for (auto [m, n, k] :
         {std::array<int64_t, 3>{5, 7, 3}, {60, 70, 600}, {128, 320, 64}, {33, 2, 90}, {2, 33, 90}, {4, 4, 0}}) {
      const auto dims = [](int64_t x, int64_t y) {
        return "f32[" + std::to_string(x) + ", " + std::to_string(y) + "]";
      };
      const std::string c = dims(m, n), row = "f32[" + std::to_string(n) + "]", one = "f32[]";
      const std::vector<std::vector<std::byte>> params = {floats(m * k, random), floats(k * n, random),
                                                          floats(n, random), floats(m, random), floats(m * n, random)};
      const std::string body = "  %10 = add @, %bias : " + c + "\n  %11 = multiply %10, %scale : " + c +
                               "\n  %12 = add %11, %rest : " + c + "\n  %13 = constant {value=0} : " + one +
                               "\n  %14 = maximum %12, %13 : " + c + "\n  return %14\n}";
      const std::string operands = ", %bias: " + row + ", %scale: " + dims(m, 1) + ", %rest: " + c + ") {\n";
      auto with = [&](const std::string& product) {
        std::string out = body;
        out.replace(out.find('@'), 1, product);
        return out;
      };
      const Ran product = run_graph("graph @f(%a: " + dims(m, k) + ", %b: " + dims(k, n) +
                                        ") {\n  %9 = matmul %a, %b : " + c + "\n  return %9\n}",
                                    {params[0], params[1]}, cpu);
      const Ran rest = run_graph("graph @f(%p: " + c + operands + with("%p"),
                                 {product.results[0], params[2], params[3], params[4]}, cpu);
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        const Ran whole = run_graph("graph @f(%a: " + dims(m, k) + ", %b: " + dims(k, n) + operands +
                                        "  %9 = matmul %a, %b : " + c + "\n" + with("%9"),
                                    params, cpu);
        EXPECT_EQ(whole.results, rest.results) << m << "x" << n << "x" << k;
        EXPECT_NE(whole.listing.find("finished by loop"), std::string::npos) << whole.listing;
        EXPECT_EQ(loops(whole.listing), 0u) << whole.listing;
        EXPECT_EQ(whole.listing.find("temp"), std::string::npos) << whole.listing;
      }
    }
  set_num_threads(0);
}

/// Beside the product and what is made of it by loops: one tile, tiles of all widths, packed ones, several blocks of k,
/// paths without tiles.
template <class T>
void check_in_registers(const codegen::Cpu& cpu, std::mt19937_64& random) {
  const std::string dtype = sizeof(T) == 4 ? "f32" : "f64";
  struct Form {
    const char *body, *registers;
  };
  const Form forms[] = {{"  %10 = add %9, %bias : @\n  return %10\n}", "registers of tiles: add param 2\n"},
                        {"  %10 = add %bias, %9 : @\n  %11 = maximum %zero, %10 : @\n  return %11\n}",
                         "registers of tiles: add param 2, relu\n"},
                        {"  %10 = add %9, %bias : @\n  %11 = maximum %10, %zero : @\n  return %11\n}",
                         "registers of tiles: add param 2, relu\n"},
                        {"  %10 = maximum %zero, %9 : @\n  return %10\n}", "registers of tiles: relu\n"},
                        {"  %10 = maximum %9, %zero : @\n  return %10\n}", "registers of tiles: relu\n"}};
  for (auto [batch, m, n, k] : {std::array<int64_t, 4>{1, 4, 4, 4},
                                {1, 14, 31, 9},
                                {1, 5, 7, 3},
                                {1, 60, 70, 600},
                                {1, 128, 320, 64},
                                {1, 33, 65, 129},
                                {1, 33, 2, 90},
                                {1, 2, 33, 90},
                                {1, 4, 4, 0},
                                {1, 300, 1, 40},
                                {1, 1, 300, 40},
                                {1, 5, 4200, 70},
                                {3, 9, 33, 40},
                                {2, 60, 90, 300}}) {
    const auto dims = [&](int64_t x, int64_t y) {
      return dtype + "[" + (batch > 1 ? std::to_string(batch) + ", " : "") + std::to_string(x) + ", " +
             std::to_string(y) + "]";
    };
    std::vector<std::vector<std::byte>> params = {floats<T>(batch * m * k, random), floats<T>(batch * k * n, random),
                                                  floats<T>(n, random)};
    for (auto& p : params) season<T>(p, random);
    const std::string c = dims(m, n), factors = "graph @f(%a: " + dims(m, k) + ", %b: " + dims(k, n),
                      product = "  %9 = matmul %a, %b : " + c + "\n";
    const std::string bias = ", %bias: " + dtype + "[" + std::to_string(n) + "]) {\n",
                      zero = "  %zero = constant {value=0} : " + dtype + "[]\n";
    const Ran plain = run_graph(factors + ") {\n" + product + "  return %9\n}", {params[0], params[1]}, cpu);
    for (const Form& form : forms) {
      std::string body = form.body;
      for (std::size_t at = body.find('@'); at != std::string::npos; at = body.find('@')) body.replace(at, 1, c);
      const Ran rest = run_graph("graph @f(%9: " + c + bias + zero + body, {plain.results[0], params[2]}, cpu);
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        const Ran whole = run_graph(factors + bias + zero + product + body, params, cpu);
        expect_same<T>(whole.results[0], rest.results[0], factors + bias + body);
        EXPECT_EQ(whole.listing.find(form.registers) != std::string::npos, n > 1) << whole.listing;
        EXPECT_EQ(loops(whole.listing), 0u) << whole.listing;
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  set_num_threads(0);
}

TEST(Epilogue, BiasAndReluInRegistersGiveTheBitsOfLoops) {
  std::mt19937_64 random(11);
  initialize_scheduler();
  for (const codegen::Cpu& cpu : cpus()) {
    check_in_registers<float>(cpu, random);
    check_in_registers<double>(cpu, random);
  }
}

TEST(Epilogue, OtherFormsAreLoops) {
  const codegen::Cpu cpu = cpus().back();
  const std::string c = " : f32[8, 8]\n";
  for (const std::string& body : {
           "  %10 = add %9, %column" + c + "  return %10\n}",
           "  %10 = add %9, %a" + c + "  return %10\n}",
           "  %10 = add %9, %one" + c + "  return %10\n}",
           "  %10 = add %9, %9" + c + "  return %10\n}",
           "  %10 = subtract %9, %bias" + c + "  return %10\n}",
           "  %10 = maximum %9, %one" + c + "  return %10\n}",
           "  %10 = maximum %9, %minus" + c + "  return %10\n}",
           "  %10 = minimum %9, %zero" + c + "  return %10\n}",
           "  %10 = maximum %9, %zero" + c + "  %11 = add %10, %bias" + c + "  return %11\n}",
           "  %10 = add %9, %bias" + c + "  return %10, %9\n}",
           "  %10 = add %9, %bias" + c + "  %11 = maximum %10, %zero" + c + "  return %11, %10\n}",
           "  %10 = add %9, %bias" + c + "  %11 = cast %10 : f64[8, 8]\n  return %11\n}",
       }) {
    std::mt19937_64 random(12);
    const std::string constants =
        "  %zero = constant {value=0} : f32[]\n  %minus = constant {value=-0.0} : f32[]\n  %one = constant {value=1} : "
        "f32[]\n";
    const std::vector<std::vector<std::byte>> params = {floats(64, random), floats(64, random), floats(8, random),
                                                        floats(8, random)};
    const std::string operands = "%a: f32[8, 8], %b: f32[8, 8], %bias: f32[8], %column: f32[8, 1]) {\n" + constants;
    const Ran whole = run_graph("graph @f(" + operands + "  %9 = matmul %a, %b" + c + body, params, cpu);
    EXPECT_NE(whole.listing.find("finished by loop"), std::string::npos) << whole.listing;
    EXPECT_EQ(whole.listing.find("registers of tiles"), std::string::npos) << whole.listing;
    const Ran plain = run_graph("graph @f(%a: f32[8, 8], %b: f32[8, 8]) {\n  %9 = matmul %a, %b" + c + "  return %9\n}",
                                {params[0], params[1]}, cpu);
    const Ran rest = run_graph("graph @f(%9: f32[8, 8], " + operands + body,
                               {plain.results[0], params[0], params[1], params[2], params[3]}, cpu);
    for (std::size_t i = 0; i < whole.results.size(); ++i)
      EXPECT_EQ(whole.results[i],
                i == 1 && body.find("%9\n}") != std::string::npos ? plain.results[0] : rest.results[i])
          << body;
  }
}

/// Several rows at once; blocks of C hold any number of them.
TEST(Epilogue, ShortRows) {
  std::mt19937_64 random(6);
  initialize_scheduler();
  for (const codegen::Cpu& cpu : cpus())
    for (auto [batch, m, n, k] : {std::array<int64_t, 4>{1, 5000, 8, 16},
                                  {1, 5001, 3, 5},
                                  {1, 9000, 2, 40},
                                  {3, 2500, 12, 30},
                                  {1, 3001, 33, 20}}) {
      const auto dims = [&](int64_t x, int64_t y) {
        return "f32[" + (batch > 1 ? std::to_string(batch) + ", " : "") + std::to_string(x) + ", " + std::to_string(y) +
               "]";
      };
      const std::string c = dims(m, n), operands = ", %bias: f32[" + std::to_string(n) + "]) {\n";
      const std::vector<std::vector<std::byte>> params = {floats(batch * m * k, random), floats(batch * k * n, random),
                                                          floats(n, random)};
      const auto finished = [&](const std::string& product) {
        return "  %10 = multiply " + product + ", %bias : " + c +
               "\n  %11 = constant {value=0} : f32[]\n  %12 = maximum %10, %11 : " + c + "\n  return %12\n}";
      };
      const std::string factors = "graph @f(%a: " + dims(m, k) + ", %b: " + dims(k, n),
                        product = "  %9 = matmul %a, %b : " + c + "\n";
      const Ran plain = run_graph(factors + ") {\n" + product + "  return %9\n}", {params[0], params[1]}, cpu);
      const Ran rest = run_graph("graph @f(%p: " + c + operands + finished("%p"), {plain.results[0], params[2]}, cpu);
      for (int threads : {1, 3}) {
        set_num_threads(threads);
        const Ran whole = run_graph(factors + operands + product + finished("%9"), params, cpu);
        EXPECT_EQ(whole.results, rest.results) << batch << "x" << m << "x" << n << "x" << k;
        EXPECT_NE(whole.listing.find("finished by loop"), std::string::npos) << whole.listing;
      }
    }
  set_num_threads(0);
}

TEST(Epilogue, BatchesCastsAndSharedProducts) {
  std::mt19937_64 random(6);
  for (const codegen::Cpu& cpu : cpus()) {
    const std::vector<std::vector<std::byte>> params = {floats(2 * 3 * 20 * 16, random), floats(16 * 24, random),
                                                        floats(3 * 20 * 24, random)};
    const std::string c = "f32[2, 3, 20, 24]", head = "graph @f(%a: f32[2, 3, 20, 16], %b: f32[16, 24]";
    const Ran product =
        run_graph(head + ") {\n  %3 = matmul %a, %b : " + c + "\n  return %3\n}", {params[0], params[1]}, cpu);
    const Ran cast = run_graph("graph @f(%p: " + c + ", %m: f32[3, 20, 24]) {\n  %3 = add %p, %m : " + c +
                                   "\n  %4 = cast %3 : f64[2, 3, 20, 24]\n  return %4\n}",
                               {product.results[0], params[2]}, cpu);
    const Ran whole =
        run_graph(head + ", %m: f32[3, 20, 24]) {\n  %3 = matmul %a, %b : " + c + "\n  %4 = add %3, %m : " + c +
                      "\n  %5 = cast %4 : f64[2, 3, 20, 24]\n  return %5, %3\n}",
                  params, cpu);
    ASSERT_EQ(whole.results.size(), 2u);
    EXPECT_EQ(whole.results[0], cast.results[0]);
    EXPECT_EQ(whole.results[1], product.results[0]);
    EXPECT_NE(whole.listing.find("finished by loop"), std::string::npos) << whole.listing;
  }
}

TEST(Epilogue, WhatMustNotWaitIsSeparate) {
  std::mt19937_64 random(8);
  const codegen::Cpu cpu = cpus().back();
  const std::vector<std::vector<std::byte>> params = {floats(64, random), floats(64, random)};
  // A write to an operand between the product and its reader.
  Ran ran = run_graph(
      "graph @f(%a: f32[8, 8], %b: f32[8, 8]) {\n  %2 = matmul %a, %b : f32[8, 8]\n  write %a, %b\n"
      "  %4 = add %2, %b : f32[8, 8]\n  return %4\n}",
      params, cpu);
  EXPECT_EQ(ran.listing.find("finished by"), std::string::npos) << ran.listing;
  // A reader that sees the product transposed.
  ran = run_graph(
      "graph @f(%a: f32[8, 8], %b: f32[8, 8]) {\n  %2 = matmul %a, %b : f32[8, 8]\n"
      "  %3 = view %2 : f32[8, 8] strides=[4, 32] root=%2 offset=0\n  %4 = add %3, %2 : f32[8, 8]\n  return %4\n}",
      params, cpu);
  EXPECT_EQ(ran.listing.find("finished by"), std::string::npos) << ran.listing;
  // Of two products the later one.
  ran = run_graph(
      "graph @f(%a: f32[8, 8], %b: f32[8, 8]) {\n  %2 = matmul %a, %b : f32[8, 8]\n  %3 = matmul %b, %a : f32[8, 8]\n"
      "  %4 = add %2, %3 : f32[8, 8]\n  return %4\n}",
      params, cpu);
  const Ran left = run_graph(
      "graph @f(%a: f32[8, 8], %b: f32[8, 8]) {\n  %2 = matmul %a, %b : f32[8, 8]\n  return %2\n}", params, cpu);
  const Ran right = run_graph(
      "graph @f(%a: f32[8, 8], %b: f32[8, 8]) {\n  %2 = matmul %b, %a : f32[8, 8]\n  return %2\n}", params, cpu);
  for (std::size_t i = 0; i < 64; ++i) {
    float x, y, sum;
    std::memcpy(&x, left.results[0].data() + 4 * i, 4);
    std::memcpy(&y, right.results[0].data() + 4 * i, 4);
    std::memcpy(&sum, ran.results[0].data() + 4 * i, 4);
    EXPECT_EQ(sum, x + y);
  }
  EXPECT_EQ(loops(ran.listing), 0u) << ran.listing;
}

// ---- producers
// ----------------------------------------------------------------------------------------------------------------

/// f(...) before a product: the text of f, which makes %9, and its operands.
struct Produced {
  std::string operands, body;
  std::vector<std::vector<std::byte>> params;
  bool long_arithmetic = false;
};

constexpr int64_t kSmallCache = 48 << 10;  // so that A, of a few hundred rows, is more than stays in it

std::vector<codegen::Cpu> cpus_of_small_cache() {
  std::vector<codegen::Cpu> out = cpus();
  for (codegen::Cpu& cpu : out) cpu.l2_bytes = kSmallCache;
  return out;
}

int64_t product_of(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

std::string text_of(const std::string& dtype, std::span<const int64_t> dims) {
  std::string out = dtype + "[";
  for (std::size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
  return out + "]";
}

/// Values among which are NaN, infinities, zeros of both signs and numbers whose squares overflow.
std::vector<std::byte> wild(int64_t count, std::mt19937_64& random) {
  std::vector<std::byte> out = floats(count, random);
  const float rare[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 3e38f};
  for (int64_t i = 0; i < count / 500; ++i) {
    const float value = rare[random() % std::size(rare)];
    std::memcpy(out.data() + 4 * (random() % static_cast<uint64_t>(count)), &value, 4);
  }
  return out;
}

std::vector<Produced> producers(std::span<const int64_t> shape, std::mt19937_64& random) {
  const int64_t m = shape.end()[-2], k = shape.back(), count = product_of(shape);
  const std::string a = text_of("f32", shape), square = text_of("f64", shape);
  std::vector<std::byte> wide(static_cast<std::size_t>(count) * 8), halves(static_cast<std::size_t>(count) * 2);
  for (int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(random() % 2001) / 7 - 100;
    const uint16_t half = static_cast<uint16_t>(random() % 0x7800 + (random() % 2 << 15));
    std::memcpy(wide.data() + 8 * i, &value, 8);
    std::memcpy(halves.data() + 2 * i, &half, 2);
  }
  std::vector<std::byte> turned = wild(count, random);
  std::vector<int64_t> swapped(shape.begin(), shape.end());
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  std::string strides = "[";
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) {
    int64_t stride = 4 * m * k;
    for (std::size_t j = i + 1; j + 2 < shape.size(); ++j) stride *= shape[j];
    strides += std::to_string(stride) + ", ";
  }
  strides += "4, " + std::to_string(4 * m) + "]";
  return {
      {"%x: " + a, "  %8 = constant {value=0} : f32[]\n  %9 = maximum %x, %8 : " + a + "\n", {wild(count, random)}},
      {"%x: " + a + ", %s: f32[" + std::to_string(k) + "], %r: f32[" + std::to_string(m) + ", 1]",
       "  %7 = multiply %x, %s : " + a + "\n  %9 = add %7, %r : " + a + "\n",
       {wild(count, random), wild(k, random), floats(m, random)}},
      {"%x: " + square, "  %9 = cast %x : " + a + "\n", {wide}},
      {"%x: " + text_of("f16", shape), "  %9 = cast %x : " + a + "\n", {halves}},
      {"%x: " + text_of("f32", swapped),
       "  %7 = view %x : " + a + " strides=" + strides + " root=%x offset=0\n  %9 = multiply %7, %7 : " + a + "\n",
       {turned}},
      {"%x: " + a, "  %8 = erf %x : " + a + "\n  %9 = multiply %x, %8 : " + a + "\n", {wild(count, random)}, true},
  };
}

TEST(Producer, GivesTheBitsOfAnAThatLiesInMemory) {
  std::mt19937_64 random(9);
  initialize_scheduler();
  struct Factors {
    std::vector<int64_t> batch;
    int64_t m, n, k;
  };
  const Factors cases[] = {{{}, 403, 16, 100}, {{}, 700, 7, 90},   {{}, 500, 1, 300},
                           {{}, 401, 16, 520}, {{}, 405, 30, 270}, {{2, 3}, 130, 12, 65},
                           {{5}, 200, 16, 33}, {{}, 2600, 40, 15}, {{3}, 97, 2, 600}};
  for (const codegen::Cpu& cpu : cpus_of_small_cache())
    for (const Factors& s : cases)
      for (bool same_b : {true, false}) {
        if (s.batch.empty() && !same_b) continue;
        std::vector<int64_t> a_shape = s.batch, b_shape = same_b ? std::vector<int64_t>() : s.batch, c_shape = s.batch;
        a_shape.insert(a_shape.end(), {s.m, s.k}), b_shape.insert(b_shape.end(), {s.k, s.n}),
            c_shape.insert(c_shape.end(), {s.m, s.n});
        const std::string a = text_of("f32", a_shape), b = text_of("f32", b_shape), c = text_of("f32", c_shape);
        const std::string product = "  %10 = matmul %9, %b : " + c + "\n";
        const std::vector<std::byte> factor = floats(product_of(b_shape), random);
        for (const Produced& f : producers(a_shape, random)) {
          const Ran before = run_graph("graph @f(" + f.operands + ") {\n" + f.body + "  return %9\n}", f.params, cpu);
          const Ran after = run_graph("graph @f(%9: " + a + ", %b: " + b + ") {\n" + product + "  return %10\n}",
                                      {before.results[0], factor}, cpu);
          std::vector<std::vector<std::byte>> params = f.params;
          params.push_back(factor);
          for (int threads : {1, 2, 3}) {
            set_num_threads(threads);
            const Ran whole = run_graph(
                "graph @f(" + f.operands + ", %b: " + b + ") {\n" + f.body + product + "  return %10\n}", params, cpu);
            EXPECT_EQ(whole.results, after.results) << f.body << product;
            EXPECT_EQ(whole.flags, before.flags | after.flags) << f.body << product;
            EXPECT_NE(whole.listing.find("its A produced by loop"), std::string::npos) << whole.listing;
            // Short rows and long arithmetic on part of a row are before the product.
            if (threads == 1 && s.k >= 64 && (!f.long_arithmetic || s.k <= 256)) {
              EXPECT_LT(whole.memory, product_of(a_shape) * 4) << whole.listing;
            }
          }
          const Ran finished = run_graph("graph @f(" + f.operands + ", %b: " + b + ") {\n" + f.body + product +
                                             "  %11 = add %10, %10 : " + c + "\n  return %11\n}",
                                         params, cpu);
          const Ran doubled = run_graph("graph @f(%10: " + c + ") {\n  %11 = add %10, %10 : " + c + "\n  return %11\n}",
                                        after.results, cpu);
          EXPECT_EQ(finished.results, doubled.results) << finished.listing;
          EXPECT_NE(finished.listing.find("finished by loop"), std::string::npos) << finished.listing;
        }
        set_num_threads(0);
      }
}

TEST(Producer, WhatMayNotWaitIsSeparate) {
  std::mt19937_64 random(10);
  const codegen::Cpu cpu = cpus_of_small_cache().back();
  const std::string a = "f32[300, 100]", b = "f32[100, 16]", c = "f32[300, 16]",
                    head = "graph @f(%x: " + a + ", %b: " + b;
  const std::string square = "  %9 = multiply %x, %x : " + a + "\n", product = "  %10 = matmul %9, %b : " + c + "\n";
  const std::vector<std::vector<std::byte>> params = {floats(30000, random), floats(1600, random)};
  const auto without = [&](const std::string& text, std::vector<std::vector<std::byte>> given) {
    const Ran ran = run_graph(text, given, cpu);
    EXPECT_EQ(ran.listing.find("produced by"), std::string::npos) << ran.listing;
    return ran;
  };
  const Ran alone = run_graph(head + ") {\n" + square + product + "  return %10\n}", params, cpu);
  ASSERT_NE(alone.listing.find("produced by"), std::string::npos);
  // A result, or with another reader.
  EXPECT_EQ(without(head + ") {\n" + square + product + "  return %10, %9\n}", params).results[0], alone.results[0]);
  without(head + ") {\n" + square + product + "  %11 = reduce_sum %9 {axes=[0, 1]} : f32[]\n  return %10, %11\n}",
          params);
  // What it reads is written before the product.
  std::vector<std::vector<std::byte>> written = params;
  written.push_back(floats(30000, random));
  EXPECT_EQ(without(head + ", %y: " + a + ") {\n" + square + "  write %x, %y\n" + product + "  return %10\n}", written)
                .results[0],
            alone.results[0]);
  // ... or before what the product waits for.
  written = params;
  written.push_back(floats(30000, random)), written.push_back(floats(4800, random));
  const Ran waits = run_graph(head + ", %y: " + a + ", %d: " + c + ") {\n" + square + product +
                                  "  write %x, %y\n  %12 = add %10, %d : " + c + "\n  return %12, %10\n}",
                              written, cpu);
  EXPECT_EQ(waits.results[1], alone.results[0]) << waits.listing;
  // Both factors; A transposed.
  const std::vector<std::vector<std::byte>> one = {floats(90000, random)};
  without(
      "graph @f(%x: f32[300, 300]) {\n  %9 = multiply %x, %x : f32[300, 300]\n  %10 = matmul %9, %9 : f32[300, 300]\n  "
      "return %10\n}",
      one);
  without(
      "graph @f(%x: f32[300, 300]) {\n  %8 = multiply %x, %x : f32[300, 300]\n  %9 = view %8 : f32[300, 300] "
      "strides=[4, 1200] root=%8 offset=0\n"
      "  %10 = matmul %9, %x : f32[300, 300]\n  return %10\n}",
      one);
  // What one product ends with is not what the next one begins with.
  const Ran chain = without(
      "graph @f(%x: f32[300, 100], %b: f32[100, 100], %d: f32[100, 16]) {\n  %8 = matmul %x, %b : f32[300, 100]\n"
      "  %9 = multiply %8, %8 : f32[300, 100]\n  %10 = matmul %9, %d : f32[300, 16]\n  return %10\n}",
      {params[0], floats(10000, random), params[1]});
  EXPECT_NE(chain.listing.find("finished by loop"), std::string::npos) << chain.listing;
  EXPECT_EQ(loops(chain.listing), 0u) << chain.listing;
}

/// Where there is no product to make, or one that finds A in cache, all of A is computed before: its flags are raised.
TEST(Producer, NoElementsAndFewOnes) {
  const codegen::Cpu cpu = cpus_of_small_cache().back();
  for (auto [m, n, k] : {std::array<int64_t, 3>{300, 0, 100},
                         {300, 16, 0},
                         {0, 16, 100},
                         {1, 16, 100},
                         {1, 16, 40000},
                         {300, 16, 1},
                         {20, 1, 2000}}) {
    const auto dims = [](int64_t x, int64_t y) { return text_of("f32", std::array{x, y}); };
    std::vector<std::byte> x(static_cast<std::size_t>(m * k) * 4), b(static_cast<std::size_t>(k * n) * 4);
    const float large = 3e38f;
    for (int64_t i = 0; i < m * k; ++i) std::memcpy(x.data() + 4 * i, &large, 4);
    const Ran ran =
        run_graph("graph @f(%x: " + dims(m, k) + ", %b: " + dims(k, n) + ") {\n  %9 = multiply %x, %x : " + dims(m, k) +
                      "\n  %10 = matmul %9, %b : " + dims(m, n) + "\n  return %10\n}",
                  {x, b}, cpu);
    const Ran before = run_graph(
        "graph @f(%x: " + dims(m, k) + ") {\n  %9 = multiply %x, %x : " + dims(m, k) + "\n  return %9\n}", {x}, cpu);
    EXPECT_EQ(ran.flags & before.flags, before.flags) << m << "x" << n << "x" << k;
    EXPECT_EQ(before.flags != 0, m * k > 0);
    for (std::size_t i = 0; k == 0 && i < ran.results[0].size(); ++i) EXPECT_EQ(ran.results[0][i], std::byte{0});
  }
}

}  // namespace
}  // namespace framejit::runtime::testing
