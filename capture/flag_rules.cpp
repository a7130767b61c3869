#include "capture/flag_rules.h"

#include <algorithm>
#include <cfenv>
#include <memory>
#include <utility>

namespace framejit::capture {

void FlagRules::set(FlagActions actions) {
  constexpr int kBits[] = {FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INVALID};
  const auto before = std::make_shared<FlagActions>(std::exchange(actions_, std::move(actions)));
  const graph::FlagRule rule_before = builder_.flag_rule();
  const auto restore = [this, before, rule_before] {
    actions_ = *before;
    builder_.set_flag_rule(rule_before);
  };
  const auto is_same = [](const Ref<>& a, const Ref<>& b) { return a.get() == b.get(); };
  if (!changes_.empty() && std::equal(actions_.begin(), actions_.end(), changes_.back().before.begin(), is_same)) {
    const auto ended = std::make_shared<Change>(std::move(changes_.back()));
    changes_.pop_back();
    undo_.record_end(ended->number, [this, restore, ended] {
      changes_.push_back(*ended);
      restore();
    });
  } else {
    changes_.push_back({undo_.changes(), *before});
    undo_.record([this, restore] {
      changes_.pop_back();
      restore();
    });
  }
  graph::FlagRule rule;
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    PyObject* action = actions_[i].get();
    if (!action) continue;
    uint8_t& set = PyUnicode_CompareWithASCIIString(action, "ignore") == 0 ? rule.ignored : rule.trapped;
    set = static_cast<uint8_t>(set | kBits[i]);
  }
  builder_.set_flag_rule(rule);
}

}  // namespace framejit::capture
