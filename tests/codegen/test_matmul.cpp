// The parts of a matrix-product core, to the bit: a tile's element is one chain of fused multiply-adds along k.
// Integers wrap.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/matmul.h"
#include "harness.h"

namespace framejit::codegen::testing {
namespace {

template <class T>
constexpr DType dtype_of() {
  if (std::is_integral_v<T>) return sizeof(T) == 4 ? DType::U32 : DType::I64;
  return sizeof(T) == 4 ? DType::F32 : DType::F64;
}

template <class T>
T some_number(std::mt19937& random) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t{random()} << 32 | random());
  else return static_cast<T>(random() / 4.0e9 - 0.5);
}

template <class T>
T multiply_add(T x, T y, T sum) {
  if constexpr (std::is_integral_v<T>) return x * y + sum;
  else return std::fma(x, y, sum);
}

/// A matrix of `rows` rows, `pitch` elements apart, that ends at a guard page.
template <class T>
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, int64_t pitch, std::mt19937& random)
      : pitch_(pitch),
        buffer_(
            static_cast<std::size_t>(rows > 0 ? ((rows - 1) * pitch + columns) * static_cast<int64_t>(sizeof(T)) : 0)) {
    for (std::size_t i = 0; i < size(); ++i) data()[i] = some_number<T>(random);
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  char* bytes() const { return buffer_.data(); }
  std::size_t size() const { return buffer_.size() / sizeof(T); }
  T& at(int64_t row, int64_t column) const { return data()[row * pitch_ + column]; }
  int64_t stride() const { return pitch_ * static_cast<int64_t>(sizeof(T)); }
  std::vector<T> copy() const { return {data(), data() + size()}; }

 private:
  int64_t pitch_;
  GuardedBuffer buffer_;
};

class MatMul : public ::testing::TestWithParam<Isa> {
 protected:
  template <class T>
  static Executable make(Isa isa) {
    auto emitted = emit_matmul(dtype_of<T>(), isa, true);
    EXPECT_TRUE(emitted.has_value());
    EXPECT_FALSE(emitted->listing.empty());
    return Executable(emitted->bytes);
  }
  template <class T>
  static MatMulCore core() {
    return MatMulCore(dtype_of<T>(), GetParam() == Isa::Avx512);
  }
};

template <class T>
void check_tile(const Executable& code, const MatMulCore& core, int rows, int vectors, int live, int64_t k, int panels,
                bool transposed, bool add, std::mt19937& random) {
  const int width = vectors == MatMulCore::kHalf ? core.lanes / 2 : vectors * core.lanes;
  const int last = vectors == MatMulCore::kHalf ? width : core.lanes;
  const int64_t columns = (live > 0 ? width - last + live : width) * panels;
  const int64_t item = sizeof(T), pad = k % 3;
  const Matrix<T> a(transposed ? k : rows, transposed ? rows : k, (transposed ? rows : k) + pad, random);
  const Matrix<T> b(k, columns, columns + pad, random), c(rows, columns, columns + pad, random);
  const std::vector<T> before = c.copy();
  MatMulArgs args{};
  args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
  args.a_row = transposed ? item : a.stride(), args.a_k = transposed ? a.stride() : item;
  args.b_k = b.stride(), args.c_row = c.stride(), args.k = k, args.live = live;
  args.panels = panels, args.b_panel = width * item, args.add = add, args.b_ahead = 4 * b.stride();
  MatMulCore::part(code.entry(), MatMulCore::tile(rows, vectors, live > 0))(&args);
  std::vector<T> want = before;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      T sum = 0;
      for (int64_t l = 0; l < k; ++l) sum = multiply_add(transposed ? a.at(l, i) : a.at(i, l), b.at(l, j), sum);
      T& to = want[static_cast<std::size_t>(i * (columns + pad) + j)];
      to = add ? to + sum : sum;
    }
  ASSERT_EQ(c.copy(), want) << rows << " rows, " << vectors << " vectors, " << live << " live, k " << k;
}

