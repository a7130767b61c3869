// Gradients of library calls: by the rules of framejit._traced._library_gradients.
#pragma once

#include "ext/frontends/numpy/ops.h"
#include "graph/passes/grad.h"

namespace framejit::ext::frontends {

/// For a gradient that is appended to the session's graph, while the session lives.
graph::LibraryGradients library_gradients(Session& session);

}  // namespace framejit::ext::frontends
