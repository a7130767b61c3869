// Elimination is a chain of divisions, each of which waits for the one before. The parts of the system have chains of
// their own: each is one lane of vectors of four, and there are two vectors.
#include "runtime/tridiagonal.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "runtime/scheduler.h"

#define FRAMEJIT_IN_VECTORS __attribute__((target("avx2")))
#define FRAMEJIT_EACH _Pragma("GCC unroll 4") for

namespace framejit::runtime {

namespace {

constexpr int kLanes = 4, kVectors = 2, kParts = kLanes * kVectors;
constexpr double kNanosecondsOfRow = 4.0;
constexpr uintptr_t kLine = 64;  // bytes of a line of the cache

struct System {
  const double *lower, *diagonal, *upper, *right;  // of row i, lower is lower[i - 1]
  TridiagonalSolution to;
  int64_t rows;
};

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

/// May a part begin at this row? What is subtracted where parts meet is zero: it changes the sign of a negative zero
/// only. Most of the right sides that are none at first are none after the elimination.
bool may_begin(const System& s, int64_t row) {
  const auto is_negative_zero = [](double a) { return same_bits(a, -0.0); };
  return s.lower[row - 1] == 0.0 && s.upper[row - 1] == 0.0 && !is_negative_zero(s.right[row - 2]) &&
         !is_negative_zero(s.right[row - 1]) && !is_negative_zero(s.right[row]);
}

/// The first rows of the parts, and the end of the last one, by groups that are solved together; empty if rows that are
/// not coupled are not found near equal distances.
std::vector<int64_t> parts_of(const System& s) {
  // Groups fit the cache. Parts whose distance were a power of two would push each other out of it.
  constexpr int64_t kTogether = 3180 * kParts;
  const int64_t groups = std::max<int64_t>((s.rows + kTogether / 2) / kTogether, 1);
  std::vector<int64_t> begins;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t length = (g + 1 < groups ? kTogether : s.rows - g * kTogether) / kParts;
    for (int64_t p = 0; p < kParts; ++p) {
      int64_t row = g * kTogether + p * length;
      const int64_t end = row + length / 4;
      while (row > 0 && row < end && !may_begin(s, row)) ++row;
      if (row == end) return {};
      begins.push_back(row);
    }
  }
  begins.push_back(s.rows);
  return begins;
}

/// Eliminates the lower coefficient of a row by the row before, or the other way round if that one's diagonal is
/// smaller. False if it is singular.
bool eliminate(const System& s, int64_t row) {
  const TridiagonalSolution& to = s.to;
  const double d = to.diagonal[row - 1], u = to.upper[row - 1], b = to.x[row - 1];
  const double lower = s.lower[row - 1], diagonal = s.diagonal[row], right = s.right[row];
  const bool is_last = row + 1 == s.rows;
  const double upper = is_last ? 0.0 : s.upper[row];
  if (std::abs(d) >= std::abs(lower)) {
    if (d == 0.0) return false;
    const double factor = lower / d;
    to.second[row - 1] = 0.0;
    to.diagonal[row] = diagonal - factor * u;
    if (!is_last) to.upper[row] = upper;
    to.x[row] = right - factor * b;
  } else {
    const double factor = d / lower;
    to.second[row - 1] = upper;
    to.diagonal[row - 1] = lower;
    to.diagonal[row] = u - factor * diagonal;
    to.upper[row - 1] = diagonal;
    if (!is_last) to.upper[row] = -(factor * upper);
    to.x[row - 1] = right;
    to.x[row] = b - factor * right;
  }
  return true;
}

/// x of a row whose right side is `b`, by those of the next two rows before `end`.
double substitute(const System& s, int64_t row, double b, int64_t end) {
  if (row + 1 < end) b -= s.to.upper[row] * s.to.x[row + 1];
  if (row + 2 < end) b -= s.to.second[row] * s.to.x[row + 2];
  return b / s.to.diagonal[row];
}

using Four = __m256d;
using Rows = Four[kLanes];

/// Rows of four lanes from four lanes of rows, and back.
FRAMEJIT_IN_VECTORS inline void transpose(Rows& v) {
  const Four a = _mm256_unpacklo_pd(v[0], v[1]), b = _mm256_unpackhi_pd(v[0], v[1]);
  const Four c = _mm256_unpacklo_pd(v[2], v[3]), d = _mm256_unpackhi_pd(v[2], v[3]);
  v[0] = _mm256_permute2f128_pd(a, c, 0x20);
  v[1] = _mm256_permute2f128_pd(b, d, 0x20);
  v[2] = _mm256_permute2f128_pd(a, c, 0x31);
  v[3] = _mm256_permute2f128_pd(b, d, 0x31);
}

FRAMEJIT_IN_VECTORS inline void load(Rows& v, const double* from, const int64_t* lanes) {
  FRAMEJIT_EACH(int l = 0; l < kLanes; ++l) v[l] = _mm256_loadu_pd(from + lanes[l]);
  transpose(v);
}

FRAMEJIT_IN_VECTORS inline void store(Rows& v, double* to, const int64_t* lanes) {
  transpose(v);
  FRAMEJIT_EACH(int l = 0; l < kLanes; ++l) _mm256_storeu_pd(to + lanes[l], v[l]);
}

FRAMEJIT_IN_VECTORS inline Four load_row(const double* from, const int64_t* lanes) {
  return _mm256_set_pd(from[lanes[3]], from[lanes[2]], from[lanes[1]], from[lanes[0]]);
}

FRAMEJIT_IN_VECTORS inline void store_row(Four v, double* to, const int64_t* lanes) {
  alignas(Four) double row[kLanes];
  _mm256_store_pd(row, v);
  for (int l = 0; l < kLanes; ++l) to[lanes[l]] = row[l];
}

/// Does what eliminate() does for `blocks` times four rows of each part, from its second row on.
FRAMEJIT_IN_VECTORS bool eliminate_blocks(const System& s, const int64_t* lanes, int64_t blocks) {
  const TridiagonalSolution& to = s.to;
  const Four sign = _mm256_set1_pd(-0.0), zero = _mm256_setzero_pd();
  Four d[kVectors], u[kVectors], b[kVectors], singular[kVectors];
  FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
    d[v] = load_row(to.diagonal, lanes + v * kLanes);
    u[v] = load_row(to.upper, lanes + v * kLanes);
    b[v] = load_row(to.x, lanes + v * kLanes);
    singular[v] = zero;
  }
  for (int64_t row = 1; row < 1 + blocks * kLanes; row += kLanes) {
    Rows lower[kVectors], diagonal[kVectors], upper[kVectors], right[kVectors];
    FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
      load(lower[v], s.lower + row - 1, lanes + v * kLanes);
      load(diagonal[v], s.diagonal + row, lanes + v * kLanes);
      load(upper[v], s.upper + row, lanes + v * kLanes);
      load(right[v], s.right + row, lanes + v * kLanes);
    }
    // The next group is read as many rows further on: the processor does not see so many places coming by itself.
    // Addresses behind the end do no harm.
    const auto ahead = static_cast<uintptr_t>(lanes[kParts] + (row - 1) * kParts) * sizeof(double);
    for (const double* from : {s.lower, s.diagonal, s.upper, s.right, static_cast<const double*>(to.second)})
      FRAMEJIT_EACH(uintptr_t line = 0; line < sizeof(Rows) * kVectors; line += kLine)
    _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(from) + ahead + line), _MM_HINT_T1);
    FRAMEJIT_EACH(int r = 0; r < kLanes; ++r) {
      FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
        const Four other = lower[v][r], diagonal_of = diagonal[v][r], upper_of = upper[v][r], right_of = right[v][r];
        const Four exchange = _mm256_cmp_pd(_mm256_andnot_pd(sign, d[v]), _mm256_andnot_pd(sign, other), _CMP_NGE_UQ);
        const auto choose = [&](Four yes, Four no) __attribute__((target("avx2"), always_inline)) {
          return _mm256_blendv_pd(no, yes, exchange);
        };
        const Four pivot = choose(other, d[v]), factor = _mm256_div_pd(choose(d[v], other), pivot);
        singular[v] = _mm256_or_pd(singular[v], _mm256_cmp_pd(pivot, zero, _CMP_EQ_OQ));
        lower[v][r] = _mm256_and_pd(exchange, upper_of);
        diagonal[v][r] = pivot;
        upper[v][r] = choose(diagonal_of, u[v]);
        right[v][r] = choose(right_of, b[v]);
        d[v] = _mm256_sub_pd(choose(u[v], diagonal_of), _mm256_mul_pd(factor, upper[v][r]));
        u[v] = choose(_mm256_xor_pd(sign, _mm256_mul_pd(factor, upper_of)), upper_of);
        b[v] = _mm256_sub_pd(choose(b[v], right_of), _mm256_mul_pd(factor, right[v][r]));
      }
    }
    FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
      store(lower[v], to.second + row - 1, lanes + v * kLanes);
      store(diagonal[v], to.diagonal + row - 1, lanes + v * kLanes);
      store(upper[v], to.upper + row - 1, lanes + v * kLanes);
      store(right[v], to.x + row - 1, lanes + v * kLanes);
    }
  }
  FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
    store_row(d[v], to.diagonal + blocks * kLanes, lanes + v * kLanes);
    store_row(u[v], to.upper + blocks * kLanes, lanes + v * kLanes);
    store_row(b[v], to.x + blocks * kLanes, lanes + v * kLanes);
    if (_mm256_movemask_pd(singular[v]) != 0) return false;
  }
  return true;
}