template <class T>
void check_tiles(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(1);
  for (int vectors : {MatMulCore::kHalf, 1, 2, 4, 8})
    for (int rows = 1; rows <= core.most_rows(vectors); ++rows)
      for (int live = 0; live <= (vectors == MatMulCore::kHalf ? core.lanes / 2 : core.lanes); ++live) {
        if (!core.has_tile(rows, vectors, live > 0)) continue;
        for (int64_t k : {0, 1, 2, 7, 40})
          for (bool add : {false, true}) {
            check_tile<T>(code, core, rows, vectors, live, k, live > 0 ? 1 : 1 + static_cast<int>(k % 3),
                          rows % 2 == k % 2, add, random);
            if (::testing::Test::HasFatalFailure()) return;
          }
      }
}

TEST_P(MatMul, TilesOfFloat32) { check_tiles<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, TilesOfFloat64) { check_tiles<double>(make<double>(GetParam()), core<double>()); }
TEST_P(MatMul, TilesOfIntegers32) { check_tiles<uint32_t>(make<uint32_t>(GetParam()), core<uint32_t>()); }
TEST_P(MatMul, TilesOfIntegers64) { check_tiles<uint64_t>(make<uint64_t>(GetParam()), core<uint64_t>()); }

/// Sums that are -0, NaN, either infinity or of either sign, by column; one flag at most: that of the product that
/// underflows to -0.
template <class T>
void check_epilogue(const Executable& code, const MatMulCore& core, int rows, int vectors, int live, int panels,
                    bool add, bool biased, Relu relu, std::mt19937& random) {
  const int width = vectors == MatMulCore::kHalf ? core.lanes / 2 : vectors * core.lanes;
  const int last = vectors == MatMulCore::kHalf ? width : core.lanes;
  const int64_t columns = (live > 0 ? width - last + live : width) * panels, item = sizeof(T);
  const T tiny = sizeof(T) == 4 ? T(1e-30) : T(1e-200);
  const Matrix<T> a(rows, 2, 2, random), b(2, columns, columns, random), c(rows, columns, columns + 1, random),
      bias(1, columns, 0, random);
  for (int64_t i = 0; i < rows; ++i) a.at(i, 0) = tiny, a.at(i, 1) = -1;
  for (int64_t j = 0; j < columns; ++j) {
    const T values[] = {0, T(NAN), T(HUGE_VAL), T(-HUGE_VAL), b.at(1, j)};
    b.at(0, j) = j % 5 == 0 ? -tiny : 0, b.at(1, j) = values[j % 5];
    if (j % 5 != 0) continue;
    bias.at(0, j) = T(-0.0);
    for (int64_t i = 0; i < rows; ++i) c.at(i, j) = T(-0.0);
  }
  std::vector<T> want = c.copy();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      T& to = want[static_cast<std::size_t>(i * (columns + 1) + j)];
      const T sum = std::fma(a.at(i, 1), b.at(1, j), std::fma(a.at(i, 0), b.at(0, j), T(0)));
      to = add ? to + sum : sum;
      if (biased) to += bias.at(0, j);
      if (relu == Relu::ZeroFirst && to < 0) to = 0;
      if (relu == Relu::ZeroSecond && to <= 0) to = 0;
    }
  MatMulArgs args{};
  args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes(), args.bias = biased ? bias.bytes() : nullptr;
  args.a_row = 2 * item, args.a_k = item, args.b_k = b.stride(), args.c_row = c.stride(), args.k = 2, args.live = live;
  args.panels = panels, args.b_panel = width * item, args.add = add, args.relu = static_cast<int64_t>(relu);
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before & ~63u);
  MatMulCore::part(code.entry(), MatMulCore::tile(rows, vectors, live > 0))(&args);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  ASSERT_EQ(after & kSeen & ~kUnderflow, 0u) << rows << " rows, " << vectors << " vectors, " << live << " live";
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool same =
        std::isnan(want[i]) ? std::isnan(c.data()[i]) : std::memcmp(&want[i], c.data() + i, sizeof(T)) == 0;
    ASSERT_TRUE(same) << rows << " rows, " << vectors << " vectors, " << live << " live, element " << i << ": "
                      << c.data()[i] << " for " << want[i];
  }
}

template <class T>
void check_epilogues(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(10);
  for (int vectors : {MatMulCore::kHalf, 1, 2, 4, 8})
    for (int rows = 1; rows <= core.most_rows(vectors); ++rows)
      for (int live = 0; live <= (vectors == MatMulCore::kHalf ? core.lanes / 2 : core.lanes); ++live) {
        if (!core.has_tile(rows, vectors, live > 0)) continue;
        for (bool biased : {false, true})
          for (Relu relu : {Relu::None, Relu::ZeroFirst, Relu::ZeroSecond})
            for (bool add : {false, true}) {
              check_epilogue<T>(code, core, rows, vectors, live, live > 0 ? 1 : 1 + rows % 3, add, biased, relu,
                                random);
              if (::testing::Test::HasFatalFailure()) return;
            }
      }
}

