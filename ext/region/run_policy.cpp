// When an entry is demoted, and when it is tried again.
#include "ext/region/run_policy.h"

#include <algorithm>

#include "ext/module/events.h"

namespace framejit::ext::region {

bool RunPolicy::rests(bool varies) {
  if (!is_demoted()) [[likely]]
    return false;
  // It may be faster for other sizes.
  if (unprofitable_ == kSlower && varies) return losses_ > kManyLosses && ++rest_ % kLookEvery != 0;
  return unprofitable_ || ++rest_ % kRetryEvery != 0;
}

bool RunPolicy::takes_turn(int size_class) {
  if (hits_ >= reopened_at_) {
    for (auto& [size, comparison] : comparisons_) comparison.reopen();
    reopened_at_ = INT64_MAX;
  }
  Comparison& comparison = comparisons_.try_emplace(size_class, warm_up_, least_bytecode_).first->second;
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

void RunPolicy::judge() {
  using Verdict = Comparison::Verdict;
  auto any = [&](Verdict verdict) {
    return std::any_of(comparisons_.begin(), comparisons_.end(),
                       [verdict](const auto& c) { return c.second.verdict() == verdict; });
  };
  if (any(Verdict::Open) && hits_ < compared_from_ + kMostCompared) return;
  if (!any(Verdict::Drop)) {
    const auto again =
        std::find_if(kComparedAgain.begin(), kComparedAgain.end(), [this](int64_t at) { return at > hits_; });
    compared_from_ = reopened_at_ = again == kComparedAgain.end() ? INT64_MAX : *again;
  } else if (any(Verdict::Keep)) {
    unprofitable_ = nullptr;
    streak_ = 0;
  } else {
    give_up(kSlower);
  }
}

void RunPolicy::came_to_nothing(const char* why) {
  why_ = why;
  if (++streak_ == kDemoteAfter && module::events_on(module::Channel::Perf))
    emit(module::Channel::Perf,
         std::move(module::Record()
                       .put("function", function_)
                       .put("what", std::string("demoted"))
                       .put("detail", std::string(why) + "; the interpreter runs this region from now on")));
}

void RunPolicy::give_up(const char* why) {
  if (unprofitable_) return;
  unprofitable_ = why;
  streak_ = kDemoteAfter - 1;
  came_to_nothing(why);
}

}  // namespace framejit::ext::region
