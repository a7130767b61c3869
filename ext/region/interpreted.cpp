// Params are wrapped as they are, results copied out; what the graph writes is saved before.
#include "ext/region/interpreted.h"

#include <cstring>

#include "ext/arrays/numpy_loops.h"
#include "graph/interpret.h"

namespace framejit::ext::region {

namespace {

using graph::ArrayRef;

/// Bytes of a param, from its lowest to its highest element.
class Saved {
 public:
  Saved(const ArrayRef& array, int itemsize) {
    int64_t low = 0, high = itemsize;
    for (std::size_t i = 0; i < array.shape.size(); ++i) {
      if (array.shape[i] == 0) return;
      (array.strides[i] < 0 ? low : high) += (array.shape[i] - 1) * array.strides[i];
    }
    at_ = array.data + low;
    bytes_.assign(at_, at_ + (high - low));
  }
  void put_back() const {
    if (!bytes_.empty()) std::memcpy(at_, bytes_.data(), bytes_.size());
  }

 private:
  std::byte* at_ = nullptr;
  std::vector<std::byte> bytes_;
};

class SavedParams final : public runtime::Undo {
 public:
  std::vector<Saved> params;
  void rollback() override {
    for (const Saved& p : params) p.put_back();
  }
};

/// NumPy's loop over contiguous operands.
bool run_numpy_loop(graph::Op op, graph::DType operand, graph::DType result, std::span<std::byte* const> operands,
                    int64_t count) {
  const codegen::NumpyLoop loop = arrays::numpy_loop(op, operand, result);
  if (!loop.function) return false;
  char* pointers[4];
  intptr_t steps[4];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    pointers[i] = reinterpret_cast<char*>(operands[i]);
    steps[i] = size_of(i + 1 == operands.size() ? result : operand);
  }
  intptr_t n = count;
  loop.function(pointers, &n, steps, loop.data);
  return true;
}

std::vector<ArrayRef> param_arrays(const graph::Graph& graph, std::span<char* const> params,
                                   std::span<const int64_t> symbols) {
  std::vector<ArrayRef> arrays;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const graph::Type& type = graph.type(graph.params()[i]);
    ArrayRef& a = arrays.emplace_back();
    a.data = reinterpret_cast<std::byte*>(params[i]);
    for (const graph::Dim& d : type.shape) a.shape.push_back(d.evaluate(symbols));
    for (const graph::Dim& d : type.strides) a.strides.push_back(d.evaluate(symbols));
  }
  return arrays;
}

}  // namespace

std::unique_ptr<runtime::Undo> save_written(const graph::Graph& graph, std::span<char* const> params,
                                            std::span<const int64_t> symbols) {
  const std::vector<ArrayRef> arrays = param_arrays(graph, params, symbols);
  auto undo = std::make_unique<SavedParams>();
  for (const graph::ValueId root : graph::written_roots(graph, graph.body()))
    undo->params.emplace_back(arrays[static_cast<std::size_t>(graph.node(root).index())],
                              size_of(graph.type(root).dtype));
  return undo;
}

std::optional<bool> interpreted_truth(const graph::Graph& graph, std::span<char* const> params,
                                      std::span<const int64_t> symbols) {
  const std::vector<ArrayRef> arrays = param_arrays(graph, params, symbols);
  const std::unique_ptr<runtime::Undo> undo = save_written(graph, params, symbols);
  auto done = graph::interpret(graph, arrays, symbols, run_numpy_loop);
  undo->rollback();
  if (!done) return std::nullopt;
  return done->results[0].owned[0] != std::byte{0};
}

runtime::RunResult run_interpreted(const graph::Graph& graph, const runtime::Plan& plan, std::span<char* const> params,
                                   std::span<char* const> results, std::span<const int64_t> symbols) {
  runtime::RunResult out;
  out.status = runtime::RunStatus::Bailout;
  const codegen::Program& program = plan.program();
  if (plan.wants_redo(symbols)) return out;
  for (const codegen::Step& step : program.steps)
    if (const auto* loop = std::get_if<codegen::LoopStep>(&step); loop && loop->redo_zero_or_nan) return out;

  const std::vector<ArrayRef> arrays = param_arrays(graph, params, symbols);
  std::unique_ptr<runtime::Undo> undo = save_written(graph, params, symbols);
  auto done = graph::interpret(graph, arrays, symbols, run_numpy_loop);
  if (!done) {
    undo->rollback();
    if (done.error() == graph::kUnexpected) out.status = runtime::RunStatus::SpeculationFailed;
    return out;
  }
  for (std::size_t k = 0; k < program.result_roots.size(); ++k)
    for (std::size_t i = 0; i < graph.results().size(); ++i) {
      const std::vector<std::byte>& bytes = done->results[i].owned;  // of the first result of each root
      if (graph.root(graph.results()[i]) == program.result_roots[k] && !bytes.empty())
        std::memcpy(results[k], bytes.data(), bytes.size());
    }
  out.status = runtime::RunStatus::Done;
  out.flags = done->fp_flags;
  for (const codegen::Measured& m : program.measured)
    out.measured.push_back(done->symbols[static_cast<std::size_t>(m.symbol)]);
  if (out.flags) out.undo = std::move(undo);
  return out;
}

}  // namespace framejit::ext::region