TEST_P(MatMul, EpiloguesOfFloat32) { check_epilogues<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, EpiloguesOfFloat64) { check_epilogues<double>(make<double>(GetParam()), core<double>()); }

template <class T>
void check_packing(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(2);
  const int64_t item = sizeof(T);
  for (int vectors : {1, 2})
    for (int live = 0; live <= core.lanes; ++live)
      for (int64_t k : {0, 1, 5}) {
        const int64_t width = vectors * core.lanes, columns = live > 0 ? width - core.lanes + live : width;
        const Matrix<T> from(k, columns, columns + 3, random), to(k, width, width, random);
        MatMulArgs args{};
        args.a = from.bytes(), args.a_k = from.stride(), args.c = to.bytes(), args.c_row = to.stride();
        args.k = k, args.live = live;
        MatMulCore::part(code.entry(), MatMulCore::copy(vectors, live > 0))(&args);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < width; ++j)  // idle lanes: the first live lane of their vector
            ASSERT_EQ(to.at(i, j), from.at(i, j < columns ? j : width - core.lanes)) << vectors << " " << live;
      }
  for (int live = 1; live <= core.lanes; ++live)
    for (int64_t k = 0; k <= 2 * core.lanes + 1; ++k) {
      const Matrix<T> from(live, k, k + 2, random), to(k, core.lanes, core.lanes, random);
      MatMulArgs args{};
      args.a = from.bytes(), args.a_row = from.stride(), args.c = to.bytes(), args.c_row = core.lanes * item;
      args.k = k, args.live = live;
      MatMulCore::part(code.entry(), MatMulCore::kTranspose)(&args);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < core.lanes; ++j)
          ASSERT_EQ(to.at(i, j), from.at(std::min<int64_t>(j, live - 1), i)) << live;
    }
}

TEST_P(MatMul, PackingOfFloat32) { check_packing<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, PackingOfFloat64) { check_packing<double>(make<double>(GetParam()), core<double>()); }

template <class T>
void check_dots(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(3);
  for (int rows = 1; rows <= MatMulCore::kMostDots; ++rows)
    for (int columns = 1; columns <= core.most_dot_columns(rows); ++columns)
      for (int64_t k = 0; k <= 3 * core.lanes + 1; ++k) {
        const Matrix<T> a(rows, k, k + 1, random), b(columns, k, k + 2, random), c(rows, columns, columns + 1, random);
        const std::vector<T> before = c.copy();
        MatMulArgs args{};
        args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
        args.a_row = a.stride(), args.b_k = b.stride(), args.c_row = c.stride(), args.b_panel = sizeof(T), args.k = k;
        MatMulCore::part(code.entry(), MatMulCore::dots(rows, columns))(&args);
        for (std::size_t i = 0; i < c.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / (columns + 1), column = static_cast<int64_t>(i) % (columns + 1);
          if (column == columns) {
            ASSERT_EQ(c.data()[i], before[i]) << "wrote between rows";
            continue;
          }
          // One chain for each lane, then halves are added.
          std::vector<T> lanes(static_cast<std::size_t>(core.lanes), 0);
          for (int64_t l = 0; l < k; ++l) {
            T& lane = lanes[static_cast<std::size_t>(l % core.lanes)];
            lane = multiply_add(a.at(row, l), b.at(column, l), lane);
          }
          for (std::size_t half = lanes.size() / 2; half > 0; half /= 2)
            for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
          ASSERT_EQ(c.data()[i], lanes[0]) << rows << "x" << columns << " k " << k;
        }
      }
}

TEST_P(MatMul, DotsOfFloat32) { check_dots<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, DotsOfFloat64) { check_dots<double>(make<double>(GetParam()), core<double>()); }
TEST_P(MatMul, DotsOfIntegers32) { check_dots<uint32_t>(make<uint32_t>(GetParam()), core<uint32_t>()); }
TEST_P(MatMul, DotsOfIntegers64) { check_dots<uint64_t>(make<uint64_t>(GetParam()), core<uint64_t>()); }

