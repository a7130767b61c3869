// Runs of a function's compiled code and of its bytecode, compared by their times: see comparison.h.
#include <algorithm>
#include <array>
#include <climits>

#include "ext/dispatch/code_state.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/config.h"
#include "ext/region/profitability.h"
#include "graph/support/clock.h"

namespace framejit::ext {

using capture::FrameView;

namespace {

constexpr int kMostPassBy = 4096;
constexpr int64_t kCallsComparedFrom = 3;
constexpr std::array<int64_t, 2> kCallsComparedAgain = {1000, 100000};
constexpr int kMostDisturbed = 4;
constexpr int64_t kVisit = 30;  // ns: a site that is asked for nothing
constexpr int kMostVisits = 1000;
constexpr int64_t kFreeCompiling = 12000000;             // ns
constexpr int64_t kCompileShare = 10, kShareAtOnce = 2;  // of the time for which the function has run since

}  // namespace

bool CodeState::estimates() const {
  return config().profitable_by != Profitability::Off && !settings_.fullgraph && !settings_.ignore_fp_flags &&
         !settings_.stress.any();
}

bool CodeState::compares() const {
  return config().profitable_by == Profitability::Measure && estimates() && settings_.plan.resident < INT64_MAX;
}

void CodeState::pass_by() {
  left_ = pass_by_;
  if (compares()) pass_by_ = std::min(2 * pass_by_, kMostPassBy);
}

void CodeState::note_idle() {
  if (compares() && !wants_capture() && whole_.entries.empty()) pass_by();
}

void CodeState::begin_timed(std::shared_ptr<Entry> entry, Comparison& comparison, Side side) {
  if (side == Side::Bytecode && !entry) ++bytecode_turns;
  timed_.emplace(Timed{std::move(entry), &comparison, side, 0});
  timed_->left = left_;
  timed_->own_turns = own_turns_;
  if (side == Side::Bytecode) left_ = INT_MAX;  // calls from within
  timed_->start = read_clock(Reading::Start);
}

void CodeState::judge(Entry& entry) {
  entry.judge();
  if (entry.is_left() && works_on_elements(entry.region())) of_function()->elements_lost_ = true;
}

/// `entry` may have been compared with the bytecode.
void CodeState::end_entry_run(const std::shared_ptr<Entry>& entry, Outcome outcome, int64_t start) {
  Comparison* comparison = entry->sampled();
  if (!comparison) return;
  if (outcome == Outcome::Declined && comparison->next() == Side::Bytecode) {
    declined_ = entry;
  } else if (outcome == Outcome::Done) {
    comparison->add(read_clock(Reading::Compiled) - start);
    judge(*entry);
  }
}

bool CodeState::begin_declined() {
  const std::shared_ptr<Entry> entry = std::move(declined_);
  if (!entry || timed_ || !entry->sampled()) return false;
  begin_timed(entry, *entry->sampled(), Side::Bytecode);
  ++depth_;
  return true;
}

Side CodeState::begin_call(capture::py::Slots slots) {
  ++call_count_;
  ++depth_;
  if (timed_ || !compares() || (code_->co_flags & kGeneratorFlags)) return Side::Compiled;
  if (compiled_ns_ > kFreeCompiling && run_start_ == 0) run_start_ = read_clock(Reading::Start);
  if (call_count_ < calls_compared_from_) return Side::Compiled;
  if (call_count_ == 1 + kCallsComparedAgain[0] || call_count_ == 1 + kCallsComparedAgain[1]) calls_.clear();
  if (call_count_ < kCallsComparedFrom) return Side::Compiled;
  Comparison& comparison = calls_[size_class(slots, argument_slots(code_))];
  if (comparison.is_open()) {
    const Side side = comparison.next();
    begin_timed(nullptr, comparison, side);
    return side;
  }
  if (comparison.verdict() == Comparison::Verdict::Keep) return Side::Compiled;
  if (*why_given_up()) pass_by();
  return Side::Bytecode;
}

void CodeState::end_call() {
  if (std::exchange(ran_region_, false)) ++stats.frames_captured;
  if (--depth_ > 0) return;
  if (run_start_ != 0) run_ns_ += read_clock(Reading::Start) - std::exchange(run_start_, 0);
  if (!timed_) return;
  const Timed timed = std::move(*timed_);
  timed_.reset();
  const int64_t time = read_clock(timed.side == Side::Compiled ? Reading::Compiled : Reading::Bytecode) - timed.start;
  if (timed.side == Side::Bytecode) left_ = timed.left;
  // What its own rounds are worth will be known soon; callees may go on for long.
  const bool own = timed.own_turns != own_turns_ || timed.compile_ns != stats.compile_ns;
  if (own || (timed.is_disturbed() && timed.comparison->discarded() < kMostDisturbed))
    return timed.comparison->discard();
  const double saved = least_saved - timed.saved;
  // At O1 the bytecode's results are others: which of them come must not be a matter of time.
  if (settings_.o1 && timed.side == Side::Compiled && saved > 0) timed.comparison->keep();
  else timed.comparison->add(time, timed.entry ? timed.entry->least_bytecode() : saved);
  if (timed.entry) return judge(*timed.entry);
  for (const auto& [size, comparison] : calls_)
    if (comparison.verdict() != Comparison::Verdict::Keep) return;
  const auto again = std::find_if(kCallsComparedAgain.begin(), kCallsComparedAgain.end(),
                                  [this](int64_t at) { return at >= call_count_; });
  calls_compared_from_ = again == kCallsComparedAgain.end() ? INT64_MAX : *again + 1;
}

const char* CodeState::why_given_up() const {
  const bool all = std::all_of(calls_.begin(), calls_.end(),
                               [](const auto& c) { return c.second.verdict() == Comparison::Verdict::Drop; });
  return all && !calls_.empty() ? "its calls were measured to be slower than plain Python" : "";
}

void CodeState::begin_round(const std::shared_ptr<Entry>& entry, uint32_t site, const FrameView& frame, Outcome outcome,
                            int64_t start) {
  Comparison* comparison = entry->sampled();
  if (!comparison) return;
  const Side side = comparison->next();
  if (outcome != (side == Side::Compiled ? Outcome::Done : Outcome::Declined)) return;
  if (side == Side::Bytecode) {
    ++own_turns_;
    start = read_clock(Reading::Start);
  }
  round_.emplace(Round{{entry, comparison, side, start}, frame.locals, site});
}

/// A site is visited while a round is timed. False: the bytecode goes on.
bool CodeState::end_round(uint32_t site, const FrameView& frame) {
  Round& round = *round_;
  if (round.locals != frame.locals) {
    if (++round.visits > kMostVisits) round_.reset();
    return true;
  }
  if (round.side == Side::Compiled && round.comparison->end < 0) round.comparison->end = static_cast<int32_t>(site);
  const bool ends = round.comparison->end == static_cast<int32_t>(site);
  if (!ends && round.side == Side::Bytecode && site != round.site && ++round.visits < kMostVisits) return false;
  if (ends && !round.is_disturbed()) {
    const int64_t now = read_clock(round.side == Side::Compiled ? Reading::Compiled : Reading::Bytecode);
    round.comparison->add(now - round.start - round.visits * kVisit);
  } else {
    round.comparison->discard();
  }
  const std::shared_ptr<Entry> entry = std::move(round.entry);
  const uint32_t of = round.site;
  round_.reset();
  judge(*entry);
  if (of < sites_.size() && sites_[of] && sites_[of]->is_left()) set_dormant(*sites_[of], of, true);
  return of != site || !entry->is_left();
}

std::pair<uint32_t, uint32_t> CodeState::loop_around(uint32_t instr) {
  const std::span<const capture::Instr> instrs = view()->instrs();
  std::pair<uint32_t, uint32_t> loop{0, 0};
  for (uint32_t i = instr; i < instrs.size(); ++i) {
    if (instrs[i].op != capture::Opcode::Jump && !capture::name_of(instrs[i].op).starts_with("PopJump")) continue;
    if (instrs[i].arg < 0 || static_cast<uint32_t>(instrs[i].arg) > instr) continue;
    const auto head = static_cast<uint32_t>(instrs[i].arg);
    if (loop.second == 0 || head == loop.first) loop = {head, i};
  }
  return loop;
}

/// Entries that pay for themselves only after many runs are compiled over several calls, so that the first calls end
/// soon. A second entry does not wait: it is often the round of a loop, after an entry for what is before the loop.
bool CodeState::compiles_too_fast() {
  if (!compares()) return false;
  const std::shared_ptr<CodeState> owner = owner_.lock();
  CodeState& root = owner ? *owner : *this;
  return root.compiled_entries_ > 1 && root.compiled_ns_ > kFreeCompiling &&
         root.compiled_ns_ * kShareAtOnce > root.run_time();
}

/// Has too much of the function's time gone into compiling?
bool CodeState::is_over_budget() {
  if (!compares()) return false;
  const std::shared_ptr<CodeState> owner = owner_.lock();
  CodeState& root = owner ? *owner : *this;
  return root.spent_ns_ > kFreeCompiling && root.spent_ns_ * kCompileShare > root.run_time();
}

/// How long the function has run since so much of it was compiled that this is asked.
int64_t CodeState::run_time() {
  const int64_t now = read_clock(Reading::Start);
  if (run_start_ == 0) run_start_ = now;
  return run_ns_ + now - run_start_;
}

}  // namespace framejit::ext
