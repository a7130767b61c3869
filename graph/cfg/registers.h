// Which values of a control-flow graph share a register, and which are computed only where the graph is left.
#pragma once

#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

bool is_comparison(Op op);

struct Registers {
  std::vector<Id> home;         // by value: the one whose register holds it
  std::vector<bool> at_exits;   // nodes that only exits use: they are computed there
  std::vector<bool> wanted;     // values that are used otherwise than as a condition of a jump, a check or a choice
  std::vector<uint32_t> depth;  // by home: of the innermost loop that uses it
};

/// Relies on conditions that are comparisons being compared where they are used.
Registers assign_registers(const Cfg& cfg, const Shape& shape);

}  // namespace framejit::cfg
