// Graphs run twice: by the reference interpreter, and lowered, compiled and run by a plan. Both must agree to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/lower.h"
#include "graph/graph.h"
#include "graph/interpret.h"
#include "runtime/plan.h"

namespace framejit::runtime::testing {

using graph::DType;
using graph::Graph;
using graph::ValueId;

/// Memory of a param: enough for its layout, filled by `fill`, with what stands around it.
struct ParamMemory {
  std::vector<std::byte> bytes;
  int64_t first = 0;  // offset of the first element
};

struct Fill {
  bool special = false;  // NaN, infinities, zeros of both signs, huge and tiny numbers among the rest
  int64_t limit = 100;   // of integers
};

ParamMemory make_param(const graph::Type& type, std::span<const int64_t> symbols, std::mt19937_64& random,
                       const Fill& fill);

/// Every node in a group of its own.
std::vector<graph::Group> one_each(const Graph& graph);
/// As the fusion pass groups them.
std::vector<graph::Group> fused(const Graph& graph, graph::ExecOrder order = graph::ExecOrder::Program);

/// Loops with NumPy's signature that compute what the interpreter computes.
codegen::NumpyLoop reference_loop(graph::Op op, DType operand, DType result);

/// AVX2, and AVX-512 where the machine has it.
std::vector<codegen::Cpu> cpus();

struct CompareOptions {
  codegen::Cpu cpu;
  bool fuse = true;
  int64_t pairwise_cut = 0;
  bool attribute = false;                              // each operator that may set flags is a call of the user's
  graph::ExecOrder order = graph::ExecOrder::Program;  // Breadth: independent steps run beside each other
  int64_t block_bytes = 128;                           // of `bands`
  bool bands = false;                                  // blocks of rows for programs as small as those of tests
};

/// Nothing where both agree or where the lowering declines (then `declined` is set); else what differs.
std::string compare(const Graph& graph, const std::vector<ParamMemory>& params, std::span<const int64_t> symbols,
                    const CompareOptions& options, std::string* declined = nullptr);

/// Parses, makes params, compares; for tests that are written as text. Fails the test where lowering declines.
void expect_agrees(const std::string& text, std::vector<int64_t> symbols = {}, const Fill& fill = {});

Graph parse_graph(const std::string& text);

}  // namespace framejit::runtime::testing
