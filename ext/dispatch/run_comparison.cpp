// Which of the compiled code and the bytecode has its turn, and what its time says.
#include "ext/dispatch/run_comparison.h"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

namespace framejit::ext::dispatch {

using capture::FrameView;
using region::Comparison;
using region::Entry;
using region::Outcome;
using region::read_clock;
using region::Reading;
using region::Side;

namespace {

constexpr int kMostPassBy = 4096;
constexpr int64_t kCallsComparedFrom = 3;
constexpr std::array<int64_t, 2> kCallsComparedAgain = {1000, 100000};
constexpr int kMostDisturbed = 4;
constexpr int64_t kVisit = 30;  // ns: a site that is asked for nothing
constexpr int kMostVisits = 1000;

}  // namespace

void RunComparison::pass_by(bool more) {
  passing_ = next_passing_;
  if (more) next_passing_ = std::min(2 * next_passing_, kMostPassBy);
}

void RunComparison::begin_timed(std::shared_ptr<Entry> entry, Comparison& comparison, Side side) {
  if (side == Side::Bytecode && !entry) ++region::bytecode_turns;
  timed_.emplace(Timed{std::move(entry), &comparison, side, 0});
  timed_->passing = passing_;
  timed_->own_turns = own_turns_;
  if (side == Side::Bytecode) passing_ = INT_MAX;  // calls from within
  timed_->start = read_clock(Reading::Start);
}

bool RunComparison::end_entry_run(const std::shared_ptr<Entry>& entry, Outcome outcome, int64_t start) {
  Comparison* comparison = entry->policy().sampled();
  if (!comparison) return false;
  if (outcome == Outcome::Declined && comparison->next() == Side::Bytecode) declined_ = entry;
  if (outcome != Outcome::Done) return false;
  comparison->add(read_clock(Reading::Compiled) - start);
  return true;
}

bool RunComparison::begin_declined() {
  const std::shared_ptr<Entry> entry = std::move(declined_);
  if (!entry || timed_ || !entry->policy().sampled()) return false;
  begin_timed(entry, *entry->policy().sampled(), Side::Bytecode);
  return true;
}

Side RunComparison::begin_call(capture::py::Slots slots, int count) {
  if (call_count_ < calls_compared_from_) return Side::Compiled;
  if (call_count_ == 1 + kCallsComparedAgain[0] || call_count_ == 1 + kCallsComparedAgain[1]) calls_.clear();
  if (call_count_ < kCallsComparedFrom) return Side::Compiled;
  Comparison& comparison = calls_[region::size_class(slots, count)];
  if (comparison.is_open()) {
    const Side side = comparison.next();
    begin_timed(nullptr, comparison, side);
    return side;
  }
  if (comparison.verdict() == Comparison::Verdict::Keep) return Side::Compiled;
  if (is_given_up()) pass_by(true);
  return Side::Bytecode;
}

std::shared_ptr<Entry> RunComparison::end_call() {
  if (!timed_) return nullptr;
  const Timed timed = std::move(*timed_);
  timed_.reset();
  const int64_t time = read_clock(timed.side == Side::Compiled ? Reading::Compiled : Reading::Bytecode) - timed.start;
  if (timed.side == Side::Bytecode) passing_ = timed.passing;
  // The function's own rounds will be measured soon; callees may be measured for long.
  const bool own = timed.own_turns != own_turns_ || timed.compile_ns != module::stats.compile_ns;
  if (own || (timed.is_disturbed() && timed.comparison->discarded() < kMostDisturbed)) {
    timed.comparison->discard();
    return nullptr;
  }
  if (timed.is_disturbed()) timed.comparison->note_disturbed();
  const double saved = least_saved - timed.saved;
  // Where the bytecode's results are others, which of them come must not be a matter of time.
  if (timed.side == Side::Compiled && runs_at_o1 != timed.at_o1) timed.comparison->keep();
  else timed.comparison->add(time, timed.entry ? timed.entry->policy().least_bytecode() : saved);
  gain_ += timed.comparison->gain() * (timed.entry ? timed.entry->policy().hits() : call_count_);
  if (timed.entry) return timed.entry;
  for (const auto& [size, comparison] : calls_)
    if (comparison.verdict() != Comparison::Verdict::Keep) return nullptr;
  const auto again = std::find_if(kCallsComparedAgain.begin(), kCallsComparedAgain.end(),
                                  [this](int64_t at) { return at >= call_count_; });
  calls_compared_from_ = again == kCallsComparedAgain.end() ? INT64_MAX : *again + 1;
  return nullptr;
}

bool RunComparison::is_given_up() const {
  return !calls_.empty() && std::all_of(calls_.begin(), calls_.end(),
                                        [](const auto& c) { return c.second.verdict() == Comparison::Verdict::Drop; });
}

void RunComparison::begin_round(const std::shared_ptr<Entry>& entry, uint32_t site, const FrameView& frame,
                                Outcome outcome, int64_t start) {
  Comparison* comparison = entry->policy().sampled();
  if (!comparison) return;
  const Side side = comparison->next();
  if (outcome != (side == Side::Compiled ? Outcome::Done : Outcome::Declined)) return;
  if (side == Side::Bytecode) {
    ++own_turns_;
    start = read_clock(Reading::Start);
  }
  round_.emplace(Round{{entry, comparison, side, start}, frame.locals, site});
}

RunComparison::EndOfRound RunComparison::end_round(uint32_t site, const FrameView& frame) {
  Round& round = *round_;
  if (round.locals != frame.locals) {
    if (++round.visits > kMostVisits) round_.reset();
    return {};
  }
  if (round.side == Side::Compiled && round.comparison->end < 0) round.comparison->end = static_cast<int32_t>(site);
  const bool ends = round.comparison->end == static_cast<int32_t>(site);
  if (!ends && round.side == Side::Bytecode && site != round.site && ++round.visits < kMostVisits)
    return {false, nullptr, 0};
  if (ends && !round.is_disturbed()) {
    const int64_t now = read_clock(round.side == Side::Compiled ? Reading::Compiled : Reading::Bytecode);
    round.comparison->add(now - round.start - round.visits * kVisit);
  } else {
    round.comparison->discard();
  }
  EndOfRound out{true, std::move(round.entry), round.site};
  round_.reset();
  return out;
}

void RunComparison::clear() {
  passing_ = 0;
  next_passing_ = kPassBy;
  if (timed_ && !timed_->entry) timed_.reset();
  round_.reset();
  declined_.reset();
  calls_.clear();
  call_count_ = calls_compared_from_ = 0;
}

}  // namespace framejit::ext::dispatch
