// CodeState: everything that is compiled for one code object - entries for whole calls, spliced code with the entries
// of its regions, what varied, what broke. Shared by a Function, by frames that run its spliced code, and by marked
// code.
//
//     call  ->  whole entries (no frame)            where one capture went from the start to a return
//           ->  spliced code -> ask(site) -> entries of that site     where it did not
//           ->  the user's own code                 under tools, past limits, with nothing to compile
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/region.h"
#include "capture/splice.h"
#include "ext/dispatch/settings.h"
#include "ext/module/control.h"
#include "ext/module/events.h"
#include "ext/module/stats.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext {

/// The frame of such code is others' to resume.
inline constexpr int kGeneratorFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

/// A function's start or one site: its entries, most recent hit first.
struct CompileSite {
  std::vector<std::shared_ptr<Entry>> entries;
  capture::Varied varied;
  /// Which of many entries fitted last for arguments of some kinds: is tried first.
  struct Hint {
    uint64_t kinds = 0;
    uint32_t entry = 0;
  };
  std::unique_ptr<std::array<Hint, 256>> hints;   // by hash
  std::unordered_map<uint64_t, Entry*> by_kinds;  // the entry that was compiled last for arguments of these kinds
  int made = 0;                                   // entries ever made here
  int churned = 0;                           // of these, how many took the place of one for arguments of the same kinds
  int64_t lost_calls = 0;                    // since the limit was reached
  int64_t next_try = kFirstTry;              // of lost_calls: then another entry is compiled
  std::optional<GuardFailure> at_limit;      // until the warning
  int failures = 0;                          // captures that gave nothing
  std::unordered_map<uint64_t, int> failed;  // the same for arguments of some kinds, where others have entries
  int misses = 0;                            // since an entry fitted
  int64_t visits = 0;                        // at which no entry fitted
  bool limited = false;                      // past the recompile limit
  bool exhausted = false;                    // nothing more is compiled here
  bool dormant = false;
  bool other_way = false;                            // the last call's branches did not go as the first entry has them
  int forced = -1;                                   // stress: the guard of the first entry that fails in this call
  std::set<std::string> forced_before;               // Guard::about()
  PyObject *globals = nullptr, *builtins = nullptr;  // of the entries, which own them

  /// Do the code's names mean here what they meant at capture?
  bool is_for(PyObject* its_globals, PyObject* its_builtins) const {
    return entries.empty() || (globals == its_globals && builtins == its_builtins);
  }
  /// Are the entries that matter left to the interpreter?
  bool is_left() const {
    int64_t left = 0, others = 0;
    for (const auto& entry : entries) (entry->is_left() ? left : others) += entry->hits();
    return others * kFewOfHits <= left;
  }
  static constexpr int64_t kFewOfHits = 16;
  static constexpr int64_t kFirstTry = 256;
};

class CalleeRegistry;
class CodeState;
class Gain;

/// The end of a call that has begun: see CodeState::begin_call().
struct EndOfCall {
  CodeState* state;
  ~EndOfCall();
};

/// What entries that ran have saved of the bytecode's time, at least and by estimate.
inline double least_saved = 0;

class CodeState final : public capture::SiteHandler, public std::enable_shared_from_this<CodeState> {
 public:
  /// `keep`: Contents for a state that hangs on the code object itself, which it must not keep alive.
  /// `owner`: of the function within whose reach the code is, if it is so for that alone.
  CodeState(PyCodeObject* code, const JitSettings& settings,
            capture::CodeView::Keep keep = capture::CodeView::Keep::Code, std::weak_ptr<CodeState> owner = {});
  ~CodeState() override;

  PyCodeObject* code() const { return code_; }
  const JitSettings& settings() const { return settings_; }
  const std::shared_ptr<const capture::CodeView>& view();

  /// It is captured as part of another: a backend of its own is ignored, which the log says once.
  void note_inlined();

  /// May entries of this state serve the function: do its names mean what they meant at capture?
  bool fits(PyFunctionObject* function) const;
  /// Runs a whole entry that fits.
  Outcome call(const LiveSlots& live, PyObject*& result);
  /// Is the call left to the interpreter without a look at the entries? So are many, where the last one looked at was
  /// and all lose.
  bool passes_by() { return left_ > 0 && left_-- > 0; }
  /// There was nothing that a call could run: others pass by.
  void note_idle();

  /// Around a call that runs bytecode, spliced or not, for comparison. Compiled: the spliced code, or callees that are
  /// compiled.
  Side begin_call(capture::py::Slots slots);
  /// The same for a call that call() has declined; false: it is not compared.
  bool begin_declined();
  void judge(Entry& entry);
  /// May that be so?
  bool has_declined() const { return static_cast<bool>(declined_); }
  void end_call();
  /// What its calls take, for reports; null: they are not measured.
  Gain* gain() const { return gain_.get(); }
  void measure();
  /// The first and the last instruction of the innermost loop around an instruction; the last one is 0: there is none.
  std::pair<uint32_t, uint32_t> loop_around(uint32_t instr);
  /// Nanoseconds spent on compiling, callees included.
  int64_t compile_time() const { return spent_ns_; }
  /// Should capture_whole be tried after a miss?
  bool wants_capture() const { return !broke_ && !whole_.exhausted && !compiling_; }
  /// Captures from the function's start, and runs what came out. `slots`: bound arguments. Declined: run something
  /// else. With fullgraph, Error and GraphBreakError where capture breaks.
  Outcome capture_whole(PyFunctionObject* function, capture::py::Slots slots, PyObject*& result);

