// When an entry is demoted, and when it is tried again.
#include "ext/region/run_policy.h"

#include "ext/module/events.h"

namespace framejit::ext::region {

bool RunPolicy::rests_demoted(bool varies) {
  // It may be faster for other sizes.
  if (unprofitable_ == kSlower && varies) return comparison_.losses() > kManyLosses && ++rest_ % kLookEvery != 0;
  return unprofitable_ || ++rest_ % kRetryEvery != 0;
}

void RunPolicy::judge() {
  using Result = EntryComparison::Result;
  switch (comparison_.judge(hits_)) {
    case Result::Open:
    case Result::Faster: break;
    case Result::FasterOften:
      unprofitable_ = nullptr;
      streak_ = 0;
      break;
    case Result::Slower: give_up(kSlower); break;
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