template <class T>
void check_rows(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(6);
  for (int64_t k = 1; k <= MatMulCore::kRowDepth; ++k)
    for (int64_t columns = 1; columns <= 6 * core.lanes + 1; ++columns)
      for (bool add : {false, true}) {
        const Matrix<T> a(k, 1, 1 + columns % 2, random), b(k, columns, columns + 1, random),
            c(1, columns, columns, random);
        std::vector<T> want = c.copy();
        MatMulArgs args{};
        args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
        args.a_k = a.stride(), args.b_k = b.stride(), args.live = columns, args.add = add;
        MatMulCore::part(code.entry(), MatMulCore::vector_matrix(static_cast<int>(k)))(&args);
        for (int64_t j = 0; j < columns; ++j) {
          T& sum = want[static_cast<std::size_t>(j)];
          if (!add) sum = 0;
          for (int64_t l = 0; l < k; ++l) sum = multiply_add(a.at(l, 0), b.at(l, j), sum);
        }
        ASSERT_EQ(c.copy(), want) << columns << " columns, k " << k;
      }
}

TEST_P(MatMul, RowsOfFloat32) { check_rows<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, RowsOfFloat64) { check_rows<double>(make<double>(GetParam()), core<double>()); }
TEST_P(MatMul, RowsOfIntegers32) { check_rows<uint32_t>(make<uint32_t>(GetParam()), core<uint32_t>()); }
TEST_P(MatMul, RowsOfIntegers64) { check_rows<uint64_t>(make<uint64_t>(GetParam()), core<uint64_t>()); }

/// Distances from the first k to each: of single elements, in no order.
std::vector<int64_t> random_reach(int64_t k, int64_t most, int64_t item, std::mt19937& random) {
  std::vector<int64_t> out(static_cast<std::size_t>(k));
  for (int64_t& distance : out) distance = static_cast<int64_t>(random() % static_cast<uint64_t>(most)) * item;
  return out;
}

/// Tiles below each other, rows of A a distance apart that is less or more than an element.
template <class T>
void check_reached(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(7);
  const int64_t item = sizeof(T);
  for (int vectors : {1, 2})
    for (int rows = 1; rows <= ConvolutionCore::most_indirect_rows(core, vectors); ++rows)
      for (int64_t k : {0, 1, 7, 40})
        for (int64_t panels : {1, 3})
          for (bool add : {false, true}) {
            const int64_t all = rows * panels, columns = vectors * core.lanes, apart = k % 3 + 1, farthest = 50;
            const std::vector<int64_t> reach = random_reach(k, farthest, item, random);
            const Matrix<T> a(1, (all - 1) * apart + farthest, 0, random), b(k, columns, columns + k % 2, random),
                c(all, columns, columns + 3, random);
            std::vector<T> want = c.copy();
            MatMulArgs args{};
            args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
            args.a_row = apart * item, args.b_k = b.stride(), args.c_row = c.stride();
            args.k = k, args.panels = panels, args.add = add, args.reach = reach.data();
            MatMulCore::part(code.entry(), ConvolutionCore::indirect_tile(rows, vectors))(&args);
            for (int64_t i = 0; i < all; ++i)
              for (int64_t j = 0; j < columns; ++j) {
                T sum = 0;
                for (int64_t l = 0; l < k; ++l)
                  sum = std::fma(a.at(0, i * apart + reach[static_cast<std::size_t>(l)] / item), b.at(l, j), sum);
                T& to = want[static_cast<std::size_t>(i * (columns + 3) + j)];
                to = add ? to + sum : sum;
              }
            ASSERT_EQ(c.copy(), want) << rows << " rows, " << vectors << " vectors, k " << k;
          }
}

TEST_P(MatMul, ReachedOfFloat32) { check_reached<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, ReachedOfFloat64) { check_reached<double>(make<double>(GetParam()), core<double>()); }

