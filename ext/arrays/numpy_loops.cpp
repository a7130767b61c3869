// A ufunc keeps its loops in three parallel tables: functions, their data, and the type numbers of their operands. For
// numeric dtypes NumPy 2 wraps the very same entries. The ufunc objects are kept alive for ever: kernels hold the
// pointers.
#include "ext/arrays/numpy_loops.h"

#include "ext/arrays/numpy_api.h"
#include "ext/arrays/promotion.h"

namespace framejit::ext {

codegen::HostLoop host_loop(graph::Op op, graph::DType operand, graph::DType result) {
  PyUFuncObject* ufunc = ufunc_of(op);
  if (!ufunc || ufunc->nout != 1 || !ufunc->functions) return {};
  for (int loop = 0; loop < ufunc->ntypes; ++loop) {
    const char* types = ufunc->types + loop * ufunc->nargs;
    bool matches = types[ufunc->nin] == type_num_of(result);
    for (int i = 0; i < ufunc->nin; ++i) matches = matches && types[i] == type_num_of(operand);
    if (matches && ufunc->functions[loop])
      return {ufunc->functions[loop], ufunc->data ? const_cast<void*>(ufunc->data[loop]) : nullptr};
  }
  return {};
}

}  // namespace framejit::ext
