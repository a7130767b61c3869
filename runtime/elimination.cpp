// The matrix is eliminated in blocks of columns. The right sides then pass in panels of columns, whose rows stay in the
// first-level cache. Of both, a piece of a row is held in registers while all rows that it depends on are subtracted.
//
// Real and imaginary parts lie in planes of their own, so that both kinds of numbers are the same loops.
#include "runtime/elimination.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace framejit::runtime {

namespace {

constexpr int64_t kLanes = 8, kVectors = 4, kPanel = kLanes * kVectors;  // columns of a block are as many as lanes

/// The length of a row of the matrix, with room for a panel that begins at the last block of its columns.
int64_t padded(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes + kPanel - kLanes; }

#define FRAMEJIT_IN_AVX512 __attribute__((target("avx512f"), always_inline)) inline
#define FRAMEJIT_IN_AVX2 __attribute__((target("avx2,fma"), always_inline)) inline

/// Eight numbers.
struct Avx512 {
  using Vec = __m512d;
  FRAMEJIT_IN_AVX512 static Vec load(const double* from) { return _mm512_loadu_pd(from); }
  FRAMEJIT_IN_AVX512 static void store(double* to, const Vec& v) { _mm512_storeu_pd(to, v); }
  FRAMEJIT_IN_AVX512 static Vec all(double number) { return _mm512_set1_pd(number); }
  FRAMEJIT_IN_AVX512 static Vec minus(const Vec& v, const Vec& a, const Vec& b) { return _mm512_fnmadd_pd(a, b, v); }
  FRAMEJIT_IN_AVX512 static Vec plus(const Vec& v, const Vec& a, const Vec& b) { return _mm512_fmadd_pd(a, b, v); }
};

struct Avx2 {
  struct Vec {
    __m256d low, high;
  };
  FRAMEJIT_IN_AVX2 static Vec load(const double* from) { return {_mm256_loadu_pd(from), _mm256_loadu_pd(from + 4)}; }
  FRAMEJIT_IN_AVX2 static void store(double* to, const Vec& v) {
    _mm256_storeu_pd(to, v.low);
    _mm256_storeu_pd(to + 4, v.high);
  }
  FRAMEJIT_IN_AVX2 static Vec all(double number) { return {_mm256_set1_pd(number), _mm256_set1_pd(number)}; }
  FRAMEJIT_IN_AVX2 static Vec minus(const Vec& v, const Vec& a, const Vec& b) {
    return {_mm256_fnmadd_pd(a.low, b.low, v.low), _mm256_fnmadd_pd(a.high, b.high, v.high)};
  }
  FRAMEJIT_IN_AVX2 static Vec plus(const Vec& v, const Vec& a, const Vec& b) {
    return {_mm256_fmadd_pd(a.low, b.low, v.low), _mm256_fmadd_pd(a.high, b.high, v.high)};
  }
};

/// Rows of numbers: parts of row i at [part * plane + i * row].
struct Rows {
  double* data;
  int64_t row, plane;
  double* at(int64_t i, int part) const { return data + part * plane + i * row; }
  Rows from(int64_t column) const { return {data + column, row, plane}; }
};

// The loops, in the instructions of those who call them:
//   eliminate_block   rows below k -= factors * row k, in the block of columns from `first` on; the factors take the
//                     places of column k. `reciprocal`: of the pivot
//   subtract_rows     row i, in the columns of a panel, -= the sum of factors[k] * row k, for k from `first` to `end`
#define FRAMEJIT_LOOPS(Simd, target_of, suffix)                                                                   \
  template <bool kComplex>                                                                                        \
  __attribute__((target(target_of))) void eliminate_block_##suffix(const Rows& m, int64_t rows, int64_t k,        \
                                                                   int64_t first, const double(&reciprocal)[2]) { \
    double behind[2][kLanes] = {}; /* of row k: what stands before is not changed */                              \
    for (int part = 0; part <= kComplex; ++part)                                                                  \
      for (int64_t j = k + 1 - first; j < kLanes; ++j) behind[part][j] = m.at(k, part)[first + j];                \
    const Simd::Vec xr = Simd::load(behind[0]), xi = Simd::load(behind[1]);                                       \
    for (int64_t i = k + 1; i < rows; ++i) {                                                                      \
      const double a = m.at(i, 0)[k], b = kComplex ? m.at(i, 1)[k] : 0.0;                                         \
      const double real = kComplex ? a * reciprocal[0] - b * reciprocal[1] : a * reciprocal[0];                   \
      const double imaginary = kComplex ? a * reciprocal[1] + b * reciprocal[0] : 0.0;                            \
      const Simd::Vec r = Simd::all(real), s = Simd::all(imaginary);                                              \
      Simd::Vec to = Simd::minus(Simd::load(m.at(i, 0) + first), r, xr);                                          \
      if constexpr (kComplex) {                                                                                   \
        to = Simd::plus(to, s, xi);                                                                               \
        Simd::store(m.at(i, 1) + first, Simd::minus(Simd::minus(Simd::load(m.at(i, 1) + first), r, xi), s, xr));  \
        m.at(i, 1)[k] = imaginary;                                                                                \
      }                                                                                                           \
      Simd::store(m.at(i, 0) + first, to);                                                                        \
      m.at(i, 0)[k] = real;                                                                                       \
    }                                                                                                             \
  }                                                                                                               \
  template <bool kComplex>                                                                                        \
  __attribute__((target(target_of))) void subtract_rows_##suffix(const Rows& p, const Rows& factors, int64_t i,   \
                                                                 int64_t first, int64_t end) {                    \
    Simd::Vec real[kVectors], imaginary[kVectors];                                                                \
    for (int64_t v = 0; v < kVectors; ++v) {                                                                      \
      real[v] = Simd::load(p.at(i, 0) + v * kLanes);                                                              \
      if constexpr (kComplex) imaginary[v] = Simd::load(p.at(i, 1) + v * kLanes);                                 \
    }                                                                                                             \
    for (int64_t k = first; k < end; ++k) {                                                                       \
      const Simd::Vec r = Simd::all(factors.at(i, 0)[k]);                                                         \
      for (int64_t v = 0; v < kVectors; ++v) {                                                                    \
        const Simd::Vec xr = Simd::load(p.at(k, 0) + v * kLanes);                                                 \
        real[v] = Simd::minus(real[v], r, xr);                                                                    \
        if constexpr (kComplex) {                                                                                 \
          const Simd::Vec s = Simd::all(factors.at(i, 1)[k]), xi = Simd::load(p.at(k, 1) + v * kLanes);           \
          real[v] = Simd::plus(real[v], s, xi);                                                                   \
          imaginary[v] = Simd::minus(Simd::minus(imaginary[v], r, xi), s, xr);                                    \
        }                                                                                                         \
      }                                                                                                           \
    }                                                                                                             \
    for (int64_t v = 0; v < kVectors; ++v) {                                                                      \
      Simd::store(p.at(i, 0) + v * kLanes, real[v]);                                                              \
      if constexpr (kComplex) Simd::store(p.at(i, 1) + v * kLanes, imaginary[v]);                                 \
    }                                                                                                             \
  }