/// Does what substitute() does for `blocks` times four rows of each part, from the last of them to the first.
FRAMEJIT_IN_VECTORS void substitute_blocks(const System& s, const int64_t* lanes, int64_t blocks) {
  const TridiagonalSolution& to = s.to;
  Four next[kVectors], after[kVectors];
  FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
    next[v] = load_row(to.x + blocks * kLanes, lanes + v * kLanes);
    after[v] = load_row(to.x + blocks * kLanes + 1, lanes + v * kLanes);
  }
  for (int64_t row = blocks * kLanes; (row -= kLanes) >= 0;) {
    Rows second[kVectors], d[kVectors], upper[kVectors], b[kVectors];
    FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
      load(second[v], to.second + row, lanes + v * kLanes);
      load(d[v], to.diagonal + row, lanes + v * kLanes);
      load(upper[v], to.upper + row, lanes + v * kLanes);
      load(b[v], to.x + row, lanes + v * kLanes);
    }
    FRAMEJIT_EACH(int r = kLanes - 1; r >= 0; --r) {
      FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) {
        const Four rest = _mm256_sub_pd(_mm256_sub_pd(b[v][r], _mm256_mul_pd(upper[v][r], next[v])),
                                        _mm256_mul_pd(second[v][r], after[v]));
        after[v] = next[v];
        next[v] = b[v][r] = _mm256_div_pd(rest, d[v][r]);
      }
    }
    FRAMEJIT_EACH(int v = 0; v < kVectors; ++v) store(b[v], to.x + row, lanes + v * kLanes);
  }
}