  /// The entry for a whole call that fits, or null.
  std::shared_ptr<Entry> entry_of_call(const LiveSlots& live) const;
  /// As capture_whole, and runs nothing. False: with fullgraph, GraphBreakError where capture breaks.
  bool precompile_whole(PyFunctionObject* function, capture::py::Slots slots);
  /// Compiles the region at the function's start, where the code is spliced.
  void precompile_start(PyFunctionObject* function, capture::py::Slots slots);

  /// The code to run in place of the user's, or null: not broken, cannot be spliced, or all of its sites are dormant.
  /// Counts a call; sites that gave nothing are tried again after some.
  PyCodeObject* replacement();
  bool ask(uint32_t site, const capture::FrameView& frame, capture::FrameUpdate& update) override;

  /// An error of a region, kept for the end of the call: internal ones under config.strict, those of the stance.
  capture::Ref<> take_pending_error() { return std::move(pending_error_); }

  /// For a ReachScope around the code's frames; 0: they are within another's reach, or their callees stay as they are.
  uint64_t reach() const { return reach_; }
  /// Are there callees whose frames should come by the hook?
  bool has_callees() const;
  /// Was nothing found to compile in many calls?
  bool is_asleep() const;

  void clear();
  /// What owned it lets go of it: it stays alive until nothing runs.
  void retire() {
    if (running_ > 0) retired_self_ = shared_from_this();
  }
  int traverse(visitproc visit, void* arg) const;

  /// For reports, oldest place first: the function's start (-1), then sites in order.
  std::vector<std::pair<std::shared_ptr<Entry>, int>> entries() const;
  const std::vector<capture::Break>& breaks() const { return breaks_; }
  /// A dict for each entry that did not fit and had another compiled, oldest first.
  const std::vector<capture::Ref<>>& recompiles() const { return recompiles_; }
  const capture::SplicedCode* spliced() const { return spliced_; }
  /// Of callees, for reports.
  std::vector<CodeState*> callees() const;
  std::size_t dormant_count() const { return dormant_; }
  /// Why the interpreter runs the calls that would run bytecode in any case; "": it does not.
  const char* why_given_up() const;

  /// The spliced code is owned by who runs it (it owns this state through its sites).
  std::unique_ptr<capture::SplicedCode> splice();
  void forget_spliced() { spliced_ = nullptr; }
  bool needs_splicing() const { return broke_ && !spliced_ && !unsplicable_; }

 private:
  class Busy;
  struct Start;
  struct Captured {
    std::shared_ptr<Entry> entry;
    std::vector<capture::Break> breaks;
    bool interrupted = false;  // by a signal: as if there had been no attempt
    bool unprofitable = false;
  };
  /// A run that is being timed.
  struct Timed {
    std::shared_ptr<Entry> entry;  // null: of the call as a whole
    Comparison* comparison;
    Side side;
    int64_t start;
    int64_t turns = bytecode_turns, compile_ns = stats.compile_ns;
    double saved = least_saved;
    int left = 0;
    int64_t own_turns = 0;

