// The breaks of a code object's captures, and the reasons of its recompilations: for the log and for reports.
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/break.h"
#include "capture/code_view.h"
#include "ext/dispatch/settings.h"
#include "ext/module/events.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

/// The function of a code object, as the log names it.
struct CodeName {
  std::string function, file;
  int64_t line;  // the first

  explicit CodeName(PyCodeObject* code);
  /// With these three as fields.
  module::Record record() const;
};

/// A line of a function.
struct CallSite {
  std::string function, file;
  int line = 0;  // 0: not known
};

/// A break, and the line of the program's code that led to it, if the break is in a library.
struct KnownBreak {
  capture::Break at;
  CallSite called_from;

  /// module::break_record(), in a library with from_function, from_file and from_line.
  module::Record record() const;
};

class History {
 public:
  /// Each once.
  const std::vector<KnownBreak>& breaks() const { return breaks_; }
  void add(KnownBreak known, const JitSettings& settings);
  /// Breaks of the function itself at the instructions from `first` to `last` are history.
  void forget(const std::string& function, uint32_t first, uint32_t last);

  /// A dict for each entry that did not fit and had another compiled, oldest first.
  const std::vector<capture::Ref<>>& recompiles() const { return recompiles_; }
  struct Recompile {
    const guards::GuardFailure& failure;
    int entry;                 // the number of the one that did not fit
    const region::Entry* old;  // null: what it was made for has died
    bool limit;                // no other one is compiled: the limit is reached
  };
  void add(const Recompile& recompile, PyCodeObject* code);

  void clear();

 private:
  std::vector<KnownBreak> breaks_;
  std::set<std::pair<uint32_t, uint16_t>> known_breaks_;
  std::vector<capture::Ref<>> recompiles_;  // the first kMostRecompiles
};

/// An entry was made: tells the channels that show it. `number`: of the entry, at its place.
void announce(const region::Entry& entry, PyCodeObject* code, int line, int64_t number);

}  // namespace framejit::ext::dispatch