/// Whole vectors of B are read, live elements of C are written.
template <class T>
void check_lines(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(8);
  const int64_t item = sizeof(T);
  for (int rows = 1; rows <= ConvolutionCore::kLineRows; ++rows)
    for (int vectors = 1; vectors <= ConvolutionCore::most_line_vectors(core, rows); ++vectors)
      for (int live = 1; live <= core.lanes; ++live)
        for (int64_t k : {0, 1, 9})
          for (int64_t lines : {1, 3}) {
            const int64_t width = vectors * core.lanes, columns = width - core.lanes + live, apart = 5, farthest = 50;
            const std::vector<int64_t> reach = random_reach(k, farthest, item, random);
            const Matrix<T> a(rows, k, k + 1, random), b(1, (lines - 1) * apart + farthest - 1 + width, 0, random);
            const Matrix<T> c(rows * lines, columns, columns + 1, random);  // lines of a row one after the other
            std::vector<T> want = c.copy();
            MatMulArgs args{};
            args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
            args.a_row = a.stride(), args.c_row = lines * c.stride(), args.c_panel = c.stride(),
            args.b_panel = apart * item;
            args.k = k, args.panels = lines, args.live = live, args.reach = reach.data();
            MatMulCore::part(code.entry(), ConvolutionCore::line_convolution(rows, vectors))(&args);
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t line = 0; line < lines; ++line)
                for (int64_t j = 0; j < columns; ++j) {
                  T sum = 0;
                  for (int64_t l = 0; l < k; ++l)
                    sum = std::fma(a.at(i, l), b.at(0, line * apart + reach[static_cast<std::size_t>(l)] / item + j),
                                   sum);
                  want[static_cast<std::size_t>((i * lines + line) * (columns + 1) + j)] = sum;
                }
            ASSERT_EQ(c.copy(), want) << rows << " rows, " << vectors << " vectors, " << live << " live, k " << k;
          }
}

TEST_P(MatMul, LinesOfFloat32) { check_lines<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, LinesOfFloat64) { check_lines<double>(make<double>(GetParam()), core<double>()); }

/// Bits of check_lines: each element is one chain along the window.
template <class T>
void check_stencils(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(10);
  const int64_t item = sizeof(T);
  for (int window : ConvolutionCore::kDepthwiseWindows)
    for (int lines : ConvolutionCore::kDepthwiseLines)
      for (int vectors = 1; vectors <= ConvolutionCore::most_depthwise_vectors(core, lines); ++vectors)
        for (int live = 1; live <= core.lanes; ++live)
          for (int64_t window_columns : {1, 3, 4})
            for (int64_t panels : {1, 3}) {
              const int64_t width = vectors * core.lanes, columns = width - core.lanes + live, apart = 2,
                            all = panels * lines;
              const int64_t seen = width + (window_columns - 1) * apart;
              const Matrix<T> a(window, window_columns, window_columns + 1, random),
                  b(all + window - 1, seen, seen + 3, random);
              const Matrix<T> c(all, columns, columns + 1, random);
              std::vector<T> want = c.copy();
              MatMulArgs args{};
              args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
              args.a_k = a.stride(), args.k = window_columns, args.a_row = apart * item, args.b_k = b.stride(),
              args.c_panel = c.stride();
              args.panels = panels, args.live = live;
              MatMulCore::part(code.entry(), ConvolutionCore::depthwise(window, lines, vectors))(&args);
              for (int64_t i = 0; i < all; ++i)
                for (int64_t j = 0; j < columns; ++j) {
                  T sum = 0;
                  for (int64_t y = 0; y < window; ++y)
                    for (int64_t x = 0; x < window_columns; ++x)
                      sum = std::fma(a.at(y, x), b.at(i + y, j + x * apart), sum);
                  want[static_cast<std::size_t>(i * (columns + 1) + j)] = sum;
                }
              ASSERT_EQ(c.copy(), want) << window << " lines of a window, " << lines << " at once, " << vectors
                                        << " vectors, " << live << " live";
            }
}

TEST_P(MatMul, StencilsOfFloat32) { check_stencils<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, StencilsOfFloat64) { check_stencils<double>(make<double>(GetParam()), core<double>()); }

