// Systems of equations with several right sides: a step that no kernel is made for.
#pragma once

#include <cstdint>

namespace framejit::runtime {

/// Smaller systems are left to LAPACK, whose call takes as long, and larger ones, which it factorizes faster.
inline constexpr int64_t kLeastUnknowns = 8, kMostUnknowns = 160, kLeastRightSides = 8;

/// a x = b, with a [unknowns, unknowns], and b and x [unknowns, right_sides]; numbers of float64, or pairs of them.
/// Rows of b and x are contiguous.
struct DenseSystem {
  const char *a, *b;
  char* x;
  int64_t unknowns, right_sides;
  int64_t a_row, a_column, b_row, x_row;  // bytes from one to the next
  bool is_complex;
};

/// Are there enough right sides for the time that the matrix takes?
constexpr bool is_eliminated(int64_t unknowns, int64_t right_sides) {
  return kLeastUnknowns <= unknowns && unknowns <= kMostUnknowns && right_sides >= kLeastRightSides &&
         4 * right_sides >= unknowns;
}

/// Bytes of scratch.
int64_t elimination_bytes(const DenseSystem& system);

/// Solves the system by an elimination with row exchanges that chooses pivots as LAPACK's getrf does, and adds in
/// another order, with fused operations. False if it is singular, or if a result is infinite or NaN. `avx512`: else the
/// processor has AVX2.
bool eliminate(const DenseSystem& system, char* scratch, bool avx512);

}  // namespace framejit::runtime
