// Turns and verdicts by the size of the work.
#include "ext/region/entry_comparison.h"

#include <algorithm>

namespace framejit::ext::region {

bool EntryComparison::takes_turn(int64_t hits, int size_class, double least_bytecode) {
  if (hits >= reopened_at_) {
    for (auto& [size, comparison] : comparisons_) comparison.reopen();
    reopened_at_ = INT64_MAX;
  }
  Comparison& comparison = comparisons_.try_emplace(size_class, warm_up_, least_bytecode).first->second;
  if (!comparison.is_open()) {
    const bool keep = comparison.verdict() == Comparison::Verdict::Keep;
    losses_ = keep ? 0 : losses_ + 1;
    return keep;
  }
  losses_ = 0;
  sampled_ = &comparison;
  if (comparison.next() == Side::Compiled) return true;
  ++bytecode_turns;
  return false;
}

EntryComparison::Result EntryComparison::judge(int64_t hits) {
  using Verdict = Comparison::Verdict;
  auto any = [&](Verdict verdict) {
    return std::any_of(comparisons_.begin(), comparisons_.end(),
                       [verdict](const auto& c) { return c.second.verdict() == verdict; });
  };
  if (any(Verdict::Open) && hits < from_ + kMost) return Result::Open;
  if (any(Verdict::Drop)) return any(Verdict::Keep) ? Result::FasterOften : Result::Slower;
  const auto again = std::find_if(kAgain.begin(), kAgain.end(), [hits](int64_t at) { return at > hits; });
  from_ = reopened_at_ = again == kAgain.end() ? INT64_MAX : *again;
  return Result::Faster;
}

}  // namespace framejit::ext::region
