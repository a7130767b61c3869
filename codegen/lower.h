// Lowering: an optimized graph becomes a Program. Groups (graph/passes/fuse.h) turn into loop steps: axes ordered and
// coalesced, operands classified, expressions split into stages around NumPy loops, reductions given NumPy's order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cpu.h"
#include "codegen/kernel.h"
#include "graph/passes/fuse.h"
#include "graph/support/expected.h"

namespace framejit::codegen {

/// How NumPy computes with complex numbers of one dtype.
struct ComplexForms {
  enum Product : uint8_t {
    Unknown,  // left to its loop
    Rounded,  // each product rounded
    Fused,    // real part fma(ar, br, -(ai * bi)), imaginary part fma(ar, bi, ai * br)
  } product = Unknown;
  bool scaled_absolute = false;  // larger * sqrt(fma(q, q, 1)), q = smaller / larger; else left to its loop
};

/// Is the operator, of or to complex numbers, made of operators on their parts?
bool is_composed(graph::Op op, graph::DType operand, graph::DType result, const ComplexForms& forms);

struct LowerOptions {
  Cpu cpu;
  bool o1 = false;
  bool any_zero =
      false;  // the sign of a zero, and which NaN, that min and max of many elements give may be another than NumPy's
  std::vector<bool> constant_params;  // by number: what lies there never changes; empty: none
  bool narrow_products = false;       // float32 products may be of factors rounded to bfloat16
  bool listing = false;
  KernelStore* store = nullptr;  // of machine code, between processes; null: none
  /// A program that writes params and may set flags: per_call_flags (kernel.h), or it fails. Else it saves what it
  /// overwrites.
  bool attribute = false;
  /// NumPy's inner loop for an operator on operands of a dtype; an empty NumpyLoop where there is none.
  std::function<NumpyLoop(graph::Op, graph::DType operand, graph::DType result)> numpy_loop;
  /// The function that a library_call calls, by its index.
  std::function<LibraryFunction(int64_t index)> library_function;
  /// Length at which the running NumPy cuts the run of a contiguous pairwise sum: 8192 up to 2.2, 0 (never) from 2.3.
  int64_t pairwise_cut = 0;
  std::function<ComplexForms(graph::DType)> complex_forms;
  ComplexForms complex(graph::DType dtype) const {
    return complex_forms && graph::is_complex(dtype) ? complex_forms(dtype) : ComplexForms{};
  }
};

/// The failure is a sentence for the log: this graph stays in the interpreter.
Expected<Program, std::string> lower(const graph::Graph& graph, const std::vector<graph::Group>& groups,
                                     const LowerOptions& options);

/// The steps as text, for reports.
std::string listing(const Program& program);

}  // namespace framejit::codegen
