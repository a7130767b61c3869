// Plans for a symbolic number of elements: one each for the ways in which operands are single numbers.
#include "ext/tensor/tensor_kernels.h"

#include <array>
#include <memory>
#include <utility>

#include "capture/py/until_exit.h"
#include "ext/region/compile.h"
#include "graph/builder.h"

namespace framejit::ext::tensor {

using graph::DType;
using graph::Op;

namespace {

constexpr unsigned kForms = 4;  // bit i: operand i is a single number

struct Kernel {
  bool tried = false;
  std::unique_ptr<runtime::Plan> plan;
};

std::unique_ptr<runtime::Plan> make_plan(Op op, DType dtype, unsigned form) {
  graph::Graph graph("tensor_" + std::string(graph::name_of(op)));
  graph::GraphBuilder builder(graph);
  const graph::Dim n = graph.shapes().fresh(5);
  std::vector<graph::ValueId> params;
  for (unsigned i = 0; i < graph::def(op).operands; ++i) {
    graph::Type type;
    type.dtype = dtype;
    if (!(form & (1u << i))) type.shape = {n};
    type.strides = graph::c_strides(dtype, type.shape);
    params.push_back(builder.param(std::move(type), i ? "b" : "a"));
  }
  graph::BuildResult result = builder.elementwise(op, params);
  if (!result) return nullptr;
  graph.set_results({*result});
  Expected<region::Compiled, std::string> compiled = region::compile(graph, {});
  return compiled ? std::move(compiled->plan) : nullptr;
}

/// Kept for the life of the process.
const runtime::Plan* plan_for(Op op, DType dtype, unsigned form) {
  static auto* const kernels = new std::array<Kernel, std::size_t{graph::kOpCount} * graph::kDTypeCount * kForms>;
  Kernel& kernel =
      (*kernels)[(static_cast<std::size_t>(op) * graph::kDTypeCount + static_cast<std::size_t>(dtype)) * kForms + form];
  if (!kernel.tried) {
    kernel.tried = true;
    kernel.plan = make_plan(op, dtype, form);
  }
  return kernel.plan.get();
}

}  // namespace

bool run_kernel(Op op, DType dtype, std::span<const KernelOperand> operands, int64_t count, char* out) {
  unsigned form = 0;
  std::array<char*, 2> params{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    params[i] = const_cast<char*>(operands[i].data);
    if (operands[i].single) form |= 1u << i;
  }
  if (form + 1 == 1u << operands.size()) form = 0;  // single numbers only: arrays of one element
  const runtime::Plan* plan = plan_for(op, dtype, form);
  if (!plan) return false;
  char* results[] = {out};
  const std::array<int64_t, 1> symbols = {count};
  const std::span<char* const> given(params.data(), operands.size());
  runtime::RunStatus status;
  if (plan->cost(symbols) < region::kReleaseAbove) {
    status = plan->run(given, results, symbols).status;
  } else {
    PyThreadState* state = PyEval_SaveThread();
    status = plan->run(given, results, symbols).status;
    capture::py::until_exit([&] { PyEval_RestoreThread(state); });
  }
  return status == runtime::RunStatus::Done;
}

}  // namespace framejit::ext::tensor
