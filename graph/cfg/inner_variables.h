// Variables of an inner loop whose rounds may be done at once.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/cfg/outer_vectors.h"

namespace framejit::cfg {

/// Gives the variables of a loop that counts down its rounds. It gives nothing if the rounds depend on each other, or
/// if the loop is left in another way. `flags`: see vectorize_outer_loop().
std::optional<std::vector<OuterVariable>> inner_variables(const Cfg& cfg, const Shape& shape, uint32_t head,
                                                          const std::map<Id, Id>& flags);

}  // namespace framejit::cfg
