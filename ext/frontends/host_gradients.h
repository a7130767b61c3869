// Gradients of host calls: by the rules of framejit._traced._host_gradients.
#pragma once

#include "ext/frontends/numpy/ops.h"
#include "graph/passes/grad.h"

namespace framejit::ext {

/// For a gradient that is appended to the session's graph, while the session lives.
graph::HostGradients host_gradients(Session& session);

}  // namespace framejit::ext
