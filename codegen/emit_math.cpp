// Own vector math of O1.
#include "codegen/emit_ops.h"
#include "graph/support/check.h"

namespace framejit::codegen {

bool has_math(graph::Op, DType) { return false; }

Vec math(Vasm&, graph::Op op, int, const Vec&) {
  FRAMEJIT_CHECK(false, "no vector math for " + std::string(graph::name_of(op)));
}

}  // namespace framejit::codegen