/// Nothing behind the last element of a line is read.
template <class T>
void check_slides(const Executable& code, const MatMulCore& core) {
  std::mt19937 random(9);
  const int64_t item = sizeof(T), lanes = core.lanes;
  for (int columns = 1; columns <= ConvolutionCore::kGradientColumns; ++columns)
    for (int rows = 1; rows <= ConvolutionCore::most_gradient_rows(columns); ++rows)
      for (int64_t k : {int64_t{1}, lanes - 1, lanes, 3 * lanes, 3 * lanes + 1})
        for (int64_t lines : {1, 3})
          for (bool add : {false, true}) {
            const int64_t farthest = 20, apart = 5, line_apart = 7;
            std::vector<int64_t> moved = random_reach(columns, farthest, item, random);
            moved.back() = (farthest - 1) * item;
            const Matrix<T> a(1, (lines - 1) * line_apart + (rows - 1) * apart + farthest - 1 + k, 0, random),
                b(lines, k, k, random);
            const Matrix<T> c(rows, columns * 2 - 1, columns * 2, random);  // every other column
            std::vector<T> want = c.copy();
            MatMulArgs args{};
            args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
            args.a_row = apart * item, args.a_k = line_apart * item, args.b_panel = b.stride(), args.c_row = c.stride(),
            args.c_panel = 2 * item;
            args.k = k, args.panels = lines, args.add = add, args.reach = moved.data();
            MatMulCore::part(code.entry(), ConvolutionCore::weight_gradient(rows, columns))(&args);
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j) {
                std::vector<T> sums(static_cast<std::size_t>(lanes), 0);
                for (int64_t line = 0; line < lines; ++line)
                  for (int64_t l = 0; l < k; ++l) {
                    T& sum = sums[static_cast<std::size_t>(l % lanes)];
                    sum = std::fma(
                        b.at(line, l),
                        a.at(0, line * line_apart + i * apart + moved[static_cast<std::size_t>(j)] / item + l), sum);
                  }
                for (std::size_t left = sums.size() / 2; left > 0; left /= 2)
                  for (std::size_t l = 0; l < left; ++l) sums[l] += sums[l + left];
                T& to = want[static_cast<std::size_t>(i * columns * 2 + 2 * j)];
                to = add ? to + sums[0] : sums[0];
              }
            ASSERT_EQ(c.copy(), want) << rows << " rows, " << columns << " columns, k " << k;
          }
}

TEST_P(MatMul, SlidesOfFloat32) { check_slides<float>(make<float>(GetParam()), core<float>()); }
TEST_P(MatMul, SlidesOfFloat64) { check_slides<double>(make<double>(GetParam()), core<double>()); }

TEST_P(MatMul, IdleColumnsRaiseNothing) {
  // An infinity times a live column of ones is no invalid operation, whatever the idle columns hold.
  const Executable code = make<double>(GetParam());
  const MatMulCore c = core<double>();
  for (int vectors : {MatMulCore::kHalf, 1, 2})
    for (int live = 1; live < (vectors == MatMulCore::kHalf ? c.lanes / 2 : c.lanes); ++live) {
      if (!c.has_tile(5, vectors, true)) continue;
      const int width = vectors == MatMulCore::kHalf ? live : (vectors - 1) * c.lanes + live;
      std::vector<double> x(5 * 30, HUGE_VAL), y(static_cast<std::size_t>(30 * width), 1.0),
          z(static_cast<std::size_t>(5 * width), 0.0);
      MatMulArgs args{};
      args.a = reinterpret_cast<char*>(x.data()), args.b = reinterpret_cast<char*>(y.data());
      args.c = reinterpret_cast<char*>(z.data());
      args.a_row = 30 * 8, args.a_k = 8, args.b_k = width * 8, args.c_row = width * 8;
      args.k = 30, args.live = live, args.panels = 1, args.add = 1;
      const unsigned before = __builtin_ia32_stmxcsr();
      __builtin_ia32_ldmxcsr(before & ~63u);
      MatMulCore::part(code.entry(), MatMulCore::tile(5, vectors, true))(&args);
      const unsigned after = __builtin_ia32_stmxcsr();
      __builtin_ia32_ldmxcsr(before);
      EXPECT_EQ(after & kSeen, 0u) << live;
      for (double value : z) EXPECT_EQ(value, HUGE_VAL);
    }
}

uint16_t bfloat16_of(int value) {
  const float wide = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &wide, 4);
  return static_cast<uint16_t>(bits >> 16);  // exact for the small integers here
}

