// The reference interpreter: runs any graph slowly and obviously, one element at a time. The oracle of passes and
// kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/support/expected.h"

namespace framejit::graph {

/// A caller-owned array: `data` is the first element; strides in bytes, any sign.
struct ArrayRef {
  std::byte* data;
  std::vector<int64_t> shape, strides;
};

/// Results are fresh arrays with the layout of their type, or views into params or into other results' roots.
struct InterpretedArray {
  std::vector<std::byte> owned;  // empty for a view of a param
  ArrayRef array;
};

struct Interpretation {
  std::vector<InterpretedArray> results;
  std::vector<int64_t> symbols;  // with what was measured
  unsigned fp_flags;  // FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID that were raised, by FlagRule::apply
};

/// Runs NumPy's own loop of an elementwise operator, over contiguous operands (the result last). False: it has none.
using RunNumpyLoop = bool (*)(Op op, DType operand, DType result, std::span<std::byte* const> operands, int64_t count);

/// The failure where the operand of an `expect` is false.
inline constexpr std::string_view kUnexpected = "an expectation does not hold";

/// `symbols`: values of the graph's symbols. NumpyLoop operators run in `run_numpy_loop`, else as the C library's
/// functions in the dtype.
Expected<Interpretation, std::string> interpret(const Graph& graph, std::span<const ArrayRef> params,
                                                std::span<const int64_t> symbols,
                                                RunNumpyLoop run_numpy_loop = nullptr);

}  // namespace framejit::graph
