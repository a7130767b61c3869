#include "capture/flag_rules.h"

#include <cfenv>
#include <memory>
#include <utility>

namespace framejit::capture {

void FlagRules::set(FlagActions actions) {
  constexpr int kBits[] = {FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INVALID};
  const auto before = std::make_shared<FlagActions>(std::exchange(actions_, std::move(actions)));
  const graph::FlagRule rule_before = builder_.flag_rule();
  undo_.record([this, before, rule_before] {
    actions_ = *before;
    builder_.set_flag_rule(rule_before);
  });
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