/// Sums of integers, exact in either arithmetic.
template <class A, class B, class C, class ToA, class ToB>
void check_narrow(NarrowProduct kind, ToA to_a, ToB to_b, int least, std::mt19937& random) {
  auto emitted = emit_narrow_matmul(kind, detected_cpu());
  ASSERT_TRUE(emitted.has_value());
  const Executable code(emitted->bytes);
  const MatMulCore core(DType::F32, true);
  constexpr int kGroup = 4 / sizeof(A);
  for (int vectors : {MatMulCore::kHalf, 1, 2, 4, 8})
    for (int rows = 1; rows <= core.most_rows(vectors); ++rows)
      for (int live : {0, 1, 5, 8})
        for (int64_t k : {0, 1, 9}) {
          if (!core.has_tile(rows, vectors, live > 0)) continue;
          const int width = vectors == MatMulCore::kHalf ? core.lanes / 2 : vectors * core.lanes;
          const int last = vectors == MatMulCore::kHalf ? width : core.lanes;
          const int columns = live > 0 ? width - last + live : width;
          const Matrix<A> a(rows, k * kGroup, k * kGroup, random);
          const Matrix<B> b(k, columns * kGroup, columns * kGroup, random);
          const Matrix<C> c(rows, columns, columns + 1, random);
          const auto number = [&](int from) { return static_cast<int>(random() % 30) + from; };
          std::vector<int> x(a.size()), y(b.size());
          for (std::size_t i = 0; i < x.size(); ++i) a.data()[i] = to_a(x[i] = number(least));
          for (std::size_t i = 0; i < y.size(); ++i) b.data()[i] = to_b(y[i] = number(-15));
          for (std::size_t i = 0; i < c.size(); ++i) c.data()[i] = static_cast<C>(number(0));
          std::vector<C> want = c.copy();
          for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j)
              for (int64_t l = 0; l < k * kGroup; ++l)
                want[static_cast<std::size_t>(i * (columns + 1) + j)] +=
                    static_cast<C>(x[static_cast<std::size_t>(i * k * kGroup + l)] *
                                   y[static_cast<std::size_t>((l / kGroup * columns + j) * kGroup + l % kGroup)]);
          MatMulArgs args{};
          args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
          args.a_row = k * 4, args.a_k = 4, args.b_k = columns * 4, args.c_row = c.stride();
          args.k = k, args.live = live, args.panels = 1, args.add = 1;
          const Matrix<float> bias(1, columns, 0, random);
          if (kind == NarrowProduct::BFloat16) {
            args.bias = bias.bytes(), args.relu = static_cast<int64_t>(Relu::ZeroSecond);
            for (std::size_t i = 0; i < want.size(); ++i)
              if (const auto j = static_cast<int64_t>(i) % (columns + 1); j < columns)
                want[i] = std::max(want[i] + static_cast<C>(bias.at(0, j) = static_cast<float>(j % 7)), C(0));
          }
          MatMulCore::part(code.entry(), MatMulCore::tile(rows, vectors, live > 0))(&args);
          ASSERT_EQ(c.copy(), want) << rows << " rows, " << vectors << " vectors, " << live << " live, k " << k;
        }
}

