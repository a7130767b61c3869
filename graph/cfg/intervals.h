// Bounds of integers that are known to be small.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

struct Interval {
  int64_t low, high;
};

/// Of an integer constant.
std::optional<int64_t> number(const Cfg& cfg, Id v);

/// Of all that fits in memory of a kind.
std::optional<Interval> interval_of(Mem mem);

/// The interval of each value that was looked at; none: it is not known.
using Intervals = std::unordered_map<Id, std::optional<Interval>>;

/// Of a value; `depth`: how many values that it is made of were looked through.
std::optional<Interval> interval(const Cfg& cfg, Id v, int depth = 0, const Intervals* known = nullptr);
std::optional<Interval> interval_of(const Cfg& cfg, const Node& n, int depth = 0, const Intervals* known = nullptr);

/// Exact sums and products that cannot overflow, because each round takes the remainder of a division, become others.
bool drop_overflow_checks(Cfg& cfg);

}  // namespace framejit::cfg