FRAMEJIT_LOOPS(Avx512, "avx512f", in_avx512)
FRAMEJIT_LOOPS(Avx2, "avx2,fma", in_avx2)

/// 1 / (real + i imaginary), by Smith's method.
std::pair<double, double> reciprocal(double real, double imaginary) {
  if (std::abs(real) >= std::abs(imaginary)) {
    const double ratio = imaginary / real, scale = real + imaginary * ratio;
    return {1.0 / scale, -ratio / scale};
  }
  const double ratio = real / imaginary, scale = real * ratio + imaginary;
  return {ratio / scale, -1.0 / scale};
}

template <bool kComplex>
class Elimination {
 public:
  Elimination(const DenseSystem& system, char* scratch, bool avx512) : s_(system), avx512_(avx512) {
    const int64_t n = s_.unknowns, row = padded(n);
    auto* at = reinterpret_cast<double*>(scratch);
    matrix_ = {at, row, n * row};
    panel_ = {at + kParts * n * row, kPanel, n * kPanel};
    pivots_ = panel_.data + kParts * n * kPanel;
    order_ = reinterpret_cast<int64_t*>(pivots_ + kParts * n);
  }

  bool run() {
    if (!factorize()) return false;
    double sum = 0;  // of zeros, as long as all is finite
    for (int64_t column = 0; column < s_.right_sides; column += kPanel) {
      const int64_t columns = std::min(kPanel, s_.right_sides - column);
      take(column, columns);
      for (int64_t i = 1; i < s_.unknowns; ++i) subtract_rows(panel_, i, 0, i);
      for (int64_t i = s_.unknowns; i-- > 0;) {
        subtract_rows(panel_, i, i + 1, s_.unknowns);
        divide(i);
      }
      sum += give(column, columns);
    }
    return sum == 0;
  }

 private:
  static constexpr int kParts = kComplex ? 2 : 1;
  static constexpr int64_t kItem = kParts * static_cast<int64_t>(sizeof(double));

