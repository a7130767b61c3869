// Systems of equations with three diagonals: a step that no kernel is made for.
#pragma once

#include <cstdint>
#include <span>

namespace framejit::runtime {

/// Fewer equations than these are left to LAPACK.
inline constexpr int64_t kLeastEquations = 2048;

/// Where row i is lower[i - 1] * x[i - 1] + diagonal[i] * x[i] + upper[i] * x[i + 1] = right[i].
struct TridiagonalSystem {
  std::span<const double> lower, diagonal, upper, right;
};

/// The upper triangle of the elimination, whose row i is diagonal[i] * x[i] + upper[i] * x[i + 1] + second[i] * x[i +
/// 2], and x. The memory may be that of the system's diagonal, upper and right; `second` is as long as `upper`.
struct TridiagonalSolution {
  double *second, *diagonal, *upper, *x;
};

/// Solves a system with the arithmetic of LAPACK's dgtsv (dgtsv.f of the reference implementation, compiled without
/// fused operations), and so with its bits. It is faster because it eliminates in several parts of the system at once,
/// which begin where rows are not coupled (both coefficients are zero). False if there are too few such rows, if the
/// system is singular, or if the sign of a zero would pass from one part to the next; the solution's memory holds
/// nothing of use then. The processor has AVX2.
bool solve_tridiagonal(const TridiagonalSystem& system, const TridiagonalSolution& solution);

}  // namespace framejit::runtime
