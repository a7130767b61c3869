// The code of cores that run outside plans, made once for the process.
#pragma once

#include <optional>
#include <string>

#include "codegen/kernel.h"
#include "graph/dtype.h"
#include "graph/support/expected.h"
#include "runtime/exec_memory.h"

namespace framejit::ext::module {

/// The code where it can be run, in `block`, which is kept; null if there is none.
const runtime::CodeBlock* sealed(std::optional<runtime::CodeBlock>& block,
                                 Expected<codegen::KernelCode, std::string> kernel);

/// That of a codegen::MatMulCore for target_cpu(); null if there is none for it.
const runtime::CodeBlock* matmul_code(graph::DType dtype);

}  // namespace framejit::ext::module
