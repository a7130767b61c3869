// Calls of LAPACK's functions that loops of ours do.
#pragma once

#include "ext/library_calls/library_call.h"

namespace framejit::ext::library_calls {

/// scipy.linalg.lapack.dgtsv(dl, d, du, b), where our loop gives the bits of this LAPACK.
bool read_tridiagonal(const LibraryCall& call, NativeCall& out);
/// False: the run has to begin again, without this loop.
bool run_tridiagonal(NativeCall& native, std::span<const codegen::StridedArray> arrays, graph::FlagRule rule);

}  // namespace framejit::ext::library_calls