/// Elements where they lie. `low`: the bits of a sum of dots that are right.
template <class A, class B, class C, class ToA, class ToB>
void check_in_place(NarrowProduct kind, ToA to_a, ToB to_b, int least, uint32_t low, std::mt19937& random) {
  auto emitted = emit_narrow_matmul(kind, detected_cpu());
  ASSERT_TRUE(emitted.has_value());
  const Executable code(emitted->bytes);
  const MatMulCore core(DType::F32, true);
  constexpr int64_t kGroup = 4 / sizeof(A);
  const auto number = [&](int from) { return static_cast<int>(random() % 30) + from; };
  const auto check = [&](bool dots, int rows, int64_t columns, int64_t k, bool add) {
    const int64_t whole = dots ? k : (k + kGroup - 1) / kGroup * kGroup, pad = k % 3;
    const Matrix<A> a(rows, whole, whole + pad, random);
    const Matrix<B> b(dots ? columns : k, dots ? k : columns, (dots ? k : columns) + pad, random);
    const Matrix<C> c(rows, columns, columns + 1, random);
    std::vector<C> want(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) want[i] = c.data()[i] = static_cast<C>(number(0));
    std::vector<int> x(static_cast<std::size_t>(rows * whole)), y(static_cast<std::size_t>(columns * k));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t l = 0; l < whole; ++l)
        a.at(i, l) = l < k ? to_a(x[static_cast<std::size_t>(i * whole + l)] = number(least)) : A{};
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < columns; ++j)
        (dots ? b.at(j, l) : b.at(l, j)) = to_b(y[static_cast<std::size_t>(l * columns + j)] = number(-15));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        C& sum = want[static_cast<std::size_t>(i * (columns + 1) + j)];
        if (!add) sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum +=
              static_cast<C>(x[static_cast<std::size_t>(i * whole + l)] * y[static_cast<std::size_t>(l * columns + j)]);
      }
    MatMulArgs args{};
    args.a = a.bytes(), args.b = b.bytes(), args.c = c.bytes();
    args.a_row = a.stride(), args.b_k = b.stride(), args.c_row = c.stride(), args.b_panel = sizeof(C);
    args.k = k, args.live = columns, args.add = add;
    MatMulCore::part(code.entry(),
                     dots ? MatMulCore::dots(rows, static_cast<int>(columns)) : MatMulCore::vector_matrix(rows))(&args);
    for (std::size_t i = 0; i < want.size(); ++i) {
      uint32_t found, expected;
      std::memcpy(&found, c.data() + i, 4);
      std::memcpy(&expected, &want[i], 4);
      const uint32_t bits = dots && static_cast<int64_t>(i) % (columns + 1) < columns ? low : ~0u;
      ASSERT_EQ(found & bits, expected & bits)
          << (dots ? "dots " : "rows ") << rows << " rows, " << columns << " columns, k " << k << " at " << i;
    }
  };
  for (int64_t k : {0, 1, 2, 3, 31, 32, 33, 62, 63, 64, 65, 130})
    for (int rows = 1; rows <= MatMulCore::kMostDots; ++rows)
      for (int columns = 1; columns <= core.most_dot_columns(rows); ++columns) check(true, rows, columns, k, false);
  for (int64_t k : {0, 1, 2, 3, 4, 5, 6, 7, 8, 33})
    for (int rows = 1; rows <= MatMulCore::kNarrowRows; ++rows)
      for (int64_t columns : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 150})
        for (bool add : {false, true}) check(false, rows, columns, k, add);
}

TEST(NarrowMatMul, BFloat16) {
  if (!detected_cpu().avx512_bf16) GTEST_SKIP() << "no AVX512-BF16";
  std::mt19937 random(4);
  check_narrow<uint16_t, uint16_t, float>(NarrowProduct::BFloat16, bfloat16_of, bfloat16_of, -15, random);
  check_in_place<uint16_t, uint16_t, float>(NarrowProduct::BFloat16, bfloat16_of, bfloat16_of, -15, ~0u, random);
}

TEST(NarrowMatMul, Int8) {
  if (!detected_cpu().vnni) GTEST_SKIP() << "no AVX512-VNNI";
  std::mt19937 random(5);
  const auto to_a = [](int x) { return static_cast<uint8_t>(x); };
  const auto to_b = [](int x) { return static_cast<int8_t>(x); };
  check_narrow<uint8_t, int8_t, int32_t>(NarrowProduct::Int8, to_a, to_b, 200, random);
  check_in_place<uint8_t, int8_t, int32_t>(NarrowProduct::Int8, to_a, to_b, 200, 0xff, random);
}

TEST(NarrowMatMul, Int16) {
  if (!detected_cpu().vnni) GTEST_SKIP() << "no AVX512-VNNI";
  std::mt19937 random(5);
  const auto to_16 = [](int x) { return static_cast<int16_t>(x); };
  check_narrow<int16_t, int16_t, int32_t>(NarrowProduct::Int16, to_16, to_16, -32768, random);
  check_in_place<int16_t, int16_t, int32_t>(NarrowProduct::Int16, to_16, to_16, -32768, ~0u, random);
}

TEST(NarrowMatMul, OtherProcessorsAreDenied) {
  EXPECT_FALSE(emit_narrow_matmul(NarrowProduct::BFloat16, select_cpu("avx2")).has_value());
  EXPECT_FALSE(emit_narrow_matmul(NarrowProduct::Int8, select_cpu("avx2")).has_value());
  EXPECT_FALSE(emit_narrow_matmul(NarrowProduct::Int16, select_cpu("avx2")).has_value());
}

TEST_P(MatMul, OtherDtypesAreDenied) {
  for (DType dtype : {DType::Bool, DType::I8, DType::U16, DType::F16, DType::C64})
    EXPECT_FALSE(emit_matmul(dtype, GetParam()).has_value());
}

INSTANTIATE_TEST_SUITE_P(Isas, MatMul, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