    bool is_disturbed() const { return turns != bytecode_turns || compile_ns != stats.compile_ns; }
  };
  /// From one visit of a site to where the region's rounds end: the next visit of this site, mostly.
  struct Round : Timed {
    capture::py::Slots locals;  // of the frame
    uint32_t site;
    int visits = 0;  // of other sites
  };
  bool estimates() const;
  bool compares() const;
  bool is_over_budget();
  bool compiles_too_fast();
  int64_t run_time();
  void note_element_loops();
  bool compiles_loops() const;
  bool is_function_start(uint32_t instr);
  bool is_hot(const CompileSite& place, uint32_t head, const capture::FrameView& frame);
  bool waits_for_loop(const CompileSite& place, uint32_t site, const capture::FrameView& frame);
  /// The state of the function on whose behalf this code is compiled: the owner's, or this one.
  std::shared_ptr<CodeState> of_function();
  void begin_timed(std::shared_ptr<Entry> entry, Comparison& comparison, Side side);
  void end_entry_run(const std::shared_ptr<Entry>& entry, Outcome outcome, int64_t start);
  void begin_round(const std::shared_ptr<Entry>& entry, uint32_t site, const capture::FrameView& frame, Outcome outcome,
                   int64_t start);
  bool end_round(uint32_t site, const capture::FrameView& frame);
  /// Captures and compiles at one place. Null entry: nothing came of it, the breaks say why.
  /// At the function's start; Miss where an entry is there now that has not run.
  Outcome compile_whole(const Start& start);
  Captured compile_at(CompileSite& place, uint32_t instr, const capture::FrameView& frame, bool whole);
  Captured compile_now(CompileSite& place, uint32_t instr, const capture::FrameView& frame, bool whole);
  /// A branch went another way than the entry has it: may others be tried?
  bool takes_other_ways(CompileSite& place, std::size_t entry) const;
  /// Stress: lets a guard of the first entry fail that has not failed here before.
  bool force_failure(CompileSite& place);
  bool may_compile(CompileSite& place, const LiveSlots& live);
  bool is_at_limit(CompileSite& place, bool counts);
  void note_lost(CompileSite& place);
  void retire(CompileSite& place, std::size_t entry);
  capture::Break break_at(capture::BreakId id, std::string detail, uint32_t instr);
  void note_breaks(const std::vector<capture::Break>& breaks);
  void note_callees(const std::vector<capture::Ref<PyCodeObject>>& reached);
  /// `live`: what it was captured from.
  void insert(CompileSite& place, std::shared_ptr<Entry> entry, const LiveSlots& live);
  void drop_invalid();
  void pass_by();
  void announce(const Entry& entry, int64_t number);
  bool ask_place(CompileSite& place, uint32_t site, const capture::FrameView& frame, capture::FrameUpdate& update);
  bool ask_verified(CompileSite& place, uint32_t site, const capture::FrameView& frame);
  std::shared_ptr<Entry> entry_for(CompileSite& place, uint32_t site, const capture::FrameView& frame);
  void set_dormant(CompileSite& place, uint32_t site, bool dormant);
  void wake_sites();
  void keep_error();
  bool starts_broken() const;
  bool has_nothing_awake() const;
  std::string name() const;

  PyCodeObject* code_;
  capture::CodeView::Keep keep_;
  capture::Ref<PyCodeObject> kept_;
  JitSettings settings_;
  std::shared_ptr<const capture::CodeView> view_;
  CompileSite whole_;
  std::vector<std::unique_ptr<CompileSite>> sites_;  // by Instr index
  capture::SplicedCode* spliced_ = nullptr;
  std::vector<capture::Break> breaks_;  // each once
  std::set<std::pair<uint32_t, uint16_t>> known_breaks_;
  std::set<uint32_t> element_loops_;              // see CaptureRequest
  std::set<uint32_t> bytecode_loops_;             // heads of loops that cannot be compiled as loops
  std::map<uint32_t, std::string> loop_reasons_;  // why not
  struct Pending {
    capture::Ref<> prediction;
    uint32_t exit;
  };
  std::map<capture::py::Slots, Pending> pending_;  // stress verify: by frame
  std::vector<capture::Ref<>> recompiles_;         // at most kMostRecompiles
  std::vector<std::shared_ptr<Entry>> retired_;    // removed while something ran
  std::shared_ptr<CodeState> retired_self_;
  capture::Ref<> pending_error_;
  static constexpr std::size_t kMostRecompiles = 64;
  template <class F>
  void for_each_place(F&& f);
  int running_ = 0;
  uint64_t disabled_epoch_ = disabled_epoch;
  int64_t spliced_calls_ = 0;
  int left_ = 0;                     // calls that pass by
  int pass_by_;                      // how many do, the next time
  std::map<int, Comparison> calls_;  // by the size of the arguments
  int64_t call_count_ = 0;
  int depth_ = 0;          // of calls that have begun
  int followed_from_ = 0;  // the depth from which on recursive calls are few enough to be followed
  int64_t calls_compared_from_ = 0;
  std::optional<Timed> timed_;
  std::optional<Round> round_;
  int64_t own_turns_ = 0;            // of the bytecode, in rounds
  std::shared_ptr<Entry> declined_;  // by its comparison, in call()
  int64_t fruitless_steps_ =
      0;  // of captures, with callees, since one gave an entry: the next ones are given up sooner
  int64_t spent_ns_ = 0, run_ns_ = 0, run_start_ = 0;  // compiling, with callees; running, once that was long
  int64_t compiled_ns_ = 0;                            // spent, but for what the first runs pay
  int compiled_entries_ = 0;
  std::unique_ptr<Gain> gain_;
  bool ran_region_ = false;  // in a call that has not ended
  std::size_t dormant_ = 0;
  bool compiling_ = false;
  bool compiled_ = false;  // something, once
  bool broke_ = false;     // a capture from the start did not reach a return
  bool unsplicable_ = false;
  uint64_t reach_ = 0;
  std::weak_ptr<CodeState> owner_;
  std::unique_ptr<CalleeRegistry> callees_;  // of the owner
  bool said_inlined_ = false, said_budget_ = false;
  bool elements_lost_ =
      false;  // a region that works on elements was measured to be slower: no other one is made in a loop
};

inline EndOfCall::~EndOfCall() { state->end_call(); }

/// The Python function behind a jitted one, borrowed, or null: inlined as if it were not marked.
PyObject* unwrap_function(PyObject* callable);

}  // namespace framejit::ext
