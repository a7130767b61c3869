// fold: a 0-d operator on constants becomes a constant, and so does the value of a known dimension.
//
// Not where evaluation sets a flag (the kernel must set it on each run), not where the meaning is NumPy's own loop, and
// not where the result needs bytes of its own (it is viewed, written or a result).
#include <cfenv>

#include "graph/pass.h"
#include "graph/passes/memory.h"
#include "graph/scalar_ops.h"

namespace framejit::graph {

namespace {

void make_constant(Node& n, const Scalar& value) {
  n.op = Op::Constant;
  n.inputs.clear();
  n.attrs.assign(1, {AttrKey::Value, value});
}

bool has_constant_operands(const Graph& graph, const Node& n) {
  for (ValueId v : n.inputs)
    if (graph.node(v).op != Op::Constant) return false;
  return !n.inputs.empty();
}

/// Evaluates with the flags cleared; false where there is no meaning or a flag was raised.
bool evaluate(const Graph& graph, const Node& n, Scalar& out) {
  Scalar args[3];
  for (std::size_t i = 0; i < n.inputs.size(); ++i) args[i] = graph.node(n.inputs[i]).value();
  std::fenv_t saved;
  std::fegetenv(&saved);
  std::feclearexcept(FE_ALL_EXCEPT);
  const DType operand = graph.type(n.inputs.back()).dtype;
  ScalarOptions options;
  options.uniform_bounds = true;
  const bool known = apply_scalar(n.op, operand, n.type.dtype, {args, n.inputs.size()}, out, options);
  const int raised = std::fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID);
  std::fesetenv(&saved);
  return known && raised == 0;
}

}  // namespace

bool fold(Graph& graph, PassContext&) {
  const MemoryFacts facts(graph);
  bool changed = false;
  for_each_node(graph, graph.body(), [&](ValueId v) {
    Node& n = graph.node(v);
    if (n.type.rank() != 0 || facts.viewed[index(v)] || facts.escapes[index(v)]) return;
    const OpClass cls = def(n.op).cls;
    Scalar value;
    if (n.op == Op::DimValue && n.dim().is_const()) {
      make_constant(n, Scalar{static_cast<uint64_t>(n.dim().value())});
    } else if ((cls == OpClass::Elementwise || cls == OpClass::Cast) && def(n.op).exactness == Exactness::Native &&
               has_constant_operands(graph, n) && !(n.type.dtype == DType::F16 && may_set_flags(graph, v)) &&
               evaluate(graph, n, value)) {
      make_constant(n, value);
    } else {
      return;
    }
    changed = true;
  });
  return changed;
}

}  // namespace framejit::graph