  /// L and U take the matrix's place, their rows in the order of `order_`.
  bool factorize() {
    const int64_t n = s_.unknowns;
    for (int64_t i = 0; i < n; ++i) {
      order_[i] = i;
      for (int64_t j = 0; j < n; ++j)
        for (int part = 0; part < kParts; ++part)
          matrix_.at(i, part)[j] = reinterpret_cast<const double*>(s_.a + i * s_.a_row + j * s_.a_column)[part];
      for (int part = 0; part < kParts; ++part)
        std::fill(matrix_.at(i, part) + n, matrix_.at(i, part) + matrix_.row, 0.0);
    }
    for (int64_t first = 0; first < n; first += kLanes) {
      const int64_t end = std::min(n, first + kLanes);
      for (int64_t k = first; k < end; ++k)
        if (!eliminate_column(first, k)) return false;
      for (int64_t column = first + kLanes; column < n; column += kPanel)
        for (int64_t i = first + 1; i < n; ++i) subtract_rows(matrix_.from(column), i, first, std::min(i, end));
    }
    return true;
  }

  /// In the columns of its block, which begins with `first`.
  bool eliminate_column(int64_t first, int64_t k) {
    const int64_t n = s_.unknowns;
    int64_t pivot = k;
    double most = -1;
    for (int64_t i = k; i < n; ++i) {
      double size = std::abs(matrix_.at(i, 0)[k]);
      if (kComplex) size += std::abs(matrix_.at(i, 1)[k]);
      if (size > most) most = size, pivot = i;
    }
    // Reciprocals of smaller pivots could overflow; a NaN is no pivot.
    if (!(most >= std::numeric_limits<double>::min()) || !std::isfinite(most)) return false;
    if (pivot != k) {
      std::swap(order_[k], order_[pivot]);
      for (int part = 0; part < kParts; ++part)
        std::swap_ranges(matrix_.at(k, part), matrix_.at(k, part) + n, matrix_.at(pivot, part));
    }
    const auto [real, imaginary] = reciprocal(matrix_.at(k, 0)[k], kComplex ? matrix_.at(k, 1)[k] : 0.0);
    const double of_pivot[] = {real, imaginary};
    std::copy_n(of_pivot, kParts, pivots_ + kParts * k);
    avx512_ ? eliminate_block_in_avx512<kComplex>(matrix_, n, k, first, of_pivot)
            : eliminate_block_in_avx2<kComplex>(matrix_, n, k, first, of_pivot);
    return true;
  }

  void subtract_rows(const Rows& to, int64_t i, int64_t first, int64_t end) {
    avx512_ ? subtract_rows_in_avx512<kComplex>(to, matrix_, i, first, end)
            : subtract_rows_in_avx2<kComplex>(to, matrix_, i, first, end);
  }

  void take(int64_t column, int64_t columns) {
    for (int64_t i = 0; i < s_.unknowns; ++i) {
      const auto* from = reinterpret_cast<const double*>(s_.b + order_[i] * s_.b_row + column * kItem);
      for (int part = 0; part < kParts; ++part) {
        for (int64_t j = 0; j < columns; ++j) panel_.at(i, part)[j] = from[kParts * j + part];
        std::fill(panel_.at(i, part) + columns, panel_.at(i, part) + kPanel, 0.0);
      }
    }
  }

  void divide(int64_t i) {
    double* const real = panel_.at(i, 0);
    if constexpr (!kComplex) {
      for (int64_t j = 0; j < kPanel; ++j) real[j] *= pivots_[i];
    } else {
      double* const imaginary = panel_.at(i, 1);
      const double r = pivots_[2 * i], s = pivots_[2 * i + 1];
      for (int64_t j = 0; j < kPanel; ++j) {
        const double x = real[j], y = imaginary[j];
        real[j] = x * r - y * s;
        imaginary[j] = x * s + y * r;
      }
    }
  }

  /// The sum of zero times each number.
  double give(int64_t column, int64_t columns) {
    double sum = 0;
    for (int64_t i = 0; i < s_.unknowns; ++i) {
      auto* to = reinterpret_cast<double*>(s_.x + i * s_.x_row + column * kItem);
      for (int64_t j = 0; j < columns; ++j)
        for (int part = 0; part < kParts; ++part) {
          const double number = panel_.at(i, part)[j];
          to[kParts * j + part] = number;
          sum += number * 0.0;
        }
    }
    return sum;
  }

  const DenseSystem& s_;
  const bool avx512_;
  Rows matrix_{}, panel_{};
  double* pivots_;  // their reciprocals
  int64_t* order_;  // by row of L and U: that of the system
};

}  // namespace

int64_t elimination_bytes(const DenseSystem& system) {
  const int64_t n = system.unknowns, parts = system.is_complex ? 2 : 1;
  return static_cast<int64_t>(sizeof(double)) * (parts * n * (padded(n) + kPanel + 1) + n);
}

bool eliminate(const DenseSystem& system, char* scratch, bool avx512) {
  return system.is_complex ? Elimination<true>(system, scratch, avx512).run()
                           : Elimination<false>(system, scratch, avx512).run();
}

}  // namespace framejit::runtime
