// Which operators can be done in the lanes of a vector.
#pragma once

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

/// The type that a condition compares; of what is no comparison, an integer.
Type compared_type(const Cfg& cfg, Id condition);

/// Can a node without effects be computed in lanes? `is_wide`: with vectors of 64 bytes.
bool can_be_lanes(const Cfg& cfg, const Node& n, bool is_wide);

}  // namespace framejit::cfg
