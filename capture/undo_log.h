// UndoLog: what a capture has changed, and how each change is taken back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "capture/value.h"

namespace framejit::capture {

class UndoLog {
 public:
  /// The caller has made a change that others may see; `revert` runs if the transaction is taken back.
  void record(std::function<void()> revert) { log_.push_back({std::move(revert), Entry::World, nullptr}); }
  /// The same of a change to a Value and to nothing else.
  void record(const Value* changed, std::function<void()> revert) {
    log_.push_back({std::move(revert), Entry::OneValue, changed});
  }
  /// The same, and it takes back what was recorded when there were `begun` changes: of the two together nothing is
  /// left.
  void record_end(std::size_t begun, std::function<void()> revert) {
    log_[begun].ended = true;
    log_.push_back({[this, begun, revert = std::move(revert)] {
                      log_[begun].ended = false;
                      revert();
                    },
                    Entry::World, nullptr, begun});
  }
  /// Something was found out, under guards that hold on any path: no change.
  void learn(std::function<void()> revert) { log_.push_back({std::move(revert), Entry::Knowledge, nullptr}); }

  /// How many changes were recorded so far.
  std::size_t changes() const { return log_.size(); }
  /// Has nothing changed since there were `from` changes but these values, and those that are numbered from
  /// `first_new` on?
  bool is_pure(std::size_t from, std::size_t first_new, const std::set<const Value*>& apart) const {
    return std::all_of(log_.begin() + static_cast<std::ptrdiff_t>(from), log_.end(), [&](const Entry& e) {
      return e.what == Entry::Knowledge || e.ended || (e.begun != Entry::kNone && e.begun >= from) ||
             (e.what == Entry::OneValue && (e.value->number >= first_new || apart.count(e.value) != 0));
    });
  }
  /// Takes back what was done to these since there were `from` changes, and gives those to which something was done.
  /// The rest stays.
  std::set<const Value*> take_back(std::size_t from, const std::set<const Value*>& apart) {
    std::set<const Value*> changed;
    for (std::size_t i = log_.size(); i-- > from;) {
      if (log_[i].what != Entry::OneValue || apart.count(log_[i].value) == 0) continue;
      log_[i].revert();
      log_[i].revert = [] {};  // done for good
      changed.insert(log_[i].value);
    }
    return changed;
  }
  /// Takes back everything since there were `from` changes.
  void roll_back(std::size_t from) {
    while (log_.size() > from) {
      std::function<void()> revert = std::move(log_.back().revert);
      log_.pop_back();
      revert();
    }
  }

 private:
  struct Entry {
    std::function<void()> revert;
    enum What : uint8_t { World, OneValue, Knowledge } what;
    const Value* value;
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    std::size_t begun = kNone;  // the number of the change that this one takes back
    bool ended = false;         // there is one that takes this one back
  };
  std::vector<Entry> log_;
};

}  // namespace framejit::capture
