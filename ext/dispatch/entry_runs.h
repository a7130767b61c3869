// How the entries of a place are run: the one that fits, most recent hit first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ext/dispatch/code_state.h"
#include "ext/module/stats.h"
#include "ext/region/comparison.h"

namespace framejit::ext::dispatch {

/// Runs the entry that fits, by `run`. `compared` is told of a run that may have been compared with the bytecode.
template <class Run, class Compared>
region::Outcome run_entries(CodeState& state, CompileSite& place, const guards::LiveSlots& live, bool compares,
                            Run&& run, Compared&& compared) {
  std::vector<std::shared_ptr<region::Entry>>& entries = place.entries;
  if (state.settings().stress.guards && place.force_failure()) [[unlikely]]
    return region::Outcome::Miss;
  TryOrder order(place, live);
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const std::size_t i = order[k];
    region::Entry* entry = entries[i].get();
    const std::shared_ptr<region::Entry> held = compares && entry->policy().is_compared() ? entries[i] : nullptr;
    const int64_t start = held ? region::read_clock(region::Reading::Start) : 0;
    const region::Outcome outcome = run(*entry);
    if (held) [[unlikely]]
      compared(held, outcome, start);
    if (outcome == region::Outcome::Miss) continue;
    if (outcome == region::Outcome::Done) {
      least_saved += entry->policy().least_bytecode();
      runs_at_o1 += entry->is_at_o1();
    }
    if (outcome == region::Outcome::OtherWay) [[unlikely]] {
      if (!state.settings().trace) return region::Outcome::Declined;
      place.other_way = place.other_way || i == 0;
      continue;
    }
    // Entries may have changed meanwhile: look before moving.
    if (i < entries.size() && entries[i].get() == entry) order.note(place, i);
    return outcome;
  }
  ++module::stats.guard_failures;
  return region::Outcome::Miss;
}

}  // namespace framejit::ext::dispatch