/// The first row of a part before the elimination, and the right sides of its last two rows after it.
struct Ends {
  double diagonal, right;
  std::array<double, 2> last;
};

/// Solves kParts parts that follow each other, apart from what is before and after them.
bool solve_parts(const System& s, const int64_t* begins, Ends* ends) {
  int64_t shortest = s.rows;
  for (int p = 0; p < kParts; ++p) {
    const int64_t row = begins[p];
    shortest = std::min(shortest, begins[p + 1] - row);
    s.to.diagonal[row] = ends[p].diagonal = s.diagonal[row];
    s.to.upper[row] = s.upper[row];
    s.to.x[row] = ends[p].right = s.right[row];
  }
  // Two rows at least stay behind the blocks, where the substitution begins.
  const int64_t blocks = (shortest - 2) / kLanes, behind = blocks * kLanes;
  if (!eliminate_blocks(s, begins, blocks)) return false;
  for (int p = 0; p < kParts; ++p) {
    const int64_t begin = begins[p], end = begins[p + 1];
    for (int64_t row = begin + behind + 1; row < end; ++row)
      if (!eliminate(s, row)) return false;
    if (end < s.rows) s.to.second[end - 1] = 0.0;
    ends[p].last = {s.to.x[end - 2], s.to.x[end - 1]};
    for (int64_t row = end; row-- > begin + behind;) s.to.x[row] = substitute(s, row, s.to.x[row], end);
  }
  substitute_blocks(s, begins, blocks);
  return true;
}

/// Would the elimination, and the substitution, have gone on from one part to the next one, at `row`, without a change?
bool are_apart(const System& s, int64_t row, const Ends& part, const Ends& next) {
  const double before = s.to.diagonal[row - 1], factor = s.lower[row - 1] / before;
  return std::abs(before) > 0.0 && same_bits(next.diagonal - factor * s.to.upper[row - 1], next.diagonal) &&
         same_bits(next.right - factor * part.last[1], next.right) &&
         same_bits(s.to.x[row - 1], substitute(s, row - 1, part.last[1], s.rows)) &&
         same_bits(s.to.x[row - 2], substitute(s, row - 2, part.last[0], s.rows));
}

}  // namespace

bool solve_tridiagonal(const TridiagonalSystem& system, const TridiagonalSolution& solution) {
  const auto rows = static_cast<int64_t>(system.diagonal.size());
  if (rows < kLeastEquations) return false;
  const System s{system.lower.data(), system.diagonal.data(), system.upper.data(), system.right.data(), solution, rows};
  const std::vector<int64_t> begins = parts_of(s);
  if (begins.empty()) return false;
  const auto groups = static_cast<int64_t>(begins.size()) / kParts;
  std::vector<Ends> ends(begins.size());
  std::atomic<bool> solved{true};
  parallel_for(groups, 1, kNanosecondsOfRow * static_cast<double>(rows), [&](int64_t first, int64_t end) {
    for (int64_t at = first * kParts; at < end * kParts; at += kParts)
      if (!solve_parts(s, begins.data() + at, ends.data() + at)) solved = false;
  });
  if (!solved || solution.diagonal[rows - 1] == 0.0) return false;
  for (std::size_t p = 1; p + 1 < begins.size(); ++p)
    if (!are_apart(s, begins[p], ends[p - 1], ends[p])) return false;
  solution.second[rows - 2] = system.lower[static_cast<std::size_t>(rows - 2)];  // which dgtsv leaves as it was
  return true;
}

}  // namespace framejit::runtime
