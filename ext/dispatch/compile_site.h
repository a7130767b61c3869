// CompileSite: a place of a code object at which regions begin, with its entries.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/region.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

/// A hash of what arguments are: type, and of arrays dtype and rank too. Two calls of the same kinds mostly need one
/// entry.
uint64_t kinds_of(const guards::LiveSlots& live);

/// A function's start or one site: its entries, most recent hit first.
struct CompileSite {
  std::vector<std::shared_ptr<region::Entry>> entries;
  capture::Varied varied;
  /// Which of many entries fitted last for arguments of some kinds: is tried first.
  struct Hint {
    uint64_t kinds = 0;
    uint32_t entry = 0;
  };
  std::unique_ptr<std::array<Hint, 256>> hints;  // by hash
  std::unordered_map<uint64_t, region::Entry*>
      by_kinds;                  // the entry that was compiled last for arguments of these kinds
  int made = 0;                  // entries ever made here
  int churned = 0;               // of these, how many took the place of one for arguments of the same kinds
  int64_t lost_calls = 0;        // since the limit was reached
  int64_t next_try = kFirstTry;  // of lost_calls: then another entry is compiled
  std::optional<guards::GuardFailure> at_limit;  // until the warning
  static constexpr int kMaxFailures = 3;         // before the site sleeps for good
  int failures = 0;                              // captures that gave nothing
  std::unordered_map<uint64_t, int> failed;      // the same for arguments of some kinds, where others have entries
  int misses = 0;                                // since an entry fitted
  int64_t visits = 0;                            // at which no entry fitted
  bool limited = false;                          // past the recompile limit
  bool exhausted = false;                        // nothing more is compiled here
  bool dormant = false;
  bool in_loop = false;                              // its regions are parts of rounds
  bool other_way = false;                            // the last call's branches did not go as the first entry has them
  int forced = -1;                                   // stress: the guard of the first entry that fails in this call
  std::set<std::string> forced_before;               // Guard::about()
  PyObject *globals = nullptr, *builtins = nullptr;  // of the entries, which own them

  /// Do the code's names mean here what they meant at capture?
  bool is_for(PyObject* its_globals, PyObject* its_builtins) const {
    return entries.empty() || (globals == its_globals && builtins == its_builtins);
  }
  /// Are the entries that matter left to the interpreter?
  bool is_left() const;
  /// An entry that fits, without a run of it, or null.
  std::shared_ptr<region::Entry> fitting(const guards::LiveSlots& live) const;
  /// Is it an entry of this site that hardly ran, while another one is wanted? Some loops come by with other constants
  /// in each round.
  bool hardly_runs(const region::Entry& entry) const;
  /// How many runs an entry has had, on average.
  double mean_hits() const;

  /// `kinds`: of what the entry was captured from.
  void insert(std::shared_ptr<region::Entry> entry, uint64_t kinds);
  std::shared_ptr<region::Entry> take_out(std::size_t entry);
  /// Moves the entry that was compiled last for arguments of these kinds to the front.
  void lead(uint64_t kinds);
  /// A call came to nothing because of the limit. True: the warning about the limit is due.
  bool note_lost();
  /// Another entry is wanted. Is there a limit to it? `counts`: there is one for arguments of the same kinds. The entry
  /// that is used least may go to `out`.
  bool is_at_limit(bool counts, std::vector<std::shared_ptr<region::Entry>>& out);
  /// Stress: lets a guard of the first entry fail that has not failed here before.
  bool force_failure();
  /// As if nothing had been compiled. Gives the entries.
  std::vector<std::shared_ptr<region::Entry>> clear();

 private:
  static constexpr int64_t kFirstTry = 256;
};

/// The order in which entries are tried: the one that fitted last for such arguments first, if there are many.
class TryOrder {
 public:
  TryOrder(CompileSite& site, const guards::LiveSlots& live) {
    constexpr std::size_t kFew = 2;
    if (site.entries.size() > kFew) find_hint(site, live);
  }
  std::size_t operator[](std::size_t k) const { return k == 0 ? first_ : k <= first_ ? k - 1 : k; }
  /// The entry fits.
  void note(CompileSite& site, std::size_t i) {
    if (hint_) *hint_ = {kinds_, static_cast<uint32_t>(i)};
    else if (i != 0) std::swap(site.entries[0], site.entries[i]);
  }

 private:
  void find_hint(CompileSite& site, const guards::LiveSlots& live);

  uint64_t kinds_ = 0;
  CompileSite::Hint* hint_ = nullptr;
  std::size_t first_ = 0;
};

}  // namespace framejit::ext::dispatch
