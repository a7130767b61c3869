// np.linalg's functions, whose loops are called on copies that they can take as they are.
//
// NumPy hands matrices to LAPACK column by column, and so copies each row of a C-contiguous array across the memory,
// one element at a time. These are copied in blocks first, and NumPy's loop gets matrices whose columns are contiguous:
// LAPACK sees the same numbers.
#pragma once

#include "ext/library_calls/library_call.h"

namespace framejit::ext::library_calls {

/// np.linalg.cholesky(a), of float64 and complex128.
bool read_cholesky(const LibraryCall& call, NativeCall& out);
/// False: the run has to begin again, without this loop.
bool run_cholesky(const NativeCall& native, std::span<const codegen::StridedArray> arrays, graph::FlagRule rule);

/// np.linalg.solve(a, b) of the same, at O1.
bool read_solve(const LibraryCall& call, NativeCall& out);
bool run_solve(const NativeCall& native, std::span<const codegen::StridedArray> arrays, graph::FlagRule rule);

}  // namespace framejit::ext::library_calls
