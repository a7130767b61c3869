// Which values of a control-flow graph share a register, and which are computed only where the graph is left.
#pragma once

#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

bool is_comparison(Op op);

/// In lanes: And or Or of conditions, which are comparisons or such nodes.
bool combines_conditions(const Cfg& cfg, Id v);
/// In lanes: is it, by comparison with 0, the opposite of a condition?
bool negates_condition(const Cfg& cfg, Id v);

struct Registers {
  std::vector<Id> home;         // by value: the one whose register holds it
  std::vector<bool> at_exits;   // nodes that only exits use: they are computed there
  std::vector<bool> wanted;     // values that are used otherwise than as a condition of a jump, a check or a choice
  std::vector<uint32_t> depth;  // by home: of the innermost loop that uses it
};

/// Relies on conditions that are comparisons, or combine conditions, being computed where they are used.
Registers assign_registers(const Cfg& cfg, const Shape& shape);

}  // namespace framejit::cfg
